"""The policies folder of a deployment, noted in its data directory for commands that need the policies."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from gateway.runtime.settings import Settings, bundled_policies
from gateway.runtime.telemetry import Event, logger

NOTE: Final = "policies-folder"
"""The file in the data directory. It has one line: an absolute path, or BUNDLED."""

BUNDLED: Final = "bundled"
"""The word for the folder of the package, which an upgrade may move."""

_log = logger()


def note_policies_folder(settings: Settings, part: str) -> None:
    """Note the folder whose policies a part has loaded, if its data directory can be written."""
    folder = settings.policies_dir.resolve()
    line = BUNDLED if folder == bundled_policies().resolve() else str(folder)
    unready = settings.data_dir / f".{NOTE}-{secrets.token_hex(4)}"
    try:
        unready.write_text(line + "\n", encoding="utf-8")
        unready.replace(settings.data_dir / NOTE)
    except OSError as error:
        _log.warning(Event.NOT_NOTED, part=part, error=str(error))


def noted_policies_folder(data_dir: Path) -> Path | None:
    """Return the folder whose policies the parts loaded last; None if none has run over this directory.

    The folder may be that of a container. Raises OSError if the note cannot be read.
    """
    try:
        line = (data_dir / NOTE).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return bundled_policies() if line == BUNDLED else Path(line)


def is_folder_here(folder: Path) -> bool:
    """Return whether the folder is there for this process."""
    return os.path.isdir(folder)  # noqa: PTH112 - `Path.is_dir` raises PermissionError
