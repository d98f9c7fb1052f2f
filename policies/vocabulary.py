"""The words every room shares: states, reasons, findings, verdicts. One word per thing.

Nothing here computes a judgement; these are the values that judgements are written in, and they are what the ledger
stores, so a member's value never changes once released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

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
    State.PROMOTED: frozenset({State.PROMOTED, State.REVOKED}),
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
    SAMPLED = (
        "sampled",
        "It counts without a replay: it changes little, and of such runs the board verifies a share.",
        "none",
    )
    NOT_VERIFIED = (
        "not-verified",
        "It changes no standing, and of such runs the board verifies a share.",
        "none",
    )
    TRUSTED = "trusted", "A registered game server wrote it.", "none"
    APPROVED = "approved", "A moderator approved it.", "none"
    REJECTED_BY_MODERATOR = "rejected-by-moderator", "A moderator rejected it.", "moderation"
    REVOKED_BY_MODERATOR = "revoked-by-moderator", "A moderator took it back.", "moderation"
    REINSTATED = "reinstated", "A moderator let it count again.", "none"
    REMOVED_BY_SERVER = "removed-by-server", "A registered game server took it back.", "moderation"
    CORRECTED = "corrected", "A registered game server put another score in its place.", "none"
    KEY_COMPROMISED = "key-compromised", "The key of the game server that wrote it was in wrong hands."
    REVERIFIED_OTHERWISE = (
        "reverified-otherwise",
        "Played again by a changed simulator, the recording no longer gives the claimed result.",
        "replay",
    )
    REVERIFICATION_UNDONE = "reverification-undone", "The batch that had revoked it was undone.", "none"
    REVIEW_REQUIRED = "review-required", "The board takes runs without a replay only through a moderator."

    BUILD_BLOCKED = "build-blocked", "The build of the game is blocked on this board."
    BUILD_PROVISIONAL = (
        "build-provisional",
        "The build of the game is provisional: a moderator decides on its verified runs.",
    )

    SCORE_BOUNDS = "score-bounds", "A score that the board says there cannot be.", "implausible"
    STATS_BOUNDS = "stats-bounds", "A statistic that the board says there cannot be.", "implausible"
    STATS_NAMES = "stats-names", "A statistic is missing, or none that the board knows.", "implausible"
    RULE_BROKEN = "rule-broken", "A rule of the board is not true of the claim.", "implausible"
    RULE_FAILED = "rule-failed", "A rule of the board has no answer for the claim."
    VELOCITY_POINTS = "velocity-points", "More points per second than the game can give.", "implausible"
    VELOCITY_TIME = (
        "velocity-time",
        "More ticks were played than time has passed since the ticket.",
        "implausible",
    )
    SLOW_MOTION = "slow-motion", "The run was open for much longer than it was played."
    LATE = "late", "The run was submitted long after it can have ended."
    LIMITS_PROBED = "limits-probed", "So many claims of the player were refused that the player was limited."
    RUNS_ABANDONED = "runs-abandoned", "The player opens many runs and submits few of them."
    ANOMALY_PLAYER = "anomaly-player", "Far outside the player's own promoted history."
    ANOMALY_POPULATION = (
        "anomaly-population",
        "New to the player, and far outside what the board's players reach.",
    )
    ANOMALY_RECORD = "anomaly-record", "A newcomer's score is better than every promoted one of the board."
    DRIFT = "drift", "The player's bests have climbed far from where they began, step by step."
    PROGRESS = "progress", "The player's best is beaten by more than the player ever gained at once."
    PLUGIN = "plugin", "A validator of the studio's own found something, which its code names."
    PLUGIN_FAILED = "plugin-failed", "A validator of the studio's own failed: a fault of ours."
    RECORDING_REUSED = "recording-reused", "Another submission on the board has the very same recording."
    RECORDING_SIMILAR = "recording-similar", "Another recording on the board has nearly the same inputs."
    INPUTS_EVEN = "inputs-even", "Presses last, or follow each other, more evenly than hands can."
    INPUTS_PERIODIC = "inputs-periodic", "Presses keep to a beat that is neither a hand's nor a device's."
    INPUTS_FRAME_PERFECT = "inputs-frame-perfect", "Too many presses are shorter than a finger's."
    INPUTS_DENSE = "inputs-dense", "More presses in a second of play than hands can give."
    INPUTS_SLOWED = (
        "inputs-slowed",
        "Dense inputs in a run that took much longer than it lasted: slow motion.",
    )

    RECORDING_MALFORMED = "recording-malformed", "The recording is not a recording.", "replay"
    RECORDING_MISSING = (
        "recording-missing",
        "The board verifies replays and the claim came without one.",
        "replay",
    )
    RECORDING_NOT_REVEALED = (
        "recording-not-revealed",
        "The recording whose digest came with the claim was asked for, and did not come in time.",
        "replay",
    )
    SCORE_MISMATCH = "score-mismatch", "The replay gives another score than the claim.", "replay"
    TICKS_MISMATCH = "ticks-mismatch", "The replay ends at another tick than the claim.", "replay"
    STATS_MISMATCH = "stats-mismatch", "The replay gives other statistics than the claim.", "replay"
    NOT_OVER = "not-over", "The recording stops before the run is over.", "replay"
    DIVERGED = "diverged", "A checkpoint of the recording differs from the replay.", "replay"

    RECORD_UNREADABLE = (
        "record-unreadable",
        "What our ledger keeps of the submission cannot be read any more: a fault of ours.",
    )
    RECORDING_LOST = "recording-lost", "The recording that we stored is missing or damaged: a fault of ours."
    OUT_OF_FUEL = "out-of-fuel", "The simulator used up its fuel."
    TIMED_OUT = "timed-out", "The simulator was stopped at its wall-clock limit."
    OUT_OF_MEMORY = "out-of-memory", "The simulator asked for more memory than it may have."
    SIMULATOR_TRAPPED = "simulator-trapped", "The simulator crashed."
    SIMULATOR_MISSING = "simulator-missing", "No simulator with the ticket's digest is installed."
    SIMULATOR_UNUSABLE = "simulator-unusable", "The simulator breaks its interface."
    ATTEMPTS_EXHAUSTED = "attempts-exhausted", "Verification failed too often to be tried again."


class Mode(StrEnum):
    """What a board makes of what one validator finds."""

    OFF = "off"
    SHADOW = "shadow"
    FLAG = "flag"
    REJECT = "reject"


class Severity(StrEnum):
    """What a finding asks for: nothing but a record, a moderator, or a rejection."""

    NOTE = "note"
    FLAG = "flag"
    REJECT = "reject"


SEVERITIES: Mapping[Mode, Severity] = {
    Mode.SHADOW: Severity.NOTE,
    Mode.FLAG: Severity.FLAG,
    Mode.REJECT: Severity.REJECT,
}
"""What findings ask for under each mode; under `off` there are none."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The range of values that would not have been found, in a unit; None where it has no end."""

    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        """As a moderator reads it: `at most 1000 points per second`."""
        ends = [
            f"{word} {end:g}"
            for word, end in (("at least", self.at_least), ("at most", self.at_most))
            if end is not None
        ]
        return " ".join([" and ".join(ends) or "anything else", self.unit]).rstrip()


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicious fact from one validator, with the evidence for it.

    A validator says what it found; the judge adds what the board makes of it, the validator's name, and the digest of
    the policy. `detail` holds further numbers, by name. `code` says what the reason leaves open: which statistic, which
    rule, or what a validator of the studio's own found. `others` are ids of other submissions that it is about.
    """

    reason: Reason
    value: float
    expected: Expected
    sample_size: int = 0
    detail: Mapping[str, float] = field(default_factory=dict)
    severity: Severity = Severity.NOTE
    validator: str = ""
    policy: str = ""
    code: str = ""
    others: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The finding as it is stored in the ledger and shown to moderators. The schema is stable: fields are only added."""
        return {
            "validator": self.validator,
            "reason": self.reason.value,
            "severity": self.severity.value,
            "value": self.value,
            "expected": {
                "at_least": self.expected.at_least,
                "at_most": self.expected.at_most,
                "unit": self.expected.unit,
            },
            "sample_size": self.sample_size,
            "detail": dict(self.detail),
            "policy": self.policy,
            "code": self.code,
            "others": list(self.others),
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


class SimulatorKind(StrEnum):
    """What a build's simulator is: a WebAssembly module, a headless program, or a Python file."""

    WASM = "wasm"
    PROCESS = "process"
    PLUGIN = "plugin"


class InputRun(NamedTuple):
    """A stretch of ticks, the first of a run being 1, with the same input word."""

    tick: int
    ticks: int
    word: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where claim and replay part: after `after_tick`, up to which they agree, and not after `at_tick`, a checkpoint.

    `claimed` and `simulated` are the 64-bit state hashes after `at_tick`; `inputs` is what was pressed around it.
    """

    after_tick: int
    at_tick: int
    claimed: int
    simulated: int
    inputs: tuple[InputRun, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The divergence as it is stored in the ledger and shown to moderators: hashes as 16 hex digits."""
        return {
            "after_tick": self.after_tick,
            "at_tick": self.at_tick,
            "claimed": f"{self.claimed:016x}",
            "simulated": f"{self.simulated:016x}",
            "inputs": [list(run) for run in self.inputs],
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one re-simulation.

    `detail` holds numbers for moderators (simulated score, fuel). `said` are the simulator's own words where it failed,
    a few lines for moderators and logs, which decide nothing.
    `simulated` is what a later simulation of the run is compared with (`replay.fingerprint`).
    """

    kind: VerdictKind
    reason: Reason
    simulator: str
    engine: str
    divergence: Divergence | None = None
    detail: Mapping[str, int] = field(default_factory=dict)
    simulated: Mapping[str, object] = field(default_factory=dict)
    said: str = ""

    @property
    def first_divergent_tick(self) -> int | None:
        """The tick of the first checkpoint at which claim and replay part, where checkpoints allow it."""
        return None if self.divergence is None else self.divergence.at_tick
