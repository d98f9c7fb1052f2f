"""Decides on many submissions at once, as seniors: select, preview, apply what was previewed, reverse it."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.preconditions import etag, expected_version
from gateway.edge.http.request import moderator_of, no_such_board, parse_body, whole_number
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.moderation.decisions import RequestedDecision, detail_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_batches import (
    BatchItemShown,
    BatchList,
    BatchOnBoard,
    BatchPage,
    BatchShown,
    NewDecisionBatch,
    NewSelection,
    PodiumChange,
)
from gateway.ledger.moderation import batch_items, batches
from gateway.ledger.moderation.batch_items import FIRST, ItemOutcome
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339, rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.batch_steps import BatchSteps
from gateway.settlement.batches import (
    LIMIT,
    MOVES,
    BatchOutcome,
    abandon,
    apply,
    batch_id_of,
    begin,
    reverse,
)
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.passed_boards import PassedBoards
from policies.decision_codes import DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.moderation import Moderation
from policies.vocabulary import Reason

PAGE_LIMIT: Final = 100

_PASSED_OVER: Final = 3
"""Most further pages of batches that one request looks at, for who may see few of them."""

_NEWEST: Final = (2**63 - 1, "")
_REASONS: Final = frozenset(reason.value for reason in Reason)
_TIMES: Final = ("received_since", "received_until", "achieved_since", "achieved_until")

_log = logger()


async def make_batch(request: web.Request) -> web.Response:
    """Answer 201 with a batch: previewed if it is small, and otherwise once a steward has gone through it."""
    edge = request.app[EDGE]
    new = parse_body(await read_body(request, SMALL_BODY), NewDecisionBatch)
    moderator = await moderator_of(request, Ability.OVERRULE, new.selection.board or new.selection.family)
    batch = await _batch_from(edge, moderator, new)
    try:
        outcome = await edge.ledger.write(begin(batch))
    except StateConflict as conflict:
        raise Problem(ProblemType.STATE_CONFLICT, str(conflict)) from None
    if not outcome.is_new and _content(outcome.batch) != _content(batch):
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH, "the operation id was used before, with another body")
    return await _followed(edge, outcome, status=201)


async def list_batches(request: web.Request) -> web.Response:
    """Return a page of the batches on what the moderator may read, newest first."""
    return json_response(await batches_listed(request))


async def batches_listed(request: web.Request) -> BatchList:
    """Return the page of batches that a request asks for. It may be short, though more follow."""
    edge, moderator = request.app[EDGE], await moderator_of(request, Ability.READ, None)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    listed = ("batches", sorted(moderator.scopes(Ability.READ)))
    seq, batch_id = edge.cursors.place_in(request, listed) or _NEWEST
    shown: list[BatchShown] = []
    for width in (count + 1, *[PAGE_LIMIT] * _PASSED_OVER):
        page = await edge.ledger.read(batches.batches_before(seq, batch_id, count=width), ReadKind.MODERATION)
        for batch in page:
            if len(shown) == count:
                return BatchList(batches=shown, next=edge.cursors.next_of(listed, (seq, batch_id)))
            seq, batch_id = batch.begin_seq, batch.batch_id
            shown += [batch_shown(batch)] if _may(moderator, Ability.READ, batch) else []
        if len(page) < width:
            return BatchList(batches=shown, next=None)
    return BatchList(batches=shown, next=edge.cursors.next_of(listed, (seq, batch_id)))


async def show_batch(request: web.Request) -> web.Response:
    """Return a batch with a page of its items."""
    page = await batch_page(request)
    return json_response(page, headers={"ETag": page.batch.etag})


async def batch_page(request: web.Request) -> BatchPage:
    """Return the batch in the path with the page of its items that a request asks for."""
    edge, (_, batch) = request.app[EDGE], await _batch_of(request, Ability.READ)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    listed = ("batch", batch.batch_id)
    board, seq = edge.cursors.place_in(request, listed) or FIRST
    items = await edge.ledger.read(
        batch_items.items_of(batch.batch_id, (board, seq), count=count), ReadKind.MODERATION
    )
    place = items[-1].place if len(items) == count else None
    return BatchPage(
        batch=batch_shown(batch),
        items=[
            BatchItemShown(
                submission=item.submission_id,
                board=item.board,
                player=item.player,
                newest_event=item.newest_event,
                outcome=item.outcome,
                why=item.why or None,
                event=item.decided_seq,
            )
            for item in items
        ],
        next=edge.cursors.next_of(listed, place),
    )


async def apply_batch(request: web.Request) -> web.Response:
    """Decide on exactly what was previewed. A steward goes on with what is left when the answer is sent."""
    moderator, batch = await _batch_of(request, Ability.OVERRULE)
    version = expected_version(request)
    own = _own(moderator)
    by, now_ms = f"{MODERATOR}{moderator.name}", request.app[EDGE].clock()
    return await _turned(
        request, moderator, apply(batch.batch_id, version=version, by=by, now_ms=now_ms, not_players=own)
    )


async def reverse_batch(request: web.Request) -> web.Response:
    """Undo what a batch did and nobody has decided on since."""
    moderator, batch = await _batch_of(request, Ability.OVERRULE)
    by, now_ms = f"{MODERATOR}{moderator.name}", request.app[EDGE].clock()
    turn = reverse(batch.batch_id, by=by, now_ms=now_ms, not_players=_own(moderator))
    return await _turned(request, moderator, turn)


async def abandon_batch(request: web.Request) -> web.Response:
    """Let a batch go that was not applied."""
    moderator, batch = await _batch_of(request, Ability.OVERRULE)
    return await _turned(request, moderator, abandon(batch.batch_id, now_ms=request.app[EDGE].clock()))


async def _turned(request: web.Request, moderator: Moderator, turn: Operation[BatchOutcome]) -> web.Response:
    """Answer with a batch that takes a turn. Raises `precondition-failed` and `state-conflict`."""
    edge = request.app[EDGE]
    try:
        outcome = await edge.ledger.write(turn)
    except CaseOvertaken:
        detail = "the batch has changed since you read it; read it again"
        raise Problem(ProblemType.PRECONDITION_FAILED, detail) from None
    except StateConflict as conflict:
        raise Problem(ProblemType.STATE_CONFLICT, str(conflict)) from None
    if outcome.is_new:
        batch = outcome.batch
        _log.info(Event.BATCH, batch=batch.batch_id, state=batch.state.value, moderator=moderator.name)
    return await _followed(edge, outcome, status=200)


async def _followed(edge: Edge, outcome: BatchOutcome, *, status: int) -> web.Response:
    steps = BatchSteps(edge.ledger, edge.index, edge.catalogue, clock=edge.clock, is_edge=True)
    batch = await steps.follow(outcome.batch.batch_id) or outcome.batch
    shown = batch_shown(batch)
    headers = {"ETag": shown.etag, **replay_header(is_replay=not outcome.is_new)}
    return json_response(shown, status=status, headers=headers)


async def _batch_of(request: web.Request, ability: Ability) -> tuple[Moderator, Batch]:
    """Return the batch in the path. Raises `not-found` where not all of it is in the moderator's reach."""
    moderator = await moderator_of(request, ability, None)
    batch = await request.app[EDGE].ledger.read(
        batches.batch(request.match_info["batch"]), ReadKind.MODERATION
    )
    if batch is None or not all(moderator.reaches(scope) for scope in batch.scopes):
        raise Problem(ProblemType.NOT_FOUND, "there is no such batch, or not any more")
    for scope in batch.scopes:
        await moderator_of(request, ability, scope)
    return moderator, batch


def _may(moderator: Moderator, ability: Ability, batch: Batch) -> bool:
    return all(moderator.may(ability, scope) for scope in batch.scopes)


def _own(moderator: Moderator) -> list[str]:
    """Return the players on whose submissions the moderator never decides."""
    return sorted({moderator.name, *moderator.players})


async def _batch_from(edge: Edge, moderator: Moderator, new: NewDecisionBatch) -> Batch:
    kind, scope = DecisionKind(new.action), new.selection.board or new.selection.family
    detail = detail_of(await _moderation_of(edge, new.selection), RequestedDecision(kind, new, 0))
    now_ms, actor = edge.clock(), f"{MODERATOR}{moderator.name}"
    return Batch(
        batch_id=batch_id_of(actor, new.operation),
        actor=actor,
        scopes=(scope,) if scope else tuple(sorted(moderator.scopes(Ability.OVERRULE))),
        selection=_selection_from(new.selection) | {"not_players": _own(moderator)},
        action=new.action,
        reason=MOVES[kind].reason,
        detail=detail,
        state=BatchState.SELECTING,
        version=1,
        begin_seq=0,
        created_at_ms=now_ms,
        changed_at_ms=now_ms,
        due_at_ms=now_ms,
    )


async def _moderation_of(edge: Edge, selection: NewSelection) -> Moderation:
    """Return what moderators of the selected boards go by. Raises `not-found` if there is no such board."""
    if selection.board is not None:
        board = await edge.catalogue.board(selection.board)
        if board is None:
            raise no_such_board(edge, selection.board)
        return board.policy.moderation
    if selection.family is None:
        return Moderation()
    family = edge.catalogue.families.get(selection.family)
    if family is None:
        raise Problem(ProblemType.NOT_FOUND, "no such family")
    return family.policy.moderation


def _selection_from(selection: NewSelection) -> dict[str, Any]:
    """Return a selection as it is stored. Raises `schema-violation` for what no time or reason is."""
    if selection.reason is not None and selection.reason not in _REASONS:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, "selection.reason: there is no such reason; see /docs/reasons"
        )
    names = ("player", "key", "build", "reason", "finding")
    chosen: dict[str, Any] = {name: getattr(selection, name) for name in names}
    chosen |= {f"{name}_ms": _instant(name, getattr(selection, name)) for name in _TIMES}
    return {name: value for name, value in chosen.items() if value is not None}


def _instant(name: str, text: str | None) -> int | None:
    at_ms = None if text is None else parse_rfc3339(text)
    if text is not None and (at_ms is None or at_ms < 0):
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"selection.{name}: {fault_of_rfc3339(text)}")
    return at_ms


def _content(batch: Batch) -> tuple[object, ...]:
    """Return what a moderator asked for, without what became of it."""
    selection = {name: value for name, value in batch.selection.items() if name != "not_players"}
    return (batch.action, selection, dict(batch.detail), batch.scopes)


def batch_shown(batch: Batch) -> BatchShown:
    """Return a batch as an answer."""
    preview, detail = batch.preview, batch.detail
    is_kept = batch.state in (BatchState.PREVIEWED, BatchState.REFUSED)
    return BatchShown(
        batch=batch.batch_id,
        state=batch.state.value,
        by=batch.actor,
        action=batch.action,
        code=detail.get("code", batch.reason.value),
        note=detail.get("note", ""),
        message=detail.get("message"),
        scopes=list(batch.scopes),
        selection=_selection_shown(batch),
        created_at=rfc3339(batch.created_at_ms),
        changed_at=rfc3339(batch.changed_at_ms),
        expires_at=rfc3339(batch.due_at_ms) if is_kept and batch.due_at_ms is not None else None,
        applied_by=batch.decided_by or None,
        reversed_by=batch.reversed_by or None,
        looked_at=batch.looked_at,
        items=batch.items,
        boards=[BatchOnBoard(**each) for each in preview.get("boards", ())],
        in_cases=preview.get("in_cases", 0),
        left_out=batch.leaves,
        board_count=preview.get("board_count", 0),
        podiums=[PodiumChange(**each) for each in preview.get("podiums", ())],
        podium_count=preview.get("podium_count", 0),
        outcomes=_outcomes_of(batch),
        detail=_fault_of(batch),
        etag=etag(batch.version),
    )


def _selection_shown(batch: Batch) -> dict[str, Any]:
    shown = {name: value for name, value in batch.selection.items() if name != "not_players"}
    for name in _TIMES:
        if (at_ms := shown.pop(f"{name}_ms", None)) is not None:
            shown[name] = rfc3339(at_ms)
    return shown


def _outcomes_of(batch: Batch) -> dict[str, int]:
    """Return how many items have each outcome, those that wait among them."""
    waiting = batch.items - sum(batch.outcomes.values())
    return {**({ItemOutcome.WAITING.value: waiting} if waiting else {}), **batch.outcomes}


def _fault_of(batch: Batch) -> str | None:
    """Return what holds a batch up, None if nothing does."""
    passed = PassedBoards.of(batch)
    if batch.due_at_ms is not None and passed.is_waiting:
        return (
            "some submissions are on boards that no steward knows yet; "
            f"they are looked for again until {rfc3339(passed.until_ms)}, and left then"
        )
    if batch.state is not BatchState.REFUSED:
        return None
    return (
        f"it selects more than {LIMIT} submissions, which is the most that a batch has: "
        "name a board, a player, a key, a build or a shorter time"
    )
