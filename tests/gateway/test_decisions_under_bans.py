"""Moderators' decisions leave what they would have left had nobody been banned, once all bans have ended."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.settlement import bans as banning
from gateway.settlement.case_decisions import CaseRequest, DecidedCase, decide_on_case, permitted_decisions
from gateway.settlement.decision_records import Decision
from gateway.settlement.joins import set_joined
from gateway.settlement.undoing import inverse_of
from policies.choices import Joins
from policies.decision_codes import DecisionKind
from policies.errors import StateConflict
from policies.loader import Board
from policies.moderation import Moderation
from policies.vocabulary import Reason, State
from tests.gateway.test_bans import SCOPES, TRACKS, WHO, Game, covered, family
from tests.support.batching import Desk, a_batch
from tests.support.ledger import NOON_MS
from tests.support.thorough import examples

MOVES = {
    "approve": (State.HELD, State.PROMOTED, Reason.APPROVED),
    "reject": (State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR),
    "hold": (State.PROMOTED, State.HELD, Reason.HELD_BY_MODERATOR),
    "reopen": (State.REJECTED, State.HELD, Reason.HELD_BY_MODERATOR),
    "revoke": (State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR),
    "reinstate": (State.REVOKED, State.PROMOTED, Reason.REINSTATED),
}
BATCHES = (DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.REVOKE, DecisionKind.REINSTATE)


class Deciders(Game):
    """A game whose runs moderators decide on, one by one and many at once."""

    def __init__(self) -> None:
        super().__init__(family("best", "descending", ties=False))
        self.desk = Desk(self, self.tracks)  # type: ignore[arg-type]
        self.previews: list[Batch] = []

    def settled(self, decision: Decision | StateConflict) -> bool:
        """Whether a moderator's decision was made."""
        if isinstance(decision, StateConflict):
            return False
        board = self.runs[decision.submission_id]
        outcome, _ = self.books.do(decide_on_case(board, CaseRequest(decision, may_overrule=True)))
        return isinstance(outcome, DecidedCase)

    def move(self, run: str, kind: str) -> bool:
        from_state, to_state, reason = MOVES[kind]
        detail = {"decision": kind if kind != "reopen" else "hold", "code": "other", "note": "seen"}
        made = Decision(
            run, to_state, "moderator:mara", reason, NOON_MS + 2, frozenset({from_state}), detail=detail
        )
        return self.settled(made)

    def undo(self, run: str) -> bool:
        history = self.books.do(queries.history_of(run))
        actor, detail = "moderator:noor", {"decision": "undo", "code": "mistake"}
        return self.settled(inverse_of(run, history, actor=actor, at_ms=NOON_MS + 3, detail=detail))

    def preview(self, kind: DecisionKind, player: str | None) -> int:
        name = f"batch{len(self.previews)}"
        self.previews.append(asyncio.run(self.desk.previewed(a_batch(name, kind, player=player))))
        return self.previews[-1].items

    def turn_batch(self, number: int) -> dict[str, str]:
        """Apply a batch, or reverse it if it is applied."""
        batch = self.previews[number]
        turn = self.desk.apply if batch.state is BatchState.PREVIEWED else self.desk.reverse
        self.previews[number] = asyncio.run(turn(batch))
        return asyncio.run(self.desk.outcomes(batch.batch_id))

    def cases(self) -> list[tuple[Any, ...]]:
        return self.books.rows("SELECT submission_id, kind, reason FROM cases ORDER BY submission_id")

    def labels(self) -> list[tuple[Any, ...]]:
        return self.books.rows(
            "SELECT submission_id, moderator, reason, opened_at_ms, overturned_by IS NOT NULL FROM labels "
            "ORDER BY submission_id, seq"
        )

    def all_that_stands(self) -> tuple[Any, ...]:
        return self.states(), self.standings(), self.baselines(), self.cases(), self.labels()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch):
    """A few submissions are several slices."""
    monkeypatch.setattr(banning, "SLICE", 3)
    monkeypatch.setattr(bans, "PAGE", 2)


_number = st.integers(0, 9)
_play = st.tuples(st.just("play"), st.sampled_from(TRACKS), st.sampled_from(WHO), st.integers(-3, 3), _number)
_turn = st.one_of(
    _play,
    st.tuples(st.just("move"), st.sampled_from(sorted(MOVES)), _number),
    st.tuples(st.just("move"), st.sampled_from(sorted(MOVES)), _number),
    st.tuples(st.just("undo"), _number),
    st.tuples(st.just("preview"), st.sampled_from(BATCHES), st.sampled_from([None, *WHO])),
    st.tuples(st.just("turn"), _number),
    st.tuples(st.just("turn"), _number),
    st.tuples(st.just("ban"), st.sampled_from(WHO[:2]), st.sampled_from(SCOPES)),
    st.tuples(st.just("unban"), _number),
)


def take(game: Deciders, what: str, how: tuple[Any, ...]) -> Any:
    """Make a turn that knows nothing of bans."""
    match what:
        case "play":
            run = game.play(how[0], how[1], how[2], how[3] % 3)
            to_state, reason = (
                (State.HELD, Reason.ANOMALY_PLAYER) if how[3] % 2 else (State.PROMOTED, Reason.VERIFIED)
            )
            return run, game.decide(run, State.PENDING, to_state, reason)
        case "move" | "undo" if game.runs:
            run = sorted(game.runs)[how[-1] % len(game.runs)]
            return game.move(run, how[0]) if what == "move" else game.undo(run)
        case "preview":
            return game.preview(*how)
        case "turn" if game.previews:
            return game.turn_batch(how[0] % len(game.previews))
    return None


@settings(max_examples=examples(25), deadline=None)
@given(history=st.lists(_turn, max_size=40), data=st.data())
def test_decisions_under_bans_hold_after_them_as_if_there_had_been_none(
    history: list[tuple[Any, ...]], data: st.DataObject
):
    """Approved, revoked, undone, in batches and back, in any order with bans and their ends: nothing differs."""
    banned, free = Deciders(), Deciders()
    in_force: dict[str, tuple[str, str]] = {}
    for number, (what, *how) in enumerate(history):
        if what == "ban":
            banned.ban(f"ban{number}", *how)
            in_force[f"ban{number}"] = (how[0], how[1])
        elif what == "unban" and in_force:
            ban_id = sorted(in_force)[how[0] % len(in_force)]
            banned.unban(ban_id)
            del in_force[ban_id]
        elif what != "unban":
            assert take(banned, what, tuple(how)) == take(free, what, tuple(how)), what
        counts = [
            row for row in free.standings() if row[0] not in TRACKS or not covered(in_force, row[2], row[0])
        ]
        tracks = [row for row in banned.standings() if row[0] in TRACKS]
        assert [row for row in counts if row[0] in TRACKS] == tracks
    for ban_id in data.draw(st.permutations(sorted(in_force))):
        banned.unban(ban_id)
    assert free.all_that_stands() == banned.all_that_stands()


def test_what_adds_to_runs_that_do_not_stand_yet_needs_two_moderators():
    """Under a ban, after it until they have followed, and of a player who left; else as far as it enters the top."""
    tracks = family("sum", "descending", ties=False)
    policy = tracks["track.a"].policy
    policy = policy.model_copy(update={"moderation": Moderation(four_eyes_top=1)})
    board = dataclasses.replace(tracks["track.a"], policy=policy)
    members = dataclasses.replace(board, policy=policy.model_copy(update={"joins": Joins.REQUIRED}))
    game = Game({**tracks, "track.a": board})
    for player, score in (("zoe", 50), ("ada", 20)):
        game.decide(game.play("track.a", player, score, 0), State.PENDING, State.PROMOTED, Reason.VERIFIED)
    run = game.play("track.a", "ada", 20, 0)
    game.decide(run, State.PENDING, State.HELD, Reason.ANOMALY_PLAYER)

    def needs_two(on: Board) -> bool:
        made = Decision(
            run, State.PROMOTED, "moderator:mara", Reason.APPROVED, NOON_MS, frozenset({State.HELD})
        )
        [decision] = game.books.do(permitted_decisions(on, [CaseRequest(made)]))
        assert isinstance(decision, Decision)
        return decision.reason is Reason.APPROVED_ONCE

    assert [False, True] == [needs_two(on) for on in (board, members)]
    game.books.do(set_joined(members, "ada", joins_now=True, actor="ada", now_ms=NOON_MS))
    assert not needs_two(members)
    game.ban("one", "ada")
    assert needs_two(board)
    game.books.do(banning.lift("one", by="moderator:mia", now_ms=NOON_MS))
    assert needs_two(board)
    game.unban("one")
    assert not needs_two(board)


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("kind", [DecisionKind.APPROVE, DecisionKind.REVOKE])
def test_a_batch_on_runs_of_a_banned_player_is_taken_back_as_any_other(kind: DecisionKind, is_over: bool):
    """Be the ban over by then or not: what it let count waits again, and what it revoked counts again."""
    game = Deciders()
    move = MOVES[kind.value]
    run = game.play("track.a", "ada", 1, 0)
    game.decide(run, State.PENDING, move[0], Reason.ANOMALY_PLAYER)
    before = game.all_that_stands()[:4]
    game.ban("one", "ada")
    assert 1 == game.preview(kind, "ada")
    assert {run: "decided"} == game.turn_batch(0)
    if is_over:
        game.unban("one")
        assert (move[1], move[2]) == game.state_of(run)
    assert {run: "reversed"} == game.turn_batch(0)
    if not is_over:
        game.unban("one")
    assert before == game.all_that_stands()[:4]
