"""The bootstrap of an edge, with overrides for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.deployment.presence import PartKind, Presence
from gateway.deployment.reference_clock import ReferenceClock
from gateway.deployment.time_sources import shared_clock
from gateway.edge.admission.address import ClientAddresses
from gateway.edge.admission.noted_addresses import NotedAddresses
from gateway.edge.admission.receive_backlog import ReceiveBacklog
from gateway.edge.admission.shedding import Entrance
from gateway.edge.admission.turnstile import Turnstile
from gateway.edge.assets.asset_traffic import AssetTraffic
from gateway.edge.auth.ended_tokens import EndedTokens
from gateway.edge.auth.keyring import Keyring, keyring_of
from gateway.edge.auth.login_attempts import LoginAttempts
from gateway.edge.auth.server_keys import ServerKeys
from gateway.edge.auth.tickets import Tickets
from gateway.edge.auth.tokens import Tokens
from gateway.edge.board_parts import BoardPartsCache, SharedParts
from gateway.edge.context import Edge
from gateway.edge.health.lag import Lag
from gateway.edge.health.probes import Probes
from gateway.edge.http.other_origins import AllowedOrigins
from gateway.edge.identities.identity_parts import IdentityParts
from gateway.edge.identities.shown_identity import SIGN_IN_RATE
from gateway.edge.identities.sign_in_file import providers_of
from gateway.edge.live.messages import as_message
from gateway.edge.moderation.logins import Logins
from gateway.edge.players.friends import ADDRESS_RATE, PROFILE_RATE
from gateway.edge.reads.cursors import Cursors
from gateway.edge.shutdown import Shutdown
from gateway.edge.submissions.first_runs import BoardOpenings
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.index.connection import connect_blocking
from gateway.index.feed.live_feed import LiveFeed
from gateway.index.groups.friends import FriendLists
from gateway.index.limits.charging import AddressLimit, KeyedLimit
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.recordings.assets import Assets
from gateway.recordings.recordings import Recordings
from gateway.runtime.background import in_background
from gateway.runtime.bounded_cache import let_go_of_idle
from gateway.runtime.clock import Clock
from gateway.runtime.disk import disk_floor_of
from gateway.runtime.settings import Settings
from gateway.settlement.banned_players import BannedPlayers
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.coalescing import Coalescers
from gateway.settlement.unprojected import UnprojectedChanges, keep_projecting
from gateway.wiring import kept_fresh, lookup_of, open_index, open_ledger, open_recordings
from policies import loader
from policies.loader import Policies
from policies.ranking import Ranking


@asynccontextmanager
async def open_edge(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Edge]:
    """Run an edge without its listener, by the shared clock or the given one."""
    policies = loader.load_policies(settings.policies_dir)
    keyring = keyring_of(settings)
    async with (
        open_ledger(settings) as ledger,
        open_index(settings) as index,
        open_recordings(settings) as recordings,
        keep_projecting(ledger, index) as unprojected,
        AsyncExitStack() as stack,
    ):
        catalogue = Catalogue(
            policies,
            lookup_of(ledger, ReadKind.REQUESTS),
            limit=settings.boards_in_memory,
            serves_deleted=False,
        )
        live = await stack.enter_async_context(_open_live(settings, catalogue))
        reference = (
            None if clock else await shared_clock(settings, ledger, index.client, policies.by_name.values())
        )
        chosen_clock = clock or reference
        assert chosen_clock is not None
        opened = _EdgeResources(
            settings, catalogue, chosen_clock, reference, ledger, index, recordings, live, unprojected
        )
        edge = _edge(opened, keyring)
        await edge.builds.refresh()
        await edge.banned.refresh()
        await edge.ended_tokens.refresh()
        await edge.outdated.learn()
        try:
            async with (
                in_background(edge.builds.keep_fresh(), name="builds"),
                in_background(edge.banned.keep_fresh(), name="bans"),
                in_background(edge.ended_tokens.keep_fresh(), name="tokens"),
                in_background(edge.presence.keep(), name="presence"),
                in_background(edge.lag.keep_fresh(), name="lag"),
                in_background(let_go_of_idle([edge.parts.cache, index.cache, catalogue.cache]), name="idle"),
                kept_fresh(reference),
            ):
                yield edge
        finally:
            await edge.coalescers.drained()


@asynccontextmanager
async def _open_live(settings: Settings, catalogue: Catalogue) -> AsyncIterator[LiveFeed]:
    async def ranking_of(name: str) -> Ranking | None:
        board = await catalogue.board(name)
        return board.ranking if board else None

    blocking = connect_blocking(settings.redis_url)
    live = LiveFeed(
        blocking,
        ranking_of,
        seats=settings.live_listeners,
        announce_as=as_message if settings.live_pubsub else None,
    )
    live.start()
    try:
        yield live
    finally:
        await live.stop()
        await blocking.aclose()


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


class _SenderParts(TypedDict):
    """The parts of an edge that identify senders."""

    addresses: ClientAddresses
    noted_addresses: NotedAddresses
    cursors: Cursors
    tickets: Tickets
    tokens: Tokens
    ended_tokens: EndedTokens
    identities: IdentityParts
    logins: Logins
    server_keys: ServerKeys


def _edge(opened: _EdgeResources, keyring: Keyring) -> Edge:
    client, catalogue = opened.index.client, opened.catalogue
    return Edge(
        settings=opened.settings,
        catalogue=catalogue,
        origins=AllowedOrigins(opened.settings.origins, catalogue),
        clock=opened.clock,
        reference=opened.reference,
        ledger=opened.ledger,
        recordings=opened.recordings,
        assets=Assets(opened.recordings),
        asset_traffic=AssetTraffic(client),
        index=opened.index,
        live=opened.live,
        lag=Lag(opened.ledger, opened.unprojected, catalogue, clock=opened.clock),
        player_limit=AddressLimit(client, SIGN_IN_RATE, keys.player_creation),
        profile_limit=KeyedLimit(client, PROFILE_RATE, keys.profile_limit),
        profile_changes=AddressLimit(client, ADDRESS_RATE, keys.profile_changes),
        friends=FriendLists(client, most_bytes=opened.settings.friends_mib * 2**20),
        builds=BuildRegistry(opened.ledger),
        banned=BannedPlayers(opened.ledger),
        openings=BoardOpenings(client),
        turnstile=Turnstile(),
        arriving=ReceiveBacklog(opened.settings.arriving_mib * 2**20),
        disk=disk_floor_of(opened.settings),
        entrance=Entrance(
            opened.settings.answer_within_s, index_timeout_s=opened.settings.redis_timeout_ms / 1000
        ),
        shutdown=Shutdown(),
        presence=Presence(client, PartKind.EDGE, lambda: catalogue.policies.by_name),
        probes=Probes(opened.ledger, opened.index),
        outdated=OutdatedBoards(opened.ledger, catalogue, ReadKind.REQUESTS),
        parts=BoardPartsCache(
            SharedParts(opened.ledger, opened.index), limit=opened.settings.boards_in_memory
        ),
        coalescers=Coalescers(opened.ledger, opened.index),
        **_sender_parts(opened, keyring),
    )


def _sender_parts(opened: _EdgeResources, keyring: Keyring) -> _SenderParts:
    addresses = ClientAddresses(opened.settings.trusted_proxies, keyring.derive(b"address"))
    return {
        "addresses": addresses,
        "noted_addresses": NotedAddresses(addresses, is_on=opened.settings.address_days > 0),
        "cursors": Cursors(keyring.derive(b"cursor")),
        "tickets": Tickets(keyring),
        "tokens": Tokens(keyring),
        "ended_tokens": EndedTokens(opened.ledger),
        "identities": IdentityParts(
            opened.index.client, keyring.derive(b"identity"), providers_of(opened.settings)
        ),
        "logins": _logins(opened, keyring),
        "server_keys": ServerKeys(opened.ledger),
    }


def _logins(opened: _EdgeResources, keyring: Keyring) -> Logins:
    settings, provider = opened.settings, None
    if settings.oidc_issuer:
        from gateway.edge.auth.identity_provider import IdentityProvider  # noqa: PLC0415 - loads authlib

        provider = IdentityProvider(settings)
    return Logins(
        opened.index.client,
        keyring.derive(b"second-factor"),
        attempts=LoginAttempts(keyring.derive(b"login-attempt")),
        provider=provider,
        takes_passwords=settings.password_logins,
    )


def put_in_force(edge: Edge, policies: Policies) -> None:
    """Replace the policies of a running edge in one step, from the next request on.

    Requests in progress finish under their old policy; only the limits, which requests share, change for all.
    A new board is available once this returns.
    """
    edge.catalogue.replace(policies)
