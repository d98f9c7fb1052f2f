"""Reads policy files into validated policies, or names the wrong line and what was expected there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from policies.digests import digest_of, sha256_of, simulator_digest
from policies.errors import PolicyError, SettingRefused
from policies.model import Policy
from policies.plugins import load_plugin, refuse_settings
from policies.ranking import Ranking
from policies.trees import TreeRefused
from policies.vocabulary import Mode

_PLAIN = {"missing": "this setting is missing", "extra_forbidden": "unknown setting"}
"""Plain wording for pydantic's error types, which would mean little to a game developer."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """A simulator on disk and the files it reads, identified by one digest of all (`policies.digests`)."""

    digest: str
    path: Path
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """A policy in force: the model, its digest, and the simulator of every build."""

    policy: Policy
    digest: str
    simulators: Mapping[str, Simulator]
    ranking: Ranking = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the board's ranking once."""
        object.__setattr__(self, "ranking", Ranking(self.policy))

    @property
    def name(self) -> str:
        """Return the board's name, as in URLs and keys."""
        return self.policy.board


def load_boards(directory: Path) -> Mapping[str, Board]:
    """Return every board described by the `*.yaml` files of `directory`, by name.

    Raises PolicyError if the directory is unreadable or empty, a file is wrong, or two files describe one
    board.
    """
    paths = sorted(directory.glob("*.yaml")) if directory.is_dir() else []
    if not paths:
        raise PolicyError(f"{directory}: expected a directory with at least one policy file (*.yaml)")
    boards: dict[str, Board] = {}
    for path in paths:
        board = load_board(path)
        if board.name in boards:
            raise PolicyError(f"{path}: board '{board.name}' is already described by another file")
        boards[board.name] = board
    return MappingProxyType(boards)


def load_board(path: Path) -> Board:
    """Return the board described by a policy file.

    Raises PolicyError with file, line and what was expected.
    """
    document = _parse(path)
    try:
        policy = Policy.model_validate(document)
    except ValidationError as error:
        raise PolicyError(_explanation(path, document, error)) from None
    simulators, plugins = _simulators(path, document, policy), _plugins(path, document, policy)
    return Board(policy, _digest(policy, simulators, plugins), simulators)


def line_of(path: Path, location: list[Any]) -> int:
    """Return the 1-based line of a setting in a policy file. Raises PolicyError."""
    return _line_of(_parse(path), location)


def _parse(path: Path) -> Any:
    try:
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise PolicyError(f"{path}:{line}: {error.problem or 'not YAML'}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}") from None
    except (YAMLError, ValueError, LookupError, RecursionError) as error:  # as for a 31st of June
        raise PolicyError(f"{path}: not YAML: {error}") from None
    if not isinstance(document, dict):
        raise PolicyError(f"{path}:1: expected a mapping with `board`, `score`, ... at the top level")
    return document


def _explanation(path: Path, document: Any, error: ValidationError) -> str:
    """Return all errors of a file, in line order."""
    faults = [(_line_of(document, _location(fault)), fault) for fault in error.errors()]
    return "\n".join(_explain(path, line, fault) for line, fault in sorted(faults, key=lambda pair: pair[0]))


def _location(error: Any) -> list[Any]:
    refused = error.get("ctx", {}).get("error")
    further = refused.location if isinstance(refused, SettingRefused) else ()
    return [*(part for part in error["loc"] if part != "[key]"), *further]


def _explain(path: Path, line: int, error: Any) -> str:
    location = _location(error)
    message = _PLAIN.get(error["type"], error["msg"].removeprefix("Value error, "))
    name = ".".join(str(part) for part in location) or "policy"
    given = (
        ""
        if error["type"] == "missing" or isinstance(error["input"], dict)
        else f" (given: {error['input']!r})"
    )
    return f"{path}:{line}: {name}: {message}{given}"


def _line_of(document: Any, location: list[Any]) -> int:
    """Return the 1-based line of the deepest part of `location` that the file contains."""
    line, node = 1, document
    for part in location:
        positions = getattr(getattr(node, "lc", None), "data", None) or {}
        if part not in positions:
            break
        line, node = positions[part][0] + 1, node[part]
    return line


def _simulators(path: Path, document: Any, policy: Policy) -> Mapping[str, Simulator]:
    simulators, digests = {}, dict[Path, tuple[str, str]]()
    shared = policy.replay.files if policy.replay else ()
    for name, build in policy.builds.items():
        if build.simulator is None:
            continue
        target = (path.parent / build.simulator).resolve()
        files = tuple((path.parent / file).absolute() for file in (*shared, *build.files))
        where = f"{path}:{_line_of(document, ['builds', name, 'simulator'])}: builds.{name}"
        own = _sha256_of(target, f"{where}.simulator: expected a simulator")
        for file in files:
            digests[file] = digests.get(file) or _digest_of(
                file, f"{where}.files: expected a file or a folder"
            )
        simulators[name] = Simulator(
            simulator_digest(own, dict(digests[file] for file in files)), target, files
        )
    return MappingProxyType(simulators)


def _sha256_of(file: Path, expectation: str) -> str:
    try:
        return sha256_of(file)
    except OSError as error:
        raise PolicyError(f"{expectation}: {error}") from None


def _digest_of(path: Path, expectation: str) -> tuple[str, str]:
    try:
        return digest_of(path)
    except (OSError, TreeRefused) as error:
        raise PolicyError(f"{expectation}: {error}") from None


def _plugins(path: Path, document: Any, policy: Policy) -> Mapping[str, str]:
    """Return the package version of each of the studio's validators that is not off."""
    versions = {}
    for name, plugin in policy.plugins.items():
        if plugin.mode is Mode.OFF:
            continue
        try:
            loaded = load_plugin(name)
            refuse_settings(plugin, loaded)
        except ValueError as error:
            line = _line_of(document, ["plugins", name])
            raise PolicyError(f"{path}:{line}: plugins.{name}: {error}") from None
        versions[name] = loaded.version
    return versions


def _digest(policy: Policy, simulators: Mapping[str, Simulator], plugins: Mapping[str, str]) -> str:
    content = {
        "policy": policy.model_dump(mode="json"),
        "simulators": {b: s.digest for b, s in simulators.items()},
        "plugins": dict(plugins),
    }
    return "sha256:" + hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
