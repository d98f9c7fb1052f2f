"""Families of boards: lists of them, and what a player has on their boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .connection import Connection, given, segment
from .models import BoardEntry, EntryList, Family, FamilyBoardPage, FamilyPage, StandingPage


class FamilyReads(Connection):
    """Reads families of boards. Anybody may; every method raises `ScoregateError` for a refusal."""

    async def families(self) -> tuple[Family, ...]:
        """Return all families of this gateway, by name."""
        families: tuple[Family, ...] = ()
        cursor = None
        while True:
            page = FamilyPage.from_json(await self._get("/v1/families", None, given(cursor=cursor)))
            families += page.families
            if (cursor := page.next) is None:
                return families

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
        query = given(order=order, limit=limit, cursor=cursor) | filters
        return FamilyBoardPage.from_json(await self._get(f"{family_path(family)}/boards", None, query))

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
        query = given(window=window, limit=limit, cursor=cursor)
        path = f"{family_path(family)}/players/{segment(player)}/standings"
        return StandingPage.from_json(await self._get(path, self._viewer(), query))

    async def entries_on(
        self, player: str, boards: Sequence[str], *, window: str = "alltime"
    ) -> tuple[BoardEntry, ...]:
        """Return what a player has on up to 100 boards, in their order."""
        path = f"/v1/players/{segment(player)}/entries"
        query: dict[str, str | int] = {"boards": ",".join(boards), "window": window}
        return EntryList.from_json(await self._get(path, self._viewer(), query)).entries


def family_path(family: str) -> str:
    """Return the path of a family."""
    return f"/v1/families/{segment(family)}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
