"""A board, its ledger, and workers called by hand, which judge honest and false runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.ledger import queries
from gateway.ledger.judgement import audits
from gateway.ledger.judgement.builds import build_statuses
from gateway.ledger.ledger import Ledger
from gateway.recordings.opening import recordings_of
from gateway.recordings.recordings import Recordings
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Board, Policies
from policies.replaying import BuildStatus
from policies.vocabulary import Claim, SimulatorKind
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, Simulators
from replay.worker.audit import Auditor
from replay.worker.verifier import Verifier
from tests.support.boards import BUILD, tiny_play
from tests.support.clock import ShiftedClock
from tests.support.ledger import new_submission
from tests.support.valkey import ValkeyServer

Fresh = Callable[[], AbstractContextManager[Simulators]]


@dataclass
class Yard:
    """A board of plug-ins or modules, its ledger, and what works on it."""

    settings: Settings
    boards: dict[str, Board]
    ledger: Ledger
    index: Index
    recordings: Recordings
    clock: ShiftedClock

    async def append(
        self, *submission_ids: str, first: int = 0, player: str | None = None, points: int | None = None
    ) -> None:
        """Honest runs, each of a player and a score of its own unless told otherwise."""
        for number, submission_id in enumerate(submission_ids, start=first):
            played = tiny_play(number, points=5 + number if points is None else points)
            new = new_submission(
                submission_id,
                player=player or f"player-{number}",
                at_ms=self.clock(),
                recording=played.recording,
                simulator=self.boards["tiny"].simulators[BUILD].digest,
                seed=number,
            )
            claim = Claim(played.score, played.ticks, played.stats)
            await self.ledger.append(new._replace(submission=new.submission._replace(claim=claim)))

    async def verify(self, *submission_ids: str, simulators: Simulators) -> list[str]:
        """The states after a worker was at it."""
        parts: dict[str, Any] = {"recordings": self.recordings, "clock": self.clock}
        verifier = Verifier(
            self.settings, Catalogue(Policies(self.boards)), self.ledger, self.index, simulators, **parts
        )
        await verifier.verify_all(submission_ids)
        return await self.states(*submission_ids)

    async def states(self, *submission_ids: str) -> list[str]:
        found = [await self.ledger.read(queries.submission(each)) for each in submission_ids]
        return [each.state.value if each else "" for each in found]

    async def draw(self, *submission_ids: str) -> None:
        """Notes audits of these, as a draw does."""
        found = [await self.ledger.read(queries.submission(each)) for each in submission_ids]
        some = [
            audits.VerifiedSubmission(each.seq, each.submission_id, each.player) for each in found if each
        ]
        draw = await self.ledger.read(audits.draw_of("tiny"))
        await self.ledger.write(audits.note(draw, some, is_last=True, now_ms=self.clock()))

    async def audit(self, *submission_ids: str, fresh: Fresh) -> int:
        parts: dict[str, Any] = {"recordings": self.recordings, "clock": self.clock}
        return await Auditor(
            self.settings, Catalogue(Policies(self.boards)), self.ledger, fresh, **parts
        ).audit_all(submission_ids)

    async def statuses(self) -> dict[tuple[str, str], BuildStatus]:
        return dict(await self.ledger.read(build_statuses()))


async def a_yard(stack: AsyncExitStack, folder: Path, valkey: ValkeyServer, **more: Any) -> Yard:
    """A yard whose board's policy is in the folder; `more` are further settings."""
    settings = Settings(
        data_dir=folder / "data", policies_dir=folder / "policies", redis_url=valkey.url, **more
    )
    known = dict(load_policies(settings))
    ledger = await stack.enter_async_context(open_ledger(settings))
    index = await stack.enter_async_context(open_index(settings))
    return Yard(settings, known, ledger, index, recordings_of(settings), ShiftedClock())


class Told:
    """Simulators that answer what they are told to, one after the other."""

    def __init__(self, *outcomes: SimulationOutcome) -> None:
        self.outcomes = list(outcomes)

    def engine_of(self, kind: SimulatorKind) -> str:
        return kind.value

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        del request
        return self.outcomes.pop(0)


def simulation_of(number: int) -> Simulation:
    played = tiny_play(number, points=5 + number)
    return Simulation(
        played.ticks, True, played.score, 7, tuple(played.stats.values()), played.checkpoints, 0
    )
