"""Who has an account as a moderator, and what they are granted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from sqlalchemy import bindparam, delete, insert, select

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import (
    ADMIN,
    EVERYWHERE,
    Account,
    ProviderIdentity,
    account_from,
    end_access,
    expected,
    grants_of,
    is_admin_ready,
    keep_an_admin,
    load_account,
    load_account_of,
    refuse_second_account,
    save,
)
from gateway.ledger.moderation.invitations import Invitation, invite, put_invitation
from gateway.ledger.schema import moderator_grants, moderators
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import AccountConflict
from policies.vocabulary import Reason

T = TypeVar("T")

ACCOUNTS_LIMIT: Final = 1_000
"""Most accounts of a deployment, so that a list of them is bounded."""

_m, _g = moderators.c, moderator_grants.c

_ACCOUNTS = Query(
    select(moderators)
    .where(_m.moderator > bindparam("after"))
    .order_by(_m.moderator)
    .limit(bindparam("count"))
)
_GRANT = Query(insert(moderator_grants))
_REMOVE_GRANTS = Query(delete(moderator_grants).where(_g.moderator == bindparam("of_moderator")))


def account_of(name: str) -> Operation[Account | None]:
    """Return an account, or None."""

    async def work(tx: Transaction) -> Account | None:
        return await load_account(tx, name)

    return work


def account_of_identity(identity: ProviderIdentity) -> Operation[Account | None]:
    """Return the account that logs in as somebody of an identity provider, or None."""

    async def work(tx: Transaction) -> Account | None:
        return await load_account_of(tx, identity)

    return work


def accounts_after(name: str, *, count: int) -> Operation[list[Account]]:
    """Return accounts in the order of their names, after `name`."""

    async def work(tx: Transaction) -> list[Account]:
        rows = await tx.rows(_ACCOUNTS, after=name, count=count)
        grants = await grants_of(tx, [row[0] for row in rows])
        return [account_from(row, grants.get(row[0], {})) for row in rows]

    return work


def while_admin(name: str, work: Operation[T]) -> Operation[T]:
    """Do something that only admins may, if this account still is one. Raises AccountConflict."""

    async def checked(tx: Transaction) -> T:
        actor = await load_account(tx, name)
        if actor is None or not actor.is_admin:
            raise AccountConflict("you are no admin of all boards any more")
        return await work(tx)

    return checked


def while_senior(name: str, work: Operation[T]) -> Operation[T]:
    """Do something that only seniors of all boards may, if this account still is one.

    Raises AccountConflict.
    """

    async def checked(tx: Transaction) -> T:
        actor = await load_account(tx, name)
        if actor is None or not actor.is_senior:
            raise AccountConflict("you are no senior of all boards any more")
        return await work(tx)

    return checked


def add_account(
    name: str,
    grants: Mapping[str, str],
    act: Act,
    *,
    players: Sequence[str] = (),
    invitation: Invitation | None = None,
    identity: ProviderIdentity | None = None,
) -> Operation[Account]:
    """Add an account, and return it.

    Raises AccountConflict if the name or the identity is taken, or there are too many.
    """

    async def work(tx: Transaction) -> Account:
        if await load_account(tx, name) is not None:
            raise AccountConflict("another account has this name")
        if len(await tx.rows(_ACCOUNTS, after="", count=ACCOUNTS_LIMIT)) == ACCOUNTS_LIMIT:
            raise AccountConflict(f"there are {ACCOUNTS_LIMIT} accounts, and may be no more")
        if identity:
            await refuse_second_account(tx, name, identity)
        account = Account(name, dict(grants), tuple(players), identity=identity, created_at_ms=act.at_ms)
        detail = {
            "grants": dict(grants),
            "players": list(players),
            "invited": invitation is not None,
            "issuer": identity and identity.issuer,
        }
        account = await save(tx, account, act, Reason.MODERATOR_ADDED, detail)
        await _put_grants(tx, account)
        if invitation:
            await put_invitation(tx, name, invitation)
        return account

    return work


def known_or_new(name: str, grants: Mapping[str, str], act: Act) -> Operation[Account]:
    """Return the account of this name; add it with these grants if there is none.

    Raises AccountConflict if there are too many.
    """

    async def work(tx: Transaction) -> Account:
        return await load_account(tx, name) or await add_account(name, grants, act)(tx)

    return work


def change_account(
    name: str,
    act: Act,
    *,
    grants: Mapping[str, str],
    players: Sequence[str],
    version: int | None = None,
) -> Operation[Account]:
    """Replace what an account is granted and its players, and return it.

    Raises AccountConflict, and AccountOvertaken if its version is another than the expected one.
    """

    async def work(tx: Transaction) -> Account:
        before = await expected(tx, name, version)
        after = replace(before, grants=dict(grants), players=tuple(players))
        if (dict(before.grants), before.players) == (after.grants, after.players):
            return before
        await keep_an_admin(tx, before, after)
        detail = {"grants": dict(grants), "players": list(players), "before": dict(before.grants)}
        after = await save(tx, after, act, Reason.MODERATOR_CHANGED, detail)
        await _put_grants(tx, after)
        return after

    return work


def disable_account(name: str, act: Act, *, version: int | None = None) -> Operation[Account]:
    """Disable an account, and end its sessions, tokens and invitation. Raises as `change_account`."""

    async def work(tx: Transaction) -> Account:
        before = await expected(tx, name, version)
        if before.is_disabled:
            return before
        after = replace(before, disabled_at_ms=act.at_ms)
        await keep_an_admin(tx, before, after)
        await end_access(tx, name)
        return await save(tx, after, act, Reason.MODERATOR_DISABLED)

    return work


def enable_account(name: str, act: Act, *, version: int | None = None) -> Operation[Account]:
    """Let a disabled account log in again, and return it. Raises as `change_account`."""

    async def work(tx: Transaction) -> Account:
        before = await expected(tx, name, version)
        if not before.is_disabled:
            return before
        return await save(tx, replace(before, disabled_at_ms=None), act, Reason.MODERATOR_ENABLED)

    return work


def offer_first_admin(name: str, invitation: Invitation, act: Act) -> Operation[bool]:
    """Invite the first admin, adding the account if need be; False if an admin has a password already.

    It is false too if the name is that of an account which is no admin.
    """

    async def work(tx: Transaction) -> bool:
        account = await load_account(tx, name)
        if await is_admin_ready(tx) or (account and not account.is_admin):
            return False
        if account is None:
            await add_account(name, {EVERYWHERE: ADMIN}, act, invitation=invitation)(tx)
        else:
            await invite(name, invitation, act)(tx)
        return True

    return work


async def _put_grants(tx: Transaction, account: Account) -> None:
    await tx.run(_REMOVE_GRANTS, of_moderator=account.name)
    grants = [
        {"moderator": account.name, "scope": scope, "role": role} for scope, role in account.grants.items()
    ]
    await tx.run_each(_GRANT, grants)
