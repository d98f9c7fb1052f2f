"""Doom demos from end to end: submitted over HTTP, judged by a worker with the real engine, read on the board."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.doom.verify import TICS_PER_S, DemoVerifier
from gateway.runtime.settings import Settings
from replay.simulators.process import ProcessSimulators
from tests.support.doom import BOARD, BUILD, DOOM, FILES, recorded, require_engine
from tests.support.harness import Answer, Harness, Run, free_port
from tests.support.valkey import ValkeyServer

SCORES = f"/v1/boards/{BOARD}/entries"
PATIENCE_S = 60


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    require_engine()
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=DOOM / "policies",
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
    )


@pytest.fixture(scope="module")
def simulators() -> Iterator[ProcessSimulators]:
    with ProcessSimulators() as warm:
        yield warm


@pytest.fixture(scope="module")
def engine() -> DemoVerifier:
    """The engine at hand, by which honest players know what they did."""
    require_engine()
    return DemoVerifier(FILES)


def claim_of(engine: DemoVerifier, demo: bytes, **lies: Any) -> dict[str, Any]:
    """What a player says of a demo: the truth, but for the lies."""
    said = engine.judge(demo)
    recording = base64.b64encode(demo).decode()
    facts = {"score": said["score"], "ticks": said["ticks"], "stats": said["stats"] | lies.pop("stats", {})}
    return facts | lies | {"recording": recording}


async def open_run(harness: Harness, name: str) -> Run:
    token = await harness.new_player(name)
    answer = await harness.post(f"/v1/boards/{BOARD}/runs", {"build": BUILD}, token)
    assert answer.status == 201, answer.raw
    return Run(answer.body, token)


async def judged(
    harness: Harness, simulators: ProcessSimulators, claim: dict[str, Any], name: str = "Ada"
) -> Answer:
    """A new player's submission as its player sees it once a worker has judged it."""
    run = await open_run(harness, name)
    harness.clock.shift(claim["ticks"] / TICS_PER_S)
    sent = await harness.submit(run, claim, board=BOARD)
    assert 202 == sent.status, sent.raw
    await harness.verify(sent.body["submission"], sandbox=simulators)
    return await harness.get(f"/v1/submissions/{sent.body['submission']}", run.token)


async def on_the_board(harness: Harness) -> list[tuple[int, str, int]]:
    await harness.edge.index.drained()
    page = await harness.get(SCORES)
    return [(each["rank"], each["name"], each["score"]) for each in page.body["entries"]]


async def reason_of(harness: Harness, submission: Answer) -> tuple[str, str]:
    """State and reason as moderators see them."""
    path = f"/v1/moderation/cases/{submission.body['submission']}"
    found = (await harness.get(path, harness.moderator())).body
    return found["submission"]["state"], found["submission"]["reason"]


async def test_honest_demos_are_verified_and_the_shortest_time_is_first(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """Each is on the board with the time that the engine gives it."""
    for name, demo in (("Tim", "thorough"), ("Ada", "straight"), ("Sam", "slower")):
        answer = await judged(harness, simulators, claim_of(engine, recorded(demo)), name)
        assert "promoted" == answer.body["state"]
    assert [(1, "Ada", 194), (2, "Sam", 294), (3, "Tim", 729)] == await on_the_board(harness)


async def test_P06_a_better_time_than_the_demo_shows_is_rejected(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """The engine's time is the time."""
    answer = await judged(harness, simulators, claim_of(engine, recorded("straight"), score=193))
    assert ("rejected", "score-mismatch") == await reason_of(harness, answer)
    assert [] == await on_the_board(harness)


@pytest.mark.parametrize("demo", ["turbo", "respawn", "no-monsters", "reborn"])
async def test_V01_a_demo_of_another_category_is_refused(
    harness: Harness, engine: DemoVerifier, demo: str
) -> None:
    """The board's policy says which runs it is for, in the engine's own words."""
    claim, run = claim_of(engine, recorded(demo)), await open_run(harness, "Ada")
    harness.clock.shift(claim["ticks"] / TICS_PER_S)
    sent = await harness.submit(run, claim, board=BOARD)
    assert (422, "bounds-violation") == (sent.status, sent.problem)


@pytest.mark.parametrize(
    ("demo", "lie"),
    [
        ("turbo", {"turbo": 0}),
        ("respawn", {"respawn": 0}),
        ("no-monsters", {"nomonsters": 0}),
        ("reborn", {"reborn": 0}),
    ],
)
async def test_P06_a_demo_of_another_category_that_claims_to_be_none_is_rejected(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier, demo: str, lie: dict[str, int]
) -> None:
    """What a claim says of its run has to be what the engine says of it."""
    answer = await judged(harness, simulators, claim_of(engine, recorded(demo), stats=lie))
    assert ("rejected", "stats-mismatch") == await reason_of(harness, answer)
    assert [] == await on_the_board(harness)


async def test_a_demo_that_does_not_finish_is_rejected(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """Whatever time is claimed for it."""
    answer = await judged(harness, simulators, claim_of(engine, recorded("unfinished"), score=194))
    assert ("rejected", "not-over") == await reason_of(harness, answer)


async def test_what_is_no_demo_is_rejected(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """Bytes that are no demo are no recording."""
    claim = claim_of(engine, recorded("straight")) | {"recording": base64.b64encode(b"SGR1").decode()}
    answer = await judged(harness, simulators, claim)
    assert ("rejected", "recording-malformed") == await reason_of(harness, answer)


async def test_P01_the_same_demo_by_another_player_is_held(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """A demo has no seed in it, so its replay is right for anybody: a moderator looks at the second one."""
    claim = claim_of(engine, recorded("straight"))
    await judged(harness, simulators, claim, "Ada")
    stolen = await judged(harness, simulators, claim, "Bob")
    assert ("held", "recording-reused") == await reason_of(harness, stolen)
    assert [(1, "Ada", 194)] == await on_the_board(harness)


async def test_P14_a_demo_of_more_time_than_has_passed_is_rejected(
    harness: Harness, simulators: ProcessSimulators, engine: DemoVerifier
) -> None:
    """A run lasts at least as long as it was played."""
    run, claim = await open_run(harness, "Ada"), claim_of(engine, recorded("thorough"))
    sent = await harness.submit(run, claim, board=BOARD)
    await harness.verify(sent.body["submission"], sandbox=simulators)
    assert "rejected" == await harness.state_of(sent.body["submission"])


async def test_the_program_submits_and_shows_the_board(
    harness: Harness, simulators: ProcessSimulators
) -> None:
    """The example's own command, from the file of the demo to the rank."""
    command = [str(DOOM / "submit.py"), harness.url, "Ada", str(DOOM / "demos" / "straight.lmp")]
    program = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE_S):
        said = [(await program.stdout.readline()).decode() for _ in range(2)]
        await harness.verify(said[1].split()[1], sandbox=simulators)
        rest = (await program.stdout.read()).decode().splitlines()
        assert 0 == await program.wait()
    assert "1.94 s, Pacifist, says the engine\n" == said[0]
    assert ["promoted", "  1     1.94  Ada  <- you"] == rest


async def test_the_program_says_what_cannot_be_submitted(tmp_path: Path) -> None:
    """No demo, an unfinished one and a missing one are told apart, and nothing is sent."""
    require_engine()
    (tmp_path / "garbage.lmp").write_bytes(b"garbage")
    demos = (tmp_path / "garbage.lmp", DOOM / "demos" / "unfinished.lmp", tmp_path / "none.lmp")
    complaints = []
    for demo in demos:
        command = [str(DOOM / "submit.py"), "http://127.0.0.1:9", "Ada", str(demo)]
        program = await asyncio.create_subprocess_exec(
            sys.executable, *command, stderr=asyncio.subprocess.PIPE
        )
        _, said = await program.communicate()
        complaints.append((program.returncode, said.decode().partition(": ")[2].strip()))
    assert [
        (1, "it is too long, or no header, whole tics and an end"),
        (1, "it does not finish the level"),
        (1, f"[Errno 2] No such file or directory: '{demos[2]}'"),
    ] == complaints
