"""Merges of players and their undoing: submissions follow in slices, each of them one transaction.

A merge is in force at once: whatever its source sends from its commit on counts for the target, because the
append says so (`attribute_appended`). What was there by then is moved slice by slice, each submission by an
event of its own, and comes back slice by slice once the merge is undone. The rows stay as they were sealed:
`played_by` keeps who played what was moved. A steward goes on with what a process left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from sqlalchemy import insert

from gateway.ledger import queries
from gateway.ledger.acts import Act, add_event
from gateway.ledger.archive.windows import mark_changed
from gateway.ledger.judgement.learning import SubjectChanges, fold_baselines
from gateway.ledger.moderation import bans
from gateway.ledger.players import merges
from gateway.ledger.players.friends import FRIENDS_LIMIT, change_friends, load_friends
from gateway.ledger.players.late_runs import move_submission
from gateway.ledger.players.merges import ACTOR, MERGE, Merge
from gateway.ledger.privacy import erasures
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.schema import events, outbox
from gateway.ledger.standings.counting import CountChange
from gateway.ledger.standings.folds import PlayerChanges, fold_standings
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.settlement.following import AGAIN_MS, SLICE, Follower
from gateway.settlement.joins import carry_join
from gateway.settlement.rollups import roll_up
from gateway.shared_records import Change
from policies.choices import Joins
from policies.errors import StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from validators.baseline import PromotedScore
from validators.judge import RULES_VERSION

MERGES_LIMIT: Final = 100
"""Most players that are merged into one."""

REST_MS: Final = 86_400_000
"""Time after which who was parted may merge again: each turn is an event for ever of each run that moves."""

BANS: Final = 100
"""Bans of a player that are looked at, those in force first."""

NOT_NOW: Final = "something about one of the players is still being settled; try again in a while"
"""What is said of an earlier merge that runs still follow, and of a shadow ban, which nobody may notice."""

_ADD_EVENT = Query(insert(events))
_ADD_WORK = Query(insert(outbox))


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """A merge as it is stored now, and whether this request began or undid it."""

    merge: Merge
    is_new: bool


def begin(new: Merge, *, rest_ms: int = 0) -> Operation[MergeOutcome]:
    """Merge a player into another and store the event, unless it is stored.

    Raises StateConflict, also until `rest_ms` after the source was parted from another player.
    """

    async def work(tx: Transaction) -> MergeOutcome:
        stored = (await merges.merges_in_force(tx, [new.source])).get(new.source)
        if stored and stored.target == new.target:
            return MergeOutcome(stored, is_new=False)
        await _refuse(tx, new, stored, rest_ms)
        followed = await _follow_friends(tx, new)
        detail = {MERGE: new.merge_id, "into": new.target}
        act = Act(new.actor, new.began_at_ms)
        seq = await add_event(tx, Reason.MERGED, act, detail, player=new.source)
        begun = replace(new, changed_seq=seq, friends=orjson.dumps(followed).decode())
        await merges.add(tx, begun)
        return MergeOutcome(begun, is_new=True)

    return work


def undo(merge_id: str, *, by: str, now_ms: int) -> Operation[MergeOutcome | None]:
    """Undo a merge and store the event, unless it is undone. None if there is none. Raises StateConflict."""

    async def work(tx: Transaction) -> MergeOutcome | None:
        stored = await merges.merge(merge_id)(tx)
        if stored is None or not stored.is_in_force:
            return MergeOutcome(stored, is_new=False) if stored else None
        await _refuse_banned(tx, stored)
        await _refuse_erased(tx, stored)
        friends = await load_friends(tx, stored.target)
        wanted = {*friends.friends} - {*orjson.loads(stored.friends)}
        await change_friends(tx, friends, wanted, now_ms=now_ms)
        detail = {MERGE: merge_id, "into": stored.target}
        seq = await add_event(tx, Reason.UNMERGED, Act(by, now_ms), detail, player=stored.source)
        await merges.undo(tx, merge_id, by=by, seq=seq, at_ms=now_ms)
        changed = {"changed_seq": seq, "changed_count": 0, "seen_seq": 0, "again_ms": None}
        undone: Any = {"undone_at_ms": now_ms, "undone_by": by, **changed}
        return MergeOutcome(replace(stored, **undone), is_new=True)

    return work


async def _refuse(tx: Transaction, new: Merge, stored: Merge | None, rest_ms: int) -> None:
    """Raise StateConflict if a player cannot be merged now. `stored` is the merge that the source is in."""
    if new.source == new.target:
        raise StateConflict("a player cannot be merged into themselves")
    if stored:
        raise StateConflict("the player was merged into another one; undo that first")
    if (await merges.merges_in_force(tx, [new.target])).get(new.target):
        raise StateConflict("the other player was merged into another one themselves")
    if len(await merges.sources_in_force(new.target, count=MERGES_LIMIT)(tx)) >= MERGES_LIMIT:
        raise StateConflict(f"{MERGES_LIMIT} players were merged into the other one already")
    own = await merges.merges_of(new.source, count=MERGES_LIMIT)(tx)
    if await merges.sources_in_force(new.source, count=1)(tx):
        raise StateConflict("others were merged into the player; undo that first")
    if any(other.seen_seq is not None for other in own):
        raise StateConflict(NOT_NOW)
    undone = [other.undone_at_ms for other in own if other.source == new.source and other.undone_at_ms]
    if undone and new.began_at_ms < max(undone) + rest_ms:
        raise StateConflict("the player was parted from another one a short while ago; try again in a day")
    await _refuse_banned(tx, new)
    await _refuse_erased(tx, new)


async def _refuse_banned(tx: Transaction, merge: Merge) -> None:
    """Raise StateConflict while a player is banned: who is merged, or no longer, would escape the ban.

    The words for a shadow ban are those for what lasts a moment.
    """
    for player in (merge.source, merge.target):
        in_force = [ban for ban in await bans.bans_of(player, count=BANS)(tx) if ban.is_in_force]
        if any(not ban.is_shadow for ban in in_force):
            raise StateConflict(
                "one of the players is banned; players are merged or parted once no ban is in force"
            )
        if in_force:
            raise StateConflict(NOT_NOW)


async def _refuse_erased(tx: Transaction, merge: Merge) -> None:
    for player in (merge.source, merge.target):
        if await erasures.load_erasure(tx, player):
            raise StateConflict("the data of one of the players is erased, or about to be")


async def _follow_friends(tx: Transaction, new: Merge) -> list[str]:
    """Let the target follow whom the source does, as far as the list has room, and return whom it adds."""
    source, target = await load_friends(tx, new.source), await load_friends(tx, new.target)
    lacking = [one for one in source.friends if one not in {*target.friends, new.source, new.target}]
    added = lacking[: FRIENDS_LIMIT - len(target.friends)]
    await change_friends(tx, target, {*target.friends, *added}, now_ms=new.began_at_ms)
    return added


class MergeFollower(Follower[Merge]):
    """Has submissions follow merges."""

    _reads = ReadKind.PLAYERS

    def _stored(self, followed_id: str) -> Operation[Merge | None]:
        return merges.merge(followed_id)

    def _next(self, followed: Merge) -> Operation[Sequence[Row]]:
        return merges.next_to_follow(followed)

    def _slice(
        self, followed: Merge, page: Sequence[Row], boards: Mapping[str, Board], *, now_ms: int
    ) -> Operation[Mapping[str, list[Change]]]:
        return follow_slice(followed, page[:SLICE], boards, now_ms=now_ms)


def follow_slice(
    merge: Merge, page: Sequence[Row], boards: Mapping[str, Board], *, now_ms: int
) -> Operation[Mapping[str, list[Change]]]:
    """Have submissions follow a merge; return the changes by the board that was played.

    `page` is the beginning of what `merges.next_to_follow` gave. Submissions that only a ban revokes, and
    those of boards that are not in `boards`, are passed over, and looked for again after AGAIN_MS.
    """

    async def work(tx: Transaction) -> Mapping[str, list[Change]]:
        now = await merges.merge(merge.merge_id)(tx)
        if now is None or (now.changed_seq, now.seen_seq) != (merge.changed_seq, merge.seen_seq):
            return {}  # another process went on, or somebody undid it
        to_move, is_passed_over = await _to_move(tx, merge, page, boards)
        changes = {
            name: await _move_on_board(tx, merge, boards[name], submissions, now_ms)
            for name, submissions in to_move.items()
        }
        again_ms = now_ms + AGAIN_MS if is_passed_over else merge.again_ms if merge.seen_seq else None
        seen = page[-1][0] if page else None if again_ms is None else 0
        count = sum(map(len, to_move.values()))
        await merges.note_progress(tx, merge, seen_seq=seen, again_ms=again_ms, more=count)
        return changes

    return work


async def _to_move(
    tx: Transaction, merge: Merge, page: Sequence[Row], boards: Mapping[str, Board]
) -> tuple[dict[str, list[StoredSubmission]], bool]:
    """Return what is to be moved by board, and whether something has to be passed over."""
    to_move: dict[str, list[StoredSubmission]] = defaultdict(list)
    is_passed_over = False
    for _, name, submission_id in page:
        submission = await queries.load_submission(tx, submission_id)
        assert submission is not None
        if submission.player != merge.giver:
            continue
        if name not in boards or bans.is_banned(submission.state, submission.reason):
            is_passed_over = True
        else:
            to_move[name].append(submission)
    return to_move, is_passed_over


async def _move_on_board(
    tx: Transaction, merge: Merge, board: Board, submissions: Sequence[StoredSubmission], now_ms: int
) -> list[Change]:
    """Move submissions on a board, each by an event, and fold what both players have then."""
    if board.policy.joins is Joins.REQUIRED:
        await carry_join(tx, board, merge, now_ms=now_ms)
    for submission in submissions:
        await move_submission(tx, merge, submission, policy=board.digest, at_ms=now_ms)
    counting = [submission for submission in submissions if submission.state is State.PROMOTED]
    if not counting:
        return []
    changes = await _fold(tx, board, merge, counting, -1, now_ms)
    changes += await _fold(tx, board, merge, counting, 1, now_ms)
    achieved = [each.achieved_at_ms for each in counting]
    await mark_changed(tx, board.name, dict.fromkeys(achieved, changes[-1].seq))
    if await bans.ban_in_force(tx, merge.taker, board.name):
        await bans.look_again(tx, merge.taker)
    return changes


async def _fold(
    tx: Transaction,
    board: Board,
    merge: Merge,
    submissions: Sequence[StoredSubmission],
    difference: int,
    now_ms: int,
) -> list[Change]:
    """Fold what a player gains (1) or loses (-1), with an event of the player, and return the changes."""
    player = merge.taker if difference > 0 else merge.giver
    seq = await _add_event(tx, board, merge, player, now_ms)
    counted = [
        CountChange(
            difference,
            each.submission_id,
            each.seq,
            each.achieved_at_ms,
            each.claim.score,
            each.claim.stats,
        )
        for each in submissions
    ]
    folds = (await fold_standings(tx, board.ranking, {player: PlayerChanges(counted, seq)}))[player]
    scored = [
        (PromotedScore(each.achieved_at_ms, each.seq, each.claim.score), difference) for each in submissions
    ]
    baselines = await fold_baselines(tx, board.name, {player: SubjectChanges(scored, seq)})
    standings = tuple(fold.standing for fold in folds)
    change = Change(seq, "", board.name, player, State.PROMOTED, standings, (baselines[player],))
    return [change, *await roll_up(tx, board, folds, cause=seq, at_ms=now_ms)]


async def _add_event(tx: Transaction, board: Board, merge: Merge, player: str, now_ms: int) -> int:
    """Add the event and the outbox row under which a player's standings on a board are folded."""
    seq = await queries.newest_seq()(tx) + 1
    subject = {"seq": seq, "submission_id": "", "board": board.name, "player": player}
    await tx.run(
        _ADD_EVENT,
        **subject,
        from_state=State.PROMOTED.value,
        to_state=State.PROMOTED.value,
        actor=ACTOR,
        reason=(Reason.MERGED if merge.is_in_force else Reason.UNMERGED).value,
        policy=board.digest,
        rules_version=RULES_VERSION,
        detail=orjson.dumps({MERGE: merge.merge_id}).decode(),
        at_ms=now_ms,
    )
    due_at_ms = now_ms + PROJECT_AFTER_MS + int(board.policy.staleness_s * 1000)
    await tx.run(_ADD_WORK, **subject, kind="project", due_at_ms=due_at_ms, priority=0, handed_out=0)
    return seq
