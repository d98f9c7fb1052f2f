"""Follows docs/how-to/port-your-game.md to the letter: builds the game, checks it, loads its policy, submits runs."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scoregate_client import ScoregateClient

from gateway.ledger import queries
from gateway.runtime.settings import Settings
from policies.loader import load_board
from replay.simulators.sandbox import Sandbox
from tests.support import preloaded
from tests.support.gate import missing
from tests.support.harness import Harness, free_port, running_harness
from tests.support.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parents[2]
GAME = ROOT / "examples" / "hurdles"
PAGE = (ROOT / "docs" / "how-to" / "port-your-game.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SOURCES = ("hurdles.zig", "player.py", "hurdles.yaml")


def blocks(language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(PAGE) if kind == language]


def require_compiler() -> None:
    """Skips the test without the compiler that the page pins; in CI its absence is a failure."""
    pinned = re.findall(r"ziglang==(\S+)", PAGE)[0]
    try:
        found = importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != pinned:
        missing(f"building the game needs ziglang=={pinned}, found {found}")


def shell(folder: Path, script: str) -> str:
    """What a block of the page prints, run in the folder; but for what it installs, which is there."""
    script = re.sub(r"^pip install .*$", ":", script, flags=re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "200"}
    with preloaded.at_hand(environment) as (more, control):
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env=environment | more | {"PYTHONPATH": str(ROOT / "clients" / "python")},
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            pass_fds=[control],
        )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder with the game's sources in which all that the page says was done, and what each block printed."""
    require_compiler()
    folder = tmp_path_factory.mktemp("hurdles")
    for name in SOURCES:
        shutil.copy(GAME / name, folder)
    return folder, [shell(folder, block) for block in blocks("sh")]


def test_the_page_builds_the_committed_module(followed: tuple[Path, list[str]]):
    """What the page's command makes of the source is what is committed, byte for byte; it names no path."""
    built = (followed[0] / "hurdles.wasm").read_bytes()

    assert (GAME / "hurdles.wasm").read_bytes() == built
    assert [] == [mark for mark in (b"hurdles.zig", b"/home", b"/tmp", bytes(GAME)) if mark in built]


def test_P13_the_page_finds_the_game_replay_safe_within_the_limits_it_proposes(
    followed: tuple[Path, list[str]],
):
    """Recorded runs are verified in every setting; the policy of the page allows at least what the check proposes."""
    folder, printed = followed
    _, recorded, checked, judged, diverged = printed
    proposal = re.search(r"budget: \{fuel: (\d+), memory_mib: (\d+), wall_ms: (\d+)\}", checked)
    replay = load_board(folder / "hurdles.yaml").policy.replay

    assert "" == recorded
    assert [True, True] == [
        "not replay-safe" not in each and "replay-safe" in each for each in (checked, judged)
    ]
    assert proposal is not None
    assert replay is not None
    assert int(proposal[1]) <= replay.budget.fuel
    assert int(proposal[2]) <= replay.budget.memory_mib
    assert "parted      after tick 0, and not after tick 60" in diverged


def test_the_policy_of_the_page_is_the_one_of_the_game():
    """The page's YAML is the file."""
    assert [(GAME / "hurdles.yaml").read_text()] == [
        block for block in blocks("yaml") if block.startswith("board:")
    ]


@pytest.fixture
async def harness(
    followed: tuple[Path, list[str]], tmp_path: Path, valkey: ValkeyServer
) -> AsyncIterator[Harness]:
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=followed[0],
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as running:
        yield running


@contextmanager
def beside_the_module(folder: Path):
    """Names of the page's client, as a script that is run in the folder has them."""
    here, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    names: dict[str, Any] = {"__name__": "client"}
    try:
        [script] = blocks("python")
        exec(compile(script, "port-your-game.md", "exec"), names)
        yield names
    finally:
        os.chdir(here)
        sys.path[:] = path
        sys.modules.pop("player", None)


class Player:
    """The page's client, whose waiting is short: the clock moves on, and a worker judges what is pending."""

    def __init__(self, names: dict[str, Any], harness: Harness, sandbox: Sandbox) -> None:
        self.names, self.harness, self.sandbox = names, harness, sandbox
        self.printed: list[tuple[Any, ...]] = []
        names["asyncio"] = SimpleNamespace(sleep=self.sleep, run=asyncio.run)
        names["print"] = lambda *said: self.printed.append(said)
        names["ScoregateClient"] = self.client
        names["random"] = SimpleNamespace(Random=lambda: random.Random(5))
        self.change: dict[str, Any] = {}

    async def sleep(self, seconds: float) -> None:
        self.harness.clock.shift(seconds)
        waiting = await self.harness.edge.ledger.read(
            queries.pending_submissions("hurdles", after=0, count=10)
        )
        await self.harness.verify(*(row[1] for row in waiting), sandbox=self.sandbox)

    def client(self, url: str) -> ScoregateClient:
        """A client that submits what the player claims, or a lie."""
        client, change = ScoregateClient(url), self.change

        class Lying(ScoregateClient):
            async def submit(self, run, score, ticks, stats, recording):
                lie = {"score": score, "ticks": ticks, "stats": stats, "recording": recording}
                lie |= {name: told(lie[name]) for name, told in change.items()}
                return await super().submit(run, **lie)

        client.__class__ = Lying
        return client

    async def submitted(self, **change: Any) -> tuple[Any, ...]:
        """What the client prints at last: score, state, reason and divergent tick."""
        self.change.clear()
        self.change.update(change)
        await self.names["submit_one"](self.harness.url)
        return self.printed[-1]


async def test_honest_runs_of_the_page_are_promoted_and_others_rejected(
    followed: tuple[Path, list[str]], harness: Harness, sandbox: Sandbox
):
    """Over HTTP: the page's client is promoted; a better score, other statistics, and foreign inputs are rejected."""
    with beside_the_module(followed[0]) as names:
        player = Player(names, harness, sandbox)
        honest = await player.submitted()
        richer = await player.submitted(score=lambda score: score + 10)
        prouder = await player.submitted(stats=lambda stats: stats | {"cleared": stats["cleared"] + 1})
        stolen = names["play"]("hurdles.wasm", 3, random.Random(3))
        thief = await player.submitted(
            score=lambda _: stolen.score,
            ticks=lambda _: len(stolen.inputs),
            stats=lambda _: stolen.stats,
            recording=lambda _: stolen.recording(),
        )

    assert ("promoted", None, None) == honest[1:]
    assert ("rejected", "replay", None) == richer[1:]
    assert ("rejected", "replay", None) == prouder[1:]
    assert ("rejected", "replay", 60) == thief[1:]
    board = await harness.get("/v1/boards/hurdles/entries")
    assert [honest[0]] == [entry["score"] for entry in board.body["entries"]]
