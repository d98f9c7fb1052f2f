"""What an operation on the ledger is written against, whichever database carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite

T = TypeVar("T")
Row = tuple[Any, ...]


class Query:
    """A SQLAlchemy Core statement, compiled once for each database."""

    __slots__ = ("_constants", "sqlite")

    def __init__(self, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=_sqlite_dialect())
        self.sqlite = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}

    def values(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Every value the statement binds: those it is written with, and those given now."""
        return {**self._constants, **given}


@lru_cache(maxsize=1)
def _sqlite_dialect() -> Any:
    return sqlite.dialect(paramstyle="named")


class Transaction(Protocol):
    """One transaction. Fails closed: any database error undoes the whole operation and reaches its caller."""

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """The rows that the query gives."""
        ...

    async def run(self, query: Query, /, **values: Any) -> int:
        """How many rows the statement changed."""
        ...


Operation = Callable[[Transaction], Awaitable[T]]
"""A unit of work. It may await nothing but its transaction, so that one thread can drive it on SQLite."""
