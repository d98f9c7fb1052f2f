"""Imports on an edge of the tests: the key of a server in a file, and the command with its status."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import typer
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from scoregate.commands.imports import import_scores
from tests.support.attack import registered
from tests.support.harness import Harness


async def key_of(harness: Harness, folder: Path) -> Path:
    """A file with the private key of a server that was just registered as `eu-1`."""
    private, key = await registered(harness), folder / "key.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


async def import_into(harness: Harness, source: Path | str, key_file: Path, **how: Any) -> int:
    """Import onto the board `arcade`, and return the status of the command."""
    try:
        await asyncio.to_thread(import_scores, str(source), "arcade", harness.url, key_file, "eu-1", **how)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


async def listed(harness: Harness) -> list[tuple[str, int]]:
    """The players of the board and their scores, the best first."""
    answer = await harness.get("/v1/boards/arcade/entries?limit=100")
    return [(each["player"], each["score"]) for each in answer.body["entries"]]
