"""Lists the merges of players, and undoes some, as a senior of all boards: runs move on any of them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.bans import refuse_own_boards, refuse_own_players
from gateway.edge.players.friends import named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_merges import MergeOfPlayer, MergesOfPlayer
from gateway.ledger.moderation.accounts import while_senior
from gateway.ledger.moderation.bans import EVERYWHERE as ALL_BOARDS
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.players import merges
from gateway.ledger.players.merges import Merge
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.merges import MERGES_LIMIT, MergeFollower, undo
from policies.errors import StateConflict

_log = logger()

SHOWN: Final = MERGES_LIMIT
"""Merges of a player into others, and of others into the player, that are shown: the newest of each."""


async def list_merges_of_player(request: web.Request) -> web.Response:
    """Return the merges of a player into others, and then those of others into the player, newest first."""
    edge, player = request.app[EDGE], named_player(request)
    await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    found = await edge.ledger.read(merges.merges_of(player, count=SHOWN), ReadKind.MODERATION)
    return json_response(MergesOfPlayer(player=player, merges=[_shown(merge) for merge in found]))


async def undo_merge_of_player(request: web.Request) -> web.Response:
    """Undo a merge of a player, and answer 200. Sending it again changes nothing."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    merge = await edge.ledger.read(merges.merge(request.match_info["merge"]), ReadKind.MODERATION)
    if merge is None or player not in {merge.source, merge.target}:
        raise Problem(ProblemType.NOT_FOUND, "the player has no such merge")
    await refuse_own_players(edge, moderator, merge.source, merge.target)
    await refuse_own_boards(edge, moderator, ALL_BOARDS)
    undoing = undo(merge.merge_id, by=ACTOR + moderator.name, now_ms=edge.clock())
    try:
        with account_refusals_as_problems():
            outcome = await edge.ledger.write(while_senior(moderator.name, undoing))
    except StateConflict as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    assert outcome is not None
    if outcome.is_new:
        _log.info(Event.PLAYERS_PARTED, player=merge.source, by=moderator.name, merge=merge.merge_id)
    follower = MergeFollower(edge.ledger, edge.index, edge.catalogue, is_edge=True)
    followed = await follower.follow(merge.merge_id, now_ms=edge.clock())
    return json_response(_shown(followed), headers=replay_header(is_replay=not outcome.is_new))


def _shown(merge: Merge) -> MergeOfPlayer:
    return MergeOfPlayer(
        merge=merge.merge_id,
        source=merge.source,
        target=merge.target,
        by=merge.actor,
        began_at=rfc3339(merge.began_at_ms),
        undone_by=merge.undone_by or None,
        undone_at=None if merge.undone_at_ms is None else rfc3339(merge.undone_at_ms),
        moved=merge.changed_count,
        is_done=merge.seen_seq is None,
    )
