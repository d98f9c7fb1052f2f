"""Accounts of moderators as rows. Each change of one is an event of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.acts import Act, add_event
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import (
    api_tokens,
    invitations,
    moderator_grants,
    moderator_sessions,
    moderators,
)
from gateway.ledger.transaction import Query, Row, Transaction
from policies.errors import AccountConflict, AccountOvertaken
from policies.vocabulary import Reason

EVERYWHERE: Final = "*"
"""The scope of every board."""

ADMIN: Final = "admin"
"""The role of those who change accounts, wherever it is granted everywhere."""

SENIOR: Final = "senior"
"""The role of those who overrule others."""

SUBJECT_LENGTH: Final = 255
"""Characters of a subject, which are of ASCII (OpenID Connect Core 1.0, section 2)."""

_m, _g = moderators.c, moderator_grants.c

_ACCOUNT = Query(select(moderators).where(_m.moderator == bindparam("of_moderator")))
_GRANTS = Query(
    select(_g.moderator, _g.scope, _g.role).where(is_listed(_g.moderator)).order_by(_g.moderator, _g.scope)
)
_admins = (
    select(_g.moderator)
    .select_from(moderator_grants.join(moderators, _m.moderator == _g.moderator))
    .where(_g.role == ADMIN, _g.scope == EVERYWHERE, _m.disabled_at_ms.is_(None))
    .order_by(_g.moderator)
)
_ADMINS = Query(_admins.limit(2))
_READY_ADMINS = Query(_admins.where(or_(_m.password.is_not(None), _m.subject.is_not(None))).limit(2))
_OF_SUBJECT = Query(
    select(_m.moderator).where(_m.issuer == bindparam("of_issuer"), _m.subject == bindparam("of_subject"))
)
_put = upsert(moderators)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["moderator"],
        set_={
            column.name: _put.excluded[column.name]
            for column in moderators.columns
            if column.name not in {"moderator", "created_at_ms"}
        },
    )
)
_REMOVE_ACCESS = tuple(
    Query(delete(table).where(table.c.moderator == bindparam("of_moderator")))
    for table in (invitations, moderator_sessions, api_tokens)
)


class ProviderIdentity(NamedTuple):
    """Who somebody is to an identity provider: its issuer, and the subject that it never gives to another."""

    issuer: str
    subject: str


def is_subject(text: object) -> bool:
    """Return whether this can be the subject of somebody at an identity provider."""
    return isinstance(text, str) and 0 < len(text) <= SUBJECT_LENGTH and text.isascii() and text.isprintable()


@dataclass(frozen=True, slots=True)
class Account:
    """An account: its roles by scope, its own players, and its secrets as they are stored.

    It logs in with a password, or through an identity provider. `version` is the number of its last event. A
    second factor without a step is not confirmed yet.
    """

    name: str
    grants: Mapping[str, str]
    players: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    identity: ProviderIdentity | None = None
    second_factor: bytes | None = field(default=None, repr=False)
    second_factor_step: int | None = None
    created_at_ms: int = 0
    disabled_at_ms: int | None = None
    version: int = 0

    @property
    def is_disabled(self) -> bool:
        """Return whether it may do nothing at all."""
        return self.disabled_at_ms is not None

    @property
    def has_login(self) -> bool:
        """Return whether there is something to log in with."""
        return self.password is not None or self.identity is not None

    @property
    def has_second_factor(self) -> bool:
        """Return whether logging in takes a code."""
        return self.second_factor is not None and self.second_factor_step is not None

    @property
    def is_admin(self) -> bool:
        """Return whether it may change accounts."""
        return not self.is_disabled and self.grants.get(EVERYWHERE) == ADMIN

    @property
    def is_senior(self) -> bool:
        """Return whether it may overrule others on every board."""
        return not self.is_disabled and self.grants.get(EVERYWHERE) in {SENIOR, ADMIN}


async def load_account(tx: Transaction, name: str) -> Account | None:
    """Return an account, or None, inside a transaction."""
    rows = await tx.rows(_ACCOUNT, of_moderator=name)
    return account_from(rows[0], (await grants_of(tx, [name])).get(name, {})) if rows else None


async def load_account_of(tx: Transaction, identity: ProviderIdentity) -> Account | None:
    """Return the account that logs in as somebody of an identity provider, or None, inside a transaction."""
    rows = await tx.rows(_OF_SUBJECT, of_issuer=identity.issuer, of_subject=identity.subject)
    return await load_account(tx, rows[0][0]) if rows else None


async def refuse_second_account(tx: Transaction, name: str, identity: ProviderIdentity) -> None:
    """Raise AccountConflict if another account than the one of this name logs in as this person."""
    other = await load_account_of(tx, identity)
    if other is not None and other.name != name:
        raise AccountConflict("another account logs in as this person of the identity provider")


async def save(
    tx: Transaction, account: Account, act: Act, reason: Reason, detail: Mapping[str, Any] | None = None
) -> Account:
    """Store an account with the event that changes it, and return it at its new version.

    `detail` holds no secret: everybody who reads the log sees it.
    """
    seq = await add_event(tx, reason, act, {"moderator": account.name, **(detail or {})})
    account = replace(account, version=seq)
    await put_account(tx, account)
    return account


async def expected(tx: Transaction, name: str, version: int | None = None) -> Account:
    """Return an account, of this version if there is one. Raises AccountConflict, AccountOvertaken."""
    account = await load_account(tx, name)
    if account is None:
        raise AccountConflict("there is no such account")
    if version is not None and version != account.version:
        raise AccountOvertaken
    return account


async def keep_an_admin(tx: Transaction, before: Account, after: Account) -> None:
    """Raise AccountConflict if nobody could change accounts after this, or log in to do so."""
    is_kept = after.is_admin and (after.has_login or not before.has_login)
    if not before.is_admin or is_kept:
        return
    admins = await tx.rows(_READY_ADMINS if before.has_login else _ADMINS)
    if all(name == before.name for (name,) in admins):
        raise AccountConflict("it is the last admin of all boards: add another one first")


async def is_admin_ready(tx: Transaction) -> bool:
    """Return whether some admin can log in."""
    return bool(await tx.rows(_READY_ADMINS))


async def end_access(tx: Transaction, name: str) -> None:
    """End the invitation, the sessions and the tokens of an account."""
    for remove in _REMOVE_ACCESS:
        await tx.run(remove, of_moderator=name)


async def put_account(tx: Transaction, account: Account) -> None:
    """Store an account without an event: for what nobody else needs to know."""
    await tx.run(
        _PUT,
        moderator=account.name,
        players=orjson.dumps(list(account.players)).decode(),
        password=account.password,
        issuer=account.identity and account.identity.issuer,
        subject=account.identity and account.identity.subject,
        second_factor=account.second_factor,
        second_factor_step=account.second_factor_step,
        created_at_ms=account.created_at_ms,
        disabled_at_ms=account.disabled_at_ms,
        version=account.version,
    )


async def grants_of(tx: Transaction, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the roles by scope of each of these accounts that has any."""
    grants: dict[str, dict[str, str]] = {}
    for name, scope, role in await fetch_listed(tx, _GRANTS, names):
        grants.setdefault(name, {})[scope] = role
    return grants


def account_from(row: Row, grants: Mapping[str, str]) -> Account:
    """Return the account of a row."""
    name, players, password, issuer, subject, *rest = row
    identity = None if subject is None else ProviderIdentity(issuer, subject)
    return Account(name, grants, tuple(orjson.loads(players)), password, identity, *rest)
