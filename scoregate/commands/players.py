"""`scoregate player`: what an operator does for one player."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scoregate.commands.common import (
    DataDir,
    deployment_clock,
    existing_ledger,
    finish,
    settings_beside,
    settings_of,
)

if TYPE_CHECKING:
    from gateway.catalogue.catalogue import Catalogue
    from gateway.index.board_indexes import Index
    from gateway.ledger.ledger import Ledger
    from gateway.ledger.players.merges import Merge
    from gateway.ledger.privacy.erasures import Erasure
    from gateway.runtime.settings import Settings

SLICES: Final = 1_000
"""Slices of a merge that a command does by itself. A steward goes on with the others."""

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _players() -> None:
    """Act for one player as an operator."""


@app.command("end-tokens")
def player_end_tokens(player: str, data_dir: DataDir = None) -> None:
    """End all tokens of a player, who needs a way to sign in again."""
    finish(end_tokens_of(settings_of(data_dir), player))
    typer.echo(f"ended the tokens of {player}; every running edge knows it within two seconds")


async def end_tokens_of(settings: Settings, player: str) -> None:
    """End all tokens of a player. Raises SettingsError without a ledger, and for an impossible id."""
    from gateway.ledger.acts import Act
    from gateway.ledger.players.token_endings import end_tokens
    from scoregate.operator_boards import actor_here

    _refuse_impossible(player)
    async with existing_ledger(settings) as ledger:
        await _refuse_unknown(ledger, player)
        clock = await deployment_clock(settings, ledger)
        await ledger.write(end_tokens(player, Act(actor_here(), clock())))


@app.command("unlink")
def player_unlink(player: str, identity: str, data_dir: DataDir = None) -> None:
    """Take an identity from a player, such as a thief's, and end all their tokens."""
    left = finish(unlink_of(settings_of(data_dir), player, identity))
    typer.echo(f"unlinked {identity} from {player} and ended the player's tokens; identities left: {left}")


async def unlink_of(settings: Settings, player: str, identity: str) -> int:
    """Take an identity from a player, end their tokens, and return how many identities are left.

    Raises SettingsError, which names those that there are.
    """
    from gateway.ledger.acts import Act
    from gateway.ledger.players.identities import Identity, identities_of, take_away
    from policies.errors import SettingsError
    from scoregate.operator_boards import actor_here

    _refuse_impossible(player)
    async with existing_ledger(settings) as ledger:
        await _refuse_unknown(ledger, player)
        own = await ledger.read(identities_of(player))
        named = [Identity(*each[:2]) for each in own if each.shown_id == identity]
        act = Act(actor_here(), (await deployment_clock(settings, ledger))())
        if not named or await ledger.write(take_away(named[0], player, act)) is None:
            known = ", ".join(f"{each.shown_id} ({each.provider})" for each in own) or "none"
            raise SettingsError(f"{player} has no identity {identity}; there are: {known}")
        return len(own) - 1


@app.command("merge")
def player_merge(source: str, target: str, data_dir: DataDir = None) -> None:
    """Merge a player into another, for whom everything counts from then on."""
    merge = finish(_merged(settings_beside(data_dir, is_writing=True), source, target))
    typer.echo(f"merged {source} into {target}: {merge.changed_count} submissions moved")
    typer.echo(f"to take it back: scoregate player unmerge {merge.merge_id}")


@app.command("unmerge")
def player_unmerge(merge: str, data_dir: DataDir = None) -> None:
    """Take a merge back: what was played counts for who played it."""
    undone = finish(_parted(settings_beside(data_dir, is_writing=True), merge))
    typer.echo(f"{undone.source} and {undone.target} are two: {undone.changed_count} submissions moved back")


@app.command("export")
def player_export(player: str, data_dir: DataDir = None) -> None:
    """Write everything that the ledger has about a player, as lines of JSON."""
    finish(_exported(settings_of(data_dir), player))


@app.command("erase")
def player_erase(
    player: str,
    is_confirmed: Annotated[bool, typer.Option("--yes", help="Do not ask; it cannot be taken back.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Erase the data of a player at once, which cannot be taken back. Runs and standings stay."""
    if not is_confirmed:
        typer.confirm(f"Erase the data of {player}, for ever?", abort=True)
    erased = finish(_erased(settings_beside(data_dir, is_writing=True), player))
    for each in erased:
        typer.echo(
            f"erased {each.player}: texts of {each.rows_erased} events, and all that told who they are"
        )


async def _merged(settings: Settings, source: str, target: str) -> Merge:
    import secrets

    from gateway.ledger.players.merges import Merge
    from gateway.settlement.merges import MergeFollower, begin
    from scoregate.operator_boards import actor_here

    _refuse_impossible(source)
    _refuse_impossible(target)
    async with _open_parts(settings) as (ledger, index, catalogue):
        clock = await deployment_clock(settings, ledger)
        wanted = Merge("m" + secrets.token_hex(10), source, target, actor_here(), clock())
        begun = await ledger.write(begin(wanted))
        follower = MergeFollower(ledger, index, catalogue)
        return await follower.follow(begun.merge.merge_id, now_ms=clock(), slices=SLICES)


async def _parted(settings: Settings, merge_id: str) -> Merge:
    from gateway.settlement.merges import MergeFollower, undo
    from policies.errors import SettingsError
    from scoregate.operator_boards import actor_here

    async with _open_parts(settings) as (ledger, index, catalogue):
        clock = await deployment_clock(settings, ledger)
        if await ledger.write(undo(merge_id, by=actor_here(), now_ms=clock())) is None:
            raise SettingsError(f"there is no merge {merge_id}; `player export` shows those of a player")
        follower = MergeFollower(ledger, index, catalogue)
        return await follower.follow(merge_id, now_ms=clock(), slices=SLICES)


async def _exported(settings: Settings, player: str) -> None:
    from gateway.ledger.privacy.export import export_player
    from gateway.wiring import catalogue_of

    _refuse_impossible(player)
    async with existing_ledger(settings) as ledger:
        await _refuse_unknown(ledger, player)
        boards = tuple(catalogue_of(settings, ledger).of_files)
        async for line in export_player(ledger, player, boards=boards):
            typer.echo(line, nl=False)


async def _erased(settings: Settings, player: str) -> list[Erasure]:
    """Erase a player's data, and that of players who were merged into them."""
    from gateway.ledger.acts import Act
    from gateway.settlement.erasing import Eraser, ask
    from scoregate.operator_boards import actor_here

    _refuse_impossible(player)
    async with _open_parts(settings) as (ledger, index, catalogue):
        await _refuse_unknown(ledger, player)
        now_ms = (await deployment_clock(settings, ledger))()
        await ledger.write(ask(player, Act(actor_here(), now_ms), grace_ms=0))
        return await Eraser(ledger, index, catalogue).finish_all(player, now_ms=now_ms)


@asynccontextmanager
async def _open_parts(settings: Settings) -> AsyncIterator[tuple[Ledger, Index, Catalogue]]:
    from gateway.wiring import catalogue_of, open_index

    async with existing_ledger(settings) as ledger, open_index(settings) as index:
        yield ledger, index, catalogue_of(settings, ledger)


async def _refuse_unknown(ledger: Ledger, player: str) -> None:
    """Raise SettingsError for a player of whom the ledger has nothing."""
    from gateway.ledger.privacy.export import is_known
    from policies.errors import SettingsError

    if not await is_known(ledger, player):
        raise SettingsError(f"{player}: the ledger knows no such player")


def _refuse_impossible(player: str) -> None:
    """Raise SettingsError for an id that no player can have."""
    from pydantic import TypeAdapter, ValidationError

    from gateway.edge.wire.fields import PlayerId
    from policies.errors import SettingsError

    try:
        TypeAdapter(PlayerId).validate_python(player)
    except ValidationError:
        raise SettingsError(f"{player!r}: no player can have this id") from None
