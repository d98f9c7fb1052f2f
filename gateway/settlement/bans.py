"""Bans and their ends: the player's submissions follow in slices, each of them one transaction.

A ban is in force at once: from its commit on, `settle.decide` promotes nothing in its scope. What counted by
then is revoked slice by slice, and comes back slice by slice once the ban is lifted, as far as no other ban
covers it. A steward goes on with what a process left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import insert

from gateway.ledger import queries
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.bans import ACTOR, BAN, WAS, Ban
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.schema import events
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.settlement.case_history import CaseHistory, reason_without_bans
from gateway.settlement.decision_records import Decision, SettledDecision
from gateway.settlement.following import AGAIN_MS, SLICE, Follower
from gateway.settlement.settle import decide_all, fold
from gateway.shared_records import Change
from policies.errors import StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from validators.judge import RULES_VERSION

_ADD_EVENT = Query(insert(events))


@dataclass(frozen=True, slots=True)
class BanOutcome:
    """A ban as it is stored now, and whether this request began or lifted it."""

    ban: Ban
    is_new: bool


def ban_id_of(actor: str, player: str, operation: str) -> str:
    """Return the id of the ban of an operation, which no other moderator's operation has."""
    return hashlib.sha256(f"{actor}\n{player}\n{operation}".encode()).hexdigest()[:24]


def begin(ban: Ban) -> Operation[BanOutcome]:
    """Store a ban, unless it is stored, and its event."""

    async def work(tx: Transaction) -> BanOutcome:
        if stored := await bans.ban(ban.ban_id)(tx):
            return BanOutcome(stored, is_new=False)
        seq = await queries.newest_seq()(tx) + 1
        new = replace(ban, changed_seq=seq)
        detail = {"until_ms": ban.until_ms, "is_shadow": ban.is_shadow, "code": ban.code, "note": ban.note}
        await _add_event(tx, new, Reason.BANNED, ban.actor, ban.began_at_ms, detail)
        await bans.add(tx, new)
        return BanOutcome(new, is_new=True)

    return work


def lift(ban_id: str, *, by: str, now_ms: int) -> Operation[BanOutcome]:
    """Lift a ban, unless it was lifted before, and store the event."""

    async def work(tx: Transaction) -> BanOutcome:
        stored = await bans.ban(ban_id)(tx)
        assert stored is not None
        if not stored.is_in_force:
            return BanOutcome(stored, is_new=False)
        seq = await queries.newest_seq()(tx) + 1
        await bans.lift(tx, ban_id, by=by, seq=seq, now_ms=now_ms)
        lifted = replace(
            stored,
            lifted_at_ms=now_ms,
            lifted_by=by,
            changed_seq=seq,
            changed_count=0,
            seen_seq=0,
            again_ms=None,
        )
        await _add_event(tx, lifted, Reason.UNBANNED, by, now_ms, {})
        return BanOutcome(lifted, is_new=True)

    return work


class BanFollower(Follower[Ban]):
    """Has submissions follow bans."""

    _reads = ReadKind.MODERATION

    def _stored(self, followed_id: str) -> Operation[Ban | None]:
        return bans.ban(followed_id)

    def _next(self, followed: Ban) -> Operation[Sequence[Row]]:
        return bans.next_to_follow(followed)

    def _slice(
        self, followed: Ban, page: Sequence[Row], boards: Mapping[str, Board], *, now_ms: int
    ) -> Operation[Mapping[str, list[Change]]]:
        return follow_slice(followed, page, boards, now_ms=now_ms)


def follow_slice(
    ban: Ban, page: Sequence[Row], boards: Mapping[str, Board], *, now_ms: int
) -> Operation[Mapping[str, list[Change]]]:
    """Have up to SLICE submissions follow a ban; return the changes by the board that was played.

    `page` is what `bans.next_to_follow` gave. Submissions of boards that are not in `boards` are passed over,
    and looked for again after AGAIN_MS: a steward may hear of their board later than others.
    """

    async def work(tx: Transaction) -> Mapping[str, list[Change]]:
        now = await bans.ban(ban.ban_id)(tx)
        if now is None or (now.changed_seq, now.seen_seq) != (ban.changed_seq, ban.seen_seq):
            return {}  # another process went on, or somebody lifted it
        changes: dict[str, list[Change]] = {}
        count, left = 0, SLICE
        for name in dict.fromkeys(name for _, name in page if name in boards):
            decided = await _decide_on_board(tx, ban, boards[name], count=left, now_ms=now_ms)
            changes[name] = await fold(tx, boards[name], decided)
            count, left = count + len(decided), left - len(decided)
            if not left:
                break
        # With room left, all of the page have followed, but for those that stay as they are.
        passed = page[-1][0] if page and left else ban.seen_seq
        is_passed_over = left and any(name not in boards for _, name in page)
        again_ms = now_ms + AGAIN_MS if is_passed_over else ban.again_ms if ban.seen_seq else None
        if not page:
            passed = 0 if again_ms is not None else None
        await bans.note_progress(tx, ban, seen_seq=passed, again_ms=again_ms, more=count)
        return changes

    return work


async def _decide_on_board(
    tx: Transaction, ban: Ban, board: Board, *, count: int, now_ms: int
) -> list[SettledDecision]:
    """Decide on the next submissions on a board. What another ban covers stays revoked."""
    if not ban.is_in_force and await bans.ban_in_force(tx, ban.player, board.name):
        return []
    listed = await bans.slice_of_board(tx, ban, board.policy, count=count)
    submissions = await queries.load_submissions(tx, listed)
    histories = {} if ban.is_in_force else await queries.load_histories(tx, listed)
    decisions = [
        _revocation(ban, submissions[each], now_ms)
        if ban.is_in_force
        else _reinstatement(ban, submissions[each], histories[each], now_ms)
        for each in listed
    ]
    decided = []
    for settled in await decide_all(tx, board, decisions):
        if isinstance(settled, StateConflict):
            raise settled  # a bug: its state was read in this transaction
        decided.append(settled)
    return decided


def _revocation(ban: Ban, submission: StoredSubmission, now_ms: int) -> Decision:
    detail = {BAN: ban.ban_id, WAS: submission.reason.value}
    return _follow(submission, State.REVOKED, Reason.BANNED, now_ms, detail)


def _reinstatement(ban: Ban, submission: StoredSubmission, history: CaseHistory, now_ms: int) -> Decision:
    """Return the decision that lets a submission count for the reason for which it did, or would have."""
    detail = {BAN: ban.ban_id}
    if submission.unreadable:
        return _follow(submission, State.REVOKED, Reason.RECORD_UNREADABLE, now_ms, detail)
    return _follow(submission, State.PROMOTED, reason_without_bans(history), now_ms, detail)


def _follow(
    submission: StoredSubmission, to_state: State, reason: Reason, now_ms: int, detail: Mapping[str, str]
) -> Decision:
    return Decision(
        submission.submission_id,
        to_state,
        ACTOR,
        reason,
        now_ms,
        frozenset({State.PROMOTED}),
        detail=detail,
    )


async def _add_event(
    tx: Transaction, ban: Ban, reason: Reason, actor: str, at_ms: int, detail: Mapping[str, Any]
) -> None:
    """Add the event of a player, which belongs to no submission."""
    begins = reason is Reason.BANNED
    states = (State.PROMOTED, State.REVOKED) if begins else (State.REVOKED, State.PROMOTED)
    await tx.run(
        _ADD_EVENT,
        seq=ban.changed_seq,
        submission_id="",
        board=ban.scope,
        player=ban.player,
        from_state=states[0].value,
        to_state=states[1].value,
        actor=actor,
        reason=reason.value,
        policy="",
        rules_version=RULES_VERSION,
        detail=orjson.dumps({BAN: ban.ban_id, **detail}).decode(),
        at_ms=at_ms,
    )
