"""The way of a run, whole: from opening to the board, and for a cheat from opening to rejection."""

from __future__ import annotations

from base64 import b64encode

import pytest
from pydantic import SecretStr
from scoregate_client import encode_recording

from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support.harness import Harness
from tests.support.stores import Store

GIVE_UP = 32
"""An input word with a bit that the game has no button for: it ends the run on that tick."""


@pytest.fixture
def settings(settings: Settings, store: Store) -> Settings:
    """The same way on each ledger."""
    return settings.model_copy(update={"ledger_url": SecretStr(store.url)})


async def test_an_honest_run_reaches_the_board(harness: Harness, sandbox: Sandbox):
    """A run that was really played is pending, then verified, then ranked."""
    run, claim = await harness.played()

    accepted = await harness.submit(run, claim)
    assert 202 == accepted.status
    assert "pending" == accepted.body["state"]

    assert 1 == await harness.verify(run.id, sandbox=sandbox)
    assert "promoted" == await harness.state_of(run.id)
    page = (await harness.get("/v1/boards/arcade/entries")).body
    assert [(1, run.player, claim["score"])] == [
        (e["rank"], e["player"], e["score"]) for e in page["entries"]
    ]


async def test_an_edited_score_is_rejected_by_the_replay(harness: Harness, sandbox: Sandbox):
    """A claim that its own recording does not bear out never reaches the board."""
    run, claim = await harness.played()

    accepted = await harness.submit(run, claim | {"score": claim["score"] + 10})
    await harness.verify(run.id, sandbox=sandbox)

    assert 202 == accepted.status
    assert "rejected" == await harness.state_of(run.id)
    assert [] == (await harness.get("/v1/boards/arcade/entries")).body["entries"]


async def test_two_players_who_give_up_at_once_are_both_believed(harness: Harness, sandbox: Sandbox):
    """Doing nothing twice gives the same bytes, and is no theft: there is nothing to steal."""
    recording = encode_recording([GIVE_UP], [], 60)
    nothing = {
        "score": 0,
        "ticks": 1,
        "stats": {"motes": 0, "near_misses": 0, "best_combo": 0},
        "recording": b64encode(recording).decode(),
    }
    runs = [await harness.open_run() for _ in range(2)]
    for run in runs:
        assert 202 == (await harness.submit(run, nothing)).status
        await harness.verify(run.id, sandbox=sandbox)
    assert ["promoted", "promoted"] == [await harness.state_of(run.id) for run in runs]
