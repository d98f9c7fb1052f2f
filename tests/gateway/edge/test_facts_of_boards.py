"""What readers and games are told of a board: all of its policy that they need, and its builds as they are now."""

from __future__ import annotations

from pathlib import Path

from gateway.ledger.judgement.builds import BuildChange, set_build_status
from gateway.runtime.settings import Settings
from policies.loader import load_boards
from policies.replaying import BuildStatus
from tests.support.game import BUILD
from tests.support.harness import running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies

MEDALS = a_policy(
    "medals",
    title="Medals",
    writes="trusted",
    order="ascending",
    operator="latest",
    windows=["alltime", "season"],
    season="0 0 1 1 *",
    time_zone="Europe/Berlin",
    decimals=2,
    ranks=["dense", "unique"],
    tie_break="fields",
    tie_fields=[{"stat": "silver"}, {"stat": "faults", "order": "ascending"}],
)
PLAYED = a_policy(
    "played",
    tie_break="composite",
    tie_resolution_ms=86_400_000,
    score={"minimum": 0, "maximum": 10**9, "step": 1},
)


async def test_a_board_is_told_by_all_that_its_readers_need(settings: Settings, tmp_path: Path):
    """Order, operator, windows, ties and ranks as the policy has them; a build with its simulator, and blocked once it is."""
    arcade = arcade_policy(verification={"reveal_s": 3600})
    folder = write_policies(tmp_path / "policies", MEDALS, PLAYED, arcade)
    boards = load_boards(folder)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        medals = (await harness.get("/v1/boards/medals")).body
        played = (await harness.get("/v1/boards/played")).body
        before = (await harness.get("/v1/boards/arcade")).body
        change = BuildChange("arcade", BUILD, BuildStatus.BLOCKED, "operator", "it cheats", harness.clock())
        await harness.edge.ledger.write(set_build_status(change))
        await harness.edge.builds.refresh()
        after = (await harness.get("/v1/boards/arcade")).body
    assert {
        "board": "medals",
        "title": "Medals",
        "order": "ascending",
        "operator": "latest",
        "windows": ["alltime", "season"],
        "time_zone": "Europe/Berlin",
        "season": "0 0 1 1 *",
        "decimals": 2,
        "ranks": ["dense", "unique"],
        "tie_break": "fields",
        "tie_fields": ["silver", "faults"],
        "tie_resolutions_ms": {},
        "writes": "trusted",
        "builds": [],
        "ticks_per_second": 60,
        "reveal_s": None,
        "opened": None,
    } == medals
    resolutions = boards["played"].policy.tie_resolutions_ms
    assert {kind.value: ms for kind, ms in resolutions.items()} == played["tie_resolutions_ms"]
    assert played["tie_resolutions_ms"]["alltime"] > 1
    digest = boards["arcade"].simulators[BUILD].digest
    assert [[{"build": BUILD, "status": status, "simulator": digest}] for status in ("allow", "blocked")] == [
        before["builds"],
        after["builds"],
    ]
    assert (3600, 60) == (before["reveal_s"], before["ticks_per_second"])
