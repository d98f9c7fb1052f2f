"""Sessions of moderators: how they begin, what they need, and how they end (ASVS V6, V7)."""

from __future__ import annotations

import json
import unicodedata

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from gateway.edge.auth import own_pages, passwords
from gateway.edge.auth.moderator_secrets import digest_of
from gateway.edge.auth.passwords import Passwords, check_new_password
from gateway.edge.moderation.logins import ADDRESS_RATE
from gateway.edge.problems import Problem
from gateway.ledger.schema import events
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from tests.support.harness import Answer, Harness, Request
from tests.support.logins import PASSWORD, admin, attempt, cookie_of, invited, logged_in, with_password

HOUR_S = 3600
LOG = Query(select(events.c.actor, events.c.reason, events.c.detail).order_by(events.c.seq))
REFUSED = (401, "token-invalid")


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


async def test_M13_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(harness: Harness):
    """`__Host-`, Secure, HttpOnly, SameSite=Strict, the whole path, no domain; and each login has another."""
    name = await with_password(harness)
    first, second = [await attempt(harness, name) for _ in range(2)]
    cookie = cookie_of(first)
    assert ("__Host-scoregate", "/", "", "Strict", True, True) == (
        cookie.key, cookie["path"], cookie["domain"], cookie["samesite"], cookie["secure"], cookie["httponly"]
    )  # fmt: skip
    assert cookie.value != cookie_of(second).value
    assert 43 == len(cookie.value)
    browser = await logged_in(harness)
    who = (await browser.ask("GET", "/session")).body
    assert (name, "session", {"*": "senior"}, browser.csrf) == (
        who["moderator"], who["by"], who["grants"], who["csrf"]
    )  # fmt: skip


async def test_M13_a_cookie_from_before_the_login_is_nobodys(harness: Harness):
    """What somebody planted in the browser is no session, before the login and after it."""
    name = await with_password(harness)
    planted = "A" * 43
    answer = await attempt(harness, name, Cookie=f"__Host-scoregate={planted}")
    assert 201 == answer.status
    assert planted != cookie_of(answer).value
    browser = await logged_in(harness)
    browser.cookie = planted
    assert REFUSED == told(await browser.ask("GET", "/session"))


async def test_M13_a_wrong_password_says_no_more_than_an_unknown_name(harness: Harness):
    """Unknown, wrong, disabled and not yet invited are one answer, and each costs a hash."""
    name = await with_password(harness)
    await invited(harness, "lena")
    for who, password in ((name, "another one 8"), ("nobody", PASSWORD), ("lena", ""), ("../", PASSWORD)):
        assert (401, "login-failed") == told(await attempt(harness, who, password))
    assert 201 == (await attempt(harness, name.upper())).status


async def test_M13_an_unknown_name_costs_as_much_work(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """A password is compared with a hash of the same cost, whether there is an account or none."""
    name = await with_password(harness)
    compared: list[str] = []
    compare = passwords._is_hash_of

    def noting(password: bytes, stored: str) -> bool:
        compared.append(stored.rpartition("$")[0].rpartition("$")[0])
        return compare(password, stored)

    monkeypatch.setattr(passwords, "_is_hash_of", noting)
    for who in (name, "nobody"):
        await attempt(harness, who, "another one 8")
    assert ["$argon2id$v=19$m=19456,t=2,p=1"] * 2 == compared


async def test_M13_logins_are_limited_by_account_and_by_address(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """After twenty attempts on an account nobody tries there, and after thirty from an address not even elsewhere."""
    name = await with_password(harness)

    async def no_work(*_: object) -> bool:
        return False

    monkeypatch.setattr(harness.edge.logins.passwords, "are_equal", no_work)
    answers = [await attempt(harness, name, "wrong") for _ in range(22)]
    assert [(401, "login-failed")] * 20 == [told(answer) for answer in answers[:20]]
    assert (429, "quota-exceeded") == told(answers[-1])
    assert "login-account" in answers[-1].body["detail"]
    assert "Retry-After" in answers[-1].headers
    elsewhere = [await attempt(harness, f"other{n}", "wrong") for n in range(12)]
    assert "login-address" in elsewhere[-1].body["detail"]


async def test_M11_a_disabled_moderator_is_out_with_the_next_request(harness: Harness):
    """Their session and their token answer 401 at once, and stay ended when the account is enabled again."""
    name = await with_password(harness)
    browser = await logged_in(harness)
    token = (await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})).body["text"]
    assert 200 == (await harness.get("/v1/moderation/session", token)).status
    path = f"/v1/moderation/people/{name}"
    for verb in ("disable", "enable"):
        assert 200 == (await harness.post(f"{path}/{verb}", {}, admin(harness))).status
        assert REFUSED == told(await browser.ask("GET", "/session"))
        assert REFUSED == told(await harness.get("/v1/moderation/session", token))
    assert 201 == (await attempt(harness, name)).status


async def test_M11_a_session_that_was_ended_is_out_with_the_next_request(harness: Harness):
    """By logging out, from another browser, by an admin, and by another password."""
    name = await with_password(harness)
    stays = await logged_in(harness)
    for n in range(3):
        browser = await logged_in(harness)
        listed = (await browser.ask("GET", "/sessions")).body["sessions"]
        [own] = [each["session"] for each in listed if each["is_this"]]
        if n == 0:
            ended = await browser.ask("DELETE", "/session")
            assert "" == cookie_of(ended).value
        elif n == 1:
            ended = await stays.ask("DELETE", f"/sessions/{own}")
        else:
            assert (
                200
                == (
                    await stays.ask("PUT", "/password", {"password": PASSWORD, "new": "other otter 8"})
                ).status
            )
        assert 200 == ended.status
        assert REFUSED == told(await browser.ask("GET", "/session"))
    assert REFUSED == told(await stays.ask("GET", "/session"))
    assert 201 == (await attempt(harness, name, "other otter 8")).status


async def test_M13_a_session_ends_by_itself(harness: Harness):
    """Twelve hours after it was used last, and a week after it began however much it is used; then no list has it."""
    await with_password(harness)
    idle, busy = await logged_in(harness), await logged_in(harness)
    for _ in range(15):
        harness.clock.shift(11 * HOUR_S)
        assert 200 == (await busy.ask("GET", "/session")).status
    assert REFUSED == told(await idle.ask("GET", "/session"))
    listed = (await busy.ask("GET", "/sessions")).body["sessions"]
    assert [True] == [each["is_this"] for each in listed]
    harness.clock.shift(4 * HOUR_S)
    assert REFUSED == told(await busy.ask("GET", "/session"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": None, "Sec-Fetch-Site": None},
        {"X-Scoregate-Csrf": None},
        {"X-Scoregate-Csrf": "A" * 43},
    ],
)
async def test_M06_a_write_of_another_site_does_nothing(harness: Harness, headers: dict[str, str | None]):
    """Though the browser sent the cookie; a page of ours with the session's token does it."""
    await with_password(harness)
    browser = await logged_in(harness)
    body = {"label": "a program", "password": PASSWORD}
    assert (403, "csrf") == told(await browser.ask("POST", "/tokens", body, **headers))
    assert [] == (await browser.ask("GET", "/tokens")).body["tokens"]
    assert 201 == (await browser.ask("POST", "/tokens", body)).status


async def test_M06_no_other_site_logs_anybody_in(harness: Harness):
    """A login from a foreign page is refused, and one over plain HTTP whose cookie no browser would keep."""
    name = await with_password(harness)
    assert (403, "csrf") == told(await attempt(harness, name, Origin="https://evil.example"))
    assert 201 == (await attempt(harness, name, Origin=harness.url)).status


async def test_M06_no_other_site_sets_a_password(harness: Harness):
    """Not even with an invitation: its page has to be ours."""
    path = f"/v1/moderation/invitations/{await invited(harness)}"
    body = json.dumps({"password": PASSWORD}).encode()
    foreign = {"Content-Type": "application/json", "Origin": "https://evil.example"}
    assert (403, "csrf") == told(await harness.send(Request("POST", path, body, foreign)))
    assert 200 == (await harness.post(path, {"password": PASSWORD})).status


async def test_M13_nobody_logs_in_where_a_browser_would_not_keep_the_session(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A page over plain HTTP that is not of this machine is told so, with the right password too."""
    name = await with_password(harness)
    monkeypatch.setattr(own_pages, "LOOPBACK", frozenset())
    assert (403, "insecure-origin") == told(await attempt(harness, name, Origin=harness.url))
    assert 201 == (await attempt(harness, name)).status  # a program keeps what it gets


async def test_M13_a_cookie_lives_as_long_as_its_session(harness: Harness):
    """In the browser as in the ledger: seven days."""
    cookie = cookie_of(await attempt(harness, await with_password(harness)))
    assert str(7 * 24 * HOUR_S) == cookie["max-age"]


async def test_a_session_that_is_not_ones_own_cannot_be_ended(harness: Harness):
    """Neither an unknown one nor that of somebody else."""
    names = [await with_password(harness, name) for name in ("noor", "lena")]
    mine, other = [await logged_in(harness, name) for name in names]
    [theirs] = (await other.ask("GET", "/sessions")).body["sessions"]
    for session in (theirs["session"], "unknown"):
        assert (404, "not-found") == told(await mine.ask("DELETE", f"/sessions/{session}"))
    assert 200 == (await other.ask("GET", "/session")).status


async def test_M13_looking_for_invitations_counts_for_the_address(harness: Harness):
    """Nobody tries as many as they like; one that was given is as long as any other secret."""
    path = "/v1/moderation/invitations/" + "A" * 43
    statuses = [(await harness.get(path)).status for _ in range(2 * ADDRESS_RATE.burst)]
    assert [404] * ADDRESS_RATE.burst == statuses[: ADDRESS_RATE.burst]
    assert 429 in statuses  # a slow machine gives some more back meanwhile


async def test_an_invitation_is_accepted_once_in_three_days(harness: Harness):
    """It says whom it is for; a weak password does not use it up; a later one, and time, end it."""
    token = await invited(harness)
    path = f"/v1/moderation/invitations/{token}"
    assert {"moderator": "noor"} == (await harness.get(path)).body
    for weak in ("short", "a" * 12, "noor noor noor", "x" * 257):
        assert (422, "schema-violation") == told(await harness.post(path, {"password": weak}))
    assert 200 == (await harness.post(path, {"password": PASSWORD})).status
    assert (404, "not-found") == told(await harness.post(path, {"password": "other otter 8"}))
    again = [
        (await harness.post("/v1/moderation/people/noor/invite", {}, admin(harness)))
        .body["page"]
        .rpartition("/")[2]
        for _ in range(2)
    ]
    first, second = [f"/v1/moderation/invitations/{each}" for each in again]
    assert (404, 200) == ((await harness.get(first)).status, (await harness.get(second)).status)
    harness.clock.shift(72 * HOUR_S)
    assert 404 == (await harness.post(second, {"password": "other otter 8"})).status
    assert 201 == (await attempt(harness, "noor")).status


@pytest.mark.parametrize(
    "password",
    [
        "passwordpassword",
        "P@ssw0rd2024!",
        "123456789012",
        "987654321098",
        "qwertyuiop12",
        "Asdfghjkl;12",
        "1q2w3e4r5t6y",
        "letmein-letmein",
        "abcdeabcdeabcde",
        "Welcome 2026!!",
        "correct horse battery staple",
        "Summer2025!Summer",
        "ｐａｓｓｗｏｒｄｐａｓｓｗｏｒｄ",  # noqa: RUF001 - wide letters, which a keyboard may send
    ],
)
def test_M13_a_password_that_many_have_is_refused(password: str):
    """Common words, rows of the keyboard, counting and repeats leave too little of it that has to be guessed."""
    with pytest.raises(Problem, match="common"):
        check_new_password(password, "noor")


@pytest.mark.parametrize(
    "password",
    [
        PASSWORD,
        "other otter 8",
        "kT4!vPz9#mQx",
        "grün und weit 52",
        "summer rain at dover",
        "東京の静かな夜明け前に歩く",
    ],
)
def test_a_password_that_nobody_else_has_is_taken(password: str):
    """A few unrelated words do, in any script, even if one of them is common."""
    check_new_password(password, "noor")


async def test_a_password_is_the_same_however_a_keyboard_composes_it():
    """One sends a letter with its dots, another the dots behind the letter; it is hashed and compared as one text."""
    composed = "grün und weit 52"
    for stored, typed in (
        (composed, unicodedata.normalize("NFD", composed)),
        (unicodedata.normalize("NFD", composed), composed),
    ):
        passwords = Passwords()
        kept = await passwords.hashed(stored)
        assert [True, True, False] == [
            await passwords.are_equal(each, kept) for each in (stored, typed, typed[:-1])
        ]


async def test_M09_changes_of_people_are_events_without_secrets(harness: Harness):
    """Each names who did what to whom; no token, password or digest is in the log, nor in the tables as it is."""
    with capture_logs() as lines:
        token = await invited(harness)
        await harness.post(f"/v1/moderation/invitations/{token}", {"password": PASSWORD})
        browser = await logged_in(harness)
        issued = (await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})).body
        await browser.ask("DELETE", f"/tokens/{issued['token']}")
        await browser.ask("DELETE", "/sessions")
    rows = await harness.edge.ledger.read(_told_of("noor"))
    assert [
        ("moderator:root", "moderator-added"),
        ("moderator:noor", "password-set"),
        ("moderator:noor", "token-issued"),
        ("moderator:noor", "token-revoked"),
        ("moderator:noor", "sessions-ended"),
    ] == [(actor, reason) for actor, reason, _ in rows]
    said = " ".join(detail for *_, detail in rows) + str(lines)
    for secret in (token, PASSWORD, browser.cookie, browser.csrf, issued["text"]):
        assert secret not in said
        assert digest_of(secret).hex() not in said


def _told_of(name: str) -> Operation[list[Row]]:
    async def work(tx: Transaction) -> list[Row]:
        return [row for row in await tx.rows(LOG) if f'"moderator":"{name}"' in row[2]]

    return work
