"""What was acknowledged while Redis was away: shown as soon as it is back, and readers are told until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.index.board_index import BoardIndex
from gateway.ledger.submissions import work
from gateway.runtime.settings import Settings
from gateway.settlement import unprojected
from gateway.settlement.unprojected import UnprojectedChanges
from gateway.shared_records import Change
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.vocabulary import State
from replay.worker import process
from tests.gateway.edge.test_cursors import change
from tests.gateway.edge.test_page_cache import asked
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.attack import until
from tests.support.harness import Answer, Harness, free_port, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.stores import Store
from tests.support.valkey import ValkeyServer, running_valkey
from tests.support.world import mend, stop

FAR_FUTURE_MS = 2**50
_LONGEST_TEST_S = 300


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    with running_valkey() as server:
        yield server


@pytest.fixture
def own_settings(tmp_path: Path, own_valkey: ValkeyServer, store: Store) -> Settings:
    folder = write_policies(tmp_path / "policies", a_policy("vault", writes="trusted"), a_policy("sprint"))
    own = {"data_dir": tmp_path / "data", "policies_dir": folder, "redis_url": own_valkey.url}
    return Settings(
        **own,
        ledger_url=store.url,
        redis_timeout_ms=50,
        bind=f"127.0.0.1:{free_port()}",
    )


@pytest.fixture
async def harness(own_settings: Settings) -> AsyncIterator[Harness]:
    async with running_harness(own_settings) as running:
        yield running


async def struck_off(harness: Harness) -> None:
    """Returns once the outbox asks for no projection."""
    asked_for = work.due("project", now_ms=FAR_FUTURE_MS, count=100)
    async with asyncio.timeout(20):
        while True:
            if not await harness.edge.ledger.read(asked_for):
                return
            await asyncio.sleep(0.01)


async def scores(harness: Harness) -> tuple[list[int], Answer]:
    answer = await harness.get(f"{VAULT}/entries")
    return [entry["score"] for entry in answer.body["entries"]], answer


async def test_B04_a_write_that_redis_missed_is_shown_once_it_is_back(
    harness: Harness, own_valkey: ValkeyServer
):
    """No steward runs: the edge itself shows it, every read says until then that it may lack something, and the outbox is empty."""
    private = await filled(harness, 3)
    stop(own_valkey)
    await change(harness, private, ("p2", 5000), ("p9", 9000))
    mend(own_valkey)
    async with asyncio.timeout(20):
        while True:
            shown, answer = await scores(harness)
            if [9000, 5000] == shown[:2]:
                break
            assert "Scoregate-Behind" in answer.headers or "Scoregate-Source" in answer.headers
    await struck_off(harness)
    assert "Scoregate-Behind" not in (await scores(harness))[1].headers


@pytest.mark.parametrize("database_server", ["sqlite"], indirect=True)
async def test_B12_a_read_waits_for_one_time_out_of_redis(
    harness: Harness, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """Once Redis has not answered a request it is not asked again for that one; the next request asks it anew."""
    await filled(harness, 3)
    calls: list[tuple[Any, ...]] = []
    client = harness.edge.index.client
    execute = client.execute_command

    async def counted(*told: Any, **options: Any) -> Any:
        if any("vault" in str(each) for each in told):
            calls.append(told)
        return await execute(*told, **options)

    stop(own_valkey)
    monkeypatch.setattr(client, "execute_command", counted)
    for path in (
        "entries",
        "entries?offset=1",
        "entries/p2",
        "entries/p2/around",
        "percentiles",
        "distribution",
    ):
        calls.clear()
        answer = await harness.get(f"{VAULT}/{path}")
        assert (path, 200, 1) == (path, answer.status, len(calls))
    mend(own_valkey)


class Gate:
    """A board's index that shows nothing until it is opened, and is read all the same."""

    def __init__(self, index: BoardIndex, patch: pytest.MonkeyPatch) -> None:
        self.is_open = False
        self.refused = 0
        shown = index.project_all

        async def project_all(changes: Sequence[Change]) -> None:
            if not self.is_open:
                self.refused += 1
                raise IndexUnavailable
            await shown(changes)

        patch.setattr(index, "project_all", project_all)


@pytest.mark.parametrize("database_server", ["sqlite"], indirect=True)
async def test_B04_readers_are_told_that_the_index_is_behind(
    harness: Harness, own_settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """By this edge at once, by others once it is overdue; such an answer is whole and never kept. Other boards are not behind."""
    harness.clock.stop()
    private = await filled(harness, 3)
    tag = (await asked(harness, f"{VAULT}/entries")).headers["ETag"]
    gate = Gate(harness.edge.index.of(harness.edge.catalogue.of_files["vault"]), monkeypatch)
    await change(harness, private, ("p2", 5000))

    for path, status in {
        "entries": 200,
        "entries/p2": 200,
        "entries/nobody": 404,
        "percentiles": 200,
    }.items():
        answer = await asked(harness, f"{VAULT}/{path}", tag)
        assert (status, "no-store") == (answer.status, answer.headers["Cache-Control"])
        assert 1 <= int(answer.headers["Scoregate-Behind"]) <= _LONGEST_TEST_S
        assert "ETag" not in answer.headers
    assert "Scoregate-Behind" not in (await harness.get("/v1/boards/sprint/entries")).headers

    others = own_settings.model_copy(update={"bind": f"127.0.0.1:{free_port()}"})
    del others.allowed_hosts  # which was worked out for the first
    async with running_harness(others, harness.clock) as other:
        assert 0 == other.edge.lag.behind_s("vault")
        harness.clock.shift(2.5)
        await other.edge.lag.look()
        told = int((await other.get(f"{VAULT}/entries")).headers["Scoregate-Behind"])
        assert 3 <= told <= 3 + _LONGEST_TEST_S
        gate.is_open = True
        await struck_off(harness)
        await other.edge.lag.look()
        shown, answer = await scores(other)
        assert (5000, False) == (shown[0], "Scoregate-Behind" in answer.headers)


class Boards:
    """Boards of which one can show nothing; what they were shown."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.broken = {2}
        self.has_shown_three = asyncio.Event()

    def of(self, _board: Any) -> Boards:
        return self

    async def project(self, change: Change) -> None:
        if change.seq in self.broken:
            raise IndexUnavailable
        self.shown.append(change.seq)
        if len(self.shown) == 3:
            self.has_shown_three.set()

    async def write(self, _work: Any) -> None:
        """Strikes it off."""


BOARD: Any = SimpleNamespace(name="vault", rollups=(), policy=SimpleNamespace(staleness_s=0.0))


def a_change(seq: int) -> Change:
    return Change(seq, f"s{seq}", "vault", "p1", State.PROMOTED)


async def test_B04_what_is_owed_is_bounded_and_one_change_keeps_no_other(monkeypatch: pytest.MonkeyPatch):
    """Of more than fit readers are told until the outbox tells; what nothing can show goes behind the others."""
    monkeypatch.setattr(unprojected, "UNPROJECTED_LIMIT", 4)
    now_s, index = [100.0], Boards()
    changes = UnprojectedChanges(index, index, clock=lambda: now_s[0])  # type: ignore[arg-type]
    changes.add(BOARD, [a_change(seq) for seq in (2, 1, 1, 3, 4, 5, 3)])
    now_s[0] = 101.5
    assert (1.5, 0.0) == (changes.behind_s("vault"), changes.behind_s("sprint"))
    task = asyncio.create_task(changes.run())
    async with asyncio.timeout(20):
        await index.has_shown_three.wait()
        index.broken.clear()
        await changes.wait_until_projected()
    task.cancel()
    assert [1, 2, 3, 4] == sorted(index.shown)
    assert 1.5 == changes.behind_s("vault")  # of what was dropped
    now_s[0] = 105.0
    assert 0.0 == changes.behind_s("vault")


def a_board(name: str, staleness_s: float = 0.0) -> Any:
    return SimpleNamespace(name=name, rollups=(), policy=SimpleNamespace(staleness_s=staleness_s))


async def test_B04_what_was_dropped_is_told_until_the_outbox_tells_of_it(monkeypatch: pytest.MonkeyPatch):
    """Twice the time after which a change is due there, and as long as the board may be stale; of some boards, the last."""
    monkeypatch.setattr(unprojected, "UNPROJECTED_LIMIT", 2)
    now_s, index = [100.0], Boards()
    changes = UnprojectedChanges(index, index, clock=lambda: now_s[0])  # type: ignore[arg-type]
    changes.add(BOARD, [a_change(1), a_change(2)])
    for seq, name in enumerate(("a", "b", "b", "a", "c"), start=3):
        changes.add(a_board(name, staleness_s=5.0), [a_change(seq)])
        now_s[0] += 1.0
        if name == "b":
            assert now_s[0] - 100.0 == changes.behind_s("a")
    assert {"a": 2.0, "b": 0.0, "c": 1.0} == {name: changes.behind_s(name) for name in "abc"}
    told_s = 2 * work.PROJECT_AFTER_MS / 1000 + 5.0
    now_s[0] = 104.0 + told_s
    assert {"a": 0.0, "c": told_s} == {name: changes.behind_s(name) for name in "ac"}
    now_s[0] += 0.001
    assert 0.0 == changes.behind_s("c")


async def test_B04_what_is_shown_is_not_behind_though_the_ledger_takes_no_note_of_it():
    """The steward shows it again, which changes nothing; readers are told of no delay."""
    index = Boards()

    async def is_away(_work: Any) -> None:
        raise LedgerUnavailable

    index.write = is_away  # type: ignore[method-assign]
    changes = UnprojectedChanges(index, index)  # type: ignore[arg-type]
    changes.add(BOARD, [a_change(1), a_change(3)])
    task = asyncio.create_task(changes.run())
    async with asyncio.timeout(20):
        await changes.wait_until_projected()
    task.cancel()
    assert ([1, 3], 0.0) == (index.shown, changes.behind_s("vault"))


async def test_B04_boards_that_can_show_nothing_keep_no_other_waiting():
    """As many as are tried at once, for as long as they like; nor does a bug in one of them end it all."""
    index, faults = Boards(), [RuntimeError("a bug")]
    index.broken = {1, 2, 3, 4}
    changes = UnprojectedChanges(index, index)  # type: ignore[arg-type]
    show = index.project

    async def fail_once(change: Change) -> None:
        if change.seq == 5 and faults:
            raise faults.pop()
        await show(change)

    index.project = fail_once  # type: ignore[method-assign]
    for seq, name in enumerate("abcdef", start=1):
        changes.add(a_board(name), [a_change(seq)])
    task = asyncio.create_task(changes.run())

    async def are_shown() -> bool:
        return not (changes.behind_s("e") or changes.behind_s("f"))

    await until(are_shown)
    assert ([5, 6], True) == (sorted(index.shown), changes.behind_s("a") > 0)
    task.cancel()


async def test_B04_a_worker_waits_for_redis_to_show_what_it_settled(monkeypatch: pytest.MonkeyPatch):
    """Between two jobs nothing runs in a worker, so a job ends once it is shown, or when the steward takes over."""
    index = Boards()
    changes = UnprojectedChanges(index, index)  # type: ignore[arg-type]
    monkeypatch.setattr(process._Process, "unprojected", changes)
    task = asyncio.create_task(changes.run())

    async def settled() -> int:
        changes.add(BOARD, [a_change(1)])
        return 1

    assert 1 == await process._on_time(settled())
    assert [1] == index.shown
    monkeypatch.setattr(process, "PROJECTED_WITHIN_S", 0.01)
    changes.add(BOARD, [a_change(2)])
    assert 1 == await process._on_time(settled())
    task.cancel()
