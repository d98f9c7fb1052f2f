"""Counts how the demo's runs ended and shows the counts as a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from examples.demo.actors import Layer
from examples.demo.cheats import CHEATS

HONEST: Final = "honest run"


@dataclass(slots=True)
class Tally:
    """The expected number of runs of each kind, and the layers at which they ended."""

    expected: dict[str, int]
    endings: dict[str, Counter[Layer]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[str] = field(default_factory=list)
    seen_playing: set[str] = field(default_factory=set)
    approved: int = 0
    left: int = 0

    def note(self, kind: str, layer: Layer) -> None:
        """Count a run of a kind that ended at a layer."""
        self.endings[kind][layer] += 1

    def note_approval(self) -> None:
        """Move an honest run from *held* to the board."""
        self.approved += 1
        self.endings[HONEST][Layer.ANOMALY] -= 1
        self.endings[HONEST][Layer.BOARD] += 1

    @property
    def cheats_through(self) -> int:
        """Return the number of cheats that reached the board."""
        return sum(self.endings[cheat.kind][Layer.BOARD] for cheat in CHEATS)

    @property
    def honest_lost(self) -> int:
        """Return the number of honest runs that ended anywhere but on the board."""
        return sum(self.endings[HONEST].values()) - self.endings[HONEST][Layer.BOARD]

    @property
    def is_good(self) -> bool:
        """Return whether all runs ended, honest ones on the board, cheats elsewhere, and nothing failed."""
        is_over = all(sum(self.endings[kind].values()) == count for kind, count in self.expected.items())
        return is_over and not self.failures and not self.cheats_through and not self.honest_lost

    def table(self, title: str) -> Table:
        """Return a table of kinds by layers."""
        table = Table(
            title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1)
        )
        table.add_column("who", no_wrap=True)
        table.add_column("tried", justify="right", no_wrap=True)
        for layer in Layer:
            table.add_column(layer.value, justify="right", no_wrap=True)
        self._add_row(table, HONEST, Layer.BOARD)
        table.add_section()
        for cheat in CHEATS:
            self._add_row(table, cheat.kind, cheat.layer)
        return table

    def _add_row(self, table: Table, kind: str, intended: Layer) -> None:
        endings = self.endings[kind]
        cells = [
            _cell(endings[layer], is_intended=layer is intended, is_honest=kind == HONEST) for layer in Layer
        ]
        table.add_row(kind, f"{sum(endings.values())}/{self.expected[kind]}", *cells)


def _cell(count: int, *, is_intended: bool, is_honest: bool) -> str:
    if not count:
        return "[dim]·[/dim]"
    if is_intended:
        return f"[bold green]{count}[/]" if is_honest else f"[bold cyan]{count}[/]"
    return f"[bold red]{count}[/]"
