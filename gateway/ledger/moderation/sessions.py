"""Sessions of moderators: who is logged in, where, and until when."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, insert, or_, select, update

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import Account, ProviderIdentity, load_account, save
from gateway.ledger.schema import Int64, moderator_sessions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import AccountConflict
from policies.vocabulary import Reason

T = TypeVar("T")

SESSIONS_LIMIT: Final = 20
"""Most sessions of one account. A further login ends the oldest."""

_s = moderator_sessions.c

_SESSION = Query(select(moderator_sessions).where(_s.digest == bindparam("of_digest")))
_OF_MODERATOR = Query(
    select(moderator_sessions)
    .where(_s.moderator == bindparam("of_moderator"))
    .order_by(_s.created_at_ms.desc(), _s.session_id.desc())
)
_ADD = Query(insert(moderator_sessions))
_USE = Query(
    update(moderator_sessions)
    .where(_s.digest == bindparam("of_digest"))
    .values(used_at_ms=bindparam("now_ms", type_=Int64))
)
_END = Query(delete(moderator_sessions).where(_s.digest == bindparam("of_digest")))
_REMOVE_ENDED = Query(
    delete(moderator_sessions).where(
        _s.moderator == bindparam("of_moderator"),
        or_(
            _s.expires_at_ms <= bindparam("now_ms", type_=Int64),
            _s.used_at_ms <= bindparam("idle_since_ms", type_=Int64),
        ),
    )
)


class SessionRecord(NamedTuple):
    """A session by the digest of its token. `session_id` names it to people. Times are Unix milliseconds."""

    digest: bytes
    session_id: str
    moderator: str
    address: str
    browser: str
    created_at_ms: int
    used_at_ms: int
    expires_at_ms: int
    proven_at_ms: int = 0


def session_of(digest: bytes) -> Operation[tuple[SessionRecord, Account] | None]:
    """Return the session of a token, which may be over, with its account, or None."""

    async def work(tx: Transaction) -> tuple[SessionRecord, Account] | None:
        rows = await tx.rows(_SESSION, of_digest=digest)
        session = SessionRecord(*rows[0]) if rows else None
        account = await load_account(tx, session.moderator) if session else None
        return (session, account) if session and account else None

    return work


def while_open(digest: bytes, work: Operation[T]) -> Operation[T]:
    """Do something for a session that nobody ended meanwhile. Raises AccountConflict."""

    async def checked(tx: Transaction) -> T:
        found = await session_of(digest)(tx)
        if found is None or found[1].is_disabled:
            raise AccountConflict("your session was ended: log in again")
        return await work(tx)

    return checked


def open_session(
    session: SessionRecord,
    *,
    password: str | None,
    idle_since_ms: int,
    identity: ProviderIdentity | None = None,
) -> Operation[bool]:
    """Open a session, and remove what has ended.

    False if the account was disabled meanwhile, or does no longer log in with the password or identity shown.
    """

    async def work(tx: Transaction) -> bool:
        account = await load_account(tx, session.moderator)
        if account is None or account.is_disabled:
            return False
        if (account.password, account.identity) != (password, identity):
            return False
        now = {"now_ms": session.created_at_ms, "idle_since_ms": idle_since_ms}
        await tx.run(_REMOVE_ENDED, of_moderator=session.moderator, **now)
        open_now = await tx.rows(_OF_MODERATOR, of_moderator=session.moderator)
        for row in open_now[SESSIONS_LIMIT - 1 :]:
            await tx.run(_END, of_digest=row[0])
        await tx.run(_ADD, **session._asdict())
        return True

    return work


def use_session(digest: bytes, *, now_ms: int) -> Operation[None]:
    """Note that a session is used."""

    async def work(tx: Transaction) -> None:
        await tx.run(_USE, of_digest=digest, now_ms=now_ms)

    return work


def end_session(digest: bytes) -> Operation[None]:
    """End a session, as its owner asks."""

    async def work(tx: Transaction) -> None:
        await tx.run(_END, of_digest=digest)

    return work


def sessions_of(name: str) -> Operation[list[SessionRecord]]:
    """Return the sessions of an account, the newest first. Some may be over."""

    async def work(tx: Transaction) -> list[SessionRecord]:
        return [SessionRecord(*row) for row in await tx.rows(_OF_MODERATOR, of_moderator=name)]

    return work


def end_sessions(name: str, act: Act, *, session_id: str | None = None) -> Operation[int]:
    """End one session of an account, or all; return how many. Raises AccountConflict for no account."""

    async def work(tx: Transaction) -> int:
        account = await load_account(tx, name)
        if account is None:
            raise AccountConflict("there is no such account")
        ended = [row for row in await sessions_of(name)(tx) if session_id in (None, row.session_id)]
        for session in ended:
            await tx.run(_END, of_digest=session.digest)
        if ended:
            await save(
                tx, account, act, Reason.SESSIONS_ENDED, {"sessions": [row.session_id for row in ended]}
            )
        return len(ended)

    return work
