"""Audits: a verified run is simulated twice more, and a simulator that disagrees with itself promotes nothing any more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.ledger.judgement import audits
from gateway.ledger.judgement.builds import build_changes_of
from gateway.recordings.recordings import Recordings
from policies.errors import RecordingsUnavailable
from policies.replaying import BuildStatus
from policies.vocabulary import Reason
from replay.fingerprint import differences, fingerprint_of
from replay.simulators import SimulationOutcome, SimulationRequest, SimulatorFault
from replay.simulators.all_simulators import AllSimulators
from tests.support import boards
from tests.support.boards import BUILD
from tests.support.ledger import rows
from tests.support.metrics import metric
from tests.support.programs import PLUGIN
from tests.support.valkey import ValkeyServer
from tests.support.yard import Fresh, Told, Yard, a_yard, simulation_of

RANDOM = f"""{PLUGIN}
import random
honest = simulate
def simulate(**asked):
    return dict(honest(**asked), state_hash="%016x" % random.getrandbits(64))
"""
"""Score, statistics and checkpoints are right, so its verdicts are; yet the state at the end is never the same."""


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    """The tiny game as a module, which always gives the same."""
    boards.write_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yield await a_yard(stack, tmp_path, valkey)


def write_plugin(folder: Path, source: str) -> None:
    """The tiny board, judged by a plug-in."""
    path = boards.write_board(folder)
    policy = json.loads(path.read_text())
    (folder / "game.py").write_text(source)
    policy["builds"] = {BUILD: {"simulator": "game.py"}}
    policy["replay"] |= {"simulator": "plugin", "budget": {"memory_mib": 64, "wall_ms": 20_000}}
    path.write_text(json.dumps(policy))


def counted(outcome: str) -> float:
    return metric("scoregate_audits_total", board="tiny", outcome=outcome)


async def test_P13_a_simulator_that_disagrees_with_itself_promotes_nothing_any_more(
    tmp_path: Path, valkey: ValkeyServer, capsys: pytest.CaptureFixture[str]
):
    """Its runs stay as they are, its build is provisional, the runs are named, and the next one waits for a moderator."""
    write_plugin(tmp_path / "policies", RANDOM)
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        simulators = stack.enter_context(AllSimulators())
        await yard.append("run-1", "run-2")
        assert ["promoted", "promoted"] == await yard.verify("run-1", "run-2", simulators=simulators)

        await yard.draw("run-1", "run-2")
        before = counted("disagrees")
        assert 2 == await yard.audit("run-1", "run-2", fresh=AllSimulators)

        assert {("tiny", BUILD): BuildStatus.PROVISIONAL} == await yard.statuses()
        [change] = await yard.ledger.read(build_changes_of("tiny"))
        assert "audit" == change.actor
        assert all(name in change.reason for name in ("run-1", "run-2", "state_hash"))
        assert before + 2 == counted("disagrees")
        assert ["promoted", "promoted"] == await yard.states("run-1", "run-2")
        said = capsys.readouterr()
        assert "simulator_disagrees" in said.out + said.err

        await yard.append("run-3", first=2)
        assert ["held"] == await yard.verify("run-3", simulators=simulators)
        found = await yard.ledger.read(queries.submission("run-3"))
        assert found
        assert Reason.BUILD_PROVISIONAL is found.reason


async def test_P13_a_simulator_that_agrees_is_left_alone(yard: Yard):
    """Control: two more simulations in processes of their own give what the verdict recorded; the audit is done once."""
    with AllSimulators() as simulators:
        await yard.append("run-1")
        await yard.verify("run-1", simulators=simulators)
    await yard.draw("run-1")
    before = counted("agrees")
    assert 1 == await yard.audit("run-1", fresh=AllSimulators)
    assert 0 == await yard.audit("run-1", fresh=AllSimulators)
    assert before + 1 == counted("agrees")
    assert {} == await yard.statuses()


@pytest.mark.parametrize("faulty", [0, 1], ids=["the-first", "the-second"])
async def test_P13_a_simulation_that_fails_accuses_nobody(yard: Yard, faulty: int):
    """A crash or a time-out says nothing about whether two results are the same."""
    await promoted(yard, "run-1")
    outcomes: list[SimulationOutcome] = [simulation_of(0), simulation_of(0)]
    outcomes[faulty] = SimulatorFault(Reason.TIMED_OUT)
    await yard.draw("run-1")
    before = counted("unable")
    assert 1 == await yard.audit("run-1", fresh=as_fresh(Told(*outcomes)))
    assert (before + 1, {}) == (counted("unable"), await yard.statuses())


@pytest.mark.parametrize("fact", ["ticks", "is_over", "score", "state_hash", "stats", "checkpoints"])
@pytest.mark.parametrize("differing", [0, 1], ids=["from-the-verdict", "from-each-other"])
async def test_P13_every_fact_is_compared_with_the_verdict_and_with_each_other(
    yard: Yard, fact: str, differing: int
):
    """Both new simulations against the recorded one, and one against the other: any difference is enough."""
    await promoted(yard, "run-1")
    true = simulation_of(0)
    other = {"is_over": False, "stats": (8, 9), "checkpoints": (1,)}.get(fact, 99)
    wrong = replace(true, **{fact: other})
    await yard.draw("run-1")
    outcomes = (wrong, wrong) if differing == 0 else (true, wrong)
    await yard.audit("run-1", fresh=as_fresh(Told(*outcomes)))
    assert {("tiny", BUILD): BuildStatus.PROVISIONAL} == await yard.statuses()
    [change] = await yard.ledger.read(build_changes_of("tiny"))
    assert f"({fact})" in change.reason


async def test_P13_a_simulator_that_was_replaced_is_not_held_against_the_old_verdicts(yard: Yard):
    """What another simulator gives says nothing about the one that verified the run."""
    await promoted(yard, "run-1")
    board = yard.boards["tiny"]
    replaced = replace(board.simulators[BUILD], digest=f"sha256:{'1' * 64}")
    yard.boards["tiny"] = replace(board, simulators={BUILD: replaced})
    await yard.draw("run-1")
    before = counted("unable")
    assert 1 == await yard.audit("run-1", fresh=as_fresh(Told(simulation_of(1), simulation_of(1))))
    assert (before + 1, {}) == (counted("unable"), await yard.statuses())


async def test_I11_an_audit_that_died_is_done_by_the_next_worker(yard: Yard):
    """A lease keeps a second worker away, ends by itself, and too many of them end the audit."""
    await promoted(yard, "run-1")
    await yard.draw("run-1")
    fresh = as_fresh(Told(*[simulation_of(0)] * 2))
    lease = audits.lease(["run-1"], now_ms=yard.clock(), lease_ms=60_000)
    assert 1 == len(await yard.ledger.write(lease))
    assert 0 == await yard.audit("run-1", fresh=fresh)
    yard.clock.shift(61)
    assert 1 == await yard.audit("run-1", fresh=fresh)

    await yard.draw("run-1")
    for _ in range(2 * yard.settings.verify_attempts):
        lease = audits.lease(["run-1"], now_ms=yard.clock(), lease_ms=0)
        await yard.ledger.write(lease)
    before = counted("unable")
    assert 1 == await yard.audit("run-1", fresh=fresh)
    assert before + 1 == counted("unable")


async def test_an_audit_waits_for_its_recording_while_the_store_is_away(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """An outage of the store is no outcome: the audit is done when it comes again."""
    await promoted(yard, "run-1")
    await yard.draw("run-1")
    fresh, before = as_fresh(Told(*[simulation_of(0)] * 2)), (counted("unable"), counted("agrees"))

    async def load(*_: Any) -> bytes:
        raise RecordingsUnavailable

    with monkeypatch.context() as outage:
        outage.setattr(Recordings, "load", load)
        await yard.audit("run-1", fresh=fresh)
    assert before == (counted("unable"), counted("agrees"))
    yard.clock.shift(3_600)
    assert 1 == await yard.audit("run-1", fresh=fresh)
    assert (before[0], before[1] + 1) == (counted("unable"), counted("agrees"))


async def test_the_lease_of_an_audit_outlasts_its_simulations(tmp_path: Path, valkey: ValkeyServer):
    """Two of ten minutes each: meanwhile no other worker begins the same."""
    boards.write_board(tmp_path / "policies", budget={"wall_ms": 600_000})
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        await promoted(yard, "run-1")
        await yard.draw("run-1")
        told = Leased(yard.settings.ledger_path, simulation_of(0))
        assert 1 == await yard.audit("run-1", fresh=as_fresh(told))
        assert told.lease_until_ms - yard.clock() > 2 * 590_000


async def test_P13_a_job_audits_nothing_that_was_not_drawn(yard: Yard):
    """Ids come out of Redis, where anybody may have put them: the ledger says what is to be audited."""
    await promoted(yard, "run-1")
    assert 0 == await yard.audit("run-1", "nobody", fresh=as_fresh(Told()))


def test_fingerprints_differ_where_simulations_do():
    """The names of what differs, in order; nothing for equal ones, whatever fuel they took."""
    one = simulation_of(0)
    assert [] == differences([fingerprint_of(one), fingerprint_of(replace(one, fuel=9))])
    assert ["score", "ticks"] == differences(
        [fingerprint_of(one), fingerprint_of(replace(one, score=0, ticks=1))]
    )


class Leased(Told):
    """Simulators that look, while they are asked, how long the one submission is leased."""

    def __init__(self, ledger: Path, outcome: SimulationOutcome) -> None:
        super().__init__(outcome, outcome)
        self.ledger = ledger
        self.lease_until_ms = 0

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        [[self.lease_until_ms]] = rows(self.ledger, "SELECT lease_until_ms FROM submissions")
        return super().simulate(request)


def as_fresh(told: Told) -> Fresh:
    return lambda: nullcontext(told)


async def promoted(yard: Yard, submission_id: str) -> None:
    await yard.append(submission_id)
    assert ["promoted"] == await yard.verify(submission_id, simulators=Told(simulation_of(0)))
