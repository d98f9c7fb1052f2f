"""Bans players and lifts their bans, as seniors of a board, of a family or of everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_body
from gateway.edge.http.request import moderator_of, no_such_board, parse_body
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_bans import BanList, BanShown, NewBan
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.bans import Ban
from gateway.ledger.players.merges import with_targets
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339, rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.bans import BanFollower, ban_id_of, begin, lift
from gateway.settlement.case_decisions import has_stake
from policies.choices import Writes
from policies.loader import Board
from policies.moderation import OwnBoard

BAN_BODY: Final = 16_384
"""Bytes of the longest ban, whose note and message may be in any script."""

SHOWN: Final = 100
"""Bans of a player that are shown, the newest."""

_log = logger()


async def ban_player(request: web.Request) -> web.Response:
    """Answer 201 once a ban is in force, with how many submissions have followed it by then."""
    edge, player = request.app[EDGE], named_player(request)
    new = parse_body(await read_body(request, BAN_BODY), NewBan)
    scope = new.board or new.family or bans.EVERYWHERE
    moderator = await moderator_of(request, Ability.OVERRULE, scope or EVERYWHERE)
    await refuse_own_players(edge, moderator, player)
    await _check_scope(edge, new)
    ban = _ban_of(edge, moderator, player, scope, new)
    await refuse_own_boards(edge, moderator, ban.scope)
    stored = await edge.ledger.read(bans.ban(ban.ban_id), ReadKind.MODERATION)
    if stored is None and ban.until_ms is not None and ban.until_ms <= ban.began_at_ms:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "until: is not in the future")
    outcome = await edge.ledger.write(begin(ban))
    if not outcome.is_new and _content(outcome.ban) != _content(ban):
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH, "the operation id was used before, with another body")
    if outcome.is_new:
        _log.info(Event.PLAYER_BANNED, player=player, ban=ban.ban_id, moderator=moderator.name)
    return await _followed(edge, ban.ban_id, status=201, is_replay=not outcome.is_new)


async def lift_ban(request: web.Request) -> web.Response:
    """Lift a ban. What it took off comes back, unless another ban covers it."""
    edge, player, ban_id = request.app[EDGE], named_player(request), request.match_info["ban"]
    moderator = await moderator_of(request, Ability.OVERRULE, None)
    ban = await edge.ledger.read(bans.ban(ban_id), ReadKind.MODERATION)
    if ban is None or ban.player != player or not moderator.reaches(ban.scope or EVERYWHERE):
        raise Problem(ProblemType.NOT_FOUND, "there is no such ban of the player")
    await moderator_of(request, Ability.OVERRULE, ban.scope or EVERYWHERE)
    await refuse_own_players(edge, moderator, player)
    await refuse_own_boards(edge, moderator, ban.scope)
    by = f"moderator:{moderator.name}"
    outcome = await edge.ledger.write(lift(ban_id, by=by, now_ms=edge.clock()))
    if outcome.is_new:
        _log.info(Event.BAN_LIFTED, player=player, ban=ban_id, moderator=moderator.name)
    return await _followed(edge, ban_id, status=200, is_replay=not outcome.is_new)


async def list_bans(request: web.Request) -> web.Response:
    """Return the bans of a player on what the moderator may read."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.READ, None)
    return json_response(BanList(player=player, bans=await bans_shown(edge, moderator, player)))


async def bans_shown(edge: Edge, moderator: Moderator, player: str) -> list[BanShown]:
    """Return the bans of a player that a moderator may see: wider ones are for those who made them."""
    stored = await edge.ledger.read(bans.bans_of(player, count=SHOWN), ReadKind.MODERATION)
    return [ban_shown(edge, ban) for ban in stored if moderator.may(Ability.READ, ban.scope or EVERYWHERE)]


def own_players_of(moderator: Moderator) -> Operation[list[str]]:
    """Return the players of a moderator's own, and those into whom they are merged now."""
    return with_targets({moderator.name, *moderator.players})


async def refuse_own_players(edge: Edge, moderator: Moderator, *players: str) -> None:
    """Raise `self-approval` if a player is the moderator's own, or one into whom their own was merged."""
    own = await edge.ledger.read(own_players_of(moderator), ReadKind.MODERATION)
    if not {*own}.isdisjoint(players):
        raise Problem(ProblemType.SELF_APPROVAL, "you cannot decide on your own player")


async def refuse_own_boards(edge: Edge, moderator: Moderator, scope: str) -> None:
    """Raise `self-approval` in a scope of bans in which a player of the moderator's own has a stake.

    Who is banned, or parted from another, decides who stands there, too; a policy may allow that.
    """
    own_players = await edge.ledger.read(own_players_of(moderator), ReadKind.MODERATION)
    board = await edge.catalogue.board(scope)
    if board is None:
        is_own = await _has_score_in_scope(edge, own_players, scope)
    else:
        stake = has_stake(board, own_players, now_ms=edge.clock())
        is_own = _forbids(board) and await edge.ledger.read(stake, ReadKind.MODERATION)
    if is_own:
        detail = "you cannot decide on a board on which you have a score yourself"
        raise Problem(ProblemType.SELF_APPROVAL, detail)


async def _has_score_in_scope(edge: Edge, players: Sequence[str], scope: str) -> bool:
    """Return whether one of these has a score on a board in scope where that forbids to decide.

    A score that only a ban takes away is one. Who stands on a rollup has one on its family.
    """
    for player, lifted_at_ms in product(players, (None, 0)):
        counting = _ban_of_nobody(player, scope, lifted_at_ms)
        while page := await edge.ledger.read(bans.next_to_follow(counting), ReadKind.MODERATION):
            boards = await edge.catalogue.boards({name for _, name in page})
            if any(map(_forbids, boards.values())):
                return True
            counting = replace(counting, seen_seq=page[-1][0])
    return False


def _ban_of_nobody(player: str, scope: str, lifted_at_ms: int | None) -> Ban:
    """Return a ban by which the ledger finds a player's scores: those that it takes, or would give back."""
    return Ban(
        "", player, scope, is_shadow=False, code="", note="", message="", actor="", began_at_ms=0,
        until_ms=None, lifted_at_ms=lifted_at_ms,
    )  # fmt: skip


def _forbids(board: Board) -> bool:
    return board.policy.moderation.own_board is OwnBoard.FORBID


async def _check_scope(edge: Edge, new: NewBan) -> None:
    """Raise `not-found` if there is no such board or family, and `schema-violation` for a rollup."""
    if new.family is not None and new.family not in edge.catalogue.families:
        raise Problem(ProblemType.NOT_FOUND, "no such family")
    if new.board is None:
        return
    board = await edge.catalogue.board(new.board)
    if board is None:
        raise no_such_board(edge, new.board)
    if board.policy.writes is Writes.DERIVED:
        detail = "board: is a rollup; ban the player on its family"
        raise Problem(ProblemType.SCHEMA_VIOLATION, detail)


def _ban_of(edge: Edge, moderator: Moderator, player: str, scope: str, new: NewBan) -> Ban:
    actor = f"moderator:{moderator.name}"
    until_ms = None if new.until is None else parse_rfc3339(new.until)
    if new.until is not None and until_ms is None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"until: {fault_of_rfc3339(new.until)}")
    return Ban(
        ban_id_of(actor, player, new.operation),
        player,
        scope,
        is_shadow=new.shadow,
        code=new.code.value,
        note=new.note,
        message=new.message,
        actor=actor,
        began_at_ms=edge.clock(),
        until_ms=until_ms,
    )


def _content(ban: Ban) -> Ban:
    """Return what a moderator asked for, without what became of it."""
    return replace(
        ban,
        began_at_ms=0,
        lifted_at_ms=None,
        lifted_by="",
        changed_seq=0,
        changed_count=0,
        seen_seq=0,
        again_ms=None,
    )


async def _followed(edge: Edge, ban_id: str, *, status: int, is_replay: bool) -> web.Response:
    follower = BanFollower(edge.ledger, edge.index, edge.catalogue, is_edge=True)
    ban = await follower.follow(ban_id, now_ms=edge.clock())
    await edge.banned.refresh()
    return json_response(ban_shown(edge, ban), status=status, headers=replay_header(is_replay=is_replay))


def ban_shown(edge: Edge, ban: Ban) -> BanShown:
    """Return a ban as an answer."""
    is_of_family = ban.scope in edge.catalogue.families
    return BanShown(
        ban=ban.ban_id,
        player=ban.player,
        board=None if is_of_family or ban.scope == bans.EVERYWHERE else ban.scope,
        family=ban.scope if is_of_family else None,
        shadow=ban.is_shadow,
        code=ban.code,
        note=ban.note,
        message=ban.message,
        by=ban.actor,
        began_at=rfc3339(ban.began_at_ms),
        until=None if ban.until_ms is None else rfc3339(ban.until_ms),
        lifted_by=ban.lifted_by or None,
        lifted_at=None if ban.lifted_at_ms is None else rfc3339(ban.lifted_at_ms),
        followed=ban.changed_count,
        is_settled=ban.seen_seq is None,
    )
