"""Notes the address of the Valkey of `scoregate up`, so that other commands find it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.runtime.settings import Settings

_ADDRESS: Final = "address"


def valkey_folder(data_dir: Path) -> Path:
    """Return the folder of the embedded Valkey."""
    return data_dir / "valkey"


def note_address(data_dir: Path, url: str) -> None:
    """Write down the address of the embedded Valkey."""
    (valkey_folder(data_dir) / _ADDRESS).write_text(url + "\n", encoding="utf-8")


def with_embedded(settings: Settings) -> Settings:
    """Return the settings, with the data directory's Valkey if there is one and no Redis is configured."""
    address = valkey_folder(settings.data_dir) / _ADDRESS
    if "redis_url" in settings.model_fields_set or not address.is_file():
        return settings
    return settings.model_copy(update={"redis_url": address.read_text(encoding="utf-8").strip()})
