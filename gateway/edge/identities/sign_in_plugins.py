"""A studio's own way to show who a player is, loaded from the entry points of installed packages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from gateway.edge.identities.provider import ShownSubject
from policies.errors import IdentityRefused, SettingsError

GROUP: Final = "scoregate.sign_in"
"""The entry point group under which a studio's package offers its providers."""

Show = Callable[[str], Awaitable[str]]
"""Returns the id of whom a credential shows, which nobody else gets. Raises ValueError for a wrong one."""


class PluggedProvider:
    """A provider of a studio's package."""

    def __init__(self, show: Show) -> None:
        self._show = show

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:  # noqa: ARG002 - as all providers
        """Return whom a credential shows. Raises IdentityRefused, and whatever else the package raises."""
        try:
            return ShownSubject(await self._show(credential))
        except ValueError:
            raise IdentityRefused("credential") from None


def plugged_provider(name: str, settings: Mapping[str, Any]) -> PluggedProvider:
    """Return the provider that a package offers by this name, with its settings. Raises SettingsError."""
    matches = [point for point in entry_points(group=GROUP) if point.name == name]
    if len(matches) != 1:
        raise SettingsError(
            f"expected one installed package with '{name}' in `{GROUP}`, found {len(matches)}"
        )
    try:
        return PluggedProvider(matches[0].load()(settings))
    except Exception as error:  # the studio's code may raise anything, and then it cannot be used
        raise SettingsError(f"{matches[0].value}: {type(error).__name__}: {error}") from error
