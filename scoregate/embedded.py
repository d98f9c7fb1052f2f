"""Finds the Redis of a deployment by what its parts noted, and `scoregate up` of its Valkey."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gateway.deployment.redis_addresses import different_ones, is_same_redis
from gateway.deployment.run_files import HIDDEN, RunningPart, running_parts, without_credentials
from gateway.runtime.settings import Settings
from policies.errors import SettingsError

_ADDRESS: Final = "address"


def valkey_folder(data_dir: Path) -> Path:
    """Return the folder of the embedded Valkey."""
    return data_dir / "valkey"


def note_address(data_dir: Path, url: str) -> None:
    """Write down the address of the embedded Valkey."""
    (valkey_folder(data_dir) / _ADDRESS).write_text(url + "\n", encoding="utf-8")


def with_noted_redis(settings: Settings, *, is_needed: bool = False) -> Settings:
    """Return the settings, with the Redis of the deployment in the data directory if none is configured.

    It is that of the parts that run here; if none runs, the Valkey of the last `scoregate up`. Parts that
    differ, and an address that has credentials, say nothing here. Raises SettingsError for them if a Redis
    `is_needed`: another one, such as the default, is not that of the deployment.
    """
    if "redis_url" in settings.model_fields_set:
        return settings
    used = redis_of(running_parts(settings.data_dir))
    address = valkey_folder(settings.data_dir) / _ADDRESS
    if not used and address.is_file():
        used = [address.read_text(encoding="utf-8").strip()]
    if len(used) == 1 and HIDDEN not in used[0]:
        return settings.model_copy(update={"redis_url": used[0]})
    if used and is_needed:
        unnoted = ", and do not note what *** stands for" if len(used) == 1 else ""
        raise SettingsError(
            "SCOREGATE_REDIS_URL: set it to the Redis of this deployment: the parts over "
            f"{settings.data_dir} use {' and '.join(used)}{unnoted}"
        )
    return settings


def redis_of(parts: Iterable[RunningPart]) -> list[str]:
    """Return the address of each Redis that the parts have noted, without credentials."""
    return different_ones(part.redis for part in parts if part.redis)


def other_redis(settings: Settings, parts: Iterable[RunningPart]) -> str | None:
    """Say which Redis the parts use, if that of the settings is another."""
    asked = without_credentials(settings.redis_url)
    others = [url for url in redis_of(parts) if not is_same_redis(url, asked)]
    return f"the parts here use {' and '.join(others)}, and {asked} is asked" if others else None
