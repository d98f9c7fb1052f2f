"""Operations of trusted servers: each is performed once, and raises the version of its slot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import orjson
from sqlalchemy import bindparam, insert, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.schema import BANNED, is_in, server_keys, server_operations, slot_versions, submissions
from gateway.ledger.transaction import Query, Transaction
from policies.errors import KeyRevoked, NonceReused, OperationReused
from policies.vocabulary import SCORE_LIMIT, State

VERSION_LIMIT: Final = SCORE_LIMIT
"""Largest version of a slot: exact in every client's numbers."""

_o, _s, _v = server_operations.c, submissions.c, slot_versions.c

_KEY = Query(select(server_keys.c.revoked_at_ms).where(server_keys.c.key_id == bindparam("key_id")))
_NONCE = Query(
    select(_o.request_digest)
    .where(_o.credential == bindparam("credential"), _o.nonce == bindparam("nonce"))
    .limit(1)
)
_KNOWN = Query(
    select(_o.content_digest, _o.revoked, _o.answers).where(_o.operation_id == bindparam("operation_id"))
)
_ADD = Query(insert(server_operations))
_SLOT = Query(
    select(_v.version, _v.removed_version).where(
        _v.board == bindparam("board"), _v.player == bindparam("player")
    )
)
_put_slot = upsert(slot_versions)
_PUT_SLOT = Query(
    _put_slot.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={name: _put_slot.excluded[name] for name in ("version", "removed_version")},
    )
)
_COUNTING, _BANNED = (
    Query(
        select(_s.seq, _s.submission_id)
        .outerjoin_from(submissions, server_operations, _o.operation_id == _s.submission_id)
        .where(
            condition,
            _s.board == bindparam("board"),
            _s.player == bindparam("player"),
            or_(_o.version.is_(None), _o.version <= bindparam("up_to")),
        )
        .order_by(_s.seq)
    )
    for condition in (is_in(State.PROMOTED), text(BANNED))
)
"""What counts in a slot, and what would count if its player were not banned."""


class ServerRequest(NamedTuple):
    """A signed request of a trusted server: key, nonce, SHA-256 of its content, and arrival (Unix ms)."""

    key_id: str
    credential: str
    nonce: str
    digest: bytes
    at_ms: int


class PartAnswer(NamedTuple):
    """What was answered about one part of an operation: a word, and for a refusal also why.

    `has_board` tells whether the answer showed a board.
    """

    word: str
    why: str = ""
    has_board: bool = False


class KnownOperation(NamedTuple):
    """An operation that was performed: the SHA-256 of its content, and the submissions that it revoked.

    `answers` has what was answered about each of its parts, if it has any.
    """

    content_digest: bytes
    revoked: tuple[str, ...]
    answers: tuple[PartAnswer, ...]


class SlotVersion(NamedTuple):
    """The highest version of a slot, and the highest that emptied it. 0 is before every version."""

    version: int = 0
    removed: int = 0


async def check_request(tx: Transaction, request: ServerRequest) -> None:
    """Raise KeyRevoked, or NonceReused if another request of that key had the nonce."""
    key = await tx.rows(_KEY, key_id=request.key_id)
    if not key or key[0][0] is not None:
        raise KeyRevoked
    used = await tx.rows(_NONCE, credential=request.credential, nonce=request.nonce)
    if used and used[0][0] != request.digest:
        raise NonceReused


async def known_operation(tx: Transaction, operation_id: str) -> KnownOperation | None:
    """Return the operation of this id if it was performed before, or None."""
    rows = await tx.rows(_KNOWN, operation_id=operation_id)
    if not rows:
        return None
    [[content_digest, revoked, answers]] = rows
    parts = tuple(PartAnswer(*answer) for answer in orjson.loads(answers or "[]"))
    return KnownOperation(content_digest, tuple(orjson.loads(revoked)), parts)


async def add_operation(
    tx: Transaction,
    request: ServerRequest,
    board: str,
    player: str,
    *,
    operation_id: str,
    content_digest: bytes,
    version: int | None,
    revoked: Sequence[str],
    answers: Sequence[PartAnswer] = (),
) -> None:
    """Store an operation that is performed in this transaction."""
    await tx.run(
        _ADD,
        operation_id=operation_id,
        credential=request.credential,
        nonce=request.nonce,
        request_digest=request.digest,
        content_digest=content_digest,
        board=board,
        player=player,
        version=version,
        revoked=orjson.dumps(list(revoked)).decode(),
        answers=orjson.dumps([list(answer) for answer in answers]).decode() if answers else None,
        at_ms=request.at_ms,
    )


async def once(
    tx: Transaction,
    request: ServerRequest,
    do: Callable[[], Awaitable[object]],
    *,
    board: str,
    player: str,
    operation_id: str,
    content_digest: bytes,
    answers: Sequence[PartAnswer] = (),
) -> bool:
    """Perform `do` unless that was done before, and return whether it was new.

    What `do` puts into `answers` is stored with the operation. Raises KeyRevoked, NonceReused and
    OperationReused.
    """
    await check_request(tx, request)
    known = await known_operation(tx, operation_id)
    if known and known.content_digest != content_digest:
        raise OperationReused
    if known:
        return False
    await do()
    await add_operation(
        tx,
        request,
        board,
        player,
        operation_id=operation_id,
        content_digest=content_digest,
        version=None,
        revoked=(),
        answers=answers,
    )
    return True


async def slot_version(tx: Transaction, board: str, player: str) -> SlotVersion:
    """Return how far the versions of a player's slot on a board are."""
    rows = await tx.rows(_SLOT, board=board, player=player)
    return SlotVersion(*rows[0]) if rows else SlotVersion()


async def raise_slot_version(
    tx: Transaction, board: str, player: str, slot: SlotVersion, version: int, *, is_removal: bool
) -> None:
    """Note that an operation of this version was performed. Versions never go down."""
    removed = version if is_removal else slot.removed  # an older removal is stale
    await tx.run(
        _PUT_SLOT, board=board, player=player, version=max(slot.version, version), removed_version=removed
    )


async def counting_in_slot(
    tx: Transaction, board: str, player: str, *, up_to: int = VERSION_LIMIT
) -> list[str]:
    """Return the ids of a player's submissions on a board that count, or would without a ban, oldest first.

    Versions above `up_to` are skipped.
    """
    slot = {"board": board, "player": player, "up_to": up_to}
    rows = [*await tx.rows(_COUNTING, **slot), *await tx.rows(_BANNED, **slot)]
    return [submission_id for _, submission_id in sorted(rows)]
