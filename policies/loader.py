"""Reads policy files into validated policies, or names the wrong line and what was expected there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from policies.board import Board, Simulator
from policies.digests import digest_of, sha256_of, simulator_digest
from policies.document import PolicyDocument, read_document
from policies.errors import NoPolicies, PolicyError, SettingRefused
from policies.family import Family
from policies.family_policy import FamilyPolicy
from policies.model import Policy
from policies.openings import refuse_openings
from policies.plugins import load_plugin, refuse_settings
from policies.trees import TreeRefused
from policies.vocabulary import Mode
from policies.wording import plain_message

__all__ = [
    "Board",
    "Family",
    "Policies",
    "Simulator",
    "describes_board",
    "load_board",
    "load_boards",
    "load_policies",
    "load_policy",
    "load_policy_in_folder",
]

P = TypeVar("P", bound=Policy)

_NAMED: Final = re.compile(r"`([a-z_]+)")
"""The settings that a message names."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a folder: boards of their own, and families of boards, by name."""

    boards: Mapping[str, Board] = field(default_factory=dict)
    families: Mapping[str, Family] = field(default_factory=dict)
    directory: Path | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Return the words that name the folder at the end of an error; empty without one."""
        return f" in {self.directory}" if self.directory else ""

    @property
    def by_name(self) -> Mapping[str, Board | Family]:
        """Return both together, which never have a name in common."""
        return {**self.boards, **self.families}


class _Digests:
    """The digests of the files that policies name. A file is read once for all policies of a folder."""

    def __init__(self) -> None:
        self._simulators: dict[Path, str] = {}
        self._files: dict[Path, tuple[str, str]] = {}

    def of_simulator(self, file: Path) -> str:
        """Return the SHA-256 of a simulator's file. Raises OSError."""
        if file not in self._simulators:
            self._simulators[file] = sha256_of(file)
        return self._simulators[file]

    def of_file(self, path: Path) -> tuple[str, str]:
        """Return the name and digest of a program's file or folder. Raises OSError and TreeRefused."""
        if path not in self._files:
            self._files[path] = digest_of(path)
        return self._files[path]


class Described:
    """Which file of a folder describes which board or family."""

    def __init__(self) -> None:
        self._first: dict[tuple[Path, str], tuple[str, Path]] = {}

    def note(self, file: Path, policy: Board | Family) -> None:
        """Note what a file describes. Raises PolicyError if another one of its folder describes the name."""
        kind = "family" if isinstance(policy, Family) else "board"
        kind, first = self._first.setdefault((file.parent.resolve(), policy.name), (kind, file))
        if first.name != file.name:
            raise PolicyError(f"{file}: {kind} '{policy.name}' is already described by {first}")


def load_policies(directory: Path) -> Policies:
    """Return every board and family described by the `*.yaml` files of `directory`.

    Raises PolicyError if the directory is unreadable or empty, a file is wrong, or two files describe one
    board or family.
    """
    paths = sorted(directory.glob("*.yaml")) if directory.is_dir() else []
    if not paths:
        raise NoPolicies(directory)
    boards, families, digests = dict[str, Board](), dict[str, Family](), _Digests()
    described, rollups = Described(), list[tuple[PolicyDocument, Board]]()
    for path in paths:
        document = read_document(path)
        policy = _load(document, digests)
        described.note(path, policy)
        if isinstance(policy, Family):
            families[policy.name] = policy
        else:
            boards[policy.name] = policy
            if policy.policy.rollup:
                rollups.append((document, policy))
    for document, board in rollups:
        boards[board.name] = _roll_up(document, board, families)
    return Policies(MappingProxyType(boards), MappingProxyType(families), directory)


def _roll_up(document: PolicyDocument, board: Board, families: dict[str, Family]) -> Board:
    """Give a family its rollup, and return it with what it has from the family.

    Raises PolicyError if the rollup cannot follow from it.
    """
    name = board.policy.rollup.family if board.policy.rollup else ""
    if name not in families:
        raise document.fault(["rollup", "family"], f"no file of this folder describes the family '{name}'")
    try:
        policy = board.policy.model_copy(update=families[name].settings_of(board.policy))
        rollup = Board(policy, _digest(policy, {}, {}), {})
        families[name] = families[name].with_rollup(rollup)
    except SettingRefused as refused:
        raise document.fault(refused.location, str(refused)) from None
    return rollup


def load_boards(directory: Path) -> Mapping[str, Board]:
    """Return every board of its own in `directory`, by name. Raises PolicyError, as `load_policies`."""
    return load_policies(directory).boards


def describes_board(directory: Path, name: str) -> bool:
    """Return whether a file of the directory describes a board of this name. Other files are not parsed.

    Raises PolicyError for a file that mentions the name and is not YAML.
    """
    mentions = (path for path in sorted(directory.glob("*.yaml")) if name.encode() in path.read_bytes())
    return any(read_document(path).settings.get("board") == name for path in mentions)


def load_policy(document: PolicyDocument) -> Board | Family:
    """Return the board or family that a policy file describes.

    Raises PolicyError with file, line and what was expected.
    """
    return _load(document, _Digests())


def load_policy_in_folder(document: PolicyDocument) -> Board | Family:
    """Return the board or family that a policy file describes; a rollup with what it has from its family.

    Raises PolicyError, as `load_policy`, and for a rollup whose family no file of the folder describes.
    """
    policy = load_policy(document)
    if isinstance(policy, Family) or policy.policy.rollup is None:
        return policy
    name = policy.policy.rollup.family
    for path in sorted(document.path.parent.glob("*.yaml")):
        if name.encode() not in path.read_bytes():
            continue
        other = read_document(path)
        if other.settings.get("family") == name:
            family = _validated(other, FamilyPolicy)
            return _roll_up(document, policy, {name: Family(family, "", {})})
    return _roll_up(document, policy, {})


def load_board(path: Path) -> Board:
    """Return the board described by a policy file.

    Raises PolicyError with file, line and what was expected, also for a family's file.
    """
    policy = load_policy(read_document(path))
    if isinstance(policy, Family):
        raise PolicyError(f"{path}: expected a board, and this file describes the family '{policy.name}'")
    return policy


def _load(document: PolicyDocument, digests: _Digests) -> Board | Family:
    if "family" in document.settings:
        family = _validated(document, FamilyPolicy)
        simulators, plugins = _simulators(document, family, digests), _plugins(document, family)
        made = Family(family, _digest(family, simulators, plugins), simulators)
        refuse_openings(document, made)
        return made
    policy = _validated(document, Policy)
    if "." in policy.board:
        raise document.fault(
            ["board"], "a dot belongs to the boards of a family; describe one with `family:`"
        )
    simulators, plugins = _simulators(document, policy, digests), _plugins(document, policy)
    return Board(policy, _digest(policy, simulators, plugins), simulators)


def _validated(document: PolicyDocument, model: type[P]) -> P:
    try:
        return model.model_validate(document.settings)
    except ValidationError as error:
        raise PolicyError(_explanation(document, model, error)) from None


def _explanation(document: PolicyDocument, model: type[Policy], error: ValidationError) -> str:
    """Return all errors of a file, in line order."""
    faults = [(_location(document, fault), fault) for fault in error.errors()]
    in_order = sorted(faults, key=lambda pair: document.line_of(pair[0]))
    return "\n".join(_explain(document, location, model, fault) for location, fault in in_order)


def _location(document: PolicyDocument, error: Any) -> list[Any]:
    """Return the setting of an error: its own, or else the first of the file that its message names."""
    refused = error.get("ctx", {}).get("error")
    further = refused.location if isinstance(refused, SettingRefused) else ()
    # Parts in brackets are pydantic's and ours: a key, or one of the forms that a value may have.
    own = [*(part for part in error["loc"] if not str(part).startswith("[")), *further]
    return own or [name for name in _NAMED.findall(error["msg"]) if name in document.settings][:1]


def _explain(document: PolicyDocument, location: list[Any], model: type[Policy], error: Any) -> str:
    message = plain_message(model, location, error)
    given = (
        ""
        if error["type"] == "missing" or isinstance(error["input"], dict)
        else f" (given: {error['input']!r})"
    )
    name = ".".join(map(str, location))
    where = f"{document.path}:{document.line_of(location)}: {name}" if location else str(document.path)
    return f"{where}: {message}{given}"


def _simulators(document: PolicyDocument, policy: Policy, digests: _Digests) -> Mapping[str, Simulator]:
    simulators, folder = {}, document.path.parent
    shared = policy.replay.files if policy.replay else ()
    for name, build in policy.builds.items():
        if build.simulator is None:
            continue
        target = (folder / build.simulator).resolve()
        files = tuple((folder / file).absolute() for file in (*shared, *build.files))
        where = f"{document.path}:{document.line_of(['builds', name, 'simulator'])}: builds.{name}"
        try:
            own = digests.of_simulator(target)
        except OSError as error:
            raise PolicyError(f"{where}.simulator: expected a simulator: {error}") from None
        try:
            listed = dict(map(digests.of_file, files))
        except (OSError, TreeRefused) as error:
            raise PolicyError(f"{where}.files: expected a file or a folder: {error}") from None
        simulators[name] = Simulator(simulator_digest(own, listed), target, files)
    return MappingProxyType(simulators)


def _plugins(document: PolicyDocument, policy: Policy) -> Mapping[str, str]:
    """Return the package version of each of the studio's validators that is not off."""
    versions = {}
    for name, plugin in policy.plugins.items():
        if plugin.mode is Mode.OFF:
            continue
        try:
            loaded = load_plugin(name)
            refuse_settings(plugin, loaded)
        except ValueError as error:
            raise document.fault(["plugins", name], str(error)) from None
        versions[name] = loaded.version
    return versions


def _digest(policy: Policy, simulators: Mapping[str, Simulator], plugins: Mapping[str, str]) -> str:
    content = {
        "policy": policy.model_dump(mode="json"),
        "simulators": {b: s.digest for b, s in simulators.items()},
        "plugins": dict(plugins),
    }
    return "sha256:" + hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
