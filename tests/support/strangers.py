"""What each statement of ours sees of the rows of a ledger.

A ledger has one row in each table: that of a player on a board, in a window. Every statement runs with values
that find it. A row is seen if the answer, or what the statement changes, differs without it. Strangers are
further rows that differ from it in one thing, such as their board, and in their numbers, so that they sort
before and after it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, LargeBinary

from gateway.ledger.schema import metadata
from gateway.ledger.transaction import Query
from gateway.runtime.lanes import LANES
from policies.opened_board import BoardState
from policies.vocabulary import Reason, State
from tests.support.ledger import ledger_in_memory
from tests.support.plans import POSTGRES_ALONE, statements

Values = Mapping[str, Any]

NUMBER: Final = 50
"""What stands in every column of a number that is not named here."""

HOME: Final[Values] = {
    "board": "tiny",
    "window": "alltime",
    "player": "ada",
    "build": "ada",
    "from_state": State.PROMOTED.value,
    "to_state": State.PROMOTED.value,
    "state": State.PROMOTED.value,
    "stage": "frozen",
    "kind": "verify",
    "reason": Reason.SAMPLED.value,
    "actor": "replay",
    "is_joined": 1,
    "handed_out": 1,
    "series": 0,
    "revoked_at_ms": None,
    "disabled_at_ms": None,
    "body": None,
    "recording_digest": b"digest",
    "operation_id": "submission_id",
    "role": "admin",
    "scope": "*",
}
"""Columns of text that are not named here say their own name."""

STATES: Final = tuple(each.value for each in State)
KINDS: Final = ("verify", "project", "reveal", "recheck", "recall", "audit", "probe")
STAGES: Final = (
    "folding", "copying", "sweeping", "frozen", "kept", "forgetting", "forgotten", "withdrawn",
)  # fmt: skip
DELIVERIES: Final = ("pending", "delivered", "dead")
BOARD_STATES: Final = tuple(each.value for each in BoardState)

WITHOUT: Final = "without"
"""Names a table that has no row."""

MOODS: Final[tuple[Values, ...]] = (
    *(
        {"state": each, "from_state": each, "to_state": each}
        for each in (*STATES, *DELIVERIES, *BOARD_STATES)
    ),
    *({"kind": each} for each in KINDS),
    *({"stage": each} for each in STAGES),
    {"kind": "audit", "priority": 0},
    {"kind": "probe", "seq": 0},
    {"reason": Reason.VERIFIED.value},
    {"state": State.REVOKED.value, "reason": Reason.BANNED.value},
    {"lifted_at_ms": None},
    {"undone_at_ms": None},
    {"actor": "moderator:mara"},
    {"player": "@ada"},
    {"series": 1},
    {"state": "pending", WITHOUT: "outbox"},
    {WITHOUT: "outbox"},
    {WITHOUT: "recordings"},
    {"rule": "another"},
    {"asked_at_ms": None},
    {"handed_out": 0},
    {"disabled_at_ms": NUMBER},
)
"""What the row may be: many a statement sees it in one state alone."""

OF_FAMILIES: Final[tuple[Values, ...]] = (
    {"player": ""},
    {"board": "track.tiny", "from_state": State.RECEIVED.value},
)
"""An event of a board's life is of no player; what is played on boards of families has a dot in its board."""

SHIFTED: Final = ("seq", "score", "order_value", "at_ms", "achieved_at_ms", "due_at_ms", "created_at_ms")
"""Numbers by which rows are ordered."""

COLUMNS: Final[Values] = {
    "of_board": "board",
    "at_board": "board",
    "at_window": "window",
    "of_window": "window",
    "of_player": "player",
    "of_moderator": "moderator",
    "of_digest": "digest",
    "of_provider": "provider",
    "of_subject_digest": "subject_digest",
    "at_player": "player",
    "whose": "player",
    "of_build": "build",
    "event": "event_id",
    "row_kind": "kind",
    "in_state": "state",
}
"""The columns of values that are bound under another name."""

LOW: Final = 10
HIGH: Final = 90
FIRST: Final = ""
LAST: Final = "~"
PUT: Final = {int: 77, str: "set", bytes: b"set"}
"""What is put into a column that is changed."""
BOUND: Final[Values] = {
    "limit": 0,
    "digits": 1,
    "slots": 1,
    "total": PUT[int],
    "last_order": LOW,
    "last_ties": "",
    "lanes": "1" * LANES,
}
TABLE_OF: Final = {column.name: table for table in metadata.tables.values() for column in table.columns}
PAGE: Final[Values] = {"LIMIT": 99, "OFFSET": 0}


MARKS: Final = {
    int: (LOW - 1, LOW, NUMBER, HIGH, HIGH + 1),
    str: (FIRST, FIRST, "m", LAST, LAST + LAST),
    bytes: (FIRST.encode(), FIRST.encode(), b"m", LAST.encode(), LAST.encode() * 2),
}
"""Before a span, at its beginning, in it, at its end, and behind it; nothing is before the least text."""


class Bind(NamedTuple):
    """A value that a statement takes, the column it is compared with or put into, and how."""

    name: str
    column: str
    how: str


@cache
def asked() -> dict[str, Query]:
    """Every statement that is asked of either ledger, by where it stands."""
    return {name: query for name, query in statements().items() if name not in POSTGRES_ALONE}


def tables_of(query: Query) -> set[str]:
    """The tables that a statement names."""
    return _tables(query.sqlite)


@cache
def _tables(text: str) -> set[str]:
    return metadata.tables.keys() & set(
        re.findall(r"(?<![.\w])\w+", text)
    )  # a column may be called as a table is


def of_tables(tables: Iterable[str]) -> dict[str, Query]:
    """The statements that name one of some tables."""
    wanted = set(tables)
    return {name: query for name, query in asked().items() if wanted & tables_of(query)}


def other_than(column: str) -> Any:
    """Another value of a column than that of the row that is asked for."""
    own = value_in(TABLE_OF[column].name, column, HOME)
    return own - 1 if isinstance(own, int) else own * 2


def _is_put(query: Query) -> bool:
    """Whether a statement puts in what it is given, and asks nothing."""
    return query.sqlite.startswith("INSERT") and "SELECT" not in query.sqlite


def _first_table(query: Query) -> str:
    """The table that a statement writes to."""
    return next(word for word in re.findall(r"\w+", query.sqlite) if word in metadata.tables)


class World:
    """The tables of a ledger, without what keeps rows in them from being changed."""

    def __init__(self) -> None:
        with closing(ledger_in_memory()) as empty:
            made = empty.serialize()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1_000)
        self._connection.deserialize(made)
        for (trigger,) in self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
        ).fetchall():
            self._connection.execute(f"DROP TRIGGER {trigger}")

    def close(self) -> None:
        """Forgets all."""
        self._connection.close()

    def that_see_strangers(self, column: str, *, at_home: bool = True) -> set[str]:
        """Return the statements that see rows with a value in a column that they did not ask for.

        With `at_home` the row that they ask for is there too. It can hide all others from a statement that
        returns one row, or the first.
        """
        found: set[str] = set()
        tables = [name for name, table in metadata.tables.items() if column in table.columns]
        known = of_tables(tables)
        for mood, concerned in by_mood(known, MOODS):
            named = _tables_of_all(concerned - found)
            with self._undone():
                self._put({**HOME, **mood}, named)
                self._empty([] if at_home else tables)
                alone = {name: self._answer(known[name], mood) for name in concerned - found}
                for number in (NUMBER, NUMBER - 10, NUMBER + 10):
                    moved = dict.fromkeys(SHIFTED, number) | {"submission_id": f"run-{number}"}
                    stranger = {column: other_than(column)}
                    self._put({**HOME, **(moved if number != NUMBER else {}), **mood, **stranger}, named)
                found |= {name for name in alone if alone[name] != self._answer(known[name], mood)}
        return found

    def seen(self, table: str, column: str, values: Iterable[str]) -> dict[str, str]:
        """Return the values of a column with which each statement sees a table's row, if it ever does."""
        found: dict[str, str] = {}
        for value in values:
            for name in self._seeing(table, {column: value}, {column: value}):
                found[name] = f"{found.get(name, '')} {value}".strip()
        return found

    def ends(self, table: str, column: str, beside: str = "") -> dict[str, str]:
        """Return how the spans of statements end: `[` or `]` if the end is included, else `(` or `)`.

        `beside` is a column of text that is compared together with this one.
        """
        marks = MARKS[type(value_in(table, column, HOME))]
        texts = MARKS[str]
        sees = [
            self._seeing(table, {column: mark} | ({beside: text} if beside else {}), {})
            for mark, text in zip(marks, texts, strict=True)
        ]
        below, first, inside, last, beyond = sees
        begins = {name: "" if name in below else "[" if name in first else "(" for name in inside}
        return {
            name: begin + ("" if name in beyond else "]" if name in last else ")")
            for name, begin in begins.items()
        }

    def blind(self) -> set[tuple[str, str]]:
        """Statements with a table that they name, though it is all the same to them what is in it."""
        return {
            (name, table)
            for table in metadata.tables
            for name in of_tables([table]).keys() - self._seeing(table, {}, {})
            if not _is_put(asked()[name])
        }

    def changes(self) -> dict[str, list[str]]:
        """Return the columns that each statement changes, in any mood; for an insert, those of a conflict."""
        writing = {
            name: query
            for name, query in asked().items()
            if re.match("UPDATE|INSERT.*CONFLICT", query.sqlite, re.DOTALL)
        }
        found: dict[str, set[str]] = {name: set() for name in writing}
        for mood, concerned in by_mood(writing, MOODS):
            with self._undone():
                self._put({**HOME, **mood}, _tables_of_all(concerned))
                for name in concerned:
                    found[name] |= self._changed(writing[name], mood)
        return {name: sorted(columns) for name, columns in found.items()}

    def _empty(self, tables: Iterable[str]) -> None:
        for table in tables:
            self._connection.execute(f'DELETE FROM "{table}"')

    def _changed(self, query: Query, mood: Values) -> set[str]:
        table = metadata.tables[_first_table(query)]
        values = dict(query.values({each.name: value_of(each, mood) for each in binds(query)}))
        if query.sqlite.startswith("INSERT"):
            others = [each for each in table.columns if each.name in values and not each.primary_key]
            values |= {each.name: PUT[type(value_in(table.name, each.name, {}))] for each in others}
        with self._undone():
            before = self._rows(table.name)
            self._connection.execute(query.sqlite, values)
            after = self._rows(table.name)
        changed = zip(before - after, after - before, strict=False)
        pairs = [zip(table.columns.keys(), was, now, strict=True) for was, now in changed]
        return {name for pair in pairs for name, was, now in pair if was != now}

    def _seeing(self, table: str, row: Values, asked_for: Values) -> set[str]:
        """The statements that see the row of a table while it has these values, in whatever mood."""
        known, found = of_tables([table]), set[str]()
        for mood, concerned in by_mood(known, (*MOODS, *OF_FAMILIES)):
            if not (left := concerned - found):
                continue
            with self._undone():
                self._put({**HOME, **mood, **row}, _tables_of_all(left))
                given = {**mood, **asked_for}
                there = {name: self._answer(known[name], given) for name in left}
                self._connection.execute(f'DELETE FROM "{table}"')
                found |= {name for name in left if there[name] != self._answer(known[name], given)}
        return found

    def _put(self, given: Values, tables: Iterable[str]) -> None:
        """Puts a row into each of some tables; one that is there already stays as it is."""
        for name in tables:
            if name != given.get(WITHOUT):
                row = [cell(column, given) for column in _columns(name)]
                marks = ", ".join("?" * len(row))
                self._connection.execute(f'INSERT OR IGNORE INTO "{name}" VALUES ({marks})', row)

    def _answer(self, query: Query, mood: Values) -> list[str]:
        """What a statement gives, or which rows it changed, took away or copied; nothing of it stays."""
        text = query.sqlite
        is_copy = text.startswith("INSERT") and "SELECT" in text
        values = dict(query.values({each.name: value_of(each, mood) for each in binds(query)}))
        if text.startswith(("SELECT", "WITH")):
            return sorted(map(repr, self._connection.execute(text, values).fetchall()))
        if _is_put(query):
            return []
        table = _first_table(query)
        with self._undone():
            before = self._rows(table)
            self._connection.execute(text, values | ({"revision": NUMBER + 1} if is_copy else {}))
            after = self._rows(table)
            return sorted(map(repr, after - before if is_copy else before - after))

    def _rows(self, table: str) -> set[Any]:
        return set(self._connection.execute(f'SELECT * FROM "{table}"').fetchall())

    @contextmanager
    def _undone(self) -> Iterator[None]:
        self._connection.execute("SAVEPOINT world")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK TO world")
            self._connection.execute("RELEASE world")


def by_mood(known: Mapping[str, Query], moods: Iterable[Values]) -> Iterator[tuple[Values, AbstractSet[str]]]:
    """Yield each mood with the statements to which it is another than those before.

    A statement knows of a mood only what is a column of its tables, or what it is given.
    """
    seen: set[tuple[str, Hashable]] = set()
    for mood in moods:
        concerned = set[str]()
        for name, query in known.items():
            columns, tables = _all_columns(query.sqlite), tables_of(query)
            matters = frozenset(
                item
                for item in mood.items()
                if item[0] in columns or (item[0] == WITHOUT and item[1] in tables)
            )
            if (name, matters) not in seen:
                seen.add((name, matters))
                concerned.add(name)
        if concerned:
            yield mood, concerned


@cache
def _all_columns(text: str) -> set[str]:
    """The columns of the tables that a statement names, and those of the values that it takes."""
    own = {column.name for name in _tables(text) for column in metadata.tables[name].columns}
    return own | {COLUMNS.get(each.column, each.column) for each in _all_binds(text)}


def _tables_of_all(names: Iterable[str]) -> list[str]:
    """The tables that some statements name."""
    return sorted(set().union(*(tables_of(asked()[name]) for name in names)))


class Cell(NamedTuple):
    """A column of a table, and what stands in it unless something else is given."""

    column: str
    is_nullable: bool
    default: Any


@cache
def _columns(table: str) -> tuple[Cell, ...]:
    return tuple(
        Cell(column.name, bool(column.nullable), _default(column))
        for column in metadata.tables[table].columns
    )


def _default(column: Column[Any]) -> Any:
    if isinstance(column.type, BigInteger):
        return NUMBER
    return column.name.encode() if isinstance(column.type, LargeBinary) else str(column.name)


@cache
def _column(table: str, name: str) -> Cell:
    return next(each for each in _columns(table) if each.column == name)


def cell(column: Cell, given: Values) -> Any:
    """The value of a column."""
    if column.column in given:
        value = given[column.column]
        if value is not None or column.is_nullable:
            return value
    return column.default


def value_in(table: str, column: str, given: Values) -> Any:
    """The value of a column of a table."""
    return cell(_column(table, column), given)


def binds(query: Query) -> tuple[Bind, ...]:
    """The values that a statement takes."""
    return tuple(each for each in _all_binds(query.sqlite) if each.name not in query.values({}))


@cache
def _all_binds(text: str) -> tuple[Bind, ...]:
    found = {name: Bind(name, name, "=") for name in re.findall(r":(\w+)", text)}
    for column, names in re.findall(r"(\w+)\"? IN \(([^)]*)\)", text):
        found |= {name: Bind(name, column, "=") for name in re.findall(r":(\w+)", names)}
    lists = r"(NOT )?(?:\w+\.)?\"?(\w+)\"? IN \(SELECT value FROM json_each\(:(\w+)\)\)"
    for is_none, column, name in re.findall(lists, text):
        found[name] = Bind(name, column, "!=" if is_none else "=")
    pairs = [
        *re.findall(r"(\w+)\"? (!=|=|<=|<|>=|>) :(\w+)", text),
        *re.findall(r"()(LIMIT|OFFSET) :(\w+)", text),
    ]
    pairs += [(column, "set", name) for column, name in re.findall(r"(\w+)\"?=:(\w+)", text)]
    for columns, how, names in re.findall(r"\(([^()]+)\) (=|<=|<|>=|>) \(([^()]*:[^()]+)\)", text):
        of_names = zip(re.findall(r"(\w+)\"?(?:,|$)", columns), re.findall(r":(\w+)", names), strict=True)
        pairs += [(column, how, name) for column, name in of_names]
    return tuple((found | {name: Bind(name, column, how) for column, how, name in pairs}).values())


def value_of(bind: Bind, mood: Values) -> Any:
    """The value under which a statement finds the row: the row's own, or one before or behind it."""
    if bind.name in BOUND or bind.how in PAGE:
        return BOUND.get(bind.name, PAGE.get(bind.how))
    column = COLUMNS.get(bind.column, bind.column)
    own = value_in(TABLE_OF[column].name, column, {**HOME, **mood}) if column in TABLE_OF else NUMBER
    if bind.how == "=":
        return own
    kind = int if own is None else type(own)
    if bind.how == "!=":
        return other_than(column)
    if bind.how == "set":
        return PUT[kind]
    _, low, _, high, _ = MARKS[kind]
    return high if bind.how.startswith("<") else low
