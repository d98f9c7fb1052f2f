"""Groups follow slots and memberships though both move between the look and the write: what is stale overwrites nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.groups import segments
from gateway.index.groups.segments import SegmentBoards
from gateway.shared_records import Membership
from policies.errors import IndexUnavailable
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

RANKING = a_ranking("b", segments=["club"])


class Interrupted(SegmentBoards):
    """One follower, between whose look and write something else happens, once or always."""

    meanwhile: Callable[[], Awaitable[None]] | None = None
    always: Callable[[], Awaitable[None]] | None = None

    async def _read(self, player: str, windows: Sequence[str]) -> list[str]:
        found = await super()._read(player, windows)
        meanwhile, self.meanwhile = self.meanwhile or self.always, None
        if meanwhile:
            await meanwhile()
        return found


class Club:
    """A board on which ada stands and moves."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.index = BoardIndex(client, RANKING)
        self.other = SegmentBoards(self.index, ["club"])
        self.late = Interrupted(self.index, ["club"])

    async def score(self, score: int) -> None:
        standing = a_standing("ada", score, at_ms=score, seq=score, ranking=RANKING)
        await self.index.restore("ada", [standing], [])

    async def members(self, club: str) -> list[str]:
        found: list[str] = await self.client.zrange(keys.segment("b", "club", club, "alltime"), 0, -1)
        return found

    async def slot(self) -> str:
        held = await self.client.hget(keys.members("b", "alltime"), "ada")
        return str(held).split(" ")[1]


@pytest.mark.parametrize("windows", [["alltime"], []])
async def test_M12_a_membership_that_changed_meanwhile_is_not_overwritten(
    client: Redis, windows: Sequence[str]
):
    """Who was slow puts nobody back into the group that they have left, though who moved them got no further than that."""
    club = Club(client)
    await club.score(5)

    async def moves() -> None:
        await club.other.keep(Membership("ada", 2, {"club": "blue"}), windows)

    club.late.meanwhile = moves
    await club.late.keep(Membership("ada", 1, {"club": "red"}), ["alltime"])
    assert ([], [await club.slot()]) == (await club.members("red"), await club.members("blue"))


async def test_M12_a_standing_that_moved_meanwhile_leaves_no_second_member(client: Redis):
    """Who was slow knows of an older member than the one that stands there, and would leave it behind."""
    club = Club(client)
    await club.score(5)
    await club.other.keep(Membership("ada", 1, {"club": "red"}), ["alltime"])

    async def moves() -> None:
        await club.score(6)
        await club.other.follow("ada", ["alltime"])
        await club.score(7)

    club.late.meanwhile = moves
    await club.late.follow("ada", ["alltime"])
    assert [await club.slot()] == await club.members("red")


async def test_who_moves_again_and_again_is_not_followed_for_ever(client: Redis):
    """So many looks, and then it is left to the steward; the group shows nothing that is half done."""
    club = Club(client)
    await club.score(1)
    looks = 0

    async def moves() -> None:
        nonlocal looks
        looks += 1
        await club.other.keep(Membership("ada", looks + 1, {"club": f"c{looks}"}), [])

    club.late.always = moves
    with pytest.raises(IndexUnavailable, match="keep changing"):
        await club.late.keep(Membership("ada", 1, {"club": "red"}), ["alltime"])
    assert (segments.ATTEMPTS, []) == (looks, await club.members("red"))


async def test_a_membership_that_comes_late_changes_nothing(client: Redis):
    """An older one, and the same one twice: who left a group is not put back by a note that was on its way."""
    club = Club(client)
    await club.score(5)
    for version, value in ((2, "blue"), (1, "red"), (2, "red")):
        await club.other.keep(Membership("ada", version, {"club": value}), ["alltime"])
    assert ([], [await club.slot()]) == (await club.members("red"), await club.members("blue"))
    assert "2 club:blue" == await client.hget(keys.memberships("b"), "ada")


async def test_a_segment_that_the_board_has_no_more_has_no_groups(client: Redis):
    """The ledger keeps what a player said once; in Redis nothing is held of it that nobody can read."""
    club = Club(client)
    await club.score(5)
    await club.other.keep(Membership("ada", 3, {"club": "red", "country": "de"}), ["alltime"])
    assert "3 club:red" == await client.hget(keys.memberships("b"), "ada")
    gone = await client.zrange(keys.segment("b", "country", "de", "alltime"), 0, -1)
    assert (1, []) == (len(await club.members("red")), gone)
