"""The words every room shares: states, reasons, findings, verdicts. One word per thing.

Nothing here computes a judgement; these are the values that judgements are written in, and they are what the ledger
stores, so a member's value never changes once released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

SCORE_LIMIT = 2**53 - 1
"""Largest magnitude of a score: an IEEE double, which is what a Redis ZSET stores, is exact to here (IEEE 754, §3.4)."""


class State(StrEnum):
    """Where a submission stands. Every change of it is an event in the ledger."""

    RECEIVED = "received"
    PENDING = "pending"
    HELD = "held"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.RECEIVED: frozenset({State.PENDING, State.HELD, State.REJECTED}),
    State.PENDING: frozenset({State.PROMOTED, State.HELD, State.REJECTED, State.SUPERSEDED}),
    State.HELD: frozenset({State.PROMOTED, State.REJECTED}),
    State.PROMOTED: frozenset({State.REVOKED}),
    State.REVOKED: frozenset({State.PROMOTED}),
    State.REJECTED: frozenset(),
    State.SUPERSEDED: frozenset(),
}
"""The only changes of state there are."""


class Reason(StrEnum):
    """Why something was decided or suspected. The text after each member is what a moderator reads."""

    def __new__(cls, value: str, meaning: str = "", player_class: str = "review") -> Self:
        """A member: its stable name, what a moderator reads, and the coarse class that its player is told."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.player_class = player_class
        return member

    meaning: str
    player_class: str

    ACCEPTED = "accepted", "Nothing suspicious was found before the replay.", "none"
    VERIFIED = "verified", "Re-simulating the recording gave exactly the claimed result.", "none"
    TRUSTED = "trusted", "A registered game server wrote it.", "none"
    APPROVED = "approved", "A moderator approved it.", "none"
    REJECTED_BY_MODERATOR = "rejected-by-moderator", "A moderator rejected it.", "moderation"
    REVOKED_BY_MODERATOR = "revoked-by-moderator", "A moderator took it back.", "moderation"
    REINSTATED = "reinstated", "A moderator let it count again.", "none"
    REMOVED_BY_SERVER = "removed-by-server", "A registered game server took it back.", "moderation"
    CORRECTED = "corrected", "A registered game server put another score in its place.", "none"
    KEY_COMPROMISED = "key-compromised", "The key of the game server that wrote it was in wrong hands."
    REVIEW_REQUIRED = "review-required", "The board takes runs without a replay only through a moderator."

    VELOCITY_POINTS = "velocity-points", "More points per second than the game can give.", "implausible"
    VELOCITY_TIME = (
        "velocity-time",
        "More ticks were played than time has passed since the ticket.",
        "implausible",
    )
    ANOMALY_PLAYER = "anomaly-player", "Far outside the player's own promoted history."
    ANOMALY_POPULATION = "anomaly-population", "A newcomer far outside what the board's players reach."
    RECORDING_REUSED = "recording-reused", "Another submission on the board has the very same recording."

    RECORDING_MALFORMED = "recording-malformed", "The recording is not a recording.", "replay"
    RECORDING_MISSING = (
        "recording-missing",
        "The board verifies replays and the claim came without one.",
        "replay",
    )
    SCORE_MISMATCH = "score-mismatch", "The replay gives another score than the claim.", "replay"
    TICKS_MISMATCH = "ticks-mismatch", "The replay ends at another tick than the claim.", "replay"
    STATS_MISMATCH = "stats-mismatch", "The replay gives other statistics than the claim.", "replay"
    NOT_OVER = "not-over", "The recording stops before the run is over.", "replay"
    DIVERGED = "diverged", "A checkpoint of the recording differs from the replay.", "replay"

    RECORDING_LOST = "recording-lost", "The recording that we stored is missing or damaged: a fault of ours."
    OUT_OF_FUEL = "out-of-fuel", "The simulator used up its fuel."
    TIMED_OUT = "timed-out", "The simulator was stopped at its wall-clock limit."
    OUT_OF_MEMORY = "out-of-memory", "The simulator asked for more memory than it may have."
    SIMULATOR_TRAPPED = "simulator-trapped", "The simulator crashed."
    SIMULATOR_MISSING = "simulator-missing", "No simulator with the ticket's digest is installed."
    SIMULATOR_UNUSABLE = "simulator-unusable", "The simulator breaks the module interface."
    ATTEMPTS_EXHAUSTED = "attempts-exhausted", "Verification failed too often to be tried again."


class Severity(StrEnum):
    """What a finding asks for: nothing but a record, a moderator, or a rejection."""

    NOTE = "note"
    FLAG = "flag"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicious fact from one validator, with the evidence for it."""

    reason: Reason
    severity: Severity
    value: float
    expected: str
    sample_size: int = 0

    def as_dict(self) -> dict[str, object]:
        """The finding as it is stored in the ledger and shown to moderators."""
        return {
            "reason": self.reason.value,
            "severity": self.severity.value,
            "value": self.value,
            "expected": self.expected,
            "sample_size": self.sample_size,
        }


@dataclass(frozen=True, slots=True)
class Claim:
    """What the client says the run gave. Score in the board's scaled integer, time in ticks."""

    score: int
    ticks: int
    stats: Mapping[str, int] = field(default_factory=dict)


class VerdictKind(StrEnum):
    """What re-simulation can say. A fault of ours is never a cheat verdict."""

    VERIFIED = "verified"
    MISMATCH = "mismatch"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one re-simulation.

    `first_divergent_tick` is the first checkpoint tick at which claim and replay part, where checkpoints allow it.
    `detail` holds numbers for moderators (simulated score, fuel); it never holds text from the simulated module.
    """

    kind: VerdictKind
    reason: Reason
    simulator: str
    engine: str
    first_divergent_tick: int | None = None
    detail: Mapping[str, int] = field(default_factory=dict)
