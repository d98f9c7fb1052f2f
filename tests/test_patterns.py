"""The regular expressions of the product mean the same to each CPython that it runs on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("gateway", "policies", "replay", "scoregate", "validators", "clients/python")

POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[0-9,]+\})\+")
"""A group with a possessive quantifier. CPython before 3.11.5 goes on after the part of it that did match (issue 106052)."""


def texts() -> list[tuple[str, str]]:
    """Every text of the product's code but its docstrings, with its place."""
    found = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        tree = ast.parse(path.read_text("utf-8"))
        explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            (f"{path.relative_to(ROOT)}:{node.lineno}", node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained
        ]
    return found


def test_no_group_is_repeated_possessively():
    """An atomic group around it says the same, and all versions agree on what it matches."""
    assert [] == [place for place, text in texts() if POSSESSIVE_GROUP.search(text)]


@pytest.mark.parametrize("pattern", ["(?:a)*+", "(a|b)?+", "(?:;x)++", "(?:[0-9]){1,3}+"])
def test_such_groups_are_found(pattern: str):
    """Whatever the quantifier."""
    assert POSSESSIVE_GROUP.search(pattern)


@pytest.mark.parametrize("pattern", ["[a-z]*+", "(?>(?:a)*)", "a{1,3}+", r"\?[01]", "(a)+"])
def test_what_is_no_such_group_is_left_alone(pattern: str):
    """One character has no parts, and what may go back is another matter."""
    assert not POSSESSIVE_GROUP.search(pattern)
