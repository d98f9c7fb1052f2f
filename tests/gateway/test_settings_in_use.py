"""No setting comes to nothing: each is read by some part, or by a property of the settings that one reads."""

from __future__ import annotations

import ast
from pathlib import Path

from gateway.runtime.settings import Settings

ROOT = Path(__file__).parents[2]
OWN = ROOT / "gateway" / "runtime" / "settings.py"


def read_in(tree: ast.AST) -> set[str]:
    """The attributes that some code reads."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def test_every_setting_is_read_by_some_part():
    """What an operator says has an effect: a value of our own in its place would leave the setting unread."""
    paths = [path for room in ("gateway", "replay", "scoregate") for path in (ROOT / room).rglob("*.py")]
    read = {name for path in paths if path != OWN for name in read_in(ast.parse(path.read_text()))}
    functions = [node for node in ast.walk(ast.parse(OWN.read_text())) if isinstance(node, ast.FunctionDef)]
    while more := {name for each in functions if each.name in read for name in read_in(each)} - read:
        read |= more

    assert set() == Settings.model_fields.keys() - read
