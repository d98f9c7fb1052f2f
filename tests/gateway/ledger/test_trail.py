"""Which events are on a page of the audit trail."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ledger.moderation.trail import CLOCKS_DIFFER_MS, TrailFilter, trail_page
from gateway.ledger.seals.leaves import EVENT_COLUMNS
from tests.support.ledger import NOON_MS


class Rows:
    """A transaction that knows the rows of the trail."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._rows = [tuple(event[name] for name in EVENT_COLUMNS) for event in events]

    async def rows(self, _query: Any, **_values: Any) -> list[tuple[Any, ...]]:
        return self._rows


def event(seq: int, **changes: Any) -> dict[str, Any]:
    texts = ("submission_id", "board", "player", "from_state", "to_state", "reason", "policy", "detail")
    facts = {"seq": seq, "actor": "moderator:mara", "at_ms": NOON_MS, "rules_version": 1, "board": "sprint"}
    return dict.fromkeys(texts, "") | facts | changes


async def seqs(wanted: TrailFilter, *events: dict[str, Any]) -> list[int]:
    page = await trail_page(wanted, before=99, count=99)(Rows(*events))
    return [each["seq"] for each in page.events]


@pytest.mark.parametrize(
    ("scopes", "seen"),
    [
        ({"*"}, [4, 3, 2, 1]),
        ({"sprint"}, [4]),
        ({"track"}, [3]),
        ({"track.monza"}, [3]),
        ({""}, []),
        (set(), []),
    ],
)
async def test_what_concerns_no_board_is_for_those_of_all(scopes: set[str], seen: list[int]):
    """Accounts, and bans everywhere; a family's scope has the boards in it."""
    events = event(4), event(3, board="track.monza"), event(2, board=""), event(1, board="vault")
    assert seen == await seqs(TrailFilter(frozenset(scopes)), *events)


async def test_an_event_of_a_slow_clock_ends_no_walk():
    """The log is in the order of commits, and its times are those of several machines."""
    slow = event(3, at_ms=NOON_MS - CLOCKS_DIFFER_MS)
    old = event(1, at_ms=NOON_MS - CLOCKS_DIFFER_MS - 1)
    wanted = TrailFilter(frozenset({"*"}), since_ms=NOON_MS)
    assert [4, 2] == await seqs(wanted, event(4), slow, event(2), old, event(0))
