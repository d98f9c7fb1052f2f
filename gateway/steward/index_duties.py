"""The duties in the index: boards are compared, built, evicted and kept exact when they are due.

Each lane has sets of its boards (`gateway.index.residents`). If they are lost, the next read or change puts a
board back. Boards of files are put back by a look at those in memory, and residents whose keys outlived their
set by a slow walk over the boards with standings.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.board_indexes import Index
from gateway.index.gathered_commands import GatheredCommands
from gateway.index.residency import life_ms
from gateway.index.residents import Residents
from gateway.ledger.derived import board_duties
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import lane_of
from gateway.steward.failures import Failures
from gateway.steward.index.cold import ColdBoard
from gateway.steward.index.exact_ranks import PAUSE_MS, ExactRankKeeper
from gateway.steward.index.gathered_reads import GatheredReads
from gateway.steward.index.keyspace_walk import KeyspaceWalk
from gateway.steward.index.reconcile import Reconciler
from gateway.steward.leases import StewardLeases
from gateway.steward.rounds import Round, Step
from policies.loader import Board

COMPARED_AT_ONCE: Final = 16
"""Residents compared in one round, each for some milliseconds: those whose last turn is the longest ago."""

BUILT_AT_ONCE: Final = 16
EVICTED_AT_ONCE: Final = 64
KEPT_AT_ONCE: Final = 16
"""Boards built, looked at because they may be idle, and kept exact, in one round."""

FILES_AT_ONCE: Final = 256
"""Boards of files of which one round asks whether they are whole."""

WALKED: Final = 64
"""Boards with standings of which one round asks whether they are residents that were forgotten."""

REMEMBERED: Final = 512
"""Boards whose place in their comparison is remembered; small boards do not need it."""

BEYOND_ALL: Final = "~"
"""Sorts after every name of a board."""

StepOnBoard = Callable[[Board], Awaitable[int]]


class IndexDuties:
    """The boards that are due in the index, on this steward's lanes.

    Steps raise LedgerUnavailable and IndexUnavailable.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        ledger: Ledger,
        index: Index,
        failures: Failures,
        *,
        clock: Clock,
        leases: StewardLeases,
    ) -> None:
        self._catalogue = catalogue
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._leases = leases
        self._commands = GatheredCommands(index.client)
        self._residents = Residents(index.client, self._commands)
        self._reads = GatheredReads(ledger)
        self._outdated = OutdatedBoards(ledger, catalogue, ReadKind.DUTIES)
        self._keyspace = KeyspaceWalk(catalogue, ledger, index, clock=clock, leases=leases)
        self._reconciling = Round("reconcile", failures)
        self._walking = Round("walk_keys", failures)
        self._seeing_to_cold = Round("see_to_cold", failures)
        self._keeping_tails = Round("keep_tails", failures)
        self._reconcilers: OrderedDict[str, Reconciler] = OrderedDict()
        self._tail_keepers: dict[str, ExactRankKeeper] = {}
        self._seen_file = self._seen_board = ""

    async def reconcile(self) -> int:
        """Compare residents and some keys, rebuild boards that are not whole; return how much changed."""
        lost = await self._lost_files()
        await self._restore_residents()
        longest = await self._residents.first(
            keys.residents, self._leases.lanes_held(), count=COMPARED_AT_ONCE
        )
        names = list(dict.fromkeys([*lost, *longest]))
        await self._residents.put_off(keys.residents, longest, self._clock())
        done = await self._reconciling.step(await self._steps(names, keys.residents, self._compare))
        return done + await self._walking.step(await self._keyspace.steps())

    async def see_to_cold(self) -> int:
        """Build wanted boards, evict idle ones, and return how many."""
        lanes = self._leases.lanes_held()
        wanted = await self._residents.first(keys.wanted, lanes, count=BUILT_AT_ONCE)
        idle = await self._residents.first(keys.idle, lanes, count=EVICTED_AT_ONCE, upto_ms=self._clock())
        steps = await self._steps(idle, keys.idle, self._evict)
        steps |= await self._steps(wanted, keys.wanted, self._build)
        return await self._seeing_to_cold.step(steps)

    async def keep_tails(self) -> int:
        """Keep heads and sketches of boards with `exact_ranks`; return how many entries and slices moved."""
        names = await self._residents.first(
            keys.tails, self._leases.lanes_held(), count=KEPT_AT_ONCE, upto_ms=self._clock()
        )
        return await self._keeping_tails.step(await self._steps(names, keys.tails, self._keep_tail))

    async def aclose(self) -> None:
        """Cancel unfinished boards."""
        for duty in (self._reconciling, self._walking, self._seeing_to_cold, self._keeping_tails):
            await duty.aclose()

    async def _steps(
        self, names: Sequence[str], key_of: Callable[[int], str], step: StepOnBoard
    ) -> dict[str, Step]:
        """Return the step of each board; strike boards without a policy."""
        boards = await self._catalogue.boards(names)
        await self._residents.strike(key_of, [name for name in names if name not in boards])
        return {
            name: self._leases.on_lane(name, partial(step, boards[name])) for name in names if name in boards
        }

    def _index_of(self, board: Board) -> BoardIndex:
        return self._index.of(board)

    async def _lost_files(self) -> list[str]:
        """Return some boards of files that are not whole, but for those that are cold by their policy.

        Whole ones are residents, also those that nobody has changed since the set was lost.
        """
        names = self._catalogue.names_after(self._seen_file, FILES_AT_ONCE)
        self._seen_file = names[-1] if len(names) == FILES_AT_ONCE else ""
        ours = [name for name in names if lane_of(name) in self._leases.lanes_held()]
        marks = await self._residents.marks_of(ours)
        whole = [name for name, (is_whole, _) in zip(ours, marks, strict=True) if is_whole]
        await self._residents.add(keys.residents, whole, 0)
        return [
            name
            for name, (is_whole, is_cold) in zip(ours, marks, strict=True)
            if not is_whole and not (is_cold and life_ms(self._catalogue.of_files[name].policy))
        ]

    async def _restore_residents(self) -> None:
        """Put some boards back among the residents that are whole; each round looks at others."""
        page = board_duties.boards_with_standings(self._seen_board, BEYOND_ALL, count=WALKED)
        names = await self._ledger.read(page)
        self._seen_board = names[-1] if len(names) == WALKED else ""
        ours = [name for name in names if lane_of(name) in self._leases.lanes_held()]
        marks = await self._residents.marks_of(ours)
        residents = [name for name, (is_whole, _) in zip(ours, marks, strict=True) if is_whole]
        await self._residents.add(keys.residents, residents, 0)

    async def _compare(self, board: Board) -> int:
        if await self._outdated.has(board.name):
            return 0  # it is folded and built anew by its new rule: what differs is no damage
        index = self._index_of(board)
        reconciler = self._reconcilers.get(board.name) or self._reconciler(board)
        state = await reconciler.residency()
        if state.is_cold:
            await self._residents.strike(keys.residents, [board.name])
            if state.is_whole or not index.residency.is_limited:
                await index.residency.note_use(is_missed=True)  # it has to be built: nobody may leave it cold
            return 0
        if index.residency.is_limited:
            # Nobody may know since when it is idle. So its idle time begins now.
            until_ms = self._clock() + life_ms(board.policy)
            await self._residents.add(keys.idle, [board.name], until_ms)
        if board.policy.exact_ranks:  # it notices what no change brought about, such as a forged sketch
            await self._residents.add(keys.tails, [board.name], self._clock())
        try:
            return await reconciler.step(state)
        finally:
            self._remember(board.name, reconciler)

    def _reconciler(self, board: Board) -> Reconciler:
        return Reconciler(
            self._ledger,
            self._index_of(board),
            board.policy,
            clock=self._clock,
            reads=self._reads,
            commands=self._commands,
        )

    def _remember(self, name: str, reconciler: Reconciler) -> None:
        self._reconcilers[name] = reconciler
        self._reconcilers.move_to_end(name)
        if len(self._reconcilers) > REMEMBERED:
            oldest = next((name for name, other in self._reconcilers.items() if not other.is_long), name)
            del self._reconcilers[oldest]

    async def _build(self, board: Board) -> int:
        cold = ColdBoard(self._ledger, self._index_of(board), board.policy, clock=self._clock)
        is_of_file = board.name in self._catalogue.of_files
        if (is_of_file or await cold.has_content()) and await cold.warm():
            return 1  # whoever is whole is not wanted any more
        await self._residents.strike(keys.wanted, [board.name])
        return 0

    async def _evict(self, board: Board) -> int:
        index, now_ms = self._index_of(board), self._clock()
        if not index.residency.is_limited:
            await self._residents.strike(keys.idle, [board.name])
            return 0
        until_ms = await index.residency.idle_until(now_ms=now_ms)
        if until_ms is None:
            cold = ColdBoard(self._ledger, index, board.policy, clock=self._clock)
            if await cold.evict():
                return 1
        # Used, or being rebuilt, or not whole.
        await self._residents.put_off(keys.idle, [board.name], until_ms or now_ms + life_ms(board.policy))
        return 0

    async def _keep_tail(self, board: Board) -> int:
        name, until_ms = board.name, self._clock() + PAUSE_MS
        # Before the step: a change from here on makes the board due again.
        await self._residents.put_off(keys.tails, [name], until_ms)
        parts = (self._ledger, self._index_of(board), board.policy)
        keeper = self._tail_keepers.pop(name, None) or ExactRankKeeper(*parts, clock=self._clock)
        done = await keeper.step()
        if keeper.is_building:
            self._tail_keepers[name] = keeper
        if done or keeper.is_building:
            await self._residents.put_off(keys.tails, [name], self._clock())
        elif not keeper.lacks_changes:
            await self._residents.strike_unchanged(keys.tails, name, until_ms)
        return done
