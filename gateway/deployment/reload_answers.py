"""Reloads of all parts on this machine: each part notes what came of its last one, and who asked reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.deployment.presence import digest_of
from gateway.deployment.run_files import PartFile, RunningPart, hang_up, running_parts
from gateway.runtime.reload import PoliciesInForce, Reload

WAIT_S: Final = 30.0
"""Longest wait for the parts' answers. A worker reloads after its current job."""

CHANGED_LIMIT: Final = 100
"""Most changed policies that an answer names."""

REFUSAL_LENGTH: Final = 8_192
"""Longest refusal that an answer has, in characters."""

_LOOK_S: Final = 0.05


class ReloadAnswer(BaseModel):
    """A part's last reading of the policy files, at its start or since.

    `began_ns` is when it began, by the clock that all processes of a machine share. `policies` is the digest
    of those in force after it, `changed` the names of those that it changed, `refusal` why it changed none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    began_ns: int
    policies: str
    changed: tuple[str, ...] = ()
    refusal: str | None = None


class ReloadOutcome(StrEnum):
    """What became of a reload in one part."""

    RELOADED = "reloaded"
    REFUSED = "refused"
    SILENT = "silent"
    """It has not answered in time."""
    ENDED = "ended"
    """It ended before it answered."""
    ELSEWHERE = "elsewhere"
    """It runs in another container, so that no signal reaches it."""


@dataclass(frozen=True, slots=True)
class PartReload:
    """A part, what became of its reload, and its answer, if there is one."""

    part: RunningPart
    outcome: ReloadOutcome
    answer: ReloadAnswer | None = None


def teller(part_file: PartFile, in_force: PoliciesInForce) -> Callable[[Reload], None]:
    """Return the function that notes what came of a reload."""

    def tell(reload: Reload) -> None:
        answer = ReloadAnswer(
            began_ns=reload.began_ns,
            policies=digest_of(in_force.policies.by_name),
            changed=tuple(sorted(reload.changed))[:CHANGED_LIMIT],
            refusal=reload.refusal and reload.refusal[:REFUSAL_LENGTH],
        )
        part_file.put_note(answer.model_dump_json().encode())

    return tell


def last_answer(part: RunningPart) -> ReloadAnswer | None:
    """Return what a part noted of its last reading of the files, None if nothing yet. Raises OSError."""
    note = part.note()
    try:
        return ReloadAnswer.model_validate_json(note) if note else None
    except ValidationError:  # of another version
        return None


def reload_parts(data_dir: Path, *, wait_s: float = WAIT_S) -> list[PartReload]:
    """Have the parts on this machine read their policies again, and wait until each has answered.

    A part that starts meanwhile is waited for too: it may have begun with the old files. Raises OSError.
    """
    asked_ns, deadline_s = time.monotonic_ns(), time.monotonic() + wait_s
    parts = {part.path: PartReload(part, ReloadOutcome.SILENT) for part in running_parts(data_dir)}
    for each in parts.values():
        hang_up(each.part)
    while True:
        living = {part.path: part for part in running_parts(data_dir)}
        waiting = [each.part for each in parts.values() if each.outcome is ReloadOutcome.SILENT]
        waiting += [part for path, part in living.items() if path not in parts]
        for part in waiting:
            parts[part.path] = _looked_at(part, asked_ns, is_alive=part.path in living)
        is_over = all(each.outcome is not ReloadOutcome.SILENT for each in parts.values())
        if is_over or time.monotonic() >= deadline_s:
            return list(parts.values())
        time.sleep(_LOOK_S)


def differing(reloads: Sequence[PartReload]) -> bool:
    """Return whether parts that have reloaded go by different policies."""
    answers = (reload.answer for reload in reloads if reload.outcome is ReloadOutcome.RELOADED)
    return len({answer.policies for answer in answers if answer}) > 1


def _looked_at(part: RunningPart, asked_ns: int, *, is_alive: bool) -> PartReload:
    """Return what has become of a part's reload by now."""
    if not part.pid:
        return PartReload(part, ReloadOutcome.ELSEWHERE)
    if not is_alive:
        return PartReload(part, ReloadOutcome.ENDED)
    answer = last_answer(part)
    # A reading that began before the files were in place may have read the old ones.
    if answer is None or answer.began_ns < asked_ns:
        return PartReload(part, ReloadOutcome.SILENT)
    return PartReload(part, ReloadOutcome.REFUSED if answer.refusal else ReloadOutcome.RELOADED, answer)
