"""Runs on boards of a family: when they are open, and under which seed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from policies.opened_board import BoardState, OpenedBoard
from policies.seeds import board_seed
from tests.support.harness import Answer, Harness, running_harness

FAMILY = "family: daily\ntitle: Daily\nscore: {maximum: 9}\nseed: board\nvalidators: {similarity: flag}\n"
TODAY = OpenedBoard("daily.2026-11-22", "daily", "Today")


@pytest.fixture
async def harness(tmp_path: Path, settings: Settings) -> AsyncIterator[Harness]:
    """An edge with one family, whose runs all have their board's seed."""
    folder = tmp_path / "families"
    folder.mkdir()
    (folder / "daily.yaml").write_text(FAMILY)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        yield harness


async def open_on(harness: Harness, **changes: Any) -> Answer:
    """The answer to a new player's run on the board as it is now."""
    opened = replace(TODAY, **changes)

    async def found(names: Sequence[str]) -> Mapping[str, OpenedBoard]:
        return {name: opened for name in names if name == opened.board}

    harness.edge.catalogue._lookup = found
    harness.edge.catalogue.cache.drop(opened.board)
    return await harness.post(f"/v1/boards/{opened.board}/runs", {"build": "b1"}, await harness.new_player())


async def test_everyone_plays_the_course_of_the_board(harness: Harness):
    """Two players' runs have one seed, which follows from the family, the board and its content."""
    plain = [await open_on(harness) for _ in range(2)]
    loaded = await open_on(harness, parameters=b'{"gap":7}')

    assert [str(board_seed("daily", TODAY.board, bytes(32)))] * 2 == [each.body["seed"] for each in plain]
    content = replace(TODAY, parameters=b'{"gap":7}').content_digest
    assert str(board_seed("daily", TODAY.board, content)) == loaded.body["seed"]


async def test_a_board_takes_runs_only_while_it_is_open(harness: Harness):
    """From `opens_at` up to `closes_at`, unless it was closed before; the answer says which."""
    now_ms = harness.clock()
    later_ms = now_ms + 3_600_000
    cases: list[dict[str, Any]] = [
        {"opens_at_ms": now_ms - 1, "closes_at_ms": later_ms},
        {"opens_at_ms": later_ms},
        {"closes_at_ms": now_ms - 1},
        {"state": BoardState.CLOSED},
        {"state": BoardState.CLOSED, "opens_at_ms": later_ms},
    ]
    answers = [await open_on(harness, **case) for case in cases]

    assert [(201, "")] + [(403, "board-closed")] * 4 == [(each.status, each.problem) for each in answers]
    closed = "it is closed; runs that were opened before still count"
    details = [each.body["detail"] for each in answers[1:]]
    assert [f"it opens at {rfc3339(later_ms)}", closed, closed, closed] == details
