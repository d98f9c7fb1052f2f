"""Shows by what a player can sign in, to the player and to moderators."""

from __future__ import annotations

from gateway.edge.context import Edge
from gateway.edge.wire.identity_answers import IdentityList, IdentityShown
from gateway.ledger.players import identities as stored
from gateway.ledger.players.identities import OwnIdentity
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339


async def identities_shown(edge: Edge, player: str) -> IdentityList:
    """Return the identities of a player, the oldest first."""
    own = await edge.ledger.read(stored.identities_of(player), ReadKind.PLAYERS)
    return IdentityList(player=player, identities=[_shown(each) for each in own])


def _shown(identity: OwnIdentity) -> IdentityShown:
    added_at = rfc3339(identity.added_at_ms)
    return IdentityShown(identity=identity.shown_id, provider=identity.provider, added_at=added_at)
