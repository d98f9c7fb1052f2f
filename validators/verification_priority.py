"""What verifying is spent on: how much harm a submission would do if it were a lie."""

from __future__ import annotations

from typing import Final, NamedTuple

UNASSESSED: Final = -1
"""The harm of a submission that nobody has looked at yet."""

URGENT: Final = 4
"""From this harm on a submission is in the urgent lane: it would enter the top, or is suspicious and would count."""


class PromotionImpact(NamedTuple):
    """What a submission would do to its board if it were promoted now.

    `counts`: it would be, or be part of, a standing; `enters_top`: one among the first of a window; `is_newcomer`: its
    player stands nowhere on the board; `gain`: by how many points it is better than the player's best standing.
    """

    counts: bool
    enters_top: bool
    is_newcomer: bool
    gain: int


def expected_harm(prospect: PromotionImpact, *, is_flagged: bool) -> int:
    """The harm of a submission: 0, 1, 2, 4, 8 or 16, what it would do times how little speaks for it.

    The damage is 0 where no standing would change, 1 for the player's own, 4 for one in the top; the suspicion is 1 for
    who has a standing, 2 for a newcomer, 4 where something was found. Neither scale is measured: they order the work,
    and decide nothing about it.
    """
    damage = 0 if not prospect.counts else 4 if prospect.enters_top else 1
    suspicion = 4 if is_flagged else 2 if prospect.is_newcomer else 1
    return damage * suspicion


def must_verify(prospect: PromotionImpact, *, allowed_gain: int) -> bool:
    """Whether a submission is verified whatever the draw: in the top, a newcomer's, or a gain of more points than allowed."""
    return prospect.counts and (prospect.enters_top or prospect.is_newcomer or prospect.gain > allowed_gain)


HARMS: Final = (0, 1, 2, 4, 8, 16)
"""Every harm there is."""
