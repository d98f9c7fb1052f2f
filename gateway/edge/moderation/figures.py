"""Shows moderators figures: how decisions went, and how right validators were on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.decision_figures import (
    answers_to_checks,
    decision_figures,
    labelled_runs,
    share_shown,
)
from gateway.edge.moderation.trail import instant_of
from gateway.edge.wire.moderation_figures import (
    Figures,
    LabelledRuns,
    LateQueueShown,
    ModeShown,
    QueueAge,
    SidesShown,
    ThresholdShown,
    ValidatorFiguresShown,
)
from gateway.ledger.moderation import late_queues
from gateway.ledger.moderation.labels import DecisionLabel, LabelFilter, NewestLabels, newest_labels
from gateway.ledger.moderation.waiting_cases import WaitingCases, waiting_cases
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from gateway.runtime.metering import thread_on_account
from policies.vocabulary import LATEST_MS
from validators.label_figures import (
    LEAST,
    CheatCount,
    LabelledRun,
    ThresholdFigures,
    ValidatorFigures,
    threshold_figures,
    validator_figures,
)

SOURCE: Final = "the last standing decision of a moderator on each run, where its code says what the run was"


async def show_figures(request: web.Request) -> web.Response:
    """Return figures about decisions and validators."""
    moderator = await moderator_of(request, Ability.READ, request.query.get("board"))
    wanted = label_filter(request, moderator)
    return json_response(await read_figures(request.app[EDGE], moderator, wanted))


def label_filter(request: web.Request, moderator: Moderator) -> LabelFilter:
    """Return which labels a request is about. Raises `schema-violation`."""
    return LabelFilter(
        moderator.scopes(Ability.READ),
        request.query.get("board"),
        instant_of(request, "since", 0),
        instant_of(request, "until", LATEST_MS + 1),
    )


async def read_figures(edge: Edge, moderator: Moderator, wanted: LabelFilter) -> Figures:
    """Return the figures about the labels that are wanted. Raises LedgerUnavailable."""
    newest = await edge.ledger.read(newest_labels(wanted), ReadKind.MODERATION)
    waiting = await edge.ledger.read(waiting_cases(wanted.scopes, wanted.board), ReadKind.MODERATION)
    late = await edge.ledger.read(
        late_queues.late_queues_of(wanted.scopes, wanted.board), ReadKind.MODERATION
    )
    decided = newest._replace(labels=[label for label in newest.labels if label.known_seq is None])
    queue = age_of_queue(waiting, late, edge.clock())
    figures = await thread_on_account(figures_of, wanted, decided, queue)
    return figures.model_copy(update={"checks": answers_to_checks(newest.labels, _is_shown_to(moderator))})


def _is_shown_to(moderator: Moderator) -> Callable[[DecisionLabel], bool]:
    """Return whether a moderator reads how an answer to a check was: their own, or as a senior."""
    return lambda label: label.moderator == moderator.name or moderator.may(Ability.OVERRULE, label.board)


def figures_of(wanted: LabelFilter, newest: NewestLabels, queue: QueueAge) -> Figures:
    """Return the figures about decisions, the newest first, beside those of the queue."""
    runs = labelled_runs(newest.labels)
    cheats = sum(run.is_cheat for run in runs)
    return Figures(
        board=wanted.board,
        since=rfc3339(newest.since_ms) if newest.since_ms else None,
        until=rfc3339(wanted.until_ms) if wanted.until_ms <= LATEST_MS else None,
        is_cut=newest.is_cut,
        source=SOURCE,
        queue=queue,
        decisions=decision_figures(newest.labels),
        checks=[],
        labelled=LabelledRuns(
            cheats=cheats,
            honest=len(runs) - cheats,
            without_findings=sum(not run.findings for run in runs),
        ),
        validators=[_validator_shown(each) for each in validator_figures(runs)],
        thresholds=_thresholds(wanted, newest, runs),
    )


def age_of_queue(waiting: WaitingCases, late: Sequence[late_queues.LateQueue], now_ms: int) -> QueueAge:
    """Return how long the cases of a queue have waited. Ages are not below 0, though clocks differ."""

    def waited_s(opened_at_ms: int) -> int:
        return max(0, now_ms - opened_at_ms) // 1000

    ages_s = sorted(map(waited_s, waiting.opened_at_ms))
    has_median = len(ages_s) >= LEAST and not waiting.is_cut
    return QueueAge(
        waiting=len(ages_s),
        is_cut=waiting.is_cut,
        oldest_s=None if waiting.oldest_ms is None else waited_s(waiting.oldest_ms),
        median_s=ages_s[(len(ages_s) - 1) // 2] if has_median else None,
        late=[LateQueueShown(board=each.board, since=rfc3339(each.since_ms)) for each in late],
    )


def _thresholds(
    wanted: LabelFilter, newest: NewestLabels, runs: Sequence[LabelledRun]
) -> list[ThresholdShown]:
    files = {label.label for label in newest.labels}
    if len(files) != 1:
        return []
    command = f"scoregate policy backtest {files.pop()}.yaml"
    if wanted.board and "." in wanted.board:
        command += f" --board {wanted.board}"
    if newest.since_ms:
        command += f" --since {rfc3339(newest.since_ms)[:10]}"
    return [_threshold_shown(each, command) for each in threshold_figures(runs)]


def _validator_shown(figures: ValidatorFigures) -> ValidatorFiguresShown:
    return ValidatorFiguresShown(
        validator=figures.validator,
        precision=share_shown(figures.precision),
        recall=share_shown(figures.recall),
        false_positives=share_shown(figures.false_positives),
        modes={
            mode.value: ModeShown(held=_sides(outcome.held), rejected=_sides(outcome.rejected))
            for mode, outcome in figures.modes.items()
        },
    )


def _threshold_shown(figures: ThresholdFigures, command: str) -> ThresholdShown:
    return ThresholdShown(
        validator=figures.validator,
        setting=figures.setting,
        in_force=figures.in_force,
        suggested=figures.suggested,
        recall=share_shown(figures.recall),
        honest_found=share_shown(figures.honest_held),
        backtest=None if figures.suggested is None else command,
    )


def _sides(count: CheatCount) -> SidesShown:
    return SidesShown(cheats=count.cheats, honest=count.honest)
