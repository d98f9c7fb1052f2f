"""The picture of the rooms: `python -m tests.support.rooms` redraws it in docs/explanation/architecture.md.

The tree quotes the docstring of each package. The picture has an arrow where one room imports another, but
none that follows from two others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
PRODUCT: Final = ("scoregate", "replay", "gateway", "validators", "policies")
"""The packages of the product, in the order in which they import one another."""

DIVIDED: Final = ("gateway", "replay")
"""The packages that the picture shows by what is in them."""

LEFT_OUT: Final = ("versions",)
WIDTH: Final = 24


def drawn(page: str) -> str:
    """Return the page with both drawings as the code is now."""
    page = _between(page, "tree", "```\n" + "\n".join(tree()) + "\n```")
    return _between(page, "imports", "```mermaid\n" + "\n".join(picture()) + "\n```")


def tree() -> Iterator[str]:
    """Yield a line for each package: its name, indented, and the first sentence of its docstring."""
    for package in PRODUCT:
        for marker in sorted((ROOT / package).rglob("__init__.py")):
            folder = marker.parent
            if folder.name not in LEFT_OUT:
                indent = "  " * (len(folder.relative_to(ROOT).parts) - 1)
                docstring = ast.get_docstring(ast.parse(marker.read_text(encoding="utf-8"))) or ""
                yield f"{indent}{folder.name}/".ljust(WIDTH) + docstring.splitlines()[0].removesuffix(".")


def picture() -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart of who imports whom."""
    graph = grimp.build_graph(*PRODUCT, exclude_type_checking_imports=True)
    arrows = {
        (_room(module), _room(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    arrows = {(user, used) for user, used in arrows if user != used}
    yield "flowchart TD"
    for user, used in sorted(arrows):
        if not _is_implied(user, used, arrows):
            yield f"  {user} --> {used}"


def _room(module: str) -> str:
    names = module.split(".")
    return ".".join(names[:2] if names[0] in DIVIDED else names[:1])


def _is_implied(user: str, used: str, arrows: Iterable[tuple[str, str]]) -> bool:
    """Return True if `used` can be reached from `user` by other arrows alone."""
    reached, seen = [to for at, to in arrows if at == user and to != used], {user}
    while reached:
        room = reached.pop()
        if room == used:
            return True
        if room not in seen:
            seen.add(room)
            reached += [to for at, to in arrows if at == room]
    return False


def _between(page: str, name: str, drawing: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + drawing + end + after


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
