"""Whom a moderator's credential stands for: the cookie of a session, or a personal token.

Each request reads it from the ledger, so that what was ended a moment ago is refused at once.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderator_secrets import TOKEN_PREFIX, csrf_of, digest_of, is_secret
from gateway.edge.auth.moderators import Ability, Moderator, ModeratorRole
from gateway.edge.auth.own_pages import refuse_foreign_pages
from gateway.edge.context import EDGE
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.moderation import api_tokens, sessions
from gateway.ledger.moderation.account_rows import Account
from gateway.ledger.moderation.api_tokens import TokenRecord
from gateway.ledger.moderation.sessions import SessionRecord
from gateway.ledger.reads import ReadKind
from policies.errors import LedgerUnavailable

COOKIE: Final = "__Host-scoregate"
"""The cookie of a session. Browsers take the name with `Secure`, `Path=/` and no domain (RFC 6265bis)."""

CSRF_HEADER: Final = "X-Scoregate-Csrf"

CSRF_FIELD: Final = "csrf"
CSRF_SENT: Final = web.RequestKey("csrf_sent", str)
"""The field of a form with the same, which the form's handler puts into the request under this key."""

IDLE_MS: Final = 12 * 3600 * 1000
LIFETIME_MS: Final = 7 * 24 * 3600 * 1000
"""A session ends when it was not used for so long, and at the latest after so long (OWASP ASVS 5.0, 7.3).

The times are ours: a working day, and a week.
"""

NOTED_EVERY_MS: Final = 60_000
"""How often the use of a session is written down."""

_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is open, with the text of its cookie and what its writes carry."""

    token: str = field(repr=False)
    record: SessionRecord
    account: Account
    moderator: Moderator

    @property
    def csrf(self) -> str:
        """Return what a write by the cookie has to carry too."""
        return csrf_of(self.token)


@dataclass(frozen=True, slots=True)
class Credential:
    """Who sent a request: by a session, or by a token."""

    moderator: Moderator
    account: Account
    session: Session | None = None
    token: TokenRecord | None = None


_SESSION: Final = web.RequestKey("session", Session)
_BY_TOKEN: Final = web.RequestKey("by_token", Credential)
"""What a request's credential was found to be, so that all parts of a page rest on one reading."""


def has_credential(request: web.Request) -> bool:
    """Return whether a request carries what only moderators have, valid or not."""
    if "Authorization" in request.headers:
        return token_in(request).startswith(TOKEN_PREFIX)
    return COOKIE in request.cookies


def token_in(request: web.Request) -> str:
    """Return the bearer token of a request, "" without one. Raises `token-invalid` for two of the field.

    A proxy might go by the other one.
    """
    fields = request.headers.getall("Authorization", [])
    if len(fields) > 1:
        raise _refusal("Authorization: expected the field once")
    scheme, _, token = "".join(fields).partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def credential_of(request: web.Request) -> Credential:
    """Return whose credential a request has. Raises `token-invalid`, and `csrf` for another site's write."""
    if "Authorization" in request.headers:
        return await _by_token(request)
    session = await session_of(request)
    return Credential(session.moderator, session.account, session=session)


async def session_of(request: web.Request) -> Session:
    """Return the session of a request's cookie. Raises as `credential_of`."""
    known: Session | None = request.get(_SESSION)
    if known is not None:
        return known
    edge, text = request.app[EDGE], request.cookies.get(COOKIE, "")
    if not text:
        raise _refusal("log in, or send Authorization: Bearer <token>")
    if not is_secret(text):
        raise _ended()
    if request.method not in _SAFE:
        refuse_foreign_pages(request, is_cookie=True)
        _check_csrf(request, text)
    digest = digest_of(text)
    found = await edge.ledger.read(sessions.session_of(digest), ReadKind.REQUESTS)
    now_ms = edge.clock()
    if found is None or not is_open(found[0], now_ms) or found[1].is_disabled:
        raise _ended()
    record, account = found
    session = Session(text, record, account, moderator_of_account(account))
    if now_ms - record.used_at_ms >= NOTED_EVERY_MS:
        with suppress(LedgerUnavailable):  # it is noted by a later request
            await edge.ledger.write(sessions.use_session(digest, now_ms=now_ms))
    request[_SESSION] = session
    return session


def forget_credential(request: web.Request) -> None:
    """Have the credential of a request that lasts read again, since it may have ended."""
    request.pop(_SESSION, None)
    request.pop(_BY_TOKEN, None)


def is_open(session: SessionRecord, now_ms: int) -> bool:
    """Return whether a session may still be used."""
    return now_ms < min(session.expires_at_ms, session.used_at_ms + IDLE_MS)


def moderator_of_account(account: Account) -> Moderator:
    """Return an account as the moderator who acts."""
    grants = {scope: ModeratorRole(role) for scope, role in account.grants.items()}
    return Moderator(account.name, grants, frozenset(account.players))


def narrowed(moderator: Moderator, ability: Ability, scopes: Sequence[str]) -> Moderator:
    """Return a moderator with no more than an ability, on some scopes; without any, on all of theirs."""
    roles = {
        scope: largest
        for scope in scopes or moderator.grants
        if (largest := moderator.role_on(scope, at_most=ability.role)) is not None
    }
    return Moderator(moderator.name, roles, moderator.players)


async def _by_token(request: web.Request) -> Credential:
    known: Credential | None = request.get(_BY_TOKEN)
    if known is not None:
        return known
    edge, text = request.app[EDGE], token_in(request)
    found = (
        await edge.ledger.read(api_tokens.token_of(digest_of(text)), ReadKind.REQUESTS)
        if is_secret(text, TOKEN_PREFIX)
        else None
    )
    if found is None or edge.clock() >= found[0].expires_at_ms or found[1].is_disabled:
        raise _refusal("the token is unknown, was revoked, or has expired: get a new one")
    token, account = found
    moderator = narrowed(moderator_of_account(account), Ability(token.ability), token.scopes)
    credential = request[_BY_TOKEN] = Credential(moderator, account, token=token)
    return credential


def _check_csrf(request: web.Request, session: str) -> None:
    given = request.headers.get(CSRF_HEADER) or request.get(CSRF_SENT, "")
    if not hmac.compare_digest(given.encode(errors="replace"), csrf_of(session).encode()):
        raise Problem(ProblemType.CSRF, f"{CSRF_HEADER}: expected the one of your session")


def _ended() -> Problem:
    return _refusal("the session is over: log in again")


def _refusal(detail: str) -> Problem:
    return Problem(
        ProblemType.TOKEN_INVALID, detail, headers={"WWW-Authenticate": 'Bearer realm="scoregate"'}
    )
