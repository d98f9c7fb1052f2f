"""Merges players, gives them what there is of them, and erases it, as they ask."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_body
from gateway.edge.http.request import parse_body, player_by_token, player_of, while_good, whole_number
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.identities.identity_parts import EXPORT_BYTES, EXPORT_RATE, EXPORT_RUNS
from gateway.edge.identities.signing_in import act_of
from gateway.edge.players.friends import charge_profile
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.player_standings import BOARDS_LIMIT, entries_on, longest_window
from gateway.edge.reads.read_budget import charge_page
from gateway.edge.wire.own_data_answers import ErasureShown, MergeShown, NewMerge
from gateway.ledger.ledger import Ledger
from gateway.ledger.players import merges
from gateway.ledger.players.merges import Merge
from gateway.ledger.privacy import export
from gateway.ledger.privacy.erasures import Erasure
from gateway.ledger.privacy.export import FIRST
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement import erasing
from gateway.settlement.merges import REST_MS, MergeFollower, begin, undo
from policies.errors import StateConflict

MERGE_BODY: Final = 8_192

T = TypeVar("T")

_NEWEST: Final = 2**63 - 1
_PRIVATE: Final = {"Cache-Control": "private, no-store"}

_log = logger()


async def merge_player(request: web.Request) -> web.Response:
    """Merge the player of the token in the body into the bearer. Sending it again changes nothing."""
    edge, bearer = request.app[EDGE], await player_of(request)
    target = bearer.subject
    await charge_profile(request, target)
    body = parse_body(await read_body(request, MERGE_BODY), NewMerge)
    other = await player_by_token(request, body.token)
    source = other.subject
    act = act_of(edge, target)
    wanted = Merge("m" + secrets.token_hex(10), source, target, act.actor, act.at_ms)
    try:
        merging = begin(wanted, rest_ms=REST_MS)
        outcome = await edge.ledger.write(while_good(bearer, while_good(other, merging)))
    except StateConflict as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    if outcome.is_new:
        merge_id = outcome.merge.merge_id
        _log.info(Event.PLAYERS_MERGED, player=source, into=target, merge=merge_id)
    return await _followed(edge, outcome.merge, is_new=outcome.is_new)


async def part_player(request: web.Request) -> web.Response:
    """Undo a merge into the bearer, and answer 200. Sending it again changes nothing."""
    edge, bearer = request.app[EDGE], await player_of(request)
    target = bearer.subject
    await charge_profile(request, target)
    merge = await edge.ledger.read(merges.merge(request.match_info["merge"]), ReadKind.PLAYERS)
    if merge is None or merge.target != target:
        raise Problem(ProblemType.NOT_FOUND, "nobody was merged into you by this")
    act = act_of(edge, target)
    try:
        undoing = undo(merge.merge_id, by=act.actor, now_ms=act.at_ms)
        outcome = await edge.ledger.write(while_good(bearer, undoing))
    except StateConflict as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    assert outcome is not None
    if outcome.is_new:
        _log.info(Event.PLAYERS_PARTED, player=merge.source, by="player", merge=merge.merge_id)
    return await _followed(edge, outcome.merge, is_new=outcome.is_new)


async def export_own(request: web.Request) -> web.StreamResponse:
    """Return what the ledger has about the bearer as lines of JSON. The last one says how many there were.

    It stops after so many runs, or bytes of them, and says where the next request goes on.
    """
    edge, player = request.app[EDGE], (await player_of(request)).subject
    after = whole_number(request, "after", FIRST, FIRST, _NEWEST)
    await charge_profile(request, player)
    wait_ms = await edge.identities.export_wait_ms(player)
    if wait_ms:
        raise quota_exceeded("export", EXPORT_RATE, wait_ms)
    disposition = {"Content-Disposition": 'attachment; filename="player.jsonl"'}
    response = web.StreamResponse(headers={"Content-Type": "application/jsonl", **_PRIVATE, **disposition})
    standings = partial(_own_standings, request, player)
    bounds = {"after": after, "most_runs": EXPORT_RUNS, "most_bytes": EXPORT_BYTES}
    lines = export.export_own(_ReadsOfPlayers(edge.ledger), player, standings, **bounds)
    first = await anext(lines)
    await response.prepare(request)
    await response.write(first)
    async for line in lines:
        await response.write(line)
    return response


class _ReadsOfPlayers:
    """The ledger, as players read it about themselves."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def read(self, work: Operation[T], /) -> T:
        """Return the result of `work`. Raises LedgerUnavailable."""
        return await self._ledger.read(work, ReadKind.PLAYERS)


async def _own_standings(
    request: web.Request, player: str, boards: Sequence[str]
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield where a player stands in the longest windows of boards, as the player sees it, with the ranks."""
    edge = request.app[EDGE]
    longest = partial(longest_window, now_ms=edge.clock())
    charge_page(request)
    for at in range(0, len(boards), BOARDS_LIMIT):
        names = boards[at : at + BOARDS_LIMIT]
        entries, _ = await entries_on(edge, player, names, longest, asked=request)
        for entry in entries:
            if entry.standing is not None:
                yield {"window": entry.window, **entry.standing.model_dump(mode="json")}


async def erase_own(request: web.Request) -> web.Response:
    """Have the bearer's data erased once a week is over, and answer 200. Again, it changes nothing."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    await charge_profile(request, player)
    try:
        outcome = await edge.ledger.write(while_good(bearer, erasing.ask(player, act_of(edge, player))))
    except StateConflict as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    headers = _PRIVATE | replay_header(is_replay=not outcome.is_new)
    return json_response(_erasure_shown(player, outcome.erasure), headers=headers)


async def keep_own(request: web.Request) -> web.Response:
    """Take back what was asked for, and answer 200. Sending it again changes nothing."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    await charge_profile(request, player)
    try:
        await edge.ledger.write(while_good(bearer, erasing.take_back(player)))
    except StateConflict as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    return json_response(_erasure_shown(player, None), headers=_PRIVATE)


async def _followed(edge: Edge, merge: Merge, *, is_new: bool) -> web.Response:
    """Have the first runs follow, and answer with the merge as it is then."""
    follower = MergeFollower(edge.ledger, edge.index, edge.catalogue, is_edge=True)
    merge = await follower.follow(merge.merge_id, now_ms=edge.clock())
    shown = MergeShown(
        merge=merge.merge_id,
        source=merge.source,
        target=merge.target,
        began_at=rfc3339(merge.began_at_ms),
        undone_at=None if merge.undone_at_ms is None else rfc3339(merge.undone_at_ms),
        moved=merge.changed_count,
        # What only a ban keeps from following is told nobody: a player must not notice a shadow ban.
        is_done=merge.seen_seq is None or merge.again_ms is not None,
    )
    return json_response(shown, headers=_PRIVATE | replay_header(is_replay=not is_new))


def _erasure_shown(player: str, erasure: Erasure | None) -> ErasureShown:
    asked_at = rfc3339(erasure.asked_at_ms) if erasure else None
    return ErasureShown(
        player=player, asked_at=asked_at, due_at=rfc3339(erasure.due_at_ms) if erasure else None
    )
