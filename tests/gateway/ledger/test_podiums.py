"""The podiums that a batch would change are those that a plain list of all scores says it changes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import pytest

from gateway.ledger.moderation import podiums
from gateway.ledger.moderation.batch_items import ItemScore
from gateway.shared_records import Standing
from policies.choices import Operator
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT
from policies.windows import Window, window_named
from tests.support.policies import a_ranking

BEGIN_MS = 1_699_920_000_000
DAY_MS = 86_400_000
WINDOWS = ("alltime", "daily:20231114")
NARROW: dict[str, Any] = {"windows": ["alltime", "daily"], "score": {"minimum": -9, "maximum": 9}}
TIES: dict[str, Any] = {"tie_break": "fields", "tie_fields": [{"stat": "kills"}]}


class Run(NamedTuple):
    """A run of somebody: what it scored and when."""

    seq: int
    player: str
    score: int
    at_ms: int
    kills: int = 0

    @property
    def name(self) -> str:
        """The submission's id."""
        return f"s{self.seq}"


def an_item(run: Run) -> ItemScore:
    stats = orjson.dumps({"kills": run.kills}).decode()
    return ItemScore(run.seq, run.name, run.player, "waiting", run.score, run.at_ms, stats, None, None)


def reached_by(ranking: Ranking, run: Run) -> ReachedScore:
    return ReachedScore(run.score, run.at_ms, run.seq, run.name, ranking.ties({"kills": run.kills}))


def inside(window: Window, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if window.begin_ms <= run.at_ms < window.end_ms]


def board_of(ranking: Ranking, window: Window, runs: Sequence[Run]) -> dict[str, Standing]:
    """Everybody's standing in a window, by all their runs in it."""
    standings = {}
    for player in {run.player for run in runs}:
        own = [reached_by(ranking, run) for run in inside(window, runs) if run.player == player]
        reached = ranking.standing(own)
        place = ranking.place(window, player, reached) if reached else BoardPlace(0, "")
        score, at = (reached.score, reached[1:4]) if reached else (None, (0, 0, ""))
        standings[player] = Standing(
            "b", window.name, player, player, score, *at, window.expires_at_ms or 0, 1, *place, ranking.rule
        )
    return standings


def podium_of(standings: Mapping[str, Standing]) -> list[tuple[BoardPlace, str]]:
    places = [
        (BoardPlace(each.order, each.member), each.submission_id)
        for each in standings.values()
        if each.score is not None
    ]
    return sorted(places)[:3]


def answering(monkeypatch: pytest.MonkeyPatch, boards: Mapping[str, Mapping[str, Standing]]) -> Any:
    """A transaction that knows these standings, by window."""

    class Known:
        async def rows(self, _query: object, *, board: str, window_name: str) -> list[tuple[Any, ...]]:
            assert "b" == board
            first = podium_of(boards[window_name])
            player_of = {(each.order, each.member): each.player for each in boards[window_name].values()}
            return [(player_of[place], submission, *place) for place, submission in first]

    def standings_of(_board: str, wanted: Mapping[str, Sequence[str]]) -> Any:
        async def work(_tx: object) -> list[Standing]:
            return [
                boards[window][who] for window, of in wanted.items() for who in of if who in boards[window]
            ]

        return work

    monkeypatch.setattr(podiums, "standings_of", standings_of)
    return Known()


def some_runs(chance: random.Random, first: int, count: int, players: int) -> list[Run]:
    """Runs of few players with few scores, at the ends of a day and around it."""
    times = (-1, 0, 1, 500, DAY_MS - 1, DAY_MS)
    return [
        Run(
            seq,
            f"p{chance.randrange(players)}",
            chance.randrange(-2, 5),
            BEGIN_MS + chance.choice(times),
            chance.randrange(2),
        )
        for seq in range(first, first + count)
    ]


@pytest.mark.parametrize("operator", list(Operator))
@pytest.mark.parametrize("ties", [{}, TIES], ids=["time", "fields"])
@pytest.mark.parametrize("order", ["descending", "ascending"])
async def test_podiums_are_gained_where_the_first_three_would_be_others(
    monkeypatch: pytest.MonkeyPatch, operator: Operator, ties: dict[str, Any], order: str
):
    """Of every operator, order and tie-break: with the runs added, the three places or whose they are differ."""
    ranking = a_ranking(operator=operator.value, order=order, **NARROW, **ties)
    windows = [window_named(ranking.policy, name) for name in WINDOWS]
    for seed in range(25):
        chance = random.Random(seed)
        runs, added = some_runs(chance, 1, chance.randrange(9), 5), some_runs(chance, 50, 2, 6)
        before = {window.name: board_of(ranking, window, runs) for window in windows}
        after = {window.name: board_of(ranking, window, [*runs, *added]) for window in windows}
        expected = [name for name in WINDOWS if podium_of(before[name]) != podium_of(after[name])]
        tx = answering(monkeypatch, before)
        assert expected == await podiums.podiums_gained(ranking, windows, [an_item(run) for run in added])(tx)


@pytest.mark.parametrize("operator", list(Operator))
async def test_podiums_are_lost_with_what_stands_on_them(monkeypatch: pytest.MonkeyPatch, operator: Operator):
    """A sum or a count with any run of whoever stands there; else with the very runs by which they do."""
    ranking = a_ranking(operator=operator.value, **NARROW)
    windows = [window_named(ranking.policy, name) for name in WINDOWS]
    for seed in range(40):
        chance = random.Random(seed)
        runs = some_runs(chance, 1, 8, 5)
        taken = chance.sample(runs, 2)
        boards = {window.name: board_of(ranking, window, runs) for window in windows}
        expected = []
        for window in windows:
            podium = podium_of(boards[window.name])
            names = {submission for _, submission in podium}
            players = {place.member.rpartition(":")[2] for place, _ in podium}
            adds_up = operator in {Operator.SUM, Operator.COUNT}
            hit = [
                run
                for run in inside(window, taken)
                if (run.player in players if adds_up else run.name in names)
            ]
            expected += [window.name] * bool(hit)
        tx = answering(monkeypatch, boards)
        assert expected == await podiums.podiums_lost(ranking, windows, [an_item(run) for run in taken])(tx)


@pytest.mark.parametrize(("held", "added"), [(SCORE_LIMIT, 5), (-SCORE_LIMIT, -5)])
async def test_a_sum_stays_within_the_limits_of_a_score(
    monkeypatch: pytest.MonkeyPatch, held: int, added: int
):
    """It is clamped as the fold clamps it; what is added to it moves the time at which it was reached."""
    ranking = a_ranking(operator="sum", **NARROW)
    [window] = [window_named(ranking.policy, "alltime")]
    runs = [Run(1, "p1", held, BEGIN_MS)]
    seen: list[ReachedScore] = []
    place = ranking.place

    def placed(window: Window, player: str, reached: ReachedScore) -> BoardPlace:
        seen.append(reached)
        return place(window, player, reached)

    boards = {"alltime": board_of(ranking, window, runs)}
    monkeypatch.setattr(ranking, "place", placed)
    tx = answering(monkeypatch, boards)
    item = an_item(Run(2, "p1", added, BEGIN_MS + 1))
    assert [window.name] == await podiums.podiums_gained(ranking, [window], [item])(tx)
    [reached] = seen
    assert (held, BEGIN_MS + 1, 2, "s2") == reached[:4]


@pytest.mark.parametrize("operator", ["sum", "count"])
async def test_what_is_added_to_a_sum_counts_with_what_was_there(
    monkeypatch: pytest.MonkeyPatch, operator: str
):
    """By itself it would reach no podium."""
    ranking = a_ranking(operator=operator, **NARROW)
    [window] = [window_named(ranking.policy, "alltime")]
    first = [Run(2 * at + again, f"p{at}", 5, BEGIN_MS) for at in (1, 2, 3) for again in (0, 1)]
    runs = [*first, *(Run(8 + again, "p4", 4, BEGIN_MS) for again in (0, 1))]
    tx = answering(monkeypatch, {"alltime": board_of(ranking, window, runs)})
    item = an_item(Run(10, "p4", 3, BEGIN_MS + 1))
    assert ["alltime"] == await podiums.podiums_gained(ranking, [window], [item])(tx)
