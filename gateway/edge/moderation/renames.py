"""Renames players, and takes renames back, as seniors of all boards: a name stands on every board."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_body
from gateway.edge.http.request import moderator_of, parse_body
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.bans import BAN_BODY, refuse_own_players
from gateway.edge.players.friends import named_player
from gateway.edge.players.names import display_name
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_renames import NameUndone, NewName, RenameShown
from gateway.ledger.acts import Act
from gateway.ledger.moderation import renames
from gateway.ledger.moderation.accounts import while_senior
from gateway.ledger.moderation.renames import Rename, RenameOutcome
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.players.player_names import unnamed
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.shown_names import show_name
from policies.errors import NameOvertaken, NameTaken, NotRenamed

SHOWN: Final = 20
"""Renames of a player that are shown, the newest."""

_log = logger()


async def rename_player(request: web.Request) -> web.Response:
    """Give a player another name, which every board shows at once."""
    edge, player = request.app[EDGE], named_player(request)
    new = parse_body(await read_body(request, BAN_BODY), NewName)
    moderator = await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    name = unnamed(player) if new.name is None else display_name(new.name)
    if name == new.was:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "name: is the one that the player has")
    act, is_unique = _act(edge, moderator), edge.settings.unique_names
    work = renames.rename(player, new.was, name, act, code=new.code.value, note=new.note, is_unique=is_unique)
    return await _renamed(edge, moderator, player, work)


async def undo_rename(request: web.Request) -> web.Response:
    """Give a player the name of before the last rename."""
    edge, player = request.app[EDGE], named_player(request)
    undone = parse_body(await read_body(request, BAN_BODY), NameUndone)
    moderator = await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    act, is_unique = _act(edge, moderator), edge.settings.unique_names
    work = renames.undo_rename(player, undone.was, act, is_unique=is_unique)
    return await _renamed(edge, moderator, player, work)


async def renames_shown(edge: Edge, moderator: Moderator, player: str) -> list[RenameShown]:
    """Return the names that moderators gave to a player, the newest first.

    Their notes may tell of any board, and are for moderators of all.
    """
    stored = await edge.ledger.read(renames.renames_of(player, count=SHOWN), ReadKind.MODERATION)
    may_read_notes = moderator.may(Ability.READ, EVERYWHERE)
    return [_shown(rename if may_read_notes else replace(rename, note="")) for rename in stored]


async def _renamed(
    edge: Edge, moderator: Moderator, player: str, work: Operation[RenameOutcome]
) -> web.Response:
    await refuse_own_players(edge, moderator, player)
    try:
        with account_refusals_as_problems():
            outcome = await edge.ledger.write(while_senior(moderator.name, work))
    except NotRenamed as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    except NameOvertaken:
        detail = "was: the player has another name by now; read it again"
        raise Problem(ProblemType.PRECONDITION_FAILED, detail) from None
    except NameTaken:
        raise Problem(ProblemType.NAME_TAKEN, "choose another name") from None
    if outcome.is_new:
        _log.info(Event.PLAYER_RENAMED, player=player, moderator=moderator.name, seq=outcome.rename.seq)
    # Also if it was done before: the process that did it may have died before it showed the name.
    await show_name(edge.ledger, edge.index, edge.catalogue, player)
    return json_response(_shown(outcome.rename), headers=replay_header(is_replay=not outcome.is_new))


def _act(edge: Edge, moderator: Moderator) -> Act:
    return Act(ACTOR + moderator.name, edge.clock())


def _shown(rename: Rename) -> RenameShown:
    return RenameShown(
        player=rename.player,
        was=rename.was,
        name=rename.name,
        code=rename.code,
        note=rename.note,
        by=rename.actor,
        at=rfc3339(rename.at_ms),
        undone_by=rename.undone_by or None,
        undone_at=None if rename.undone_at_ms is None else rfc3339(rename.undone_at_ms),
    )
