"""The parts that handlers work with; `gateway.edge_wiring` builds them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from gateway.catalogue.catalogue import Catalogue
    from gateway.catalogue.outdated_boards import OutdatedBoards
    from gateway.deployment.presence import Presence
    from gateway.deployment.reference_clock import ReferenceClock
    from gateway.edge.admission.address import ClientAddresses
    from gateway.edge.admission.noted_addresses import NotedAddresses
    from gateway.edge.admission.receive_backlog import ReceiveBacklog
    from gateway.edge.admission.shedding import Entrance
    from gateway.edge.admission.turnstile import Turnstile
    from gateway.edge.assets.asset_traffic import AssetTraffic
    from gateway.edge.auth.ended_tokens import EndedTokens
    from gateway.edge.auth.server_keys import ServerKeys
    from gateway.edge.auth.tickets import Tickets
    from gateway.edge.auth.tokens import Tokens
    from gateway.edge.board_parts import BoardParts, BoardPartsCache
    from gateway.edge.health.lag import Lag
    from gateway.edge.health.probes import Probes
    from gateway.edge.http.other_origins import AllowedOrigins
    from gateway.edge.identities.identity_parts import IdentityParts
    from gateway.edge.moderation.logins import Logins
    from gateway.edge.reads.cursors import Cursors
    from gateway.edge.shutdown import Shutdown
    from gateway.edge.submissions.first_runs import BoardOpenings
    from gateway.index.board_indexes import Index
    from gateway.index.feed.live_feed import LiveFeed
    from gateway.index.groups.friends import FriendLists
    from gateway.index.limits.charging import AddressLimit, KeyedLimit
    from gateway.ledger.ledger import Ledger
    from gateway.recordings.assets import Assets
    from gateway.recordings.recordings import Recordings
    from gateway.runtime.clock import Clock
    from gateway.runtime.disk import DiskFloor
    from gateway.runtime.settings import Settings
    from gateway.settlement.banned_players import BannedPlayers
    from gateway.settlement.builds import BuildRegistry
    from gateway.settlement.coalescing import Coalescers
    from policies.loader import Board


@dataclass(frozen=True, slots=True)
class Edge:
    """The parts of a running edge."""

    settings: Settings
    catalogue: Catalogue
    clock: Clock
    reference: ReferenceClock | None
    ledger: Ledger
    recordings: Recordings
    assets: Assets
    asset_traffic: AssetTraffic
    index: Index
    parts: BoardPartsCache
    live: LiveFeed
    lag: Lag
    player_limit: AddressLimit
    profile_limit: KeyedLimit
    profile_changes: AddressLimit
    friends: FriendLists
    coalescers: Coalescers
    addresses: ClientAddresses
    origins: AllowedOrigins
    noted_addresses: NotedAddresses
    cursors: Cursors
    tickets: Tickets
    tokens: Tokens
    ended_tokens: EndedTokens
    identities: IdentityParts
    logins: Logins
    server_keys: ServerKeys
    builds: BuildRegistry
    banned: BannedPlayers
    openings: BoardOpenings
    turnstile: Turnstile
    arriving: ReceiveBacklog
    disk: DiskFloor
    entrance: Entrance
    shutdown: Shutdown
    presence: Presence
    probes: Probes
    outdated: OutdatedBoards

    def of(self, board: Board) -> BoardParts:
        """Return the parts of a board."""
        return self.parts.of(board)

    @property
    def clock_error_ms(self) -> int:
        """Return how far `clock` may be off the time that all edges share (ms)."""
        return self.reference.error_ms if self.reference else 0


EDGE = web.AppKey("edge", Edge)
