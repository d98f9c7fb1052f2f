"""All metrics and log events. Labels come from closed sets, never from players."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any, BinaryIO, Final, cast

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.runtime.lean_structlog import structlog
from gateway.runtime.log_sieve import Sieve, SievedEvents, SievedRecords, shorten_traceback
from policies.errors import printable

REGISTRY = CollectorRegistry()

SUBMISSIONS = Counter(
    "scoregate_submissions",
    "Submissions by outcome: a state, or the problem type they were refused with.",
    ["board", "outcome"],
    registry=REGISTRY,
)
PLUGIN_FAILURES = Counter(
    "scoregate_plugin_failures",
    "Submissions on which a custom validator failed.",
    ["board", "validator"],
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "scoregate_request_seconds",
    "Time to answer a request, by route and status class.",
    ["route", "status"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
SHED = Counter(
    "scoregate_shed",
    "Requests that could not be answered in time: refused on arrival, or before the ledger's commit.",
    ["place"],
    registry=REGISTRY,
)
UNEXPECTED = Counter(
    "scoregate_unexpected",
    "Unexpected failures by place; each has a log event, or is counted in one.",
    ["place"],
    registry=REGISTRY,
)
BOARDS_OPENED = Counter(
    "scoregate_boards_opened",
    "Boards of families that were opened over HTTP, by whom: a server, or a player's first run.",
    ["family", "by"],
    registry=REGISTRY,
)
PROBLEMS = Counter("scoregate_problems", "Refusals by problem type.", ["type"], registry=REGISTRY)
BACKLOG = Gauge(
    "scoregate_verify_backlog", "Submissions waiting for a verdict, by queue.", ["queue"], registry=REGISTRY
)
BACKLOG_AGE = Gauge(
    "scoregate_verify_backlog_age_seconds",
    "Age of the oldest waiting submission.",
    ["queue"],
    registry=REGISTRY,
)
AUDITS = Counter(
    "scoregate_audits",
    "Verified runs that were simulated again: agrees, disagrees, unable.",
    ["board", "outcome"],
    registry=REGISTRY,
)
REVEALS = Counter(
    "scoregate_reveals",
    "Recordings submitted as a digest: requested, revealed, or ended by silence.",
    ["board", "outcome"],
    registry=REGISTRY,
)
RECORDING_FAULTS = Counter(
    "scoregate_recording_faults",
    "Faults of the recording store: unavailable, missing, altered, healed.",
    ["fault"],
    registry=REGISTRY,
)
DISK_FREE = Gauge(
    "scoregate_disk_free_bytes",
    "Free space on the file systems of the ledger and of the recordings.",
    ["place"],
    registry=REGISTRY,
)
RECORDINGS_COLLECTED = Counter(
    "scoregate_recordings_collected",
    "Actions of recording collection: condemned, reprieved, removed, expired.",
    ["action"],
    registry=REGISTRY,
)
UNSEALED = Gauge("scoregate_unsealed_events", "Events that no seal covers yet.", registry=REGISTRY)
UNSEALED_AGE = Gauge("scoregate_unsealed_age_seconds", "Age of the oldest unsealed event.", registry=REGISTRY)
LEDGER_PAGES = Counter(
    "scoregate_ledger_pages",
    "Pages of boards read from the ledger because the index did not have them.",
    ["board"],
    registry=REGISTRY,
)
READS_WAITING = Gauge(
    "scoregate_ledger_reads_waiting",
    "Reads of the ledger that are waiting, by kind.",
    ["kind"],
    registry=REGISTRY,
)
READS_REFUSED = Counter(
    "scoregate_ledger_reads_refused",
    "Reads of the ledger refused because too many of their kind waited, or waited too long.",
    ["kind"],
    registry=REGISTRY,
)
LOGINS = Counter(
    "scoregate_logins",
    "Logins of moderators, and passwords that they show again, by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
INDEX_DIFFERENCES = Counter(
    "scoregate_index_differences",
    "Differences between index and ledger that the steward found and repaired.",
    ["board", "kind"],
    registry=REGISTRY,
)
DUTY_FAILURES = Counter(
    "scoregate_duty_failures",
    "Rounds of a duty of the steward that failed, on a board or as a whole.",
    ["duty", "board"],
    registry=REGISTRY,
)
LEASES_HELD = Gauge(
    "scoregate_leases_held",
    "Leases that this steward has: lane, duty.",
    ["kind"],
    registry=REGISTRY,
)
LEASES_TAKEN_OVER = Counter(
    "scoregate_leases_taken_over",
    "Leases of stewards that died, which this steward found free to take over.",
    registry=REGISTRY,
)
LEASES_LOST = Counter(
    "scoregate_leases_lost",
    "Leases that another steward took from this one: lane, duty.",
    ["kind"],
    registry=REGISTRY,
)
EARLIER_KEYS = Counter(
    "scoregate_earlier_keys_removed",
    "Keys of an earlier version's layout that this steward removed from Redis.",
    registry=REGISTRY,
)
CLOCK_OFFSET = Gauge(
    "scoregate_clock_offset_seconds",
    "Seconds that this machine's clock is ahead of a shared clock: database, redis.",
    ["source"],
    registry=REGISTRY,
)
CLOCK_ERROR = Gauge(
    "scoregate_clock_error_seconds",
    "Possible error of this process' shared time; decisions by time allow for it.",
    registry=REGISTRY,
)
DERIVED_LAG = Gauge(
    "scoregate_derived_lag",
    "Events of the log, or changes of standings, that a consumer has not handled yet.",
    ["consumer"],
    registry=REGISTRY,
)
DERIVED_REBUILDS = Counter(
    "scoregate_derived_rebuilds",
    "Rebuilds of derived data from the ledger.",
    ["consumer"],
    registry=REGISTRY,
)
WEBHOOK_DELIVERIES = Counter(
    "scoregate_webhook_deliveries",
    "Attempts to deliver webhooks: delivered, failed, dead.",
    ["outcome"],
    registry=REGISTRY,
)
UNDELIVERED = Gauge(
    "scoregate_webhook_undelivered",
    "Webhook deliveries that are waiting, and that were given up.",
    ["state"],
    registry=REGISTRY,
)
QUEUES_LATE = Gauge(
    "scoregate_queues_late", "Boards with a case that is older than its target.", registry=REGISTRY
)
LISTENERS = Gauge(
    "scoregate_live_listeners", "Open live feeds: sse, websocket.", ["transport"], registry=REGISTRY
)
LIVE_CHANGES = Counter(
    "scoregate_live_changes",
    "Changes not sent to a slow listener: dropped on disconnection, or coalesced into a newer one.",
    ["fate"],
    registry=REGISTRY,
)
LIVE_RESETS = Counter(
    "scoregate_live_resets", "Listeners that had to read the board again.", registry=REGISTRY
)

CACHED_BOARDS = Gauge(
    "scoregate_cached_boards",
    "Boards that the process has parts of in memory, by cache.",
    ["cache"],
    registry=REGISTRY,
)
CACHED_BOARDS_DROPPED = Counter(
    "scoregate_cached_boards_dropped",
    "Boards that a cache let go of, because it was full or nobody used them.",
    ["cache", "why"],
    registry=REGISTRY,
)
POLICY_RELOADS = Counter(
    "scoregate_policy_reloads",
    "Reloads of the policy files: in_force, refused.",
    ["outcome"],
    registry=REGISTRY,
)
POLICIES_DIFFER = Gauge(
    "scoregate_policies_differ",
    "1 while parts of the deployment use different policies.",
    registry=REGISTRY,
)
POLICY_STALE = Gauge(
    "scoregate_policy_stale",
    "1 while the policy files are not in force because they were refused.",
    registry=REGISTRY,
)


@lru_cache(maxsize=512)
def request_seconds(route: str, status_class: int) -> Histogram:
    """Return the timer of a route's answers of one class (2: 2xx)."""
    # Cached because looking up a label costs more than counting.
    return REQUEST_SECONDS.labels(route, f"{status_class}xx")


def label_of(board: str) -> str:
    """Return what metrics call a board: its family's name if it has one, so that labels stay few."""
    return board.partition(".")[0]


@lru_cache(maxsize=512)
def _submissions(label: str, outcome: str) -> Counter:
    return SUBMISSIONS.labels(label, outcome)


def count_submission(board: str, outcome: str) -> None:
    """Count a submission of a board by its outcome."""
    _submissions(label_of(board), outcome).inc()


class Event:
    """The names of log events. Events carry ids, not objects."""

    SUBMISSION = "submission"
    REFUSED = "refused"
    LOGIN = "login"
    LOGIN_REFUSED = "login_refused"
    SIGN_IN_REFUSED = "sign_in_refused"
    ABNORMAL_USAGE = "abnormal_usage"
    NOT_NOTED = "part_not_noted"
    SETTING_UNKNOWN = "setting_unknown"
    DISK_LOW = "disk_low"
    DISK_ENOUGH = "disk_enough"
    CLAIM_REFUSED = "claim_refused"
    PLUGIN_FAILED = "plugin_failed"
    UNEXPECTED = "unexpected"
    LEDGER_DOWN = "ledger_unavailable"
    INDEX_DOWN = "index_unavailable"
    DUTY_FAILED = "duty_failed"
    LEASES_LOST = "leases_lost"
    STEWARD_DEAD = "steward_dead"
    DECISION = "decision"
    PLAYER_BANNED = "player_banned"
    QUEUE_LATE = "queue_late"
    PLAYER_RENAMED = "player_renamed"
    PLAYERS_MERGED = "players_merged"
    PLAYERS_PARTED = "players_parted"
    IDENTITY_UNLINKED = "identity_unlinked"
    ERASURE_BEGUN = "erasure_begun"
    TOKENS_ENDED = "tokens_ended"
    BAN_LIFTED = "ban_lifted"
    BATCH = "batch"
    VERDICT = "verdict"
    AUDIT_DRAWN = "audit_drawn"
    REVEALS_PUT_OFF = "reveals_put_off"
    SIMULATOR_DISAGREES = "simulator_disagrees"
    SIMULATOR_FAILED = "simulator_failed"
    REBUILT = "index_rebuilt"
    REPAIRED = "index_repaired"
    UPGRADE_BEGUN = "index_upgrade_begun"
    UPGRADE_ENDED = "index_upgrade_ended"
    EVICTED = "board_evicted"
    WARMED = "board_warmed"
    DIFFERENCE = "index_difference"
    RECORDING_FAULT = "recording_fault"
    COLLECTED = "recordings_collected"
    ASSET_STORED = "asset_stored"
    SEALED = "sealed"
    GAP = "gap"
    WINDOW_FROZEN = "window_frozen"
    CHANGES_MISSED = "changes_missed"
    CHANGES_FORGED = "changes_forged"
    WEBHOOK_DISABLED = "webhook_disabled"
    JOB_REFUSED = "job_refused"
    NO_BUBBLEWRAP = "no_bubblewrap"
    POLICY_RELOADED = "policy_reloaded"
    POLICY_REFUSED = "policy_refused"
    POLICIES_DIFFER = "policies_differ"
    BOARD_DIFFERS = "declared_board_differs"
    BOARD_NOT_OPENED = "declared_board_not_opened"
    CLOCK_LEAPT = "clock_leapt"
    METRICS_UNSERVED = "metrics_unserved"
    FORWARDED_UNREAD = "forwarded_unread"
    STARTED = "started"
    DEVELOPMENT_MODE = "development_mode"
    STOPPED = "stopped"


REPEATED: Final = frozenset(
    {
        Event.UNEXPECTED,
        Event.LEDGER_DOWN,
        Event.INDEX_DOWN,
        Event.DUTY_FAILED,
        Event.LEASES_LOST,
        Event.CLAIM_REFUSED,
        Event.PLUGIN_FAILED,
        Event.LOGIN_REFUSED,
        Event.SIGN_IN_REFUSED,
        Event.RECORDING_FAULT,
        Event.CHANGES_MISSED,
        Event.CHANGES_FORGED,
        Event.JOB_REFUSED,
        Event.SIMULATOR_FAILED,
        Event.FORWARDED_UNREAD,
    }
)
"""Events that a fault or a stranger can repeat at will; they are logged a few times a minute at most."""


class _LossyStream:
    """A stream for logs that drops what cannot be written, as on a full disk, so that the caller goes on."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        with suppress(OSError):
            self._stream.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _as_json(line: dict[str, Any], **how: Any) -> bytes:
    """Return a log line as JSON. What UTF-8 cannot encode is escaped: no log line may fail."""
    try:
        return orjson.dumps(line, **how)
    except orjson.JSONEncodeError:
        return orjson.dumps({name: printable(str(value)) for name, value in line.items()})


def configure_logging(level: str) -> None:
    """Write every log line as a JSON object of bounded size to standard error."""
    structlog.configure(
        processors=[
            SievedEvents(REPEATED, Sieve()),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shorten_traceback,
            structlog.processors.JSONRenderer(serializer=_as_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _LossyStream(sys.stderr.buffer))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(SievedRecords(Sieve()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="%(name)s: %(message)s")


def logger() -> Any:
    """Return the structured logger."""
    return structlog.get_logger()
