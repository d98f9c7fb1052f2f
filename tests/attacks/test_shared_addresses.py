"""Hashed addresses: moderators see who shares one on their boards, and nobody learns an address."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gateway.edge.auth.moderators import ModeratorRole
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import change_account
from gateway.ledger.players import addresses
from gateway.ledger.players.addresses import AGAIN_MS, FORGOTTEN, KEPT, note_addresses, shared_addresses
from gateway.runtime.settings import Settings
from gateway.steward.forgetting import DAY_MS, AddressForgetter
from tests.support import boards
from tests.support.attack import accept, honest, refuse
from tests.support.books import Books
from tests.support.harness import Harness, Run, running_harness
from tests.support.ledger import NOON_MS, new_submission, rows

STORED = "SELECT player, address, seen_at_ms FROM player_addresses ORDER BY seen_at_ms, address"


@pytest.fixture
def proxied(settings: Settings) -> Settings:
    return settings.model_copy(update={"trusted_proxies": ("127.0.0.0/8",)})


async def played(harness: Harness, name: str, address: str, *boards: str) -> Run:
    """A run of a new player on each of these boards, from one address."""
    token = await harness.new_player(name)
    for board in boards:
        run = await harness.open_run(token, board=board)
        sent = honest(harness, run)
        await accept(harness, replace(sent, headers=sent.headers | {"X-Forwarded-For": address}))
    return run


async def seen(harness: Harness, player: str, token: str) -> Any:
    return (await harness.get(f"/v1/moderation/players/{player}", token)).body["addresses"]


async def test_M02_a_profile_names_who_shares_an_address_on_the_boards_of_the_moderator(proxied: Settings):
    """One /64 is one address; the answer has eight digits of a keyed hash, and viewers are told nothing."""
    async with running_harness(proxied) as harness:
        ada = await played(harness, "Ada", "2001:db8:1:2::3", "sprint", "other")
        bob = await played(harness, "Bob", "2001:db8:1:2:ffff::4", "sprint")
        await played(harness, "Eve", "2001:db8:1:2::5", "other")
        ida = await played(harness, "Ida", "198.51.100.7", "sprint")
        for scope, names in {"sprint": ["Bob"], "other": ["Eve"], "*": ["Bob", "Eve"]}.items():
            [shown] = await seen(harness, ada.player, harness.moderator(scope))
            assert (names, True) == (sorted(each["name"] for each in shown["players"]), shown["is_whole"])
            assert re.fullmatch("[0-9a-f]{8}", shown["address"])
        [[alone], [of_bob]] = [await seen(harness, run.player, harness.moderator()) for run in (ida, bob)]
        assert ([], True) == (alone["players"], alone["address"] != of_bob["address"])
        assert await seen(harness, ada.player, harness.moderator(role=ModeratorRole.VIEWER)) is None
        mixed, act = harness.moderator(name="moe"), Act("operator", harness.clock())
        grants = {"sprint": "viewer", "other": "senior"}
        await harness.edge.ledger.write(change_account("moe", act, grants=grants, players=[]))
        assert await seen(harness, bob.player, mixed) is None
        assert [["Eve"]] == [
            [each["name"] for each in shown["players"]] for shown in await seen(harness, ada.player, mixed)
        ]
        told = (await harness.get(f"/v1/moderation/players/{ida.player}", harness.moderator())).raw.decode()
        assert "198.51.100" not in told + str(rows(proxied.ledger_path, STORED))


async def test_a_refused_submission_leaves_no_address(proxied: Settings):
    """Nor does the same submission again from elsewhere, nor anything where addresses are not kept."""
    async with running_harness(proxied) as harness:
        run = await harness.open_run(await harness.new_player("Ada"), board="sprint")
        forged = honest(harness, run)
        await refuse(harness, replace(forged, body=forged.body + b" "), (401, "signature-invalid"))
        assert [] == rows(proxied.ledger_path, STORED)
        sent = honest(harness, run)
        for address in ("198.51.100.7", "198.51.100.8"):
            again = replace(sent, headers=sent.headers | {"X-Forwarded-For": address})
            assert 202 == (await harness.send(again)).status
        assert 1 == len(rows(proxied.ledger_path, STORED))
    async with running_harness(proxied.model_copy(update={"address_days": 0})) as harness:
        run = await played(harness, "Bob", "198.51.100.9", "sprint")
        assert await seen(harness, run.player, harness.moderator()) is None
        assert 1 == len(rows(proxied.ledger_path, STORED))
        forgetter = AddressForgetter(harness.edge.ledger, days=0, clock=harness.clock)
        assert (1, 0) == (await forgetter.step(), await forgetter.step())


def from_address(number: int, address: str, at_ms: int, player: str = "ada") -> Any:
    return new_submission(f"{number:032x}", player=player, at_ms=at_ms)._replace(address=address)


def test_an_address_is_written_once_a_day_and_a_player_keeps_the_newest(tmp_path: Any):
    """What was noted is not written again within a day; whoever changes addresses all day has eight rows."""
    books = Books(boards.board(tmp_path))
    stored = lambda: books.connection.execute(STORED).fetchall()  # noqa: E731
    books.append(
        [from_address(1, "a", NOON_MS), from_address(2, "a", NOON_MS, "bob"), new_submission("3" * 32)]
    )
    assert [("ada", "a", NOON_MS), ("bob", "a", NOON_MS)] == sorted(stored())
    before = books.connection.total_changes
    late = from_address(4, "a", NOON_MS + AGAIN_MS - 1)
    books.do(note_addresses([late]))
    assert before == books.connection.total_changes
    books.append([from_address(5, "a", NOON_MS + AGAIN_MS)])
    assert ("ada", "a", NOON_MS + AGAIN_MS) in stored()
    books.append([from_address(10 + each, f"b{each}", NOON_MS + AGAIN_MS + 1 + each) for each in range(KEPT)])
    assert [f"b{each}" for each in range(KEPT)] == [
        address for player, address, _ in stored() if player == "ada"
    ]


def test_the_newest_address_comes_first_and_says_whether_more_may_share_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    """Of an address of very many players not all are looked at, and a moderator is told so."""
    monkeypatch.setattr(addresses, "LOOKED_AT", 2)
    books = Books(boards.board(tmp_path))
    books.append([from_address(1, "old", NOON_MS), from_address(2, "new", NOON_MS + 1)])
    books.append([from_address(10 + each, "new", NOON_MS + 2, f"p{each}") for each in range(3)])
    shown = books.do(shared_addresses("ada", frozenset({"*"})))
    assert [("new", 2, False), ("old", 0, True)] == [
        (each.address, len(each.sharers), each.is_whole) for each in shown
    ]


async def test_addresses_are_forgotten_when_their_days_are_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    """A piece at a time, the oldest first; what is younger stays."""
    monkeypatch.setattr(addresses, "FORGOTTEN", 2)
    books = Books(boards.board(tmp_path))
    for each in range(4):
        books.append([from_address(each, f"a{each}", NOON_MS + each)])
    books.write = books.read  # type: ignore[attr-defined]
    forgetter = AddressForgetter(books, days=30, clock=lambda: NOON_MS + 30 * DAY_MS + 3)  # type: ignore[arg-type]
    assert [2, 1, 0] == [await forgetter.step() for _ in range(3)]
    assert ["a3"] == [address for _, address, _ in books.connection.execute(STORED)]
    assert FORGOTTEN > KEPT
