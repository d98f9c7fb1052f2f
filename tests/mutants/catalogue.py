"""The kept list of breakages: one YAML file for each room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOMS = Path(__file__).parent / "rooms"


class CatalogueError(Exception):
    """The list cannot be used as it is."""


@dataclass(frozen=True)
class Mutant:
    """One change that a test must notice."""

    id: str
    file: str
    """Path from the top of the checkout."""
    text: str
    """What stands there, exactly and once."""
    becomes: str
    tests: tuple[str, ...]
    """What pytest is told to run."""
    why: str
    """What would go wrong in service."""
    equivalent: str = ""
    """Why nothing can notice it: the change changes no behaviour. Empty of every other."""

    def applied(self, source: str) -> str:
        """Return the source with the change. Raises CatalogueError unless the text is there exactly once."""
        if (count := source.count(self.text)) != 1:
            raise CatalogueError(f"{self.id}: {self.file} has the text {count} times, not once")
        return source.replace(self.text, self.becomes)


def read_catalogue(folder: Path = ROOMS) -> list[Mutant]:
    """Return all breakages of a folder. Raises CatalogueError for what is incomplete, or there twice."""
    found = [
        _mutant(entry, file)
        for file in sorted(folder.glob("*.yaml"))
        for entry in YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    ]
    ids = Counter(mutant.id for mutant in found)
    if twice := sorted(each for each, count in ids.items() if count > 1):
        raise CatalogueError(f"ids that are there twice: {', '.join(twice)}")
    return found


def chosen(mutants: Sequence[Mutant], only: Sequence[str]) -> list[Mutant]:
    """Return those with these ids, or all. Raises CatalogueError for an id that is not there."""
    if unknown := set(only) - {mutant.id for mutant in mutants}:
        raise CatalogueError(f"no such breakage: {', '.join(sorted(unknown))}")
    return [mutant for mutant in mutants if not only or mutant.id in only]


def _mutant(entry: dict[str, Any], file: Path) -> Mutant:
    names = {field.name for field in fields(Mutant)}
    if entry.keys() | {"equivalent"} != names:
        raise CatalogueError(f"{file.name}: {entry.get('id', '?')}: expected {', '.join(sorted(names))}")
    return Mutant(**entry | {"tests": tuple(entry["tests"])})
