"""What a board cannot notice as its policy stands, for whoever has to answer for it."""

from __future__ import annotations

from collections.abc import Iterator

from policies.fields import SortOrder
from policies.model import Policy, Writes
from policies.vocabulary import Mode


def blind_spots_of(policy: Policy) -> Iterator[str]:
    """Sentences about what can go wrong unseen, and the setting that would change it where there is one."""
    if policy.writes is Writes.TRUSTED:
        yield (
            "a server that lies: what a registered server writes counts as it is, so a stolen key writes any score within "
            "the bounds until `scoregate key revoke`"
        )
        return
    if policy.writes is Writes.VERIFIED:
        yield "who played: a replay proves that the inputs give the score, not that a human gave them, in real time and alone"
    else:
        yield from _without_replay(policy)
    if policy.anomaly.prior is None and policy.validators.anomaly is not Mode.OFF:
        yield (
            f"an unusual newcomer, until {policy.anomaly.minimum_population} runs are promoted: `anomaly.prior` does not say "
            "what to expect before"
        )


def _without_replay(policy: Policy) -> Iterator[str]:
    yield (
        "an invented score: nothing is replayed, so a changed client claims whatever is within the bounds, and the moderator "
        "has no more than the claim to decide by; a `replay` section and `builds` end that"
    )
    if policy.velocity.points_per_second is None and policy.order is SortOrder.DESCENDING:
        yield "a score that came too fast: `velocity.points_per_second` does not say how fast points can come"
    if not policy.has_tick_rate:
        yield "how long a run lasted: neither `replay` nor `velocity.points_per_second` says that ticks are time"
