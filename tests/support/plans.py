"""How each database would carry out every statement of ours on tables of a million rows.

SQLite plans without statistics unless somebody ran ANALYZE. We test both: `sqlite_stat1`, which we write, is
all that its planner knows of the rows. PostgreSQL plans by its statistics of each column and by the pages of
a table. Its own functions restore the first; tables of one row, whose page claims a million, stand for the
second. So reading a whole table looks cheaper than it is, and a scan shows itself sooner.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Column, LargeBinary

import gateway
import replay
import scoregate
from gateway.ledger.definition import create_schema
from gateway.ledger.schema import metadata
from gateway.ledger.standings import counting, rollups
from gateway.ledger.transaction import Query
from policies.choices import Operator
from policies.fields import SortOrder
from policies.rollups import RollupTake

ROWS: Final = 1_000_000

DISTINCT: Final = {
    "board": 10,
    "window": 500,
    "player": 100_000,
    "address": 50_000,
    "kind": 5,
    "state": 6,
    "build": 20,
    "rule": 5,
    "priority": 4,
    "series": 2,
    "revision": 5,
    "consumer": 5,
    "webhook_id": 50,
    "family": 10,
    "field": 50,
    "lane": 256,
    "credential": 50,
}
"""How many values a column has; one that is not here has as many as there are rows."""

COARSE: Final = frozenset(DISTINCT) - {"player", "address"}
"""Columns whose values are each on thousands of rows: a search by them alone, even by several, is a scan."""

MADE_BY_FUNCTIONS: Final = {
    "gateway.ledger.standings.counting._counting",
    "gateway.ledger.standings.rollups._shares",
}
"""Functions that make a statement for each of their arguments, all of which are planned."""

POSTGRES_ALONE: Final = {"gateway.deployment.time_sources._NOW"}
"""Statements that are never sent to SQLite; they read no table."""

PACKAGES: Final = (gateway, replay, scoregate)


def modules() -> Iterator[Any]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if "migrations" not in found.name and not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def statements() -> dict[str, Query]:
    """Every statement of ours, by where it stands."""
    found: dict[int, tuple[str, Query]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for key, query in _queries_in(value):
                found.setdefault(id(query), (f"{module.__name__}.{name}{key}", query))
    named = dict(found.values())
    for operator, order in product(Operator, SortOrder):
        named[f"gateway.ledger.standings.counting._counting[{operator.value},{order.value}]"] = (
            counting._counting(operator, order)
        )
    for take in (RollupTake.SUM, RollupTake.BEST, RollupTake.COUNT):
        for order in SortOrder:
            named[f"gateway.ledger.standings.rollups._shares[{take.value},{order.value}]"] = rollups._shares(
                take, order
            )
    return {name.removeprefix("gateway.ledger."): query for name, query in named.items()}


def _queries_in(value: Any) -> Iterator[tuple[str, Query]]:
    if isinstance(value, Query):
        yield "", value
    elif isinstance(value, Mapping):
        yield from ((f"[{key}]", each) for key, each in value.items() if isinstance(each, Query))
    elif isinstance(value, tuple | list):
        yield from ((f"[{n}]", each) for n, each in enumerate(value) if isinstance(each, Query))


def makers() -> set[str]:
    """The functions in which a statement is made."""
    return {
        f"{module.__name__}.{function.name}"
        for module in modules()
        for function in ast.walk(ast.parse(Path(module.__file__ or "").read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Query"
    }


def speakers() -> set[str]:
    """The modules that give a database text of their own, and no statement."""
    asking = {"execute", "executemany", "fetch", "fetchval", "fetchrow", "exec_driver_sql"}
    return {
        module.__name__
        for module in modules()
        for call in ast.walk(ast.parse(Path(module.__file__ or "").read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in asking
        and "connection" in ast.unparse(call.func.value)
    }


def faults_of_sqlite(*, has_statistics: bool) -> dict[str, set[str]]:
    """What is to be said against the plan of each statement."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    if has_statistics:
        _write_statistics(connection)
    tables = set(metadata.tables)
    return {
        name: set(_sqlite_faults(connection, query.sqlite, tables))
        for name, query in statements().items()
        if name not in POSTGRES_ALONE
    }


def _write_statistics(connection: sqlite3.Connection) -> None:
    connection.execute("ANALYZE")  # makes the table of statistics
    connection.execute("DELETE FROM sqlite_stat1")
    for table in metadata.tables:
        for _, index, is_unique, *_ in connection.execute(f"PRAGMA index_list('{table}')").fetchall():
            columns = [row[2] for row in connection.execute(f"PRAGMA index_info('{index}')")]
            left, counts = ROWS, []
            for column in columns:
                left = max(1, left // DISTINCT.get(column, ROWS))
                counts.append(left)
            if is_unique:
                counts[-1] = 1
            said = " ".join(map(str, [ROWS, *counts]))
            connection.execute("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", (table, index, said))
        connection.execute("INSERT INTO sqlite_stat1 VALUES (?, NULL, ?)", (table, str(ROWS)))
    connection.execute("ANALYZE sqlite_schema")  # has them read


def _sqlite_faults(connection: sqlite3.Connection, text: str, tables: set[str]) -> Iterator[str]:
    values = dict.fromkeys(re.findall(r":(\w+)", text))
    steps = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()]
    is_sorted = any("TEMP B-TREE" in step for step in steps)
    is_walk = "LIMIT" in text and not is_sorted
    if is_sorted:
        yield "sort"
    for step in steps:
        if step.startswith("SCAN ") and step.split()[1] in tables:
            yield "scan"
        elif step.startswith("SEARCH ") and (constraint := re.search(r"\((.*)\)", step)) and not is_walk:
            yield from _search_fault(step.split()[1], set(re.findall(r"(\w+)=", constraint[1])))


def _search_fault(table: str, columns: set[str]) -> Iterator[str]:
    if not columns:
        yield "range"
    elif columns <= COARSE and not (table in _KEYS and columns >= _KEYS[table]):
        yield "coarse"


_KEYS: Final = {name: set(table.primary_key.columns.keys()) for name, table in metadata.tables.items()}


async def fill_postgres(connection: Any) -> None:
    """Gives each table one row, and the statistics of a million."""
    for table in metadata.sorted_tables:
        values = ", ".join(_value(column) for column in table.columns)
        await connection.execute(f'INSERT INTO "{table.name}" VALUES ({values})')
    relations = (
        "SELECT oid::regclass::text, relkind FROM pg_class "
        "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
    )
    for relation, _ in await connection.fetch(relations):
        await connection.execute(
            "SELECT pg_restore_relation_stats('schemaname', 'public', "
            f"'relname', '{relation.strip(chr(34))}', 'relpages', {1}, 'reltuples', {ROWS}::real)"
        )
    for table in metadata.sorted_tables:
        for name in (table.name, "events_default") if table.name == "events" else (table.name,):
            for column in table.columns:
                await connection.execute(_column_statistics(name, column))


def _value(column: Column[Any]) -> str:
    if isinstance(column.type, BigInteger):
        return "1"
    return "'\\x00'" if isinstance(column.type, LargeBinary) else "'x'"


def _column_statistics(table: str, column: Column[Any]) -> str:
    distinct = -1.0 if column.name not in DISTINCT else float(DISTINCT[column.name])
    inherited = table == "events"
    is_spread = isinstance(column.type, BigInteger) and distinct < 0
    bounds = ", 'histogram_bounds', '{0,250000,500000,750000,1000000}'" if is_spread else ""
    return (
        f"SELECT pg_restore_attribute_stats('schemaname', 'public', 'relname', '{table}', "
        f"'attname', '{column.name}', 'inherited', {str(inherited).lower()}, "
        f"'null_frac', 0::real, 'avg_width', 8, 'n_distinct', {distinct}::real{bounds})"
    )


async def faults_of_postgres(connection: Any) -> dict[str, set[str]]:
    """What is to be said against the plan of each statement, with a page's worth of rows for a limit."""
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    found = {}
    for number, (name, query) in enumerate(statements().items()):
        text = query.postgres[0]
        [plan] = await _plan(connection, f"s{number}", query, "(FORMAT JSON)")
        found[name] = set(_postgres_faults(json.loads(plan)[0]["Plan"], is_walk="LIMIT" in text))
    return found


async def _plan(connection: Any, name: str, query: Query, form: str = "") -> list[str]:
    """The lines of a statement's plan, for values as it is given."""
    text, parameters, _ = query.postgres
    values = ", ".join(_given(text, at, each) for at, each in enumerate(parameters, start=1))
    await connection.execute(f"PREPARE {name} AS {text}")
    lines = await connection.fetch(f"EXPLAIN {form} EXECUTE {name}" + (f"({values})" if values else ""))
    return [line for (line,) in lines]


async def walks_from_the_end(connection: Any) -> list[str]:
    """The statements that look for the greatest number of few rows from the end of their table."""
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    found = []
    for number, (name, query) in enumerate(statements().items()):
        if not re.search(r"\bmax\(", query.postgres[0], re.IGNORECASE):
            continue
        plan = "\n".join(await _plan(connection, f"w{number}", query))
        if re.search(r"Backward.*\n(\s+Index Cond.*\n)?\s+Filter:", plan):
            found.append(name)
    return found


_MONTH: Final = re.compile(r"events_\d{6}")

LIMITS: Final = frozenset({"count", "first", "most", "skipped"})


def _given(text: str, at: int, name: str) -> str:
    """A value for a parameter: of its type, and of a page's length for a limit."""
    if name in LIMITS:
        return "100"
    if name in {"upto", "end", "end_ms", "until_ms"}:
        return "510000"
    if name == "after_order":
        # From the middle on, the planner looks at the greatest value, which is that of the one row.
        return "400000"
    kind = re.search(rf"\${at}::(\w+)", text)
    if f"${at}::{kind[1] if kind else ''}[]" in text:
        return "'{500000}'"
    if kind is None and name in {"achieved_at_ms", "after", "before"}:
        return "500000"
    return {"BIGINT": "500000", "INTEGER": "1", "BYTEA": "'\\x01'"}.get(kind[1] if kind else "", "'x'")


SORTED_AT_MOST: Final = 10_000
"""Rows that may be sorted in the answer to a request."""


def _postgres_faults(step: Mapping[str, Any], *, is_walk: bool) -> Iterator[str]:
    kind, table = step["Node Type"], step.get("Relation Name", "")
    below = step.get("Plans", [])
    if _MONTH.fullmatch(table):
        return  # empty here, and planned as such; the default partition stands for all
    if kind == "Seq Scan":
        yield "scan"
    elif kind.endswith(("Index Scan", "Index Only Scan")):
        condition = step.get("Index Cond", "")
        if not condition:
            yield "scan"
        elif not is_walk or "Filter" in step:
            yield from _search_fault(table, set(re.findall(r'"?(\w+)"? = ', condition)))
    elif kind in {"Sort", "Incremental Sort"} and below[0]["Plan Rows"] > SORTED_AT_MOST:
        yield "sort"
    for each in below:
        yield from _postgres_faults(each, is_walk=is_walk)
