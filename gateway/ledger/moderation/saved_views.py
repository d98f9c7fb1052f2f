"""Saved views: a moderator's own filters of the queue, under names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson
from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import queue_views
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import ViewsFull

VIEWS_LIMIT: Final = 32
"""Most saved views of one moderator."""

SavedViews = dict[str, dict[str, str]]
"""The filters of each view, by its name, in the order of the names."""

_v = queue_views.c

_OF_MODERATOR = Query(
    select(_v.name, _v.filters).where(_v.moderator == bindparam("of_moderator")).order_by(_v.name)
)
_OTHERS = Query(
    select(func.count()).where(
        _v.moderator == bindparam("of_moderator"), _v.name != bindparam("but", type_=_v.name.type)
    )
)
_put = insert(queue_views)
_PUT = Query(
    _put.on_conflict_do_update(index_elements=["moderator", "name"], set_={"filters": _put.excluded.filters})
)
_REMOVE = Query(
    delete(queue_views).where(_v.moderator == bindparam("of_moderator"), _v.name == bindparam("of_name"))
)


def saved_views(moderator: str) -> Operation[SavedViews]:
    """Return a moderator's saved views."""

    async def work(tx: Transaction) -> SavedViews:
        rows = await tx.rows(_OF_MODERATOR, of_moderator=moderator)
        return {name: orjson.loads(filters) for name, filters in rows}

    return work


def save_view(moderator: str, name: str, filters: Mapping[str, str]) -> Operation[SavedViews]:
    """Save a view, in place of one with the same name, and return all. Raises ViewsFull."""

    async def work(tx: Transaction) -> SavedViews:
        [[others]] = await tx.rows(_OTHERS, of_moderator=moderator, but=name)
        if others >= VIEWS_LIMIT:
            raise ViewsFull(f"there are {VIEWS_LIMIT} saved views already: remove one first")
        await tx.run(_PUT, moderator=moderator, name=name, filters=orjson.dumps(dict(filters)).decode())
        return await saved_views(moderator)(tx)

    return work


def remove_view(moderator: str, name: str) -> Operation[SavedViews]:
    """Remove a view, if it is there, and return the others."""

    async def work(tx: Transaction) -> SavedViews:
        await tx.run(_REMOVE, of_moderator=moderator, of_name=name)
        return await saved_views(moderator)(tx)

    return work
