"""Whatever the product remembers of what it was asked has a bound: strangers ask for as much as they like."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_OUR_OWN = {"script_source", "_sources_of", "_gated_sources_of", "load_plugin"}
"""Kept for each of our own scripts, and for each plug-in that is installed: nobody can ask for more of them."""

ROOMS = ("gateway", "policies", "replay", "scoregate", "validators")


def caches() -> Iterator[tuple[str, ast.expr, ast.FunctionDef | ast.AsyncFunctionDef | None]]:
    """Each cache of the standard library that some code makes: where, how, and of which function if that is said there."""
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        if "cache" not in (text := path.read_text()):
            continue
        tree = ast.parse(text)
        decorated = {
            id(each): node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for each in node.decorator_list
        }
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            made = node.func if isinstance(node, ast.Call) else node
            is_made_here = isinstance(node, ast.Call) or id(node) not in called
            is_name = isinstance(made, ast.Name | ast.Attribute)
            name = ast.unparse(made).removeprefix("functools.") if is_name else ""
            if is_name and is_made_here and name in {"cache", "lru_cache"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node, decorated.get(id(node))


def is_bounded(cache: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> bool:
    """True if it keeps one thing, no more than it says, or what nobody can add to."""
    if function and function.name in OF_OUR_OWN:
        return True
    if function and not any(vars(function.args).get(kind) for kind in ("args", "kwonlyargs", "posonlyargs")):
        return True
    sizes = (
        [each.value for each in cache.keywords if each.arg == "maxsize"]
        if isinstance(cache, ast.Call)
        else []
    )
    return any(isinstance(size, ast.Constant) and isinstance(size.value, int) for size in sizes)


def test_every_cache_has_a_bound():
    """It says how much it keeps, unless there is nothing to tell two calls apart by."""
    found = list(caches())
    assert len(found) > 10
    assert [] == [where for where, cache, function in found if not is_bounded(cache, function)]
