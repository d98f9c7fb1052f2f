"""A share below 1: what changes much is always verified, the rest by chance, and what was spared can be called in."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.http.responses import submission_status
from gateway.ledger import queries
from gateway.ledger.judgement import promotion_impact, sampling
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Operation
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.audits.top_check import TopCheck
from policies.errors import PolicyError
from policies.explanation import explanation
from policies.loader import Policies
from policies.replaying import detection_probability
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity, State
from replay.simulators.all_simulators import AllSimulators
from replay.worker.verifier import Verifier
from tests.support import boards
from tests.support.boards import BUILD, tiny_play
from tests.support.ledger import new_submission, rows
from tests.support.valkey import ValkeyServer
from tests.support.yard import Told, Yard, a_yard
from validators.judge import Judgement

GENEROUS = {"top": 2, "beats_best_by": 10, "share": 0.0}


class Spare(random.Random):
    """Chance as it is told to be."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0) if self.numbers else 0.5


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    """Ada and bob are the top of two with 20 and 18, cy stands behind with 6; nothing else need be verified."""
    boards.write_board(tmp_path / "policies", verification=GENEROUS)
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        with AllSimulators() as simulators:
            for number, (player, points) in enumerate([("ada", 20), ("bob", 18), ("cy", 6)]):
                await yard.append(player, first=number, player=player, points=points)
                assert ["promoted"] == await yard.verify(player, simulators=simulators)
        yield yard


async def judged(
    yard: Yard, *ids: str, chance: random.Random | None = None, simulators: Any = None
) -> list[str]:
    """The reasons after a worker was at it; without simulators, one that fails if anything is simulated."""
    parts: dict[str, Any] = {"recordings": yard.recordings, "clock": yard.clock}
    simulators = simulators or Told()
    verifier = Verifier(
        yard.settings, Catalogue(Policies(yard.boards)), yard.ledger, yard.index, simulators, **parts
    )
    verifier._lottery._chance = chance or Spare()
    await verifier.verify_all(ids)
    return [await reason_of(yard, each) for each in ids]


async def reason_of(yard: Yard, submission_id: str) -> str:
    found = await yard.ledger.read(queries.submission(submission_id))
    assert found
    return f"{found.state.value} {found.reason.value}"


def put_up(yard: Yard) -> set[str]:
    path = yard.settings.ledger_path
    return {row[0] for row in rows(path, "SELECT submission_id FROM outbox WHERE kind = 'recheck'")}


async def test_what_changes_little_is_settled_by_chance_and_marked(yard: Yard):
    """An own best below the top counts unverified, and says so; a worse run is superseded. The draw is on record."""
    await yard.append("better", first=10, player="cy", points=9)
    await yard.append("worse", first=11, player="cy", points=2)
    assert ["promoted sampled", "superseded not-verified"] == await judged(yard, "better", "worse")

    found = await yard.ledger.read(queries.submission("better"))
    assert found
    assert submission_status(found, None).verified is False
    verified = await yard.ledger.read(queries.submission("cy"))
    assert verified
    assert submission_status(verified, None).verified is True
    event = (await yard.ledger.read(queries.history_of("better")))[-1]
    assert ("budget", 0.5, 0.0) == (event["actor"], event["detail"]["drawn"], event["detail"]["share"])


@pytest.mark.parametrize(
    ("player", "points"),
    [
        pytest.param("cy", 19, id="enters-the-top"),
        pytest.param("dot", 3, id="newcomer"),
        pytest.param("cy", 17, id="gains-more-than-allowed"),
    ],
)
async def test_what_would_do_harm_is_always_verified(yard: Yard, player: str, points: int):
    """With a share of 0: the top, a newcomer, a gain of more than ten points."""
    await yard.append("run", first=20, player=player, points=points)
    with AllSimulators() as simulators:
        assert ["promoted verified"] == await judged(yard, "run", simulators=simulators)


async def test_what_was_flagged_or_has_no_recording_is_always_verified(yard: Yard):
    """Neither is left to chance: a flag waits for a moderator, and a claim without a recording is rejected."""
    played, digest = tiny_play(30, points=8), yard.boards["tiny"].simulators[BUILD].digest
    finding = Finding(Reason.ANOMALY_PLAYER, 9.0, Expected(at_most=4), severity=Severity.FLAG)
    facts: dict[str, Any] = {
        "player": "cy",
        "seed": 30,
        "simulator": digest,
        "score": 8,
        "at_ms": yard.clock(),
    }
    flagged = new_submission("flagged", recording=played.recording, **facts)
    judgement = Judgement(State.PENDING, Reason.ACCEPTED, (finding,))
    claim = Claim(played.score, played.ticks, played.stats)
    flagged = flagged._replace(submission=flagged.submission._replace(claim=claim), judgement=judgement)
    await yard.ledger.append(flagged)
    await yard.ledger.append(new_submission("bare", recording=None, **facts))
    with AllSimulators() as simulators:
        assert ["held anomaly-player", "rejected recording-missing"] == await judged(
            yard, "flagged", "bare", simulators=simulators
        )


async def test_the_share_that_is_drawn_is_verified(yard: Yard):
    """A number below the share: replayed. What was begun before is never drawn for again."""
    policy = yard.boards["tiny"].policy
    share = policy.verification.model_copy(update={"share": 0.3})
    object.__setattr__(yard.boards["tiny"], "policy", policy.model_copy(update={"verification": share}))
    await yard.append("drawn", first=40, player="cy", points=7)
    await yard.append("spared", first=41, player="cy", points=8)
    with AllSimulators() as simulators:
        assert ["promoted verified", "promoted sampled"] == await judged(
            yard, "drawn", "spared", chance=Spare(0.29, 0.3), simulators=simulators
        )


async def test_a_conviction_puts_all_of_the_players_unverified_runs_up(yard: Yard):
    """One false run: what counted unverified is replayed, an honest one stays, a false one goes off the board."""
    await yard.append("honest", first=50, player="cy", points=7)
    await yard.append("false", first=51, player="cy", points=8)
    await forge(yard, "forged", number=52, claimed=9)
    assert ["promoted sampled"] * 3 == await judged(yard, "honest", "false", "forged")
    assert set() == put_up(yard)

    await forge(yard, "caught", number=53, claimed=999)
    with AllSimulators() as simulators:
        assert ["rejected score-mismatch"] == await judged(yard, "caught", simulators=simulators)
        assert {"honest", "false", "forged"} == put_up(yard)
        assert ["promoted verified", "promoted verified", "revoked score-mismatch"] == await judged(
            yard, "honest", "false", "forged", simulators=simulators
        )
    assert set() == put_up(yard)
    [best] = rows(
        yard.settings.ledger_path,
        "SELECT score, submission_id FROM standings WHERE player = 'cy' AND \"window\" = 'alltime'",
    )
    assert (8, "false") == best


async def test_a_conviction_leaves_out_what_is_put_up_and_a_slice_bounds_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """Two in the conviction's own transaction, the rest by the steward; a second conviction writes nothing again."""
    monkeypatch.setattr(sampling, "SLICE", 2)
    names = [f"run-{n}" for n in range(5)]
    for number, name in enumerate(names, start=70):
        await yard.append(name, first=number, player="cy", points=7 + number % 5)
        assert ["promoted sampled"] == await judged(yard, name)
    await revoke(yard, "cy")
    assert 2 == len(put_up(yard))
    again: list[object] = []
    before = sampling.queue_rechecks

    def noted(found: Sequence[sampling.SampledSubmission], *, now_ms: int) -> Operation[int]:
        again.extend(each.submission_id for each in found)
        return before(found, now_ms=now_ms)

    monkeypatch.setattr(sampling, "queue_rechecks", noted)
    for _ in range(3):
        for row in await yard.ledger.read(work.due(sampling.RECALL, now_ms=yard.clock(), count=9)):
            await yard.ledger.write(sampling.recall(row, now_ms=yard.clock()))
    assert set(names) == put_up(yard)
    assert 3 == len(again)
    assert [] == await yard.ledger.read(work.due(sampling.RECALL, now_ms=yard.clock(), count=9))
    await revoke(yard, "run-0")
    assert 3 == len(again)


async def test_a_conviction_calls_in_what_was_spared_before_the_board_verified_everything(yard: Yard):
    """Who raises the share to 1 because of cheats gets at what they brought in while it was lower."""
    await yard.append("spared", first=55, player="cy", points=8)
    assert ["promoted sampled"] == await judged(yard, "spared")
    policy = yard.boards["tiny"].policy
    everything = policy.verification.model_copy(update={"share": 1.0})
    object.__setattr__(yard.boards["tiny"], "policy", policy.model_copy(update={"verification": everything}))

    await revoke(yard, "cy")
    assert {"spared"} == put_up(yard)


async def test_what_was_spared_before_the_board_verified_everything_does_not_rise_unverified(yard: Yard):
    """The top is looked at whatever the share is now."""
    await yard.append("spared", first=56, player="cy", points=9)
    assert ["promoted sampled"] == await judged(yard, "spared")
    policy = yard.boards["tiny"].policy
    everything = policy.verification.model_copy(update={"share": 1.0})
    check = TopCheck(yard.ledger, policy.model_copy(update={"verification": everything}), clock=yard.clock)

    await revoke(yard, "bob")
    assert 1 == await check.step()
    assert {"spared"} == put_up(yard)


async def test_whatever_counts_enters_a_top_that_is_not_full(yard: Yard):
    """Three stand on the board: of ten places there is one for everybody, of two none for a lesser gain."""
    await yard.append("run", first=57, player="cy", points=7)
    found = await yard.ledger.read(queries.submission("run"))
    assert found
    ranking = yard.boards["tiny"].ranking
    ahead = [await yard.ledger.read(promotion_impact.impact_of(ranking, found, top)) for top in (2, 3, 10)]
    assert [False, True, True] == [each.enters_top for each in ahead]


async def test_what_comes_into_the_top_unverified_is_put_up_once(yard: Yard):
    """Bob's best is taken back, and cy's sampled one is among the first two: it is verified then."""
    await yard.append("sampled", first=60, player="cy", points=9)
    await judged(yard, "sampled")
    check = TopCheck(yard.ledger, yard.boards["tiny"].policy, clock=yard.clock)
    assert 0 == await check.step()

    await revoke(yard, "bob")
    assert 1 == await check.step()
    assert 0 == await check.step()
    assert {"sampled"} == put_up(yard)
    with AllSimulators() as simulators:
        assert ["promoted verified"] == await judged(yard, "sampled", simulators=simulators)
    assert 0 == await check.step()


async def test_M02_a_run_that_was_begun_is_never_drawn_for_again(yard: Yard):
    """Its worker died while it was drawn, or played: with the same luck as the first it is verified now, not spared."""
    await yard.append("begun", first=65, player="cy", points=9)
    now_ms = yard.clock()
    assert await yard.ledger.write(work.lease_all(["begun"], now_ms=now_ms, lease_ms=1_000))
    yard.clock.shift(2)
    with AllSimulators() as simulators:
        assert ["promoted verified"] == await judged(yard, "begun", simulators=simulators)


async def test_M01_the_top_of_every_window_is_verified(yard: Yard):
    """Third on its day and below the top of all time, it is spared; as one before it on that day goes, it is put up."""
    yard.clock.shift(40 * 86_400)
    with AllSimulators() as simulators:
        for number, (player, points) in enumerate([("dot", 12), ("eli", 11)], start=66):
            await yard.append(player, first=number, player=player, points=points)
            assert ["promoted"] == await yard.verify(player, simulators=simulators)
    await yard.append("sampled", first=68, player="cy", points=9)
    assert ["promoted sampled"] == await judged(yard, "sampled", chance=Spare(0.9))
    check = TopCheck(yard.ledger, yard.boards["tiny"].policy, clock=yard.clock)
    assert 0 == await check.step()
    await revoke(yard, "dot")
    assert 1 == await check.step()
    assert {"sampled"} == put_up(yard)


async def forge(yard: Yard, submission_id: str, *, number: int, claimed: int) -> None:
    """A run of cy's that claims more than its recording gives."""
    played = tiny_play(number, points=3)
    digest = yard.boards["tiny"].simulators[BUILD].digest
    new = new_submission(
        submission_id,
        player="cy",
        recording=played.recording,
        simulator=digest,
        seed=number,
        at_ms=yard.clock(),
    )
    claim = Claim(claimed, played.ticks, played.stats)
    await yard.ledger.append(new._replace(submission=new.submission._replace(claim=claim)))


async def revoke(yard: Yard, submission_id: str) -> None:
    decision = Decision(
        submission_id,
        State.REVOKED,
        "moderator:mara",
        Reason.REVOKED_BY_MODERATOR,
        yard.clock(),
        frozenset({State.PROMOTED}),
    )
    await settle(yard.ledger, yard.index, yard.boards["tiny"], [decision])


@pytest.mark.parametrize(("share", "runs", "chance"), [(1, 1, 1), (0, 9, 0), (0.1, 1, 0.1), (0.1, 44, 0.99)])
def test_the_chance_to_catch_one_of_several_false_runs(share: float, runs: int, chance: float):
    """1 - (1 - p)^n: a tenth catches one of 44 false runs with 99 %."""
    assert chance == pytest.approx(detection_probability(share, runs), abs=0.001)


def test_what_a_share_catches_is_told_in_words(tmp_path: Path):
    """`policy check` states the probability; for a board that verifies everything there is nothing to tell."""
    told = dict(explanation(boards.board(tmp_path, verification=GENEROUS | {"share": 0.1}), {}))
    assert "1 - (1 - 0.1)^n: 1 with 10.0%, 10 with 65.1%, 100 with 100.0%" in told["verified"]
    assert "verified" not in dict(explanation(boards.board(tmp_path), {}))


def test_a_share_needs_a_board_where_a_run_can_change_nothing(tmp_path: Path):
    """On a board that sums every run counts, and an open board verifies nothing: both are refused, with the line."""
    for changes in ({"operator": "sum"}, {"operator": "latest"}, {"writes": "open"}):
        with pytest.raises(PolicyError, match=r"verification\.share"):
            boards.board(tmp_path, verification=GENEROUS, **changes)
