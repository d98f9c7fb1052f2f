"""Accounts of moderators for tests, made beside a running edge: whoever asks has no event loop to wait in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gateway.edge.auth.moderators import EVERYWHERE, Ability, ModeratorRole
from gateway.edge.moderation.own_account import new_token
from gateway.ledger.acts import Act
from gateway.ledger.moderation.account_rows import Account, load_account
from gateway.ledger.moderation.accounts import add_account, change_account
from gateway.ledger.moderation.api_tokens import issue_token
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger

TOKEN_MS = 3_600_000
ACTOR = "operator:test"


def token_of(
    settings: Settings, name: str, role: ModeratorRole, boards: Sequence[str], *, now_ms: int
) -> str:
    """The token of an account with this role everywhere, for some boards alone, or for all."""
    text, record = new_token(name, "test", Ability.ADMINISTER, boards, now_ms, now_ms + TOKEN_MS)
    act = Act(ACTOR, now_ms)

    async def work(tx: Transaction) -> None:
        await account_with(name, role, act)(tx)
        await issue_token(record, act)(tx)

    written(settings, work)
    return text


def account_with(name: str, role: ModeratorRole, act: Act) -> Operation[Account]:
    """Add an account with this role everywhere, or give it that."""
    grants = {EVERYWHERE: role.value}

    async def work(tx: Transaction) -> Account:
        if await load_account(tx, name) is None:
            return await add_account(name, grants, act)(tx)
        return await change_account(name, act, grants=grants, players=())(tx)

    return work


def written(settings: Settings, work: Operation[None]) -> None:
    """Write to the ledger of a deployment, in a thread with a loop of its own."""

    async def write() -> None:
        async with open_ledger(settings) as ledger:
            await ledger.write(work)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, write()).result()
