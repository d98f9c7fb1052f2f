"""Walks through the keys of Redis for those that no board has a use for, once for all boards.

A board is compared with the ledger by the keys that it must have, so its comparison costs what the board has,
whatever else is in Redis. Keys that somebody forged, or that an eviction left, are met here alone: each round
examines one slice of a server's keys, and compares those that do not explain themselves.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from redis.asyncio.cluster import ClusterNode

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.index.cluster import primaries, scan_server
from gateway.index.inspection import Inspection
from gateway.index.scripts import index_boundary
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import lane_of
from gateway.steward.index.comparison.difference import Aspect, BoardView, confirm, text_of
from gateway.steward.index.comparison.keyspace import Keyspace
from gateway.steward.index.comparison.segments import GroupMembers
from gateway.steward.index.reconcile import MOMENT_S, SLICE, report
from gateway.steward.leases import StewardLeases
from gateway.steward.rounds import Step
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.model import Policy
from policies.readable_windows import readable_window_names

SCANNED: Final = 1_000
"""Keys of a server that a round examines: well under a millisecond of Redis' one thread."""

BOARDS_AT_ONCE: Final = 16
"""Boards whose unexplained keys a round compares; the others of a slice wait for the next rounds."""

_OF_BOARD: Final = re.compile(rb"lb:\{[^}]+\}:([^:]+):(.+)", re.DOTALL)

_COMPARED: Final = frozenset(
    (
        *("pending", "settled", "names", "baselines", "memberships"),
        *("whole", "version", "cold", "relayed", "used"),
    )
)
"""Keys that the comparison of their board reaches by their names, and its mark of use, which any use sets."""


class KeyspaceWalk:
    """An endless walk through the keys of all servers, a slice at a time."""

    def __init__(
        self, catalogue: Catalogue, ledger: Ledger, index: Index, *, clock: Clock, leases: StewardLeases
    ) -> None:
        self._catalogue = catalogue
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._leases = leases
        self._servers: list[ClusterNode | None] = []
        self._cursor = 0
        self._unexplained: OrderedDict[str, list[bytes]] = OrderedDict()

    async def steps(self) -> dict[str, Step]:
        """Examine a slice of keys, unless the last one left some, and return the steps that compare them.

        The steps are by board or shard, and return how many keys were wrong. Raises IndexUnavailable and
        LedgerUnavailable.
        """
        if not self._unexplained:
            await self._read_slice()
        count = min(BOARDS_AT_ONCE, len(self._unexplained))
        found = dict(self._unexplained.popitem(last=False) for _ in range(count))
        boards = await self._catalogue.boards({_base_of(name) for name in found})
        return {
            name: self._leases.on_lane(board.name, partial(self._compare, board, name, board_keys))
            for name, board_keys in found.items()
            if (board := boards.get(_base_of(name)))
        }

    async def _read_slice(self) -> None:
        try:
            if not self._servers:
                with index_boundary():
                    self._servers = await primaries(self._index.client)
            with index_boundary():
                self._cursor, names = await scan_server(
                    self._index.client, self._servers[0], self._cursor, match="lb:{*}:*:*", count=SCANNED
                )
        except IndexUnavailable:
            self._servers, self._cursor = [], 0  # the nodes may be others now
            raise
        if not self._cursor:
            del self._servers[0]
        self._sort_out(names)

    def _sort_out(self, names: Sequence[bytes]) -> None:
        """Keep the keys of our lanes that do not explain themselves, by board or shard."""
        lanes, readable = self._leases.lanes_held(), dict[str, frozenset[str]]()
        for raw in names:
            name, rest = _parts_of(raw)
            policy = self._catalogue.policy_of(_base_of(name))
            if policy is None or lane_of(_base_of(name)) not in lanes or rest in _COMPARED:
                continue
            kind = f"{policy.board}/{keys.is_shard(name)}"
            if kind not in readable:
                readable[kind] = self._explained(policy, name)
            if rest not in readable[kind]:
                self._unexplained.setdefault(name, []).append(raw)

    def _explained(self, policy: Policy, name: str) -> frozenset[str]:
        """Return what a board's own comparison reaches of its readable windows."""
        if (policy.shards > 1) != keys.is_shard(name):
            return frozenset()
        windows = readable_window_names(policy, self._clock())
        zsets = () if policy.ranges else windows
        return frozenset((*zsets, *(f"{window}:members" for window in windows)))

    async def _compare(self, board: Board, name: str, board_keys: Sequence[bytes]) -> int:
        """Repair what is wrong with some keys of a board or shard, and return how many were."""
        index = self._index.of(board)
        state = await index.residency.state()
        if not state.is_whole and not state.is_cold:
            return 0  # it is being built, or nobody reads it
        for part in {index, *index.shards}:
            if part.board == name:
                view = BoardView(self._ledger, part, Inspection(part.client, name), board.policy, self._clock)
                wrong = await self._mend(board.name, Keyspace(view, is_cold=state.is_cold), board_keys)
                return wrong + await self._mend_groups(view, board_keys)
        return 0

    async def _mend_groups(self, view: BoardView, board_keys: Sequence[bytes]) -> int:
        """Repair some members of the groups among these keys; the others are met in the next walk."""
        stem, groups, wrong = f"{keys.stem(view.board)}segment:", GroupMembers(view), 0
        for key in filter(None, map(text_of, board_keys)):
            if key.startswith(stem):
                async with aclosing(groups.members_of(key, SLICE)) as slices:
                    async for members in slices:
                        wrong += await self._mend(view.policy.board, groups, members)
                        break
        return wrong

    async def _mend(self, board: str, aspect: Aspect, subjects: Sequence[Any]) -> int:
        """Repair what a second look still finds different."""
        differences = await aspect.compare(subjects)
        if not differences:
            return 0
        await asyncio.sleep(MOMENT_S)
        differences = await confirm(aspect, differences)
        await aspect.repair(differences)
        if differences:
            report(board, differences)
        return len(differences)


def _parts_of(raw: bytes) -> tuple[str, str]:
    """Return the board or shard of a key, and what it is there; two empty texts for a key of neither."""
    match = _OF_BOARD.fullmatch(raw)
    name, rest = (part.decode(errors="replace") for part in match.groups()) if match else ("", "")
    return (name, rest) if raw.startswith(keys.stem(name).encode()) else ("", "")


def _base_of(name: str) -> str:
    """Return the board of a board or shard."""
    return name.partition("/")[0]
