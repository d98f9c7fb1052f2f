"""A job of several runs, of which some cannot be judged: each is held for its own reason, and the others are judged."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.records import VerificationLease
from policies.loader import Board, Policies
from policies.vocabulary import SimulatorKind
from replay.simulators import SimulationOutcome, SimulationRequest
from replay.simulators.all_simulators import AllSimulators
from replay.worker import evidence, verifier
from replay.worker.evidence import EvidenceCollector, RecordingEvidence
from replay.worker.verifier import Verifier
from tests.support import boards
from tests.support.ledger import rows
from tests.support.valkey import ValkeyServer
from tests.support.yard import Yard, a_yard


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    boards.write_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yield await a_yard(stack, tmp_path, valkey)


def changed(yard: Yard, statement: str, submission_id: str) -> None:
    """What a bad disk, or somebody with a database's tools, makes of one run."""
    with closing(sqlite3.connect(yard.settings.ledger_path, timeout=10)) as connection, connection:
        [trigger] = [connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()]
        for (name,) in trigger:
            connection.execute(f'DROP TRIGGER "{name}"')
        assert 1 == connection.execute(statement, (submission_id,)).rowcount


RECORDING = "(SELECT recording_digest FROM submissions WHERE submission_id = ?)"


async def test_F13_one_bad_run_takes_no_other_with_it(yard: Yard):
    """Without its row, with other bytes, of a simulator that is gone, with bytes that are no recording: each by itself."""
    names = ["first", "gone", "altered", "strange", "last"]
    await yard.append(*names)
    changed(yard, f"DELETE FROM recordings WHERE digest = {RECORDING}", "gone")
    changed(yard, f"UPDATE recordings SET body = x'00' WHERE digest = {RECORDING}", "altered")
    changed(yard, "UPDATE submissions SET simulator = 'sha256:00' WHERE submission_id = ?", "strange")
    with AllSimulators() as simulators:
        await yard.verify(*names, simulators=simulators)
    assert {
        "first": "promoted verified",
        "gone": "held recording-lost",
        "altered": "held recording-lost",
        "strange": "held simulator-missing",
        "last": "promoted verified",
    } == reasons(yard)


class Stumbling:
    """Simulators that raise what nobody foresaw on one run."""

    def __init__(self, simulators: AllSimulators, seed: int) -> None:
        self._simulators, self._seed = simulators, seed

    def engine_of(self, kind: SimulatorKind) -> str:
        return self._simulators.engine_of(kind)

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        if request.seed == self._seed:
            raise ZeroDivisionError
        return self._simulators.simulate(request)


async def test_F13_a_run_that_makes_us_fail_comes_again_alone_and_is_held(yard: Yard):
    """The others of its job are settled; after all attempts it waits for a moderator."""
    names = ["first", "bad", "last"]
    await yard.append(*names)
    parts: dict[str, Any] = {"recordings": yard.recordings, "clock": yard.clock}
    with AllSimulators() as simulators:
        stumbling = Stumbling(simulators, seed=1)
        judge = Verifier(
            yard.settings, Catalogue(Policies(yard.boards)), yard.ledger, yard.index, stumbling, **parts
        )
        await judge.verify_all(names)
        assert {
            "first": "promoted verified",
            "bad": "pending accepted",
            "last": "promoted verified",
        } == reasons(yard)
        for _ in range(yard.settings.verify_attempts):
            yard.clock.shift(3600)
            await judge.verify_all(["bad"])
    assert "held attempts-exhausted" == reasons(yard)["bad"]


async def test_a_worker_decodes_a_recording_once(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    """What was decoded to be examined is what is simulated."""
    monkeypatch.delattr("replay.verify.decode")
    await yard.append("first", "last")
    parts: dict[str, Any] = {"recordings": yard.recordings, "clock": yard.clock}
    with AllSimulators() as simulators:
        catalogue = Catalogue(Policies(yard.boards))
        judge = Verifier(yard.settings, catalogue, yard.ledger, yard.index, simulators, **parts)
        await judge.verify_all(["first", "last"])
    assert dict.fromkeys(["first", "last"], "promoted verified") == reasons(yard)


async def test_a_job_whose_runs_may_be_long_is_examined_in_parts(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    """All of it is judged, in the same order, with few recordings expanded at a time."""
    examined: list[list[str]] = []

    class Noting(EvidenceCollector):
        async def collect(
            self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
        ) -> dict[str, RecordingEvidence]:
            examined.append([lease.submission.submission_id for lease in leases])
            return await super().collect(boards, leases)

    [board] = yard.boards.values()
    assert board.policy.replay
    monkeypatch.setattr(evidence, "EXPANDED_BYTES", 2 * 4 * board.policy.replay.maximum_ticks)
    monkeypatch.setattr(verifier, "EvidenceCollector", Noting)
    names = ["a", "b", "c", "d", "e"]
    await yard.append(*names)
    with AllSimulators() as simulators:
        assert ["promoted"] * 5 == await yard.verify(*names, simulators=simulators)
    assert [["a", "b"], ["c", "d"], ["e"]] == examined


def reasons(yard: Yard) -> dict[str, str]:
    found = rows(yard.settings.ledger_path, "SELECT submission_id, state, reason FROM submissions")
    return {name: f"{state} {reason}" for name, state, reason in found}
