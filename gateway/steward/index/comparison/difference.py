"""A difference between index and ledger, and what finds and repairs each sort of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.ranges import zsets_of
from gateway.ledger import index_pages
from gateway.ledger.ledger import Ledger
from gateway.records import Standing
from gateway.runtime.clock import Clock
from gateway.steward.index.readable_windows import readable_windows
from policies.model import Policy
from policies.windows import FOREVER_MS

AHEAD_MS: Final = 300_000
"""How far another clock may run ahead of ours before a time is none of ours."""


SHOWN_BYTES: Final = 256
"""So much of a value is shown; ours are shorter."""


class Kind(StrEnum):
    """What is wrong with the index. `missing` and `stale` can come of a crash; `forged` was never ours."""

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
    """One thing that the index has otherwise than the ledger.

    `ledger` and `index` are what each has, empty for nothing, as it is written in the index. `subject` is what its
    aspect finds it by. Bytes that are no text are shown escaped.
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
        """All of it but the subject, for machines."""
        names = ("board", "kind", "window", "player", "submission", "key", "ledger", "index")
        return {name: str(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class BoardView:
    """One board from both sides."""

    ledger: Ledger
    index: BoardIndex
    inspection: Inspection
    policy: Policy
    clock: Clock

    @property
    def board(self) -> str:
        """The name of the board in the index; of a shard, its own."""
        return self.index.board

    def parts(self) -> list[BoardView]:
        """The views of the indexes that the windows are in: this one, unless the board is in shards."""
        return [
            self
            if index is self.index
            else replace(self, index=index, inspection=Inspection(index.client, index.board))
            for index in self.index.shards
        ]

    def zsets(self, window: str) -> list[str]:
        """The keys of the ZSETs that a window is in."""
        return zsets_of(self.index.window_key(window))

    async def standings_after(self, window: str, after: str, count: int) -> list[Standing]:
        """The next standings that the ledger has of a window, by player, of whichever shard."""
        page = index_pages.standings_after(self.policy.board, window, after, count=count)
        return await self.ledger.read(page)

    async def live_windows(self) -> dict[str, int]:
        """When each window expires that the ledger has standings of."""
        return await self.ledger.read(index_pages.live_windows(self.policy.board, now_ms=self.clock()))

    async def windows(self) -> dict[str, int | None]:
        """When each window expires that the index may show: those with standings, and those that readers can ask for."""
        if self.index not in self.index.shards:
            return {}
        found: dict[str, int | None] = dict(await self.live_windows())
        found |= {window.name: window.expires_at_ms for window in readable_windows(self.policy, self.clock())}
        return {name: None if ends_ms == FOREVER_MS else ends_ms for name, ends_ms in sorted(found.items())}


Subjects = AsyncGenerator[Sequence[Any], None]
"""What is to be compared, a slice at a time."""

Walk = Callable[[int], Subjects]
"""A way through one side, in slices of about so many."""


class Aspect(Protocol):
    """One sort of content of a board's index. Every method raises IndexUnavailable and LedgerUnavailable."""

    def walks(self) -> Sequence[Walk]:
        """The ways to everything that there is to compare: through the ledger, and through the index."""
        ...

    async def compare(self, subjects: Sequence[Any]) -> list[Difference]:
        """The differences at these subjects. The index is read first: it can then not be ahead of the ledger."""
        ...

    async def repair(self, found: Sequence[Difference]) -> None:
        """Makes the index what the ledger says at these differences; what was settled since is left alone."""
        ...


async def confirm(aspect: Aspect, found: Sequence[Difference]) -> list[Difference]:
    """Those differences that are there at a second look, with nothing moved in the index since the first.

    What is on its way is no difference: a settlement shows on the index a moment after it is in the ledger.
    """
    before = {each.subject: each.index for each in found}
    again = await aspect.compare([each.subject for each in found])
    return [each for each in again if before.get(each.subject) == each.index]


def text_of(raw: bytes) -> str | None:
    """The text that bytes from Redis are, or None for what neither we nor a ledger can have written."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def printable(raw: bytes | None) -> str:
    """Bytes from Redis as a person can read them, without what a terminal would obey, and not more than a line."""
    text = (raw or b"")[:SHOWN_BYTES].decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def sequence_of(value: bytes) -> int | None:
    """The sequence number at the head of a slot or a baseline; None if there is none."""
    head = value.partition(b" ")[0]
    return int(head) if head.isdigit() else None
