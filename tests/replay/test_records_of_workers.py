"""What a worker leaves in the record: the evidence of a verdict, how long it has a run, and what it tells of an audit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import queries
from gateway.ledger.judgement import audits
from gateway.ledger.judgement.builds import BuildChange, set_build_status
from gateway.settlement import builds
from policies.loader import Policies
from policies.replaying import BuildStatus
from policies.vocabulary import Claim, Reason
from replay.fingerprint import fingerprint_of
from replay.simulators import SimulationOutcome, SimulationRequest
from replay.simulators.all_simulators import AllSimulators
from replay.worker.verifier import Verifier, longest_s
from tests.replay.games import END, Play, play
from tests.replay.test_audit import as_fresh, promoted
from tests.replay.test_verification_lottery import GENEROUS, judged
from tests.support import boards
from tests.support.boards import BUILD
from tests.support.ledger import new_submission, opened, rows
from tests.support.metrics import counts
from tests.support.valkey import ValkeyServer
from tests.support.yard import Told, Yard, a_yard, simulation_of


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    boards.write_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yield await a_yard(stack, tmp_path, valkey)


async def detail_of(yard: Yard, submission_id: str) -> dict[str, Any]:
    """The detail of the submission's last event."""
    found: dict[str, Any] = (await yard.ledger.read(queries.history_of(submission_id)))[-1]["detail"]
    return found


async def test_the_event_of_a_verdict_has_all_that_it_rests_on(yard: Yard):
    """Verdict, simulator, engine, the numbers of the simulation, which attempt it was, and the build's status then."""
    await yard.append("run-1")
    digest = yard.boards["tiny"].simulators[BUILD].digest
    played = simulation_of(0)
    assert ["promoted"] == await yard.verify("run-1", simulators=Told(played))
    assert {
        "verdict": "verified",
        "verdict_reason": "verified",
        "simulator": digest,
        "engine": "wasm",
        "first_divergent_tick": None,
        "divergence": None,
        "simulated": dict(fingerprint_of(played)),
        "attempt": 1,
        "findings": [],
        "build_status": "allow",
        "simulated_score": played.score,
        "simulated_ticks": played.ticks,
        "fuel": 0,
    } == await detail_of(yard, "run-1")


class Looking(Told):
    """Simulators that do something while they are asked."""

    def __init__(self, look: Any, *outcomes: SimulationOutcome) -> None:
        super().__init__(*outcomes)
        self.look = look
        self.seen: list[Any] = []

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        self.seen.append(self.look())
        return super().simulate(request)


async def test_I11_the_leases_of_a_job_outlast_all_of_its_replays(yard: Yard):
    """Each of its runs may take as long as the policy allows: meanwhile no other worker begins any of them."""
    names = [f"run-{number}" for number in range(4)]
    await yard.append(*names)
    look = lambda: rows(yard.settings.ledger_path, "SELECT MIN(lease_until_ms) FROM submissions")[0][0]  # noqa: E731
    simulators = Looking(look, *(simulation_of(number) for number in range(4)))
    began_ms = yard.clock()
    await yard.verify(*names, simulators=simulators)
    needed_s = yard.settings.lease_s + 4 * longest_s(Policies(yard.boards))
    assert 4 == len(simulators.seen)
    assert all(until_ms - began_ms >= needed_s * 1000 for until_ms in simulators.seen)


async def test_a_build_that_is_blocked_while_it_is_played_promotes_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """The kill switch holds for what is in a worker's hands; the event says what the build was by then."""
    await yard.append("run-1")
    monkeypatch.setattr(builds, "REFRESH_S", 0.0)

    async def block() -> None:
        async with opened(yard.settings.ledger_path) as elsewhere:
            await elsewhere.write(set_build_status(blocked(yard)))

    def elsewhere() -> None:
        with ThreadPoolExecutor() as threads:
            threads.submit(asyncio.run, block()).result()

    assert ["held"] == await yard.verify("run-1", simulators=Looking(elsewhere, simulation_of(0)))
    found = await yard.ledger.read(queries.submission("run-1"))
    assert found
    assert Reason.BUILD_BLOCKED is found.reason
    detail = await detail_of(yard, "run-1")
    assert ("blocked", "verified") == (detail["build_status"], detail["verdict"])


async def test_a_worker_hears_of_a_blocked_build_before_each_job(yard: Yard):
    """A worker that has waited for long knows of it; the run is held unplayed, and nobody is asked for its recording."""
    await yard.append("run-1")
    committed = new_submission("run-2", player="bob", at_ms=yard.clock(), recording=b"SGR1", seed=3)
    await yard.ledger.append(committed._replace(recording=None, reveal_ms=3_600_000))
    parts: dict[str, Any] = {"recordings": yard.recordings, "clock": yard.clock}
    verifier = Verifier(
        yard.settings, Catalogue(Policies(yard.boards)), yard.ledger, yard.index, Told(), **parts
    )
    await yard.ledger.write(set_build_status(blocked(yard)))
    with counts(0, "scoregate_reveals_total", board="tiny", outcome="asked"):
        await verifier.verify_all(["run-1", "run-2"])
    assert ["held", "held"] == await yard.states("run-1", "run-2")
    assert [("build-blocked",)] * 2 == rows(yard.settings.ledger_path, "SELECT reason FROM submissions")
    assert [] == rows(yard.settings.ledger_path, "SELECT * FROM outbox WHERE kind = 'reveal'")


def blocked(yard: Yard) -> BuildChange:
    return BuildChange("tiny", BUILD, BuildStatus.BLOCKED, "mara", "broken", yard.clock())


@pytest.mark.parametrize("status", [BuildStatus.ALLOW, BuildStatus.BLOCKED])
async def test_P13_the_log_says_whether_an_audit_took_a_builds_right(yard: Yard, status: BuildStatus):
    """Of one that is blocked nothing is taken: it stays as it is, and nobody reads that it was changed now."""
    await promoted(yard, "run-1")
    await yard.draw("run-1")
    if status is BuildStatus.BLOCKED:
        await yard.ledger.write(set_build_status(blocked(yard)))
    true = simulation_of(0)
    with capture_logs() as logs:
        await yard.audit("run-1", fresh=as_fresh(Told(true, replace(true, score=1, state_hash=2))))
    [told] = [each for each in logs if each["event"] == "simulator_disagrees"]
    digest = yard.boards["tiny"].simulators[BUILD].digest
    assert {
        "event": "simulator_disagrees",
        "log_level": "error",
        "board": "tiny",
        "build": BUILD,
        "simulator": digest,
        "submissions": ["run-1"],
        "differs": ["score", "state_hash"],
        "is_restricted": status is BuildStatus.ALLOW,
    } == told
    expected = BuildStatus.PROVISIONAL if status is BuildStatus.ALLOW else BuildStatus.BLOCKED
    assert {("tiny", BUILD): expected} == await yard.statuses()


class Failing(Told):
    """Simulators in which something is wrong that nobody foresaw."""

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        raise ZeroDivisionError(request.seed)


async def test_P13_an_audit_that_makes_us_fail_is_told_and_accuses_nobody(yard: Yard):
    """It is struck off as one that could not be done, by the run's id, and the others of its job are audited."""
    await promoted(yard, "run-1")
    await yard.draw("run-1")
    with (
        capture_logs() as logs,
        counts(1, "scoregate_unexpected_total", place="worker"),
        counts(1, "scoregate_audits_total", board="tiny", outcome="unable"),
    ):
        assert 1 == await yard.audit("run-1", fresh=as_fresh(Failing()))
    assert [("worker", "run-1")] == [(each["place"], each["submission"]) for each in logs]
    assert {} == await yard.statuses()


async def test_P13_an_audit_has_as_many_attempts_again_as_the_verdict(yard: Yard):
    """A run that was verified at the last attempt is audited all the same; its attempts are counted on."""
    await promoted(yard, "run-1")
    await yard.draw("run-1")
    for _ in range(2 * yard.settings.verify_attempts - 2):
        await yard.ledger.write(audits.lease(["run-1"], now_ms=yard.clock(), lease_ms=0))
    with counts(1, "scoregate_audits_total", board="tiny", outcome="agrees"):
        assert 1 == await yard.audit("run-1", fresh=as_fresh(Told(*[simulation_of(0)] * 2)))


def long_play(seed: int) -> Play:
    """Nine points in a run in which enough happens to be known again by."""
    rng = random.Random(seed)
    words = [word for _ in range(100) for word in [rng.choice((2, 4, 6, 8))] * rng.randint(2, 6)]
    words[10:90:10] = [1] * 8
    return play([*words, END], seed, boards.CHECKPOINT_TICKS)


async def append(yard: Yard, submission_id: str, player: str, played: Play, seed: int) -> None:
    new = new_submission(
        submission_id,
        player=player,
        at_ms=yard.clock(),
        recording=played.recording,
        simulator=yard.boards["tiny"].simulators[BUILD].digest,
        seed=seed,
    )
    claim = Claim(played.score, played.ticks, played.stats)
    await yard.ledger.append(new._replace(submission=new.submission._replace(claim=claim)))


@pytest.mark.parametrize(
    ("validators", "reason"),
    [
        ({}, "held recording-reused"),
        ({"recording_reuse": "off"}, "promoted sampled"),
        ({"recording_reuse": "off", "similarity": "off"}, "promoted sampled"),
    ],
)
async def test_M02_a_stolen_recording_is_looked_for_unless_the_board_says_not_to(
    tmp_path: Path, valkey: ValkeyServer, validators: dict[str, str], reason: str
):
    """With a share of 0 what has another's very recording is verified; a board that is not to look leaves it to chance."""
    boards.write_board(tmp_path / "policies", verification=GENEROUS | {"top": 1}, validators=validators)
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        with AllSimulators() as simulators:
            await yard.append("ada", first=0, player="ada", points=20)
            await append(yard, "bob", "bob", long_play(1), 1)
            await yard.append("cy", first=2, player="cy", points=6)
            assert ["promoted"] * 3 == await yard.verify("ada", "bob", "cy", simulators=simulators)
            await append(yard, "stolen", "cy", long_play(1), 1)
            assert [reason] == await judged(yard, "stolen", simulators=simulators)
