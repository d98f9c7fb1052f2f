"""Builds `hall.wad`, the map of this example, the same bytes every time.

The map is a hall with a hidden alcove and a switch at the end.

    python examples/doom/level.py [--output PATH]

The layout of a WAD and of its lumps is from "The Unofficial Doom Specs" 1.666 (Matthew Fell, 1994), chapters
2 and 4.
"""

from __future__ import annotations

import argparse
import struct
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEVEL = HERE / "files" / "hall.wad"

HALL, ALCOVE = 0, 1
ONE_SIDED, TWO_SIDED = 1, 4
"""Flags of a linedef: a solid wall, or an opening to the other side (chapter 4-3)."""
EXIT_SWITCH, SECRET = 11, 9
"""Specials: a linedef whose use ends the level, a sector that counts as a secret (chapters 4-3-2, 4-9-1)."""
NO_SIDE = 0xFFFF
IS_SUBSECTOR = 0x8000

PLAYER, SOLDIER, HEALTH_BONUS = 1, 3004, 2014
EVERY_SKILL, DEAF = 7, 8
EAST, WEST = 0, 180

VERTICES = (
    (0, 0),
    (0, 256),
    (512, 256),
    (576, 256),
    (1024, 256),
    (1024, 0),
    (512, 320),
    (576, 320),
)

THINGS = (
    (64, 128, EAST, PLAYER, EVERY_SKILL),
    (256, 128, EAST, HEALTH_BONUS, EVERY_SKILL),
    (544, 296, EAST, HEALTH_BONUS, EVERY_SKILL),
    (896, 32, EAST, SOLDIER, EVERY_SKILL | DEAF),
)
"""Position, direction, kind, flags. The soldier turns its back to the player."""


@dataclass(frozen=True)
class Wall:
    """A line between two vertices, with a sector to its right and perhaps one to its left."""

    start: int
    end: int
    right: int
    left: int | None = None
    special: int = 0


WALLS = (
    Wall(0, 1, HALL),
    Wall(1, 2, HALL),
    Wall(2, 3, HALL, ALCOVE),
    Wall(3, 4, HALL),
    Wall(4, 5, HALL, special=EXIT_SWITCH),
    Wall(5, 0, HALL),
    Wall(2, 6, ALCOVE),
    Wall(6, 7, ALCOVE),
    Wall(7, 3, ALCOVE),
)


def build() -> bytes:
    """Return the WAD of this example."""
    return wad(*lumps(b"MAP01"))


def lumps(name: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the lumps of the map in their required order. The engine makes the blockmap itself."""
    segments, subsectors = _segments()
    return (
        (name, b""),
        (b"THINGS", b"".join(struct.pack("<5h", *thing) for thing in THINGS)),
        (b"LINEDEFS", _linedefs()),
        (b"SIDEDEFS", b"".join(_sidedef(sector, wall) for wall, sector in _sides())),
        (b"VERTEXES", b"".join(struct.pack("<2h", *vertex) for vertex in VERTICES)),
        (b"SEGS", segments),
        (b"SSECTORS", subsectors),
        (b"NODES", _node()),
        (b"SECTORS", _sector(0) + _sector(SECRET)),
        (b"REJECT", b"\0"),
        (b"BLOCKMAP", b""),
    )


def _sides() -> list[tuple[Wall, int]]:
    """Return the sides of all walls, in the order of the sidedefs, each with the sector that it faces."""
    return [(wall, sector) for wall in WALLS for sector in (wall.right, wall.left) if sector is not None]


def _linedefs() -> bytes:
    first_sides = accumulate((1 if wall.left is None else 2 for wall in WALLS), initial=0)
    lines = []
    for wall, side in zip(WALLS, first_sides, strict=False):
        flags, left = (ONE_SIDED, NO_SIDE) if wall.left is None else (TWO_SIDED, side + 1)
        lines.append(struct.pack("<7H", wall.start, wall.end, flags, wall.special, 0, side, left))
    return b"".join(lines)


def _sidedef(sector: int, wall: Wall) -> bytes:
    middle = b"-" if wall.left is not None else b"SW1COMP" if wall.special else b"STARTAN2"
    return struct.pack("<2h8s8s8sH", 0, 0, b"-", b"-", middle, sector)


def _sector(special: int) -> bytes:
    return struct.pack("<2h8s8s3h", 0, 128, b"FLOOR4_8", b"CEIL3_5", 160, special, 0)


def _segments() -> tuple[bytes, bytes]:
    """Return the lumps SEGS and SSECTORS."""
    # Both sectors are convex, so each is one subsector, and no line has to be cut.
    segments: list[bytes] = []
    subsectors = b""
    for sector in (HALL, ALCOVE):
        facing = [(at, wall) for at, wall in enumerate(WALLS) if sector in {wall.right, wall.left}]
        subsectors += struct.pack("<2H", len(facing), len(segments))
        segments += [_segment(at, wall, is_left=wall.left == sector) for at, wall in facing]
    return b"".join(segments), subsectors


def _segment(line: int, wall: Wall, *, is_left: bool) -> bytes:
    start, end = (wall.end, wall.start) if is_left else (wall.start, wall.end)
    return struct.pack("<2HH2Hh", start, end, _binary_angle(VERTICES[start], VERTICES[end]), line, is_left, 0)


def _binary_angle(start: tuple[int, int], end: tuple[int, int]) -> int:
    """Return the direction of a line along an axis, in 65536ths of a turn from east."""
    step = [(b > a) - (b < a) for a, b in zip(start, end, strict=True)]
    return {(1, 0): 0, (0, 1): 0x4000, (-1, 0): 0x8000, (0, -1): 0xC000}[step[0], step[1]]


def _node() -> bytes:
    """Return the only node: the opening divides the alcove (left, north) from the hall (right, south)."""
    (x, y), (end_x, end_y) = VERTICES[2], VERTICES[3]
    hall_box, alcove_box = (256, 0, 0, 1024), (320, 256, 512, 576)  # top, bottom, left, right
    children = (HALL | IS_SUBSECTOR, ALCOVE | IS_SUBSECTOR)
    return struct.pack("<4h4h4h2H", x, y, end_x - x, end_y - y, *hall_box, *alcove_box, *children)


def wad(*lumps: tuple[bytes, bytes]) -> bytes:
    """Return a WAD that adds to a game's own (PWAD): header, contents, directory."""
    offsets = list(accumulate((len(data) for _, data in lumps), initial=12))
    directory = b"".join(
        struct.pack("<2I8s", offset, len(data), name)
        for offset, (name, data) in zip(offsets, lumps, strict=False)
    )
    header = struct.pack("<4s2I", b"PWAD", len(lumps), offsets[-1])
    return header + b"".join(data for _, data in lumps) + directory


def main() -> None:
    """Write the map."""
    parser = argparse.ArgumentParser(description="Build the map of the Doom example.")
    parser.add_argument("--output", type=Path, default=LEVEL)
    output: Path = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(build())
    print(output)


if __name__ == "__main__":
    main()
