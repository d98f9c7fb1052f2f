"""`scoregate reload`: have the parts on this machine read their policies again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from scoregate.commands.common import WHERE, DataDir, fail, settings_of
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.deployment.reload_answers import PartReload


def reload(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Have the parts that run on this machine over this data directory read their policies again.

    Return once all of them have. Status 1 if one refused the files, or did not answer.
    """
    from gateway.deployment.reload_answers import ReloadOutcome, differing, reload_parts

    settings = settings_of(data_dir)
    reloads = reload_parts(settings.data_dir)
    if not reloads:
        fail(f"no part of the deployment in {settings.data_dir.resolve()} runs on this machine{WHERE}")
    show(map(_row, reloads), ("part", "pid", "outcome"), as_json=as_json)
    if not as_json:
        _say_what_changed(reloads)
    troubles = list(_troubles(reloads))
    if differing(reloads):
        troubles.append("the parts go by different policies: do all have the same SCOREGATE_POLICIES_DIR?")
    if troubles:
        fail("\n".join(troubles), status=1)
    if elsewhere := sum(each.outcome is ReloadOutcome.ELSEWHERE for each in reloads):
        fail(f"{elsewhere} more run in other containers and were not reached: reload them there")


def _row(reload: PartReload) -> dict[str, object]:
    answer = reload.answer
    return {
        "part": reload.part.part,
        "pid": reload.part.pid or None,
        "outcome": reload.outcome.value,
        "policies": answer and answer.policies,
        "changed": answer.changed if answer else (),
        "refusal": answer and answer.refusal,
    }


def _say_what_changed(reloads: Sequence[PartReload]) -> None:
    from gateway.deployment.reload_answers import ReloadOutcome

    answers = [each.answer for each in reloads if each.outcome is ReloadOutcome.RELOADED]
    if answers:
        names = sorted({name for answer in answers if answer for name in answer.changed})
        typer.echo(f"changed: {', '.join(names)}" if names else "no policy has changed")


def _troubles(reloads: Sequence[PartReload]) -> Sequence[str]:
    """Return a sentence for each trouble, with the parts that have it."""
    from gateway.deployment.reload_answers import WAIT_S, ReloadOutcome

    parts: dict[str, list[str]] = defaultdict(list)
    for each in reloads:
        match each.outcome:
            case ReloadOutcome.REFUSED:
                assert each.answer is not None
                trouble = f"refused the files and kept the old policies:\n{each.answer.refusal}"
            case ReloadOutcome.SILENT:
                trouble = f"did not answer within {WAIT_S:g} s; a busy worker reloads after its current job"
            case ReloadOutcome.ENDED:
                trouble = "ended before it answered; whoever starts it again starts it with the new files"
            case _:
                continue
        parts[trouble].append(f"{each.part.part} {each.part.pid}")
    return [f"{', '.join(names)}: {trouble}" for trouble, names in parts.items()]
