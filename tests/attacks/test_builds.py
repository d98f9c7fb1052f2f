"""Builds of the game: unknown, retired, provisional and blocked ones, and the switch that blocks them."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.ledger import queries
from gateway.ledger.judgement.builds import BuildChange, set_build_status
from gateway.runtime.settings import Settings
from policies.replaying import BuildStatus
from policies.vocabulary import Verdict
from replay.simulators.sandbox import Sandbox
from replay.verify import verify
from scoregate.cli import app
from scoregate.commands.builds import set_status
from tests.support.attack import a_run, accept, honest
from tests.support.game import BUILD
from tests.support.harness import Answer, Harness, Run, running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies

ALLOW, PROVISIONAL, BLOCKED = BuildStatus


async def switched(harness: Harness, status: BuildStatus, board: str = "arcade") -> None:
    """The build has the status, and the edge has heard of it."""
    change = BuildChange(board, BUILD, status, "operator", "seen in the wild", harness.clock())
    await harness.edge.ledger.write(set_build_status(change))
    await harness.edge.builds.refresh()


async def open_run(harness: Harness, board: str = "arcade", build: str = BUILD) -> Answer:
    token = await harness.new_player()
    return await harness.post(f"/v1/boards/{board}/runs", {"build": build}, token)


async def ended(harness: Harness, run: Run) -> tuple[str, str]:
    found = await harness.edge.ledger.read(queries.submission(run.id))
    assert found
    return found.state.value, found.reason.value


@pytest.mark.parametrize("build", ["arcade-0", "ARCADE-1", "arcade-1 "])
async def test_P04_a_run_of_an_unknown_build_is_refused(harness: Harness, build: str):
    """What the registry does not name, to the letter, plays no run that is replayed."""
    answer = await open_run(harness, build=build)

    assert (422, True) == (answer.status, answer.problem in {"build-unknown", "schema-violation"})


async def test_P04_a_blocked_build_is_refused_at_the_run(harness: Harness):
    """By a problem of its own, on that board alone, until it is allowed again; readers see which builds may play."""
    await switched(harness, BLOCKED)
    refused, other = await open_run(harness), await open_run(harness, "sprint")
    shown = (await harness.get("/v1/boards/arcade")).body["builds"]
    await switched(harness, ALLOW)

    assert [(403, "build-blocked"), (201, "")] == [(each.status, each.problem) for each in (refused, other)]
    simulator = harness.edge.catalogue.of_files["arcade"].simulators[BUILD].digest
    assert [{"build": BUILD, "status": "blocked", "simulator": simulator}] == shown
    assert 201 == (await open_run(harness)).status


async def test_P04_a_ticket_from_before_the_block_is_taken_and_held(harness: Harness):
    """The answer is what it always is; the run waits for a moderator, with the reason, and is never replayed."""
    run, claim = await harness.played()
    await switched(harness, BLOCKED)
    answer = await harness.submit(run, claim)

    assert 202 == answer.status
    assert ("held", "build-blocked") == await ended(harness, run)


async def test_P04_a_build_blocked_while_its_run_waits_is_held(harness: Harness, sandbox: Sandbox):
    """The worker asks again before it spends anything on the run."""
    run, claim = await harness.played()
    await harness.submit(run, claim)
    await switched(harness, BLOCKED)

    assert 1 == await harness.verify(run.id, sandbox=sandbox)
    assert ("held", "build-blocked") == await ended(harness, run)
    [_, held] = await harness.edge.ledger.read(queries.history_of(run.id))
    assert {"build_status": "blocked"} == held["detail"]


async def test_P04_a_build_blocked_while_its_run_is_played_again_is_held(
    harness: Harness, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """A job may take minutes: what counts is the switch as it is when the verdict is there."""
    monkeypatch.setattr("gateway.settlement.builds.REFRESH_S", 0.001)
    run, claim = await harness.played()
    await harness.submit(run, claim)

    def blocked_meanwhile(*asked: Any) -> Verdict:
        block = set_status(harness.edge.settings, "arcade", BUILD, BLOCKED, reason="seen in the wild")
        with ThreadPoolExecutor() as elsewhere:
            assert elsewhere.submit(asyncio.run, block).result()
        return verify(*asked)

    monkeypatch.setattr("replay.worker.verifier.verify", blocked_meanwhile)
    assert 1 == await harness.verify(run.id, sandbox=sandbox)
    assert ("held", "build-blocked") == await ended(harness, run)


async def test_a_verified_run_of_a_provisional_build_waits_for_a_moderator(
    harness: Harness, sandbox: Sandbox
):
    """A replay alone does not promote it; one that lies is rejected; allowed again, the next is promoted."""
    await switched(harness, PROVISIONAL)
    outcomes = []
    for status, more in ((None, 0), (None, 10), (ALLOW, 0)):
        if status:
            await switched(harness, status)
        run, claim = await harness.played()
        await harness.submit(run, claim | {"score": claim["score"] + more})
        await harness.verify(run.id, sandbox=sandbox)
        outcomes.append(await ended(harness, run))

    assert [
        ("held", "build-provisional"),
        ("rejected", "score-mismatch"),
        ("promoted", "verified"),
    ] == outcomes


async def test_a_board_without_replay_may_have_a_registry_too(settings: Settings):
    """Then it takes its builds alone, and a blocked one neither opens a run nor gets a score in unseen."""
    builds = {BUILD: {}, "old": {"status": "blocked"}}
    write_policies(settings.policies_dir, a_policy("sprint", builds=builds))
    async with running_harness(settings) as harness:
        answers = [await open_run(harness, "sprint", build) for build in (BUILD, "old", "new")]
        run = await a_run(harness)
        await switched(harness, BLOCKED, "sprint")
        await accept(harness, honest(harness, run))

        assert ["", "build-blocked", "build-unknown"] == [each.problem for each in answers]
        assert ("held", "build-blocked") == await ended(harness, run)


async def test_P04_a_run_of_a_retired_build_is_held(settings: Settings, sandbox: Sandbox):
    """Its ticket was issued under the old policy; no other build's simulator has a say in it."""
    async with running_harness(settings) as harness:
        run, claim = await harness.played()
        await harness.submit(run, claim)
        clock = harness.clock
    [simulator] = arcade_policy()["builds"].values()
    write_policies(settings.policies_dir, arcade_policy(builds={"arcade-2": simulator}))
    async with running_harness(settings, clock) as harness:
        await harness.verify(run.id, sandbox=sandbox)

        assert ("held", "simulator-missing") == await ended(harness, run)


async def test_the_switch_reaches_a_running_edge(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """`build block` in another process needs no restart; the list says who, when and why."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(harness.edge.settings.data_dir))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(harness.edge.settings.policies_dir))

    def command(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["build", *words])
        return result.exit_code, result.output

    blocked = await asyncio.to_thread(command, "block", "arcade", BUILD, "--reason", "speedhack in 1.0")
    assert (0, f"arcade {BUILD}: blocked; running parts follow within two seconds\n") == blocked
    deadline = time.monotonic() + 20
    while (await open_run(harness)).problem != "build-blocked":
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)

    again = await asyncio.to_thread(command, "block", "arcade", BUILD, "--reason", "again")
    assert (0, f"arcade {BUILD}: blocked; it was that before\n") == again
    _, listed = await asyncio.to_thread(command, "list", "arcade")
    assert re.search(r"blocked +sha256:", listed)
    assert "speedhack in 1.0" in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("block", "nowhere", BUILD, "--reason", "x"), "no policy for nowhere"),
        (
            ("block", "arcade", "arcade-9", "--reason", "x"),
            "arcade knows no build arcade-9; there are arcade-1",
        ),
        (("block", "arcade", BUILD, "--reason", " "), "--reason: expected 1 to 500 characters"),
    ],
)
def test_a_switch_for_what_is_not_there_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
):
    """A typing error blocks nothing, and says so."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(settings.policies_dir))

    CliRunner().invoke(app, ["ledger", "migrate"])
    result = CliRunner().invoke(app, ["build", *words])

    assert "SettingsError" == type(result.exception).__name__
    assert said in str(result.exception)
