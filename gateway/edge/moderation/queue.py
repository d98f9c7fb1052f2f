"""The queue of cases, across all boards of a moderator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_anywhere, whole_number, whole_number_in
from gateway.edge.http.responses import held_submission, json_response
from gateway.edge.moderation.bans import own_players_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import CaseClaim
from gateway.edge.wire.moderation_queue import AgeCount, NextCase, QueueCounts, QueuedCase, QueueShown
from gateway.ledger import queries
from gateway.ledger.judgement import cases as case_background
from gateway.ledger.moderation.cases import CaseKind, StoredCase
from gateway.ledger.moderation.claims import Claimant, claim_first
from gateway.ledger.moderation.queue import (
    AGED,
    AGES,
    BEGINNING,
    QueueFilter,
    QueuePlace,
    count_queue,
    free_cases,
    queue_page,
)
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import label_of
from gateway.settlement.case_history import found_by_replay
from gateway.settlement.known_answers import as_checked, seen_before
from policies.vocabulary import Reason

PAGE_LIMIT: Final = 100

FILTERS: Final = ("board", "family", "reason", "player", "build", "kind", "min_age_s", "max_age_s")
"""The parameters by which the queue is filtered."""

_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "reason": frozenset({"", *(reason.value for reason in Reason)}),
    "kind": frozenset({"", *(kind.value for kind in CaseKind if kind is not CaseKind.CHECK)}),
}

LONGEST_AGE_S: Final = 10 * 365 * 86_400

TEXT_LIMIT: Final = 128
"""Longest text of a filter: nothing that a case has is longer."""

ROUNDS: Final = 32
"""Most looks for a case to offer, each at up to `gateway.ledger.moderation.queue.WALK` cases."""


class QueueRequest(NamedTuple):
    """The cases that a moderator asks for, by filters as they were sent, and by ages, 0 for any."""

    filters: Mapping[str, str]
    wanted: QueueFilter
    min_age_ms: int
    max_age_ms: int

    def at(self, now_ms: int) -> QueueFilter:
        """Return the filter as it is at a time."""
        return self.wanted._replace(
            opened_by_ms=now_ms - self.min_age_ms if self.min_age_ms else None,
            opened_after_ms=now_ms - self.max_age_ms if self.max_age_ms else None,
        )


def queue_request_of(request: web.Request, moderator: Moderator) -> QueueRequest:
    """Return the filters of a request. Raises as `queue_request`."""
    return queue_request({name: request.query[name] for name in FILTERS if name in request.query}, moderator)


def queue_request(filters: Mapping[str, str], moderator: Moderator) -> QueueRequest:
    """Return filters as a request. Raises `schema-violation`, and `not-found` for a board out of reach."""
    if unknown := filters.keys() - set(FILTERS):
        raise _violation(f"{min(unknown)[:64]}: there is no such filter")
    for name, text in filters.items():
        if not 0 < len(text) <= TEXT_LIMIT:
            raise _violation(f"{name}: expected 1 to {TEXT_LIMIT} characters")
    for name, known in _KNOWN.items():
        if filters.get(name, "") not in known:
            raise _violation(f"{name}: there is no such {name}")
    for name in ("board", "family"):
        if name in filters and not _reaches(moderator, filters[name]):
            raise Problem(ProblemType.NOT_FOUND, "there is nothing here that this token may moderate")
    wanted = QueueFilter(
        board=filters.get("board"),
        label=filters.get("family"),
        reason=filters.get("reason"),
        player=filters.get("player"),
        build=filters.get("build"),
        kind=CaseKind(filters["kind"]) if "kind" in filters else None,
    )
    least, most = (whole_number_in(filters, name, 0, 0, LONGEST_AGE_S) for name in ("min_age_s", "max_age_s"))
    return QueueRequest(filters, wanted, least * 1000, most * 1000)


def _reaches(moderator: Moderator, name: str) -> bool:
    """Return whether a moderator reaches a board or family, or any board of it."""
    is_of_it = any(label_of(scope) == name for scope in moderator.scopes(Ability.READ))
    return is_of_it or moderator.may(Ability.READ, name)


async def list_queue(request: web.Request) -> web.Response:
    """Return a page of the cases of the moderator's boards, those of greatest expected harm first."""
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    asked = queue_request_of(request, moderator)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    return json_response(await queue_shown(edge, moderator, asked, request.query.get("cursor"), count=count))


async def queue_shown(
    edge: Edge, moderator: Moderator, asked: QueueRequest, cursor: str | None = None, *, count: int
) -> QueueShown:
    """Return a page of the queue. Raises `schema-violation` for a cursor of another queue."""
    scopes, now_ms = moderator.scopes(Ability.READ), edge.clock()
    listed = ("queue", sorted(scopes), sorted(asked.filters.items()))
    place = QueuePlace(*edge.cursors.place_of(cursor, listed)) if cursor else BEGINNING
    reading = queue_page(scopes, asked.at(now_ms), place, count=count)
    page = await edge.ledger.read(reading, ReadKind.MODERATION)
    waiting = [
        case for case in page.cases if case.kind is not CaseKind.CHECK or case.hides_from(moderator.name)
    ]
    shown = await cases_shown(edge, waiting, now_ms=now_ms)
    return QueueShown(cases=shown, next=edge.cursors.next_of(listed, page.next and list(page.next)))


async def count_cases(request: web.Request) -> web.Response:
    """Count the cases of the moderator's boards."""
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    return json_response(await queue_counts(edge, moderator))


async def queue_counts(edge: Edge, moderator: Moderator) -> QueueCounts:
    """Return how many cases wait for a moderator, by reason, by board and by age."""
    counting = count_queue(moderator.scopes(Ability.READ), now_ms=edge.clock())
    counted = await edge.ledger.read(counting, ReadKind.MODERATION)
    reasons: Counter[str] = Counter()
    for of_label in counted.counts.values():
        reasons.update(of_label)
    return QueueCounts(
        total=reasons.total(),
        reasons=dict(sorted(reasons.items())),
        boards={label: sum(found.values()) for label, found in sorted(counted.counts.items())},
        ages=[
            AgeCount(
                at_least_s=age.at_least_ms // 1000,
                under_s=None if age.under_ms is None else age.under_ms // 1000,
                cases=min(count, AGED),
                is_capped=count > AGED,
            )
            for age, count in zip(AGES, counted.ages, strict=True)
        ],
        oldest_at=None if counted.oldest_ms is None else rfc3339(counted.oldest_ms),
        is_capped=counted.is_capped,
    )


async def claim_next(request: web.Request) -> web.Response:
    """Give the moderator the first case of the queue that nobody is in."""
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.DECIDE)
    case = await next_case(edge, moderator, queue_request_of(request, moderator))
    return json_response(NextCase(case=case))


async def next_case(edge: Edge, moderator: Moderator, asked: QueueRequest) -> QueuedCase | None:
    """Claim the first case of the queue that a moderator may be offered, and return it; None for none."""
    scopes, claimant, place = moderator.scopes(Ability.DECIDE), await claimant_of(edge, moderator), BEGINNING
    for _ in range(ROUNDS):
        now_ms = edge.clock()
        looking = free_cases(scopes, asked.at(now_ms), claimant, place, now_ms=now_ms)
        page = await edge.ledger.read(looking, ReadKind.MODERATION)
        boards = await edge.catalogue.boards({case.board for case in page.cases})
        offered = [case.submission_id for case in page.cases if case.board in boards]
        claimed = await edge.ledger.write(claim_first(offered, claimant, now_ms=now_ms)) if offered else None
        if claimed is not None:
            [shown] = await cases_shown(edge, [claimed], now_ms=now_ms)
            return shown
        if offered:
            continue  # others were faster with all of them
        if page.next is None:
            break
        place = page.next
    return None


async def claimant_of(edge: Edge, moderator: Moderator) -> Claimant:
    """Return a moderator as one who asks for cases, with those into whom their own players were merged."""
    own = await edge.ledger.read(own_players_of(moderator), ReadKind.MODERATION)
    return Claimant(moderator.name, frozenset(own), moderator.scopes(Ability.OVERRULE))


async def cases_shown(edge: Edge, cases: Sequence[StoredCase], *, now_ms: int) -> list[QueuedCase]:
    """Return cases with their submissions and all evidence, without those of boards that are no more."""
    boards = await edge.catalogue.boards({case.board for case in cases})
    known = [case for case in cases if case.board in boards]
    return await edge.ledger.read(_with_submissions(known, now_ms=now_ms), ReadKind.MODERATION)


def _with_submissions(cases: Sequence[StoredCase], *, now_ms: int) -> Operation[list[QueuedCase]]:
    ids = [case.submission_id for case in cases]

    async def work(tx: Transaction) -> list[QueuedCase]:
        submissions = await queries.submissions_listed(ids)(tx)
        found = await queries.replay_findings(ids)(tx)
        versions = await case_background.versions(ids)(tx)
        for check in (case for case in cases if case.kind is CaseKind.CHECK):
            each = check.submission_id
            if each not in submissions:
                continue
            seen = seen_before(await queries.history_of(each)(tx), check.known_seq)
            found[each], versions[each] = tuple(found_by_replay(seen)), seen[-1]["seq"]
            submissions[each] = as_checked(submissions[each], check)
        return [
            _queued(case, held_submission(submissions[each], found.get(each, ()), versions[each]), now_ms)
            for each, case in zip(ids, cases, strict=True)
            if each in submissions
        ]

    return work


def _queued(case: StoredCase, held: object, now_ms: int) -> QueuedCase:
    return QueuedCase(
        **dict(held),  # type: ignore[call-overload]
        kind=case.shown_kind.value,
        harm=case.harm if case.harm >= 0 else None,
        opened_at=rfc3339(case.opened_at_ms),
        waiting_s=max(0, now_ms - case.opened_at_ms) // 1000,
        claim=claim_shown(case, now_ms=now_ms),
        cannot_tell=case.cannot_tell,
        needs_senior=bool(case.needs_senior),
        waits_until=rfc3339(case.waits_until_ms) if now_ms < case.waits_until_ms else None,
    )


def claim_shown(case: StoredCase, *, now_ms: int) -> CaseClaim | None:
    """Return who is in a case now, None for nobody."""
    is_claimed = case.claimed_by != "" and now_ms < case.claimed_until_ms
    return CaseClaim(by=case.claimed_by, until=rfc3339(case.claimed_until_ms)) if is_claimed else None


def _violation(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
