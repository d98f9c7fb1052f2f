"""Personal tokens of moderators, which programs send in the place of a session."""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, insert, select

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import Account, load_account, save
from gateway.ledger.schema import Int64, api_tokens
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.errors import AccountConflict
from policies.vocabulary import Reason

TOKENS_LIMIT: Final = 50
"""Most tokens of one account that are not over."""

_t = api_tokens.c

_TOKEN = Query(select(api_tokens).where(_t.digest == bindparam("of_digest")))
_OF_MODERATOR = Query(
    select(api_tokens)
    .where(_t.moderator == bindparam("of_moderator"))
    .order_by(_t.created_at_ms.desc(), _t.token_id.desc())
)
_ADD = Query(insert(api_tokens))
_REMOVE = Query(delete(api_tokens).where(_t.digest == bindparam("of_digest")))
_REMOVE_ENDED = Query(
    delete(api_tokens).where(
        _t.moderator == bindparam("of_moderator"), _t.expires_at_ms <= bindparam("now_ms", type_=Int64)
    )
)


class TokenRecord(NamedTuple):
    """A token by its digest. `token_id` names it to people. Times are Unix milliseconds.

    It may do up to `ability` on `scopes`, or on all of its account's if there are none.
    """

    digest: bytes
    token_id: str
    moderator: str
    label: str
    ability: str
    scopes: tuple[str, ...]
    created_at_ms: int
    expires_at_ms: int


def token_of(digest: bytes) -> Operation[tuple[TokenRecord, Account] | None]:
    """Return a token, which may be over, with its account, or None."""

    async def work(tx: Transaction) -> tuple[TokenRecord, Account] | None:
        rows = await tx.rows(_TOKEN, of_digest=digest)
        token = _token(rows[0]) if rows else None
        account = await load_account(tx, token.moderator) if token else None
        return (token, account) if token and account else None

    return work


def issue_token(token: TokenRecord, act: Act) -> Operation[None]:
    """Store a token, and remove those that are over. Raises AccountConflict if there may be no more."""

    async def work(tx: Transaction) -> None:
        account = await load_account(tx, token.moderator)
        if account is None or account.is_disabled:
            raise AccountConflict("there is no such account, or it is disabled")
        await tx.run(_REMOVE_ENDED, of_moderator=token.moderator, now_ms=token.created_at_ms)
        if len(await tx.rows(_OF_MODERATOR, of_moderator=token.moderator)) >= TOKENS_LIMIT:
            raise AccountConflict(f"an account has at most {TOKENS_LIMIT} tokens: revoke one first")
        await tx.run(_ADD, **(token._asdict() | {"scopes": orjson.dumps(list(token.scopes)).decode()}))
        detail = {"token": token.token_id, "label": token.label, "ability": token.ability}
        await save(tx, account, act, Reason.TOKEN_ISSUED, detail | {"scopes": list(token.scopes)})

    return work


def tokens_of(name: str) -> Operation[list[TokenRecord]]:
    """Return the tokens of an account, the newest first. Some may be over."""

    async def work(tx: Transaction) -> list[TokenRecord]:
        return [_token(row) for row in await tx.rows(_OF_MODERATOR, of_moderator=name)]

    return work


def revoke_token(name: str, token_id: str, act: Act) -> Operation[bool]:
    """Revoke a token of an account, and return whether it had it."""

    async def work(tx: Transaction) -> bool:
        account = await load_account(tx, name)
        ended = [row for row in await tokens_of(name)(tx) if row.token_id == token_id]
        if account is None or not ended:
            return False
        for token in ended:
            await tx.run(_REMOVE, of_digest=token.digest)
        await save(tx, account, act, Reason.TOKEN_REVOKED, {"token": token_id})
        return True

    return work


def _token(row: Row) -> TokenRecord:
    digest, token_id, moderator, label, ability, scopes, *times = row
    return TokenRecord(digest, token_id, moderator, label, ability, tuple(orjson.loads(scopes)), *times)
