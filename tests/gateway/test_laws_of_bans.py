"""The end of a ban leaves what a ban never met: in archived windows, under seals, and in a rebuilt index."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.runtime.settings import Settings
from gateway.settlement import bans as banning
from gateway.settlement.label_audit import check_labels
from gateway.steward.archive import archiving
from gateway.steward.seals.sealing import Sealer, seal_key_of
from tests.support.archives import DAY_S, VARIANTS, Shelf, board_with
from tests.support.banning import Bench, a_ban
from tests.support.ledger import NOON_MS
from tests.support.sealed import Nowhere
from tests.support.thorough import examples

RUNS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "cyd"]),
        st.integers(-2, 2),
        st.integers(0, 1),
        st.integers(-13 * 3600, 11 * 3600),  # seconds from noon: a few are of the day before
    ),
    min_size=1,
    max_size=10,
)
MOMENTS = (0, 80, 160)
"""Days after the runs: their windows are current, archived, and gone but for the archive."""


def played(variant: str, runs: list[Any]) -> Shelf:
    shelf = Shelf(board_with(variant))
    for number, (player, score, moves, seconds) in enumerate(runs):
        shelf.score(f"s{number}", player, score, at_ms=NOON_MS + seconds * 1000, moves=moves)
    return shelf


def windows_of(shelf: Shelf) -> list[str]:
    return sorted(
        name for (name,) in shelf.rows("SELECT DISTINCT window FROM standings WHERE window <> 'alltime'")
    )


def archive_of(shelf: Shelf, names: list[str]) -> list[Any]:
    """What readers find of archived windows: all three ranks, scores and totals; not which revision it is."""
    found = [(name, shelf.archived(name), shelf.ranks(name)) for name in names]
    return [(name, window.entries, window.groups, ranks) for name, window, ranks in found if window]


def turn(shelf: Shelf, days: int, names: list[str]) -> None:
    """Some days pass, and stewards do all that is due by then."""
    shelf.clock.at_ms = NOON_MS + days * DAY_S * 1000
    shelf.settle_down()
    if days:
        shelf.assert_archived(*names)


@settings(max_examples=examples(8), deadline=None)
@given(st.sampled_from(sorted(VARIANTS)), RUNS, st.sampled_from([(0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]))
def test_archived_windows_are_as_if_nobody_had_been_banned(
    variant: str, runs: list[Any], when: tuple[int, int]
):
    """Whenever a ban begins and ends: before a window is archived, after it, and once its standings have gone."""
    shelf, twin = played(variant, runs), played(variant, runs)
    names, bench = windows_of(shelf), Bench(shelf, {"tiny": shelf.board}, Nowhere())
    with patch.object(banning, "SLICE", 2), patch.object(archiving, "SLICE", 3):
        for moment, days in enumerate(MOMENTS):
            turn(shelf, days, names)
            turn(twin, days, names)
            if moment == when[0]:
                asyncio.run(bench.ban(a_ban("one", "ada"), at_ms=shelf.clock()))
            if days and when[0] <= moment <= when[1]:
                shelf.settle_down()
                assert "ada" not in {row[3] for _, _, _, ranks in archive_of(shelf, names) for row in ranks}
            if moment == when[1]:
                asyncio.run(bench.unban("one", at_ms=shelf.clock()))
                shelf.settle_down()
                shelf.assert_archived(*names)
                assert archive_of(twin, names) == archive_of(shelf, names)
    assert archive_of(twin, names) == archive_of(shelf, names)


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Shelf, Sealer, PublicKeys]:
    shelf = played("first", [("ada", 2, 0, 0), ("bob", 2, 0, 0), ("ada", 1, 0, 60)])
    of_seals = Settings(data_dir=tmp_path, seal_events=1)
    key = seal_key_of(of_seals, is_made=True)
    return shelf, Sealer(of_seals, shelf, clock=shelf.clock), PublicKeys(key.public_key)  # type: ignore[arg-type]


def test_a_ban_and_its_end_leave_seals_that_verify_and_the_earlier_ones_as_they_were(
    sealed: tuple[Shelf, Sealer, PublicKeys],
):
    """`ledger verify` finds nothing before, during and after it; each of its events is sealed, and none is changed."""
    shelf, sealer, keys = sealed
    bench = Bench(shelf, {"tiny": shelf.board}, Nowhere())

    async def seal_and_verify() -> tuple[list[Any], list[Any]]:
        while await sealer.step():
            pass
        report = await audit(shelf, keys)  # type: ignore[arg-type]
        assert report.events == report.sealed_events
        await check_labels(shelf)  # type: ignore[arg-type]
        return shelf.rows("SELECT * FROM events ORDER BY seq"), shelf.rows("SELECT * FROM seals ORDER BY 1")

    seen = [asyncio.run(seal_and_verify())]
    for step in (bench.ban(a_ban("one", "ada", is_shadow=True)), bench.unban("one")):
        asyncio.run(step)  # type: ignore[arg-type]
        seen.append(asyncio.run(seal_and_verify()))
        for now, before in zip(seen[-1], seen[-2], strict=True):
            assert before == now[: len(before)]
            assert len(now) > len(before)
    assert [6, 9, 12] == [len(events) for events, _ in seen]
