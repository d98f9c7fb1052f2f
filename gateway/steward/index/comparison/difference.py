"""Differences between index and ledger, and the interface that finds and repairs each sort of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.ranges import zsets_of
from gateway.ledger import index_pages
from gateway.ledger.ledger import LedgerReads
from gateway.runtime.clock import Clock
from gateway.shared_records import Standing
from policies.model import Policy
from policies.readable_windows import readable_windows
from policies.windows import FOREVER_MS

AHEAD_MS: Final = 300_000
"""How far another process's clock may run ahead of ours. A later time was forged."""


SHOWN_BYTES: Final = 256
"""Bytes of a value that are shown; our own values are shorter."""


class Kind(StrEnum):
    """A kind of difference. Crashes leave `missing` and `stale` content; `forged` content was never ours."""

    MISSING_STANDING = "missing-standing"
    STALE_STANDING = "stale-standing"
    FORGED_STANDING = "forged-standing"
    FORGED_MEMBER = "forged-member"
    MISSING_NAME = "missing-name"
    WRONG_NAME = "wrong-name"
    MISSING_BASELINE = "missing-baseline"
    STALE_BASELINE = "stale-baseline"
    FORGED_BASELINE = "forged-baseline"
    WRONG_MEMBERSHIP = "wrong-membership"
    MISSING_GROUP = "missing-group"
    FORGED_GROUP = "forged-group"
    MISSING_PENDING = "missing-pending"
    WRONG_GROUP = "wrong-group"
    STALE_PENDING = "stale-pending"
    FORGED_PENDING = "forged-pending"
    FORGED_SETTLED = "forged-settled"
    FORGED_OPEN_RUNS = "forged-open-runs"
    FORGED_KEY = "forged-key"
    WRONG_EXPIRY = "wrong-expiry"
    WRONG_TOTAL = "wrong-total"


@dataclass(frozen=True, slots=True)
class Difference:
    """An item of the index that differs from the ledger.

    `ledger` and `index` are the two values as the index writes them, empty for none. Bytes that are not text
    are escaped. `subject` identifies the item to its aspect.
    """

    board: str
    kind: Kind
    window: str = ""
    player: str = ""
    submission: str = ""
    key: str = ""
    ledger: str = ""
    index: str = ""
    subject: Any = field(default=None, repr=False)

    def as_dict(self) -> dict[str, str]:
        """Return all fields but the subject, for machines."""
        names = ("board", "kind", "window", "player", "submission", "key", "ledger", "index")
        return {name: str(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class BoardView:
    """One board as the ledger and as the index have it."""

    ledger: LedgerReads
    index: BoardIndex
    inspection: Inspection
    policy: Policy
    clock: Clock

    @property
    def board(self) -> str:
        """The board's name in the index; a shard has its own."""
        return self.index.board

    def parts(self) -> list[BoardView]:
        """Return the views of the indexes that store the windows: this one, or one for each shard."""
        return [
            self
            if index is self.index
            else replace(self, index=index, inspection=self.inspection.beside(index.board))
            for index in self.index.shards
        ]

    def zsets(self, window: str) -> list[str]:
        """Return the keys of the ZSETs that store a window."""
        return zsets_of(self.index.window_key(window))

    async def standings_after(self, window: str, after: str, count: int) -> list[Standing]:
        """Return the ledger's next standings of a window, by player, from all shards."""
        page = index_pages.standings_after(self.policy.board, window, after, count=count)
        return await self.ledger.read(page)

    async def standing_players(self, count: int) -> AsyncGenerator[tuple[str, list[str]], None]:
        """Yield each live window with the next players who stand in it and belong to this index."""
        for window in await self.live_windows():
            after = ""
            while page := await self.standings_after(window, after, count):
                players = [standing.player for standing in page]
                yield window, [player for player in players if self.index.holds(player)]
                after = players[-1]

    async def live_windows(self) -> dict[str, int]:
        """Return when each window with standings in the ledger expires, in Unix milliseconds."""
        return await self.ledger.read(index_pages.live_windows(self.policy.board, now_ms=self.clock()))

    async def windows(self) -> dict[str, int | None]:
        """Return when each window that the index may show expires, in Unix milliseconds; None is never.

        These are the windows with standings, and all readable ones. The index that spans shards stores none.
        """
        if self.index not in self.index.shards:
            return {}
        windows: dict[str, int | None] = dict(await self.live_windows())
        windows |= {
            window.name: window.expires_at_ms for window in readable_windows(self.policy, self.clock())
        }
        return {name: None if ends_ms == FOREVER_MS else ends_ms for name, ends_ms in sorted(windows.items())}


Subjects = AsyncGenerator[Sequence[Any], None]
"""Subjects to compare, a slice at a time."""

Walk = Callable[[int], Subjects]
"""A walk through one side, in slices of about the given size."""


class Aspect(Protocol):
    """One sort of content of a board's index. Every method raises IndexUnavailable and LedgerUnavailable."""

    def walks(self) -> Sequence[Walk]:
        """Return the walks that together reach every subject: through the ledger, and through the index."""
        ...

    async def compare(self, subjects: Sequence[Any]) -> list[Difference]:
        """Return the differences at these subjects.

        Reads the index first, so that it cannot be ahead of the ledger.
        """
        ...

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Bring the index to the ledger's state at these differences, but leave what was settled since."""
        ...


async def confirm(aspect: Aspect, differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that a second look still finds, with the same value in the index.

    A settlement reaches the index a moment after the ledger; until then it looks like a difference.
    """
    before = {difference.subject: difference.index for difference in differences}
    again = await aspect.compare([difference.subject for difference in differences])
    return [difference for difference in again if before.get(difference.subject) == difference.index]


def text_of(raw: bytes) -> str | None:
    """Return bytes from Redis as text, or None for bytes that neither we nor a ledger can have written."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def printable(raw: bytes | None) -> str:
    """Return bytes from Redis as one readable line, without characters that a terminal would obey."""
    text = (raw or b"")[:SHOWN_BYTES].decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def sequence_of(value: bytes) -> int | None:
    """Return the sequence number at the start of a slot or baseline, or None."""
    head = value.partition(b" ")[0]
    return int(head) if head.isdigit() else None
