"""Finds the Redis of a deployment by what its parts noted, and `scoregate up` of its Valkey."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.deployment.run_files import HIDDEN, running_parts
from gateway.runtime.settings import Settings

_ADDRESS: Final = "address"


def valkey_folder(data_dir: Path) -> Path:
    """Return the folder of the embedded Valkey."""
    return data_dir / "valkey"


def note_address(data_dir: Path, url: str) -> None:
    """Write down the address of the embedded Valkey."""
    (valkey_folder(data_dir) / _ADDRESS).write_text(url + "\n", encoding="utf-8")


def with_noted_redis(settings: Settings) -> Settings:
    """Return the settings, with the Redis of the deployment in the data directory if none is configured.

    It is that of the parts that run here; if none runs, the Valkey of the last `scoregate up`. Parts that
    differ, and an address that has credentials, say nothing here.
    """
    if "redis_url" in settings.model_fields_set:
        return settings
    used = {part.redis for part in running_parts(settings.data_dir) if part.redis}
    address = valkey_folder(settings.data_dir) / _ADDRESS
    if not used and address.is_file():
        used = {address.read_text(encoding="utf-8").strip()}
    if len(used) != 1 or HIDDEN in (url := used.pop()):
        return settings
    return settings.model_copy(update={"redis_url": url})
