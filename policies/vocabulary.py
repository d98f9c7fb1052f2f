"""The words that all rooms share: states, reasons, findings, verdicts.

Nothing here computes a judgement. The ledger stores these values, so a member's value never changes once
released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

SCORE_LIMIT = 2**53 - 1
"""Largest magnitude of a score. Up to here an IEEE double, as in a Redis ZSET, is exact (IEEE 754, §3.4)."""

LATEST_MS = 253_402_300_799_999
"""The last moment that RFC 3339 can write, 9999-12-31T23:59:59.999Z, in Unix milliseconds."""


class State(StrEnum):
    """The state of a submission. Every change is an event in the ledger."""

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
    State.PROMOTED: frozenset({State.PROMOTED, State.HELD, State.REJECTED, State.REVOKED}),
    State.REVOKED: frozenset({State.PROMOTED}),
    State.REJECTED: frozenset({State.HELD, State.PROMOTED}),
    State.SUPERSEDED: frozenset(),
}
"""The only allowed changes of state, had nobody been banned.

Only undoing a granted appeal rejects what is promoted. What would be promoted is revoked while its player is
banned, and becomes then what it could become if it was promoted.
"""


class Reason(StrEnum):
    """Why something was decided or suspected. Moderators read the text of each member."""

    def __new__(cls, value: str, meaning: str = "", player_class: str = "review") -> Self:
        """Create a member from its name, its meaning for moderators, and the coarse class for its player."""
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
        "It counts without a replay: it changes little, and the board verifies only a share of such runs.",
        "none",
    )
    NOT_VERIFIED = (
        "not-verified",
        "It changes no standing, and the board verifies only a share of such runs.",
        "none",
    )
    TRUSTED = "trusted", "A registered game server wrote it.", "none"
    ROLLED_UP = "rolled-up", "A standing on a board of the family changed.", "none"
    APPROVED = "approved", "A moderator approved it.", "none"
    REJECTED_BY_MODERATOR = "rejected-by-moderator", "A moderator rejected it.", "moderation"
    REVOKED_BY_MODERATOR = "revoked-by-moderator", "A moderator took it back.", "moderation"
    REINSTATED = "reinstated", "A moderator let it count again.", "none"
    HELD_BY_MODERATOR = "held-by-moderator", "A moderator holds it for a closer look."
    QUESTION_ASKED = "question-asked", "A moderator asked its player a question."
    QUESTION_ANSWERED = "question-answered", "Its player answered a moderator's question."
    APPROVED_ONCE = "approved-once", "A moderator approved it, and a second one has to."
    APPROVAL_DECLINED = (
        "approval-declined",
        "One moderator approved it, and another did not: it stays as it is.",
        "moderation",
    )
    CHECK_ANSWERED = (
        "check-answered",
        "A moderator decided on it once more, as a check; that changed nothing.",
        "none",
    )
    APPEALED = "appealed", "Its player appealed against the decision.", "moderation"
    APPEAL_DENIED = (
        "appeal-denied",
        "A moderator looked at the appeal, and the decision stands.",
        "moderation",
    )
    APPEAL_GRANTED = "appeal-granted", "A moderator looked at the appeal and let it count.", "none"
    REMOVED_BY_SERVER = "removed-by-server", "A registered game server took it back.", "moderation"
    CORRECTED = "corrected", "A registered game server replaced it with another score.", "none"
    BANNED = "banned", "Its player is banned: it would count otherwise.", "moderation"
    UNBANNED = "unbanned", "A ban of the player was lifted, or has ended.", "none"
    RENAMED = "renamed", "A moderator gave the player another name.", "none"
    NAME_CHOSEN = "name-chosen", "The player chose another name.", "none"
    RENAME_UNDONE = "rename-undone", "The player has the name of before again.", "none"
    IDENTITY_LINKED = "identity-linked", "The player can sign in by another identity.", "none"
    IDENTITY_UNLINKED = "identity-unlinked", "The player no longer signs in by an identity.", "none"
    RECOVERY_CODE_MADE = (
        "recovery-code-made",
        "The player was given a recovery code, and the one of before is void.",
        "none",
    )
    TOKENS_ENDED = "tokens-ended", "Every token of the player that was issued before is over.", "none"
    MERGED = "merged", "Its player was merged into another, for whom it counts.", "none"
    UNMERGED = "unmerged", "A merge was undone: it counts for who played it again.", "none"
    ERASED = "erased", "The data of the player was erased.", "none"
    KEY_COMPROMISED = "key-compromised", "The key of the game server that wrote it was compromised."
    REVERIFIED_OTHERWISE = (
        "reverified-otherwise",
        "Under a changed simulator the recording no longer gives the claimed result.",
        "replay",
    )
    REVERIFICATION_UNDONE = "reverification-undone", "The batch that revoked it was undone.", "none"
    REVIEW_REQUIRED = "review-required", "The board accepts runs without a replay only through a moderator."

    MODERATOR_ADDED = "moderator-added", "The account of a moderator was added.", "none"
    MODERATOR_CHANGED = "moderator-changed", "A moderator's roles, or own players, were changed.", "none"
    MODERATOR_DISABLED = "moderator-disabled", "The account of a moderator was disabled.", "none"
    MODERATOR_ENABLED = "moderator-enabled", "The account of a moderator was enabled again.", "none"
    MODERATOR_INVITED = "moderator-invited", "A moderator was invited to set a password.", "none"
    PASSWORD_SET = "password-set", "A moderator set a password.", "none"
    IDENTITY_SET = "identity-set", "A moderator logs in through the identity provider from now on.", "none"
    SECOND_FACTOR_ADDED = "second-factor-added", "A moderator's logins take a code now.", "none"
    SECOND_FACTOR_REMOVED = "second-factor-removed", "A moderator's logins take no code any more.", "none"
    SESSIONS_ENDED = "sessions-ended", "Sessions of a moderator were ended.", "none"
    TOKEN_ISSUED = "token-issued", "A moderator was given a token for programs.", "none"
    TOKEN_REVOKED = "token-revoked", "A token of a moderator was revoked.", "none"

    BUILD_BLOCKED = "build-blocked", "The build of the game is blocked on this board."
    BUILD_PROVISIONAL = (
        "build-provisional",
        "The build of the game is provisional: a moderator decides on its verified runs.",
    )

    SCORE_BOUNDS = "score-bounds", "The board's bounds rule out this score.", "implausible"
    STATS_BOUNDS = "stats-bounds", "The board's bounds rule out this statistic.", "implausible"
    STATS_NAMES = "stats-names", "A statistic is missing or unknown to the board.", "implausible"
    RULE_BROKEN = "rule-broken", "The claim breaks a rule of the board.", "implausible"
    RULE_FAILED = "rule-failed", "A rule of the board could not be evaluated for the claim."
    VELOCITY_POINTS = "velocity-points", "More points per second than the game can give.", "implausible"
    VELOCITY_TIME = (
        "velocity-time",
        "The run lasted longer than the time since its ticket.",
        "implausible",
    )
    SLOW_MOTION = "slow-motion", "The run was open for much longer than its play lasted."
    LATE = "late", "The run was submitted long after it could have ended."
    LIMITS_PROBED = "limits-probed", "The player was limited because too many of their claims were refused."
    RUNS_ABANDONED = "runs-abandoned", "The player opens many runs and submits few of them."
    ANOMALY_PLAYER = "anomaly-player", "Far outside the player's own promoted history."
    ANOMALY_POPULATION = (
        "anomaly-population",
        "The player's best so far, and far outside what the board's players reach.",
    )
    ANOMALY_RECORD = "anomaly-record", "A newcomer's score beats every promoted score of the board."
    DRIFT = "drift", "The player's bests have climbed far from where they began, in small steps."
    PROGRESS = "progress", "The player's best is beaten by more than the player has ever gained at once."
    PLUGIN = "plugin", "One of the studio's own validators found something; the code says what."
    PLUGIN_FAILED = (
        "plugin-failed",
        "One of the studio's own validators failed, which is not the player's fault.",
    )
    RECORDING_REUSED = "recording-reused", "Another submission on the board has the same recording."
    RECORDING_SIMILAR = "recording-similar", "Another recording on the board has nearly the same inputs."
    INPUTS_EVEN = "inputs-even", "Presses last, or follow each other, more evenly than hands can manage."
    INPUTS_PERIODIC = "inputs-periodic", "Presses keep to a beat that is neither a hand's nor a device's."
    INPUTS_FRAME_PERFECT = "inputs-frame-perfect", "Too many presses are shorter than a finger's shortest."
    INPUTS_DENSE = "inputs-dense", "More presses in a second of play than hands can manage."
    INPUTS_SLOWED = (
        "inputs-slowed",
        "Dense inputs in a run that took much longer than its play: slow motion.",
    )

    RECORDING_MALFORMED = "recording-malformed", "The recording is not in a readable format.", "replay"
    RECORDING_MISSING = (
        "recording-missing",
        "The board verifies replays, and the claim came without a recording.",
        "replay",
    )
    RECORDING_NOT_REVEALED = (
        "recording-not-revealed",
        "The claim had only its recording's digest, and the requested recording did not come in time.",
        "replay",
    )
    SCORE_MISMATCH = "score-mismatch", "The replay gives a different score from the claim.", "replay"
    TICKS_MISMATCH = "ticks-mismatch", "The replay ends at a different tick from the claim.", "replay"
    STATS_MISMATCH = "stats-mismatch", "The replay gives different statistics from the claim.", "replay"
    NOT_OVER = "not-over", "The recording stops before the run is over.", "replay"
    DIVERGED = "diverged", "A checkpoint of the recording differs from the replay.", "replay"

    RECORD_UNREADABLE = (
        "record-unreadable",
        "The submission's row in our ledger can no longer be read, which is not the player's fault.",
    )
    RECORDING_LOST = (
        "recording-lost",
        "The recording that we stored is missing or damaged, which is not the player's fault.",
    )
    ASSET_LOST = (
        "asset-lost",
        "The stored asset of the run's board is missing or damaged, which is not the player's fault.",
    )
    BOARD_REPLACED = (
        "board-replaced",
        "The board has been opened anew with other content since the run, which is not the player's fault.",
    )
    OUT_OF_FUEL = "out-of-fuel", "The simulator used up its fuel."
    TIMED_OUT = "timed-out", "The simulator was stopped at its wall-clock limit."
    OUT_OF_MEMORY = "out-of-memory", "The simulator asked for more memory than its limit."
    SIMULATOR_TRAPPED = "simulator-trapped", "The simulator crashed."
    SIMULATOR_MISSING = "simulator-missing", "No simulator with the ticket's digest is installed."
    SIMULATOR_UNUSABLE = "simulator-unusable", "The simulator breaks its interface."
    ATTEMPTS_EXHAUSTED = "attempts-exhausted", "Verification failed too often to be tried again."


REMARKS: Mapping[Reason, frozenset[State]] = {
    Reason.QUESTION_ASKED: frozenset({State.HELD}),
    Reason.QUESTION_ANSWERED: frozenset({State.HELD}),
    Reason.APPROVED_ONCE: frozenset({State.HELD, State.REJECTED, State.REVOKED}),
    Reason.APPROVAL_DECLINED: frozenset({State.REVOKED}),
    Reason.APPEALED: frozenset({State.REJECTED, State.REVOKED}),
    Reason.APPEAL_DENIED: frozenset({State.REJECTED, State.REVOKED}),
    Reason.MERGED: frozenset(State),
    Reason.UNMERGED: frozenset(State),
}
"""Reasons of events that change neither state nor reason of a submission, and the states that take them."""


class Mode(StrEnum):
    """A board's use of a validator's findings."""

    OFF = "off"
    SHADOW = "shadow"
    FLAG = "flag"
    REJECT = "reject"


class Severity(StrEnum):
    """The consequence of a finding: only a record, a moderator's decision, or a rejection."""

    NOTE = "note"
    FLAG = "flag"
    REJECT = "reject"


SEVERITIES: Mapping[Mode, Severity] = {
    Mode.SHADOW: Severity.NOTE,
    Mode.FLAG: Severity.FLAG,
    Mode.REJECT: Severity.REJECT,
}
"""The severity of findings under each mode. Under `off` there are none."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The range of values that is not suspicious, with its unit; an end is None if it is open."""

    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        """Return the range as a moderator reads it: `at most 1000 points per second`."""
        ends = [
            f"{word} {end:.{15 if float(end).is_integer() else 6}g}"
            for word, end in (("at least", self.at_least), ("at most", self.at_most))
            if end is not None
        ]
        return " ".join([" and ".join(ends) or "anything else", self.unit]).rstrip()


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicious fact from one validator, with its evidence.

    A validator reports the fact; the judge adds severity, validator and policy digest. `detail` holds further
    numbers by name. `code` specifies what the reason leaves open: the statistic, the rule, or what a studio's
    own validator found. `others` are ids of other submissions that the fact involves.
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
        """Return the finding as the ledger stores it and moderators see it. Fields are only ever added."""
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
    """The client's claim about a run. The score is the board's scaled integer, time is in ticks."""

    score: int
    ticks: int
    stats: Mapping[str, int] = field(default_factory=dict)


class VerdictKind(StrEnum):
    """The result of a re-simulation. A fault of ours is never a verdict of cheating."""

    VERIFIED = "verified"
    MISMATCH = "mismatch"
    INCONCLUSIVE = "inconclusive"


class SimulatorKind(StrEnum):
    """The kind of a build's simulator: a WebAssembly module, a headless program, or a Python file."""

    WASM = "wasm"
    PROCESS = "process"
    PLUGIN = "plugin"


class InputRun(NamedTuple):
    """A stretch of ticks with the same input word. A run's first tick is 1."""

    tick: int
    ticks: int
    word: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """The divergence of claim and replay: after `after_tick`, and no later than the checkpoint `at_tick`.

    `claimed` and `simulated` are the 64-bit state hashes after `at_tick`; `inputs` are the inputs around it.
    """

    after_tick: int
    at_tick: int
    claimed: int
    simulated: int
    inputs: tuple[InputRun, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the divergence as the ledger stores it and moderators see it, hashes in 16 hex digits."""
        return {
            "after_tick": self.after_tick,
            "at_tick": self.at_tick,
            "claimed": f"{self.claimed:016x}",
            "simulated": f"{self.simulated:016x}",
            "inputs": [list(run) for run in self.inputs],
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one re-simulation.

    `detail` holds numbers for moderators (simulated score, fuel). `said` holds a few lines of a failed
    simulator's own output for moderators and logs; it decides nothing. `simulated` is what a later simulation
    of the run is compared with (`replay.fingerprint`).
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
        """Return the tick of the first checkpoint that differs, if checkpoints show one."""
        return None if self.divergence is None else self.divergence.at_tick
