"""Standings: the slot and the member of each player in each window, and members that belong to nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from gateway.boards import keys
from gateway.ledger import index_pages
from gateway.records import Standing
from gateway.steward.comparison.difference import (
    Difference,
    Kind,
    Subjects,
    View,
    Walk,
    sequence_of,
    shown,
    text_of,
)

TOP: Final = 100
"""Ranks that are looked at in every turn, since they are what people look at."""


class Slot(NamedTuple):
    """A player's place in a window, by the bytes that stand in Redis."""

    window: str
    player: bytes


class Member(NamedTuple):
    """A member of a window, by the bytes that stand in Redis."""

    window: str
    member: bytes

    @property
    def slot(self) -> Slot:
        """The slot of the player it names."""
        return Slot(self.window, self.member[keys.MEMBER_PREFIX :])


class Slots:
    """What each player's slot says, and that the member it speaks of stands there with the right score."""

    def __init__(self, view: View) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's standings, and through the slots of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        for window in await self._view.live_windows():
            after = ""
            while page := await _page(self._view, window, after, count):
                yield [Slot(window, each.player.encode()) for each in page]
                after = page[-1].player

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            held = keys.members(self._view.board, window)
            async with aclosing(self._view.inspection.fields(held, count)) as slices:
                async for fields in slices:
                    yield [Slot(window, player) for player in fields]

    async def compare(self, subjects: Sequence[Slot]) -> list[Difference]:
        """Slots that are missing, stale or forged, and members that a slot speaks of and that are not so."""
        held = await held_slots(self._view, subjects)
        due = await standings_at(self._view, subjects)
        scores = await self._scores(list(due.values()))
        found = [self._difference(each, held[each], due.get(each), scores.get(each)) for each in held]
        return [each for each in found if each]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Empties what was forged, then shows what the ledger has."""
        subjects = [each.subject for each in found]
        held = await held_slots(self._view, subjects)
        due = await standings_at(self._view, subjects)
        for subject in held:
            await self._repair(subject, held[subject], due.get(subject))

    async def _repair(self, subject: Slot, held: bytes | None, due: Standing | None) -> None:
        if held is not None and not _is_older(held, due):
            slots = keys.members(self._view.board, subject.window)
            await self._view.inspection.drop(slots, {subject.player: held})
        if due is not None:
            await self._view.index.restore(due.player, [due], [])

    async def _scores(self, due: Sequence[Standing]) -> dict[Slot, float | None]:
        """The ZSET scores of the members that the ledger has, by slot."""
        by_window: dict[str, list[Standing]] = defaultdict(list)
        for each in due:
            by_window[each.window].append(each)
        found: dict[Slot, float | None] = {}
        for window, some in by_window.items():
            members = [keys.member_of(each) for each in some]
            scores = await self._view.inspection.scores(keys.window(self._view.board, window), members)
            found |= {slot_of(each): score for each, score in zip(some, scores, strict=True)}
        return found

    def _difference(
        self, subject: Slot, held: bytes | None, due: Standing | None, score: float | None
    ) -> Difference | None:
        kind = self._kind(held, due, score)
        if kind is None:
            return None
        at = "" if due is None or due.score is None else f" at {self._order_value(due)}"
        held_at = "" if score is None else f" at {score:.0f}"
        return Difference(
            self._view.board,
            kind,
            window=subject.window,
            player=shown(subject.player),
            ledger=f"{keys.slot_value(due)}{at}" if due else "",
            index=f"{shown(held)}{held_at}",
            subject=subject,
        )

    def _kind(self, held: bytes | None, due: Standing | None, score: float | None) -> Kind | None:
        if due is None:
            return None if held is None else Kind.FORGED_STANDING
        if held is None:
            return Kind.MISSING_STANDING
        if held != keys.slot_value(due).encode():
            return Kind.STALE_STANDING if _is_older(held, due) else Kind.FORGED_STANDING
        if due.score is None or score == self._order_value(due):
            return None
        return Kind.MISSING_STANDING if score is None else Kind.FORGED_STANDING

    def _order_value(self, due: Standing) -> int:
        return keys.order_value(due.score or 0, self._view.policy.order)


class Members:
    """Members that no standing of the ledger explains."""

    def __init__(self, view: View) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Through the windows of the index, and over what stands at their top."""
        return (self._from_index, self._from_top)

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            held = keys.window(self._view.board, window)
            async with aclosing(self._view.inspection.members(held, count)) as slices:
                async for members in slices:
                    yield [Member(window, member) for member in members]

    async def _from_top(self, _count: int) -> Subjects:
        found: list[Member] = []
        for window in await self._view.windows():
            first = await self._view.inspection.first(keys.window(self._view.board, window), TOP)
            found += [Member(window, member) for member in first]
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
                player=shown(each.slot.player),
                ledger=keys.slot_value(due[each.slot]) if each.slot in due else "",
                index=f"{shown(each.member)} at {score:.0f}",
                subject=each,
            )
            for each, score in there.items()
            if not _is_explained(each, held[each.slot], due.get(each.slot))
        ]

    async def _still_members(self, subjects: Sequence[Member]) -> dict[Member, float]:
        """The scores of those that are there now: a member goes when its player does better."""
        by_window: dict[str, list[bytes]] = defaultdict(list)
        for window, member in subjects:
            by_window[window].append(member)
        found: dict[Member, float] = {}
        for window, members in by_window.items():
            scores = await self._view.inspection.scores(keys.window(self._view.board, window), members)
            told = zip(members, scores, strict=True)
            found |= {Member(window, member): score for member, score in told if score is not None}
        return found

    async def repair(self, found: Sequence[Difference]) -> None:
        """Takes them out, unless their slot changes meanwhile."""
        subjects: list[Member] = [each.subject for each in found]
        held = await held_slots(self._view, [each.slot for each in subjects])
        by_window: dict[str, list[tuple[bytes, bytes, bytes]]] = defaultdict(list)
        for each in subjects:
            by_window[each.window].append((each.member, each.slot.player, held[each.slot] or b""))
        for window, seen in by_window.items():
            await self._view.inspection.prune(window, seen)


async def held_slots(view: View, subjects: Sequence[Slot]) -> dict[Slot, bytes | None]:
    """What the index has in these slots."""
    found: dict[Slot, bytes | None] = {}
    for window, whose in _by_window(subjects).items():
        values = await view.inspection.values(keys.members(view.board, window), whose)
        found |= {Slot(window, player): value for player, value in zip(whose, values, strict=True)}
    return found


async def standings_at(view: View, subjects: Sequence[Slot]) -> dict[Slot, Standing]:
    """What the ledger has in these slots."""
    wanted = {
        window: [player for player in map(text_of, whose) if player is not None]
        for window, whose in _by_window(subjects).items()
    }
    found = await view.ledger.read(index_pages.standings_of(view.board, wanted))
    now_ms = view.clock()
    return {slot_of(each): each for each in found if each.expires_at_ms > now_ms}


def slot_of(standing: Standing) -> Slot:
    """The slot that a standing belongs in."""
    return Slot(standing.window, standing.player.encode())


def _by_window(subjects: Sequence[Slot]) -> dict[str, list[bytes]]:
    found: dict[str, dict[bytes, None]] = defaultdict(dict)
    for window, player in subjects:
        found[window][player] = None
    return {window: list(whose) for window, whose in found.items()}


async def _page(view: View, window: str, after: str, count: int) -> list[Standing]:
    return await view.ledger.read(index_pages.standings_after(view.board, window, after, count=count))


def _is_older(held: bytes, due: Standing | None) -> bool:
    """True if a slot is of an earlier change than the ledger's, which showing that replaces."""
    seq = sequence_of(held)
    return seq is not None and due is not None and seq < due.seq


def _is_explained(subject: Member, held: bytes | None, due: Standing | None) -> bool:
    if due is None:
        return False
    if due.score is not None and subject.member == keys.member_of(due).encode():
        return True
    is_named = held is not None and held.split(b" ")[1:2] == [subject.member]
    return is_named and held is not None and _is_older(held, due)
