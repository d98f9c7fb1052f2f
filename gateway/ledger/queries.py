"""Reads of submissions, events, baselines and keys, and the small writes that are not settlement."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import bindparam, func, insert, literal_column, or_, select, text, update

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.name_keys import name_key, search_key
from gateway.ledger.records import (
    Receipt,
    ServerKey,
    StoredSubmission,
    baseline_from,
    receipt_from,
)
from gateway.ledger.schema import (
    BANNED,
    OF_NO_BAN,
    baselines,
    events,
    is_in,
    players,
    server_keys,
    submissions,
    taken_names,
)
from gateway.ledger.submission_rows import detail_from, findings_from, submission_from
from gateway.ledger.transaction import OneOf, Operation, Query, Row, Transaction
from gateway.shared_records import StoredBaseline
from policies.errors import NameTaken
from policies.vocabulary import Finding, State
from validators.baseline import POPULATION, population_of

_s = submissions.c

SUBMISSION_COLUMNS = (
    _s.seq,
    _s.submission_id,
    _s.board,
    _s.player,
    _s.credential,
    _s.build,
    _s.seed,
    _s.issued_at_ms,
    _s.received_at_ms,
    _s.achieved_at_ms,
    _s.score,
    _s.ticks,
    _s.stats,
    _s.recording_digest,
    _s.simulator,
    _s.findings,
    _s.state,
    _s.reason,
    _s.attempt,
    _s.runs_opened,
    _s.runs_submitted,
    _s.board_content,
    _s.played_by,
)

_SUBMISSION = Query(select(*SUBMISSION_COLUMNS).where(_s.submission_id == bindparam("submission_id")))
_RECEIPT = Query(
    select(
        _s.submission_id,
        _s.board,
        func.coalesce(_s.played_by, _s.player),
        _s.score,
        _s.initial_state,
        _s.nonce,
        _s.content_digest,
    ).where(_s.submission_id == bindparam("submission_id"))
)
_LISTED = Query(select(*SUBMISSION_COLUMNS).where(OneOf(_s.submission_id, "submission_ids")))
_PENDING = Query(
    select(_s.seq, _s.submission_id, _s.player, _s.received_at_ms)
    .where(is_in(State.PENDING), _s.board == bindparam("board"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_EVENTS = Query(
    select(
        events.c.submission_id,
        events.c.seq,
        events.c.from_state,
        events.c.to_state,
        events.c.actor,
        events.c.reason,
        events.c.policy,
        events.c.rules_version,
        events.c.detail,
        events.c.at_ms,
    ).where(OneOf(events.c.submission_id, "submission_ids"))
)
_FOUND_BY_REPLAY = Query(
    select(events.c.submission_id, events.c.detail)
    .where(is_listed(events.c.submission_id), events.c.actor == "replay")
    .order_by(events.c.seq)
)
_BASELINE = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"),
        baselines.c.player.in_([bindparam("player"), bindparam("build"), POPULATION]),
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
_TAKEN_NAME = Query(select(taken_names.c.player).where(taken_names.c.name_key == bindparam("name_key")))
_TAKE_NAME = Query(insert(taken_names))
_ADD_KEY = Query(insert(server_keys))
_KEYS = Query(select(server_keys).order_by(server_keys.c.key_id))
_REVOKE_KEY = Query(
    update(server_keys)
    .where(server_keys.c.key_id == bindparam("id"), server_keys.c.revoked_at_ms.is_(None))
    .values(revoked_at_ms=bindparam("now_ms"))
)
_COUNTING_OF = Query(
    select(*SUBMISSION_COLUMNS)
    .where(
        or_(is_in(State.PROMOTED), text(BANNED)),
        _s.credential == bindparam("credential"),
        _s.received_at_ms >= bindparam("since_ms"),
        _s.seq > bindparam("after"),
        _s.seq <= bindparam("upto"),
    )
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_REVOKED_BY = Query(
    select(events.c.seq, events.c.submission_id)
    .where(
        events.c.actor == bindparam("actor"),
        events.c.to_state == State.REVOKED.value,
        events.c.at_ms >= bindparam("since_ms"),
        events.c.seq > bindparam("after"),
        events.c.seq <= bindparam("upto"),
    )
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)
_NEWEST_EVENTS = Query(
    select(
        events.c.submission_id,
        func.max(events.c.seq + literal_column("0")),  # so that none walks the log from its end
    )
    .where(OneOf(events.c.submission_id, "submission_ids"), text(OF_NO_BAN))
    .group_by(events.c.submission_id)
)
_NEWEST_SEQ = Query(select(func.coalesce(func.max(events.c.seq), 0)))


def submission(submission_id: str) -> Operation[StoredSubmission | None]:
    """Return a submission as it is now, or None."""

    async def work(tx: Transaction) -> StoredSubmission | None:
        return await load_submission(tx, submission_id)

    return work


async def load_submission(tx: Transaction, submission_id: str) -> StoredSubmission | None:
    """Return a submission as it is now, or None, inside a transaction."""
    rows = await tx.rows(_SUBMISSION, submission_id=submission_id)
    return submission_from(rows[0]) if rows else None


async def newest_events(tx: Transaction, submission_ids: Sequence[str]) -> dict[str, int]:
    """Return the number of each submission's newest event that is no ban's, inside a transaction."""
    rows = await tx.rows(_NEWEST_EVENTS, submission_ids=submission_ids)
    return {submission_id: int(seq) for submission_id, seq in rows}


def receipt(submission_id: str) -> Operation[Receipt | None]:
    """Return the receipt of a stored submission, or None."""

    async def work(tx: Transaction) -> Receipt | None:
        rows = await tx.rows(_RECEIPT, submission_id=submission_id)
        return receipt_from(rows[0]) if rows else None

    return work


def submissions_listed(submission_ids: Sequence[str]) -> Operation[dict[str, StoredSubmission]]:
    """Return those of these submissions that are stored, by id."""

    async def work(tx: Transaction) -> dict[str, StoredSubmission]:
        return await load_submissions(tx, submission_ids)

    return work


async def load_submissions(tx: Transaction, submission_ids: Sequence[str]) -> dict[str, StoredSubmission]:
    """Return those of these submissions that are stored, by id, inside a transaction."""
    rows = await tx.rows(_LISTED, submission_ids=submission_ids)
    return {submission.submission_id: submission for submission in map(submission_from, rows)}


def pending_submissions(board: str, *, after: int, count: int) -> Operation[list[Row]]:
    """Return (seq, submission id, player, received_at_ms) of pending submissions after `after`, by seq."""

    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(_PENDING, board=board, after=after, count=count)

    return work


def history_of(submission_id: str) -> Operation[list[dict[str, Any]]]:
    """Return every event of a submission, oldest first."""

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        return (await load_histories(tx, [submission_id]))[submission_id]

    return work


async def load_histories(tx: Transaction, submission_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return every event of each of these submissions, oldest first, inside a transaction."""
    names = ("seq", "from", "to", "actor", "reason", "policy", "rules_version", "detail", "at_ms")
    histories: dict[str, list[dict[str, Any]]] = {submission_id: [] for submission_id in submission_ids}
    rows = await tx.rows(_EVENTS, submission_ids=submission_ids)
    for submission_id, *row in sorted(rows, key=itemgetter(1)):
        event = dict(zip(names, row, strict=True))
        histories[submission_id].append(event | {"detail": detail_from(event["detail"])})
    return histories


def replay_findings(submission_ids: Sequence[str]) -> Operation[dict[str, tuple[Finding, ...]]]:
    """Return the findings of the latest replay of each of these submissions."""

    async def work(tx: Transaction) -> dict[str, tuple[Finding, ...]]:
        rows = await fetch_listed(tx, _FOUND_BY_REPLAY, submission_ids)
        return {
            submission_id: findings_from(detail_from(detail).get("findings", ())) or ()
            for submission_id, detail in rows
        }

    return work


def baselines_of(board: str, player: str, build: str) -> Operation[list[StoredBaseline]]:
    """Return the baselines of a player, of a build's population and of the board's, where they exist."""
    subjects = {"player": player, "build": population_of(build)}

    async def work(tx: Transaction) -> list[StoredBaseline]:
        return [baseline_from(row) for row in await tx.rows(_BASELINE, board=board, **subjects)]

    return work


def baselines_page(board: str, *, after: str | None, count: int) -> Operation[list[StoredBaseline]]:
    """Return baselines of a board in the order of players, after `after`.

    Populations (`""`, `@...`) come among them.
    """

    async def work(tx: Transaction) -> list[StoredBaseline]:
        query = _BASELINES_FIRST if after is None else _BASELINES_PAGE
        values = {} if after is None else {"after": after}
        return [baseline_from(row) for row in await tx.rows(query, board=board, count=count, **values)]

    return work


def add_player(player: str, name: str, *, now_ms: int, is_unique: bool = False) -> Operation[None]:
    """Add a new player.

    If names are unique, raises NameTaken if another player has one that looks like it.
    """
    key = search_key(name)

    async def work(tx: Transaction) -> None:
        if is_unique:
            await take_name(tx, player, name)
        await tx.run(_ADD_PLAYER, player=player, name=name, created_at_ms=now_ms, search_key=key)

    return work


async def take_name(tx: Transaction, player: str, name: str) -> None:
    """Let nobody else have a name that looks like this one. Raises NameTaken if another player has."""
    if await may_take_name(tx, player, name):
        await tx.run(_TAKE_NAME, name_key=name_key(name), player=player)


async def may_take_name(tx: Transaction, player: str, name: str) -> bool:
    """Return whether nobody has a name that looks like this one. Raises NameTaken if another player has."""
    takers = [row[0] for row in await tx.rows(_TAKEN_NAME, name_key=name_key(name))]
    if takers and takers != [player]:
        raise NameTaken
    return not takers


def add_server_key(key: ServerKey) -> Operation[None]:
    """Register a trusted server. Raises IntegrityError if the id is taken."""

    async def work(tx: Transaction) -> None:
        boards = orjson.dumps(key.boards).decode()
        row = (key.key_id, key.public_key, boards, key.created_at_ms, key.revoked_at_ms)
        await tx.run(_ADD_KEY, **dict(zip(server_keys.columns.keys(), row, strict=True)))

    return work


def all_server_keys() -> Operation[dict[str, ServerKey]]:
    """Return every registered trusted server by key id, including revoked ones."""

    async def work(tx: Transaction) -> dict[str, ServerKey]:
        rows = await tx.rows(_KEYS)
        return {
            key_id: ServerKey(key_id, public_key, tuple(orjson.loads(boards)), *times)
            for key_id, public_key, boards, *times in rows
        }

    return work


def revoke_server_key(key_id: str, *, now_ms: int) -> Operation[bool]:
    """Revoke a key, and return whether it was in force.

    After the commit the ledger takes nothing more of it.
    """

    async def work(tx: Transaction) -> bool:
        return bool(await tx.run(_REVOKE_KEY, id=key_id, now_ms=now_ms))

    return work


def counting_submissions(
    credential: str, *, since_ms: int, after: int, upto: int, count: int
) -> Operation[list[StoredSubmission]]:
    """Return a credential's submissions of (`after`, `upto`] that count, or would without a ban.

    They were received at `since_ms` or later.
    """

    async def work(tx: Transaction) -> list[StoredSubmission]:
        span = {"after": after, "upto": upto, "count": count}
        rows = await tx.rows(_COUNTING_OF, credential=credential, since_ms=since_ms, **span)
        return [submission_from(row) for row in rows]

    return work


def revocations_by(actor: str, *, since_ms: int, after: int, upto: int, count: int) -> Operation[list[Row]]:
    """Return (seq, submission id) of an actor's revocations in (`after`, `upto`], at `since_ms` or later."""

    async def work(tx: Transaction) -> list[Row]:
        span = {"after": after, "upto": upto, "count": count}
        return await tx.rows(_REVOKED_BY, actor=actor, since_ms=since_ms, **span)

    return work


def newest_seq() -> Operation[int]:
    """Return the sequence number of the newest event, 0 for none.

    Also used to check that the ledger can be read.
    """

    async def work(tx: Transaction) -> int:
        [[seq]] = await tx.rows(_NEWEST_SEQ)
        return int(seq)

    return work
