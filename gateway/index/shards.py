"""A board split by player over several slots of a cluster, and read as one board.

Each player's standings are in one shard: an index of a part of the board under its own hash tag. Places
compare across shards (`policies.ranking`), so an answer about the board combines those of its shards:

- **Position**: the number of entries ahead of a place is the sum of those ahead of it in each shard.
- **The first n**: they are among the first n of each shard. Any other entry has n of its own shard ahead of
  it, and so on the board too. Merging n entries from each gives the board's order, for any n. The n entries
  before or after a place are found in the same way.

Shards are read side by side, not at one moment: an entry that moves meanwhile may appear where it was.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex, Cut, Entry, Page
from gateway.index.changes import FIELDS, read_raw_changes
from gateway.index.cluster import RAW
from gateway.index.lane_stream import CHANGES_KEPT
from gateway.index.scripts import Script, index_boundary
from gateway.index.versions import Version, Versions
from gateway.runtime.concurrency import in_turns
from gateway.shared_records import Change, Standing
from policies.choices import RankKind
from policies.errors import IndexNotWhole
from policies.model import Policy
from policies.ranking import BoardPlace, Ranking

MOST_READ_PER_SHARD: Final = 1_000
"""Most entries read from each shard; a page that ends further down is found by bisection."""

RELAYED_AT_ONCE: Final = 100
"""Changes copied from a shard's stream at once."""

QUESTIONS_AT_ONCE: Final = 4
"""Concurrent questions that each go to all shards."""

BISECTIONS: Final = 64
"""Most steps of a bisection per shard: enough for a ZSET of 2**64 entries."""

_by_place = attrgetter("place")


def shard_of(player: str, shards: int) -> int:
    """Return a player's shard: the first eight bytes of the id's SHA-256, modulo the number of shards."""
    return int.from_bytes(sha256(player.encode()).digest()[:8]) % shards


def shard_policy(policy: Policy, shard: int) -> Policy:
    """Return the policy of one shard: the board's, under a name that no board can have."""
    return policy.model_copy(update={"board": f"{policy.board}/{shard}"})


def board_index(client: Redis, ranking: Ranking) -> BoardIndex:
    """Return the index of a board, in the number of shards that its policy sets."""
    return ShardedIndex(client, ranking) if ranking.policy.shards > 1 else BoardIndex(client, ranking)


class Shard(BoardIndex):
    """The index of the players of one shard."""

    def __init__(self, client: Redis, policy: Policy, number: int) -> None:
        super().__init__(client, Ranking(shard_policy(policy, number)))
        self.number = number
        self._shards = policy.shards

    def holds(self, player: str) -> bool:
        """Return whether the player is in this shard."""
        return shard_of(player, self._shards) == self.number


class ShardedIndex(BoardIndex):
    """The index of a board with its windows in shards, and its other keys under the board's own tag."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        super().__init__(client, ranking)
        policy = ranking.policy
        self._parts = tuple(Shard(client, policy, number) for number in range(policy.shards))
        self._relay = Script(client, "relay_changes")
        self.versions = ShardedVersions(client, ranking, self._parts)
        self._turns = [asyncio.Lock() for _ in self._parts]

    @property
    def shards(self) -> Sequence[Shard]:
        """The indexes that hold the windows."""
        return self._parts

    def guard(self) -> None:
        """Make reads raise IndexNotWhole unless each shard that is read is whole in the index."""
        for shard in self.shards:
            shard.guard()

    async def project_all(self, changes: Sequence[Change]) -> None:
        """Show changes in the shards of their players. Idempotent."""
        by_shard: dict[Shard, list[Change]] = defaultdict(list)
        for change in changes:
            if change.standings:
                by_shard[self._of(change.player)].append(replace(change, submission_id="", baselines=()))
        for shard, of_shard in by_shard.items():
            await shard.project_all(of_shard)
        await super().project_all([replace(change, standings=()) for change in changes])
        for shard in by_shard:
            await self._relay_from(shard)

    async def relay(self) -> None:
        """Copy changes to the board's stream that a crash left in a shard's."""
        for shard in self.shards:
            await self._relay_from(shard)

    async def _relay_from(self, shard: Shard) -> None:
        """Copy the changes of a shard to the board's stream, as many slices as there are."""
        while await self._relay_slice(shard) == RELAYED_AT_ONCE:
            pass

    async def _relay_slice(self, shard: Shard) -> int:
        """Copy a slice of a shard's changes, and return how many were there."""
        async with self._turns[shard.number]:
            with index_boundary():
                command = ("HGET", keys.relayed(self.board), shard.number)
                stored = await self.client.execute_command(*command, **RAW)  # type: ignore[no-untyped-call]
            relayed = stored or b""
            last_id = relayed.decode(errors="replace")
            changes, newest_id = await read_raw_changes(self.client, shard.ranking, last_id, RELAYED_AT_ONCE)
            if not newest_id:
                return 0
            ranked = await in_turns(map(self._as_of_board, changes), at_once=QUESTIONS_AT_ONCE)
            fields = chain.from_iterable(pair for change in ranked for pair in change.items())
            await self._relay(
                [keys.changes(self.board), keys.relayed(self.board)],
                [shard.number, relayed, newest_id, 2 * len(FIELDS), CHANGES_KEPT, *fields],
            )
            return len(changes)

    async def _as_of_board(self, fields: dict[str, str]) -> dict[str, str]:
        """Return a shard's change as one of the board, with the ranks of the whole board as it is now."""
        try:
            return await self._ranked_now(fields) | {"board": self.board}
        except IndexNotWhole:  # ranks in a part of the board would be wrong
            return fields | {"board": self.board, "rank": "0", "was_rank": "0"}

    async def _ranked_now(self, fields: dict[str, str]) -> dict[str, str]:
        window = fields["window"]
        now = BoardPlace(int(fields["order"]), fields["member"]) if fields["order"] else None
        was = BoardPlace(int(fields["was_order"]), fields["was_member"]) if fields["was_order"] else None
        rank = 1 + await self.position(window, now) if now else 0
        was_rank = 1 + await self.position(window, was) if was else 0
        if now and was and now < was:
            was_rank -= 1  # the new entry itself is ahead of the old place
        return fields | {"rank": str(rank), "was_rank": str(was_rank)}

    def _of(self, player: str) -> Shard:
        return self._parts[shard_of(player, len(self._parts))]

    async def show_again(self, player: str, standings: Sequence[Standing]) -> bool:
        """Show standings that no event caused. Return False if another change came first."""
        shard = self._of(player)
        is_shown = await shard.show_again(player, standings)
        await self._relay_from(shard)
        return is_shown

    async def positions(self, window: str, places: Sequence[BoardPlace]) -> list[int]:
        """Return how many entries of the board are ahead of each place."""
        counts = await asyncio.gather(*(shard.positions(window, places) for shard in self.shards))
        return [sum(of_place) for of_place in zip(*counts, strict=True)]

    async def position(self, window: str, place: BoardPlace) -> int:
        """Return how many entries of the board are ahead of a place."""
        [ahead] = await self.positions(window, [place])
        return ahead

    async def page(self, window: str, first: int, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """Return `count` entries of a window from 0-based position `first`, with ranks of this kind."""
        if first + count <= MOST_READ_PER_SHARD:
            pages = await asyncio.gather(*(shard.page(window, 0, first + count) for shard in self.shards))
            entries = _merged(pages, first, count)
        else:
            offsets = await self._split(window, first)
            skipped = first - sum(offsets)
            pages = await self._pages(window, offsets, skipped + count)
            entries = _merged(pages, skipped, count)
        return await self._ranked(window, kind, first, Page(_total(pages), entries, first))

    async def around(
        self, window: str, player: str, radius: int, kind: RankKind = RankKind.UNIQUE
    ) -> Page | None:
        """Return a player's entry and `radius` neighbours on each side, None without a standing."""
        own = await self._of(player).around(window, player, 0)
        if own is None:
            return None
        [entry] = own.entries
        offsets = await self._offsets(window, entry.place)
        firsts = [max(0, offset - radius) for offset in offsets]
        pages = await self._pages(window, firsts, 2 * radius + 1)
        others = [other for page in pages for other in page.entries if other.player != player]
        ahead = sorted((other for other in others if other.place < entry.place), key=_by_place)
        behind = sorted((other for other in others if other.place > entry.place), key=_by_place)
        ahead = ahead[-radius:] if radius else []
        first = sum(offsets) - len(ahead)
        page = Page(_total(pages), (*ahead, entry, *behind[:radius]), first)
        return await self._ranked(window, kind, first, page)

    async def seek(self, window: str, cut: Cut, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """Return the entries nearest to a place on one side, `count` at most, with their current ranks."""
        pages = await asyncio.gather(*(shard.seek(window, cut, count) for shard in self.shards))
        entries = sorted((entry for page in pages for entry in page.entries), key=_by_place)
        entries = entries[:count] if cut.is_behind else entries[-count:]
        first = (
            await self.position(window, entries[0].place) if entries else sum(page.ahead for page in pages)
        )
        return await self._ranked(window, kind, first, Page(_total(pages), tuple(entries), first))

    async def _ranked(self, window: str, kind: RankKind, first: int, page: Page) -> Page:
        """Return the page with ranks of the whole board; it begins at the 0-based position `first`."""
        if kind is RankKind.DENSE:
            raise ValueError("dense ranks cannot be counted over shards")
        rank, group_before, ranked = 0, None, []
        for position, entry in enumerate(page.entries, start=first + 1):
            group = self.ranking.group(window, entry.place)
            if kind is RankKind.UNIQUE or (group_before is not None and group != group_before):
                rank = position
            elif group_before is None:
                rank = 1 + await self.position(window, self._first_of(window, entry.place))
            group_before = group
            ranked.append(replace(entry, rank=rank))
        return replace(page, entries=tuple(ranked))

    def _first_of(self, window: str, place: BoardPlace) -> BoardPlace:
        """Return the lowest place that an entry tied with this one could have."""
        order, ties = self.ranking.group(window, place)
        return BoardPlace(order * self.ranking.orders_per_score(window), ties)

    async def _offsets(self, window: str, place: BoardPlace) -> list[int]:
        """Return how many entries of each shard are ahead of a place."""
        counts = await asyncio.gather(*(shard.positions(window, [place]) for shard in self.shards))
        return [count for [count] in counts]

    async def _pages(self, window: str, firsts: Sequence[int], count: int) -> list[Page]:
        reads = zip(self.shards, firsts, strict=True)
        return await asyncio.gather(*(shard.page(window, first, count) for shard, first in reads))

    async def _split(self, window: str, first: int) -> list[int]:
        """Return a position in each shard with only entries before it that are ahead of `first` on the board.

        This is a bisection in all shards at once. The middle entry of the longest open stretch is ahead of
        `first` or behind it, and so is everything ahead of that entry, or behind it, in every shard. The
        positions add up to `first` less at most the number of shards, unless the board moves too fast for
        BISECTIONS steps.
        """
        ends = [page.total for page in await self._pages(window, [0] * len(self.shards), 1)]
        begins = [0] * len(ends)
        for _ in range(BISECTIONS * len(ends)):
            stretches = [end - begin for begin, end in zip(begins, ends, strict=True)]
            longest = max(range(len(ends)), key=stretches.__getitem__)
            if stretches[longest] <= 1:
                break
            middle = begins[longest] + stretches[longest] // 2
            entries = (await self.shards[longest].page(window, middle, 1)).entries
            if not entries:  # it left meanwhile
                ends[longest] = middle
                continue
            offsets = await self._offsets(window, entries[0].place)
            if sum(offsets) <= first:
                begins = list(map(max, begins, offsets))
            ends = list(map(max, begins, ends if sum(offsets) <= first else map(min, ends, offsets)))
        return begins


class ShardedVersions(Versions):
    """The versions of a sharded board's windows, which change with the version of any shard."""

    def __init__(self, client: Redis, ranking: Ranking, shards: Sequence[Shard]) -> None:
        super().__init__(client, ranking)
        self._parts = [shard.versions for shard in shards]

    async def _ask(self, windows: Sequence[str]) -> Sequence[Version]:
        parts = [asyncio.gather(*(versions.of(window) for versions in self._parts)) for window in windows]
        return [_combined(versions) for versions in await asyncio.gather(*parts)]


def _combined(versions: Sequence[Version]) -> Version:
    name = sha256("".join(version.name for version in versions).encode()).hexdigest()[:16]
    return Version(name, sum(version.total for version in versions))


def _merged(pages: Iterable[Page], skipped: int, count: int) -> tuple[Entry, ...]:
    ordered = merge(*(page.entries for page in pages), key=_by_place)
    return tuple(islice(ordered, skipped, skipped + count))


def _total(pages: Iterable[Page]) -> int:
    return sum(page.total for page in pages)
