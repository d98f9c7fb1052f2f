"""The priority of verification: how much harm a submission would do if it were a lie."""

from __future__ import annotations

from typing import Final, NamedTuple

UNASSESSED: Final = -1
"""The harm of a submission that was not assessed yet."""

URGENT: Final = 4
"""The least harm of the urgent queue: a run that would enter the top, or is suspicious and would count."""


class PromotionImpact(NamedTuple):
    """The effect of promoting a submission now.

    `counts`: it would be, or be part of, a standing; `enters_top`: one among the first of a window;
    `is_newcomer`: its player has no standing on the board; `gain`: by how many points it beats the player's
    best standing.
    """

    counts: bool
    enters_top: bool
    is_newcomer: bool
    gain: int


def expected_harm(impact: PromotionImpact, *, is_flagged: bool) -> int:
    """Return the harm of a submission (0, 1, 2, 4, 8 or 16): its damage times its suspicion.

    The damage is 0 if no standing would change, 1 for the player's own, 4 in the top. The suspicion is 1 for
    a player with a standing, 2 for a newcomer, 4 if something was found. Neither scale is measured: they
    order work and decide nothing.
    """
    damage = 0 if not impact.counts else 4 if impact.enters_top else 1
    suspicion = 4 if is_flagged else 2 if impact.is_newcomer else 1
    return damage * suspicion


def must_verify(impact: PromotionImpact, *, allowed_gain: int) -> bool:
    """Return whether a submission is always verified: in the top, a newcomer's, or a large gain."""
    return impact.counts and (impact.enters_top or impact.is_newcomer or impact.gain > allowed_gain)


HARMS: Final = (0, 1, 2, 4, 8, 16)
"""All possible harms."""
