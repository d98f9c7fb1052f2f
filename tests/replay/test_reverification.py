"""After an engine change: promoted runs are judged again, revoked as one batch, and let count again when it is undone."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from gateway.ledger import queries
from gateway.ledger.definition import create_schema
from gateway.ledger.judgement import reverification
from gateway.runtime.settings import Settings
from gateway.steward.audits import revocation_impact
from policies.digests import digest_of, sha256_of, simulator_digest
from policies.errors import SettingsError
from policies.loader import Simulator, load_boards
from replay.simulators import all_simulators
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.sandbox import Sandbox
from replay.worker.reverification import ReverificationPlan, Reverifier
from scoregate.cli import app
from scoregate.commands.replays import _simulator
from scoregate.operator_batches import BatchOperator
from tests.replay.games import END, GAME, play
from tests.replay.games import store as store_module
from tests.support.archives import Shelf, board_with
from tests.support.banning import Bench, a_ban
from tests.support.boards import BUILD, CHECKPOINT_TICKS, claim_of, write_board
from tests.support.harness import free_port
from tests.support.ledger import NOON_MS
from tests.support.policies import a_policy, write_policies
from tests.support.stores import Store, on_both_ledgers
from tests.support.valkey import ValkeyServer
from tests.support.world import World, a_world

OPERATORS = ("best", "latest", "sum", "count")
CHANGED = GAME.replace(
    "(i64.extend_i32_u (i32.and (local.get $word) (i32.const 1)))",
    """(i64.extend_i32_u (i32.and (i32.and (local.get $word) (i32.const 1))
        (i32.eqz (i32.and (local.get $word) (i32.const 2)))))""",
).replace(
    "(global.set $state\n      (i64.add",
    "(if (i32.eq (local.get $word) (i32.const 8)) (then unreachable))\n    (global.set $state\n      (i64.add",
)
"""The game after the change: 3 scores no more, and 8 crashes it."""
assert CHANGED.count("unreachable") == 1


class Applied(NamedTuple):
    """A batch: the submissions that it decided on or took back, and that somebody else had decided on."""

    batch: str
    settled: list[str]
    left: list[str]


class Field:
    """A world with boards of each operator, and the simulator that has changed."""

    def __init__(self, world: World, simulator: Simulator) -> None:
        self.world = world
        self.simulator = simulator
        self.told: list[int] = []

    async def played(self, player: str, words: Sequence[int], board: str = "best") -> str:
        """The id of a promoted run with these words."""
        run = self.world.run(player, board)
        claim = claim_of(play([*words, END], int(run.info["seed"]), CHECKPOINT_TICKS))
        answer = await self.world.harness.send(self.world.harness.signed(run, claim, board=board))
        assert 202 == answer.status, answer.raw
        await self.world.verify(run.id)
        self.world.harness.clock.shift(1)
        assert "promoted" == await self.world.harness.state_of(run.id)
        return run.id

    def reverifier(self, board: str = "best") -> Reverifier:
        edge = self.world.edge
        parts = (edge.catalogue.of_files[board], edge.ledger, edge.recordings)
        return Reverifier(*parts, clock=self.world.harness.clock, tell=self.told.append)

    async def plan(self, board: str = "best") -> ReverificationPlan:
        return await self.reverifier(board).plan(BUILD, self.simulator, self.world.sandbox)

    @property
    def operator(self) -> BatchOperator:
        edge = self.world.edge
        return BatchOperator(edge.ledger, edge.index, edge.catalogue, self.world.harness.clock)

    async def applied(self, plan: ReverificationPlan, board: str = "best") -> Applied:
        batch = await self.reverifier(board).store(plan, BUILD, self.simulator)
        await self.operator.apply(batch)
        return await self.outcomes(batch)

    async def undone(self, batch: str) -> Applied:
        await self.operator.reverse(batch)
        return await self.outcomes(batch)

    async def outcomes(self, batch: str) -> Applied:
        items = [item async for item in self.operator.items(batch)]
        settled = [each.submission_id for each in items if each.outcome in {"decided", "reversed"}]
        left = [each.submission_id for each in items if each.why == "decided-since"]
        return Applied(batch, settled, left)

    async def shown(self, board: str = "best") -> dict[str, int]:
        """Scores by player, as readers see them."""
        answer = await self.world.harness.get(f"/v1/boards/{board}/entries")
        return {entry["player"]: entry["score"] for entry in answer.body["entries"]}

    async def decide(self, submission: str, decision: str) -> None:
        """A moderator decides."""
        token = self.world.harness.moderator()
        path = f"/v1/moderation/cases/{submission}/{decision}"
        answer = await self.world.harness.post(path, {"code": "other", "note": "looked at it"}, token)
        assert 200 == answer.status, answer.raw

    async def events(self) -> int:
        return await self.world.edge.ledger.read(queries.newest_seq())


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    policies = tmp_path / "policies"
    module = store_module(tmp_path, GAME)
    for operator in OPERATORS:
        alike = {"recording_reuse": "off"}  # short runs of the tiny game are alike
        write_board(policies, operator, module, operator=operator, validators=alike)
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=policies,
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
    )


@asynccontextmanager
async def a_field(settings: Settings, sandbox: Sandbox, valkey: ValkeyServer) -> AsyncIterator[Field]:
    changed = store_module(settings.data_dir.parent, CHANGED)
    async with a_world(settings, sandbox, valkey) as world:
        yield Field(world, Simulator(changed.digest, changed.path))


@pytest.fixture
async def field(settings: Settings, sandbox: Sandbox, valkey: ValkeyServer) -> AsyncIterator[Field]:
    async with a_field(settings, sandbox, valkey) as field:
        yield field


def ids(found: Sequence[Any]) -> list[str]:
    return [each.submission_id for each in found]


async def test_a_plan_changes_nothing_and_says_what_would_change(field: Field):
    """Each run is where it belongs, also one that comes back after a ban; the standing's next best is named."""
    better, _ = await field.played("ada", [3] * 5), await field.played("ada", [1] * 2)
    await field.played("bob", [1] * 4)
    crashing = await field.played("cyd", [8, 1])
    approved = await field.played("dan", [3])
    await field.decide(approved, "revoke")
    await field.decide(approved, "reinstate")
    banned = await field.played("eve", [3] * 3)
    edge = field.world.edge
    await Bench(edge.ledger, edge.catalogue.of_files, edge.index).ban(a_ban("one", "eve"))
    before, events = await field.shown(), await field.events()

    plan = await field.plan()

    assert [1] * 6 == field.told
    assert (6, [better, banned], [crashing], [approved]) == (
        plan.looked_at,
        ids(plan.to_revoke),
        ids(plan.inconclusive),
        ids(plan.decided_by_people),
    )
    assert {("ada", 6, 3, False)} == {
        (each.player, each.before, each.after, each.leaves_top) for each in plan.standings
    }
    assert {"alltime", "daily", "weekly", "monthly"} == {
        each.window.partition(":")[0] for each in plan.standings
    }
    assert (before, events) == (await field.shown(), await field.events())


async def test_a_batch_is_applied_and_undone(field: Field):
    """The board falls back to what is left and comes back; the index is what the ledger says both times."""
    better = await field.played("ada", [3] * 5)
    await field.played("ada", [1] * 2)
    await field.played("bob", [1] * 4)
    only = await field.played("eve", [3])
    before = await field.shown()

    batch = await field.applied(await field.plan())
    assert [1] * 4 == field.told
    assert [better, only] == batch.settled
    assert {"ada": 3, "bob": 5} == await field.shown()
    await field.world.assert_whole()

    undone = await field.undone(batch.batch)
    assert ([better, only], []) == (undone.settled, undone.left)
    assert before == await field.shown() == {"ada": 6, "bob": 5, "eve": 2}
    await field.world.assert_whole()
    reasons = [
        await field.world.harness.edge.ledger.read(queries.submission(name)) for name in (better, only)
    ]
    assert ["reverification-undone"] * 2 == [each.reason for each in reasons if each]
    assert (2, [better, only]) == (len((await field.plan()).to_revoke), ids((await field.plan()).to_revoke))


async def test_M16_what_was_applied_and_undone_may_be_applied_and_undone_again(field: Field):
    """The second time is as the first: the run leaves the board and comes back, by events of its own."""
    run = await field.played("ada", [3] * 5)
    for _ in range(2):
        batch = await field.applied(await field.plan())
        assert ([run], {}) == (batch.settled, await field.shown())
        undone = await field.undone(batch.batch)
        assert ([run], [], {"ada": 6}) == (undone.settled, undone.left, await field.shown())
    await field.world.assert_whole()


async def test_undoing_a_batch_leaves_those_that_came_after_it(field: Field):
    """Each has its own submissions."""
    first = await field.played("ada", [3] * 5)
    earlier = await field.applied(await field.plan())
    second = await field.played("bob", [3] * 4)
    later = await field.applied(await field.plan())
    assert ([first], [second], {}) == (earlier.settled, later.settled, await field.shown())
    assert [first] == (await field.undone(earlier.batch)).settled
    assert {"ada": 6} == await field.shown()
    assert [second] == (await field.undone(later.batch)).settled
    assert {"ada": 6, "bob": 5} == await field.shown()


@on_both_ledgers
async def test_either_database_carries_a_batch(
    settings: Settings, store: Store, sandbox: Sandbox, valkey: ValkeyServer
):
    """Planned, applied, undone, and planned again with the same result."""
    settings = settings.model_copy(update={"ledger_url": SecretStr(store.url)})
    async with a_field(settings, sandbox, valkey) as field:
        run = await field.played("ada", [3, 3])
        batch = await field.applied(await field.plan())
        assert {} == await field.shown()
        await field.undone(batch.batch)

        assert {"ada": 3} == await field.shown()
        assert [run] == ids((await field.plan()).to_revoke)


async def test_undoing_leaves_what_somebody_decided_on_since(field: Field):
    """A moderator let one run count again and took it back: it stays as they left it."""
    first, second = await field.played("ada", [3]), await field.played("bob", [3])
    batch = await field.applied(await field.plan())
    await field.decide(first, "reinstate")
    await field.decide(first, "revoke")

    undone = await field.undone(batch.batch)
    assert ([second], [first]) == (undone.settled, undone.left)
    assert {"bob": 2} == await field.shown()


async def test_applying_leaves_what_somebody_decided_on_meanwhile(field: Field):
    """Between the plan and its batch a moderator looked at the run: the plan no longer holds for it."""
    run = await field.played("ada", [3])
    plan = await field.plan()
    await field.decide(run, "revoke")
    await field.decide(run, "reinstate")

    batch = await field.applied(plan)
    assert ([], [run]) == (batch.settled, batch.left)
    assert {"ada": 2} == await field.shown()
    again = await field.applied(await field.plan())
    assert ([], []) == (again.settled, again.left), "a person has decided on it"
    assert {"ada": 2} == await field.shown()


@pytest.mark.parametrize("operator", OPERATORS)
async def test_the_plan_foresees_the_board_whatever_its_operator(
    field: Field, operator: str, monkeypatch: pytest.MonkeyPatch
):
    """What it says of each standing, and of who leaves the first places, is what then is."""
    monkeypatch.setattr(revocation_impact, "TOP", 2)
    for player, words in [
        ("ada", [1]),
        ("ada", [3] * 6),
        ("bob", [3] * 2),
        ("bob", [1] * 4),
        ("cyd", [3] * 9),
        ("dan", [1] * 2),
    ]:
        await field.played(player, words, operator)
    before = await field.shown(operator)
    plan = await field.plan(operator)
    await field.applied(plan, operator)
    after = await field.shown(operator)
    alltime = [each for each in plan.standings if each.window == "alltime"]

    foreseen = before | {each.player: each.after for each in alltime}
    assert after == {player: score for player, score in foreseen.items() if score is not None}
    assert {each.player for each in alltime if each.leaves_top} == set(list(before)[:2]) - set(
        list(after)[:2]
    )


async def test_the_plan_knows_which_of_two_equal_scores_stands(monkeypatch: pytest.MonkeyPatch):
    """Where fields break ties, the score of fewer moves: without it its player falls behind, without the other nothing changes."""
    monkeypatch.setattr(revocation_impact, "TOP", 1)
    shelf = Shelf(board_with("fields"))
    for name, player, moves in (("clumsy", "ada", 9), ("neat", "ada", 2), ("fair", "bob", 4)):
        shelf.score(name, player, 5, moves=moves)
        shelf.clock.shift(1)

    async def foreseen(name: str) -> list[tuple[str, int, int | None, bool]]:
        run: Any = SimpleNamespace(submission_id=name, player="ada", achieved_at_ms=NOON_MS)
        ledger: Any = shelf
        impact = await revocation_impact.impact_of_revoking(ledger, shelf.board, [run], shelf.clock())
        return [
            (each.player, each.before, each.after, each.leaves_top)
            for each in impact
            if each.window == "alltime"
        ]

    assert [("ada", 5, 5, True)] == await foreseen("neat")
    assert [] == await foreseen("clumsy")


async def test_the_command_plans_applies_and_undoes(field: Field, monkeypatch: pytest.MonkeyPatch):
    """By the command line: status 1 and a list, then a batch, then all is as it was."""
    run = await field.played("ada", [3] * 5)
    settings = field.world.edge.settings
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(settings.policies_dir))
    monkeypatch.setenv("SCOREGATE_REDIS_URL", settings.redis_url)
    words = ["replay", "reverify", "--board", "best", "--build", BUILD]
    changed = ["--simulator", str(field.simulator.path)]

    async def command(*words: str) -> tuple[int, str]:
        done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
        return done.exit_code, done.output

    confined: list[bool] = []

    class Noting(AllSimulators):
        def __init__(self, *, needs_bubblewrap: bool = False) -> None:
            confined.append(needs_bubblewrap)
            super().__init__(needs_bubblewrap=needs_bubblewrap)

    monkeypatch.setattr(all_simulators, "AllSimulators", Noting)
    for sandbox in ("bubblewrap", "any"):
        monkeypatch.setenv("SCOREGATE_SANDBOX", sandbox)
        assert 0 == (await command(*words))[0]
    assert [True, False] == confined, "programs are confined as a worker confines them"
    status, output = await command(*words, *changed)
    assert (1, True) == (status, f"would be revoked\t{run}\tada\t6, now 1\tscore-mismatch" in output)
    assert "standing\talltime\tada\t6 becomes nothing" in output
    status, programs = await command(*words, *changed, "--json")
    told = json.loads(programs.splitlines()[-1])
    assert (1, [run], "previewed") == (
        status,
        [each["submission"] for each in told["to_revoke"]],
        told["batch"]["state"],
    )
    assert {"ada": 6} == await field.shown()
    [previewed] = re.findall(r"scoregate batch apply (\S+)", output)
    status, output = await command("batch", "apply", previewed)
    assert (0, True, {}) == (status, "decided\t1" in output, await field.shown())
    assert 0 == (await command("batch", "reverse", previewed))[0]
    assert {"ada": 6} == await field.shown()
    status, output = await command(*words, *changed, "--yes", "--json")
    found = json.loads(output.splitlines()[-1])["batch"]
    assert (0, "applied", {"decided": 1}, []) == (status, found["state"], found["outcomes"], found["left"])
    assert {} == await field.shown()
    status, output = await command(*words[:-1], "other", "--simulator", str(field.simulator.path))
    assert (0, True) == (status, "nothing of this build counts" in output)
    assert 1 == (await command("replay", "reverify", "--board", "none", "--build", BUILD))[0]


async def test_a_plan_keeps_no_recordings(field: Field):
    """There may be a hundred thousand runs to revoke: ids, numbers and the verdict are kept of each."""
    await field.played("ada", [3] * 500)
    await field.played("bob", [8] + [1] * 500)
    plan = await field.plan()

    assert (1, 1) == (len(plan.to_revoke), len(plan.inconclusive))
    assert not any(b"SGR" in pickle.dumps(each) for each in (*plan.to_revoke, *plan.inconclusive))


def test_no_page_of_a_build_is_sorted():
    """The runs come in the order of an index, so that a page costs what is on it, however many are left."""
    values = dict.fromkeys(re.findall(r":(\w+)", reverification._PROMOTED.sqlite), 0)
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(connection)
        asked = f"EXPLAIN QUERY PLAN {reverification._PROMOTED.sqlite}"
        steps = [row[3] for row in connection.execute(asked, reverification._PROMOTED.values(values))]
    assert 1 == len(steps)
    assert "submissions_promoted_of_build (board=? AND build=? AND achieved_at_ms>?)" in steps[0]


async def test_pages_of_a_build_leave_nothing_out(field: Field, monkeypatch: pytest.MonkeyPatch):
    """Runs that were achieved in the same millisecond are told apart by what came first."""
    monkeypatch.setattr(field.world.harness.clock, "shift", lambda ms: None)
    monkeypatch.setattr("replay.worker.reverification.SLICE", 2)
    runs = [await field.played(player, [3]) for player in ("ada", "bob", "cyd", "dan", "eve")]

    assert sorted(runs) == sorted(ids((await field.plan()).to_revoke))


def test_a_new_simulator_plays_with_the_files_of_its_build(tmp_path: Path):
    """As the board's policy names them; a build that it does not name has none."""
    (tmp_path / "game").write_text("#!/bin/sh\n")
    (tmp_path / "levels.bin").write_bytes(b"levels")
    build = {"simulator": "game", "files": ["levels.bin"]}
    replay = {"maximum_ticks": 600, "simulator": "process", "recording": "raw"}
    policy = a_policy("coins", writes="verified", builds={"b1": build}, replay=replay)
    board = load_boards(write_policies(tmp_path, policy))["coins"]
    new = tmp_path / "new"
    new.write_text("#!/bin/false\n")
    chosen = _simulator(board, "b1", new)
    assert (new, board.simulators["b1"].files) == (chosen.path, chosen.files)
    assert [tmp_path / "levels.bin"] == [*chosen.files]
    assert simulator_digest(sha256_of(new), dict([digest_of(tmp_path / "levels.bin")])) == chosen.digest
    assert () == _simulator(board, "other", new).files


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path):
    """A mistyped folder would get an empty ledger of its own, of which everything is true."""
    options = ["--board", "arcade", "--build", BUILD]
    told = CliRunner().invoke(app, ["replay", "reverify", *options, "--data-dir", str(tmp_path)])
    assert isinstance(told.exception, SettingsError)
    assert str(told.exception).startswith(str(tmp_path / "ledger.sqlite3: there is no ledger"))
    assert not (tmp_path / "ledger.sqlite3").exists()
