"""JSON responses, made from records of the ledger and the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from aiohttp import web
from pydantic import BaseModel

from gateway.edge.http.preconditions import etag
from gateway.edge.wire import board_answers, outcomes, read_models
from gateway.edge.wire.moderation_decisions import AppealShown, QuestionShown
from gateway.index.board_index import Entry, Page
from gateway.ledger.records import Receipt, StoredSubmission
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, count_submission, logger
from gateway.settlement.builds import BuildRegistry
from gateway.shared_records import Standing
from policies.choices import Operator
from policies.loader import Board
from policies.model import Policy
from policies.opened_board import OpenedBoard, canonical_json
from policies.rollups import RollupTake
from policies.vocabulary import Finding, Reason, State

if TYPE_CHECKING:
    from gateway.edge.reads.distribution_reader import RelativePosition

JSON: Final = {"Content-Type": "application/json; charset=utf-8"}

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

IN_GOOD_STANDING: Final = frozenset({State.RECEIVED, State.PENDING, State.PROMOTED})
"""States of submissions that nothing speaks against; they have no reason to tell a player."""

_log = logger()


class PlayersCase(NamedTuple):
    """What a player sees of the case of a submission."""

    message: str | None = None
    question: QuestionShown | None = None
    appeal: AppealShown | None = None


NO_CASE: Final = PlayersCase()


def json_response(
    answer: BaseModel, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a model as a JSON response."""
    return web.Response(
        body=json_bytes(answer),
        status=status,
        headers=JSON | headers if headers else JSON,
    )


def json_bytes(answer: BaseModel) -> bytes:
    """Return a model as JSON."""
    return answer.__pydantic_serializer__.to_json(answer)


def score_accepted(
    receipt: Receipt, state: State, *, outcome: str, headers: Mapping[str, str] = NO_HEADERS
) -> web.Response:
    """Count a durable submission and return its 202, marked as a replay if it was sent before."""
    answer = count_acceptance(receipt, state, outcome=outcome)
    return json_response(
        answer, status=202, headers={**headers, **replay_header(is_replay=not receipt.is_new)}
    )


def count_acceptance(receipt: Receipt, state: State, *, outcome: str) -> outcomes.ScoreAccepted:
    """Count a durable submission by its outcome and return its answer."""
    count_receipt(receipt, outcome if receipt.is_new else "replayed")
    return outcomes.ScoreAccepted(
        submission=receipt.submission_id,
        board=receipt.board,
        player=receipt.player,
        score=receipt.score,
        state=state.value,
    )


def count_receipt(receipt: Receipt, outcome: str) -> None:
    """Count a durable submission by its outcome."""
    count_submission(receipt.board, outcome)
    _log.debug(Event.SUBMISSION, board=receipt.board, submission=receipt.submission_id, outcome=outcome)


def replay_header(*, is_replay: bool) -> dict[str, str]:
    """Return the header that tells a stored answer from a first one."""
    return {"Idempotency-Replayed": "true"} if is_replay else {}


def board_info(board: Board, builds: BuildRegistry) -> read_models.BoardInfo:
    """Return the public part of a board's policy, which excludes its limits and thresholds."""
    policy = board.policy
    return read_models.BoardInfo(
        board=policy.board,
        title=policy.title,
        order=policy.order.value,
        operator=_operator_of(policy).value,
        windows=[kind.value for kind in policy.windows],
        time_zone=policy.time_zone,
        season=policy.season,
        decimals=policy.decimals,
        ranks=[kind.value for kind in policy.ranks],
        tie_break=policy.tie_break.value,
        tie_fields=[field.stat for field in policy.tie_fields],
        tie_resolutions_ms={kind.value: value for kind, value in policy.tie_resolutions_ms.items()},
        writes=policy.writes.value,
        builds=[_build_shown(board, name, builds) for name in sorted(board.policy.builds)],
        ticks_per_second=policy.ticks_per_second,
        reveal_s=policy.verification.reveal_s,
        opened=opened_board_shown(board.opened) if board.opened else None,
    )


def _operator_of(policy: Policy) -> Operator:
    """Return how a board joins a player's scores: a rollup as it takes them, where points are added up."""
    if policy.rollup is None:
        return policy.operator
    take = policy.rollup.take
    return Operator.SUM if take is RollupTake.POINTS else Operator(take.value)


def opened_board_shown(opened: OpenedBoard) -> board_answers.OpenedBoardShown:
    """Return a board of a family as an answer."""
    return board_answers.OpenedBoardShown(
        board=opened.board,
        family=opened.family,
        title=opened.title,
        state=opened.state.value,
        version=opened.version,
        metadata=orjson.loads(canonical_json(opened.metadata)),
        parameters=orjson.loads(opened.parameters) if opened.parameters else {},
        asset=f"sha256:{opened.asset.hex()}" if opened.asset else None,
        asset_url=asset_url(opened),
        bounds=opened.bounds.as_json() if opened.bounds else None,
        opens_at=None if opened.opens_at_ms is None else rfc3339(opened.opens_at_ms),
        closes_at=None if opened.closes_at_ms is None else rfc3339(opened.closes_at_ms),
        opened_at=rfc3339(opened.opened_at_ms),
    )


def asset_url(opened: OpenedBoard) -> str | None:
    """Return the path at which a board's asset is read, None for a board without one."""
    return f"/v1/boards/{opened.board}/assets/{opened.asset.hex()}" if opened.asset else None


def _build_shown(board: Board, build: str, builds: BuildRegistry) -> read_models.BuildShown:
    simulator = board.simulators.get(build)
    status = builds.status_of(board, build)
    return read_models.BuildShown(
        build=build, status=status.value, simulator=simulator.digest if simulator else None
    )


def entry_shown(entry: Entry) -> read_models.EntryShown:
    """Return an entry of a board as an answer."""
    return read_models.EntryShown(
        rank=entry.rank,
        player=entry.player,
        name=entry.name or entry.player,
        score=entry.score,
        achieved_at=rfc3339(entry.achieved_at_ms),
        submission=entry.submission_id,
    )


def entry_read(entry: Entry, position: RelativePosition) -> read_models.EntryRead:
    """Return an entry with its position among all as an answer."""
    return read_models.EntryRead(**entry_shown(entry).model_dump(), **_position_fields(position))


def standing_read(standing: Standing | Entry, position: RelativePosition) -> read_models.EntryRead:
    """Return a standing below the ranks that its board keeps, with its position among all, as an answer."""
    assert standing.score is not None
    return read_models.EntryRead(
        rank=None,
        player=standing.player,
        name=standing.name or standing.player,
        score=standing.score,
        achieved_at=rfc3339(standing.achieved_at_ms),
        submission=standing.submission_id,
        **_position_fields(position),
    )


def _position_fields(position: RelativePosition) -> dict[str, Any]:
    return {
        "total": position.total,
        "percentile": position.percentile,
        "percentile_error": position.error,
        "gap": position.gap,
    }


def entry_page(
    board: str, window: str, page: Page, next_cursor: str | None = None, previous_cursor: str | None = None
) -> read_models.EntryPage:
    """Return a page of a board, with cursors to the next and the previous page, as an answer."""
    entries = [entry_shown(entry) for entry in page.entries]
    return read_models.EntryPage(
        board=board,
        window=window,
        total=page.total,
        entries=entries,
        next=next_cursor,
        previous=previous_cursor,
    )


def submission_status(
    submission: StoredSubmission,
    rank: int | None,
    divergent_tick: int | None = None,
    reveal_by_ms: int | None = None,
    case: PlayersCase = NO_CASE,
) -> outcomes.SubmissionStatus:
    """Return the state of a submission for its player, with the class of its reason and no evidence."""
    return outcomes.SubmissionStatus(
        submission=submission.submission_id,
        board=submission.board,
        player=submission.player,
        score=submission.claim.score,
        state=submission.state.value,
        reason=None if submission.state in IN_GOOD_STANDING else submission.reason.player_class,
        rank=rank,
        received_at=rfc3339(submission.received_at_ms),
        divergent_tick=divergent_tick,
        verified=submission.reason is not Reason.SAMPLED if submission.state is State.PROMOTED else None,
        reveal_by=None if reveal_by_ms is None else rfc3339(reveal_by_ms),
        message=case.message,
        question=case.question,
        appeal=case.appeal,
    )


def finding_shown(finding: Finding) -> outcomes.FindingShown:
    """Return a finding as an answer to a moderator."""
    members: dict[str, Any] = finding.as_dict()
    return outcomes.FindingShown(**members, meaning=finding.reason.meaning)


def held_submission(
    submission: StoredSubmission, replay_findings: Sequence[Finding], version: int
) -> outcomes.HeldSubmission:
    """Return a submission for a moderator, with the findings of its arrival and of its replay."""
    return outcomes.HeldSubmission(
        submission=submission.submission_id,
        board=submission.board,
        player=submission.player,
        score=submission.claim.score,
        ticks=submission.claim.ticks,
        stats=dict(submission.claim.stats),
        build=submission.build,
        state=submission.state.value,
        reason=submission.reason.value,
        meaning=submission.reason.meaning,
        findings=[finding_shown(finding) for finding in (*submission.findings, *replay_findings)],
        received_at=rfc3339(submission.received_at_ms),
        etag=etag(version),
    )
