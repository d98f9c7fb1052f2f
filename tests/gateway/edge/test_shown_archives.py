"""Archived windows as answers show them, from what the ledger has of them, without an edge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import (
    Archive,
    archive_response,
    archived,
    is_archived,
    is_out_of_index,
    may_be_archived,
    revision_field,
    without_entry,
)
from gateway.edge.wire.read_models import EntryRead
from gateway.index.board_index import Page
from gateway.index.windows.subsets import SubsetPage
from gateway.ledger.archive.distribution import ArchivedStanding
from gateway.ledger.archive.reading import ArchivedEntries, ArchivedEntry
from gateway.ledger.archive.windows import ArchivedWindow, ArchiveStage
from gateway.ledger.reads import ReadKind
from gateway.shared_records import ScoreDistribution
from policies.choices import RankKind, WindowKind
from policies.windows import window_at
from tests.support.archives import a_board
from tests.support.ledger import NOON_MS

BOARD = a_board()
TODAY = window_at(BOARD.policy, WindowKind.DAILY, NOON_MS)
ROW = ArchivedWindow(
    "tiny", TODAY.name, TODAY.begin_ms or 0, TODAY.end_ms, 0, "{}", "", "", ArchiveStage.FROZEN, 3, 3, 0, 0, 1_500, 9, 12, 4
)  # fmt: skip
ENTRIES = [
    ArchivedEntry(
        rank, rank - 1, rank - 2, player, name, score, 60_000 + rank, f"s{rank}", 70 + rank, f"m{rank}"
    )
    for rank, player, name, score in ((4, "ada", "Ada", 50), (6, "bob", "", 40))
]
DELETED = "the window is no longer kept"


class Ledger:
    """Gives one answer, and notes how it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.kinds: list[ReadKind] = []

    async def read(self, _work: Any, kind: ReadKind) -> Any:
        self.kinds.append(kind)
        return self.answer


def edge_with(answer: Any, *, now_ms: int = NOON_MS) -> Any:
    return SimpleNamespace(ledger=Ledger(answer), clock=lambda: now_ms)


def archive_with(answer: Any, board: Any = BOARD, window: str = TODAY.name) -> Archive:
    return Archive(edge_with(answer), board, window)


async def refused(read: Any) -> tuple[ProblemType, str | None, dict[str, Any]]:
    with pytest.raises(Problem) as problem:
        await read
    return problem.value.kind, problem.value.detail, problem.value.extensions


@pytest.mark.parametrize(
    ("kind", "ranks"), [(RankKind.UNIQUE, (4, 6)), (RankKind.SPARSE, (3, 5)), (RankKind.DENSE, (2, 4))]
)
async def test_an_archived_page_is_as_the_index_would_have_it(kind: RankKind, ranks: tuple[int, int]):
    """With ranks of the kind that is asked for, and how many are ahead by the unique one."""
    archive = archive_with(ArchivedEntries(ROW, ENTRIES))
    entries = await archive.entries_at(3, 2)
    page = archive.index_page(entries, kind)
    assert (12, 3, ranks) == (page.total, page.ahead, tuple(each.rank for each in page.entries))
    first = page.entries[0]
    assert ("ada", "Ada", 50, 60_004, "s4", (74, "m4")) == (
        first.player, first.name, first.score, first.achieved_at_ms, first.submission_id, first.place,
    )  # fmt: skip
    assert Page(12, (), 0) == archive.index_page(ArchivedEntries(ROW, []), kind)


async def test_players_of_an_archive_are_ranked_among_themselves():
    """From 1, with the rank among all beside it, and with their revision; nobody is counted twice."""
    archive = archive_with(ArchivedEntries(ROW, ENTRIES))
    page, revision = await archive.subset(["bob", "ada", "bob", "cas"])
    assert (3, 2) == (revision, page.total)
    assert [("ada", 1, 4), ("bob", 2, 6)] == [
        (each.entry.player, each.entry.rank, each.global_rank) for each in page.entries
    ]
    nobody = archive_with(ArchivedEntries(ROW, []))
    assert (SubsetPage(0, ()), 3) == await nobody.subset(["cas"])


async def test_a_player_s_archived_entry_has_its_place_among_all():
    """Its percentile, its gap and its rank of the kind asked for; without an entry the total is told."""
    archive = archive_with(ArchivedStanding(ROW, ENTRIES[0], 3, 58))
    entry, revision = await archive.entry("ada", RankKind.DENSE)
    assert 3 == revision
    assert entry == EntryRead(
        rank=2, player="ada", name="Ada", score=50, achieved_at="1970-01-01T00:01:00.004Z", submission="s4",
        total=12, percentile=75.0, percentile_error=0.0, gap=8,
    )  # fmt: skip
    lacking = (
        ProblemType.NOT_FOUND,
        "the player has no entry in this window",
        {"ranked": False, "total": 12},
    )
    assert lacking == await refused(archive_with(ArchivedStanding(ROW, None)).entry("cas", RankKind.UNIQUE))
    around = archive_with(ArchivedEntries(ROW, []))
    assert lacking == await refused(around.around("cas", 1, RankKind.UNIQUE))
    assert lacking == (without_entry(12).kind, without_entry(12).detail, without_entry(12).extensions)


async def test_each_read_waits_in_its_own_queue():
    """Pages and entries among those of pages, distributions among what is heavy."""
    counted = ScoreDistribution(1, (), (5,), 5, 5)
    archive = archive_with((ROW, counted))
    assert (counted, 3) == await archive.distribution([], [5_000])
    assert [ReadKind.HEAVY] == archive._edge.ledger.kinds  # type: ignore[attr-defined]
    for answer, read in (
        (ArchivedEntries(ROW, ENTRIES), lambda each: each.subset(["ada"])),
        (ArchivedStanding(ROW, ENTRIES[0]), lambda each: each.entry("ada", RankKind.UNIQUE)),
        (ArchivedEntries(ROW, ENTRIES), lambda each: each.entries_around("ada", 1)),
    ):
        archive = archive_with(answer)
        await read(archive)
        assert [ReadKind.PAGES] == archive._edge.ledger.kinds  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "row",
    [None, ROW._replace(revision=0), ROW._replace(stage=ArchiveStage.WITHDRAWN)],
    ids=["gone", "new", "withdrawn"],
)
async def test_what_is_not_readable_is_not_read(row: ArchivedWindow | None):
    """A window that was deleted meanwhile, that was never whole, or whose board was reopened."""
    missing = (ProblemType.NOT_FOUND, DELETED, {})
    pages = row and ArchivedEntries(row, ENTRIES)
    assert missing == await refused(archive_with(pages).entries_at(0, 5))
    assert missing == await refused(archive_with(pages).subset(["ada"]))
    assert missing == await refused(archive_with(None).entry("ada", RankKind.UNIQUE))
    assert missing == await refused(archive_with(None).distribution([], []))
    assert not await is_archived(edge_with(row), BOARD, TODAY.name)
    assert None is await archived(edge_with(row, now_ms=TODAY.end_ms), BOARD, TODAY.name)


async def test_a_window_is_archived_once_it_is_over():
    """To the millisecond, and not before a steward has done it; what is current is not even looked for."""
    current = edge_with(ROW, now_ms=TODAY.end_ms - 1)
    assert None is await archived(current, BOARD, TODAY.name)
    assert [] == current.ledger.kinds
    assert isinstance(await archived(edge_with(ROW, now_ms=TODAY.end_ms), BOARD, TODAY.name), Archive)
    assert await is_archived(edge_with(ROW), BOARD, TODAY.name)
    told = [may_be_archived(edge_with(None, now_ms=TODAY.end_ms + at), BOARD, TODAY.name) for at in (-1, 0)]
    assert [False, True] == told
    assert not may_be_archived(edge_with(None), BOARD, "alltime")
    assert may_be_archived(edge_with(None), BOARD, "hourly:1")
    closed: Any = SimpleNamespace(policy=BOARD.policy, final_from_ms=5)
    assert may_be_archived(edge_with(None), closed, "alltime")


@pytest.mark.parametrize(("beside_ms", "is_out"), [(-1, False), (0, True)])
def test_the_index_forgets_a_window_when_its_keys_end(beside_ms: int, *, is_out: bool):
    """All time is never forgotten, and what no calendar has is not there."""
    assert TODAY.expires_at_ms is not None
    edge = edge_with(None, now_ms=TODAY.expires_at_ms + beside_ms)
    assert is_out is is_out_of_index(edge, BOARD, TODAY.name)
    assert not is_out_of_index(edge, BOARD, "alltime")
    assert is_out_of_index(edge, BOARD, "hourly:1")


async def test_an_answer_of_the_archive_may_be_kept_for_a_minute():
    """By everybody, under its revision, and a reader that has it gets none again."""
    answer = EntryRead(
        rank=1, player="a", name="a", score=1, achieved_at="", submission="s", total=1, percentile=1.0,
        percentile_error=0.0, gap=None,
    )  # fmt: skip
    response = archive_response(make_mocked_request("GET", "/"), answer, 3, {"X-Other": "1"})
    assert (200, "public, max-age=60", "3", "1") == (
        response.status,
        response.headers["Cache-Control"],
        response.headers["Scoregate-Revision"],
        response.headers["X-Other"],
    )
    again = make_mocked_request("GET", "/", headers={"If-None-Match": response.headers["ETag"]})
    unchanged = archive_response(again, answer, 4)
    assert (304, "public, max-age=60", "4") == (
        unchanged.status,
        unchanged.headers["Cache-Control"],
        unchanged.headers["Scoregate-Revision"],
    )
    assert {"Scoregate-Revision": "7"} == revision_field(7)
