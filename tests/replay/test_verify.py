"""A claim is held against its replay: what differs is a mismatch, what fails is inconclusive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, Reason, SimulatorKind, Verdict, VerdictKind
from replay.fingerprint import fingerprint_of
from replay.recording import decode, encode
from replay.simulators import (
    MalformedRecording,
    Simulation,
    SimulationOutcome,
    SimulationRequest,
    SimulatorFault,
)
from replay.verify import verify
from tests.replay.games import END, STATS, play

SEED = 2**64 - 5
PLAY = play([1, 2, 3] * 10 + [END], SEED, 10)
CLAIM = Claim(PLAY.score, PLAY.ticks, PLAY.stats)
SIMULATION = Simulation(
    PLAY.ticks, True, PLAY.score, PLAY.state_hash, tuple(PLAY.stats.values()), tuple(PLAY.checkpoints), 77
)
REPLAY = Replay(
    maximum_ticks=100,
    checkpoint_ticks=10,
    stats=STATS,
    budget=Budget(fuel=5000),
)
SIMULATOR = Simulator("sha256:" + "a" * 64, Path("/nowhere/tiny.wasm"))


class FakeSimulators:
    """Simulators that give the answer they were made with and remember what they were asked."""

    def __init__(self, outcome: SimulationOutcome = SIMULATION) -> None:
        self.outcome = outcome
        self.requests: list[SimulationRequest] = []

    def engine_of(self, kind: SimulatorKind) -> str:
        """What the verdict names."""
        return "fake 1"

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """The answer it was made with."""
        self.requests.append(request)
        return self.outcome


def verdict(
    claim: Claim = CLAIM,
    recording: bytes | None = PLAY.recording,
    outcome: SimulationOutcome = SIMULATION,
    policy: Replay = REPLAY,
) -> Verdict:
    """The verdict on the honest play, but for what is given."""
    return verify(claim, recording, SEED, policy, SIMULATOR, FakeSimulators(outcome))


def judged(found: Verdict) -> tuple[VerdictKind, Reason]:
    """Kind and reason."""
    return found.kind, found.reason


def test_an_honest_claim_is_verified() -> None:
    """The verdict names simulator and engine and carries the numbers a moderator wants."""
    detail = {"simulated_score": PLAY.score, "simulated_ticks": PLAY.ticks, "fuel": 77}
    expected = Verdict(VerdictKind.VERIFIED, Reason.VERIFIED, SIMULATOR.digest, "fake 1", None, detail)
    assert replace(expected, simulated=fingerprint_of(SIMULATION)) == verdict()


def test_the_simulator_gets_ticket_seed_and_recorded_inputs() -> None:
    """P03: the seed is the ticket's; module, budget and interval are the policy's."""
    simulators = FakeSimulators()
    verify(CLAIM, PLAY.recording, SEED, REPLAY, SIMULATOR, simulators)
    expected = SimulationRequest(
        SIMULATOR.path,
        SIMULATOR.digest,
        SEED,
        PLAY.inputs,
        PLAY.ticks,
        10,
        REPLAY.budget,
        recording=PLAY.recording,
        stats=STATS,
    )
    assert [expected] == simulators.requests


def test_a_recording_that_was_decoded_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives the same verdict, and the simulator the same request."""
    played = decode(PLAY.recording, maximum_ticks=100)
    simulators, again = FakeSimulators(), FakeSimulators()
    before = verify(CLAIM, PLAY.recording, SEED, REPLAY, SIMULATOR, simulators)
    monkeypatch.delattr("replay.verify.decode")
    assert before == verify(CLAIM, PLAY.recording, SEED, REPLAY, SIMULATOR, again, played=played)
    assert simulators.requests == again.requests


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        (None, Reason.RECORDING_MISSING),
        (b"", Reason.RECORDING_MALFORMED),
        (PLAY.recording + b"\x00", Reason.RECORDING_MALFORMED),
        (play([1] * 101, SEED, 10).recording, Reason.RECORDING_MALFORMED),
        (play([1] * 30, SEED, 10).recording, Reason.TICKS_MISMATCH),
        (play([1, 2, 3] * 10 + [END], SEED, 5).recording, Reason.RECORDING_MALFORMED),
        (encode(PLAY.inputs, [], 0), Reason.RECORDING_MALFORMED),
    ],
    ids=["missing", "empty", "trailing byte", "too long", "other ticks", "other interval", "no checkpoints"],
)
def test_a_recording_that_cannot_bear_out_the_claim_is_not_simulated(
    recording: bytes | None, reason: Reason
) -> None:
    """Missing, malformed and ill-fitting recordings are mismatches, and cost no simulation."""
    simulators = FakeSimulators()
    found = verify(CLAIM, recording, SEED, REPLAY, SIMULATOR, simulators)
    assert (VerdictKind.MISMATCH, reason) == judged(found)
    assert [] == simulators.requests


@pytest.mark.parametrize("difference", [-1, 1, 10**9])
def test_P06_another_score_is_a_mismatch_whichever_way(difference: int) -> None:
    """P06: a claim above the simulated score is no more wrong than one below."""
    found = verdict(claim=replace(CLAIM, score=CLAIM.score + difference))
    assert (VerdictKind.MISMATCH, Reason.SCORE_MISMATCH) == judged(found)
    assert PLAY.score == found.detail["simulated_score"]


@pytest.mark.parametrize(
    "stats",
    [{}, {"scoring_ticks": 20}, PLAY.stats | {"largest_word": 0}, PLAY.stats | {"extra": 0}],
    ids=["none", "one missing", "one wrong", "one too many"],
)
def test_statistics_must_all_be_claimed_and_right(stats: dict[str, int]) -> None:
    """The claimed statistics are exactly the policy's names with the simulated values."""
    assert (VerdictKind.MISMATCH, Reason.STATS_MISMATCH) == judged(verdict(claim=replace(CLAIM, stats=stats)))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_first_differing_checkpoint_is_named(index: int) -> None:
    """The tick is the one of the first checkpoint that differs, whatever differs after it."""
    hashes = tuple(PLAY.checkpoints[:index]) + tuple(value ^ 1 for value in PLAY.checkpoints[index:])
    found = verdict(outcome=replace(SIMULATION, checkpoints=hashes))
    assert (VerdictKind.MISMATCH, Reason.DIVERGED) == judged(found)
    assert 10 * (index + 1) == found.first_divergent_tick


def test_divergence_comes_before_the_wrong_score_it_explains() -> None:
    """A diverged run also has another score, length and end; the checkpoint says most."""
    outcome = replace(SIMULATION, ticks=15, is_over=False, score=0, checkpoints=(PLAY.checkpoints[0] + 1,))
    assert Reason.DIVERGED is verdict(outcome=outcome).reason


def test_a_run_that_ended_earlier_is_another_length() -> None:
    """Inputs after the end of the run are not part of it; the checkpoints up to there agree."""
    found = verdict(outcome=replace(SIMULATION, ticks=25, checkpoints=SIMULATION.checkpoints[:2]))
    assert (VerdictKind.MISMATCH, Reason.TICKS_MISMATCH) == judged(found)
    assert found.first_divergent_tick is None


def test_a_recording_that_stops_early_is_not_over() -> None:
    """A run is only a result once the game says that it is over."""
    found = verdict(outcome=replace(SIMULATION, is_over=False))
    assert (VerdictKind.MISMATCH, Reason.NOT_OVER) == judged(found)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.OUT_OF_FUEL,
        Reason.TIMED_OUT,
        Reason.OUT_OF_MEMORY,
        Reason.SIMULATOR_TRAPPED,
        Reason.SIMULATOR_MISSING,
        Reason.SIMULATOR_UNUSABLE,
    ],
)
def test_a_fault_is_never_a_cheat_verdict(reason: Reason) -> None:
    """Whatever stops the simulator is inconclusive, with its numbers."""
    found = verdict(outcome=SimulatorFault(reason, {"fuel": 3}))
    assert (VerdictKind.INCONCLUSIVE, reason) == judged(found)
    assert {"fuel": 3} == found.detail


def test_the_simulators_word_that_it_is_no_recording_is_a_mismatch() -> None:
    """Bytes that the game itself cannot read are no evidence of a run; that is an answer, and no fault."""
    assert (VerdictKind.MISMATCH, Reason.RECORDING_MALFORMED) == judged(verdict(outcome=MalformedRecording()))


RAW = Replay(
    simulator="process",
    recording="raw",
    maximum_ticks=100,
    checkpoint_ticks=10,
    stats=STATS,
    budget=REPLAY.budget,
)


def test_a_raw_recording_is_handed_over_unread() -> None:
    """Whatever the bytes are, they are the game's own: there are no words of ours in them, and no checkpoints."""
    simulators = FakeSimulators(replace(SIMULATION, checkpoints=(1, 2)))
    found = verify(CLAIM, b"DEMO", SEED, RAW, SIMULATOR, simulators)
    assert (VerdictKind.VERIFIED, Reason.VERIFIED) == judged(found)
    [asked] = simulators.requests
    assert (b"DEMO", b"", CLAIM.ticks, 10, "process") == (
        asked.recording,
        asked.inputs,
        asked.ticks,
        asked.checkpoint_ticks,
        asked.kind,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ticks": 30}, Reason.TICKS_MISMATCH),
        ({"is_over": False}, Reason.NOT_OVER),
        ({"score": 0}, Reason.SCORE_MISMATCH),
        ({"stats": (0, 0)}, Reason.STATS_MISMATCH),
    ],
)
def test_a_raw_recording_is_compared_in_all_that_it_gives(change: dict[str, object], reason: Reason) -> None:
    """The same schema for all kinds: length, end, score and statistics."""
    found = verdict(recording=b"DEMO", outcome=replace(SIMULATION, **change), policy=RAW)
    assert (VerdictKind.MISMATCH, reason) == judged(found)


@pytest.mark.parametrize("stats", [(), (1,), (1, 2, 3)])
def test_a_simulator_with_other_statistics_than_the_policy_is_unusable(stats: tuple[int, ...]) -> None:
    """When policy and module disagree about the statistics, the player is not to blame."""
    found = verdict(outcome=replace(SIMULATION, stats=stats))
    assert (VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_UNUSABLE) == judged(found)
