"""A ledger in memory without threads: thousands of histories a minute, on the real statements."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.group_commit import append_group
from gateway.ledger.records import SERVER_CREDENTIAL, NewSubmission, Receipt, ServerKey
from gateway.ledger.sqlite.transaction import SqliteTransaction, drive
from gateway.ledger.sqlite.writer import SqliteWriter
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation
from gateway.settlement.decision_records import Decision
from gateway.settlement.server_operations import (
    OperationsRefused,
    PerformedOperation,
    RefusalKind,
    ServerOperation,
    perform_all,
)
from gateway.settlement.settle import _decide_all
from gateway.shared_records import Change
from policies.choices import Operator
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import SCORE_LIMIT, Claim, Reason, State
from tests.support import boards
from tests.support.ledger import NOON_MS, ledger_in_memory
from tests.support.oracle import Promoted
from validators.judge import Judgement
from validators.submission import Submission

T = TypeVar("T")
KEY_ID = "eu-1"
CREDENTIAL = SERVER_CREDENTIAL + KEY_ID


@lru_cache(maxsize=32)
def board_of(operator: Operator, order: SortOrder) -> Board:
    """The tiny board, folded so."""
    limit = 2**40 if operator is Operator.SUM else SCORE_LIMIT
    with tempfile.TemporaryDirectory() as folder:
        score = {"minimum": -limit, "maximum": limit}
        return boards.board(Path(folder), operator=operator.value, order=order.value, score=score)


class Books:
    """What an operation does, and what then stands in the tables. One trusted server is registered."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.connection = ledger_in_memory()
        self.tx = SqliteTransaction(self.connection)
        drive(queries.add_server_key(ServerKey(KEY_ID, bytes(32), ("*",), NOON_MS))(self.tx))

    def append(self, news: Sequence[NewSubmission]) -> list[Receipt]:
        """Append submissions, and return their receipts."""
        return drive(append_group(SqliteWriter(self.connection, patience_s=0), news))

    def do(self, work: Operation[T]) -> T:
        """The result of an operation; what it raises undoes it."""
        self.connection.execute("SAVEPOINT operation")
        try:
            result = drive(work(self.tx))
        except Exception:
            self.connection.execute("ROLLBACK TO operation")
            raise
        finally:
            self.connection.execute("RELEASE operation")
        return result

    async def read(self, work: Operation[T], _: object = None) -> T:
        """The same, for who expects a ledger."""
        return self.do(work)

    def flip(self, submission_ids: Sequence[str], promoted: Iterable[str]) -> None:
        """Promote or revoke these in one transaction, each as often as named; `promoted` counted before."""
        now, decisions = set(promoted), []
        for each in submission_ids:
            to_state = State.REVOKED if each in now else State.PROMOTED
            decisions.append(
                Decision(each, to_state, "replay", Reason.VERIFIED, NOON_MS + 1, frozenset(State))
            )
            now ^= {each}
        self.do(_decide_all(self.board, decisions))

    def decide(self, submission_id: str, to_state: State) -> Change:
        decision = Decision(submission_id, to_state, "replay", Reason.VERIFIED, NOON_MS + 1, frozenset(State))
        [change], _ = self.do(_decide_all(self.board, [decision]))
        assert isinstance(change, Change)
        return change

    def perform(
        self, operations: Sequence[ServerOperation], *, nonce: str = "nonce", at_ms: int = NOON_MS
    ) -> tuple[list[PerformedOperation], list[Change]]:
        """What a trusted server's request does. Raises OperationsRefused, KeyRevoked or NonceReused."""
        request = ServerRequest(KEY_ID, CREDENTIAL, nonce, digest_of(operations), at_ms)
        return self.do(perform_all(self.board, request, operations))

    def promoted(self) -> list[Promoted]:
        """What counts, by the state of the submissions."""
        columns = "seq, submission_id, player, score, received_at_ms"
        found = self.rows(f"SELECT {columns} FROM submissions WHERE state = 'promoted'")
        return [Promoted(*row) for row in found]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement).fetchall()


def digest_of(said: object) -> bytes:
    return hashlib.sha256(repr(said).encode()).digest()


def a_write(
    operation: str,
    score: int,
    *,
    player: str = "ada",
    version: int | None = None,
    replaces: str | None = None,
    at_ms: int = NOON_MS,
) -> ServerOperation:
    """A trusted server's write to the tiny board, or a correction; its operation id is its submission's."""
    digest = digest_of((operation, player, score, version, replaces))
    run = Submission(operation, "tiny", player, "", 0, at_ms, at_ms, Claim(score, 0), has_recording=False)
    new = NewSubmission(
        run,
        Judgement(State.PENDING, Reason.TRUSTED),
        credential=CREDENTIAL,
        nonce="nonce",
        content_digest=digest,
        recording=None,
        recording_digest=None,
        recording_bytes=0,
        simulator="",
        policy_digest="sha256:policy",
    )
    return ServerOperation(operation, player, digest, version, new=new, target=replaces)


def a_removal(
    operation: str, *, player: str = "ada", version: int | None = None, submission: str | None = None
) -> ServerOperation:
    """A trusted server's removal of one submission, or of all that counts for the player."""
    digest = digest_of((operation, player, version, submission))
    return ServerOperation(operation, player, digest, version, target=submission)


def arrive(
    books: Books, operation: ServerOperation, arrival: int, *, at_ms: int | None = None
) -> tuple[list[Change], RefusalKind | None]:
    """What an operation that comes by itself, as the `arrival`th, changes, or why the ledger refuses it."""
    at_ms = NOON_MS + arrival if at_ms is None else at_ms
    if operation.new:  # the edge stamps what it receives
        run = operation.new.submission._replace(issued_at_ms=at_ms, received_at_ms=at_ms)
        operation = replace(operation, new=operation.new._replace(submission=run))
    try:
        _, changes = books.perform([operation], nonce=f"nonce-{arrival}", at_ms=at_ms)
    except OperationsRefused as refused:
        [refusal] = refused.refusals
        return [], refusal.kind
    return changes, None


FREE_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "correct", "remove one", "remove all"]),
        st.sampled_from(["ada", "bob"]),
        st.integers(-4, 4),
        st.one_of(st.none(), st.integers(1, 6)),
        st.integers(0, 12),
    ),
    max_size=14,
)
"""Kind, player, score, version and target of operations, to be numbered and made by `free_operation`."""


def free_operation(
    number: int, kind: str, player: str, score: int, version: int | None, target: int
) -> ServerOperation:
    """Any operation; its target may be there or not, count or not, or be another player's."""
    if kind == "remove all":
        return a_removal(f"op-{number}", player=player, version=version)
    if kind == "remove one":
        return a_removal(f"op-{number}", player=player, submission=f"op-{target}")
    replaces = f"op-{target}" if kind == "correct" else None
    return a_write(f"op-{number}", score, player=player, version=version, replaces=replaces)
