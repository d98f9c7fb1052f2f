"""Reads the lines of a text file as other programs write them: UTF-8 or UTF-16, with any line ends."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

_HEAD: Final = 16

_BY_MARK: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Encodings by the mark at the beginning of a file; that of UTF-32 begins like that of UTF-16."""

_PACKED: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a ZIP archive or a workbook"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
"""The beginnings of files that have to be unpacked first. Nothing is unpacked here."""


def text_lines(path: Path, longest: int) -> Iterator[str]:
    """Yield the lines of a file with their ends. A text without a mark is UTF-8.

    Raises SettingsError for what is no file of text, with its number for a line of more than `longest`
    characters or with other bytes, and OSError for a file that cannot be read.
    """
    if not path.is_file() and path.exists():
        raise SettingsError(f"{path}: expected a file, which is read twice")
    number = 0
    with path.open(encoding=_encoding_of(path), errors="surrogateescape", newline="") as file:
        try:
            while line := file.readline(longest + 1):
                number += 1
                if len(line) > longest:
                    raise SettingsError(f"{path}: line {number}: has more than {longest} characters")
                if not line.isascii():
                    line.encode()
                yield line
        except UnicodeEncodeError as error:
            byte = ord(error.object[error.start]) & 0xFF
            raise SettingsError(
                f"{path}: line {number}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
            ) from None
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path}: after line {number}: is not {error.encoding}") from None


def _encoding_of(path: Path) -> str:
    """Return the encoding that a file begins with. Raises SettingsError if it is no text."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for beginning, kind in _PACKED:
        if head.startswith(beginning):
            raise SettingsError(f"{path}: is {kind}; unpack it, or save it as text, and import that")
    for mark, encoding in _BY_MARK:
        if head.startswith(mark):
            return encoding
    if 0 in head[:4]:
        raise SettingsError(f"{path}: is not text, or UTF-16 without a mark; save it as UTF-8")
    return "utf-8"
