"""Reads played runs from files: bare recordings, or a client's submission together with its seed."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.bounded_files import bytes_of
from policies.errors import ScoregateError, SettingRefused, SettingsError
from policies.fields import StatName
from policies.opened_board import ASSET_BYTES, canonical_parameters
from policies.vocabulary import SCORE_LIMIT, Claim
from replay.simulators.board_content import EMPTY_CONTENT, Asset, BoardContent

SEED_LIMIT = 2**64
LARGEST_FILE = 2**26
"""Most bytes of a file, more than any recording or asset has."""

Number = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]


class RunUnreadable(ScoregateError):
    """The file holds no run."""


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """One run: its file's name, its seed (u64), its recording, its claim, if any, and its board's content."""

    name: str
    seed: int
    recording: bytes
    claim: Claim | None = None
    content: BoardContent = EMPTY_CONTENT


class RunFile(BaseModel):
    """A run in JSON: the body of a submission, and its ticket's seed in decimal digits."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    seed: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
    recording: str
    score: Number | None = None
    ticks: Number | None = None
    stats: dict[StatName, Number] = Field(default_factory=dict)


def read_run(path: Path, seed: int | None, content: BoardContent = EMPTY_CONTENT) -> PlayedRun:
    """Return the run in a file: `*.json` is a RunFile, anything else a recording, which needs a `seed`.

    A given seed replaces the file's. `content` is that of the board. Raises RunUnreadable.
    """
    return replace(_read(path, seed), content=content)


def read_content(parameters: Path | None, asset: Path | None) -> BoardContent:
    """Return a board's content from files: parameters in JSON, in any layout, and an asset.

    Raises RunUnreadable.
    """
    return BoardContent(
        b"" if parameters is None else _parameters(parameters),
        None if asset is None else _asset(asset),
    )


def _parameters(path: Path) -> bytes:
    try:
        return canonical_parameters(orjson.loads(_bytes(path)))
    except (ValueError, SettingRefused) as error:
        raise RunUnreadable(f"{path}: not the parameters of a board: {error}") from None


def _asset(path: Path) -> Asset:
    content = _bytes(path)
    if not 0 < len(content) <= ASSET_BYTES:
        raise RunUnreadable(f"{path}: an asset has 1 to {ASSET_BYTES} bytes")
    return Asset.of(content)


def _bytes(path: Path) -> bytes:
    try:
        return bytes_of(path, LARGEST_FILE)
    except SettingsError as error:
        raise RunUnreadable(str(error)) from None
    except OSError as error:
        raise RunUnreadable(f"{path}: cannot be read: {error.strerror}") from None


def _read(path: Path, seed: int | None) -> PlayedRun:
    content = _bytes(path)
    if path.suffix == ".json":
        return _from_json(path, content, seed)
    if seed is None:
        raise RunUnreadable(
            f"{path}: a recording does not contain its seed: give --seed, or a JSON file with one"
        )
    return PlayedRun(path.name, _checked(path, seed), content)


def _from_json(path: Path, content: bytes, seed: int | None) -> PlayedRun:
    try:
        file = RunFile.model_validate_json(content)
        recording = base64.b64decode(file.recording, validate=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise RunUnreadable(f"{path}: {where}: {first['msg']}") from None
    except binascii.Error:
        raise RunUnreadable(f"{path}: recording: expected base64") from None
    claim = None if file.score is None or file.ticks is None else Claim(file.score, file.ticks, file.stats)
    return PlayedRun(path.name, _checked(path, int(file.seed) if seed is None else seed), recording, claim)


def _checked(path: Path, seed: int) -> int:
    if not 0 <= seed < SEED_LIMIT:
        raise RunUnreadable(f"{path}: a seed is a number of 64 bits, 0 to {SEED_LIMIT - 1}")
    return seed
