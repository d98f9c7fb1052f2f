"""Logging in and out, and accepting invitations: what pages and the API both call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from aiohttp import web
from redis.asyncio import Redis

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.login_attempts import LoginAttempts
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

PROVEN_MS: Final = 600_000
"""How long the identity provider's word on who somebody is counts like a password shown again."""

BROWSER_LIMIT: Final = 200
"""Characters kept of a browser's description of itself, of those of ASCII that can be printed."""

if TYPE_CHECKING:
    from gateway.edge.auth.identity_provider import IdentityProvider  # which loads authlib

_log = logger()


class LoginOutcome(StrEnum):
    """How an attempt to log in, or to show a password again, ends."""

    OPENED = "opened"
    UNKNOWN = "unknown"
    DISABLED = "disabled"
    PASSWORD = "password"  # noqa: S105 - an outcome, and no password
    CODE = "code"
    LIMITED = "limited"
    PROVIDER = "provider"
    UNREACHED = "unreached"


class Logins:
    """The parts of an edge that moderators log in with."""

    def __init__(
        self,
        client: Redis,
        second_factor_key: bytes,
        *,
        attempts: LoginAttempts,
        provider: IdentityProvider | None = None,
        takes_passwords: bool = True,
    ) -> None:
        self.attempts = attempts
        self.provider = provider
        self.takes_passwords = takes_passwords
        self.passwords = Passwords()
        self.second_factors = SecondFactors(second_factor_key)
        self._by_account = KeyedLimit(client, ACCOUNT_RATE, keys.login_account)
        self._shown_again = KeyedLimit(client, ACCOUNT_RATE, keys.shown_again)
        self._by_address = AddressLimit(client, ADDRESS_RATE, keys.login_address)

    async def charge(self, client: LoginClient, name: str | None = None) -> None:
        """Count an attempt. Raises `quota-exceeded` for too many by the client, or for this account."""
        wait_ms = await self._by_address.wait_ms(*client.names)
        if wait_ms:
            note_refusal(LoginOutcome.LIMITED, client)
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
        note_refusal(LoginOutcome.LIMITED, client, moderator)
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
    refuse_without_passwords(edge)
    await edge.logins.charge(client, name)
    account = await edge.ledger.read(accounts.account_of(name), ReadKind.REQUESTS)
    stored = account.password if account else None
    is_right = await edge.logins.passwords.are_equal(password, stored)
    if account is None or account.is_disabled or not is_right:
        if account is None:
            note_refusal(LoginOutcome.UNKNOWN, client)
        else:
            cause = LoginOutcome.DISABLED if account.is_disabled else LoginOutcome.PASSWORD
            note_refusal(cause, client, account.name)
        raise _failed()
    if account.has_second_factor:
        await check_code(edge, account, code, client)
    return await open_session(edge, account, client)


def refuse_without_passwords(edge: Edge) -> None:
    """Raise `login-failed` where passwords are switched off."""
    if not edge.logins.takes_passwords:
        raise Problem(ProblemType.LOGIN_FAILED, "passwords are switched off: use the identity provider")


async def open_session(
    edge: Edge, account: Account, client: LoginClient, *, proven_at_ms: int | None = None
) -> Session:
    """Open a session of somebody who has shown who they are, now if not at another time.

    Raises `login-failed` if that has ended.
    """
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
        now_ms if proven_at_ms is None else proven_at_ms,
    )
    opening = sessions.open_session(
        record, password=account.password, identity=account.identity, idle_since_ms=now_ms - IDLE_MS
    )
    if not await edge.ledger.write(opening):
        note_refusal(LoginOutcome.DISABLED, client, account.name)
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
        note_refusal(LoginOutcome.CODE, client, account.name)
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
        note_refusal(LoginOutcome.CODE, client, account.name)
        raise Problem(ProblemType.LOGIN_FAILED, "code: it is not the one of now")
    return step


async def check_again(edge: Edge, session: Session, password: str | None, client: LoginClient) -> None:
    """Have somebody who is logged in prove again who they are: by their password, or to the provider.

    Raises `login-failed`, `schema-violation` for a missing password, and `quota-exceeded`.
    """
    if session.account.identity is None:
        if password is None:
            raise Problem(ProblemType.SCHEMA_VIOLATION, "password: expected your own, once more")
        await check_password(edge, session.account, password, client)
    elif not is_proven_lately(session.record, edge.clock()):
        raise Problem(ProblemType.LOGIN_FAILED, "the identity provider last asked who you are too long ago")


def is_proven_lately(session: SessionRecord, now_ms: int) -> bool:
    """Return whether the owner of a session proved who they are so lately that they need not do it again."""
    return now_ms - session.proven_at_ms < PROVEN_MS


async def check_password(edge: Edge, account: Account, password: str, client: LoginClient) -> None:
    """Have somebody who is logged in show their password again.

    Raises `login-failed`, `quota-exceeded`, and `state-conflict` for who logs in without one.
    """
    if account.identity is not None:
        raise Problem(
            ProblemType.STATE_CONFLICT, "you log in through the identity provider, without a password"
        )
    await edge.logins.charge_again(client, account.name)
    if not await edge.logins.passwords.are_equal(password, account.password):
        note_refusal(LoginOutcome.PASSWORD, client, account.name)
        raise _failed()


async def invited_moderator(edge: Edge, token: str) -> str:
    """Return the name of the account that an invitation is for. Raises `not-found`."""
    work = invitations.invited(digest_of(token), now_ms=edge.clock())
    name = await edge.ledger.read(work, ReadKind.REQUESTS)
    if name is None:
        raise no_invitation()
    return name


async def accept_invitation(edge: Edge, token: str, password: str, client: LoginClient) -> Account:
    """Set the password of whom an invitation is for, and return their account; they log in with it.

    The invitation ends with it, and so do their sessions. Raises `not-found`, `schema-violation` for a weak
    password, and `quota-exceeded`.
    """
    refuse_without_passwords(edge)
    await edge.logins.charge(client)
    check_new_password(password, await invited_moderator(edge, token))
    hashed = await edge.logins.passwords.hashed(password)
    work = invitations.accept_invitation(digest_of(token), hashed, at_ms=edge.clock())
    account = await edge.ledger.write(work)
    if account is None:
        raise no_invitation()
    return account


def note_refusal(cause: LoginOutcome, client: LoginClient, moderator: str = "", *, fault: str = "") -> None:
    """Count and log a refusal; a name is given only of an account that is there."""
    LOGINS.labels(cause).inc()
    _log.warning(
        Event.LOGIN_REFUSED, cause=cause.value, moderator=moderator, client=client.names.address, fault=fault
    )


def _failed() -> Problem:
    return Problem(ProblemType.LOGIN_FAILED, "no account has this name, password and code, or it is disabled")


def no_invitation() -> Problem:
    """Return the refusal of an invitation that is not in force."""
    return Problem(
        ProblemType.NOT_FOUND, "the invitation was used, replaced, or is over: ask an admin for a new one"
    )
