"""The events of a feed, and a listener's interest in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.index.changes import StandingChange


class EventKind(StrEnum):
    """The kinds of event of a feed."""

    BEGIN = "begin"
    """The feed begins here, without earlier changes: read the board."""
    RESET = "reset"
    """Some changes up to here are missing: read the board again."""
    STANDING = "standing"
    """A standing changed."""
    RANK = "rank"
    """A watched player has another rank, and nobody passed it."""
    OVERTAKEN = "overtaken"
    """Somebody passed a watched player."""


class FeedMode(StrEnum):
    """The treatment of a listener that does not keep up."""

    ALL = "all"
    """Every event in order; a listener too far behind is disconnected, and resumes."""
    NEWEST = "newest"
    """The newest event of each kind, window and player: it replaces older ones that were not taken yet."""


ABOUT_PLAYERS: Final = frozenset({EventKind.RANK, EventKind.OVERTAKEN})
"""Kinds that need players to watch."""

SELECTABLE_KINDS: Final = frozenset({EventKind.STANDING}) | ABOUT_PLAYERS
"""Kinds that a listener may choose; it always gets the others."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event. A listener resumes from `stream_id` after this event; None if its change has more events.

    `player`, `rank` and `was_rank` belong to the player whose rank changed.
    """

    kind: EventKind
    stream_id: str | None
    change: StandingChange | None = None
    player: str = ""
    rank: int | None = None
    was_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Interest:
    """A listener's interest: windows by name or kind (empty: all), and players (None: all).

    `watched` are the players whose ranks it follows.
    """

    windows: frozenset[str] = frozenset()
    players: frozenset[str] | None = None
    watched: frozenset[str] = frozenset()
    kinds: frozenset[EventKind] = SELECTABLE_KINDS
    mode: FeedMode = FeedMode.ALL

    @property
    def watches_ranks(self) -> bool:
        """Whether all changes matter: any player can move a watched player's rank."""
        return bool(self.watched and self.kinds & ABOUT_PLAYERS)

    def concerns(self, change: StandingChange) -> bool:
        """Return whether a change may cause an event."""
        return self._has_window(change.window) and (self.watches_ranks or self.tells_of(change.player))

    def tells_of(self, player: str) -> bool:
        """Return whether the listener wants the player's standings."""
        return EventKind.STANDING in self.kinds and (self.players is None or player in self.players)

    def _has_window(self, window: str) -> bool:
        return not self.windows or window in self.windows or window.partition(":")[0] in self.windows
