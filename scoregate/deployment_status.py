"""Gathers the status of a deployment: its parts, and what waits in its ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.deployment.presence import PartKind, PartReport, own_host, parts_there
from gateway.deployment.reload_answers import last_answer
from gateway.deployment.run_files import RunningPart, running_parts
from gateway.index.connection import connect
from gateway.index.earlier_layout import EarlierLayout
from gateway.ledger.leases import LANE_PREFIX, NOBODY, lease_holders
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import SCHEMA_VERSION
from gateway.ledger.seals import chain
from gateway.ledger.sqlite.store import version_at
from gateway.ledger.submissions.waiting import outbox_contents
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger
from policies.errors import IndexUnavailable, LedgerUnavailable
from scoregate.embedded import other_redis, redis_of

if TYPE_CHECKING:
    from gateway.ledger.transaction import Transaction

STARTING_MS: Final = 20_000
"""The age up to which a steward without a lane is starting: it takes its first leases after some seconds."""

LEDGER_S: Final = 5.0
"""Time that the ledger has to answer."""

ONLY_HERE: Final = "only this machine's parts are known"

VERIFY: Final = "verify"
WORDS: Final[Mapping[str, str]] = {
    VERIFY: "verify",
    "project": "show",
    "reveal": "await-recording",
    "audit": "audit",
    "recall": "recall",
}
"""Work by the kinds of the outbox, as it is told to people."""

STATED: Final = (
    "verify-urgent",
    "verify",
    "show",
    "await-recording",
    "seal",
    "lanes-unowned",
    "duties-unowned",
)
"""Work that is listed even if none waits, in this order."""


class DeploymentStatus(NamedTuple):
    """A row for each part, one for each kind of work that waits, and sentences about what is wrong."""

    parts: Sequence[Mapping[str, object]]
    work: Sequence[Mapping[str, object]]
    troubles: Sequence[str]


async def status_of(settings: Settings) -> DeploymentStatus:
    """Return the status of the deployment of these settings. Raises OSError if its folder cannot be read."""
    local = running_parts(settings.data_dir)
    reports, troubles = await _reports(settings, local)
    by_process = {(part.host, part.pid): part for part in reports}
    rows = [_local_row(part, by_process.pop((own_host(), part.pid), None)) for part in local]
    rows += [_row(part) for part in by_process.values()]
    work, more = await _work(settings)
    return DeploymentStatus(
        sorted(rows, key=lambda row: (str(row["part"]), str(row["since"]))),
        work,
        [*troubles, *more, *_differences(rows)],
    )


async def _reports(settings: Settings, local: Sequence[RunningPart]) -> tuple[list[PartReport], list[str]]:
    """Return the parts that the index has heard from, and sentences on what keeps it busy or away."""
    # The default address may be some other Redis of this machine: only a configured or noted one is asked.
    if "redis_url" not in settings.model_fields_set:
        used = redis_of(local)
        why = f"; the parts here use {' and '.join(used)}" if used else ""
        return [], [f"{ONLY_HERE}: SCOREGATE_REDIS_URL is not set here{why}"] if local else []
    troubles = [other] if (other := other_redis(settings, local)) else []
    try:
        return await parts_there(settings), [*troubles, *await _upgrade(settings)]
    except IndexUnavailable as error:
        return [], [*troubles, f"{ONLY_HERE}: {error}"]


async def _upgrade(settings: Settings) -> list[str]:
    """Say how far an upgrade of the index has come, if one is under way. Raises IndexUnavailable."""
    client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    try:
        state = await EarlierLayout(client).state()
    finally:
        await client.aclose()
    if state.is_current or not state.removed:
        return []
    return [f"keys of an earlier version are being removed from Redis: {state.removed} so far"]


def _differences(rows: Sequence[Mapping[str, object]]) -> list[str]:
    troubles = []
    if len({row["policies"] for row in rows if row["policies"]}) > 1:
        troubles.append("the parts go by different policies; see `scoregate reload`")
    if len({row["version"] for row in rows if row["version"]}) > 1:
        troubles.append("the parts are of different versions; restart the older ones")
    return troubles


async def _work(settings: Settings) -> tuple[Sequence[Mapping[str, object]], list[str]]:
    """Return what waits in the ledger, and what kept it from being read."""
    try:
        if (why := _obstacle(settings)) is not None:
            return [], [why] if why else []
        async with asyncio.timeout(LEDGER_S), open_ledger(settings) as ledger:
            return await ledger.read(_work_in, ReadKind.DUTIES), []
    except LedgerUnavailable as error:
        return [], [f"what waits is not known: {error}"]
    except TimeoutError:
        return [], [f"what waits is not known: the ledger did not answer within {LEDGER_S:g} s"]


def _obstacle(settings: Settings) -> str | None:
    """Return why the ledger is not to be read, None if it is, and nothing to say if there is none.

    To open an SQLite ledger is to upgrade it, which a look at running parts of an older version must not do.
    """
    if settings.is_on_postgres:
        return None
    if not settings.ledger_path.exists():
        return ""
    version = version_at(settings.ledger_path)
    if version == SCHEMA_VERSION:
        return None
    return (
        f"what waits is not known: the ledger has schema version {version}, this scoregate {SCHEMA_VERSION}"
    )


async def _work_in(tx: Transaction) -> list[Mapping[str, object]]:
    outbox = await outbox_contents(tx)
    unsealed = await chain.unsealed()(tx)
    rows = {
        _word(row.kind, is_urgent=row.is_urgent): _work_row(row.count, row.since_ms, is_cut=outbox.is_cut)
        for row in outbox.work
    }
    rows["seal"] = _work_row(unsealed.events, unsealed.since_ms)
    unowned = (await lease_holders(tx)).get(NOBODY, ())
    lanes = sum(name.startswith(LANE_PREFIX) for name in unowned)
    rows["lanes-unowned"] = _work_row(lanes, None)
    rows["duties-unowned"] = _work_row(len(unowned) - lanes, None)
    words = [*STATED, *sorted(rows.keys() - set(STATED))]
    return [{"work": word, **rows.get(word, _work_row(0, None, is_cut=outbox.is_cut))} for word in words]


def _word(kind: str, *, is_urgent: bool) -> str:
    word = WORDS.get(kind, kind)
    return f"{word}-urgent" if kind == VERIFY and is_urgent else word


def _work_row(count: int, since_ms: int | None, *, is_cut: bool = False) -> dict[str, object]:
    """Return the columns of some work. With `is_cut` there may be more of it."""
    return {"waiting": count, "or_more": is_cut, "oldest": rfc3339(since_ms) if since_ms else None}


def _local_row(part: RunningPart, report: PartReport | None) -> Mapping[str, object]:
    row = _row(report) if report else _row_of_unreported(part)
    # What a part itself has noted is newer than its report.
    answer = last_answer(part)
    policies = answer.policies if answer else row["policies"]
    return {**row, "since": rfc3339(part.since_ms), "policies": policies}


def _row_of_unreported(part: RunningPart) -> Mapping[str, object]:
    return {
        "part": part.part,
        "pid": part.pid or None,
        "host": own_host(),
        "since": rfc3339(part.since_ms),
        "version": None,
        "policies": None,
        "lanes": None,
        "is_starting": part.part == PartKind.STEWARD and _is_young(part.since_ms),
        "duties": (),
        "failing": (),
    }


def _row(part: PartReport) -> Mapping[str, object]:
    is_steward = part.kind is PartKind.STEWARD
    is_starting = is_steward and not part.lanes and _is_young(part.since_ms)
    return {
        "part": part.kind.value,
        "pid": part.pid or None,
        "host": part.host or None,
        "since": rfc3339(part.since_ms),
        "version": part.version or None,
        "policies": part.policies,
        "lanes": part.lanes if is_steward and not is_starting else None,
        "is_starting": is_starting,
        "duties": part.duties,
        "failing": part.failing,
    }


def _is_young(since_ms: int) -> bool:
    return wall_clock() - since_ms < STARTING_MS
