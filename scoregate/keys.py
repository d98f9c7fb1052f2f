"""Registering a trusted server from the command line."""

from __future__ import annotations

import base64
import binascii

from gateway.clock import wall_clock
from gateway.edge.signatures import load_server_public_key
from gateway.ledger import queries
from gateway.ledger.records import ServerKey
from gateway.settings import Settings
from gateway.wiring import open_ledger
from policies.errors import SettingsError


async def register(settings: Settings, key_id: str, public_key: str, boards: tuple[str, ...]) -> None:
    """Writes the key into the ledger. Raises SettingsError if it is no key, or the id is taken by another."""
    try:
        raw = base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError("--public-key: expected 32 bytes in base64") from None
    load_server_public_key(raw)
    async with open_ledger(settings) as ledger:
        known = (await ledger.read(queries.server_keys_all())).get(key_id)
        key = ServerKey(key_id, raw, boards)
        if known == key:
            return
        if known:
            raise SettingsError(f"{key_id} is registered already, with another key or other boards")
        await ledger.write(queries.add_server_key(key, now_ms=wall_clock()))
