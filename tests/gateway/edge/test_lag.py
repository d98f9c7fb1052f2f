"""How far boards are behind, as an edge reads it from the outbox: where it cannot look at all of it, it calls none fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from gateway.edge import lag
from gateway.edge.lag import Lag
from gateway.ledger.schema import outbox
from gateway.ledger.transaction import Query, Transaction
from gateway.settlement import PROJECT_AFTER_MS
from tests.support.ledger import NOON_MS, opened

_PUT = Query(insert(outbox))


class OwesNothing:
    """What this process owes itself."""

    def behind_s(self, _board: str) -> float:
        return 0.0


async def put_overdue(tx: Transaction) -> None:
    """Changes of two boards, settled four, three and two seconds before noon."""
    for seq, (board, before_ms) in enumerate((("full", 4_000), ("full", 3_000), ("late", 2_000)), start=1):
        whose = {"submission_id": f"s{seq}", "board": board, "player": "ada"}
        due_at_ms = NOON_MS - before_ms + PROJECT_AFTER_MS
        work = {"kind": "project", "due_at_ms": due_at_ms, "priority": 0, "handed_out": 0}
        await tx.run(_PUT, seq=seq, **whose, **work)


@pytest.mark.parametrize(("looked_at", "of_the_other"), [(3, 4.0), (4, 0.0)])
async def test_with_more_overdue_than_is_looked_at_every_board_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: int, of_the_other: float
):
    """As long as that of those seen which fell behind last: what was not looked at came later still, and may be of any."""
    monkeypatch.setattr(lag, "LOOKED_AT", looked_at)
    owed: Any = OwesNothing()
    async with opened(tmp_path / "ledger.db") as ledger:
        await ledger.write(put_overdue)
        behind = Lag(ledger, owed, dict, clock=lambda: NOON_MS + 2_000)
        await behind.look()
        assert [6.0, 4.0, of_the_other] == [behind.behind_s(each) for each in ("full", "late", "other")]
