"""How long each duty of a steward waits before it looks again. What it finds lets it look at once."""

from __future__ import annotations

from typing import Final

POLL_S: Final = 0.05
"""Seconds between looks for due work in the outbox: the latency that a verdict pays for not being lost."""

SOON_S: Final = 0.01
BUSY_S: Final = 1.0
"""Seconds between such looks, and for how long after one that found something: a verdict is seldom alone."""

COLD_S: Final = 1.0
"""Seconds between looks for idle boards, and for cold boards in demand: readers wait this long."""

ANCHOR_S: Final = 1.0
"""Seconds between looks for moves to fold into anchors."""

COLLECT_S: Final = 30.0
"""Seconds between two slices of the store of recordings, which almost never have anything to collect."""

SEAL_POLL_S: Final = 1.0
"""Seconds between looks for a due seal."""

ARCHIVE_S: Final = 5.0
"""Seconds between looks for windows that are over, and for changes in archived ones."""

EXACT_RANKS_S: Final = 1.0
"""Seconds between looks for heads that lost too many entries, and for sketches that are too old."""

AGAIN_S: Final = 5.0
"""Most seconds until a duty that failed is tried again: what it needs may have been away for a moment."""

LONGEST_BACK_OFF_S: Final = 30.0
"""Longest pause of a duty with repeated unforeseen failures: it continues once the cause is gone."""

BANS_S: Final = 0.1
"""Seconds between looks for bans whose time is over, or whose submissions have still to follow."""

PLAYERS_S: Final = 1.0
"""Seconds between looks for merges that submissions have still to follow, and for erasures that are due."""

BATCHES_S: Final = 0.1
"""Seconds between looks for batches that have work."""

ROLLUP_S: Final = 0.5
"""Seconds between looks for boards whose ranks give other points."""

RULES_S: Final = 10.0
"""Seconds between looks for boards that were folded under another rule than their policy's."""

BOARDS_S: Final = 1.0
"""Seconds between looks for boards of families whose time to open or to close has come."""

PLAYS_S: Final = 60.0
"""Seconds between counts of runs on boards of families: a board is updated once for all runs in between."""

UPGRADE_S: Final = 60.0
"""Seconds between looks for keys of an earlier version in Redis: one question, once none is left."""

FILTERS_S: Final = 10.0
"""Seconds between looks for families that declare other metadata to filter by."""

TOP_S: Final = 1.0
"""Seconds between looks for unverified runs at the top of a board."""

REVEALS_S: Final = 1.0
"""Seconds between looks for requested recordings that did not arrive in time."""

CASES_S: Final = 0.5
"""Seconds between looks for cases that nobody has assessed yet."""

TARGETS_S: Final = 1.0
"""Seconds between looks for cases that have grown older than they may be."""

CHECKS_S: Final = 60.0
"""Seconds between looks for decisions to ask for again as checks, and for checks that nobody takes."""

ADDRESSES_S: Final = 60.0
"""Seconds between looks for hashed addresses of players whose time is over."""

AUDIT_S: Final = 60.0
"""Seconds between looks for boards whose time for an audit has come."""

REPAIR_S: Final = 10.0
"""Seconds between looks for derived data that was lost with Redis."""


def back_off_s(failures: int) -> float:
    """Return the pause in seconds after so many unforeseen failures in a row."""
    return min(LONGEST_BACK_OFF_S, POLL_S * 2 ** min(failures, 20)) if failures else 0.0
