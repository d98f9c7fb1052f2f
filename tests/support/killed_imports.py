"""Imports as processes that may be killed, and exports of every source with ties, doubles and rows that are refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gateway.runtime.settings import load_settings
from scoregate.commands.keys import register
from tests.clients.faulty import FaultyProxy
from tests.support import preloaded
from tests.support.deployment import Deployment, ended
from tests.support.harness import Harness
from tests.support.ledger import rows
from tests.support.preloaded import Process

BATCH: Final = 100
"""Rows of a request of an import here, and members of a step of ZSCAN."""

WRITES: Final = "^POST .*/entries:batch$"

_SMALL: Final = f"""
import os, scoregate_client.connection as connection, scoregate_client.retrying as retrying
from scoregate.imports import imported_rows, redis_copy
imported_rows.BATCH = redis_copy.PAGE = {BATCH}
retrying.LONGEST_PAUSE_S = 1.0
"""


class End(NamedTuple):
    """What a run of an import came to: its exit status, what it said and where, and what it sent."""

    status: int
    said: str
    errors: str
    sent: list[list[str]]
    """The operations of each request."""


class Running:
    """An import that runs."""

    def __init__(self, process: Process, output: IO[bytes], errors: IO[bytes], before: int) -> None:
        self.process = process
        self._streams = (output, errors)
        self._before = before

    async def end(self, proxy: FaultyProxy) -> End:
        """What it came to, once it has ended."""
        status = await ended(self.process)
        said, errors = map(_all_of, self._streams)
        bodies = [each.body for each in proxy.seen(WRITES)[self._before :]]
        sent = [[each["operation"] for each in orjson.loads(body)] for body in bodies]
        return End(status, said, errors, sent)


def _all_of(stream: IO[bytes]) -> str:
    with stream:
        stream.seek(0)
        return stream.read().decode()


class Imports:
    """Imports onto boards, through a proxy before the gateway, and what the boards have then."""

    def __init__(self, house: Deployment, proxy: FaultyProxy, harness: Harness, signed: list[str]) -> None:
        self.house = house
        self.proxy = proxy
        self.folder = house.folder / "imports"
        self.folder.mkdir()
        self._harness = harness
        self._signed = signed

    def start(self, words: list[str], board: str, failpoint: str = "", attempts: int = 99) -> Running:
        """Start an import onto a board, or go on with it; each request is sent so often."""
        environment = {**os.environ, **({"SCOREGATE_FAILPOINT": f"{failpoint}:kill"} if failpoint else {})}
        streams = TemporaryFile(), TemporaryFile()  # noqa: SIM115 - whoever reads them closes them
        options = ["--board", board, *self._signed]
        before = f"{_SMALL}connection.ATTEMPTS = {attempts}\nos.chdir({str(self.folder)!r})"
        count = len(self.proxy.seen(WRITES))
        process = preloaded.start(["import", *words, *options], environment, *streams, before=before)
        return Running(process, *streams, count)

    async def run(self, words: list[str], board: str, failpoint: str = "", attempts: int = 99) -> End:
        """Start an import onto a board, or go on with it, and return what it came to."""
        return await self.start(words, board, failpoint, attempts).end(self.proxy)

    def rows_done(self, board: str) -> int:
        """How many rows are done, as the file of the import says."""
        found = list(self.folder.glob(f"*.{board}.imported"))
        return int(json.loads(found[0].read_text())["done"]) if found else 0

    def refusals(self, board: str) -> str:
        """What the import says of the rows that were refused."""
        [found] = self.folder.glob(f"*.{board}.refused")
        return found.read_text()

    def stored(self, board: str) -> list[tuple[Any, ...]]:
        """Every submission of a board that the ledger has, in its order, with what decides its rank."""
        columns = "player, score, achieved_at_ms, stats, state, reason"
        return rows(
            self.house.ledger, f"SELECT {columns} FROM submissions WHERE board = ? ORDER BY seq", board
        )

    async def shown(self, board: str) -> list[dict[str, Any]]:
        """Every entry that a board shows, without what names the submission."""
        entries, cursor = [], ""
        while True:
            answer = await self._harness.get(f"/v1/boards/{board}/entries?limit=100{cursor}")
            assert 200 == answer.status, answer.raw
            entries += [{name: each[name] for name in SHOWN} for each in answer.body["entries"]]
            if not answer.body["next"]:
                return entries
            cursor = f"&cursor={answer.body['next']}"


SHOWN: Final = ("rank", "player", "score", "achieved_at")


@asynccontextmanager
async def importing(house: Deployment, harness: Harness, port: int) -> AsyncIterator[Imports]:
    """Imports into a deployment, through a proxy at `port`, by a server that is registered."""
    private, key = Ed25519PrivateKey.generate(), house.folder / "key.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = base64.b64encode(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
    await register(load_settings(**house.settings), "eu-1", public, ("*",))
    host, _, upstream = house.authority.partition(":")
    proxy = FaultyProxy((host, int(upstream)))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
    signed = ["--url", f"http://127.0.0.1:{port}", "--key-file", str(key), "--key-id", "eu-1"]
    try:
        yield Imports(house, proxy, harness, signed)
    finally:
        server.close()
        await proxy.end()
