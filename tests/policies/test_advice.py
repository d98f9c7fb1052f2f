"""Settings that are right and unwise: each is named, and a sensible policy is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from policies.advice import advice_on
from policies.judging import Modes
from policies.model import Policy
from tests.support.game import BUILD, MODULE
from tests.support.policies import GENEROUS, arcade_policy

ARCADE = arcade_policy()
OFF = dict.fromkeys(Modes.model_fields, "off")
SHADOW = dict.fromkeys(Modes.model_fields, "shadow")


def advice(**changes: Any) -> list[str]:
    return advice_on(Policy.model_validate(ARCADE | changes))


def test_the_bundled_policy_needs_no_advice():
    """The control."""
    assert [] == advice()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"validators": OFF}, "validators: all are off"),
        ({"validators": SHADOW}, "validators: none flags or rejects"),
        ({"anomaly": ARCADE["anomaly"] | {"spread_floor": 50_000}}, "anomaly.threshold: no two scores from"),
        (
            {"anomaly": ARCADE["anomaly"] | {"prior": {"mean": 2500, "spread": 30_000}}},
            "anomaly.prior: even the best possible score, 115400",
        ),
        (
            {"anomaly": ARCADE["anomaly"] | {"threshold": 4.0, "spread_floor": 28_850, "prior": None}},
            "anomaly.threshold: no two scores from",
        ),
        (
            {"order": "ascending", "anomaly": {"threshold": 4.0, "prior": {"mean": 2500, "spread": 1500}}},
            "anomaly.prior: even the best possible score, 0",
        ),
        ({"velocity": {"points_per_second": 200_000}}, "velocity.points_per_second: 200000 allows"),
        (
            {"velocity": {"points_per_second": 120_000}, "score": {"minimum": -115_400, "maximum": 115_400}},
            "velocity.points_per_second: 120000 allows",
        ),
        (
            {"velocity": {"points_per_second": 10}},
            "velocity.points_per_second: at 10 the longest run (120 s)",
        ),
        ({"score": {"minimum": 0, "maximum": 115_405, "step": 10}}, "lead to 115400, not to 115405"),
        ({"run_lifetime_s": 60}, "run_lifetime_s: a ticket expires after 60 s"),
        ({"writes": "trusted"}, "writes: only game servers write here"),
        (
            {"builds": {BUILD: {"simulator": str(MODULE), "status": "blocked"}}},
            "builds: all are blocked",
        ),
        ({"forensics": {}}, "forensics.buttons: name the bits that are buttons"),
        (
            {"forensics": {}, "validators": {"timing": "off", "input_rate": "off"}},
            "forensics.buttons: name the bits that are buttons",
        ),
        ({"limits": GENEROUS | {"address": {"per_minute": 5, "burst": 5}}}, "limits.player: it is above"),
        ({"limits": GENEROUS | {"address": {"per_minute": 600, "burst": 99}}}, "limits.player: it is above"),
    ],
)
def test_what_can_hardly_be_meant_is_told(changes: dict[str, Any], said: str):
    """One sentence, which names the setting."""
    [told] = advice(**changes)

    assert said in told


def test_a_validator_that_is_off_needs_no_advice():
    """What is not asked can find nothing, whatever its numbers are."""
    modes = {"anomaly": "off", "velocity": "off"}
    anomaly = ARCADE["anomaly"] | {"spread_floor": 50_000}

    assert [] == advice(validators=modes, anomaly=anomaly, velocity={"points_per_second": 10})


def test_boards_whose_inputs_nobody_looks_at_need_no_buttons():
    """Recordings of the game's own have no bits that we know, and what is off looks at nothing."""
    off = dict.fromkeys(("timing", "input_rate", "slow_motion_inputs"), "off")
    raw = {"simulator": "process", "recording": "raw", "maximum_ticks": 7200}
    assert [] == advice(forensics={}, validators=off) == advice(forensics={}, replay=raw)


def test_a_build_that_is_blocked_beside_others_needs_no_advice():
    """An old one is blocked all the time; only where none is left can nobody play."""
    builds = {
        BUILD: {"simulator": str(MODULE)},
        "old": {"simulator": str(MODULE), "status": "blocked"},
    }
    assert [] == advice(builds=builds)
