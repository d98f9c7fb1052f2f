"""Groups: who is in which, with which member they stand on the groups' boards, and members there of nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from gateway.index import keys
from gateway.index.groups.segments import SegmentBoards
from gateway.ledger.players import memberships as stored
from gateway.records import Membership
from gateway.steward.index.comparison.difference import (
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    text_of,
)
from gateway.steward.index.comparison.hashes import TextsOfPlayers
from gateway.steward.index.comparison.standings import StandingSlot, standings_at


class GroupMember(NamedTuple):
    """A member of a group's board, by the bytes that stand in Redis, and the key of that board."""

    key: str
    member: bytes


class Memberships:
    """The groups of each player, as the index has them."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        key = keys.memberships(view.board)
        self._texts = TextsOfPlayers(view, key, self._due, lambda _held: Kind.WRONG_MEMBERSHIP)
        self._segments = SegmentBoards(view.index, view.policy.segments)

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's memberships, and through those of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        async with aclosing(pages(self._view, count)) as found:
            async for page in found:
                yield [each.player.encode() for each in page]

    def _from_index(self, count: int) -> Subjects:
        return self._texts.from_index(count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Memberships that are missing, of another version, or of nobody."""
        return await self._texts.compare(subjects)

    async def repair(self, found: Sequence[Difference]) -> None:
        """Sets what the ledger has, takes away what it has not, and moves the players."""
        subjects = [each.subject for each in found]
        await self._texts.repair(subjects)
        windows = await self._view.windows()
        for player in filter(None, map(text_of, subjects)):
            await self._segments.follow(player, windows)

    async def _due(self, subjects: Sequence[bytes]) -> dict[bytes, str]:
        players = [player for player in map(text_of, subjects) if player is not None]
        found = await self._view.ledger.read(stored.memberships_of(self._view.board, players))
        return {player.encode(): self._segments.membership_value(each) for player, each in found.items()}


class GroupSlots:
    """With which member each player stands on which groups' boards, and that it stands there."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._segments = SegmentBoards(view.index, view.policy.segments)

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's memberships, and through the segmented hashes of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        windows = await self._view.live_windows()
        async with aclosing(pages(self._view, count)) as found:
            async for page in found:
                for window in windows:
                    yield [StandingSlot(window, each.player.encode()) for each in page]

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            held = keys.segmented(self._view.board, window)
            async with aclosing(self._view.inspection.fields(held, count)) as slices:
                async for fields in slices:
                    yield [StandingSlot(window, player) for player in fields]

    async def compare(self, subjects: Sequence[StandingSlot]) -> list[Difference]:
        """Players who stand on another group's board than they should, or not on their own."""
        held = await self._held(subjects)
        due = await self._due(list(held))
        absent = await self._absent({slot: value for slot, value in due.items() if held[slot] == value})
        return [
            Difference(
                self._view.board,
                Kind.MISSING_GROUP if slot in due else Kind.FORGED_GROUP,
                window=slot.window,
                player=printable(slot.player),
                ledger=due.get(slot, b"").decode(),
                index=printable(value),
                subject=slot,
            )
            for slot, value in held.items()
            if value != due.get(slot, b"") or slot in absent
        ]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Has the players stand where the slots and memberships of the index say."""
        for each in found:
            player = text_of(each.subject.player)
            if player is not None:
                await self._segments.follow(player, [each.subject.window])

    async def _held(self, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes]:
        by_window: dict[str, dict[bytes, None]] = defaultdict(dict)
        for window, player in subjects:
            by_window[window][player] = None
        found: dict[StandingSlot, bytes] = {}
        for window, whose in by_window.items():
            values = await self._view.inspection.values(keys.segmented(self._view.board, window), list(whose))
            found |= {
                StandingSlot(window, player): value or b""
                for player, value in zip(whose, values, strict=True)
            }
        return found

    async def _due(self, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes]:
        """The segmented values that should be there."""
        members = await members_at(self._view, subjects)
        found = await groups_at(self._view, subjects)
        values = {player: self._segments.groups_value(each.segments) for player, each in found.items()}
        return {
            slot: f"{member} {values[slot.player]}".encode()
            for slot, member in members.items()
            if values.get(slot.player)
        }

    async def _absent(self, due: dict[StandingSlot, bytes]) -> set[StandingSlot]:
        """Those of whose members one is not on the board of its group."""
        found: set[StandingSlot] = set()
        for slot, value in due.items():
            member, *groups = value.decode().split(" ")
            for group in groups:
                segment, _, named = group.partition(":")
                key = keys.segment(self._view.board, segment, named, slot.window)
                if await self._view.inspection.scores(key, [member]) == [None]:
                    found.add(slot)
        return found


class GroupMembers:
    """Members of groups' boards whose players are not in the group, or stand elsewhere."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._stem = keys.stem(view.board) + "segment:"

    def walks(self) -> Sequence[Walk]:
        """Through the groups' boards of the index; a key that is no text is no group's, and the keyspace's matter."""
        return (self._from_index,)

    async def _from_index(self, count: int) -> Subjects:
        async with aclosing(self._view.inspection.scan(count)) as scanned:
            async for found in scanned:
                for key in (
                    text for each in found if (text := text_of(each)) and text.startswith(self._stem)
                ):
                    async with aclosing(self._view.inspection.members(key, count)) as slices:
                        async for members in slices:
                            yield [GroupMember(key, member) for member in members]

    async def compare(self, subjects: Sequence[GroupMember]) -> list[Difference]:
        """Members that are not the ones that the players of the group stand with."""
        there = [each for each in subjects if await self._is_there(each)]
        slots = {each: self._slot(each) for each in there}
        members = await members_at(self._view, list(slots.values()))
        groups = await groups_at(self._view, list(slots.values()))
        return [
            Difference(
                self._view.board,
                Kind.FORGED_GROUP,
                window=slot.window,
                player=printable(slot.player),
                key=printable(each.key.encode()),
                index=printable(each.member),
                subject=each,
            )
            for each, slot in slots.items()
            if members.get(slot, "").encode() != each.member or not self._is_in(each, groups.get(slot.player))
        ]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Takes them off."""
        for each in found:
            await self._view.inspection.remove(each.subject.key, [each.subject.member])

    async def _is_there(self, subject: GroupMember) -> bool:
        return await self._view.inspection.scores(subject.key, [subject.member]) != [None]

    def _slot(self, subject: GroupMember) -> StandingSlot:
        """Where the member should stand; in no window for a key that no group has."""
        parts = subject.key.removeprefix(self._stem).split(":", 2)
        window = parts[2] if len(parts) > 2 else ""  # noqa: PLR2004 - segment, value, window
        return StandingSlot(window, subject.member.rpartition(b":")[2])

    def _is_in(self, subject: GroupMember, membership: Membership | None) -> bool:
        segment, _, rest = subject.key.removeprefix(self._stem).partition(":")
        value = rest.partition(":")[0]
        is_declared = segment in self._view.policy.segments
        return is_declared and membership is not None and membership.segments.get(segment) == value


async def members_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, str]:
    """The members that players stand with in these slots, by the ledger."""
    due = await standings_at(view, subjects)
    return {slot: each.member for slot, each in due.items() if each.score is not None}


async def groups_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[bytes, Membership]:
    """The memberships of the players of these slots, by the ledger."""
    players = sorted({player for player in (text_of(each.player) for each in subjects) if player is not None})
    found = await view.ledger.read(stored.memberships_of(view.board, players))
    return {player.encode(): each for player, each in found.items()}


async def pages(view: BoardView, count: int) -> AsyncGenerator[list[Membership], None]:
    """The ledger's memberships of a board, a page at a time."""
    after = ""
    while page := await view.ledger.read(stored.memberships_after(view.board, after, count=count)):
        yield page
        after = page[-1].player
