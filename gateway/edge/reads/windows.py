"""Lists the windows of a board: the current ones, and the archived ones, latest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import read_models
from gateway.ledger.archive.windows import ArchivedWindow, readable_before
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from policies.choices import WindowKind
from policies.loader import Board
from policies.windows import FOREVER_MS, Window, window_at

PAGE_LIMIT: Final = 100

_FROM_THE_LAST: Final = (FOREVER_MS, "~")


async def list_windows(request: web.Request) -> web.Response:
    """Return a page of a board's windows; the current ones are on the first page."""
    edge, board = request.app[EDGE], await board_of(request)
    kinds = _kinds_of(request)
    listed = ("windows", board.name, kinds)
    place = edge.cursors.place_in(request, listed, "after")
    before = (place[0], place[1]) if place else _FROM_THE_LAST
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    kind = kinds[0] if len(kinds) == 1 else None
    archived = await edge.ledger.read(
        readable_before(board.name, before, kind, count=count + 1), ReadKind.PAGES
    )
    current = _current(edge, board, kinds, archived) if before == _FROM_THE_LAST else []
    last = archived[count - 1] if len(archived) > count else None
    shown = read_models.WindowList(
        board=board.name,
        windows=current + [_shown(window) for window in archived[:count]],
        next=edge.cursors.next_of(listed, last and (last.end_ms, last.window)),
    )
    return revalidated(request, json_response(shown))


def _current(
    edge: Edge, board: Board, kinds: list[WindowKind], archived: Sequence[ArchivedWindow]
) -> list[read_models.WindowShown]:
    now_ms, over = edge.clock(), {window.window for window in archived}
    windows = [window_at(board.policy, kind, now_ms) for kind in board.policy.windows if kind in kinds]
    return [
        read_models.WindowShown(window=window.name, begins_at=_begins_at(window), ends_at=_ends_at(window))
        for window in windows
        if window.name not in over
    ]


def _shown(window: ArchivedWindow) -> read_models.WindowShown:
    return read_models.WindowShown(
        window=window.window,
        begins_at=_begins_at(window.span),
        ends_at=_ends_at(window.span),
        archive=read_models.ArchiveShown(
            revision=window.revision,
            frozen_at=rfc3339(window.frozen_at_ms),
            entries=window.entries,
            groups=window.groups,
            up_to_event=window.upto_seq,
            policy=window.policy_digest,
        ),
    )


def _begins_at(window: Window) -> str | None:
    return rfc3339(window.begin_ms) if window.begin_ms else None


def _ends_at(window: Window) -> str | None:
    return None if window.end_ms == FOREVER_MS else rfc3339(window.end_ms)


def _kinds_of(request: web.Request) -> list[WindowKind]:
    name = request.query.get("kind")
    kinds = [kind for kind in WindowKind if name in (None, kind.value)]
    if not kinds:
        expected = ", ".join(kind.value for kind in WindowKind)
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"kind: expected one of {expected}")
    return kinds
