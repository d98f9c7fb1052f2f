"""Folds a whole board's standings anew, in bounded slices, after its policy has changed what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.clock import Clock
from gateway.ledger.ledger import Ledger
from gateway.ledger.refold import promoted_players, refold
from gateway.steward.rebuild import Tell
from gateway.steward.windows import readable
from policies.model import Policy

PLAYERS: Final = 100
"""Players folded in one transaction: other writes wait for it, a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Refolded:
    """How many players were looked at, and how many of their standings changed."""

    players: int
    changed: int


async def refold_board(ledger: Ledger, policy: Policy, *, clock: Clock, tell: Tell) -> Refolded:
    """Folds the current windows of a board and the ones before. `tell` hears how many players each slice had.

    Raises LedgerUnavailable; what was folded by then stays, and doing it again goes on from the start.
    """
    windows = readable(policy, clock())
    looked_at, changed, after = 0, 0, ""
    while players := await ledger.read(promoted_players(policy.board, after=after, count=PLAYERS)):
        changed += await ledger.write(refold(policy, players, windows))
        looked_at, after = looked_at + len(players), players[-1]
        tell(len(players))
    return Refolded(looked_at, changed)
