"""Where the Valkey of `scoregate up` answers, so that commands beside it find it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.runtime.settings import Settings

_ADDRESS: Final = "address"


def valkey_folder(data_dir: Path) -> Path:
    """The folder of the embedded Valkey."""
    return data_dir / "valkey"


def note_address(data_dir: Path, url: str) -> None:
    """Writes down where the embedded Valkey answers."""
    (valkey_folder(data_dir) / _ADDRESS).write_text(url + "\n", encoding="utf-8")


def with_embedded(settings: Settings) -> Settings:
    """The settings, with the Valkey of the data directory where no Redis is configured and one has run there."""
    noted = valkey_folder(settings.data_dir) / _ADDRESS
    if "redis_url" in settings.model_fields_set or not noted.is_file():
        return settings
    return settings.model_copy(update={"redis_url": noted.read_text(encoding="utf-8").strip()})
