"""Policies that change under a running edge: all in one step, and never under a request that has begun."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.deployment.reload_answers import ReloadAnswer, last_answer, teller
from gateway.deployment.run_files import PartFile, RunningPart
from gateway.edge.submissions import submit
from gateway.edge_wiring import put_in_force
from gateway.ledger import queries
from gateway.runtime import reload
from gateway.runtime.reload import read_again
from gateway.runtime.settings import Settings
from policies.loader import Board, Policies, load_policies
from tests.support.attack import CLAIM, a_run, honest, registered, until
from tests.support.feeds import sse
from tests.support.harness import Harness
from tests.support.logs import lines_of, logged
from tests.support.metrics import counts
from tests.support.policies import GENEROUS, a_policy, arcade_policy, write_policies

NARROW = {"minimum": 0, "maximum": 100, "step": 1}


@pytest.fixture
def settings(tmp_path: Path, settings: Settings) -> Settings:
    folder = write_policies(tmp_path / "policies", a_policy("sprint"), arcade_policy())
    return settings.model_copy(update={"policies_dir": folder})


def changed(harness: Harness, **changes: Any) -> Mapping[str, Board]:
    """Both boards, one with other settings, in force."""
    folder = harness.edge.settings.policies_dir
    write_policies(folder, a_policy("sprint", **changes))
    policies = load_policies(folder)
    put_in_force(harness.edge, policies)
    return policies.boards


def title_to(titles: asyncio.Queue[str]) -> Callable[[Policies], Awaitable[None]]:
    """A way to put policies in force that only says the title of a board."""

    async def put(policies: Policies) -> None:
        titles.put_nowait(policies.boards["sprint"].policy.title)

    return put


async def policies_of(harness: Harness, submission: str) -> list[str]:
    return [each["policy"] for each in await harness.edge.ledger.read(queries.history_of(submission))]


async def test_the_next_request_is_judged_by_the_new_policy(harness: Harness):
    """Bounds, and the digest that its event bears."""
    first, second = await a_run(harness), await a_run(harness)
    await harness.send(honest(harness, first))
    before = harness.edge.catalogue.of_files["sprint"].digest
    after = changed(harness, score=NARROW)["sprint"].digest

    refused = await harness.send(honest(harness, second))
    taken = await harness.send(honest(harness, second, {"score": 99, "ticks": 60}))

    assert ("bounds-violation", 202) == (refused.problem, taken.status)
    assert [before] == await policies_of(harness, first.id)
    assert [after] == await policies_of(harness, second.id)
    assert before != after


async def test_a_request_that_has_begun_is_judged_by_the_policy_it_began_with(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The body comes after the change, which would have refused it."""
    run, begun, go_on = await a_run(harness), asyncio.Event(), asyncio.Event()
    request, before = honest(harness, run), harness.edge.catalogue.of_files["sprint"].digest
    read_signed = submit.read_signed

    async def noted(*given: Any) -> Any:
        begun.set()
        return await read_signed(*given)

    async def body() -> AsyncIterator[bytes]:
        yield request.body[:10]
        await go_on.wait()
        yield request.body[10:]

    monkeypatch.setattr(submit, "read_signed", noted)
    sending = asyncio.create_task(
        harness.session.post(harness.url + request.path, data=body(), headers=request.headers)
    )
    await begun.wait()
    changed(harness, score=NARROW)
    go_on.set()

    assert 202 == (await sending).status
    assert [before] == await policies_of(harness, run.id)


async def test_limits_follow_the_policy(harness: Harness):
    """How fast a player may send, and how many runs may be open; also where they have been charged before."""
    await harness.send(honest(harness, await a_run(harness)))
    limits = GENEROUS | {"player": {"per_minute": 60, "burst": 3}, "open_runs": 2}
    changed(harness, limits=limits)
    token = await harness.new_player()
    runs = [await harness.open_run(token, "sprint") for _ in range(2)]
    third = await harness.post("/v1/boards/sprint/runs", {"build": "b"}, token)
    answer = await harness.send(honest(harness, runs[0]))

    assert ("quota-exceeded", "2 runs are open: submit one, or wait until one expires; try again in 1 h") == (
        third.problem,
        third.body["detail"],
    )
    assert '"player";q=3;w=3' == answer.headers["RateLimit-Policy"]


async def test_how_often_runs_are_opened_follows_the_policy(harness: Harness):
    """By the new rate from the next one on, for players who had opened some before."""
    token = await harness.new_player()
    await harness.open_run(token, "sprint")
    changed(harness, limits=GENEROUS | {"player": {"per_minute": 60, "burst": 1}})
    answers = [await harness.post("/v1/boards/sprint/runs", {"build": "b"}, token) for _ in range(3)]
    assert "quota-exceeded" == answers[-1].problem
    assert '"player";q=1;w=1' == answers[-1].headers["RateLimit-Policy"]


async def test_a_reload_is_logged_with_what_it_changed(harness: Harness):
    """The boards that differ by their new digests, and a new one; no other."""
    folder = harness.edge.settings.policies_dir
    write_policies(folder, a_policy("alpine"))
    with logged(reload) as lines:
        boards = changed(harness, title="Another")
    digests = {name: boards[name].digest for name in ("alpine", "sprint")}
    assert [{"changed": digests, "log_level": "info"}] == lines_of(lines, "policy_reloaded")


async def test_a_part_reloads_as_often_as_it_is_asked_whatever_came_of_the_last(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A bug in reading is reported, wrong files are refused, and the next files are put in force."""
    folder, settings = harness.edge.settings.policies_dir, harness.edge.settings
    asked, put, read = asyncio.Event(), asyncio.Queue[str](), reload.read_again
    answers: list[reload.Reload] = []
    fates: list[Any] = [ZeroDivisionError("one of ours")]

    def reading(*given: Any) -> Any:
        if fates:
            raise fates.pop()
        return read(*given)

    async def has_failed() -> bool:
        return not fates and not asked.is_set()

    monkeypatch.setattr(reload, "read_again", reading)
    write_policies(folder, a_policy("sprint", title="Another"))
    in_force = harness.edge.catalogue
    reloading = asyncio.create_task(
        reload.reload_when_asked(asked, settings, in_force, title_to(put), answers.append)
    )
    with counts(1, "scoregate_unexpected_total", place="policies"):
        asked.set()
        await until(has_failed)
        asked.set()
        async with asyncio.timeout(30):
            assert "Another" == await put.get()
    failed, done = answers
    assert (True, None) == ("a fault of Scoregate" in (failed.refusal or ""), failed.policies)
    assert (None, ["sprint"]) == (done.refusal, list(done.changed))
    assert failed.began_ns < done.began_ns
    reloading.cancel()
    await asyncio.wait([reloading])
    assert reloading.cancelled()


@pytest.mark.parametrize("fails_in", ["reading", "putting"])
async def test_a_reload_that_fails_is_no_reload(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fails_in: str
):
    """Nothing counts as in force and readiness says so, whether reading the files failed or putting them in force."""
    asked, told = asyncio.Event(), asyncio.Queue[reload.Reload]()
    settings, in_force = harness.edge.settings, harness.edge.catalogue

    def fail(*_: object) -> Any:
        raise ZeroDivisionError("one of ours")

    async def put(_: Policies) -> None:
        fail()

    if fails_in == "reading":
        monkeypatch.setattr(reload, "load_policies", fail)
    reloading = asyncio.create_task(reload.reload_when_asked(asked, settings, in_force, put, told.put_nowait))
    name = "scoregate_policy_reloads_total"
    with counts(1, name, outcome="refused"), counts(0, name, outcome="in_force"):
        asked.set()
        async with asyncio.timeout(30):
            answer = await told.get()
    assert (None, True) == (answer.policies, "a fault of Scoregate" in (answer.refusal or ""))
    assert (await harness.get("/readyz")).body["policies"] is False
    assert "scoregate_policy_stale 1.0" in await harness.metrics()
    reloading.cancel()
    await asyncio.wait([reloading])


async def test_a_wrong_file_may_have_any_name(harness: Harness, tmp_path: Path):
    """Also one that is not UTF-8: its refusal is logged and told, and the next reload is heeded."""
    folder, settings, in_force = (
        harness.edge.settings.policies_dir,
        harness.edge.settings,
        harness.edge.catalogue,
    )
    wrong = folder / os.fsdecode(b"\xff.yaml")
    wrong.write_text("board: [")
    asked, told = asyncio.Event(), asyncio.Queue[ReloadAnswer]()
    tell = teller(PartFile("edge", tmp_path / "edge"), in_force)

    def tell_us(made: reload.Reload) -> None:
        tell(made)
        answer = last_answer(RunningPart("edge", 0, 0, tmp_path / "edge"))
        assert answer is not None
        told.put_nowait(answer)

    reloading = asyncio.create_task(
        reload.reload_when_asked(asked, settings, in_force, title_to(asyncio.Queue()), tell_us)
    )
    async with asyncio.timeout(30):
        asked.set()
        assert "\\udcff.yaml:1" in str((await told.get()).refusal)
        wrong.unlink()
        asked.set()
        assert None is (await told.get()).refusal
    reloading.cancel()
    await asyncio.wait([reloading])


async def test_what_is_asked_while_files_are_read_is_not_lost(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Files that change behind the reader, with a second signal, are read again."""
    folder, settings, read = harness.edge.settings.policies_dir, harness.edge.settings, reload.read_again
    requested, titles = asyncio.Event(), asyncio.Queue[str]()
    loop = asyncio.get_running_loop()
    later = ["Third"]

    def read_slowly(*given: Any) -> Any:
        boards = read(*given)
        if later:
            write_policies(folder, a_policy("sprint", title=later.pop()))
            asyncio.run_coroutine_threadsafe(ask_again(), loop).result()
        return boards

    async def ask_again() -> None:
        requested.set()

    monkeypatch.setattr(reload, "read_again", read_slowly)
    write_policies(folder, a_policy("sprint", title="Second"))
    answers: list[reload.Reload] = []
    reloading = asyncio.create_task(
        reload.reload_when_asked(
            requested, settings, harness.edge.catalogue, title_to(titles), answers.append
        )
    )
    requested.set()
    async with asyncio.timeout(30):
        assert ["Second", "Third"] == [await titles.get(), await titles.get()]
    reloading.cancel()
    await asyncio.wait([reloading])


async def test_N03_a_new_board_is_served_without_a_restart(harness: Harness):
    """Its runs, limits, pages and feed are there from the change on; who follows the others misses nothing."""
    folder = harness.edge.settings.policies_dir
    async with sse(harness, board="sprint") as sprint:
        write_policies(
            folder, a_policy("alpine", writes="trusted", segments=["club"], windows=["alltime", "daily"])
        )
        boards = read_again(harness.edge.settings, harness.edge.catalogue).policies
        assert boards is not None
        put_in_force(harness.edge, boards)
        private = await registered(harness, "eu-1")
        async with sse(harness, board="alpine") as alpine:
            for board in ("alpine", "sprint"):
                entry = {"player": "ada", "score": 7, "operation": board}
                assert (
                    202
                    == (await harness.send(harness.server_signed(private, "eu-1", entry, board=board))).status
                )
            standings = [(await feed.standing())["score"] for feed in (alpine, sprint)]
    page = await harness.get("/v1/boards/alpine/entries?window=daily")

    assert [7, 7] == standings
    assert ["ada"] == [each["player"] for each in page.body["entries"]]


async def test_N03_boards_are_listed_by_pages(harness: Harness):
    """In the order of their names, each once, at most so many at once; a cursor that is none is refused."""
    folder = harness.edge.settings.policies_dir
    write_policies(folder, *(a_policy(f"b-{number:03}") for number in range(120)))
    put_in_force(harness.edge, load_policies(folder))
    pages, after, cursor = [], "", ""
    while cursor is not None:
        page = (await harness.get(f"/v1/boards?limit=50{after}")).body
        pages.append([each["board"] for each in page["boards"]])
        cursor = page["next"]
        after = f"&cursor={cursor}"
    plain = (await harness.get("/v1/boards")).body

    assert [50, 50, 22] == [len(each) for each in pages]
    assert sorted(harness.edge.catalogue.of_files) == [each for page in pages for each in page]
    assert 100 == len(plain["boards"])
    assert 0 == len(harness.edge.catalogue.of_files) % 61, (
        "the second page of these is full, and the last one"
    )
    halves = (await harness.get("/v1/boards?limit=61")).body
    last = (await harness.get(f"/v1/boards?limit=61&cursor={halves['next']}")).body
    assert (61, None) == (len(last["boards"]), last["next"])
    for query in ("cursor=", "cursor=b-098", "limit=0", "limit=101"):
        answer = await harness.get(f"/v1/boards?{query}")
        assert (422, "schema-violation") == (answer.status, answer.problem)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("sprint", "board: sprint\nscore: {minimum: [", "sprint.yaml"),
        ("sprint", None, "board 'sprint' is gone"),
        ("sprint", a_policy("sprint", order="ascending"), "order was descending and is now ascending"),
        ("sprint", a_policy("sprint", windows=["alltime", "daily"]), "windows was [alltime]"),
        ("sprint", a_policy("sprint", title="Dash", shards=4), "shards was 1 and is now 4"),
    ],
)
async def test_files_that_cannot_be_put_in_force_leave_all_as_it_was(
    harness: Harness, capfd: pytest.CaptureFixture[str], name: str, content: Any, said: str
):
    """Broken, or in need of a restart: not even the board beside it changes, and readiness says so until it is mended."""
    folder, in_force = harness.edge.settings.policies_dir, harness.edge.catalogue
    before = dict(in_force.of_files)
    path = folder / f"{name}.yaml"
    if content is None:
        path.unlink()
    elif isinstance(content, str):
        path.write_text(content)
    else:
        write_policies(folder, content)
    write_policies(folder, arcade_policy(title="Aphelion"))

    with counts(1, "scoregate_policy_reloads_total", outcome="refused"):
        refused = read_again(harness.edge.settings, in_force)
    assert (None, {}) == (refused.policies, refused.changed)
    assert said in (refused.refusal or "")
    assert said in capfd.readouterr().out
    assert before == dict(in_force.of_files)
    assert (await harness.get("/readyz")).body["policies"] is False
    assert "scoregate_policy_stale 1.0" in await harness.metrics()

    write_policies(folder, a_policy("sprint"))
    answers: list[reload.Reload] = []
    with (
        counts(1, "scoregate_policy_reloads_total", outcome="in_force"),
        reload.reloading(in_force, answers.append) as conclude,
    ):
        mended = read_again(harness.edge.settings, in_force)
        assert mended.policies is not None
        put_in_force(harness.edge, mended.policies)
        assert (True, []) == (in_force.is_stale, answers)
        conclude(mended)
    assert [mended] == answers
    assert (await harness.get("/readyz")).body["policies"] is True
    assert "scoregate_policy_stale 0.0" in await harness.metrics()
    assert "Aphelion" == (await harness.get("/v1/boards/arcade")).body["title"]
    assert 202 == (await harness.send(honest(harness, await a_run(harness), CLAIM))).status
