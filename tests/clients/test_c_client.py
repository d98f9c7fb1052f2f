"""The client in C: what compiles it, and the program of its README. The scenarios of all clients are elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.faulty import Canned
from tests.clients.languages import C_CLIENT, DRIVERS, ROOT
from tests.clients.stage import Stage
from tests.support.gate import missing

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
ZIG = (sys.executable, "-m", "ziglang")
COMPILERS = {
    "gcc": ("gcc", "-std=c99", "-Wconversion", "-Wshadow"),
    "gcc-optimised": ("gcc", "-std=c17", "-O2"),
    "g++": ("g++", "-xc++", "-std=c++11"),
    "zig": (*ZIG, "cc", "-std=c99"),
    "zig-c++": (*ZIG, "c++", "-xc++", "-std=c++11"),
}
HEADERS_OF_UNREAL = (
    *("Containers/Ticker.h", "CoreMinimal.h", "HttpModule.h", "Interfaces/IHttpRequest.h"),
    *("Interfaces/IHttpResponse.h", "Misc/DateTime.h", "Misc/Guid.h"),
)


def needs(*programs: str) -> None:
    if lacking := [program for program in programs if not shutil.which(program)]:
        missing(f"the C client needs {', '.join(lacking)}")


def checked(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", COMPILERS)
def test_the_header_has_no_warning_in_any_compiler(name: str, tmp_path: Path):
    compiler = COMPILERS[name]
    needs(compiler[0])
    checked(*compiler, *STRICT, "-c", "-o", tmp_path / "it.o", C_CLIENT / "examples" / "scoregate.c")


def test_two_files_may_include_the_header_and_only_one_has_its_code(tmp_path: Path):
    """A second implementation in one program, or in one file, is the mistake that is made."""
    needs("gcc")
    (tmp_path / "twice.c").write_text(
        '#define SG_IMPLEMENTATION\n#include "scoregate.h"\n#include "scoregate.h"\n'
    )
    (tmp_path / "user.c").write_text(
        '#include "scoregate.h"\nint main(void) { return sg_buffer_of(0, 0).size; }'
    )
    checked("gcc", "-I", C_CLIENT, *STRICT, "-o", "it", "twice.c", "user.c", cwd=tmp_path)
    checked("./it", cwd=tmp_path)


def test_what_is_made_for_unreal_compiles_beside_stand_ins_for_its_headers(tmp_path: Path):
    """The two files that a project copies, and the class of the page."""
    needs("g++")
    stub = DRIVERS / "c" / "unreal_stub" / "stub.h"
    for name in HEADERS_OF_UNREAL:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'#include "{stub}"\n')
    page = (ROOT / "docs" / "how-to" / "clients" / "cpp-and-unreal.md").read_text()
    shown = re.search(r"<!-- example: unreal -->\n *```cpp\n(.*?)```", page, re.DOTALL)
    assert shown
    (tmp_path / "page.cpp").write_text(f'#include "ScoregateCalls.h"\n{shown[1]}')
    folder = C_CLIENT / "examples" / "unreal"
    include = ("-I", tmp_path, "-I", C_CLIENT, "-I", folder, "-std=c++17", "-Wall", "-Wextra", "-Werror")
    for source in (folder / "ScoregateCalls.cpp", tmp_path / "page.cpp"):
        checked("g++", *include, "-fsyntax-only", source)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The command of the README's program, which its own commands have compiled."""
    needs("gcc", "curl-config")
    readme = (C_CLIENT / "README.md").read_text()
    shown = re.search(
        r"<!-- example: five minutes -->\n```sh\n(.*?)\n(\./five_minutes).*?```", readme, re.DOTALL
    )
    assert shown
    checked("sh", "-c", shown[1].replace("clients/c", str(C_CLIENT)), cwd=tmp_path)
    return shown[2]


def test_the_program_of_the_readme_says_that_a_run_waits(tmp_path: Path, stage: Stage, program: str):
    """Behind a portal that answers for the gateway: what is in its way is told, and the status is no success."""
    stage.proxy.on("/scores", Canned(403, b"<html>", {"Content-Type": "text/html"}), times=9)
    done = subprocess.run([program, stage.url], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (1, True) == (done.returncode, "submitting: " in done.stderr), done.stdout + done.stderr
    assert done.stdout.endswith("The run waits in scoregate-queue, and is sent by the next flush.\n")
    assert 1 == len(list((tmp_path / "scoregate-queue").glob("*.json")))


def test_the_program_of_the_readme_is_on_the_board(tmp_path: Path, stage: Stage, program: str):
    """As the page says: compiled by its command, against the bundled game, with a real verdict."""
    said = checked(program, stage.url, cwd=tmp_path)
    ranked = re.search(r"\d+ points are promoted, rank 1\n  1\. Ada +\d+\n", said)
    # for a moment, what counts is not ranked yet, as the page says
    assert ranked or re.search(r"\d+ points are promoted, rank 0\n", said), said
    assert [] == list((tmp_path / "scoregate-queue").glob("*.json"))
