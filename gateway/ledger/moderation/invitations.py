"""Invitations of moderators, by which they set a password themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import (
    Account,
    ProviderIdentity,
    end_access,
    expected,
    keep_an_admin,
    load_account,
    refuse_second_account,
    save,
)
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.schema import Int64, invitations
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import AccountConflict, AccountOvertaken
from policies.vocabulary import Reason

_i = invitations.c

_put_invitation = upsert(invitations)
_INVITE = Query(
    _put_invitation.on_conflict_do_update(
        index_elements=["moderator"],
        set_={name: _put_invitation.excluded[name] for name in ("digest", "expires_at_ms")},
    )
)
_INVITED = Query(
    select(_i.moderator).where(
        _i.digest == bindparam("of_digest"), _i.expires_at_ms > bindparam("now_ms", type_=Int64)
    )
)


class Invitation(NamedTuple):
    """The digest of an invitation's token, and when it ends (Unix ms)."""

    digest: bytes
    expires_at_ms: int


def invite(
    name: str, invitation: Invitation, act: Act, *, is_reset: bool = False, version: int | None = None
) -> Operation[Account]:
    """Invite an account to choose how it logs in, in the place of any earlier invitation, and return it.

    With `is_reset` its password or identity, second factor, sessions and tokens end now. Raises as
    `change_account`.
    """

    async def work(tx: Transaction) -> Account:
        account = await expected(tx, name, version)
        if account.is_disabled:
            raise AccountConflict("the account is disabled: enable it first")
        if is_reset:
            before = account
            account = replace(
                account, password=None, identity=None, second_factor=None, second_factor_step=None
            )
            await keep_an_admin(tx, before, account)
            await end_access(tx, name)
        await put_invitation(tx, name, invitation)
        return await save(tx, account, act, Reason.MODERATOR_INVITED, {"reset": is_reset})

    return work


def invited(digest: bytes, *, now_ms: int) -> Operation[str | None]:
    """Return whom an invitation is for, None if it was accepted, replaced or is over."""

    async def work(tx: Transaction) -> str | None:
        rows = await tx.rows(_INVITED, of_digest=digest, now_ms=now_ms)
        return str(rows[0][0]) if rows else None

    return work


def accept_invitation(digest: bytes, password: str, *, at_ms: int) -> Operation[Account | None]:
    """Set the password of whom an invitation is for, and end their sessions and tokens.

    None if it is not in force.
    """

    async def work(tx: Transaction) -> Account | None:
        account = await _invited_account(tx, digest, at_ms)
        return account and await _set_password(tx, account, password, Act(ACTOR + account.name, at_ms))

    return work


def accept_with_identity(
    digest: bytes, identity: ProviderIdentity, *, at_ms: int
) -> Operation[Account | None]:
    """Have whom an invitation is for log in as somebody of an identity provider, in the place of a password.

    Their sessions and tokens end. None if the invitation is not in force. Raises AccountConflict if another
    account has the identity.
    """

    async def work(tx: Transaction) -> Account | None:
        account = await _invited_account(tx, digest, at_ms)
        if account is None:
            return None
        await refuse_second_account(tx, account.name, identity)
        account = replace(
            account, password=None, identity=identity, second_factor=None, second_factor_step=None
        )
        act, detail = Act(ACTOR + account.name, at_ms), {"issuer": identity.issuer}
        return await _set_login(tx, account, act, Reason.IDENTITY_SET, detail)

    return work


def change_password(name: str, before: str | None, password: str, act: Act) -> Operation[Account]:
    """Set another password, and end the sessions and tokens of the account.

    Raises AccountOvertaken if the stored password is no longer `before`.
    """

    async def work(tx: Transaction) -> Account:
        account = await expected(tx, name)
        if account.password != before:
            raise AccountOvertaken
        return await _set_password(tx, account, password, act)

    return work


async def _set_password(tx: Transaction, account: Account, password: str, act: Act) -> Account:
    return await _set_login(
        tx, replace(account, password=password, identity=None), act, Reason.PASSWORD_SET, {}
    )


async def _set_login(
    tx: Transaction, account: Account, act: Act, reason: Reason, detail: Mapping[str, str]
) -> Account:
    await end_access(tx, account.name)
    return await save(tx, account, act, reason, detail)


async def _invited_account(tx: Transaction, digest: bytes, at_ms: int) -> Account | None:
    name = await invited(digest, now_ms=at_ms)(tx)
    account = await load_account(tx, name) if name else None
    return None if account is None or account.is_disabled else account


async def put_invitation(tx: Transaction, name: str, invitation: Invitation) -> None:
    """Store an invitation in the place of any earlier one, inside a transaction."""
    await tx.run(_INVITE, moderator=name, **invitation._asdict())
