"""Boards whose policy ranks by another rule after a restart: nobody reads them until they are folded anew."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue import outdated_boards
from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.edge.live import heartbeats
from gateway.edge.problems import ProblemType
from gateway.edge.reads.rule_gate import WITHOUT_STANDINGS
from gateway.edge.routes import ROUTES
from gateway.index.generation import generation_of
from gateway.index.residency import ResidencyState
from gateway.ledger.derived.folded_rules import has_other_rule, mark_all, noted_rules
from gateway.ledger.reads import ReadKind
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.steward import rule_changes
from gateway.steward.index.reconcile import Reconciler
from gateway.wiring import load_policies, open_ledger
from policies.errors import IndexUnavailable, LedgerUnavailable, RebuildRefused
from policies.loader import Policies
from policies.model import Policy
from tests.gateway.edge.test_families import SCORE, Studio, opening
from tests.support.attack import registered
from tests.support.clock import ShiftedClock
from tests.support.feeds import sse
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

DAY_S = 86_400
BOARDS = ("vault", "track.a", "world", "cup")
NAMES = {"player": "ada", "digest": "0" * 64}
POINTS = {"family": "track", "take": "points", "points": [3, 1]}


def write_all(folder: Path, **changes: Any) -> Path:
    return write_policies(
        folder,
        a_policy("vault", writes="trusted", **changes),
        a_policy("still", writes="trusted"),
        a_family(writes="trusted", score=SCORE, **changes),
        {"board": "world", "title": "World", "rollup": {"family": "track"}},
        {"board": "cup", "title": "Cup", "rollup": POINTS},
    )


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_all(tmp_path / "policies")
    bind = f"127.0.0.1:{free_port()}"
    # However busy the machine is, no read of these may be one too many.
    unhurried = {"read_budget_ms": 1_000_000, "redis_timeout_ms": 5_000}
    return Settings(
        data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind, **unhurried
    )


async def follow_rules(harness: Harness) -> None:
    """All that a steward does for boards of other rules, and for points."""
    steward = harness.steward()
    while await steward.follow_rules():
        pass
    while await steward.roll_up():
        pass
    harness.edge.outdated._looked_s = float("-inf")


async def two_standings(harness: Harness) -> Studio:
    """A studio with one board of its family on which ada has 10 and bob 25, under a rule that is noted."""
    studio = Studio(harness, await registered(harness))
    await studio.done(opening("a"))
    for player, score in (("ada", 10), ("bob", 25)):
        await studio.write("track.a", player, score)
    await follow_rules(harness)
    return studio


async def make_warm(studio: Studio, board: str) -> None:
    """Bring a board of a family into Redis, as its readers do."""
    await studio.entries(board)
    await studio.harness.steward().see_to_cold()
    found = await studio.harness.edge.catalogue.board(board)
    assert found
    assert (await studio.harness.edge.index.of(found).residency.state()).is_whole


async def refused(harness: Harness, board: str) -> set[str]:
    """The routes of a board that are refused because it is rebuilding, of all that show it."""
    found = set()
    for route in ROUTES:
        if route.method != "GET" or "/v1/boards/{board}" not in route.path:
            continue
        url = harness.url + route.path.format_map(NAMES | {"board": board})
        bearer = {"Authorization": f"Bearer {harness.moderator()}"}
        async with harness.session.get(url, headers=bearer) as answer:  # a feed's body would never end
            if answer.status == ProblemType.BOARD_REBUILDING.status:
                assert "2" == answer.headers["Retry-After"]
                assert (await answer.json(content_type=None))["type"].endswith("/board-rebuilding")
                found.add(route.path)
    return found


async def compared(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The boards whose index a steward compares with the ledger, and would report as damaged if it differs."""
    found = set()

    async def compare(reconciler: Reconciler, _state: ResidencyState) -> int:
        found.add(reconciler._board)
        return 0

    steward = harness.steward()
    with monkeypatch.context() as patch:
        patch.setattr(Reconciler, "step", compare)
        for _ in range(4):
            await steward.reconcile()
    return found


async def begin_and_fail(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that is begun, and told to edges under any policy, but not done."""

    async def fail(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable

    steward = harness.steward()
    with monkeypatch.context() as patch:
        patch.setattr(rule_changes, "refold_board", fail)
        with pytest.raises(LedgerUnavailable):
            await steward.follow_rules()
    noted = (await harness.edge.ledger.read(noted_rules())).numbers
    assert {"track", "world", "cup"} == {name for name, number in noted.items() if number < 0}


async def test_nobody_reads_a_board_by_another_order_until_it_is_folded(
    settings: Settings, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """Of files, of families, and rollups of these: every read waits, writes do not, and then all is right."""
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(opening("a"), opening("b"))
        for board, player, score in (
            ("vault", "ada", 10), ("vault", "bob", 25), ("still", "ada", 3),
            ("track.a", "ada", 10), ("track.a", "bob", 25), ("track.b", "ada", 20),
        ):  # fmt: skip
            await studio.write(board, player, score)
        await follow_rules(harness)
        assert [(1, "ada", 30), (2, "bob", 25)] == await studio.entries("world")
        assert set() == await refused(harness, "vault")
    write_all(settings.policies_dir, order="ascending")
    async with running_harness(settings) as harness:
        assert {"still"} == await compared(harness, monkeypatch)
        of_standings = {route.path for route in ROUTES if ProblemType.BOARD_REBUILDING in route.problems}
        in_family = "/v1/families/{family}/players/{player}/standings"
        for board in BOARDS:
            assert of_standings - {in_family} == await refused(harness, board)
        assert not of_standings & WITHOUT_STANDINGS
        assert set() == await refused(harness, "still")
        for player in ("ada", "nobody"):  # before anything of the player is read
            page = await harness.get(f"/v1/families/track/players/{player}/standings")
            assert (503, "board-rebuilding") == (page.status, page.problem)
        listed = (await harness.get(f"/v1/players/ada/entries?boards={','.join(BOARDS)},still")).body
        assert ["rebuilding"] * 4 + ["ranked"] == [entry["status"] for entry in listed["entries"]]
        assert [None] * 4 == [entry["standing"] for entry in listed["entries"][:4]]
        studio = Studio(harness, await registered(harness, "eu-2"))
        entry = {"operation": "late", "player": "cyd", "score": 4}
        written = await harness.as_server(studio.private, "eu-2", "/v1/boards/vault/entries", entry)
        assert 202 == written.status
        state = f"/v1/submissions/{written.body['submission']}"
        assert ("promoted", None) == (
            (shown := (await harness.get(state, harness.moderator())).body)["state"],
            shown.get("rank"),
        )
        await begin_and_fail(harness, monkeypatch)
        cold = f"lb:{{{lane_of('track.b')}}}:track.b:*"
        with valkey.client() as redis:
            redis.delete(*redis.keys(cold))
            await follow_rules(harness)
            assert [] == redis.keys(cold)
        assert [(1, "cyd", 4), (2, "ada", 10), (3, "bob", 25)] == await studio.entries("vault")
        assert [(1, "ada", 10), (2, "bob", 25)] == await studio.entries("track.a")
        assert [(1, "bob", 25), (2, "ada", 30)] == await studio.entries("world")
        assert [(1, "ada", 6), (2, "bob", 1)] == await studio.entries("cup")
        page = await harness.get("/v1/families/track/players/ada/standings")
        assert [("track.a", 1), ("track.b", 1)] == [
            (standing["board"], standing["rank"]) for standing in page.body["standings"]
        ]
        assert 0 == await harness.steward().follow_rules()


async def test_what_was_folded_and_could_not_be_built_is_built_before_anybody_reads_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A steward folds nothing twice for it, rollups wait for their family, and another one that takes over builds too."""
    async with running_harness(settings) as harness:
        studio = await two_standings(harness)
        await make_warm(studio, "track.a")
    write_all(settings.policies_dir, order="ascending")
    folded, failing = [], {"track.a", "world"}
    fold, build = rule_changes.refold_board, rule_changes.Rebuilder.rebuild

    async def counted(ledger: Any, policy: Policy, **more: Any) -> Any:
        folded.append(policy.board)
        return await fold(ledger, policy, **more)

    async def unless_failing(rebuilder: rule_changes.Rebuilder) -> Any:
        if rebuilder._board in failing:
            raise IndexUnavailable
        return await build(rebuilder)

    monkeypatch.setattr(rule_changes, "refold_board", counted)
    monkeypatch.setattr(rule_changes.Rebuilder, "rebuild", unless_failing)
    async with running_harness(settings) as harness:
        steward = harness.steward()

        async def follow_again_and_again() -> set[str]:
            for _ in range(8):  # each of four once, and those that fail several times
                with suppress(IndexUnavailable):
                    await steward.follow_rules()
            harness.edge.outdated._looked_s = float("-inf")
            return {board for board in BOARDS if await refused(harness, board)}

        assert {"track.a", "world", "cup"} == await follow_again_and_again()
        assert (1, 0) == (folded.count("track.a"), folded.count("world"))
        failing.remove("track.a")
        assert {"world"} == await follow_again_and_again()
        assert (1, 1) == (folded.count("track.a"), folded.count("world"))
        failing.clear()
        await follow_rules(harness)
        assert (1, 2) == (folded.count("track.a"), folded.count("world"))
        studio = Studio(harness, await registered(harness, "eu-2"))
        for board in ("track.a", "world"):
            assert [(1, "ada", 10), (2, "bob", 25)] == await studio.entries(board)


async def test_a_board_that_is_built_while_it_is_folded_is_built_again_before_anybody_reads_it(
    settings: Settings,
):
    """It was in no store of readers when its steward looked, but will be, with what was read before the fold."""
    async with running_harness(settings) as harness:
        await two_standings(harness)
    write_all(settings.policies_dir, order="ascending")
    async with running_harness(settings) as harness:
        board = await harness.edge.catalogue.board("track.a")
        assert board
        generation, steward = generation_of(harness.edge.index.of(board)), harness.steward()
        await generation.begin()
        with pytest.raises(RebuildRefused):
            await steward.follow_rules()
        harness.edge.outdated._looked_s = float("-inf")
        assert await refused(harness, "track.a")
        await generation.give_up()
        await follow_rules(harness)
        assert not await refused(harness, "track.a")


async def test_readers_of_the_old_order_leave_while_a_board_is_folded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """An edge that still has the old policy sends no kept page, ends its feeds, and comes back with the note."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.05)
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.write("vault", "ada", 10)
        await follow_rules(harness)
        assert [(1, "ada", 10)] == await studio.entries("vault")
        async with sse(harness) as feed:
            await harness.edge.ledger.write(mark_all(["vault"]))
            assert await feed.has_ended()
        answer = await harness.get("/v1/boards/vault/entries?")
        assert (503, "board-rebuilding") == (answer.status, answer.problem)
        await follow_rules(harness)
        assert [(1, "ada", 10)] == await studio.entries("vault")


async def test_a_ledger_that_is_slow_or_away_leaves_readers_with_what_was_noted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A board that Redis has is read from there; what was known to be folded stays refused. Nobody asks again at once."""
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.write("vault", "ada", 10)
        await follow_rules(harness)
        await harness.edge.ledger.write(mark_all(["still"]))
        assert 503 == (await harness.get("/v1/boards/still/entries")).status

        asked = 0

        async def fail(*_: Any, **__: Any) -> None:
            nonlocal asked
            asked += 1
            raise LedgerUnavailable("away")

        async def hang(*_: Any, **__: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(outdated_boards, "LOOK_S", 3600)
        for broken in (fail, hang):
            monkeypatch.setattr(harness.edge.outdated, "_ledger", type("Away", (), {"read": broken})())
            harness.edge.outdated._looked_s = float("-inf")
            assert [(1, "ada", 10)] == await studio.entries("vault")
            assert 503 == (await harness.get("/v1/boards/still/entries")).status
        assert 1 == asked


async def test_all_who_ask_at_once_are_answered_by_one_look_at_the_notes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """However many readers come together, the ledger is asked once in each second, and again in the next."""
    monkeypatch.setattr(outdated_boards, "LOOK_S", 3600)
    asked: list[object] = []
    begun_s: list[float] = []
    async with open_ledger(settings) as ledger:
        read = ledger.read

        async def counted(work: Any, kind: ReadKind) -> Any:
            asked.append(kind)
            begun_s.append(time.monotonic())
            return await read(work, kind)

        monkeypatch.setattr(ledger, "read", counted)
        catalogue = Catalogue(Policies(load_policies(settings)))
        outdated = OutdatedBoards(ledger, catalogue, ReadKind.REQUESTS)
        for looks in (1, 2, 3):
            outdated._looked_s = float("-inf")
            assert [False] * 9 == await asyncio.gather(*(outdated.has("vault") for _ in range(9)))
            assert [ReadKind.REQUESTS] * looks == asked
            assert outdated._looked_s <= begun_s[-1], (
                "notes are as old as the question, however long the answer took"
            )


async def test_a_board_without_a_policy_waits_for_nothing(settings: Settings):
    """It was noted, and is no board any more: nobody folds it, and whoever follows it is not held up for ever."""
    async with open_ledger(settings) as ledger:
        await ledger.write(mark_all(["vault", "gone"]))
        outdated = OutdatedBoards(ledger, Catalogue(Policies(load_policies(settings))), ReadKind.DUTIES)
        assert [True, False, False] == [await outdated.has(board) for board in ("vault", "gone", "gone.a")]
        assert [False, True] == [outdated.is_known_current(board) for board in ("vault", "gone")]


async def test_a_player_is_shown_final_ranks_as_they_were_under_another_rule(settings: Settings):
    """Of a closed board and of a day that is over: as the board's own read, from the archive, in both lists."""
    write_all(settings.policies_dir, windows=["alltime", "daily"])
    clock = ShiftedClock()
    async with running_harness(settings, clock) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(opening("a"), opening("b"))
        for board, player, score in (
            ("track.a", "ada", 10), ("track.a", "bob", 25), ("track.a", "cyd", 30), ("track.b", "ada", 20),
        ):  # fmt: skip
            await studio.write(board, player, score)
        await follow_rules(harness)
        day = (await harness.get("/v1/boards/track.a/entries?window=daily")).body["window"]
        await close_for_good(studio, clock, "track.a")
        [cheat] = [
            entry["submission"]
            for entry in (await harness.get("/v1/boards/track.a/entries")).body["entries"]
            if entry["player"] == "cyd"
        ]
    write_all(settings.policies_dir, windows=["alltime", "daily"], order="ascending")
    async with running_harness(settings, clock) as harness:
        await follow_rules(harness)
        ranking = (await harness.edge.catalogue.boards(["track.a"]))["track.a"].ranking
        assert not await harness.edge.ledger.read(has_other_rule(ranking))
        revoked = await harness.post(
            f"/v1/moderation/cases/{cheat}/revoke", {"code": "other", "note": "a cheat"}, harness.moderator()
        )
        assert 200 == revoked.status, revoked.raw
        for window in ("alltime", day):
            own = (await harness.get(f"/v1/boards/track.a/entries/ada?window={window}")).body
            assert (3, 10) == (own["rank"], own["score"])
            query = f"window={window}"
            page = (await harness.get(f"/v1/families/track/players/ada/standings?{query}")).body["standings"]
            assert [("track.a", 3, 10, 3), ("track.b", 1, 20, 1)] == list(map(facts_of, page))
            assert own["achieved_at"] == page[0]["achieved_at"]
            path = f"/v1/players/{{}}/entries?boards=track.a,track.b&{query}"
            listed = (await harness.get(path.format("ada"))).body["entries"]
            assert page == [entry["standing"] for entry in listed]
            listed = (await harness.get(path.format("cyd"))).body["entries"]
            assert ["ranked", "unranked"] == [entry["status"] for entry in listed]
            assert ("track.a", 1, 30, 3) == facts_of(listed[0]["standing"])


async def test_a_board_whose_final_ranks_are_of_another_rule_is_folded_anew_once_it_is_reopened(
    settings: Settings,
):
    """Its family is not read before that; a board that is reopened under the rule of its ranks is read at once."""
    clock = ShiftedClock()
    async with running_harness(settings, clock) as harness:
        studio = await two_standings(harness)
        await close_for_good(studio, clock, "track.a")
        await studio.done({"action": "reopen", "board": "track.a"})
        harness.edge.outdated._looked_s = float("-inf")
        assert [(1, "bob", 25), (2, "ada", 10)] == await studio.entries("track.a")
        await close_for_good(studio, clock, "track.a")
    write_all(settings.policies_dir, order="ascending")
    async with running_harness(settings, clock) as harness:
        await follow_rules(harness)
        studio = Studio(harness, studio.private)
        assert [(1, "bob", 25), (2, "ada", 10)] == await studio.entries("track.a")
        await studio.done({"action": "reopen", "board": "track.a"})
        harness.edge.outdated._looked_s = float("-inf")
        assert "board-rebuilding" == (await harness.get("/v1/boards/track.a/entries")).problem
        await follow_rules(harness)
        assert [(1, "ada", 10), (2, "bob", 25)] == await studio.entries("track.a")


async def close_for_good(studio: Studio, clock: ShiftedClock, board: str) -> None:
    """Close a board, and archive it and the day."""
    await studio.done({"action": "close", "board": board})
    clock.shift(DAY_S + 600)
    steward = studio.harness.steward()
    while await steward.archive():
        pass


def facts_of(standing: dict[str, Any]) -> tuple[str, int, int, int]:
    return standing["board"], standing["rank"], standing["score"], standing["total"]


async def test_a_board_whose_file_is_gone_is_not_found_and_is_there_again_with_it(settings: Settings):
    """Of boards, families and rollups; what comes back is read once a steward has looked at it."""
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(opening("a"))
        for board in ("vault", "track.a"):
            await studio.write(board, "ada", 10)
        await follow_rules(harness)
    for file in settings.policies_dir.glob("*.yaml"):
        if file.stem != "still":
            file.unlink()
    async with running_harness(settings) as harness:
        for _ in range(2):
            for board in ("vault", "track.a", "world"):
                assert 404 == (await harness.get(f"/v1/boards/{board}/entries")).status
            await follow_rules(harness)
    write_all(settings.policies_dir)
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness, "eu-2"))
        for board in ("vault", "track.a", "world"):
            assert "board-rebuilding" == (await harness.get(f"/v1/boards/{board}/entries")).problem
        await follow_rules(harness)
        for board in ("vault", "track.a", "world"):
            assert [(1, "ada", 10)] == await studio.entries(board)
