"""Who is told what of a divergence: moderators everything, players a tick where the policy says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.moderation.playback import playback_shown
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.vocabulary import Reason, State
from replay.simulators.sandbox import Sandbox
from tests.replay.games import GAME, STATS, store
from tests.support.boards import BUILD, CHECKPOINT_TICKS, tiny_claim, tiny_play, write_board
from tests.support.harness import Answer, Run, free_port
from tests.support.valkey import ValkeyServer
from tests.support.world import World, a_world


@pytest.fixture
async def world(tmp_path: Path, sandbox: Sandbox, valkey: ValkeyServer) -> AsyncIterator[World]:
    """A board whose build tells its players, and one whose build does not."""
    policies = tmp_path / "policies"
    module = {"simulator": str(store(tmp_path, GAME).path)}
    write_board(policies, "open", builds={BUILD: module | {"tells_divergence": True}})
    watching = {"playback": {"page": "/player.html", "buttons": ["jump"]}, "forensics": {"buttons": 1}}
    write_board(policies, "closed", builds={BUILD: module}, **watching)
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=policies,
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with a_world(settings, sandbox, valkey) as world:
        yield world


async def told_of(world: World, run: Run) -> Answer:
    """What the player of a run is told of it."""
    bearer = Bearer("ada", Role.PLAYER, world.harness.clock() // 1000 + 60)
    token = world.edge.tokens.mint(bearer, now_s=world.harness.clock() // 1000)
    return await world.harness.get(f"/v1/submissions/{run.id}", token)


async def judged(
    world: World, board: str, *, seed_shift: int = 0, score_shift: int = 0
) -> tuple[Run, Answer]:
    """A run that was played under another seed or claims another score, and what its player is told."""
    run = world.run("ada", board)
    claim = tiny_claim(int(run.info["seed"]) ^ seed_shift)
    request = world.harness.signed(run, claim | {"score": claim["score"] + score_shift}, board=board)
    assert 202 == (await world.harness.send(request)).status
    await world.verify(run.id)
    return run, await told_of(world, run)


async def test_a_moderator_sees_both_hashes_and_the_inputs(world: World):
    """The case file has the interval and what was recorded and simulated at its end."""
    run, _ = await judged(world, "closed", seed_shift=1)
    case = await world.harness.get(f"/v1/moderation/cases/{run.id}", world.harness.moderator())
    [*_, last] = case.body["events"]
    shown = last["detail"]["divergence"]

    assert (200, "diverged") == (case.status, last["reason"])
    assert (0, CHECKPOINT_TICKS) == (shown["after_tick"], shown["at_tick"])
    assert f"{tiny_play(int(run.info['seed']) ^ 1).checkpoints[0]:016x}" == shown["claimed"]
    assert [[1, 4, 1], [5, 20, 2], [25, 1, 0xDEAD]] == shown["inputs"]
    assert shown["simulated"] != shown["claimed"]


async def test_the_player_is_told_the_tick_where_the_policy_says_so(world: World):
    """On the build of developers the tick is there, and nothing else of the evidence."""
    _, told = await judged(world, "open", seed_shift=1)
    _, untold = await judged(world, "closed", seed_shift=1)

    assert ("rejected", "replay", CHECKPOINT_TICKS) == (
        told.body["state"],
        told.body["reason"],
        told.body["divergent_tick"],
    )
    assert untold.body["divergent_tick"] is None
    assert told.body.keys() == untold.body.keys()
    assert b"simulated" not in told.raw


async def test_the_player_is_told_the_tick_of_the_newest_replay(world: World):
    """A run that is replayed again, as by a corrected simulator, may diverge elsewhere."""
    run, _ = await judged(world, "open", seed_shift=1)
    board = await world.edge.catalogue.board("open")
    assert board is not None
    for state, actor, reason, detail in (
        (State.HELD, "moderator:mara", Reason.HELD_BY_MODERATOR, {}),
        (State.REJECTED, "replay", Reason.DIVERGED, {"first_divergent_tick": 7}),
    ):
        now_ms = world.harness.clock()
        decision = Decision(run.id, state, actor, reason, now_ms, frozenset(State), detail=detail)
        await settle(world.edge.ledger, world.edge.index, board, [decision])
    assert 7 == (await told_of(world, run)).body["divergent_tick"]


async def test_other_mismatches_have_no_tick(world: World):
    """A wrong score with honest checkpoints is rejected without one."""
    _, told = await judged(world, "open", score_shift=1)
    assert ("rejected", None) == (told.body["state"], told.body["divergent_tick"])


async def test_the_case_has_what_a_player_page_needs(world: World):
    """Seed, build, module and pace, and what the replay said: where it parted, and its own result; before it, nothing."""
    run = world.run("bo", "closed")
    assert 202 == (await world.harness.send(world.harness.signed(run, tiny_claim(7), board="closed"))).status
    before = (await world.harness.get(f"/v1/moderation/cases/{run.id}", world.harness.moderator())).body[
        "playback"
    ]
    await world.verify(run.id)
    case = (await world.harness.get(f"/v1/moderation/cases/{run.id}", world.harness.moderator())).body
    after, detail = case["playback"], case["events"][-1]["detail"]

    assert (None, None) == (before["divergence"], before["simulated"])
    assert {
        "page": "/player.html",
        "buttons": ["jump"],
        "button_mask": 1,
        "seed": run.info["seed"],
        "build": BUILD,
        "simulator": detail["simulator"],
        "parameters": None,
        "asset_url": None,
        "ticks_per_second": 60,
        "maximum_ticks": 100_000,
        "recording": "scoregate",
        "divergence": {
            name: detail["divergence"][name] for name in ("after_tick", "at_tick", "claimed", "simulated")
        },
        "simulated": {
            "score": detail["simulated_score"],
            "ticks": detail["simulated_ticks"],
            "stats": dict(zip(STATS, detail["simulated"]["stats"], strict=True)),
        },
    } == after
    assert (0, CHECKPOINT_TICKS) == (after["divergence"]["after_tick"], after["divergence"]["at_tick"])


async def test_the_case_tells_of_the_newest_replay(world: World):
    """A later replay replaces what an earlier one said; a decision in between, or after both, says nothing of replays."""
    run = world.run("cy", "closed")
    assert 202 == (await world.harness.send(world.harness.signed(run, tiny_claim(7), board="closed"))).status
    await world.verify(run.id)
    board = await world.edge.catalogue.board("closed")
    stored = await world.edge.ledger.read(queries.submission(run.id), ReadKind.MODERATION)
    events = list(await world.edge.ledger.read(queries.history_of(run.id), ReadKind.MODERATION))
    decided = {"detail": {"why": "looked at it"}}
    later = {
        "detail": {
            "verdict_reason": "verified",
            "simulated_score": 70,
            "simulated_ticks": 25,
            "divergence": None,
        }
    }

    assert playback_shown(board, stored, [*events, decided]).divergence is not None
    newest = playback_shown(board, stored, [*events, decided, later, decided])
    assert (None, {"score": 70, "ticks": 25, "stats": {}}) == (
        newest.divergence,
        newest.simulated.model_dump(),
    )
