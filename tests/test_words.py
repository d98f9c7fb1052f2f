"""One word for one thing: the glossary holds, and no name of a class or a file stands for two things."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.ledger.schema import metadata

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
PRODUCT: Final = ("gateway", "replay", "scoregate", "validators", "policies")
TOLD_APART_BY_ROOM: Final = {"__init__"}
"""Names of modules that Python gives and that say nothing."""


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the page, without its head."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    table = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1:]]


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def exists(name: str) -> bool:
    """Return whether a module, a member of one, a table or a `table.column` has this name."""
    table, _, column = name.partition(".")
    if table in metadata.tables:
        return not column or column in metadata.tables[table].columns
    module, _, member = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), member) or bool(importlib.util.find_spec(name))
    except ModuleNotFoundError:
        return False


def test_each_word_of_the_glossary_has_its_place_in_the_code():
    """A term's class, function, table or column is there, and its meaning is a sentence."""
    for term, meaning, places in rows("## Words"):
        names = re.findall(r"`([\w.]+)`", places)
        assert (term, True) == (term, bool(names) and meaning.endswith("."))
        assert [] == [name for name in names if not exists(name)]


def test_the_glossary_is_in_the_order_of_the_alphabet():
    """A word is found without reading the others, and stands there once."""
    terms = [term.lower() for term, *_ in rows("## Words")]
    assert sorted(set(terms)) == terms


def test_no_two_modules_have_a_class_of_the_same_name():
    """Whoever meets a class name in a traceback or a search knows which it is."""
    homes = defaultdict(list)
    for file in modules(*PRODUCT):
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            homes[name].append(str(file.relative_to(ROOT)))
    assert {} == {name: files for name, files in homes.items() if len(files) > 1}


def test_a_command_is_one_file():
    """What a command does stands with its options, or under a name of its own."""
    shared, commands = (
        {file.stem for file in (ROOT / folder).glob("*.py")} for folder in ("scoregate", "scoregate/commands")
    )
    assert {"__init__"} == shared & commands


def test_a_file_name_stands_for_one_thing_in_the_gateway():
    """A name that several rooms have is in the glossary's table of sides, with the thing that they are sides of."""
    rooms = defaultdict(set)
    for file in [*modules("gateway"), *(ROOT / "gateway").rglob("*.lua")]:
        if file.stem not in TOLD_APART_BY_ROOM and "migrations" not in file.parts:
            rooms[file.stem].add(str(file.parent.relative_to(ROOT / "gateway")))
    shared = {name: folders for name, folders in rooms.items() if len(folders) > 1}
    listed = {
        name.strip("`"): set(re.findall(r"`([\w/]+)`", where))
        for name, where, _ in rows("### Files that are sides of one thing")
    }
    assert shared == listed
