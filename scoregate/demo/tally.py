"""What the demonstration has seen so far, and how it is shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from scoregate.demo.cheats import CHEATS
from scoregate.demo.stage import Layer

HONEST: Final = "honest run"


@dataclass(slots=True)
class Tally:
    """How many of each kind set out, and where they ended."""

    expected: dict[str, int]
    endings: dict[str, Counter[Layer]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[str] = field(default_factory=list)
    seen_playing: set[str] = field(default_factory=set)
    approved: int = 0
    rejected: int = 0

    def note(self, kind: str, layer: Layer) -> None:
        """One of a kind ended in a layer."""
        self.endings[kind][layer] += 1

    def note_approval(self) -> None:
        """An honest run that was held is on the board."""
        self.approved += 1
        self.endings[HONEST][Layer.ANOMALY] -= 1
        self.endings[HONEST][Layer.BOARD] += 1

    @property
    def cheats_through(self) -> int:
        """Cheats that reached the board."""
        return sum(self.endings[cheat.kind][Layer.BOARD] for cheat in CHEATS)

    @property
    def honest_lost(self) -> int:
        """Honest runs that ended anywhere but on the board."""
        return sum(self.endings[HONEST].values()) - self.endings[HONEST][Layer.BOARD]

    @property
    def is_good(self) -> bool:
        """No cheat got through, every honest run did, and nothing went wrong on our side."""
        done = all(sum(self.endings[kind].values()) == count for kind, count in self.expected.items())
        return done and not self.failures and not self.cheats_through and not self.honest_lost

    def table(self, title: str) -> Table:
        """Kinds by layers: what each layer stopped."""
        table = Table(
            title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1)
        )
        table.add_column("who", no_wrap=True)
        table.add_column("tried", justify="right", no_wrap=True)
        for layer in Layer:
            table.add_column(layer.value, justify="right", no_wrap=True)
        self._add(table, HONEST, Layer.BOARD)
        table.add_section()
        for cheat in CHEATS:
            self._add(table, cheat.kind, cheat.layer)
        return table

    def _add(self, table: Table, kind: str, meant: Layer) -> None:
        seen = self.endings[kind]
        cells = [_cell(seen[layer], is_meant=layer is meant, is_honest=kind == HONEST) for layer in Layer]
        table.add_row(kind, f"{sum(seen.values())}/{self.expected[kind]}", *cells)


def _cell(count: int, *, is_meant: bool, is_honest: bool) -> str:
    if not count:
        return "[dim]·[/dim]"
    if is_meant:
        return f"[bold green]{count}[/]" if is_honest else f"[bold cyan]{count}[/]"
    return f"[bold red]{count}[/]"
