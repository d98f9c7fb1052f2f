"""What is left to chance of a build that may not promote by itself: nothing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from gateway.ledger.judgement.builds import BuildChange, set_build_status
from policies.replaying import BuildStatus
from replay.simulators.all_simulators import AllSimulators
from tests.replay.test_verification_lottery import GENEROUS, judged
from tests.support import boards
from tests.support.boards import BUILD
from tests.support.valkey import ValkeyServer
from tests.support.yard import a_yard


async def test_a_run_of_a_build_that_is_not_simply_allowed_is_always_verified(
    tmp_path: Path, valkey: ValkeyServer
):
    """A provisional build's run that would have been spared is replayed, and waits for a moderator."""
    boards.write_board(tmp_path / "policies", verification=GENEROUS | {"top": 1})
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        with AllSimulators() as simulators:
            for number, (player, points) in enumerate([("ada", 20), ("cy", 6)]):
                await yard.append(player, first=number, player=player, points=points)
            assert ["promoted"] * 2 == await yard.verify("ada", "cy", simulators=simulators)
            await yard.append("spared", first=10, player="cy", points=8)
            assert ["promoted sampled"] == await judged(yard, "spared")
            change = BuildChange("tiny", BUILD, BuildStatus.PROVISIONAL, "mara", "new", yard.clock())
            assert await yard.ledger.write(set_build_status(change))
            await yard.append("late", first=11, player="cy", points=9)
            assert ["held build-provisional"] == await judged(yard, "late", simulators=simulators)
