"""Opens a board for the first run of a player, if the family's policy can tell that its name is real."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from cryptography.exceptions import InvalidSignature
from redis.asyncio import Redis

from gateway.catalogue.family_terms import terms_of
from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.signatures import load_server_public_key
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import client_names, no_such_board
from gateway.edge.problems import Problem, ProblemType
from gateway.index.limits.opening_quotas import OpeningQuotas
from gateway.ledger.boards.player_openings import FamilyOpenings, OpeningOutcome, open_for_player
from gateway.runtime.telemetry import BOARDS_OPENED
from policies.errors import LedgerUnavailable
from policies.family import Family
from policies.loader import Board
from policies.opened_board import OpenedBoard, family_named_by
from policies.signed_names import public_key_bytes, signed_text

_UNOPENED = 0
"""The version of a board that is not open yet."""


@dataclass(slots=True)
class _UnderWay:
    """An opening that requests for one name share: they take turns."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0
    failure: LedgerUnavailable | None = None


class BoardOpenings:
    """The quotas of those who open boards, and the openings that are under way."""

    def __init__(self, client: Redis) -> None:
        self.quotas = OpeningQuotas(client)
        self._under_way: dict[str, _UnderWay] = {}

    def __len__(self) -> int:
        """Return how many names are being opened."""
        return len(self._under_way)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for the requests before this one. If the ledger fails one, it fails all that wait."""
        opening = self._under_way.setdefault(name, _UnderWay())
        opening.requests += 1
        try:
            async with opening.turn:
                if opening.failure:
                    raise opening.failure
                yield
        except LedgerUnavailable as failure:
            opening.failure = failure
            self._forget(name, opening)
            raise
        finally:
            opening.requests -= 1
            if not opening.requests:
                self._forget(name, opening)

    def _forget(self, name: str, opening: _UnderWay) -> None:
        if self._under_way.get(name) is opening:
            del self._under_way[name]


async def board_to_play(request: web.Request) -> Board:
    """Return the board in the path, or as it will be once a player's run has opened it.

    Raises `not-found`, also for a name that no player may open, and LedgerUnavailable.
    """
    edge, name = request.app[EDGE], request.match_info["board"]
    catalogue = edge.catalogue
    board = await catalogue.board(name)
    if board is not None:
        return board
    family = catalogue.families.get(family_named_by(name) or "")
    if family is None or not family.is_for_players_to_open(name) or catalogue.was_opened(name):
        raise no_such_board(edge, name)
    rest = name[len(family.name) + 1 :]
    return family.board(OpenedBoard(name, family.name, rest, version=_UNOPENED))


def is_unopened(board: Board) -> bool:
    """Return whether a run has to open the board first."""
    return board.opened is not None and board.opened.version == _UNOPENED


async def open_first(request: web.Request, board: Board, player: str, signature: str | None) -> Board:
    """Open a board for a player's run, and return it as it is then, whoever opened it.

    Raises `name-unsigned`, `quota-exceeded`, `family-full`, `not-found` and LedgerUnavailable.
    """
    edge = request.app[EDGE]
    family = edge.catalogue.families.get(board.family or "")
    if family is None or board.opened is None or not family.is_for_players_to_open(board.name):
        # The policies changed a moment ago.
        raise no_such_board(edge, board.name)
    _refuse_unsigned(family, board.name, signature)
    async with edge.openings.turn(board.name):
        # Another request may have opened it, here or elsewhere, since this one found it missing.
        if await edge.catalogue.board(board.name) is None:
            await _charge(edge, request, family, player)
            await _open(edge, family, board.opened, player)
    opened = await edge.catalogue.board(board.name)
    if opened is None:
        raise no_such_board(edge, board.name)
    return opened


def _refuse_unsigned(family: Family, name: str, signature: str | None) -> None:
    """Raise `name-unsigned` if the family has keys for names and none of them signed this one."""
    keys = family.policy.opening_limits.signed_by
    if not keys:
        return
    if signature is None:
        raise Problem(ProblemType.NAME_UNSIGNED, "name_signature: the first run on a board needs it")
    for key in keys:
        try:
            load_server_public_key(public_key_bytes(key)).verify(
                base64.b64decode(signature), signed_text(name)
            )
        except InvalidSignature:
            continue
        return
    raise Problem(ProblemType.NAME_UNSIGNED, "name_signature: it is not the studio's for this name")


async def _charge(edge: Edge, request: web.Request, family: Family, player: str) -> None:
    address, network = client_names(edge, request)
    refusal = await edge.openings.quotas.charge(
        family.name, family.policy.opening_limits, player=player, address=address, network=network
    )
    if refusal:
        raise quota_exceeded(refusal.name, refusal.rate, refusal.wait_ms)


async def _open(edge: Edge, family: Family, board: OpenedBoard, player: str) -> None:
    opening = family.policy.opening_limits
    limits = FamilyOpenings(opening.rate, opening.in_all)
    actor = f"player:{player}"
    opened = await edge.ledger.write(
        open_for_player(terms_of(family), limits, board, actor=actor, at_ms=edge.clock())
    )
    match opened.outcome:
        case OpeningOutcome.LIMITED:
            raise quota_exceeded("openings", opening.rate, opened.wait_ms)
        case OpeningOutcome.FULL:
            raise Problem(
                ProblemType.FAMILY_FULL, f"they may open {opening.in_all}; play on a board that is open"
            )
        case OpeningOutcome.OPENED:
            BOARDS_OPENED.labels(family.name, "player").inc()
