"""Tamper evidence on every ledger: sealed, audited, proven and folded back; and what only one of them can be done to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.trail_file import TrailCheck, check_trail
from gateway.ledger.seals import chain
from gateway.ledger.seals.audit import AuditReport, audit, check_checkpoints
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.leaves import EVENT_COLUMNS
from gateway.ledger.seals.proofs import check_proof, prove
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.standings.history import board_as_of
from gateway.runtime.settings import Settings
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.errors import LedgerTampered, ProofInvalid
from policies.loader import Board
from policies.windows import window_named
from tests.support import boards
from tests.support.ledger import NOON_MS
from tests.support.sealed import SEAL_EVENTS, fill_and_seal
from tests.support.stores import PostgresStore, Store, open_in


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


@pytest.fixture
def keys(tmp_path: Path) -> PublicKeys:
    settings = Settings(data_dir=tmp_path / "data")
    return PublicKeys(seal_key_of(settings, is_made=True).public_key)


@pytest.fixture
async def ledger(store: Store, board: Board, tmp_path: Path, keys: PublicKeys) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        await fill_and_seal(running, Settings(data_dir=tmp_path / "data", seal_events=SEAL_EVENTS), board)
        yield running


async def test_M09_what_was_sealed_is_audited_proven_and_exported(
    ledger: Ledger, keys: PublicKeys, tmp_path: Path
):
    """The same evidence, whichever database carries it."""
    assert AuditReport(17, 3, 15, 10) == await audit(ledger, keys)
    proof, unsealed = await prove(ledger, "run-3")
    assert proof
    assert (2, 0) == (len(check_proof(proof.written(), keys).events), unsealed)
    assert 3 == await export_checkpoints(ledger, tmp_path / "heads")
    assert 3 == await check_checkpoints(ledger, keys, (tmp_path / "heads").read_bytes().splitlines())


async def test_the_past_is_folded_from_the_log(ledger: Ledger, board: Board):
    """Before and after the revocation, which has an instant of its own."""
    found = await board_as_of(ledger, board.policy, window_named(board.policy, "alltime"), NOON_MS + 1)
    assert ["run-4", "run-3", "run-2"] == [each.submission_id for each in found]
    assert [] == await board_as_of(ledger, board.policy, window_named(board.policy, "alltime"), NOON_MS)


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE submissions SET score = 1 WHERE seq = 7", "event 7 was changed"),
        ("UPDATE events SET actor = 'eve' WHERE seq = 3", "event 3 was changed"),
        ("DELETE FROM events WHERE seq = 12", "event 12 was removed"),
        ("DELETE FROM seals WHERE first_seq = 6", "the seal of the events from 6 on is missing"),
        (
            "UPDATE seals SET created_at_ms = 0 WHERE first_seq = 6",
            "the seal of events 6 to 10 is not signed",
        ),
        ("UPDATE submissions SET state = 'promoted' WHERE seq = 6", "submission run-5 "),
    ],
)
async def test_M09_tampering_by_the_databases_owner_is_found(
    store: Store, ledger: Ledger, keys: PublicKeys, statement: str, fault: str
):
    """Whoever may drop triggers, or has them not fire."""
    await tamper(store, statement)
    with pytest.raises(LedgerTampered, match=fault):
        await audit(ledger, keys)


@pytest.mark.parametrize("at_ms", [NOON_MS - 1, NOON_MS - 40 * 86_400_000, NOON_MS + 40 * 86_400_000])
async def test_M09_a_number_that_is_there_twice_is_found(
    store: Store, ledger: Ledger, keys: PublicKeys, monkeypatch: pytest.MonkeyPatch, at_ms: int
):
    """A partitioned table may hold it in two partitions; wherever the pages are cut."""
    if not isinstance(store, PostgresStore):  # there the primary key is the number alone
        with pytest.raises(store.refusals):
            await tamper(store, twice(at_ms))
        return
    await tamper(store, twice(at_ms))
    for size in (1, 7, 8, 1000):
        monkeypatch.setattr(chain, "PAGE", size)
        with pytest.raises(LedgerTampered, match=r"event 7 was (inserted|changed)"):
            await audit(ledger, keys)


def twice(at_ms: int) -> str:
    columns = "seq, submission_id, board, player, from_state, to_state, actor, reason, policy, rules_version, detail"
    return f"INSERT INTO events ({columns}, at_ms) SELECT {columns}, {at_ms} FROM events WHERE seq = 7"


async def test_M09_a_trail_is_compared_in_whatever_order_its_rows_come(
    store: Store, ledger: Ledger, keys: PublicKeys, tmp_path: Path
):
    """Parts can be put together, and a file may go from one seal to another and back; none is trusted by its number."""
    columns = ", ".join(EVENT_COLUMNS)
    found = await store.sql(f"SELECT {columns} FROM events WHERE seq > 10 ORDER BY seq")
    rows = [dict(zip(EVENT_COLUMNS, row, strict=True)) for row in found]
    orders = [rows, rows[::-1], [*rows[::2], *rows[1::2]], [*rows[5:], *rows[:5], *rows[5:]]]
    assert [(5, 2), (5, 2), (5, 2), (5, 4)] == [await check_trail(ledger, each, keys) for each in orders]
    last = Settings(data_dir=tmp_path / "data", seal_events=2)
    assert 2 == await Sealer(last, ledger, clock=lambda: NOON_MS + 3).step()
    assert [(7, 0), (7, 0), (7, 0), (9, 0)] == [await check_trail(ledger, each, keys) for each in orders]
    forged = [*rows[:-1], rows[-1] | {"actor": "eve"}]
    with pytest.raises(ProofInvalid, match="event 17 is not what was sealed"):
        await check_trail(ledger, forged[::-1], keys)

    other = PublicKeys(seal_key_of(Settings(data_dir=tmp_path / "other"), is_made=True).public_key)
    with pytest.raises(LedgerTampered, match="the seal of events 11 to 15 is not signed by the key"):
        await check_trail(ledger, rows, other)
    assert TrailCheck(0, 0) == await check_trail(ledger, [], other)
    await tamper(
        store, "UPDATE seals SET leaves = (SELECT leaves FROM seals WHERE first_seq = 6) WHERE first_seq = 11"
    )
    with pytest.raises(
        LedgerTampered, match="the leaves of the seal of events 11 to 15 do not lead to its root"
    ):
        await check_trail(ledger, rows, keys)


async def test_several_stewards_take_turns(store: Store, ledger: Ledger, keys: PublicKeys, tmp_path: Path):
    """Another process seals the rest; the first finds nothing left to do."""
    settings = Settings(data_dir=tmp_path / "data", seal_events=1)

    def sealer(on: Any) -> Sealer:
        return Sealer(settings, on, clock=lambda: NOON_MS + 3)

    async with open_in(store) as other:
        assert [1, 1] == [await sealer(each).step() for each in (other, ledger)]
        assert [0, 0] == [await sealer(each).step() for each in (other, ledger)]
    assert AuditReport(17, 5, 17, 10) == await audit(ledger, keys)


async def tamper(store: Store, statement: str) -> None:
    if isinstance(store, PostgresStore):
        await store.sql(f"ALTER DATABASE {store.database} SET session_replication_role = replica")
        await store.sql(statement)
        return
    for [name] in await store.sql("SELECT name FROM sqlite_schema WHERE type = 'trigger'"):
        await store.sql(f"DROP TRIGGER {name}")
    await store.sql(statement)
