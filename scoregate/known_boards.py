"""Refusing the names of boards that there are not, where one is given for a scope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from policies.loader import load_boards

EVERY: Final = "*"


def refuse_unknown(settings: Settings, named: Iterable[str]) -> None:
    """Raises SettingsError, with the boards that there are, if one of these is none of them."""
    asked = [name for name in named if name != EVERY]
    known = load_boards(settings.policies_dir) if asked else {}
    if unknown := [name for name in asked if name not in known]:
        raise SettingsError(
            f"--board: there is no board {', '.join(map(repr, unknown))} in {settings.policies_dir}; "
            f"there is {', '.join(sorted(known))}"
        )
