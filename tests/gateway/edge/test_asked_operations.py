"""What a game server's request asks of the ledger, and what limits tell whom they refuse, without an edge."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.admission import noted_addresses
from gateway.edge.admission.address import ClientAddresses
from gateway.edge.admission.noted_addresses import NotedAddresses
from gateway.edge.admission.rate_limits import quota_exceeded, rate_limit_headers, refuse_limited
from gateway.edge.auth.trusted_servers import operation_submission
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.servers.server_requests import (
    operation_of,
    problem_of,
    receipt_of,
    refuse_impossible,
    result_of,
)
from gateway.edge.wire.bodies import BatchedEntry, NewEntry, NewIncrement, NewRemoval
from gateway.edge.wire.outcomes import Removed
from gateway.index.limits.admission import Admission, AdmissionResult
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.submissions.operations import ServerRequest
from gateway.settlement.server_operations import (
    PerformedOperation,
    RefusalKind,
    RefusedOperation,
    ServerOperation,
)
from policies.limits import HourlyRate, Limits, Rate
from policies.vocabulary import Claim, Reason, State
from tests.support.archives import a_board
from validators.judge import Judgement
from validators.submission import Submission

NOW_MS = 1_500
REQUEST = ServerRequest("eu-1", "server:eu-1", "nonce-1", b"d", NOW_MS)
BOARD = a_board(score={"minimum": -20, "maximum": 20, "step": 5}, details={"integers": 2, "object_bytes": 9})
PLAIN, SUM = a_board(score={"minimum": 0, "maximum": 20}), a_board(operator="sum")


def an_entry(**changes: Any) -> NewEntry:
    return NewEntry(**({"operation": "o1", "player": "ada", "score": 5} | changes))


def digest_of(**content: Any) -> bytes:
    """The SHA-256 of the sorted JSON of all that an operation says."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


def a_submission(content_digest: bytes, **changes: Any) -> NewSubmission:
    name = operation_submission("eu-1", "o1")
    claim = changes.pop("claim", Claim(5, 0))
    run = Submission(name, "tiny", "ada", "", 0, NOW_MS, NOW_MS, claim, has_recording=False)
    facts: dict[str, Any] = {"achieved_at_ms": None, "details": None} | changes
    return NewSubmission(
        run, Judgement(State.PENDING, Reason.TRUSTED), credential="server:eu-1", nonce="nonce-1",
        content_digest=content_digest, recording=None, recording_digest=None, recording_bytes=0, simulator="",
        policy_digest=BOARD.digest, **facts,
    )  # fmt: skip


def test_an_entry_becomes_a_submission_that_counts():
    """All that it says, and when it was reached; what it replaces is its target."""
    details = {"integers": [1, 2], "object": {"a": 1}}
    said = {
        "operation": "o1", "player": "ada", "score": 5, "stats": {"kills": 3}, "details": details,
        "achieved_at": "1970-01-01T00:00:01.5Z", "version": 4, "replaces": "old1",
    }  # fmt: skip
    digest = digest_of(board="tiny", removes=False, **said)
    assert operation_of(BOARD, REQUEST, NewEntry(**said)) == ServerOperation(
        operation_submission("eu-1", "o1"), "ada", digest, 4, target="old1",
        new=a_submission(
            digest, claim=Claim(5, 0, {"kills": 3}), achieved_at_ms=NOW_MS, details=orjson.dumps(details).decode()
        ),
    )  # fmt: skip


def test_an_operation_is_the_same_in_a_batch():
    """A repetition is one wherever it stands."""
    batched = BatchedEntry(action="write", **an_entry().model_dump())
    assert operation_of(BOARD, REQUEST, an_entry()) == operation_of(BOARD, REQUEST, batched)


def test_an_increment_and_a_removal_are_operations():
    """An increment has no time and no target of its own; a removal has no submission, and says why."""
    digest = digest_of(board="tiny", removes=False, operation="o1", player="ada", by=5, version=None)
    assert operation_of(BOARD, REQUEST, NewIncrement(operation="o1", player="ada", by=5)) == ServerOperation(
        operation_submission("eu-1", "o1"), "ada", digest, new=a_submission(digest)
    )
    for said in ({"submission": "s1", "reason": "theirs"}, {"version": 9}):
        full = {"submission": None, "version": None, "reason": None} | said
        removal = {"operation": "o1", "player": "ada"} | full
        assert operation_of(BOARD, REQUEST, NewRemoval(**removal)) == ServerOperation(
            operation_submission("eu-1", "o1"), "ada", digest_of(board="tiny", removes=True, **removal),
            full["version"], target=full["submission"], why=full["reason"] or "",
        )  # fmt: skip


def slug_of(board: Any, body: Any) -> Any:
    try:
        return refuse_impossible(board, REQUEST, body)
    except Problem as problem:
        return problem.kind, problem.detail


INCREMENT, REMOVAL = (
    NewIncrement(operation="o1", player="ada", by=5),
    NewRemoval(operation="o1", player="ada"),
)
STEPS = "score: the board's policy allows -20 to 20 in steps of 5"
FUTURE = "achieved_at: is in the future; by our clock it is 1970-01-01T00:00:01.500Z"
REFUSED: list[tuple[Any, Any, Any]] = [
    (BOARD, an_entry(score=20), None),
    (BOARD, an_entry(score=-20), None),
    (BOARD, an_entry(score=25), (ProblemType.BOUNDS_VIOLATION, STEPS)),
    (BOARD, an_entry(score=6), (ProblemType.BOUNDS_VIOLATION, STEPS)),
    (PLAIN, an_entry(score=21), (ProblemType.BOUNDS_VIOLATION, "score: the board's policy allows 0 to 20")),
    (SUM, INCREMENT, None),
    (PLAIN, INCREMENT, (ProblemType.OPERATOR_MISMATCH, "the board's operator is `best`: write the score itself")),
    (SUM, INCREMENT.model_copy(update={"by": 21}), (ProblemType.BOUNDS_VIOLATION, "score: the board's policy allows -20 to 20")),
    (PLAIN, REMOVAL, None),
    (BOARD, an_entry(achieved_at="1970-01-01T00:00:01.500Z"), None),
    (BOARD, an_entry(achieved_at="1970-01-01T00:00:00Z"), None),
    (BOARD, an_entry(achieved_at="1970-01-01T00:00:01.501Z"), (ProblemType.SCHEMA_VIOLATION, FUTURE)),
    (BOARD, an_entry(details={"integers": [1, 2], "object": {"a": 123}}), None),
    (BOARD, an_entry(details={"integers": [1, 2, 3]}), (ProblemType.SCHEMA_VIOLATION, "details.integers: the board takes 2")),
    (BOARD, an_entry(details={"object": {"a": 1234}}), (ProblemType.SCHEMA_VIOLATION, "details.object: the board takes 9 bytes")),
]  # fmt: skip


@pytest.mark.parametrize(("board", "body", "refusal"), REFUSED, ids=range(len(REFUSED)))
def test_what_no_ledger_could_take_is_refused_at_once(board: Any, body: Any, refusal: Any):
    """Scores beyond the bounds, increments where scores do not add up, the future, and too many details."""
    assert refusal == slug_of(board, body)


@pytest.mark.parametrize("at", ["yesterday", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00"])
def test_what_is_no_time_is_refused(at: str):
    """With its field."""
    kind, detail = slug_of(BOARD, an_entry(achieved_at=at))
    assert (ProblemType.SCHEMA_VIOLATION, "achieved_at: ") == (kind, detail[:13])


@pytest.mark.parametrize(
    ("kind", "problem", "detail"),
    [
        (RefusalKind.OTHER_CONTENT, ProblemType.IDEMPOTENCY_MISMATCH, "o1: why"),
        (RefusalKind.STALE, ProblemType.STALE_VERSION, "why"),
        (RefusalKind.CONFLICT, ProblemType.STATE_CONFLICT, "why"),
    ],
)
def test_a_refusal_of_the_ledger_is_a_problem(kind: RefusalKind, problem: ProblemType, detail: str):
    """An operation that is known already is named."""
    told = problem_of(an_entry(), RefusedOperation(0, kind, "why"))
    assert (problem, detail) == (told.kind, told.detail)


@pytest.mark.parametrize("is_new", [True, False])
def test_what_is_done_is_answered(*, is_new: bool):
    """A score by its receipt, and a removal by the submissions that count no more."""
    done = PerformedOperation(operation_of(BOARD, REQUEST, an_entry()), ("s1", "s2"), is_new)
    digest, name = done.operation.content_digest, done.operation.operation_id
    assert Receipt(name, "tiny", "ada", 5, State.PROMOTED, "nonce-1", digest, is_new=is_new) == receipt_of(
        BOARD, REQUEST, an_entry(), done
    )
    shown = result_of(BOARD, REQUEST, an_entry(), done)
    assert (name, "promoted") == (shown.submission, shown.state)  # type: ignore[union-attr]
    assert Removed(board="tiny", player="ada", removed=["s1", "s2"]) == result_of(
        BOARD, REQUEST, REMOVAL, done
    )


LIMITS = Limits.model_validate(
    {
        "player": {"per_minute": 7, "burst": 3},
        "address": {"per_minute": 60, "burst": 31},
        "player_kib": {"per_minute": 60, "burst": 2},
        "address_kib": {"per_minute": 60, "burst": 4},
    }
)


@pytest.mark.parametrize(
    ("admission", "name", "policy"),
    [
        (Admission.PLAYER_LIMITED, "player", "q=3;w=26"),
        (Admission.ADDRESS_LIMITED, "address", "q=31;w=31"),
        (Admission.NETWORK_LIMITED, "network", None),
        (Admission.PLAYER_BYTES_LIMITED, "player-bytes", 'q=2048;qu="content-bytes";w=2'),
        (Admission.ADDRESS_BYTES_LIMITED, "address-bytes", 'q=4096;qu="content-bytes";w=4'),
        (Admission.NETWORK_BYTES_LIMITED, "network-bytes", None),
    ],
)
def test_a_limit_says_which_it_is_and_when_to_come_again(admission: Admission, name: str, policy: str | None):
    """In whole seconds, rounded up and one at least; a quota of kibibytes is told in bytes."""
    for wait_ms, wait_s in ((0, 1), (1, 1), (1_000, 1), (1_001, 2)):
        with pytest.raises(Problem) as refused:
            refuse_limited(AdmissionResult(admission, wait_ms, 0, None), LIMITS)
        problem = refused.value
        assert (ProblemType.QUOTA_EXCEEDED, f"the {name} limit is used up") == (problem.kind, problem.detail)
        assert (str(wait_s), f'"{name}";r=0;t={wait_s}') == (
            problem.headers["Retry-After"],
            problem.headers["RateLimit"],
        )
        told = problem.headers["RateLimit-Policy"]
        assert told.startswith(f'"{name}";q=') if policy is None else told == f'"{name}";{policy}'


def test_who_is_refused_too_often_comes_again_later():
    """With no quota that could be counted down; who is admitted is refused nothing, and told what is left."""
    with pytest.raises(Problem) as refused:
        refuse_limited(AdmissionResult(Admission.ABNORMAL, 61_000, 0, None), LIMITS)
    assert (ProblemType.ABNORMAL_USAGE, {"Retry-After": "61"}) == (refused.value.kind, refused.value.headers)
    refuse_limited(AdmissionResult(Admission.ADMITTED, 9, 0, None), LIMITS)
    assert {"RateLimit": '"player";r=2', "RateLimit-Policy": '"player";q=3;w=26'} == rate_limit_headers(
        LIMITS.player, 2
    )
    hourly = quota_exceeded("opened", HourlyRate(per_hour=5), 500)
    assert '"opened";q=5;w=3600' == hourly.headers["RateLimit-Policy"]


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_quota_s_window_refills_its_burst(per_minute: int, burst: int):
    """In whole seconds: after those of its window a burst is there again, and a second earlier it is not."""
    window_s = Rate(per_minute=per_minute, burst=burst).window_s
    assert (window_s - 1) * per_minute < burst * 60 <= window_s * per_minute


def test_an_address_is_noted_once_a_day(monkeypatch: pytest.MonkeyPatch):
    """For each player by itself. Nobody's address never is, nor any where none is to be; the oldest are forgotten."""
    monkeypatch.setattr(noted_addresses, "LIMIT", 2)
    addresses = ClientAddresses((), b"k" * 32)
    noted, nobody = NotedAddresses(addresses, is_on=True), addresses.name(None, ())
    day_ms, at_ms = 86_400_000, 5 * 86_400_000
    assert ["a", ""] == [noted.to_note("ada", each, now_ms=at_ms) for each in ("a", nobody)]
    noted.note("ada", "a", now_ms=at_ms)
    noted.note("ada", "", now_ms=at_ms)
    told = {
        later_ms: noted.to_note("ada", "a", now_ms=at_ms + later_ms) for later_ms in (0, day_ms - 1, day_ms)
    }
    assert {0: "", day_ms - 1: "", day_ms: "a"} == told
    assert ["a", "b"] == [noted.to_note(*each, now_ms=at_ms) for each in (("bob", "a"), ("ada", "b"))]
    noted.note("bob", "a", now_ms=at_ms)
    noted.note("ada", "a", now_ms=at_ms + 1)
    noted.note("cas", "a", now_ms=at_ms + 2)
    left = {player: noted.to_note(player, "a", now_ms=at_ms + 2) for player in ("ada", "bob", "cas")}
    assert {"ada": "", "bob": "a", "cas": ""} == left
    assert "" == NotedAddresses(addresses, is_on=False).to_note("ada", "a", now_ms=at_ms)
