"""What goes into and comes out of the ledger, as plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.records import StoredBaseline
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity, State
from validators.baseline import Sums
from validators.judge import Judgement
from validators.submission import Submission

SERVER_CREDENTIAL = "server:"
"""Prefix of the credential of a trusted server's write; what follows is the key id."""


class NewSubmission(NamedTuple):
    """A judged submission on its way into the ledger, all in one commit with its event and its outbox row.

    `recording` is None where there is none, and where it was put into the store of recordings before. `achieved_at_ms`
    None: when it was received. `details` is JSON.
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
    """One submission as the ledger has it now."""

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
    is_recording_reused: bool


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Work that the ledger says is still to be done. `attempt`: how often its submission was leased for it."""

    seq: int
    kind: str
    submission_id: str
    board: str
    player: str
    due_at_ms: int
    attempt: int


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


def sums_from(row: Sequence[Any]) -> Sums:
    """The sums of a row of `baselines`."""
    _, _, count, total, total_of_squares, _ = row
    return Sums(count, int(total), int(total_of_squares))


def baseline_from(row: Sequence[Any]) -> StoredBaseline:
    """The baseline that a row of `baselines` adds up to."""
    board, player, *_, seq = row
    baseline = sums_from(row).baseline
    return StoredBaseline(board, player, baseline.count, baseline.mean, baseline.squares, seq)


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
    )
