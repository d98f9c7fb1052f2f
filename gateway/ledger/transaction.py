"""Queries, transactions and operations, the same on either database."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol, TypeVar

import orjson
from sqlalchemy import ARRAY, ClauseElement, ColumnElement, Table, bindparam
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.compiler import compiles

T = TypeVar("T")
Row = tuple[Any, ...]
Cells = tuple[Any, ...]
"""The values of a row, in the order of its table's columns."""


class OneOf(ColumnElement[bool]):
    """The condition that a column has one of the values of a list, which is bound as one value.

    So a statement has the same text for a list of any length. SQLite gets the list as JSON, PostgreSQL as an
    array. Lists of bytes have no form in JSON.
    """

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column = column
        self.given = bindparam(name, type_=ARRAY(column.type))


@compiles(OneOf, "sqlite")
def _in_json(condition: OneOf, compiler: Any, **options: Any) -> str:
    column, given = (compiler.process(each, **options) for each in (condition.column, condition.given))
    return f"{column} IN (SELECT value FROM json_each({given}))"  # noqa: S608 - a placeholder


@compiles(OneOf, "postgresql")
def _in_array(condition: OneOf, compiler: Any, **options: Any) -> str:
    column, given = (compiler.process(each, **options) for each in (condition.column, condition.given))
    return f"{column} = ANY ({given})"


class ListOf(ColumnElement[Any]):
    """All values of a column as one value, which `listed` reads: a page is made in the database as one row.

    Several of a statement have the same order, which is that of their rows as the database came to them.
    """

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column


@compiles(ListOf, "sqlite")
def _to_json(values: ListOf, compiler: Any, **options: Any) -> str:
    return f"json_group_array({compiler.process(values.column, **options)})"


@compiles(ListOf, "postgresql")
def _to_array(values: ListOf, compiler: Any, **options: Any) -> str:
    return f"array_agg({compiler.process(values.column, **options)})"


def listed(cell: str | list[Any] | None) -> list[Any]:
    """Return the values in a cell of `ListOf`."""
    return orjson.loads(cell) if isinstance(cell, str) else cell or []


_LIST: Final = re.compile(r"json_each\(:(\w+)\)")


class Query:
    """A SQLAlchemy Core statement, compiled once for each database that executes it.

    Compiled at its first use: a part uses a fraction of all the statements that it loads.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement

    @cached_property
    def sqlite(self) -> str:
        """The text for SQLite."""
        return self._on_sqlite[0]

    @cached_property
    def _constants(self) -> Mapping[str, Any]:
        return self._on_sqlite[1]

    @cached_property
    def _on_sqlite(self) -> tuple[str, Mapping[str, Any]]:
        compiled = self._statement.compile(dialect=_sqlite_dialect())
        return str(compiled), _constants_of(compiled)

    @cached_property
    def _lists(self) -> tuple[str, ...]:
        return tuple(_LIST.findall(self.sqlite))

    @cached_property
    def postgres(self) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
        """The text for PostgreSQL, the names of its values $1, $2, ... in order, and its constants."""
        # The dialect casts what it binds, or PostgreSQL would have to guess the types of NULLs and numbers.
        # Constants without a name are numbered by the compilation, so each has its own.
        compiled: Any = self._statement.compile(dialect=_postgres_dialect())
        return str(compiled), tuple(compiled.positiontup or ()), _constants_of(compiled)

    def values(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return every value that the statement binds on SQLite: its constants and those given."""
        lists = {name: orjson.dumps(given[name]).decode() for name in self._lists if name in given}
        return {**self._constants, **given, **lists}

    def ordered(self, given: Mapping[str, Any]) -> list[Any]:
        """Return every value that the statement binds on PostgreSQL, in the order of its text."""
        _, names, constants = self.postgres
        return [given[name] if name in given else constants[name] for name in names]


def _constants_of(compiled: Any) -> Mapping[str, Any]:
    return {name: value for name, value in compiled.params.items() if value is not None}


@lru_cache(maxsize=1)
def _sqlite_dialect() -> Any:
    return sqlite.dialect(paramstyle="named")


@lru_cache(maxsize=1)
def _postgres_dialect() -> Any:
    return asyncpg.dialect()  # type: ignore[no-untyped-call]


def in_place_of(table: Table) -> str:
    """Return the end of an insertion that stores rows in place of those with the same keys, on either."""
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
    others = [f'"{column.name}"' for column in table.columns if not column.primary_key]
    return f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"


class Transaction(Protocol):
    """A transaction.

    It fails closed: any database error undoes the whole operation and reaches its caller.
    """

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """Return the rows of the query."""
        ...

    async def run(self, query: Query, /, **values: Any) -> int:
        """Run the statement, and return how many rows it changed."""
        ...

    async def run_each(self, query: Query, values: Sequence[Mapping[str, Any]], /) -> None:
        """Run the statement once for each of these values, without waiting in between."""
        ...

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows with few statements, and skip recordings that are stored already."""
        ...

    async def put(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows with few statements, or store them in place of those with the same keys.

        No two of them have the same key.
        """
        ...


Operation = Callable[[Transaction], Awaitable[T]]
"""A unit of work. It may await nothing but its transaction, so that a thread can drive it on SQLite."""
