"""Second factors of moderators: a secret, and the time step of the last code that was taken."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import bindparam, update

from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import Account, expected, put_account, save
from gateway.ledger.schema import Int64, moderators
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import AccountConflict, AccountOvertaken
from policies.vocabulary import Reason

_m = moderators.c

_TAKE_STEP = Query(
    update(moderators)
    .where(
        _m.moderator == bindparam("of_moderator"),
        _m.second_factor_step < bindparam("taken", type_=Int64),
    )
    .values(second_factor_step=bindparam("taken", type_=Int64))
)


def begin_second_factor(name: str, secret: bytes) -> Operation[None]:
    """Keep the secret of a second factor to be confirmed. Raises AccountConflict if there is one."""

    async def work(tx: Transaction) -> None:
        account = await expected(tx, name)
        if account.has_second_factor:
            raise AccountConflict("the account has a second factor: remove it first")
        await put_account(tx, replace(account, second_factor=secret, second_factor_step=None))

    return work


def confirm_second_factor(name: str, secret: bytes, step: int, act: Act) -> Operation[Account]:
    """Have logins take a code from now on. Raises AccountOvertaken if the secret was replaced meanwhile."""

    async def work(tx: Transaction) -> Account:
        account = await expected(tx, name)
        if account.second_factor != secret or account.has_second_factor:
            raise AccountOvertaken
        return await save(tx, replace(account, second_factor_step=step), act, Reason.SECOND_FACTOR_ADDED)

    return work


def remove_second_factor(name: str, act: Act) -> Operation[Account]:
    """Have logins take no code from now on. Raises AccountConflict if there is no account."""

    async def work(tx: Transaction) -> Account:
        account = await expected(tx, name)
        without = replace(account, second_factor=None, second_factor_step=None)
        if not account.has_second_factor:
            await put_account(tx, without)
            return without
        return await save(tx, without, act, Reason.SECOND_FACTOR_REMOVED)

    return work


def take_step(name: str, step: int) -> Operation[bool]:
    """Note that the code of a time step was used; False if it, or a later one, was used before."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.run(_TAKE_STEP, of_moderator=name, taken=step))

    return work
