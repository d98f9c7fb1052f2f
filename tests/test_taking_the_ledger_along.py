"""A deployment on SQLite moves to PostgreSQL by the very commands of the how-to page, with all that it has."""

from __future__ import annotations

from pathlib import Path

from tests.support.ledger import rows
from tests.support.page import (
    Machine,
    assert_gets_the_stored_answers,
    board_of,
    examples,
    machine_in,
    player_on,
    wait_until,
)
from tests.support.postgres import running_postgres
from tests.test_backup_postgres import POSTGRES, make_roles, settled


async def test_the_page_is_followed_and_everything_goes_along(tmp_path: Path):
    """Killed on SQLite and started on PostgreSQL: the same board, the same answers, and new runs count."""
    [copy_it, start_it, _go_back] = examples(POSTGRES, "## Take your ledger along")
    with running_postgres(is_prepared=False) as server, machine_in(tmp_path, server) as machine:
        await make_roles(server)
        async with player_on(machine) as player:
            machine.start(f"scoregate up --data-dir {machine.before}")
            await wait_until(machine.is_answering, machine)
            early = [await player.submit(points, ticks) for points, ticks in ((5, 25), (7, 3000), (9, 30))]
            await promoted_in_file(machine, early)
            board = await board_of(player, 3, machine)
            machine.kill()
            await wait_until(machine.is_silent, machine)

            await machine.run(copy_it)
            await machine.run(start_it + "\ndisown -a")
            await wait_until(machine.is_answering, machine)
            assert board == await board_of(player, 3, machine)
            await assert_gets_the_stored_answers(player, early)
            late = await player.submit(8, 27)
            await settled(machine, [*early, late])
            assert late in {each[2] for each in await board_of(player, 4, machine)}


async def promoted_in_file(machine: Machine, submission_ids: list[str]) -> None:
    async def are_promoted() -> bool:
        states = dict(rows(machine.before / "ledger.sqlite3", "SELECT submission_id, state FROM submissions"))
        return {"promoted"} == {states.get(each) for each in submission_ids}

    await wait_until(are_promoted, machine)
