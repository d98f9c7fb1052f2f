"""Figures about moderation: what waits, what was decided, and how right it all was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .documents import Document


@dataclass(frozen=True, slots=True)
class Share(Document):
    """A share: `hits` of `of`. Below ten cases `share` and the 95 % `interval` (Wilson) are None."""

    hits: int
    of: int
    share: float | None
    interval: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Times(Document):
    """Times in seconds of `of` cases; None below ten."""

    of: int
    median_s: float | None
    p90_s: float | None


@dataclass(frozen=True, slots=True)
class QueueAge(Document):
    """How many cases wait, and for how long. Of more than 10,000 cases `is_cut` says so."""

    waiting: int
    is_cut: bool
    oldest_s: int | None
    median_s: int | None
    late: tuple[LateQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class LateQueue(Document):
    """A board with a case that is older than its target, and since when."""

    board: str
    since: str


@dataclass(frozen=True, slots=True)
class DayOfDecisions(Document):
    """A day (UTC): the decisions made, and those of them that were overturned since."""

    day: str
    decisions: int
    overturned: int


@dataclass(frozen=True, slots=True)
class DecisionFigures(Document):
    """What moderators decided: `made` counts by reason."""

    made: Mapping[str, int]
    time_to_decision: Times
    agreement: Share
    overturned: Share
    days: tuple[DayOfDecisions, ...]


@dataclass(frozen=True, slots=True)
class LabelledRuns(Document):
    """Runs whose last standing decision says whether they were honest; some without any finding."""

    cheats: int
    honest: int
    without_findings: int


@dataclass(frozen=True, slots=True)
class Sides(Document):
    """How many labelled runs, of cheats and of honest players."""

    cheats: int
    honest: int


@dataclass(frozen=True, slots=True)
class ModeFigures(Document):
    """What a mode would have done with the labelled runs that the validator found something at."""

    held: Sides
    rejected: Sides


@dataclass(frozen=True, slots=True)
class ValidatorFigures(Document):
    """How right a validator was, on labels."""

    validator: str
    precision: Share
    recall: Share
    false_positives: Share
    modes: Mapping[str, ModeFigures]


@dataclass(frozen=True, slots=True)
class Threshold(Document):
    """A threshold of the policy, the one that labels suggest, and the command that tries it."""

    validator: str
    setting: str
    in_force: float
    suggested: float | None
    recall: Share
    honest_found: Share
    backtest: str | None


@dataclass(frozen=True, slots=True)
class AnswersToChecks(Document):
    """How often a moderator's answers to checks were what is known."""

    moderator: str
    agreement: Share


@dataclass(frozen=True, slots=True)
class Figures(Document):
    """Figures about the decisions from `since` to `until`. If `is_cut`, `since` is later than asked for."""

    board: str | None
    since: str | None
    until: str | None
    is_cut: bool
    source: str
    queue: QueueAge
    decisions: DecisionFigures
    labelled: LabelledRuns
    validators: tuple[ValidatorFigures, ...]
    thresholds: tuple[Threshold, ...]
    checks: tuple[AnswersToChecks, ...] = ()
