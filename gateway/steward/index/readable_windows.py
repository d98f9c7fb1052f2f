"""The windows of a board that readers can ask for."""

from __future__ import annotations

from policies.model import Policy
from policies.windows import Window, calendar_of


def readable_windows(policy: Policy, now_ms: int) -> list[Window]:
    """The current window of every kind and, since that is still read, the one before it."""
    calendar = calendar_of(policy)
    current = [calendar.at(kind, now_ms) for kind in policy.windows]
    before = [calendar.at(each.kind, each.begin_ms - 1) for each in current if each.expires_at_ms]
    return [*current, *before]


def readable_window_names(policy: Policy, now_ms: int) -> list[str]:
    """The names of those windows."""
    return [window.name for window in readable_windows(policy, now_ms)]
