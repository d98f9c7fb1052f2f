"""What differs between two policies of a board, and what it takes for each difference to have its effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from policies.errors import PolicyError
from policies.loader import Board
from policies.model import TieBreak


class Effect(StrEnum):
    """What it takes. Sorted by how much it is."""

    AT_ONCE = "takes effect at once"
    RESTART = "needs a restart of all parts"
    REBUILD = "needs a restart of all parts, then `scoregate board rebuild`"
    REFOLD = "needs a restart of all parts, then `scoregate board refold`"


NOT_AT_ONCE: Final[Mapping[str, Effect]] = {
    "board": Effect.RESTART,
    "order": Effect.REFOLD,
    "operator": Effect.REFOLD,
    "tie_break": Effect.REFOLD,
    "tie_fields": Effect.REFOLD,
    "tie_resolution_ms": Effect.REFOLD,
    "windows": Effect.REFOLD,
    "time_zone": Effect.REFOLD,
    "season": Effect.REFOLD,
    "joins": Effect.REFOLD,
    "decimals": Effect.RESTART,
    "ranks": Effect.REBUILD,
    "segments": Effect.REBUILD,
    "shards": Effect.REBUILD,
    "ranges": Effect.REBUILD,
    "exact_ranks": Effect.REBUILD,
    "cold_after_h": Effect.RESTART,
    "staleness_s": Effect.RESTART,
}
"""Settings that the shape of the index, the ledger's standings or a running part's wiring depend on; any other is read
anew by each request and each job."""


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A setting that differs: its dotted name, both values (None: not set), and what it takes."""

    name: str
    old: Any
    new: Any
    effect: Effect

    @property
    def section(self) -> str:
        """The outermost part of the name."""
        return self.name.partition(".")[0]


def changes_between(old: Board, new: Board) -> list[PolicyChange]:
    """Every setting that differs, in the order of the model; the bytes of a simulator count as a setting."""
    before, after = dict(_settings(old)), dict(_settings(new))
    is_packed = TieBreak.COMPOSITE in {old.policy.tie_break, new.policy.tie_break}
    return [
        PolicyChange(name, before.get(name), after.get(name), _effect(name, is_packed=is_packed))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def refuse_restart(old: Mapping[str, Board], new: Mapping[str, Board]) -> None:
    """Raises PolicyError, naming each board and setting, if a running part cannot go from one folder to the other.

    It can take boards that are new. One that is gone would leave its runs, its moderators and who follows it in the air.
    """
    faults = [f"board '{name}' is gone" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        faults += [
            f"board '{name}': {each.name} was {shown(each.old)} and is now {shown(each.new)}"
            for each in changes_between(old[name], new[name])
            if each.effect is not Effect.AT_ONCE
        ]
    if faults:
        raise PolicyError("needs a restart: " + "; ".join(faults))


def shown(value: Any) -> str:
    """A value as a policy file has it, in one line."""
    if value is None:
        return "not set"
    if isinstance(value, list):
        return f"[{', '.join(shown(each) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {shown(each)}' for name, each in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _effect(name: str, *, is_packed: bool) -> Effect:
    if is_packed and name in {"score.minimum", "score.maximum"}:
        return Effect.REFOLD  # a composite board packs scores by its bounds
    return NOT_AT_ONCE.get(name.partition(".")[0], Effect.AT_ONCE)


def _settings(board: Board) -> Iterator[tuple[str, Any]]:
    """Every setting with its dotted name."""
    yield from _flat(board.policy.model_dump(mode="json"), "")
    for build, simulator in board.simulators.items():
        yield f"builds.{build}.simulator (content)", simulator.digest


def _flat(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
