"""Folds a whole board's standings anew, in bounded slices, after a change of its policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.ledger.archive.windows import among_archived
from gateway.ledger.derived import board_duties
from gateway.ledger.derived.board_duties import WHOLE_BOARD, BoardDuty, DueDuty
from gateway.ledger.index_pages import standings_after
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.refold import promoted_players, refold
from gateway.ledger.standings.rollup_borders import forget_next_borders
from gateway.ledger.standings.rollup_points import forget_points
from gateway.ledger.standings.rollups import players_of_family
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.failpoints import Point, reach
from gateway.steward.agenda import duties_of_windows
from gateway.steward.archive.refold_points import refold_points
from gateway.steward.index.rebuild import Tell
from policies.family import Family
from policies.model import Policy
from policies.ranking import Ranking
from policies.readable_windows import readable_windows
from policies.rollups import RollupTake
from policies.windows import Window

PLAYERS: Final = 100
"""Players folded in one transaction, which other writes wait for: a few hundredths of a second."""


BORDERS: Final = 500
"""Windows of boards whose borders are made void in one transaction."""


@dataclass(frozen=True, slots=True)
class RefoldCounts:
    """The numbers of players folded and of standings that changed."""

    players: int
    changed: int


async def refold_board(
    ledger: Ledger,
    policy: Policy,
    *,
    clock: Clock,
    tell: Tell,
    family: Family | None = None,
    marking: Operation[None] | None = None,
) -> RefoldCounts:
    """Fold a board's readable windows anew, except archived ones. `tell` hears the players in each slice.

    `family` is the one from which a rollup follows. `marking` is done with each slice that changes standings.
    Raises LedgerUnavailable; finished slices stay, and a second call begins again from the start.
    """
    readable, ranking = readable_windows(policy, clock()), Ranking(policy)
    if policy.rollup and policy.rollup.take is not RollupTake.POINTS:
        await _forget_borders(ledger, policy.board)
    elif family and policy.rollup:
        await refold_points(ledger, ranking, family, readable)
    following = _following(policy, readable, marking, now_ms=clock())
    count, changed = 0, 0
    for windows in _folded_together(policy, readable):
        after = ""
        while players := await ledger.read(_players_after(policy, windows, after)):
            changed += await ledger.write(_refold(ranking, players, windows, following))
            count, after = count + len(players), players[-1]
            tell(len(players))
            reach(Point.INSIDE_REFOLD)
    return RefoldCounts(count, changed)


def _following(
    policy: Policy, windows: Sequence[Window], marking: Operation[None] | None, *, now_ms: int
) -> Operation[None]:
    """Note what is due: no event says that these windows have standings now, or others at the top."""
    duties = duties_of_windows(policy.board, windows, seq=0, now_ms=now_ms)
    if policy.replay is not None:
        duties.append(DueDuty(BoardDuty.TOP, policy.board, WHOLE_BOARD, now_ms, 0, 0))

    async def work(tx: Transaction) -> None:
        await board_duties.note(tx, duties)
        if marking:
            await marking(tx)

    return work


async def _forget_borders(ledger: Ledger, rollup: str) -> None:
    """Make the borders of percentiles void that an earlier policy of a rollup stored."""
    names = [("", "")]
    while names := await ledger.write(forget_next_borders(rollup, names[-1], count=BORDERS)):
        pass


def _folded_together(policy: Policy, windows: Sequence[Window]) -> Sequence[Sequence[Window]]:
    """Return the windows in groups with the same players; each window of a rollup has players of its own."""
    return [[window] for window in windows] if policy.rollup else [windows]


def _players_after(policy: Policy, windows: Sequence[Window], after: str) -> Operation[list[str]]:
    """Return the next players with anything to fold."""
    if policy.rollup:
        return _players_of_rollup(policy.board, policy.rollup.family, windows[0].name, after)
    return promoted_players(policy.board, after=after, count=PLAYERS)


def _players_of_rollup(board: str, family: str, window: str, after: str) -> Operation[list[str]]:
    """Return the next players who stand in the family, or in the rollup though they do so no longer."""

    async def work(tx: Transaction) -> list[str]:
        of_family = await players_of_family(family, window, after=after, count=PLAYERS)(tx)
        of_rollup = await standings_after(board, window, after, count=PLAYERS)(tx)
        return sorted({*of_family, *(standing.player for standing in of_rollup)})[:PLAYERS]

    return work


def _refold(
    ranking: Ranking, players: Sequence[str], windows: Sequence[Window], following: Operation[None]
) -> Operation[int]:
    """Refold, but leave a window that is archived by then as the policy of its time had it."""

    async def work(tx: Transaction) -> int:
        names = [window.name for window in windows]
        archived = await among_archived(tx, ranking.policy.board, names)
        still_open = [window for window in windows if window.name not in archived]
        if ranking.policy.rollup and ranking.policy.rollup.take is not RollupTake.POINTS:
            for window in still_open:
                await forget_points(tx, ranking.policy.board, window.name, players)
        changed = await refold(ranking, players, still_open)(tx)
        if changed:
            await following(tx)
        return changed

    return work
