"""The first ten of a window, event by event: the same as all players ranked anew, at a cost that does not grow with the past."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.derived.join_history import JoinHistory
from gateway.derived.top_ten import TOP_RANKS, TopTen
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.players.joins import JoinChange
from gateway.ledger.standings.history import Counting, ranked
from policies.ranking import Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT, Reason, State
from policies.windows import WindowKind, window_at
from tests.support import boards

EVENTS = 600


class CountedRanking(Ranking):
    """A ranking that counts the submissions that it folds."""

    folded = 0

    def standing(self, counting: Sequence[ReachedScore]) -> ReachedScore | None:
        self.folded += len(counting)
        return super().standing(counting)


def event_of(seq: int, submission_id: str, player: str, score: int, to_state: State) -> LoggedEvent:
    states = (State.PENDING if to_state is State.PROMOTED else State.PROMOTED, to_state)
    received = int(submission_id)
    return LoggedEvent(
        seq, submission_id, "tiny", player, *states, Reason.VERIFIED, seq, score, received // 3, received, {}
    )


@pytest.mark.parametrize("operator", ["best", "latest", "sum", "count"])
def test_the_first_ten_are_those_of_all_players_ranked_anew(tmp_path: Path, operator: str):
    """Through promotions, revocations and pardons; a promotion folds two scores, however many its player has."""
    policy = boards.board(tmp_path, operator=operator, windows=["alltime"]).policy
    ranking, reference = CountedRanking(policy), Ranking(policy)
    window = window_at(policy, WindowKind.ALLTIME, 0)
    top, rng = TopTen(ranking, window, None), random.Random(operator)
    counting: dict[str, Counting] = {}
    gone: dict[str, Counting] = {}
    most, revoked = 0, 0
    for seq in range(1, EVENTS):
        player, score = f"p{rng.randrange(14)}", rng.choice([rng.randrange(40), -SCORE_LIMIT, SCORE_LIMIT])
        submission = Counting(player, score, seq // 3, seq, str(seq), "")
        if rng.random() < 0.1 and counting:
            submission = counting.pop(rng.choice(sorted(counting)))
            gone[submission.submission_id] = submission
            to_state = State.REVOKED
        else:
            if rng.random() < 0.1 and gone:
                submission = gone.pop(rng.choice(sorted(gone)))
            counting[submission.submission_id] = submission
            to_state = State.PROMOTED
        before = ranking.folded
        rank = top.rank_after(
            event_of(seq, submission.submission_id, submission.player, submission.score, to_state)
        )
        if to_state is State.PROMOTED:
            most = max(most, ranking.folded - before)
        else:
            revoked += 1
        first = [one.player for one in ranked(counting.values(), reference, window)[:TOP_RANKS]]
        assert first == [one.player for one in top._top]
        assert rank == (first.index(submission.player) + 1 if submission.player in first else None)
    assert 2 == most
    assert revoked > EVENTS / 20


def test_a_window_that_is_over_stays_as_it_ended(tmp_path: Path):
    """A late verdict finds in it who was on the board at its end, whoever has left or joined since."""
    ranking = Ranking(boards.board(tmp_path, windows=["daily"], joins="required").policy)
    window = window_at(ranking.policy, WindowKind.DAILY, 0)
    changes = [("left", 1, True, 0), ("left", 2, False, window.end_ms), ("late", 1, True, window.end_ms)]
    top = TopTen(ranking, window, JoinHistory([JoinChange(*change) for change in changes]))
    verdicts = [
        event_of(seq, str(seq), player, 9, State.PROMOTED)._replace(at_ms=window.end_ms + seq)
        for seq, player in enumerate(("left", "late"), start=1)
    ]
    assert [1, None] == [top.rank_after(each) for each in verdicts]


@pytest.mark.parametrize("joins", ["open", "required"])
def test_an_event_that_changes_no_standing_ranks_nobody_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joins: str
):
    """Or a board of ten players folds its whole past again with each run, and a steward does nothing else for minutes."""
    ranking = Ranking(boards.board(tmp_path, windows=["alltime"], joins=joins).policy)
    joined = JoinHistory([JoinChange(f"p{number}", 1, True, 0) for number in range(1, 9)])
    history = joined if joins == "required" else None
    top = TopTen(ranking, window_at(ranking.policy, WindowKind.ALLTIME, 0), history)
    for number in range(1, 9):
        assert number == top.rank_after(
            event_of(number, str(number), f"p{number}", 9 - number, State.PROMOTED)
        )
    placed: list[str] = []
    place = ranking.place

    def noting(window, player, reached):
        placed.append(player)
        return place(window, player, reached)

    monkeypatch.setattr(ranking, "place", noting)
    assert (8 if history is None else None) == top.rank_after(event_of(9, "9", "p8", 0, State.PROMOTED))
    assert {"p8"} >= set(placed)
