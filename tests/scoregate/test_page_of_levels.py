"""Follows docs/how-to/a-board-for-each-level.md to the letter, in one deployment of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.page import PATIENCE_S, Machine, Player, examples, machine_in, player_on, wait_until

PAGE = "a-board-for-each-level.md"
OPEN = "## 2. Open boards"
MAPS = "### Give a board its map"
SIGNED = "### Boards that players open"
SCREEN = "### A level-select screen"
CHANGE = "## 4. Change and end them"
ROLLUPS = "## 5. Rank players over all boards"


class Reader:
    """Somebody who has the page before them, and does what it says on this machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def here(self, text: str) -> str:
        return text.replace("localhost:8080", self.machine.authority)

    def save_policies(self, *headings: str) -> None:
        """Saves each policy below a heading under the name that it gives itself."""
        for text in examples(PAGE, *headings, language="yaml"):
            document = YAML(typ="safe", pure=True).load(text)
            name = document.get("family") or document["board"]
            (self.machine.folder / "policies" / f"{name}.yaml").write_text(text)

    async def run(self, *scripts: str) -> str:
        """What the commands print, in the shell that the page sets up."""
        before = self.machine.log.stat().st_size
        _, set_up, _ = examples(PAGE, "## 1. Describe the family")
        await self.machine.run(self.here("".join((set_up, *scripts))))
        return self.machine.log.read_bytes()[before:].decode()

    async def run_program(self, *more: str, calls: str = "") -> str:
        """What the page's program prints, with more functions in it and more lines at the end of its `main`."""
        program, *_ = examples(PAGE, OPEN, language="python")
        body, run, _ = program.partition("\n\nasyncio.run(main())")
        lines = "".join(f"        {line}\n" for line in calls.splitlines())
        path = self.machine.folder / "tracks.py"
        path.write_text(self.here("\n\n".join((f"{body}{lines}", *more)) + run))
        return await self.run("until python tracks.py; do sleep 0.2; done\n")  # once the edge knows the key


async def boards_of(player: Player, family: str) -> dict[str, tuple[str, str]]:
    answer = await player.client.harness.get(f"/v1/families/{family}/boards")
    return {each["board"]: (each["title"], each["state"]) for each in answer.body["boards"]}


async def scores_on(player: Player, board: str) -> Any:
    answer = await player.client.harness.get(f"/v1/boards/{board}/entries")
    return [(each["player"], each["score"]) for each in answer.body.get("entries", ())]


async def opens_its_boards(reader: Reader) -> None:
    """§2: the key, the program, the shell and the signature of a name."""
    make_key, operate, *_ = examples(PAGE, OPEN)
    table, *_ = examples(PAGE, OPEN, language="csv")
    (reader.machine.folder / "boards.csv").write_text(table)
    await reader.run(make_key)
    assert 2 == (await reader.run_program()).count("opened FamilyBoard(")
    assert 3 == len(re.findall(r" opened  ", await reader.run(operate, *examples(PAGE, OPEN, SIGNED))))


async def changes_its_boards(reader: Reader) -> None:
    """A board with a map of §2, and §4: one board of each fate."""
    (reader.machine.folder / "imola.map").write_bytes(b"a map")
    store, *_ = examples(PAGE, OPEN, MAPS, language="python")
    [end_season] = examples(PAGE, CHANGE, language="python")
    printed = await reader.run_program(end_season, calls=f"{store}await end_season(server)")
    assert 3 == printed.count("changed FamilyBoard(")


async def test_a_newcomer_gets_there_by_the_page_alone(tmp_path: Path):
    """Its policies, commands and programs do what it says, in its order, with nothing added but the port."""
    with machine_in(tmp_path) as machine:
        reader = Reader(machine)
        start, *_ = examples(PAGE, "## 1. Describe the family")
        reader.save_policies("## 1. Describe the family")
        served = machine.start(start)
        try:
            await wait_until(machine.is_answering, machine)
            async with player_on(machine) as player:
                await opens_its_boards(reader)
                await follows_on(reader, player)
        finally:
            os.killpg(served.pid, signal.SIGINT)
            await asyncio.to_thread(served.wait, PATIENCE_S)


async def follows_on(reader: Reader, player: Player) -> None:
    """§3 to §5, and the challenge of the day."""
    listed = await reader.run(*examples(PAGE, "## 3. Use them"))
    assert all(f'"{board}"' in listed for board in ("track.monza", "track.mugello", "p_ada"))
    [shown] = map(json.loads, examples(PAGE, "## 3. Use them", SCREEN, language="json"))
    standings = (await player.client.harness.get("/v1/families/track/players/p_ada/standings?limit=100")).body
    assert (set(shown), set(shown["standings"][0])) == (set(standings), set(standings["standings"][0]))
    assert (["track.monza", "track.spa"], shown["next"]) == (
        [each["board"] for each in standings["standings"]],
        standings["next"],
    )

    await changes_its_boards(reader)
    titles = {"monza": "Monza GP", "spa": "Spa", "imola": "Imola", "suzuka": "Suzuka", "mugello": "Mugello"}
    opened = {f"track.{name}": (title, "open") for name, title in titles.items()}
    assert opened == await boards_of(player, "track")

    reader.save_policies(OPEN)
    reader.save_policies(ROLLUPS)
    load, *_ = examples(PAGE, ROLLUPS)
    assert '"board":"world"' in await reader.run(
        load, "scoregate board refold league\n", "scoregate board refold fastest\n"
    )

    async def is_all_there() -> bool:
        points = [await scores_on(player, board) for board in ("world", "league")]
        is_today = any(name.startswith("daily.") for name in await boards_of(player, "daily"))
        return is_today and [[("p_ada", 50)], [("p_ada", 200)]] == points

    await wait_until(is_all_there, reader.machine)
    assert ["p_ada"] == [name for name, _ in await scores_on(player, "fastest")]
