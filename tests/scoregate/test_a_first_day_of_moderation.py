"""docs/how-to/a-first-day-of-moderation.md, followed to the letter at one edge."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.runtime.settings import Settings
from gateway.steward.seals.sealing import Sealer
from policies.vocabulary import Reason
from tests.support import preloaded
from tests.support.desk import FAR_OUTSIDE, staff, submitted
from tests.support.game import BUILD, arcade, give_up
from tests.support.harness import Harness, running_harness
from tests.support.page import examples

PAGE = "a-first-day-of-moderation.md"
BASE = "http://localhost:8080"
QUEUE = "/v1/moderation/queue"
AS_A_NEWCOMER = replace(FAR_OUTSIDE, reason=Reason.ANOMALY_POPULATION)
KEPT = ("TOKEN", "NOORS_TOKEN")
"""What scripts of the page export."""


class Reader:
    """Somebody who does what the page says, in a shell and in one program."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        self.settings = harness.edge.settings
        self.names: dict[str, Any] = {}
        self.environment = {
            "SCOREGATE_DATA_DIR": str(self.settings.data_dir),
            "SCOREGATE_REDIS_URL": self.settings.redis_url,
            "BASE": harness.url,
        }

    async def shell(self, script: str) -> str:
        """What the commands print; what they export stays."""
        given = (
            os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | self.environment
        )
        ends = "".join(f'\necho "{name}=${{{name}:-}}" >> exported' for name in KEPT)
        with preloaded.at_hand(given) as (more, control):
            process = await asyncio.create_subprocess_exec(
                "bash", "-euo", "pipefail", "-c", script.replace(BASE, self.harness.url) + ends,
                env=given | more, cwd=self.folder, stdout=asyncio.subprocess.PIPE, pass_fds=[control],
            )  # fmt: skip
            said, _ = await process.communicate()
        assert 0 == process.returncode
        lines = (self.folder / "exported").read_text().splitlines()
        self.environment |= dict(line.split("=", 1) for line in lines if not line.endswith("="))
        return said.decode()

    async def program(self, text: str) -> str:
        """What this part of the program prints; its names stay."""
        body = text.replace("os.environ", "environ")
        names = "".join(f"    {name} = names[{name!r}]\n" for name in self.names)
        code = (
            f"async def part(names, environ):\n{names}{textwrap.indent(body, '    ')}\n    return locals()\n"
        )
        said: list[str] = []
        scope: dict[str, Any] = {"print": lambda *words: said.append(f"{' '.join(map(str, words))}\n")}
        exec(compile(code, PAGE, "exec"), scope)
        found = await scope["part"](self.names, self.environment)
        self.names |= {name: value for name, value in found.items() if name not in ("names", "environ")}
        return "".join(said)


async def test_the_page_does_what_it_says(settings: Settings, tmp_path: Path):
    """From the first token to the exported trail; what stands in a shell or a program of the page is run as it stands."""
    demo, token, people, appeal, noors_token, trail, leaving = examples(PAGE)
    start, queue, evidence, decide, undo, revoke, grant, ban, bulk, reverse, figures, events = examples(
        PAGE, language="python"
    )
    assert "scoregate demo\n" == demo  # tests/browser/test_desk_of_the_demo.py goes on from there
    async with running_harness(settings) as harness:
        reader = Reader(harness, tmp_path)
        player = await harness.new_player("Vega")
        vega = harness.edge.tokens.check(player, now_s=0).subject  # type: ignore[union-attr]
        run = give_up(arcade(), 3, 1.0, random.Random(3), 120)
        why: dict[str, Any] = {"findings": (AS_A_NEWCOMER,), "reason": Reason.ANOMALY_POPULATION}
        case = await submitted(harness, vega, 16_840, played=run, build=BUILD, minutes_ago=90, **why)
        reader.environment |= {"PLAYER_TOKEN": player, "SUBMISSION": case}
        await staff(harness, {"admin": {"*": "admin"}})
        await reader.shell(token)
        assert "admin {'*': 'moderator'}\n" == await reader.program(start)
        assert "senior of arcade" in await reader.shell(people)
        assert "1 wait, because of {'anomaly-population': 1}\n" == await reader.program(queue)
        assert "expected at most 4.0\nwould be 1 of all time" in await reader.program(evidence)
        assert reader.names["recording"].startswith(b"SGR")
        assert "tool-assisted" in await reader.program(decide)
        assert "held\n" == await reader.program(undo)
        assert "promoted" == await harness.state_of(case)
        await reader.program(revoke)
        assert '"state":"revoked"' in await reader.shell(appeal)
        await reader.shell(noors_token)
        assert f"{vega} appeals\n" == await reader.program(grant)
        assert "promoted" == await harness.state_of(case)
        assert "1 taken off\n" == await reader.program(ban)
        bots = [await submitted(harness, f"p_bot{number}", 9_000 + number, **why) for number in range(3)]
        said = await reader.program(bulk)
        assert "3 held runs on ['arcade'] podiums: 0\n{'decided': 3}\n" == said
        assert {"rejected"} == {await harness.state_of(each) for each in bots}
        await reader.program(reverse)
        assert {"held"} == {await harness.state_of(each) for each in bots}
        assert "3 wait; {" in await reader.program(figures)
        await Sealer(settings, harness.edge.ledger, clock=lambda: harness.clock() + 3_600_000).step()
        assert "clean: " in await reader.shell(trail)
        assert "noor" in await reader.program(events)
        await reader.shell(leaving)
        assert 401 == (await harness.get(QUEUE, reader.environment["NOORS_TOKEN"])).status
