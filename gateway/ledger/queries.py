"""What can be asked of the ledger, and the small writes that are not settlement: each an operation on a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import bindparam, func, insert, or_, select, tuple_

from gateway.ledger.records import (
    Receipt,
    ServerKey,
    StoredSubmission,
    baseline_from,
    finding_from,
    receipt_from,
)
from gateway.ledger.schema import (
    baselines,
    events,
    is_in,
    players,
    server_keys,
    standings,
    submissions,
)
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.records import Standing, StoredBaseline
from policies.vocabulary import Claim, Reason, State

_s = submissions.c

_SUBMISSION_COLUMNS = (
    _s.seq,
    _s.submission_id,
    _s.board,
    _s.player,
    _s.credential,
    _s.build,
    _s.seed,
    _s.issued_at_ms,
    _s.received_at_ms,
    _s.score,
    _s.ticks,
    _s.stats,
    _s.recording_digest,
    _s.simulator,
    _s.findings,
    _s.state,
    _s.reason,
    _s.attempt,
)

_STANDING_COLUMNS = (
    standings.c.board,
    standings.c.window,
    standings.c.player,
    func.coalesce(players.c.name, ""),
    standings.c.score,
    standings.c.achieved_at_ms,
    standings.c.achieved_seq,
    standings.c.submission_id,
    standings.c.expires_at_ms,
    standings.c.seq,
)

_with_names = standings.outerjoin(players, players.c.player == standings.c.player)

_SUBMISSION = Query(select(*_SUBMISSION_COLUMNS).where(_s.submission_id == bindparam("submission_id")))
_RECEIPT = Query(
    select(
        _s.submission_id, _s.board, _s.player, _s.score, _s.initial_state, _s.nonce, _s.content_digest
    ).where(_s.submission_id == bindparam("submission_id"))
)
_HELD = Query(
    select(*_SUBMISSION_COLUMNS)
    .where(is_in(State.HELD), _s.board == bindparam("board"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_PENDING = Query(
    select(_s.seq, _s.submission_id, _s.player, _s.received_at_ms)
    .where(is_in(State.PENDING), _s.board == bindparam("board"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_EVENTS = Query(
    select(
        events.c.seq,
        events.c.from_state,
        events.c.to_state,
        events.c.actor,
        events.c.reason,
        events.c.policy,
        events.c.rules_version,
        events.c.detail,
        events.c.at_ms,
    )
    .where(events.c.submission_id == bindparam("submission_id"))
    .order_by(events.c.seq)
)
_STATE = Query(select(_s.state).where(_s.submission_id == bindparam("submission_id")))
_SLOT = Query(
    select(*_STANDING_COLUMNS)
    .select_from(_with_names)
    .where(standings.c.board == bindparam("board"), standings.c.player == bindparam("player"))
)
_STANDINGS_PAGE = Query(
    select(*_STANDING_COLUMNS)
    .select_from(_with_names)
    .where(
        standings.c.board == bindparam("board"),
        tuple_(standings.c.window, standings.c.player) > tuple_(bindparam("window"), bindparam("player")),
    )
    .order_by(standings.c.window, standings.c.player)
    .limit(bindparam("count"))
)
_BASELINE = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"),
        or_(baselines.c.player == bindparam("player"), baselines.c.player == ""),
    )
)
_board_baselines = (
    select(baselines)
    .where(baselines.c.board == bindparam("board"))
    .order_by(baselines.c.player)
    .limit(bindparam("count"))
)
_BASELINES_FIRST = Query(_board_baselines)
_BASELINES_PAGE = Query(_board_baselines.where(baselines.c.player > bindparam("after")))
_ADD_PLAYER = Query(insert(players))
_ADD_KEY = Query(insert(server_keys))
_KEYS = Query(select(server_keys.c.key_id, server_keys.c.public_key, server_keys.c.boards))
_PROBE = Query(select(func.coalesce(func.max(events.c.seq), 0)))
_COUNTS = Query(select(_s.state, func.count()).where(_s.board == bindparam("board")).group_by(_s.state))


def submission(submission_id: str) -> Operation[StoredSubmission | None]:
    """The submission as it stands, or None."""

    async def work(tx: Transaction) -> StoredSubmission | None:
        return await load_submission(tx, submission_id)

    return work


async def load_submission(tx: Transaction, submission_id: str) -> StoredSubmission | None:
    """The submission as it stands, or None, inside a transaction."""
    rows = await tx.rows(_SUBMISSION, submission_id=submission_id)
    return _stored(rows[0]) if rows else None


def receipt(submission_id: str) -> Operation[Receipt | None]:
    """The receipt of a submission that the ledger already has, or None."""

    async def work(tx: Transaction) -> Receipt | None:
        rows = await tx.rows(_RECEIPT, submission_id=submission_id)
        return receipt_from(rows[0]) if rows else None

    return work


def held(board: str, *, after: int, count: int) -> Operation[list[StoredSubmission]]:
    """Held submissions of a board in the order they came, after sequence number `after`."""

    async def work(tx: Transaction) -> list[StoredSubmission]:
        return [_stored(row) for row in await tx.rows(_HELD, board=board, after=after, count=count)]

    return work


def pending(board: str, *, after: int, count: int) -> Operation[list[Row]]:
    """(seq, submission id, player, received_at_ms) of what waits for a verdict on a board, after sequence number `after`."""

    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(_PENDING, board=board, after=after, count=count)

    return work


def history_of(submission_id: str) -> Operation[list[dict[str, Any]]]:
    """Every event of a submission, oldest first."""
    names = ("seq", "from", "to", "actor", "reason", "policy", "rules_version", "detail", "at_ms")

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_EVENTS, submission_id=submission_id)
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [event | {"detail": orjson.loads(event["detail"])} for event in found]

    return work


def standings_page(board: str, *, after: tuple[str, str], count: int) -> Operation[list[Standing]]:
    """Standings of a board in the order of (window, player), after such a pair."""

    async def work(tx: Transaction) -> list[Standing]:
        rows = await tx.rows(_STANDINGS_PAGE, board=board, window=after[0], player=after[1], count=count)
        return [Standing(*row) for row in rows]

    return work


def slots(board: str, players: Sequence[str]) -> Operation[list[Standing]]:
    """Every standing of these players on a board."""

    async def work(tx: Transaction) -> list[Standing]:
        found = [await tx.rows(_SLOT, board=board, player=player) for player in players]
        return [Standing(*row) for rows in found for row in rows]

    return work


def not_pending(submission_ids: Sequence[str]) -> Operation[list[str]]:
    """Those of the ids that the ledger does not have as pending."""

    async def work(tx: Transaction) -> list[str]:
        rows = [(each, await tx.rows(_STATE, submission_id=each)) for each in submission_ids]
        return [each for each, found in rows if not found or found[0][0] != State.PENDING.value]

    return work


def baselines_of(board: str, player: str) -> Operation[list[StoredBaseline]]:
    """The baseline of a player and of the board's population (player `""`), where they exist."""

    async def work(tx: Transaction) -> list[StoredBaseline]:
        return [baseline_from(row) for row in await tx.rows(_BASELINE, board=board, player=player)]

    return work


def baselines_page(board: str, *, after: str | None, count: int) -> Operation[list[StoredBaseline]]:
    """Baselines of a board in the order of players, after `after`; the population's (player `""`) comes first."""

    async def work(tx: Transaction) -> list[StoredBaseline]:
        query = _BASELINES_FIRST if after is None else _BASELINES_PAGE
        values = {} if after is None else {"after": after}
        return [baseline_from(row) for row in await tx.rows(query, board=board, count=count, **values)]

    return work


def add_player(player: str, name: str, *, now_ms: int) -> Operation[None]:
    """Writes down a new player."""

    async def work(tx: Transaction) -> None:
        await tx.run(_ADD_PLAYER, player=player, name=name, created_at_ms=now_ms)

    return work


def add_server_key(key: ServerKey, *, now_ms: int) -> Operation[None]:
    """Registers a trusted server. Raises IntegrityError if the id is taken."""

    async def work(tx: Transaction) -> None:
        boards = orjson.dumps(key.boards).decode()
        await tx.run(
            _ADD_KEY, key_id=key.key_id, public_key=key.public_key, boards=boards, created_at_ms=now_ms
        )

    return work


def server_keys_all() -> Operation[dict[str, ServerKey]]:
    """Every registered trusted server by key id."""

    async def work(tx: Transaction) -> dict[str, ServerKey]:
        rows = await tx.rows(_KEYS)
        return {row[0]: ServerKey(row[0], row[1], tuple(orjson.loads(row[2]))) for row in rows}

    return work


def counts(board: str) -> Operation[dict[str, int]]:
    """How many submissions of a board are in each state."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {row[0]: row[1] for row in await tx.rows(_COUNTS, board=board)}

    return work


def head() -> Operation[int]:
    """The sequence number of the newest event; also the proof that the ledger can be read."""

    async def work(tx: Transaction) -> int:
        [[seq]] = await tx.rows(_PROBE)
        return int(seq)

    return work


def _stored(row: Row) -> StoredSubmission:
    *facts, score, ticks, stats, recording_digest, simulator, findings, state, reason, attempt = row
    found: Any = (
        *facts,
        Claim(score, ticks, orjson.loads(stats)),
        recording_digest,
        simulator,
        tuple(finding_from(each) for each in orjson.loads(findings)),
        State(state),
        Reason(reason),
        attempt,
    )
    return StoredSubmission(*found)
