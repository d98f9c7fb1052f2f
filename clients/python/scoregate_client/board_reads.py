"""Reads of boards: which there are, their pages, and single entries."""

from __future__ import annotations

from collections.abc import Sequence

from .connection import Connection, board_path, given, segment
from .models import Board, BoardPage, Entry, EntryPage


class BoardReads(Connection):
    """Reads boards. Anybody may, but for what is filtered by friends."""

    token: str | None = None
    """The player's bearer token, with which the gateway knows whose friends are meant."""

    async def boards(self, *, limit: int | None = None, cursor: str | None = None) -> BoardPage:
        """Return a page of the boards by name. Its `next` is the `cursor` of the following one."""
        query = given(limit=limit, cursor=cursor)
        return BoardPage.from_json(await self._get("/v1/boards", None, query))

    async def board(self, board: str) -> Board:
        """Return the description of a board."""
        return Board.from_json(await self._get(board_path(board)))

    async def entries(
        self,
        board: str,
        *,
        window: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        ranks: str | None = None,
        friends: bool = False,
        players: Sequence[str] = (),
        segment: str | None = None,
    ) -> EntryPage:
        """Return a page of a board: of `alltime`, from the best on, with 25 entries, unless told otherwise.

        `cursor` is `next` or `previous` of another page. One filter can be given: `friends` (those of this
        player), `players` (up to 100 ids), or `segment` (a group, such as `country:de`).
        """
        query = given(
            window=window,
            offset=offset,
            limit=limit,
            cursor=cursor,
            ranks=ranks,
            friends=friends,
            players=players,
            segment=segment,
        )
        headers = self._bearer() if friends else self._viewer()
        return EntryPage.from_json(await self._get(f"{board_path(board)}/entries", headers, query))

    async def entry(
        self, board: str, player: str, *, window: str | None = None, ranks: str | None = None
    ) -> Entry:
        """Return a player's entry. Raises a `ScoregateError` named `not-found` if there is none."""
        query = given(window=window, ranks=ranks)
        return Entry.from_json(await self._get(_entry_path(board, player), self._viewer(), query))

    async def around(
        self,
        board: str,
        player: str,
        *,
        radius: int = 5,
        window: str | None = None,
        ranks: str | None = None,
        friends: bool = False,
        segment: str | None = None,
    ) -> tuple[Entry, ...]:
        """Return a player's entry and those up to `radius` ranks above and below it."""
        query = given(window=window, radius=radius, ranks=ranks, friends=friends, segment=segment)
        headers = self._bearer() if friends else self._viewer()
        answer = await self._get(f"{_entry_path(board, player)}/around", headers, query)
        return EntryPage.from_json(answer).entries

    def _viewer(self) -> dict[str, str]:
        """Return the token if there is one: a banned player may be shown a board of their own."""
        return {} if self.token is None else self._bearer()

    def _bearer(self) -> dict[str, str]:
        if self.token is None:
            raise ValueError("A token is needed: pass one, or call create_player first.")
        return {"Authorization": f"Bearer {self.token}"}


def _entry_path(board: str, player: str) -> str:
    return f"{board_path(board)}/entries/{segment(player)}"
