"""The Python client and families of boards, against a real edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from scoregate_client import ScoregateClient, ScoregateError, ServerClient

from gateway.runtime.settings import Settings
from tests.support.attack import registered
from tests.support.harness import free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORE = {"minimum": 0, "maximum": 1000, "step": 1}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    filters = {"country": "text", "is_wet": "boolean"}
    policies = (
        a_policy("solo", writes="trusted"),
        a_family(writes="trusted", score=SCORE, metadata_filters=filters, windows=["alltime", "daily"]),
        a_family("level", writes="trusted"),
        {"board": "world", "title": "World", "rollup": {"family": "track"}},
    )
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def test_boards_are_opened_changed_ended_and_read_by_a_client(settings: Settings):
    """Each call of a server with its outcome; each read of a game, a page at a time."""
    async with running_harness(settings) as harness:
        private = await registered(harness)
        async with ServerClient(harness.url, "eu-1", private) as server, ScoregateClient(harness.url) as game:
            boards = [
                {"board": "track.monza", "title": "Monza", "metadata": {"country": "it", "is_wet": True}},
                {"board": "track.spa", "title": "Spa", "parameters": {"laps": 3}},
                {"board": "track.imola", "title": "Imola", "metadata": {"country": "it", "is_wet": False}},
            ]
            opened = await server.open_boards("track", "op-1", boards)
            assert ["opened"] * 3 == [outcome.status for outcome in opened]
            again = await server.open_boards("track", "op-1", boards)
            assert opened == again
            changes = [
                {"board": "track.monza", "version": 1, "title": "Monza GP"},
                {"board": "track.spa", "version": 7, "title": "Spa GP"},
            ]
            changed, refused = await server.change_boards("track", "op-2", changes)
            assert ("changed", "Monza GP", 2) == (
                changed.status,
                changed.board and changed.board.title,
                changed.board and changed.board.version,
            )
            assert ("refused", "Spa") == (refused.status, refused.board and refused.board.title)
            assert refused.problem
            assert str(refused.problem["type"]).endswith("state-conflict")

            families = {family.family: family for family in await game.families()}
            assert ["level", "track"] == list(families)
            assert {"country": "text", "is_wet": "boolean"} == families["track"].filters
            assert (("world",), "servers") == (families["track"].rollups, families["track"].opened_by)
            page = await game.family_boards("track", order="newest", limit=2)
            rest = await game.family_boards("track", order="newest", limit=2, cursor=page.next)
            assert ["Imola", "Spa", "Monza GP"] == [board.title for board in (*page.boards, *rest.boards)]
            assert ({"laps": 3}, None) == (page.boards[1].parameters, rest.next)
            filtered = await game.family_boards("track", metadata={"country": "it", "is_wet": True})
            assert ["Monza GP"] == [board.title for board in filtered.boards]

            for number, (board, player, score) in enumerate(
                (("track.monza", "ada", 7), ("track.monza", "bob", 9), ("track.spa", "ada", 5))
            ):
                await server.write_entry(board, f"w-{number}", player, score)
            first = await game.standings("track", "ada", window="daily", limit=1)
            second = await game.standings("track", "ada", cursor=first.next)
            assert first.window == second.window
            assert [("track.monza", 2, 7, 2), ("track.spa", 1, 5, 1)] == [
                (standing.board, standing.rank, standing.score, standing.total)
                for standing in (*first.standings, *second.standings)
            ]
            assert second.next is None
            listed = await game.entries_on("ada", ["track.spa", "solo", "track.no", "track.monza"])
            assert [("ranked", 1), ("unranked", None), ("no-board", None), ("ranked", 2)] == [
                (entry.status, entry.standing and entry.standing.rank) for entry in listed
            ]

            [closed] = await server.close_boards("track", "op-3", ["track.spa"], reason="the season is over")
            assert ("changed", "closed") == (closed.status, closed.board and closed.board.state)
            [reopened] = await server.reopen_boards("track", "op-4", ["track.spa"])
            assert "open" == (reopened.board and reopened.board.state)
            await server.delete_boards("track", "op-5", ["track.spa"], reason="never raced")
            assert ["track.monza"] == [
                standing.board for standing in (await server.standings("track", "ada")).standings
            ]
            with pytest.raises(ScoregateError) as refusal:
                await game.standings("track", "ada", window="weekly")
            assert "not-found" == refusal.value.name
