"""The keys of trusted servers from the command line: registered, listed, and taken back for good."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner, Result

from gateway.ledger.transaction import Operation
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import bundled_policies
from gateway.settlement.batches import apply
from policies.loader import load_boards
from policies.vocabulary import State
from scoregate import operator_batches, quarantine
from scoregate.cli import app, main
from tests.support.ledger import new_submission, opened, rows
from tests.support.ports import unserved_port


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory, and an index that is down."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    with unserved_port() as port:
        monkeypatch.setenv("SCOREGATE_REDIS_URL", f"redis://127.0.0.1:{port}/0")
        yield tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["key", *words])


def add(key_id: str, *more: str) -> Result:
    public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    return run("add", key_id, "--public-key", base64.b64encode(public).decode(), *more)


def refusal(result: Result) -> str:
    """What a command that failed was told; none may fail for another reason than that."""
    assert result.exit_code != 0
    assert type(result.exception).__name__ in {"SettingsError", "StateConflict", "SystemExit"}, (
        result.exception
    )
    return str(result.exception)


def test_T03_keys_are_listed_with_their_boards_and_whether_they_are_valid(data: Path):
    """Two are added and one is revoked; its id stays taken, and revoking it again changes nothing."""
    assert 0 == add("eu-1", "--board", "arcade").exit_code
    assert 0 == add("eu-2").exit_code
    for _ in range(2):
        assert "revoked eu-1" in run("revoke", "eu-1").output
    head, *listed = [line.split() for line in run("list").output.splitlines()]
    assert ["KEY", "BOARDS", "STATE", "SINCE", "REVOKED", "AT"] == head
    assert [["eu-1", "arcade", "revoked"], ["eu-2", "*", "valid"]] == [line[:3] for line in listed]
    objects = [json.loads(line) for line in run("list", "--json").output.splitlines()]
    assert [("eu-1", ["arcade"], False), ("eu-2", ["*"], True)] == [
        (each["key"], each["boards"], each["revoked_at"] is None) for each in objects
    ]
    assert "was revoked" in refusal(add("eu-1"))
    assert "is not registered" in refusal(run("revoke", "eu-3"))
    assert "with a zone" in refusal(run("revoke", "eu-2", "--compromised-since", "2026-11-20"))
    assert "valid" in run("list").output


def test_T03_a_key_is_registered_once_with_the_boards_that_it_has(data: Path):
    """Again with the same changes nothing; nobody is told that other boards, or another key, are registered."""
    public = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    same = ("add", "eu-1", "--public-key", public)
    for _ in range(2):
        assert 0 == run(*same, "--board", "arcade").exit_code
    for refused in (run(*same), add("eu-1", "--board", "arcade")):
        assert "registered already, with another key or other boards" in refusal(refused)
    [listed] = [json.loads(line) for line in run("list", "--json").output.splitlines()]
    assert ("eu-1", ["arcade"]) == (listed["key"], listed["boards"])


@pytest.mark.parametrize("key_id", ["", "eu 1", 'eu"1', "eu\\1", "eü-1", "e" * 1025])
def test_T03_no_key_has_an_id_that_no_request_can_name(data: Path, key_id: str):
    """Its server would be refused for ever, and nobody would know why; nothing is made for it."""
    assert "expected 1 to 1024 characters of ASCII" in refusal(add(key_id))
    assert [] == [*data.iterdir()]
    assert 0 == add("e" * 1024).exit_code


def test_T02_a_quarantine_needs_no_index_and_says_what_it_could_not_reach(data: Path):
    """Redis is down and one board has no policy: the rest is quarantined, and the status tells that something is left."""
    add("eu-1")
    [board, *_] = load_boards(bundled_policies())
    now_ms = wall_clock()

    async def write() -> None:
        async with opened(data / "ledger.sqlite3") as ledger:
            for name, where, at_ms in (
                ("old", board, now_ms - 60_000),
                ("new", board, now_ms),
                ("far", "gone", now_ms),
            ):
                await ledger.append(
                    new_submission(
                        name, board=where, at_ms=at_ms, credential="server:eu-1", state=State.PROMOTED
                    )
                )

    asyncio.run(write())
    since = "2020-01-01T00:00:00Z"
    preview = run("revoke", "eu-1", "--compromised-since", since)
    assert (1, ["far", "new", "old"]) == (preview.exit_code, quarantined(preview, "to-be-quarantined"))
    assert 3 == len(rows(data / "ledger.sqlite3", "SELECT 1 FROM submissions WHERE state = 'promoted'"))
    assert "left out, no-policy\t1" in preview.stderr
    first = run("revoke", "eu-1", "--compromised-since", since, "--yes")
    assert (2, ["new", "old"], ["far"]) == (
        first.exit_code,
        quarantined(first, "quarantined"),
        quarantined(first, "left"),
    )
    again = run("revoke", "eu-1", "--compromised-since", since, "--yes", "--json")
    assert (2, {"submission": "far", "what": "left"}) == (again.exit_code, json.loads(again.stdout))
    states = "SELECT submission_id, state FROM submissions ORDER BY 1"
    assert [("far", "promoted"), ("new", "revoked"), ("old", "revoked")] == rows(
        data / "ledger.sqlite3", states
    )
    events = rows(data / "ledger.sqlite3", "SELECT actor, reason FROM events WHERE to_state = 'revoked'")
    assert [("operator", "key-compromised")] * 2 == events

    [batch] = re.findall(r"scoregate batch reverse (\S+)", first.stderr)
    assert batch in batches("list").output
    assert 1 == batches("reverse", batch).exit_code, "one was left"
    assert {"promoted"} == {state for _, state in rows(data / "ledger.sqlite3", states)}
    [previewed] = re.findall(r"scoregate batch apply (\S+)", preview.stderr)
    for _ in range(2):
        applied = batches("apply", previewed)
        assert (1, True) == (applied.exit_code, "overtaken\t2" in applied.output), (
            "it was previewed before that"
        )
    programs = batches("apply", previewed, "--json")
    told = json.loads(programs.stdout)
    assert (1, "applied", {"overtaken": 2}) == (
        programs.exit_code,
        told["state"],
        {name: count for name, count in told["outcomes"].items() if name == "overtaken"},
    )
    assert "there is no batch" in refusal(batches("apply", "nope"))
    assert "the batch is reversed" in refusal(batches("apply", batch))


def test_T02_a_quarantine_reaches_everything_that_the_key_has_written(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also at the ends of the spans in which the ledger is read; of a key that wrote nothing there is no batch."""
    for key in ("eu-1", "eu-2"):
        add(key)
    [board, *_] = load_boards(bundled_policies())
    names = [f"run-{number}" for number in range(7)]

    async def write() -> None:
        async with opened(data / "ledger.sqlite3") as ledger:
            for name in names:
                known = {"board": board, "credential": "server:eu-1", "state": State.PROMOTED}
                await ledger.append(new_submission(name, at_ms=wall_clock(), **known))

    asyncio.run(write())
    monkeypatch.setattr(quarantine, "SPAN", 3)
    monkeypatch.setattr(quarantine, "SLICE", 1)
    since = ("--compromised-since", "2020-01-01T00:00:00Z")
    assert 0 == run("revoke", "eu-2", *since).exit_code
    assert "previewed" not in batches("list").output
    assert names == quarantined(run("revoke", "eu-1", *since), "to-be-quarantined")


def test_a_batch_that_somebody_turned_meanwhile_is_told_in_a_line(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Status 2 and what has changed, in the words of a batch; of a key, that it is revoked nevertheless."""
    add("eu-1")
    [board, *_] = load_boards(bundled_policies())

    async def write() -> None:
        async with opened(data / "ledger.sqlite3") as ledger:
            known = {"board": board, "credential": "server:eu-1", "state": State.PROMOTED}
            await ledger.append(new_submission("new", at_ms=wall_clock(), **known))

    asyncio.run(write())
    revoke = ("revoke", "eu-1", "--compromised-since", "2020-01-01T00:00:00Z")
    [batch] = re.findall(r"scoregate batch apply (\S+)", run(*revoke).stderr)

    def too_late(batch_id: str, *, version: int, **others: Any) -> Operation[Any]:
        return apply(batch_id, version=version - 1, **others)

    monkeypatch.setattr(operator_batches, "apply", too_late)
    for words, is_of_key in ((("key", *revoke, "--yes"), True), (("batch", "apply", batch), False)):
        monkeypatch.setattr(sys, "argv", ["scoregate", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (2, "", 1) == (ended.value.code, told.out, len(told.err.splitlines())), told.err
        assert told.err.endswith("the batch has changed since it was previewed\n")
        assert is_of_key is told.err.startswith("eu-1 is revoked, but")


def batches(*words: str) -> Result:
    return CliRunner().invoke(app, ["batch", *words])


def quarantined(result: Result, what: str) -> list[str]:
    """The submissions of which a command says so."""
    lines = [line.split() for line in result.stdout.splitlines()]
    return sorted(line[0] for line in lines if line[1:] == [what])
