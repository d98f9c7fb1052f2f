"""What a listener asks for, and the events it is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.index.changes import StandingChange


class EventKind(StrEnum):
    """The kinds of event of a feed."""

    BEGIN = "begin"
    """The feed begins here, and tells nothing of what was before: read the board."""
    RESET = "reset"
    """What happened up to here is not known in full: read the board again."""
    STANDING = "standing"
    """A standing changed."""
    RANK = "rank"
    """A watched player has another rank, and nobody passed it."""
    OVERTAKEN = "overtaken"
    """Somebody passed a watched player."""


class FeedMode(StrEnum):
    """What a listener gets when it does not keep up."""

    ALL = "all"
    """Every event in order; one that falls too far behind is let go, and resumes."""
    NEWEST = "newest"
    """The newest event of each kind, window and player: older ones are left out while it has not taken them."""


ABOUT_PLAYERS: Final = frozenset({EventKind.RANK, EventKind.OVERTAKEN})
"""Kinds that need players to watch."""

SELECTABLE_KINDS: Final = frozenset({EventKind.STANDING}) | ABOUT_PLAYERS
"""Kinds that a listener may choose from; the others come always."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event. `stream_id` is where to resume from when all up to this event were had; None: its change has more.

    `player`, `rank` and `was_rank` are those of who has another rank.
    """

    kind: EventKind
    stream_id: str | None
    change: StandingChange | None = None
    player: str = ""
    rank: int | None = None
    was_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Interest:
    """What a listener wants to hear: windows by name or kind (none: all), of these players (None: of everybody).

    `watched` are those whose ranks it wants to hear of.
    """

    windows: frozenset[str] = frozenset()
    players: frozenset[str] | None = None
    watched: frozenset[str] = frozenset()
    kinds: frozenset[EventKind] = SELECTABLE_KINDS
    mode: FeedMode = FeedMode.ALL

    @property
    def watches_ranks(self) -> bool:
        """True if what others do matters: whoever moves can move a watched player's rank."""
        return bool(self.watched and self.kinds & ABOUT_PLAYERS)

    def concerns(self, change: StandingChange) -> bool:
        """True if some event may come of a change."""
        return self._has_window(change.window) and (self.watches_ranks or self.tells_of(change.player))

    def tells_of(self, player: str) -> bool:
        """True if the player's standings are wanted."""
        return EventKind.STANDING in self.kinds and (self.players is None or player in self.players)

    def _has_window(self, window: str) -> bool:
        return not self.windows or window in self.windows or window.partition(":")[0] in self.windows
