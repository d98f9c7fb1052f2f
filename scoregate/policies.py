"""Policy files from the command line: what they mean, and how two differ."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from policies.advice import advice_on
from policies.blind_spots import blind_spots_of
from policies.explanation import explanation
from policies.judging import Modes
from policies.loader import load_board
from policies.model import Policy
from policies.policy_changes import changes_between, shown
from scoregate.first_runs import first_runs
from validators.judge import VALIDATORS

_WIDTH = 18


def checked_facts(file: Path, *, is_run: bool) -> Mapping[str, object]:
    """The same for programs. Raises PolicyError."""
    board = load_board(file)
    return {
        "file": str(file),
        "board": board.name,
        "title": board.policy.title,
        "digest": board.digest,
        "meaning": [{"about": about, "says": says} for about, says in explanation(board, _finds())],
        "cannot_notice": list(blind_spots_of(board.policy)),
        "warnings": list(advice_on(board.policy)),
        "simulates": list(first_runs(file, board)) if is_run else [],
    }


def checked(file: Path, *, is_run: bool) -> Iterator[str]:
    """What a policy file says, line by line, and what of it can hardly be meant. Raises PolicyError.

    With `is_run` its simulators are started, and one that cannot play is an error.
    """
    board = load_board(file)
    yield f"{file}: board '{board.name}' ({board.policy.title}), {board.digest}"
    for what, told in explanation(board, _finds()):
        yield f"  {what:<{_WIDTH}} {told}"
    for gap in blind_spots_of(board.policy):
        yield f"  {'cannot notice':<{_WIDTH}} {gap}"
    for advice in advice_on(board.policy):
        yield f"  warning: {advice}"
    if is_run:
        for told in first_runs(file, board):
            yield f"  {'simulates':<{_WIDTH}} {told}"


def differing_facts(old: Path, new: Path) -> Iterator[Mapping[str, object]]:
    """The same as `differences`, for programs. Raises PolicyError."""
    for each in changes_between(load_board(old), load_board(new)):
        facts = {"setting": each.name, "old": shown(each.old), "new": shown(each.new)}
        yield {**facts, "effect": each.effect.value, "about": _about(each.section)}


def differences(old: Path, new: Path) -> Iterator[str]:
    """Each setting in which two policy files differ, what it is about, and what the change takes. Raises PolicyError."""
    for each in changes_between(load_board(old), load_board(new)):
        about = _about(each.section)
        yield f"{each.name}: {shown(each.old)} -> {shown(each.new)}; {each.effect.value}" + (
            f" ({about})" if about else ""
        )


def _about(section: str) -> str:
    """What a section or its kind is for, by its description or its docstring."""
    field = Policy.model_fields.get(section)
    if field is None:
        return ""
    kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
    ours = [each for each in kinds if isinstance(each, type) and each.__module__.startswith("policies.")]
    return _first_sentence(field.description or (ours[-1].__doc__ if ours else "") or "")


def _finds() -> Mapping[str, str]:
    """What each validator looks for, in its own words."""
    said = {each.name: inspect.getdoc(each.check) or "" for each in VALIDATORS}
    described = {name: field.description for name, field in Modes.model_fields.items() if field.description}
    return {name: _first_sentence(text) for name, text in (said | described).items() if text}


def _first_sentence(text: str) -> str:
    plain = " ".join(text.replace("`", "").split())
    return re.split(r"(?<=\.)\s", plain, maxsplit=1)[0]
