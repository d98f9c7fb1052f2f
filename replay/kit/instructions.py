"""Reads a module's instructions in order: enough of the binary format to name them.

The format is in the WebAssembly Core Specification 2.0, chapter 5 (Binary Format). The module was validated
before, so its bytes are well formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

CODE_SECTION: Final = 10
HEADER_BYTES: Final = 8

CONTINUES: Final = 0x80
"""The bit of a LEB128 byte that says that another one follows."""
MEMORY_GROW: Final = 0x40
NUMERIC_PREFIX: Final = 0xFC
VECTOR_PREFIX: Final = 0xFD

_BLOCKS = frozenset({0x02, 0x03, 0x04})
_ONE_INDEX = frozenset({0x0C, 0x0D, 0x10, 0x12, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2})
_TWO_INDICES = frozenset({0x11, 0x13, *range(0x28, 0x3F)})
_BRANCH_TABLE, _TYPED_SELECT, _F32_CONST, _F64_CONST = 0x0E, 0x1C, 0x43, 0x44
_BULK_INDICES: Mapping[int, int] = {8: 2, 9: 1, 10: 2, 11: 1, 12: 2, 13: 1, 14: 2, 15: 1, 16: 1, 17: 1}

_VECTOR_MEMORY = frozenset({*range(12), *range(84, 94)})
_VECTOR_BYTES = frozenset({12, 13})  # v128.const, i8x16.shuffle
_VECTOR_LANES = frozenset({*range(21, 35), *range(84, 92)})

_FLOATS = frozenset(
    {
        *(0x2A, 0x2B, 0x38, 0x39, 0x43, 0x44),  # loads, stores, constants
        *range(0x5B, 0x67),  # comparisons
        *range(0x8B, 0xA7),  # arithmetic
        *(0xA8, 0xA9, 0xAA, 0xAB, 0xAE, 0xAF, 0xB0, 0xB1),  # to integers
        *range(0xB2, 0xC0),  # from integers, between floats
    }
)
_SATURATING_LIMIT = 8
"""Numeric instructions below this number convert floats to integers."""


def is_float(opcode: int, number: int) -> bool:
    """Return whether an instruction computes with floating-point numbers outside vectors."""
    return opcode in _FLOATS or (opcode == NUMERIC_PREFIX and number < _SATURATING_LIMIT)


def instructions(module: bytes) -> Iterator[tuple[int, int]]:
    """Yield opcode, and number after a prefix (else 0), of every instruction of every function."""
    reader = _Reader(module, HEADER_BYTES)
    while reader.at < len(module):
        section, size = reader.byte(), reader.number()
        if section != CODE_SECTION:
            reader.at += size
            continue
        for _ in range(reader.number()):
            size = reader.number()
            yield from _of_function(reader, reader.at + size)


def _of_function(reader: _Reader, end: int) -> Iterator[tuple[int, int]]:
    for _ in range(reader.number()):  # locals: a count and a type
        reader.number()
        reader.byte()
    while reader.at < end:
        opcode = reader.byte()
        number = reader.number() if opcode in _PREFIXED else 0
        _PREFIXED.get(opcode, _pass_immediates)(reader, number if opcode in _PREFIXED else opcode)
        yield opcode, number


class _Reader:
    """A position in the bytes of a module."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def byte(self) -> int:
        """Return the next byte."""
        self.at += 1
        return self._data[self.at - 1]

    def number(self) -> int:
        """Return the next LEB128 number as unsigned; signed ones are only skipped."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < CONTINUES:
                return value

    def skip(self, count: int) -> None:
        """Skip some bytes."""
        # `reader.at += reader.number()` would be wrong: Python reads `reader.at` before the call moves it.
        self.at += count

    def numbers(self, count: int) -> None:
        """Skip some numbers."""
        for _ in range(count):
            self.number()


def _pass_immediates(reader: _Reader, opcode: int) -> None:
    if opcode in _ONE_INDEX or opcode in _BLOCKS:
        reader.number()
    elif opcode in _TWO_INDICES:
        reader.numbers(2)
    elif opcode == _BRANCH_TABLE:
        reader.numbers(reader.number() + 1)
    elif opcode == _TYPED_SELECT:
        reader.skip(reader.number())
    elif opcode in {_F32_CONST, _F64_CONST}:
        reader.at += 4 if opcode == _F32_CONST else 8


def _pass_numeric(reader: _Reader, number: int) -> None:
    reader.numbers(_BULK_INDICES.get(number, 0))


def _pass_vector(reader: _Reader, number: int) -> None:
    if number in _VECTOR_MEMORY:
        reader.numbers(2)  # alignment and offset
    reader.at += 16 * (number in _VECTOR_BYTES) + (number in _VECTOR_LANES)


_PREFIXED: Mapping[int, Callable[[_Reader, int], None]] = {
    NUMERIC_PREFIX: _pass_numeric,
    VECTOR_PREFIX: _pass_vector,
}
