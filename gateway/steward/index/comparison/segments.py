"""Groups: the memberships of players, their entries on the groups' boards, and forged entries there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from gateway.index import keys
from gateway.index.groups.segments import SegmentBoards
from gateway.ledger.players import memberships as stored
from gateway.shared_records import Membership
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
from gateway.steward.index.comparison.standings import StandingSlot, players_by_window, standings_at


class GroupMember(NamedTuple):
    """A member of a group's board, as bytes from Redis, and the board's key."""

    key: str
    member: bytes


class Memberships:
    """The groups of each player."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        key = keys.memberships(view.board)
        self._texts = TextsOfPlayers(view, key, self._expected, lambda _actual: Kind.WRONG_MEMBERSHIP)
        self._segments = SegmentBoards(view.index, view.policy.segments)

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the ledger's memberships, and through the index's."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        async with aclosing(membership_pages(self._view, count)) as pages:
            async for page in pages:
                yield [membership.player.encode() for membership in page]

    def _from_index(self, count: int) -> Subjects:
        return self._texts.from_index(count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the memberships that are missing, of another version, or nobody's."""
        return await self._texts.compare(subjects)

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Set the ledger's memberships, remove others, and move the players on the groups' boards."""
        subjects = [difference.subject for difference in differences]
        await self._texts.repair(subjects)
        windows = await self._view.windows()
        for player in filter(None, map(text_of, subjects)):
            await self._segments.follow(player, windows)

    async def _expected(self, subjects: Sequence[bytes]) -> dict[bytes, str]:
        players = [player for player in map(text_of, subjects) if player is not None]
        memberships = await self._view.ledger.read(stored.memberships_of(self._view.board, players))
        return {
            player.encode(): self._segments.membership_value(membership)
            for player, membership in memberships.items()
        }


class GroupSlots:
    """The segmented values: each player's member and groups, and that the member is on each group's board."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._segments = SegmentBoards(view.index, view.policy.segments)

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the ledger's memberships, and through the index's segmented hashes."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        windows = await self._view.live_windows()
        async with aclosing(membership_pages(self._view, count)) as pages:
            async for page in pages:
                for window in windows:
                    yield [StandingSlot(window, membership.player.encode()) for membership in page]

    async def _from_index(self, count: int) -> Subjects:
        for window in await self._view.windows():
            key = keys.segmented(self._view.board, window)
            async with aclosing(self._view.inspection.fields(key, count)) as slices:
                async for fields in slices:
                    yield [StandingSlot(window, player) for player in fields]

    async def compare(self, subjects: Sequence[StandingSlot]) -> list[Difference]:
        """Return the players who are on a wrong group's board, or missing from their own."""
        actual = await self._actual(subjects)
        expected = await self._expected(list(actual))
        absent = await self._absent(
            {slot: value for slot, value in expected.items() if actual[slot] == value}
        )
        return [
            Difference(
                self._view.board,
                Kind.MISSING_GROUP if slot in expected else Kind.FORGED_GROUP,
                window=slot.window,
                player=printable(slot.player),
                ledger=expected.get(slot, b"").decode(),
                index=printable(value),
                subject=slot,
            )
            for slot, value in actual.items()
            if value != expected.get(slot, b"") or slot in absent
        ]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Move the players to where the index's slots and memberships place them."""
        for difference in differences:
            player = text_of(difference.subject.player)
            if player is not None:
                await self._segments.follow(player, [difference.subject.window])

    async def _actual(self, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes]:
        actual: dict[StandingSlot, bytes] = {}
        for window, players in players_by_window(subjects).items():
            values = await self._view.inspection.values(keys.segmented(self._view.board, window), players)
            actual |= {
                StandingSlot(window, player): value or b""
                for player, value in zip(players, values, strict=True)
            }
        return actual

    async def _expected(self, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, bytes]:
        """Return the segmented values that the ledger expects."""
        members = await members_at(self._view, subjects)
        memberships = await memberships_at(self._view, subjects)
        values = {
            player: self._segments.groups_value(membership.segments)
            for player, membership in memberships.items()
        }
        return {
            slot: f"{member} {values[slot.player]}".encode()
            for slot, member in members.items()
            if values.get(slot.player)
        }

    async def _absent(self, expected: dict[StandingSlot, bytes]) -> set[StandingSlot]:
        """Return the slots whose member is missing from the board of one of its groups."""
        absent: set[StandingSlot] = set()
        for slot, value in expected.items():
            member, *groups = value.decode().split(" ")
            for group in groups:
                segment, _, name = group.partition(":")
                key = keys.segment(self._view.board, segment, name, slot.window)
                if await self._view.inspection.scores(key, [member]) == [None]:
                    absent.add(slot)
        return absent


class GroupMembers:
    """Members of groups' boards whose players are not in the group, or have another member."""

    def __init__(self, view: BoardView, *, searches: bool = False) -> None:
        self._view = view
        self._searches = searches
        self._stem = keys.stem(view.board) + "segment:"

    def walks(self) -> Sequence[Walk]:
        """Return the walk through the boards of groups in the index, except keys that are not text."""
        return (self._from_index,)

    async def _from_index(self, count: int) -> Subjects:
        async with aclosing(self._groups(count)) as groups:
            async for names in groups:
                for name in names:
                    async with aclosing(self.members_of(name, count)) as slices:
                        async for members in slices:
                            yield members

    async def members_of(self, key: str, count: int) -> AsyncGenerator[list[GroupMember], None]:
        """Yield the members of one group's board."""
        async with aclosing(self._view.inspection.members(key, count)) as slices:
            async for members in slices:
                yield [GroupMember(key, member) for member in members]

    async def _groups(self, count: int) -> AsyncGenerator[list[str], None]:
        """Yield the keys of groups: all that there are in Redis, or those that players are in."""
        if self._searches:
            async with aclosing(self._view.inspection.scan(count)) as scanned:
                async for raw_keys in scanned:
                    texts = [text for raw in raw_keys if (text := text_of(raw))]
                    yield [text for text in texts if text.startswith(self._stem)]
            return
        for window in await self._view.windows():
            async with aclosing(self._view.inspection.keys_of_groups(window, count)) as slices:
                async for names in slices:
                    yield names

    async def compare(self, subjects: Sequence[GroupMember]) -> list[Difference]:
        """Return the members that are not the current ones of the group's players."""
        present = [subject for subject in subjects if await self._is_present(subject)]
        slots = {subject: self._slot(subject) for subject in present}
        members = await members_at(self._view, list(slots.values()))
        memberships = await memberships_at(self._view, list(slots.values()))
        return [
            Difference(
                self._view.board,
                Kind.FORGED_GROUP,
                window=slot.window,
                player=printable(slot.player),
                key=printable(subject.key.encode()),
                index=printable(subject.member),
                subject=subject,
            )
            for subject, slot in slots.items()
            if members.get(slot, "").encode() != subject.member
            or not self._is_in(subject, memberships.get(slot.player))
        ]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Remove the members from their boards."""
        for difference in differences:
            await self._view.inspection.remove(difference.subject.key, [difference.subject.member])

    async def _is_present(self, subject: GroupMember) -> bool:
        return await self._view.inspection.scores(subject.key, [subject.member]) != [None]

    def _slot(self, subject: GroupMember) -> StandingSlot:
        """Return the slot of the member's player; a key that is no group's has the window ""."""
        parts = subject.key.removeprefix(self._stem).split(":", 2)
        window = parts[2] if len(parts) > 2 else ""  # noqa: PLR2004 - segment, value, window
        return StandingSlot(window, subject.member.rpartition(b":")[2])

    def _is_in(self, subject: GroupMember, membership: Membership | None) -> bool:
        segment, _, rest = subject.key.removeprefix(self._stem).partition(":")
        value = rest.partition(":")[0]
        is_declared = segment in self._view.policy.segments
        return is_declared and membership is not None and membership.segments.get(segment) == value


async def members_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[StandingSlot, str]:
    """Return the members of these slots by the ledger."""
    standings = await standings_at(view, subjects)
    return {slot: standing.member for slot, standing in standings.items() if standing.score is not None}


async def memberships_at(view: BoardView, subjects: Sequence[StandingSlot]) -> dict[bytes, Membership]:
    """Return the memberships of the players of these slots by the ledger."""
    players = sorted({player for slot in subjects if (player := text_of(slot.player)) is not None})
    memberships = await view.ledger.read(stored.memberships_of(view.board, players))
    return {player.encode(): membership for player, membership in memberships.items()}


async def membership_pages(view: BoardView, count: int) -> AsyncGenerator[list[Membership], None]:
    """Yield the ledger's memberships of a board, a page at a time."""
    after = ""
    while page := await view.ledger.read(stored.memberships_after(view.board, after, count=count)):
        yield page
        after = page[-1].player
