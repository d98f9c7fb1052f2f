"""Shows moderators players: who is found by a name, and what one has on their boards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.bans import bans_shown
from gateway.edge.moderation.hidden_checks import first_hidden, hidden_checks, shown_as_held
from gateway.edge.moderation.queue import claim_shown
from gateway.edge.moderation.renames import renames_shown
from gateway.edge.moderation.surroundings import decision_shown
from gateway.edge.players.friends import named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.player_standings import BOARDS_LIMIT, entries_on, longest_window
from gateway.edge.wire.board_answers import PlayerEntry
from gateway.edge.wire.moderation_players import (
    AddressSharer,
    AddressShown,
    OpenCase,
    PlayedSubmission,
    PlayedSubmissions,
    PlayerNamed,
    PlayerProfile,
    PlayersNamed,
)
from gateway.ledger.moderation.cases import CaseKind, StoredCase
from gateway.ledger.moderation.player_submissions import RunOfPlayer, runs_of_player
from gateway.ledger.moderation.queue import QueueFilter, queue_page
from gateway.ledger.moderation.surroundings import PASSED_OVER, surroundings
from gateway.ledger.players.addresses import shared_addresses
from gateway.ledger.players.player_names import SCANNED, PlayerFound, name_of_player, players_named
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from policies.vocabulary import Reason

PAGE_LIMIT: Final = 100

NAME_LIMIT: Final = 96
"""Most characters of the beginning of a name: as many as a new name may be sent with."""

ADDRESS_SHOWN: Final = 8
"""Hexadecimal digits of a hashed address that are shown: enough to tell those of a player apart."""

CASES: Final = 20
"""Most cases of a player that are shown."""

_NEWEST: Final = 2**63 - 1
_MEANINGS: Final = {reason.value: reason.meaning for reason in Reason}


async def list_players(request: web.Request) -> web.Response:
    """Return a page of the players whose names begin with a text, as far as the moderator's boards reach."""
    edge, moderator = request.app[EDGE], await moderator_of(request, Ability.READ, None)
    count, cursor = whole_number(request, "limit", 25, 1, PAGE_LIMIT), request.query.get("cursor")
    name = request.query.get("name", "")
    return json_response(await players_shown(edge, moderator, name, cursor, count=count))


async def players_shown(
    edge: Edge, moderator: Moderator, name: str, cursor: str | None = None, *, count: int
) -> PlayersNamed:
    """Return players whose names begin with a text, which may be empty. Raises `schema-violation`."""
    if len(name) > NAME_LIMIT:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"name: expected at most {NAME_LIMIT} characters")
    scopes = moderator.scopes(Ability.READ)
    listed = ("players named", name, sorted(scopes))
    key, player = edge.cursors.place_of(cursor, listed) if cursor else ("", "")
    reading = players_named(name, scopes, after=(key, player), count=count)
    found = await edge.ledger.read(reading, ReadKind.MODERATION)
    return PlayersNamed(
        players=[_named(player) for player in found.players], next=edge.cursors.next_of(listed, found.next)
    )


async def show_player(request: web.Request) -> web.Response:
    """Return a player, as far as the moderator's boards reach."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.READ, None)
    return json_response(await profile_of(edge, moderator, player))


async def profile_of(edge: Edge, moderator: Moderator, player: str) -> PlayerProfile:
    """Return a player as a moderator sees them. Raises `not-found` if their boards have nothing of them."""
    scopes = moderator.scopes(Ability.READ)
    query = runs_of_player(player, scopes, before=_NEWEST, count=SCANNED)
    runs = await edge.ledger.read(query, ReadKind.MODERATION)
    checks = await hidden_checks(edge, moderator)
    shown = shown_as_held(runs.submissions, checks)
    bans = await bans_shown(edge, moderator, player)
    if not runs.submissions and not bans:
        raise Problem(ProblemType.NOT_FOUND, "the player has nothing on the boards that you may read")
    named = await edge.ledger.read(name_of_player(player), ReadKind.MODERATION)
    boards = Counter(run.board for run in runs.submissions)
    return PlayerProfile(
        player=player,
        name=named.name if named else None,
        created_at=rfc3339(named.created_at_ms) if named else None,
        states=dict(Counter(run.state for run in shown)),
        builds=dict(Counter(run.build for run in runs.submissions)),
        boards=dict(boards),
        is_whole=runs.before is None,
        standings=await _standings(edge, moderator, player, list(boards)),
        **await _judged(edge, scopes, player, checks),
        addresses=await _addresses(edge, moderator, player, boards),
        renames=await renames_shown(edge, moderator, player),
        bans=bans,
    )


async def _standings(
    edge: Edge, moderator: Moderator, player: str, played: Sequence[str]
) -> list[PlayerEntry]:
    """Return how a player stands on the boards that they played, and on the rollups of these."""
    boards = await edge.catalogue.boards(played)
    rollups = [rollup.name for board in boards.values() for rollup in board.rollups]
    names = list(dict.fromkeys([*boards, *(name for name in rollups if moderator.may(Ability.READ, name))]))
    now_ms = edge.clock()
    entries, _ = await entries_on(
        edge, player, names[:BOARDS_LIMIT], lambda policy: longest_window(policy, now_ms)
    )
    return [entry for entry in entries if entry.standing is not None]


async def _judged(
    edge: Edge, scopes: frozenset[str], player: str, checks: Mapping[str, StoredCase]
) -> Mapping[str, Any]:
    """Return a player's cases that wait, and what moderators decided before."""
    waiting = queue_page(scopes, QueueFilter(player=player), count=CASES)
    cases = await edge.ledger.read(waiting, ReadKind.MODERATION)
    # What surrounds no submission in particular: all of the player's.
    around = surroundings("", player, [], scopes=scopes, count=PASSED_OVER, hidden=first_hidden(checks))
    found = await edge.ledger.read(around, ReadKind.MODERATION)
    return {
        "cases": [
            _open_case(case, edge.clock())
            for case in cases.cases
            if case.kind is not CaseKind.CHECK or case.submission_id in checks
        ],
        "decisions": [decision_shown(decision) for decision in found.decisions],
    }


async def _addresses(
    edge: Edge, moderator: Moderator, player: str, boards: Iterable[str]
) -> list[AddressShown] | None:
    """Return where a player submitted from, and who else on the boards that the moderator decides on.

    None if the player's are not among these.
    """
    is_theirs = any(moderator.may(Ability.DECIDE, board) for board in boards)
    if not is_theirs or not edge.settings.address_days:
        return None
    scopes = moderator.scopes(Ability.DECIDE)
    shared = await edge.ledger.read(shared_addresses(player, scopes), ReadKind.MODERATION)
    return [
        AddressShown(
            address=each.address[:ADDRESS_SHOWN],
            seen_at=rfc3339(each.seen_at_ms),
            players=[AddressSharer(player=other, name=name or None) for other, name in each.sharers],
            is_whole=each.is_whole,
        )
        for each in shared
    ]


async def list_submissions(request: web.Request) -> web.Response:
    """Return a page of a player's submissions on the moderator's boards, newest first."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.READ, None)
    count, cursor = whole_number(request, "limit", 25, 1, PAGE_LIMIT), request.query.get("cursor")
    return json_response(await submissions_shown(edge, moderator, player, cursor, count=count))


async def submissions_shown(
    edge: Edge, moderator: Moderator, player: str, cursor: str | None = None, *, count: int
) -> PlayedSubmissions:
    """Return a page of a player's submissions. Raises `schema-violation` for the cursor of another list."""
    scopes = moderator.scopes(Ability.READ)
    listed = ("submissions of", player, sorted(scopes))
    before = edge.cursors.place_of(cursor, listed)[0] if cursor else _NEWEST
    query = runs_of_player(player, scopes, before=before, count=count)
    runs = await edge.ledger.read(query, ReadKind.MODERATION)
    following = edge.cursors.next_of(listed, None if runs.before is None else (runs.before,))
    checks = await hidden_checks(edge, moderator)
    shown = [_shown(run) for run in shown_as_held(runs.submissions, checks)]
    return PlayedSubmissions(player=player, submissions=shown, next=following)


def _named(player: PlayerFound) -> PlayerNamed:
    return PlayerNamed(player=player.player, name=player.name, created_at=rfc3339(player.created_at_ms))


def _open_case(case: StoredCase, now_ms: int) -> OpenCase:
    return OpenCase(
        submission=case.submission_id,
        board=case.board,
        reason=case.reason,
        meaning=_MEANINGS.get(case.reason, ""),
        opened_at=rfc3339(case.opened_at_ms),
        claim=claim_shown(case, now_ms=now_ms),
    )


def _shown(run: RunOfPlayer) -> PlayedSubmission:
    return PlayedSubmission(
        submission=run.submission_id,
        board=run.board,
        score=run.score,
        build=run.build,
        state=run.state,
        reason=run.reason,
        meaning=_MEANINGS.get(run.reason, ""),
        received_at=rfc3339(run.received_at_ms),
    )
