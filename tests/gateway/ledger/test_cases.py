"""What a submission would do to the board if it counted: as moderators are told, and as verifications are ordered by."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.ledger.judgement import cases
from gateway.ledger.judgement.cases import background
from gateway.ledger.judgement.promotion_impact import impact_of
from gateway.ledger.queries import submission
from gateway.ledger.records import StoredSubmission
from policies.vocabulary import State
from tests.support.archives import Shelf, a_board


def rank_of(shelf: Shelf, submission_id: str) -> int | None:
    found = shelf.do(submission(submission_id))
    assert found is not None
    return ranks_of(shelf, found)["alltime"]


def ranks_of(shelf: Shelf, found: StoredSubmission) -> Mapping[str, int | None]:
    return shelf.do(background(shelf.board.ranking, found, now_ms=shelf.clock())).ranks


def where_the_last_score_counts() -> Shelf:
    """Three players of a board, one after the other, a moment ago."""
    shelf = Shelf(a_board(operator="latest", windows=["alltime"]))
    for player, score in (("ada", 9), ("bob", 5), ("cy", 1)):
        shelf.score(f"{player}-first", player, score)
    shelf.clock.shift(1)
    return shelf


@pytest.mark.parametrize("top", [1, 2, 3, 4])
def test_where_the_last_score_counts_the_top_is_that_without_what_it_replaces(top: int):
    """Whether a run would stand among the first is told by the others alone: its player's old score is gone then."""
    shelf = where_the_last_score_counts()
    for score, rank in ((10, 1), (7, 1), (3, 2), (0, 3)):
        shelf.submit(f"ada-{score}", "ada", score)
        found = shelf.do(submission(f"ada-{score}"))
        assert found is not None
        assert (rank <= top) == shelf.do(impact_of(shelf.board.ranking, found, top)).enters_top


def test_where_the_last_score_counts_nobody_is_behind_themselves():
    """A worse run takes the place of a better one of the same player, which is then ahead of nobody any more."""
    shelf = where_the_last_score_counts()
    for score, rank in ((10, 1), (7, 1), (3, 2), (0, 3)):
        shelf.submit(f"ada-{score}", "ada", score)
        assert rank == rank_of(shelf, f"ada-{score}")
    shelf.decide("ada-3", State.PROMOTED)
    assert 2 == rank_of(shelf, "ada-3")


@pytest.mark.parametrize(("operator", "rank"), [("sum", 1), ("count", 1), ("best", None), ("latest", None)])
def test_a_run_adds_to_a_sum_though_a_newer_one_counts_already(operator: str, rank: int | None):
    """To a sum or a count each run adds: what was achieved earlier and is decided later has its impact and its rank."""
    shelf = Shelf(a_board(operator=operator, windows=["alltime"]))
    shelf.score("bob-1", "bob", 9)
    shelf.submit("ada-old", "ada", 5)
    shelf.clock.shift(1)
    shelf.score("bob-2", "bob", 9 if operator == "latest" else 0)
    shelf.score("ada-new", "ada", 6)
    if operator == "count":
        shelf.score("ada-newer", "ada", 0)
    found = shelf.do(submission("ada-old"))
    assert found is not None
    impact = shelf.do(impact_of(shelf.board.ranking, found, 1))
    assert (rank is not None, rank is not None) == (impact.counts, impact.enters_top)
    assert rank == rank_of(shelf, "ada-old")
    shelf.decide("ada-old", State.PROMOTED)
    assert rank == rank_of(shelf, "ada-old"), "and it is not added again once it counts"
    found = shelf.do(submission("ada-old"))
    assert found is not None
    assert 0 == (shelf.do(impact_of(shelf.board.ranking, found, 1)).gain if rank else 0)


def test_a_case_tells_no_rank_of_a_window_of_which_only_the_archive_is_left():
    """Its standings are gone: a run that is decided days later would seem to be the first of its day."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]))
    for player, score in (("bob", 9), ("cy", 7)):
        shelf.score(player, player, score)
    shelf.submit("ada", "ada", 5)
    found = shelf.do(submission("ada"))
    assert found is not None
    today = shelf.window()
    assert {"alltime": 3, today.name: 3} == ranks_of(shelf, found)
    assert today.expires_at_ms is not None
    shelf.clock.at_ms = today.expires_at_ms - 1
    shelf.settle_down()
    shelf.clock.at_ms = today.expires_at_ms - 1
    assert {"alltime": 3, today.name: 3} == ranks_of(shelf, found), (
        "as long as it can be corrected in the index"
    )
    shelf.clock.shift(1)
    shelf.settle_down()
    assert {"alltime": 3, today.name: None} == ranks_of(shelf, found)


def test_a_case_is_shown_beside_the_newest_scores_of_its_player(monkeypatch: pytest.MonkeyPatch):
    """As many as a case has room for, and nobody else's."""
    monkeypatch.setattr(cases, "HISTORY", 2)
    shelf = Shelf(a_board(windows=["alltime"]))
    for number, player in enumerate(("ada", "ada", "bob", "ada")):
        shelf.score(f"run{number}", player, 9 - number)
        shelf.clock.shift(1)
    found = shelf.do(submission("run0"))
    assert found is not None
    shown = shelf.do(background(shelf.board.ranking, found, now_ms=shelf.clock())).scores
    assert ["run3", "run1"] == [each.submission_id for each in shown]
