"""What admins do with accounts over HTTP, and what moderators do with their own second factor and tokens."""

from __future__ import annotations

from base64 import b32decode
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.edge.app import _PLAIN_PATH
from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.auth.second_factors import SecondFactors, code_at
from gateway.edge.wire.moderation_people import NewModerator
from tests.support.harness import Answer, Harness, Request
from tests.support.logins import PASSWORD, Browser, admin, attempt, invited, logged_in, with_password

PEOPLE = "/v1/moderation/people"
HOUR_S = 3600


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


async def put(harness: Harness, name: str, body: Any, etag: str | None = None) -> Answer:
    """The answer to a change by an admin who has just read the account."""
    etag = etag or (await harness.get(f"{PEOPLE}/{name}", admin(harness))).headers["ETag"]
    headers = {
        "Authorization": f"Bearer {admin(harness)}",
        "If-Match": etag,
        "Content-Type": "application/json",
    }
    async with harness.session.put(f"{harness.url}{PEOPLE}/{name}", json=body, headers=headers) as response:
        return Answer(response.status, response.headers, await response.read())


async def test_an_account_is_what_an_admin_says_and_no_secret_is_shown(harness: Harness):
    """Roles by scope and own players; a scope that is not there, a name that is taken and an odd role are refused."""
    await invited(harness, "noor", sprint="moderator")
    shown = (await harness.get(f"{PEOPLE}/noor", admin(harness))).body
    assert ("noor", {"sprint": "moderator"}, [], False, False, None) == tuple(
        shown[name]
        for name in ("moderator", "grants", "players", "has_password", "second_factor", "disabled_at")
    )
    for body, refusal in (
        ({"name": "noor", "grants": {}}, (409, "state-conflict")),
        ({"name": "lena", "grants": {"nowhere": "viewer"}}, (422, "schema-violation")),
        ({"name": "lena", "grants": {"*": "king"}}, (422, "schema-violation")),
        ({"name": "Lena!", "grants": {}}, (422, "schema-violation")),
        ({"name": "lena", "grants": {}, "password": PASSWORD}, (422, "schema-violation")),
    ):
        assert refusal == told(await harness.post(PEOPLE, body, admin(harness)))
    changed = await put(harness, "noor", {"grants": {"*": "senior"}, "players": ["p1"]})
    assert ({"*": "senior"}, ["p1"]) == (changed.body["grants"], changed.body["players"])
    nowhere = await put(harness, "noor", {"grants": {"nowhere": "viewer"}})
    assert (422, "schema-violation") == told(nowhere)
    stale = await put(harness, "noor", {"grants": {}}, shown["etag"])
    assert (412, "precondition-failed") == told(stale)
    assert (404, "not-found") == told(await harness.get(f"{PEOPLE}/nobody", admin(harness)))


def test_every_name_that_is_taken_has_an_address():
    """No account is added that no route could change or disable afterwards."""
    names = [f"a{character}b" for character in map(chr, range(128))]
    taken = [name for name in names if is_taken(name)]
    assert {"a.b", "a-b", "a_b", "a7b"} < set(taken)
    assert taken == [name for name in taken if _PLAIN_PATH.fullmatch(f"{PEOPLE}/{name}/disable")]


def is_taken(name: str) -> bool:
    """Whether the API and the command line take this as the name of a new account."""
    try:
        NewModerator.model_validate({"name": name, "grants": {}})
    except ValidationError:
        return False
    return True


async def test_people_are_listed_in_pages(harness: Harness):
    """By name, with no gap and no repeat, and to admins alone."""
    for name in ("noor", "lena", "juri"):
        await invited(harness, name)
    names: list[str] = []
    cursor = ""
    while True:
        page = (await harness.get(f"{PEOPLE}?limit=2{cursor}", admin(harness))).body
        names += [each["moderator"] for each in page["moderators"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert ["juri", "lena", "noor", "root"] == names


async def test_M01_a_role_that_is_taken_away_is_gone_with_the_next_request(harness: Harness):
    """A session and a token have what the account is granted now, and not what it was when they began."""
    for name in ("lena", "noor"):
        await with_password(harness, name, **{"*": "admin"})
    browser = await logged_in(harness)
    token = (
        await browser.ask("POST", "/tokens", {"label": "all", "ability": "administer", "password": PASSWORD})
    ).body["text"]
    assert (200, 200) == (
        (await browser.ask("GET", "/people")).status,
        (await harness.get(PEOPLE, token)).status,
    )
    assert 200 == (await put(harness, "noor", {"grants": {"sprint": "viewer"}})).status
    for answer in (await browser.ask("GET", "/people"), await harness.get(PEOPLE, token)):
        assert (404, "not-found") == told(answer)
    assert {"sprint": "viewer"} == (await harness.get("/v1/moderation/session", token)).body["grants"]


async def test_the_last_admin_is_told_so(harness: Harness):
    """Who alone may change accounts can neither disable themselves nor give that up."""
    for verb, body in (("disable", {}),):
        answer = await harness.post(f"{PEOPLE}/root/{verb}", body, admin(harness))
        assert (409, "state-conflict") == told(answer)
    answer = await put(harness, "root", {"grants": {"*": "senior"}})
    assert (409, "state-conflict") == told(answer)
    assert "last admin" in answer.body["detail"]


@pytest.mark.parametrize("verb", ["invite", "reset"])
async def test_M13_an_admin_sets_no_password_of_their_own_by_an_invitation(harness: Harness, verb: str):
    """That would take neither the old password nor a code; another admin may do it."""
    for name in ("noor", "lena"):
        await with_password(harness, name, **{"*": "admin"})
    browser, other = await logged_in(harness), await logged_in(harness, "lena")
    etag = (await browser.ask("GET", "/people/noor")).headers["ETag"]
    own = await browser.ask("POST", f"/people/noor/{verb}", {}, **{"If-Match": etag})
    assert (409, "state-conflict") == told(own)
    assert 200 == (await browser.ask("GET", "/session")).status
    assert 201 == (await other.ask("POST", f"/people/noor/{verb}", {}, **{"If-Match": etag})).status


async def test_a_token_has_what_it_was_issued_for_and_no_more(harness: Harness):
    """An ability, scopes of one's own, and a time; and it issues no other token."""
    await with_password(harness, "noor", sprint="senior")
    browser = await logged_in(harness)
    body = {"label": "reads", "ability": "read", "scopes": ["sprint"], "days": 1, "password": PASSWORD}
    issued = (await browser.ask("POST", "/tokens", body)).body
    text = issued["text"]
    assert text.startswith("sgm_")
    assert {"sprint": "viewer"} == (await harness.get("/v1/moderation/session", text)).body["grants"]
    assert 200 == (await harness.get("/v1/moderation/trail?board=sprint", text)).status
    refused = await browser.ask("POST", "/tokens", body | {"scopes": ["vault"]})
    assert (403, "scope-forbidden") == told(refused)
    assert (401, "token-invalid") == told(await harness.post("/v1/moderation/tokens", body, text))
    [listed] = (await harness.get("/v1/moderation/tokens", text)).body["tokens"]
    assert listed == {name: value for name, value in issued.items() if name != "text"}
    harness.clock.shift(24 * HOUR_S)
    assert (401, "token-invalid") == told(await harness.get("/v1/moderation/session", text))


@pytest.mark.parametrize("label", ["a\nb", "\x1b[2Ja", "\u202eabc", "a\u200bb", "\u2066a", "\u3164", " "])
async def test_a_label_is_shown_as_it_is(harness: Harness, label: str):
    """Nothing in it moves, hides or turns what stands beside it, as in names of players."""
    await with_password(harness)
    browser = await logged_in(harness)
    refused = await browser.ask("POST", "/tokens", {"label": label, "password": PASSWORD})
    assert ((422, "schema-violation"), "label") == (told(refused), refused.body["detail"].partition(":")[0])


async def test_of_two_credentials_none_is_taken(harness: Harness):
    """Neither the first nor the last, of moderators and of players, so that nobody in between reads another."""
    player, token = await harness.new_player("Ada"), harness.moderator()
    for path, first, last in (
        ("/v1/moderation/queue", token, player),
        ("/v1/moderation/queue", player, token),
        ("/v1/moderation/queue", token, token),
        ("/v1/friends", player, player),
    ):
        headers = [("Authorization", f"Bearer {each}") for each in (first, last)]
        async with harness.session.get(harness.url + path, headers=headers) as response:
            assert (401, "expected the field once") == (
                response.status,
                (await response.json())["detail"].rpartition(": ")[2],
            )


async def test_M13_a_token_takes_the_password_and_ends_with_it(harness: Harness):
    """Who found a session leaves no token behind: neither without the password, nor after it was replaced."""
    await with_password(harness)
    browser = await logged_in(harness)
    for shown, refusal in ((None, (422, "schema-violation")), ("other otter 8", (401, "login-failed"))):
        body = {"label": "a program"} | ({"password": shown} if shown else {})
        assert refusal == told(await browser.ask("POST", "/tokens", body))
    issued = await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})
    text = issued.body["text"]
    assert 200 == (await by_token(harness, "GET", "/session", text)).status
    change = {"password": PASSWORD, "new": "other otter 8"}
    assert 200 == (await browser.ask("PUT", "/password", change)).status
    assert (401, "token-invalid") == told(await by_token(harness, "GET", "/session", text))


async def test_M13_a_token_ends_nothing_but_itself(harness: Harness):
    """Who found the token of a program ends no session of its owner, and revokes none of their tokens."""
    await with_password(harness)
    browser = await logged_in(harness)
    first, second = [
        (
            await browser.ask(
                "POST", "/tokens", {"label": label, "ability": "overrule", "password": PASSWORD}
            )
        ).body
        for label in ("first", "second")
    ]
    [session] = (await browser.ask("GET", "/sessions")).body["sessions"]
    for path, refusal in (
        ("/sessions", (401, "token-invalid")),
        (f"/sessions/{session['session']}", (401, "token-invalid")),
        (f"/tokens/{second['token']}", (403, "scope-forbidden")),
        ("/tokens/nothing", (403, "scope-forbidden")),
    ):
        assert (path, refusal) == (path, told(await by_token(harness, "DELETE", path, first["text"])))
    assert 200 == (await browser.ask("GET", "/session")).status
    assert 200 == (await by_token(harness, "GET", "/session", second["text"])).status
    assert 200 == (await by_token(harness, "DELETE", f"/tokens/{first['token']}", first["text"])).status
    assert 401 == (await by_token(harness, "GET", "/session", first["text"])).status


async def by_token(harness: Harness, method: str, path: str, token: str) -> Answer:
    """The answer to a program."""
    headers = {"Authorization": f"Bearer {token}"}
    return await harness.send(Request(method, f"/v1/moderation{path}", b"", headers))


async def with_second_factor(harness: Harness) -> tuple[Browser, bytes]:
    """A moderator with a second factor, in a session, and its secret."""
    await with_password(harness)
    browser = await logged_in(harness)
    assert (401, "login-failed") == told(await browser.ask("POST", "/second-factor", {"password": "wrong"}))
    begun = (await browser.ask("POST", "/second-factor", {"password": PASSWORD})).body
    secret = b32decode(begun["secret"])
    assert f"secret={begun['secret']}" in begun["address"]
    assert 201 == (await attempt(harness, "noor")).status, "it has no effect before it is confirmed"
    assert (401, "login-failed") == told(
        await browser.ask("POST", "/second-factor/confirm", {"code": "000000"})
    )
    code = {"code": code_at(secret, harness.clock())}
    assert {"second_factor": True} == (await browser.ask("POST", "/second-factor/confirm", code)).body
    return browser, secret


async def test_M13_a_code_is_taken_once(harness: Harness):
    """A login takes a code of now that was not taken before: not the one that confirmed, not one twice, not an old one."""
    browser, secret = await with_second_factor(harness)
    assert (401, "second-factor-required") == told(await attempt(harness, "noor"))
    assert (401, "login-failed") == told(await attempt(harness, "noor", "wrong password"))
    used = code_at(secret, harness.clock())
    assert (401, "login-failed") == told(await attempt(harness, "noor", code=used))
    harness.clock.shift(60)
    code = code_at(secret, harness.clock())
    assert 201 == (await attempt(harness, "noor", code=f"{code[:3]} {code[3:]}")).status
    for again in (
        code,
        code_at(secret, harness.clock() - 30_000),
        "12345",
        "1234567",
        "\u0661\u0662\u0663456",
    ):
        assert (401, "login-failed") == told(await attempt(harness, "noor", code=again))
    assert (409, "state-conflict") == told(
        await browser.ask("POST", "/second-factor", {"password": PASSWORD})
    )
    assert 200 == (await browser.ask("POST", "/second-factor/remove", {"password": PASSWORD})).status
    assert 201 == (await attempt(harness, "noor")).status


async def test_M13_the_ledger_alone_gives_no_codes(harness: Harness):
    """The stored secret is of use under the master key, and for its own account."""
    _, secret = await with_second_factor(harness)
    own = harness.edge.logins.second_factors
    sealed, now_ms = own.sealed(secret, "noor"), harness.clock()
    code = code_at(secret, now_ms)
    assert secret not in sealed
    assert own.step_of(code, sealed, "noor", now_ms=now_ms) == now_ms // 30_000
    assert own.step_of(code, sealed, "lena", now_ms=now_ms) is None
    assert SecondFactors(bytes(32)).step_of(code, sealed, "noor", now_ms=now_ms) is None


def test_M13_a_code_may_be_one_time_step_off():
    """For a slow network or clock; one that somebody saw a minute ago is of no use."""
    own, secret, now_ms = SecondFactors(bytes(32)), bytes(range(20)), 1_700_000_000_000
    sealed = own.sealed(secret, "noor")
    steps = range(-2, 3)
    codes = [code_at(secret, now_ms + step * 30_000) for step in steps]
    taken = [own.step_of(code, sealed, "noor", now_ms=now_ms) is not None for code in codes]
    assert [False, True, True, True, False] == taken


async def test_an_admin_lets_somebody_in_who_lost_everything(harness: Harness):
    """A reset ends sessions, tokens, password and second factor; the new invitation sets a password."""
    browser, _ = await with_second_factor(harness)
    token = (await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})).body["text"]
    made = (await harness.post(f"{PEOPLE}/noor/reset", {}, admin(harness))).body
    assert (401, 401) == (
        (await browser.ask("GET", "/session")).status, (await harness.get("/v1/moderation/session", token)).status
    )  # fmt: skip
    assert (401, "login-failed") == told(await attempt(harness, "noor"))
    path = f"/v1/moderation/invitations/{made['page'].rpartition('/')[2]}"
    assert 200 == (await harness.post(path, {"password": "other otter 8"})).status
    assert 201 == (await attempt(harness, "noor", "other otter 8")).status


async def test_an_admin_sees_and_ends_what_somebody_has_open(harness: Harness):
    """Sessions and tokens of an account, without their texts; both end at once."""
    await with_password(harness)
    browser = await logged_in(harness)
    issued = (await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})).body
    sessions = (await harness.get(f"{PEOPLE}/noor/sessions", admin(harness))).body["sessions"]
    assert [False] == [each["is_this"] for each in sessions]
    listed = await harness.get(f"{PEOPLE}/noor/tokens", admin(harness))
    assert [issued["token"]] == [each["token"] for each in listed.body["tokens"]]
    assert issued["text"].encode() not in listed.raw
    headers = {"Authorization": f"Bearer {admin(harness)}"}
    for path in (f"{PEOPLE}/noor/tokens/{issued['token']}", f"{PEOPLE}/noor/sessions"):
        async with harness.session.delete(harness.url + path, headers=headers) as response:
            assert 200 == response.status
    assert 401 == (await browser.ask("GET", "/session")).status
    assert 401 == (await harness.get("/v1/moderation/session", issued["text"])).status


@pytest.mark.parametrize("role", [ModeratorRole.VIEWER, ModeratorRole.SENIOR])
async def test_M01_nobody_but_an_admin_makes_an_admin(harness: Harness, role: ModeratorRole):
    """Not a senior of everything, and not an admin of one board alone."""
    body = {"name": "mallory", "grants": {"*": "admin"}}
    for token in (
        harness.moderator(name="low", role=role),
        harness.moderator("sprint", name="far", role=ModeratorRole.ADMIN),
    ):
        answer = await harness.post(PEOPLE, body, token)
        assert answer.status in {403, 404}
    assert 404 == (await harness.get(f"{PEOPLE}/mallory", admin(harness))).status
