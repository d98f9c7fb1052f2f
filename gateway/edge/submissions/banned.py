"""Refuses the runs of players with an open ban."""

from __future__ import annotations

from gateway.edge.context import Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.runtime.clock import rfc3339


def refuse_banned(edge: Edge, player: str, board: str) -> None:
    """Refuse a player with an open ban on a board, as far as this edge knows. Raises `player-banned`."""
    ban = edge.banned.open_ban(player, board, now_ms=edge.clock())
    if ban is None:
        return
    until = None if ban.until_ms is None else rfc3339(ban.until_ms)
    detail = "you are banned for good" if until is None else f"you are banned until {until}"
    raise Problem(ProblemType.PLAYER_BANNED, detail, until=until, message=ban.message)
