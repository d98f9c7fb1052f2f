"""The console in a real browser, at an edge with cases that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import ProviderIdentity
from gateway.ledger.moderation.accounts import add_account
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.vocabulary import Reason, State
from tests.browser.audit import faults
from tests.browser.conftest import PATIENCE_MS
from tests.browser.watching import at_tick, loaded, watched
from tests.support.desk import TOO_FAST, cookie_of, player_of, staff, submitted
from tests.support.harness import Harness, free_port, running_harness
from tests.support.identity_provider import client_settings, small_provider
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

HOSTILE = "<img src onerror=evil()>"
NOTE_EVIL = "window.evils = 0; window.evil = () => { window.evils += 1; };"
# Only its width is a wall's: each point of its height is drawn by a processor.
PHONE, DESK, WALL = (
    {"width": width, "height": height} for width, height in ((360, 740), (1280, 860), (3840, 400))
)
WIDTH = "document.documentElement.scrollWidth"
SMALL_TARGETS = """() => [...document.querySelectorAll("a, button, summary, select, input:not([type=hidden])")]
  .filter((each) => each.checkVisibility() && !each.closest("p, li, blockquote, .sr") && !each.closest("label"))
  .map((each) => [each.outerHTML.slice(0, 90), each.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < 23.9 || box.width < 23.9) && box.height > 1)
  .map(([html]) => html)"""


SOON = """const wait = setTimeout.bind(globalThis);
globalThis.setTimeout = (then, ms, ...rest) => wait(then, ms === 20_000 ? 200 : ms, ...rest);"""
"""Twenty seconds that are a fifth of one."""

OPEN_ALL = """() => [...document.querySelectorAll("main details:not([open])")]
  .map((each) => { each.name = ""; each.open = true; }).length"""


@dataclass
class Desk:
    """An edge with people and cases, and browsers that look at it."""

    harness: Harness
    browser: Browser
    players: dict[str, str]
    complaints: list[str] = field(default_factory=list)

    async def case(self, name: str = "Mira", score: int = 4_410, **how: Any) -> str:
        if name not in self.players:
            self.players[name] = await player_of(self.harness, name)
        return await submitted(self.harness, self.players[name], score, **how)


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def desk(
    tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer, browser: Browser
) -> AsyncIterator[Desk]:
    with valkey_server.client() as client:
        client.flushall()
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("edge") / "data",
        redis_url=valkey_server.url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as harness:
        await staff(harness, {"mara": {"*": "admin"}, "jo": {"arcade": "moderator"}, "vic": {"*": "viewer"}})
        yield Desk(harness, browser, {})


@pytest_asyncio.fixture(loop_scope="package")
async def sits(desk: Desk) -> AsyncIterator[Callable[..., Any]]:
    """Opens the console as one of the people; no browser may complain of what a test does not name."""
    opened: list[tuple[list[str], tuple[str, ...]]] = []
    async with AsyncExitStack() as leaving:

        async def sit(name: str = "mara", *, forgiven: tuple[str, ...] = (), **context: Any) -> Page:
            window = await desk.browser.new_context(
                **{"base_url": desk.harness.url, "viewport": DESK, **context}
            )
            leaving.push_async_callback(window.close)
            if name:
                await window.add_cookies([await cookie_of(desk.harness, name)])
            await window.add_init_script(NOTE_EVIL)
            page, complaints = await window.new_page(), []
            page.set_default_timeout(PATIENCE_MS)
            page.on(
                "console",
                lambda message: (
                    complaints.append(message.text) if message.type in {"error", "warning"} else None
                ),
            )
            page.on("pageerror", lambda error: complaints.append(str(error)))
            opened.append((complaints, forgiven))
            return page

        yield sit
    for complaints, forgiven in opened:
        assert [] == [each for each in complaints if not any(words in each for words in forgiven)]


async def test_M07_what_strangers_wrote_is_shown_as_text(desk: Desk, sits: Any):
    """A name and a note with markup are read as they were written, in the queue, in the case and after a refusal."""
    case = await desk.case(HOSTILE, findings=(TOO_FAST,), reason=Reason.VELOCITY_POINTS)
    page = await sits()
    await page.goto("/console/queue")
    await expect(page.locator(f"#case-{case}")).to_have_text(HOSTILE)
    await page.goto(f"/console/cases/{case}")
    await expect(page.locator("h1 .player")).to_have_text(HOSTILE)
    await page.keyboard.press("r")
    await page.keyboard.press("1")
    await page.fill("#note-reject", f"{HOSTILE}<script>evil()</script>")
    await page.click("[data-decision=reject] form button")
    await page.wait_for_url("**/console/queue?settled=*")
    await page.goto(f"/console/cases/{case}")
    await expect(page.locator(".events blockquote").first).to_contain_text(
        f"{HOSTILE}<script>evil()</script>"
    )
    assert 0 == await page.evaluate("window.evils")


async def test_a_case_is_settled_by_keys_alone_and_undone(desk: Desk, sits: Any):
    """`j` and Enter open a case, `a` and Enter approve it, `u` takes that back."""
    case = await desk.case("Lyra", 5_120)
    page = await sits()
    await page.goto("/console/queue")
    for _ in range(50):
        await page.keyboard.press("j")
        if await page.evaluate("document.activeElement.id") == f"case-{case}":
            break
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/console/cases/{case}")
    await page.keyboard.press("a")
    await expect(page.locator("[data-decision=approve] input:checked")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/console/queue?settled={case}")
    assert "promoted" == await desk.harness.state_of(case)
    await page.keyboard.press("u")
    await page.wait_for_url(f"**/console/cases/{case}")
    assert "held" == await desk.harness.state_of(case)


async def test_a_decision_on_what_has_changed_is_refused_and_says_what_did(desk: Desk, sits: Any):
    """Somebody else's decision is named, nothing is stored, and the note stays in its place."""
    case = await desk.case("Kestrel", 2_220)
    late, quick = await sits(forgiven=("412",)), await sits("jo")
    for page in (late, quick):
        await page.goto(f"/console/cases/{case}")
    await quick.keyboard.press("r")
    await quick.keyboard.press("1")
    await quick.click("[data-decision=reject] form button")
    await quick.wait_for_url("**/console/queue?settled=*")
    await late.keyboard.press("a")
    await late.fill("#note-approve", "I have seen it live.")
    await late.click("[data-decision=approve] form button")
    await expect(late.locator("#notices")).to_contain_text("jo")
    await expect(late.locator("#notices a")).to_have_attribute("href", f"/console/cases/{case}")
    assert "I have seen it live." == await late.input_value("#note-approve")
    assert "rejected" == await desk.harness.state_of(case)


async def test_M11_a_session_that_ended_in_mid_work_leads_to_the_sign_in(desk: Desk, sits: Any):
    """The decision is not stored, the note stays, and the way back in is one link."""
    case = await desk.case("Pim", 710)
    page = await sits(forgiven=("401",))
    await page.goto(f"/console/cases/{case}")
    await page.keyboard.press("a")
    await page.fill("#note-approve", "fine")
    await page.context.clear_cookies()
    await page.click("[data-decision=approve] form button")
    await expect(page.locator("#notices a")).to_have_attribute("href", "/console/sign-in")
    assert "fine" == await page.input_value("#note-approve")
    assert "held" == await desk.harness.state_of(case)
    await page.goto("/console/queue")
    await page.wait_for_url("**/console/sign-in?next=/console/queue")


async def test_without_scripts_every_form_still_works(desk: Desk, sits: Any):
    """A case is approved by a page that runs nothing."""
    case = await desk.case("Rue", 1_120)
    page = await sits(java_script_enabled=False)
    await page.goto(f"/console/cases/{case}")
    await page.click("[data-decision=approve] summary")
    await page.click("[data-decision=approve] form button")
    await page.wait_for_url(f"**/console/queue?settled={case}")
    assert "promoted" == await desk.harness.state_of(case)
    counts = await desk.case("Rue", 1_130, state=State.PROMOTED)
    await page.goto(f"/console/cases/{counts}")
    await page.click("[data-decision=hold] summary")
    await page.check("[data-decision=hold] [value=second-look]")
    await page.click("[data-decision=hold] form button")
    await expect(page.locator("[aria-labelledby=decide-title] header")).to_contain_text("Held")
    assert "held" == await desk.harness.state_of(counts)


FORGED = [
    "<p>x</p><img src=x onerror=evil()>",
    '<p onclick="evil()">x</p>',
    "<script>evil()</script>",
    '<iframe srcdoc="<script>evil()</script>"></iframe>',
    '<a href="javascript:evil()">x</a>',
    '<a href="https://evil.example/">x</a>',
    '<p style="position: fixed">x</p>',
    '<div hx-on:click="evil()">x</div>',
    '<form action="//evil.example"><input name="a"></form>',
    "<svg><script>evil()</script></svg>",
    "<template><script>evil()</script></template>",
    "<p title=x>y</p>",
    "1 < 2",
]


async def _forge(answer: str, route: Any) -> None:
    await route.fulfill(body=answer, content_type="text/html")


async def test_M07_markup_that_no_template_writes_is_not_shown(sits: Any):
    """Even if an answer of the edge were forged, the policy of trusted types lets none of it onto the page."""
    page = await sits(forgiven=("this is no markup of the console",))
    for answer in FORGED:
        await page.goto("/console/queue")

        await page.route("**/console/queue*", partial(_forge, answer))
        await page.evaluate(
            """() => { window.refused = new Promise((tell) => document.addEventListener(
                 "htmx:error", ({ detail }) => tell(String(detail.error)), { capture: true })); }"""
        )
        await page.evaluate("htmx.trigger('#rows', 'queue-changed')")
        assert "this is no markup of the console" in await page.evaluate("window.refused"), answer
        assert 0 == await page.evaluate("window.evils"), answer
        await page.unroute("**/console/queue*")


async def test_M07_text_becomes_no_markup_by_another_way(sits: Any):
    """The browser refuses text where it would be parsed, and any further policy that would let it pass."""
    page = await sits(forgiven=("TrustedHTML", "TrustedType", "Trusted Type", "Content Security"))
    await page.goto("/console/queue")
    for script in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
        "trustedTypes.createPolicy('scoregate', {})",
        "trustedTypes.createPolicy('other', {})",
    ):
        assert "refused" == await page.evaluate(
            f"() => {{ try {{ {script}; return 'done'; }} catch {{ return 'refused'; }} }}"
        )


async def test_M07_the_console_is_in_nobodys_frame(desk: Desk, sits: Any):
    """Another page that frames the console shows nothing of it."""
    page = await sits(forgiven=("frame", "Frame"))
    await page.goto("/docs/http")  # a page of the same site, which is the least foreign one
    await page.evaluate(
        """(url) => new Promise((loaded) => {
             const frame = document.createElement("iframe");
             frame.src = url; frame.onload = loaded; document.body.append(frame); setTimeout(loaded, 3000); })""",
        "/console/sign-in",
    )
    assert 0 == await page.evaluate(
        "document.querySelector('iframe').contentDocument?.querySelectorAll('form').length ?? 0"
    )


async def tabbed_to(page: Page, what: str) -> None:
    """The keyboard is there, by Tab alone."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await page.evaluate(f"document.activeElement.matches({what!r})"):
            return
    raise AssertionError(f"no Tab leads to {what}")


async def test_many_cases_are_settled_by_keys_alone_while_a_colleague_settles_one(desk: Desk, sits: Any):
    """Select, look at the preview, apply: a case that was decided since is left, and why is said; reverse it all."""
    cases = [await desk.case("Tarn", score, reason=Reason.VELOCITY_POINTS) for score in (9_810, 9_820, 9_830)]
    board, taken = "/v1/boards/arcade/entries", cases[2]
    before = (await desk.harness.get(board)).body["entries"]
    page = await sits()
    await page.goto("/console/batches")
    await tabbed_to(page, "#decision")
    await page.keyboard.type("Approve: ")
    await tabbed_to(page, "#player")
    await page.keyboard.type(desk.players["Tarn"])
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/batches/*")
    preview = page.locator("[aria-labelledby=preview-title]")
    await expect(page.locator("h1")).to_have_text("Approve 3 submissions")
    await expect(preview.locator("h3:has-text('Boards') + ul > li")).to_have_text(["arcade 3"])
    await expect(preview.locator("h3:has-text('Podiums') + ul > li").first).to_contain_text("arcade")
    colleague, decision = desk.harness.moderator(name="noor"), {"code": "other", "note": "I know this run."}
    decided = await desk.harness.post(f"/v1/moderation/cases/{taken}/reject", decision, colleague)
    assert 200 == decided.status, decided.raw
    await tabbed_to(page, "[action$='/apply'] button")
    await page.keyboard.press("Enter")
    rows = [page.locator("tr", has_text=case) for case in cases]
    await expect(rows[2]).to_contain_text("Decided on since the preview")
    for row in rows[:2]:
        await expect(row).to_contain_text("Decided")
    scores = {entry["player"]: entry["score"] for entry in (await desk.harness.get(board)).body["entries"]}
    assert 9_820 == scores[desk.players["Tarn"]]
    await page.set_viewport_size(PHONE)
    assert all([140 > (await row.bounding_box())["height"] for row in rows]), "words stand below each other"
    await tabbed_to(page, "[action$='/reverse'] button")
    await page.keyboard.press("Enter")
    for row in rows[:2]:
        await expect(row).to_contain_text("Reversed")
    await expect(rows[2]).to_contain_text("Decided on since the preview")
    assert before == (await desk.harness.get(board)).body["entries"]
    assert ["held", "held", "rejected"] == [await desk.harness.state_of(case) for case in cases]


PLACES = ["/console/sign-in", "/console/queue", "/console/queue?player=nobody", "case", "settled", "/console/account",
          "/console/people", "/console/people/jo", "/console/players?name=%C5%8C", "player", "/console/figures", "/console/trail",
          "/console/batches", "batch", "/console/nothing"]  # fmt: skip


async def previewed(desk: Desk) -> str:
    """The page of a batch that would change podiums."""
    await desk.case("Yuki", 9_999, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    body = {
        "operation": "a-batch",
        "action": "revoke",
        "code": "on-request",
        "selection": {"player": desk.players["Yuki"]},
    }
    made = await desk.harness.post("/v1/moderation/batches", body, desk.harness.moderator(name="sen"))
    return f"/console/batches/{made.body['batch']}"


async def test_everybody_can_use_each_page(desk: Desk, sits: Any):
    """axe-core finds nothing in dark and light, nothing is wider than a phone or than a wall, targets are large enough."""
    paths = {place: place for place in PLACES}
    paths["case"] = f"/console/cases/{await desk.case('Ōkami', 1_030)}"
    counted = await desk.case("Ōkami", 1_031, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    paths["settled"] = f"/console/cases/{counted}"
    paths["player"] = f"/console/players/{desk.players['Ōkami']}"
    paths["batch"] = await previewed(desk)
    page = await sits(forgiven=("404",))
    found = {}
    for place, path in paths.items():
        await page.set_viewport_size(DESK)
        await page.emulate_media(color_scheme="dark")
        await page.goto(path)
        found[place] = [each async for each in _hindrances(page)]
    assert {place: [] for place in PLACES} == found


async def _hindrances(page: Page) -> AsyncIterator[object]:
    """What keeps somebody from using a page that was opened in the dark."""
    for each in await faults(page):
        yield each
    if await page.evaluate(OPEN_ALL):
        for each in await faults(page):
            yield each
    for window in (PHONE, DESK, WALL):
        await page.set_viewport_size(window)
        if window["width"] != (width := await page.evaluate(WIDTH)):
            yield f"{width} px in a window of {window['width']} px"
        for each in await page.evaluate(SMALL_TARGETS):
            yield f"{each} is a small target in a window of {window['width']} px"
    await page.emulate_media(color_scheme="light")
    await page.reload()
    await page.evaluate(OPEN_ALL)
    for each in await faults(page, "color-contrast"):
        yield each


async def test_a_chosen_look_stays(sits: Any):
    """The switch goes through the system's look, dark and light, and the next page has the same."""
    page = await sits(color_scheme="light")
    await page.goto("/console/queue")
    await page.click("[data-theme-switch]")
    await page.goto("/console/account")
    assert "dark" == await page.evaluate("document.documentElement.dataset.theme")
    assert "dark" == await page.evaluate("getComputedStyle(document.documentElement).colorScheme")


async def test_keys_leave_writing_and_the_browser_alone(desk: Desk, sits: Any):
    """A letter in a note is a letter, and a letter with Ctrl is the browser's; `?` shows the keys, Escape closes."""
    case = await desk.case("Juniper", 2_000)
    page = await sits()
    await page.goto(f"/console/cases/{case}")
    await page.keyboard.press("Control+a")
    await expect(page.locator("[data-decision=approve]")).not_to_have_attribute("open", "")
    await page.keyboard.press("h")
    await page.focus("#note-hold")
    await page.keyboard.type("are you a rabbit? q")
    assert "are you a rabbit? q" == await page.input_value("#note-hold")
    await page.keyboard.press("Escape")
    await expect(page.locator("[data-decision=hold] summary")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.locator("#keys")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#keys")).not_to_be_visible()
    await page.goto(f"/console/cases/{await desk.case('Juniper', 2_010, state=State.PROMOTED)}")
    required = page.locator("textarea:required")
    for key, needed in (("h", "message"), ("2", ""), ("4", "note"), ("1", "message")):
        await page.keyboard.press(key)
        await expect(required).to_have_count(1 if needed else 0)
        if needed:
            await expect(required).to_have_attribute("name", needed)


async def test_a_run_is_watched_in_its_case(desk: Desk, sits: Any):
    """The recording plays in the arcade's page to the score that is claimed, and the keys of the console stay the console's."""
    run = watched().run
    case = await desk.case("Vela", run.score, played=run, build="arcade-1")
    page = await sits("jo")
    await page.goto(f"/console/cases/{case}")
    await loaded(page)
    assert [] == await faults(page)
    await page.select_option(".playback-controls select", "8")
    await page.locator(".playback-controls").get_by_role("button", name="Play", exact=True).click()
    await at_tick(page, run.ticks)
    shown = page.locator(".playback-side:last-child .playback-says")
    await expect(shown).to_have_text(f"tick {run.ticks}, score {run.score:,}, over")
    await expect(page.locator(".timeline-summary")).to_contain_text(f"{run.ticks:,} ticks")
    await page.keyboard.press("a")
    await expect(page.locator("[data-decision=approve] input:checked")).to_be_focused()

    phone = await sits("jo", viewport=PHONE)
    await phone.goto(f"/console/cases/{case}")
    await loaded(phone)
    assert PHONE["width"] >= await phone.evaluate(WIDTH)


async def test_a_phone_is_shown_no_keys(desk: Desk, sits: Any):
    """Neither in the decisions of a case, nor on a player's page, nor in the header."""
    case = await desk.case("Rook", 2_030)
    phone = await sits(viewport=PHONE)
    for path in (f"/console/cases/{case}", "/console/players/" + desk.players["Rook"]):
        await phone.goto(path, wait_until="load")
        assert 0 < await phone.locator("kbd").count()
        assert 0 == await phone.locator("kbd:visible").count()


async def test_the_queue_is_live_and_no_row_goes_from_under_the_keyboard(desk: Desk, sits: Any):
    """A case that comes is shown at once. One that is settled while somebody is on its row stays until they leave it."""
    first, third = await desk.case("Vega", 3_330), await desk.case("Vega", 3_350)
    page, state = await sits(), "[data-live-state]"
    await page.goto("/console/queue?player=" + desk.players["Vega"])
    await expect(page.locator(state)).to_have_text("Live")
    await page.focus(f"#case-{first}")
    second = await desk.case("Vega", 3_340)
    await expect(page.locator(f"#case-{second}")).to_have_text("Vega")
    await expect(page.locator(f"#case-{first}")).to_be_focused()
    for gone in (third, first):
        await settled(desk, gone)
    await expect(page.locator(state)).to_contain_text("This case is settled: as of")
    await expect(page.locator(f"#case-{first}")).to_be_focused()
    await page.focus("h1 ~ * button, header a")
    await expect(page.locator(state)).to_have_text("Live")
    assert [f"case-{second}"] == await page.locator("[data-item]").evaluate_all(
        "all => all.map(({ id }) => id)"
    )


async def test_a_queue_without_a_stream_is_read_every_so_often_and_says_when_it_is_not(desk: Desk, sits: Any):
    """Every 20 seconds; when that fails too, the page says as of when its rows are, and goes on trying."""
    await desk.case("Deneb", 3_330)
    page, state = await sits(forgiven=("ERR_FAILED", "Failed to fetch")), "[data-live-state]"
    await page.add_init_script(SOON)
    await page.route("**/queue/live", lambda route: route.abort())
    await page.goto("/console/queue?player=" + desk.players["Deneb"])
    await expect(page.locator(state)).to_have_text("Read every 20 s")
    second = await desk.case("Deneb", 3_340)
    await expect(page.locator(f"#case-{second}")).to_have_text("Deneb")
    await page.route("**/console/queue*", lambda route: route.abort())
    await expect(page.locator(state)).to_contain_text("Not read: as of")
    await page.unroute("**/console/queue*")
    await expect(page.locator(state)).to_have_text("Read every 20 s")


async def settled(desk: Desk, case: str) -> None:
    """A case that somebody else rejected."""
    edge, state = desk.harness.edge, State.REJECTED
    reason = Reason.REJECTED_BY_MODERATOR
    gone = Decision(case, state, "moderator:jo", reason, desk.harness.clock(), frozenset({State.HELD}))
    await settle(edge.ledger, edge.index, edge.catalogue.of_files["arcade"], [gone])


async def test_a_moderator_signs_in_at_a_provider_of_another_site(desk: Desk, sits: Any):
    """There and back by the pages that go on by themselves, to a page that has the session; no policy is in the way."""
    settings = desk.harness.edge.settings
    async with small_provider(lambda: desk.harness.clock() / 1000, "localhost") as provider:
        own = client_settings(provider) | {"bind": f"127.0.0.1:{free_port()}"}
        elsewhere = Settings(data_dir=settings.data_dir, redis_url=settings.redis_url, **own)
        async with running_harness(elsewhere) as harness:
            act = Act("operator:test", harness.clock())
            who = ProviderIdentity(provider.url, provider.subject)
            await harness.edge.ledger.write(add_account("kim", {"*": "viewer"}, act, identity=who))
            page = await sits("", base_url=harness.url)
            await page.goto("/console/account")
            assert [] == await faults(page)
            await page.click("text=Sign in with Keyhouse")
            await page.click("text=It is me")
            await page.wait_for_url("**/console/account")
            await expect(page.locator("h1")).to_have_text("kim")
            assert [] == await faults(page)
