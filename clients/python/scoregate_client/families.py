"""Families of boards: lists of them, and what a player has on their boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import Connection, segment
from .models import (
    BoardEntry,
    BoardOutcome,
    Family,
    FamilyBoardPage,
    StandingPage,
)


class FamilyReads(Connection):
    """Reads families of boards. Anybody may; every method raises `ScoregateError` for a refusal."""

    async def families(self) -> tuple[Family, ...]:
        """Return all families of this gateway, by name."""
        families: list[Family] = []
        after: dict[str, str | int] = {}
        while True:
            page = await self._get("/v1/families", **after)
            families += map(Family.from_json, page["families"])
            if page["next"] is None:
                return tuple(families)
            after = {"cursor": page["next"]}

    async def family_boards(
        self,
        family: str,
        *,
        order: str = "name",
        limit: int = 25,
        cursor: str | None = None,
        metadata: Mapping[str, str | int | bool] | None = None,
    ) -> FamilyBoardPage:
        """Return a page of a family's boards by `name`, `newest` or `played` (most played of late).

        `metadata` are values to filter by. A filtered page may be short, or even empty, and still have a
        `next`.
        """
        filters = {f"metadata.{name}": _text(value) for name, value in (metadata or {}).items()}
        after = {"cursor": cursor} if cursor else {}
        query: dict[str, str | int] = {"order": order, "limit": limit, **after, **filters}
        return FamilyBoardPage.from_json(await self._get(f"{family_path(family)}/boards", **query))

    async def standings(
        self,
        family: str,
        player: str,
        *,
        window: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> StandingPage:
        """Return a page of the boards of a family on which a player stands, by name, with the ranks.

        Without a window or a cursor it is that of `alltime`.
        """
        options = {"window": window, "cursor": cursor}
        query: dict[str, str | int] = {name: value for name, value in options.items() if value is not None}
        path = f"{family_path(family)}/players/{segment(player)}/standings"
        return StandingPage.from_json(await self._get(path, limit=limit, **query))

    async def entries_on(
        self, player: str, boards: Sequence[str], *, window: str = "alltime"
    ) -> tuple[BoardEntry, ...]:
        """Return what a player has on up to 100 boards, in their order."""
        path = f"/v1/players/{segment(player)}/entries"
        document = await self._get(path, boards=",".join(boards), window=window)
        return tuple(map(BoardEntry.from_json, document["entries"]))


def board_outcomes(document: Mapping[str, Any]) -> tuple[BoardOutcome, ...]:
    """Return the outcomes of a batch of operations on boards."""
    return tuple(map(BoardOutcome.from_json, document["results"]))


def family_path(family: str) -> str:
    """Return the path of a family."""
    return f"/v1/families/{segment(family)}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
