"""The client for Godot: its scripts parse, keep the style, and compute what the vectors say."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from gdtoolkit.formatter import format_code
from gdtoolkit.linter import DEFAULT_CONFIG, lint_code
from gdtoolkit.parser import parser
from ruamel.yaml import YAML

from policies.loader import load_policies
from tests.clients.gdscript import loaded
from tests.clients.languages import ROOT
from tests.clients.test_vectors import load

GODOT = ROOT / "clients" / "godot"
ADDON = GODOT / "addons" / "scoregate"
SCRIPTS = sorted(GODOT.rglob("*.gd"))
SIGNING = loaded(ADDON / "signing.gd")
CLAIMS = loaded(ADDON / "claims.gd", ScoregateSigning=SIGNING)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses_and_keeps_the_style(script: Path):
    """By gdtoolkit, whose grammar is Godot 4's."""
    code = script.read_text()
    config = DEFAULT_CONFIG | dict(YAML(typ="safe").load((GODOT / ".gdlintrc").read_text()))
    assert [] == [str(problem) for problem in lint_code(code, config)]
    assert code == format_code(code, max_line_length=100)


def test_the_gdscript_of_the_pages_parses():
    """Each block, as a script or as the body of a function."""
    for page in (GODOT / "README.md", ROOT / "docs" / "how-to" / "clients" / "godot.md"):
        for block in re.findall(r"```gdscript\n(.*?)```", page.read_text(), re.DOTALL):
            lines = block if "func _" in block or "func b" in block else _in_a_function(block)
            parser.parse(lines)


def _in_a_function(block: str) -> str:
    return "func shown():\n" + "".join(f"\t{line}\n" for line in block.splitlines())


def test_godot_signs_each_vector_to_the_byte():
    """Those of runs; servers do not run in Godot."""
    for vector in load("signatures.json"):
        if vector["algorithm"] != "hmac-sha256":
            continue
        body = b64decode(vector["body"])
        signed = SIGNING.sign(vector, body, b64decode(vector["key"]))
        for name in ("Content-Type", "Content-Digest", "Signature-Input", "Signature"):
            assert vector[name.lower().replace("-", "_")] == signed[name], vector["name"]
        params = signed["Signature-Input"].removeprefix("sg=")
        assert vector["base"] == SIGNING.signature_base(vector, vector["content_digest"], params), vector[
            "name"
        ]


def recorded(vector: dict[str, Any]) -> tuple[str, str]:
    """The recording in hexadecimal, and the error of the recorder."""
    recorder = loaded(ADDON / "recorder.gd")
    recorder._init(vector["checkpoint_ticks"])
    hashes = [int(each, 16) for each in vector["checkpoints"]]
    for word in chain.from_iterable(repeat(word, length) for length, word in vector["inputs"]):
        recorder.tick(word)
        if recorder.is_due() and hashes:
            recorder.checkpoint(hashes.pop(0))
    for each in hashes:
        recorder.checkpoint(each)
    return recorder.finish().hex(), recorder.tick.__globals__["error"]


def test_godot_records_each_vector_to_the_byte():
    """Tick by tick. A hash is an int of 64 bits there, so no vector of 65 bits can be made."""
    for vector in load("recordings.json"):
        assert (vector["recording"], "") == recorded(vector), vector["name"]
    for vector in load("unencodable.json"):
        made, error = recorded(vector)
        assert vector["name"] == "a hash of 65 bits" or (made == "" and error), vector["name"]


def test_godot_writes_each_claim_to_the_byte():
    """Also what JSON escapes, and commits."""
    for vector in load("claims.json"):
        recording = bytearray(b64decode(vector["recording"]))
        stats = dict(vector["stats"])
        body = CLAIMS.body(vector["score"], vector["ticks"], stats, recording, vector["committed"])
        assert b64decode(vector["body"]) == body, vector["name"]


def test_a_seed_has_the_same_bits_in_godot():
    """Its ints have a sign, and wrap."""
    for seed in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        assert seed == CLAIMS.seed_of(str(seed)) % 2**64


PROBLEM = {"content-type": "application/problem+json"}
PAGE = {"content-type": "text/html"}


def problem(name: str, **members: Any) -> bytes:
    return json.dumps({"type": f"https://scoregate.dev/problems/{name}", "title": name, **members}).encode()


@pytest.mark.parametrize(
    ("status", "fields", "body", "told"),
    [
        (202, {}, b'{"submission":"s"}', (True, "", True, False)),
        (200, PAGE, b"<html>sign in</html>", (False, "", False, False)),
        (200, {}, b'{"entries":[]}', (False, "", False, False)),
        (302, PAGE, b"", (False, "", False, False)),
        (403, PAGE, b"<html>no</html>", (False, "", False, False)),
        (403, PROBLEM, problem("run-expired", detail="open a new run"), (False, "run-expired", True, False)),
        (403, PROBLEM, b'{"type":"https://elsewhere.example/no"}', (False, "", False, False)),
        (403, PROBLEM, b'{"type":7}', (False, "", False, False)),
        (403, PROBLEM, b"[" * 100_000, (False, "", False, False)),
        (409, PROBLEM, problem("run-already-submitted"), (False, "run-already-submitted", True, False)),
        (401, PROBLEM, problem("signature-invalid"), (False, "signature-invalid", False, False)),
        (421, PROBLEM, problem("misdirected"), (False, "misdirected", False, False)),
        (429, PROBLEM, problem("quota-exceeded"), (False, "quota-exceeded", False, True)),
        (503, PAGE, b"busy", (False, "", False, True)),
        (0, {}, b"", (False, "", False, True)),
    ],
)
def test_godot_takes_only_the_gateways_last_word_for_final(
    status: int, fields: dict[str, str], body: bytes, told: tuple[bool, str, bool, bool]
):
    """Ok, reason, final, busy: what decides whether a run is deleted or sent again."""
    answer = loaded(ADDON / "answer.gd")
    answer.read(status, fields, body, "submission")
    now = answer.is_final.__globals__
    assert told == (now["is_ok"], now["reason"], answer.is_final(), answer.is_busy())


def test_the_board_of_the_readme_comes_to_what_the_example_records(tmp_path: Path):
    """Its policy loads; its rules and `five_minutes.gd` agree on score and checkpoints."""
    readme = (GODOT / "README.md").read_text()
    for name, file in (("simulator", "held.py"), ("policy", "held.yaml")):
        shown = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", readme, re.DOTALL)
        assert shown
        (tmp_path / file).write_text(shown[1])
    (board,) = load_policies(tmp_path).boards.values()
    every = board.policy.replay.checkpoint_ticks
    rules: dict[str, Any] = {}
    exec((tmp_path / "held.py").read_text(), rules)
    recorder = loaded(ADDON / "recorder.gd")
    recorder._init(every)
    words = [int(at % 7 < 4) for at in range(180)]
    hashes, score = [], 0
    for word in words:
        recorder.tick(word)
        score += word
        if recorder.is_due():
            recorder.checkpoint(score)
            hashes.append(f"{score:016x}")
    told = rules["simulate"](7, words, 180, every, recorder.finish())
    assert (180, score, hashes) == (told["ticks"], told["score"], told["checkpoints"])
