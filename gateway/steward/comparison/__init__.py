"""What differs between index and ledger: a file for each sort of content, found and repaired the same way by all."""

from __future__ import annotations

from gateway.steward.comparison.difference import Aspect, View
from gateway.steward.comparison.hashes import Baselines, Names
from gateway.steward.comparison.keyspace import Keyspace
from gateway.steward.comparison.standings import Members, Slots
from gateway.steward.comparison.submissions import Pending, Settled


def aspects_of(view: View) -> tuple[Aspect, ...]:
    """All that a board's index holds. Keys come first: a key of another type has to go before it can be looked into."""
    return (
        Keyspace(view),
        Slots(view),
        Members(view),
        Names(view),
        Baselines(view),
        Settled(view),
        Pending(view),
    )
