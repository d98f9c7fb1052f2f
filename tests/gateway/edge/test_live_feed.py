"""The live feed: what changes is pushed, a listener that comes back misses nothing or is told so, a slow one is let go."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.live import heartbeats
from gateway.index import keys
from gateway.index.feed import listener_events, reader
from gateway.index.feed.events import EventKind, Interest
from gateway.index.feed.listener import FeedEnd
from gateway.index.lane_stream import LaneStream
from gateway.runtime.settings import Settings
from policies.errors import IndexUnavailable
from tests.support.attack import as_server, registered, until
from tests.support.feeds import add, caught_up, entry, listeners_of, sse, websocket
from tests.support.harness import Harness, Request, free_port, running_harness
from tests.support.metrics import metric
from tests.support.valkey import running_valkey

WINDOWS = 4
"""Of the board that is written to: each write moves a standing in each of them."""


async def write(harness: Harness, private: Ed25519PrivateKey, score: int, player: str = "ada") -> None:
    said = {"operation": f"{player}-{score}", "player": player, "score": score}
    assert 202 == (await as_server(harness, private, said)).status


async def test_a_change_is_pushed_to_those_who_follow_its_board(harness: Harness):
    """A listener is told who, what, where and what was there before; another board's is told nothing."""
    private = await registered(harness)
    async with sse(harness) as feed, sse(harness, board="sprint") as other:
        await write(harness, private, 7)
        change = await feed.standing()
        facts = {"player": "ada", "name": "ada", "score": 7, "rank": 1, "window": "alltime", "was_rank": None}
        assert facts == {name: change[name] for name in facts}
        await write(harness, private, 9)
        change = await feed.standing()
        assert (9, 1, 7, 1) == tuple(change[name] for name in ("score", "rank", "was_score", "was_rank"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await other.event()


async def test_a_listener_hears_of_the_windows_that_it_names(harness: Harness):
    """`window` takes kinds and names, with commas between them; without it every window is told of."""
    private = await registered(harness)
    today = next(
        each
        for each in (await harness.get("/v1/boards/vault/entries?window=daily")).body.values()
        if "daily:" in str(each)
    )
    async with (
        sse(harness, "") as every,
        sse(harness, f"window=alltime,{today}") as named,
        sse(harness, "window=daily,weekly") as kinds,
    ):
        await write(harness, private, 7)
        assert {"alltime", "daily", "weekly", "monthly"} == {
            (await every.standing())["window"].partition(":")[0] for _ in range(WINDOWS)
        }
        assert {"alltime", today} == {(await named.standing())["window"] for _ in range(2)}
        assert {"daily", "weekly"} == {(await kinds.standing())["window"].partition(":")[0] for _ in range(2)}


async def test_a_listener_hears_of_the_players_that_it_names(harness: Harness):
    """`players` leaves out everybody else's standings."""
    private = await registered(harness)
    async with sse(harness, "window=alltime&players=bob,cyd&events=standing") as feed:
        for player, score in (("ada", 1), ("bob", 2), ("ada", 3), ("cyd", 4)):
            await write(harness, private, score, player)
        assert ["bob", "cyd"] == [(await feed.standing())["player"] for _ in range(2)]


async def test_a_player_is_told_when_it_moves_and_who_passes_it(harness: Harness):
    """`rank` when the player's own entry moves or somebody above leaves, `overtaken` with who came by."""
    private = await registered(harness)
    await write(harness, private, 50, "cyd")
    await write(harness, private, 5, "bob")
    async with sse(harness, "window=alltime&players=bob&events=rank,overtaken") as feed:
        await write(harness, private, 60, "cyd")  # was ahead, stays ahead: nobody moves
        await write(harness, private, 9, "ada")
        told = await feed.event()
        assert ("overtaken", "bob", 3, 2, "ada", 9) == (
            told.kind,
            told.data["player"],
            told.data["rank"],
            told.data["was_rank"],
            told.data["by"]["player"],
            told.data["by"]["score"],
        )
        await write(harness, private, 100, "bob")
        told = await feed.event()
        assert ("rank", {"player": "bob", "window": "alltime", "rank": 1, "was_rank": 3}) == (
            told.kind,
            told.data,
        )


async def test_of_several_events_of_one_change_the_last_bears_the_id(harness: Harness):
    """Who had only some of them resumes before the change, and gets them all again."""
    private = await registered(harness)
    await write(harness, private, 5, "bob")
    async with sse(harness, "window=alltime&players=ada,bob") as feed:
        before = feed.last_id
        await write(harness, private, 9)
        told = [await feed.event() for _ in range(3)]
    assert ["standing", "rank", "overtaken"] == [each.kind for each in told]
    assert [None, None, feed.last_id] == [each.id for each in told]
    async with sse(harness, "window=alltime&players=ada,bob", after=before) as again:
        assert told == [await again.event() for _ in range(3)]


FORGED = [
    {"player": "eve"},
    entry("eve", 1, order="much"),
    entry("eve", 1, order=10**30),
    entry("eve", 1, was_order="x"),
    entry("eve", 1, rank="-1"),
    entry("eve", 1, rank=10**40),
    {"\xff": "eve"},
    {
        b"window": b"daily:\xff",
        b"player": b"\xff",
        b"name": b"",
        b"order": b"",
        b"rank": b"",
        b"submission": b"",
    },
]


async def test_forged_entries_of_the_stream_do_not_end_the_feed(harness: Harness):
    """What somebody wrote into Redis is passed over, live and by who resumes; the changes after it arrive."""
    private = await registered(harness)
    async with sse(harness) as feed, sse(harness, "window=alltime&players=ada,eve") as watching:
        await write(harness, private, 1)
        assert [1] == await feed.scores(1)
        first = feed.last_id
        for fields in FORGED:
            await harness.edge.index.client.xadd(keys.changes("vault"), fields)
        await write(harness, private, 2)
        assert [2] == await feed.scores(1)
        assert [1, 2] == await watching.scores(2)
    async with sse(harness, "window=alltime&players=ada,eve", after=first) as resumed:
        assert [2] == await resumed.scores(1)


async def test_a_listener_that_comes_back_misses_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """From the last id it had, a listener gets everything since, over several pages, and then what is new."""
    monkeypatch.setattr(listener_events, "RESUME_PAGE", 3)
    private = await registered(harness)
    async with sse(harness) as feed:
        await write(harness, private, 1)
        assert [1] == await feed.scores(1)
    for score in range(2, 9):
        await write(harness, private, score)
    for how in ({"after": feed.last_id}, {"query": f"window=alltime&after={feed.last_id}"}):
        async with sse(harness, **how) as again:
            assert (
                list(range(2, 9)) == [(await again.event()).data["score"] for _ in range(7)]
                if "query" in how
                else await again.scores(7)
            )
    async with sse(harness, after=again.last_id) as again:
        await write(harness, private, 9)
        assert [9] == await again.scores(1)


async def test_a_browser_that_reconnects_goes_on_from_its_last_event(harness: Harness):
    """It sends its header with the query that its page began with, and is not told again what came before."""
    private = await registered(harness)
    async with sse(harness) as feed:
        await write(harness, private, 1)
        assert [1] == await feed.scores(1)
        began = feed.last_id
        await write(harness, private, 2)
        assert [2] == await feed.scores(1)
    await write(harness, private, 3)
    async with sse(harness, f"window=alltime&after={began}", after=feed.last_id) as again:
        assert [3] == await again.scores(1)


async def test_who_had_no_event_yet_resumes_from_where_it_began(harness: Harness):
    """`begin` bears an id, so that a listener that lost its connection at once misses nothing either."""
    private = await registered(harness)
    await write(harness, private, 1)
    async with sse(harness) as feed:
        pass
    await write(harness, private, 2)
    async with sse(harness, after=feed.last_id) as again:
        assert [2] == await again.scores(1)


async def test_nothing_is_missed_between_catching_up_and_following(harness: Harness):
    """Changes that come while a listener catches up are told once each, in order."""
    private = await registered(harness)
    async with sse(harness) as feed:
        await write(harness, private, 1)
        assert [1] == await feed.scores(1)
        last = feed.last_id

    async def keep_writing() -> None:
        for score in range(2, 40):
            await write(harness, private, score)

    writing = asyncio.create_task(keep_writing())
    seen: list[int] = []
    while len(seen) < 38:
        async with sse(harness, after=last) as feed:
            seen += await feed.scores(min(5, 38 - len(seen)))
            last = feed.last_id
    await writing
    assert list(range(2, 40)) == seen


async def test_what_is_both_past_and_new_is_told_once(harness: Harness):
    """A change that a listener finds when it catches up, and that was pushed to it meanwhile, comes once."""
    private = await registered(harness)
    await write(harness, private, 1)
    live = harness.edge.live
    [first] = [each for each, _ in await harness.edge.index.client.xrange(keys.changes("vault"), count=1)]
    async with live.listen("vault", Interest(windows=frozenset({"alltime"})), first) as feed:
        [listener] = listeners_of(harness)
        for score in (2, 3):
            await write(harness, private, score)

        async def is_pushed() -> bool:
            return listener.behind == 2

        await until(is_pushed, within_s=20)
        seen = [event.change.score for event in await anext(feed.events)]
        await write(harness, private, 4)
        seen += [event.change.score for event in await anext(feed.events)]
    assert [2, 3, 4] == seen


async def test_who_is_too_late_is_told_to_read_the_board_again(harness: Harness):
    """An id that the stream has no more, or never had, is answered by `reset` with where the feed goes on."""
    client = harness.edge.index.client
    private = await registered(harness)
    await write(harness, private, 1)
    async with sse(harness) as feed:
        pass
    await write(harness, private, 2)
    await client.xtrim(keys.changes("vault"), maxlen=2, approximate=False)
    for gone in (feed.last_id, "1-0", "18446744073709551615-18446744073709551615"):
        async with sse(harness, after=gone) as late:
            told = await late.event()
            assert ("reset", {}) == (told.kind, told.data)
            last = late.last_id
    await write(harness, private, 3)
    async with sse(harness, after=last) as again:
        assert [3] == await again.scores(1)


async def test_the_feed_outlives_redis(settings: Settings):
    """While Redis is away the listener waits; when it is back, with its file, the feed goes on without a hole."""
    with running_valkey() as own:
        async with running_harness(settings.model_copy(update={"redis_url": own.url})) as harness:
            private = await registered(harness)
            await write(harness, private, 1)
            async with sse(harness) as feed:
                last = feed.last_id
                own.kill()
                await write(harness, private, 2)
                own.start()
                harness.clock.shift(60)
                await harness.steward().project()  # nothing is left for it if the write's own call came late
                assert ("standing", 2) == ((told := await feed.event()).kind, told.data["score"])
            async with sse(harness, after=last) as again:
                assert [2] == await again.scores(1)


async def test_listeners_are_told_when_redis_was_emptied(harness: Harness):
    """The stream that begins anew is another one: who listens is told so, and so is who resumes by an id of the old one."""
    private = await registered(harness)
    client = harness.edge.index.client
    resets = metric("scoregate_live_resets_total")
    await write(harness, private, 1)
    async with sse(harness) as feed:
        old = feed.last_id
        await client.flushall()
        await write(harness, private, 2)
        assert "reset" == (await feed.event()).kind
        await write(harness, private, 3)
        while await feed.scores(1) != [3]:  # of the write that woke the reader there may be something left
            pass
    async with sse(harness, after=old) as late:
        assert "reset" == (await late.event()).kind
    assert resets + 2 == metric("scoregate_live_resets_total")


async def test_a_stream_that_begins_anew_in_the_past_is_noticed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Redis was emptied and its clock set back: ids below the last one wake no reader, and it finds them all the same."""
    monkeypatch.setattr(reader, "LOOK_S", 0.02)
    monkeypatch.setattr(reader, "BLOCK_MS", 20)
    async with running_harness(settings) as harness:
        client = harness.edge.index.client
        await add(client, entry("ada", 1))
        async with sse(harness) as feed:
            await client.delete(keys.changes("vault"))
            await add(client, entry("ada", 2), stream_id="5-1")
            assert ("reset", "5-1") == ((told := await feed.event()).kind, told.id)
            await add(client, entry("ada", 3), stream_id="6-1")
            assert [3] == await feed.scores(1)


async def test_an_id_that_is_none_of_ours_is_refused(harness: Harness):
    """A `Last-Event-ID`, or `after`, is the id of an event, or the request is malformed."""
    for after in ("x", "1", "1-", "-1", "1-1-1", "1-1\u0661", "9" * 21 + "-0"):
        for path, headers in ((f"?after={after}", {}), ("", {"Last-Event-ID": after})):
            answer = await harness.send(Request("GET", f"/v1/boards/vault/live{path}", b"", headers))
            assert (400, "malformed-request") == (answer.status, answer.problem)


async def test_what_cannot_be_followed_is_refused(harness: Harness):
    """A query that asks for what there is not gets a problem, and no feed."""
    violation = (422, "schema-violation")
    refusals = {
        "window=hourly": (404, "not-found"),
        "window=": (404, "not-found"),
        "window=hourly:2026": (404, "not-found"),
        "window=" + ",".join(["alltime"] * 17): violation,
        "players=": violation,
        "players=a%20b": violation,
        "players=" + ",".join(f"p{at}" for at in range(101)): violation,
        "events=joy": violation,
        "events=begin": violation,
        "events=rank": violation,
        "events=standing,rank": violation,
        "mode=some": violation,
        "friends=yes": violation,
        "friends=true": (401, "token-invalid"),
    }
    for query, refusal in refusals.items():
        answer = await harness.get(f"/v1/boards/vault/live?{query}")
        assert refusal == (answer.status, answer.problem), query


@pytest.mark.parametrize(
    "path", ["/v1/boards/vault/live", "/v1/boards/vault/live/websocket", "/v1/moderation/queue/live"]
)
async def test_a_feed_is_not_asked_for_its_head_alone(harness: Harness, path: str):
    """It would be held open for nothing, and have a seat; other reads have one."""
    answer = await harness.send(Request("HEAD", path, b""))
    assert (405, False) == (answer.status, "HEAD" in answer.headers["Allow"])
    assert 200 == (await harness.send(Request("HEAD", "/v1/boards/vault/entries", b""))).status


async def test_as_many_windows_and_players_as_there_may_be_are_followed(harness: Harness):
    """One more of either is refused."""
    private = await registered(harness)
    windows, players = ",".join(["alltime"] * 16), ",".join(["ada", *(f"p{at}" for at in range(99))])
    async with sse(harness, f"window={windows}&players={players}&events=standing") as feed:
        await write(harness, private, 7)
        assert "ada" == (await feed.standing())["player"]


async def test_friends_and_named_players_are_not_followed_together(harness: Harness):
    """A feed that took one of the two for the other would leave out what was asked for."""
    headers = {"Authorization": f"Bearer {await harness.new_player('Ada')}"}
    url = f"{harness.url}/v1/boards/vault/live?friends=true"
    for query, status in (("", 200), ("&players=bob", 422)):
        async with harness.session.get(url + query, headers=headers) as answer:
            assert status == answer.status


async def test_a_feed_of_friends_tells_of_them_and_of_who_passes_the_bearer(harness: Harness):
    """Standings of whom the bearer follows and of themself, and their own ranks, whoever moves them."""
    private = await registered(harness)
    token = await harness.new_player()
    me = harness.edge.tokens.check(token, now_s=harness.clock() / 1000).subject
    followed = await harness.send(
        Request("PUT", "/v1/friends/bob", b"", {"Authorization": f"Bearer {token}"})
    )
    assert 200 == followed.status
    await write(harness, private, 5, me)
    async with sse(harness, "window=alltime&friends=true", token=token) as feed:
        await write(harness, private, 9, "eve")
        await write(harness, private, 4, "bob")
        await write(harness, private, 7, "bob")
        told = [await feed.event() for _ in range(4)]
        await write(harness, private, 20, me)
        own = {(each.kind, each.data["player"]) for each in [await feed.event() for _ in range(2)]}
    assert ["overtaken", "standing", "standing", "overtaken"] == [each.kind for each in told]
    assert ["eve", "bob"] == [each.data["by"]["player"] for each in told if each.kind == "overtaken"]
    assert {("rank", me), ("standing", me)} == own
    refused = await harness.get("/v1/boards/vault/live?friends=true&players=bob", token)
    assert (422, "schema-violation") == (refused.status, refused.problem)


async def test_a_process_has_seats_for_so_many_listeners(settings: Settings):
    """One more is told to come again; a seat that becomes free is free."""
    async with running_harness(settings.model_copy(update={"live_listeners": 1})) as harness:
        async with sse(harness):
            answer = await harness.get("/v1/boards/vault/live")
            assert (503, "temporary-reduced-capacity", "5") == (
                answer.status,
                answer.problem,
                answer.headers["Retry-After"],
            )
            answer = await harness.get("/v1/boards/vault/live/websocket")
            assert 400 == answer.status

        async def is_free() -> bool:
            return harness.edge.live._free == 1

        await until(is_free, within_s=20)
        async with sse(harness):
            pass


async def test_a_heartbeat_moves_the_id_on(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Who is told nothing for long, because nothing concerns it, still resumes from now, not from where it began."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.02)
    private = await registered(harness)
    async with sse(harness, "window=alltime&players=bob&events=standing") as feed:
        begun = feed.last_id
        await write(harness, private, 1)
        [(newest, _)] = await harness.edge.index.client.xrevrange(keys.changes("vault"), count=1)
        async with asyncio.timeout(20):
            while await feed.line() != f"id: {newest}":
                pass
    assert begun != newest


async def test_a_listener_that_could_not_be_told_what_it_missed_is_let_go(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """If the past cannot be read the feed ends: going on from now would leave a hole that nobody notices."""

    async def refuse(*_args: Any, **_more: Any) -> Any:
        raise IndexUnavailable("gone")

    async with harness.edge.live.listen("vault", Interest(), "1-0") as feed:
        monkeypatch.setattr(LaneStream, "after", refuse)
        assert [] == [events async for events in feed.events]
        assert FeedEnd.UNKNOWN_PAST == feed.end


async def test_a_player_who_stands_no_more_is_told_of(harness: Harness):
    """A change without score and rank says that nothing of the player counts any more."""
    async with sse(harness, "window=alltime&players=ada") as feed:
        gone = {"order": "", "member": "", "rank": 0, "was_order": -7, "was_member": "m", "was_rank": 3}
        await add(harness.edge.index.client, entry("ada", 7, **gone))
        change, rank = await feed.event(), await feed.event()
    assert (None, None, 7, 3) == tuple(
        change.data[name] for name in ("score", "rank", "was_score", "was_rank")
    )
    assert (EventKind.RANK, None, 3) == (rank.kind, rank.data["rank"], rank.data["was_rank"])


async def test_an_edge_that_ends_lets_its_listeners_go(settings: Settings):
    """A shutdown does not wait for listeners; they resume elsewhere."""
    async with running_harness(settings) as harness:
        async with sse(harness) as feed:
            harness.edge.live.release()
            assert await feed.has_ended()
        async with asyncio.timeout(20), harness.edge.live.listen("vault") as late:
            assert [EventKind.BEGIN] == [
                event.kind for events in [each async for each in late.events] for event in events
            ]
            assert FeedEnd.RELEASED == late.end


async def test_the_newest_changes_are_announced_once_on_a_channel_of_redis(settings: Settings):
    """Of all edges one announces a change, as a WebSocket is told it; of many at once the newest of each player."""
    announcing = settings.model_copy(update={"live_pubsub": True})
    other = announcing.model_copy(update={"bind": f"127.0.0.1:{free_port()}"})
    async with running_harness(announcing) as harness, running_harness(other) as second:
        client = harness.edge.index.client
        async with client.pubsub() as channel:
            await channel.subscribe(keys.news("vault"))
            for number in (1, 2):
                await add(client, entry("ada", number))
                assert ("standing", number) == (
                    (told := await announced(channel))["event"],
                    told["data"]["score"],
                )
            await caught_up(harness)
            await caught_up(second)
            async with client.pipeline(transaction=True) as pipe:  # all of it is there before anybody looks
                for number in range(3, 9):
                    pipe.xadd(keys.changes("vault"), entry(("ada", "bob")[number % 2], number))
                await pipe.execute()
            assert [7, 8] == [(await announced(channel))["data"]["score"] for _ in range(2)]
            await caught_up(harness)
            await caught_up(second)
            async with client.pipeline(transaction=True) as pipe:
                for player, number in (("ada", 9), ("bob", 10), ("ada", 11)):
                    pipe.xadd(keys.changes("vault"), entry(player, number))
                await pipe.execute()
            # In the order of what is told, though ada was seen first.
            assert [10, 11] == [(await announced(channel))["data"]["score"] for _ in range(2)]


async def announced(channel: Any) -> Any:
    async with asyncio.timeout(20):
        while (message := await channel.get_message(ignore_subscribe_messages=True, timeout=1)) is None:
            pass
    return json.loads(message["data"])


async def test_a_feed_of_friends_ends_with_its_bearers_token(harness: Harness):
    """By either transport, before the next change is told; a feed that anybody may have goes on."""
    private = await registered(harness)
    token, query = await harness.new_player(), "window=alltime&friends=true"
    headers = {"Authorization": f"Bearer {token}"}
    await harness.send(Request("PUT", "/v1/friends/bob", b"", headers))
    async with (
        sse(harness, query, token=token) as stream,
        websocket(harness, query, headers=headers) as socket,
        sse(harness, token=token) as of_all,
    ):
        assert 200 == (await harness.send(Request("DELETE", "/v1/tokens", b"", headers))).status
        await write(harness, private, 4, "bob")
        assert (True, 1008) == (await stream.has_ended(), await socket.close_code())
        assert [4] == await of_all.scores(1)
    assert "the token is over" == socket.reason


async def test_a_feed_of_friends_ends_when_its_bearers_token_expires(harness: Harness):
    """It is good for as long as it says and the clock is in doubt, however long a feed is kept open."""
    private, now_s = await registered(harness), harness.clock() // 1000
    token = harness.edge.tokens.mint(Bearer("ada", Role.PLAYER, now_s + 60), now_s=now_s)
    object.__setattr__(harness.edge, "reference", SimpleNamespace(error_ms=60_000))
    async with sse(harness, "window=alltime&friends=true", token=token) as stream:
        harness.clock.shift(61)
        await write(harness, private, 4, "ada")
        assert [4] == await stream.scores(1)
        harness.clock.shift(60)
        await write(harness, private, 5, "ada")
        assert await stream.has_ended()
