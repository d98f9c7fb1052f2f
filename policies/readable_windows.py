"""The windows of a board that readers can ask for."""

from __future__ import annotations

from policies.model import Policy
from policies.windows import Window, calendar_of


def readable_windows(policy: Policy, now_ms: int) -> list[Window]:
    """Return the current window of every kind, and the previous one of each kind that expires."""
    calendar = calendar_of(policy)
    current = [calendar.at(kind, now_ms) for kind in policy.windows]
    previous = [calendar.at(window.kind, window.begin_ms - 1) for window in current if window.expires_at_ms]
    return [*current, *previous]


def readable_window_names(policy: Policy, now_ms: int) -> list[str]:
    """Return the names of the windows that readers can ask for."""
    return [window.name for window in readable_windows(policy, now_ms)]
