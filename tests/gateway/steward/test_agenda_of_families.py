"""What comes due on the boards of families and on their rollups, with nothing but a ledger and a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, insert

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, due, noted
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import anchored_windows, board_duties, progress
from gateway.ledger.standings import anchors
from gateway.ledger.transaction import Query, Transaction
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward import agenda, ledger_duties
from gateway.steward.agenda import Agenda
from gateway.steward.audits.top_check import TopCheck
from gateway.steward.failures import Failures
from gateway.steward.index.anchoring import Anchoring
from gateway.steward.leases import StewardLeases
from gateway.steward.ledger_duties import ABSENT_MS, LedgerDuties
from gateway.wiring import open_ledger
from policies.loader import load_policies
from policies.vocabulary import Reason, State
from tests.support.families import open_tracks, write_family
from tests.support.ledger import NOON_MS, new_submission
from tests.support.policies import write_policies
from tests.support.sealed import Nowhere

SEASONS = {"windows": ["alltime", "season"], "season": "0 0 1 * *"}
BOARDS = [f"track.b{number}" for number in range(5)]


class Season:
    """A family with five boards that were played, and a rollup of it."""

    def __init__(self, settings: Settings, ledger: Ledger, catalogue: Catalogue) -> None:
        self.settings, self.ledger, self.catalogue = settings, ledger, catalogue
        self.now_ms = NOON_MS

    @property
    def clock(self) -> Callable[[], int]:
        return lambda: self.now_ms

    async def play(self, name: str) -> None:
        board = await self.catalogue.board(name)
        assert board
        await self.ledger.append(new_submission(f"run-{name}", board=name, at_ms=NOON_MS, recording=None))
        promoted = Decision(
            f"run-{name}", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset(State)
        )
        await settle(self.ledger, Nowhere(), board, [promoted])

    async def follow(self) -> None:
        """A new agenda notes all that is due."""
        noting = Agenda(self.ledger, self.catalogue, clock=self.clock)
        while await noting.follow():
            pass

    def duties(self) -> LedgerDuties:
        leases = StewardLeases(self.ledger, clock=self.clock)
        return LedgerDuties(
            self.settings, self.catalogue, self.ledger, Failures(), clock=self.clock, leases=leases
        )

    async def due(self, duty: BoardDuty) -> list[str]:
        """The boards on which something is due by now."""
        rows = await self.ledger.read(due(duty, now_ms=self.now_ms, count=99))
        return sorted({row.board for row in rows})


@pytest.fixture
async def season(tmp_path: Path) -> AsyncIterator[Season]:
    write_family(tmp_path / "policies", **SEASONS)
    rollup = {"board": "world", "title": "All tracks", "rollup": {"family": "track"}, **SEASONS}
    folder = write_policies(tmp_path / "policies", rollup)
    settings = Settings(data_dir=tmp_path / "data", policies_dir=folder, archive_after_s=0)
    async with open_ledger(settings) as ledger:
        await open_tracks(ledger, *BOARDS, at_ms=NOON_MS)
        catalogue = Catalogue(load_policies(folder), lambda names: ledger.read(boards_named(names)))
        yield Season(settings, ledger, catalogue)


async def test_the_season_of_a_rollup_ends_with_those_of_its_boards(season: Season):
    """Each run makes both due, though the run is on the board alone."""
    await season.follow()
    await season.play(BOARDS[0])
    await season.follow()
    assert [] == await season.due(BoardDuty.ARCHIVE)
    season.now_ms += 40 * 86_400_000
    assert [BOARDS[0], "world"] == await season.due(BoardDuty.ARCHIVE)


async def test_a_run_makes_a_look_at_anchors_due_where_they_may_need_one(
    season: Season, monkeypatch: pytest.MonkeyPatch
):
    """On its board and the rollup, once they are large: a hundred thousand small boards make none due."""
    monkeypatch.setattr(agenda, "SAMPLED_EVENTS", 1)
    await season.follow()
    await season.play(BOARDS[0])
    await season.follow()
    assert [] == await season.due(BoardDuty.ANCHOR)
    monkeypatch.setattr(anchors, "LEAST", 0)
    await season.play(BOARDS[1])
    await season.follow()
    assert [BOARDS[1], "world"] == await season.due(BoardDuty.ANCHOR)


async def test_all_boards_of_a_family_are_noted_when_its_policy_is_new(
    season: Season, monkeypatch: pytest.MonkeyPatch
):
    """A slice of them in each step, also if they are more than a slice, or as many."""
    for name in BOARDS:
        await season.play(name)
    for count in (2, 5):
        monkeypatch.setattr(agenda, "BOARDS", count)
        await season.follow()
        assert BOARDS == [name for name in await season.due(BoardDuty.TOP) if "." in name]
        await season.ledger.write(_forgetting)


async def _forgetting(tx: Transaction) -> None:
    """Forget what is due, and which policies were seen."""
    for table in (board_duties, progress):
        await tx.run(Query(delete(table)))


async def test_duties_of_boards_without_a_policy_make_way_for_others(
    season: Season, monkeypatch: pytest.MonkeyPatch
):
    """They wait for the policy to come back, ten minutes at a time, however many they are."""
    monkeypatch.setattr(ledger_duties, "TAKEN", 2)
    await season.play(BOARDS[0])
    names = ["gone.a", "gone.b", BOARDS[0]]
    rows = [DueDuty(BoardDuty.TOP, name, "", at_ms, 1, 1) for at_ms, name in enumerate(names)]
    await season.ledger.write(noted(rows))
    duties = season.duties()
    for _ in range(2):
        await duties.see_to_top()
    assert [] == await season.due(BoardDuty.TOP)
    season.now_ms += ABSENT_MS
    assert ["gone.a", "gone.b"] == await season.due(BoardDuty.TOP)


async def test_a_top_is_looked_at_until_nothing_rises_into_it(
    season: Season, monkeypatch: pytest.MonkeyPatch
):
    """Runs move up behind those that are verified, and no event of theirs says so."""
    await season.play(BOARDS[0])
    queued = [2, 1, 0]

    async def step(_: TopCheck) -> int:
        return queued.pop(0)

    monkeypatch.setattr(TopCheck, "step", step)
    duties = season.duties()
    assert [2, 1, 0, 0] == [await duties.see_to_top() for _ in range(4)]
    assert [] == queued


async def test_all_anchored_windows_have_their_turns_some_in_each_round(
    season: Season, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the first ones need: a window whose anchors are behind may be any of them."""
    monkeypatch.setattr(ledger_duties, "ANCHORED_AT_ONCE", 2)
    tended: list[str] = []

    async def tend(anchoring: Anchoring, _: str) -> int:
        tended.append(anchoring._ranking.policy.board)
        return 0

    async def anchored(tx: Transaction) -> None:
        for board in BOARDS:
            row = {"board": board, "window": "alltime", "rule": ""}
            await tx.run(Query(insert(anchored_windows).values(row)))

    monkeypatch.setattr(Anchoring, "tend", tend)
    await season.ledger.write(anchored)
    duties = season.duties()
    for _ in range(6):
        await duties.anchor()
    assert [*BOARDS, *BOARDS] == tended
