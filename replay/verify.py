"""Turns a claim and its recording into a verdict, by playing the recording again."""

from __future__ import annotations

from dataclasses import replace

from policies.loader import Simulator
from policies.replaying import Replay
from policies.vocabulary import Claim, Reason, Verdict, VerdictKind
from replay.divergence import divergence_of
from replay.recording import Recording, RecordingError, decode
from replay.simulators import Fault, Simulation, SimulationRequest, Simulators


def verify(
    claim: Claim,
    recording: bytes | None,
    seed: int,
    replay: Replay,
    simulator: Simulator,
    simulators: Simulators,
) -> Verdict:
    """What re-simulating the recording says about the claim.

    A claim that the recording does not bear out is a mismatch; whatever goes wrong on our side of it, the
    module included, is inconclusive. `seed` is the u64 of the run's ticket.
    """
    verdict = Verdict(VerdictKind.MISMATCH, Reason.RECORDING_MISSING, simulator.digest, simulators.engine)
    if recording is None:
        return verdict
    try:
        played = decode(recording, maximum_ticks=replay.maximum_ticks)
    except RecordingError:
        return replace(verdict, reason=Reason.RECORDING_MALFORMED)
    reason = _before_simulation(claim, played, replay)
    if reason is not None:
        return replace(verdict, reason=reason)
    outcome = simulators.simulate(_request(played, seed, replay, simulator))
    if isinstance(outcome, Fault):
        return replace(verdict, kind=VerdictKind.INCONCLUSIVE, reason=outcome.reason, detail=outcome.detail)
    return _compared(replace(verdict, detail=_numbers(outcome)), claim, played, replay, outcome)


def _before_simulation(claim: Claim, played: Recording, replay: Replay) -> Reason | None:
    """Why the recording need not be simulated, or None."""
    if played.ticks != claim.ticks:
        return Reason.TICKS_MISMATCH
    if played.checkpoint_ticks != replay.checkpoint_ticks:
        return Reason.RECORDING_MALFORMED
    return None


def _request(played: Recording, seed: int, replay: Replay, simulator: Simulator) -> SimulationRequest:
    return SimulationRequest(
        module=simulator.path,
        digest=simulator.digest,
        seed=seed,
        inputs=played.inputs,
        ticks=played.ticks,
        checkpoint_ticks=played.checkpoint_ticks,
        budget=replay.budget,
    )


def _numbers(simulation: Simulation) -> dict[str, int]:
    """What a moderator wants to see beside the claim."""
    return {"simulated_score": simulation.score, "simulated_ticks": simulation.ticks, "fuel": simulation.fuel}


def _compared(
    verdict: Verdict, claim: Claim, played: Recording, replay: Replay, simulation: Simulation
) -> Verdict:
    """The verdict once the claim was held against the simulation."""
    if len(simulation.stats) != len(replay.stats):
        return replace(verdict, kind=VerdictKind.INCONCLUSIVE, reason=Reason.SIMULATOR_UNUSABLE)
    divergence = divergence_of(played, simulation)
    if divergence is not None:
        return replace(verdict, reason=Reason.DIVERGED, divergence=divergence)
    reason = _difference(claim, simulation, dict(zip(replay.stats, simulation.stats, strict=True)))
    if reason is not None:
        return replace(verdict, reason=reason)
    return replace(verdict, kind=VerdictKind.VERIFIED, reason=Reason.VERIFIED)


def _difference(claim: Claim, simulation: Simulation, stats: dict[str, int]) -> Reason | None:
    """The first way in which the claim differs from the simulation, the one that explains most; or None."""
    if simulation.ticks != claim.ticks:
        return Reason.TICKS_MISMATCH
    if not simulation.is_over:
        return Reason.NOT_OVER
    if simulation.score != claim.score:
        return Reason.SCORE_MISMATCH
    if dict(claim.stats) != stats:
        return Reason.STATS_MISMATCH
    return None
