"""The facade answers what the package `leaderboard` answers after the same random steps, on a gateway as it is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from leaderboard.competition_ranking_leaderboard import CompetitionRankingLeaderboard as CompetitionOfPackage
from leaderboard.leaderboard import Leaderboard as OfPackage
from leaderboard.tie_ranking_leaderboard import TieRankingLeaderboard as TieOfPackage
from redis import Redis
from redis.exceptions import DataError, RedisError
from scoregate_client import ScoregateError, SyncScoregateClient, SyncServerClient
from scoregate_client.leaderboard import CompetitionRankingLeaderboard, Leaderboard, TieRankingLeaderboard
from scoregate_client.leaderboard_methods import INSTEAD, OF_NAMED, NotOffered

from gateway.runtime.settings import Settings
from tests.support.attack import registered
from tests.support.game import ROOT
from tests.support.harness import Harness, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.thorough import examples, seeds
from tests.support.valkey import ValkeyServer

MEMBERS = [f"member_{number}" for number in range(24)]
STRANGERS = ("nobody", "no player!", "", "ü", "a/b", "p" * 65)
SIZES = (1, 2, 3, 5, 25, 60)


class OldRedis:
    """A client of Redis with the arguments of redis-py 2, which the package expects."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def pipeline(self) -> OldRedis:
        return OldRedis(self._client.pipeline())

    def zadd(self, name: str, score: float, member: str) -> Any:
        return self._client.zadd(name, {member: score})

    def zincrby(self, name: str, member: str, delta: float) -> Any:
        return self._client.zincrby(name, delta, member)


class Both:
    """A board of the package and one of the gateway, by class and name."""

    def __init__(self, harness: Harness, client: Redis, key: Any) -> None:
        self._reader = SyncScoregateClient(harness.url)
        self._server = SyncServerClient(harness.url, "eu-1", key)
        self.client = client
        self._redis = OldRedis(client)

    def boards(
        self, name: str, package: type[OfPackage], facade: type[Leaderboard], **how: Any
    ) -> tuple[OfPackage, Leaderboard]:
        theirs = package(name, redis_connection=self._redis, order=name.partition("-")[0], **how)
        return theirs, facade(name, self._reader, self._server, **how)

    def of_package(self, name: str, kind: type[OfPackage] = OfPackage, **how: Any) -> OfPackage:
        """A board of the package alone."""
        return kind(name, redis_connection=self._redis, **how)

    def close(self) -> None:
        self._reader.close()
        self._server.close()


@pytest.fixture
async def both(settings: Settings, valkey: ValkeyServer, tmp_path: Any) -> AsyncIterator[Both]:
    how: dict[str, Any] = {
        "writes": "trusted",
        "ranks": ["unique", "sparse", "dense"],
        "windows": ["alltime"],
    }
    bounds = {"minimum": -(10**6), "maximum": 10**6, "step": 1}
    orders = {"desc-1": "descending", "asc-1": "ascending"}
    policies = [
        a_policy(name, **how, order=order, operator="latest", score=bounds) for name, order in orders.items()
    ]
    policies.append(a_policy("desc-sum", **how, operator="sum", score=bounds))
    policies.append(a_policy("desc-best", **how, operator="best", score=bounds))
    policies.append(a_policy("desc-sparse", **how | {"ranks": ["sparse"]}, operator="latest", score=bounds))
    folder = write_policies(tmp_path / "policies", *policies)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        key = await registered(harness)
        with Redis.from_url(valkey.url.replace("db=0", "db=1"), decode_responses=True) as client:
            pair = Both(harness, client, key)
            yield pair
            pair.close()


def change(chance: random.Random, boards: Iterator[Any], scores: list[int]) -> None:
    """A step on boards of both: one score, several, or the end of a member who may not be there."""
    kind, member = chance.random(), chance.choice(MEMBERS)
    several = [part for each in chance.sample(MEMBERS, 5) for part in (each, scores.pop())]
    score = scores.pop()
    for board in boards:
        if kind < 0.4:
            board.rank_member(member, score)
        elif kind < 0.7:
            board.rank_members(several)
        else:
            board.remove_member(member)


def pages(chance: random.Random) -> Iterator[Callable[[Any], Any]]:
    """Reads of lists, at their edges and beyond."""
    for size in SIZES:
        for page in (-3, 0, 1, 2, chance.randrange(1, 30), 10**12):
            yield lambda board, size=size, page=page: board.leaders(page, page_size=size)
        for member in (*chance.sample(MEMBERS, 3), "nobody"):
            yield lambda board, size=size, member=member: board.around_me(member, page_size=size)
        yield lambda board, size=size: board.total_pages(size)
    for first, last in ((1, 1), (-2, 3), (3, 2), (2, 9), (20, 99), (99, 120)):
        yield lambda board, first=first, last=last: board.members_from_rank_range(first, last)
    for place in (-1, 0, 1, 7, 24, 25):
        yield lambda board, place=place: board.member_at(place)
        yield lambda board, place=place: board.member_at(place, page_size=3)
    for options in ({}, {"members_only": True}, {"sort_by": "rank"}, {"sort_by": "score"}):
        yield lambda board, options=options: board.all_leaders(**options)
        yield lambda board, options=options: board.leaders_in(board.leaderboard_name, 1, **options)
    yield lambda board: board.top(3)
    yield lambda board: (board.total_members(), board.total_scores())


def of_members(chance: random.Random) -> Iterator[Callable[[Any], Any]]:
    """Reads of members, of strangers too, and of percentiles."""
    for member in (*chance.sample(MEMBERS, 8), *STRANGERS):
        yield lambda board, member=member: board.check_member(member)
        yield lambda board, member=member: board.rank_for(member)
        yield lambda board, member=member: board.score_and_rank_for(member)
        yield lambda board, member=member: board.percentile_for(member)
        yield lambda board, member=member: board.page_for(member, 5)
    listed = [*chance.sample(MEMBERS, 6), "nobody", "no player!", "nobody", chance.choice(MEMBERS)]
    for options in ({}, {"include_missing": False}, {"sort_by": "rank"}, {"sort_by": "score"}):
        yield lambda board, options=options: board.ranked_in_list(listed, **options)
    yield lambda board: board.ranked_in_list([])
    for percentile in (-1, 0, 1, 33.3, 50, chance.uniform(0, 100), 99.9, 100, 101):
        yield lambda board, percentile=percentile: board.score_for_percentile(percentile)


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", ["desc-1", "asc-1"])
async def test_scores_that_differ_are_answered_alike(both: Both, name: str, seed: int) -> None:
    """Every read, from the empty board on, of members and strangers, at the edges of pages and beyond."""
    chance = random.Random(seed)
    scores = chance.sample(range(-(10**6), 10**6), 1000)

    def play() -> None:
        theirs, ours = both.boards(name, OfPackage, Leaderboard, page_size=7)
        for steps in (0, 1, 5, 12):
            for _ in range(steps):
                change(chance, iter((theirs, ours)), scores)
            for number, read in enumerate([*pages(chance), *of_members(chance)]):
                assert (number, read(theirs)) == (number, read(ours))

    await asyncio.to_thread(play)


KINDS = ((CompetitionOfPackage, CompetitionRankingLeaderboard), (TieOfPackage, TieRankingLeaderboard))


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", ["desc-1", "asc-1"])
async def test_equal_scores_have_equal_ranks_as_in_the_package(both: Both, name: str, seed: int) -> None:
    """By both of its ways to rank them; only who of them is shown first is the board's."""
    chance = random.Random(seed)
    scores = [chance.randrange(1, 6) for _ in range(1000)]

    def play() -> None:
        pairs = [both.boards(name, *kind) for kind in KINDS]
        plain = both.boards(name, OfPackage, Leaderboard)
        writers = [pairs[1][0], pairs[1][1]]  # the class that keeps the scores that are tied
        for _ in range(12):
            change(chance, iter(writers), scores)
        members = [each["member"] for each in plain[0].all_leaders()]
        for theirs, ours in pairs:
            for member in members:
                assert theirs.score_and_rank_for(member) == ours.score_and_rank_for(member)
            by_name = [
                sorted(board.ranked_in_list(members), key=lambda each: each["member"])
                for board in (theirs, ours)
            ]
            assert by_name[0] == by_name[1]
            assert [each["rank"] for each in theirs.leaders(1)] == [each["rank"] for each in ours.leaders(1)]
            assert len(members) == len({ours.page_for(each, 1) for each in members})
        listed = [board.all_leaders() for board in plain]
        for key in ("score", "rank"):
            assert [each[key] for each in listed[0]] == [each[key] for each in listed[1]]
        assert Counter(each["member"] for each in listed[0]) == Counter(each["member"] for each in listed[1])

    await asyncio.to_thread(play)


async def test_scores_are_added_up_as_in_the_package(both: Both) -> None:
    """Up and down, of a member who is new too; `rank_members` refuses what is half before it writes."""
    chance = random.Random(1)

    def play() -> None:
        theirs, ours = both.boards("desc-sum", OfPackage, Leaderboard)
        for number in range(20):
            member, delta = chance.choice(MEMBERS[:6]), chance.randrange(-50, 100) * 1000 + number
            for board in (theirs, ours):
                board.change_score_for(member, delta)
        assert theirs.all_leaders() == ours.all_leaders()

    await asyncio.to_thread(play)


async def test_a_board_without_places_of_its_own_has_pages(both: Both) -> None:
    """Where equal scores share all ranks, pages and percentiles follow the order in which they are listed."""

    def play() -> None:
        theirs, ours = both.boards("desc-sparse", CompetitionOfPackage, Leaderboard)
        for board in (theirs, ours):
            board.rank_members(["ada", 5, "bob", 5, "eve", 5, "zoe", 1])
            assert {"member": "zoe", "score": 1, "rank": 4} == board.score_and_rank_for("zoe")
            assert {"member": "bob", "score": 5, "rank": 1} == board.score_and_rank_for("bob")
        assert [1, 1, 2, 2] == sorted(ours.page_for(each, 2) for each in ("ada", "bob", "eve", "zoe"))
        assert {1: 3, 4: 1} == Counter(
            each["rank"] for each in ours.ranked_in_list(["ada", "bob", "eve", "zoe"])
        )

    await asyncio.to_thread(play)


async def test_halves_are_refused_before_anything_is_written(both: Both) -> None:
    """A member without a score, and scores that are not whole, finite numbers."""

    def play() -> None:
        _, ours = both.boards("desc-1", OfPackage, Leaderboard)
        for several in (["ada", 1, "bob"], ["ada", 1, "bob", 1.5], ["ada", 1, "bob", float("inf")]):
            with pytest.raises(ValueError, match=r"bob|whole"):
                ours.rank_members(several)
        assert 0 == ours.total_members()

    await asyncio.to_thread(play)


def test_every_method_of_the_package_is_there() -> None:
    """By its own name, or with a word on what to use instead; its constants that name keys too."""
    for kind in (OfPackage, CompetitionOfPackage, TieOfPackage):
        methods = [name for name in dir(kind) if name.islower() and not name.startswith("_")]
        assert {"pool"} == {
            name
            for name in methods
            if not (hasattr(Leaderboard, name) or name in INSTEAD or name in OF_NAMED)
        }
    for name in ("DEFAULT_PAGE_SIZE", "MEMBER_KEY", "SCORE_KEY", "RANK_KEY"):
        assert getattr(OfPackage, name) == getattr(Leaderboard, name)
    assert 25 == Leaderboard("arcade", None, page_size=0).page_size  # type: ignore[arg-type]


FEW, POINTS, SIZE = st.sampled_from(MEMBERS[:8]), st.integers(-(10**6), 10**6), st.integers(1, 9)


class Beside(RuleBasedStateMachine):
    """Writes and reads on both boards, and compares every answer; no two scores are equal."""

    pair: ClassVar[tuple[OfPackage, Leaderboard]]

    @initialize()
    def empty(self) -> None:
        self.scores: dict[str, int] = {}
        for member in MEMBERS[:8]:
            self.both("remove_member", member)

    def both(self, method: str, *args: Any, **options: Any) -> None:
        answers = [getattr(board, method)(*args, **options) for board in self.pair]
        if not method.startswith(("rank_member", "remove_")):  # what Redis answers to a write means nothing
            assert answers[0] == answers[1], (method, args, options)

    @rule(member=FEW, score=POINTS)
    def rank_member(self, member: str, score: int) -> None:
        if score not in self.scores.values():
            self.scores[member] = score
            self.both("rank_member", member, score)

    @rule(some=st.dictionaries(FEW, POINTS, min_size=1, max_size=8))
    def rank_members(self, some: dict[str, int]) -> None:
        fresh = {member: score for member, score in some.items() if score not in self.scores.values()}
        if len({*fresh.values()}) == len(fresh) > 0:
            self.scores |= fresh
            self.both("rank_members", [part for pair in fresh.items() for part in pair])

    @rule(member=FEW)
    def remove_member(self, member: str) -> None:
        self.scores.pop(member, None)
        self.both("remove_member", member)

    @rule(member=FEW | st.sampled_from(STRANGERS), size=SIZE)
    def read_member(self, member: str, size: int) -> None:
        for method in ("rank_for", "score_for", "check_member", "score_and_rank_for", "percentile_for"):
            self.both(method, member)
        self.both("page_for", member, size)
        self.both("around_me", member, page_size=size)

    @rule(page=st.integers(-1, 9), size=SIZE, first=st.integers(-2, 9), last=st.integers(1, 12))
    def read_pages(self, page: int, size: int, first: int, last: int) -> None:
        self.both("leaders", page, page_size=size)
        self.both("members_from_rank_range", first, last)
        self.both("member_at", first)
        self.both("total_pages", size)

    @rule(listed=st.lists(FEW | st.just("nobody")), sort_by=st.sampled_from([None, "rank", "score"]))
    def read_list(self, listed: list[str], sort_by: str | None) -> None:
        options = {"sort_by": sort_by} if sort_by else {}
        self.both("ranked_in_list", listed, **options)
        self.both("ranked_in_list", listed, include_missing=False, **options)

    @rule(percentile=st.floats(-5, 105))
    def read_whole(self, percentile: float) -> None:
        self.both("score_for_percentile", percentile)
        for method in ("all_leaders", "total_members", "total_scores"):
            self.both(method)


@pytest.mark.parametrize("name", ["desc-1", "asc-1"])
async def test_whatever_is_called_in_whatever_order_both_answer_alike(both: Both, name: str) -> None:
    """Writes and reads as Hypothesis thinks of them, made shorter where they differ."""
    pair = both.boards(name, OfPackage, Leaderboard, page_size=4)
    machine = type("BesideOn", (Beside,), {"pair": pair})
    how = settings_of_hypothesis(
        max_examples=examples(4), stateful_step_count=12, deadline=None, suppress_health_check=[*HealthCheck]
    )
    await asyncio.to_thread(run_state_machine_as_test, machine, settings=how)


def needs(both: Both) -> None:
    plain = OfPackage("plain", redis_connection=both.client)
    with pytest.raises((AttributeError, DataError)):
        plain.rank_member("ada", 1)


def members(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    theirs.rank_member("no player!", 1)
    assert theirs.check_member("no player!")
    with pytest.raises(ScoregateError, match="player"):
        ours.rank_member("no player!", 1)
    assert not ours.check_member("no player!")


def scores(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    for score in (1.5, "2.5", 10.0**9):
        theirs.rank_member("ada", score)
        assert float(score) == theirs.score_for("ada")
        with pytest.raises((ValueError, TypeError, ScoregateError)):
            ours.rank_member("ada", score)  # type: ignore[arg-type]
    assert ours.score_for("ada") is None


def order(both: Both) -> None:
    _, ours = both.boards("desc-1", OfPackage, Leaderboard)
    for board in (ours, both.of_package("desc-1", order="asc")):
        board.rank_members(["ada", 1, "eve", 2])
    assert (1, 2) == (both.of_package("desc-1", order="asc").rank_for("ada"), ours.rank_for("ada"))


def rank_member(both: Both) -> None:
    for name, kept in (("desc-1", 1), ("desc-best", 5)):
        theirs, ours = both.boards(name, OfPackage, Leaderboard)
        for board in (theirs, ours):
            board.rank_member("ada", 5)
            board.rank_member("ada", 1)
        assert (1, kept) == (theirs.score_for("ada"), ours.score_for("ada"))
    with pytest.raises(NotOffered):
        both.boards("desc-sum", OfPackage, Leaderboard)[1].rank_member("ada", 1)


def change_score_for(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    theirs.change_score_for("ada", 3)
    assert 3 == theirs.score_for("ada")
    with pytest.raises(NotOffered, match="operator: sum"):
        ours.change_score_for("ada", 3)


def equal_scores(both: Both) -> None:
    for name, theirs_first in (("desc-1", "zoe"), ("asc-1", "ada")):
        theirs, ours = both.boards(name, OfPackage, Leaderboard)
        for board in (theirs, ours):
            for member in ("eve", "zoe", "ada"):
                board.rank_member(member, 5)
        assert [theirs_first, "eve"] == [board.leaders(1)[0]["member"] for board in (theirs, ours)]


def ranks(both: Both) -> None:
    theirs, ours = both.boards("desc-sparse", OfPackage, Leaderboard)
    for board in (theirs, ours):
        board.rank_members(["ada", 5, "eve", 5])
    assert ([1, 2], [1, 1]) == tuple([each["rank"] for each in board.leaders(1)] for board in (theirs, ours))


def rank_for_nobody(both: Both) -> None:
    theirs, ours = both.boards("desc-1", CompetitionOfPackage, CompetitionRankingLeaderboard)
    with pytest.raises(TypeError):
        theirs.rank_for("nobody")
    assert ours.rank_for("nobody") is None


def a_score_of_0_that_ends(both: Both) -> None:
    theirs, ours = both.boards("desc-1", TieOfPackage, TieRankingLeaderboard)
    for board in (theirs, ours):
        board.rank_members(["ada", 5, "bob", 0, "eve", -1])
        board.remove_member("bob")
    assert (3, 2) == (theirs.rank_for("eve"), ours.rank_for("eve"))


def page_for(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard, page_size=2)
    for board in (theirs, ours):
        board.rank_members(["ada", 5, "bob", 4, "eve", 3])
    assert (1, 2) == (theirs.page_for("eve"), ours.page_for("eve"))


def a_last_place(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    for board in (theirs, ours):
        board.rank_members(["ada", 5, "bob", 4])
    assert (2, 0) == (len(theirs.top(0)), len(ours.top(0)))


def rank_members(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    with pytest.raises(RedisError):
        theirs.rank_members(["ada", 1, "bob"])
    with pytest.raises(ValueError, match="bob"):
        ours.rank_members(["ada", 1, "bob"])
    assert 0 == ours.total_members()


def total_scores_in(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    for board in (theirs, ours):
        board.rank_member("ada", 5)
        board.rank_member_in("desc-best", "ada", 7)
    assert (5, 7) == (theirs.total_scores_in("desc-best"), ours.total_scores_in("desc-best"))


def unknown_options(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    assert [] == theirs.leaders(1, colour="red")
    with pytest.raises(TypeError, match="colour"):
        ours.leaders(1, colour="red")


def all_leaders(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    for board in (theirs, ours):
        board.rank_members(["ada", 5, "bob", 4])
    assert (2, 2) == (len(theirs.all_leaders()), len(ours.all_leaders(most=2)))
    for method in (ours.all_leaders, ours.total_scores):
        with pytest.raises(ValueError, match="2 members are more than 1"):
            method(most=1)


def with_member_data(both: Both) -> None:
    theirs, ours = both.boards("desc-1", OfPackage, Leaderboard)
    theirs.rank_member("ada", 5, '{"colour": "red"}')
    assert "member_data" in theirs.leaders(1, with_member_data=True)[0]
    with pytest.raises(NotOffered, match="database"):
        ours.leaders(1, with_member_data=True)


DIFFERENCES: dict[str, Callable[[Both], None]] = {
    "needs": needs,
    "members": members,
    "scores": scores,
    "`order`": order,
    "`rank_member`": rank_member,
    "`change_score_for`": change_score_for,
    "equal scores": equal_scores,
    "ranks": ranks,
    "`rank_for` of nobody by `CompetitionRankingLeaderboard`": rank_for_nobody,
    "a score of 0 that ends in `TieRankingLeaderboard`": a_score_of_0_that_ends,
    "`page_for` without a page size": page_for,
    "a last place of 0 or less, such as `top(0)`": a_last_place,
    "`rank_members` with a member without a score": rank_members,
    "`total_scores_in(name)`": total_scores_in,
    "unknown options": unknown_options,
    "`all_leaders`, `total_scores`": all_leaders,
    "a list with `with_member_data=True`": with_member_data,
}
"""What the README says is different, by the first cell of its row, as what shows that it is."""


def test_every_difference_that_the_readme_lists_is_tried() -> None:
    """And no other: a row without a trial, or a trial without a row, is an error in either."""
    readme = (ROOT / "clients" / "python" / "README.md").read_text()
    table = readme.partition("| | the package | here |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert list(DIFFERENCES) == [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()]


@pytest.mark.parametrize("difference", DIFFERENCES)
async def test_the_package_and_the_facade_differ_as_the_readme_says(both: Both, difference: str) -> None:
    """Each on both, so that neither column is wrong."""
    await asyncio.to_thread(DIFFERENCES[difference], both)
