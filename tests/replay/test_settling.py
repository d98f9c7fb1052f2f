"""How long a verdict waits for those that are settled with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.settlement.decision_records import Decision
from policies.loader import Policies
from replay.simulators import SimulationOutcome, SimulationRequest
from replay.worker import audit, verifier
from replay.worker.verifier import Verifier
from tests.support import boards
from tests.support.ledger import rows
from tests.support.valkey import ValkeyServer
from tests.support.yard import Told, Yard, a_yard, simulation_of

RUNS = 6


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    boards.write_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yield await a_yard(stack, tmp_path, valkey)


class Timed(Told):
    """Simulators whose every answer takes so many seconds of a clock that nothing else moves."""

    def __init__(self, lasts_s: float) -> None:
        super().__init__(*(simulation_of(number) for number in range(RUNS)))
        self.lasts_s = lasts_s
        self.now_s = 0.0
        self.settled = 0
        self.unsettled: list[int] = []

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        self.unsettled.append(RUNS - len(self.outcomes) - self.settled)
        self.now_s += self.lasts_s
        return super().simulate(request)


@pytest.mark.parametrize(
    ("lasts_s", "unsettled"),
    [
        pytest.param(1.0, [0, 0, 0, 0, 0, 0], id="slow"),
        pytest.param(0.09, [0, 1, 2, 0, 1, 2], id="quick"),
        pytest.param(0.001, [0, 1, 2, 3, 4, 5], id="very-quick"),
    ],
)
async def test_a_verdict_waits_for_no_replay_that_will_be_slow(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, lasts_s: float, unsettled: list[int]
):
    """Quick ones are settled together; before one of a slow simulator what was decided is settled."""
    simulators = Timed(lasts_s)
    monkeypatch.setattr(verifier, "time", SimpleNamespace(monotonic=lambda: simulators.now_s))
    settle = Verifier._settle

    async def counted(of: Verifier, boards: Any, decisions: Sequence[tuple[str, Decision]]) -> Any:
        await settle(of, boards, decisions)
        simulators.settled += len(decisions)

    monkeypatch.setattr(Verifier, "_settle", counted)
    names = [f"run-{number}" for number in range(RUNS)]
    await yard.append(*names)
    assert ["promoted"] * RUNS == await yard.verify(*names, simulators=simulators)
    assert unsettled == simulators.unsettled


class Looking(Told):
    """Simulators that look at the leases while they play."""

    def __init__(self, yard: Yard, *, times: int = 1) -> None:
        super().__init__(*(simulation_of(number) for number in range(RUNS) for _ in range(times)))
        self._ledger = yard.settings.ledger_path
        self.until_ms: list[int] = []

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        self.until_ms += [at_ms for (at_ms,) in rows(self._ledger, "SELECT lease_until_ms FROM submissions")]
        return super().simulate(request)


async def test_a_job_is_leased_for_as_long_as_all_its_runs_may_take(yard: Yard):
    """Nobody else plays the last of them while the worker is still at those before it."""
    simulators, begun_ms = Looking(yard), yard.clock()
    names = [f"run-{number}" for number in range(RUNS)]
    await yard.append(*names)
    await yard.verify(*names, simulators=simulators)
    whole_s = yard.settings.lease_s + RUNS * verifier.longest_s(Policies(yard.boards))
    assert begun_ms + whole_s * 1000 <= simulators.until_ms[0]


async def test_a_job_of_audits_is_leased_for_as_long_as_all_its_runs_may_take(yard: Yard):
    """Each of them is played more than once."""
    names = [f"run-{number}" for number in range(RUNS)]
    await yard.append(*names)
    await yard.verify(*names, simulators=Told(*(simulation_of(number) for number in range(RUNS))))
    await yard.draw(*names)
    simulators, begun_ms = Looking(yard, times=audit.RUNS), yard.clock()
    assert RUNS == await yard.audit(*names, fresh=lambda: nullcontext(simulators))
    whole_s = yard.settings.lease_s + audit.RUNS * RUNS * verifier.longest_s(Policies(yard.boards))
    assert begun_ms + whole_s * 1000 <= simulators.until_ms[0]
