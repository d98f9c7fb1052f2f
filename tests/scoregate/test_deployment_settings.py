"""Commands that are only given the data directory of a deployment that runs on policies of its own."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.deployment.policies_folder import NOTE, note_policies_folder, noted_policies_folder
from gateway.deployment.run_files import noted
from gateway.runtime.settings import Settings, bundled_policies
from policies.errors import SettingsError
from scoregate.cli import app
from scoregate.deployment_settings import as_last_run, with_policies_folder, with_same_policies
from tests.support import preloaded
from tests.support.families import write_family

KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
OPENS = ("board", "open", "arcade-course.oops", "--title", "Oops")
REGISTERS = ("key", "add", "eu-1", "--public-key", KEY, "--board")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policies of a deployment whose parts have run; no variable names them."""
    folder = write_family(tmp_path / "policies").parent
    monkeypatch.delenv("SCOREGATE_POLICIES_DIR", raising=False)
    data = tmp_path / "data"
    assert 0 == run(data, "ledger", "migrate").exit_code
    note_policies_folder(Settings(data_dir=data, policies_dir=folder), "edge")
    return folder


@pytest.fixture
def data(folder: Path) -> Path:
    return folder.parent / "data"


def run(data: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--data-dir", str(data)])


def test_commands_go_by_the_policies_that_the_deployment_runs_on(data: Path, folder: Path):
    """They read them and write by them, and an unknown name is refused with the folder that was read."""
    assert 0 == run(data, "board", "open", "track.monza", "--title", "Monza").exit_code
    listed = run(data, "board", "list", "track", "--json")
    assert ["track.monza"] == [json.loads(line)["board"] for line in listed.stdout.splitlines()]
    assert ["track"] == [
        json.loads(line)["family"] for line in run(data, "family", "list", "--json").stdout.splitlines()
    ]
    assert 0 == run(data, *REGISTERS, "track.monza").exit_code

    refused = run(data, *OPENS)
    assert 1 == refused.exit_code
    assert f"no family arcade-course; there is track in {folder}" in " ".join(refused.stdout.split())
    assert f"in {folder}" in str(run(data, *REGISTERS, "arcade").exception)
    assert f"there are track.* in {folder}" in str(run(data, "board", "rebuild", "arcade").exception)


def test_a_command_that_writes_refuses_other_policies(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """It names both folders and writes nothing; one that reads goes by the variable, and the same folder is no other."""
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(bundled_policies()))
    for words in (OPENS, (*REGISTERS, "arcade"), ("board", "rebuild", "arcade")):
        refused = run(data, *words).exception
        assert isinstance(refused, SettingsError)
        assert str(bundled_policies()) in str(refused)
        assert str(folder) in str(refused)
    assert "arcade-course" in run(data, "family", "list").stdout
    assert 0 == run(data, *REGISTERS[:-1]).exit_code  # a key for every board goes by no policy

    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(folder / ".." / folder.name))
    assert 0 == run(data, "board", "open", "track.monza", "--title", "Monza").exit_code


WRITES = [
    ("batch", "apply", "b-1"),
    ("batch", "reverse", "b-1"),
    ("board", "archive", "arcade"),
    ("board", "change", "arcade-course.oops", "--title", "Oops"),
    ("board", "check", "--repair"),
    ("board", "close", "arcade-course.oops"),
    ("board", "delete", "arcade-course.oops", "--reason", "a mistake"),
    ("board", "refold", "arcade"),
    ("board", "reopen", "arcade-course.oops"),
    ("build", "allow", "arcade", "arcade-1", "--reason", "it is fine"),
    ("build", "block", "arcade", "arcade-1", "--reason", "it is not"),
    ("build", "provisional", "arcade", "arcade-1", "--reason", "who knows"),
    ("derived", "rebuild", "statistics"),
    ("key", "revoke", "eu-1", "--compromised-since", "2026-11-20T14:00:00Z"),
    ("moderator", "add", "mara", "--scope", "arcade"),
    ("player", "erase", "p_ada", "--yes"),
    ("player", "merge", "p_ada", "p_bob"),
    ("player", "unmerge", "m1"),
    ("replay", "reverify", "--board", "arcade", "--build", "arcade-1"),
    ("webhook", "add", "https://hooks.example/", "--board", "arcade"),
]
"""What decides, folds or checks by policies, of boards that the other policies describe."""


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_nothing_is_written_by_other_policies(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    """What a command would decide or fold by them is not what the parts would."""
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(bundled_policies()))
    refused = run(data, *words).exception
    assert isinstance(refused, SettingsError)
    assert f"SCOREGATE_POLICIES_DIR is {bundled_policies()}" in str(refused)
    assert str(folder) in str(refused)


def test_policies_that_are_elsewhere_are_asked_for(data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A note of a container's folder is told, and the variable stands in for it."""
    here = folder.parent / "here"
    shutil.move(folder, here)
    assert f"runs on the policies of {folder}, which is not a folder here" in str(
        run(data, "board", "open", "track.monza", "--title", "Monza").exception
    )
    assert f"{folder}: expected a directory" in str(run(data, "family", "list").exception)
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(here))
    assert 0 == run(data, "board", "open", "track.monza", "--title", "Monza").exit_code


def test_who_starts_a_deployment_again_goes_on_with_its_policies(data: Path, folder: Path, tmp_path: Path):
    """Unless others are named; if they are gone, they are asked for, and the package's do not stand in for them."""
    assert folder == as_last_run(Settings(data_dir=data)).policies_dir
    named = Settings(data_dir=data, policies_dir=tmp_path / "new")
    assert named is as_last_run(named)
    assert bundled_policies() == as_last_run(Settings(data_dir=tmp_path / "fresh")).policies_dir
    shutil.move(folder, tmp_path / "here")
    with pytest.raises(
        SettingsError, match=f"ran on the policies of {folder}, which is not a folder here; set S"
    ):
        as_last_run(Settings(data_dir=data))
    assert f"ran on the policies of {folder}" in str(run(data, "up").exception)


def test_a_shared_database_without_a_note_needs_the_variable(tmp_path: Path):
    """A machine where no part has run does not know the policies, and does not take the bundled ones for them."""
    url = "postgresql://app@db.example/scoregate"
    apart = Settings(data_dir=tmp_path, ledger_url=url)
    with pytest.raises(SettingsError, match="SCOREGATE_POLICIES_DIR: set it to the policies"):
        with_same_policies(apart)
    told = Settings(data_dir=tmp_path, ledger_url=url, policies_dir=tmp_path)
    assert [tmp_path] * 2 == [each(told).policies_dir for each in (with_same_policies, with_policies_folder)]
    assert bundled_policies() == with_policies_folder(apart).policies_dir


def test_the_note_outlives_an_upgrade_of_the_package(tmp_path: Path):
    """The bundled folder is noted by a word; a relative folder by its absolute path; no directory, no note."""
    note_policies_folder(Settings(data_dir=tmp_path), "edge")
    assert "bundled\n" == (tmp_path / NOTE).read_text()
    assert bundled_policies() == noted_policies_folder(tmp_path)
    note_policies_folder(Settings(data_dir=tmp_path, policies_dir=Path("mine")), "edge")
    assert Path.cwd() / "mine" == noted_policies_folder(tmp_path)
    assert [NOTE] == [path.name for path in tmp_path.iterdir()]
    note_policies_folder(Settings(data_dir=tmp_path / "none"), "edge")
    assert noted_policies_folder(tmp_path / "none") is None


def test_a_request_is_explained_at_the_address_of_the_edge_that_runs(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever gave `up` another port need not say it again; an address in a variable goes first."""
    monkeypatch.delenv("SCOREGATE_BIND", raising=False)
    (data / "master.key").write_text(base64.b64encode(bytes(32)).decode())
    (data / "master.key").chmod(0o600)
    request = data / "request.txt"
    request.write_bytes(b"POST /v1/boards/arcade/scores HTTP/1.1\r\nHost: localhost:8392\r\n\r\n")

    environment = {**os.environ, "SCOREGATE_DATA_DIR": str(data)}
    with noted(data, "edge", bind="127.0.0.1:8392"):  # a lock of this process, which others see
        told = preloaded.finished(["explain", str(request)], environment, timeout_s=120)
        assert "ok     the target: localhost:8392" in told.stdout
        elsewhere = environment | {"SCOREGATE_BIND": "127.0.0.1:8393"}
        told = preloaded.finished(["explain", str(request)], elsewhere, timeout_s=120)
        assert "'localhost:8392' is not in SCOREGATE_HOSTS" in told.stdout


@pytest.mark.parametrize(
    "words",
    [REGISTERS, ("moderator", "add", "mara", "--scope"), ("token", "moderator", "mara", "--board")],
    ids=lambda words: words[0],
)
def test_a_board_that_its_family_never_allows_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    """One that may be opened later is; nothing is made for the other, of which nobody would ever have a use."""
    folder = write_family(tmp_path / "policies", names="[a-z]{1,5}").parent
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(folder))
    data = tmp_path / "data"
    for name in ("track.monzas", "track.Spa", "tracks.spa", "trac"):
        refused = run(data, *words, name)
        assert isinstance(refused.exception, SettingsError)
        assert f"there is no board or family {name!r} in {folder}" in str(refused.exception)
        assert not data.exists()
    for name in ("track.monza", "track"):
        assert 0 == run(tmp_path / name, *words, name).exit_code
