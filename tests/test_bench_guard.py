"""What `bench.guard` says of counted instructions."""

from __future__ import annotations

from bench.guard import compared


def test_GU01_a_path_that_costs_a_tenth_more_or_less_is_named():
    """Within a tenth nothing is said; beyond it, each path is named with the counted and the recorded figure."""
    counted = {"submission": 1_099, "read": 1_101, "verdict": 899}
    faults = compared(counted, dict.fromkeys(counted, 1_000))

    assert ["read", "verdict"] == [fault.partition(":")[0] for fault in faults]
    assert "1,101 instructions, +10%" in faults[0]
    assert "899 instructions, -10%" in faults[1]
