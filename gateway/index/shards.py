"""One board spread over several slots by player, and read as the one that it is.

Each player's standings are in one shard, which is an index of a part of the board under a hash tag of its own. Places
compare across shards (`policies.ranking`), and every answer about the whole is put together from them:

- **Position**: as many entries are ahead of a place on the board as are ahead of it in all shards together.
- **The first n**: they are among the first n of each shard. For if an entry is not, n others of its own shard are
  ahead of it, and they are ahead of it on the board too. So n from each are enough, for any n, and merging them gives
  the board's order. The n entries before, or after, a place are found in the same way.

Shards are read one beside the other, not at one moment: an entry that moves meanwhile may be seen where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from gateway.index import keys
from gateway.index.board_index import BoardIndex, Cut, Entry, Page
from gateway.index.changes import FIELDS, read_raw_changes
from gateway.index.scripts import Script, index_boundary
from gateway.index.versions import Version, Versions
from gateway.records import Change, Standing
from gateway.runtime.concurrency import in_turns
from policies.errors import IndexNotWhole
from policies.model import Policy, RankKind
from policies.ranking import BoardPlace, Ranking

MOST_READ_PER_SHARD: Final = 1_000
"""Entries read from each shard at most; a page that ends further down is searched for by its position."""

RELAYED_AT_ONCE: Final = 100
"""Changes taken from a shard's stream at once."""

QUESTIONS_AT_ONCE: Final = 4
"""Questions that each go to all shards, at once."""

BISECTIONS: Final = 64
"""Turns for each shard: a ZSET of 2**64 entries would need as many."""

_by_place = attrgetter("place")


def shard_of(player: str, shards: int) -> int:
    """The shard of a player: the first eight bytes of the SHA-256 of the id, modulo their number."""
    return int.from_bytes(sha256(player.encode()).digest()[:8]) % shards


def shard_policy(policy: Policy, shard: int) -> Policy:
    """The policy of one shard: the board's, under a name that no board can have."""
    return policy.model_copy(update={"board": f"{policy.board}/{shard}"})


def board_index(client: Redis, ranking: Ranking) -> BoardIndex:
    """The index of a board, in as many shards as its policy says."""
    return ShardedIndex(client, ranking) if ranking.policy.shards > 1 else BoardIndex(client, ranking)


class Shard(BoardIndex):
    """The index of a part of a board's players."""

    def __init__(self, client: Redis, policy: Policy, number: int) -> None:
        super().__init__(client, Ranking(shard_policy(policy, number)))
        self.number = number
        self._shards = policy.shards

    def holds(self, player: str) -> bool:
        """True for the players of this shard."""
        return shard_of(player, self._shards) == self.number


class ShardedIndex(BoardIndex):
    """The index of one board whose windows are in shards; all else is under the board's own tag, as on any board."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        super().__init__(client, ranking)
        policy = ranking.policy
        self._parts = tuple(Shard(client, policy, number) for number in range(policy.shards))
        self._relay = Script(client, "relay_changes")
        self.versions = ShardedVersions(client, ranking, self._parts)
        self._turns = [asyncio.Lock() for _ in self._parts]

    @property
    def shards(self) -> Sequence[Shard]:
        """The indexes that the windows are in."""
        return self._parts

    def guard(self) -> None:
        """From now on reading raises IndexNotWhole unless all of each shard that is read is in the index."""
        for each in self.shards:
            each.guard()

    async def project(self, change: Change) -> None:
        """Shows a change in every window it touches. Does nothing more the second time."""
        shard = self._of(change.player)
        if change.standings:
            await shard.project(replace(change, submission_id="", baselines=()))
        await super().project(replace(change, standings=()))
        if change.standings:
            await self._relay_from(shard)

    async def relay(self) -> None:
        """Tells on the board's stream what only a shard's has yet: what a crash left there."""
        for shard in self.shards:
            await self._relay_from(shard)

    async def _relay_from(self, shard: Shard) -> None:
        async with self._turns[shard.number]:
            with index_boundary():
                asked = ("HGET", keys.relayed(self.board), shard.number)
                last = await self.client.execute_command(*asked, **{NEVER_DECODE: True}) or b""  # type: ignore[no-untyped-call]
            told_to = last.decode(errors="replace")
            changes, upto = await read_raw_changes(self.client, shard.ranking, told_to, RELAYED_AT_ONCE)
            if not upto:
                return
            parts = [part for each in await self._told(changes) for pair in each.items() for part in pair]
            await self._relay(
                [keys.changes(self.board), keys.relayed(self.board)],
                [shard.number, last, upto, 2 * len(FIELDS), *parts],
            )

    async def _told(self, changes: Sequence[dict[str, str]]) -> list[dict[str, str]]:
        """The changes with ranks of the whole board, as it is now."""
        return await in_turns(map(self._with_ranks, changes), at_once=QUESTIONS_AT_ONCE)

    async def _with_ranks(self, fields: dict[str, str]) -> dict[str, str]:
        try:
            return await self._ranked_now(fields)
        except IndexNotWhole:  # of a part of a board they would be wrong
            return fields | {"rank": "0", "was_rank": "0"}

    async def _ranked_now(self, fields: dict[str, str]) -> dict[str, str]:
        window = fields["window"]
        now = BoardPlace(int(fields["order"]), fields["member"]) if fields["order"] else None
        was = BoardPlace(int(fields["was_order"]), fields["was_member"]) if fields["was_order"] else None
        rank = 1 + await self.position(window, now) if now else 0
        was_rank = 1 + await self.position(window, was) if was else 0
        if now and was and now < was:
            was_rank -= 1  # it is itself ahead of where it was
        return fields | {"rank": str(rank), "was_rank": str(was_rank)}

    def _of(self, player: str) -> Shard:
        return self._parts[shard_of(player, len(self._parts))]

    async def show_again(self, player: str, standings: Sequence[Standing]) -> bool:
        """Shows standings that no event caused, and True if they are there; False if another change came in between."""
        shard = self._of(player)
        is_shown = await shard.show_again(player, standings)
        await self._relay_from(shard)
        return is_shown

    async def positions(self, window: str, places: Sequence[BoardPlace]) -> list[int]:
        """How many entries of the board are ahead of each place."""
        counts = await asyncio.gather(*(each.positions(window, places) for each in self.shards))
        return [sum(of_place) for of_place in zip(*counts, strict=True)]

    async def position(self, window: str, place: BoardPlace) -> int:
        """How many entries of the board are ahead of a place."""
        [ahead] = await self.positions(window, [place])
        return ahead

    async def page(self, window: str, first: int, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """`count` entries of a window from 0-based position `first`, with ranks of this kind."""
        if first + count <= MOST_READ_PER_SHARD:
            pages = await asyncio.gather(*(each.page(window, 0, first + count) for each in self.shards))
            found = _merged(pages, first, count)
        else:
            offsets = await self._split(window, first)
            skipped = first - sum(offsets)
            pages = await self._pages(window, offsets, skipped + count)
            found = _merged(pages, skipped, count)
        return await self._ranked(window, kind, first, Page(_total(pages), found, first))

    async def around(
        self, window: str, player: str, radius: int, kind: RankKind = RankKind.UNIQUE
    ) -> Page | None:
        """A player's entry with `radius` neighbours on each side, or None for a player without a standing."""
        own = await self._of(player).around(window, player, 0)
        if own is None:
            return None
        [entry] = own.entries
        offsets = await self._offsets(window, entry.place)
        firsts = [max(0, offset - radius) for offset in offsets]
        pages = await self._pages(window, firsts, 2 * radius + 1)
        others = [each for page in pages for each in page.entries if each.player != player]
        ahead = sorted((each for each in others if each.place < entry.place), key=_by_place)
        behind = sorted((each for each in others if each.place > entry.place), key=_by_place)
        ahead = ahead[-radius:] if radius else []
        first = sum(offsets) - len(ahead)
        found = Page(_total(pages), (*ahead, entry, *behind[:radius]), first)
        return await self._ranked(window, kind, first, found)

    async def seek(self, window: str, cut: Cut, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """At most `count` entries next to a place, nearest to it, with the ranks they have now."""
        pages = await asyncio.gather(*(each.seek(window, cut, count) for each in self.shards))
        entries = sorted((entry for page in pages for entry in page.entries), key=_by_place)
        entries = entries[:count] if cut.is_behind else entries[-count:]
        first = (
            await self.position(window, entries[0].place) if entries else sum(page.ahead for page in pages)
        )
        return await self._ranked(window, kind, first, Page(_total(pages), tuple(entries), first))

    async def _ranked(self, window: str, kind: RankKind, first: int, page: Page) -> Page:
        """The page with ranks of the whole board; `first` is the 0-based position of its first entry."""
        if kind is RankKind.DENSE:
            raise ValueError("how many scores are ahead cannot be added up over shards")
        rank, before, ranked = 0, None, []
        for position, each in enumerate(page.entries, start=first + 1):
            group = self.ranking.group(window, each.place)
            if kind is RankKind.UNIQUE or (before is not None and group != before):
                rank = position
            elif before is None:
                rank = 1 + await self.position(window, self._first_of(window, each.place))
            before = group
            ranked.append(replace(each, rank=rank))
        return replace(page, entries=tuple(ranked))

    def _first_of(self, window: str, place: BoardPlace) -> BoardPlace:
        """The lowest place that any entry tied with this one could have."""
        order, ties = self.ranking.group(window, place)
        return BoardPlace(order * self.ranking.orders_per_score(window), ties)

    async def _offsets(self, window: str, place: BoardPlace) -> list[int]:
        """How many entries of each shard are ahead of a place."""
        counts = await asyncio.gather(*(each.positions(window, [place]) for each in self.shards))
        return [count for [count] in counts]

    async def _pages(self, window: str, firsts: Sequence[int], count: int) -> list[Page]:
        reads = zip(self.shards, firsts, strict=True)
        return await asyncio.gather(*(each.page(window, first, count) for each, first in reads))

    async def _split(self, window: str, first: int) -> list[int]:
        """A position in each shard: all that is ahead of them is ahead of position `first` of the board, which is near.

        A bisection in all shards at once. The entry in the middle of the longest open stretch is ahead of `first` or
        behind it, and so is, in every shard, what is ahead of it, or behind. Together the positions are less than
        `first` by no more than there are shards, unless the board moves too fast for BISECTIONS turns.
        """
        ends = [page.total for page in await self._pages(window, [0] * len(self.shards), 1)]
        begins = [0] * len(ends)
        for _ in range(BISECTIONS * len(ends)):
            stretches = [end - begin for begin, end in zip(begins, ends, strict=True)]
            longest = max(range(len(ends)), key=stretches.__getitem__)
            if stretches[longest] <= 1:
                break
            middle = begins[longest] + stretches[longest] // 2
            found = (await self.shards[longest].page(window, middle, 1)).entries
            if not found:  # it left meanwhile
                ends[longest] = middle
                continue
            offsets = await self._offsets(window, found[0].place)
            if sum(offsets) <= first:
                begins = list(map(max, begins, offsets))
            ends = list(map(max, begins, ends if sum(offsets) <= first else map(min, ends, offsets)))
        return begins


class ShardedVersions(Versions):
    """The versions of a board's windows: another one as soon as that of any shard is."""

    def __init__(self, client: Redis, ranking: Ranking, shards: Sequence[Shard]) -> None:
        super().__init__(client, ranking)
        self._parts = [each.versions for each in shards]

    async def _ask(self, windows: Sequence[str]) -> Sequence[Version]:
        parts = [asyncio.gather(*(each.of(window) for each in self._parts)) for window in windows]
        return [_one_version(found) for found in await asyncio.gather(*parts)]


def _one_version(found: Sequence[Version]) -> Version:
    name = sha256("".join(each.name for each in found).encode()).hexdigest()[:16]
    return Version(name, sum(each.total for each in found))


def _merged(pages: Iterable[Page], skipped: int, count: int) -> tuple[Entry, ...]:
    ordered = merge(*(page.entries for page in pages), key=_by_place)
    return tuple(islice(ordered, skipped, skipped + count))


def _total(pages: Iterable[Page]) -> int:
    return sum(page.total for page in pages)
