"""Webhooks, achievements and the export hear of rollups, whose changes bear submissions to boards of the family."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import orjson
import pytest
from redis import Redis
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.derived.derivations import Derivations
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.folded_rules import mark_all
from gateway.ledger.derived.webhooks import DeliveryState, Webhook
from gateway.ledger.ledger import Ledger
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.wiring import catalogue_of, open_index, open_ledger
from policies.opened_board import OpenedBoard
from policies.vocabulary import Reason, State
from tests.gateway.derived.test_kafka import arrived, brokers  # noqa: F401 - a fixture
from tests.support.clock import ShiftedClock
from tests.support.derived import catch_up
from tests.support.ledger import new_submission, rows
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORE = {"minimum": 0, "maximum": 1000}


class Track:
    """A family with two boards and two rollups, and what a steward derives."""

    def __init__(self, settings: Settings, catalogue: Catalogue, ledger: Ledger, index: Index) -> None:
        self.settings = settings
        self.catalogue = catalogue
        self.ledger = ledger
        self.index = index
        self.clock = ShiftedClock()
        self.endpoint = Webhook("wh_1", "https://example.com/", b"s" * 32, ("*",), ("*",), self.clock())
        self.redis = Redis.from_url(settings.redis_url, decode_responses=True)
        self._numbers = count()

    async def derivations(self) -> Derivations:
        options = {"clock": self.clock, "left_ms": 0, "look_s": 0}
        derivations = Derivations(self.settings, self.catalogue, self.ledger, self.index.client, **options)
        await catch_up(derivations)
        return derivations

    async def score(self, board: str, player: str, score: int) -> str:
        """The id of a run that counts on a board of the family."""
        name = f"run-{next(self._numbers)}"
        facts = {"player": player, "score": score, "at_ms": self.clock(), "recording": None}
        await self.ledger.append(new_submission(name, board=board, **facts))
        await self.decide(board, name, State.PROMOTED)
        return name

    async def decide(self, board: str, name: str, state: State) -> None:
        decision = Decision(name, state, "replay", Reason.VERIFIED, self.clock(), frozenset(State))
        found = await self.catalogue.board(board)
        assert found
        await settle(self.ledger, self.index, found, [decision])

    async def told(self) -> set[tuple[str, str, str, int | None]]:
        """The changes of standings on the rollup that the endpoint is to hear: type, player, and scores and ranks."""
        found = await self.ledger.read(webhooks.deliveries_of("wh_1", DeliveryState.PENDING, count=1000))
        bodies = [orjson.loads(each.body) for each in found]
        return {
            (body["type"], body["data"]["player"], body["data"]["submission"], body["data"].get("score"))
            for body in bodies
            if body["data"]["board"] == "world"
        }


@pytest.fixture
async def track(tmp_path: Path, valkey: ValkeyServer, brokers: str) -> AsyncIterator[Track]:  # noqa: F811
    rollup = {"board": "world", "title": "World", "rollup": {"family": "track"}}
    folder = write_policies(
        tmp_path / "policies",
        a_family(writes="trusted", score=SCORE),
        a_family("car", writes="trusted"),
        a_policy("tiny"),
        rollup,
    )
    settings = Settings(
        data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, kafka_servers=brokers
    )
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        for family, rests in (("track", "ab"), ("car", "a")):
            batch = [OpenedBoard(f"{family}.{rest}", family, rest) for rest in rests]
            await ledger.write(open_boards(FamilyTerms(family, "sha256:x"), batch, actor="cli", at_ms=1))
        made = Track(settings, catalogue_of(settings, ledger), ledger, index)
        for board in ("world", "tiny", "track.a", "track.b", "car.a"):
            made.redis.set(keys.sentinel(board), "1")
        await ledger.write(webhooks.add_webhook(made.endpoint))
        yield made
        made.redis.close()


async def test_everybody_hears_what_changes_on_a_rollup(track: Track, brokers: str):  # noqa: F811
    """With the run that a standing was reached with, none for one that is gone; and nothing is taken for forged."""
    derivations = await track.derivations()
    first = await track.score("track.a", "ada", 5)
    second = await track.score("track.b", "ada", 7)
    with capture_logs() as logs:
        await catch_up(derivations)
    assert [] == [each for each in logs if each["event"] == "changes_forged"]
    changed = {("standing.changed", "ada", first, 5), ("standing.changed", "ada", second, 12)}
    reached = {("rank.changed", "ada", first, None), ("achievement.reached", "ada", first, None)}
    assert changed | reached == await track.told()
    exported = [value for key, value in arrived(brokers, 4) if key == "world/ada"]
    assert [(5, first), (12, second)] == [(value["score"], value["submission_id"]) for value in exported]
    for board, name in (("track.b", second), ("track.a", first)):
        await track.decide(board, name, State.REVOKED)
    with capture_logs() as logs:
        await catch_up(derivations)
    assert [] == [each for each in logs if each["event"] == "changes_forged"]
    assert (None, "") in {(score, submission) for _, _, submission, score in await track.told()}


async def test_what_lost_streams_had_of_a_rollup_is_caught_up_from_the_ledger(track: Track):
    """Standings that changed since, and who is among the first ten now."""
    derivations = await track.derivations()
    await track.score("track.a", "ada", 5)
    await catch_up(derivations)
    lost = await track.score("track.b", "bob", 7)
    track.redis.flushall()
    await catch_up(derivations)
    told = await track.told()
    assert {("standing.changed", "bob", lost, 7), ("achievement.reached", "bob", lost, None)} <= told
    found = rows(track.settings.ledger_path, "SELECT player, rank FROM achievements WHERE board = 'world'")
    assert [("ada", 1), ("bob", 1)] == sorted(found)


async def test_what_a_new_consumer_finds_at_the_top_of_a_rollup_is_recorded_and_not_told(track: Track):
    """It was reached before anybody listened, and an endpoint would get years of it at once."""
    await track.score("track.a", "ada", 5)
    await track.derivations()
    found = rows(track.settings.ledger_path, "SELECT player, rank FROM achievements WHERE board = 'world'")
    assert [("ada", 1)] == found
    assert [] == [each for each in await track.told() if each[0] == "achievement.reached"]


async def test_nobody_has_reached_the_first_ten_of_a_rollup_that_is_folded_anew_after_a_loss(track: Track):
    """Its standings are of two rules; the changes themselves are told, without ranks."""
    derivations = await track.derivations()
    await track.score("track.a", "ada", 5)
    await catch_up(derivations)
    lost = await track.score("track.b", "bob", 7)
    track.redis.flushall()
    await track.ledger.write(mark_all(["world"]))
    await track.derivations()
    assert {("standing.changed", "bob", lost, 7)} == {each for each in await track.told() if each[1] == "bob"}
    found = rows(track.settings.ledger_path, "SELECT player, rank FROM achievements WHERE board = 'world'")
    assert [("ada", 1)] == found


@pytest.mark.parametrize(
    "forged",
    [
        ("bob", "run-0", "another player's run"),
        ("ada", "run-1", "a run on a board of another family"),
        ("ada", "run-2", "a run on a board of a file"),
    ],
)
async def test_a_forged_change_of_a_rollup_has_no_effect(track: Track, forged: tuple[str, str, str]):
    """A submission confirms it if it counts for that player on a board of the rollup's own family."""
    player, submission, _ = forged
    derivations = await track.derivations()
    await track.score("track.a", "ada", 5)
    await track.score("car.a", "ada", 5)
    await track.score("tiny", "ada", 5)
    await catch_up(derivations)
    before = await track.told()
    stream, lane = keys.lane_changes(lane_of("world")), lane_of("world")
    of_world = next(fields for _, fields in track.redis.xrevrange(stream) if fields.get("board") == "world")
    assert lane == lane_of(of_world["board"])
    track.redis.xadd(stream, of_world | {"player": player, "submission": submission, "seq": "99"})
    with capture_logs() as logs:
        await catch_up(derivations)
    assert {"webhooks", "achievements", "kafka"} == {
        each["consumer"] for each in logs if each["event"] == "changes_forged"
    }
    assert before == await track.told()
