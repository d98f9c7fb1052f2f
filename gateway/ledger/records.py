"""Plain records that go into the ledger and come out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from gateway.shared_records import StoredBaseline
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity, State
from validators.baseline import Baseline, PromotedScore, RunningBaseline, ScoreExtremes, Sums, recent_of
from validators.judge import Judgement
from validators.submission import Submission

SERVER_CREDENTIAL = "server:"
"""Prefix of the credential of a trusted server's write. The key id follows."""


class NewSubmission(NamedTuple):
    """A judged submission on its way into the ledger. One commit stores it with its event and its outbox row.

    `recording` is None in three cases: there is none, it is already in the store of recordings, or only its
    digest came. In the last case, `reveal_ms` is how long its sender has to send it once it is requested.
    Without `achieved_at_ms`, it was achieved when it was received. `details` is JSON. `board_content` is the
    content digest of the board that it was played on; None if the board has no content. `address` is the
    hashed one that it came from, empty if that need not be noted.
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
    board_content: bytes | None = None
    address: str = ""


class Receipt(NamedTuple):
    """The answer to an append: what is stored under this id, and whether this append stored it."""

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
    """A submission as the ledger has it now.

    Columns that cannot be read any more are empty, and named by `unreadable`. `played_by` is who played it,
    if that one was merged into its player.
    """

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
    board_content: bytes | None = None
    played_by: str | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def players(self) -> frozenset[str]:
        """Return for whom it counts, and who played it."""
        return frozenset({self.player, self.played_by or self.player})


class StoredRecording(NamedTuple):
    """A recording as the ledger has it. Without a `body`, it is in the store of recordings."""

    digest: bytes
    size_bytes: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class VerificationLease:
    """The right to verify a submission, until it times out. Settlement compares `attempt`."""

    submission: StoredSubmission
    recording: StoredRecording | None
    attempt: int

    @property
    def is_unrevealed(self) -> bool:
        """Return whether only the digest of its recording has come."""
        return self.recording is None and self.submission.recording_digest is not None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Work that is still to be done.

    `priority` is the expected harm of waiting (`validators.verification_priority`).

    `attempt` is how often its submission was leased. `is_returned` tells that it was handed out before and
    came back.
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
    """A registered trusted server: its Ed25519 public key (32 bytes), its boards, and its times (ms).

    A revoked key writes nothing more, and no other key ever gets its id.
    """

    key_id: str
    public_key: bytes
    boards: tuple[str, ...]
    created_at_ms: int
    revoked_at_ms: int | None = None


def receipt_from(row: Sequence[Any]) -> Receipt:
    """Return the receipt of a row: id, board, player, score, initial state, nonce, content digest."""
    submission_id, board, player, score, state, nonce, content_digest = row
    return Receipt(submission_id, board, player, score, State(state), nonce, content_digest, is_new=False)


def learnt_from_row(row: Sequence[Any]) -> RunningBaseline:
    """Return the running baseline that a row of `baselines` keeps."""
    _, subject, count, total, total_of_squares, recent, lowest, highest, _ = row
    scores = tuple(PromotedScore(*score) for score in orjson.loads(recent))
    return RunningBaseline(
        recent_of(subject),
        Sums(count, int(total), int(total_of_squares)),
        scores,
        ScoreExtremes(lowest, highest),
    )


def row_of(board: str, subject: str, learnt: RunningBaseline, seq: int) -> tuple[Any, ...]:
    """Return the row of `baselines` that keeps a running baseline."""
    sums, recent = learnt.sums, orjson.dumps([tuple(score) for score in learnt.recent]).decode()
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
    """Return the baseline that follows from a row of `baselines`."""
    board, player, *_, seq = row
    return stored_baseline(board, player, learnt_from_row(row).baseline, seq)


def stored_baseline(board: str, subject: str, known: Baseline, seq: int) -> StoredBaseline:
    """Return a subject's baseline with the number that orders its versions."""
    moments = (known.count, known.mean, known.squares)
    return StoredBaseline(board, subject, *moments, seq, known.scores, known.lowest, known.highest)


def finding_from(stored: Mapping[str, Any]) -> Finding:
    """Return the finding that `Finding.as_dict` wrote."""
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
