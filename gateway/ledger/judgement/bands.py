"""The index of recordings by their bands: recordings that share bands may be nearly the same.

A band is a number of 64 bits that means nothing to the ledger. A bucket has the recordings of a board that
share a band. It keeps the first MOST_IN_BUCKET: the search is for the original, and a flood of copies must
not make it longer. Rejected recordings make room, or a flood of rejected copies would hide the ones that come
after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, delete, exists, or_, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.index_pages import LIST, fetch_listed, is_listed
from gateway.ledger.records import StoredRecording
from gateway.ledger.schema import is_in, recording_bands, recordings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import State

MOST_BANDS: Final = 32
"""Most bands of one recording. One statement inserts them all."""

MOST_IN_BUCKET: Final = 64
"""Most recordings under one band of a board."""

MOST_NEIGHBOURS: Final = 16
"""Most recordings of others that a search returns: those that share most bands.

As many again of the player's own are returned. They may resemble only each other, and must not hide anybody
else's.
"""

_UNWANTED: Final = frozenset({State.REJECTED, State.SUPERSEDED})
"""States that prove nothing against others: the recording may have been somebody else's all along."""

_b, _s, _r = recording_bands.c, submissions.c, recordings.c

_BUCKETS = Query(
    select(_b.band, _b.seq, _s.state, _s.player)
    .join_from(recording_bands, submissions, _s.seq == _b.seq)
    .where(_b.board == bindparam("board"), is_listed(_b.band))
)
_MAKE_ROOM = Query(
    delete(recording_bands).where(
        _b.board == bindparam("board"),
        is_listed(_b.band),
        exists().where(_s.seq == _b.seq, or_(*map(is_in, sorted(_UNWANTED)))),
    )
)
_ADD = Query(
    insert(recording_bands)  # PostgreSQL's upsert compiles for SQLite too, and not the other way round
    .values(
        [
            {
                "board": bindparam("board"),
                "band": bindparam(f"band_{number}", type_=BigInteger()),
                "seq": bindparam("row_seq"),
            }
            for number in range(MOST_BANDS)
        ]
    )
    .on_conflict_do_nothing()
)
_NEIGHBOURS = Query(
    select(_s.seq, _s.submission_id, _s.player, _s.recording_digest, _r.size_bytes, _r.body)
    .outerjoin_from(submissions, recordings, _r.digest == _s.recording_digest)
    .where(is_listed(_s.seq))
)


class BandedRecording(NamedTuple):
    """A recording to index under its bands. `seq` is that of its submission."""

    board: str
    seq: int
    bands: Sequence[int]
    player: str = ""


class Neighbour(NamedTuple):
    """Another submission of the board whose recording shares bands.

    Without `recording`, only its digest has come.
    """

    seq: int
    submission_id: str
    player: str
    digest: bytes
    recording: StoredRecording | None
    shared: int


def put_and_find(banded: Sequence[BandedRecording]) -> Operation[list[list[Neighbour]]]:
    """Index recordings, and return the neighbours of each, those that share most bands first.

    Of two similar recordings, the one that is indexed later finds the other, because commits have one order.
    A recording that is indexed again finds its neighbours again and changes nothing.
    """

    async def work(tx: Transaction) -> list[list[Neighbour]]:
        return [await _put_and_find(tx, recording) for recording in banded]

    return work


async def _put_and_find(tx: Transaction, recording: BandedRecording) -> list[Neighbour]:
    if not recording.bands:
        return []
    if len(recording.bands) > MOST_BANDS:
        raise ValueError(f"a recording has at most {MOST_BANDS} bands")
    rows = await fetch_listed(tx, _BUCKETS, recording.bands, board=recording.board)
    sizes = Counter(band for band, *_ in rows)
    wanted = [(band, seq, player) for band, seq, state, player in rows if state not in _UNWANTED]
    free = [band for band in recording.bands if sizes[band] < MOST_IN_BUCKET]
    if len(free) < len(recording.bands) and len(wanted) < len(rows):
        await _make_room(tx, recording, [band for band in recording.bands if band not in free])
        sizes = Counter(band for band, *_ in wanted)
        free = [band for band in recording.bands if sizes[band] < MOST_IN_BUCKET]
    if free:
        padded = {f"band_{number}": free[min(number, len(free) - 1)] for number in range(MOST_BANDS)}
        await tx.run(_ADD, board=recording.board, row_seq=recording.seq, **padded)
    others = Counter(seq for _, seq, player in wanted if seq != recording.seq and player != recording.player)
    own = Counter(seq for _, seq, player in wanted if seq != recording.seq and player == recording.player)
    return await _neighbours(tx, others, own)


async def _make_room(tx: Transaction, recording: BandedRecording, full: Sequence[int]) -> None:
    padded = {f"listed_{number}": full[min(number, len(full) - 1)] for number in range(LIST)}
    await tx.run(_MAKE_ROOM, board=recording.board, **padded)


async def _neighbours(tx: Transaction, *groups: Counter[int]) -> list[Neighbour]:
    """Return the submissions of each group that share most bands, the oldest first among equals."""
    shared = {
        seq: group[seq]
        for group in groups
        for seq in sorted(group, key=lambda seq: (-group[seq], seq))[:MOST_NEIGHBOURS]
    }
    neighbours = [
        Neighbour(seq, submission_id, player, digest, _recording(digest, size_bytes, body), shared[seq])
        for seq, submission_id, player, digest, size_bytes, body in await fetch_listed(
            tx, _NEIGHBOURS, list(shared)
        )
    ]
    return sorted(neighbours, key=lambda neighbour: (-neighbour.shared, neighbour.seq))


def _recording(digest: bytes, size_bytes: int | None, body: bytes | None) -> StoredRecording | None:
    return None if size_bytes is None else StoredRecording(digest, size_bytes, body)
