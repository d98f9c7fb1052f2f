"""`scoregate board list`: the boards of a family, or those of policy files and those without a policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from policies.errors import SettingsError
from scoregate.commands.common import DataDir, deployment_of, existing_ledger, finish
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.ledger.boards.listing import BoardOrder
    from gateway.ledger.derived.counts import BoardCounts
    from gateway.ledger.ledger import Ledger
    from gateway.runtime.settings import Settings
    from policies.family import Family
    from policies.loader import Board, Policies
    from policies.opened_board import BoardState, OpenedBoard

E = TypeVar("E", bound=StrEnum)

DESCRIBED: Final = ("board", "title", "writes", "submissions", "promoted", "described_by")
COLUMNS: Final = ("board", "title", "state", "opens_at", "closes_at", "opened_at", "opened_by", "version")


def board_list(
    family: Annotated[
        str | None,
        typer.Argument(help="The family; without it, boards of policy files, and of no policy."),
    ] = None,
    order: Annotated[str, typer.Option(help="`name`, `newest`, or `played`: most played of late.")] = "name",
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Metadata that boards have, as country=it; repeat it."),
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", help="`open`, `closed` or `deleted`; repeat it. By default open and closed."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most boards to list.")] = 100,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List the boards of a family; or those of policy files, and those that the ledger alone knows."""
    settings = deployment_of(data_dir)
    if family is None:
        if filters or states or order != "name":
            raise SettingsError("--order, --filter and --state choose among the boards of a family: name one")
        described = finish(_described(settings, limit))
        show(described[:limit], DESCRIBED, as_json=as_json)
        _tell_of_more(len(described) > limit and not as_json, limit)
        return
    boards = finish(_listed(settings, family, order, filters or [], states or [], limit))
    show(map(_facts, boards[:limit]), COLUMNS, as_json=as_json)
    _tell_of_more(len(boards) > limit and not as_json, limit)


def _tell_of_more(has_more: bool, limit: int) -> None:
    if has_more:
        typer.echo(f"and more: --limit is {limit}")


async def _described(settings: Settings, limit: int) -> list[Mapping[str, object]]:
    """Return the boards of policy files, then those that have submissions and no policy.

    They are at least `limit` + 1, if there are so many. Raises SettingsError and LedgerUnavailable.
    """
    from gateway.ledger.derived.counts import counts_of
    from policies.loader import load_policies

    async with existing_ledger(settings) as ledger:
        policies = load_policies(settings.policies_dir)
        described = [
            _counted(name, await ledger.read(counts_of(name)), policies.boards[name])
            for name in sorted(policies.boards)
        ]
        async for name, counts in _without_policy(ledger, policies):
            described.append(_counted(name, counts))
            if len(described) > limit:
                break
    return described


async def _without_policy(ledger: Ledger, policies: Policies) -> AsyncIterator[tuple[str, BoardCounts]]:
    """Yield the boards that have submissions, and that neither a file nor a family describes."""
    from gateway.ledger.derived.counts import counts_after
    from policies.opened_board import family_named_by

    after = ""
    while page := await ledger.read(counts_after(after)):
        for after, counts in page.items():
            if (family_named_by(after) or after) not in policies.by_name:
                yield after, counts


def _counted(name: str, counts: BoardCounts, board: Board | None = None) -> Mapping[str, object]:
    """Return a board with its policy, if it has one, and what a steward has counted."""
    return {
        "board": name,
        "title": board.policy.title if board else None,
        "writes": board.policy.writes.value if board else None,
        "submissions": counts.attempts,
        "promoted": counts.promoted,
        "described_by": "a file" if board else "nothing",
        "digest": board.digest if board else None,
    }


async def _listed(
    settings: Settings, name: str, order: str, filters: Sequence[str], states: Sequence[str], limit: int
) -> list[OpenedBoard]:
    """Return up to one board more than `limit`. Raises SettingsError and LedgerUnavailable."""
    from gateway.ledger.boards.listing import READ_STATES, BoardOrder
    from policies.loader import load_policies
    from policies.opened_board import BoardState
    from scoregate.operator_boards import family_named

    wanted = _one_of("--order", BoardOrder, order)
    chosen = [_one_of("--state", BoardState, state) for state in states] or READ_STATES
    boards: list[OpenedBoard] = []
    async with existing_ledger(settings) as ledger:  # first: elsewhere there are other families
        family = family_named(load_policies(settings.policies_dir), name)
        async for board in _boards(
            ledger, family, wanted, [_filter(family, text) for text in filters], chosen
        ):
            boards.append(board)
            if len(boards) > limit:
                break
    return boards


async def _boards(
    ledger: Ledger,
    family: Family,
    order: BoardOrder,
    filters: Sequence[tuple[str, str]],
    states: Sequence[BoardState],
) -> AsyncIterator[OpenedBoard]:
    """Yield the boards of a family in an order, a page at a time."""
    from gateway.ledger.boards.listing import boards_of_family

    cursor = None
    while True:
        page = await ledger.read(
            boards_of_family(family.name, order=order, after=cursor, filters=filters, states=states)
        )
        for board in page.boards:
            yield board
        cursor = page.next
        if cursor is None:
            return


def _filter(family: Family, text: str) -> tuple[str, str]:
    """Return the field and the value of a filter. Raises SettingsError."""
    field, equals, value = text.partition("=")
    kind = family.policy.metadata_filters.get(field)
    if not equals or kind is None:
        fields = ", ".join(family.policy.metadata_filters) or "none"
        raise SettingsError(
            f"--filter: expected <field>=<value>, with a field of `metadata_filters`: {fields}"
        )
    if fault := kind.fault_of(value):
        raise SettingsError(f"--filter: {field}: {fault}")
    return field, value


def _one_of(option: str, kind: type[E], text: str) -> E:
    if text not in set(kind):
        raise SettingsError(f"{option}: expected {', '.join(kind)}; got {text!r}")
    return kind(text)


def _facts(board: OpenedBoard) -> Mapping[str, object]:
    """Return a board for tables and programs."""
    from gateway.runtime.clock import rfc3339

    def time(at_ms: int | None) -> str | None:
        return None if at_ms is None else rfc3339(at_ms)

    return {
        "board": board.board,
        "title": board.title,
        "state": board.state.value,
        "opens_at": time(board.opens_at_ms),
        "closes_at": time(board.closes_at_ms),
        "opened_at": rfc3339(board.opened_at_ms),
        "opened_by": board.opened_by,
        "version": board.version,
        "metadata": dict(board.metadata),
        "parameters": board.parameters.decode() or None,
        "asset": f"sha256:{board.asset.hex()}" if board.asset is not None else None,
        "bounds": board.bounds.as_json() if board.bounds else None,
    }
