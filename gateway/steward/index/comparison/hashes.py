"""Names and baselines: hashes of the index with an entry for each player."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from gateway.index import keys
from gateway.ledger import index_pages, queries
from gateway.records import StoredBaseline
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
    """A hash of the index with one text for each player, beside the texts that are due by the ledger."""

    def __init__(
        self,
        view: BoardView,
        key: str,
        due_of: Callable[[Sequence[bytes]], Awaitable[dict[bytes, str]]],
        kind_of: Callable[[bytes | None], Kind],
    ) -> None:
        self._view, self._key = view, key
        self._due_of, self._kind_of = due_of, kind_of

    def from_index(self, count: int) -> Subjects:
        """Walk through the players of the hash."""
        return self._view.inspection.fields(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the texts that are missing, others than are due, or of nobody."""
        held = dict(zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True))
        due = await self._due_of(list(held))
        return [
            Difference(
                self._view.board,
                self._kind_of(value),
                player=printable(subject),
                ledger=due.get(subject, ""),
                index=printable(value),
                subject=subject,
            )
            for subject, value in held.items()
            if (value or b"") != due.get(subject, "").encode()
        ]

    async def repair(self, subjects: Sequence[bytes]) -> None:
        """Set the texts that are due, and take away the others."""
        held = zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True)
        due = await self._due_of(subjects)
        gone = {player: value for player, value in held if value is not None and player not in due}
        await self._view.inspection.drop(self._key, gone)
        await self._view.inspection.put(self._key, {player.decode(): text for player, text in due.items()})


def _kind_of_name(held: bytes | None) -> Kind:
    return Kind.MISSING_NAME if held is None else Kind.WRONG_NAME


class Names:
    """The display name of everybody who stands on the board."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._texts = TextsOfPlayers(view, keys.names(view.board), self._names, _kind_of_name)

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's standings, and through the names of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        for window in await self._view.live_windows():
            after = ""
            while page := await self._view.standings_after(window, after, count):
                yield [each.player.encode() for each in page if self._view.index.holds(each.player)]
                after = page[-1].player

    def _from_index(self, count: int) -> Subjects:
        return self._texts.from_index(count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Names that are missing, of another text, or of nobody."""
        return await self._texts.compare(subjects)

    async def repair(self, found: Sequence[Difference]) -> None:
        """Sets the names that players have, and takes away the others."""
        await self._texts.repair([each.subject for each in found])

    async def _names(self, subjects: Sequence[bytes]) -> dict[bytes, str]:
        players = [player for player in map(text_of, subjects) if player and self._view.index.holds(player)]
        found = await self._view.ledger.read(index_pages.names_of(players))
        return {player.encode(): name for player, name in found.items()}


class Baselines:
    """What is learnt of each player, and of all."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._key = keys.baselines(view.board)

    def walks(self) -> Sequence[Walk]:
        """Through the ledger's baselines, and through those of the index."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        after = None
        while page := await self._view.ledger.read(
            queries.baselines_page(self._view.board, after=after, count=count)
        ):
            yield [keys.baseline_field(each).encode() for each in page]
            after = page[-1].player

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.fields(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Baselines that are missing, stale or forged."""
        held = dict(zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True))
        due = await self._due(list(held))
        found = [self._difference(each, value, due.get(each)) for each, value in held.items()]
        return [each for each in found if each]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Empties what was forged, then shows what the ledger has."""
        subjects = [each.subject for each in found]
        held = zip(subjects, await self._view.inspection.values(self._key, subjects), strict=True)
        due = await self._due(subjects)
        forged = {field: value for field, value in held if value and not _is_older(value, due.get(field))}
        await self._view.inspection.drop(self._key, forged)
        if due:
            await self._view.index.restore("", [], list(due.values()))

    def _difference(
        self, subject: bytes, held: bytes | None, due: StoredBaseline | None
    ) -> Difference | None:
        ledger = keys.baseline_value(due) if due else ""
        if (held or b"") == ledger.encode():
            return None
        kind = Kind.MISSING_BASELINE
        if held is not None:
            kind = Kind.STALE_BASELINE if _is_older(held, due) else Kind.FORGED_BASELINE
        return Difference(
            self._view.board,
            kind,
            player=printable(subject),
            ledger=ledger,
            index=printable(held),
            subject=subject,
        )

    async def _due(self, subjects: Sequence[bytes]) -> dict[bytes, StoredBaseline]:
        texts = [text for text in map(text_of, subjects) if text]
        players = ["" if text == keys.POPULATION_FIELD else text for text in texts]
        found = await self._view.ledger.read(index_pages.baselines_for(self._view.board, players))
        return {keys.baseline_field(each).encode(): each for each in found}


def _is_older(held: bytes, due: StoredBaseline | None) -> bool:
    seq = sequence_of(held)
    return seq is not None and due is not None and seq < due.seq
