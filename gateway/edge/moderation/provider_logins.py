"""Logging in through the identity provider, and accepting invitations so."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.edge.auth.login_attempts import LoginAttempt
from gateway.edge.auth.moderator_credentials import Session
from gateway.edge.auth.moderator_secrets import digest_of
from gateway.edge.context import Edge
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.logins import (
    LoginClient,
    LoginOutcome,
    invited_moderator,
    no_invitation,
    note_refusal,
    open_session,
)
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.moderation import accounts, invitations
from gateway.ledger.moderation.account_rows import Account
from gateway.ledger.reads import ReadKind
from gateway.runtime.deadline import aside
from policies.errors import IdentityRefused, ProviderUnavailable

if TYPE_CHECKING:
    from gateway.edge.auth.identity_provider import IdentityProvider, ProvenIdentity

REDIRECT: Final = "/console/sign-in/provider"
"""The page to which the provider sends people back; providers are told its whole address."""


class ProviderLogin(NamedTuple):
    """A session that was opened through the provider, and the page to which its owner was going."""

    session: Session
    next: str


async def begin_login(
    edge: Edge, client: LoginClient, redirect: str, *, next_page: str, invitation: str = "", is_again: bool
) -> tuple[str, str]:
    """Return where a browser goes to log in, and the cookie with which it comes back.

    Raises `not-found` without a provider or an invitation that is in force, `dependency-unavailable`, and
    `quota-exceeded`.
    """
    provider = _provider_of(edge)
    await edge.logins.charge(client)
    if invitation:
        await invited_moderator(edge, invitation)
    attempt = LoginAttempt(edge.clock(), next_page, invitation, is_again)
    try:
        with aside():
            address = await provider.login_address(attempt, redirect)
    except ProviderUnavailable as error:
        raise _unreached(client, error) from None
    return address, edge.logins.attempts.sealed(attempt)


async def end_login(
    edge: Edge, client: LoginClient, redirect: str, query: Mapping[str, str], cookie: str
) -> ProviderLogin:
    """Open the session of who comes back from the provider, with the cookie of their attempt.

    Raises `login-failed`, `not-found`, `state-conflict`, `dependency-unavailable` and `quota-exceeded`.
    """
    provider = _provider_of(edge)
    await edge.logins.charge(client)
    try:
        attempt = _attempt_of(edge, query, cookie)
        proven = await _proven(edge, provider, attempt, query, redirect)
    except IdentityRefused as refused:
        note_refusal(LoginOutcome.PROVIDER, client, fault=str(refused))
        raise _refusal(str(refused)) from None
    except ProviderUnavailable as error:
        raise _unreached(client, error) from None
    account = await _account_of(edge, client, attempt, proven)
    session = await open_session(edge, account, client, proven_at_ms=proven.proven_at_ms)
    return ProviderLogin(session, attempt.next)


def _provider_of(edge: Edge) -> IdentityProvider:
    if edge.logins.provider is None:
        raise Problem(ProblemType.NOT_FOUND, "there is no identity provider here")
    return edge.logins.provider


def _attempt_of(edge: Edge, query: Mapping[str, str], cookie: str) -> LoginAttempt:
    """Return the attempt that the answer belongs to: of this browser, and of none other (RFC 9700, 2.1)."""
    attempt = edge.logins.attempts.opened(cookie, now_ms=edge.clock())
    if attempt is None:
        raise IdentityRefused("cookie")
    if not hmac.compare_digest(query.get("state", "").encode(errors="replace"), attempt.state.encode()):
        raise IdentityRefused("state")
    return attempt


async def _proven(
    edge: Edge, provider: IdentityProvider, attempt: LoginAttempt, query: Mapping[str, str], redirect: str
) -> ProvenIdentity:
    await provider.check_sender(query.get("iss"))
    if "error" in query:
        raise IdentityRefused("denied")
    return await provider.identity_of(query.get("code", ""), attempt, redirect, now_ms=edge.clock())


async def _account_of(
    edge: Edge, client: LoginClient, attempt: LoginAttempt, proven: ProvenIdentity
) -> Account:
    """Return the account of who was proven to log in, which their invitation may just have given them."""
    if attempt.invitation:
        digest = digest_of(attempt.invitation)
        with account_refusals_as_problems():
            accepted = await edge.ledger.write(
                invitations.accept_with_identity(digest, proven.identity, at_ms=edge.clock())
            )
        if accepted is None:
            raise no_invitation()
        return accepted
    account = await edge.ledger.read(accounts.account_of_identity(proven.identity), ReadKind.REQUESTS)
    if account is None:
        note_refusal(LoginOutcome.UNKNOWN, client)
        raise Problem(
            ProblemType.LOGIN_FAILED, "nobody invited who you are there: ask an admin for an invitation"
        )
    if account.is_disabled:
        note_refusal(LoginOutcome.DISABLED, client, account.name)
        raise Problem(ProblemType.LOGIN_FAILED, "your account is disabled")
    return account


def _refusal(fault: str) -> Problem:
    if fault in {"cookie", "state"}:
        detail = "this login was not begun in this browser, or took too long: begin it again"
    elif fault == "denied":
        detail = "the identity provider did not let you in"
    else:
        detail = f"what the identity provider said does not hold ({fault}): tell an admin if it happens again"
    return Problem(ProblemType.LOGIN_FAILED, detail)


def _unreached(client: LoginClient, error: ProviderUnavailable) -> Problem:
    note_refusal(LoginOutcome.UNREACHED, client, fault=str(error))
    detail = "the identity provider does not answer: try again in a moment"
    return Problem(ProblemType.DEPENDENCY_UNAVAILABLE, detail, headers={"Retry-After": "10"})
