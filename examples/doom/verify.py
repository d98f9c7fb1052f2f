#!/usr/bin/env python3
"""Plays Doom demos (.lmp) again, with dsda-doom, and says what the engine made of them.

This is the simulator of a board: a worker starts it once and asks it one line of JSON at a time, on standard input; it
answers with one line each. `SCOREGATE_FILES` names the folder with the map, one PWAD; Freedoom is found where Debian
installs it. Whatever is judged here, the engine judges: this file reads the demo's header, bounds what it lets
through, and copies what `-levelstat` and `-analysis` write.

It stands alone, on Python's own library, so that its digest is the digest of all that it does.
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
"""Far more than the longest demo takes (see README.md), and less than the board's own budget."""
ENGINE_ARGUMENTS = (
    *("-noautoload", "-complevel", "2"),  # what Doom 1.9 does, and no files but those that are named
    *("-fastdemo", "run.lmp", "-nodraw", "-nosound", "-nojoy"),
    *("-levelstat", "-analysis"),
)
ENGINE_ENVIRONMENT = {"LC_ALL": "C", "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}

VERSION, END = 109, 0x80
HEADER_BYTES, TIC_BYTES = 13, 4
DEMO_BYTES = 1_048_576
HIGHEST_SKILL, HIGHEST_MAP = 4, 32
ALONE = bytes([0, 1, 0, 0, 0])
"""The end of the header: whose eyes see, and which of the four players are there."""
SPECIAL, PAUSE = 0x80, 0x81
"""Buttons that mean something else: of these only pausing belongs into a run (linuxdoom-1.10, d_event.h)."""

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
"""What the engine calls runs (dsda-doom 0.25.6, dsda/analysis.c); the statistic `category` is the place in this list."""
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
"""Our statistics, and the engine's names for them."""

_LEVEL = re.compile(
    r"MAP(?P<map>\d\d)(?P<secret>s?) - +(?P<minutes>\d+):(?P<seconds>[0-5]\d)\.(?P<hundredths>\d\d) \( *\d+:\d\d\)"
    r" +K: +(?P<kills>-?\d+)/\d+ +I: +(?P<items>\d+)/\d+ +S: +(?P<secrets>\d+)/\d+ *"
)
_FACT = re.compile(r"(?P<name>[0-9a-z_]{1,32}) (?P<value>[ 0-9A-Za-z]{1,32})")


class NotADemo(Exception):
    """The bytes are not a demo that this board takes."""


class Fault(Exception):
    """We could not judge. Says nothing of the player."""


@dataclass(frozen=True)
class Demo:
    """A demo in its one form: nothing behind its end, so that equal play is equal bytes."""

    data: bytes
    map: int
    skill: int
    tics: int


@dataclass(frozen=True)
class Level:
    """A level that was finished: its number, its time as the engine prints it, and what was found in it."""

    map: int
    by_secret_exit: bool
    centiseconds: int
    kills: int
    items: int
    secrets: int

    @property
    def tics(self) -> int:
        """The time that was printed, as the engine counts it. A tic is almost three hundredths, so there is one."""
        return round(self.centiseconds * TICS_PER_S / 100)


def parse_demo(data: bytes) -> Demo:
    """The demo that `data` is: of Doom 1.9, of one player, ended, with nothing behind its end.

    Raises NotADemo for all else. Layout: "The Unofficial Doom Specs" 1.666, chapter 9, and linuxdoom-1.10, g_game.c.
    """
    tics, rest = divmod(len(data) - HEADER_BYTES - 1, TIC_BYTES)
    if len(data) > DEMO_BYTES or tics < 1 or rest:
        raise NotADemo("it is too long, or no header, whole tics and an end")
    version, skill, episode, level, deathmatch, *switches = data[:8]
    if version != VERSION:
        raise NotADemo("it is not of Doom 1.9")
    if skill > HIGHEST_SKILL or episode != 1 or not 1 <= level <= HIGHEST_MAP:
        raise NotADemo("there is no such skill or map")
    if deathmatch or max(switches) > 1 or data[8:HEADER_BYTES] != ALONE:
        raise NotADemo("it is not of one player who plays alone")
    _check_tics(data[HEADER_BYTES:])
    return Demo(data, level, skill, tics)


def _check_tics(data: bytes) -> None:
    """Raises NotADemo unless the tics end where `data` does, and do nothing that is no play."""
    first = data[::TIC_BYTES]  # of each tic, and then the end
    if first.find(END) != len(first) - 1:
        raise NotADemo("its end is not at its end")
    if any(each >= SPECIAL and each != PAUSE for each in data[3::TIC_BYTES]):
        raise NotADemo("it loads or saves a game")


def without_footer(data: bytes) -> bytes:
    """The demo without what ports write behind its end: which files it was recorded with, and a signature."""
    first = data[HEADER_BYTES::TIC_BYTES]
    at = first.find(END)
    return data if at < 0 else data[: HEADER_BYTES + at * TIC_BYTES + 1]


def answer(demo: Demo, levels: list[Level], analysis: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a request. A run is over if it finished the map it began on, and no other."""
    level = levels[0] if len(levels) == 1 and levels[0].map == demo.map else None
    stats = {name: int(analysis[said]) for name, said in FROM_ANALYSIS.items()}
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
    """The levels of a `levelstat.txt`. Raises Fault for a line of any other form."""
    levels = []
    for line in text.splitlines():
        found = _LEVEL.fullmatch(line)
        if found is None:
            raise Fault("levelstat.txt is not as expected")
        seconds = int(found["minutes"]) * 60 + int(found["seconds"])
        counts = (int(found[name]) for name in ("kills", "items", "secrets"))
        levels.append(
            Level(int(found["map"]), bool(found["secret"]), seconds * 100 + int(found["hundredths"]), *counts)
        )
    return levels


def read_analysis(text: str) -> Mapping[str, str]:
    """The facts of an `analysis.txt` by the engine's names. Raises Fault unless all that we need is there, once."""
    matches = [_FACT.fullmatch(line) for line in text.splitlines()]
    facts = {found["name"]: found["value"] for found in matches if found}
    if len(facts) != len(matches) or facts.get("category") not in CATEGORIES:
        raise Fault("analysis.txt is not as expected")
    if not all(facts.get(name, "").isdecimal() for name in FROM_ANALYSIS.values()):
        raise Fault("analysis.txt lacks something")
    return facts


class Verifier:
    """Judges demos of the one map in a folder. Raises Fault if map, engine or Freedoom are not there."""

    def __init__(self, files: Path) -> None:
        wads = sorted(files.glob("*.wad"))
        engine = shutil.which("dsda-doom", path=ENGINE_FOLDERS)
        if len(wads) != 1 or engine is None or not IWAD.is_file():
            raise Fault("a map, dsda-doom and freedoom have to be installed")
        self._wad, self._engine = wads[0].resolve(), engine
        self._maps = maps_of(self._wad.read_bytes())

    def judge(self, recording: bytes) -> dict[str, Any]:
        """The answer to a request with this demo. Raises NotADemo or Fault."""
        demo = parse_demo(recording)
        if demo.map not in self._maps:
            raise NotADemo("it is of another map")
        with tempfile.TemporaryDirectory() as private:
            folder = Path(private)
            (folder / "run.lmp").write_bytes(demo.data)
            self._play(folder)
            levels = folder / "levelstat.txt"  # not written unless a level was finished
            return answer(
                demo,
                read_levels(_read(levels)) if levels.exists() else [],
                read_analysis(_read(folder / "analysis.txt")),
            )

    def _play(self, folder: Path) -> None:
        """Has the engine play `run.lmp` in a folder that is its home, too. Raises Fault if it does not end well."""
        command = [self._engine, "-iwad", str(IWAD), "-file", str(self._wad), *ENGINE_ARGUMENTS]
        try:
            done = subprocess.run(
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
        if done.returncode:
            raise Fault(f"the engine ended with status {done.returncode}")


def maps_of(wad: bytes) -> frozenset[int]:
    """The numbers of the maps (MAPxx) that a PWAD has. Raises Fault for what is no PWAD."""
    if wad[:4] != b"PWAD" or len(wad) < 12:
        raise Fault("the map is not a PWAD")
    count, at = (int.from_bytes(wad[offset : offset + 4], "little") for offset in (4, 8))
    names = (wad[at + 16 * index + 8 : at + 16 * index + 16] for index in range(min(count, len(wad) // 16)))
    found = (re.fullmatch(rb"MAP(\d\d)\0*", name) for name in names)
    return frozenset(int(each[1]) for each in found if each)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(REPORT_BYTES + 1)
    except OSError:
        raise Fault(f"the engine wrote no {path.name}") from None
    if len(data) > REPORT_BYTES or not data.isascii():
        raise Fault(f"{path.name} is not as expected")
    return data.decode("ascii")


def reply(verifier: Verifier, line: bytes) -> dict[str, Any]:
    """The answer to one line of the worker's."""
    try:
        request = json.loads(line)
        number = request["id"]
        recording = base64.b64decode(request["recording"], validate=True)
    except (ValueError, TypeError, KeyError):
        return {"id": None, "fault": "the request has no recording"}
    return {"id": number, **_judged(verifier, recording)}


def _judged(verifier: Verifier, recording: bytes) -> dict[str, Any]:
    try:
        return verifier.judge(recording)
    except NotADemo:
        return {"malformed": True}
    except Fault as fault:
        return {"fault": str(fault)}


def main() -> int:
    """Answers until nothing more is asked; 1 if nothing can be judged here."""
    try:
        verifier = Verifier(Path(os.environ.get("SCOREGATE_FILES", ".")))
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(reply(verifier, line)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
