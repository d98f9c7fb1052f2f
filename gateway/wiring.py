"""The bootstrap: it assembles edge and steward from the settings, with overrides for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

from redis import Redis as BlockingRedis

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment.presence import PartKind, Presence
from gateway.deployment.reference_clock import ReferenceClock
from gateway.deployment.time_sources import shared_clock
from gateway.edge.admission.address import ClientAddresses
from gateway.edge.admission.shedding import Entrance
from gateway.edge.admission.turnstile import Turnstile
from gateway.edge.auth.keyring import Keyring, keyring_of
from gateway.edge.auth.server_keys import ServerKeys
from gateway.edge.auth.tickets import Tickets
from gateway.edge.auth.tokens import Tokens
from gateway.edge.context import Edge
from gateway.edge.health.lag import Lag
from gateway.edge.health.probes import Probes
from gateway.edge.http.per_board import PerBoard
from gateway.edge.live.messages import as_message
from gateway.edge.players.friends import ADDRESS_RATE, PROFILE_RATE
from gateway.edge.reads.board_reader import BoardReader
from gateway.edge.reads.cursors import Cursors
from gateway.edge.reads.distribution_reader import DistributionReader
from gateway.edge.shutdown import Shutdown
from gateway.edge.submissions.runs import PLAYER_RATE
from gateway.index import keys
from gateway.index.board_index import Index
from gateway.index.connection import connect, connect_blocking, refuse_evicting
from gateway.index.feed.live_feed import LiveFeed
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.groups.friends import CIRCLE_MS, Circles, FriendLists
from gateway.index.groups.segments import SegmentBoards
from gateway.index.limits.admission import AddressLimit, KeyedLimit, SubmissionLimits
from gateway.index.limits.open_runs import OpenRuns
from gateway.index.shards import board_index
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.index.windows.heads import Heads
from gateway.index.windows.sketches import Sketches
from gateway.index.windows.subsets import PlayerLookup
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import limits_with_pages
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.recordings.opening import recordings_of
from gateway.recordings.recordings import Recordings
from gateway.runtime.background import in_background
from gateway.runtime.clock import Clock
from gateway.runtime.disk import disk_floor_of
from gateway.runtime.settings import Settings
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.coalescing import Coalescer
from gateway.settlement.unprojected import UnprojectedChanges, keep_projecting
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.leases import StewardLeases
from policies.loader import Board, load_boards
from policies.ranking import Ranking

QUEUE_TIMEOUT_S = 2.0


def load_policies(settings: Settings) -> Mapping[str, Board]:
    """Load the boards of this deployment. Raises PolicyError."""
    return load_boards(settings.policies_dir)


def ledger_of(settings: Settings) -> Ledger:
    """Return the ledger that the settings name, not opened yet."""
    read_limits = limits_with_pages(settings.ledger_pages)
    if settings.is_on_postgres and settings.ledger_url:
        from gateway.ledger.postgres.store import PostgresLedger  # noqa: PLC0415 - loads the driver

        return PostgresLedger(settings.ledger_url, queue_limit=settings.ledger_queue, read_limits=read_limits)
    return SqliteLedger(settings.ledger_path, queue_limit=settings.ledger_queue, read_limits=read_limits)


def catalogue_of(settings: Settings) -> Catalogue:
    """Return the catalogue of this deployment. Raises PolicyError."""
    return Catalogue(load_policies(settings))


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
async def open_index(settings: Settings, boards: Mapping[str, Board]) -> AsyncIterator[Index]:
    """Open the index; Redis may be away. Raises SettingsError if Redis may evict keys."""
    client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    try:
        await refuse_evicting(client)
        index = Index(client, {})
        index_new_boards(index, boards)
        yield index
        await index.drained()
    finally:
        await client.aclose()


def index_new_boards(index: Index, boards: Mapping[str, Board]) -> None:
    """Make the index serve the boards that are new."""
    for name, board in boards.items():
        if name not in index.boards:
            new = board_index(index.client, board.ranking)
            index.add(new)
            if board.policy.segments:
                new.segments = SegmentBoards(new, board.policy.segments)


@asynccontextmanager
async def open_edge(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Edge]:
    """Run an edge without its listener, by the shared clock or the given one."""
    catalogue = catalogue_of(settings)
    keyring = keyring_of(settings)
    async with (
        open_ledger(settings) as ledger,
        open_index(settings, catalogue.of_files) as index,
        open_recordings(settings) as recordings,
        _open_live(settings, catalogue.of_files) as live,
        keep_projecting(ledger, index) as unprojected,
    ):
        reference = (
            None if clock else await shared_clock(settings, ledger, index.client, catalogue.of_files.values())
        )
        chosen_clock = clock or reference
        assert chosen_clock is not None
        opened = _EdgeResources(
            settings, catalogue, chosen_clock, reference, ledger, index, recordings, live, unprojected
        )
        edge = _edge(opened, keyring)
        await edge.builds.refresh()
        try:
            async with (
                in_background(edge.builds.keep_fresh(), name="builds"),
                in_background(edge.presence.keep(), name="presence"),
                in_background(edge.lag.keep_fresh(), name="lag"),
                _kept_fresh(reference),
            ):
                yield edge
        finally:
            for coalescer in edge.coalescers.existing():
                await coalescer.drained()


@asynccontextmanager
async def _kept_fresh(reference: ReferenceClock | None) -> AsyncIterator[None]:
    if reference is None:
        yield
        return
    async with in_background(reference.keep_fresh(), name="clock"):
        yield


@asynccontextmanager
async def _open_live(settings: Settings, boards: Mapping[str, Board]) -> AsyncIterator[LiveFeed]:
    blocking = connect_blocking(settings.redis_url)
    live = LiveFeed(
        blocking,
        _rankings(boards),
        seats=settings.live_listeners,
        announce_as=as_message if settings.live_pubsub else None,
    )
    live.start()
    try:
        yield live
    finally:
        await live.stop()
        await blocking.aclose()


@asynccontextmanager
async def open_steward(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Steward]:
    """Prepare a steward for its rounds, by the shared clock or the given one."""
    catalogue = catalogue_of(settings)
    async with (
        open_ledger(settings) as ledger,
        open_index(settings, catalogue.of_files) as index,
        open_recordings(settings) as recordings,
    ):
        queue = BlockingRedis.from_url(
            settings.jobs_url, socket_timeout=QUEUE_TIMEOUT_S, socket_connect_timeout=QUEUE_TIMEOUT_S
        )
        try:
            reference = (
                None
                if clock
                else await shared_clock(settings, ledger, index.client, catalogue.of_files.values())
            )
            chosen_clock = clock or reference
            assert chosen_clock is not None
            async with _kept_fresh(reference):
                leases = StewardLeases(ledger, clock=chosen_clock)
                try:
                    yield Steward(
                        settings,
                        catalogue,
                        ledger,
                        index,
                        RqJobs(queue),
                        recordings=recordings,
                        clock=chosen_clock,
                        leases=leases,
                    )
                finally:
                    await leases.give_up()
        finally:
            queue.close()


def _rankings(boards: Mapping[str, Board]) -> dict[str, Ranking]:
    return {name: board.ranking for name, board in boards.items()}


@dataclass(frozen=True, slots=True)
class _EdgeResources:
    """The opened resources of an edge, and the settings and catalogue that opened them."""

    settings: Settings
    catalogue: Catalogue
    clock: Clock
    reference: ReferenceClock | None
    ledger: Ledger
    index: Index
    recordings: Recordings
    live: LiveFeed
    unprojected: UnprojectedChanges


class _PartsPerBoard(TypedDict):
    """The parts of an edge that each board has one of, or some boards have."""

    readers: PerBoard[BoardReader]
    distributions: PerBoard[DistributionReader]
    circles: PerBoard[Circles]
    coalescers: PerBoard[Coalescer]
    segments: PerBoard[SegmentBoards]
    player_lookups: PerBoard[PlayerLookup]
    submission_limits: PerBoard[SubmissionLimits]
    run_limits: PerBoard[KeyedLimit]
    open_runs: PerBoard[OpenRuns]


class _SenderParts(TypedDict):
    """The parts of an edge that identify senders."""

    addresses: ClientAddresses
    cursors: Cursors
    tickets: Tickets
    tokens: Tokens
    server_keys: ServerKeys


def _edge(opened: _EdgeResources, keyring: Keyring) -> Edge:
    client, catalogue = opened.index.client, opened.catalogue
    return Edge(
        settings=opened.settings,
        catalogue=catalogue,
        clock=opened.clock,
        reference=opened.reference,
        ledger=opened.ledger,
        recordings=opened.recordings,
        index=opened.index,
        live=opened.live,
        lag=Lag(opened.ledger, opened.unprojected, catalogue, clock=opened.clock),
        player_limit=AddressLimit(client, PLAYER_RATE, keys.player_creation),
        profile_limit=KeyedLimit(client, PROFILE_RATE, keys.profile_limit),
        profile_changes=AddressLimit(client, ADDRESS_RATE, keys.profile_changes),
        friends=FriendLists(client, most_bytes=opened.settings.friends_mib * 2**20),
        builds=BuildRegistry(opened.ledger),
        turnstile=Turnstile(),
        disk=disk_floor_of(opened.settings),
        entrance=Entrance(
            opened.settings.answer_within_s, index_timeout_s=opened.settings.redis_timeout_ms / 1000
        ),
        shutdown=Shutdown(),
        presence=Presence(client, PartKind.EDGE, lambda: catalogue.of_files),
        probes=Probes(opened.ledger, opened.index, catalogue),
        **_parts_per_board(opened),
        **_sender_parts(opened, keyring),
    )


def _parts_per_board(opened: _EdgeResources) -> _PartsPerBoard:
    ledger, index, catalogue = opened.ledger, opened.index, opened.catalogue
    of = index.boards
    readers = PerBoard(catalogue, lambda board: BoardReader(of[board.name], ledger))
    circles = CircleMemory(CIRCLE_MS / 1000)
    return {
        "readers": readers,
        "distributions": PerBoard(catalogue, lambda board: _distribution_reader(readers[board.name])),
        "circles": PerBoard(catalogue, lambda board: Circles(of[board.name], circles)),
        "coalescers": PerBoard(
            catalogue,
            lambda board: Coalescer(ledger, index, staleness_s=board.policy.staleness_s),
            needs=lambda board: board.policy.staleness_s,
        ),
        "segments": PerBoard(
            catalogue,
            lambda board: SegmentBoards(of[board.name], board.policy.segments),
            needs=lambda board: board.policy.segments,
        ),
        "player_lookups": PerBoard(catalogue, lambda board: PlayerLookup(of[board.name])),
        "submission_limits": PerBoard(
            catalogue, lambda board: SubmissionLimits(index.client, board.name, board.policy.limits)
        ),
        "run_limits": PerBoard(catalogue, lambda board: _run_limit(index, board)),
        "open_runs": PerBoard(
            catalogue, lambda board: OpenRuns(index.client, board.name, board.policy.limits.open_runs)
        ),
    }


def _sender_parts(opened: _EdgeResources, keyring: Keyring) -> _SenderParts:
    return {
        "addresses": ClientAddresses(opened.settings.trusted_proxies, keyring.derive(b"address")),
        "cursors": Cursors(keyring.derive(b"cursor")),
        "tickets": Tickets(keyring),
        "tokens": Tokens(keyring),
        "server_keys": ServerKeys(opened.ledger),
    }


def put_in_force(edge: Edge, boards: Mapping[str, Board]) -> None:
    """Replace the policies of a running edge in one step, from the next request on.

    Requests in progress finish under their old policy; only the limits, which requests share, change for all.
    A new board is available once this returns.
    """
    index_new_boards(edge.index, boards)
    edge.live.follow_new(_rankings(boards))
    before = edge.catalogue.of_files
    changed = [name for name, board in before.items() if board.digest != boards[name].digest]
    edge.catalogue.replace(boards)
    for name in changed:
        for limits in (edge.submission_limits, edge.run_limits, edge.open_runs):
            limits.forget(name)


def _distribution_reader(reader: BoardReader) -> DistributionReader:
    """Build the reader of a board's score distributions."""
    index = reader.index
    sketches = Sketches(index.client, index.board, index.ranking.policy.order)
    return DistributionReader(reader, ExactDistributions(index), Heads(index), sketches)


def _run_limit(index: Index, board: Board) -> KeyedLimit:
    """Return the limit on opening runs, which equals the one on submissions."""
    return KeyedLimit(
        index.client, board.policy.limits.player, lambda who: keys.limit(board.name, "runs", who)
    )
