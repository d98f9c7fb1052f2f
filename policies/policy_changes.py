"""The differences between two policies of a board, and what each needs to take effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from policies.board import Board
from policies.choices import TieBreak
from policies.errors import PolicyError
from policies.family import Family

_WHOLE: Final = 100_000
"""From here on, six places are those of a whole number."""


class Effect(StrEnum):
    """The condition for a change to take effect, the easiest first."""

    AT_ONCE = "takes effect at once"
    RESTART = "needs a restart of all parts"
    REBUILD = "needs a restart of all parts, then `scoregate board rebuild`"
    FOLDED = "needs a restart of all parts; a steward then folds the board anew, and reads of it wait"
    REFOLD = "needs a restart of all parts, then `scoregate board refold`"


NOT_AT_ONCE: Final[Mapping[str, Effect]] = {
    "board": Effect.RESTART,
    "family": Effect.RESTART,
    "order": Effect.FOLDED,
    "operator": Effect.FOLDED,
    "tie_break": Effect.FOLDED,
    "tie_fields": Effect.FOLDED,
    "tie_resolution_ms": Effect.FOLDED,
    "windows": Effect.REFOLD,
    "time_zone": Effect.REFOLD,
    "season": Effect.REFOLD,
    "joins": Effect.REFOLD,
    "rollup": Effect.FOLDED,
    "decimals": Effect.RESTART,
    "ranks": Effect.REBUILD,
    "segments": Effect.REBUILD,
    "shards": Effect.REBUILD,
    "ranges": Effect.REBUILD,
    "exact_ranks": Effect.REBUILD,
    "cold_after_h": Effect.RESTART,
    "staleness_s": Effect.RESTART,
}
"""Settings that shape the index, the ledger's standings or the wiring of a running part. Each request and job
reads any other setting anew."""


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A changed setting: its dotted name, both values (None: not set), and what the change needs."""

    name: str
    old: Any
    new: Any
    effect: Effect

    @property
    def section(self) -> str:
        """Return the first part of the name."""
        return self.name.partition(".")[0]


def changes_between(old: Board | Family, new: Board | Family) -> list[PolicyChange]:
    """Return every setting that differs, in the model's order. A simulator's bytes count as a setting."""
    before, after = dict(_settings(old)), dict(_settings(new))
    is_packed = TieBreak.COMPOSITE in {old.policy.tie_break, new.policy.tie_break}
    return [
        PolicyChange(name, before.get(name), after.get(name), _effect(name, is_packed=is_packed))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def changed_digests(
    before: Mapping[str, Board | Family], after: Mapping[str, Board | Family]
) -> dict[str, str]:
    """Return the digests of the policies that are new or differ, by name."""
    return {
        name: policy.digest
        for name, policy in after.items()
        if name not in before or before[name].digest != policy.digest
    }


def refuse_restart(old: Mapping[str, Board | Family], new: Mapping[str, Board | Family]) -> None:
    """Raise PolicyError, naming each board and setting, if a running part cannot change to the new policies.

    A running part accepts new boards and families. Removing one would strand its runs, moderators and
    followers. A family's policy changes for all its boards in one step.
    """
    remaining = {name for name in old.keys() & new.keys() if old[name].kind == new[name].kind}
    faults = [f"{old[name].kind} '{name}' is gone" for name in sorted(old.keys() - remaining)]
    for name in sorted(remaining):
        faults += [
            f"{old[name].kind} '{name}': {change.name} was {shown(change.old)} and is now {shown(change.new)}"
            for change in changes_between(old[name], new[name])
            if change.effect is not Effect.AT_ONCE
        ]
    if faults:
        raise PolicyError("needs a restart: " + "; ".join(faults))


def shown(value: Any) -> str:
    """Return a value on one line, as a policy file writes it."""
    if value is None:
        return "not set"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {shown(item)}' for name, item in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def figure(number: float) -> str:
    """Return a number to six places, and a large one whole: without the exponent that Python gives it."""
    return f"{number:.0f}" if abs(number) >= _WHOLE else f"{number:g}"


def _effect(name: str, *, is_packed: bool) -> Effect:
    if is_packed and name in {"score.minimum", "score.maximum"}:
        return Effect.FOLDED  # a composite board packs scores by its bounds
    return NOT_AT_ONCE.get(name.partition(".")[0], Effect.AT_ONCE)


def _settings(board: Board | Family) -> Iterator[tuple[str, Any]]:
    """Yield every setting with its dotted name."""
    yield from _flat(board.policy.model_dump(mode="json"), "")
    for build, simulator in board.simulators.items():
        yield f"builds.{build}.simulator (content)", simulator.digest


def _flat(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
