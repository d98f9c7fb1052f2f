"""Backup and restore on PostgreSQL, by the very commands of the how-to pages, while submissions come in."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.deployment import eventually
from tests.support.ledger import new_submission
from tests.support.page import (
    Machine,
    assert_gets_the_stored_answers,
    board_of,
    examples,
    machine_in,
    player_on,
    submit_until,
    wait_until,
)
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.stores import PostgresStore, open_in

BACKUP, POSTGRES = "backup-and-restore.md", "use-postgresql.md"
LOGIN = "postgresql://scoregate_login@db.example:5432/scoregate"
TABLES = ("events", "submissions", "recordings", "standings", "baselines", "players", "seals", "outbox")


async def rows(server: PostgresServer, statement: str) -> list[tuple[Any, ...]]:
    """What a superuser sees in the deployment's database."""
    return await server.sql(statement, database="scoregate")


async def make_roles(server: PostgresServer) -> None:
    """The roles and the empty database, as the page has a superuser make them."""
    [statements] = examples(POSTGRES, "## Two roles", language="sql")
    for statement in statements.split(";\n"):
        if statement.strip():
            await server.sql(statement)


@asynccontextmanager
async def deployed_on(machine: Machine) -> AsyncIterator[None]:
    """The parts of a new deployment, by the pages, until the block ends: then they are killed."""
    assert machine.postgres
    await make_roles(machine.postgres)
    [migrate] = examples(POSTGRES, "## Make the schema")
    await machine.run(migrate)
    machine.start(f"export SCOREGATE_LEDGER_URL={LOGIN}\nscoregate up --data-dir {machine.before}")
    await wait_until(machine.is_answering, machine)
    yield
    machine.kill()
    await wait_until(machine.is_silent, machine)


async def settled(machine: Machine, submission_ids: list[str]) -> None:
    async def are_promoted() -> bool:
        assert machine.postgres
        states = dict(await rows(machine.postgres, "SELECT submission_id, state FROM submissions"))
        return {"promoted"} == {states.get(each) for each in submission_ids}

    await wait_until(are_promoted, machine)


async def test_the_page_is_followed_and_nothing_that_was_dumped_is_lost(tmp_path: Path):
    """Dumped while it runs; restored on another server with an empty Valkey: the same rows, boards, answers and rights."""
    [back_up_it, check_it] = examples(BACKUP, "## PostgreSQL", "### Back up")
    [restore_it, start_it] = examples(BACKUP, "## PostgreSQL", "### Restore")
    with (
        running_postgres(is_prepared=False) as first,
        running_postgres(is_prepared=False) as second,
        machine_in(tmp_path, first) as machine,
    ):
        async with player_on(machine) as player:
            async with deployed_on(machine):
                early = [
                    await player.submit(points, ticks) for points, ticks in ((5, 25), (7, 3000), (9, 30))
                ]
                await settled(machine, early)
                board = await board_of(player, 3, machine)
                is_over = asyncio.Event()
                submitting = asyncio.create_task(submit_until(is_over, player))
                await machine.run(back_up_it)
                is_over.set()
                late = await submitting
            await machine.run(check_it)
            before = await everything(first)

            machine.postgres = second
            await make_roles(second)
            await machine.run(restore_it)
            after = await everything(second)
            for table in ("events", "recordings", "players"):  # what is only ever added to
                assert after[table] <= before[table]
            await assert_rewrites_nothing(second)

            await machine.run(start_it + "\ndisown -a")
            known = [row[0] for row in await rows(second, "SELECT submission_id FROM submissions")]
            await settled(machine, known)
            players = await rows(second, "SELECT DISTINCT player FROM submissions")
            restored = await board_of(player, len(players), machine)
            assert board == [each for each in restored if each[2] in early]
            assert set(early) <= set(known) <= set(early) | set(late)
            await assert_gets_the_stored_answers(player, early)


async def everything(server: PostgresServer) -> dict[str, set[tuple[Any, ...]]]:
    """Every row of the tables that matter."""
    return {table: set(await rows(server, f"SELECT * FROM {table}")) for table in TABLES}


async def assert_rewrites_nothing(server: PostgresServer) -> None:
    """Neither the parts' role nor the owner can change an event: grants and triggers are there again."""
    for role, refusal in (
        ("scoregate_login", asyncpg.InsufficientPrivilegeError),
        ("scoregate_owner", asyncpg.PostgresError),
    ):
        with pytest.raises(refusal):
            await server.sql("DELETE FROM events", database="scoregate", role=role)
    assert [] != await rows(server, "SELECT 1 FROM events")


async def test_the_page_is_followed_back_to_a_moment():
    """A base backup and the archived log: what was committed by then is there, what came later is not, and it goes on."""
    [log_it, go_back] = examples(BACKUP, "## PostgreSQL", "### To any moment", language="ini")
    [copy_it] = examples(BACKUP, "## PostgreSQL", "### To any moment")
    with (
        running_postgres(is_prepared=False) as server,
        machine_in(server.folder / "machine", server) as machine,
    ):
        await server.prepare()
        archive = machine.folder / "backup" / "wal"
        archive.mkdir(parents=True)
        server.take_over(archive)
        server.stop()
        server.configure(machine.placed(log_it))
        server.start()
        async with server.database() as name:
            store = PostgresStore(server, name)
            async with open_in(store) as ledger:
                await ledger.append(new_submission("before the copy"))
                await machine.run(copy_it)
                await ledger.append(new_submission("after the copy"))
                [[moment]] = await store.sql("SELECT clock_timestamp()::text")
                await ledger.append(new_submission("too late"))
            [[last]] = await store.sql("SELECT pg_walfile_name(pg_switch_wal())")
            await eventually((archive / last).exists)
            server.stop()

            shutil.rmtree(server.data)
            shutil.copytree(machine.folder / "backup" / "base", server.data)
            server.configure(re.sub(r"(?<=recovery_target_time = ').*(?=')", moment, machine.placed(go_back)))
            (server.data / "recovery.signal").touch()
            server.data.chmod(0o700)
            server.take_over(server.data)
            server.start()
            await wait_until(partial(is_promoted, store), machine)

            assert [("after the copy",), ("before the copy",)] == await store.sql(
                "SELECT submission_id FROM submissions ORDER BY 1"
            )
            async with open_in(store) as ledger:
                assert not (await ledger.append(new_submission("after the copy"))).is_new
                assert (await ledger.append(new_submission("too late"))).is_new
            assert [(3, 3)] == await store.sql("SELECT count(*), max(seq) FROM events")


async def is_promoted(store: PostgresStore) -> bool:
    return [(False,)] == await store.sql("SELECT pg_is_in_recovery()")
