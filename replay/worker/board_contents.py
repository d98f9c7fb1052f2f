"""What a run's board gives its simulator, checked against what the run was opened with."""

from __future__ import annotations

from typing import Final

from gateway.recordings.assets import Assets
from gateway.recordings.recordings import Recordings
from policies.board import Board
from policies.errors import RecordingLost, ScoregateError
from policies.opened_board import NO_CONTENT
from policies.vocabulary import Reason
from replay.simulators.board_content import EMPTY_CONTENT, Asset, BoardContent

RETRIED: Final = frozenset({Reason.ASSET_LOST})
"""Reasons that may pass: whoever opened the board can store the asset again."""


class ContentUnavailable(ScoregateError):
    """The content that a run was played with cannot be had; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.meaning)
        self.reason = reason


class BoardContents:
    """Loads the content of boards, and keeps the assets used last."""

    def __init__(self, recordings: Recordings) -> None:
        self._assets = Assets(recordings)

    async def of(self, board: Board, bound: bytes | None) -> BoardContent:
        """Return a board's content for a run whose ticket had this content digest; None stands for none.

        Raises ContentUnavailable, and RecordingsUnavailable if the store of recordings fails.
        """
        if (bound or NO_CONTENT) != board.content_digest:
            raise ContentUnavailable(Reason.BOARD_REPLACED)
        opened = board.opened
        if opened is None:
            return EMPTY_CONTENT
        if opened.asset is None:
            return BoardContent(opened.parameters)
        try:
            content = await self._assets.load(opened.asset)
        except RecordingLost:
            raise ContentUnavailable(Reason.ASSET_LOST) from None
        return BoardContent(opened.parameters, Asset(opened.asset, content))
