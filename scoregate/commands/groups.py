"""Groups of commands, each loaded when one of its commands is called: `--version` and `--help` load none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class CommandGroup(NamedTuple):
    """A module of this package, and the purpose of its commands."""

    module: str
    purpose: str


GROUPS: Final[Mapping[str, CommandGroup]] = MappingProxyType(
    {
        "moderator": CommandGroup("moderators", "Say who moderates, and let them in."),
        "token": CommandGroup("tokens", "Issue tokens for programs."),
        "player": CommandGroup("players", "Act for one player."),
        "key": CommandGroup("keys", "Register trusted servers, list them, revoke their keys."),
        "policy": CommandGroup("policies", "Look at policy files."),
        "board": CommandGroup(
            "boards", "Open, change and end boards of families; rebuild and check any board."
        ),
        "family": CommandGroup("families", "Look at families of boards."),
        "build": CommandGroup("builds", "Say which builds of the game may play."),
        "ledger": CommandGroup("ledgers", "Look into the ledger."),
        "batch": CommandGroup("batches", "Apply and reverse decisions on many submissions."),
        "replay": CommandGroup("replays", "Judge promoted runs again, after an engine change."),
        "sim": CommandGroup("sim", "Try a simulator before a board relies on it."),
        "webhook": CommandGroup("webhooks", "Notify other services of what happens."),
        "derived": CommandGroup("derived", "Compute anew what is derived from the ledger."),
    }
)

SENTENCE_CHARACTERS: Final = 300
"""Longest first sentence of a command in a list."""


class LightCommand(TyperCommand):
    """A command that finishes without loading what reads its options."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _light(super().get_help_option(ctx))


class LightGroup(TyperGroup):
    """A group that lists its commands without loading what reads their options."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Write each command with its whole first sentence, which typer would cut to a line."""
        rows = [
            (name, command.get_short_help_str(SENTENCE_CHARACTERS)) for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _light(super().get_help_option(ctx))


class LoadingGroup(LightGroup):
    """All commands. Until a group is called, its name and purpose stand for it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, group in GROUPS.items():
            self.commands[name] = TyperCommand(name, help=group.purpose)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of `scoregate` itself, which are flags."""
        for flag in self.params:
            _light(flag)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words call."""
        if args and args[0] in GROUPS:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Load a group with its commands, once."""
        if not isinstance(self.commands[name], TyperGroup):
            self.commands[name] = _loaded(name)


def _light(flag: Any) -> Any:
    """Return the flag with False for a default of None.

    To find that None is no boolean, typer loads pydantic, which takes longer than everything else.
    """
    if flag is not None and flag.default is None:
        flag.default = False
    return flag


def _loaded(name: str) -> TyperGroup:
    group = GROUPS[name]
    app: typer.Typer = import_module(f"scoregate.commands.{group.module}").app
    app.info.cls, app.rich_markup_mode = LightGroup, None
    command = get_group(app)
    command.name, command.help = name, group.purpose
    return command
