"""The lives of boards in the log: every reader of the log passes over them, and every board follows from them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.derived.achievements import reached_by_log
from gateway.derived.followers import LogFollower
from gateway.derived.trends import Trends
from gateway.derived.webhooks.sources import DecisionEvents
from gateway.ledger import index_pages, queries
from gateway.ledger.boards.board_life import check_boards, life_of
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import LifeChange
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.derived import log
from gateway.ledger.judgement import board_history, expiry
from gateway.ledger.ledger import Ledger
from gateway.ledger.seals.audit import AuditReport, audit
from gateway.ledger.seals.proofs import check_proof, prove_life
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.standings.history import board_as_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.recordings.expiring import Expirer
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.errors import LedgerTampered
from policies.loader import Policies
from policies.opened_board import BoardState
from policies.vocabulary import Reason, State
from policies.windows import window_named
from tests.contract.test_boards_of_families import TRACKS, track
from tests.support import boards
from tests.support.families import change_boards, tracks
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere
from tests.support.stores import SqliteStore, Store, open_in


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def open_many(ledger: Ledger, first: int, count: int) -> None:
    batch = [track(f"n{number}") for number in range(first, first + count)]
    await ledger.write(open_boards(TRACKS, batch, actor="cli", at_ms=NOON_MS))


def clock() -> int:
    return NOON_MS + 1000


async def stepped(step: Any) -> int:
    """How much a follower handles until it has come to the end, whose steps are told."""
    handled = 0
    while count := await step():
        handled += count
    return handled


async def test_every_reader_of_the_log_passes_over_the_lives_of_boards(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Spans with nothing else in them stop nobody, before, between and behind what is of submissions."""
    monkeypatch.setattr(log, "SPAN", 8)
    board = boards.board(tmp_path / "policies")
    followers = [
        LogFollower(ledger, DecisionEvents(clock=clock)),
        LogFollower(ledger, Trends(Catalogue(Policies({"tiny": board})), clock=clock)),
    ]
    for each in followers:
        await each.step()
    await open_many(ledger, 0, 30)
    await ledger.append(new_submission("run-0"))
    await open_many(ledger, 30, 30)
    await ledger.append(new_submission("run-1", state=State.REJECTED))
    verified = Decision(
        "run-0", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset({State.PENDING})
    )
    await settle(ledger, Nowhere(), board, [verified])
    await open_many(ledger, 60, 30)
    newest = await ledger.read(queries.newest_seq())
    assert 93 == newest

    for follower in followers:
        assert await stepped(follower.step) >= 3
        assert newest == await ledger.read(log.position(follower.name))
    sections = {
        "recordings": SimpleNamespace(refused_days=0),
        "moderation": SimpleNamespace(appeal_days=0),
    }
    policy = SimpleNamespace(policy=SimpleNamespace(**sections))
    catalogue = Catalogue(Policies({"tiny": policy}))  # type: ignore[dict-item]
    expirer = Expirer(ledger, catalogue, clock=clock)
    assert await stepped(expirer.step) >= 1  # nothing after the last slice
    assert newest == await ledger.read(log.position(f"{expiry.CONSUMER}0"))

    seen, upto, is_newest = [], 0, False
    while not is_newest:
        changes = await ledger.read(index_pages.changes_after("tiny", upto, now_ms=NOON_MS, count=9))
        upto, is_newest = changes.upto, changes.is_newest
        seen += [event.seq for event in changes.events]
    assert [31, 62, 63] == seen
    before, back = newest + 1, []
    while page := await ledger.read(index_pages.events_before("tiny", before, count=2)):
        back += [event.seq for event in page]
        before = page[-1].seq
    assert [63, 62, 31] == back
    assert [Reason.ACCEPTED, Reason.ACCEPTED, Reason.VERIFIED] == [
        event.reason async for event in board_history.history_of_board(ledger, "tiny")
    ]
    assert ["ada"] == [
        reached.player
        async for reached in reached_by_log(ledger, board.policy)
        if reached.window == "alltime"
    ]
    stood = await board_as_of(ledger, board.policy, window_named(board.policy, "alltime"), NOON_MS)
    assert ["run-0"] == [standing.submission_id for standing in stood]


async def test_what_is_played_on_a_board_of_a_family_is_told_from_its_life(ledger: Ledger):
    """Both are events of the same board; a rebuild of it reads those of its submissions alone."""
    await open_many(ledger, 0, 1)
    await ledger.append(new_submission("run-0", board="track.n0"))
    await ledger.write(set_states(TRACKS, ["track.n0"], BoardState.CLOSED, actor="cli", at_ms=NOON_MS))
    changes = await ledger.read(index_pages.changes_after("track.n0", 0, now_ms=NOON_MS, count=9))
    assert (["run-0"], True) == ([event.submission_id for event in changes.events], changes.is_newest)
    life = await ledger.read(life_of("track.n0"))
    assert [(1, LifeChange.OPENED, "cli"), (3, LifeChange.CLOSED, "cli")] == [
        (event.seq, event.reason, event.actor) for event in life
    ]


async def test_lives_of_boards_are_sealed_and_audited(ledger: Ledger, tmp_path: Path):
    """As every event is; an audit counts the boards that follow from them."""
    settings = Settings(data_dir=tmp_path / "data", seal_events=5)
    key = seal_key_of(settings, is_made=True)
    await open_many(ledger, 0, 9)
    await ledger.append(new_submission("run-0"))
    assert 10 == await stepped(Sealer(settings, ledger, clock=clock).step)
    assert AuditReport(10, 2, 10, 1, boards=9) == await audit(ledger, PublicKeys(key.public_key))


async def test_the_proof_of_a_life_reads_each_seal_once(ledger: Ledger, tmp_path: Path):
    """However many events of the board are under it: its leaves are as many as those of all boards."""
    settings = Settings(data_dir=tmp_path / "data", seal_events=8)
    key = seal_key_of(settings, is_made=True)
    await open_many(ledger, 0, 1)
    turns = [BoardState.CLOSED, BoardState.OPEN] * 10
    for state in turns:
        await ledger.write(set_states(TRACKS, ["track.n0"], state, actor="cli", at_ms=NOON_MS))
    await ledger.append(new_submission("run-0", board="track.n0"))
    assert 16 == await stepped(Sealer(settings, ledger, clock=clock).step)
    reads = 0

    async def read(work: Any) -> Any:
        nonlocal reads
        reads += 1
        return await ledger.read(work)

    counted: Any = SimpleNamespace(read=read)
    proof, unsealed = await prove_life(counted, "track.n0")
    assert proof is not None
    assert (16, 5) == (len(proof.events), unsealed)
    assert proof == check_proof(proof.written(), PublicKeys(key.public_key))
    assert reads == 1 + 2 * 2 + 1, "the events, both seals, and that there is no other"


FORGERIES = {
    "UPDATE boards SET title = 'Mine' WHERE board = 'track.n1'": "track.n1 is not what its events say",
    "UPDATE boards SET metadata = '{\"a\":1}' WHERE board = 'track.n1'": "track.n1 is not",
    "UPDATE boards SET state = 'closed' WHERE board = 'track.n1'": "track.n1 is not",
    "UPDATE boards SET version = 7 WHERE board = 'track.n0'": "track.n0 is not",
    "UPDATE boards SET opens_at_ms = 7 WHERE board = 'track.n2'": "track.n2 is not",
    "UPDATE boards SET seq = 1 WHERE board = 'track.n2'": "track.n2 is not",
    "UPDATE boards SET parameters = asset WHERE board = 'track.n2'": "track.n2 is not",
    "DELETE FROM boards WHERE board = 'track.n2'": "track.n2, which event 3 opens, was removed",
}


async def unguarded(store: Store) -> None:
    if isinstance(store, SqliteStore):
        for name in ("facts_no_update", "opening_no_update", "no_delete"):
            await store.sql(f"DROP TRIGGER boards_{name}")
    else:
        await store.sql("ALTER TABLE boards DISABLE TRIGGER USER")


async def test_a_forged_board_is_found(store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    """Whatever was done to its row; a count of plays is no part of its life."""
    monkeypatch.setattr("gateway.ledger.boards.board_life.PAGE", 2)
    monkeypatch.setattr("gateway.ledger.boards.board_life.EVENTS_PAGE", 2)
    asset = track("n2", asset=bytes(32), parameters=b"{}", metadata={"a": [1]})
    await ledger.write(open_boards(TRACKS, [track("n0"), track("n1"), asset], actor="cli", at_ms=NOON_MS))
    named = ["track.n0", "track.n1", "track.n2"]
    read = (await ledger.read(boards_named(named)))["track.n1"]
    await change_boards(ledger, tracks(), replace(read, title="Changed"), at_ms=NOON_MS)
    await ledger.write(
        set_states(TRACKS, ["track.n1"], BoardState.CLOSED, actor="cli", at_ms=NOON_MS, why="x")
    )
    await ledger.write(set_states(TRACKS, ["track.n1"], BoardState.OPEN, actor="cli", at_ms=NOON_MS))
    before = await ledger.read(boards_named(named))
    await unguarded(store)
    await store.sql("UPDATE boards SET plays = 9")
    await store.sql("CREATE TABLE honest AS SELECT * FROM boards")
    for forgery, said in FORGERIES.items():
        assert 3 == await check_boards(ledger)
        await store.sql(forgery)
        with pytest.raises(LedgerTampered, match=said):
            await check_boards(ledger)
        await store.sql("DELETE FROM boards")
        await store.sql("INSERT INTO boards SELECT * FROM honest")
    assert before == await ledger.read(boards_named(named))
    await store.sql("UPDATE boards SET lane = 300, board = 'track.n3' WHERE board = 'track.n0'")
    with pytest.raises(
        LedgerTampered, match=r"track.n0, which event 1 opens, was removed|track.n3 was inserted"
    ):
        await check_boards(ledger)


CONTRADICTIONS = {
    "'', 'track.n9', '', 'open', 'closed', 'cli', 'board-closed', '{}'": "from open, which it was not",
    "'', 'track.n0', '', 'open', 'open', 'cli', 'board-painted', '{}'": "cannot follow",
    "'', 'track.n0', '', 'open', 'ajar', 'cli', 'board-changed', '{}'": "cannot follow",
    "'', 'track.n0', '', 'open', 'open', 'cli', 'board-changed', '{\"colour\": 1}'": "cannot follow",
}


@pytest.mark.parametrize(("event", "said"), CONTRADICTIONS.items())
async def test_events_that_contradict_each_other_are_told(
    store: Store, ledger: Ledger, event: str, said: str
):
    """An event that changes what never was, or that nobody of ours writes, is not folded into anything."""
    await open_many(ledger, 0, 1)
    columns = "seq, at_ms, rules_version, policy, submission_id, board, player, from_state, to_state, actor, reason, detail"
    await store.sql(f"INSERT INTO events ({columns}) VALUES (2, {NOON_MS}, 1, '', {event})")
    with pytest.raises(LedgerTampered, match=said):
        await check_boards(ledger)
