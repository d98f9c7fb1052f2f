"""Whatever is asked of it in whatever order, and wherever it fails: the ledger keeps its rules, the index follows.

Hypothesis chooses the steps; the parts are real, the ledger is on SQLite and, for fewer steps, on PostgreSQL. `FAULTS_EXAMPLES` and `FAULTS_STEPS` in the environment make it look
deeper, `FAULTS_SEED` elsewhere. What it finds it makes smaller only when told to look deeper: that takes minutes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.index import keys
from gateway.runtime.failpoints import Point, Unforeseen, action_of, arm, disarm
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.vocabulary import REMARKS, TRANSITIONS, Reason, State
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.attack import registered
from tests.support.harness import Answer, Request, free_port
from tests.support.oracle import breaches, differences
from tests.support.policies import a_policy, write_policies
from tests.support.postgres import APP, PostgresServer
from tests.support.seeds import fault_seed
from tests.support.thorough import IS_THOROUGH, examples
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, World, a_world

T = TypeVar("T")

IS_DEEP = IS_THOROUGH or "FAULTS_EXAMPLES" in os.environ
EXAMPLES = {
    "sqlite": int(os.environ.get("FAULTS_EXAMPLES", examples(5))),
    "postgres": int(os.environ.get("FAULTS_EXAMPLES", examples(2))),
}
STEPS = int(os.environ.get("FAULTS_STEPS", "25"))

DAY_S = 86_400
WINDOWS = ["alltime", "daily", "weekly"]
LIMITS = {
    "player": {"per_minute": 1_000_000, "burst": 100_000},
    "address": {"per_minute": 1_000_000, "burst": 100_000},
    "open_runs": 1000,
}
LAPS = {"minimum": 1, "maximum": 1000, "step": 1}
OPEN = ("laps", "last")
OPEN_POLICIES = (
    a_policy("laps", order="ascending", windows=WINDOWS, score=LAPS, limits=LIMITS),
    a_policy("last", operator="latest", windows=WINDOWS, score=LAPS, limits=LIMITS),
    a_policy("vault", writes="trusted", operator="sum", windows=WINDOWS, score=LAPS),
)
CRASHES = (
    Point.BEFORE_APPEND,
    Point.INSIDE_APPEND,
    Point.AFTER_APPEND,
    Point.BEFORE_PEND,
    Point.AFTER_LEASE,
    Point.AFTER_VERDICT,
    Point.INSIDE_SETTLE,
    Point.AFTER_SETTLE,
    Point.AFTER_PROJECT,
)

MOVES = {
    state.value: [(to_state, Reason.APPROVED) for to_state in sorted(TRANSITIONS[state] - {state})]
    + [(state, reason) for reason, states in REMARKS.items() if state in states]
    for state in (State.HELD, State.PROMOTED, State.REJECTED, State.REVOKED)
}
"""What may become of a decided submission, and what may be remarked on it."""

players = st.sampled_from(["ada", "bob", "cy"])
points = st.integers(2, 9)


class Gateway(RuleBasedStateMachine):
    """The gateway, and what a plain dictionary says of every submission: the states that it may be in."""

    valkey: ClassVar[ValkeyServer]
    sandbox: ClassVar[Sandbox]
    server: ClassVar[PostgresServer | None]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory(prefix="sg-machine-")
        self.may_be: dict[str, set[str]] = {}
        self.board_of: dict[str, str] = {}
        self.sent: list[tuple[str, Request]] = []
        self.operations = 0

    @initialize()
    def start(self) -> None:
        folder = Path(self.folder.name)
        boards.write_board(folder / "policies", windows=WINDOWS)
        write_policies(folder / "policies", *OPEN_POLICIES)
        with self.valkey.client() as client:
            client.flushall()
        given = Settings(
            data_dir=folder / "data",
            policies_dir=folder / "policies",
            redis_url=self.valkey.url,
            bind=f"127.0.0.1:{free_port()}",
            lease_s=LEASE_S,
            ledger_url=self._ledger_url(),
        )
        self.world: World = self._do(
            self.stack.enter_async_context(a_world(given, self.sandbox, self.valkey))
        )
        self.private = self._do(registered(self.world.harness))

    @rule(player=players, score=points)
    def submit_a_run(self, player: str, score: int) -> None:
        run, request = self.world.honest(player, score)
        self._send(run.id, "tiny", request, {"pending"})

    @rule(player=players, score=points, board=st.sampled_from(OPEN))
    def submit_for_review(self, player: str, score: int, board: str) -> None:
        run = self.world.run(player, board)
        claim = {"score": score, "ticks": 60}
        self._send(run.id, board, self.world.harness.signed(run, claim, board=board), {"held"})

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        """The same bytes again; once their signature is too old they are refused, and that is all."""
        submission, request = data.draw(st.sampled_from(self.sent))
        before = set(self.may_be[submission])
        answer = self._request(request)
        if answer.status == 202:
            fresh = "held" if self.board_of[submission] in OPEN else "pending"
            self.may_be[submission] = (before - {"absent"}) or {fresh}
            self.may_be[submission] |= {fresh} if "absent" in before else set()
        elif answer.status == 500:
            self._crashed(submission, {"held" if self.board_of[submission] in OPEN else "pending"})
        else:
            assert 401 == answer.status, answer.raw

    @precondition(lambda self: self._in("pending"))
    @rule(data=st.data())
    def verify(self, data: Any) -> None:
        """A worker takes some of what is pending, after every lease has ended."""
        chosen = data.draw(
            st.lists(st.sampled_from(self._in("pending")), min_size=1, max_size=3, unique=True)
        )
        self.world.harness.clock.shift(10 * LEASE_S)
        try:
            self._do(self.world.verify(*chosen))
        except Unforeseen:
            for each in chosen:
                self._crashed(each, {"promoted", "held"})
        else:
            for each in chosen:
                self.may_be[each] = (
                    {"promoted", "held"} if "pending" in self.may_be[each] else self.may_be[each]
                )

    @precondition(lambda self: self._in("held"))
    @rule(data=st.data(), how=st.sampled_from(["approve", "reject"]))
    def moderate(self, data: Any, how: str) -> None:
        submission = data.draw(st.sampled_from(self._in("held")))
        token = self.world.harness.moderator()
        answer = self._do(
            self.world.harness.post(
                f"/v1/moderation/cases/{submission}/{how}", {"code": "other", "note": "seen"}, token
            )
        )
        decided = {"promoted" if how == "approve" else "rejected"}
        self._settled(submission, answer.status, decided)

    @rule(player=players, score=points)
    def write_from_a_server(self, player: str, score: int) -> None:
        self.operations += 1
        entry = {"operation": f"op-{self.operations}", "player": player, "score": score}
        request = self.world.harness.server_signed(self.private, "eu-1", entry, board="vault")
        answer = self._request(request)
        if answer.status == 202:
            self.may_be[answer.body["submission"]] = {"promoted"}
        else:
            assert 500 == answer.status, answer.raw
            self._adopt()

    @precondition(lambda self: any(map(self._in, MOVES)))
    @rule(data=st.data())
    def move(self, data: Any) -> None:
        """Somebody takes back, lets count again, holds again, or remarks on something."""
        submission = data.draw(st.sampled_from([each for state in MOVES for each in self._in(state)]))
        [state] = self.may_be[submission]
        to_state, reason = data.draw(st.sampled_from(MOVES[state]))
        decision = Decision(
            submission, to_state, "moderator:mara", reason, self._now(), frozenset({State(state)})
        )
        board = self.world.edge.catalogue.of_files[self.board_of[submission]]
        try:
            self._do(settle(self.world.edge.ledger, self.world.edge.index, board, [decision]))
        except Unforeseen:
            self._crashed(submission, {to_state.value})
        else:
            self.may_be[submission] = {to_state.value}

    @rule(point=st.sampled_from(CRASHES))
    def crash_soon(self, point: Point) -> None:
        """The next one to come by this point fails there, and what it had in memory is gone."""
        arm(point, action_of("raise"))

    @rule()
    def flush(self) -> None:
        self.world.redis.flushall()

    @rule(board=st.sampled_from(["tiny", "vault", *OPEN]))
    def forge(self, board: str) -> None:
        """Somebody writes an entry of their own straight into Redis."""
        self.world.redis.zadd(keys.window(board, "alltime"), {"0" * 22 + ":eve": -999_999})

    @rule(seconds=st.sampled_from([-3600, 1, DAY_S, 8 * DAY_S]))
    def jump(self, seconds: int) -> None:
        """The clock is set, never to more than an hour before the true time."""
        clock = self.world.harness.clock
        clock.offset_ms = max(-3_600_000, clock.offset_ms + seconds * 1000)

    @rule()
    def reconcile(self) -> None:
        """The steward's rounds make the index what the ledger says, whatever happened."""
        disarm()
        self.world.harness.clock.shift(10)
        self._do(self.world.edge.index.drained())
        self._do(self.world.reconcile())
        history = self._do(self.world.history())
        assert [] == differences(self.world.redis, history, self.world.policies, self._now())

    @invariant()
    def ledger_keeps_its_rules(self) -> None:
        """Every event legal and numbered without a gap, every standing the fold, every state one that may be."""
        if not hasattr(self, "world"):
            return
        history = self._do(self.world.history())
        assert [] == breaches(history, self.world.policies)
        states = history.states()
        wrong = {each: (states.get(each, "absent"), may) for each, may in self.may_be.items()
                 if states.get(each, "absent") not in may}  # fmt: skip
        assert {} == wrong
        assert set() == states.keys() - self.may_be.keys()
        self.may_be = {each: {states.get(each, "absent")} for each in self.may_be}
        self.board_of |= {each.submission_id: each.board for each in history.submissions}

    def teardown(self) -> None:
        disarm()
        self._do(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    def _ledger_url(self) -> str | None:
        if self.server is None:
            return None
        return self.server.url(self._do(self.stack.enter_async_context(self.server.database())), APP)

    def _do(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self.runner.run(run())

    def _request(self, request: Request) -> Answer:
        return self._do(self.world.harness.send(request))

    def _send(self, submission: str, board: str, request: Request, states: set[str]) -> None:
        self.sent.append((submission, request))
        self.board_of[submission] = board
        answer = self._request(request)
        assert answer.status in {202, 500}, answer.raw
        self.may_be[submission] = states if answer.status == 202 else states | {"absent"}

    def _settled(self, submission: str, status: int, decided: set[str]) -> None:
        assert status in {200, 500}
        if status == 200:
            self.may_be[submission] = decided
        else:
            self._crashed(submission, decided)

    def _crashed(self, submission: str, reached: set[str]) -> None:
        """It has happened or it has not; nothing in between."""
        self.may_be[submission] = self.may_be[submission] | reached

    def _adopt(self) -> None:
        """A server's write that failed is not there, or pending, or promoted."""
        history = self._do(self.world.history())
        new = history.states().keys() - self.may_be.keys()
        assert len(new) <= 1
        self.may_be |= {each: {"pending", "promoted"} for each in new}

    def _in(self, state: str) -> list[str]:
        return sorted(each for each, may in self.may_be.items() if may == {state})

    def _now(self) -> int:
        return self.world.harness.clock()


@contextmanager
def shared_parts(valkey: ValkeyServer, sandbox: Sandbox, server: PostgresServer | None) -> Iterator[None]:
    Gateway.valkey, Gateway.sandbox, Gateway.server = valkey, sandbox, server
    yield
    disarm()


@pytest.mark.timeout(3600 if IS_DEEP else 120)
def test_I10_the_ledger_keeps_its_rules_whatever_is_asked(
    valkey: ValkeyServer, sandbox: Sandbox, database_server: PostgresServer | None
):
    """After every step states and standings are the oracle's; after reconciling, so is the index."""
    profile = settings(
        max_examples=EXAMPLES["postgres" if database_server else "sqlite"],
        stateful_step_count=STEPS,
        phases=[Phase.generate, Phase.shrink] if IS_DEEP else [Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    with shared_parts(valkey, sandbox, database_server):
        run_state_machine_as_test(seed(fault_seed())(Gateway), settings=profile)
