"""`scoregate ledger`: what it says of a ledger, and with which status."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.moderation import trail_file
from gateway.ledger.seals.leaves import EVENT_COLUMNS
from gateway.ledger.seals.signing_keys import SealKey
from gateway.runtime.clock import rfc3339
from gateway.steward.seals.sealing import Sealer
from gateway.wiring import ledger_of
from policies.opened_board import BoardState
from scoregate.cli import main
from scoregate.commands import ledgers
from tests.support import boards
from tests.support.families import open_tracks, turn_tracks, write_family
from tests.support.ledger import NOON_MS
from tests.support.postgres import OWNER, PostgresServer
from tests.support.sealed import SealedLedger, sealed_ledger

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> SealedLedger:
    folder = tmp_path_factory.mktemp("sealed")
    return asyncio.run(sealed_ledger(folder / "data", boards.board(folder / "policies")))


@pytest.fixture
def sealed(original: SealedLedger, tmp_path: Path) -> SealedLedger:
    return original.copy(tmp_path)


@pytest.fixture
def command(
    sealed: SealedLedger,
    original: SealedLedger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Runs `scoregate ledger …` on the sealed ledger: status, standard output, standard error."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(sealed.settings.data_dir))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(original.settings.data_dir.parent / "policies"))

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["scoregate", "ledger", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


CLEAN = (
    "clean: 17 events of 10 submissions, 15 of them under 3 seals; 2 events from 16 on are not sealed yet "
    "though they wait since 2025-11-20T12:00:00.001Z: the newest seals were removed, or no steward runs\n"
)


def test_M09_verify_says_that_a_ledger_is_clean(command: Command, tmp_path: Path):
    """By the key of the data directory, or by one that is kept elsewhere; and against exported heads."""
    assert (0, CLEAN, "") == command("verify")
    status, out, err = command("verify", "--json")
    facts = {
        "events": 17,
        "seals": 3,
        "sealed_events": 15,
        "submissions": 10,
        "boards": 0,
        "unsealed_events": 2,
        "erased_events": 0,
    }
    told = {
        "is_clean": True,
        **facts,
        "overdue_since": "2025-11-20T12:00:00.001Z",
        "labels": 0,
        "heads": None,
    }
    assert (0, told, "") == (status, json.loads(out), err)
    key, heads = tmp_path / "key.pem", tmp_path / "heads"
    key.write_text(command("public-key")[1])
    assert (0, f"{heads}: 3 heads appended\n", "") == command("heads", "--output", heads)
    assert (0, f"{heads}: 0 heads appended\n", "") == command("heads", "--output", heads)
    status, out, _ = command("verify", "--public-key", key, "--heads", heads)
    assert (0, CLEAN + "all 3 exported heads are in the ledger\n") == (status, out)


def test_F26_verify_misses_the_seals_that_should_be_there(
    sealed: SealedLedger, command: Command, tmp_path: Path
):
    """Without any, old events are not clean, heads or none; a file without heads proves nothing."""
    (tmp_path / "empty").touch()
    assert (2, "") == command("verify", "--heads", tmp_path / "empty")[:2]
    assert 2 == command("heads", "--output", "/dev/zero")[0]
    sealed.tamper("DELETE FROM seals")
    status, out, err = command("verify")
    assert (1, "", True) == (status, out, err.startswith("nothing is sealed, though 17 events wait since"))
    sealed.tamper("DELETE FROM events", "DELETE FROM submissions")
    assert 0 == command("verify")[0]  # nothing is there that could have been sealed


@pytest.mark.parametrize(("beyond_ms", "is_told"), [(0, False), (1, True)])
def test_F26_events_are_overdue_once_a_steward_would_have_sealed_them(
    sealed: SealedLedger, command: Command, monkeypatch: pytest.MonkeyPatch, beyond_ms: int, is_told: bool
):
    """Not in the seconds before: whoever verifies a busy ledger is not told that it was tampered with."""
    now_ms = NOON_MS + 1 + int(sealed.settings.seal_s * 1000) + beyond_ms
    monkeypatch.setattr("gateway.runtime.clock.wall_clock", lambda: now_ms)
    status, out, _ = command("verify")
    assert (0, is_told) == (status, "though they wait since" in out)


def test_M09_verify_names_what_was_changed_with_status_1(
    sealed: SealedLedger, command: Command, tmp_path: Path
):
    """A changed score, a foreign key, and a tail that is missing beside the heads."""
    heads, foreign = tmp_path / "heads", tmp_path / "foreign.pem"
    command("heads", "--output", heads)
    foreign.write_text(SealKey(bytes(32)).public_pem())
    status, out, err = command("verify", "--public-key", foreign)
    assert (1, "", True) == (
        status,
        out,
        err.startswith("the seal of events 1 to 5 is not signed by the key"),
    )

    sealed.tamper("DELETE FROM seals WHERE first_seq > 10")
    assert 0 == command("verify")[0]
    status, _, err = command("verify", "--heads", heads)
    assert (1, "the seal of events 11 to 15, which was exported, is not in the ledger\n") == (status, err)
    assert 1 == command("heads", "--output", heads)[0]

    sealed.tamper("UPDATE submissions SET score = 1 WHERE seq = 4")
    status, out, err = command("verify")
    changed = "event 4 was changed, or the facts of the submission that it begins"
    assert (1, "", f"{changed}\n") == (status, out, err)
    status, out, err = command("verify", "--json")
    assert (1, {"is_clean": False, "fault": changed}, f"{changed}\n") == (status, json.loads(out), err)


def test_M09_verify_says_what_kept_it_from_checking_with_status_2(
    sealed: SealedLedger, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No ledger, none made; no key; no heads; a file that is no database: neither clean nor tampered."""
    assert (2, "") == command("verify", "--heads", tmp_path / "none")[:2]
    assert (2, "", "line 1 of the heads: is not a head\n") == command("verify", "--heads", "/dev/zero")
    assert (2, "") == command("verify", "--public-key", tmp_path / "none")[:2]
    status, _, err = command("verify", "--data-dir", tmp_path / "none")
    assert (2, True) == (status, "there is no ledger; --data-dir" in err)
    assert not (tmp_path / "none").exists()
    key = sealed.settings.data_dir / "seal.key"
    key.rename(tmp_path / "kept")
    status, _, err = command("verify")
    assert (2, True) == (status, "there is no seal key yet" in err)
    assert not key.exists()
    (tmp_path / "kept").rename(key)
    monkeypatch.setenv("SCOREGATE_LEDGER_URL", f"sqlite:///{tmp_path}/noise")
    (tmp_path / "noise").write_bytes(b"no database" * 1000)
    assert 2 == command("verify")[0]


def test_M09_a_proof_goes_from_prove_to_verify_proof(command: Command, tmp_path: Path):
    """To a file or to standard output; what is not sealed yet is said; a changed proof has status 1."""
    key, proof = tmp_path / "key.pem", tmp_path / "proof.json"
    key.write_text(command("public-key")[1])
    assert (0, "", "newer events of run-0 that are not sealed yet: 1\n") == command(
        "prove", "run-0", "--output", proof
    )
    assert (0, proof.read_text()) == command("prove", "run-0")[:2]
    status, out, _ = command("verify-proof", proof, "--public-key", key)
    assert (0, "proven: 2 events of submission run-0") == (status, out.splitlines()[0])

    proof.write_text(proof.read_text().replace('"score": 100', '"score": 900'))
    status, out, err = command("verify-proof", proof, "--public-key", key)
    assert (1, "", "event 1 is not under the seal of events 1 to 5\n") == (status, out, err)
    assert 2 == command("verify-proof", tmp_path / "none", "--public-key", key)[0]
    assert 2 == command("verify-proof", proof, "--public-key", proof)[0]


def test_no_more_is_read_for_a_proof_than_one_can_have(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither of a file nor of a pipe, which has no size and may never end."""
    monkeypatch.setattr(ledgers, "PROOF_LIMIT_BYTES", 10)
    key, file = tmp_path / "key.pem", tmp_path / "proof"
    key.write_text(command("public-key")[1])
    file.write_bytes(bytes(11))
    reading, writing = os.pipe()
    os.write(writing, bytes(12))
    try:
        for path in (file, f"/dev/fd/{reading}"):
            told = command("verify-proof", path, "--public-key", key)
            assert (1, "", "this is no proof: it is too large\n") == told
    finally:
        os.close(reading)
        os.close(writing)


def test_a_board_s_life_is_proven(sealed: SealedLedger, command: Command, tmp_path: Path):
    """Who opened and closed it, and when, by nothing but the proof and the key; nothing of another board passes."""
    asyncio.run(with_boards(sealed))
    key, proof = tmp_path / "key.pem", tmp_path / "proof.json"
    key.write_text(command("public-key")[1])
    assert (2, "", "there is no board track.c\n") == command("prove", "track.c")
    unsealed = "newer events of track.a that are not sealed yet: 1\n"
    assert (0, "", unsealed) == command("prove", "track.a", "--output", proof)
    status, out, _ = command("verify-proof", proof, "--public-key", key)
    head, opened, closed = out.splitlines()
    assert (0, "proven: 2 events of board track.a") == (status, head)
    at = rfc3339(NOON_MS)
    for line, told in ((opened, "board-opened by server:kart"), (closed, "board-closed by cli")):
        assert f": {told} at {at}; sealed " in line
    other = json.loads(command("prove", "track.b")[1])
    honest = json.loads(proof.read_text())

    def refusal(**changes: object) -> str:
        text = json.dumps({**honest, **changes}, indent=2, sort_keys=False) + "\n"
        proof.write_text(text)
        status, _, err = command("verify-proof", proof, "--public-key", key)
        assert status == 1
        return err

    assert "one of its events belongs to another board\n" == refusal(events=other["events"])
    run = json.loads(command("prove", "run-0")[1])
    assert "one of its events belongs to another board\n" == refusal(events=run["events"])
    forged = json.loads(json.dumps(honest))
    forged["events"][1]["event"]["actor"] = "server:kart"
    assert "is not under the seal of" in refusal(**forged)
    assert "expected a submission or a board" in refusal(submission="run-0")
    assert "expected a submission or a board" in refusal(board=None)


def test_a_past_board_of_a_family_is_printed(
    sealed: SealedLedger, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whatever has become of it since; one that was never opened is named as such."""
    asyncio.run(with_boards(sealed))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(write_family(tmp_path / "families").parent))
    at = rfc3339(NOON_MS + 1)
    assert f"track.b, alltime, at {at}: 0 entries" in command("as-of", "track.b", at)[1].splitlines()
    status, _, err = command("as-of", "track.c", at)
    assert (2, True) == (status, "track.c" in err)


async def with_boards(sealed: SealedLedger) -> None:
    """Opens two boards and closes one, all under a seal, and opens the closed one again under none."""
    ledger = ledger_of(sealed.settings)
    await ledger.open()
    try:
        await open_tracks(ledger, "track.a", "track.b", at_ms=NOON_MS)
        await turn_tracks(ledger, ["track.a"], BoardState.CLOSED, at_ms=NOON_MS)
        sealer = Sealer(sealed.settings, ledger, clock=lambda: NOON_MS + 3_600_000)
        while await sealer.step():
            pass
        await turn_tracks(ledger, ["track.a"], BoardState.OPEN, at_ms=NOON_MS)
    finally:
        await ledger.close()


def test_what_is_not_sealed_yet_is_not_proven(sealed: SealedLedger, command: Command):
    """The message says when it will be; an unknown submission is another matter."""
    assert (2, "", "there is no submission nobody\n") == command("prove", "nobody")
    sealed.tamper("DELETE FROM seals")
    assert (2, "", "no event of run-3 is sealed yet; the steward seals within 60 s\n") == command(
        "prove", "run-3"
    )


def test_a_board_as_it_stood_is_printed(command: Command):
    """Rank, score, player, time and submission; by instant, window and limit."""
    at = rfc3339(NOON_MS + 1)
    status, out, _ = command("as-of", "tiny", at)
    head, _, *lines = out.splitlines()
    noon = rfc3339(NOON_MS)
    assert (0, f"tiny, alltime, at {at}: 3 entries") == (status, head)
    expected = [
        ["1", "104", "p1", noon, "run-4"],
        ["2", "103", "p0", noon, "run-3"],
        ["3", "102", "p2", noon, "run-2"],
    ]
    assert expected == [line.split() for line in lines]
    rows = [json.loads(line) for line in command("as-of", "tiny", at, "--json")[1].splitlines()]
    assert ["rank", "score", "player", "achieved_at", "submission"] == list(rows[0])
    assert expected == [[str(value) for value in row.values()] for row in rows]
    head, _, *lines = command("as-of", "tiny", at, "--window", "daily:20251120", "--limit", "1")[
        1
    ].splitlines()
    assert (True, expected[:1]) == (head.endswith(": 3 entries"), [line.split() for line in lines])
    assert "0 entries" in command("as-of", "tiny", rfc3339(NOON_MS))[1]
    for words in (("gone", at), ("tiny", "yesterday"), ("tiny", "2999-01-01T00:00:00Z")):
        assert 2 == command("as-of", *words)[0]
    assert (2, "the board keeps the windows alltime, daily, weekly, monthly\n") == command(
        "as-of", "tiny", at, "--window", "hourly"
    )[::2]


def test_proofs_and_heads_are_json(command: Command, tmp_path: Path):
    """For other programs: one object a line, and one a file."""
    command("heads", "--output", tmp_path / "heads")
    heads = [json.loads(line) for line in (tmp_path / "heads").read_text().splitlines()]
    assert [(1, 5), (6, 10), (11, 15)] == [(head["first_seq"], head["last_seq"]) for head in heads]
    assert "scoregate-proof-1" == json.loads(command("prove", "run-1")[1])["format"]


async def test_copy_takes_the_ledger_to_postgres_and_says_what_comes_next(
    sealed: SealedLedger,
    command: Command,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
):
    """From the data directory into the database of `--to` or of the setting; a second time with status 2."""
    async with postgres_server.database() as name:
        url = postgres_server.url(name, OWNER)
        status, out, err = await asyncio.to_thread(command, "copy", "--to", url)
        assert (0, "") == (status, err)
        [copied, clean, then] = out.splitlines()
        assert re.fullmatch(
            r"copied: [0-9]+ rows in [0-9]+ s, and the database has as many in every table", copied
        )
        assert CLEAN.startswith(clean)
        assert then.startswith("now set SCOREGATE_LEDGER_URL to the database for every part")
        assert f"leave {sealed.path}" in then

        monkeypatch.setenv("SCOREGATE_LEDGER_URL", url)
        status, out, err = await asyncio.to_thread(command, "copy")
        assert (2, "") == (status, out)
        assert "was copied to PostgreSQL" in err


async def test_M09_copy_takes_no_ledger_that_was_changed(
    sealed: SealedLedger, command: Command, postgres_server: PostgresServer
):
    """The fault has status 1, as with `verify`, and the file of keys decides as there."""
    foreign = sealed.settings.data_dir / "foreign.pem"
    foreign.write_text(SealKey(bytes(32)).public_pem())
    async with postgres_server.database() as name:
        url = postgres_server.url(name, OWNER)
        status, out, err = await asyncio.to_thread(command, "copy", "--to", url, "--public-key", foreign)
        assert (1, "", True) == (status, out, "is not signed by the key" in err)
        sealed.tamper("UPDATE submissions SET score = 1 WHERE seq = 4")
        status, _, err = await asyncio.to_thread(command, "copy", "--to", url)
        assert (1, True) == (status, err.startswith("event 4 was changed"))


def test_M09_an_exported_trail_is_compared_with_the_seals(
    sealed: SealedLedger, command: Command, tmp_path: Path
):
    """Row by row; what is not sealed yet is counted; a changed row, seal or key has status 1."""
    file, key = tmp_path / "trail.csv", tmp_path / "key.pem"
    key.write_text(command("public-key")[1])
    columns = ", ".join(EVENT_COLUMNS)
    with closing(sqlite3.connect(sealed.path)) as connection:
        rows = connection.execute(f"SELECT {columns} FROM events WHERE seq > 10 ORDER BY seq DESC").fetchall()
    whole = trail_file.written([dict(zip(EVENT_COLUMNS, row, strict=True)) for row in rows], has_header=True)
    file.write_text(whole)
    assert (0, "clean: 5 events are as they were sealed; 2 are not sealed yet\n") == command(
        "verify-trail", file
    )[:2]
    assert 0 == command("verify-trail", file, "--public-key", key)[0]

    file.write_text(whole.replace('"replay"', '"eve"'))
    assert (1, "event 15 is not what was sealed\n") == command("verify-trail", file)[::2]
    file.write_text("seq,at\n")
    assert 1 == command("verify-trail", file)[0]
    assert 2 == command("verify-trail", tmp_path / "none")[0]
    assert (1, "line 1: field larger than field limit (131072)\n") == command("verify-trail", "/dev/zero")[
        ::2
    ]

    file.write_text(whole)
    sealed.tamper("UPDATE seals SET created_at_ms = 0 WHERE first_seq = 11")
    assert (1, "the seal of events 11 to 15 is not signed by the key\n") == command("verify-trail", file)[::2]
