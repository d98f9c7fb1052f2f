"""What a client is told whom a limit refuses: which limit it was, how large it is, and when to come again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.rate_limits import quota_exceeded, refuse_large, refuse_limited
from gateway.edge.admission.seats import Seats
from gateway.edge.problems import Problem, ProblemType, problem_response
from gateway.index.limits.admission import Admission, AdmissionResult
from gateway.runtime.settings import Settings
from policies.limits import NETWORK_SHARE, Limits, Rate

LIMITS = Limits(
    player=Rate(per_minute=60, burst=3),
    address=Rate(per_minute=30, burst=5),
    player_kib=Rate(per_minute=120, burst=8),
    address_kib=Rate(per_minute=600, burst=20),
)
OF_NETWORK = 5 * NETWORK_SHARE
KIB_OF_NETWORK = 20 * NETWORK_SHARE * 1024

POLICIES = {
    Admission.PLAYER_LIMITED: ("player", '"player";q=3;w=3'),
    Admission.ADDRESS_LIMITED: ("address", '"address";q=5;w=10'),
    Admission.NETWORK_LIMITED: ("network", f'"network";q={OF_NETWORK};w=10'),
    Admission.PLAYER_BYTES_LIMITED: ("player-bytes", '"player-bytes";q=8192;qu="content-bytes";w=4'),
    Admission.ADDRESS_BYTES_LIMITED: ("address-bytes", '"address-bytes";q=20480;qu="content-bytes";w=2'),
    Admission.NETWORK_BYTES_LIMITED: (
        "network-bytes",
        f'"network-bytes";q={KIB_OF_NETWORK};qu="content-bytes";w=2',
    ),
}


def refused(admission: Admission, wait_ms: int) -> Problem | None:
    try:
        refuse_limited(AdmissionResult(admission, wait_ms, 0, None), LIMITS)
    except Problem as problem:
        return problem
    return None


@pytest.mark.parametrize("admission", Admission)
def test_each_limit_says_which_it_is_and_when_to_come_again(admission: Admission):
    """With its own quota and window, bytes as bytes; the wait in whole seconds that are not too few."""
    problem = refused(admission, 1_001)
    if admission in {Admission.ADMITTED, Admission.KNOWN}:
        assert problem is None
        return
    assert problem is not None
    if admission is Admission.ABNORMAL:
        assert (ProblemType.ABNORMAL_USAGE, {"Retry-After": "2"}) == (problem.kind, problem.headers)
        return
    name, policy = POLICIES[admission]
    assert (ProblemType.QUOTA_EXCEEDED, f"the {name} limit is used up") == (problem.kind, problem.detail)
    told = orjson.loads(cast("bytes", problem_response(problem).body))["detail"]
    assert f"the {name} limit is used up; try again in 2 s" == told
    assert {
        "Retry-After": "2",
        "RateLimit": f'"{name}";r=0;t=2',
        "RateLimit-Policy": policy,
    } == problem.headers


@pytest.mark.parametrize(
    ("retry_s", "words"),
    [
        (1, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (312, "5 min 12 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h"),
        (3_601, "1 h 1 min"),
        (86_399, "1 d"),
        (100_000, "1 d 4 h"),
    ],
)
def test_NR_a_refusal_by_a_limit_says_in_words_when_to_try_again(retry_s: int, words: str):
    """As its header says, or a little more."""
    headers = {"Retry-After": str(retry_s)}
    for problem, expected in (
        (
            Problem(ProblemType.QUOTA_EXCEEDED, "2 runs are open", headers=headers),
            "2 runs are open; try again in " + words,
        ),
        (
            Problem(ProblemType.ABNORMAL_USAGE, headers=headers),
            f"Too many claims were refused; try again in {words}",
        ),
        (Problem(ProblemType.QUOTA_EXCEEDED, "2 runs are open"), "2 runs are open; try again in 1 s"),
        (Problem(ProblemType.REDUCED_CAPACITY, "it is full", headers=headers), "it is full"),
    ):
        assert expected == orjson.loads(cast("bytes", problem_response(problem).body))["detail"]


@pytest.mark.parametrize(
    ("wait_ms", "told"), [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (60_000, "60")]
)
def test_a_wait_is_rounded_up_to_a_second_at_least(wait_ms: int, told: str):
    """Who came a moment too soon would be refused once more, and `0` would bring everybody back at once."""
    headers = quota_exceeded("reads", Rate(per_minute=60, burst=1), wait_ms).headers
    assert (told, f'"reads";r=0;t={told}') == (headers["Retry-After"], headers["RateLimit"])


@pytest.mark.parametrize(
    ("size_bytes", "is_low", "is_refused"), [(10, True, False), (11, True, True), (11, False, False)]
)
def test_while_room_is_short_only_small_recordings_are_taken(
    size_bytes: int, *, is_low: bool, is_refused: bool
):
    """Those of the size that the operator calls small are; the others are told the size, and to come in a minute."""
    edge: Any = SimpleNamespace(settings=Settings(disk_small_bytes=10), disk=SimpleNamespace(is_low=is_low))
    if not is_refused:
        refuse_large(edge, size_bytes)
        return
    with pytest.raises(Problem, match="10 bytes") as problem:
        refuse_large(edge, size_bytes)
    assert (ProblemType.REDUCED_CAPACITY, {"Retry-After": "60"}) == (
        problem.value.kind,
        problem.value.headers,
    )


def test_seats_are_counted_for_address_and_network_and_leave_nothing_behind():
    """Who is refused takes none; the last one that leaves takes the names along."""
    seats = Seats(2, 3)
    ada, bob, eve = (ClientName(name, "site") for name in ("ada", "bob", "eve"))
    assert [True, True, False] == [seats.enter(ada) for _ in range(3)]
    assert [True, False] == [seats.enter(bob), seats.enter(eve)]
    assert [True, False] == [seats.enter(ClientName("eve", "elsewhere")), seats.enter(bob)]
    seats.leave(ada)
    assert [True, False] == [seats.enter(bob), seats.enter(eve)]
    for names in (ada, bob, bob, ClientName("eve", "elsewhere")):
        seats.leave(names)
    assert 0 == len(seats)
