"""A player as moderators see them: as far as their boards reach, and no further."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from tests.attacks.test_bans import SEEN, ban
from tests.support.attack import accept, honest, registered
from tests.support.families import open_tracks
from tests.support.harness import Harness, Run, free_port, running_harness
from tests.support.policies import a_family, write_policies
from tests.support.valkey import ValkeyServer

PAGE = "/v1/moderation/players/"


async def held_runs(harness: Harness, *boards: str) -> list[Run]:
    """Runs of one player on these boards, which all wait for a moderator."""
    token = await harness.new_player("Ada")
    runs = [await harness.open_run(token, board=board) for board in boards]
    for run in runs:
        await accept(harness, honest(harness, run))
    return runs


async def test_M02_a_player_is_shown_as_far_as_the_boards_of_the_moderator_reach(harness: Harness):
    """Submissions, counts and bans of other boards leave no trace; who has nothing there is not found."""
    sprint, other = await held_runs(harness, "sprint", "other")
    page = PAGE + sprint.player
    await harness.post(f"/v1/moderation/cases/{sprint.id}/approve", SEEN, harness.moderator())
    await ban(harness, sprint.player, board="other")
    shown = {
        board: (await harness.get(page, harness.moderator(board))).body for board in ("sprint", "other", "*")
    }
    assert [{"promoted": 1}, {"held": 1}, {"promoted": 1, "held": 1}] == [
        each["states"] for each in shown.values()
    ]
    assert [0, 1, 1] == [len(each["bans"]) for each in shown.values()]
    assert ("Ada", True, {"other": 1}) == tuple(
        shown["other"][name] for name in ("name", "is_whole", "boards")
    )
    listed = (await harness.get(f"{page}/submissions", harness.moderator("other"))).body
    assert ([other.id], None) == ([each["submission"] for each in listed["submissions"]], listed["next"])
    stranger = await harness.get(page, harness.moderator("lap"))
    nobody = await harness.get(f"{PAGE}nobody", harness.moderator("lap"))
    assert (404, nobody.body) == (stranger.status, stranger.body)


async def test_submissions_of_a_player_are_listed_newest_first_page_by_page(harness: Harness):
    """A cursor goes on where the page ended, whatever came meanwhile, and is of that list alone."""
    runs = await held_runs(harness, "sprint", "sprint", "other")
    page = f"{PAGE}{runs[0].player}/submissions"
    first = (await harness.get(f"{page}?limit=2", harness.moderator())).body
    second = (await harness.get(f"{page}?limit=2&cursor={first['next']}", harness.moderator())).body
    ids = [each["submission"] for each in (*first["submissions"], *second["submissions"])]
    assert [run.id for run in reversed(runs)] == ids
    foreign = await harness.get(f"{page}?cursor={first['next']}", harness.moderator("other"))
    assert (422, "schema-violation") == (foreign.status, foreign.problem)


async def test_M02_a_standing_on_a_rollup_is_shown_to_who_may_read_the_rollup(
    tmp_path: Path, valkey: ValkeyServer
):
    """It follows from boards of the family; a moderator of these has not for that the rollup, which has a policy of its own."""
    family = a_family("track", writes="trusted", score={"minimum": 0, "maximum": 1_000})
    rollup = {"board": "world", "title": "World", "rollup": {"family": "track"}}
    folder = write_policies(tmp_path / "policies", family, rollup)
    bind = f"127.0.0.1:{free_port()}"
    settings = Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)
    async with running_harness(settings) as harness:
        key = await registered(harness)
        await open_tracks(harness.edge.ledger, "track.a")
        entry = {"operation": "one", "player": "ada", "score": 5}
        assert 202 == (await harness.as_server(key, "eu-1", "/v1/boards/track.a/entries", entry)).status
        shown = {
            boards: (await harness.get(f"{PAGE}ada", harness.moderator(*boards))).body["standings"]
            for boards in (("track",), ("track", "world"))
        }
    assert {("track",): ["track.a"], ("track", "world"): ["track.a", "world"]} == {
        boards: [each["board"] for each in standings] for boards, standings in shown.items()
    }


@pytest.mark.parametrize("path", ["", "/submissions", "/bans"])
async def test_M01_players_are_shown_to_moderators_alone(harness: Harness, path: str):
    """Not even to themselves."""
    [run] = await held_runs(harness, "sprint")
    assert 403 == (await harness.get(f"{PAGE}{run.player}{path}", run.token)).status
    assert 401 == (await harness.get(f"{PAGE}{run.player}{path}")).status
