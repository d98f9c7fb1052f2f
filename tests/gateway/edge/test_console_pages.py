"""The pages of the console without a browser: who may open them, with which headers, and what their forms do."""

from __future__ import annotations

import re
from base64 import b32decode
from dataclasses import dataclass
from html import unescape
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree as ET

import pytest
import segno

from gateway.edge.auth.moderator_credentials import COOKIE, Session
from gateway.edge.auth.moderators import Ability
from gateway.edge.auth.second_factors import address_of
from gateway.edge.console import people_page, player_profile, trail_page
from gateway.edge.console.queue_page import QueueRow
from gateway.edge.console.refusal_pages import SIGN_IN
from gateway.edge.console.site import CONSOLE_PAGES, ConsolePage
from gateway.edge.reads.read_budget import ReadBudget
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import account_of, add_account
from gateway.ledger.moderation.api_tokens import TokenRecord, issue_token
from gateway.ledger.moderation.invitations import invite
from gateway.ledger.moderation.second_factors import begin_second_factor, confirm_second_factor
from policies.vocabulary import Reason, State
from tests.attacks.test_appeals import govern
from tests.support.desk import all_drawn, invitation_until, player_of, session_of, staff, submitted
from tests.support.harness import Harness
from tests.support.logins import with_password

NAMES = {
    "submission": "0" * 32,
    "moderator": "jo",
    "token": "nothing",
    "session": "nothing",
    "turn": "disable",
    "claim": "skip",
    "decision": "approve",
    "player": "nobody",
    "ban": "nothing",
    "batch": "nothing",
    "way": "apply",
}
OPEN = [page for page in CONSOLE_PAGES if page.ability is None]
CLOSED = [page for page in CONSOLE_PAGES if page.ability is not None]
ROLES = {"vic": {"*": "viewer"}, "jo": {"*": "moderator"}, "sam": {"*": "senior"}, "mara": {"*": "admin"}}
MAY = {
    "vic": {Ability.READ},
    "jo": {Ability.READ, Ability.DECIDE},
    "sam": {Ability.READ, Ability.DECIDE, Ability.OVERRULE},
    "mara": set(Ability),
}
PASSWORD = "hidden heron 7"


@dataclass
class Reply:
    status: int
    headers: Any
    text: str


def path_of(page: ConsolePage) -> str:
    return re.sub(r"{(\w+)[^}]*}", lambda match: NAMES[match[1]], page.path)


def named(page: ConsolePage) -> str:
    return f"{page.method} {page.path}"


async def ask(
    harness: Harness, method: str, path: str, session: Session | None = None, form: Any = None, **headers: str
) -> Reply:
    """The answer to a page's request, as a browser sends it; a form has its token unless it says otherwise."""
    if session:
        headers["Cookie"] = f"{COOKIE}={session.token}"
    body = None
    if method == "POST":
        body = urlencode({"csrf": session.csrf if session else ""} | (form or {}))
        headers = {"Origin": harness.url, "Content-Type": "application/x-www-form-urlencoded"} | headers
    async with harness.session.request(
        method, harness.url + path, data=body, headers=headers, allow_redirects=False
    ) as answer:
        return Reply(answer.status, answer.headers, await answer.text())


async def test_M01_nobody_opens_a_page_without_a_session(harness: Harness):
    """A page sends to the sign-in, and a form is refused."""
    wrong = {}
    for page in CLOSED:
        reply = await ask(harness, page.method, path_of(page))
        if page.method == "GET":
            is_kept_out = reply.headers.get("Location", "").startswith("/console/sign-in?next=/console/")
        else:
            is_kept_out = "Sign in" in reply.text
        if not is_kept_out or reply.status != (303 if page.method == "GET" else 401):
            wrong[named(page)] = reply
    assert {} == wrong


async def test_M01_each_role_may_do_what_its_pages_ask_for(harness: Harness):
    """Each page and form is refused for a role that is too small for it, and for no other."""
    await staff(harness, ROLES)
    for name in ROLES:
        session = await session_of(harness, name)
        for page in CLOSED:
            if page.path.endswith("/sessions/end") or "disable" in path_of(page):
                continue  # which ends what this test goes on with
            reply = await ask(harness, page.method, path_of(page), session)
            assert (named(page), name, page.ability not in MAY[name]) == (
                named(page),
                name,
                reply.status == 403,
            )
        page = await ask(harness, "GET", "/console/account", session)
        is_offered = 'href="/console/people"' in page.text
        assert (name, Ability.ADMINISTER in MAY[name]) == (name, is_offered)


async def test_M02_pages_show_an_admin_of_one_board_no_accounts(harness: Harness):
    """To who has a role on one board alone, however great, no page and no refused form names colleagues."""
    await staff(harness, ROLES | {"far": {"sprint": "admin"}})
    session = await session_of(harness, "far")
    for page in CLOSED:
        if page.path.startswith("/console/account/"):
            continue  # forms about oneself
        reply = await ask(harness, page.method, path_of(page), session)
        assert (named(page), False) == (named(page), "mara" in reply.text)
        if page.ability is Ability.ADMINISTER:
            assert (named(page), 404) == (named(page), reply.status)


async def test_M06_a_form_of_another_site_is_refused(harness: Harness):
    """Neither another origin nor a form without the session's token does anything."""
    await staff(harness, ROLES)
    session = await session_of(harness, "mara")
    forms = [page for page in CLOSED if page.method == "POST"]
    found = {}
    for page in forms:
        foreign = await ask(harness, "POST", path_of(page), session, Origin="https://evil.example")
        blind = await ask(harness, "POST", path_of(page), session, {"csrf": "guessed"})
        silent = await ask(harness, "POST", path_of(page), session, {"csrf": ""})
        found[named(page)] = [foreign.status, blind.status, silent.status]
    assert {named(page): [403, 403, 403] for page in forms} == found
    for path in (SIGN_IN, "/console/invitations/known"):
        foreign = await ask(harness, "POST", path, form={"name": "mara"}, Origin="https://evil.example")
        assert (path, 403) == (path, foreign.status)


@pytest.mark.parametrize(
    "path", ["/console/sign-in", "/console/queue", "/console/account", "/console/people", "/console/no"]
)
async def test_M07_every_page_forbids_what_no_page_needs(harness: Harness, path: str):
    """No script but the console's files, no frames, no copies in caches, no guessing of types."""
    await staff(harness, ROLES)
    reply = await ask(harness, "GET", path, await session_of(harness, "mara"))
    directives = dict(
        part.strip().partition(" ")[::2] for part in reply.headers["Content-Security-Policy"].split(";")
    )
    assert {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
        "connect-src": "'self'", "frame-src": "'none'", "frame-ancestors": "'none'", "base-uri": "'none'",
        "form-action": "'self'", "require-trusted-types-for": "'script'", "trusted-types": "scoregate",
    } == directives  # fmt: skip
    assert ("no-store", "nosniff", "DENY", "same-origin") == (
        reply.headers["Cache-Control"],
        reply.headers["X-Content-Type-Options"],
        reply.headers["X-Frame-Options"],
        reply.headers["Referrer-Policy"],
    )


async def test_an_authenticator_app_is_set_up_by_its_camera(harness: Harness):
    """The page has the secret as text and as a named picture of its address, which needs no script and no style."""
    await with_password(harness, "noor")
    session = await session_of(harness, "noor")
    page = await ask(harness, "POST", "/console/account/second-factor", session, {"password": PASSWORD})
    [picture] = re.findall(
        r'<img class="qr" src="data:image/svg\+xml;charset=utf-8,([^"]+)" alt="QR code [^"]+"', page.text
    )
    svg = ET.fromstring(unquote(picture))
    assert {"svg", "path"} == {part.tag.rpartition("}")[2] for part in svg.iter()}
    assert [] == [
        name for part in svg.iter() for name in part.attrib if name == "style" or name.startswith("on")
    ]
    for path, sent, told in (("", {"password": "x"}, "password"), ("/confirm", {"code": "000000"}, "code")):
        wrong = await ask(harness, "POST", f"/console/account/second-factor{path}", session, sent)
        assert (401, True) == (wrong.status, f"The {told} is wrong." in wrong.text)
    token = {"label": "my bot", "ability": "read", "scopes": "Two Words", "days": "7", "password": PASSWORD}
    refused = await ask(harness, "POST", "/console/account/tokens", session, token)
    assert (422, True, True) == (
        refused.status,
        'value="my bot"' in refused.text,
        'value="7"' in refused.text,
    )
    [secret] = re.findall(r'id="factor-secret">([A-Z2-7]+)<', page.text)
    address = address_of(b32decode(secret), "noor")
    drawn = segno.make(address, error="m", micro=False).svg_inline(border=4, light="#fff", omitsize=True)
    assert [part.get("d") for part in svg] == re.findall(r' d="([^"]+)"', drawn)


async def test_M13_a_session_begins_with_a_new_cookie_that_no_script_reads(harness: Harness):
    """An invitation sets the password and signs in; a sign-in never goes on with a session that it was given."""
    token = "an invitation"
    await staff(harness, {})
    await harness.edge.ledger.write(_added(harness, "noor", token))
    path = "/console/invitations/" + token.replace(" ", "_")
    assert 404 == (await ask(harness, "GET", path)).status
    await harness.edge.ledger.write(_added(harness, "nora", "known"))
    welcome = await ask(harness, "GET", "/console/invitations/known")
    assert "nora" in welcome.text
    unlike = await ask(
        harness, "POST", "/console/invitations/known", form={"password": PASSWORD, "again": "x"}
    )
    assert (422, True) == (unlike.status, "The two passwords are not the same" in unlike.text)
    taken = await ask(
        harness, "POST", "/console/invitations/known", form={"password": PASSWORD, "again": PASSWORD}
    )
    assert (303, "/console/queue") == (taken.status, taken.headers["Location"])
    again = await ask(
        harness, "POST", "/console/invitations/known", form={"password": PASSWORD, "again": PASSWORD}
    )
    assert (404, True) == (again.status, "This link does not work any more" in again.text)
    wrong = await ask(harness, "POST", "/console/sign-in", form={"name": "nora", "password": "wrong"})
    assert (401, True) == (wrong.status, 'value="nora"' in wrong.text)
    form = {"name": "nora", "password": PASSWORD, "next": "https://evil.example/"}
    signed_in = await ask(harness, "POST", "/console/sign-in", form=form, Cookie=f"{COOKIE}=fixed")
    assert (303, "/console/queue") == (signed_in.status, signed_in.headers["Location"])
    cookie = signed_in.headers["Set-Cookie"]
    assert "fixed" not in cookie
    for part in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert taken.headers["Set-Cookie"].split(";")[0] != cookie.split(";")[0]


async def test_M03_a_form_decides_on_the_version_that_it_shows(harness: Harness):
    """The version is in the form; another one is refused with what happened since, and nothing is stored."""
    await staff(harness, ROLES)
    session, case = (
        await session_of(harness, "jo"),
        await submitted(harness, await player_of(harness, "Ada"), 900),
    )
    page = await ask(harness, "GET", f"/console/cases/{case}", session)
    etag = re.search(r'name="etag" value="&#34;(\d+)&#34;"', page.text)[1]  # type: ignore[index]
    chosen = re.findall(r'value="([a-z-]+)" required checked', page.text)
    assert ["plausible", "question"] == chosen, "nobody is accused by default"
    stale = await ask(
        harness, "POST", f"/console/cases/{case}/approve", session, {"etag": '"1"', "code": "plausible"}
    )
    assert (412, True) == (stale.status, "The case has changed" in stale.text)
    missing = await ask(harness, "POST", f"/console/cases/{case}/approve", session, {"code": "plausible"})
    assert (428, "held") == (missing.status, await harness.state_of(case))
    form = {"etag": f'"{etag}"', "code": "plausible", "note": "line one\r\nline two"}
    decided = await ask(harness, "POST", f"/console/cases/{case}/approve", session, form)
    assert (303, f"/console/queue?settled={case}") == (decided.status, decided.headers["Location"])
    assert "promoted" == await harness.state_of(case)
    after = await ask(harness, "GET", f"/console/queue?settled={case}", session)
    assert f"/console/cases/{case}/undo" in after.text
    wish, sam = form | {"code": "impossible"}, await session_of(harness, "sam")
    late = await ask(harness, "POST", f"/console/cases/{case}/revoke", sam, wish)
    [changes] = re.findall(r'<ul class="changes">(.*?)</ul>', late.text)
    assert (412, ["jo"]) == (late.status, re.findall(r'class="foreign">(\w+)<', changes))
    others = await ask(harness, "GET", f"/console/queue?settled={case}", await session_of(harness, "sam"))
    assert "/undo" not in others.text


async def test_M14_who_answers_a_check_is_told_so_and_has_nothing_to_undo(harness: Harness):
    """Its page is that of a case; also a question to the player comes back as a check, and was asked of nobody."""
    await staff(harness, ROLES)
    ada, (sam, jo) = (
        await player_of(harness, "Ada"),
        [await session_of(harness, name) for name in ("sam", "jo")],
    )
    for form, told in (
        ({"code": "impossible"}, "You decided otherwise"),
        ({"code": "question", "message": "how-played"}, "its player was told nothing"),
    ):
        case = await submitted(harness, ada, 900)
        before = await ask(harness, "GET", f"/console/cases/{case}", jo)
        version = re.search(r'name="etag" value="&#34;(\d+)&#34;"', before.text)[1]  # type: ignore[index]
        approval = {"etag": f'"{version}"', "code": "plausible"}
        assert 303 == (await ask(harness, "POST", f"/console/cases/{case}/approve", sam, approval)).status
        await all_drawn(harness)
        page = await ask(harness, "GET", f"/console/cases/{case}", jo)
        shown = [re.findall(r'action="(/console/cases/[^"]+)"', each.text) for each in (before, page)]
        assert shown[0] == shown[1]
        beside = await ask(harness, "GET", f"/console/queue?settled={case}", jo)
        line = re.search(r'class="settled".*?</p>', beside.text, re.DOTALL)[0]  # type: ignore[index]
        assert ">Held<" in line
        kind = "hold" if form["code"] == "question" else "reject"
        answer = form | {"etag": f'"{version}"'}
        answered = await ask(harness, "POST", f"/console/cases/{case}/{kind}", jo, answer)
        assert (303, f"/console/queue?settled={case}") == (answered.status, answered.headers["Location"])
        queue = await ask(harness, "GET", f"/console/queue?settled={case}", jo)
        assert ("This was a check" in queue.text, told in queue.text, "/undo" in queue.text) == (
            True,
            True,
            False,
        )
        assert "promoted" == await harness.state_of(case)
    figures = await ask(harness, "GET", "/console/figures", jo)
    assert "Answers to checks" in figures.text


async def test_M03_opening_a_case_from_the_queue_claims_it(harness: Harness):
    """Its row is a form that claims; to a colleague the case then is a link, and opens to be read."""
    await staff(harness, ROLES)
    case = await submitted(harness, await player_of(harness, "Ada"), 900)
    jo, sam = await session_of(harness, "jo"), await session_of(harness, "sam")
    form = f'action="/console/cases/{case}/claim"'
    for who, opens in (("vic", False), ("jo", True)):
        rows = await ask(harness, "GET", "/console/queue", await session_of(harness, who))
        assert (who, opens) == (who, form in rows.text)
    for session in (jo, sam):
        opened = await ask(harness, "POST", f"/console/cases/{case}/claim", session)
        assert (303, f"/console/cases/{case}") == (opened.status, opened.headers["Location"])
    own = await ask(harness, "GET", f"/console/cases/{case}", jo)
    assert (True, True) == ("You are in this case until" in own.text, "/approve" in own.text)
    read = await ask(harness, "GET", f"/console/cases/{case}", sam)
    assert ("jo", False) == (_claimed_by(read.text), "/approve" in read.text)
    queues = [(await ask(harness, "GET", "/console/queue", session)).text for session in (jo, sam)]
    assert [True, False] == [form in queue for queue in queues]
    told = await ask(harness, "POST", f"/console/cases/{case}/claim", sam, **{"HX-Request": "true"})
    assert (200, "jo", False) == (told.status, _claimed_by(told.text), "<html" in told.text)
    left = await ask(harness, "POST", f"/console/cases/{case}/release", jo)
    assert (303, "/console/queue") == (left.status, left.headers["Location"])
    assert "Nobody is in this case" in (await ask(harness, "GET", f"/console/cases/{case}", sam)).text


async def test_a_filter_that_is_refused_is_refused_before_anything_is_decided(harness: Harness):
    """As that of a board which an admin takes from somebody in mid-work."""
    await staff(harness, ROLES)
    session, case = (
        await session_of(harness, "jo"),
        await submitted(harness, await player_of(harness, "Ada"), 900),
    )
    page = await ask(harness, "GET", f"/console/cases/{case}", session)
    etag = re.search(r'name="etag" value="&#34;(\d+)', page.text)[1]  # type: ignore[index]
    form = {"etag": f'"{etag}"', "code": "plausible"}
    for query in ("kind=no", "flow=true&kind=no"):
        refused = await ask(harness, "POST", f"/console/cases/{case}/approve?{query}", session, form)
        assert (422, "held") == (refused.status, await harness.state_of(case))
        left = await ask(harness, "POST", f"/console/cases/{case}/cannot-tell?{query}", session)
        queue = await ask(harness, "GET", "/console/queue", session)
        assert (422, False) == (left.status, "1 could not tell" in queue.text)


async def test_what_a_decision_waits_for_is_told_where_it_led(harness: Harness):
    """A first approval for a senior's, and a question for the player's answer; neither has anything to undo."""
    await staff(harness, ROLES)
    govern(harness, "arcade", four_eyes_top=10)
    session = await session_of(harness, "jo")
    for kind, form, told in (
        ("approve", {"code": "plausible"}, "once a senior has approved it too"),
        ("hold", {"code": "question", "message": "how-played"}, "The player is asked."),
    ):
        case = await submitted(harness, await player_of(harness, kind), 900)
        page = await ask(harness, "GET", f"/console/cases/{case}", session)
        panels = re.findall(r'data-decision="(\w+)"(.*?)</details>', page.text, re.DOTALL)
        assert ["approve"] == [each for each, panel in panels if "once a senior has approved" in panel]
        etag = re.search(r'name="etag" value="&#34;(\d+)', page.text)[1]  # type: ignore[index]
        done = await ask(
            harness, "POST", f"/console/cases/{case}/{kind}", session, form | {"etag": f'"{etag}"'}
        )
        shown = await ask(harness, "GET", done.headers["Location"], session)
        line = re.search(r'class="settled".*?</div>', shown.text, re.DOTALL)[0]  # type: ignore[index]
        assert (True, False) == (told in line, "/undo" in line)


async def test_nobody_is_accused_for_a_reason_that_no_one_chose(harness: Harness):
    """To approve, the first reason is chosen; to reject, none is. Each has fitting templates, and asks for what it needs."""
    await staff(harness, ROLES)
    case = await submitted(harness, await player_of(harness, "Ada"), 900)
    page = await ask(harness, "GET", f"/console/cases/{case}", await session_of(harness, "jo"))
    for kind, chosen, fits, does_not in (
        ("approve", ["plausible"], "our-mistake", "tools"),
        ("reject", [], "not-accepted", "our-mistake"),
        ("hold", ["question"], "video", "checked"),
    ):
        panel = re.search(rf'data-decision="{kind}".*?</details>', page.text, re.DOTALL)[0]  # type: ignore[index]
        assert chosen == re.findall(r'name="code" value="([\w-]+)" required checked', panel)
        assert (True, False) == (f'<option value="{fits}"' in panel, f'<option value="{does_not}"' in panel)
        needs = dict(re.findall(r'value="([\w-]+)" required[^>]* data-needs="(\w+)"', panel))
        assert needs == ({"question": "message"} if kind == "hold" else {"other": "note"})
        assert not re.search(r"<textarea[^>]* required", panel), (
            "without scripts it would hold for all reasons"
        )


def _claimed_by(text: str) -> str:
    found = re.search(r'<strong class="foreign">(\w+)</strong> is in this case until', text)
    return found[1] if found else ""


async def test_htmx_is_sent_to_a_page_by_a_header_and_told_of_a_refusal_in_place(harness: Harness):
    """What a browser follows as a redirect is a header for a script, and a refusal is a notice."""
    await staff(harness, ROLES)
    session = await session_of(harness, "jo")
    headers = {"HX-Request": "true"}
    nothing = await ask(harness, "POST", "/console/queue/next", session, **headers)
    assert (200, "/console/queue?none=true") == (nothing.status, nothing.headers["HX-Redirect"])
    gone = await ask(harness, "POST", "/console/cases/nothing/approve", session, **headers)
    assert (404, "#notices") == (gone.status, gone.headers["HX-Retarget"])
    assert "<html" not in gone.text
    rows = await ask(harness, "GET", "/console/queue", session, **headers)
    assert "<html" not in rows.text


def _added(harness: Harness, name: str, token: str) -> Any:
    act = Act("operator", harness.clock())
    return add_account(name, {"*": "viewer"}, act, invitation=invitation_until(harness, token))


async def test_a_player_is_banned_and_unbanned_by_forms(harness: Harness):
    """What the player has on the board goes and comes back; the page says who did it and why."""
    await staff(harness, ROLES)
    session, player = await session_of(harness, "sam"), await player_of(harness, "Ada")
    case = await submitted(harness, player, 900, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    path = f"/console/players/{player}"
    found = await ask(harness, "GET", f"/console/players?name={player}", session)
    assert (303, path) == (found.status, found.headers["Location"])
    page = await ask(harness, "GET", path, session)
    form = {
        "drawn_at": re.search(r'name="drawn_at" value="([^"]+)"', page.text)[1],  # type: ignore[index]
        "operation": re.search(r'name="operation" value="(\w+)"', page.text)[1],  # type: ignore[index]
        "scope": "board", "name": "arcade", "code": "cheating", "days": "7", "note": "<b>seen</b>",
    }  # fmt: skip
    for scope in ("board", "family"):
        wrong = form | {"scope": scope, "name": "nowhere"}
        nowhere = await ask(harness, "POST", f"{path}/bans", session, wrong)
        assert (404, True) == (nowhere.status, "<b>" not in nowhere.text)
    for _ in range(2):  # the second is the same form, sent again
        assert 303 == (await ask(harness, "POST", f"{path}/bans", session, form)).status
    assert "revoked" == await harness.state_of(case)
    banned = await ask(harness, "GET", path, session)
    assert (1, 1) == (banned.text.count("In force"), banned.text.count("&lt;b&gt;seen&lt;/b&gt;"))
    lift = re.search(rf'action="({path}/bans/[^"]+/lift)"', banned.text)[1]  # type: ignore[index]
    assert 303 == (await ask(harness, "POST", lift, session)).status
    assert "promoted" == await harness.state_of(case)
    lifted = await ask(harness, "GET", path, session)
    assert (True, False) == ("Lifted" in lifted.text, "Banned on" in lifted.text)
    shadow = form | {"operation": "in-shadow", "shadow": "yes"}
    told = await ask(harness, "POST", f"{path}/bans", session, shadow | {"message": "Stop."})
    assert (422, True) == (told.status, "must not notice" in told.text)
    assert 303 == (await ask(harness, "POST", f"{path}/bans", session, shadow)).status
    assert "Shadow-banned on" in (await ask(harness, "GET", path, session)).text


async def test_a_player_is_found_renamed_and_renamed_back_by_forms(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The page has what the player has; the trail tells both, and is filtered by what its form sends."""
    await staff(harness, ROLES)
    session, player = await session_of(harness, "sam"), await player_of(harness, "<i>Ada")
    case = await submitted(harness, player, 900)
    await submitted(harness, player, 901, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    beside = (await ask(harness, "GET", f"/console/cases/{case}", session)).text
    [plot] = re.findall(r"<caption[^>]*>Scores of the player.*?</table>", beside, re.DOTALL)
    assert (2, 1) == (plot.count("<td data-value"), plot.count("This run"))
    found = await ask(harness, "GET", "/console/players?name=%3CI%3E", session)
    assert (200, True) == (found.status, f'href="/console/players/{player}">&lt;i&gt;Ada' in found.text)
    path = f"/console/players/{player}"
    page = await ask(harness, "GET", path, session)
    assert ['Standings <span class="count">1', 'Cases that wait <span class="count">1'] == re.findall(
        r'(?:Standings|Cases that wait) <span class="count">\d+', page.text
    )
    form = {"was": "<i>Ada", "new-name": "\u3164", "code": "abusive", "note": "<b>rude</b>"}
    refused = await ask(harness, "POST", f"{path}/rename", session, form)
    assert (422, True) == (refused.status, "control and invisible characters" in refused.text.lower())
    assert 303 == (await ask(harness, "POST", f"{path}/rename", session, form | {"new-name": ""})).status
    renamed, unnamed = await ask(harness, "GET", path, session), f"Player {player[-8:]}"
    assert (True, 1) == (f"<title>{unnamed}" in renamed.text, renamed.text.count("&lt;b&gt;rude&lt;/b&gt;"))
    overtaken = await ask(harness, "POST", f"{path}/rename/undo", session, {"was": "<i>Ada"})
    assert 412 == overtaken.status
    assert 303 == (await ask(harness, "POST", f"{path}/rename/undo", session, {"was": unnamed})).status
    assert "Undone" in (await ask(harness, "GET", path, session)).text

    sent = "/console/trail?moderator=sam&reason=renamed&board=&player=&since=2020-01-01T00%3A00&until="
    asked = await ask(harness, "GET", sent, session)
    kept = "/console/trail?moderator=sam&reason=renamed&since=2020-01-01T00%3A00%3A00Z"
    assert (303, kept) == (asked.status, asked.headers["Location"])
    trail = await ask(harness, "GET", kept, session)
    assert (1, 0) == (trail.text.count("&lt;i&gt;Ada</span> →"), trail.text.count("Rename undone</strong>"))
    assert f"/v1/moderation/trail.csv?{kept.partition('?')[2].replace('&', '&amp;')}" in trail.text
    monkeypatch.setattr(trail_page, "ROWS", 1)
    first = await ask(harness, "GET", "/console/trail?moderator=sam", session)
    assert "?moderator=sam&amp;cursor=" in first.text
    wrong = await ask(harness, "GET", "/console/trail?reason=bored", session)
    assert (422, True) == (wrong.status, "there is no such reason" in wrong.text)
    viewer = await ask(harness, "GET", "/console/trail", await session_of(harness, "vic"))
    assert (200, False) == (viewer.status, "trail.csv" in viewer.text)


async def pages_from(harness: Harness, session: Session, path: str) -> list[str]:
    """A page of the console, and those that its way on leads to, one after the other."""
    pages = [(await ask(harness, "GET", path, session)).text]
    while following := re.search(r'href="([^"]+)">(?:Earlier|Next page)<', pages[-1]):
        pages.append((await ask(harness, "GET", unescape(following[1]), session)).text)
        assert len(pages) < 10
    return pages


async def test_the_pages_of_a_players_submissions_lead_to_the_earlier_ones(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """One after the other to the last; each but the first leads back to the newest."""
    await staff(harness, ROLES)
    session, player = await session_of(harness, "sam"), await player_of(harness, "Ada")
    monkeypatch.setattr(player_profile, "SUBMISSIONS", 2)
    newest_first = [await submitted(harness, player, 900 + number) for number in range(5)][::-1]
    pages = await pages_from(harness, session, path := f"/console/players/{player}")
    tables = [page.partition('"Table of submissions"')[2].partition("</table>")[0] for page in pages]
    assert [newest_first[:2], newest_first[2:4], newest_first[4:]] == [
        re.findall(r'href="/console/cases/(\w+)"', table) for table in tables
    ]
    assert [0, 1, 1] == [page.count(f'href="{path}">Newest<') for page in pages]


async def test_the_pages_of_accounts_have_each_once(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """By name; each but the first leads back to it."""
    await staff(harness, ROLES | {"zoe": {}})
    monkeypatch.setattr(people_page, "PAGE", 2)
    pages = await pages_from(harness, await session_of(harness, "mara"), "/console/people")
    assert [["jo", "mara"], ["sam", "vic"], ["zoe"]] == [
        re.findall(r'<a data-item class="foreign" href="/console/people/(\w+)"', page) for page in pages
    ]
    assert [0, 1, 1] == [page.count('href="/console/people">First page<') for page in pages]


async def test_M02_a_player_of_other_boards_has_no_page(harness: Harness):
    """The name of a player is drawn for who may read a board with a run of theirs, or a ban, and for nobody else."""
    await staff(harness, ROLES | {"far": {"sprint": "senior"}, "near": {"arcade": "viewer"}})
    player, nobody = await player_of(harness, "Ada Hidden"), await player_of(harness, "Bo Hidden")
    await submitted(harness, player, 900, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    drawn = {
        (name, who): await ask(harness, "GET", f"/console/players/{who}", await session_of(harness, name))
        for name in ("far", "near", "vic")
        for who in (player, nobody)
    }
    assert {("near", player), ("vic", player)} == {
        place for place, page in drawn.items() if page.status == 200
    }
    assert drawn.keys() - {("near", player), ("vic", player)} == {
        place for place, page in drawn.items() if page.status == 404 and "Hidden" not in page.text
    }


async def test_a_view_is_saved_opened_and_removed_by_forms(harness: Harness):
    """The filters of the address get a name, which is a link above the queue; the view that is open can be removed."""
    await staff(harness, ROLES)
    session, path = await session_of(harness, "vic"), "/console/queue?board=arcade"
    await submitted(harness, await player_of(harness, "Ada"), 900)
    assert 'action="/console/queue/views?board=arcade"' in (await ask(harness, "GET", path, session)).text
    saved = await ask(harness, "POST", "/console/queue/views?board=arcade", session, {"name": " My Own "})
    assert (303, path) == (saved.status, saved.headers["Location"])
    shown = (await ask(harness, "GET", path, session)).text
    assert f'<a class="foreign" href="{path}" aria-current="true">My own</a>' in shown
    removed = await ask(harness, "POST", "/console/queue/views/remove", session, {"name": "my-own"})
    assert (303, "/console/queue") == (removed.status, removed.headers["Location"])
    assert "My own" not in (await ask(harness, "GET", path, session)).text


async def test_boards_are_offered_by_name_and_a_wrong_one_is_refused_in_place(harness: Harness):
    """Fields offer the boards that one reaches, with their titles; a filter that fits none leaves the queue there."""
    await staff(harness, ROLES | {"near": {"arcade": "viewer"}})
    near = await session_of(harness, "near")
    page = await ask(harness, "GET", "/console/queue?board=Orbit%20Arcade", near)
    [offered] = re.findall(r'<datalist id="boards">(.*?)</datalist>', page.text)
    assert ["arcade"] == re.findall(r'value="([^"]+)"', offered)
    assert (404, True, True) == (
        page.status,
        "No board or family of yours has this name." in page.text,
        'value="Orbit Arcade"' in page.text,
    )
    for name, is_told in (("Orbit", True), ("arcade", False)):
        everywhere = await ask(
            harness, "GET", f"/console/queue?board={name}", await session_of(harness, "sam")
        )
        assert (200, is_told) == (everywhere.status, "No board or family of yours" in everywhere.text)
    age = await ask(harness, "GET", "/console/queue?min_age_s=soon", near)
    assert (422, True) == (age.status, "Expected a whole number" in age.text)


async def test_who_is_invited_wrongly_is_told_what_a_name_and_a_board_are(harness: Harness):
    """Refusals name no field of the API; the invitation says whose it is."""
    await staff(harness, ROLES)
    mara = await session_of(harness, "mara")
    for name, scope, told in (
        ("No One", "*", "Expected a name of up to 64 small letters"),
        ("noor", "Orbit Arcade", "Expected a board or a family by its short name"),
        ("noor", "arcade", "The invitation of"),
    ):
        form = {"name": name, "scope-0": scope, "role-0": "senior"}
        reply = await ask(harness, "POST", "/console/people", mara, form)
        assert (told, True) == (told, told in reply.text)


async def test_a_filter_that_is_left_empty_filters_nothing(harness: Harness):
    """The form sends all of its fields; those that were filled in stay in the address, and the counts lead to a reason."""
    await staff(harness, ROLES)
    session = await session_of(harness, "vic")
    await submitted(harness, await player_of(harness, "Ada"), 900)
    sent = await ask(
        harness, "GET", "/console/queue?board=arcade&family=&player=&build=&min_age_s=0", session
    )
    assert (303, "/console/queue?board=arcade") == (sent.status, sent.headers["Location"])
    shown = await ask(harness, "GET", sent.headers["Location"], session)
    assert (200, True) == (shown.status, 'href="/console/queue?reason=anomaly-player"' in shown.text)
    for name in ("kind", "max_age_s", "board", "family", "player", "build", "min_age_s"):
        value = {"kind": "held", "min_age_s": "3600", "max_age_s": "9999"}.get(name, "arcade")
        page = await ask(harness, "GET", f"/console/queue?{name}={value}", session)
        assert (name, 200, True) == (name, page.status, f'name="{name}"' in page.text)
    assert 'href="/console/queue?max_age_s=3600"' in shown.text
    few = await ask(harness, "GET", "/console/queue?reason=slow-motion", session)
    assert "No case fits" in few.text


async def test_a_case_shows_what_its_player_says(harness: Harness):
    """The answer to a question and the text of an appeal stand on its page, and no number in their place."""
    await staff(harness, ROLES)
    token = await harness.new_player("Ada")
    player = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    case, jo = await submitted(harness, player, 900), await session_of(harness, "jo")
    path = f"/console/cases/{case}"
    for kind, form, statement, heading in (
        ("hold", {"code": "question", "message": "how-played"}, "answer", "The player answers"),
        ("reject", {"code": "impossible"}, "appeal", "The player appeals"),
    ):
        page = await ask(harness, "GET", path, jo)
        version = re.search(r'name="etag" value="&#34;(\d+)&#34;"', page.text)[1]  # type: ignore[index]
        assert (
            303 == (await ask(harness, "POST", f"{path}/{kind}", jo, form | {"etag": f'"{version}"'})).status
        )
        said = await harness.post(f"/v1/submissions/{case}/{statement}", {"text": f"<{statement}>"}, token)
        assert 200 == said.status
        page = await ask(harness, "GET", path, jo)
        quoted = re.findall(r"<blockquote[^>]*>(.*?)</blockquote>", page.text)
        assert (heading in page.text, 2) == (True, quoted.count(f"&lt;{statement}&gt;")), quoted
        assert [] == [text for text in quoted if text.rpartition(" ")[2].isdigit()]


async def test_the_filters_of_the_queue_hold_from_case_to_case(harness: Harness):
    """What follows is what the queue was filtered for; the page says what became of a question, and what one lacks."""
    await staff(harness, ROLES)
    ada, jo = await player_of(harness, "Ada"), await session_of(harness, "jo")
    first = await submitted(harness, ada, 900, build="b-1")
    await submitted(harness, ada, 90_000, build="b-2")
    second = await submitted(harness, ada, 901, build="b-1")
    taken = await ask(harness, "POST", "/console/queue/next?build=b-1", jo)
    address = taken.headers["Location"]
    case = first if first in address else second
    assert f"/console/cases/{case}?flow=true&build=b-1" == address
    page = await ask(harness, "GET", address, jo)
    version = re.search(r'name="etag" value="&#34;(\d+)&#34;"', page.text)[1]  # type: ignore[index]
    hold = re.search(rf'action="(/console/cases/{case}/hold[^"]+)"', page.text)[1].replace("&amp;", "&")  # type: ignore[index]
    form = {"etag": f'"{version}"', "code": "question"}
    asked = await ask(harness, "POST", hold, jo, form, **{"HX-Request": "true"})
    assert (422, True, False) == (asked.status, "Write the question" in asked.text, "<a " in asked.text)
    held = await ask(harness, "POST", hold, jo, form | {"message": "how-played"})
    other = second if case == first else first
    assert f"/console/cases/{other}?flow=true&build=b-1&settled={case}" == held.headers["Location"]
    page = await ask(harness, "GET", held.headers["Location"], jo)
    assert "The player is asked." in page.text
    left = await ask(harness, "POST", f"/console/cases/{other}/skip?flow=true&build=b-1", jo)
    assert "/console/queue?build=b-1&none=true" == left.headers["Location"]
    opened = await ask(harness, "POST", f"/console/cases/{other}/claim?build=b-1", jo)
    assert f"/console/cases/{other}?build=b-1" == opened.headers["Location"]


async def test_what_an_account_sends_is_what_was_typed(harness: Harness):
    """A new password twice, a token's boards each by itself; and the session that one looks through is marked."""
    await with_password(harness, "noor")
    session, _ = await session_of(harness, "noor"), await session_of(harness, "noor")
    page = await ask(harness, "GET", "/console/account", session)
    assert 1 == page.text.count(">This one<")
    form = {"password": PASSWORD, "new": "another heron 8", "again": "another heron 9"}
    unlike = await ask(harness, "POST", "/console/account/password", session, form)
    assert (422, True) == (unlike.status, "The two new passwords are not the same" in unlike.text)
    assert 200 == (await ask(harness, "GET", "/console/account", session)).status
    token = {
        "label": "my bot",
        "ability": "read",
        "scopes": "arcade sprint",
        "days": "7",
        "password": PASSWORD,
    }
    issued = await ask(harness, "POST", "/console/account/tokens", session, token)
    assert (200, True) == (issued.status, "Read on arcade, sprint" in issued.text)


async def test_an_account_keeps_all_that_its_page_shows(harness: Harness):
    """Each grant, however many; the sessions and tokens on it are its own. A name is written in small letters."""
    await staff(harness, ROLES)
    mara = await session_of(harness, "mara")
    grants = {"*": "viewer", "arcade": "viewer", "sprint": "moderator"}
    rows = {f"scope-{row}": scope for row, scope in enumerate(grants)}
    rows |= {f"role-{row}": role for row, role in enumerate(grants.values())}
    added = await ask(harness, "POST", "/console/people", mara, rows | {"name": " Kim "})
    assert (200, True) == (added.status, "The invitation of" in added.text)
    token = TokenRecord(
        b"d" * 32, "t1", "kim", "bot of kim", "read", (), harness.clock(), harness.clock() + 60_000
    )
    await harness.edge.ledger.write(issue_token(token, Act("moderator:kim", harness.clock())))
    path = "/console/people/kim"
    page = await ask(harness, "GET", path, mara)
    [etag] = set(re.findall(r'name="etag" value="&#34;(\d+)&#34;"', page.text))
    sent = dict(re.findall(r'name="(scope-\d)" type="text" list="boards" value="([^"]*)"', page.text))
    assert sorted([*grants, "", ""]) == sorted(sent.values())
    assert f'action="{path}/tokens/t1/revoke"' in page.text
    changed = await ask(harness, "POST", path, mara, rows | {"etag": f'"{etag}"', "role-2": "senior"})
    assert (303, path) == (changed.status, changed.headers["Location"])
    account = await harness.edge.ledger.read(account_of("kim"))
    assert account is not None
    assert grants | {"sprint": "senior"} == account.grants


async def test_a_field_that_comes_twice_is_refused(harness: Harness):
    """Nobody could say which of the two is meant."""
    await staff(harness, ROLES)
    session = await session_of(harness, "vic")
    headers = {"Cookie": f"{COOKIE}={session.token}", "Origin": harness.url}
    form = [("csrf", session.csrf), ("name", "one"), ("name", "two")]
    path = f"{harness.url}/console/queue/views?board=arcade"
    async with harness.session.post(path, data=form, headers=headers, allow_redirects=False) as answer:
        assert (422, True) == (answer.status, ">A field is given more than once" in await answer.text())


async def test_who_has_read_too_much_may_still_decide(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """The pages of the console are paid for as other reads are, and its forms are not."""
    await staff(harness, ROLES)
    session, case = (
        await session_of(harness, "jo"),
        await submitted(harness, await player_of(harness, "Ada"), 900),
    )
    monkeypatch.setattr(ReadBudget, "wait_s", lambda *_: 7.0)
    page = await ask(harness, "GET", f"/console/cases/{case}", session)
    assert (429, "7") == (page.status, page.headers["Retry-After"])
    claimed = await ask(harness, "POST", f"/console/cases/{case}/claim", session)
    assert 303 == claimed.status


async def test_of_an_address_that_is_refused_the_field_is_named(harness: Harness):
    """Nobody filled it in, so there is no form that would show which one is meant."""
    await staff(harness, ROLES)
    page = await ask(harness, "GET", "/console/players?name=a&cursor=x", await session_of(harness, "vic"))
    assert (422, True) == (page.status, ">cursor: expected the `next` of a page" in page.text)


@pytest.mark.parametrize(
    ("harm", "words"),
    [(None, "unknown"), (0, "low"), (3, "low"), (4, "medium"), (9, "medium"), (10, "high"), (16, "high")],
)
def test_the_harm_that_a_case_could_do_is_told_in_words(harm: int | None, words: str):
    """Of the most, a quarter is not little any more, and three fifths are much."""
    case: Any = SimpleNamespace(harm=harm)
    assert words == QueueRow(case, "Ada", "Arcade", 0, is_claimed_by_opening=False).harm


async def test_an_invitation_does_not_spare_anybody_the_code_that_logins_take(harness: Harness):
    """It sets another password of an account with an app, and leads to the sign-in without a session."""
    await with_password(harness, "noor")
    ledger, act = harness.edge.ledger, Act("moderator:noor", harness.clock())
    await ledger.write(begin_second_factor("noor", b"a secret"))
    await ledger.write(confirm_second_factor("noor", b"a secret", 1, act))
    await ledger.write(invite("noor", invitation_until(harness, "again"), act))
    form = {"password": PASSWORD, "again": PASSWORD}
    taken = await ask(harness, "POST", "/console/invitations/again", form=form)
    assert (303, "/console/sign-in", False) == (
        taken.status,
        taken.headers["Location"],
        "Set-Cookie" in taken.headers,
    )
