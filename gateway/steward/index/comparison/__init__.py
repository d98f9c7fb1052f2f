"""How index and ledger differ: one file for each sort of content."""

from __future__ import annotations

from gateway.steward.index.comparison.difference import Aspect, BoardView
from gateway.steward.index.comparison.hashes import Baselines, Names
from gateway.steward.index.comparison.keyspace import Keyspace
from gateway.steward.index.comparison.segments import GroupMembers, GroupSlots, Memberships
from gateway.steward.index.comparison.standings import Members, Slots
from gateway.steward.index.comparison.submissions import Pending, Settled
from gateway.steward.index.comparison.tie_groups import TieGroups
from gateway.steward.index.comparison.totals import Totals


def aspects_when_cold(view: BoardView) -> tuple[Aspect, ...]:
    """Return the aspects of a cold board: content of no window, and the absence of all keys of windows."""
    return (Keyspace(view, is_cold=True, searches=True), Baselines(view), Settled(view), Pending(view))


def aspects_of(view: BoardView, *, searches: bool = False) -> tuple[Aspect, ...]:
    """Return all aspects of a board's index. `searches` looks through all keys of Redis for the board's."""
    of_groups: tuple[Aspect, ...] = ()
    if view.policy.segments:
        of_groups = (Memberships(view), GroupSlots(view), GroupMembers(view, searches=searches))
    parts = view.parts()
    # Keys come first: one of a wrong type must be deleted before its content can be read.
    return (
        *(
            Keyspace(part, searches=searches)
            for part in (parts if view.index in view.index.shards else [view, *parts])
        ),
        *(kind(part) for part in parts for kind in (Slots, Members, TieGroups, Names)),
        Baselines(view),
        Settled(view),
        Pending(view),
        *of_groups,
        *((Totals(view),) if view.policy.exact_ranks else ()),
    )
