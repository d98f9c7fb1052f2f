"""Every refusal says more than its title: what was expected, or what to do."""

from __future__ import annotations

import ast
import json

from gateway.edge.admission import early_refusals
from tests.support.game import ROOT


def test_no_refusal_of_the_edge_is_without_a_detail():
    """Wherever a problem is made, it is given one."""
    bare = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for file in sorted((ROOT / "gateway" / "edge").rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Problem"
        if len(call.args) < 2 and "detail" not in {each.arg for each in call.keywords}
    ]
    assert [] == bare


def test_a_write_that_is_refused_before_it_is_parsed_says_why():
    """It has the body of those that are refused afterwards."""
    body = json.loads(early_refusals.refusal().partition(b"\r\n\r\n")[2])
    assert "more writes arrive than can be answered in time" == body["detail"]
