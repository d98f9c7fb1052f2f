"""Names and baselines: hashes of the index with one field for each player."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from gateway.index import keys
from gateway.ledger import index_pages, queries
from gateway.shared_records import StoredBaseline
from gateway.steward.index.comparison.difference import (
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    sequence_of,
    text_of,
)


class TextsOfPlayers:
    """A hash of the index with one text for each player, and the texts that the ledger expects there."""

    def __init__(
        self,
        view: BoardView,
        key: str,
        expected_of: Callable[[Sequence[bytes]], Awaitable[dict[bytes, str]]],
        kind_of: Callable[[bytes | None], Kind],
    ) -> None:
        self._view, self._key = view, key
        self._expected_of, self._kind_of = expected_of, kind_of

    def from_index(self, count: int) -> Subjects:
        """Yield the players of the hash."""
        return self._view.inspection.fields(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the texts that are missing, wrong, or nobody's."""
        actual = dict(zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True))
        expected = await self._expected_of(list(actual))
        return [
            Difference(
                self._view.board,
                self._kind_of(value),
                player=printable(subject),
                ledger=expected.get(subject, ""),
                index=printable(value),
                subject=subject,
            )
            for subject, value in actual.items()
            if (value or b"") != expected.get(subject, "").encode()
        ]

    async def repair(self, subjects: Sequence[bytes]) -> None:
        """Set the expected texts and remove the others."""
        actual = zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True)
        expected = await self._expected_of(subjects)
        stray = {player: value for player, value in actual if value is not None and player not in expected}
        await self._view.inspection.drop(self._key, stray)
        await self._view.inspection.put(
            self._key, {player.decode(): text for player, text in expected.items()}
        )


def _kind_of_name(actual: bytes | None) -> Kind:
    return Kind.MISSING_NAME if actual is None else Kind.WRONG_NAME


class Names:
    """The display names of all players on the board."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._texts = TextsOfPlayers(view, keys.names(view.board), self._names, _kind_of_name)

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the ledger's standings, and through the index's names."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        async with aclosing(self._view.standing_players(count)) as pages:
            async for _, players in pages:
                yield [player.encode() for player in players]

    def _from_index(self, count: int) -> Subjects:
        return self._texts.from_index(count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the names that are missing, wrong, or nobody's."""
        return await self._texts.compare(subjects)

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Set the players' names and remove the others."""
        await self._texts.repair([difference.subject for difference in differences])

    async def _names(self, subjects: Sequence[bytes]) -> dict[bytes, str]:
        players = [player for player in map(text_of, subjects) if player and self._view.index.holds(player)]
        names = await self._view.ledger.read(index_pages.names_of(players))
        return {player.encode(): name for player, name in names.items()}


class Baselines:
    """The baselines of each player and of the population."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._key = keys.baselines(view.board)

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the ledger's baselines, and through the index's."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        after = None
        while page := await self._view.ledger.read(
            queries.baselines_page(self._view.board, after=after, count=count)
        ):
            yield [keys.baseline_field(baseline).encode() for baseline in page]
            after = page[-1].player

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.fields(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the baselines that are missing, stale or forged."""
        actual = dict(zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True))
        expected = await self._expected(list(actual))
        compared = [self._difference(field, value, expected.get(field)) for field, value in actual.items()]
        return [difference for difference in compared if difference]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Remove forged baselines, then show the ledger's."""
        subjects = [difference.subject for difference in differences]
        actual = zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True)
        expected = await self._expected(subjects)
        forged = {
            field: value for field, value in actual if value and not _is_older(value, expected.get(field))
        }
        await self._view.inspection.drop(self._key, forged)
        if expected:
            await self._view.index.restore("", [], list(expected.values()))

    def _difference(
        self, subject: bytes, actual: bytes | None, expected: StoredBaseline | None
    ) -> Difference | None:
        ledger = keys.baseline_value(expected) if expected else ""
        if (actual or b"") == ledger.encode():
            return None
        kind = Kind.MISSING_BASELINE
        if actual is not None:
            kind = Kind.STALE_BASELINE if _is_older(actual, expected) else Kind.FORGED_BASELINE
        return Difference(
            self._view.board,
            kind,
            player=printable(subject),
            ledger=ledger,
            index=printable(actual),
            subject=subject,
        )

    async def _expected(self, subjects: Sequence[bytes]) -> dict[bytes, StoredBaseline]:
        texts = [text for text in map(text_of, subjects) if text]
        players = ["" if text == keys.POPULATION_FIELD else text for text in texts]
        baselines = await self._view.ledger.read(index_pages.baselines_for(self._view.board, players))
        return {keys.baseline_field(baseline).encode(): baseline for baseline in baselines}


def _is_older(actual: bytes, expected: StoredBaseline | None) -> bool:
    seq = sequence_of(actual)
    return seq is not None and expected is not None and seq < expected.seq
