"""A page that shows a run as the console does: the same modules under the same policy, without a case around them."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Frame, Page, Route, expect
from scoregate_client import encode_recording

from examples.arcade.players import ArcadeRun, play
from gateway.edge import console
from tests.browser.conftest import PATIENCE_MS
from tests.support.game import BUILD, arcade

STATIC: Final = Path(console.__file__).parent / "static"
PLAYER: Final = "/arcade/playback.html"
EVERY: Final = 60

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src {frames}; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "require-trusted-types-for 'script'; trusted-types scoregate"
)

# Stands in for the console's own sheet, whose variables the modules' one uses.
BASE: Final = """
:root { color-scheme: light dark; font: 15px/1.4 sans-serif;
  --ink: light-dark(#1a1637, #eef1ff); --dim: light-dark(#5d5984, #9aa0c9); --line: light-dark(#dcd8ee, #2b2950);
  --edge: light-dark(#8f89bd, #6a66a3); --panel: light-dark(#fff, #13112b); --raised: light-dark(#f5f3fc, #1b1838);
  --spark: light-dark(#0b6781, #8ef6ff); --mote: light-dark(#7a5000, #ffe07a); --shard: light-dark(#b4164c, #ff7d9f);
  --gap: light-dark(#0c6a3f, #7dffb5); --spark-wash: light-dark(#d9f1f7, #12304a); --shard-wash: light-dark(#fde4ec, #3a1030); }
h1, p, ul, figure { margin: 0; }
body { margin: 12px; background: var(--panel); color: var(--ink); }
[hidden] { display: none !important; }
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.table-box { overflow-x: auto; }
button, select { color: var(--ink); background: var(--raised); border: 1px solid var(--edge); }
"""

PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A run</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="/watching/base.css"><link rel="stylesheet" href="/watching/playback.css">
<script type="module" src="/watching/watch.js"></script></head><body><main><h1>A run</h1>
<div data-recording="/watching/recording" data-playback="{playback}" data-claim="{claim}">
<section aria-label="Player" data-shows="playback"></section>
<section aria-label="Timeline" data-shows="timeline"></section></div></main></body></html>"""


@dataclass(frozen=True)
class Watched:
    """A run as the case file has it, and the bytes of its recording."""

    run: ArcadeRun
    recording: bytes
    claim: dict[str, Any]
    playback: dict[str, Any] = field(default_factory=dict)

    def with_playback(self, **changes: Any) -> Watched:
        return replace(self, playback=self.playback | changes)


@cache
def _played(seed: int, skill: float, max_ticks: int) -> ArcadeRun:
    return play(arcade(), seed, skill, random.Random(seed), max_ticks)


def watched(
    seed: int = 3, *, skill: float = 0.6, max_ticks: int = 900, parts_at: int | None = None
) -> Watched:
    """An honest run of the arcade; with `parts_at`, its hashes from that checkpoint on, and its score, are a cheat's."""
    run = _played(seed, skill, max_ticks)
    hashes = [
        each ^ 1 if parts_at and number >= parts_at else each
        for number, each in enumerate(run.checkpoints, 1)
    ]
    score = run.score + 5000 if parts_at else run.score
    divergence = parts_at and {
        "after_tick": (parts_at - 1) * EVERY,
        "at_tick": parts_at * EVERY,
        "claimed": f"{hashes[parts_at - 1]:016x}",
        "simulated": f"{run.checkpoints[parts_at - 1]:016x}",
    }
    playback = {
        "page": PLAYER,
        "buttons": ["left", "right", "outward", "inward", "nova"],
        "button_mask": 31,
        "seed": str(seed),
        "build": BUILD,
        "simulator": "sha256:" + 64 * "0",
        "parameters": None,
        "asset_url": None,
        "ticks_per_second": 60,
        "maximum_ticks": 7200,
        "recording": "scoregate",
        "divergence": divergence or None,
        "simulated": {"score": run.score, "ticks": run.ticks, "stats": run.stats} if parts_at else None,
    }
    claim = {"board": "arcade", "score": score, "ticks": run.ticks, "stats": run.stats}
    return Watched(run, encode_recording(run.inputs, hashes, EVERY), claim, playback)


async def serve(context: BrowserContext, run: Watched, *, frames: str = "'self'", **pages: str) -> None:
    """Serve the page at `/watching/` under the console's policy, and `pages` by name as a studio would."""
    document = PAGE.format(playback=escape(json.dumps(run.playback)), claim=escape(json.dumps(run.claim)))
    policy = {
        "Content-Security-Policy": POLICY.format(frames=frames),
        "Cross-Origin-Opener-Policy": "same-origin",
    }

    async def answer(route: Route) -> None:
        name = urlsplit(route.request.url).path.removeprefix("/watching/")
        if name == "":
            await route.fulfill(body=document, content_type="text/html", headers=policy)
        elif name == "base.css":
            await route.fulfill(body=BASE, content_type="text/css")
        elif name == "recording":
            await route.fulfill(body=run.recording, content_type="application/octet-stream")
        elif name in pages:
            await route.fulfill(body=pages[name], content_type="text/html")
        else:
            await route.fulfill(path=STATIC / name)

    await context.route("**/watching/**", answer)


async def at_tick(page: Page, tick: int) -> None:
    """Wait until the player page has said that the run is at a tick; the bar is there before."""
    says = page.locator(".playback-side:last-child .playback-says")
    await expect(says).to_have_text(re.compile(rf"^tick {tick},"), timeout=PATIENCE_MS)


async def loaded(page: Page) -> None:
    """Wait until the player page has loaded the run."""
    await page.wait_for_selector(".playback-seek:enabled")


def player_frames(page: Page) -> list[Frame]:
    return [frame for frame in page.frames if frame.parent_frame]
