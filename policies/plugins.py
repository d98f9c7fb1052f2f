"""A studio's own validators: named in a policy, found as entry points of whatever is installed beside us."""

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
"""The entry point group that a studio's package offers its validators in."""


class Plugin(PolicySection):
    """A validator of the studio's own, what becomes of what it finds, and what becomes of a run that it failed on."""

    mode: ModeSetting = Mode.SHADOW
    on_failure: ModeSetting = Mode.SHADOW
    settings: Annotated[dict[str, JsonValue], Field(max_length=64)] = {}  # noqa: RUF012 - pydantic gives each a copy

    @field_validator("on_failure")
    @classmethod
    def _convicts_nobody(cls, mode: Mode) -> Mode:
        if mode not in {Mode.SHADOW, Mode.FLAG}:
            raise ValueError(
                "expected `shadow` or `flag`: a failure of ours convicts nobody, and is always recorded"
            )
        return mode


class LoadedPlugin(NamedTuple):
    """What the entry point names, and the distribution that it came with, as `acme-rules 1.2`.

    `check` is called with submission, policy, history and settings.
    """

    check: Callable[[Any, Any, Any, Mapping[str, JsonValue]], Iterable[Finding]]
    version: str


@cache
def load_plugin(name: str) -> LoadedPlugin:
    """The validator of this name. Raises ValueError saying why there is none; what was loaded once stays."""
    offered = entry_points(group=GROUP)
    found = [each for each in offered if each.name == name]
    if len(found) != 1:
        known = ", ".join(sorted(offered.names)) or "none"
        raise ValueError(
            f"expected one installed package with the validator '{name}' in `{GROUP}`, found {len(found)} "
            f"(validators that are there: {known})"
        )
    try:
        check = found[0].load()
    except Exception as error:  # the studio's code: whatever it raises, the policy cannot be used
        raise ValueError(f"{found[0].value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(check):
        raise ValueError(f"{found[0].value} is a {type(check).__name__}, not a function")  # noqa: TRY004 - see above
    source = found[0].dist
    return LoadedPlugin(check, f"{source.name} {source.version}" if source else "unknown")


def refuse_settings(plugin: Plugin, loaded: LoadedPlugin) -> None:
    """Raises ValueError if the validator, by its `check_settings`, does not want these settings."""
    check = getattr(loaded.check, "check_settings", None)
    if check is None:
        return
    try:
        check(plugin.settings)
    except Exception as error:  # the studio's code, as above
        raise ValueError(f"settings: {error}") from error
