"""Every statement that the gateway asks of a ledger is one that either database takes, from the application's role."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sqlite3
from contextlib import closing

import asyncpg

import gateway
from gateway.ledger.definition import create_schema
from gateway.ledger.transaction import Query
from tests.support.plans import POSTGRES_ALONE
from tests.support.postgres import APP, PostgresServer


def queries() -> dict[str, Query]:
    """Every query that a module of the gateway has at hand, by its name."""
    found = {}
    for each in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if ".migrations" in each.name:
            continue
        for name, value in vars(importlib.import_module(each.name)).items():
            if isinstance(value, Query):
                found[f"{each.name}.{name}"] = value
    return found


def test_every_query_is_one_for_sqlite():
    """Each can be planned on the schema."""
    failed = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(connection)
        for name, query in queries().items():
            if name in POSTGRES_ALONE:
                continue
            values = query.values(dict.fromkeys(re.findall(r":(\w+)", query.sqlite)))
            try:
                connection.execute(f"EXPLAIN {query.sqlite}", values)
            except sqlite3.Error as error:
                failed[name] = str(error)
    assert {} == failed


async def test_every_query_is_one_for_postgres_and_permitted(postgres_server: PostgresServer):
    """Each can be planned on the migrated schema, and the application's role has the rights that it takes."""
    failed = {}
    async with postgres_server.database() as name:
        connection = await asyncpg.connect(postgres_server.url(name, APP))
        for label, query in queries().items():
            try:
                await connection.execute(f"EXPLAIN (GENERIC_PLAN) {query.postgres[0]}")
            except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                failed[label] = str(error)
        await connection.close()
    assert {} == failed
