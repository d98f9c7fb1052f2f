"""The groups of commands, each loaded when one of its commands is called: to say the version takes none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Group(NamedTuple):
    """The file of this package that has a group, and what its commands are for."""

    module: str
    purpose: str


GROUPS: Final[Mapping[str, Group]] = MappingProxyType(
    {
        "token": Group("tokens", "Mint bearer tokens."),
        "key": Group("keys", "Register trusted servers, list them, take their keys back."),
        "policy": Group("policies", "Look at policy files."),
        "board": Group("boards", "Rebuild and check what readers see of the boards."),
        "build": Group("builds", "Say which builds of the game may play."),
        "ledger": Group("ledgers", "Look into the ledger."),
        "replay": Group("replays", "Judge what was promoted again, after an engine change."),
        "sim": Group("sim", "Try a simulator before a board relies on it."),
        "webhook": Group("webhooks", "Have other services told what happens."),
        "derived": Group("derived", "Make what is derived from the ledger anew."),
    }
)


SENTENCE_CHARACTERS: Final = 300


class LightCommand(TyperCommand):
    """A command that is done before it would take long to load what reads its options."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option that asks for help."""
        return _light(super().get_help_option(ctx))


class LightGroup(TyperGroup):
    """A group that tells of its commands without loading what reads their options."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Writes each command with its first sentence, whole: typer would cut it to a line."""
        rows = [(name, each.get_short_help_str(SENTENCE_CHARACTERS)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_help_option(self, ctx: Any) -> Any:
        """The option that asks for help."""
        return _light(super().get_help_option(ctx))


class LoadingGroup(LightGroup):
    """All commands. A group stands in lists by its name and purpose, until it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, group in GROUPS.items():
            self.commands[name] = TyperCommand(name, help=group.purpose)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options of the whole, which are flags."""
        for each in self.params:
            _light(each)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words call."""
        if args and args[0] in GROUPS:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Has a group there with its commands."""
        if not isinstance(self.commands[name], TyperGroup):
            self.commands[name] = loaded(name)


def _light(flag: Any) -> Any:
    """The flag, or None. Typer loads pydantic, which takes longer than all the rest, to find that None is no boolean."""
    if flag is not None and flag.default is None:
        flag.default = False
    return flag


def loaded(name: str) -> TyperGroup:
    """A group with its commands."""
    group = GROUPS[name]
    app: typer.Typer = import_module(f"scoregate.commands.{group.module}").app
    app.info.cls, app.rich_markup_mode = LightGroup, None
    found = get_group(app)
    found.name, found.help = name, group.purpose
    return found
