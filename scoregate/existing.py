"""The ledger that a command is about: one that is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.ledger.ledger import Ledger
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger
from policies.errors import SettingsError


@asynccontextmanager
async def existing_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Open the ledger. Raises SettingsError if its file is not there: looking at a ledger must not make one."""
    if not settings.is_on_postgres and not settings.ledger_path.exists():
        raise SettingsError(
            f"{settings.ledger_path}: there is no ledger; --data-dir or SCOREGATE_DATA_DIR says where to look"
        )
    async with open_ledger(settings) as ledger:
        yield ledger
