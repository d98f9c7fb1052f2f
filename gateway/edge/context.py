"""What the handlers work with, put together once by `gateway.wiring`."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from gateway.boards.admission import AddressLimit, KeyedLimit, SubmissionLimits
from gateway.boards.friends import Circles, FriendLists
from gateway.boards.index import Index
from gateway.boards.live import LiveFeed
from gateway.boards.runs import OpenRuns
from gateway.boards.segments import SegmentBoards
from gateway.boards.subsets import ListedPlayers
from gateway.builds import BuildRegistry
from gateway.clock import Clock
from gateway.coalescing import Coalescer
from gateway.disk import DiskFloor
from gateway.edge.address import ClientAddresses
from gateway.edge.board_reader import BoardReader
from gateway.edge.credentials.server_keys import ServerKeys
from gateway.edge.credentials.tickets import Tickets
from gateway.edge.credentials.tokens import Tokens
from gateway.edge.cursors import Cursors
from gateway.edge.entrance import Entrance
from gateway.edge.lag import Lag
from gateway.edge.of_board import OfBoards
from gateway.edge.probes import Probes
from gateway.edge.shutdown import Shutdown
from gateway.edge.spreads import SpreadReader
from gateway.edge.turnstile import Turnstile
from gateway.ledger.ledger import Ledger
from gateway.presence import Presence
from gateway.recordings.recordings import Recordings
from gateway.reference_clock import ReferenceClock
from gateway.reload import BoardsInForce
from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class Edge:
    """The parts of a running edge."""

    settings: Settings
    boards: BoardsInForce
    clock: Clock
    reference: ReferenceClock | None
    ledger: Ledger
    recordings: Recordings
    index: Index
    readers: OfBoards[BoardReader]
    spreads: OfBoards[SpreadReader]
    live: LiveFeed
    lag: Lag
    submission_limits: OfBoards[SubmissionLimits]
    run_limits: OfBoards[KeyedLimit]
    open_runs: OfBoards[OpenRuns]
    player_limit: AddressLimit
    profile_limit: KeyedLimit
    profile_changes: AddressLimit
    friends: FriendLists
    circles: OfBoards[Circles]
    coalescers: OfBoards[Coalescer]
    segments: OfBoards[SegmentBoards]
    listed: OfBoards[ListedPlayers]
    addresses: ClientAddresses
    cursors: Cursors
    tickets: Tickets
    tokens: Tokens
    server_keys: ServerKeys
    builds: BuildRegistry
    turnstile: Turnstile
    disk: DiskFloor
    entrance: Entrance
    shutdown: Shutdown
    presence: Presence
    probes: Probes

    @property
    def clock_error_ms(self) -> int:
        """How far `clock` may be off the time that all edges share (ms)."""
        return self.reference.error_ms if self.reference else 0


EDGE = web.AppKey("edge", Edge)
