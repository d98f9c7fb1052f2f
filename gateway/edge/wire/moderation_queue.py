"""The answers about the moderators' queue, and about who is in a case."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.edge.wire.bodies import Body
from gateway.edge.wire.fields import Answer
from gateway.edge.wire.moderation_decisions import CaseClaim
from gateway.edge.wire.outcomes import HeldSubmission


class QueuedCase(HeldSubmission):
    """A submission in the queue.

    `kind` is `held`, `appeal`, `second-approval` or `check`. `harm` is what it could do if it were a lie,
    from 0 to 16; null until a steward has assessed it. `claim` is who is in it now. `cannot_tell` counts
    moderators who could not tell, and with `needs_senior` a senior has to. `waits_until` is set while the
    player is asked something.
    """

    kind: str
    harm: int | None
    opened_at: str
    waiting_s: int
    claim: CaseClaim | None
    cannot_tell: int
    needs_senior: bool
    waits_until: str | None


class QueueShown(Answer):
    """Cases in the order of the queue, and the cursor of the next page, null at the end.

    A page may be short, or empty, and have a next one: a page looks at so many cases and no more.
    """

    cases: list[QueuedCase]
    next: str | None


class NextCase(Answer):
    """The case that the moderator is in now, null if there is none to be offered."""

    case: QueuedCase | None


class CaseHolding(Answer):
    """Who is in a case now, and how many could not tell."""

    submission: str
    claim: CaseClaim | None
    cannot_tell: int
    needs_senior: bool


class AgeCount(Answer):
    """How many cases have waited for so many seconds: at least `at_least_s`, and less than `under_s`.

    The oldest have no end. With `is_capped` there are more than `cases`.
    """

    at_least_s: int
    under_s: int | None
    cases: int
    is_capped: bool


class NewView(Body):
    """The filters of a queue, as its query has them."""

    filters: Annotated[
        dict[Annotated[str, Field(max_length=32)], Annotated[str, Field(max_length=128)]],
        Field(max_length=16),
    ]


class SavedView(Answer):
    """Filters of the queue under a name."""

    name: str
    filters: dict[str, str]


class SavedViewList(Answer):
    """A moderator's saved views, in the order of their names."""

    views: list[SavedView]


class QueueCounts(Answer):
    """How many cases wait, by reason, by age, and by board: families count as one.

    Of a moderator who has single boards of a family, the first 1000 cases there are counted, and `is_capped`
    tells that there are more. `oldest_at` is when the case that has waited longest was opened.
    """

    total: int
    reasons: dict[str, int]
    boards: dict[str, int]
    ages: list[AgeCount]
    oldest_at: str | None
    is_capped: bool
