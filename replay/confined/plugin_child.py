"""The process of a plug-in: it gives up its rights, receives the file, and answers lines with lines.

Only `replay.simulators.plugin` starts it.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import traceback
from array import array
from types import CodeType
from typing import IO, Any, Final

from replay.confined.confinement import confine, limit_next

HELLO, LOADED = b"ready", b"loaded"

INTERPRETER_BYTES: Final = 64 * 1024 * 1024
"""Memory of the interpreter and its imports, besides what the plug-in may use."""

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
"""Modules that a plug-in may import, all from the standard library. They are loaded before the child gives up
its files."""


def main(parent: int) -> None:
    """Serve until the input ends, or the parent with process id `parent` does."""
    for name in MODULES:
        importlib.import_module(name)
    questions, answers = _own_pipes()
    os.environ.clear()
    confine(parent)
    _say(answers, HELLO)
    order = json.loads(questions.readline())
    memory_bytes, wall_ms = order["memory_bytes"], order["wall_ms"]
    limit_next(memory_bytes, wall_ms, INTERPRETER_BYTES)
    plugin = _compiled(base64.b64decode(order["source"]))
    if not callable(_run(plugin).get("simulate")):
        sys.exit("it has no function `simulate`")
    _say(answers, LOADED)
    asset: bytes | None = None
    for line in questions:
        limit_next(memory_bytes, wall_ms, INTERPRETER_BYTES)
        question = json.loads(line)
        asset = _asset(questions, question, asset)
        _say(answers, _answer(plugin, question, asset))


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes to the parent, moved away from a plug-in that prints or reads."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return questions, answers


def _compiled(source: bytes) -> CodeType:
    """Return the plug-in's code. Its faults of syntax are told here, where no file is needed for it."""
    try:
        return compile(source, "plugin.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.exit("".join(traceback.format_exception_only(error)))


def _run(plugin: CodeType) -> dict[str, Any]:
    """Return the plug-in's names after running it as a new module, with nothing left from an earlier run."""
    names: dict[str, Any] = {"__name__": "plugin", "__builtins__": __builtins__}
    exec(plugin, names)  # noqa: S102 - this process is there to run it
    return names


def _asset(questions: IO[bytes], question: dict[str, Any], held: bytes | None) -> bytes | None:
    """Return the asset of the run's board: the bytes after the question, or the last run's if there are none.

    Another board's asset is not kept.
    """
    if "asset" not in question:
        return None
    return questions.read(question["asset"]) or held


def _content_for(simulate: Any, question: dict[str, Any], asset: bytes | None) -> dict[str, Any]:
    """Return the arguments for the board's content: what it has, and what the function names."""
    content = {"parameters": question.get("parameters"), "asset": asset}
    code = getattr(simulate, "__code__", None)
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    return {name: value for name, value in content.items() if value is not None or name in named}


def _answer(plugin: CodeType, question: dict[str, Any], asset: bytes | None) -> bytes:
    """Return the line that answers. If this process ends instead, its last words say why."""
    try:
        simulate = _run(plugin)["simulate"]
        result = simulate(
            seed=int(question["seed"]),
            inputs=None if question["inputs"] is None else _words(question["inputs"]),
            ticks=question["ticks"],
            checkpoint_ticks=question["checkpoint_ticks"],
            recording=base64.b64decode(question["recording"]),
            **_content_for(simulate, question, asset),
        )
        return json.dumps(result | {"id": question["id"]} if isinstance(result, dict) else result).encode()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a plug-in raises, the next run is served
        return json.dumps({"id": question["id"], "fault": f"{type(error).__name__}: {error}"}).encode()


def _words(inputs: str) -> array[int]:
    words = array("I", base64.b64decode(inputs))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _say(answers: IO[bytes], line: bytes) -> None:
    answers.write(line + b"\n")
    answers.flush()
