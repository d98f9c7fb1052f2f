"""Performs operations on boards of families as an operator, and says what became of each."""

from __future__ import annotations

import getpass
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.edge.problems import Problem
from gateway.edge.servers.family_requests import operation_of
from gateway.ledger.boards.board_opening import in_batches
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.ledger.ledger import Ledger
from gateway.recordings.assets import Assets
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.settlement.family_operations import (
    BoardOpening,
    BoardRevision,
    BoardTurn,
    FamilyOperation,
    perform,
)
from gateway.wiring import open_recordings
from policies.errors import SettingsError
from policies.family import Family
from policies.loader import Policies, load_policies
from policies.opened_board import BoardState, family_named_by
from replay.kit.runs import RunUnreadable, read_content
from replay.simulators.board_content import Asset
from scoregate.commands.common import OPERATOR, existing_ledger

DIGEST_PREFIX: Final = "sha256:"

DONE: Final = frozenset({BoardOutcome.OPENED, BoardOutcome.CHANGED, BoardOutcome.SAME})
"""The outcomes that leave a board as the operation wants it."""

TURNED: Final = {
    BoardState.OPEN: "reopened",
    BoardState.CLOSED: "closed",
    BoardState.DELETED: "deleted",
}
"""What became of a board that was turned to a state."""


class BoardAnswer(NamedTuple):
    """What became of one operation: the board, a word such as `opened`, or why not, and its version."""

    board: str
    outcome: str
    detail: str | None = None
    version: int | None = None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class BoardOperator:
    """An operator's hands: the policies in force, the ledger, and the store of assets."""

    policies: Policies
    ledger: Ledger
    assets: Assets
    actor: str

    async def perform_all(
        self, items: Iterable[Mapping[str, Any]], folder: Path
    ) -> AsyncIterator[list[BoardAnswer]]:
        """Perform operations in their order, and yield the answers of each batch of up to 1,000.

        An asset that is no digest is a path from `folder`. Raises LedgerUnavailable, RecordingsUnavailable.
        """
        for batch in in_batches(items):
            yield await self._perform(batch, folder)

    async def _perform(self, batch: Sequence[Mapping[str, Any]], folder: Path) -> list[BoardAnswer]:
        answers: dict[int, BoardAnswer] = {}
        by_family: dict[str, list[tuple[int, FamilyOperation]]] = defaultdict(list)
        for place, item in enumerate(batch):
            try:
                family = self._family_of(item)
                by_family[family.name].append((place, await self._operation(family, item, folder)))
            except (Problem, SettingsError) as refused:
                answers[place] = BoardAnswer(str(item.get("board")), "refused", str(refused))
        for name, placed in by_family.items():
            family, requests = self.policies.families[name], [request for _, request in placed]
            work = perform(family, requests, actor=self.actor, at_ms=wall_clock())
            results = await self.ledger.write(work)
            for (place, request), result in zip(placed, results, strict=True):
                answers[place] = _answer(request, result)
        return [answers[place] for place in range(len(batch))]

    def _family_of(self, item: Mapping[str, Any]) -> Family:
        board = item.get("board")
        name = family_named_by(board) if isinstance(board, str) else None
        if name is None:
            raise SettingsError("board: expected `<family>.<name>`, such as track.monza")
        return family_named(self.policies, name)

    async def _operation(self, family: Family, item: Mapping[str, Any], folder: Path) -> FamilyOperation:
        """Return an operation, once its asset is stored. Raises Problem and SettingsError."""
        asset = item.get("asset")
        if not asset or not isinstance(asset, str) or asset.startswith(DIGEST_PREFIX):
            request = _operation_of(family, item)
            if isinstance(request, BoardOpening) and request.opened.asset is not None:
                await self._refuse_unstored(request.opened.asset)
            return request
        content = _asset(folder / asset)
        request = operation_of(family, {**item, "asset": DIGEST_PREFIX + content.digest.hex()})
        await self.assets.store(content.content)
        return request

    async def _refuse_unstored(self, digest: bytes) -> None:
        if not await self.assets.is_stored(digest):
            raise SettingsError("asset: no file has this digest; give the path of the file instead")


def _operation_of(family: Family, item: Mapping[str, Any]) -> FamilyOperation:
    """Return an operation; a change without a version is one of whatever version the board has."""
    if item.get("action") != "change" or item.get("version") is not None:
        return operation_of(family, item)
    request = operation_of(family, {**item, "version": 1})
    assert isinstance(request, BoardRevision)
    return replace(request, version=None)


def family_named(policies: Policies, name: str) -> Family:
    """Return a family. Raises SettingsError, with what exists, if no policy describes it."""
    if name not in policies.families:
        known = ", ".join(sorted(policies.families)) or "none"
        raise SettingsError(f"no family {name}; there is {known}{policies.place}")
    return policies.families[name]


def _asset(path: Path) -> Asset:
    try:
        asset = read_content(None, path).asset
    except RunUnreadable as error:
        raise SettingsError(f"asset: {error}") from None
    except ValueError:  # half a surrogate pair, or a character of value 0
        raise SettingsError(f"asset: no file can have the name {str(path)!r}") from None
    assert asset is not None
    return asset


@asynccontextmanager
async def open_operator(settings: Settings) -> AsyncIterator[BoardOperator]:
    """Open what operations on boards need. Raises PolicyError, SettingsError, LedgerUnavailable."""
    policies = load_policies(settings.policies_dir)
    async with existing_ledger(settings) as ledger, open_recordings(settings) as recordings:
        yield BoardOperator(policies, ledger, Assets(recordings), actor_here())


def actor_here() -> str:
    """Return the actor of what this user does from the command line."""
    try:
        return f"{OPERATOR}:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return f"{OPERATOR}:{os.getuid()}"


def _answer(request: FamilyOperation, result: BoardResult) -> BoardAnswer:
    board = request.board
    version = result.board.version if result.board else None
    if result.outcome in DONE:
        word = result.outcome.value
        if isinstance(request, BoardTurn) and result.outcome is BoardOutcome.CHANGED:
            word = TURNED[request.state]
        return BoardAnswer(board, word, None, version, is_done=True)
    detail = result.detail or ("no board has this name" if result.outcome is BoardOutcome.UNKNOWN else None)
    return BoardAnswer(board, "refused", detail, version)
