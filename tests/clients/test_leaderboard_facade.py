"""The facade has the methods of the package `leaderboard`, and means by them what the package does."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scoregate_client import HttpAnswer, HttpRequest, ScoregateError, SyncScoregateClient, SyncServerClient
from scoregate_client.leaderboard import (
    CompetitionRankingLeaderboard,
    Leaderboard,
    NotOffered,
    TieRankingLeaderboard,
)

from tests.clients.test_python_without_asyncio import Scripted, told
from tests.support.attack import registered
from tests.support.harness import Harness

NOT_FOUND = {"type": "https://scoregate.dev/problems/not-found", "title": "No entry", "ranked": False}


class Gateway(Scripted):
    """A board in memory, as far as the facade reads and writes it: players by score, best first."""

    def __init__(self, order: str = "descending", operator: str = "latest", **scores: int) -> None:
        super().__init__()
        self.order, self.operator, self.scores = order, operator, scores

    def listed(self) -> list[dict[str, Any]]:
        best = sorted(self.scores.items(), key=lambda item: item[1], reverse=self.order == "descending")
        return [
            {"rank": rank, "player": player, "name": player, "score": score, "total": len(best)}
            for rank, (player, score) in enumerate(best, 1)
        ]

    async def send(self, request: HttpRequest) -> HttpAnswer:
        self.sent.append(request)
        url = urlsplit(request.url)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix("/v1/boards/arcade")
        if request.method == "POST":
            return told(200, self.write(path, json.loads(request.body or b"")))
        if path == "":
            return told(200, self.described())
        if path == "/entries":
            return told(200, self.page(query))
        listed, player = self.listed(), path.split("/")[2]
        at = next((place for place, each in enumerate(listed) if each["player"] == player), None)
        if at is None:
            return told(404, NOT_FOUND, Content_Type="application/problem+json")
        if path.endswith("/around"):
            radius = int(query["radius"])
            return told(200, self.shown(listed[max(0, at - radius) : at + radius + 1]))
        return told(200, listed[at])

    def page(self, query: dict[str, str]) -> dict[str, Any]:
        listed = self.listed()
        if "players" in query:
            asked = query["players"].split(",")
            among = [each for each in listed if each["player"] in asked]
            return self.shown(
                [{**each, "global_rank": each["rank"], "rank": n} for n, each in enumerate(among, 1)]
            )
        first = int(query.get("cursor", query.get("offset", "0")))
        end = first + int(query["limit"])
        return self.shown(listed[first:end], str(end) if end < len(listed) else None)

    def shown(self, entries: list[dict[str, Any]], then: str | None = None) -> dict[str, Any]:
        total = len(self.scores)
        return {"board": "arcade", "window": "alltime", "total": total, "entries": entries, "next": then}

    def described(self) -> dict[str, Any]:
        text = {"board": "arcade", "title": "Arcade", "order": self.order, "operator": self.operator}
        lists = {"windows": ["alltime"], "ranks": ["unique"], "builds": []}
        rest = {"time_zone": "UTC", "decimals": 0, "writes": "trusted", "ticks_per_second": 60}
        return text | lists | rest

    def write(self, path: str, body: Any) -> dict[str, Any]:
        for each in body if isinstance(body, list) else [body]:
            if path == "/removals":
                self.scores.pop(each["player"], None)
            elif path == "/increments":
                self.scores[each["player"]] = self.scores.get(each["player"], 0) + each["by"]
            else:
                self.scores[each["player"]] = each["score"]
        if isinstance(body, list):
            return {"results": [{"status": "done", "result": {}} for _ in body]}
        return {"removed": []}


def a_board(gateway: Gateway, page_size: int = 25) -> Leaderboard:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    how: dict[str, Any] = {"transport": gateway, "runner": gateway, "clock": lambda: gateway.now_s}
    reader = SyncScoregateClient("https://scores.example", **how)
    server = SyncServerClient("https://scores.example", "s-1", key, **how)
    return Leaderboard("arcade", reader, server, page_size=page_size)


def many(count: int) -> dict[str, int]:
    return {f"p{n}": n for n in range(1, count + 1)}


async def test_the_first_steps_hold_against_a_gateway_as_it_is(harness: Harness) -> None:
    """Writes, reads, neighbours, percentiles and removals of an edge with its ledger and its index."""
    private = await registered(harness)

    def steps() -> None:
        with (
            SyncScoregateClient(harness.url) as reader,
            SyncServerClient(harness.url, "eu-1", private) as server,
        ):
            board = Leaderboard("arcade", reader, server, page_size=5)
            assert (0, [], None, False) == (
                board.total_members(),
                board.leaders(1),
                board.rank_for("x"),
                board.check_member("x"),
            )
            for n in range(1, 11):
                board.rank_member(f"member_{n}", n * 10, operation=f"match-{n}")
            board.rank_member("member_1", 10, operation="match-1")
            board.rank_members(["member_11", 110, "member_12", 120.0])
            board.remove_member("member_12")
            assert (11, 3, 660) == (board.total_members(), board.total_pages(), board.total_scores())
            assert {"member": "member_4", "score": 40, "rank": 8} == board.score_and_rank_for("member_4")
            assert ["member_6", "member_5"] == [each["member"] for each in board.leaders(2)[:2]]
            assert [6, 7, 8, 9, 10] == [each["rank"] for each in board.around_me("member_4")]
            assert [1, 2, 3, 4, 5] == [each["rank"] for each in board.around_me("member_11")]
            assert [] == board.around_me("x")
            listed = board.ranked_in_list(["member_1", "x", "member_11"])
            assert [11, None, 1] == [each["rank"] for each in listed]
            assert {"member": "member_8", "score": 80, "rank": 4} == board.member_at(4)
            assert (2, 60.0) == (board.page_for("member_4"), board.score_for_percentile(50))
            assert 91 == board.percentile_for("member_11")
            with pytest.raises(ScoregateError, match="score"):
                board.rank_members(["member_13", -10])
            with pytest.raises(NotOffered, match="operator: sum"):
                board.change_score_for("member_1", 10)

    await asyncio.to_thread(steps)


def test_members_are_ranked_read_and_removed_as_by_the_package() -> None:
    """The first steps of the package's README, with the answers that it gives there."""
    board = a_board(Gateway())
    for n in range(1, 11):
        board.rank_member(f"member_{n}", n)
    board.rank_members(["member_11", 11, "member_12", 12.0])
    board.remove_member("member_12")

    assert (11, 1, 3) == (board.total_members(), board.total_pages(), board.total_pages(5))
    assert (4, 8) == (board.score_for("member_4"), board.rank_for("member_4"))
    assert {"member": "member_4", "score": 4, "rank": 8} == board.score_and_rank_for("member_4")
    assert {"member": "x", "score": None, "rank": None} == board.score_and_rank_for("x")
    assert (True, False, None) == (
        board.check_member("member_1"),
        board.check_member("x"),
        board.rank_for("x"),
    )
    assert 66 == board.total_scores()
    assert ["member_11", "member_10"] == [each["member"] for each in board.leaders(1, page_size=2)]
    assert ["member_9", "member_8"] == [each["member"] for each in board.leaders_in("arcade", 2, page_size=2)]
    assert {"member": "member_8", "score": 8, "rank": 4} == board.member_at(4)
    assert board.member_at(12) is None
    assert [2, 3] == [each["rank"] for each in board.members_from_rank_range(2, 3)]
    assert [1, 2, 3] == [each["rank"] for each in board.top(3)]
    assert 2 == board.page_for("member_4", 5)


def test_pages_longer_than_a_request_are_read_without_gaps() -> None:
    """Several requests by cursors; all leaders are bounded."""
    board = a_board(Gateway(**many(250)))

    assert list(range(250, 0, -1)) == [each["score"] for each in board.all_leaders()]
    assert [each["rank"] for each in board.members_from_rank_range(20, 180)] == list(range(20, 181))
    with pytest.raises(ValueError, match="250 members are more than 200"):
        board.all_leaders(most=200)


def test_a_member_has_neighbours_as_in_the_package() -> None:
    """A full page even at the top, a shorter one at the end, an empty one for nobody."""
    board = a_board(Gateway(**many(50)), page_size=5)

    assert [24, 25, 26, 27, 28] == [each["rank"] for each in board.around_me("p25")]
    assert [1, 2, 3, 4, 5] == [each["rank"] for each in board.around_me("p50")]
    assert [48, 49, 50] == [each["rank"] for each in board.around_me("p1")]
    assert [] == board.around_me("x")


def test_members_of_a_list_have_their_ranks_among_all() -> None:
    """In the order of the list, the missing ones too, or sorted."""
    board = a_board(Gateway(**many(9)))

    listed = board.ranked_in_list(["p1", "x", "p9"])
    assert [("p1", 9), ("x", None), ("p9", 1)] == [(each["member"], each["rank"]) for each in listed]
    listed = board.ranked_in_list(["p1", "x", "p9"], include_missing=False, sort_by="rank")
    assert ["p9", "p1"] == [each["member"] for each in listed]


@pytest.mark.parametrize(("order", "percentile"), [("descending", 90), ("ascending", 10)])
def test_percentiles_are_those_of_the_package(order: str, percentile: int) -> None:
    """`p10` of ten is ahead of nine where high scores win, and of nobody where low ones do."""
    board = a_board(Gateway(order=order, **many(10)))

    assert percentile == board.percentile_for("p10")
    assert board.percentile_for("x") is None
    assert 5.5 == board.score_for_percentile(50)
    assert board.score_for_percentile(101) is None


def test_nothing_is_written_of_many_members_of_whom_one_has_no_whole_score() -> None:
    """However many thousands come before it, and whatever it has in its place."""
    before = [part for number in range(1_500) for part in (f"member_{number}", number)]
    for wrong in (0.5, float("nan"), float("inf")):
        gateway = Gateway()
        with pytest.raises(ValueError, match="scores are whole numbers"):
            a_board(gateway).rank_members([*before, "last", wrong])
        assert [] == [request for request in gateway.sent if request.method == "POST"]


def test_a_board_that_there_is_not_is_no_board_without_a_member() -> None:
    """A misspelt name is an error at every reading, and not an answer."""

    class Nowhere(Gateway):
        async def send(self, request: HttpRequest) -> HttpAnswer:
            problem = {name: value for name, value in NOT_FOUND.items() if name != "ranked"}
            return told(404, problem, Content_Type="application/problem+json")

    for read in ("check_member", "rank_for", "score_for", "around_me"):
        assert not getattr(a_board(Gateway(ada=5)), read)("eve")
        with pytest.raises(ScoregateError, match="not-found"):
            getattr(a_board(Nowhere()), read)("eve")


def test_a_list_may_be_longer_than_a_request_takes() -> None:
    """Of each of its members the rank is read once, in requests of a hundred."""
    gateway = Gateway(**many(250))
    asked = list(many(250))
    listed = a_board(gateway).ranked_in_list([*asked, "p1"])
    assert [*range(250, 0, -1), 250] == [each["rank"] for each in listed]
    assert [100, 100, 50] == [
        len(parse_qs(urlsplit(request.url).query)["players"][0].split(","))
        for request in gateway.sent
        if "players" in request.url
    ]


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [(Leaderboard, None), (CompetitionRankingLeaderboard, "sparse"), (TieRankingLeaderboard, "dense")],
)
def test_each_class_asks_for_its_kind_of_ranks(kind: type[Leaderboard], ranks: str | None) -> None:
    """In its window, also for members around one, and of another board of its gateway."""
    gateway = Gateway(**many(30))
    board = kind("arcade", a_board(gateway)._reader, window="daily")
    board.top(1)
    board.rank_for("p1")
    board.around_me("p15", page_size=3)
    board.named("arcade").top(1)
    asked = [parse_qs(urlsplit(each.url).query) for each in gateway.sent if "/entries" in each.url]
    assert [None if ranks is None else [ranks]] * len(asked) == [query.get("ranks") for query in asked]
    assert [["daily"]] * len(asked) == [query.get("window") for query in asked]


def test_a_score_changes_only_where_the_board_adds_up() -> None:
    """And the same operation is sent however often it is repeated by its id."""
    gateway = Gateway(operator="sum", p1=5)
    board = a_board(gateway)
    board.change_score_for("p1", 3, operation="coins-1")

    assert 8 == board.score_for("p1")
    assert "coins-1" == json.loads(next(each.body for each in gateway.sent if each.body))["operation"]
    with pytest.raises(NotOffered, match="change_score_for"):
        board.rank_member("p1", 3)
    with pytest.raises(NotOffered, match="operator: sum"):
        a_board(Gateway()).change_score_for("p1", 3)


def test_what_a_gateway_cannot_do_says_what_to_use_instead() -> None:
    """No method of the package is missing without a word."""
    board = a_board(Gateway())

    with pytest.raises(NotOffered, match="windows or seasons"):
        board.expire_leaderboard(60)
    with pytest.raises(NotOffered, match="scoregate board delete"):
        board.delete_leaderboard()
    with pytest.raises(NotOffered, match="database"):
        board.rank_member("p1", 1, {"colour": "red"})
    with pytest.raises(NotOffered, match="database"):
        board.leaders(1, with_member_data=True)
    with pytest.raises(ValueError, match="whole numbers"):
        board.rank_member("p1", 1.5)
    with pytest.raises(NotOffered, match="SyncServerClient"):
        Leaderboard("arcade", board._reader).remove_member("p1")
    with pytest.raises(AttributeError):
        board.no_such_method()
