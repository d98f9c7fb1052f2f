"""The answer with figures about moderation: what waits, what was decided, and how right it all was."""

from __future__ import annotations

from gateway.edge.wire.fields import Answer


class ShareShown(Answer):
    """A share: `hits` of `of`. Below ten cases `share` and the 95 % `interval` (Wilson) are null."""

    hits: int
    of: int
    share: float | None
    interval: list[float] | None


class TimesShown(Answer):
    """Times in seconds of `of` cases; null below ten."""

    of: int
    median_s: float | None
    p90_s: float | None


class LateQueueShown(Answer):
    """A board with a case that is older than its target, and since when."""

    board: str
    since: str


class QueueAge(Answer):
    """How many cases wait, and for how long: the oldest, and the median, which is null below ten.

    Of more than 10,000 cases, `is_cut` says so: `waiting` is 10,000, and the median null. `late` are up to
    100 boards with a case that is older than its target.
    """

    waiting: int
    is_cut: bool
    oldest_s: int | None
    median_s: int | None
    late: list[LateQueueShown]


class DayOfDecisions(Answer):
    """A day (UTC): the decisions made, and those of them that were overturned since."""

    day: str
    decisions: int
    overturned: int


class DecisionFigures(Answer):
    """What moderators decided.

    `made` counts decisions by reason. `time_to_decision` is how long cases and appeals had waited.
    `agreement` compares each decision with the one before it on the same submission, if that was another
    moderator's. `overturned` are those that somebody else took back or decided otherwise.
    """

    made: dict[str, int]
    time_to_decision: TimesShown
    agreement: ShareShown
    overturned: ShareShown
    days: list[DayOfDecisions]


class AnswersToChecks(Answer):
    """How often a moderator's answers to checks were what is known, as far as that still stands."""

    moderator: str
    agreement: ShareShown


class LabelledRuns(Answer):
    """Runs whose last standing decision says whether they were honest; some without any finding."""

    cheats: int
    honest: int
    without_findings: int


class SidesShown(Answer):
    """How many labelled runs, of cheats and of honest players."""

    cheats: int
    honest: int


class ModeShown(Answer):
    """What a mode would have done with the labelled runs that the validator found something at."""

    held: SidesShown
    rejected: SidesShown


class ValidatorFiguresShown(Answer):
    """How right a validator was, on labels: the share of cheats among what it found (`precision`).

    `recall` is the share of the labelled cheats at which it found something, `false_positives` that of the
    honest runs. `modes` has what `shadow`, `flag` and `reject` would have done, all else as it was.
    """

    validator: str
    precision: ShareShown
    recall: ShareShown
    false_positives: ShareShown
    modes: dict[str, ModeShown]


class ThresholdShown(Answer):
    """A threshold of the policy, and the one that the labels suggest.

    That has the highest recall at which at most 1 % of the honest labelled runs are found. `in_force` is
    the loosest one that runs were judged by: of stricter ones nothing is known. `suggested` is null if none
    catches a cheat so. `backtest` is the command that tries it.
    """

    validator: str
    setting: str
    in_force: float
    suggested: float | None
    recall: ShareShown
    honest_found: ShareShown
    backtest: str | None


class Figures(Answer):
    """Figures about the decisions from `since` to `until`.

    `since` is later than asked for if `is_cut`: the newest 10,000 decisions count. `source` says where the
    labels come from. Answers to checks count in `checks` alone: seniors read everybody's there, and others
    their own. `thresholds` are empty unless all labelled runs are of one policy file.
    """

    board: str | None
    since: str | None
    until: str | None
    is_cut: bool
    source: str
    queue: QueueAge
    decisions: DecisionFigures
    checks: list[AnswersToChecks]
    labelled: LabelledRuns
    validators: list[ValidatorFiguresShown]
    thresholds: list[ThresholdShown]
