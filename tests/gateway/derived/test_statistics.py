"""Statistics of a board: exact counts, and an estimate of its players that survives the loss of Redis."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.derived import statistics
from gateway.derived.statistics import Statistics
from gateway.derived.trends import Span, TrendKind, trend_of
from gateway.index.windows.distinct_players import BUILT_KEPT_MS, STANDARD_ERROR, DistinctPlayers
from gateway.ledger.derived.counts import counts_of
from gateway.runtime.lanes import LANES
from policies.errors import LedgerUnavailable
from policies.vocabulary import State
from tests.support.derived import catch_up
from tests.support.ledger import new_submission
from tests.support.metrics import counts


async def test_counts_are_those_of_the_ledger(stage):
    """Attempts never go down; what counts goes up and down with every decision."""
    kept = await stage.score("ada", 5)
    taken = await stage.score("bob", 6)
    await stage.decide(await stage.receive("cy", 7), State.REJECTED)
    await stage.receive("dee", 8)
    await stage.decide(taken, State.REVOKED)
    derivations = stage.derivations()
    await catch_up(derivations)
    assert (4, 1) == await stage.ledger.read(counts_of("tiny"))

    await stage.decide(taken)
    await stage.decide(kept, State.REVOKED)
    await catch_up(derivations)
    counted = await stage.ledger.read(counts_of("tiny"))
    assert (4, 1) == counted

    await derivations.rebuild("statistics")
    await catch_up(derivations)
    assert counted == await stage.ledger.read(counts_of("tiny"))
    assert (0, 0) == await stage.ledger.read(counts_of("nothing"))


async def test_players_are_counted_anew_when_redis_was_emptied(stage):
    """By the steward's look, and by the next event if that is first: no count ever begins in the middle."""
    derivations = stage.derivations()
    players = DistinctPlayers(stage.index.client, "tiny")
    for number in range(8):
        await stage.receive(f"p{number % 5}", number)
    await catch_up(derivations)
    assert 5 == await players.count()

    stage.redis.flushall()
    assert None is await players.count()
    with counts(1, "scoregate_derived_rebuilds_total", consumer="statistics"):
        assert 1 == await derivations.repair()
    assert (5, 0) == (await players.count(), await derivations.repair())

    stage.redis.flushall()
    await stage.receive("new", 1)
    await catch_up(derivations)
    assert 6 == await players.count()


async def test_what_happened_on_a_board_that_is_gone_stops_nothing_and_counts_for_no_other(stage):
    """The log has events of boards whose policy was taken away: they are counted there, and nobody trends or is a player here."""
    derivations = stage.derivations()
    for number, (board, player) in enumerate([("gone", "eve"), ("tiny", "ada"), ("gone", "ada")]):
        facts = {"board": board, "player": player, "at_ms": stage.clock()}
        await stage.ledger.append(new_submission(f"gone-{number}", **facts))
    stage.redis.flushall()
    await catch_up(derivations)
    players = DistinctPlayers(stage.index.client, "tiny")
    trend = await trend_of(stage.ledger, "tiny", TrendKind.PLAYED, Span.HOUR, now_ms=stage.clock(), count=9)
    assert (1, ["ada"]) == (await players.count(), [each.item for each in trend.leaders])
    assert [1, 0] == [len(stage.redis.keys(f"derived:*:{board}:players")) for board in ("tiny", "gone")]
    counted = [await stage.ledger.read(counts_of(board)) for board in ("tiny", "gone")]
    assert [(1, 0), (2, 0)] == counted
    assert [(1,)] == stage.rows("SELECT count(DISTINCT board) FROM trend_slots")


async def test_a_recount_reads_every_page_of_the_ledger(stage, monkeypatch: pytest.MonkeyPatch):
    """However many there are, and nothing of it is left beside the estimate."""
    monkeypatch.setattr(statistics, "PAGE", 2)
    derivations = stage.derivations()
    for number in range(5):
        await stage.receive(f"p{number}")
    await derivations.statistics.recount(["tiny"])
    assert 5 == await DistinctPlayers(stage.index.client, "tiny").count()
    assert [-1] == [stage.redis.ttl(each) for each in stage.redis.keys("derived:{201}:tiny:players*")]


async def test_the_steward_asks_lanes_and_not_boards_what_was_lost(stage):
    """With a thousand boards as with one: at most a call for each lane, and one walk through the ledger for all that is lost."""
    await stage.receive("ada")
    for count in (1, 1_000):
        names = ["tiny", *(f"board-{number}" for number in range(1, count))]
        counted = Statistics(stage.ledger, stage.index.client, names)
        stage.redis.flushall()
        with counts(1, "scoregate_derived_rebuilds_total", consumer="statistics"):
            assert count == await counted.repair()
        before = stage.redis.info("stats")["total_commands_processed"]
        assert 0 == await counted.repair()
        assert stage.redis.info("stats")["total_commands_processed"] - before <= min(count, LANES) + 1
        players = [await DistinctPlayers(stage.index.client, name).count() for name in names[:2]]
        assert [1, 0][:count] == players, "where nobody played, that is known too"


async def test_a_recount_that_redis_was_emptied_under_comes_again(stage, monkeypatch: pytest.MonkeyPatch):
    """Its lanes are not marked: the estimates that were put before are gone. Nor are they if the steward died."""
    derivations = stage.derivations()
    await stage.receive("ada")
    recount = derivations.statistics.recount

    async def emptied(boards: Any) -> None:
        await recount(boards)
        stage.redis.flushall()

    async def died(_boards: Any) -> None:
        raise LedgerUnavailable

    monkeypatch.setattr(derivations.statistics, "recount", emptied)
    assert 1 == await derivations.repair()
    monkeypatch.setattr(derivations.statistics, "recount", died)
    with pytest.raises(LedgerUnavailable):
        await derivations.repair()
    monkeypatch.setattr(derivations.statistics, "recount", recount)
    assert [1, 0] == [await derivations.repair(), await derivations.repair()]
    assert 1 == await DistinctPlayers(stage.index.client, "tiny").count()


async def test_the_estimate_is_within_its_error(stage):
    """Twenty thousand players, each seen twice: within four standard errors."""
    players = DistinctPlayers(stage.index.client, "tiny")
    await players.recount().put()
    names = [f"player-{number}" for number in range(20_000)]
    for _ in range(2):
        for at in range(0, len(names), 2_000):
            assert await players.add(names[at : at + 2_000])
    assert abs(await players.count() - len(names)) < 4 * STANDARD_ERROR * len(names)


async def test_two_recounts_at_once_lose_nobody(stage):
    """What one has counted stays when the other puts its own."""
    players = DistinctPlayers(stage.index.client, "tiny")
    slow, fast = players.recount(), players.recount()
    await slow.add(["ada"])
    [built] = stage.redis.keys("*built*")
    assert 0 < stage.redis.pttl(built) <= BUILT_KEPT_MS  # of who dies over it nothing stays
    await fast.add(["ada", "bob"])
    await fast.put()
    await players.add(["cy"])
    await slow.put()
    assert 3 == await players.count()
    assert [] == stage.redis.keys("*built*")
