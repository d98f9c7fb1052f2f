"""Lists of friends, memberships and joins on either database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.players import memberships
from gateway.ledger.players.friends import (
    FRIENDS_LIMIT,
    change_friends,
    follow,
    friends_of,
    load_friends,
    unfollow,
)
from gateway.ledger.players.joins import has_joined, players_joined_before, put_join
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import FriendList, Membership
from policies.errors import FriendsFull
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, open_in


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def replace(player: str, wanted: set[str]) -> Operation[FriendList]:
    async def work(tx: Transaction) -> FriendList:
        return await change_friends(tx, await load_friends(tx, player), wanted, now_ms=NOON_MS)

    return work


async def test_a_list_is_what_was_said_last_and_has_a_version_for_each_change(ledger: Ledger):
    """Added, there already, removed, replaced by as many as there can be, and never by more."""
    assert FriendList("ada") == await ledger.read(friends_of("ada"))
    assert FriendList("ada", 1, ("bob",)) == await ledger.write(follow("ada", "bob", now_ms=NOON_MS))
    assert FriendList("ada", 1, ("bob",)) == await ledger.write(follow("ada", "bob", now_ms=NOON_MS))
    assert FriendList("ada", 2) == await ledger.write(unfollow("ada", "bob", now_ms=NOON_MS))
    most = {f"f{n}" for n in range(FRIENDS_LIMIT)}
    for version, wanted in ((3, most), (4, {"f7", "new"}), (5, most)):
        said = FriendList("ada", version, tuple(sorted(wanted)))
        assert said == await ledger.write(replace("ada", wanted)) == await ledger.read(friends_of("ada"))
    with pytest.raises(FriendsFull):
        await ledger.write(follow("ada", "one-more", now_ms=NOON_MS))
    assert 5 == (await ledger.read(friends_of("ada"))).version
    assert FriendList("bob") == await ledger.read(friends_of("bob"))


async def test_changes_at_once_are_each_done(ledger: Ledger):
    """Twenty follows of one player at the same moment."""
    await asyncio.gather(*(ledger.write(follow("ada", f"f{n}", now_ms=NOON_MS)) for n in range(20)))
    found = await ledger.read(friends_of("ada"))
    assert (20, 20) == (found.version, len(found.friends))


async def test_memberships_are_merged_and_read_in_pages(ledger: Ledger):
    """What is not named stays, null takes out, what is the same is no new version, and boards are apart."""
    change = memberships.change_membership
    for player in ("ada", "bob", "eve"):
        await ledger.write(change("vault", player, {"country": "de", "club": "reds"}))
    assert 1 == (await ledger.write(change("vault", "ada", {"club": "reds"}))).version
    changed = Membership("ada", 2, {"country": "de"})
    assert changed == await ledger.write(change("vault", "ada", {"club": None}))
    assert changed == await ledger.read(memberships.membership_of("vault", "ada"))
    assert Membership("ada") == await ledger.read(memberships.membership_of("lap", "ada"))
    first = await ledger.read(memberships.memberships_after("vault", "", count=2))
    last = await ledger.read(memberships.memberships_after("vault", "bob", count=2))
    assert ["ada", "bob", "eve"] == [each.player for each in (*first, *last)]
    listed = await ledger.read(memberships.memberships_of("vault", ["ada", "nobody"]))
    assert {"ada": changed} == listed


async def test_who_was_on_a_board_then_is_told_of_each_board_and_player_apart(ledger: Ledger):
    """By the last change before the moment; before the oldest one, the opposite of it; without one, nobody was."""
    said = [("league", "ada", True, 10), ("vault", "ada", False, 20), ("league", "bob", False, 30)]
    said += [("league", "ada", False, 40), ("league", "ada", True, 50), ("vault", "bob", True, 60)]
    for board, player, joins_now, at_ms in said:

        async def say(
            tx: Transaction,
            board: str = board,
            player: str = player,
            joins_now: bool = joins_now,
            at_ms: int = at_ms,
        ) -> None:
            await put_join(tx, board, player, joins_now=joins_now, actor="test", at_ms=at_ms)

        await ledger.write(say)

    async def then(tx: Transaction) -> dict[str, list[set[str]]]:
        return {
            board: [
                await players_joined_before(tx, board, ["ada", "bob", "cy"], before_ms)
                for before_ms in (10, 11, 21, 31, 41, 51, 61)
            ]
            for board in ("league", "vault", "empty")
        }

    ada, bob, both = {"ada"}, {"bob"}, {"ada", "bob"}
    assert {
        "league": [bob, both, both, ada, set(), ada, ada],
        "vault": [ada, ada, set(), set(), set(), set(), bob],
        "empty": [set()] * 7,
    } == await ledger.read(then)


async def test_the_last_word_on_a_join_counts(ledger: Ledger):
    """Joined, left and joined again, each board by itself."""

    def say(*, joins_now: bool) -> Operation[None]:
        async def work(tx: Transaction) -> None:
            await put_join(tx, "league", "ada", joins_now=joins_now, actor="player:ada", at_ms=NOON_MS)

        return work

    assert not await ledger.read(has_joined("league", "ada"))
    for joins_now in (True, False, True):
        await ledger.write(say(joins_now=joins_now))
        assert joins_now == await ledger.read(has_joined("league", "ada"))
    assert not await ledger.read(has_joined("vault", "ada"))
