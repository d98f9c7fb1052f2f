"""Pages of a player's submissions, as far as a moderator's boards reach."""

from __future__ import annotations

import pytest

from gateway.ledger.moderation import player_submissions
from gateway.ledger.moderation.player_submissions import runs_of_player
from policies.choices import Operator
from policies.fields import SortOrder
from tests.support.books import Books, board_of
from tests.support.ledger import new_submission


@pytest.mark.parametrize(
    ("scopes", "pages"),
    [
        ({"*"}, [["f", "e"], ["d", "c"], ["b", "a"], []]),
        ({"other"}, [["e"], ["d"], [], []]),
        ({"track"}, [["f"], [], ["b", "a"], []]),
        ({"track.monza"}, [["f"], [], ["a"], []]),
        (set(), [[], [], [], []]),
    ],
)
def test_a_page_that_is_short_or_empty_says_that_more_follow(
    scopes: set[str], pages: list[list[str]], monkeypatch: pytest.MonkeyPatch
):
    """Whoever goes on is shown each submission on their boards once, however many of others are between them."""
    monkeypatch.setattr(player_submissions, "SCANNED", 2)
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING))
    played = ("track.monza", "track.spa", "tiny", "other", "other", "track.monza")
    books.append([new_submission(run, board=board) for run, board in zip("abcdef", played, strict=True)])
    books.append([new_submission("g", board="other", player="bob")])
    before: int | None = 2**63 - 1
    found = []
    while before is not None:
        page = books.do(runs_of_player("ada", frozenset(scopes), before=before, count=9))
        found.append([run.submission_id for run in page.submissions])
        before = page.before
    assert pages == found


def test_a_full_page_goes_on_behind_its_last_submission():
    """Not behind all that was looked at."""
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING))
    books.append([new_submission(run) for run in "abc"])
    first = books.do(runs_of_player("ada", frozenset({"*"}), before=2**63 - 1, count=2))
    assert first.before is not None
    second = books.do(runs_of_player("ada", frozenset({"*"}), before=first.before, count=2))
    assert [["c", "b"], ["a"]] == [
        [run.submission_id for run in page.submissions] for page in (first, second)
    ]
    assert second.before is None
