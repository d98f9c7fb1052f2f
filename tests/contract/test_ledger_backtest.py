"""A policy of a family against the history of all its boards, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.judgement import board_history
from gateway.ledger.records import SERVER_CREDENTIAL
from policies.loader import load_policies
from scoregate import ledger_backtest
from scoregate.ledger_backtest import backtest_board, backtest_family
from tests.support.families import open_tracks, write_family
from tests.support.ledger import new_submission
from tests.support.stores import Store, open_in


async def test_a_familys_policy_is_tried_on_all_its_boards(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All boards and no other's; in as many walks as the bound on memory takes the sums are the same, and no board alone has more."""
    family = load_policies(write_family(tmp_path / "policies").parent).families["track"]
    async with open_in(store) as ledger:
        names = [f"track.{rest}" for rest in "abcdef"]
        await open_tracks(ledger, *names)
        for place, name in enumerate(names):
            for run in range(place + 1):
                await ledger.append(new_submission(f"{name}-{run}", board=name))
        await ledger.append(new_submission("elsewhere", board="tracks"))
        walked: list[int] = []

        async def summed(most: int) -> tuple[object, ...]:
            monkeypatch.setattr(ledger_backtest, "EVENTS_HELD", most)
            walked.clear()
            summary = await backtest_family(ledger, family, since_ms=0, advance=walked.append)
            return summary.boards, summary.submissions, sorted(summary.moves.items())

        whole = await summed(1_000)
        assert ((6, 21), [21]) == (whole[:2], walked)
        assert whole == await summed(3)
        assert 2 < len(walked)
        one = family.board((await ledger.read(boards_named(["track.c"])))["track.c"])
        alone = await backtest_board(ledger, one, since_ms=0, advance=walked.append)
        assert (1, 3) == (alone.boards, alone.submissions)


async def test_a_boards_history_has_all_its_events_up_to_the_newest(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """In slices whose borders lose none; whose score a game server wrote is told, since no policy judges it."""
    monkeypatch.setattr(board_history, "SLICE", 2)
    runs = {"a": {}, "b": {"credential": f"{SERVER_CREDENTIAL}eu-1"}, "c": {"recording": None}, "d": {}}
    async with open_in(store) as ledger:
        for name, facts in runs.items():
            await ledger.append(new_submission(name, **facts))
            await ledger.append(new_submission(f"other-{name}", board="other"))
        await ledger.append(new_submission("e"))
        found = [event async for event in board_history.history_of_board(ledger, "tiny")]
    assert [
        ("a", False, True),
        ("b", True, True),
        ("c", False, False),
        ("d", False, True),
        ("e", False, True),
    ] == [(each.submission.submission_id, each.is_trusted, each.submission.has_recording) for each in found]
