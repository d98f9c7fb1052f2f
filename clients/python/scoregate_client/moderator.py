"""The asynchronous client of a moderator: it takes cases, decides, bans, and reads what was done."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Final, TypedDict, Unpack

from yarl import URL

from .batch_models import TrailEvent, TrailFile
from .figures import Figures
from .moderator_batches import BatchModeration
from .moderator_cases import CaseModeration
from .moderator_people import PeopleModeration
from .moderator_players import PlayerModeration
from .moderator_requests import Time
from .player_models import WhoAmI

_NEXT: Final = re.compile(r'<([^>]*)>[^,]*rel="?next')


class TrailFilters(TypedDict, total=False):
    """What a moderator did, for a reason, on a board or family, about a player, in a time."""

    moderator: str
    reason: str
    board: str
    player: str
    since: Time
    until: Time


class ModeratorClient(CaseModeration, PlayerModeration, BatchModeration, PeopleModeration):
    """The client of a moderator's program, by a personal token.

    Every method raises `ScoregateError` for a refusal: its `name` is `case-claimed` where a colleague is in
    the case, and `precondition-failed` where it has changed since it was read. What yields items reads page
    after page as it goes.
    """

    async def who_am_i(self) -> WhoAmI:
        """Return whom the token acts for, and what it may do where."""
        return WhoAmI.from_json(await self._read("/session"))

    async def figures(
        self, *, board: str | None = None, since: Time | None = None, until: Time | None = None
    ) -> Figures:
        """Return how decisions went, and how right validators were, on a board or family, or on all."""
        return Figures.from_json(
            await self._read("/figures", {"board": board, "since": since, "until": until})
        )

    def trail(self, **filters: Unpack[TrailFilters]) -> AsyncGenerator[TrailEvent, None]:
        """Yield what moderators did, newest first."""
        return self._all(TrailEvent, "/trail", "events", filters)

    async def trail_csv(self, *, cursor: str | None = None, **filters: Unpack[TrailFilters]) -> TrailFile:
        """Return up to 1,000 rows of what moderators did as CSV, newest first, for seniors."""
        answer = await self._file("/trail.csv", {**filters, "cursor": cursor})
        following = _NEXT.search(answer.headers.get("link", ""))
        return TrailFile(answer.body, URL(following[1]).query.get("cursor") if following else None)
