"""What goes into and comes out of the ledger, as plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from gateway.records import StoredBaseline
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity, State
from validators.baseline import PromotedScore, RunningBaseline, ScoreExtremes, Sums, recent_of
from validators.judge import Judgement
from validators.submission import Submission

SERVER_CREDENTIAL = "server:"
"""Prefix of the credential of a trusted server's write; what follows is the key id."""


class NewSubmission(NamedTuple):
    """A judged submission on its way into the ledger, all in one commit with its event and its outbox row.

    `recording` is None where there is none, where it was put into the store of recordings before, and where its digest
    came in its place: then `reveal_ms` is how long its sender has to send it once it is asked for. `achieved_at_ms` None:
    when it was received. `details` is JSON.
    """

    submission: Submission
    judgement: Judgement
    credential: str
    nonce: str
    content_digest: bytes
    recording: bytes | None
    recording_digest: bytes | None
    recording_bytes: int
    simulator: str
    policy_digest: str
    achieved_at_ms: int | None = None
    details: str | None = None
    reveal_ms: int | None = None


class Receipt(NamedTuple):
    """The ledger's answer to an append: what stands there under this id, and whether this append put it there."""

    submission_id: str
    board: str
    player: str
    score: int
    state: State
    nonce: str
    content_digest: bytes
    is_new: bool


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """One submission as the ledger has it now. `unreadable` are columns that say nothing any more, and are empty here."""

    seq: int
    submission_id: str
    board: str
    player: str
    credential: str
    build: str
    seed: int
    issued_at_ms: int
    received_at_ms: int
    achieved_at_ms: int
    claim: Claim
    recording_digest: bytes | None
    simulator: str
    findings: tuple[Finding, ...]
    state: State
    reason: Reason
    attempt: int
    runs_opened: int | None = None
    runs_submitted: int | None = None
    unreadable: tuple[str, ...] = ()


class StoredRecording(NamedTuple):
    """What the ledger has of a recording. `body` None: it is in the store of recordings."""

    digest: bytes
    size_bytes: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to verify a submission, until it times out. `attempt` is what settlement compares."""

    submission: StoredSubmission
    recording: StoredRecording | None
    attempt: int

    @property
    def is_unrevealed(self) -> bool:
        """Whether only the digest of its recording has come."""
        return self.recording is None and self.submission.recording_digest is not None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Work that the ledger says is still to be done, and the expected harm of waiting (`validators.verification_priority`).

    `attempt`: how often its submission was leased for it; `is_returned`: it was handed out before, and came again.
    """

    seq: int
    kind: str
    submission_id: str
    board: str
    player: str
    due_at_ms: int
    priority: int
    attempt: int
    is_returned: bool = False


@dataclass(frozen=True, slots=True)
class ServerKey:
    """A registered trusted server: its Ed25519 public key (32 bytes), the boards it may write to, and its times (ms).

    Once it is revoked it writes nothing more, and its id is never another key's.
    """

    key_id: str
    public_key: bytes
    boards: tuple[str, ...]
    created_at_ms: int
    revoked_at_ms: int | None = None


def receipt_from(row: Sequence[Any]) -> Receipt:
    """The receipt of a stored submission: id, board, player, score, initial state, nonce, content digest."""
    submission_id, board, player, score, state, nonce, content_digest = row
    return Receipt(submission_id, board, player, score, State(state), nonce, content_digest, is_new=False)


def learnt_from_row(row: Sequence[Any]) -> RunningBaseline:
    """What a row of `baselines` keeps."""
    _, subject, count, total, total_of_squares, recent, lowest, highest, _ = row
    scores = tuple(PromotedScore(*each) for each in orjson.loads(recent))
    return RunningBaseline(
        recent_of(subject),
        Sums(count, int(total), int(total_of_squares)),
        scores,
        ScoreExtremes(lowest, highest),
    )


def row_of(board: str, subject: str, learnt: RunningBaseline, seq: int) -> tuple[Any, ...]:
    """The row of `baselines` that keeps it."""
    sums, recent = learnt.sums, orjson.dumps([tuple(each) for each in learnt.recent]).decode()
    return (
        board,
        subject,
        sums.count,
        str(sums.total),
        str(sums.total_of_squares),
        recent,
        *learnt.ends,
        seq,
    )


def baseline_from(row: Sequence[Any]) -> StoredBaseline:
    """The baseline that a row of `baselines` comes to."""
    board, player, *_, seq = row
    known = learnt_from_row(row).baseline
    return StoredBaseline(
        board, player, known.count, known.mean, known.squares, seq, known.scores, known.lowest, known.highest
    )


def finding_from(stored: Mapping[str, Any]) -> Finding:
    """The finding that `Finding.as_dict` wrote."""
    return Finding(
        Reason(stored["reason"]),
        stored["value"],
        Expected(**stored["expected"]),
        stored["sample_size"],
        stored["detail"],
        Severity(stored["severity"]),
        stored["validator"],
        stored["policy"],
        stored["code"],
        tuple(stored["others"]),
    )
