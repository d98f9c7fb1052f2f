"""Logins through an identity provider: who gets in, and what of a false provider, browser or account does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from html import unescape
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import OKPKey, RSAKey
from structlog.testing import capture_logs

from gateway.edge.auth import provider_documents
from gateway.edge.auth.login_attempts import ATTEMPT_MS, LoginAttempt
from gateway.edge.auth.moderator_credentials import COOKIE
from gateway.edge.auth.provider_documents import AGAIN_S
from gateway.edge.console.provider_page import ATTEMPT_COOKIE
from gateway.edge.moderation.logins import ADDRESS_RATE
from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import ProviderIdentity
from gateway.ledger.moderation.accounts import account_of, add_account, disable_account
from gateway.runtime.settings import Settings
from tests.support.clock import ShiftedClock
from tests.support.harness import Answer, Harness, running_harness
from tests.support.identity_provider import (
    CLIENT_ID,
    SmallProvider,
    client_settings,
    ec_key,
    small_provider,
)
from tests.support.logins import Browser, admin, attempt, invited

SIGN_IN = "/console/sign-in/provider"


@pytest.fixture
async def provider(clock: ShiftedClock) -> AsyncIterator[SmallProvider]:
    async with small_provider(lambda: clock() / 1000) as running:
        yield running


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def desk(settings: Settings, provider: SmallProvider, clock: ShiftedClock) -> AsyncIterator[Harness]:
    """An edge with the provider, and noor, who logs in through it."""
    async with running_harness(settings.model_copy(update=client_settings(provider)), clock) as harness:
        identity = ProviderIdentity(provider.url, provider.subject)
        act = Act("operator:test", harness.clock())
        await harness.edge.ledger.write(add_account("noor", {"*": "moderator"}, act, identity=identity))
        yield harness


class Visitor:
    """A browser with its cookies, which follows no redirect by itself."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, path: str, form: Any = None, **headers: str) -> Answer:
        if method == "POST":
            headers = {
                "Origin": self.harness.url,
                "Content-Type": "application/x-www-form-urlencoded",
            } | headers
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        async with self.harness.session.request(
            method, self.harness.url + path, data=urlencode(form or {}) if method == "POST" else None,
            headers=headers | ({"Cookie": cookies} if cookies else {}), allow_redirects=False,
        ) as answer:  # fmt: skip
            for field in answer.headers.getall("Set-Cookie", ()):
                for name, cookie in SimpleCookie(field).items():
                    self.cookies[name] = cookie.value
                    if cookie["max-age"] == "0":
                        del self.cookies[name]
            return Answer(answer.status, answer.headers, await answer.read())

    async def leave(self, path: str = SIGN_IN, **form: str) -> str:
        """The address at the provider to which a form leads."""
        answer = await self.ask("POST", path, form)
        assert 200 == answer.status, answer.raw
        return where(answer)

    async def come_back(self, address: str) -> Answer:
        assert address.startswith(self.harness.url)
        parts = urlsplit(address)
        return await self.ask("GET", f"{parts.path}?{parts.query}")

    async def log_in(self, provider: SmallProvider, **form: str) -> Answer:
        return await self.come_back(provider.logs_in(await self.leave(**form)))

    @property
    def is_in(self) -> bool:
        return COOKIE in self.cookies

    async def as_program(self) -> Browser:
        """The same session, as pages write with it."""
        headers = {"Cookie": f"{COOKIE}={self.cookies[COOKIE]}"}
        async with self.harness.session.get(
            f"{self.harness.url}/v1/moderation/session", headers=headers
        ) as answer:
            return Browser(self.harness, self.cookies[COOKIE], (await answer.json())["csrf"])


def where(answer: Answer) -> str:
    """Where a page leads by itself."""
    [address] = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', answer.raw.decode())
    return unescape(address)


def fault_in(answer: Answer) -> str:
    return unescape((re.findall(r'role="alert"[^>]*>([^<]+)<', answer.raw.decode()) or [""])[0])


def causes(lines: Any) -> list[tuple[str, str]]:
    return [(line["cause"], line["fault"]) for line in lines if line["event"] == "login_refused"]


async def test_a_moderator_logs_in_through_the_provider(desk: Harness, provider: SmallProvider):
    """To the page where they were going, with a session like any other; a disabled account does not."""
    visitor = Visitor(desk)
    page = await visitor.ask("GET", "/console/sign-in?next=/console/people")
    assert b"Sign in with Keyhouse" in page.raw
    assert "form-action 'self'" in page.headers["Content-Security-Policy"]
    answer = await visitor.log_in(provider, next="/console/people")
    assert (200, "/console/people") == (answer.status, where(answer))
    assert {COOKIE} == set(visitor.cookies), "the attempt is over"
    own = [field for field in answer.headers.getall("Set-Cookie") if field.startswith(f"{COOKIE}=")]  # type: ignore[attr-defined]
    for part in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"):
        assert part in own[0]
    who = (await (await visitor.as_program()).ask("GET", "/session")).body
    assert ("noor", True, False) == (who["moderator"], who["has_identity"], who["second_factor"])
    assert {"document": 1, "keys": 1, "token": 1} == provider.counts
    await desk.edge.ledger.write(disable_account("noor", Act("operator:test", desk.clock())))
    assert 303 == (await visitor.ask("GET", "/console/queue")).status
    with capture_logs() as lines:
        refused = await visitor.log_in(provider)
    assert (401, [("disabled", "")]) == (refused.status, causes(lines))
    assert "Your account is disabled" == fault_in(refused)


async def test_M13_no_answer_but_the_one_that_was_asked_for_logs_anybody_in(
    desk: Harness, provider: SmallProvider
):
    """Login CSRF, replays and mix-ups: the state is of this browser, the code is taken once, the sender is the provider."""
    victim, attacker = Visitor(desk), Visitor(desk)
    stolen = provider.logs_in(await attacker.leave())
    with capture_logs() as lines:
        assert 401 == (await victim.come_back(stolen)).status, "a browser that began nothing"
        await victim.leave()
        assert 401 == (await victim.come_back(stolen)).status, "an answer to another browser"
    assert [("provider", "cookie"), ("provider", "state")] == causes(lines)
    assert "token" not in provider.counts, "no code of a foreign answer is used"
    for changed, fault in (
        ({"state": ""}, "state"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"code": ""}, "code"),
        ({"code": "guessed"}, "code"),
        ({"code": "gu\u00fcessed"}, "code"),
        ({"error": "access_denied"}, "denied"),
    ):
        with capture_logs() as lines:
            answer = await victim.come_back(provider.logs_in(await victim.leave(), **changed))
        assert (401, [("provider", fault)]) == (answer.status, causes(lines))
        assert not victim.is_in
    unnamed = provider.logs_in(await victim.leave()).partition("&iss=")[0]
    assert 401 == (await victim.come_back(unnamed)).status, "a provider that names itself always does"
    address = provider.logs_in(await victim.leave())
    kept = victim.cookies[ATTEMPT_COOKIE]
    assert 200 == (await victim.come_back(address)).status
    assert [COOKIE] == list(victim.cookies)
    del victim.cookies[COOKIE]
    victim.cookies[ATTEMPT_COOKIE] = kept
    assert (401, False) == ((await victim.come_back(address)).status, victim.is_in), "a code twice"
    late = provider.logs_in(await victim.leave())
    desk.clock.shift(ATTEMPT_MS / 1000)
    assert (401, False) == ((await victim.come_back(late)).status, victim.is_in)


@dataclass(frozen=True)
class EarlierAttempt:
    """An attempt as another version of the server has it."""

    state: str
    theme: str = "dark"


async def test_a_login_that_an_edge_of_another_version_began_is_begun_again(
    desk: Harness, provider: SmallProvider
):
    """While edges are replaced, somebody may come back to another one: they are told so, and it is no fault of ours."""
    visitor, attempts = Visitor(desk), desk.edge.logins.attempts
    address = provider.logs_in(await visitor.leave())
    attempt = attempts.opened(visitor.cookies[ATTEMPT_COOKIE], now_ms=desk.clock())
    assert isinstance(attempt, LoginAttempt)
    of_others = (
        EarlierAttempt(attempt.state),
        replace(attempt, began_at_ms=str(attempt.began_at_ms)),
        replace(attempt, state=None),
    )  # type: ignore[arg-type]
    for other in of_others:
        visitor.cookies[ATTEMPT_COOKIE] = attempts.sealed(other)  # type: ignore[arg-type]
        with capture_logs() as lines:
            answer = await visitor.come_back(address)
        assert (401, [("provider", "cookie")]) == (answer.status, causes(lines))
        assert "begin it again" in fault_in(answer)
    assert 200 == (await visitor.log_in(provider)).status


async def test_M13_a_token_of_the_provider_has_to_hold_in_every_part(
    desk: Harness, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch
):
    """Issuer, audience, nonce, times and subject; signed by a key of the provider, with an algorithm for public keys."""
    monkeypatch.setattr(desk.edge.logins._by_address, "wait_ms", no_limit)
    visitor, now_s = Visitor(desk), int(desk.clock() / 1000)
    false: list[tuple[str, dict[str, Any]]] = [
        *[(name, {"lies": {name: value}}) for name, value in (
            ("iss", "https://evil.example"), ("aud", "another client"), ("aud", ["another"]), ("aud", None),
            ("nonce", "another"), ("nonce", None), ("exp", now_s - 40), ("exp", None), ("iat", now_s + 90),
            ("iat", None), ("sub", None), ("sub", ""), ("sub", 7), ("sub", "x" * 256), ("sub", "n\u00f6"),
            ("azp", "another client"), ("auth_time", float("inf")),
        )],
        ("azp", {"lies": {"aud": [CLIENT_ID, "another"]}}),
        ("alg", {"algorithm": "none"}),
        ("alg", {"algorithm": "HS256"}),
        ("signature", {"signing": ec_key("one")}),
        ("key", {"signing": ec_key("unknown")}),
    ]  # fmt: skip
    true = {"lies": {}, "algorithm": "ES256", "signing": None}
    for fault, lie in false:
        vars(provider).update(true | lie)
        with capture_logs() as lines:
            answer = await visitor.log_in(provider)
        told = [(cause, named.split(",")[0]) for cause, named in causes(lines)]
        assert (lie, 401, [("provider", fault)], False) == (lie, answer.status, told, visitor.is_in)
    vars(provider).update(true)
    for honest in (
        {"aud": [CLIENT_ID]},
        {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID},
        {"auth_time": now_s},
    ):
        provider.lies = honest
        assert 200 == (await visitor.log_in(provider)).status


async def test_M13_who_is_not_bound_to_an_account_is_nobody(desk: Harness, provider: SmallProvider):
    """Whoever else the provider knows: no account is made for them, and none of the same name is opened."""
    await desk.edge.ledger.write(add_account("lena", {"*": "admin"}, Act("operator:test", desk.clock())))
    visitor = Visitor(desk)
    provider.subject = "lena"
    provider.lies = {"preferred_username": "lena", "email": "lena@example.org", "email_verified": True}
    with capture_logs() as lines:
        answer = await visitor.log_in(provider)
    assert (401, False, [("unknown", "")]) == (answer.status, visitor.is_in, causes(lines))
    assert "Nobody invited" in fault_in(answer)


async def test_an_invitation_is_accepted_through_the_provider(desk: Harness, provider: SmallProvider):
    """It binds the account to the person for good, once, and to no second account; a password then opens nothing."""
    token = await invited(desk, "lena")
    page, visitor = f"/console/invitations/{token}", Visitor(desk)
    assert b"Sign in with Keyhouse" in (await visitor.ask("GET", page)).raw
    taken = await visitor.come_back(provider.logs_in(await visitor.leave(f"{page}/provider")))
    assert (409, False) == (taken.status, visitor.is_in), "noor has this identity"
    provider.subject = "lena of the provider"
    assert "/console/queue" == where(
        await visitor.come_back(provider.logs_in(await visitor.leave(f"{page}/provider")))
    )
    assert "lena" == (await (await visitor.as_program()).ask("GET", "/session")).body["moderator"]
    assert 404 == (await visitor.ask("POST", f"{page}/provider")).status
    assert 200 == (await Visitor(desk).log_in(provider)).status
    lena = await desk.edge.ledger.read(account_of("lena"))
    assert lena is not None
    assert (None, ProviderIdentity(provider.url, provider.subject)) == (lena.password, lena.identity)
    assert 401 == (await attempt(desk, "lena")).status
    reset = await desk.post("/v1/moderation/people/lena/reset", {}, admin(desk))
    assert 201 == reset.status
    assert 401 == (await Visitor(desk).log_in(provider)).status, "a reset unbinds it"


async def test_M13_a_secret_action_takes_a_fresh_proof_of_who_has_no_password(
    desk: Harness, provider: SmallProvider
):
    """The provider has to have asked lately, and says so; what is about passwords and codes is theirs alone."""
    visitor = Visitor(desk)
    await visitor.log_in(provider)
    browser, new = await visitor.as_program(), {"label": "a program"}
    assert 401 == (await browser.ask("POST", "/tokens", new)).status, "the provider did not say when"
    page = await visitor.ask("GET", "/console/account")
    assert (True, False) == (b"Sign in again" in page.raw, b"New token" in page.raw)
    provider.lies = {"auth_time": int(desk.clock() / 1000) - 3600}
    address = await visitor.leave(again="true", next="/console/account")
    assert "prompt=login&max_age=0" in address
    assert 401 == (await visitor.come_back(provider.logs_in(address))).status, "it asked nobody again"
    provider.lies = {}
    assert "/console/account" == where(await visitor.log_in(provider, again="true", next="/console/account"))
    browser = await visitor.as_program()
    assert 201 == (await browser.ask("POST", "/tokens", new)).status
    assert b"New token" in (await visitor.ask("GET", "/console/account")).raw
    for method, path, body in (
        ("PUT", "/password", {"password": "", "new": "other otter 8"}),
        ("POST", "/second-factor", {"password": ""}),
        ("POST", "/second-factor/remove", {"password": ""}),
    ):
        answer = await browser.ask(method, path, body)
        assert (path, 409, "state-conflict") == (path, answer.status, answer.problem)
    desk.clock.shift(601)
    assert 401 == (await browser.ask("POST", "/tokens", new)).status


@pytest.mark.parametrize(
    ("algorithm", "is_taken"), [("RS256", True), ("EdDSA", True), ("short RS256", False)]
)
async def test_a_provider_signs_as_providers_do(
    desk: Harness, provider: SmallProvider, algorithm: str, is_taken: bool
):
    """Most with RSA, whose keys are long enough."""
    provider.algorithm = algorithm.rpartition(" ")[2]
    bits = 1024 if "short" in algorithm else 2048
    provider.key = (
        OKPKey.generate_key("Ed25519", {"kid": "one"})
        if algorithm == "EdDSA"
        else RSAKey.import_key(rsa.generate_private_key(65537, bits), {"kid": "one"})
    )
    visitor = Visitor(desk)
    with capture_logs() as lines:
        answer = await visitor.log_in(provider)
    assert (is_taken, is_taken) == (answer.status == 200, visitor.is_in), causes(lines)


async def test_a_key_that_the_provider_changes_is_read_once(
    desk: Harness, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch
):
    """A token under a new key has the keys read again, but tokens under invented keys do not each."""
    visitor = Visitor(desk)
    assert 200 == (await visitor.log_in(provider)).status
    provider.rotate()
    monkeypatch.setattr(provider_documents, "AGAIN_S", 0.0)
    assert (200, 2) == ((await visitor.log_in(provider)).status, provider.counts["keys"])
    monkeypatch.setattr(provider_documents, "AGAIN_S", AGAIN_S)
    for kid in ("a", "b", "c"):
        provider.signing = ec_key(kid)
        assert 401 == (await visitor.log_in(provider)).status
    assert 2 == provider.counts["keys"]


@pytest.mark.parametrize(
    "fault",
    ["silent", "failing", "no object", "too long", "another issuer", "unsafe", "elsewhere", "at its limit"],
)
async def test_a_provider_that_does_not_answer_is_told_and_waited_for_briefly(
    desk: Harness, provider: SmallProvider, fault: str, monkeypatch: pytest.MonkeyPatch
):
    """With a page, and with no fault of ours; it is not asked again by everybody who comes in the next moments."""
    monkeypatch.setattr(provider_documents, "TIMEOUT_S", 0.2)
    visitor = Visitor(desk)
    if fault == "silent":
        provider.held = asyncio.Event()
    provider.document_lies = {
        "another issuer": {"issuer": "https://evil.example"},
        "unsafe": {"authorization_endpoint": "http://provider.example/authorize"},
        "elsewhere": {"token_endpoint": f"{provider.url}/nowhere"},
        "too long": {"padding": "x" * provider_documents.LONGEST},
    }.get(fault, {})
    if fault in {"failing", "no object"}:
        provider.token_answer = web.Response(status=503) if fault == "failing" else web.json_response([])
    with capture_logs() as lines:
        if fault == "at its limit":
            monkeypatch.setattr(provider_documents, "AT_ONCE", 0)
            answer = await visitor.ask("POST", SIGN_IN)
        elif fault in {"failing", "no object", "elsewhere"}:
            answer = await visitor.log_in(provider)
        else:
            async with asyncio.timeout(10):
                answer = await visitor.ask("POST", SIGN_IN)
            assert 503 == (await visitor.ask("POST", SIGN_IN)).status
            assert 1 == provider.counts["document"]
    assert (503, False, "10") == (answer.status, visitor.is_in, answer.headers.get("Retry-After"))
    assert "does not answer" in fault_in(answer)
    assert "unreached" == causes(lines)[0][0]


async def test_a_provider_that_says_nothing_of_how_to_call_it_is_called_as_by_default(
    desk: Harness, provider: SmallProvider
):
    """Also one that writes null where the specification has a list or nothing."""
    provider.document_lies = {"token_endpoint_auth_methods_supported": None}
    visitor = Visitor(desk)
    await visitor.log_in(provider)
    assert visitor.is_in


async def test_M06_a_login_begins_on_our_pages_and_ends_there(desk: Harness, provider: SmallProvider):
    """No page of another site begins one, and none is what somebody is sent to at the end."""
    visitor = Visitor(desk)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert 403 == (await visitor.ask("POST", SIGN_IN, **headers)).status
    assert 401 == (await visitor.ask("GET", SIGN_IN)).status
    for page in (
        "https://evil.example/",
        "//evil.example",
        "/console/../x",
        "javascript:alert(1)",
        "/arcade/",
    ):
        assert "/console/queue" == where(await visitor.log_in(provider, next=page))
    foreign = await visitor.ask("POST", SIGN_IN, Host="evil.example")
    assert 421 == foreign.status


async def test_passwords_can_be_switched_off(settings: Settings, provider: SmallProvider):
    """Then the provider is the only way in: no password opens a session, accepts an invitation or is changed."""
    own = {"oidc_issuer": provider.url, "oidc_client_id": CLIENT_ID, "password_logins": False}
    async with running_harness(settings.model_copy(update=own)) as harness:
        token = await invited(harness, "lena")
        assert (401, "login-failed") == told(await attempt(harness, "lena"))
        accepted = await harness.post(f"/v1/moderation/invitations/{token}", {"password": "hidden heron 7"})
        assert (401, "login-failed") == told(accepted)
        visitor = Visitor(harness)
        for path in ("/console/sign-in", f"/console/invitations/{token}"):
            page = await visitor.ask("GET", path)
            assert (True, False) == (
                b"Sign in with single sign-on" in page.raw,
                b'type="password"' in page.raw,
            )


async def test_without_a_provider_nobody_is_sent_to_one(harness: Harness):
    """Nor does the page offer it."""
    visitor = Visitor(harness)
    assert 404 == (await visitor.ask("POST", SIGN_IN)).status
    assert 404 == (await visitor.ask("GET", f"{SIGN_IN}?code=x&state=y")).status
    assert b"Sign in with" not in (await visitor.ask("GET", "/console/sign-in")).raw


async def test_M13_both_ends_of_a_login_count_for_their_address(desk: Harness, provider: SmallProvider):
    """Nobody has us call the provider as often as they like: not by beginnings, and not by answers."""
    visitor = Visitor(desk)
    answers = [await visitor.ask("POST", SIGN_IN) for _ in range(ADDRESS_RATE.burst + 2)]
    assert (200, 429) == (answers[0].status, answers[-1].status)
    answer = await visitor.come_back(provider.logs_in(where(answers[0])))
    assert (429, None) == (answer.status, provider.counts.get("token"))


async def no_limit(*_: object) -> int:
    return 0


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem
