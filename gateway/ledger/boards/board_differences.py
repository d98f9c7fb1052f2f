"""How a board differs from what somebody wanted it to be, in a short sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from gateway.ledger.boards.board_rows import KEPT, content_of
from gateway.runtime.clock import rfc3339
from policies.opened_board import OpenedBoard

NAMED: Final = 2
"""Most differences that are named. A sentence is stored for each refused operation of a batch."""

VALUE_LENGTH: Final = 40
"""Longest value in a sentence, in characters."""

NEVER_CHANGE: Final = "parameters and asset never change: open another board, under another name"

_CHANGE_IT: Final = "`change` it instead"
_TIMES: Final = ("opens_at", "closes_at")
_NOT_SET: Final = "none"
_CUT: Final = "…"


def differences(board: OpenedBoard, wanted: OpenedBoard) -> str:
    """Return what a board has that is not what is wanted, and what to do instead of opening it."""
    has, wants = dict(_values(board)), dict(_values(wanted))
    names = [name for name in (has | wants) if has.get(name, _NOT_SET) != wants.get(name, _NOT_SET)]
    parts = [
        _difference(name, has.get(name, _NOT_SET), wants.get(name, _NOT_SET)) for name in names[:NAMED]
    ] or ["the bounds differ"]
    more = [f"{len(names) - NAMED} more differ"] if names[NAMED:] else []
    is_kept = any(name.partition(".")[0] in KEPT for name in names)
    return f"the board is open already; {'; '.join(parts + more)}: {NEVER_CHANGE if is_kept else _CHANGE_IT}"


def _difference(name: str, has: str, wanted: str) -> str:
    has, wanted = _cut(has), _cut(wanted)
    return f"{_cut(name)} is {has}, not {wanted}" if has != wanted else f"{_cut(name)} differs"


def _values(board: OpenedBoard) -> Iterator[tuple[str, str]]:
    """Yield what a board was given, each part by its dotted name, as requests write it."""
    content = content_of(board)
    yield "title", _text(board.title)
    for name in ("metadata", "bounds"):
        yield from _parts(name, content[name] or {})
    yield from _parts("parameters", orjson.loads(board.parameters or b"{}"))
    if board.asset is not None:
        yield "asset", f"sha256:{board.asset.hex()}"
    for name in _TIMES:
        if (at_ms := content[f"{name}_ms"]) is not None:
            yield name, rfc3339(at_ms)


def _parts(name: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, part in value.items():
        if isinstance(part, dict) and part:
            yield from _parts(f"{name}.{key}", part)
        else:
            yield f"{name}.{key}", _text(part)


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + _CUT
