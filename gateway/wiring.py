"""The bootstrap: what every part opens, assembled from the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.catalogue.catalogue import Catalogue, Lookup
from gateway.deployment.reference_clock import ReferenceClock
from gateway.index.board_index import BoardIndex
from gateway.index.board_indexes import Index
from gateway.index.connection import connect, refuse_evicting
from gateway.index.groups.segments import SegmentBoards
from gateway.index.shards import board_index
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind, limits_with_pages
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.recordings.opening import recordings_of
from gateway.recordings.recordings import Recordings
from gateway.runtime.background import in_background
from gateway.runtime.settings import Settings
from policies import loader
from policies.loader import Board, Policies
from policies.opened_board import OpenedBoard


def load_policies(settings: Settings) -> Mapping[str, Board]:
    """Load the boards of files of this deployment. Raises PolicyError."""
    return loader.load_boards(settings.policies_dir)


def ledger_of(settings: Settings) -> Ledger:
    """Return the ledger that the settings name, not opened yet."""
    read_limits = limits_with_pages(settings.ledger_pages)
    if settings.is_on_postgres and settings.ledger_url:
        from gateway.ledger.postgres.store import PostgresLedger  # noqa: PLC0415 - loads the driver

        return PostgresLedger(settings.ledger_url, queue_limit=settings.ledger_queue, read_limits=read_limits)
    return SqliteLedger(settings.ledger_path, queue_limit=settings.ledger_queue, read_limits=read_limits)


def catalogue_of(settings: Settings, ledger: Ledger, policies: Policies | None = None) -> Catalogue:
    """Return the catalogue of a steward, a worker or a command, who also settle what was deleted.

    Raises PolicyError if the policies are still to be loaded.
    """
    policies = policies or loader.load_policies(settings.policies_dir)
    return Catalogue(policies, lookup_of(ledger, ReadKind.DUTIES), limit=settings.boards_in_memory)


def lookup_of(ledger: Ledger, kind: ReadKind) -> Lookup:
    """Return how a catalogue finds boards that are rows, as reads of this kind."""

    async def look_up(names: Sequence[str]) -> Mapping[str, OpenedBoard]:
        return await ledger.read(boards_named(names), kind)

    return look_up


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Open the ledger for a while. Raises LedgerUnavailable."""
    ledger = ledger_of(settings)
    try:
        await ledger.open()
        yield ledger
    finally:
        await ledger.close()


@asynccontextmanager
async def open_recordings(settings: Settings) -> AsyncIterator[Recordings]:
    """Open the recordings, without connecting to their store yet. Raises SettingsError."""
    recordings = recordings_of(settings)
    try:
        yield recordings
    finally:
        recordings.close()


@asynccontextmanager
async def open_index(settings: Settings) -> AsyncIterator[Index]:
    """Open the index; Redis may be away. Raises SettingsError if Redis may evict keys."""
    client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    try:
        await refuse_evicting(client)
        index = Index(client, new_board_index, limit=settings.boards_in_memory)
        yield index
        await index.drained()
    finally:
        with suppress(RedisError):  # a Redis that takes no leave in time keeps nobody from ending in order
            await client.aclose()


def new_board_index(client: Redis, board: Board) -> BoardIndex:
    """Build the index of a board, with the groups that its policy declares."""
    index = board_index(client, board.ranking)
    if board.policy.segments:
        index.segments = SegmentBoards(index, board.policy.segments)
    return index


@asynccontextmanager
async def kept_fresh(reference: ReferenceClock | None) -> AsyncIterator[None]:
    """Keep the clock compared with its reference while the block runs, if it has one."""
    if reference is None:
        yield
        return
    async with in_background(reference.keep_fresh(), name="clock"):
        yield
