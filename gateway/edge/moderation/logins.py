"""Logging in and out, and accepting invitations: what pages and the API both call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aiohttp import web
from redis.asyncio import Redis

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.moderator_credentials import IDLE_MS, LIFETIME_MS, Session, moderator_of_account
from gateway.edge.auth.moderator_secrets import digest_of, new_id, new_secret
from gateway.edge.auth.passwords import Passwords, check_new_password
from gateway.edge.auth.second_factors import SecondFactors
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.index import keys
from gateway.index.limits.charging import AddressLimit, KeyedLimit
from gateway.ledger.moderation import accounts, invitations, second_factors, sessions
from gateway.ledger.moderation.account_rows import Account
from gateway.ledger.moderation.sessions import SessionRecord
from gateway.ledger.reads import ReadKind
from gateway.runtime.telemetry import LOGINS, Event, logger
from policies.limits import Rate

ACCOUNT_RATE: Final = Rate(per_minute=2, burst=20)
"""Attempts to log in to one account, from wherever: 3,000 a day find no password that is not a common one."""

ADDRESS_RATE: Final = Rate(per_minute=10, burst=30)
"""Attempts of one address, on all accounts; a network gets `NETWORK_SHARE` times as many."""

BROWSER_LIMIT: Final = 200
"""Characters kept of a browser's description of itself, of those of ASCII that can be printed."""

_log = logger()


class LoginOutcome(StrEnum):
    """How an attempt to log in, or to show a password again, ends."""

    OPENED = "opened"
    UNKNOWN = "unknown"
    DISABLED = "disabled"
    PASSWORD = "password"  # noqa: S105 - an outcome, and no password
    CODE = "code"
    LIMITED = "limited"


class Logins:
    """The parts of an edge that moderators log in with."""

    def __init__(self, client: Redis, second_factor_key: bytes) -> None:
        self.passwords = Passwords()
        self.second_factors = SecondFactors(second_factor_key)
        self._by_account = KeyedLimit(client, ACCOUNT_RATE, keys.login_account)
        self._shown_again = KeyedLimit(client, ACCOUNT_RATE, keys.shown_again)
        self._by_address = AddressLimit(client, ADDRESS_RATE, keys.login_address)

    async def charge(self, client: LoginClient, name: str | None = None) -> None:
        """Count an attempt. Raises `quota-exceeded` for too many by the client, or for this account."""
        wait_ms = await self._by_address.wait_ms(*client.names)
        if wait_ms:
            _note_refusal(LoginOutcome.LIMITED, client)
            raise quota_exceeded("login-address", ADDRESS_RATE, wait_ms)
        if name is not None:
            await _charge_account(self._by_account, name, client)

    async def charge_again(self, client: LoginClient, name: str) -> None:
        """Count a secret that somebody who is logged in shows again. Raises `quota-exceeded`.

        Neither strangers who try to log in nor colleagues behind the same address use up that limit.
        """
        await _charge_account(self._shown_again, name, client, moderator=name)


async def _charge_account(limit: KeyedLimit, name: str, client: LoginClient, *, moderator: str = "") -> None:
    wait_ms = await limit.wait_ms(name)
    if wait_ms:
        _note_refusal(LoginOutcome.LIMITED, client, moderator)
        raise quota_exceeded("login-account", ACCOUNT_RATE, wait_ms)


@dataclass(frozen=True, slots=True)
class LoginClient:
    """Where somebody logs in: the hashed names of their address, and what their browser calls itself."""

    names: ClientName
    browser: str = ""


def login_client_of(request: web.Request) -> LoginClient:
    """Return the client of a request."""
    forwarded = request.headers.getall("X-Forwarded-For", ())
    names = request.app[EDGE].addresses.names(request.remote, forwarded)
    browser = "".join(each for each in request.headers.get("User-Agent", "") if " " <= each <= "~")
    return LoginClient(names, browser[:BROWSER_LIMIT])


async def log_in(edge: Edge, name: str, password: str, code: str, client: LoginClient) -> Session:
    """Open a session, whose id is new.

    Raises `login-failed`, `second-factor-required` if all that is missing is a code, `quota-exceeded`, and
    `temporary-reduced-capacity`.
    """
    name = name.strip().lower()
    await edge.logins.charge(client, name)
    account = await edge.ledger.read(accounts.account_of(name), ReadKind.REQUESTS)
    stored = account.password if account else None
    is_right = await edge.logins.passwords.are_equal(password, stored)
    if account is None or account.is_disabled or not is_right:
        if account is None:
            _note_refusal(LoginOutcome.UNKNOWN, client)
        else:
            cause = LoginOutcome.DISABLED if account.is_disabled else LoginOutcome.PASSWORD
            _note_refusal(cause, client, account.name)
        raise _failed()
    if account.has_second_factor:
        await check_code(edge, account, code, client)
    return await open_session(edge, account, client)


async def open_session(edge: Edge, account: Account, client: LoginClient) -> Session:
    """Open a session of somebody who has shown who they are. Raises `login-failed` if that has ended."""
    token, now_ms = new_secret(), edge.clock()
    record = SessionRecord(
        digest_of(token),
        new_id(),
        account.name,
        client.names.address,
        client.browser,
        now_ms,
        now_ms,
        now_ms + LIFETIME_MS,
    )
    opening = sessions.open_session(record, password=account.password, idle_since_ms=now_ms - IDLE_MS)
    if not await edge.ledger.write(opening):
        _note_refusal(LoginOutcome.DISABLED, client, account.name)
        raise _failed()
    LOGINS.labels(LoginOutcome.OPENED).inc()
    _log.info(Event.LOGIN, moderator=account.name, session=record.session_id, client=client.names.address)
    return Session(token, record, account, moderator_of_account(account))


async def log_out(edge: Edge, session: Session) -> None:
    """End a session."""
    await edge.ledger.write(sessions.end_session(session.record.digest))


async def check_code(edge: Edge, account: Account, code: str, client: LoginClient) -> None:
    """Take a code of an account's second factor. Each is taken once.

    Raises `second-factor-required` without one, and `login-failed` for a wrong one.
    """
    if not code.strip():
        raise Problem(ProblemType.SECOND_FACTOR_REQUIRED, "code: expected the one that your app shows now")
    assert account.second_factor is not None
    step = edge.logins.second_factors.step_of(code, account.second_factor, account.name, now_ms=edge.clock())
    if step is None or not await edge.ledger.write(second_factors.take_step(account.name, step)):
        _note_refusal(LoginOutcome.CODE, client, account.name)
        raise _failed()


async def step_of_first_code(edge: Edge, account: Account, code: str, client: LoginClient) -> int:
    """Return the time step of a code with which somebody who is logged in confirms their second factor.

    Raises `state-conflict` if none waits for that, `login-failed`, and `quota-exceeded`.
    """
    await edge.logins.charge_again(client, account.name)
    if account.second_factor is None or account.has_second_factor:
        raise Problem(ProblemType.STATE_CONFLICT, "there is no second factor that waits to be confirmed")
    step = edge.logins.second_factors.step_of(code, account.second_factor, account.name, now_ms=edge.clock())
    if step is None:
        _note_refusal(LoginOutcome.CODE, client, account.name)
        raise Problem(ProblemType.LOGIN_FAILED, "code: it is not the one of now")
    return step


async def check_password(edge: Edge, account: Account, password: str, client: LoginClient) -> None:
    """Have somebody who is logged in show their password again. Raises `login-failed`, `quota-exceeded`."""
    await edge.logins.charge_again(client, account.name)
    if not await edge.logins.passwords.are_equal(password, account.password):
        _note_refusal(LoginOutcome.PASSWORD, client, account.name)
        raise _failed()


async def invited_moderator(edge: Edge, token: str) -> str:
    """Return the name of the account that an invitation is for. Raises `not-found`."""
    work = invitations.invited(digest_of(token), now_ms=edge.clock())
    name = await edge.ledger.read(work, ReadKind.REQUESTS)
    if name is None:
        raise _no_invitation()
    return name


async def accept_invitation(edge: Edge, token: str, password: str, client: LoginClient) -> Account:
    """Set the password of whom an invitation is for, and return their account; they log in with it.

    The invitation ends with it, and so do their sessions. Raises `not-found`, `schema-violation` for a weak
    password, and `quota-exceeded`.
    """
    await edge.logins.charge(client)
    check_new_password(password, await invited_moderator(edge, token))
    hashed = await edge.logins.passwords.hashed(password)
    work = invitations.accept_invitation(digest_of(token), hashed, at_ms=edge.clock())
    account = await edge.ledger.write(work)
    if account is None:
        raise _no_invitation()
    return account


def _note_refusal(cause: LoginOutcome, client: LoginClient, moderator: str = "") -> None:
    """Count and log a refusal; a name is given only of an account that is there."""
    LOGINS.labels(cause).inc()
    _log.warning(Event.LOGIN_REFUSED, cause=cause.value, moderator=moderator, client=client.names.address)


def _failed() -> Problem:
    return Problem(ProblemType.LOGIN_FAILED, "no account has this name, password and code, or it is disabled")


def _no_invitation() -> Problem:
    return Problem(
        ProblemType.NOT_FOUND, "the invitation was used, replaced, or is over: ask an admin for a new one"
    )
