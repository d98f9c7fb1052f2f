"""Reads a YAML file once, for its values and for the lines on which they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from policies.bounded_files import bytes_of
from policies.errors import PolicyError, SettingsError

LARGEST: Final = 2**22
"""Most bytes of a file, far more than a policy needs."""


class PolicyDocument:
    """The settings of a policy file. YAML 1.2; a key that stands twice is an error."""

    def __init__(self, path: Path, settings: dict[Any, Any], root: Node) -> None:
        self.path = path
        self.settings = settings
        self._root = root

    def line_of(self, location: Sequence[Any]) -> int:
        """Return the 1-based line of the deepest part of `location` that the file contains."""
        line, node = 1, self._root
        for part in location:
            parts = {
                name: (line, value) for name, line, value in _parts(node)
            }  # the last: a merged key is first
            if str(part) not in parts:
                break
            line, node = parts[str(part)]
        return line

    def fault(self, location: Sequence[Any], message: str) -> PolicyError:
        """Return the error that names the file, the line and the setting."""
        name = ".".join(map(str, location))
        return PolicyError(f"{self.path}:{self.line_of(location)}: {name}: {message}")


def read_document(path: Path) -> PolicyDocument:
    """Return the settings of a file. Raises PolicyError with the file, and the line where there is one."""
    try:
        settings, root = _parsed(bytes_of(path, LARGEST).decode())
    except MarkedYAMLError as error:
        is_of_scalar = str(error.context).startswith("while scanning a")  # it is wrong from where it begins
        mark = error.context_mark if is_of_scalar and error.context_mark else error.problem_mark
        line = mark.line + 1 if mark else 1
        raise PolicyError(f"{path}:{line}: {error.problem or 'not YAML'}") from None
    except SettingsError as error:
        raise PolicyError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}") from None
    except (YAMLError, ValueError, LookupError, RecursionError) as error:  # as for a 31st of June
        raise PolicyError(f"{path}: not YAML: {error}") from None
    if not isinstance(settings, dict):
        raise PolicyError(f"{path}:1: expected a mapping with `board`, `score`, ... at the top level")
    return PolicyDocument(path, settings, root)


def _parsed(text: str) -> tuple[Any, Any]:
    """Return the value of a YAML text, and its nodes, which know their lines."""
    # Comments are only needed to write a file again, and to gather them takes a quarter of the time.
    yaml = YAML(typ="safe", pure=True)
    root = yaml.compose(text)
    return (None if root is None else yaml.constructor.construct_document(root)), root


def _parts(node: Node) -> Iterator[tuple[str, int, Node]]:
    """Yield the parts of a mapping or list: key or position, 1-based line, and value."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield str(key.value), key.start_mark.line + 1, value
    elif isinstance(node, SequenceNode):
        for at, value in enumerate(node.value):
            yield str(at), value.start_mark.line + 1, value
