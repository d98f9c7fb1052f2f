#!/usr/bin/env python3
"""Plays Doom demos (.lmp) again with dsda-doom, and returns the engine's result.

This is the simulator of a board: a worker starts it once, and sends one line of JSON at a time to standard
input; each gets one line as its answer. `SCOREGATE_FILES` names the folder with the map, one PWAD; Freedoom
is where Debian installs it. Only the engine judges: this file reads the demo's header, bounds what it lets
through, and copies what `-levelstat` and `-analysis` write.

It needs only Python's own library, so that its digest covers everything it does.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IWAD = Path("/usr/share/games/doom/freedoom2.wad")
ENGINE_FOLDERS = "/usr/games:/usr/local/games:/usr/bin:/usr/local/bin"
ENGINE_WALL_S = 8.0
"""Far more than the longest demo takes (see README.md), and less than the board's budget."""
ENGINE_ARGUMENTS = (
    *("-noautoload", "-complevel", "2"),  # as Doom 1.9, with no files but those named here
    *("-fastdemo", "run.lmp", "-nodraw", "-nosound", "-nojoy"),
    *("-levelstat", "-analysis"),
)
ENGINE_ENVIRONMENT = {"LC_ALL": "C", "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}

VERSION, END = 109, 0x80
HEADER_BYTES, TIC_BYTES = 13, 4
DEMO_BYTES = 1_048_576
HIGHEST_SKILL, HIGHEST_MAP = 4, 32
ALONE = bytes([0, 1, 0, 0, 0])
"""The end of the header: the player whose view it is, and which of the four players take part."""
SPECIAL, PAUSE = 0x80, 0x81
"""Special buttons, of which only the pause belongs in a run (linuxdoom-1.10, d_event.h)."""

TICS_PER_S = 35
REPORT_BYTES = 65_536
CATEGORIES = (
    "Other",
    "UV Speed",
    "UV Max",
    "UV Tyson",
    "UV Fast",
    "UV Respawn",
    "Pacifist",
    "Stroller",
    "NoMo",
    "NoMo 100S",
    "NM Speed",
    "NM 100S",
)
"""The engine's names for kinds of runs (dsda-doom 0.25.6, dsda/analysis.c).

The statistic `category` is an index into this list.
"""
FROM_ANALYSIS = {
    "skill": "skill",
    "nomonsters": "nomonsters",
    "respawn": "respawn",
    "fast": "fast",
    "turbo": "turbo",
    "reborn": "reborn",
    "pacifist": "pacifist",
    "tyson": "tyson_weapons",
    "all_kills": "100k",
    "all_secrets": "100s",
}
"""The engine's names of our statistics."""

_LEVEL = re.compile(
    r"MAP(?P<map>\d\d)(?P<secret>s?)"
    r" - +(?P<minutes>\d+):(?P<seconds>[0-5]\d)\.(?P<hundredths>\d\d) \( *\d+:\d\d\)"
    r" +K: +(?P<kills>-?\d+)/\d+ +I: +(?P<items>\d+)/\d+ +S: +(?P<secrets>\d+)/\d+ *"
)
_FACT = re.compile(r"(?P<name>[0-9a-z_]{1,32}) (?P<value>[ 0-9A-Za-z]{1,32})")


class NotADemo(Exception):
    """The bytes are not a demo that this board accepts."""


class Fault(Exception):
    """The demo could not be judged, through no fault of the player."""


@dataclass(frozen=True)
class Demo:
    """A demo without anything after its end, so that equal play means equal bytes."""

    data: bytes
    map: int
    skill: int
    tics: int


@dataclass(frozen=True)
class Level:
    """A finished level: its number, its time as the engine prints it, and counts."""

    map: int
    by_secret_exit: bool
    centiseconds: int
    kills: int
    items: int
    secrets: int

    @property
    def tics(self) -> int:
        """Return the time in tics. A tic is almost three hundredths, so exactly one number of tics fits."""
        return round(self.centiseconds * TICS_PER_S / 100)


def parse_demo(data: bytes) -> Demo:
    """Return the demo of a single player of Doom 1.9, with an end and nothing after it.

    Raises NotADemo for everything else. Layout: "The Unofficial Doom Specs" 1.666, chapter 9, and
    linuxdoom-1.10, g_game.c.
    """
    tics, rest = divmod(len(data) - HEADER_BYTES - 1, TIC_BYTES)
    if len(data) > DEMO_BYTES or tics < 1 or rest:
        raise NotADemo("it is too long, or no header, whole tics and an end")
    version, skill, episode, level, deathmatch, *switches = data[:8]
    if version != VERSION:
        raise NotADemo("it is not of Doom 1.9")
    if skill > HIGHEST_SKILL or episode != 1 or not 1 <= level <= HIGHEST_MAP:
        raise NotADemo("no such skill or map")
    if deathmatch or max(switches) > 1 or data[8:HEADER_BYTES] != ALONE:
        raise NotADemo("it is not of one player who plays alone")
    _check_tics(data[HEADER_BYTES:])
    return Demo(data, level, skill, tics)


def _check_tics(data: bytes) -> None:
    """Raise NotADemo unless the tics end where `data` does, and only play."""
    first = data[::TIC_BYTES]  # the first byte of each tic, then the end
    if first.find(END) != len(first) - 1:
        raise NotADemo("its end is not at its end")
    if any(buttons >= SPECIAL and buttons != PAUSE for buttons in data[3::TIC_BYTES]):
        raise NotADemo("it loads or saves a game")


def without_footer(data: bytes) -> bytes:
    """Return the demo without what ports append: the names of files, and a signature."""
    first = data[HEADER_BYTES::TIC_BYTES]
    tics = first.find(END)
    return data if tics < 0 else data[: HEADER_BYTES + tics * TIC_BYTES + 1]


def answer(demo: Demo, levels: list[Level], analysis: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to a request. A run is over if it finished the map it began on, and no other."""
    level = levels[0] if len(levels) == 1 and levels[0].map == demo.map else None
    stats = {name: int(analysis[engine_name]) for name, engine_name in FROM_ANALYSIS.items()}
    stats["category"] = CATEGORIES.index(analysis["category"])
    stats |= {
        "level_tics": level.tics if level else 0,
        "kills": level.kills if level else 0,
        "items": level.items if level else 0,
        "secrets": level.secrets if level else 0,
        "secret_exit": int(level.by_secret_exit) if level else 0,
    }
    score = level.centiseconds if level else 0
    return {
        "ticks": demo.tics,
        "is_over": level is not None,
        "score": score,
        "stats": stats,
        "checkpoints": [],
    }


def read_levels(text: str) -> list[Level]:
    """Return the levels of a `levelstat.txt`. Raises Fault for a line of another form."""
    levels = []
    for line in text.splitlines():
        match = _LEVEL.fullmatch(line)
        if match is None:
            raise Fault("levelstat.txt is not as expected")
        seconds = int(match["minutes"]) * 60 + int(match["seconds"])
        counts = (int(match[name]) for name in ("kills", "items", "secrets"))
        levels.append(
            Level(int(match["map"]), bool(match["secret"]), seconds * 100 + int(match["hundredths"]), *counts)
        )
    return levels


def read_analysis(text: str) -> Mapping[str, str]:
    """Return the facts of an `analysis.txt` by name. Raises Fault for missing or repeated ones."""
    matches = [_FACT.fullmatch(line) for line in text.splitlines()]
    facts = {match["name"]: match["value"] for match in matches if match}
    if len(facts) != len(matches) or facts.get("category") not in CATEGORIES:
        raise Fault("analysis.txt is not as expected")
    if not all(facts.get(name, "").isdecimal() for name in FROM_ANALYSIS.values()):
        raise Fault("analysis.txt lacks something")
    return facts


class DemoVerifier:
    """Judges demos of the only map in a folder. Raises Fault if map, engine or Freedoom is missing."""

    def __init__(self, files: Path) -> None:
        wads = sorted(files.glob("*.wad"))
        engine = shutil.which("dsda-doom", path=ENGINE_FOLDERS)
        if len(wads) != 1 or engine is None or not IWAD.is_file():
            raise Fault("a map, dsda-doom and freedoom have to be installed")
        self._wad, self._engine = wads[0].resolve(), engine
        self._maps = maps_of(self._wad.read_bytes())

    def judge(self, recording: bytes) -> dict[str, Any]:
        """Return the answer to a request with this demo. Raises NotADemo or Fault."""
        demo = parse_demo(recording)
        if demo.map not in self._maps:
            raise NotADemo("it is of another map")
        with tempfile.TemporaryDirectory() as private:
            folder = Path(private)
            (folder / "run.lmp").write_bytes(demo.data)
            self._play(folder)
            levels = folder / "levelstat.txt"  # written only if a level was finished
            return answer(
                demo,
                read_levels(_read(levels)) if levels.exists() else [],
                read_analysis(_read(folder / "analysis.txt")),
            )

    def _play(self, folder: Path) -> None:
        """Have the engine play `run.lmp` in a folder that is also its home. Raises Fault if that fails."""
        command = [self._engine, "-iwad", str(IWAD), "-file", str(self._wad), *ENGINE_ARGUMENTS]
        try:
            process = subprocess.run(
                command,
                cwd=folder,
                env=ENGINE_ENVIRONMENT | {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=ENGINE_WALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Fault("the engine took too long") from None
        except OSError:
            raise Fault("the engine cannot be started") from None
        if process.returncode:
            raise Fault(f"the engine ended with status {process.returncode}")


def maps_of(wad: bytes) -> frozenset[int]:
    """Return the numbers of the maps (MAPxx) in a PWAD. Raises Fault for other files."""
    if wad[:4] != b"PWAD" or len(wad) < 12:
        raise Fault("the map is not a PWAD")
    count, at = (int.from_bytes(wad[offset : offset + 4], "little") for offset in (4, 8))
    names = (wad[at + 16 * index + 8 : at + 16 * index + 16] for index in range(min(count, len(wad) // 16)))
    matches = (re.fullmatch(rb"MAP(\d\d)\0*", name) for name in names)
    return frozenset(int(match[1]) for match in matches if match)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(REPORT_BYTES + 1)
    except OSError:
        raise Fault(f"the engine wrote no {path.name}") from None
    if len(data) > REPORT_BYTES or not data.isascii():
        raise Fault(f"{path.name} is not as expected")
    return data.decode("ascii")


def reply(verifier: DemoVerifier, line: bytes) -> dict[str, Any]:
    """Return the answer to one line of the worker's."""
    try:
        request = json.loads(line)
        number = request["id"]
        recording = base64.b64decode(request["recording"], validate=True)
    except (ValueError, TypeError, KeyError):
        return {"id": None, "fault": "the request has no recording"}
    return {"id": number, **_judged(verifier, recording)}


def _judged(verifier: DemoVerifier, recording: bytes) -> dict[str, Any]:
    try:
        return verifier.judge(recording)
    except NotADemo:
        return {"malformed": True}
    except Fault as fault:
        return {"fault": str(fault)}


def main() -> int:
    """Answer until the input ends. Return 1 if nothing can be judged here."""
    try:
        verifier = DemoVerifier(Path(os.environ.get("SCOREGATE_FILES", ".")))
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(reply(verifier, line)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
