"""The board's keys themselves: whether each is ours, of its type, and with its expiry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
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
"""Fewest Redis keys that a slice examines: most of them are limits, of this board or another."""


class Keyspace:
    """The keys of a board. A board that `is_cold` has no keys of windows.

    With `searches` all keys of the server are walked through for those of the board, and otherwise only those
    that the board has: `gateway.steward.index.keyspace_walk` finds the others for all boards together.
    """

    def __init__(self, view: BoardView, *, is_cold: bool = False, searches: bool = False) -> None:
        self._view = view
        self._is_cold = is_cold
        self._searches = searches
        self._stem = keys.stem(view.board)

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the keys that the board is read from, and through all keys."""
        return (self._from_board, self._from_index if self._searches else self._from_groups)

    async def _from_board(self, _count: int) -> Subjects:
        yield [key.encode() for key in await self._expected()]

    async def _from_groups(self, count: int) -> Subjects:
        for window in await self._view.windows() if self._view.policy.segments else ():
            async with aclosing(self._view.inspection.keys_of_groups(window, count)) as slices:
                async for names in slices:
                    yield [name.encode() for name in names]

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.scan(max(SCAN, count))

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the keys that are not ours, or that have a wrong type or expiry."""
        actual = await self._view.inspection.facts(subjects)
        # Limits and open runs, which are most keys, are judged without the ledger.
        expected = await self._expected() if any(map(self._is_lasting, actual)) else {}
        compared = [await self._difference(facts, expected) for facts in actual]
        return [difference for difference in compared if difference]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Set wrong expiries and delete other wrong keys; other aspects find what is then missing."""
        expected = await self._expected()
        wrong_expiry = [
            difference.subject for difference in differences if difference.kind is Kind.WRONG_EXPIRY
        ]
        await self._view.inspection.delete(
            [
                difference.subject
                for difference in differences
                if difference.subject not in wrong_expiry and not self._is_back(difference, expected)
            ]
        )
        for key in wrong_expiry:
            expected |= self._group_named(key.decode(), expected)
            _, expires_at_ms = expected.get(key.decode(), ("", None))
            await self._view.inspection.expire(key, expires_at_ms)

    def _is_back(self, difference: Difference, expected: Mapping[str, object]) -> bool:
        """Return whether the key is of a window again, since the board was warmed after the comparison."""
        return self._is_cold and difference.subject.decode(errors="replace") in expected

    async def _difference(
        self, facts: KeyFacts, expected: dict[str, tuple[str, int | None]]
    ) -> Difference | None:
        name = text_of(facts.key) or ""
        expected |= self._group_named(name, expected)
        if name in expected:
            kind, expires_at_ms = expected[name]
            if facts.kind != kind:
                return self._differs(facts, Kind.FORGED_KEY, kind, facts.kind)
            if facts.expires_at_ms != expires_at_ms:
                return self._differs(
                    facts, Kind.WRONG_EXPIRY, _life(expires_at_ms), _life(facts.expires_at_ms)
                )
            return None
        if name.startswith(f"{self._stem}open:"):
            return await self._forged_runs(facts)
        if self._is_passing(name, facts):
            return None
        return self._differs(facts, Kind.FORGED_KEY, "", facts.kind)

    async def _forged_runs(self, facts: KeyFacts) -> Difference | None:
        """Return a difference if no ticket of this board can account for these open runs.

        The ledger does not know open runs, but the policy bounds their number and their time.
        """
        policy = self._view.policy
        latest_ms = self._view.clock() + policy.run_lifetime_s * 1000 + AHEAD_MS
        if facts.kind == "zset" and facts.expires_at_ms is not None:
            count, last_ms = await self._view.inspection.open_runs(facts.key)
            if count <= policy.limits.open_runs and max(last_ms, facts.expires_at_ms) <= latest_ms:
                return None
        return self._differs(facts, Kind.FORGED_OPEN_RUNS, "", facts.kind)

    def _is_lasting(self, facts: KeyFacts) -> bool:
        name = text_of(facts.key) or ""
        return not name.startswith(f"{self._stem}open:") and not self._is_passing(name, facts)

    def _is_passing(self, name: str, facts: KeyFacts) -> bool:
        """Return whether the key goes by itself: limits, run counts, builds, and keys past their expiry."""
        if facts.expires_at_ms is None:
            return False
        if facts.expires_at_ms <= self._view.clock():
            return True
        kinds = {
            "limit:": "string",
            "runs:": "hash",
            "refused:": "string",
            "building": "string",
            "built:": facts.kind,
            "circle:": facts.kind,
            "used": "string",
            "moves": "list",
        }
        return any(
            name.startswith(self._stem + start) and facts.kind == kind for start, kind in kinds.items()
        )

    def _group_named(
        self, name: str, expected: dict[str, tuple[str, int | None]]
    ) -> dict[str, tuple[str, int | None]]:
        """Return type and expiry of the key if it is a group's board, which lives as long as its window."""
        kind, _, rest = name.removeprefix(self._stem).partition(":")
        segment, _, rest = rest.partition(":")
        if kind != "segment" or segment not in self._view.policy.segments:
            return {}
        slots = keys.members(self._view.board, rest.partition(":")[2])
        return {name: ("zset", expected[slots][1])} if slots in expected else {}

    async def _expected(self) -> dict[str, tuple[str, int | None]]:
        """Return type and expiry of every key that the board is read from, whether or not it exists."""
        board = self._view.board
        fixed = {
            keys.pending(board): "zset",
            keys.settled(board): "zset",
            keys.names(board): "hash",
            keys.baselines(board): "hash",
            keys.changes(board): "stream",
            keys.sentinel(board): "string",
            keys.version(board): "string",
            keys.cold(board): "hash",
        }
        if self._view.index not in self._view.index.shards:
            fixed[keys.relayed(board)] = "hash"
        if self._view.policy.segments:
            fixed[keys.memberships(board)] = "hash"
        expected: dict[str, tuple[str, int | None]] = {key: (kind, None) for key, kind in fixed.items()}
        # Asked again here: a board that was warmed meanwhile has its windows, which must not be deleted.
        if self._is_cold and (await self._view.index.residency.state()).is_cold:
            return expected
        for window, expires_at_ms in (await self._view.windows()).items():
            expected |= dict.fromkeys(self._view.zsets(window), ("zset", expires_at_ms))
            expected[keys.members(board, window)] = ("hash", expires_at_ms)
            if self._view.policy.exact_ranks:
                expected[keys.sketch(board, window)] = ("hash", expires_at_ms)
            if self._view.policy.segments:
                expected[keys.segmented(board, window)] = ("hash", expires_at_ms)
            if self._view.index.ranking.keeps_groups:
                expected[keys.groups(board, window)] = ("zset", expires_at_ms)
        return expected

    def _differs(self, facts: KeyFacts, kind: Kind, ledger: str, index: str) -> Difference:
        player = (
            printable(facts.key).removeprefix(f"{self._stem}open:") if kind is Kind.FORGED_OPEN_RUNS else ""
        )
        return Difference(
            self._view.board,
            kind,
            player=player,
            key=printable(facts.key),
            ledger=ledger,
            index=index,
            subject=facts.key,
        )


def _life(expires_at_ms: int | None) -> str:
    return "for ever" if expires_at_ms is None else f"until {expires_at_ms}"
