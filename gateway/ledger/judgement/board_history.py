"""The history of a board for a backtest: each event with its submission, oldest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, select

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.schema import Text, events, submissions
from gateway.ledger.standings.rollups import board_range
from gateway.ledger.submission_rows import detail_from, findings_from, findings_in, stats_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Claim, Reason, State, Verdict, VerdictKind
from validators.backtest import HistoricalEvent
from validators.baseline import PromotedScore
from validators.submission import Submission

SLICE: Final = 5_000
"""Events of one read, so that nobody waits behind a long one."""

_e, _s = events.c, submissions.c

_EVENTS: Final = (
    select(
        _e.at_ms, _e.from_state, _e.to_state, _e.actor, _e.reason, _e.detail,
        _s.submission_id, _s.board, _s.player, _s.build, _s.seed, _s.issued_at_ms, _s.received_at_ms,
        _s.score, _s.ticks, _s.stats, _s.recording_digest, _s.runs_opened, _s.runs_submitted,
        _s.seq, _s.achieved_at_ms, _s.credential, _s.findings,
    )
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(_e.seq > bindparam("after"), _e.seq <= bindparam("upto"))
    .order_by(_e.seq)
)  # fmt: skip
_LOG = Query(_EVENTS.where(_e.board == bindparam("board")))
_LOG_OF_FAMILY = Query(
    _EVENTS.where(_e.board > bindparam("first", type_=Text), _e.board < bindparam("beyond", type_=Text))
)


async def history_of_board(ledger: Ledger, board: str) -> AsyncIterator[HistoricalEvent]:
    """Yield every event of a board up to the newest of this moment."""
    async for events_of_slice in _history(ledger, _LOG, board=board):
        for event in events_of_slice:
            yield event


async def history_of_family(ledger: Ledger, family: str) -> AsyncIterator[list[HistoricalEvent]]:
    """Yield every event of the boards of a family up to the newest of this moment, a slice at a time."""
    async for events_of_slice in _history(ledger, _LOG_OF_FAMILY, **board_range(family)):
        yield events_of_slice


async def _history(ledger: Ledger, query: Query, **names: str) -> AsyncIterator[list[HistoricalEvent]]:
    newest = await ledger.read(queries.newest_seq())
    for after in range(0, newest, SLICE):
        rows = await ledger.read(_slice(query, names, after, min(after + SLICE, newest)))
        yield [_event(row) for row in rows]


def _slice(query: Query, names: Mapping[str, str], after: int, upto: int) -> Operation[list[Row]]:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(query, **names, after=after, upto=upto)

    return work


def _event(row: Row) -> HistoricalEvent:
    (
        at_ms,
        from_state,
        to_state,
        actor,
        reason,
        detail_text,
        *facts,
        seq,
        achieved_at_ms,
        credential,
        findings,
    ) = row
    detail, submission = detail_from(detail_text), _submission(facts)
    return HistoricalEvent(
        at_ms,
        State(from_state),
        State(to_state),
        actor,
        reason,
        submission,
        findings_in(findings),
        findings_from(detail.get("findings", ())) or (),
        _verdict(detail),
        PromotedScore(achieved_at_ms, seq, submission.claim.score),
        is_trusted=credential.startswith(SERVER_CREDENTIAL),
    )


def _submission(facts: Sequence[Any]) -> Submission:
    submission_id, board, player, build, seed, issued_at_ms, received_at_ms, *rest = facts
    score, ticks, stats, recording, runs_opened, runs_submitted = rest
    claim = Claim(score, ticks, stats_from(stats))
    return Submission(
        submission_id,
        board,
        player,
        build,
        seed,
        issued_at_ms,
        received_at_ms,
        claim,
        recording is not None,
        runs_opened,
        runs_submitted,
    )


def _verdict(detail: dict[str, Any]) -> Verdict | None:
    """Return the verdict of an event's replay, or None."""
    if "verdict" not in detail:
        return None
    kind, reason = VerdictKind(detail["verdict"]), Reason(detail["verdict_reason"])
    return Verdict(kind, reason, detail["simulator"], detail["engine"])
