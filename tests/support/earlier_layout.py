"""What a version before lanes left behind: its keys in Redis, letter for letter, and a ledger of its schema."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
from redis import Redis, RedisCluster

from gateway.ledger.migrate import upgrade_postgres, upgrade_sqlite
from tests.support.postgres import OWNER
from tests.support.stores import PostgresStore, SqliteStore, Store

SCHEMA = "0002"
"""The version of the ledger's schema that had these keys."""

MINUTE_MS = 60_000

FOREIGN = (
    "lb:other",
    "lb:{UPPER}:pending",
    "limit:{net}:players:a",
    "friends:{3}",
    "{parts}:seen",
    "rq:job:1",
)
"""Keys that are nobody's business, and those that mean today what they meant then."""

CARRIED = {
    "lb:{tiny}:open:ada": "lb:{201}:tiny:open:ada",
    "lb:{tiny}:runs:ada": "lb:{201}:tiny:runs:ada",
    "lb:{tiny}:limit:player:ada": "lb:{201}:tiny:limit:player:ada",
    "lb:{tiny}:refused:player:ada": "lb:{201}:tiny:refused:player:ada",
}
"""Where the values go that are in Redis alone."""


def write_earlier_keys(redis: Redis | RedisCluster) -> None:
    """Write a board, a shard, what passes, what is derived, and what belongs to others."""
    for part in ("tiny", "vast", "vast/0", "gone"):
        redis.set(f"lb:{{{part}}}:whole", "1")
        redis.zadd(f"lb:{{{part}}}:alltime", {"0000000000000000000001:mallory": -999})
        redis.hset(f"lb:{{{part}}}:alltime:members", "mallory", "1 0000000000000000000001:mallory run")
        redis.xadd(f"lb:{{{part}}}:changes", {"seq": "1", "window": "alltime", "player": "mallory"})
    redis.zadd("lb:{tiny}:pending", {"forgotten": 1})
    redis.zadd("lb:{tiny}:segment:country:at:alltime", {"mallory": -999})
    redis.hset("lb:{tiny}:built:0a:alltime:members", "mallory", "1 = run")
    redis.set("lb:{tiny}:limit:address:forged", "0 0")  # it has no end, so it was never ours
    redis.set("derived:{tiny}:group:webhooks", "1")
    redis.pfadd("derived:{tiny}:players", "ada", "bob")
    redis.zadd("lb:{tiny}:open:ada", {"run-1": 9_999_999_999_999})
    redis.hset("lb:{tiny}:runs:ada", "opened:490000", "3")
    redis.set("lb:{tiny}:limit:player:ada", "1700000000000000 0")
    redis.set("lb:{tiny}:refused:player:ada", "7 0 12")
    for key in CARRIED:
        redis.pexpire(key, 10 * MINUTE_MS)
    for key in FOREIGN:
        redis.set(key, "theirs")


def earlier_keys(names: list[bytes]) -> set[str]:
    """Those of some keys that only the version before lanes made."""
    texts = [name.decode() for name in names]
    stems = [f"{kind}:{{{part}}}:" for kind in ("lb", "derived") for part in ("tiny", "vast", "gone")]
    shards = [
        "lb:{vast/0}:whole",
        "lb:{vast/0}:alltime",
        "lb:{vast/0}:alltime:members",
        "lb:{vast/0}:changes",
    ]
    return {text for text in texts if text.startswith(tuple(stems)) or text in shards}


async def copy_as_earlier(store: Store, into: Store) -> None:
    """Make a ledger of the earlier schema with the rows of another, as far as that schema has room for them."""
    if isinstance(store, PostgresStore) and isinstance(into, PostgresStore):
        await _copy_postgres(store, into)
    elif isinstance(store, SqliteStore) and isinstance(into, SqliteStore):
        _copy_sqlite(store.path, into.path)


def _copy_sqlite(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        upgrade_sqlite(connection, SCHEMA)
        connection.execute("ATTACH ? AS later", (str(source),))
        for (table,) in connection.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table'"
        ).fetchall():
            if table == "alembic_version" or table.startswith("sqlite_"):
                continue
            columns = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})").fetchall()]
            names = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM later.{table}")


async def _copy_postgres(source: PostgresStore, target: PostgresStore) -> None:
    server = target.server
    await upgrade_postgres(server.url(target.database, OWNER), SCHEMA)
    reading = await asyncpg.connect(server.url(source.database, OWNER))
    writing = await asyncpg.connect(server.url(target.database, OWNER))
    tables = await writing.fetch(
        "SELECT relname AS name FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
        "AND relnamespace = current_schema()::regnamespace AND relname <> 'alembic_version'"
    )
    for table in tables:
        rows = await writing.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_name = $1", table["name"]
        )
        columns = [row["column_name"] for row in rows]
        names, copied = ", ".join(f'"{column}"' for column in columns), io.BytesIO()
        await reading.copy_from_query(f"SELECT {names} FROM {table['name']}", output=copied, format="binary")
        copied.seek(0)
        await writing.copy_to_table(table["name"], source=copied, columns=columns, format="binary")
    await reading.close()
    await writing.close()
