"""What operators hear of attempts on the accounts of moderators: each refusal is counted, and logged with its cause."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from gateway.edge.moderation.logins import LoginOutcome
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import disable_account
from gateway.runtime.log_sieve import PER_MINUTE, Sieve, SievedEvents
from gateway.runtime.telemetry import REPEATED
from tests.attacks.test_people import with_second_factor
from tests.support.harness import Harness
from tests.support.logins import PASSWORD, attempt, logged_in, with_password
from tests.support.metrics import counts


def refusals(lines: Any) -> list[tuple[str, str]]:
    """The causes of refused logins, with the accounts that are named."""
    return [(line["cause"], line["moderator"]) for line in lines if line["event"] == "login_refused"]


@pytest.mark.parametrize(
    ("name", "password", "cause", "account"),
    [("nobody", PASSWORD, "unknown", ""), ("noor", "wrong", "password", "noor"), ("noor", PASSWORD, "disabled", "noor")],
)  # fmt: skip
async def test_M13_a_refused_login_is_counted_and_logged_by_its_cause(
    harness: Harness, name: str, password: str, cause: str, account: str
):
    """A name is given only of an account that is there."""
    await with_password(harness)
    if cause == "disabled":
        await harness.edge.ledger.write(disable_account("noor", Act("operator:test", harness.clock())))
    with counts(1, "scoregate_logins_total", outcome=cause), capture_logs() as lines:
        assert 401 == (await attempt(harness, name, password)).status
    assert [(cause, account)] == refusals(lines)


async def test_M13_a_wrong_code_behind_the_right_password_is_told(harness: Harness):
    """Somebody knows the password: nothing is more urgent."""
    await with_second_factor(harness)
    with counts(1, "scoregate_logins_total", outcome="code"), capture_logs() as lines:
        assert 401 == (await attempt(harness, "noor", code="000000")).status
    assert [("code", "noor")] == refusals(lines)


async def test_M13_a_wrong_password_in_a_session_is_told(harness: Harness):
    """Who has taken a session tries to keep it."""
    await with_password(harness)
    with counts(1, "scoregate_logins_total", outcome="opened"):
        browser = await logged_in(harness)
    with counts(1, "scoregate_logins_total", outcome="password"), capture_logs() as lines:
        assert 401 == (await browser.ask("POST", "/second-factor", {"password": "wrong"})).status
    assert [("password", "noor")] == refusals(lines)


async def test_M13_a_wrong_code_at_the_first_confirmation_is_told(harness: Harness):
    """Who has taken a session, and saw no secret, tries codes."""
    await with_password(harness)
    browser = await logged_in(harness)
    assert 201 == (await browser.ask("POST", "/second-factor", {"password": PASSWORD})).status
    with counts(1, "scoregate_logins_total", outcome="code"), capture_logs() as lines:
        assert 401 == (await browser.ask("POST", "/second-factor/confirm", {"code": "000000"})).status
    assert [("code", "noor")] == refusals(lines)


async def test_M13_too_many_attempts_are_told(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """What a limit refuses is an attempt too."""

    async def full(*_: object) -> int:
        return 1_000

    monkeypatch.setattr(harness.edge.logins._by_account, "wait_ms", full)
    with counts(1, "scoregate_logins_total", outcome="limited"), capture_logs() as lines:
        assert 429 == (await attempt(harness, "noor")).status
    assert [("limited", "")] == refusals(lines)


def test_M13_attempts_on_invented_names_hide_none_on_an_account():
    """Nor do attempts on an account hide its wrong codes."""
    sieved = SievedEvents(REPEATED, Sieve(monotonic_s=lambda: 0.0))

    def passes(cause: LoginOutcome, moderator: str) -> bool:
        try:
            sieved(None, "warning", {"event": "login_refused", "cause": cause, "moderator": moderator})
        except structlog.DropEvent:
            return False
        return True

    told = [passes(LoginOutcome.UNKNOWN, "") for _ in range(PER_MINUTE + 1)]
    assert (True, False) == (told[0], told[-1])
    told = [passes(LoginOutcome.PASSWORD, "root") for _ in range(PER_MINUTE + 1)]
    assert (True, False) == (told[0], told[-1])
    assert passes(LoginOutcome.CODE, "root")
