"""What a board cannot notice under its policy, for the people who answer for it."""

from __future__ import annotations

from collections.abc import Iterator

from policies.choices import Writes
from policies.family_policy import FamilyPolicy
from policies.fields import SortOrder
from policies.model import Policy
from policies.seeds import SeedOf
from policies.vocabulary import Mode


def blind_spots_of(policy: Policy) -> Iterator[str]:
    """Yield sentences about what can go wrong unnoticed, with the setting that would help if any."""
    if policy.writes is Writes.TRUSTED:
        yield (
            "a server that lies: a registered server's scores count unchecked, so a stolen key writes any "
            "score within the bounds until `scoregate key revoke`"
        )
        return
    if policy.writes is Writes.DERIVED:
        return  # nobody writes to a rollup; its family has blind spots of its own
    if policy.writes is Writes.VERIFIED:
        yield (
            "who played: a replay proves that the inputs give the score, not that one human gave them in "
            "real time"
        )
    else:
        yield from _without_replay(policy)
    if policy.seed is SeedOf.BOARD:
        yield (
            "a course that was practised: the board's seed follows from its name and content, so whoever "
            "knows those before it opens can prepare a run; a random value in the parameters prevents that"
        )
    if isinstance(policy, FamilyPolicy) and policy.has_guessable_names:
        yield (
            "a board that no map has: a player's first run opens any name that matches `names`, within the "
            "limits of `opening`; list the names, or sign them with a key of `opening.signed_by`"
        )
    if policy.anomaly.prior is None and policy.validators.anomaly is not Mode.OFF:
        yield (
            f"an unusual newcomer, until {policy.anomaly.minimum_population} runs are promoted: without "
            "`anomaly.prior` nothing says what to expect before that"
        )


def _without_replay(policy: Policy) -> Iterator[str]:
    yield (
        "an invented score: nothing is replayed, so a modified client can claim any score within the bounds, "
        "and the moderator sees only the claim; add a `replay` section and `builds`"
    )
    if policy.velocity.points_per_second is None and policy.order is SortOrder.DESCENDING:
        yield "a score that came too fast: set `velocity.points_per_second` to the game's highest pace"
    if not policy.has_tick_rate:
        yield "how long a run lasted: neither `replay` nor `velocity.points_per_second` defines a tick"
