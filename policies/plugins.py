"""A studio's own validators: named in a policy, loaded from the entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, JsonValue, field_validator

from policies.fields import PolicySection
from policies.judging import ModeSetting
from policies.vocabulary import Finding, Mode

GROUP: Final = "scoregate.validators"
"""The entry point group under which a studio's package offers its validators."""


class Plugin(PolicySection):
    """A studio's own validator: its mode, the mode for its failures, and its settings."""

    mode: ModeSetting = Mode.SHADOW
    on_failure: ModeSetting = Mode.SHADOW
    settings: Annotated[dict[str, JsonValue], Field(max_length=64)] = {}  # noqa: RUF012 - copied

    @field_validator("on_failure")
    @classmethod
    def _convicts_nobody(cls, mode: Mode) -> Mode:
        if mode not in {Mode.SHADOW, Mode.FLAG}:
            raise ValueError(
                "expected `shadow` or `flag`: a validator's failure is always recorded and rejects nobody"
            )
        return mode


class LoadedPlugin(NamedTuple):
    """The function behind an entry point, and the distribution it came with, such as `acme-rules 1.2`.

    `check` takes submission, policy, history and settings.
    """

    check: Callable[[Any, Any, Any, Mapping[str, JsonValue]], Iterable[Finding]]
    version: str


@cache
def load_plugin(name: str) -> LoadedPlugin:
    """Return the validator of this name. It stays loaded. Raises ValueError if there is not exactly one."""
    offered = entry_points(group=GROUP)
    matches = [point for point in offered if point.name == name]
    if len(matches) != 1:
        known = ", ".join(sorted(offered.names)) or "none"
        raise ValueError(
            f"expected one installed package with the validator '{name}' in `{GROUP}`, found {len(matches)} "
            f"(installed validators: {known})"
        )
    [point] = matches
    try:
        check = point.load()
    except Exception as error:  # the studio's code may raise anything, and then the policy cannot be used
        raise ValueError(f"{point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(check):
        raise ValueError(f"{point.value} is a {type(check).__name__}, not a function")  # noqa: TRY004
    source = point.dist
    return LoadedPlugin(check, f"{source.name} {source.version}" if source else "unknown")


def refuse_settings(plugin: Plugin, loaded: LoadedPlugin) -> None:
    """Raise ValueError if the validator's own `check_settings` refuses these settings."""
    check = getattr(loaded.check, "check_settings", None)
    if check is None:
        return
    try:
        check(plugin.settings)
    except Exception as error:  # the studio's code, as above
        raise ValueError(f"settings: {error}") from error
