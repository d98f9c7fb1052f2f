"""Rows of the ledger that are no longer as we wrote them: each costs its own run a verdict, and no other run anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import queries
from gateway.ledger.judgement import audits, board_history, promotion_impact
from gateway.ledger.judgement.bands import BandedRecording
from gateway.ledger.submissions import work
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.errors import StateConflict
from policies.loader import Policies
from policies.vocabulary import Reason, State
from replay.simulators.all_simulators import AllSimulators
from replay.worker import evidence, verification_lottery
from replay.worker.verifier import Verifier
from tests.support import boards
from tests.support.metrics import metric
from tests.support.stores import Store, on_both_if_thorough
from tests.support.torn import tear
from tests.support.valkey import ValkeyServer
from tests.support.yard import Yard, a_yard

SPARING = {"top": 1, "beats_best_by": 10, "share": 0.0}


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer, store: Store) -> AsyncIterator[Yard]:
    boards.write_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yield await a_yard(stack, tmp_path, valkey, ledger_url=store.url)


async def verified(yard: Yard, *names: str) -> dict[str, str]:
    """The states and reasons after a worker was at it."""
    with AllSimulators() as simulators:
        await yard.verify(*names, simulators=simulators)
    return await reasons(yard, *names)


async def reasons(yard: Yard, *names: str) -> dict[str, str]:
    found = {each: await yard.ledger.read(queries.submission(each)) for each in names}
    return {name: f"{each.state.value} {each.reason.value}" for name, each in found.items() if each}


async def test_F13_a_row_that_cannot_be_read_is_held_at_once(yard: Yard, store: Store):
    """Statistics that are no JSON or no numbers, findings of another shape: those are held, and the others are judged."""
    names = ["first", "torn", "odd", "worded", "last"]
    await yard.append(*names)
    await tear(store, "submissions", "stats = '{' WHERE submission_id = 'torn'")
    await tear(store, "submissions", "findings = '[7]' WHERE submission_id = 'odd'")
    await tear(store, "submissions", """stats = '{"moves": "three"}' WHERE submission_id = 'worded'""")
    due = await yard.ledger.read(work.due_to_assess(now_ms=yard.clock(), count=9))
    rankings = {"tiny": yard.boards["tiny"].ranking}
    assert 5 == len(await yard.ledger.read(promotion_impact.harms_of(due, rankings, {"tiny": 10})))
    assert {
        "first": "promoted verified",
        "torn": "held record-unreadable",
        "odd": "held record-unreadable",
        "worded": "held record-unreadable",
        "last": "promoted verified",
    } == await verified(yard, *names)
    held = await yard.ledger.read(queries.submissions_listed(names))
    assert [("torn", ("stats",), 1), ("odd", ("findings",), 1), ("worded", ("stats",), 1)] == [
        (each, held[each].unreadable, held[each].attempt) for each in ("torn", "odd", "worded")
    ]
    assert 5 == len(
        [
            each
            async for each in board_history.history_of_board(yard.ledger, "tiny")
            if each.to_state is State.PENDING
        ]
    )


@on_both_if_thorough
async def test_F13_nobody_promotes_what_cannot_be_read(yard: Yard, store: Store):
    """A moderator cannot approve it, and can reject it."""
    await yard.append("torn")
    await tear(store, "submissions", "stats = '[]'")
    assert {"torn": "held record-unreadable"} == await verified(yard, "torn")

    async def decided(state: State, reason: Reason) -> Any:
        decision = Decision("torn", state, "moderator:eve", reason, yard.clock(), frozenset({State.HELD}))
        [settled] = await settle(yard.ledger, yard.index, yard.boards["tiny"], [decision])
        return settled

    refused = await decided(State.PROMOTED, Reason.APPROVED)
    assert "the ledger's record of it cannot be read: stats" == str(refused)
    assert not isinstance(await decided(State.REJECTED, Reason.REJECTED_BY_MODERATOR), StateConflict)


async def test_F13_a_player_whose_baseline_is_torn_holds_up_nobody_else(yard: Yard, store: Store):
    """Where one run cannot be settled the others of its job are; it comes again, and in the end is held."""
    await yard.append("before", player="ada", points=5)
    assert {"before": "promoted verified"} == await verified(yard, "before")
    await tear(store, "baselines", "recent = '{' WHERE player = 'ada'")
    await yard.append("first", first=1)
    await yard.append("again", first=2, player="ada")
    await yard.append("last", first=3)
    assert {
        "first": "promoted verified",
        "again": "pending accepted",
        "last": "promoted verified",
    } == await verified(yard, "first", "again", "last")
    for _ in range(yard.settings.verify_attempts):
        yard.clock.shift(3600)
        await verified(yard, "again")
    assert {"again": "held attempts-exhausted"} == await reasons(yard, "again")


@on_both_if_thorough
async def test_F13_a_run_that_cannot_be_made_ready_holds_up_nobody_else(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """What fails as recordings are expanded or looked for costs the run an attempt, and in the end it is held."""
    names = ["first", "bad", "last"]
    await yard.append(*names)
    honest = evidence.put_and_find

    def failing(banded: list[BandedRecording]) -> Any:
        if any(each.player == "player-1" for each in banded):
            raise ZeroDivisionError
        return honest(banded)

    monkeypatch.setattr(evidence, "put_and_find", failing)
    assert {
        "first": "promoted verified",
        "bad": "pending accepted",
        "last": "promoted verified",
    } == await verified(yard, *names)
    for _ in range(yard.settings.verify_attempts):
        yard.clock.shift(3600)
        await verified(yard, "bad")
    assert {"bad": "held attempts-exhausted"} == await reasons(yard, "bad")


@on_both_if_thorough
async def test_F13_a_run_for_which_no_lot_can_be_drawn_is_verified(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """On a board that verifies a share, what fails before the draw is played again, and the others are spared."""
    boards.write_board(tmp_path / "policies", verification=SPARING)
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey, ledger_url=store.url)
        await yard.append("top", points=30, player="top")
        await yard.append("low", points=2, first=1, player="ada")
        assert {"top": "promoted verified"} == await verified(yard, "top")
        with monkeypatch.context() as patched:
            patched.setattr("validators.verification_priority.must_verify", lambda *_, **__: True)
            await verified(yard, "low")
        await yard.append("bad", first=2, player="ada", points=3)
        await yard.append("spared", first=3, player="ada", points=4)
        honest = verification_lottery.promotion_impact.impact_of

        def failing(ranking: Any, found: Any, top: int) -> Any:
            if found.submission_id == "bad":
                raise ZeroDivisionError
            return honest(ranking, found, top)

        monkeypatch.setattr(verification_lottery.promotion_impact, "impact_of", failing)
        assert {"bad": "promoted verified", "spared": "promoted sampled"} == await verified(
            yard, "bad", "spared"
        )


async def test_F13_an_audit_of_a_torn_row_ends_and_takes_no_other_with_it(yard: Yard, store: Store):
    """It is struck off as one that cannot be done; the audits beside it agree."""
    names = ["first", "torn", "odd", "last"]
    await yard.append(*names)
    await verified(yard, *names)
    await yard.draw(*names)
    await tear(store, "submissions", "stats = '{' WHERE submission_id = 'torn'")
    simulated = "'{\"simulated\": 7}' WHERE submission_id = 'odd' AND to_state = 'promoted'"
    await tear(store, "events", f"detail = {simulated}")
    before = {each: counted(each) for each in ("agrees", "unable")}
    assert 4 == await yard.audit(*names, fresh=AllSimulators)
    assert {"agrees": 2.0, "unable": 2.0} == {each: counted(each) - was for each, was in before.items()}
    assert [(0,)] == await store.sql(f"SELECT count(*) FROM outbox WHERE kind = '{audits.KIND}'")


def counted(outcome: str) -> float:
    return metric("scoregate_audits_total", board="tiny", outcome=outcome)


@on_both_if_thorough
async def test_F13_a_worker_that_does_not_know_a_board_yet_uses_up_no_attempt(yard: Yard):
    """It leaves the run, and the audit, to one that does; that one finds them at once."""
    await yard.append("new")
    parts: dict[str, Any] = {"recordings": yard.recordings, "clock": yard.clock}
    with AllSimulators() as simulators:
        unaware = Verifier(yard.settings, Catalogue(Policies()), yard.ledger, yard.index, simulators, **parts)
        for _ in range(yard.settings.verify_attempts + 1):
            assert 0 == await unaware.verify_all(["new"])
    assert {"new": "promoted verified"} == await verified(yard, "new")
    await yard.draw("new")
    leasing = audits.lease(["new"], boards=(), now_ms=yard.clock(), lease_ms=1000)
    assert [] == await yard.ledger.write(leasing)
    assert 1 == await yard.audit("new", fresh=AllSimulators)
