"""Standings: the slot and the member of each player in each window, and members that belong to nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from gateway.index import keys
from gateway.index.ranges import zset_at
from gateway.index.windows.heads import Heads
from gateway.ledger import index_pages
from gateway.records import Standing
from gateway.steward.index.comparison.difference import (
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    sequence_of,
    text_of,
)
from policies.ranking import BoardPlace

TOP: Final = 100
"""Ranks that are looked at in every turn, since they are what people look at."""


class StandingSlot(NamedTuple):
    """A player's place in a window, by the bytes that stand in Redis."""

    window: str
    player: bytes


class Member(NamedTuple):
    """A member of a window, by the bytes that stand in Redis, and the key of the ZSET that they stand in."""

    window: str
    zset: str
    member: bytes

    @property
    def slot(self) -> StandingSlot:
        """The slot of the player it names."""
        return StandingSlot(self.window, self.member.rpartition(b":")[2])


class Slots:
    """What each player's slot says, and that the member it speaks of stands there with the right score."""

    def __init__(self, view: BoardView) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's standings, and through the slots of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        for window in await self._view.live_windows():
            after = ""
            while page := await self._view.standings_after(window, after, count):
                holds = self._view.index.holds
                yield [StandingSlot(window, each.player.encode()) for each in page if holds(each.player)]
                after = page[-1].player

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            held = keys.members(self._view.board, window)
            async with aclosing(self._view.inspection.fields(held, count)) as slices:
                async for fields in slices:
                    yield [StandingSlot(window, player) for player in fields if not self._is_count(player)]

    async def compare(self, subjects: Sequence[StandingSlot]) -> list[Difference]:
        """Slots that are missing, stale or forged, and members that a slot speaks of and that are not so."""
        held = await held_slots(self._view, subjects)
        due = await standings_at(self._view, subjects)
        scores = await self._scores(list(due.values()))
        below = await self._rightly_below(held, due, scores)
        found = [
            self._difference(each, held[each], due.get(each), scores.get(each))
            for each in held
            if each not in below
        ]
        return [each for each in found if each]

    def _is_count(self, player: bytes) -> bool:
        return self._keeps_heads and player == keys.BELOW_FIELD.encode()

    @property
    def _keeps_heads(self) -> bool:
        return self._view.policy.exact_ranks is not None

    async def _rightly_below(
        self,
        held: Mapping[StandingSlot, bytes | None],
        due: Mapping[StandingSlot, Standing],
        scores: Mapping[StandingSlot, float | None],
    ) -> set[StandingSlot]:
        """The slots of standings that are behind all that is kept of their window, and say so."""
        named = {
            each
            for each, standing in due.items()
            if standing.score is not None
            and scores[each] is None
            and held.get(each) == keys.slot_below(standing).encode()
        }
        if not named or not self._keeps_heads:
            return set()
        heads = Heads(self._view.index)
        ends = {window: (await heads.of(window)).last for window in {each.window for each in named}}
        places = {each: BoardPlace(due[each].order, due[each].member) for each in named}
        return {each for each, place in places.items() if (end := ends[each.window]) is None or end < place}

    async def repair(self, found: Sequence[Difference]) -> None:
        """Empties what was forged, then shows what the ledger has."""
        subjects = [each.subject for each in found]
        held = await held_slots(self._view, subjects)
        due = await standings_at(self._view, subjects)
        for subject in held:
            await self._repair(subject, held[subject], due.get(subject))

    async def _repair(self, subject: StandingSlot, held: bytes | None, due: Standing | None) -> None:
        if held is not None and not _is_older(held, due):
            slots = keys.members(self._view.board, subject.window)
            await self._view.inspection.drop(slots, {subject.player: held})
        if due is not None:
            await self._view.index.restore(due.player, [due], [])

    async def _scores(self, due: Sequence[Standing]) -> dict[StandingSlot, float | None]:
        """The ZSET scores of the members that the ledger has, by slot."""
        by_zset: dict[str, list[Standing]] = defaultdict(list)
        for each in due:
            by_zset[zset_at(self._view.index.window_key(each.window), each.order)].append(each)
        found: dict[StandingSlot, float | None] = {}
        for zset, some in by_zset.items():
            members = [each.member for each in some]
            scores = await self._view.inspection.scores(zset, members)
            found |= {slot_of(each): score for each, score in zip(some, scores, strict=True)}
        return found

    def _difference(
        self, subject: StandingSlot, held: bytes | None, due: Standing | None, score: float | None
    ) -> Difference | None:
        kind = self._kind(held, due, score)
        if kind is None:
            return None
        at = "" if due is None or due.score is None else f" at {due.order}"
        held_at = "" if score is None else f" at {score:.0f}"
        return Difference(
            self._view.board,
            kind,
            window=subject.window,
            player=printable(subject.player),
            ledger=f"{keys.slot_value(due)}{at}" if due else "",
            index=f"{printable(held)}{held_at}",
            subject=subject,
        )

    def _kind(self, held: bytes | None, due: Standing | None, score: float | None) -> Kind | None:
        if due is None:
            return None if held is None else Kind.FORGED_STANDING
        if held is None:
            return Kind.MISSING_STANDING
        if held != keys.slot_value(due).encode():
            return Kind.STALE_STANDING if _is_older(held, due) else Kind.FORGED_STANDING
        if due.score is None or score == due.order:
            return None
        return Kind.MISSING_STANDING if score is None else Kind.FORGED_STANDING


class Members:
    """Members that no standing of the ledger explains."""

    def __init__(self, view: BoardView) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Through the windows of the index, and over what stands at their top."""
        return (self._from_index, self._from_top)

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            for zset in self._view.zsets(window):
                async with aclosing(self._view.inspection.members(zset, count)) as slices:
                    async for members in slices:
                        yield [Member(window, zset, member) for member in members]

    async def _from_top(self, _count: int) -> Subjects:
        found: list[Member] = []
        for window in await self._view.windows():
            top: list[Member] = []
            for zset in self._view.zsets(window):
                first = await self._view.inspection.first(zset, TOP - len(top)) if len(top) < TOP else []
                top += [Member(window, zset, member) for member in first]
            found += top
        yield found

    async def compare(self, subjects: Sequence[Member]) -> list[Difference]:
        """Members that are not what the ledger has of their player. An older one that its slot names is the slot's matter."""
        there = await self._still_members(subjects)
        held = await held_slots(self._view, [each.slot for each in there])
        due = await standings_at(self._view, list(held))
        return [
            Difference(
                self._view.board,
                Kind.FORGED_MEMBER,
                window=each.window,
                player=printable(each.slot.player),
                ledger=keys.slot_value(due[each.slot]) if each.slot in due else "",
                index=f"{printable(each.member)} at {score:.0f}",
                subject=each,
            )
            for each, score in there.items()
            if not _is_explained(each, held[each.slot], due.get(each.slot)) or self._is_misplaced(each, score)
        ]

    def _is_misplaced(self, subject: Member, score: float) -> bool:
        return zset_at(self._view.index.window_key(subject.window), score) != subject.zset

    async def _still_members(self, subjects: Sequence[Member]) -> dict[Member, float]:
        """The scores of those that are there now: a member goes when its player does better."""
        by_zset: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        for window, zset, member in subjects:
            by_zset[window, zset].append(member)
        found: dict[Member, float] = {}
        for (window, zset), members in by_zset.items():
            told = zip(members, await self._view.inspection.scores(zset, members), strict=True)
            found |= {Member(window, zset, member): score for member, score in told if score is not None}
        return found

    async def repair(self, found: Sequence[Difference]) -> None:
        """Takes them out, unless their slot changes meanwhile."""
        subjects: list[Member] = [each.subject for each in found]
        held = await held_slots(self._view, [each.slot for each in subjects])
        by_zset: dict[tuple[str, str], list[tuple[bytes, bytes, bytes]]] = defaultdict(list)
        for each in subjects:
            by_zset[each.window, each.zset].append((each.member, each.slot.player, held[each.slot] or b""))
        for (window, zset), seen in by_zset.items():
            await self._view.inspection.prune(window, zset, seen)


async def held_slots(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes | None]:
    """What the index has in these slots."""
    found: dict[StandingSlot, bytes | None] = {}
    for window, whose in _by_window(subjects).items():
        values = await view.inspection.values(keys.members(view.board, window), whose)
        found |= {StandingSlot(window, player): value for player, value in zip(whose, values, strict=True)}
    return found


async def standings_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, Standing]:
    """What the ledger has in these slots."""
    wanted = {
        window: [player for player in map(text_of, whose) if player is not None]
        for window, whose in _by_window(subjects).items()
    }
    found = await view.ledger.read(index_pages.standings_of(view.policy.board, wanted))
    now_ms, holds = view.clock(), view.index.holds
    return {slot_of(each): each for each in found if each.expires_at_ms > now_ms and holds(each.player)}


def slot_of(standing: Standing) -> StandingSlot:
    """The slot that a standing belongs in."""
    return StandingSlot(standing.window, standing.player.encode())


def _by_window(subjects: Sequence[StandingSlot]) -> dict[str, list[bytes]]:
    found: dict[str, dict[bytes, None]] = defaultdict(dict)
    for window, player in subjects:
        found[window][player] = None
    return {window: list(whose) for window, whose in found.items()}


def _is_older(held: bytes, due: Standing | None) -> bool:
    """True if a slot is of an earlier change than the ledger's, which showing that replaces."""
    seq = sequence_of(held)
    return seq is not None and due is not None and seq < due.seq


def _is_explained(subject: Member, held: bytes | None, due: Standing | None) -> bool:
    if due is None:
        return False
    if due.score is not None and subject.member == due.member.encode():
        return True
    if held is None or not _is_older(held, due):
        return False
    named = held.split(b" ")[1]
    return subject.member == (subject.slot.player if named == keys.SAME.encode() else named)
