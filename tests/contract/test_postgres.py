"""What a ledger on PostgreSQL must keep to beside the contract: its role, its partitions, its schema, its secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from typer.testing import CliRunner

from gateway.ledger import queries
from gateway.ledger.migrate import upgrade_postgres
from gateway.ledger.postgres import store as postgres
from gateway.ledger.postgres.store import PostgresLedger
from gateway.ledger.postgres.writer import ALONE
from gateway.ledger.schema import SCHEMA_VERSION, metadata
from gateway.ledger.transaction import Query, Transaction
from gateway.runtime.settings import load_settings
from gateway.wiring import ledger_of
from policies.errors import LedgerUnavailable, SettingsError
from scoregate.cli import app
from tests.support.ledger import new_submission
from tests.support.postgres import APP, OWNER, PASSWORD, PostgresServer
from tests.support.stores import PostgresStore, open_in


@pytest.fixture
def store(postgres_store: PostgresStore) -> PostgresStore:
    """The only one of the two that this file is about."""
    return postgres_store


async def test_M09_the_application_has_no_right_to_change_history(store: PostgresStore):
    """Its role can neither change nor remove an event or a recording, nor the facts of a submission: permission denied."""
    async with open_in(store) as ledger:
        await ledger.append(new_submission("run-1"))
    for statement in (
        "UPDATE events SET actor = 'nobody'",
        "DELETE FROM events",
        "TRUNCATE events",
        "UPDATE recordings SET first_seq = 7",
        "TRUNCATE recordings",
        "UPDATE submissions SET score = 1",
        "DELETE FROM submissions",
        "DROP TABLE events",
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "DROP TRIGGER events_no_delete ON events",
        "UPDATE alembic_version SET version_num = '0000'",
        "CREATE TABLE mine (x text)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await store.sql(statement, role=APP)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await store.sql("DELETE FROM recordings", role=APP)


async def test_M09_no_partition_is_a_way_around(store: PostgresStore):
    """The rights and the triggers are the same where the rows really are, for the owner too."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    async with open_in(store) as ledger:
        await ledger.append(new_submission("now", at_ms=now_ms))
        await ledger.append(new_submission("long ago"))
    for partition in (f"events_{datetime.now(UTC):%Y%m}", "events_default"):
        assert [(1,)] == await store.sql(f"SELECT count(*) FROM {partition}")
        for statement in (f"DELETE FROM {partition}", f"TRUNCATE {partition}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await store.sql(statement, role=APP)
            with pytest.raises(store.refusals, match="append-only"):
                await store.sql(statement, role=OWNER)


@pytest.mark.parametrize("table", ["events", "recordings", "submissions", "seals"])
async def test_M09_not_even_the_owner_truncates(store: PostgresStore, table: str):
    """TRUNCATE passes row triggers by; it has one of its own."""
    with pytest.raises(store.refusals, match="append-only"):
        await store.sql(f"TRUNCATE {table}", role=OWNER)


async def test_the_application_has_the_rights_to_every_table_that_it_uses(store: PostgresStore):
    """A table that is new in the schema was not forgotten when rights were granted."""
    for table in metadata.tables:
        for right in ("SELECT", "INSERT"):
            assert [(True,)] == await store.sql(f"SELECT has_table_privilege('{APP}', '{table}', '{right}')")


async def test_months_are_made_ahead_and_what_fits_none_is_kept_all_the_same(store: PostgresStore):
    """Opening makes the partitions that are missing, except where the default one has the month's events already."""
    this_month = f"events_{datetime.now(UTC):%Y%m}"
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    months = await partitions(store)
    next_month = sorted(months)[1]
    await store.sql(f"DROP TABLE {this_month}, {next_month}", role=OWNER)
    async with asyncpg_connection(store) as connection:
        await connection.execute(INSERT_EVENT, now_ms)

    async with open_in(store) as ledger:
        assert (await ledger.append(new_submission("now", at_ms=now_ms))).is_new
        assert 14 - 1 == len(await partitions(store))
        assert this_month not in await partitions(store)
        assert [(2,)] == await store.sql("SELECT count(*) FROM events_default")
        assert 2 == await ledger.read(queries.newest_seq())


async def test_a_process_that_runs_for_long_makes_the_months_ahead_too(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """Not only as it opens: after a year the events of all months would be in the default partition."""
    async with open_in(store) as ledger:
        months = await partitions(store)
        await store.sql(f"DROP TABLE {sorted(months)[-2]}", role=OWNER)
        await ledger.append(new_submission("run-1"))
        assert len(months) - 1 == len(await partitions(store))
        monkeypatch.setattr(postgres, "PARTITION_EVERY_S", 0.0)
        await ledger.append(new_submission("run-2"))
        assert months == await partitions(store)


async def test_a_writer_that_vanished_inside_a_transaction_holds_nobody_up_for_long(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """It has the writers' turn, and is never heard of again: PostgreSQL ends it, and the next one writes."""
    monkeypatch.setattr(postgres, "IDLE_TIMEOUT_S", 0.05)
    async with open_in(store) as vanished, open_in(store, busy_timeout_s=60.0) as other:
        await vanished._connection.execute(f"BEGIN; {ALONE}")
        assert (await other.append(new_submission("run-1"))).is_new
        assert (await vanished.append(new_submission("run-2"))).is_new  # over a connection that is new


async def test_no_statement_and_no_lock_is_waited_for_without_end(store: PostgresStore):
    """The server itself ends both, on the connection that writes and on those that read."""
    bounds = {
        "idle_in_transaction_session_timeout": f"{postgres.IDLE_TIMEOUT_S:.0f}s",
        "lock_timeout": "7s",
        "statement_timeout": f"{postgres.STATEMENT_TIMEOUT_S:.0f}s",
    }

    async def held(tx: Transaction) -> dict[str, str]:
        return {name: str((await tx.rows(Query(text(f"SHOW {name}"))))[0][0]) for name in bounds}

    async with open_in(store, busy_timeout_s=7.0) as ledger:
        assert [bounds, bounds] == [await ledger.read(held), await ledger.write(held)]


INSERT_EVENT = "INSERT INTO events VALUES (1, 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 1, '{}', $1)"


async def partitions(store: PostgresStore) -> set[str]:
    found = await store.sql(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass"
    )
    return {row[0] for row in found}


@asynccontextmanager
async def asyncpg_connection(store: PostgresStore) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(store.url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_an_empty_database_is_refused_with_the_command_that_helps(empty: PostgresStore):
    """Nothing is made unasked: who may create tables is not who runs the parts."""
    with pytest.raises(LedgerUnavailable, match="no ledger: run `scoregate ledger migrate`"):
        async with open_in(empty):
            pass


async def test_a_server_that_is_too_old_is_refused_by_its_version(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """Before anything is asked of it that it does not know."""
    monkeypatch.setattr(postgres, "MINIMUM_VERSION", 99)
    with pytest.raises(LedgerUnavailable, match="PostgreSQL 99 or newer is needed, this is "):
        async with open_in(store):
            pass


@pytest.mark.parametrize("version", ["0000", "9999", "a1b2c3d4e5f6"])
async def test_a_schema_of_another_version_is_refused_with_the_command_that_helps(
    store: PostgresStore, version: str
):
    """Older, newer, or another program's: it is not guessed at."""
    await store.sql(f"UPDATE alembic_version SET version_num = '{version}'")
    said = f"schema version {version}, this scoregate needs {SCHEMA_VERSION}: run `scoregate ledger migrate`"
    with pytest.raises(LedgerUnavailable, match=said):
        async with open_in(store):
            pass


async def test_a_role_that_was_granted_nothing_is_told_what_it_lacks(store: PostgresStore):
    """The error names the group role."""
    await store.sql("DROP ROLE IF EXISTS stranger")
    await store.sql("CREATE ROLE stranger LOGIN")
    ledger = PostgresLedger(SecretStr(store.server.url(store.database, "stranger")))
    with pytest.raises(LedgerUnavailable, match="grant this role scoregate_app"):
        await ledger.open()
    await ledger.close()


async def test_an_owner_that_may_not_create_roles_is_told_who_has_to(empty: PostgresStore):
    """Where `scoregate_app` is missing and cannot be made, the error says what an administrator does."""
    await empty.sql("CREATE ROLE modest LOGIN")
    await empty.sql("GRANT CREATE ON SCHEMA public TO modest")
    await empty.sql("ALTER ROLE scoregate_app RENAME TO elsewhere")
    try:
        with pytest.raises(LedgerUnavailable, match="CREATE ROLE scoregate_app NOLOGIN"):
            await upgrade_postgres(empty.server.url(empty.database, "modest"))
    finally:
        await empty.sql("ALTER ROLE elsewhere RENAME TO scoregate_app")
        await empty.sql("DROP OWNED BY modest")
        await empty.sql("DROP ROLE modest")


async def test_commits_are_synchronous_whatever_the_database_says(store: PostgresStore):
    """A default of `synchronous_commit = off` does not make a 2xx less than durable."""
    await store.sql(f"ALTER ROLE {APP} IN DATABASE {store.database} SET synchronous_commit = off")
    async with open_in(store) as ledger:
        assert "on" == await ledger._connection.fetchval("SHOW synchronous_commit")


async def test_a_sum_is_a_whole_number_to_readers_and_the_writer(store: PostgresStore):
    """The server has it as a numeric, of which neither arithmetic nor JSON would make what SQLite's sum is."""
    few = "SELECT CAST(4611686018427387905 AS bigint) AS x UNION ALL SELECT -1 UNION ALL SELECT 5"
    summed = Query(text(f"SELECT sum(x), -sum(x) FROM ({few}) AS few"))
    async with open_in(store) as ledger:
        for ask in (ledger.read, ledger.write):
            [row] = await ask(lambda tx: tx.rows(summed))
            assert [2**62 + 5, -(2**62) - 5] == list(row)
            assert {int} == {type(each) for each in row}


async def test_a_connection_that_was_cut_is_made_anew(store: PostgresStore):
    """A write that meets the cut is refused, one that comes after it was noticed is not; later ones find new connections."""
    async with open_in(store) as ledger:
        await ledger.append(new_submission("before"))
        assert 1 == await ledger.read(queries.newest_seq())
        await store.sql(CUT_ALL)
        met, after = [await outcome_of(ledger.append(new_submission("during"))) for _ in range(2)]
        was_refused = isinstance(met, LedgerUnavailable)
        assert was_refused or met is True
        assert after is was_refused
        assert 2 == (await settled(lambda: ledger.read(queries.newest_seq())))
    assert [(2,)] == await store.sql("SELECT count(*) FROM submissions")


async def test_I07_a_fault_under_one_operation_refuses_its_group(store: PostgresStore):
    """An acknowledgement beside a failing database could not be trusted; nothing of the group is stored."""
    cut = Query(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    async with open_in(store) as ledger:
        outcomes = await asyncio.gather(
            ledger.append(new_submission("run-1")),
            ledger.write(queries.add_player("ada", "Ada", now_ms=1)),
            ledger.write(lambda tx: tx.rows(cut)),
            return_exceptions=True,
        )
        assert [LedgerUnavailable] * 3 == [type(outcome) for outcome in outcomes]
        assert [(0, 0)] == await store.sql(
            "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM players)"
        )
        assert (await ledger.append(new_submission("run-1"))).is_new


CUT_ALL = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'scoregate'"


async def outcome_of(append: Any) -> Any:
    try:
        return (await append).is_new
    except LedgerUnavailable as error:
        return error


async def settled(ask: Callable[[], Any]) -> Any:
    """The answer, asked for once more if the first connection was a dead one."""
    try:
        return await ask()
    except LedgerUnavailable:
        return await ask()


async def test_I07_a_database_that_is_not_there_is_unavailable(tmp_path: Path):
    """Starting fails with what is wrong, and the password is not part of it."""
    with pytest.raises(LedgerUnavailable) as caught:
        async with open_in(PostgresStore(_Nowhere(), "none")):
            pass
    assert PASSWORD not in str(caught.value)
    assert "PostgreSQL: " in str(caught.value)


class _Nowhere:
    def url(self, database: str, role: str) -> str:
        return f"postgresql://{role}:{PASSWORD}@127.0.0.1:9/{database}"


async def test_I07_a_read_only_database_refuses_writes_and_serves_reads(store: PostgresStore):
    """As a standby does; the group is refused and nothing is half written."""
    await store.sql(f"ALTER DATABASE {store.database} SET default_transaction_read_only = on")
    async with open_in(store) as ledger:
        with pytest.raises(LedgerUnavailable, match="read-only"):
            await ledger.append(new_submission("run-1"))
        assert 0 == await ledger.read(queries.newest_seq())


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{PASSWORD}@h/d",
        f"postgres://u:{PASSWORD}@h/d",
        f"postgresql+asyncpg://u:{PASSWORD}@h/d",
        f"postgresql://u:a/{PASSWORD}@h/d",
        f"postgresql://u:a@{PASSWORD}@h/d",
        f"postgresql://u:1/{PASSWORD}@h/d",
        f"postgresql://u:{PASSWORD}",
        f"postgresql://u:a#{PASSWORD}@h/d",
        f"postgresql://u:1?{PASSWORD}@h/d",
        "sqlite:///",
        "sqlite://relative",
        "",
    ],
)
def test_any_other_url_is_refused_without_being_repeated(url: str, monkeypatch: pytest.MonkeyPatch):
    """The error says what was expected; a password in the wrong place is in no message."""
    monkeypatch.setenv("SCOREGATE_LEDGER_URL", url)
    with pytest.raises(
        SettingsError, match="SCOREGATE_LEDGER_URL: expected sqlite:///<path> or postgresql://"
    ) as caught:
        load_settings()
    assert PASSWORD not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"


def test_a_password_is_shown_nowhere():
    """Neither the settings nor the ledger nor a failing command say it."""
    url = f"postgresql://u:{PASSWORD}@127.0.0.1:9/d"
    settings = load_settings(ledger_url=url)
    result = CliRunner().invoke(app, ["ledger", "migrate", "--url", url])

    assert isinstance(result.exception, LedgerUnavailable)
    for shown in (settings, ledger_of(settings), vars(ledger_of(settings)), result.exception, result.output):
        assert PASSWORD not in f"{shown!r} {shown}"


def test_a_ledger_belongs_to_the_loop_that_opened_it_and_ends_with_it(postgres_server: PostgresServer):
    """Opening, using and closing in one run leaves nothing behind for the next."""

    async def once(number: int) -> int:
        async with (
            postgres_server.database() as name,
            open_in(PostgresStore(postgres_server, name)) as ledger,
        ):
            await ledger.append(new_submission(f"run-{number}"))
            return await ledger.read(queries.newest_seq())

    assert [1, 1] == [asyncio.run(once(number)) for number in range(2)]


async def test_the_how_to_leads_to_a_ledger(postgres_server: PostgresServer):
    """What use-postgresql.md has a superuser type, and then the owner, is what the application's login can work with."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use-postgresql.md").read_text(encoding="utf-8")
    statements = (
        page.split("```sql\n", 1)[1].split("```", 1)[0].replace("CREATE ROLE scoregate_app NOLOGIN;", "")
    )
    for statement in filter(None, map(str.strip, statements.split(";"))):
        await postgres_server.sql(statement)

    await upgrade_postgres(postgres_server.url("scoregate", "scoregate_owner"))
    ledger = PostgresLedger(SecretStr(postgres_server.url("scoregate", "scoregate_login")))
    await ledger.open()
    assert (await ledger.append(new_submission("run-1"))).is_new
    await ledger.close()
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="CONNECT"):
        await postgres_server.sql("SELECT 1", database="scoregate", role=OWNER)
