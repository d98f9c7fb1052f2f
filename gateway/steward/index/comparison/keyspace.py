"""The keys themselves: that each is one of ours, of its type, and lives as long as it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.index import keys
from gateway.index.inspection import KeyFacts
from gateway.steward.index.comparison.difference import (
    AHEAD_MS,
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    text_of,
)

SCAN: Final = 1_000
"""Keys of Redis that a slice looks through at least: most of them are limits, of this board or another."""


class Keyspace:
    """Every key that bears the board's hash tag. None of a window is ours while the board `is_cold`."""

    def __init__(self, view: BoardView, *, is_cold: bool = False) -> None:
        self._view = view
        self._is_cold = is_cold
        self._stem = keys.stem(view.board)

    def walks(self) -> Sequence[Walk]:
        """Through the keys that the board is read from, and through all that there are."""
        return (self._from_board, self._from_index)

    async def _from_board(self, _count: int) -> Subjects:
        yield [key.encode() for key in await self._expected()]

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.scan(max(SCAN, count))

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Keys that are none of ours, of another type, or with another life."""
        held = await self._view.inspection.facts(subjects)
        expected = await self._expected()
        found = [await self._difference(each, expected) for each in held]
        return [each for each in found if each]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Deletes what is not ours; what belongs there is then missing, and is found so. Sets what lives too long or short."""
        expected = await self._expected()
        wrong_expiry = [each.subject for each in found if each.kind is Kind.WRONG_EXPIRY]
        await self._view.inspection.delete(
            [
                each.subject
                for each in found
                if each.subject not in wrong_expiry and not self._is_back(each, expected)
            ]
        )
        for key in wrong_expiry:
            expected |= self._group_named(key.decode(), expected)
            _, expires_at_ms = expected.get(key.decode(), ("", None))
            await self._view.inspection.expire(key, expires_at_ms)

    def _is_back(self, found: Difference, expected: Mapping[str, object]) -> bool:
        """True for a window of a board that was cold when it was compared, and is not any more."""
        return self._is_cold and found.subject.decode(errors="replace") in expected

    async def _difference(
        self, held: KeyFacts, expected: dict[str, tuple[str, int | None]]
    ) -> Difference | None:
        name = text_of(held.key) or ""
        expected |= self._group_named(name, expected)
        if name in expected:
            kind, expires_at_ms = expected[name]
            if held.kind != kind:
                return self._differs(held, Kind.FORGED_KEY, kind, held.kind)
            if held.expires_at_ms != expires_at_ms:
                return self._differs(held, Kind.WRONG_EXPIRY, _life(expires_at_ms), _life(held.expires_at_ms))
            return None
        if name.startswith(f"{self._stem}open:"):
            return await self._forged_runs(held)
        if self._is_passing(name, held):
            return None
        return self._differs(held, Kind.FORGED_KEY, "", held.kind)

    async def _forged_runs(self, held: KeyFacts) -> Difference | None:
        """Open runs that no ticket of this board can have: the ledger knows of none, but tickets have their bounds."""
        policy = self._view.policy
        latest_ms = self._view.clock() + policy.run_lifetime_s * 1000 + AHEAD_MS
        if held.kind == "zset" and held.expires_at_ms is not None:
            count, last_ms = await self._view.inspection.open_runs(held.key)
            if count <= policy.limits.open_runs and max(last_ms, held.expires_at_ms) <= latest_ms:
                return None
        return self._differs(held, Kind.FORGED_OPEN_RUNS, "", held.kind)

    def _is_passing(self, name: str, held: KeyFacts) -> bool:
        """True for keys that go by themselves: limits, counts of runs, what a rebuild is building, and what by our clock has gone."""
        if held.expires_at_ms is None:
            return False
        if held.expires_at_ms <= self._view.clock():
            return True
        kinds = {
            "limit:": "string",
            "runs:": "hash",
            "building": "string",
            "built:": held.kind,
            "circle:": held.kind,
            "used": "string",
        }
        return any(name.startswith(self._stem + start) and held.kind == kind for start, kind in kinds.items())

    def _group_named(
        self, name: str, expected: dict[str, tuple[str, int | None]]
    ) -> dict[str, tuple[str, int | None]]:
        """Type and expiry of a group's board, if that is what bears the name: it lives as long as its window."""
        kind, _, rest = name.removeprefix(self._stem).partition(":")
        segment, _, rest = rest.partition(":")
        if kind != "segment" or segment not in self._view.policy.segments:
            return {}
        slots = keys.members(self._view.board, rest.partition(":")[2])
        return {name: ("zset", expected[slots][1])} if slots in expected else {}

    async def _expected(self) -> dict[str, tuple[str, int | None]]:
        """Type and expiry of every key that the board is read from, whether or not it is there."""
        board = self._view.board
        fixed = {
            keys.pending(board): "zset",
            keys.settled(board): "zset",
            keys.names(board): "hash",
            keys.baselines(board): "hash",
            keys.changes(board): "stream",
            keys.announced(board): "string",
            keys.sentinel(board): "string",
            keys.version(board): "string",
            keys.cold(board): "hash",
        }
        if self._view.index not in self._view.index.shards:
            fixed[keys.relayed(board)] = "hash"
        if self._view.policy.segments:
            fixed[keys.memberships(board)] = "hash"
        found: dict[str, tuple[str, int | None]] = {key: (kind, None) for key, kind in fixed.items()}
        if self._is_cold and (await self._view.index.residency.state()).is_cold:
            return found
        for window, expires_at_ms in (await self._view.windows()).items():
            found |= dict.fromkeys(self._view.zsets(window), ("zset", expires_at_ms))
            found[keys.members(board, window)] = ("hash", expires_at_ms)
            if self._view.policy.exact_ranks:
                found[keys.sketch(board, window)] = ("hash", expires_at_ms)
            if self._view.policy.segments:
                found[keys.segmented(board, window)] = ("hash", expires_at_ms)
            if self._view.index.ranking.keeps_groups:
                found[keys.groups(board, window)] = ("zset", expires_at_ms)
        return found

    def _differs(self, held: KeyFacts, kind: Kind, ledger: str, index: str) -> Difference:
        player = (
            printable(held.key).removeprefix(f"{self._stem}open:") if kind is Kind.FORGED_OPEN_RUNS else ""
        )
        return Difference(
            self._view.board,
            kind,
            player=player,
            key=printable(held.key),
            ledger=ledger,
            index=index,
            subject=held.key,
        )


def _life(expires_at_ms: int | None) -> str:
    return "for ever" if expires_at_ms is None else f"until {expires_at_ms}"
