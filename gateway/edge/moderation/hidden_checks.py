"""Hides in lists what a check asks: a submission in it is shown as held, as its case shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

from gateway.edge.auth.moderators import Moderator
from gateway.edge.context import Edge
from gateway.ledger.moderation.cases import StoredCase
from gateway.ledger.moderation.checks import checks_hidden_from
from gateway.ledger.reads import ReadKind
from policies.vocabulary import State


class _Listed(Protocol):
    """A submission in a list, as a row with names."""

    @property
    def submission_id(self) -> str:
        """The submission's id."""
        ...

    def _replace(self, *, state: str, reason: str) -> Self: ...


Row = TypeVar("Row", bound=_Listed)


async def hidden_checks(edge: Edge, moderator: Moderator) -> Mapping[str, StoredCase]:
    """Return the open checks, by submission, that this moderator is to take for cases."""
    return await edge.ledger.read(checks_hidden_from(moderator.name), ReadKind.MODERATION)


def shown_as_held(rows: Sequence[Row], checks: Mapping[str, StoredCase]) -> list[Row]:
    """Return submissions of a list, those in a check as it shows them."""
    return [
        row._replace(state=State.HELD.value, reason=checks[row.submission_id].reason)
        if row.submission_id in checks
        else row
        for row in rows
    ]


def first_hidden(checks: Mapping[str, StoredCase]) -> dict[str, int]:
    """Return the first event of each submission that its check hides; it hides all later ones, too."""
    return {submission_id: case.known_seq for submission_id, case in checks.items()}
