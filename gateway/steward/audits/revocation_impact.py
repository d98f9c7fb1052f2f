"""The impact of revoking submissions: standings that would change, and players who would leave the top 100.

Nothing is written. Standings are folded here as in `gateway.ledger.standings.folds`, from the submissions
left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.ledger.judgement.reverification import counting_in
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.ranks import page_of
from policies.loader import Board
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.readable_windows import readable_windows
from policies.windows import Window

TOP: Final = 100
PAGE: Final = 500


class RevokedSubmission(Protocol):
    """A submission that would no longer count."""

    @property
    def submission_id(self) -> str:
        """The submission's id."""

    @property
    def player(self) -> str:
        """The submission's player."""

    @property
    def achieved_at_ms(self) -> int:
        """The instant that decides the submission's windows, in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class StandingImpact:
    """A standing that would change. `after` is None if the player would have nothing left in the window."""

    window: str
    player: str
    before: int
    after: int | None
    leaves_top: bool


async def impact_of_revoking(
    ledger: Ledger, board: Board, revoked: Sequence[RevokedSubmission], now_ms: int
) -> list[StandingImpact]:
    """Return the standings that would change in readable windows, by window and player."""
    ids, impact = {run.submission_id for run in revoked}, []
    for window in readable_windows(board.policy, now_ms):
        players = {run.player for run in revoked if window.begin_ms <= run.achieved_at_ms < window.end_ms}
        if players:
            impact += await _impact_in(ledger, board.ranking, window, sorted(players), ids)
    return impact


async def _impact_in(
    ledger: Ledger, ranking: Ranking, window: Window, players: Sequence[str], revoked_ids: Collection[str]
) -> list[StandingImpact]:
    before: dict[str, ReachedScore] = {}
    after: dict[str, ReachedScore | None] = {}
    for player in players:
        counting = await ledger.read(counting_in(ranking, player, window))
        now = ranking.standing(counting)
        left = ranking.standing([run for run in counting if run.submission_id not in revoked_ids])
        if now is not None and now != left:
            before[player], after[player] = now, left
    leaving = await _leaving_top(ledger, ranking, window, after)
    return [
        StandingImpact(window.name, player, now.score, _score_of(after[player]), player in leaving)
        for player, now in before.items()
    ]


def _score_of(reached: ReachedScore | None) -> int | None:
    return None if reached is None else reached.score


async def _leaving_top(
    ledger: Ledger, ranking: Ranking, window: Window, after: Mapping[str, ReachedScore | None]
) -> set[str]:
    """Return the players who would leave the top hundred."""
    # As many more as may leave: those behind the top move up into it.
    places = await _first_places(ledger, ranking, window.name, TOP + len(after))
    then = [(place, player) for player, place in places.items() if player not in after]
    then += [(ranking.place(window, player, reached), player) for player, reached in after.items() if reached]
    return set(list(places)[:TOP]) - {player for _, player in sorted(then)[:TOP]}


async def _first_places(ledger: Ledger, ranking: Ranking, window: str, count: int) -> dict[str, BoardPlace]:
    """Return the places of a window's first `count` players, in order."""
    places: dict[str, BoardPlace] = {}
    kind = ranking.policy.ranks[0]
    while len(places) < count:
        size = min(PAGE, count - len(places))
        page = await ledger.read(page_of(ranking, window, len(places), size, kind))
        places |= {player: BoardPlace(order, member) for player, order, member, *_ in page.rows}
        if len(page.rows) < size:
            break
    return places
