"""Gathers what a browser needs to play a recording, besides the recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.edge.http.responses import asset_url
from gateway.edge.wire.playback_answers import DivergenceShown, PlaybackShown, SimulatedShown
from gateway.ledger.records import StoredSubmission
from policies.board import Board
from policies.replaying import RecordingKind


def playback_shown(
    board: Board, submission: StoredSubmission, events: Sequence[Mapping[str, Any]]
) -> PlaybackShown:
    """Return how a submission on the board is played again. `events` are its own, oldest first."""
    policy, opened = board.policy, board.opened
    replay, verdict = policy.replay, _newest_verdict(events)
    return PlaybackShown(
        page=policy.playback.page,
        buttons=list(policy.playback.buttons),
        button_mask=policy.forensics.buttons,
        seed=str(submission.seed),
        build=submission.build,
        simulator=submission.simulator,
        parameters=opened.parameters.decode() if opened and opened.parameters else None,
        asset_url=asset_url(opened) if opened else None,
        ticks_per_second=policy.ticks_per_second,
        maximum_ticks=replay.maximum_ticks if replay else None,
        recording="raw" if replay and replay.recording is RecordingKind.RAW else "scoregate",
        divergence=_divergence(verdict),
        simulated=_simulated(verdict, replay.stats if replay else ()),
    )


def _newest_verdict(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the detail of the newest event that a replay caused; empty without one."""
    details: list[Mapping[str, Any]] = [event["detail"] for event in events]
    return next((detail for detail in reversed(details) if "verdict_reason" in detail), {})


def _divergence(verdict: Mapping[str, Any]) -> DivergenceShown | None:
    divergence = verdict.get("divergence")
    if not divergence:
        return None
    return DivergenceShown.model_validate(divergence)


def _simulated(verdict: Mapping[str, Any], names: Sequence[str]) -> SimulatedShown | None:
    if "simulated_score" not in verdict:
        return None  # the replay came to no end
    stats = verdict.get("simulated", {}).get("stats", ())
    return SimulatedShown(
        score=verdict["simulated_score"],
        ticks=verdict["simulated_ticks"],
        stats=dict(zip(names, stats, strict=False)),
    )
