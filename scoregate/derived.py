"""Making what is derived anew, from the command line."""

from __future__ import annotations

from gateway.derived.derivations import REBUILDABLE, Derivations
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies, open_index
from policies.errors import SettingsError
from scoregate.existing import existing_ledger


async def rebuild(settings: Settings, name: str) -> None:
    """Has the steward begin one of what is derived from the ledger again. Raises SettingsError for any other."""
    if name not in REBUILDABLE:
        raise SettingsError(f"expected {', '.join(REBUILDABLE)}, got {name!r}")
    boards = load_policies(settings)
    async with existing_ledger(settings) as ledger, open_index(settings, boards) as index:
        await Derivations(settings, boards, ledger, index.client, clock=wall_clock).rebuild(name)
