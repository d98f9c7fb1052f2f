"""Factories of policies and submissions for tests of pure functions."""

from __future__ import annotations

from typing import Any

from policies.judging import Anomaly, Bounds, Prior, Velocity
from policies.model import Policy
from policies.replaying import Build, Replay
from policies.vocabulary import Claim
from validators.submission import Submission


def a_policy(**changed: Any) -> Policy:
    """A small policy: scores 0 to 10,000 in steps of 10, 100 points a second, a minute of play."""
    fields: dict[str, Any] = {
        "board": "test",
        "title": "Test",
        "score": Bounds(minimum=0, maximum=10_000, step=10),
        "velocity": Velocity(points_per_second=100.0, slack_s=2.0),
        "anomaly": Anomaly(
            threshold=3.0,
            minimum_history=5,
            minimum_population=10,
            spread_floor=50.0,
            prior=Prior(mean=1_000.0, spread=500.0),
        ),
        "builds": {"b1": Build(simulator="game.wasm")},
        "replay": Replay(maximum_ticks=3_600, stats=("kills",)),
    }
    return Policy(**(fields | changed))


def a_submission(
    *, score: int = 1_000, ticks: int = 1_200, elapsed_s: float = 25.0, stats: dict[str, int] | None = None
) -> Submission:
    """A submission of twenty seconds of play, sent five seconds later."""
    return Submission(
        submission_id="r1",
        board="test",
        player="p1",
        build="b1",
        seed=7,
        issued_at_ms=1_000_000,
        received_at_ms=1_000_000 + int(elapsed_s * 1000),
        claim=Claim(score, ticks, stats if stats is not None else {"kills": 3}),
        has_recording=True,
    )
