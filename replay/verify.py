"""Turns a claim and its recording into a verdict, by playing the recording again."""

from __future__ import annotations

from dataclasses import replace

from policies.loader import Simulator
from policies.replaying import RecordingKind, Replay
from policies.vocabulary import Claim, Reason, Verdict, VerdictKind
from replay.divergence import divergence_of
from replay.fingerprint import fingerprint_of
from replay.recording import Recording, RecordingError, decode
from replay.simulators import MalformedRecording, Simulation, SimulationRequest, SimulatorFault, Simulators
from replay.simulators.board_content import EMPTY_CONTENT, BoardContent


def verify(
    claim: Claim,
    recording: bytes | None,
    seed: int,
    replay: Replay,
    simulator: Simulator,
    simulators: Simulators,
    content: BoardContent = EMPTY_CONTENT,
    played: Recording | None = None,
) -> Verdict:
    """Return the verdict of re-simulating the recording, which is `played` if it was decoded before.

    A claim that the recording does not support is a mismatch. Anything that fails on our side, including the
    module, is inconclusive. `seed` is the u64 of the run's ticket; `content` is what its board gives the
    simulator.
    """
    engine = simulators.engine_of(replay.simulator)
    verdict = Verdict(VerdictKind.MISMATCH, Reason.RECORDING_MISSING, simulator.digest, engine)
    if recording is None:
        return verdict
    try:
        played = played or read_recording(recording, claim, replay)
    except RecordingError:
        return replace(verdict, reason=Reason.RECORDING_MALFORMED)
    reason = _before_simulation(claim, played, replay)
    if reason is not None:
        return replace(verdict, reason=reason)
    request = request_of(recording, played, seed, replay, simulator, content)
    outcome = simulators.simulate(request)
    if isinstance(outcome, MalformedRecording):
        return replace(verdict, reason=Reason.RECORDING_MALFORMED)
    if isinstance(outcome, SimulatorFault):
        unplayed = replace(verdict, kind=VerdictKind.INCONCLUSIVE, reason=outcome.reason)
        return replace(unplayed, detail=outcome.detail, said=outcome.said)
    divergence = divergence_of(played, outcome)
    kind, reason = _compared(claim, replay, outcome, is_divergent=divergence is not None)
    return replace(
        verdict,
        kind=kind,
        reason=reason,
        divergence=divergence if reason is Reason.DIVERGED else None,
        detail=_numbers(outcome),
        simulated=fingerprint_of(outcome),
    )


def read_recording(recording: bytes, claim: Claim, replay: Replay) -> Recording:
    """Return what the recording says before simulation: only its claimed length, in a game's own format.

    Raises RecordingError for bytes that should be our container and are not.
    """
    if replay.recording is RecordingKind.RAW:
        return Recording(claim.ticks, replay.checkpoint_ticks, b"", ())
    return decode(recording, maximum_ticks=replay.maximum_ticks)


def _before_simulation(claim: Claim, played: Recording, replay: Replay) -> Reason | None:
    """Return why the recording need not be simulated, or None."""
    if played.ticks != claim.ticks:
        return Reason.TICKS_MISMATCH
    if played.checkpoint_ticks != replay.checkpoint_ticks:
        return Reason.RECORDING_MALFORMED
    return None


def request_of(
    recording: bytes,
    played: Recording,
    seed: int,
    replay: Replay,
    simulator: Simulator,
    content: BoardContent = EMPTY_CONTENT,
) -> SimulationRequest:
    """Return the request that simulates a recording, as read by `read_recording`."""
    return SimulationRequest(
        module=simulator.path,
        digest=simulator.digest,
        seed=seed,
        inputs=played.inputs,
        ticks=played.ticks,
        checkpoint_ticks=played.checkpoint_ticks,
        budget=replay.budget,
        kind=replay.simulator,
        recording=recording,
        files=simulator.files,
        stats=replay.stats,
        runs_per_process=replay.runs_of_a_process,
        content=content,
    )


def _numbers(simulation: Simulation) -> dict[str, int]:
    """Return the numbers that moderators compare with the claim."""
    return {"simulated_score": simulation.score, "simulated_ticks": simulation.ticks, "fuel": simulation.fuel}


def _compared(
    claim: Claim, replay: Replay, simulation: Simulation, *, is_divergent: bool
) -> tuple[VerdictKind, Reason]:
    """Return the verdict's kind and reason from comparing the claim with the simulation."""
    if len(simulation.stats) != len(replay.stats):
        return VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_UNUSABLE
    if is_divergent:
        return VerdictKind.MISMATCH, Reason.DIVERGED
    reason = _difference(claim, simulation, dict(zip(replay.stats, simulation.stats, strict=True)))
    if reason is not None:
        return VerdictKind.MISMATCH, reason
    return VerdictKind.VERIFIED, Reason.VERIFIED


def _difference(claim: Claim, simulation: Simulation, stats: dict[str, int]) -> Reason | None:
    """Return the first difference between claim and simulation, the most telling one first; or None."""
    if simulation.ticks != claim.ticks:
        return Reason.TICKS_MISMATCH
    if not simulation.is_over:
        return Reason.NOT_OVER
    if simulation.score != claim.score:
        return Reason.SCORE_MISMATCH
    if dict(claim.stats) != stats:
        return Reason.STATS_MISMATCH
    return None
