"""The index of recordings by their bands: who shares bands with a recording may have nearly the same one.

A band is a number of 64 bits that says nothing to the ledger. Of a bucket, the recordings on a board that share a band, the
MOST_IN_BUCKET that came first are kept: what is looked for is the original, and a flood of copies makes no search
longer. What proves nothing makes room, or a flood of rejected copies would hide those that come after it.
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
"""Bands of one recording, at most: they go in with one statement."""

MOST_IN_BUCKET: Final = 64

MOST_NEIGHBOURS: Final = 16
"""How many recordings are looked at, of those that share bands: the ones that share most of them.

As many again are of the player's own, which may be like nothing more than each other, and hide nobody else's.
"""

_UNWANTED: Final = frozenset({State.REJECTED, State.SUPERSEDED})
"""What was rejected proves nothing against others: its recording may have been another's all along."""

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
    """A recording to be put under its bands, by the number of its submission."""

    board: str
    seq: int
    bands: Sequence[int]
    player: str = ""


class Neighbour(NamedTuple):
    """Another submission on the board whose recording shares this many bands. Of some only the digest has come."""

    seq: int
    submission_id: str
    player: str
    digest: bytes
    recording: StoredRecording | None
    shared: int


def put_and_find(banded: Sequence[BandedRecording]) -> Operation[list[list[Neighbour]]]:
    """Who shares bands with each of the recordings, those that share most first; each is in the index from then on.

    Of two that are alike the one that is put later finds the other, whoever puts them: there is one order of commits.
    A recording that is put again finds its neighbours again, and changes nothing.
    """

    async def work(tx: Transaction) -> list[list[Neighbour]]:
        return [await _put_and_find(tx, each) for each in banded]

    return work


async def _put_and_find(tx: Transaction, one: BandedRecording) -> list[Neighbour]:
    if not one.bands:
        return []
    if len(one.bands) > MOST_BANDS:
        raise ValueError(f"a recording has at most {MOST_BANDS} bands")
    rows = await fetch_listed(tx, _BUCKETS, one.bands, board=one.board)
    sizes = Counter(band for band, *_ in rows)
    wanted = [(band, seq, player) for band, seq, state, player in rows if state not in _UNWANTED]
    free = [band for band in one.bands if sizes[band] < MOST_IN_BUCKET]
    if len(free) < len(one.bands) and len(wanted) < len(rows):
        await _make_room(tx, one, [band for band in one.bands if band not in free])
        sizes = Counter(band for band, *_ in wanted)
        free = [band for band in one.bands if sizes[band] < MOST_IN_BUCKET]
    if free:
        padded = {f"band_{number}": free[min(number, len(free) - 1)] for number in range(MOST_BANDS)}
        await tx.run(_ADD, board=one.board, row_seq=one.seq, **padded)
    others = Counter(seq for _, seq, player in wanted if seq != one.seq and player != one.player)
    own = Counter(seq for _, seq, player in wanted if seq != one.seq and player == one.player)
    return await _neighbours(tx, others, own)


async def _make_room(tx: Transaction, one: BandedRecording, full: Sequence[int]) -> None:
    padded = {f"listed_{number}": full[min(number, len(full) - 1)] for number in range(LIST)}
    await tx.run(_MAKE_ROOM, board=one.board, **padded)


async def _neighbours(tx: Transaction, *groups: Counter[int]) -> list[Neighbour]:
    """Of each group the submissions that share most bands, and of equals the oldest; all of them in that order."""
    shared = {
        seq: group[seq]
        for group in groups
        for seq in sorted(group, key=lambda seq: (-group[seq], seq))[:MOST_NEIGHBOURS]
    }
    found = [
        Neighbour(seq, submission_id, player, digest, _recording(digest, size_bytes, body), shared[seq])
        for seq, submission_id, player, digest, size_bytes, body in await fetch_listed(
            tx, _NEIGHBOURS, list(shared)
        )
    ]
    return sorted(found, key=lambda each: (-each.shared, each.seq))


def _recording(digest: bytes, size_bytes: int | None, body: bytes | None) -> StoredRecording | None:
    return None if size_bytes is None else StoredRecording(digest, size_bytes, body)
