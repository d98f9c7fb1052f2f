"""The life of a family's board over HTTP, to its end: closed, archived with final ranks, reopened, deleted."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.catalogue.family_terms import terms_of
from gateway.edge.live import heartbeats
from gateway.ledger.archive.windows import archived_window, begin, windows_at_work
from gateway.ledger.boards.board_life import life_of
from gateway.ledger.boards.board_opening import TAKEN_BY_DELETED, TAKEN_BY_PLAYED
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.derived import board_duties
from gateway.ledger.derived.board_duties import BoardDuty
from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from gateway.steward.archive import archiving
from gateway.steward.archive.archiving import Archiver
from gateway.steward.duties import Steward
from policies.loader import load_policies
from policies.opened_board import BoardState
from policies.windows import FOREVER_MS, window_named
from tests.gateway.edge.test_families import BOARDS, SCORE, Studio, opening
from tests.support.attack import registered, until
from tests.support.clock import ShiftedClock
from tests.support.harness import Answer, Harness, Run, free_port, running_harness
from tests.support.policies import a_family, write_policies
from tests.support.valkey import ValkeyServer

CLOSE = {"action": "close", "board": "track.a"}
REOPEN = {"action": "reopen", "board": "track.a"}
DELETE = {"action": "delete", "board": "track.a", "reason": "over"}
RACES = "/v1/families/race/boards"
LIFETIME_S = 60


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    policies = (
        a_family(
            writes="trusted",
            score=SCORE,
            windows=["alltime", "daily"],
            names_free_after_delete=True,
            metadata_filters={"country": "text"},
        ),
        a_family("race", score=SCORE, run_lifetime_s=LIFETIME_S),
    )
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    data = {"data_dir": tmp_path / "data", "policies_dir": folder, "archive_after_s": 20}
    return Settings(**data, redis_url=valkey.url, bind=bind)


@pytest.fixture
async def studio(settings: Settings) -> AsyncIterator[Studio]:
    clock = ShiftedClock()
    clock.stop()
    async with running_harness(settings, clock) as harness:
        yield Studio(harness, await registered(harness))


async def archived(harness: Harness, board: str) -> list[tuple[int, int]]:
    """Revision and number of entries of the board's `alltime`, as far as it is archived."""
    windows = (await harness.get(f"/v1/boards/{board}/windows")).body["windows"]
    [alltime] = [window for window in windows if window["window"] == "alltime"]
    assert (None, None) == (alltime["begins_at"], alltime["ends_at"])
    archive = alltime["archive"]
    return [(archive["revision"], archive["entries"])] if archive else []


async def submitted(harness: Harness, run: Run, score: int) -> str:
    """The id of a submission that a moderator is to judge."""
    answer = await harness.submit(run, {"score": score, "ticks": 60}, board="race.a")
    assert answer.status in (200, 202), answer.raw
    return str(answer.body["submission"])


async def decide(harness: Harness, submission: str, decision: str) -> Answer:
    path = f"/v1/moderation/cases/{submission}/{decision}"
    return await harness.post(path, {"code": "other", "note": "checked"}, token=harness.moderator("race.a"))


async def life(harness: Harness, board: str) -> list[tuple[str, str]]:
    """The events of a board's life: what, and by whom."""
    return [(each.reason.value, each.actor) for each in await harness.edge.ledger.read(life_of(board))]


async def test_a_board_goes_through_its_life(studio: Studio):
    """Opened, closed by a steward once, landed on, archived once with final ranks, corrected, and opened again."""
    harness, clock = studio.harness, studio.harness.clock
    times = {"opens_at": rfc3339(clock() + 30_000), "closes_at": rfc3339(clock() + 100_000)}
    race = {"action": "open", "board": "race.a", "title": "A", **times}
    await studio.done(race, path=RACES)
    ada, bob = await harness.new_player("Ada"), await harness.new_player("Bob")
    path, stewards = "/v1/boards/race.a/runs", [harness.steward(), harness.steward()]

    async def refusal(player: str) -> str:
        answer = await harness.post(path, {"build": "b-1"}, player)
        assert (403, "board-closed") == (answer.status, answer.problem)
        return str(answer.body["detail"])

    assert f"it opens at {times['opens_at']}" == await refusal(ada)
    clock.shift(40)
    early = await harness.open_run(ada, "race.a")
    assert 200 == (await decide(harness, await submitted(harness, early, 5), "approve")).status
    clock.shift(50)
    late = await harness.open_run(bob, "race.a")
    assert 0 == await stewards[0].close_boards()
    clock.shift(10)
    assert "it is closed; runs that were opened before still count" == await refusal(bob)
    assert [1, 0] == [await steward.close_boards() for steward in stewards]
    assert [("board-opened", "server:eu-1"), ("board-closed", "steward")] == await life(harness, "race.a")
    harness.edge.catalogue.forget(["race.a"])
    shown = (await harness.get("/v1/boards/race.a")).body["opened"]
    assert ("closed", times["closes_at"]) == (shown["state"], shown["closes_at"])

    assert None is (await harness.get("/v1/boards/race.a/entries")).headers.get("Scoregate-Revision")
    clock.shift(15)
    held = await submitted(harness, late, 9)
    for seconds in (44, 2, 17):  # up to the end of the last ticket, past it, and shortly before the archive
        assert 0 == sum([await steward.archive() for steward in stewards])
        clock.shift(seconds)
    assert [] == await archived(harness, "race.a")
    clock.shift(3)
    assert 1 <= sum([await steward.archive() for steward in stewards])
    assert [(1, 1)] == await archived(harness, "race.a")
    final = await harness.get("/v1/boards/race.a/entries")
    assert ("1", [5]) == (final.headers["Scoregate-Revision"], scores(final))
    assert 200 == (await decide(harness, held, "approve")).status
    await quiet(studio, stewards[0])
    final = await harness.get("/v1/boards/race.a/entries")
    assert ("2", [9, 5]) == (final.headers["Scoregate-Revision"], scores(final))
    listed = await harness.get("/v1/boards/race.a/windows?limit=1&kind=alltime")
    [alltime] = listed.body["windows"]
    assert ("alltime", 2, None) == (alltime["window"], alltime["archive"]["revision"], listed.body["next"])

    await reopened(studio, ada, stewards[0])
    names = ["board-opened", "board-closed", "board-reopened", "board-closed"]
    assert names == [name for name, _ in await life(harness, "race.a")]


async def reopened(studio: Studio, ada: str, steward: Steward) -> None:
    """Opens the archived race once more, has it played, and closes it."""
    harness = studio.harness
    ledger, terms = harness.edge.ledger, terms_of(harness.edge.catalogue.families["race"])
    await harness.get("/v1/boards/race.a")  # so that the edge has it as closed for another second
    await ledger.write(set_states(terms, ["race.a"], BoardState.OPEN, actor="cli", at_ms=harness.clock()))
    assert [9, 5] == scores(await harness.get("/v1/boards/race.a/entries"))
    harness.edge.catalogue.forget(["race.a"])
    assert [] == await archived(harness, "race.a")
    again = await harness.get("/v1/boards/race.a/entries")
    assert (None, [9, 5]) == (again.headers.get("Scoregate-Revision"), scores(again))
    more = await harness.open_run(ada, "race.a")
    assert 200 == (await decide(harness, await submitted(harness, more, 20), "approve")).status
    assert [] == await harness.edge.ledger.read(windows_at_work(("", ""), count=9))
    await quiet(studio, steward)
    assert [] == await archived(harness, "race.a")
    await studio.done({"action": "close", "board": "race.a"}, path=RACES)
    harness.clock.shift(LIFETIME_S + 21)
    for work in (nothing, begun):
        await work(harness)
        assert [] == await archived(harness, "race.a")
        again = await harness.get("/v1/boards/race.a/entries")
        assert (None, [20, 9]) == (again.headers.get("Scoregate-Revision"), scores(again))
        own = await harness.get(f"/v1/players/{again.body['entries'][0]['player']}/entries?boards=race.a")
        assert [20] == [each["standing"]["score"] for each in own.body["entries"]]
    await steward.archive()
    assert [(3, 2)] == await archived(harness, "race.a")
    assert [20, 9] == scores(await harness.get("/v1/boards/race.a/entries"))


async def nothing(_: Harness) -> None:
    """No steward has come by yet."""


async def begun(harness: Harness) -> None:
    """Begins the next revision of the closed race, as a steward does that then dies."""
    edge = harness.edge
    board = await edge.catalogue.board("race.a")
    assert board is not None
    dying, alltime = (
        Archiver(edge.settings, edge.ledger, board, clock=edge.clock),
        window_named(board.policy, "alltime"),
    )
    assert await edge.ledger.write(begin("race.a", alltime, dying._todays_policy()))


def scores(answer: Answer) -> list[int]:
    assert answer.status == 200, answer.raw
    return [entry["score"] for entry in answer.body["entries"]]


async def quiet(studio: Studio, steward: Steward) -> None:
    """Rounds of a steward until a changed window would have its next revision."""
    for _ in range(3):
        await steward.archive()
        studio.harness.clock.shift(archiving.QUIET_MS / 1000)
    await steward.archive()


async def test_a_board_that_was_never_played_is_closed_without_an_archive(studio: Studio):
    """It is looked at once every catalogue knows, and is due on until nothing can land."""
    harness, steward = studio.harness, studio.harness.steward()
    await studio.done({"action": "open", "board": "race.a", "title": "A"}, path=RACES)
    await studio.done({"action": "close", "board": "race.a"}, path=RACES)
    closed_ms = harness.clock()

    async def due(now_ms: int = FOREVER_MS) -> list[str]:
        rows = await harness.edge.ledger.read(board_duties.due(BoardDuty.ARCHIVE, now_ms=now_ms, count=9))
        return [row.window for row in rows]

    assert ([], ["alltime"]) == (await due(closed_ms + 9_999), await due(closed_ms + 10_000))
    for seconds, left in ((31, ["alltime"]), (48, ["alltime"]), (2, []), (60, [])):
        harness.clock.shift(seconds)
        await steward.archive()
        assert left == await due(), seconds
    assert [] == await archived(harness, "race.a")


async def test_a_run_that_a_moderator_lets_count_late_is_archived(studio: Studio):
    """Though nothing stood on the board when it was looked at last; nor is it archived while it is open again."""
    harness, steward = studio.harness, studio.harness.steward()
    await studio.done({"action": "open", "board": "race.a", "title": "A"}, path=RACES)
    held = await submitted(harness, await harness.open_run(board="race.a"), 5)
    await studio.done({"action": "close", "board": "race.a"}, path=RACES)
    board = await harness.edge.catalogue.board("race.a")
    assert board is not None
    harness.clock.shift(100)
    for _ in range(2):
        await steward.archive()
    assert 200 == (await decide(harness, held, "approve")).status
    await studio.done({"action": "reopen", "board": "race.a"}, path=RACES)
    believing = Archiver(harness.edge.settings, harness.edge.ledger, board, clock=harness.clock)
    assert 0 == await believing.step()
    await studio.done({"action": "close", "board": "race.a"}, path=RACES)
    assert None is await harness.edge.ledger.read(archived_window("race.a", "alltime"))
    harness.clock.shift(100)
    await steward.archive()
    assert [(1, 1)] == await archived(harness, "race.a")


async def test_a_late_event_makes_the_archive_of_a_closed_board_due(studio: Studio):
    """After its duty was struck, by the log alone."""
    harness, steward = studio.harness, studio.harness.steward()
    await studio.done({"action": "open", "board": "race.a", "title": "A"}, path=RACES)
    held = await submitted(harness, await harness.open_run(board="race.a"), 5)
    await studio.done({"action": "close", "board": "race.a"}, path=RACES)
    harness.clock.shift(100)
    for _ in range(2):
        await steward.archive()
    assert 200 == (await decide(harness, held, "approve")).status
    harness.clock.shift(21)
    await steward.archive()
    assert [(1, 1)] == await archived(harness, "race.a")


async def test_each_operation_is_told_and_logged_as_it_was_asked_for(studio: Studio):
    """The number of refused ones, the reason of each turn, and what null takes away."""
    given = {"metadata": {"country": "it"}, "bounds": {"score": {"maximum": 500}}}
    turns = [CLOSE | {"reason": "over"}, REOPEN | {"reason": "r" * 200}]
    answer = await studio.send(opening("a", **given), *turns, CLOSE | {"reason": "r" * 201}, opening("b c"))
    assert (200, 2) == (answer.status, answer.body["refused"])
    events = await studio.harness.edge.ledger.read(life_of("track.a"))
    assert [None, "over", "r" * 200] == [event.detail.get("why") for event in events]
    change = {"action": "change", "board": "track.a", "version": 3, "metadata": None, "bounds": None}
    [changed] = await studio.done(change)
    assert ({}, None, "A") == tuple(changed["board"][name] for name in ("metadata", "bounds", "title"))


async def test_the_list_of_a_family_can_be_revalidated_and_has_bounded_questions(studio: Studio):
    """A reader that has it gets a 304 until a board changes; too many filters and too large a body are refused."""
    await studio.done(opening("a"))
    url, harness = f"{studio.harness.url}{BOARDS}", studio.harness
    tag = (await harness.get(BOARDS)).headers["ETag"]

    async def status() -> int:
        async with harness.session.get(url, headers={"If-None-Match": tag}) as answer:
            return answer.status

    assert 304 == await status()
    await studio.done(CLOSE)
    assert 200 == await status()
    filters = "&".join(f"metadata.f{number}=it" for number in range(5))
    answer = await harness.get(f"{BOARDS}?{filters}")
    assert (422, "expected at most 4 filters") == (answer.status, answer.body["detail"])
    large = [opening(f"n{number}", metadata={"text": "x" * 4000}) for number in range(530)]
    assert 413 == (await studio.send(*large)).status
    nested = [opening(f"n{number}", metadata={"text": [[]] * 40}) for number in range(1000)]
    assert 400 == (await studio.send(*nested)).status


async def test_what_a_closed_board_says_of_its_closing_stays(studio: Studio):
    """It closed when it closed. A reopened one may get another time."""
    await studio.done(opening("a"), CLOSE)
    change = {"action": "change", "board": "track.a", "version": 2, "closes_at": None}
    [refused] = await studio.done(change)
    assert ("refused", "closes_at") == (refused["status"], refused["problem"]["detail"][:9])
    [renamed] = await studio.done(change | {"closes_at": refused["board"]["closes_at"], "title": "Z"})
    assert ("changed", "Z") == (renamed["status"], renamed["board"]["title"])
    results = await studio.done(REOPEN, {**change, "version": 4, "closes_at": "2099-01-01T00:00:00Z"})
    assert ["changed", "changed"] == [result["status"] for result in results]


async def test_a_deleted_board_is_gone_for_readers_and_runs_on_it_end_quietly(studio: Studio):
    """Kept pages go as well. A run under way is told so; what was submitted before is judged and counts nowhere."""
    harness = studio.harness
    await studio.done({"action": "open", "board": "race.a", "title": "A"}, path=RACES)
    ada, bob = await harness.new_player("Ada"), await harness.new_player("Bob")
    first, second = [await harness.open_run(player, "race.a") for player in (ada, bob)]
    held = await submitted(harness, first, 5)
    tag = (await harness.get("/v1/boards/race.a/entries")).headers["ETag"]
    await studio.done({"action": "delete", "board": "race.a", "reason": "over"}, path=RACES)
    for path in ("", "/entries", "/windows", "/entries/p1", "/live", "/statistics"):
        answer = await harness.get(f"/v1/boards/race.a{path}")
        assert (404, "not-found") == (answer.status, answer.problem), path
    headers = {"If-None-Match": tag}
    async with harness.session.get(f"{harness.url}/v1/boards/race.a/entries", headers=headers) as answer:
        assert 404 == answer.status
    answer = await harness.post("/v1/boards/race.a/runs", {"build": "b-1"}, ada)
    assert (404, "not-found") == (answer.status, answer.problem)
    answer = await harness.submit(second, {"score": 9, "ticks": 60}, board="race.a")
    assert (404, "not-found") == (answer.status, answer.problem)
    assert "held" == await harness.state_of(held)
    decided = await decide(harness, held, "approve")
    assert (404, "not-found") == (decided.status, decided.problem)
    seen = await harness.get(f"/v1/submissions/{held}", ada)
    assert 200 == seen.status, seen.raw
    again = {"action": "open", "board": "race.a", "title": "A"}
    [conflict] = await studio.done(again, path=RACES)
    assert ("refused", TAKEN_BY_DELETED) == (conflict["status"], conflict["problem"]["detail"])


async def test_a_name_is_free_after_deletion_if_the_policy_says_so_and_nothing_counts(studio: Studio):
    """Then it is another board under its name, of a later version; with an entry it stays taken."""
    await studio.done(opening("a", parameters={"laps": 3}), opening("b"))
    await studio.write("track.b", "ada", 7)
    before = await studio.harness.get("/v1/boards/track.a")
    await studio.done(DELETE, {"action": "delete", "board": "track.b", "reason": "over"})
    results = await studio.done(opening("a", title="Other"), opening("b"))
    assert [("opened", 3), ("refused", None)] == [
        (result["status"], result["board"] and result["board"]["version"]) for result in results
    ]
    assert TAKEN_BY_PLAYED == results[1]["problem"]["detail"]
    after = await studio.harness.get("/v1/boards/track.a")
    assert before.headers["ETag"] != after.headers["ETag"]
    assert ("Other", {}) == (after.body["opened"]["title"], after.body["opened"]["parameters"])


async def test_an_archive_ends_with_its_board(studio: Studio):
    """A deleted board's archive is read by nobody, and late changes make no work on it."""
    harness, steward = studio.harness, studio.harness.steward()
    await studio.done(opening("a"))
    await studio.write("track.a", "ada", 7)
    await steward.archive()
    await studio.done(CLOSE)
    harness.clock.shift(31)
    await steward.archive()
    assert [(1, 1)] == await archived(harness, "track.a")
    await studio.done(DELETE)
    window = await harness.edge.ledger.read(archived_window("track.a", "alltime"))
    assert window is not None
    assert (False, True) == (window.is_readable, window.is_withdrawn)
    assert [] == await harness.edge.ledger.read(windows_at_work(("", ""), count=9))


async def test_a_listener_hears_that_its_board_is_gone(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """At the next heartbeat both kinds of feed end, a WebSocket with the reason; a closed board keeps its listeners."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.05)
    harness = studio.harness
    await studio.done(opening("a"))
    live = f"{harness.url}/v1/boards/track.a/live"
    async with (
        harness.session.ws_connect(f"{live}/websocket", protocols=["scoregate.v1"]) as socket,
        harness.session.get(live) as stream,
    ):
        await studio.done(CLOSE)
        await stream.content.readuntil(b"\n\n")
        await stream.content.readuntil(b"\n\n")
        assert 2 == harness.edge.live.listeners("track.a")
        await studio.done(DELETE)
        async with asyncio.timeout(30):
            await stream.content.read()
            while not (message := await socket.receive()).type.name.startswith("CLOS"):
                pass
    assert (aiohttp.WSCloseCode.OK, "the board was deleted") == (message.data, message.extra)


@pytest.mark.parametrize("heartbeat_s", [0.05, 3600.0])
async def test_a_listener_does_not_hear_another_board_of_the_name(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, heartbeat_s: float
):
    """One batch deletes its board and opens the next: a heartbeat ends both kinds of feed, or an event, which is not sent."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", heartbeat_s)
    monkeypatch.setattr(heartbeats, "LOOK_S", 0.0)
    harness = studio.harness
    live = f"{harness.url}/v1/boards/track.a/live"

    async def enter(player: str) -> None:
        body = {"operation": secrets.token_hex(8), "player": player, "score": 250}
        answer = await harness.as_server(studio.private, "eu-1", "/v1/boards/track.a/entries", body)
        assert answer.status == 202, answer.raw

    async def is_heard() -> bool:
        return harness.edge.live.listeners("track.a") == 1

    await studio.done(opening("a"))
    async with (
        harness.session.ws_connect(f"{live}/websocket", protocols=["scoregate.v1"]) as socket,
        harness.session.get(live) as stream,
    ):
        await stream.content.readuntil(b"\n\n")
        await studio.done(CLOSE, REOPEN)
        assert 2 == harness.edge.live.listeners("track.a")
        await studio.done(DELETE, opening("a"))
        if heartbeat_s > 1:
            await enter("ada")
        async with asyncio.timeout(30):
            assert b"standing" not in await stream.content.read()
            while not (message := await socket.receive()).type.name.startswith("CLOS"):
                assert "standing" not in str(message.data)
    assert (aiohttp.WSCloseCode.OK, "the board was deleted") == (message.data, message.extra)
    async with harness.session.ws_connect(f"{live}/websocket", protocols=["scoregate.v1"]) as socket:
        await until(is_heard)
        await enter("bob")  # the next board's own listeners hear it
        async with asyncio.timeout(30):
            while '"player":"bob"' not in (await socket.receive()).data:
                pass


async def test_a_change_of_the_family_s_policy_changes_its_boards(studio: Studio, settings: Settings):
    """At once. Bounds that are wider now hold nobody back, and keep no title from being changed."""
    harness = studio.harness
    wide = {"score": {"minimum": 100, "maximum": 900}}
    await studio.done(opening("a", bounds=wide), opening("old-name"))

    async def refused(score: int) -> bool:
        body = {"operation": secrets.token_hex(8), "player": "ada", "score": score}
        answer = await harness.as_server(studio.private, "eu-1", "/v1/boards/track.a/entries", body)
        assert answer.status == 202 or answer.problem == "bounds-violation", answer.raw
        return answer.status == 422

    def put(**changes: Any) -> None:
        policy = a_family(writes="trusted", score=SCORE, windows=["alltime", "daily"]) | changes
        folder = write_policies(settings.policies_dir, policy)
        harness.edge.catalogue.replace(load_policies(folder))

    assert [True, False, True] == [await refused(score) for score in (50, 700, 950)]
    put(score={"minimum": 0, "maximum": 500}, names="[a-z]+", metadata_filters={"laps": "integer"})
    assert [True, False, True] == [await refused(score) for score in (50, 400, 700)]
    change = {"action": "change", "version": 1, "title": "Other"}
    results = await studio.done(
        {**change, "board": "track.a"},
        {**change, "board": "track.old-name"},
        {**change, "board": "track.a", "version": 2, "bounds": {"score": {"maximum": 800}}},
        {**change, "board": "track.a", "version": 2, "metadata": {"laps": "three"}},
        opening("new-name"),
    )
    details = [result["problem"]["detail"].split(":")[0] if result["problem"] else "" for result in results]
    assert ["", "", "bounds.score.maximum", "metadata.laps", "board"] == details
    put(score={"minimum": 0, "maximum": 90})  # no score is within both, so the family's bounds hold
    assert [False, True] == [await refused(score) for score in (50, 100)]


async def test_a_board_outlives_the_file_of_its_family(studio: Studio, settings: Settings):
    """Without the policy it is not found, and closes when its time is over; with it, it is there again."""
    harness = studio.harness
    await studio.done(opening("a", closes_at=rfc3339(harness.clock() + 10_000)), opening("b"))
    policies, without = harness.edge.catalogue.policies, load_policies(settings.policies_dir)
    families = {name: family for name, family in without.families.items() if name != "track"}
    harness.edge.catalogue.replace(replace(without, families=families))
    for path in ("/v1/boards/track.a", "/v1/boards/track.a/entries", "/v1/families/track/boards"):
        assert 404 == (await harness.get(path)).status, path
    harness.clock.shift(11)
    assert 1 == await harness.steward().close_boards()
    assert 0 == await harness.steward().archive()
    harness.edge.catalogue.replace(policies)
    harness.edge.catalogue.forget(["track.a"])
    states = [(await harness.get(f"/v1/boards/track.{name}")).body["opened"]["state"] for name in "ab"]
    assert ["closed", "open"] == states
