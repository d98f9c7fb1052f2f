"""`scoregate ledger as-of`: print a board as it stood, folded from the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from policies.errors import SettingsError
from scoregate.commands.common import DataDir, board_named, deployment_of, existing_ledger, finish
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings
    from policies.model import Policy
    from policies.windows import Window


class PastBoard(NamedTuple):
    """A board as it stood: a sentence about it, and its first entries."""

    summary: str
    rows: list[dict[str, object]]


def ledger_as_of(
    board: str,
    instant: str,
    window: Annotated[str, typer.Option(help="A kind of window, or one by name.")] = "alltime",
    limit: Annotated[int, typer.Option(min=1, help="The most entries to print.")] = 25,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print a board as it stood at an instant, folded from the log alone."""
    past = finish(_as_of(deployment_of(data_dir), board, _past_ms(instant), window, limit))
    if not as_json:
        typer.echo(past.summary)
    show(past.rows, ("rank", "score", "player", "achieved_at", "submission"), as_json=as_json)


async def _as_of(settings: Settings, board_name: str, instant_ms: int, window: str, limit: int) -> PastBoard:
    """Fold a board as it stood at an instant. Raises SettingsError for an unknown board or window."""
    from gateway.ledger.standings.history import board_as_of, ranks_of
    from gateway.ledger.standings.rollup_history import rollup_as_of
    from gateway.runtime.clock import rfc3339
    from gateway.wiring import catalogue_of

    async with existing_ledger(settings) as ledger:
        catalogue = catalogue_of(settings, ledger)
        board = await board_named(catalogue, board_name)
        span = _span(board.policy, window, instant_ms)
        if rollup := board.policy.rollup:
            family = catalogue.families[rollup.family]
            standings = await rollup_as_of(ledger, board.ranking, family, span, instant_ms)
        else:
            standings = await board_as_of(ledger, board.policy, span, instant_ms)
    first = standings[:limit]
    ranks = ranks_of(first, board.ranking, span, board.policy.ranks[0])
    rows: list[dict[str, object]] = [
        {
            "rank": rank,
            "score": standing.score,
            "player": standing.player,
            "achieved_at": rfc3339(standing.achieved_at_ms),
            "submission": standing.submission_id,
        }
        for rank, standing in zip(ranks, first, strict=True)
    ]
    at = rfc3339(instant_ms)
    return PastBoard(f"{board_name}, {span.name}, at {at}: {len(standings)} entries", rows)


def _span(policy: Policy, window: str, instant_ms: int) -> Window:
    """Return the window of this name, or of this kind at the instant. Raises SettingsError."""
    from policies.windows import window_at, window_named

    kinds = {kind.value: kind for kind in policy.windows}
    try:
        return (
            window_at(policy, kinds[window], instant_ms) if window in kinds else window_named(policy, window)
        )
    except ValueError:
        raise SettingsError(f"the board keeps the windows {', '.join(kinds)}") from None


def _past_ms(text: str) -> int:
    """Return the Unix milliseconds of an RFC 3339 text. Raises SettingsError, also for the future."""
    from gateway.runtime.clock import parse_rfc3339, wall_clock

    at_ms = parse_rfc3339(text)
    if at_ms is None or at_ms > wall_clock():
        raise SettingsError(f"{text}: expected an instant in the past, as 2026-11-20T12:00:00Z")
    return at_ms
