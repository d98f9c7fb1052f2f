"""What `bench.guard` says of counted instructions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from bench import guard
from bench.guard import compared


def test_GU01_a_path_that_costs_a_tenth_more_or_less_is_named() -> None:
    """Within a tenth nothing is said; beyond it, each path is named with the counted and the recorded figure."""
    counted = {"submission": 1_099, "read": 1_101, "verdict": 899}
    faults = compared(counted, dict.fromkeys(counted, 1_000))

    assert {"read", "verdict"} == set(faults)
    assert "1,101 instructions, +10%" in faults["read"]
    assert "899 instructions, -10%" in faults["verdict"]


RECORDED = f'surroundings = "{guard.surroundings()}"\n[instructions]\nsubmission = 100\nread = 100\n'


@pytest.mark.parametrize(
    ("rounds", "status", "asked"),
    [
        ([{"submission": 100, "read": 109}], 0, 1),
        ([{"submission": 120, "read": 100}, {"submission": 120}, {"submission": 105}], 0, 3),
        ([{"submission": 120, "read": 80}, {"submission": 105, "read": 80}, {"read": 80}], 1, 3),
    ],
)
def test_GU02_a_path_fails_if_every_count_of_it_is_beyond_a_tenth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rounds: list[dict[str, int]], status: int, asked: int
) -> None:
    """Paths that were beyond it are counted again, and those alone, three times in all."""
    (recorded := tmp_path / "recorded.toml").write_text(RECORDED)
    seen: list[list[str]] = []

    def counted(paths: Iterable[str]) -> dict[str, int]:
        seen.append(list(paths))
        return rounds[len(seen) - 1]

    monkeypatch.setattr(guard, "PATHS", ["submission", "read"])
    monkeypatch.setattr(guard, "RECORDED", recorded)
    monkeypatch.setattr(guard, "_counted", counted)
    with pytest.raises(SystemExit) as ended:
        guard._check()

    assert (status, asked) == (ended.value.code, len(seen))
    assert [sorted(each) for each in rounds] == [sorted(each) for each in seen]
