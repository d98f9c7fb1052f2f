"""The first ten of a window, folded from the log event by event."""

from __future__ import annotations

from collections import defaultdict
from heapq import nsmallest
from typing import Final

from gateway.derived.join_history import JoinHistory
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.standings.history import Counting
from policies.choices import Operator
from policies.ranking import BoardPlace, Ranking
from policies.vocabulary import SCORE_LIMIT, State
from policies.windows import Window

TOP_RANKS: Final = 10
"""The worst rank that is an achievement."""


class TopTen:
    """The first ten of a window as the log goes on.

    A better standing can only push others down, so the first ten after it are among the first ten before it
    and the player. All players are compared again only if one of the ten gets worse, or if somebody joined or
    left. A promotion is added to its player's standing; only a revocation folds all that the player has.
    """

    def __init__(self, ranking: Ranking, window: Window, joins: JoinHistory | None) -> None:
        self._joins = joins
        self._at_ms = 0
        self._ranking = ranking
        self._window = window
        self._counting: dict[str, dict[str, Counting]] = defaultdict(dict)
        self._totals: dict[str, int] = defaultdict(int)
        self._standings: dict[str, Counting] = {}
        self._players: dict[str, str] = {}
        self._top: list[Counting] = []

    def rank_after(self, event: LoggedEvent) -> int | None:
        """Return the player's rank after an event, if it is in the top ten."""
        player = event.player
        before = next((standing for standing in self._top if standing.player == player), None)
        self._count(event)
        has_changed = self._move_to(event.at_ms)
        now = self._standings.get(player) if self._is_on(player) else None
        if has_changed or (before is not None and (now is None or self._is_worse(now, before))):
            shown = (standing for name, standing in self._standings.items() if self._is_on(name))
            self._top = nsmallest(TOP_RANKS, shown, key=self._place)
        elif now != before:
            others = [standing for standing in self._top if standing.player != player]
            self._top = sorted([*others, *([now] if now else [])], key=self._place)[:TOP_RANKS]
        ranks = {standing.player: rank for rank, standing in enumerate(self._top, start=1)}
        is_by_this = self._joins is None or (now is not None and now.submission_id == event.submission_id)
        return ranks.get(player) if is_by_this else None

    def move(self, event: LoggedEvent) -> None:
        """Let a submission count for the player of the event, and not for whom it did before."""
        before = self._players.get(event.submission_id, event.player)
        self.rank_after(event._replace(player=before, to_state=State.REVOKED))
        self.rank_after(event)

    def _count(self, event: LoggedEvent) -> None:
        """Count a promotion, or no longer count what was revoked."""
        self._players[event.submission_id] = event.player
        mine = self._counting[event.player]
        before = mine.pop(event.submission_id, None)
        self._totals[event.player] -= before.score if before else 0
        if event.to_state is State.PROMOTED:
            submission = mine[event.submission_id] = Counting(
                event.player,
                event.score,
                event.achieved_at_ms,
                event.received_seq,
                event.submission_id,
                self._ranking.ties(event.stats),
            )
            self._totals[event.player] += event.score
            if before is None:
                self._add(submission)
                return
        self._standings.pop(event.player, None)
        if reached := self._ranking.standing([submission.reached for submission in mine.values()]):
            self._standings[event.player] = Counting(event.player, *reached)

    def _add(self, submission: Counting) -> None:
        """Add a submission to its player's standing, at the same cost however many the player has."""
        player = submission.player
        standing = self._standings.get(player)
        reached = self._ranking.standing([one.reached for one in (standing, submission) if one])
        assert reached is not None
        operator = self._ranking.policy.operator
        if operator in (Operator.SUM, Operator.COUNT):
            total = self._totals[player] if operator is Operator.SUM else len(self._counting[player])
            reached = reached._replace(score=max(-SCORE_LIMIT, min(SCORE_LIMIT, total)))
        self._standings[player] = Counting(player, *reached)

    def _move_to(self, at_ms: int) -> bool:
        """Move on to a moment, and return whether anybody joined or left since the last one."""
        # A window that is over stays as it ended, whoever joins later.
        before_ms, self._at_ms = self._at_ms, max(self._at_ms, min(at_ms, self._window.end_ms - 1))
        return self._joins is not None and self._joins.has_changed(self._counting, before_ms, self._at_ms)

    def _is_on(self, player: str) -> bool:
        return self._joins is None or self._joins.was_on_board(player, self._at_ms)

    def _place(self, standing: Counting) -> BoardPlace:
        return self._ranking.place(self._window, standing.player, standing.reached)

    def _is_worse(self, now: Counting, before: Counting) -> bool:
        """Return whether the player's standing now ranks behind the one before."""
        return self._place(now) > self._place(before)
