"""Writes a new policy file, with a comment at each setting that a studio needs to change it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from policies.board import Board
from policies.choices import Writes
from policies.document import read_document
from policies.errors import PolicyError, SettingsError
from policies.family import Family
from policies.family_policy import OpenedBy
from policies.fields import SortOrder
from policies.loader import load_policy
from policies.seeds import SeedOf
from policies.vocabulary import SimulatorKind
from scoregate.policy_answers import NewFamily, NewPolicy, NewReplay

_KINDS: Final = {".wasm": SimulatorKind.WASM, ".py": SimulatorKind.PLUGIN}
_WRITES: Final = {
    Writes.VERIFIED: "Players write, and a run counts once its replay gives what it claims.",
    Writes.OPEN: "Players write without a replay, so each run waits for a moderator "
    "(`scoregate token moderator NAME`).",
    Writes.TRUSTED: "Registered game servers write, and nobody else (`scoregate key add`).",
}
_OPENED_BY: Final = {
    OpenedBy.SERVERS: "Registered game servers open boards.",
    OpenedBy.PLAYERS: "The first run of a player on a board opens it, so many times in an hour.",
    OpenedBy.BOTH: "Registered game servers open boards, and so do players, by their first run.",
}


def kind_of(simulator: Path) -> SimulatorKind:
    """Return the kind of simulator by its file's suffix; without a known one it is a program."""
    return _KINDS.get(simulator.suffix, SimulatorKind.PROCESS)


def write_policy(file: Path, board: NewPolicy) -> Board | Family:
    """Write the file and return its board or family.

    Raises SettingsError or PolicyError, and leaves no file then.
    """
    try:
        # A simulator's path may have bytes that are no text.
        output = file.open("x", encoding="utf-8", errors="surrogateescape")
    except FileExistsError:
        raise SettingsError(f"{file} is there already, and is not overwritten") from None
    except OSError as error:
        raise SettingsError(f"{file}: cannot be written: {error.strerror}") from None
    try:
        with output:
            output.write("\n".join(_lines(board, file)) + "\n")
        return load_policy(read_document(file))
    except OSError as error:
        file.unlink()
        raise SettingsError(f"{file}: cannot be written: {error.strerror}") from None
    except PolicyError:
        file.unlink()
        raise


def _lines(board: NewPolicy, file: Path) -> Iterator[str]:
    kind = "family of boards" if board.family else "board"
    yield f"# A {kind} of Scoregate. Settings that are left out have defaults: see docs/reference/policy.md."
    yield f"# `scoregate policy check {file.name}` says what this file means."
    yield f"{'family' if board.family else 'board'}: {json.dumps(board.name)}"
    yield f"title: {json.dumps(board.title, ensure_ascii=False)}"
    yield ""
    if board.family:
        yield from _family(board.name, board.family)
    yield f"# {_WRITES[board.writes]}"
    yield f"writes: {board.writes.value}"
    yield ""
    first = (
        "Low scores rank first, as times do."
        if board.order is SortOrder.ASCENDING
        else "High scores rank first."
    )
    yield f"# {first} `operator` says what counts of a player's scores: best, latest, sum, count."
    yield f"order: {board.order.value}"
    yield "operator: best"
    yield ""
    yield from _score(board)
    yield "# The spans of time the board is kept for. Days, weeks and months begin at 00:00 in `time_zone`."
    yield f"windows: [{', '.join(board.windows)}]"
    yield "time_zone: UTC"
    if board.replay:
        yield from _replay(board.replay, file.parent)
    if board.writes is not Writes.TRUSTED:
        yield from _hints(board)


def _family(name: str, family: NewFamily) -> Iterator[str]:
    yield f"# Its boards are called {name}.<name>. Each setting of this file holds for all; a board may"
    yield "# narrow the bounds. `names` is a pattern or a list for what follows the dot; otherwise any."
    yield f"names: {json.dumps(family.names)}" if family.names else '# names: "[a-z]{1,20}"'
    yield f"# {_OPENED_BY[family.opened_by]}"
    yield f"opened_by: {family.opened_by.value}"
    if family.opened_by is not OpenedBy.SERVERS:
        yield "opening: {player_per_hour: 10, address_per_hour: 50, per_hour: 1000}"
    if family.seed is SeedOf.BOARD:
        yield "# All runs of a board have one seed. A stolen recording replays then, so likeness is flagged."
        yield "seed: board"
        yield "validators: {recording_reuse: flag, similarity: flag}"
    yield ""


def _score(board: NewPolicy) -> Iterator[str]:
    if board.maximum is None:
        yield "# Without bounds a score is any whole number that fits, 2^53 - 1 either way. To narrow it:"
        yield "# score: {minimum: 0, maximum: 1000000}"
    else:
        yield "# The possible scores. Claims outside are refused; the closer, the less a cheat can claim."
        yield f"score: {{minimum: {board.minimum}, maximum: {board.maximum}}}"
    yield ""


def _replay(replay: NewReplay, folder: Path) -> Iterator[str]:
    path = os.path.relpath(replay.simulator.resolve(), folder.resolve())
    kind = kind_of(replay.simulator)
    yield ""
    yield "# The builds of the game that may play, each with its simulator, a path relative to this file."
    yield "builds:"
    yield f"  {json.dumps(replay.build)}: {{simulator: {json.dumps(path, ensure_ascii=False)}}}"
    yield ""
    yield "# How a recording is played again. `scoregate sim check` says whether a simulator is reliable, and"
    yield "# which budget to set; `stats` names the statistics that it returns, in their order."
    yield "replay:"
    yield f"  simulator: {kind.value}"
    yield f"  ticks_per_second: {replay.ticks_per_second}"
    yield f"  maximum_ticks: {replay.maximum_ticks}"
    yield "  stats: []"
    if replay.buttons:
        yield ""
        yield "# Which bits of an input are buttons: what hands can do is told by these."
        yield f"forensics: {{buttons: {2**replay.buttons - 1}}}"


def _hints(board: NewPolicy) -> Iterator[str]:
    yield ""
    yield "# How often a player and an address may send, and how many runs a player may have open."
    yield "limits:"
    yield "  player: {per_minute: 20, burst: 10}"
    yield "  address: {per_minute: 600, burst: 120}"
    yield "  open_runs: 5"
    if board.order is SortOrder.DESCENDING:
        yield ""
        yield "# The most points that a second of play can give. Faster runs are rejected, so be generous."
        yield "# velocity: {points_per_second: 1000}"
    yield ""
    yield "# What you expect of a score before there are any: newcomers far above it wait for a moderator."
    yield "# anomaly: {prior: {mean: 2500, spread: 3000}}"
