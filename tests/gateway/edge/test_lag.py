"""How far boards are behind, as an edge reads it from the outbox: where it cannot look at all of it, it calls none fresh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.health import lag
from gateway.edge.health.lag import Lag
from gateway.ledger.schema import outbox
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.ledger.transaction import Query, Transaction
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from policies.errors import IndexUnavailable
from policies.loader import Policies
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission, opened

_PUT = Query(insert(outbox))


class OwesNothing:
    """What this process owes itself."""

    def behind_s(self, _board: str) -> float:
        return 0.0


class Away:
    """An index that shows nothing."""

    async def project(self, _board, _changes: Sequence[Change]) -> None:
        raise IndexUnavailable


async def put_overdue(tx: Transaction) -> None:
    """Changes of two boards, settled four, three and two seconds before noon."""
    for seq, (board, before_ms) in enumerate((("full", 4_000), ("full", 3_000), ("late", 2_000)), start=1):
        whose = {"submission_id": f"s{seq}", "board": board, "player": "ada"}
        due_at_ms = NOON_MS - before_ms + PROJECT_AFTER_MS
        work = {"kind": "project", "due_at_ms": due_at_ms, "priority": 0, "handed_out": 0}
        await tx.run(_PUT, seq=seq, **whose, **work)


@pytest.mark.parametrize(("rows_limit", "of_the_other"), [(3, 4.0), (4, 0.0)])
async def test_with_more_overdue_than_is_looked_at_every_board_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_limit: int, of_the_other: float
):
    """As long as that of those seen which fell behind last: what was not looked at came later still, and may be of any."""
    monkeypatch.setattr(lag, "ROWS_LIMIT", rows_limit)
    owed: Any = OwesNothing()
    async with opened(tmp_path / "ledger.db") as ledger:
        await ledger.write(put_overdue)
        behind = Lag(ledger, owed, Catalogue(Policies()), clock=lambda: NOON_MS + 2_000)
        await behind.look()
        assert [6.0, 4.0, of_the_other] == [behind.behind_s(each) for each in ("full", "late", "other")]


async def test_a_board_that_may_be_stale_is_behind_since_the_change_and_not_before_its_time(tmp_path: Path):
    """The outbox has its change overdue only after what the policy allows; then it says since when the ledger had it."""
    owed: Any = OwesNothing()
    board = boards.board(tmp_path / "policies", writes="trusted", operator="sum", staleness_s=5.0)
    now = [NOON_MS]
    async with opened(tmp_path / "ledger.db") as ledger:
        await ledger.append(new_submission("s1", at_ms=NOON_MS, recording=None))
        decision = Decision("s1", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset(State))
        await settle(ledger, Away(), board, [decision])
        behind = Lag(ledger, owed, Catalogue(Policies({"tiny": board})), clock=lambda: now[0])
        told = []
        for after_s in (6.9, 7.0, 9.0):
            now[0] = NOON_MS + int(after_s * 1000)
            await behind.look()
            told.append(behind.behind_s("tiny"))
        assert [0.0, 7.0, 9.0] == told
