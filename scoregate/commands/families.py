"""`scoregate family`: the families of boards that the policies describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import typer

from scoregate.commands.common import DataDir, deployment_of
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from policies.family import Family

COLUMNS: Final = ("family", "title", "opened_by", "schedule", "declared", "filters", "rollups")

app = typer.Typer(no_args_is_help=True)


@app.callback()
def families() -> None:
    """Take the word that follows for a command, though there is only one."""


@app.command("list")
def family_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the families: who opens their boards, which the policy declares, and by what they are listed."""
    from policies.loader import load_policies

    described = load_policies(deployment_of(data_dir).policies_dir).families
    show(map(_facts, (described[name] for name in sorted(described))), COLUMNS, as_json=as_json)


def _facts(family: Family) -> Mapping[str, object]:
    """Return a family for tables and programs."""
    policy = family.policy
    return {
        "family": family.name,
        "title": policy.title,
        "opened_by": policy.opened_by.value,
        "schedule": policy.schedule.value if policy.schedule else None,
        "declared": list(policy.boards),
        "filters": [f"{name}:{kind.value}" for name, kind in policy.metadata_filters.items()],
        "rollups": [rollup.name for rollup in family.rollups],
        "digest": family.digest,
    }
