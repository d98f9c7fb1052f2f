"""Reading windows that are over: from the archive alone, whole, and as every other window is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from gateway.steward.archive.archiving import QUIET_MS
from policies.choices import WindowKind
from tests.support.attack import as_server, registered
from tests.support.groups import call, token_of
from tests.support.harness import Answer, Harness, free_port, running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

VAULT = "/v1/boards/vault"
KINDS = ["alltime", "daily", "weekly", "season"]
DAY_S = 86_400


def policies(**changes: object) -> list[dict[str, object]]:
    vault = {
        "writes": "trusted",
        "windows": KINDS,
        "season": "0 0 * * *",
        "ranks": ["unique", "sparse", "dense"],
        "segments": ["country"],
    }
    return [arcade_policy(), a_policy("vault", **(vault | changes))]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", *policies())
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def over(harness: Harness, count: int = 9) -> str:
    """The name of a day that is over and archived, on which p1 (best) to p<count> stand, every two of them tied."""
    private = await registered(harness)
    for number in range(1, count + 1):
        entry = {"operation": f"op-{number}", "player": f"p{number}", "score": 1000 - (number + 1) // 2}
        assert 202 == (await as_server(harness, private, entry)).status
    day = (await harness.get(f"{VAULT}/entries?window=daily")).body["window"]
    harness.clock.shift(DAY_S + 600)
    await settle_down(harness)
    return str(day)


async def settle_down(harness: Harness) -> None:
    steward = harness.steward()
    while await steward.archive():
        pass


def ranks(answer: Answer) -> list[tuple[int, str]]:
    return [(entry["rank"], entry["player"]) for entry in answer.body["entries"]]


async def test_an_archived_window_is_read_as_it_was_without_redis(harness: Harness):
    """Pages, neighbours and one player are the same as before the end, though every key of the board is gone."""
    private = await registered(harness)
    for number in range(1, 6):
        entry = {"operation": f"op-{number}", "player": f"p{number}", "score": 1000 - number // 2}
        assert 202 == (await as_server(harness, private, entry)).status
    day = (await harness.get(f"{VAULT}/entries?window=daily")).body["window"]
    paths = [
        f"/entries?window={day}&limit=2&offset=1",
        f"/entries?window={day}&ranks=dense",
        f"/entries?window={day}&ranks=sparse",
        f"/entries/p3/around?window={day}&radius=1",
        f"/entries/p3?window={day}&ranks=sparse",
    ]
    before = [await harness.get(VAULT + path) for path in paths]
    harness.clock.shift(DAY_S + 600)
    await settle_down(harness)
    await harness.edge.index.client.flushall()
    after = [await harness.get(VAULT + path) for path in paths]

    frozen_at = after[0].body["frozen_at"]
    for one, other in zip(before, after, strict=True):
        added = {"revision": 1, "frozen_at": frozen_at} if "entries" in one.body else {}
        assert (200, one.body | added) == (other.status, other.body)
        assert ("1", "public, max-age=60") == (
            other.headers["Scoregate-Revision"],
            other.headers["Cache-Control"],
        )
    assert day == after[-1].headers["Scoregate-Window"]


async def test_a_reader_that_has_a_revision_is_not_sent_it_again(harness: Harness):
    """304 for the tag of an answer until a later decision makes another revision."""
    day = await over(harness, 4)
    path = f"{VAULT}/entries?window={day}"
    first = await harness.get(path)
    headers = {"If-None-Match": first.headers["ETag"]}

    async def again() -> int:
        async with harness.session.get(harness.url + path, headers=headers) as response:
            return response.status

    assert 304 == await again()
    submission = first.body["entries"][0]["submission"]
    await harness.post(
        f"/v1/moderation/cases/{submission}/revoke", {"code": "other", "note": "a cheat"}, harness.moderator()
    )
    assert 304 == await again()
    steward = harness.steward()
    await steward.archive()
    harness.clock.shift(QUIET_MS / 1000)
    while await steward.archive():
        pass
    assert 200 == await again()
    second = await harness.get(path)
    assert (2, 3, [(1, "p2"), (2, "p3"), (3, "p4")]) == (
        second.body["revision"],
        second.body["total"],
        ranks(second),
    )


async def test_cursors_go_through_an_archived_window(harness: Harness):
    """From either end, and from a place whose entry has gone since."""
    day = await over(harness)
    seen, cursor = [], ""
    while cursor is not None:
        page = (await harness.get(f"{VAULT}/entries?window={day}&limit=4{cursor}")).body
        seen.append([entry["player"] for entry in page["entries"]])
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert [["p1", "p2", "p3", "p4"], ["p5", "p6", "p7", "p8"], ["p9"]] == seen
    back = (await harness.get(f"{VAULT}/entries?limit=4&cursor={page['previous']}")).body
    assert seen[1] == [entry["player"] for entry in back["entries"]]

    fourth = (await harness.get(f"{VAULT}/entries?window={day}&limit=4")).body
    submission = fourth["entries"][3]["submission"]
    await harness.post(
        f"/v1/moderation/cases/{submission}/revoke", {"code": "other", "note": "a cheat"}, harness.moderator()
    )
    steward = harness.steward()
    await steward.archive()
    harness.clock.shift(QUIET_MS / 1000)
    while await steward.archive():
        pass
    behind = (await harness.get(f"{VAULT}/entries?limit=4&cursor={fourth['next']}")).body
    assert ["p5", "p6", "p7", "p8"] == [entry["player"] for entry in behind["entries"]]


async def test_friends_and_listed_players_of_an_archived_window(harness: Harness):
    """Ranks among them and among all, by page and around one of them; the archive is not kept by group."""
    day = await over(harness)
    ada = token_of(harness, "p4")
    for friend in ("p1", "p9", "nobody"):
        assert 200 == (await call(harness, "PUT", f"/v1/friends/{friend}", ada)).status
    harness.clock.shift(2 * DAY_S)

    def both(answer: Answer) -> list[tuple[int, int, str]]:
        assert 200 == answer.status, answer.raw
        return [(each["rank"], each["global_rank"], each["player"]) for each in answer.body["entries"]]

    ada = token_of(harness, "p4")
    friends = f"{VAULT}/entries?window={day}&friends=true"
    assert [(1, 1, "p1"), (2, 4, "p4"), (3, 9, "p9")] == both(await harness.get(friends, ada))
    assert [(2, 4, "p4")] == both(await harness.get(f"{friends}&offset=1&limit=1", ada))
    around = f"{VAULT}/entries/p9/around?window={day}&radius=1&friends=true"
    assert [(2, 4, "p4"), (3, 9, "p9")] == both(await harness.get(around, ada))
    assert 404 == (await harness.get(around.replace("p9", "p2"), ada)).status
    listed = await harness.get(f"{VAULT}/entries?window={day}&players=p9,nobody,p2")
    assert [(1, 2, "p2"), (2, 9, "p9")] == both(listed)
    assert ["nobody"] == listed.body["unranked"]
    of_day = (await harness.get(f"{VAULT}/entries?window={day}")).headers["Scoregate-Revision"]
    found = [await harness.get(friends, ada), await harness.get(around, ada), listed]
    assert [of_day] * 3 == [answer.headers.get("Scoregate-Revision") for answer in found]  # B11
    assert ["private, no-store"] * 2 == [answer.headers["Cache-Control"] for answer in found[:2]]
    for path in ("/entries", "/entries/p1/around"):
        refused = await harness.get(f"{VAULT}{path}?window={day}&segment=country:de")
        assert (422, "schema-violation") == (refused.status, refused.problem)
        assert "archived, and archives have no groups" in refused.body["detail"]


@pytest.mark.parametrize("path", ["/entries/nobody", "/entries/nobody/around"])
async def test_a_player_who_is_not_in_an_archived_window_is_not_ranked(harness: Harness, path: str):
    """404, which says that the window is there and the player is not in it."""
    day = await over(harness, 2)
    answer = await harness.get(f"{VAULT}{path}?window={day}")
    assert (404, "not-found", False, 2) == (
        answer.status,
        answer.problem,
        answer.body["ranked"],
        answer.body["total"],
    )


async def test_windows_are_listed_the_current_ones_first(harness: Harness):
    """With what the archive has of each, by kind or all, in pages without gap or repeat."""
    private = await registered(harness)
    days = []
    for number in range(5):
        entry = {"operation": f"op-{number}", "player": "p1", "score": number}
        assert 202 == (await as_server(harness, private, entry)).status
        days.append((await harness.get(f"{VAULT}/entries?window=daily")).body["window"])
        harness.clock.shift(DAY_S)
        await settle_down(harness)
    harness.clock.shift(600)
    await settle_down(harness)

    first = (await harness.get(f"{VAULT}/windows?limit=1")).body
    assert ["alltime", "daily", "weekly", "season"] == [
        each["window"].partition(":")[0] for each in first["windows"] if each["archive"] is None
    ]
    assert (None, None) == (first["windows"][0]["begins_at"], first["windows"][0]["ends_at"])
    seen, current, after = [], [], ""
    while after is not None:
        page = (await harness.get(f"{VAULT}/windows?kind=daily&limit=2{after}")).body
        seen += [each for each in page["windows"] if each["archive"]]
        current.append(sum(each["archive"] is None for each in page["windows"]))
        after = f"&after={page['next']}" if page["next"] else None
    assert list(reversed(days)) == [each["window"] for each in seen]
    assert [1, 0, 0] == current
    assert (1, 1, 1) == tuple(seen[0]["archive"][name] for name in ("revision", "entries", "groups"))
    for query, detail in (
        ("kind=hourly", "kind: expected"),
        ("after=x", "after: expected"),
        ("limit=0", "limit: "),
        ("limit=025", "limit: "),
    ):
        refused = await harness.get(f"{VAULT}/windows?{query}")
        assert (422, "schema-violation") == (refused.status, refused.problem)
        assert detail in refused.body["detail"]
    assert 404 == (await harness.get("/v1/boards/nothing/windows")).status


async def test_a_season_is_read_by_its_name_after_the_calendar_has_changed(settings: Settings):
    """What a policy of later days knows no window of is still in the archive, and nothing else is."""
    async with running_harness(settings) as harness:
        await over(harness, 3)
        listed = (await harness.get(f"{VAULT}/windows?kind=season")).body["windows"]
        season = next(each["window"] for each in listed if each["archive"])
        clock = harness.clock
    write_policies(settings.policies_dir, *policies(season="30 7 1 * *"))
    async with running_harness(settings, clock) as harness:
        page = await harness.get(f"{VAULT}/entries?window={season}")
        assert (200, 3, 1) == (page.status, page.body["total"], page.body["revision"])
        assert 200 == (await harness.get(f"{VAULT}/entries/p1?window={season}")).status
        other = season[:-4] + "0001"
        assert 404 == (await harness.get(f"{VAULT}/entries?window={other}")).status


async def test_a_window_that_is_kept_no_more_is_not_found(settings: Settings):
    """404, and not an empty page."""
    async with running_harness(settings.model_copy(update={"archive_keep_days": 3})) as harness:
        day = await over(harness, 3)
        harness.clock.shift(4 * DAY_S)
        await settle_down(harness)
        for path in ("/entries", "/entries/p1", "/entries/p1/around"):
            answer = await harness.get(f"{VAULT}{path}?window={day}")
            assert (404, "the window is no longer kept") == (answer.status, answer.body["detail"])
        assert not any(
            each["archive"] for each in (await harness.get(f"{VAULT}/windows?kind=daily")).body["windows"]
        )


async def test_a_page_that_was_kept_gives_way_to_the_archive(harness: Harness):
    """A page of a day is answered by the archive from its end on, though the index still has the day."""
    private = await registered(harness)
    assert (
        202 == (await as_server(harness, private, {"operation": "op-1", "player": "p1", "score": 5})).status
    )
    day = (await harness.get(f"{VAULT}/entries?window=daily")).body["window"]
    paths = (f"{VAULT}/entries?window={day}", f"{VAULT}/entries/p1/around?window={day}")
    for path in paths * 2:
        assert "revision" not in (await harness.get(path)).body
    harness.clock.shift(DAY_S)
    await harness.edge.index.client.zadd(f"lb:{{33}}:vault:{day}", {"000000000001" + "0" * 10 + ":eve": -999})
    harness.clock.shift(600)
    await settle_down(harness)
    for path in paths:
        answer = await harness.get(path)
        assert (1, [(1, "p1")]) == (answer.body["revision"], ranks(answer))


async def test_an_entry_was_reached_when_it_was_also_in_the_archive(settings: Settings):
    """On a board of composite places that is the beginning of the slot, before its window is over and after."""
    slots = {"tie_break": "composite", "tie_resolution_ms": 60_000, "score": {"minimum": 0, "maximum": 2**40}}
    write_policies(settings.policies_dir, *policies(windows=["daily"], season=None, **slots))
    async with running_harness(settings) as harness:
        private = await registered(harness)
        entry = {"operation": "op-1", "player": "p1", "score": 7}
        assert 202 == (await as_server(harness, private, entry)).status
        day = (await harness.get(f"{VAULT}/entries?window=daily")).body["window"]
        paths = [f"{VAULT}/entries?window={day}", f"{VAULT}/entries/p1?window={day}"]
        before = [await harness.get(path) for path in paths]
        harness.clock.shift(DAY_S + 600)
        await settle_down(harness)
        page, one = [await harness.get(path) for path in paths]
        assert ("1", before[0].body["entries"]) == (page.headers["Scoregate-Revision"], page.body["entries"])
        assert before[1].body == one.body
        assert harness.edge.catalogue.of_files["vault"].ranking.resolutions_ms[WindowKind.DAILY] > 1_000
