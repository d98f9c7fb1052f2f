"""The parts of a deployment that run: those of this machine by their files, those of others by what the index has heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.deployment.presence import PartReport, own_host, parts_there
from gateway.deployment.run_files import RunningPart, running_parts
from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from policies.errors import IndexUnavailable


@dataclass(frozen=True, slots=True)
class Found:
    """A row for each part, and a sentence on what is amiss; None if nothing is."""

    rows: Sequence[Mapping[str, object]]
    trouble: str | None


async def parts_of(settings: Settings) -> Found:
    """The parts of the deployment of these settings. Raises OSError if its folder cannot be read."""
    here = running_parts(settings.data_dir)
    heard, trouble = await _heard(settings)
    said = {(part.host, part.pid): part for part in heard}
    rows = [_row_here(each, said.pop((own_host(), each.pid), None)) for each in here]
    rows += [_row(part) for part in said.values()]
    if len({part.policies for part in heard}) > 1:
        trouble = "the parts go by different policies; see `scoregate reload`"
    if len({part.version for part in heard}) > 1:
        trouble = "the parts are of different versions; restart those of the older"
    return Found(sorted(rows, key=lambda row: (str(row["part"]), str(row["since"]))), trouble)


async def _heard(settings: Settings) -> tuple[list[PartReport], str | None]:
    """What the index has heard; nothing is asked where no index was configured and none has run in the data directory."""
    if "redis_url" not in settings.model_fields_set:
        return [], None
    try:
        return await parts_there(settings), None
    except IndexUnavailable as error:
        return [], f"only this machine's parts are known: {error}"


def _row_here(part: RunningPart, said: PartReport | None) -> Mapping[str, object]:
    return {
        "part": part.part,
        "pid": part.pid or None,
        "host": own_host(),
        "since": rfc3339(part.since_ms),
        "version": said and said.version,
        "policies": said and said.policies,
        "failing": said.failing if said else (),
    }


def _row(part: PartReport) -> Mapping[str, object]:
    facts = {"part": part.kind.value, "pid": part.pid or None, "host": part.host or None}
    facts |= {"since": rfc3339(part.since_ms), "version": part.version or None}
    return {**facts, "policies": part.policies, "failing": part.failing}
