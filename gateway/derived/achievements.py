"""Top-ten achievements: a player's own submission first brought them among the first ten of a window.

The rank is the one that the board showed right after the change. If the stream lost changes, the log is
replayed and gives the rank at each event; that is the same as long as changes are shown in the order in which
they were decided. Recorded achievements stay.

A change that was shown while the board was cold, or not whole in Redis, has no rank; the first run on a board
of a family is one. Its player has reached what the ledger says of the board when the change is read.

On a board that has to be joined, only players on it have a rank; in a past window, only those who were on it
at its end. A player who joins is shown with earlier submissions. That is no achievement; the next submission
that counts for more is one.

The log does not rank a rollup, whose standings follow from other boards. After a loss, its first ten of that
moment have reached it; nobody has while it is being folded anew, when its standings are of two rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.derived.join_history import JoinHistory, join_history_of
from gateway.derived.top_ten import TOP_RANKS, TopTen
from gateway.derived.webhooks.event_types import achievement_reached
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived import achievements, log, webhooks
from gateway.ledger.derived.achievements import Achievement
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.index_pages import standings_of
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import was_joined
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.shared_records import Standing
from policies.choices import Joins, RankKind
from policies.loader import Board
from policies.model import Policy
from policies.ranking import Ranking
from policies.windows import window_at

LOG_SLICE: Final = 1_000

RECORDED_AT_ONCE: Final = 100
"""Achievements of a board's log in one transaction, for which other writes wait."""


class Achievements:
    """The consumer that records achievements, once for each player and window."""

    name = "achievements"

    def __init__(self, ledger: Ledger, outdated: OutdatedBoards, *, clock: Clock) -> None:
        self._ledger = ledger
        self._outdated = outdated
        self._clock = clock

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Record the players who came into the first ten."""
        reached = [
            Achievement(
                board.name,
                change.window,
                change.player,
                change.rank,
                change.submission_id,
                change.seq,
                change.at_ms,
            )
            for change in mutations
            if change.rank is not None and change.rank <= TOP_RANKS
        ]
        unranked = [change for change in mutations if change.rank is None and change.score is not None]
        if unranked and not await self._outdated.has(board.name):
            reached += await self._ledger.read(_reached_by(board, unranked))
        must_join = board.policy.joins is Joins.REQUIRED
        await self._record(await self._ledger.read(_dated(reached, only_own=must_join)))

    async def recover(self, boards: Sequence[Board], since: Mapping[str, int]) -> None:
        """Record what the log has and was not recorded.

        Webhooks get only what was decided on each board after its event in `since`.
        """
        for board in boards:
            if board.policy.rollup:
                if await self._outdated.has(board.name):
                    continue
                reached = await self._ledger.read(self._standing(board))
                await self._record(reached, announce_after=since[board.name])
                continue
            reached = []
            async for achievement in reached_by_log(self._ledger, board.policy):
                reached.append(achievement)
                if len(reached) == RECORDED_AT_ONCE:
                    await self._record_new(reached, announce_after=since[board.name])
                    reached = []
            await self._record_new(reached, announce_after=since[board.name])

    def _standing(self, board: Board) -> Operation[list[Achievement]]:
        """Return the players among the first ten of the current windows for whom it is new."""
        names = [window_at(board.policy, kind, self._clock()).name for kind in board.policy.windows]

        async def work(tx: Transaction) -> list[Achievement]:
            reached = [each for name in names for each in await _first_ten(tx, board, name)]
            return await _dated(reached, only_own=False)(tx)

        return work

    async def _record_new(self, reached: Sequence[Achievement], *, announce_after: int) -> None:
        """Record those that are not recorded yet. Most are: nothing is written for them."""
        new = await self._ledger.read(_dated(reached, only_own=False)) if reached else []
        await self._record(new, announce_after=announce_after)

    async def _record(self, reached: Sequence[Achievement], *, announce_after: int = 0) -> None:
        if not reached:
            return

        async def work(tx: Transaction) -> None:
            added = [
                achievement for achievement in reached if await achievements.add_achievement(tx, achievement)
            ]
            events = [
                achievement_reached(achievement) for achievement in added if achievement.seq > announce_after
            ]
            await webhooks.queue(tx, events, now_ms=self._clock())

        await self._ledger.write(work)


def _reached_by(board: Board, changes: Sequence[Mutation]) -> Operation[list[Achievement]]:
    """Return the players whom these changes, as their newest, have left among the first ten."""
    standing = {(change.window, change.player, change.seq) for change in changes}

    async def work(tx: Transaction) -> list[Achievement]:
        windows = dict.fromkeys(change.window for change in changes)
        first = [each for window in windows for each in await _first_ten(tx, board, window)]
        return [each for each in first if (each.window, each.player, each.seq) in standing]

    return work


async def _first_ten(tx: Transaction, board: Board, window: str) -> list[Achievement]:
    page = await RankedWindow(tx, board.ranking, window).page(0, TOP_RANKS, RankKind.UNIQUE)
    ranks = {row[0]: rank for rank, row in enumerate(page.rows, start=1)}
    standings = await standings_of(board.name, {window: list(ranks)})(tx)
    return [_achieved(each, ranks[each.player]) for each in standings]


def _achieved(standing: Standing, rank: int) -> Achievement:
    where = (standing.board, standing.window, standing.player)
    return Achievement(*where, rank, standing.submission_id, standing.seq, standing.achieved_at_ms)


def _dated(reached: Sequence[Achievement], *, only_own: bool) -> Operation[list[Achievement]]:
    """Return the new achievements, dated by their events.

    With `only_own`, skip those that did not come by the player's own submission while on the board.
    """

    async def work(tx: Transaction) -> list[Achievement]:
        new = []
        for achievement in reached:
            if await achievements.is_reached(tx, *achievement[:3]):
                continue
            at_ms = await achievements.event_time_ms(tx, achievement.seq) or achievement.at_ms
            dated = achievement._replace(at_ms=at_ms)
            if not only_own or await _is_own(tx, dated):
                new.append(dated)
        return new

    return work


async def _is_own(tx: Transaction, reached: Achievement) -> bool:
    """Return whether its event is one of its submission, and its player was on the board then."""
    # The stream also shows players who join later, with what they had reached before.
    is_by_submission = await achievements.is_event_of(tx, reached.seq, reached.submission_id)
    return is_by_submission and await was_joined(tx, reached.board, reached.player, reached.at_ms + 1)


async def reached_by_log(ledger: Ledger, policy: Policy) -> AsyncIterator[Achievement]:
    """Yield the achievements of a board in the order in which they were reached, from its log alone."""
    joins = await join_history_of(ledger, policy.board) if policy.joins is Joins.REQUIRED else None
    replay, after, is_cut = _Replay(policy, joins), 0, True
    while is_cut:
        events = await ledger.read(log.events_of_board(policy.board, after, count=LOG_SLICE))
        for event in events:
            if event.difference or event.is_move:
                for achievement in replay.reached_by(event):
                    yield achievement
        is_cut = len(events) == LOG_SLICE
        after = events[-1].seq if is_cut else after
        await asyncio.sleep(0)


class _Replay:
    """A board as its log goes on: the first ten of each window, and who was among them before."""

    def __init__(self, policy: Policy, joins: JoinHistory | None) -> None:
        self._policy = policy
        self._ranking = Ranking(policy)
        self._joins = joins
        self._windows: dict[str, TopTen] = {}
        self._recorded: set[tuple[str, str]] = set()

    def reached_by(self, event: LoggedEvent) -> Iterator[Achievement]:
        """Yield what an event achieved."""
        for kind in self._policy.windows:
            window = window_at(self._policy, kind, event.achieved_at_ms)
            top = self._windows.setdefault(window.name, TopTen(self._ranking, window, self._joins))
            if event.is_move:  # which nobody reached
                top.move(event)
                continue
            rank = top.rank_after(event)
            if rank and (window.name, event.player) not in self._recorded:
                self._recorded.add((window.name, event.player))
                facts = (event.submission_id, event.seq, event.at_ms)
                yield Achievement(self._policy.board, window.name, event.player, rank, *facts)
