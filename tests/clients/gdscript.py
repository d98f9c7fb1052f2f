"""GDScript without an engine: enough of a translation to Python to run what the Godot client computes."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_WORDS: tuple[tuple[str, str], ...] = (
    (r"^(class_name|extends|@tool)\b.*$", ""),
    (r"^const (\w+)(?:: \w+)? :?= ", r"\1 = "),
    (r"\bvar (\w+)(?:: \w+)? :?= ", r"\1 = "),
    (r"(\w+)\.unicode_at\((\w+)\)", r"ord(\1[\2])"),
    (r"(\w+)\.substr\((\w+), 1\)", r"\1[\2]"),
    (r"(\S+) is (Dictionary|String|float|int)\b", r"isinstance(\1, \2)"),
    (r"\.(size|length)\(\)", ".__len__()"),
    (r"\.to_utf8_buffer\(\)", ".encode()"),
    (r"\.get_string_from_utf8\(\)", '.decode("utf-8", "replace")'),
    (r"\.hex_encode\(\)", ".hex()"),
    (r"\.append_array\(", ".extend("),
    (r"\.begins_with\(", ".startswith("),
    (r"\.trim_prefix\(", ".removeprefix("),
    (r"\.is_valid_int\(\)", ".isdigit()"),
    (r"\.has\(", ".__contains__("),
    (r" / ", " // "),
)
_FUNCTION = re.compile(r"^(?:static )?func (\w+)\((.*?)\)(?: -> \w+)?:$", re.MULTILINE | re.DOTALL)


class _Digest:
    """HashingContext and HMACContext."""

    def __init__(self) -> None:
        self._hash: Any = None

    @classmethod
    def new(cls) -> _Digest:
        return cls()

    def start(self, _kind: int, key: bytes | None = None) -> None:
        self._hash = hashlib.sha256() if key is None else hmac.new(key, digestmod="sha256")

    def update(self, data: bytes) -> None:
        assert data, "Godot refuses to hash nothing"
        self._hash.update(data)

    def finish(self) -> bytes:
        return bytes(self._hash.digest())


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_ENGINE: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "PackedByteArray": bytearray,
    "Dictionary": dict,
    "String": str,
    "HashingContext": _Digest,
    "HMACContext": _Digest,
    "Marshalls": SimpleNamespace(
        raw_to_base64=lambda data: b64encode(bytes(data)).decode(),
        base64_to_raw=lambda text: b64decode(text, validate=True),
    ),
    "JSON": SimpleNamespace(parse_string=_parsed),
}
_Digest.HASH_SHA256 = 1  # type: ignore[attr-defined]


def translated(source: str) -> str:
    """The source as Python: its fields become globals of a module of its own."""
    fields = re.findall(r"^var (\w+)", source, re.MULTILINE)

    def function(found: re.Match[str]) -> str:
        arguments = re.sub(r"(\w+): \w+", r"\1", found[2]).replace(":=", "=").split(",")
        names = [each.strip() for each in arguments if each.strip()]
        outer = [name for name in fields if name not in {each.split(" ")[0] for each in names}]
        shared = f"\n\tglobal {', '.join(outer)}" if outer else ""
        return f"def {found[1]}({', '.join(names)}):{shared}"

    source = _FUNCTION.sub(function, source)
    for pattern, becomes in _WORDS:
        source = re.sub(pattern, becomes, source, flags=re.MULTILINE)
    return _with_tuples(source)


def _with_tuples(source: str) -> str:
    """The source with each list behind a `%` as a tuple, which is what Python formats."""
    for found in reversed([*re.finditer(r"%\s+\[", source)]):
        at, depth = found.end(), 1
        while depth:
            depth += {"[": 1, "]": -1}.get(source[at], 0)
            at += 1
        source = f"{source[: found.end() - 1]}tuple({source[found.end() - 1 : at]}){source[at:]}"
    return source


def loaded(path: Path, **others: Any) -> SimpleNamespace:
    """An instance of a script: its functions, and its fields by `field(name)`."""
    module: dict[str, Any] = {**_ENGINE, **others}
    exec(compile(translated(path.read_text()), path.name, "exec"), module)
    return SimpleNamespace(**module, field=module.__getitem__)
