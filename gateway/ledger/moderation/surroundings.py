"""What surrounds a case: the player's other submissions, those that findings name, and decisions on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, text

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import BY_MODERATOR, events, submissions
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.runtime.telemetry import label_of

PASSED_OVER: Final = 200
"""Most of a player's submissions that one read passes over, on whatever boards they are."""

DECISIONS: Final = 20
"""Most decisions that are shown, the newest ones."""

_s, _e = submissions.c, events.c
_columns = (
    _s.submission_id, _s.board, _s.player, _s.score, _s.build, _s.state, _s.reason, _s.received_at_ms,
    _s.recording_digest,
)  # fmt: skip

_OF_PLAYER = Query(
    select(*_columns)
    .where(_s.player == bindparam("player"))
    .order_by(_s.seq.desc())
    .limit(bindparam("count"))
)
_NAMED = Query(select(*_columns).where(is_listed(_s.submission_id)))
_DECIDED = Query(
    select(_e.seq, _e.submission_id, _e.board, _e.actor, _e.to_state, _e.reason, _e.detail, _e.at_ms).where(
        is_listed(_e.submission_id), text(BY_MODERATOR)
    )
)


class SubmissionInBrief(NamedTuple):
    """A submission in a list beside a case."""

    submission_id: str
    board: str
    player: str
    score: int
    build: str
    state: str
    reason: str
    received_at_ms: int
    recording_digest: bytes | None


class PastDecision(NamedTuple):
    """A moderator's event on a submission."""

    seq: int
    submission_id: str
    board: str
    actor: str
    to_state: str
    reason: str
    detail: dict[str, Any]
    at_ms: int


class Surroundings(NamedTuple):
    """The named submissions, the player's newest others, and moderators' newest decisions on any of them."""

    named: Sequence[SubmissionInBrief]
    others: Sequence[SubmissionInBrief]
    decisions: Sequence[PastDecision]


def surroundings(
    submission_id: str,
    player: str,
    named: Sequence[str],
    *,
    scopes: frozenset[str],
    count: int,
    hidden: Mapping[str, int],
) -> Operation[Surroundings]:
    """Return what surrounds a submission on boards of these scopes; up to `count` of the player's others.

    Of the submissions in `hidden` the decisions from that event on are passed over.
    """

    async def work(tx: Transaction) -> Surroundings:
        rows = await tx.rows(_OF_PLAYER, player=player, count=PASSED_OVER)
        others = [each for each in _in_scope(rows, scopes) if each.submission_id != submission_id][:count]
        similar = _in_scope(await fetch_listed(tx, _NAMED, list(named)), scopes)
        ids = {each.submission_id for each in (*others, *similar)}
        decided = [
            PastDecision._make((*facts, detail_from(detail), at_ms))
            for *facts, detail, at_ms in await fetch_listed(tx, _DECIDED, sorted(ids))
        ]
        told = [each for each in decided if each.seq < hidden.get(each.submission_id, each.seq + 1)]
        newest = sorted(told, key=lambda decision: -decision.seq)[:DECISIONS]
        return Surroundings(sorted(similar, key=lambda each: named.index(each.submission_id)), others, newest)

    return work


def _in_scope(rows: Sequence[Row], scopes: frozenset[str]) -> list[SubmissionInBrief]:
    summaries = (SubmissionInBrief(*row) for row in rows)
    return [each for each in summaries if not scopes.isdisjoint({"*", each.board, label_of(each.board)})]
