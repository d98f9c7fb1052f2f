"""What surrounds a case: shown as far as the moderator's boards reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.edge.moderation import surroundings
from gateway.ledger import queries
from gateway.ledger.moderation.surroundings import PASSED_OVER
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from policies.vocabulary import Expected, Finding, Reason, Severity, State
from tests.attacks.test_moderation import a_held_run
from tests.support.harness import Harness
from tests.support.ledger import new_submission


def alike(*others: str, reason: Reason = Reason.RECORDING_SIMILAR, value: float = 0.97) -> Finding:
    detail = {"shared": 88.0}
    return Finding(
        reason, value, Expected(at_most=0.8, unit="of inputs"), 1, detail, Severity.FLAG, others=others
    )


async def held(harness: Harness, name: str, *findings: Finding, **facts: Any) -> str:
    new = new_submission(name, state=State.HELD, **({"board": "sprint"} | facts))
    await harness.edge.ledger.append(new._replace(judgement=replace(new.judgement, findings=findings)))
    return name


async def shown(harness: Harness, name: str, *boards: str) -> dict[str, Any]:
    answer = await harness.get(f"/v1/moderation/cases/{name}/surroundings", harness.moderator(*boards))
    assert 200 == answer.status, answer.raw
    return answer.body


async def moderated(harness: Harness, name: str, to_state: State, note: str) -> None:
    board = await harness.edge.catalogue.board("sprint")
    reason = Reason.APPROVED if to_state is State.PROMOTED else Reason.REJECTED_BY_MODERATOR
    at_ms = harness.clock()
    detail = {"note": note, "findings": [{"reason": "recording-similar"}]}
    decision = Decision(
        name, to_state, "moderator:noor", reason, at_ms, frozenset({State.HELD}), detail=detail
    )
    [change] = await settle(harness.edge.ledger, harness.edge.index, board, [decision])
    assert isinstance(change, Change)


async def test_what_findings_name_stands_beside_the_case_with_what_it_shares(harness: Harness):
    """In the order in which findings name it, each with the numbers of those findings alone."""
    await held(harness, "first", player="ada", recording=b"same")
    await held(harness, "second", player="bob", recording=b"other")
    reused = alike("first", reason=Reason.RECORDING_REUSED, value=1)
    await held(harness, "case", alike("second", "first"), reused, player="eve", recording=b"same")
    body = await shown(harness, "case")
    assert [("second", "bob", False), ("first", "ada", True)] == [
        (each["submission"], each["player"], each["has_same_recording"]) for each in body["similar"]
    ]
    of_second, of_first = (each["shares"] for each in body["similar"])
    assert [("recording-similar", 0.97, "of inputs", {"shared": 88.0})] == [
        (each["reason"], each["value"], each["unit"], each["detail"]) for each in of_second
    ]
    assert ["recording-similar", "recording-reused"] == [each["reason"] for each in of_first]


async def test_of_very_many_that_findings_name_the_first_are_shown_with_their_players_names(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Each once and with its own name, none for a player without one."""
    monkeypatch.setattr(surroundings, "NAMED_LIMIT", 3)
    for number in range(4):
        await held(harness, f"run-{number}", player=f"p{number}", recording=b"%d" % number)
        if number < 2:
            add = queries.add_player(f"p{number}", f"Player {number}", now_ms=harness.clock())
            await harness.edge.ledger.write(add)
    await held(harness, "case", alike("run-1", "run-0"), alike("run-1", "run-2", "run-3"), player="p0")
    assert [("run-1", "Player 1"), ("run-0", "Player 0"), ("run-2", None)] == [
        (each["submission"], each["name"]) for each in (await shown(harness, "case"))["similar"]
    ]


async def test_the_players_other_submissions_come_newest_first_without_the_case(harness: Harness):
    for number in range(surroundings.OTHERS + 2):
        await held(harness, f"run-{number:02}", player="ada", score=number)
    await held(harness, "case", player="ada")
    await held(harness, "of-another", player="bob")
    found = [each["submission"] for each in (await shown(harness, "case"))["others"]]
    assert [f"run-{number:02}" for number in range(surroundings.OTHERS + 1, 1, -1)] == found


async def test_decisions_of_colleagues_on_all_of_these_are_told_with_their_notes(harness: Harness):
    """Newest first, without what it found; what a machine decided is no colleague's."""
    await held(harness, "like", player="bob", recording=b"like")
    await held(harness, "before", player="ada")
    await held(harness, "case", alike("like"), player="ada")
    await moderated(harness, "before", State.PROMOTED, "watched it")
    await moderated(harness, "like", State.REJECTED, "a known tool")
    decisions = (await shown(harness, "case"))["decisions"]
    assert [
        ("like", "noor", "rejected", "rejected-by-moderator", "a known tool"),
        ("before", "noor", "promoted", "approved", "watched it"),
    ] == [
        (each["submission"], each["moderator"], each["state"], each["reason"], each["detail"]["note"])
        for each in decisions
    ]
    assert [["note"], ["note"]] == [list(each["detail"]) for each in decisions]


async def test_the_score_is_placed_among_those_of_the_board(harness: Harness):
    """Equal scores count as beaten, as in percentiles."""
    for number in range(5):
        await held(harness, f"run-{number}", player=f"p{number}", score=100 * number)
        await moderated(harness, f"run-{number}", State.PROMOTED, "fine")
    await held(harness, "case", player="eve", score=300)
    body = await shown(harness, "case")
    assert (5, 4) == (body["distribution"]["total"], body["beaten"])
    assert 5 == sum(each["count"] for each in body["distribution"]["bins"])


async def test_a_board_that_cannot_be_read_keeps_nobody_from_the_rest(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    from policies.errors import IndexUnavailable  # noqa: PLC0415

    async def away(*_: Any, **__: Any) -> None:
        raise IndexUnavailable("away")

    await held(harness, "case", player="ada")
    monkeypatch.setattr(surroundings, "histogram_with", away)
    body = await shown(harness, "case")
    assert (None, None, []) == (body["distribution"], body["beaten"], body["others"])


async def test_M02_what_is_on_boards_of_others_is_not_beside_the_case(harness: Harness):
    """Neither submissions nor decisions, though one of all boards sees them."""
    await held(harness, "elsewhere", player="ada", board="vault")
    await held(harness, "case", alike("elsewhere"), player="ada")
    body = await shown(harness, "case", "sprint")
    assert ([], []) == (body["similar"], body["others"])
    body = await shown(harness, "case")
    assert (["elsewhere"], ["elsewhere"]) == tuple(
        [each["submission"] for each in body[name]] for name in ("similar", "others")
    )
    answer = await harness.get("/v1/moderation/cases/case/surroundings", harness.moderator("vault"))
    assert (404, "not-found") == (answer.status, answer.problem)


async def test_a_player_of_many_boards_costs_no_more(harness: Harness):
    """What is passed over to find those in reach is bounded."""
    await held(harness, "first", player="ada")
    for number in range(PASSED_OVER):
        await held(harness, f"vault-{number}", player="ada", board="vault")
    await held(harness, "case", player="ada")
    assert [] == (await shown(harness, "case", "sprint"))["others"]


async def test_M01_surroundings_are_for_moderators(harness: Harness):
    run = await a_held_run(harness)
    path = f"/v1/moderation/cases/{run.id}/surroundings"
    assert (401, 403) == ((await harness.get(path)).status, (await harness.get(path, run.token)).status)
