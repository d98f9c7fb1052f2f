"""Figures beside a plain walk over the log, for drawn decisions of three moderators on both ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import orjson
import pytest

from gateway.edge.moderation.decision_figures import decision_figures, labelled_runs
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.labels import LabelFilter, newest_labels
from gateway.settlement.undoing import inverse_of
from policies.errors import StateConflict
from policies.vocabulary import LATEST_MS, Reason, State
from tests.gateway.test_labels import decide, held, make
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, on_both_ledgers, open_in
from tests.support.thorough import seeds

CHEATS = {"plausible": False, "tool-assisted": True}
"""What codes say of a run; the others say nothing."""
IN_FAVOUR = {
    "approved": True,
    "reinstated": True,
    "rejected-by-moderator": False,
    "revoked-by-moderator": False,
}
MOVES = {
    "held": [("approve", State.PROMOTED, Reason.APPROVED), ("reject", State.REJECTED, Reason.REJECTED_BY_MODERATOR)],
    "promoted": [("revoke", State.REVOKED, Reason.REVOKED_BY_MODERATOR)],
    "revoked": [("reinstate", State.PROMOTED, Reason.REINSTATED)],
    "rejected": [("hold", State.HELD, Reason.HELD_BY_MODERATOR)],
}  # fmt: skip
CODES = {"approve": ["plausible", "other"], "reinstate": ["plausible", "other"], "hold": ["second-look"]}


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def draw(ledger: Ledger, random: Random) -> None:
    """Some decisions on some runs, a few of them undone by whoever."""
    for run in "abcde":
        await held(ledger, run, NOON_MS)
    for step in range(1, 40):
        run, by, at_ms = random.choice("abcde"), random.choice(["mara", "noor", "jo"]), NOON_MS + 1_000 * step
        history = await ledger.read(queries.history_of(run))
        inverse = inverse_of(run, history, actor=f"moderator:{by}", at_ms=at_ms, detail={"decision": "undo"})
        if random.random() < 0.25 and not isinstance(inverse, StateConflict):
            await make(ledger, inverse)
            continue
        kind, to_state, reason = random.choice(MOVES[history[-1]["to"]])
        code = random.choice(CODES.get(kind, ["tool-assisted", "on-request"]))
        await decide(ledger, run, kind, to_state, reason, code, at_ms, by=by)


def undo(mine: list[dict[str, Any]], undone: int, seq: int, actor: str) -> None:
    """What the undone decision had overturned stands again, and it does not."""
    for each in mine:
        if each["by"] == undone:
            each["by"], each["overruler"] = None, None
        if each["seq"] == undone:
            each["by"], each["overruler"] = seq, actor


def walked(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The same figures from the events alone, oldest first."""
    made: Counter[str] = Counter()
    decisions: list[dict[str, Any]] = []
    last_at: dict[str, int] = {}
    waits, pairs, agreed = [], 0, 0
    for seq, run, actor, reason, detail, at_ms in rows:
        said = orjson.loads(detail)
        mine = [each for each in decisions if each["run"] == run]
        if "undoes" in said:
            undo(mine, said["undoes"], seq, actor)
        elif reason in IN_FAVOUR:
            made[reason] += 1
            if mine and mine[-1]["actor"] != actor:
                pairs, agreed = pairs + 1, agreed + (IN_FAVOUR[mine[-1]["reason"]] == IN_FAVOUR[reason])
            for each in mine:
                if each["by"] is None and IN_FAVOUR[each["reason"]] != IN_FAVOUR[reason]:
                    each["by"], each["overruler"] = seq, actor
            if reason in {"approved", "rejected-by-moderator"}:
                waits.append(at_ms - last_at[run])
            cheat = CHEATS.get(said["code"])
            decisions.append(
                {"seq": seq, "run": run, "actor": actor, "reason": reason, "cheat": cheat, "by": None, "overruler": None}
            )  # fmt: skip
        last_at[run] = at_ms
    standing = {
        each["run"]: each["cheat"] for each in decisions if each["by"] is None and each["cheat"] is not None
    }
    overruled = sum(each["overruler"] not in (None, each["actor"]) for each in decisions)
    return {
        "made": dict(made),
        "waits": (len(waits), sorted(waits)[(len(waits) + 1) // 2 - 1] / 1000 if len(waits) >= 10 else None),
        "agreement": (agreed, pairs),
        "overturned": (overruled, len(decisions)),
        "cheats": Counter(standing.values()),
    }


@on_both_ledgers
@pytest.mark.parametrize("seed", seeds(4))
async def test_the_figures_are_those_of_a_walk_over_the_log(ledger: Ledger, store: Store, seed: int):
    """Counts, waits, agreement, what was overturned, and which runs the standing decisions call cheats."""
    await draw(ledger, Random(seed))
    rows = await store.sql("SELECT seq, submission_id, actor, reason, detail, at_ms FROM events ORDER BY seq")
    wanted = walked([tuple(row) for row in rows])
    newest = await ledger.read(newest_labels(LabelFilter(frozenset({"tiny"}), None, 0, LATEST_MS)))
    assert not newest.is_cut
    shown = decision_figures(newest.labels)
    assert wanted["made"] == shown.made
    assert wanted["waits"] == (shown.time_to_decision.of, shown.time_to_decision.median_s)
    assert wanted["agreement"] == (shown.agreement.hits, shown.agreement.of)
    assert wanted["overturned"] == (shown.overturned.hits, shown.overturned.of)
    assert wanted["cheats"] == Counter(run.is_cheat for run in labelled_runs(newest.labels))
