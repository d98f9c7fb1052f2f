"""What boards would be without some of what counts: standings that would change, and who would leave the first hundred.

Nothing is written. Standings are folded here as `gateway.ledger.standings.folds` folds them, over what would be left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.ledger.judgement.reverification import counting_in
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.ranks import page_of
from gateway.steward.index.readable_windows import readable_windows
from policies.loader import Board
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.windows import Window

TOP: Final = 100
PAGE: Final = 500


class RevokedSubmission(Protocol):
    """What has to be known of a submission that counts no more."""

    @property
    def submission_id(self) -> str:
        """Its id."""

    @property
    def player(self) -> str:
        """Whose it is."""

    @property
    def achieved_at_ms(self) -> int:
        """The instant that decides its windows, in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class StandingImpact:
    """A standing that would change. `after` None: nothing of the player would be left in the window."""

    window: str
    player: str
    before: int
    after: int | None
    leaves_top: bool


async def impact_of_revoking(
    ledger: Ledger, board: Board, gone: Sequence[RevokedSubmission], now_ms: int
) -> list[StandingImpact]:
    """The standings that would change in the windows that are read, by window and player, if these counted no more."""
    ids, changes = {each.submission_id for each in gone}, []
    for window in readable_windows(board.policy, now_ms):
        players = {each.player for each in gone if window.begin_ms <= each.achieved_at_ms < window.end_ms}
        if players:
            changes += await _changes_in(ledger, board.ranking, window, sorted(players), ids)
    return changes


async def _changes_in(
    ledger: Ledger, ranking: Ranking, window: Window, players: Sequence[str], gone: Collection[str]
) -> list[StandingImpact]:
    before: dict[str, ReachedScore] = {}
    after: dict[str, ReachedScore | None] = {}
    for player in players:
        counting = await ledger.read(counting_in(ranking, player, window))
        held = ranking.standing(counting)
        left = ranking.standing([each for each in counting if each.submission_id not in gone])
        if held is not None and held != left:
            before[player], after[player] = held, left
    leaving = await _leaving_top(ledger, ranking, window, after)
    return [
        StandingImpact(window.name, player, held.score, _score_of(after[player]), player in leaving)
        for player, held in before.items()
    ]


def _score_of(reached: ReachedScore | None) -> int | None:
    return None if reached is None else reached.score


async def _leaving_top(
    ledger: Ledger, ranking: Ranking, window: Window, after: Mapping[str, ReachedScore | None]
) -> set[str]:
    """Players among the first hundred who would be there no more."""
    head = await _head(ledger, ranking, window.name, TOP + len(after))
    then = [(place, player) for player, place in head.items() if player not in after]
    then += [(ranking.place(window, player, reached), player) for player, reached in after.items() if reached]
    return set(list(head)[:TOP]) - {player for _, player in sorted(then)[:TOP]}


async def _head(ledger: Ledger, ranking: Ranking, window: str, count: int) -> dict[str, BoardPlace]:
    """The first standings of a window in their order: where each player is."""
    head: dict[str, BoardPlace] = {}
    kind = ranking.policy.ranks[0]
    while len(head) < count:
        size = min(PAGE, count - len(head))
        page = await ledger.read(page_of(ranking, window, len(head), size, kind))
        head |= {player: BoardPlace(order, member) for player, order, member, *_ in page.rows}
        if len(page.rows) < size:
            break
    return head
