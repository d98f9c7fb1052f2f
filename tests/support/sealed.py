"""A small sealed ledger for tests, and the hands of somebody who owns its file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support.ledger import NOON_MS, new_submission, opened

RUNS = 10
SEAL_EVENTS = 5


class Nowhere:
    """An index that is shown changes and keeps none."""

    async def project(self, _board, _changes: Sequence[Change]) -> None:
        return


@dataclass(frozen=True)
class SealedLedger:
    """Ten runs, `run-0` to `run-9` (events 1-10); 0-4 promoted (11-15), 5 rejected (16), 0 revoked (17).

    Sealed by fives, so that events 16 and 17 are not sealed yet.
    """

    settings: Settings
    keys: PublicKeys

    @property
    def path(self) -> Path:
        return self.settings.ledger_path

    def copy(self, folder: Path) -> SealedLedger:
        shutil.copytree(self.settings.data_dir, folder / "data")
        return SealedLedger(self.settings.model_copy(update={"data_dir": folder / "data"}), self.keys)

    @contextmanager
    def unguarded(self) -> Iterator[sqlite3.Connection]:
        """A connection to the file, with all its triggers dropped for as long as that takes."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall()
            _at_once(connection, [f"DROP TRIGGER {name}" for name, _ in triggers])
            yield connection
            _at_once(connection, [trigger for _, trigger in triggers])

    def tamper(self, *statements: str) -> None:
        """Runs statements on the file, which its triggers do not see."""
        with self.unguarded() as connection:
            for statement in statements:
                connection.execute(statement)


def _at_once(connection: sqlite3.Connection, statements: list[str]) -> None:
    connection.execute("BEGIN")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")


async def decide(ledger: Any, board: Board, submission_id: str, to_state: State, **changes: Any) -> None:
    facts = {"actor": "replay", "reason": Reason.VERIFIED, "at_ms": NOON_MS + 1} | changes
    decision = Decision(submission_id, to_state, from_states=frozenset(State), **facts)
    [change] = await settle(ledger, Nowhere(), board, [decision])
    assert isinstance(change, Change), change


async def fill_and_seal(ledger: Ledger, settings: Settings, board: Board) -> None:
    for n in range(RUNS):
        new = new_submission(f"run-{n}", player=f"p{n % 3}", score=100 + n, recording=b"%d" % n)
        assert (await ledger.append(new)).is_new
    for n in range(5):
        await decide(ledger, board, f"run-{n}", State.PROMOTED)
    await decide(ledger, board, "run-5", State.REJECTED)
    await decide(ledger, board, "run-0", State.REVOKED)
    sealer = Sealer(settings, ledger, clock=lambda: NOON_MS + 2)
    assert [5, 5, 5, 0] == [await sealer.step() for _ in range(4)]


async def sealed_ledger(folder: Path, board: Board) -> SealedLedger:
    settings = Settings(data_dir=folder, seal_events=SEAL_EVENTS)
    async with opened(settings.ledger_path) as ledger:
        await fill_and_seal(ledger, settings, board)
    return SealedLedger(settings, PublicKeys(seal_key_of(settings, is_made=False).public_key))
