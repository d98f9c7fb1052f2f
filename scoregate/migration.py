"""Bringing a ledger's schema to this version, from the command line."""

from __future__ import annotations

import asyncio

from gateway.ledger.migrate import upgrade_postgres
from gateway.ledger.schema import SCHEMA_VERSION
from gateway.runtime.settings import Settings
from gateway.wiring import ledger_of


def migrate(settings: Settings) -> str:
    """What to tell once the ledger is at the newest version. Raises LedgerUnavailable."""
    asyncio.run(_migrate(settings))
    return f"the ledger is at schema version {SCHEMA_VERSION}"


async def _migrate(settings: Settings) -> None:
    if settings.is_on_postgres and settings.ledger_url:
        await upgrade_postgres(settings.ledger_url.get_secret_value())
        return
    ledger = ledger_of(settings)
    try:
        await ledger.open()  # an SQLite ledger is brought up to date by whoever opens it
    finally:
        await ledger.close()
