"""Turning what we know into what is told: the JSON responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from pydantic import BaseModel

from gateway.edge.http.preconditions import etag
from gateway.edge.wire import outcomes, read_models
from gateway.index.board_index import Entry, Page
from gateway.ledger.records import Receipt, StoredSubmission
from gateway.records import Standing
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, count_submission, logger
from gateway.settlement.builds import BuildRegistry
from policies.loader import Board
from policies.vocabulary import Finding, Reason, State

if TYPE_CHECKING:
    from gateway.edge.reads.distribution_reader import RelativePosition

JSON: Final = {"Content-Type": "application/json; charset=utf-8"}

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_log = logger()

WAITING = frozenset({State.RECEIVED, State.PENDING, State.PROMOTED})


def json_response(
    answer: BaseModel, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """A model as a JSON response."""
    return web.Response(
        body=json_bytes(answer),
        status=status,
        headers=JSON | headers if headers else JSON,
    )


def json_bytes(answer: BaseModel) -> bytes:
    """A model as JSON."""
    return answer.__pydantic_serializer__.to_json(answer)


def score_accepted(
    receipt: Receipt, state: State, *, outcome: str, headers: Mapping[str, str] = NO_HEADERS
) -> web.Response:
    """The 202 of a durable submission, counted by its outcome; the same for a resend, which says that it is one."""
    answer = count_acceptance(receipt, state, outcome=outcome)
    return json_response(
        answer, status=202, headers={**headers, **replay_header(is_replay=not receipt.is_new)}
    )


def count_acceptance(receipt: Receipt, state: State, *, outcome: str) -> outcomes.ScoreAccepted:
    """What is told of a durable submission, which is counted here by its outcome."""
    outcome = outcome if receipt.is_new else "replayed"
    count_submission(receipt.board, outcome)
    _log.debug(Event.SUBMISSION, board=receipt.board, submission=receipt.submission_id, outcome=outcome)
    return outcomes.ScoreAccepted(
        submission=receipt.submission_id,
        board=receipt.board,
        player=receipt.player,
        score=receipt.score,
        state=state.value,
    )


def replay_header(*, is_replay: bool) -> dict[str, str]:
    """The field that tells a stored answer from a first one."""
    return {"Idempotency-Replayed": "true"} if is_replay else {}


def board_info(board: Board, builds: BuildRegistry) -> read_models.BoardInfo:
    """What readers may know of a board's policy; its limits and thresholds are not among it."""
    policy = board.policy
    return read_models.BoardInfo(
        board=policy.board,
        title=policy.title,
        order=policy.order.value,
        operator=policy.operator.value,
        windows=[kind.value for kind in policy.windows],
        time_zone=policy.time_zone,
        season=policy.season,
        decimals=policy.decimals,
        ranks=[kind.value for kind in policy.ranks],
        tie_break=policy.tie_break.value,
        tie_fields=[field.stat for field in policy.tie_fields],
        tie_resolutions_ms={kind.value: given for kind, given in policy.tie_resolutions_ms.items()},
        writes=policy.writes.value,
        builds=[_build_shown(board, name, builds) for name in sorted(board.policy.builds)],
        ticks_per_second=policy.ticks_per_second,
        reveal_s=policy.verification.reveal_s,
    )


def _build_shown(board: Board, build: str, builds: BuildRegistry) -> read_models.BuildShown:
    simulator = board.simulators.get(build)
    status = builds.status_of(board, build)
    return read_models.BuildShown(
        build=build, status=status.value, simulator=simulator.digest if simulator else None
    )


def entry_shown(entry: Entry) -> read_models.EntryShown:
    """An entry of a board."""
    return read_models.EntryShown(
        rank=entry.rank,
        player=entry.player,
        name=entry.name or entry.player,
        score=entry.score,
        achieved_at=rfc3339(entry.achieved_at_ms),
        submission=entry.submission_id,
    )


def entry_read(entry: Entry, position: RelativePosition) -> read_models.EntryRead:
    """Return an entry by itself, with its position among all."""
    return read_models.EntryRead(**entry_shown(entry).model_dump(), **_position_fields(position))


def standing_read(standing: Standing, position: RelativePosition) -> read_models.EntryRead:
    """Return a standing below the ranks that its board keeps, with its position among all."""
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
    board: str, window: str, page: Page, following: str | None = None, preceding: str | None = None
) -> read_models.EntryPage:
    """A page of a board, with the cursors of the pages beside it."""
    entries = [entry_shown(entry) for entry in page.entries]
    return read_models.EntryPage(
        board=board, window=window, total=page.total, entries=entries, next=following, previous=preceding
    )


def submission_status(
    found: StoredSubmission,
    rank: int | None,
    divergent_tick: int | None = None,
    reveal_by_ms: int | None = None,
) -> outcomes.SubmissionStatus:
    """Where a submission stands, as its player may know it: the coarse class of the reason and nothing of the evidence."""
    return outcomes.SubmissionStatus(
        submission=found.submission_id,
        board=found.board,
        player=found.player,
        score=found.claim.score,
        state=found.state.value,
        reason=None if found.state in WAITING else found.reason.player_class,
        rank=rank,
        received_at=rfc3339(found.received_at_ms),
        divergent_tick=divergent_tick,
        verified=found.reason is not Reason.SAMPLED if found.state is State.PROMOTED else None,
        reveal_by=None if reveal_by_ms is None else rfc3339(reveal_by_ms),
    )


def finding_shown(finding: Finding) -> outcomes.FindingShown:
    """A finding as a moderator sees it."""
    return outcomes.FindingShown(**finding.as_dict(), meaning=finding.reason.meaning)  # type: ignore[arg-type]


def held_submission(
    found: StoredSubmission, replayed: Sequence[Finding], version: int
) -> outcomes.HeldSubmission:
    """A submission as a moderator sees it, with all evidence: what was found when it came, and when it was replayed."""
    return outcomes.HeldSubmission(
        submission=found.submission_id,
        board=found.board,
        player=found.player,
        score=found.claim.score,
        ticks=found.claim.ticks,
        stats=dict(found.claim.stats),
        build=found.build,
        state=found.state.value,
        reason=found.reason.value,
        meaning=found.reason.meaning,
        findings=[finding_shown(finding) for finding in (*found.findings, *replayed)],
        received_at=rfc3339(found.received_at_ms),
        cursor=found.seq,
        etag=etag(version),
    )
