"""The boards that a family's policy wants open: those that it declares, and those of its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from policies.choices import WindowKind
from policies.declared_boards import AHEAD_MS, scheduled_title
from policies.document import PolicyDocument
from policies.errors import SettingRefused
from policies.family import Family
from policies.family_policy import FamilyPolicy
from policies.opened_board import OpenedBoard, canonical_parameters
from policies.windows import calendar_of

_TRIED_DAYS_MS: Final = range(1_767_225_600_000, 2_145_916_800_000, 397 * 86_400_000)
"""Days from 2026 to 2037, in other years and months, on which `names` has to allow a schedule's names."""


class ScheduledTimes(NamedTuple):
    """When runs may first be opened on a board of a schedule, and when no longer (Unix ms)."""

    opens_at_ms: int
    closes_at_ms: int


def declared_boards(policy: FamilyPolicy) -> Iterator[OpenedBoard]:
    """Yield the boards that a policy declares by name. Raises SettingRefused with the board's setting."""
    for rest, declared in policy.boards.items():
        try:
            parameters = canonical_parameters(declared.parameters)
        except SettingRefused as refused:
            raise SettingRefused(str(refused), "boards", rest, *refused.location) from None
        board = OpenedBoard(
            f"{policy.family}.{rest}",
            policy.family,
            declared.title,
            declared.metadata,
            parameters,
            bounds=declared.bounds,
        )
        yield with_scheduled_times(policy, board)


def scheduled_boards(policy: FamilyPolicy, at_ms: int) -> Iterator[OpenedBoard]:
    """Yield the board of the day, week or month of `at_ms`, and before its end that of the next one.

    A board takes runs for exactly its window of the family's calendar. Nothing without a `schedule`.
    """
    if policy.schedule is None:
        return
    calendar, kind = calendar_of(policy), WindowKind(policy.schedule.value)
    window = calendar.at(kind, at_ms)
    due = [window, calendar.at(kind, window.end_ms)] if window.end_ms - at_ms <= AHEAD_MS else [window]
    for one in due:
        rest = policy.schedule.rest(one.name)
        yield OpenedBoard(
            f"{policy.family}.{rest}",
            policy.family,
            scheduled_title(policy.title, rest),
            opens_at_ms=one.begin_ms,
            closes_at_ms=one.end_ms,
        )


def scheduled_times(policy: FamilyPolicy, rest: str) -> ScheduledTimes | None:
    """Return the times of the board that the schedule opens under this name after the dot, None if none."""
    if policy.schedule is None:
        return None
    try:
        window = calendar_of(policy).named(f"{policy.schedule.value}:{rest.replace('-', '')}")
    except ValueError:
        return None
    is_so_named = policy.schedule.rest(window.name) == rest
    return ScheduledTimes(window.begin_ms, window.end_ms) if is_so_named else None


def with_scheduled_times(policy: FamilyPolicy, opened: OpenedBoard) -> OpenedBoard:
    """Return a board that somebody opens, with the times of the schedule where none is given.

    Else a board that is opened before its time would show everybody the seed of that day.
    """
    times = scheduled_times(policy, opened.rest)
    if times is None:
        return opened
    return replace(
        opened,
        opens_at_ms=times.opens_at_ms if opened.opens_at_ms is None else opened.opens_at_ms,
        closes_at_ms=times.closes_at_ms if opened.closes_at_ms is None else opened.closes_at_ms,
    )


def refuse_openings(document: PolicyDocument, family: Family) -> None:
    """Raise PolicyError, with the line, for boards that a policy wants and does not allow."""
    try:
        for opened in declared_boards(family.policy):
            _refuse_declared(family, opened)
        if family.policy.schedule:
            _refuse_schedule(family)
    except SettingRefused as refused:
        raise document.fault(refused.location, str(refused)) from None


def _refuse_declared(family: Family, opened: OpenedBoard) -> None:
    try:
        family.refuse(opened)
    except SettingRefused as refused:
        location = () if refused.location == ("board",) else refused.location
        raise SettingRefused(str(refused), "boards", opened.rest, *location) from None


def _refuse_schedule(family: Family) -> None:
    if isinstance(family.policy.names, tuple):
        message = "a list of `names` comes to an end, and a schedule does not: give a pattern, or no names"
        raise SettingRefused(message, "schedule")
    for at_ms in _TRIED_DAYS_MS:
        for opened in scheduled_boards(family.policy, at_ms):
            if not family.is_named(opened.board):
                message = f"`names` allows no board called {opened.rest}, as those of the schedule are"
                raise SettingRefused(message, "schedule")
