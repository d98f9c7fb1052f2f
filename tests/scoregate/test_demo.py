"""The demonstration's own judgement: it fails if a cheat gets through or an honest run does not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from scoregate_client import ScoregateClient

from examples.demo.actors import Actor, Layer
from examples.demo.cheats import CHEATS
from examples.demo.tally import HONEST, Tally
from tests.support import preloaded
from tests.support.deployment import eventually
from tests.support.forked_parts import FORK_PARTS

if TYPE_CHECKING:
    from examples.arcade.players import Arcade


def a_good_tally() -> Tally:
    tally = Tally({HONEST: 2} | {cheat.kind: 1 for cheat in CHEATS})
    for _ in range(2):
        tally.note(HONEST, Layer.BOARD)
    for cheat in CHEATS:
        tally.note(cheat.kind, cheat.layer)
    return tally


def test_a_good_demonstration_is_good():
    """The control: every honest run on the board, every cheat stopped."""
    assert a_good_tally().is_good


@pytest.mark.parametrize("kind", [cheat.kind for cheat in CHEATS])
def test_one_cheat_on_the_board_fails_it(kind):
    """Whichever kind it was."""
    tally = a_good_tally()
    tally.endings[kind].clear()
    tally.note(kind, Layer.BOARD)
    assert not tally.is_good


@pytest.mark.parametrize("layer", [layer for layer in Layer if layer is not Layer.BOARD])
def test_one_honest_run_off_the_board_fails_it(layer):
    """Players want to be believed."""
    tally = a_good_tally()
    tally.endings[HONEST].clear()
    tally.note(HONEST, Layer.BOARD)
    tally.note(HONEST, layer)
    assert not tally.is_good


def test_an_actor_that_never_ended_fails_it():
    """Silence is not success."""
    tally = a_good_tally()
    tally.endings[CHEATS[0].kind].clear()
    assert not tally.is_good


def test_there_are_at_least_eight_kinds_of_cheats_and_each_layer_has_one():
    """Every layer has something to stop."""
    assert len(CHEATS) >= 8
    assert set(Layer) - {Layer.BOARD} == {cheat.layer for cheat in CHEATS}


def test_an_honest_run_that_a_moderator_approves_is_on_the_board():
    """A newcomer's record may wait; it is lost only if it stays where it waits."""
    tally = a_good_tally()
    tally.endings[HONEST][Layer.BOARD] -= 1
    tally.note(HONEST, Layer.ANOMALY)
    assert not tally.is_good
    tally.note_approval()
    assert tally.is_good


@pytest.fixture
async def shedding_edge() -> AsyncIterator[tuple[Actor, list[bytes]]]:
    """An actor before an edge that has time from the third request on, and the bodies that came."""
    came: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        came.append(await request.read())
        if len(came) > 2:
            return web.json_response({"submission": "s"}, status=202)
        shed = {"type": "https://scoregate.example/problems/temporary-reduced-capacity"}
        return web.json_response(shed, status=503, headers={"Retry-After": "0"})

    app = web.Application()
    app.router.add_post("/v1/boards/arcade/scores", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("/"))
        client = ScoregateClient(url, session=session)
        yield Actor(session, client, cast("Arcade", None), url), came


async def test_an_actor_sends_the_same_bytes_again_while_the_edge_sheds_load(shedding_edge):
    """A starved machine loses no honest run, and no repeated request becomes a first one."""
    actor, came = shedding_edge
    assert 202 == (await actor.send_bytes(b"claim", {})).status
    assert [b"claim"] * 3 == came


async def test_a_flood_does_not_wait_for_an_edge_that_sheds_load(shedding_edge):
    """Each of its claims is sent once."""
    actor, came = shedding_edge
    assert (await actor.post(b"claim", {})).is_shed
    assert [b"claim"] == came


HERE = "import tempfile\ntempfile.tempdir = None"
"""Has a fork make its folders where its own environment says."""


def test_N12_a_demonstration_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path):
    """On SIGTERM its parts end, its folder goes, and its status says what ended it."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with (tmp_path.parent / "demo.log").open("wb") as log:
        demo = preloaded.start(["demo"], environment, log, before=f"{HERE}\n{FORK_PARTS}")
    try:
        asyncio.run(eventually(lambda: any(tmp_path.glob("scoregate-demo-*/logs/steward.log"))))
        demo.send_signal(signal.SIGTERM)
        assert 128 + signal.SIGTERM == demo.wait(120)
    finally:
        demo.kill()
        demo.wait()
    assert [] == list(tmp_path.glob("scoregate-demo-*"))
