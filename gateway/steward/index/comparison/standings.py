"""Standings: each player's slot and member in each window, and members that belong to nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from gateway.index import keys
from gateway.index.ranges import zset_at
from gateway.index.windows.heads import Heads
from gateway.ledger import index_pages
from gateway.shared_records import Standing
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
"""Ranks that every turn compares, since they are the ones people read."""


class StandingSlot(NamedTuple):
    """A player's slot in a window, as bytes from Redis."""

    window: str
    player: bytes


class Member(NamedTuple):
    """A member of a window, as bytes from Redis, and the key of its ZSET."""

    window: str
    zset: str
    member: bytes

    @property
    def slot(self) -> StandingSlot:
        """The slot of the player that the member names."""
        return StandingSlot(self.window, self.member.rpartition(b":")[2])


class Slots:
    """Each player's slot, and that the member it names has the right score."""

    def __init__(self, view: BoardView) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the ledger's standings, and through the index's slots."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        async with aclosing(self._view.standing_players(count)) as pages:
            async for window, players in pages:
                yield [slot_in(window, player) for player in players]

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            key = keys.members(self._view.board, window)
            async with aclosing(self._view.inspection.fields(key, count)) as slices:
                async for fields in slices:
                    yield [StandingSlot(window, player) for player in fields if not self._is_count(player)]

    async def compare(self, subjects: Sequence[StandingSlot]) -> list[Difference]:
        """Return the slots that are missing, stale or forged, and slots whose member has a wrong score."""
        actual = await slots_at(self._view, subjects)
        expected = await standings_at(self._view, subjects)
        scores = await self._scores(list(expected.values()))
        below = await self._rightly_below(actual, expected, scores)
        compared = [
            self._difference(slot, actual[slot], expected.get(slot), scores.get(slot))
            for slot in actual
            if slot not in below
        ]
        return [difference for difference in compared if difference]

    def _is_count(self, player: bytes) -> bool:
        return self._keeps_heads and player == keys.BELOW_FIELD.encode()

    @property
    def _keeps_heads(self) -> bool:
        return self._view.policy.exact_ranks is not None

    async def _rightly_below(
        self,
        actual: Mapping[StandingSlot, bytes | None],
        expected: Mapping[StandingSlot, Standing],
        scores: Mapping[StandingSlot, float | None],
    ) -> set[StandingSlot]:
        """Return the slots that say they are below their window's head, and are."""
        below = {
            slot
            for slot, standing in expected.items()
            if standing.score is not None
            and scores[slot] is None
            and actual.get(slot) == keys.slot_below(standing).encode()
        }
        if not below or not self._keeps_heads:
            return set()
        heads = Heads(self._view.index)
        ends = {window: (await heads.of(window)).last for window in {slot.window for slot in below}}
        places = {slot: BoardPlace(expected[slot].order, expected[slot].member) for slot in below}
        return {slot for slot, place in places.items() if (end := ends[slot.window]) is None or end < place}

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Empty forged slots, then show the ledger's standings."""
        subjects = [difference.subject for difference in differences]
        actual = await slots_at(self._view, subjects)
        expected = await standings_at(self._view, subjects)
        for slot in actual:
            await self._repair(slot, actual[slot], expected.get(slot))

    async def _repair(self, slot: StandingSlot, actual: bytes | None, expected: Standing | None) -> None:
        if actual is not None and not _is_older(actual, expected):
            slots = keys.members(self._view.board, slot.window)
            await self._view.inspection.drop(slots, {slot.player: actual})
        if expected is not None:
            await self._view.index.restore(expected.player, [expected], [])

    async def _scores(self, expected: Sequence[Standing]) -> dict[StandingSlot, float | None]:
        """Return the ZSET scores of the members that the ledger expects, by slot."""
        by_zset: dict[str, list[Standing]] = defaultdict(list)
        for standing in expected:
            by_zset[zset_at(self._view.index.window_key(standing.window), standing.order)].append(standing)
        by_slot: dict[StandingSlot, float | None] = {}
        for zset, standings in by_zset.items():
            scores = await self._view.inspection.scores(zset, [standing.member for standing in standings])
            by_slot |= {slot_of(standing): score for standing, score in zip(standings, scores, strict=True)}
        return by_slot

    def _difference(
        self, subject: StandingSlot, actual: bytes | None, expected: Standing | None, score: float | None
    ) -> Difference | None:
        kind = self._kind(actual, expected, score)
        if kind is None:
            return None
        expected_at = "" if expected is None or expected.score is None else f" at {expected.order}"
        actual_at = "" if score is None else f" at {score:.0f}"
        return Difference(
            self._view.board,
            kind,
            window=subject.window,
            player=printable(subject.player),
            ledger=f"{keys.slot_value(expected)}{expected_at}" if expected else "",
            index=f"{printable(actual)}{actual_at}",
            subject=subject,
        )

    def _kind(self, actual: bytes | None, expected: Standing | None, score: float | None) -> Kind | None:
        if expected is None:
            return None if actual is None else Kind.FORGED_STANDING
        if actual is None:
            return Kind.MISSING_STANDING
        if actual != keys.slot_value(expected).encode():
            return Kind.STALE_STANDING if _is_older(actual, expected) else Kind.FORGED_STANDING
        if expected.score is None or score == expected.order:
            return None
        return Kind.MISSING_STANDING if score is None else Kind.FORGED_STANDING


class Members:
    """Members that no standing of the ledger explains."""

    def __init__(self, view: BoardView) -> None:
        self._view = view

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the index's windows, and over their top members."""
        return (self._from_index, self._from_top)

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            for zset in self._view.zsets(window):
                async with aclosing(self._view.inspection.members(zset, count)) as slices:
                    async for members in slices:
                        yield [Member(window, zset, member) for member in members]

    async def _from_top(self, _count: int) -> Subjects:
        tops: list[Member] = []
        for window in await self._view.windows():
            top: list[Member] = []
            for zset in self._view.zsets(window):
                first = await self._view.inspection.first(zset, TOP - len(top)) if len(top) < TOP else []
                top += [Member(window, zset, member) for member in first]
            tops += top
        yield tops

    async def compare(self, subjects: Sequence[Member]) -> list[Difference]:
        """Return the members that are not their player's by the ledger.

        An older member that its slot still names is left to `Slots`.
        """
        present = await self._present_members(subjects)
        actual = await slots_at(self._view, [member.slot for member in present])
        expected = await standings_at(self._view, list(actual))
        return [
            Difference(
                self._view.board,
                Kind.FORGED_MEMBER,
                window=member.window,
                player=printable(member.slot.player),
                ledger=keys.slot_value(expected[member.slot]) if member.slot in expected else "",
                index=f"{printable(member.member)} at {score:.0f}",
                subject=member,
            )
            for member, score in present.items()
            if not _is_explained(member, actual[member.slot], expected.get(member.slot))
            or self._is_misplaced(member, score)
        ]

    def _is_misplaced(self, subject: Member, score: float) -> bool:
        return zset_at(self._view.index.window_key(subject.window), score) != subject.zset

    async def _present_members(self, subjects: Sequence[Member]) -> dict[Member, float]:
        """Return the scores of the members that are still present: one goes when its player does better."""
        by_zset: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        for window, zset, member in subjects:
            by_zset[window, zset].append(member)
        present: dict[Member, float] = {}
        for (window, zset), members in by_zset.items():
            scores = zip(members, await self._view.inspection.scores(zset, members), strict=True)
            present |= {Member(window, zset, member): score for member, score in scores if score is not None}
        return present

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Remove the members, unless their slot changes meanwhile."""
        subjects: list[Member] = [difference.subject for difference in differences]
        slots = await slots_at(self._view, [member.slot for member in subjects])
        by_zset: dict[tuple[str, str], list[tuple[bytes, bytes, bytes]]] = defaultdict(list)
        for member in subjects:
            forged = (member.member, member.slot.player, slots[member.slot] or b"")
            by_zset[member.window, member.zset].append(forged)
        for (window, zset), members in by_zset.items():
            await self._view.inspection.prune(window, zset, members)


async def slots_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes | None]:
    """Return the index's values of these slots."""
    slots: dict[StandingSlot, bytes | None] = {}
    for window, players in players_by_window(subjects).items():
        values = await view.inspection.values(keys.members(view.board, window), players)
        slots |= {StandingSlot(window, player): value for player, value in zip(players, values, strict=True)}
    return slots


async def standings_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, Standing]:
    """Return the ledger's live standings of these slots."""
    wanted = {
        window: [player for player in map(text_of, players) if player is not None]
        for window, players in players_by_window(subjects).items()
    }
    stored = await view.ledger.read(index_pages.standings_of(view.policy.board, wanted))
    now_ms, holds = view.clock(), view.index.holds
    live = [standing for standing in stored if standing.expires_at_ms > now_ms and holds(standing.player)]
    return {slot_of(standing): standing for standing in live}


def slot_of(standing: Standing) -> StandingSlot:
    """Return the slot of a standing."""
    return slot_in(standing.window, standing.player)


def slot_in(window: str, player: str) -> StandingSlot:
    """Return a player's slot in a window."""
    return StandingSlot(window, player.encode())


def players_by_window(subjects: Sequence[StandingSlot]) -> dict[str, list[bytes]]:
    """Return the players of these slots by window, each once."""
    by_window: dict[str, dict[bytes, None]] = defaultdict(dict)
    for window, player in subjects:
        by_window[window][player] = None
    return {window: list(players) for window, players in by_window.items()}


def _is_older(actual: bytes, expected: Standing | None) -> bool:
    """Return whether a slot is of an earlier change than the ledger's; showing the ledger's replaces it."""
    seq = sequence_of(actual)
    return seq is not None and expected is not None and seq < expected.seq


def _is_explained(subject: Member, actual: bytes | None, expected: Standing | None) -> bool:
    if expected is None:
        return False
    if expected.score is not None and subject.member == expected.member.encode():
        return True
    if actual is None or not _is_older(actual, expected):
        return False
    named = actual.split(b" ")[1]
    return subject.member == (subject.slot.player if named == keys.SAME.encode() else named)
