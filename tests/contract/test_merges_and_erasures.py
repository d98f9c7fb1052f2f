"""Merges and erasures on every ledger: what triggers and grants allow of them, and what is left of them in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.acts import Act
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.merges import Merge
from gateway.ledger.privacy.export import export_player
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.erasing import LATE_MS, ask
from gateway.settlement.merges import MergeFollower, begin, undo
from gateway.settlement.settle import _decide_all
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.gateway.test_erasures import Forgotten
from tests.support import boards
from tests.support.banning import Boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere
from tests.support.stores import Store, open_in

SECRET = "Ada Lovelace"


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


async def test_a_merge_its_undoing_and_an_erasure_are_allowed_and_sealed(
    ledger: Ledger, store: Store, board: Board, tmp_path: Path
):
    """By triggers and by the role of the parts; the tables have no text of the player then, and every seal verifies."""
    for number, player in enumerate(("ada", "ada", "bob")):
        new = new_submission(f"run{number}", player=player, board=board.name, recording=None)
        await ledger.append(new._replace(details=f'{{"said": "{SECRET}"}}' if player == "ada" else None))
    pending, detail = frozenset({State.PENDING}), {"note": SECRET}
    decisions = [
        Decision(f"run{number}", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, pending, detail=detail)
        for number in range(2)
    ]
    await ledger.write(_decide_all(board, decisions))
    catalogue: Any = Boards({board.name: board})
    follower = MergeFollower(ledger, Nowhere(), catalogue)
    await ledger.write(begin(Merge("one", "ada", "bob", "player:bob", NOON_MS)))
    assert 2 == (await follower.follow("one", now_ms=NOON_MS)).changed_count
    standing = "SELECT player FROM standings WHERE \"window\" = 'alltime' AND score IS NOT NULL"
    assert [("bob",)] == await store.sql(standing)
    await ledger.write(undo("one", by="player:bob", now_ms=NOON_MS))
    assert 2 == (await follower.follow("one", now_ms=NOON_MS)).changed_count
    assert [("ada",)] == await store.sql(standing)
    moves = "SELECT reason, player FROM events WHERE submission_id = 'run0' ORDER BY seq"
    assert [("merged", "bob"), ("unmerged", "ada")] == (await store.sql(moves))[2:]
    assert 2 == sum([SECRET.encode() in line async for line in export_player(ledger, "ada")])

    of_seals = Settings(data_dir=tmp_path, seal_events=1)
    keys = PublicKeys(seal_key_of(of_seals, is_made=True).public_key)
    sealer = Sealer(of_seals, ledger, clock=lambda: NOON_MS)
    while await sealer.step():
        pass
    await ledger.write(ask("ada", Act("operator", NOON_MS), grace_ms=0))
    done = await Forgotten(ledger).finish("ada", now_ms=NOON_MS + LATE_MS)  # type: ignore[arg-type]
    assert done is not None
    assert (NOON_MS + LATE_MS, 4) == (done.ended_at_ms, done.rows_erased)
    assert not [line async for line in export_player(ledger, "ada") if SECRET.encode() in line]
    while await sealer.step():
        pass
    report = await audit(ledger, keys)
    assert report.events == report.sealed_events
