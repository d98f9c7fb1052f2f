"""Erasures of players' data: asked for, taken back while their grace lasts, then done in slices.

From the first step on nothing can be taken back: the player's tokens end, their name becomes a neutral one,
and who they were and knew is deleted. The texts in the log follow, slice by slice, each slice with an event
that has the leaves of what it took. Runs, standings, archives and seals stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.index.lane_stream import forget_name
from gateway.ledger.acts import Act, add_event
from gateway.ledger.ledger import Ledger
from gateway.ledger.players import merges
from gateway.ledger.players.player_names import unnamed
from gateway.ledger.players.token_endings import TokenEnding, end_tokens
from gateway.ledger.privacy import erasures
from gateway.ledger.privacy.erased_texts import (
    LoggedTexts,
    erase_texts,
    forget_player,
    has_followers,
    next_texts,
    texts_of,
    unfollow_everywhere,
)
from gateway.ledger.privacy.erasures import Erasure
from gateway.ledger.reads import ReadKind
from gateway.ledger.seals.erased import ROWS, add_erased
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.lanes import lane_of
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.merges import MERGES_LIMIT
from gateway.settlement.shown_names import show_name
from policies.errors import StateConflict
from policies.vocabulary import Reason

GRACE_MS: Final = 7 * 86_400_000
"""Time for which an erasure that a player asked for can be taken back."""

LATE_MS: Final = 8 * 86_400_000
"""Time for which an erasure stays open: runs under earlier tickets, of a week at most, may bring texts."""

SLICE: Final = 50
"""Submissions and events of one transaction, which other writes wait for."""

FOLLOWERS: Final = 500
"""Lists of others of one transaction."""

ACTOR: Final = "erasure"
"""The actor of an erasure's events: that of its begin names who asked."""

_log = logger()


@dataclass(frozen=True, slots=True)
class ErasureOutcome:
    """An erasure as it is stored now, and whether this request asked for it."""

    erasure: Erasure
    is_new: bool


def ask(player: str, act: Act, *, grace_ms: int = GRACE_MS) -> Operation[ErasureOutcome]:
    """Ask to erase a player's data, and that of players who were merged into them, once a grace is over.

    Asking again changes nothing, but for a shorter grace, or once it has ended: who came back is erased anew.
    Raises StateConflict for a merged player.
    """

    async def work(tx: Transaction) -> ErasureOutcome:
        if (await merges.merges_in_force(tx, [player])).get(player):
            raise StateConflict("the player was merged into another one, with whom their data is erased")
        stored = await erasures.load_erasure(tx, player)
        due_at_ms = act.at_ms + grace_ms
        is_open = stored is not None and stored.ended_at_ms is None
        if stored and is_open and (stored.begun_seq is not None or stored.due_at_ms <= due_at_ms):
            return ErasureOutcome(stored, is_new=False)
        for each in await _with_sources(tx, player):
            earlier = await erasures.load_erasure(tx, each)
            if earlier is None or await erasures.take_back(tx, each):
                await erasures.add(tx, Erasure(each, act.actor, act.at_ms, due_at_ms))
        asked = await erasures.load_erasure(tx, player)
        assert asked is not None
        return ErasureOutcome(asked, is_new=not is_open)

    return work


def take_back(player: str) -> Operation[bool]:
    """Take back what was asked for, and return whether anything was. Raises StateConflict once begun."""

    async def work(tx: Transaction) -> bool:
        together = await _with_sources(tx, player)
        stored = [each for each in [await erasures.load_erasure(tx, name) for name in together] if each]
        if any(each.begun_seq is not None for each in stored):
            raise StateConflict("the erasure has begun, which nobody can take back")
        for each in stored:
            await erasures.take_back(tx, each.player)
        return bool(stored)

    return work


async def _with_sources(tx: Transaction, player: str) -> list[str]:
    """Return a player, and those who are merged into them, with whom their data is erased."""
    return [player, *await merges.sources_in_force(player, count=MERGES_LIMIT)(tx)]


def begin(asked: Erasure, *, now_ms: int) -> Operation[TokenEnding | None]:
    """Begin an erasure that is due: what tells who the player is goes. None if there is nothing to begin."""

    async def work(tx: Transaction) -> TokenEnding | None:
        stored = await erasures.load_erasure(tx, asked.player)
        if stored is None or stored.begun_seq is not None or stored.due_at_ms > now_ms:
            return None
        ending = await end_tokens(asked.player, Act(stored.actor, now_ms))(tx)
        await forget_player(tx, asked.player, unnamed(asked.player))
        seq = await add_event(tx, Reason.ERASED, Act(stored.actor, now_ms), {}, player=asked.player)
        await erasures.note(tx, replace(stored, begun_seq=seq))
        return ending

    return work


def erase_slice(stands: Erasure, found: Sequence[LoggedTexts], *, now_ms: int) -> Operation[int]:
    """Erase the texts of a slice of the log, with an event that has their leaves, and return how many.

    At the log's end the player goes off the lists of others. Once nobody has them, and no run can come any
    more, the erasure has ended.
    """

    async def work(tx: Transaction) -> int:
        stored = await erasures.load_erasure(tx, stands.player)
        if stored is None or stored != stands:
            return 0  # another process went on
        kept = await texts_of(tx, found)
        if kept:
            detail = {ROWS: [each.row.named for each in kept]}
            seq = await add_event(tx, Reason.ERASED, Act(ACTOR, now_ms), detail, player=stands.player)
            await add_erased(tx, [each.row for each in kept], seq)
            await erase_texts(tx, kept)
        seen = found[-1].seq if found else stands.seen_seq
        left = 0 if found else await unfollow_everywhere(tx, stands.player, count=FOLLOWERS)
        is_over = not found and not left and now_ms >= stands.due_at_ms + LATE_MS
        ended = now_ms if is_over else None
        rows = stands.rows_erased + len(kept)
        await erasures.note(tx, replace(stands, seen_seq=seen, rows_erased=rows, ended_at_ms=ended))
        return len(kept) + left

    return work


class Eraser:
    """Erases players' data. Its methods raise LedgerUnavailable and IndexUnavailable; what was done stays."""

    def __init__(self, ledger: Ledger, index: Index, catalogue: Catalogue) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue

    async def finish(self, player: str, *, now_ms: int) -> Erasure | None:
        """Do all that is due of an erasure, and return it as it is then."""
        while await self.step(player, now_ms=now_ms):
            pass
        return await self._ledger.read(erasures.erasure(player), ReadKind.PLAYERS)

    async def finish_all(self, player: str, *, now_ms: int) -> list[Erasure]:
        """Do all that is due of the erasures of a player and of those who are merged into them."""

        async def together(tx: Transaction) -> list[str]:
            return await _with_sources(tx, player)

        names = await self._ledger.read(together, ReadKind.PLAYERS)
        found = [await self.finish(name, now_ms=now_ms) for name in names]
        return [each for each in found if each]

    async def step(self, player: str, *, now_ms: int) -> bool:
        """Do one slice of an erasure, and return whether there may be more now."""
        stands = await self._ledger.read(erasures.erasure(player), ReadKind.PLAYERS)
        if stands is None or stands.ended_at_ms is not None or stands.due_at_ms > now_ms:
            return False
        if stands.begun_seq is None:
            is_begun = await self._ledger.write(begin(stands, now_ms=now_ms)) is not None
            _log.info(Event.ERASURE_BEGUN, player=player)
            await self._forget_names(player, set())
            return is_begun

        async def read(tx: Transaction) -> tuple[list[LoggedTexts], bool]:
            found = await next_texts(tx, player, after=stands.seen_seq, count=SLICE)
            return found, await has_followers(tx, player)

        found, is_followed = await self._ledger.read(read, ReadKind.PLAYERS)
        if not (found or is_followed or now_ms >= stands.due_at_ms + LATE_MS):
            return False  # it only waits for late runs
        await self._forget_names(player, {each.board for each in found if each.board})
        erased = await self._ledger.write(erase_slice(stands, found, now_ms=now_ms))
        return bool(found or erased)

    async def _forget_names(self, player: str, boards: set[str]) -> None:
        """Show the neutral name on every board, and take the old one out of the streams of lanes.

        If Redis is away the steward compares the names later, and nobody the streams: on a board on which
        little happens they keep a change for ever. So a slice waits for Redis. Raises IndexUnavailable.
        """
        await show_name(self._ledger, self._index, self._catalogue, player)
        for lane in sorted({lane_of(board) for board in boards}):
            await forget_name(self._index.client, lane, player)
