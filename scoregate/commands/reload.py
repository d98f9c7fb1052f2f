"""`scoregate reload`: have the parts on this machine read their policies again."""

from __future__ import annotations

from scoregate.commands.common import DataDir, fail, settings_of
from scoregate.commands.tables import AsJson, show


def reload(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Have the parts that run on this machine over this data directory read their policies again."""
    from gateway.deployment.run_files import hang_up, running_parts

    settings = settings_of(data_dir)
    parts = running_parts(settings.data_dir)
    reached = [part for part in parts if hang_up(part)]
    rows = [{"part": part.part, "pid": part.pid} for part in reached]
    show(rows, ("part", "pid"), as_json=as_json)
    if elsewhere := sum(not part.pid for part in parts):
        fail(f"{elsewhere} more run in other containers and were not reached: reload them there")
    if not reached:
        fail(f"no part of the deployment in {settings.data_dir} runs on this machine")
