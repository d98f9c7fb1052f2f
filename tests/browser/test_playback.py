"""A run is played back in a real browser: by the arcade's page in a sandboxed frame, under the console's policy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.audit import faults
from tests.browser.conftest import Visitor
from tests.browser.watching import Watched, at_tick, loaded, player_frames, serve, watched
from tests.support.game import arcade

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

Watch = Callable[..., Coroutine[Any, Any, Visitor]]
WIDE = {"width": 1000, "height": 900}
RIGHT = ".playback-side:last-child"


@pytest_asyncio.fixture(loop_scope="package")
async def watch(browser: Browser, stack: str) -> AsyncIterator[Watch]:
    """Opens the page of a run as a moderator; unless a test expects it, no browser may have complained."""
    visitors: list[Visitor] = []
    async with AsyncExitStack() as leaving:

        async def watch(
            run: Watched,
            *,
            complains: bool = False,
            frames: str = "'self'",
            pages: dict[str, str] | None = None,
            **context: Any,
        ) -> Visitor:
            window = await browser.new_context(**{"base_url": stack, "viewport": WIDE, **context})
            leaving.push_async_callback(window.close)
            await serve(window, run, frames=frames, **(pages or {}))
            visitor = Visitor(await window.new_page())
            visitor.listen()
            if not complains:
                visitors.append(visitor)
            await visitor.page.goto("/watching/")
            return visitor

        yield watch
    assert [[] for _ in visitors] == [visitor.complaints for visitor in visitors]


def score_at(run: Watched, tick: int) -> int:
    """The score of the run after a tick, by the module itself."""
    session = arcade().open(run.run.seed)
    for word in run.run.inputs[:tick]:
        session.tick(word)
    return session.score()


def button(visitor: Visitor, name: str) -> Any:
    return visitor.page.locator(".playback-controls").get_by_role("button", name=name, exact=True)


async def press(visitor: Visitor, name: str) -> None:
    await button(visitor, name).click()


async def shown(visitor: Visitor, side: str = RIGHT) -> tuple[int, int]:
    """Tick and score that the console shows beside a side's name."""
    await expect(visitor.page.locator(f"{side} .playback-says")).to_contain_text("tick")
    says = await visitor.text(f"{side} .playback-says")
    tick, score = re.match(r"tick (\d+), score ([\d,]+)", says).groups()
    return int(tick), int(score.replace(",", ""))


async def test_a_run_plays_to_its_end_and_shows_the_score_that_was_claimed(watch: Watch):
    """At eight times its speed, in the arcade's own page; the console has its results beside the claim, and its hashes agree."""
    run = watched()
    moderator = await watch(run)
    await loaded(moderator.page)
    assert (0, 0) == await shown(moderator)
    await moderator.page.select_option(".playback-controls select", "8")
    await press(moderator, "Play")
    await at_tick(moderator.page, run.run.ticks)

    assert (run.run.ticks, run.claim["score"]) == await shown(moderator)
    assert (await moderator.text(f"{RIGHT} .playback-says")).endswith(", over")
    [frame] = player_frames(moderator.page)
    assert f"{run.claim['score']:,}" == await frame.inner_text("#score")
    cells = await moderator.page.locator(".playback-results tbody tr").first.locator("td").all_inner_texts()
    assert [f"{run.claim['score']:,}", "—", f"{run.claim['score']:,}"] == cells
    assert f"agrees with all {len(run.run.checkpoints)} checkpoints" in await moderator.text(
        ".playback-parted"
    )
    await expect(button(moderator, "Side by side")).to_be_hidden()


async def test_any_tick_is_reached_from_any_other(watch: Watch):
    """By the bar, by steps, by keys and by the timeline, forwards and back: the score is the module's after just as many ticks."""
    run = watched()
    moderator = await watch(run)
    await loaded(moderator.page)
    bar = moderator.page.locator(".playback-seek")
    for tick in (700, 13, 650, 601, 600, 599, 0, run.run.ticks):
        await bar.evaluate(
            "(bar, tick) => { bar.value = tick; bar.dispatchEvent(new Event('input')); }", tick
        )
        await at_tick(moderator.page, tick)
        assert (tick, score_at(run, tick)) == await shown(moderator), tick
    await bar.focus()
    for key, tick in (
        (",", run.run.ticks - 1),
        (",", run.run.ticks - 2),
        (".", run.run.ticks - 1),
        ("Home", 0),
        (".", 1),
    ):
        await moderator.page.keyboard.press(key)
        await at_tick(moderator.page, tick)
    await moderator.page.focus(".timeline-canvas")
    for key, tick in (
        ("ArrowRight", 2),
        ("Shift+ArrowRight", 62),
        ("ArrowLeft", 61),
        ("End", run.run.ticks),
        ("Home", 0),
    ):
        await moderator.page.keyboard.press(key)
        await at_tick(moderator.page, tick)
    box = await moderator.page.locator(".timeline-canvas").bounding_box()
    await moderator.page.mouse.click(box["x"] + 88 + (box["width"] - 94) / 2, box["y"] + 40)
    await moderator.page.wait_for_function(
        "() => /^tick [1-9]/.test(document.querySelector('.playback-side:last-child .playback-says').textContent)"
    )
    assert abs((await shown(moderator))[0] - run.run.ticks / 2) < run.run.ticks / 50


async def test_the_inputs_of_a_tick_are_shown(watch: Watch):
    """Beside the picture by the buttons' names of the policy, and in the picture when that is asked for."""
    run = watched()
    moderator = await watch(run)
    await loaded(moderator.page)
    tick = next(at for at, word in enumerate(run.run.inputs, 1) if word.bit_count() == 2)
    names = [name for bit, name in enumerate(run.playback["buttons"]) if run.run.inputs[tick - 1] >> bit & 1]
    bar = moderator.page.locator(".playback-seek")
    await bar.evaluate("(bar, tick) => { bar.value = tick; bar.dispatchEvent(new Event('input')); }", tick)
    await at_tick(moderator.page, tick)
    assert names == await moderator.page.locator(".playback-lamps [data-on]").all_inner_texts()

    [frame] = player_frames(moderator.page)
    assert await frame.is_hidden("#overlay")
    await press(moderator, "Inputs")
    await frame.wait_for_selector("#overlay [data-on]")
    assert 2 == await frame.locator("#overlay [data-on]").count()
    await expect(moderator.page.locator(".timeline-canvas")).to_have_attribute(
        "aria-valuetext", re.compile(re.escape(" + ".join(names)) + "$")
    )


async def test_claim_and_replay_part_side_by_side(watch: Watch):
    """Both are at the last moment they share; then the claim stays there, with its hashes and its result, and the replay goes on."""
    run = watched(parts_at=6)
    moderator = await watch(run)
    page = moderator.page
    left = ".playback-side:first-child"
    await loaded(page)
    await page.wait_for_function("() => document.querySelectorAll('.playback-place > iframe').length === 2")
    await press(moderator, "To the divergence")
    await at_tick(page, 300)
    await expect(page.locator(f"{left} .playback-says")).to_have_text(
        f"tick 300, score {score_at(run, 300):,}"
    )
    assert await page.is_hidden(".playback-veil >> nth=0")

    await page.keyboard.press("]")
    await press(moderator, "Play")
    await page.wait_for_function("() => Number(document.querySelector('.playback-seek').value) > 400")
    await press(moderator, "Pause")
    tick, score = await shown(moderator)
    assert (score_at(run, tick), True) == (score, tick > 400)
    assert (300, score_at(run, 300)) == await shown(moderator, left)
    assert "only hashes" in await moderator.text(f"{left} .playback-veil")

    differing = await page.locator(".playback-results [data-differs]").all_inner_texts()
    assert [f"{run.run.score:,}", f"{run.run.score:,}"] == [each.split()[0] for each in differing[:2]]
    assert "Parted after tick 300, and no later than tick 360." == await moderator.text(".playback-parted")
    hashes = await page.locator(".playback-results table >> nth=1").locator("tbody tr").all_inner_texts()
    assert [240, 300, 360, 420, 480] == [int(row.split()[0]) for row in hashes]
    agreed = [row.split()[1] == row.split()[2] for row in hashes]
    assert [True, True, False, False, False] == agreed

    for frames in (1, 2):  # a key that the console has no use for
        await page.keyboard.press("b")
        await expect(page.locator(".playback-place > iframe")).to_have_count(frames)
    await expect(page.locator(f"{left} .playback-says")).to_have_text(
        f"tick 300, score {score_at(run, 300):,}"
    )
    await page.locator(".playback-seek").evaluate(
        "bar => { bar.value = 120; bar.dispatchEvent(new Event('input')); }"
    )
    await expect(page.locator(f"{left} .playback-says")).to_have_text(
        f"tick 120, score {score_at(run, 120):,}"
    )
    assert await page.is_hidden(f"{left} .playback-veil")


async def test_a_page_that_plays_another_game_is_told(watch: Watch):
    """Where the worker found a divergence that this page does not, or the build is unknown to it, a moderator is told."""
    agreeing = watched()
    divergence = {"after_tick": 60, "at_tick": 120, "claimed": "0" * 16, "simulated": "1" * 16}
    moderator = await watch(agreeing.with_playback(divergence=divergence))
    await loaded(moderator.page)
    assert "it does not play what the worker plays" in await moderator.text(".playback-parted")

    other = await watch(agreeing.with_playback(build="arcade-2"))
    await expect(other.page.locator(".playback-place [role=alert]")).to_contain_text(
        "This page plays arcade-1"
    )


async def test_without_a_page_or_a_recording_there_is_what_there_is(watch: Watch):
    """A game without a player page has its timeline; malformed bytes and a game's own form are named as that."""
    run = watched()
    without = await watch(run.with_playback(page=None))
    await expect(without.page.locator(".playback")).to_contain_text("no player page")
    await expect(without.page.locator(".timeline-summary")).to_contain_text(f"{run.run.ticks:,} ticks")

    broken = await watch(Watched(run.run, b"SGR1\xff\xff\xff\xff\x0f\x01\x01\x00", run.claim, run.playback))
    await expect(broken.page.locator(".playback [role=alert]")).to_contain_text("4294967295 ticks")
    raw = await watch(Watched(run.run, b"raw", run.claim, run.playback | {"recording": "raw"}))
    await expect(raw.page.locator(".timeline")).to_contain_text("game's own form")
    await expect(raw.page.locator(".playback-place [role=alert]")).to_contain_text("cannot be read")


async def test_the_timeline_says_in_words_what_it_draws(watch: Watch):
    """A sentence, and a table with each stretch of inputs; and it follows the player."""
    run = watched(parts_at=6)
    moderator = await watch(run)
    summary = await moderator.text(".timeline-summary")
    assert f"{run.run.ticks:,} ticks" in summary
    assert "part after tick 300, and no later than tick 360" in summary
    await loaded(moderator.page)
    await moderator.page.click(".timeline > details > summary")
    stretches = moderator.page.locator(".timeline > details tbody tr")
    await stretches.first.wait_for()
    rows = await stretches.all_inner_texts()
    first = run.run.inputs[0]
    length = next(at for at, word in enumerate(run.run.inputs) if word != first)
    assert f"1 \N{EN DASH} {length}" == rows[0].split("\t")[0]
    assert "0:00.0" == rows[0].split("\t")[1]
    drawn = await moderator.page.evaluate(
        """() => { const canvas = document.querySelector(".timeline-canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          return new Set(Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 3).join())).size; }"""
    )
    assert drawn > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_player_and_timeline_are_for_everybody(watch: Watch, scheme: str):
    """axe-core finds nothing, light or dark, and nothing is wider than a window of 360 px."""
    moderator = await watch(watched(parts_at=6), color_scheme=scheme, viewport={"width": 360, "height": 900})
    await loaded(moderator.page)
    await moderator.page.click(".timeline > details > summary")
    assert [] == await faults(moderator.page)
    assert 360 >= await moderator.page.evaluate("document.documentElement.scrollWidth")
