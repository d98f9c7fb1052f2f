"""The export to Kafka, against the library's own mock brokers: every change arrives, and in order for each player."""

from __future__ import annotations

import json
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer

from gateway.catalogue.catalogue import Catalogue
from gateway.derived import change_followers, kafka
from gateway.derived.change_followers import ChangeFollower
from gateway.derived.kafka import ExportFailed, KafkaExport
from gateway.index.feed.consumer_group import LEFT_MS, Mutation
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from policies.loader import Policies
from tests.support.derived import catch_up
from tests.support.ports import unserved_port

PATIENCE_S = 30.0


@pytest.fixture
def brokers() -> Any:
    """Two mock brokers, which live as long as the client that made them."""
    owner = Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "ignored"})
    found = owner.list_topics(timeout=PATIENCE_S).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in found)
    owner.flush(0)


def arrived(brokers: str, count: int, topic: str = "scoregate.standings") -> list[tuple[str, dict[str, Any]]]:
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest"}
        | {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        some = [each for each in consumer.consume(count, timeout=PATIENCE_S) if each.error() is None]
        found += [(each.key().decode(), json.loads(each.value())) for each in some]
    consumer.close()
    return found


def export(stage, brokers: str, **options: Any) -> KafkaExport:
    settings = Settings(**stage.settings.model_dump() | {"kafka_servers": brokers})
    return KafkaExport(settings, stage.ledger, clock=stage.clock, **options)


async def test_changes_arrive_with_what_tells_them_apart(stage, brokers):
    """Keyed by board and player; a steward that died before it acknowledged sends the same again, and `seq` tells."""
    consumer = export(stage, brokers)
    catalogue = Catalogue(Policies({"tiny": stage.board}))
    options = {"steward": "one", "clock": stage.clock, "left_ms": 0, "look_s": 0}
    follower = ChangeFollower(stage.ledger, stage.index.client, catalogue, consumer, **options)
    await follower.step()
    for score in (1, 2, 3):
        await stage.score("ada", score)
    taken = await follower.group(lane_of("tiny")).take(100, left_ms=0)
    mutations = [entry.mutation(stage.board.ranking) for entry in taken.entries]
    await consumer.take(stage.board, [mutation for mutation in mutations if mutation])  # and dies
    assert 6 == await follower.step()

    found = arrived(brokers, 12)
    assert {"tiny/ada"} == {key for key, _ in found}
    scores = [(each["window"], each["seq"], each["score"]) for _, each in found]
    assert [1, 2, 3] == [score for _, _, score in sorted({each for each in scores if each[0] == "alltime"})]
    alltime = [each["score"] for _, each in found if each["window"] == "alltime"]
    assert [1, 2, 3, 1, 2, 3] == alltime


async def test_a_steward_exports_what_changes_and_after_a_loss_what_stands(
    stage, brokers, monkeypatch: pytest.MonkeyPatch
):
    """Where brokers are set: each record says all of the change, and what the lost stream had comes from the ledger, without ranks."""
    monkeypatch.setattr(change_followers, "QUIET_MS", 10**15)  # so that the loss is of everything
    settings = Settings(**stage.settings.model_dump() | {"kafka_servers": brokers})
    derivations = stage.derivations(settings)
    assert "kafka" not in stage.derivations().of_changes
    await catch_up(derivations)
    await stage.score("ada", 1)
    best = await stage.score("ada", 3)
    await catch_up(derivations)
    lost = await stage.score("bob", 2)
    stage.redis.flushall()
    await catch_up(derivations)

    found = [(key, value) for key, value in arrived(brokers, 8) if value["window"] == "alltime"]
    [(seq,), (of_bob,)] = stage.rows(
        f"SELECT seq FROM events WHERE submission_id IN ('{best}', '{lost}') AND to_state = 'promoted'"
    )
    assert ["tiny/ada"] * 3 + ["tiny/bob"] == sorted(key for key, _ in found)
    last, told_again = (value for key, value in found if key == "tiny/ada" and value["score"] == 3)
    [after_loss] = [value for key, value in found if key == "tiny/bob"]
    assert last | {"at_ms": 0} == {
        "at_ms": 0,
        "board": "tiny",
        "seq": seq,
        "window": "alltime",
        "player": "ada",
        "name": "",
        "submission_id": best,
        "score": 3,
        "rank": 1,
        "was_score": 1,
        "was_rank": 1,
    }
    assert last | {"rank": None, "was_score": None, "was_rank": None, "at_ms": 0} == told_again | {"at_ms": 0}
    told = ("seq", "score", "submission_id", "rank", "was_score", "was_rank")
    assert (of_bob, 2, lost, None, None, None) == tuple(after_loss[each] for each in told)


async def test_changes_go_to_the_topic_of_the_settings_in_the_time_that_is_ours(
    stage, brokers, monkeypatch: pytest.MonkeyPatch
):
    """The library gives a record up before another steward takes it over, and sends it with what comes a moment later."""
    options: dict[str, Any] = {}

    def noting(given: dict[str, Any]) -> Producer:
        options.update(given)
        return Producer(given)

    monkeypatch.setattr(confluent_kafka, "Producer", noting)
    settings = Settings(
        **stage.settings.model_dump() | {"kafka_servers": brokers, "kafka_topic": "elsewhere"}
    )
    change = Mutation(1, 1, "alltime", "ada", "Ada", "run-1", 5, 1, None, None)
    await KafkaExport(settings, stage.ledger, clock=stage.clock).take(stage.board, [change])
    assert [5] == [value["score"] for _, value in arrived(brokers, 1, "elsewhere")]
    assert (10_000, True) == (options["delivery.timeout.ms"], options["delivery.timeout.ms"] < LEFT_MS)
    assert (5, "scoregate", True) == tuple(
        options[each] for each in ("linger.ms", "client.id", "enable.idempotence")
    )


async def test_what_the_brokers_do_not_take_is_not_acknowledged(stage):
    """It fails in the time that it has, and comes again."""
    change = Mutation(1, 1, "alltime", "ada", "Ada", "run-1", 5, 1, None, None)
    with unserved_port() as port:
        consumer = export(stage, f"127.0.0.1:{port}", **{"delivery.timeout.ms": 300, "log_level": 0})
        with pytest.raises(ExportFailed, match="1 of 1 records"):
            await consumer.take(stage.board, [change])


async def test_what_the_library_has_said_nothing_of_is_not_acknowledged(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """Neither delivered nor failed when the time is over: it may still be on its way, and comes again."""
    monkeypatch.setattr(kafka, "DELIVERY_MS", 50)
    change = Mutation(1, 1, "alltime", "ada", "Ada", "run-1", 5, 1, None, None)
    with unserved_port() as port:
        consumer = export(stage, f"127.0.0.1:{port}", **{"delivery.timeout.ms": 60_000, "log_level": 0})
        with pytest.raises(ExportFailed, match="1 of 1 records: time-out"):
            await consumer.take(stage.board, [change])


def test_the_producer_s_own_retries_add_and_reorder_nothing(stage):
    """It is idempotent: what does not go with that is refused."""
    with pytest.raises(SettingsError, match="idempotence"):
        export(stage, "127.0.0.1:1", acks="1")


def test_what_cannot_be_meant_is_said_at_the_start(stage):
    """An option that the library refuses is an error of the settings."""
    with pytest.raises(SettingsError, match="SCOREGATE_KAFKA_SERVERS"):
        export(stage, "127.0.0.1:1", **{"no.such.option": 1})
