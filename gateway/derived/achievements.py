"""Top-ten achievements: that a player's own submission first brought them among the first ten of a window.

The rank is the one that the board showed right after the change. Where the stream has lost changes the log is folded
again and says the rank at each event, which is the same as long as changes are shown in the order in which they were
decided. What was once recorded stays.

On a board to be joined only those have a rank who are on it, as a past window's are who were as it ended. Who joins is shown
what they had before; that is no achievement; their next submission that counts for more is one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Final

from gateway.derived.joined import Joined, joined_of
from gateway.derived.webhooks.events import achievement_reached
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived import achievements, log, webhooks
from gateway.ledger.derived.achievements import Achievement
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import was_joined
from gateway.ledger.standings.history import Counting, by_place, ranked
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from policies.loader import Board
from policies.model import Joins, Policy
from policies.ranking import Ranking
from policies.vocabulary import State
from policies.windows import Window, window_at

FIRST: Final = 10
"""Ranks that are an achievement: this one and those before it."""

LOG_SLICE: Final = 1_000


class Achievements:
    """A record for each player and window, written once."""

    name = "achievements"

    def __init__(self, ledger: Ledger, *, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Records those that came into the first ten."""
        reached = [
            Achievement(
                board.name, each.window, each.player, each.rank, each.submission_id, each.seq, each.at_ms
            )
            for each in mutations
            if each.rank is not None and each.rank <= FIRST
        ]
        is_joined = board.policy.joins is Joins.REQUIRED
        await self._record(await self._ledger.read(_dated(reached, are_own=is_joined)))

    async def recover(self, board: Board, since: int) -> None:
        """Records what the log says and was not recorded; nothing of it comes by webhook that was decided before `since`."""
        async for reached in reached_by_log(self._ledger, board.policy):
            await self._record([reached], told_after=since)

    async def _record(self, reached: Sequence[Achievement], *, told_after: int = 0) -> None:
        if not reached:
            return

        async def work(tx: Transaction) -> None:
            new = [each for each in reached if await achievements.add_achievement(tx, each)]
            told = [achievement_reached(each) for each in new if each.seq > told_after]
            await webhooks.queue(tx, told, now_ms=self._clock())

        await self._ledger.write(work)


def _dated(reached: Sequence[Achievement], *, are_own: bool) -> Operation[list[Achievement]]:
    """Those that are new, at the time of their event; with `are_own` only those that it brought to a player on the board."""

    async def work(tx: Transaction) -> list[Achievement]:
        found = []
        for each in reached:
            if await achievements.is_reached(tx, *each[:3]):
                continue
            dated = each._replace(at_ms=await achievements.event_time_ms(tx, each.seq) or each.at_ms)
            if not are_own or await _is_own(tx, dated):
                found.append(dated)
        return found

    return work


async def _is_own(tx: Transaction, reached: Achievement) -> bool:
    """Whether its event is one of the submission that stands, and its player was on the board: who joins later is shown too."""
    is_by_it = await achievements.is_event_of(tx, reached.seq, reached.submission_id)
    return is_by_it and await was_joined(tx, reached.board, reached.player, reached.at_ms + 1)


async def reached_by_log(ledger: Ledger, policy: Policy) -> AsyncIterator[Achievement]:
    """Every achievement of a board in the order in which it was reached, folded from the log alone."""
    windows: dict[str, _First] = {}
    ranking = Ranking(policy)
    after = 0
    known: set[tuple[str, str]] = set()
    joined = await joined_of(ledger, policy.board) if policy.joins is Joins.REQUIRED else None
    while events := await ledger.read(log.events_after(after, count=LOG_SLICE)):
        after = events[-1].seq
        for each in events:
            if each.board != policy.board or not each.difference:
                continue
            for kind in policy.windows:
                window = window_at(policy, kind, each.achieved_at_ms)
                rank = windows.setdefault(window.name, _First(ranking, window, joined)).rank_after(each)
                if rank and (window.name, each.player) not in known:
                    known.add((window.name, each.player))
                    facts = (each.submission_id, each.seq, each.at_ms)
                    yield Achievement(policy.board, window.name, each.player, rank, *facts)
        await asyncio.sleep(0)


class _First:
    """The first ten of a window as the log goes on.

    Who betters a standing can only push others down, so the first ten after it are among those before it and the
    player. Only a standing among them that gets worse asks for all players, as does somebody who joined or left.
    """

    def __init__(self, ranking: Ranking, window: Window, joined: Joined | None) -> None:
        self._joined = joined
        self._at_ms = 0
        self._ranking = ranking
        self._window = window
        self._counting: dict[str, dict[str, Counting]] = defaultdict(dict)
        self._first: list[Counting] = []

    def rank_after(self, event: LoggedEvent) -> int | None:
        """The player's rank after an event, if it is among the first."""
        player = event.player
        was = next((each for each in self._first if each.player == player), None)
        mine = self._counting[player]
        if event.to_state is State.PROMOTED:
            mine[event.submission_id] = Counting(
                player,
                event.score,
                event.achieved_at_ms,
                event.received_seq,
                event.submission_id,
                self._ranking.ties(event.stats),
            )
        else:
            mine.pop(event.submission_id, None)
        has_turned = self._look(event.at_ms)
        others = [each for each in self._first if each.player != player]
        stands = ranked(mine.values(), self._ranking, self._window) if mine and self._is_on(player) else []
        if has_turned or (was is not None and (not stands or self._is_worse(stands[0], was))):
            self._first = self._of_all()
        else:
            self._first = self._order([*others, *stands])[:FIRST]
        ranks = {each.player: rank for rank, each in enumerate(self._first, start=1)}
        is_by_this = self._joined is None or (bool(stands) and stands[0].submission_id == event.submission_id)
        return ranks.get(player) if is_by_this else None

    def _of_all(self) -> list[Counting]:
        of_players = [found for player, found in self._counting.items() if self._is_on(player)]
        every = [each for of_player in of_players for each in of_player.values()]
        return ranked(every, self._ranking, self._window)[:FIRST]

    def _look(self, at_ms: int) -> bool:
        """Whether somebody joined or left since it was looked last; what is over stays as it ended."""
        before_ms, self._at_ms = self._at_ms, max(self._at_ms, min(at_ms, self._window.end_ms - 1))
        return self._joined is not None and self._joined.has_turned(self._counting, before_ms, self._at_ms)

    def _is_on(self, player: str) -> bool:
        return self._joined is None or self._joined.was(player, self._at_ms)

    def _order(self, standings: Sequence[Counting]) -> list[Counting]:
        return by_place(standings, self._ranking, self._window)

    def _is_worse(self, now: Counting, was: Counting) -> bool:
        """Equal standings keep their order."""
        return self._order([now, was._replace(player="")])[0].player != now.player
