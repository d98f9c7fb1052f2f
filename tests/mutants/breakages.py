"""Small breakages of Python source, made from its syntax: what may be drawn by lot.

Each changes one thing that a test could notice: a comparison, a condition or a part of it, a statement, a
filter, an element of SQL. Text for people, types, numbers above two and constants are left as they are: they
are chosen, and a test that notices a change of them would only repeat them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_COMPARED: Final = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}

_CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}

_SQL: Final = re.compile(r"\b(?:SELECT|UPDATE|INSERT|DELETE|WHERE|ORDER BY|JOIN)\b")
_SQL_CHANGED: Final = {
    "<=": "<",
    ">=": ">",
    "<": "<=",
    ">": ">=",
    "DESC": "ASC",
    "ASC": "DESC",
    "MAX(": "MIN(",
    "MIN(": "MAX(",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
    "NOT EXISTS": "EXISTS",
    "LEFT JOIN": "JOIN",
    "DISTINCT ": "",
}
_SQL_PARTS: Final = re.compile(
    r"<=|>=|(?<![<>=!-])[<>](?![=>])|\bDESC\b|\bASC\b|\bMAX\(|\bMIN\(|\bIS NOT NULL|\bIS NULL"
    r"|\bNOT EXISTS\b|\bLEFT JOIN\b|\bDISTINCT "
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Breakage(NamedTuple):
    """A change of a source: the line it is in, the bytes it replaces, by what, and what it is."""

    line: int
    start: int
    end: int
    becomes: str
    why: str


def breakages_of(source: str) -> list[Breakage]:
    """Return all breakages of the functions of a source."""
    return [*_Finder(source).all()]


def applied(source: str, breakage: Breakage) -> str:
    """Return the source with the breakage."""
    raw = source.encode()
    return (raw[: breakage.start] + breakage.becomes.encode() + raw[breakage.end :]).decode()


def functions_of(source: str) -> list[range]:
    """Return the lines of the body of each function, also of those within others."""
    tree = ast.parse(source)
    return [
        range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(tree)
        if isinstance(node, _Function)
    ]


class _Finder:
    """Walks over the functions of a source."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode()
        self._tree = ast.parse(source)
        self._lines = [0]
        for line in self._raw.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def all(self) -> Iterator[Breakage]:
        for node in ast.walk(self._tree):
            if isinstance(node, _Function):
                for statement in node.body:
                    yield from self._of_each(statement)

    def _of_each(self, node: ast.AST) -> Iterator[Breakage]:
        """Yield the breakages of a node and of what it consists of, but for functions in it, which come by themselves."""
        if isinstance(node, _Function) or _is_for_people(node):
            return
        yield from self._of_statement(node)
        yield from self._of_condition(node)
        yield from self._of_value(node)
        if isinstance(node, ast.JoinedStr):
            return  # before CPython 3.12 what is in it has places of its own
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, ast.AST):
                        yield from self._of_each(each)

    def _of_statement(self, node: ast.AST) -> Iterator[Breakage]:
        match node:
            case ast.If(test=test, orelse=other):
                yield self._instead(test, f"not ({self._text(test)})", "a condition is turned round")
                if not other:
                    yield self._instead(test, "False", "a branch is never taken")
                    yield self._instead(test, "True", "a branch is always taken")
            case ast.While(test=test):
                yield self._instead(test, f"not ({self._text(test)})", "a condition is turned round")
            case ast.Expr():
                yield self._instead(node, "pass", "a statement is left out")
            case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield self._instead(node, "pass", "an assignment is left out")
            case ast.Raise():
                yield self._instead(node, "pass", "nothing is raised")
            case ast.Continue():
                yield self._instead(node, "break", "a loop ends")

    def _of_condition(self, node: ast.AST) -> Iterator[Breakage]:
        match node:
            case ast.Compare(left=left, ops=operators, comparators=others):
                for operator, other in zip(operators, others, strict=True):
                    yield self._of_comparison(left, operator, other)
                    left = other
            case ast.BoolOp(op=operator, values=values):
                word = " and " if isinstance(operator, ast.And) else " or "
                for left_out in values:
                    rest = word.join(f"({self._text(each)})" for each in values if each is not left_out)
                    yield self._instead(node, f"({rest})", "a part of a condition is left out")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._instead(node, f"({self._text(operand)})", "a condition is turned round")
            case ast.comprehension(ifs=conditions):
                for condition in conditions:
                    yield self._instead(condition, "True", "a filter is left out")

    def _of_value(self, node: ast.AST) -> Iterator[Breakage]:
        match node:
            case ast.IfExp(body=body, orelse=other):
                for alone in (body, other):
                    yield self._instead(node, f"({self._text(alone)})", "one of two values always counts")
            case ast.BinOp(left=left):
                yield self._instead(node, f"({self._text(left)})", "an operand is left out")
            case ast.Call(func=ast.Name(id=name) as called, args=[_]) if name in _CALLED:
                yield self._instead(called, _CALLED[name], f"{_CALLED[name]} and not {name}")
            case ast.Constant(value=bool() as value):
                yield self._instead(node, str(not value), "the other truth")
            case ast.Constant(value=0 | 1 | 2 as number):
                yield self._instead(node, str(number + 1), "one more")
            case ast.Constant(value=str()) | ast.JoinedStr() if _SQL.search(self._text(node)):
                yield from self._of_sql(node)

    def _of_comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Breakage:
        old, new = _COMPARED[type(operator)]
        start, end = self._span(left)[1], self._span(right)[0]
        between = self._raw[start:end].decode()
        return Breakage(left.lineno, start, end, between.replace(old, new, 1), f"{new} and not {old}")

    def _of_sql(self, node: ast.expr) -> Iterator[Breakage]:
        begin, _ = self._span(node)
        text = self._text(node)
        for part in _SQL_PARTS.finditer(text):
            start, end = (begin + len(text[:place].encode()) for place in part.span())
            new = _SQL_CHANGED[part[0]]
            line = self._raw[:start].count(b"\n") + 1
            yield Breakage(line, start, end, new, f"{new.strip() or 'nothing'} and not {part[0].strip()}")

    def _instead(self, node: ast.expr | ast.stmt, becomes: str, why: str) -> Breakage:
        return Breakage(node.lineno, *self._span(node), becomes, why)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends, in bytes of the source."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._lines[node.lineno - 1] + node.col_offset
        return begin, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._raw[start:end].decode()


def _is_for_people(node: ast.AST) -> bool:
    """Return whether a node is a docstring or a comment of text, an assertion, or for type checkers alone."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False
