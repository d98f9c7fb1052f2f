"""The steward opens the boards that policies of families want, on both databases."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.family_terms import terms_of
from gateway.ledger.boards import board_opening
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.ledger import Ledger
from gateway.steward.wanted_boards import BoardOpener
from policies.loader import Policies, load_policies
from policies.opened_board import BoardState, NarrowedBounds, NarrowedScore, OpenedBoard
from tests.support.families import change_boards
from tests.support.stores import Store, open_in

NIGHT_MS = 1_795_388_400_000
"""2026-11-22T23:00:00Z."""

HOUR_MS = 3_600_000


def policies(folder: Path, **settings: Any) -> Policies:
    policy = {"family": "track", "title": "Tracks", "score": {"maximum": 100}, **settings}
    (folder / "track.yaml").write_text(json.dumps(policy))
    return load_policies(folder)


def opener(ledger: Ledger, wanted: Policies, at_ms: list[int]) -> BoardOpener:
    return BoardOpener(ledger, Catalogue(wanted, None), clock=lambda: at_ms[0])


async def named(ledger: Ledger, *rests: str) -> list[OpenedBoard | None]:
    known = await ledger.read(boards_named([f"track.{rest}" for rest in rests]))
    return [known.get(f"track.{rest}") for rest in rests]


async def test_wanted_boards_are_opened_once_whoever_opens_them(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two stewards at once, a batch at a time, open each board once; the next day's comes an hour ahead, and a quiet round reads nothing."""
    monkeypatch.setattr(board_opening, "BATCH_LIMIT", 2)
    declared = {rest: {"title": rest, "parameters": {"gap": 60}} for rest in "abc"}
    wanted, now_ms = policies(tmp_path, boards=declared, schedule="daily"), [NIGHT_MS - 1]
    async with open_in(store) as ledger:
        stewards = [opener(ledger, wanted, now_ms) for _ in range(2)]
        assert 4 == sum(await asyncio.gather(*(steward.open_due() for steward in stewards)))
        now_ms[0] += 1
        assert 1 == sum(await asyncio.gather(*(steward.open_due() for steward in stewards)))
        before = [
            (board.board, board.opened_by)
            for board in await named(ledger, *"abc", "2026-11-22", "2026-11-23")
        ]
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "read", None)  # a call would fail
            assert 0 == await stewards[0].open_due()
        now_ms[0] += 3 * 24 * HOUR_MS  # nobody could play the days in between
        assert 2 == await stewards[0].open_due()
        gaps = await named(ledger, "2026-11-24", "2026-11-25", "2026-11-26")
    assert [(f"track.{rest}", "policy") for rest in (*"abc", "2026-11-22", "2026-11-23")] == before
    assert [None, "track.2026-11-25", "track.2026-11-26"] == [board and board.board for board in gaps]
    assert [("policy", 7, 7)] == await store.sql(
        "SELECT actor, COUNT(*), COUNT(DISTINCT board) FROM events GROUP BY actor"
    )


async def test_what_became_of_a_wanted_board_stays(store: Store, tmp_path: Path):
    """A board that was renamed or deleted is not opened again; one with other parameters is logged; a reload adds boards."""
    declared = {rest: {"title": rest, "parameters": {"gap": 60}} for rest in "abc"}
    wanted, now_ms = policies(tmp_path, boards=declared), [NIGHT_MS]
    terms = terms_of(wanted.families["track"])
    async with open_in(store) as ledger:
        steward = opener(ledger, wanted, now_ms)
        assert [3, 0] == [await steward.open_due(), await steward.open_due()]
        [board, *_] = await named(ledger, "a")
        assert board
        renamed = OpenedBoard(
            "track.a", "track", "A", parameters=board.parameters, opened_at_ms=board.opened_at_ms
        )
        await change_boards(ledger, wanted.families["track"], renamed, at_ms=NIGHT_MS)
        await ledger.write(set_states(terms, ["track.b"], BoardState.DELETED, actor="cli", at_ms=NIGHT_MS))
        declared["c"]["parameters"] = {"gap": 61}
        declared["d"] = {"title": "d", "parameters": {}}
        steward._catalogue.replace(policies(tmp_path, boards=declared))
        with capture_logs() as lines:
            assert [1, 0] == [await steward.open_due(), await steward.open_due()]
        shown = [
            (board.title, board.state.value, board.parameters)
            for board in await named(ledger, *"abcd")
            if board
        ]
    assert ["track.c"] == [line["board"] for line in lines if line["event"] == "declared_board_differs"]
    assert [
        ("A", "open", b'{"gap":60}'),
        ("b", "deleted", b'{"gap":60}'),
        ("c", "open", b'{"gap":60}'),
        ("d", "open", b""),
    ] == shown


async def test_what_a_policy_wants_and_does_not_get_is_logged(store: Store, tmp_path: Path):
    """A board that somebody opened first without its times or bounds stays so; one that cannot be opened is named too.

    What an operator closed or renamed, or gave times that the policy does not have, is on purpose.
    """
    bounds = {"score": {"maximum": 50}}
    declared = {
        "loose": {"title": "L", "bounds": bounds},
        "tight": {"title": "T", "bounds": bounds},
        "timed": {"title": "T"},
        "shut": {"title": "S", "bounds": bounds},
    }
    wanted, now_ms = policies(tmp_path, boards=declared, schedule="daily"), [NIGHT_MS - 1]
    terms = terms_of(wanted.families["track"])
    at_fifty = NarrowedBounds(score=NarrowedScore(maximum=50))
    async with open_in(store) as ledger:
        first = [
            OpenedBoard("track.2026-11-22", "track", "Today"),
            OpenedBoard("track.loose", "track", "L"),
            OpenedBoard("track.tight", "track", "T", bounds=at_fifty),
            OpenedBoard("track.timed", "track", "T", closes_at_ms=NIGHT_MS + HOUR_MS),
            OpenedBoard("track.shut", "track", "S"),
        ]
        await ledger.write(open_boards(terms, first, actor="server:eu", at_ms=1))
        await ledger.write(set_states(terms, ["track.shut"], BoardState.CLOSED, actor="cli", at_ms=2))
        with capture_logs() as lines:
            assert [0, 0] == [await opener(ledger, wanted, now_ms).open_due() for _ in range(2)]
        said = [
            (line["board"], line["differs"]) for line in lines if line["event"] == "declared_board_differs"
        ]
        assert 2 * [("track.loose", ["bounds"]), ("track.2026-11-22", ["times"])] == said
        steward, of_other = opener(ledger, wanted, now_ms), OpenedBoard("kart.a", "kart", "A")
        with capture_logs() as lines:
            assert 0 == await steward._open(wanted.families["track"], [of_other])
    [line] = lines
    assert (
        "declared_board_not_opened",
        "kart.a",
        "refused",
        "board: it is not of the family track",
    ) == tuple(line[name] for name in ("event", "board", "outcome", "detail"))
