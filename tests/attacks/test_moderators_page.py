"""What docs/how-to/moderate.md shows of answers is what a moderator gets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support.attack import accept
from tests.support.harness import running_harness
from tests.support.policies import arcade_policy, write_policies

WHY = {"code": "other", "note": "watched the recording, it is fine"}
MODERATE = Path(__file__).parents[2] / "docs" / "how-to" / "moderate.md"
SAME = (
    "board",
    "state",
    "reason",
    "meaning",
    "build",
    "validator",
    "severity",
    "unit",
    "sample_size",
    "code",
)
"""What the sample of the page has in common with every newcomer's run that is held on this board."""


def shape(value: Any, name: str = "") -> Any:
    """An answer without what differs from run to run: its names in their order, its kinds of values, and what is the same."""
    if isinstance(value, dict):
        return [(key, shape(each, key)) for key, each in value.items()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return value if name in SAME else type(value)


async def test_N09_a_moderator_gets_what_the_page_shows(settings: Settings, sandbox: Sandbox):
    """Both samples, by a real run of the kind that they show: names, order, kinds of values, and words."""
    texts = re.findall(r"```json\n(.*?)^```", MODERATE.read_text(), re.MULTILINE | re.DOTALL)
    [shown, shown_decision] = map(json.loads, texts)
    believed = {"threshold": 4.0, "spread_floor": 1, "prior": {"mean": 0.0, "spread": 1.0}}
    folder = write_policies(settings.data_dir / "believed", arcade_policy(anomaly=believed))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        run, claim = await harness.played()
        await accept(harness, harness.signed(run, claim))
        await harness.verify(run.id, sandbox=sandbox)
        assert 1 == await harness.steward().assess_cases()
        answer = (await harness.get("/v1/moderation/queue?limit=25", harness.moderator())).body
        decided = await harness.post(f"/v1/moderation/cases/{run.id}/approve", WHY, harness.moderator())
    assert shape(shown) == shape(answer)
    assert list(claim["stats"]) == list(shown["cases"][0]["stats"])
    assert shape(shown_decision) == shape(decided.body)
