"""Writes the scripted demos of this example as a player's port would record them, the same bytes every time.

    python examples/doom/demos.py [--output FOLDER]

A demo (.lmp) of Doom 1.9 is a header of 13 bytes, four bytes for each tic, and 0x80. The layout is the one
that `verify.py` reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "demos"

VERSION, END = 109, 0x80
ULTRA_VIOLENCE = 3
RUN, TURBO = 50, 100
"""Forward speeds of a tic: a keyboard's, and a turbo of 200 percent."""
LEFT, BACK, TOWARDS_SOLDIER = 64, 128, 245
"""Turns to the left, in 256ths of a whole one."""
FIRE, USE = 1, 2


@dataclass(frozen=True)
class GameSettings:
    """Settings of the game in a demo's header."""

    skill: int = ULTRA_VIOLENCE
    map: int = 1
    respawn: bool = False
    fast: bool = False
    no_monsters: bool = False


def demo(tics: Iterable[bytes], settings: GameSettings | None = None) -> bytes:
    """Return the demo of a single player."""
    game = settings or GameSettings()
    switches = (game.respawn, game.fast, game.no_monsters)
    header = bytes([VERSION, game.skill, 1, game.map, 0, *switches, 0, 1, 0, 0, 0])
    return header + b"".join(tics) + bytes([END])


def hold(tics: int, forward: int = 0, *, side: int = 0, turn: int = 0, buttons: int = 0) -> list[bytes]:
    """Return the same input for a number of tics. Forward and side go from -127 to 127."""
    return [bytes([forward & 0xFF, side & 0xFF, turn, buttons])] * tics


def straight(speed: int = RUN, *, run_tics: int = 67) -> list[bytes]:
    """Run from the start to the switch, past everything."""
    return [*hold(run_tics, speed), *hold(1, buttons=USE), *hold(9)]


def thorough() -> list[bytes]:
    """Take the secret, every kill and every item, then use the switch."""
    to_the_alcove = [*hold(29, RUN), *hold(20), *hold(1, turn=LEFT), *hold(10, RUN), *hold(20)]
    back = [*hold(1, turn=BACK), *hold(10, RUN), *hold(20), *hold(1, turn=LEFT)]
    shots = [*hold(1, turn=TOWARDS_SOLDIER), *(hold(1, buttons=FIRE) + hold(24)) * 4]
    return [*to_the_alcove, *back, *shots, *hold(1, turn=256 - TOWARDS_SOLDIER), *straight(run_tics=40)]


def reborn() -> list[bytes]:
    """Wake the soldier, die and start again, which restarts the level's clock."""
    death = [*hold(36, RUN), *hold(1, buttons=FIRE), *hold(700)]
    return [*death, *hold(1, buttons=USE), *hold(9), *straight()]


def demos() -> Mapping[str, bytes]:
    """Return every demo by name."""
    return {
        "straight": demo(straight()),
        "slower": demo([*hold(35), *straight()]),
        "thorough": demo(thorough()),
        "turbo": demo(straight(TURBO, run_tics=45)),
        "reborn": demo(reborn()),
        "respawn": demo(straight(), GameSettings(respawn=True)),
        "no-monsters": demo(straight(), GameSettings(no_monsters=True)),
        "unfinished": demo(straight()[:40]),
    }


def main() -> None:
    """Write the demos."""
    parser = argparse.ArgumentParser(description="Write the demos of the Doom example.")
    parser.add_argument("--output", type=Path, default=FOLDER)
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for name, data in demos().items():
        (output / f"{name}.lmp").write_bytes(data)
        print(output / f"{name}.lmp")


if __name__ == "__main__":
    main()
