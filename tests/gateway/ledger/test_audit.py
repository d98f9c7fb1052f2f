"""Tamper evidence: whatever is changed in the file behind our back is found, and the first of it named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import audit as auditing
from gateway.ledger.seals import chain
from gateway.ledger.seals.audit import AuditReport, audit, check_checkpoints
from gateway.ledger.seals.chain import Seal
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.leaves import CHANGING, EVENT_COLUMNS, FACT_COLUMNS
from gateway.ledger.seals.merkle import root_of
from gateway.ledger.seals.signing_keys import PublicKeys, SealKey
from gateway.steward.seals.sealing import seal_key_of
from policies.errors import LedgerTampered, LedgerUnavailable, SettingsError
from tests.support.ledger import opened, rows
from tests.support.sealed import SealedLedger


async def audited(ledger: SealedLedger, keys: PublicKeys | None = None) -> AuditReport:
    async with opened(ledger.path) as running:
        return await audit(running, keys or ledger.keys)


async def fault_of(ledger: SealedLedger, keys: PublicKeys | None = None) -> str:
    with pytest.raises(LedgerTampered) as raised:
        await audited(ledger, keys)
    return str(raised.value)


def copied(table: str, where: str, **changes: str) -> str:
    """A statement that inserts a row like another, but for some columns."""
    columns = {"events": EVENT_COLUMNS, "submissions": (*FACT_COLUMNS, *sorted(CHANGING))}[table]
    values = ", ".join(changes.get(name, name) for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE {where}"


CHANGED = "event {} was changed, or the facts of the submission that it begins"

TAMPERINGS = {
    "an actor": (["UPDATE events SET actor = 'moderator:eve' WHERE seq = 7"], CHANGED.format(7)),
    "an event removed": (["DELETE FROM events WHERE seq = 7"], "event 7 was removed"),
    "the first event removed": (["DELETE FROM events WHERE seq = 1"], "event 1 was removed"),
    "the last sealed event removed": (["DELETE FROM events WHERE seq = 15"], "event 15 was removed"),
    "every event removed": (["DELETE FROM events"], "event 1 was removed"),
    "sealed and unsealed events cut off": (["DELETE FROM events WHERE seq > 12"], "event 13 was removed"),
    "an unsealed event removed": (["DELETE FROM events WHERE seq = 16"], "event 16 was removed"),
    "the newest event removed": (
        ["DELETE FROM events WHERE seq = 17"],
        "submission run-0 (event 1) stands as revoked for verified, but its last event says promoted for verified",
    ),
    "an event before the first": ([copied("events", "seq = 11", seq="0")], "event 0 was inserted"),
    "an event long before": (
        [copied("events", "seq = 11", seq=str(-(2**63)))],
        f"event {-(2**63)} was inserted",
    ),
    "an event after a gap": ([copied("events", "seq = 11", seq="20")], "event 18 was removed"),
    "an event replaced": (
        ["DELETE FROM events WHERE seq = 9", copied("events", "seq = 11", seq="9")],
        CHANGED.format(9),
    ),
    "events swapped": (
        [f"UPDATE events SET seq = {to} WHERE seq = {seq}" for seq, to in ((12, 99), (14, 12), (99, 14))],
        CHANGED.format(12),
    ),
    "runs swapped with their events": (
        [
            f"UPDATE {table} SET seq = {to} WHERE seq = {seq}"
            for seq, to in ((6, 99), (9, 6), (99, 9))
            for table in ("events", "submissions")
        ],
        CHANGED.format(6),
    ),
    "a score": (["UPDATE submissions SET score = 999999 WHERE submission_id = 'run-3'"], CHANGED.format(4)),
    "a recording's digest": (
        ["UPDATE submissions SET recording_digest = NULL WHERE seq = 8"],
        CHANGED.format(8),
    ),
    "a submission removed": (["DELETE FROM submissions WHERE seq = 4"], CHANGED.format(4)),
    "a submission moved to another event": (
        ["UPDATE submissions SET seq = 11 WHERE seq = 4"],
        CHANGED.format(4),
    ),
    "a submission inserted": (
        [copied("submissions", "seq = 4", seq="99", submission_id="'forged'", nonce="'other'")],
        "submission forged was inserted: event 99 does not begin it",
    ),
    "an unsealed submission removed": (
        ["DELETE FROM seals", "DELETE FROM submissions WHERE seq = 4"],
        "the submission that event 4 begins was removed",
    ),
    "a state": (
        ["UPDATE submissions SET state = 'promoted', reason = 'verified' WHERE submission_id = 'run-5'"],
        "submission run-5 (event 6) stands as promoted for verified, but its last event says rejected for verified",
    ),
    "a root": (
        ["UPDATE seals SET root = zeroblob(32) WHERE first_seq = 6"],
        "the seal of events 6 to 10 is not signed by the key: it was changed, or another key made it",
    ),
    "a seal's end": (
        ["UPDATE seals SET last_seq = 9 WHERE first_seq = 6"],
        "the seal of events 6 to 9 is not signed by the key: it was changed, or another key made it",
    ),
    "a seal's time": (
        ["UPDATE seals SET created_at_ms = created_at_ms + 1 WHERE first_seq = 11"],
        "the seal of events 11 to 15 is not signed by the key: it was changed, or another key made it",
    ),
    "a signature": (
        [
            "UPDATE seals SET signature = (SELECT signature FROM seals WHERE first_seq = 1) WHERE first_seq = 6"
        ],
        "the seal of events 6 to 10 is not signed by the key: it was changed, or another key made it",
    ),
    "a signature of no length": (
        ["UPDATE seals SET signature = x'' WHERE first_seq = 1"],
        "the seal of events 1 to 5 is not signed by the key: it was changed, or another key made it",
    ),
    "kept leaves": (
        ["UPDATE seals SET leaves = zeroblob(160) WHERE first_seq = 6"],
        "the leaves kept with the seal of events 6 to 10 were changed",
    ),
    "a seal removed": (
        ["DELETE FROM seals WHERE first_seq = 6"],
        "the seal of the events from 6 on is missing; next is the seal of events 11 to 15",
    ),
    "the first seal removed": (
        ["DELETE FROM seals WHERE first_seq = 1"],
        "the seal of the events from 1 on is missing; next is the seal of events 6 to 10",
    ),
    "two things, the later one first": (
        ["DELETE FROM events WHERE seq = 14", "UPDATE events SET at_ms = 0 WHERE seq = 3"],
        CHANGED.format(3),
    ),
    "two things in one seal": (
        ["DELETE FROM events WHERE seq = 10", "UPDATE submissions SET ticks = 1 WHERE seq = 7"],
        CHANGED.format(7),
    ),
}


async def test_M09_an_honest_ledger_is_clean(sealed: SealedLedger):
    """All of it is counted: events, seals, the tail that no seal speaks for yet."""
    found = await audited(sealed)
    assert AuditReport(events=17, seals=3, sealed_events=15, submissions=10) == found
    assert 2 == found.unsealed_events


@pytest.mark.parametrize("tampering", TAMPERINGS)
async def test_M09_tampering_is_found_and_the_first_fault_named(sealed: SealedLedger, tampering: str):
    """With the triggers dropped, by plain SQL on the file."""
    statements, fault = TAMPERINGS[tampering]
    sealed.tamper(*statements)
    assert fault == await fault_of(sealed)


async def test_M09_no_column_is_left_out(sealed: SealedLedger, tmp_path: Path):
    """Each column of an event, and each fact of a submission, changes the leaf that it stands in."""
    for table, columns in (("events", EVENT_COLUMNS), ("submissions", FACT_COLUMNS)):
        for column in columns:
            if column == "seq":
                continue
            copy = sealed.copy(tmp_path / table / column)
            [[kind]] = rows(
                copy.path, f"SELECT type FROM pragma_table_info('{table}') WHERE name = '{column}'"
            )
            other = {"INTEGER": "7654321", "TEXT": "'other'", "BLOB": "x'00'"}[kind]
            copy.tamper(f"UPDATE {table} SET {column} = {other} WHERE seq = 4")
            assert CHANGED.format(4) == await fault_of(copy), (table, column)


async def test_M09_text_that_is_none_is_tampering(sealed: SealedLedger):
    """Bytes that are no UTF-8 were put there by another program; the audit says so and does not break."""
    sealed.tamper("UPDATE events SET actor = CAST(x'ff' AS TEXT) WHERE seq = 7")
    assert (await fault_of(sealed)).startswith("a row cannot be read")


def resealed(ledger: SealedLedger, first_seq: int, key: SealKey) -> None:
    """Signs a seal, and those after it, anew: over what the events are now."""
    with ledger.unguarded() as connection:
        columns = ", ".join(Seal.model_fields)
        standing = [Seal(**dict(zip(Seal.model_fields, row, strict=True))) for row in connection.execute(
            f"SELECT {columns} FROM seals ORDER BY first_seq"
        )]  # fmt: skip
        connection.row_factory = None
        events = ", ".join(f"e.{name}" for name in EVENT_COLUMNS)
        facts = ", ".join(f"s.{name}" for name in FACT_COLUMNS)
        previous = next((each for each in reversed(standing) if each.first_seq < first_seq), None)
        for old in [each for each in standing if each.first_seq >= first_seq]:
            leaves = [
                chain.row_leaf(row)
                for row in connection.execute(
                    f"SELECT {events}, {facts} FROM events e LEFT JOIN submissions s ON s.seq = e.seq "
                    "WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq",
                    (old.first_seq, old.last_seq),
                )
            ]
            previous = chain.seal_of(key, previous, leaves, at_ms=old.created_at_ms)
            connection.execute(
                "UPDATE seals SET root = ?, previous = ?, key_id = ?, signature = ?, leaves = ? WHERE first_seq = ?",
                (
                    root_of(leaves),
                    previous.previous,
                    previous.key_id,
                    previous.signature,
                    b"".join(leaves),
                    old.first_seq,
                ),
            )


async def test_M09_another_key_cannot_seal_what_was_changed(sealed: SealedLedger):
    """A score changed and everything after it sealed again, by the book, but for the key. Control: that key takes it."""
    other = SealKey(bytes(32))
    sealed.tamper("UPDATE submissions SET score = 1 WHERE seq = 7")
    resealed(sealed, 6, other)

    assert "the seal of events 6 to 10 is not signed by the key: it was changed, or another key made it" == (
        await fault_of(sealed)
    )
    both = PublicKeys(seal_key_of(sealed.settings, is_made=False).public_key, other.public_key)
    assert 17 == (await audited(sealed, both)).events


async def test_M09_a_seal_made_anew_breaks_the_chain(sealed: SealedLedger, tmp_path: Path):
    """Even the key's holder must seal everything after it again; and then exported heads tell."""
    key = seal_key_of(sealed.settings, is_made=False)
    async with opened(sealed.path) as ledger:
        await export_checkpoints(ledger, tmp_path / "heads")
    sealed.tamper("UPDATE submissions SET score = 1 WHERE seq = 7")
    alone = sealed.copy(tmp_path / "alone")
    with closing(sqlite3.connect(alone.path)) as connection:
        [kept] = connection.execute(
            "SELECT previous, signature, root, leaves FROM seals WHERE first_seq = 11"
        )
    resealed(alone, 6, key)
    with alone.unguarded() as connection:
        connection.execute(
            "UPDATE seals SET previous = ?, signature = ?, root = ?, leaves = ? WHERE first_seq = 11", kept
        )
    assert "the seal of events 11 to 15 does not follow the seal before it" == await fault_of(alone)

    resealed(sealed, 6, key)
    assert 17 == (await audited(sealed)).events
    with pytest.raises(LedgerTampered, match="the seal of events 6 to 10, which was exported, is not in"):
        await heads_checked(sealed, tmp_path / "heads")


async def heads_checked(ledger: SealedLedger, heads: Path) -> int:
    async with opened(ledger.path) as running:
        with heads.open("rb") as lines:
            return await check_checkpoints(running, ledger.keys, lines)


async def test_M09_a_tail_cut_off_cleanly_is_seen_by_exported_heads(sealed: SealedLedger, tmp_path: Path):
    """Without the newest events, their seal and all traces of them the ledger is in order; the heads know better."""
    async with opened(sealed.path) as ledger:
        assert 3 == await export_checkpoints(ledger, tmp_path / "heads")
    assert 3 == await heads_checked(sealed, tmp_path / "heads")
    sealed.tamper(
        "DELETE FROM events WHERE seq > 10",
        "DELETE FROM seals WHERE first_seq > 10",
        "UPDATE submissions SET state = 'pending', reason = 'accepted'",
    )

    assert AuditReport(events=10, seals=2, sealed_events=10, submissions=10) == await audited(sealed)
    with pytest.raises(LedgerTampered, match="the seal of events 11 to 15, which was exported, is not in"):
        await heads_checked(sealed, tmp_path / "heads")


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1]\n", b"\xff\n", b"forged"])
async def test_M09_heads_that_are_none_prove_nothing(sealed: SealedLedger, tmp_path: Path, line: bytes):
    """A line that is no head, or that the key did not sign, is told by its number: that is no tampering."""
    heads = tmp_path / "heads"
    async with opened(sealed.path) as ledger:
        await export_checkpoints(ledger, heads)
    genuine = heads.read_bytes()
    if line == b"forged":
        line = genuine.splitlines(keepends=True)[0].replace(b'"last_seq":5', b'"last_seq":4')
    heads.write_bytes(genuine + line)
    with pytest.raises(SettingsError, match="line 4 of the heads: is not"):
        await heads_checked(sealed, heads)


async def test_the_audit_reads_page_by_page(sealed: SealedLedger, monkeypatch: pytest.MonkeyPatch):
    """Whatever the size of a page, the outcome is the same: nothing hides where two of them meet."""
    for size in (1, 2, 3, 16, 17, 18):
        monkeypatch.setattr(chain, "PAGE", size)
        monkeypatch.setattr(auditing, "PAGE", size)
        assert 17 == (await audited(sealed)).events
    sealed.tamper("DELETE FROM events WHERE seq = 9")
    for size in (1, 2, 3, 16):
        monkeypatch.setattr(chain, "PAGE", size)
        assert "event 9 was removed" == await fault_of(sealed)


async def test_M06_the_audit_looks_at_every_submission_where_pages_meet(
    sealed: SealedLedger, monkeypatch: pytest.MonkeyPatch
):
    """The first row of a page, the last and each between: a state that was changed is found, and named."""
    monkeypatch.setattr(auditing, "PAGE", 3)
    states = rows(sealed.path, "SELECT seq, submission_id, state FROM submissions ORDER BY seq")
    named = []
    for seq, _, state in states:
        sealed.tamper(f"UPDATE submissions SET state = 'held' WHERE seq = {seq}")
        named.append((await fault_of(sealed)).split()[1])
        sealed.tamper(f"UPDATE submissions SET state = '{state}' WHERE seq = {seq}")
    assert [each[1] for each in states] == named
    assert len(states) == (await audited(sealed)).submissions


async def test_a_ledger_that_cannot_be_read_is_not_said_to_be_tampered_with(sealed: SealedLedger):
    """A disk that fails, or a lock that stays, is the database's failure, and no evidence of anything."""

    class Away:
        async def read(self, _work: Any) -> Any:
            with closing(sqlite3.connect(":memory:")) as connection:
                try:
                    connection.execute("SELECT nothing")
                except sqlite3.OperationalError as error:
                    raise LedgerUnavailable("disk I/O error") from error

    with pytest.raises(LedgerUnavailable, match="disk I/O error"):
        await audit(cast("Ledger", Away()), sealed.keys)
