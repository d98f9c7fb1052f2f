"""A test whose parts are missing is skipped, but not in CI."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.gate import missing

TESTS = Path(__file__).parent


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_what_is_missing_skips_a_test_and_fails_it_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
):
    """The reason says what is missing."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no engine"):
        missing("no engine")


def test_nobody_else_asks_whether_this_is_ci():
    """So that no test can be skipped there by a condition of its own."""
    asking = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if "CI" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value == "CI"
    ]
    assert {"support/gate.py", "test_gate.py"} == set(asking)
