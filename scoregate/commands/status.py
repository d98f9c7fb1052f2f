"""`scoregate status`: list the parts that run.

Files in the data directory know those of this machine; the index has heard from all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from scoregate.commands.common import DataDir, finish, settings_beside
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.deployment.presence import PartReport
    from gateway.deployment.run_files import RunningPart
    from gateway.runtime.settings import Settings


class DeploymentStatus(NamedTuple):
    """A row for each part, and a sentence about what is wrong, or None."""

    rows: Sequence[Mapping[str, object]]
    trouble: str | None


def status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the parts that run: their processes, since when, and their policies. Status 1 if there is none."""
    deployment = finish(_status_of(settings_beside(data_dir)))
    show(deployment.rows, ("part", "pid", "host", "since", "version", "policies", "failing"), as_json=as_json)
    if deployment.trouble:
        typer.echo(deployment.trouble, err=True)
    if not deployment.rows:
        raise typer.Exit(1)


async def _status_of(settings: Settings) -> DeploymentStatus:
    """Return the parts of the deployment of these settings. Raises OSError if its folder cannot be read."""
    from gateway.deployment.presence import own_host
    from gateway.deployment.run_files import running_parts

    local = running_parts(settings.data_dir)
    heard, trouble = await _heard(settings)
    by_process = {(part.host, part.pid): part for part in heard}
    rows = [_local_row(part, by_process.pop((own_host(), part.pid), None)) for part in local]
    rows += [_row(part) for part in by_process.values()]
    if len({part.policies for part in heard}) > 1:
        trouble = "the parts go by different policies; see `scoregate reload`"
    if len({part.version for part in heard}) > 1:
        trouble = "the parts are of different versions; restart the older ones"
    return DeploymentStatus(sorted(rows, key=lambda row: (str(row["part"]), str(row["since"]))), trouble)


async def _heard(settings: Settings) -> tuple[list[PartReport], str | None]:
    """Return the parts that the index has heard from, and what kept it from being asked, or None."""
    from gateway.deployment.presence import parts_there
    from policies.errors import IndexUnavailable

    # The default address may be some other Redis of this machine: only a configured or embedded one is asked.
    if "redis_url" not in settings.model_fields_set:
        return [], None
    try:
        return await parts_there(settings), None
    except IndexUnavailable as error:
        return [], f"only this machine's parts are known: {error}"


def _local_row(part: RunningPart, heard: PartReport | None) -> Mapping[str, object]:
    from gateway.deployment.presence import own_host
    from gateway.runtime.clock import rfc3339

    return {
        "part": part.part,
        "pid": part.pid or None,
        "host": own_host(),
        "since": rfc3339(part.since_ms),
        "version": heard and heard.version,
        "policies": heard and heard.policies,
        "failing": heard.failing if heard else (),
    }


def _row(part: PartReport) -> Mapping[str, object]:
    from gateway.runtime.clock import rfc3339

    return {
        "part": part.kind.value,
        "pid": part.pid or None,
        "host": part.host or None,
        "since": rfc3339(part.since_ms),
        "version": part.version or None,
        "policies": part.policies,
        "failing": part.failing,
    }
