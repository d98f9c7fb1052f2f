"""The process that runs a plug-in: it gives up all it does not need, is sent the file, and answers a line for a line.

It is started by `replay.simulators.plugin` and by nobody else.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
from array import array
from types import CodeType
from typing import IO, Any, Final

from replay.simulators.confinement import confine, limit_next

HELLO, LOADED = b"ready", b"loaded"

INTERPRETER_BYTES: Final = 64 * 1024 * 1024
"""Memory of the interpreter and what it has imported, beside what the plug-in may use."""

MODULES: Final = (
    *(
        "abc",
        "array",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "collections.abc",
        "copy",
        "dataclasses",
    ),
    *(
        "decimal",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "io",
        "itertools",
        "json",
        "lzma",
        "math",
    ),
    *("numbers", "operator", "random", "re", "statistics", "string", "struct", "typing", "zlib"),
)
"""What a plug-in may import: it is there before the child gives up its files. All of it is the standard library's."""


def main(parent: int) -> None:
    """Serves until the input ends or the parent, whose process id is `parent`, does."""
    for name in MODULES:
        importlib.import_module(name)
    questions, answers = _own_pipes()
    os.environ.clear()
    confine(parent)
    _say(answers, HELLO)
    order = json.loads(questions.readline())
    memory_bytes, wall_ms = order["memory_bytes"], order["wall_ms"]
    limit_next(memory_bytes, wall_ms, INTERPRETER_BYTES)
    plugin = compile(base64.b64decode(order["source"]), "plugin.py", "exec", dont_inherit=True)
    if not callable(_run(plugin).get("simulate")):
        sys.exit("it has no function `simulate`")
    _say(answers, LOADED)
    for line in questions:
        limit_next(memory_bytes, wall_ms, INTERPRETER_BYTES)
        _say(answers, _answer(plugin, json.loads(line)))


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent, out of the way of a plug-in that prints or reads."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return questions, answers


def _run(plugin: CodeType) -> dict[str, Any]:
    """The plug-in's names after it ran as a module of its own: nothing is left in it of an earlier run."""
    names: dict[str, Any] = {"__name__": "plugin", "__builtins__": __builtins__}
    exec(plugin, names)  # noqa: S102 - this process is there to run it
    return names


def _answer(plugin: CodeType, asked: dict[str, Any]) -> bytes:
    """The line that answers. What ends this process instead is told by its last words."""
    try:
        found = _run(plugin)["simulate"](
            seed=int(asked["seed"]),
            inputs=None if asked["inputs"] is None else _words(asked["inputs"]),
            ticks=asked["ticks"],
            checkpoint_ticks=asked["checkpoint_ticks"],
            recording=base64.b64decode(asked["recording"]),
        )
        return json.dumps(found | {"id": asked["id"]} if isinstance(found, dict) else found).encode()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a plug-in may raise what it likes, and the next run is served
        return json.dumps({"id": asked["id"], "fault": f"{type(error).__name__}: {error}"}).encode()


def _words(inputs: str) -> array[int]:
    words = array("I", base64.b64decode(inputs))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _say(answers: IO[bytes], line: bytes) -> None:
    answers.write(line + b"\n")
    answers.flush()
