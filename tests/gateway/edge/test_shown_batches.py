"""Batches as answers show them, and as requests select them, without an edge."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation.batches import _batch_from, _content, _own, _selection_from, batch_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_batches import (
    BatchOnBoard,
    BatchShown,
    NewDecisionBatch,
    NewSelection,
    PodiumChange,
)
from gateway.ledger.moderation.batches import Batch, BatchState
from policies.vocabulary import Reason

HOUR_MS = 3_600_000
NEW = Batch(
    batch_id="b1",
    actor="moderator:mia",
    scopes=("sprint", "vault"),
    selection={
        "player": "ada",
        "not_players": ["mia"],
        "received_since_ms": 0,
        "achieved_until_ms": 1_500,
    },
    action="reject",
    reason=Reason.REJECTED_BY_MODERATOR,
    detail={},
    state=BatchState.SELECTING,
    version=3,
    begin_seq=7,
    created_at_ms=1_000,
    changed_at_ms=2_000,
    due_at_ms=HOUR_MS,
)
FULL = replace(
    NEW,
    detail={"code": "other", "note": "a farm", "message": "not-accepted"},
    looked_at=9,
    items=6,
    preview={
        "boards": [{"board": "vault", "items": 4}],
        "in_cases": 2,
        "left_out": {"decided-since": 1},
        "board_count": 5,
        "podiums": [{"board": "vault", "window": "alltime"}],
        "podium_count": 8,
    },
    outcomes={"decided": 3, "left": 2},
    left_out={"decided-since": 2},
    decided_by="moderator:sam",
    reversed_by="moderator:noor",
)
SHOWN: dict[str, Any] = {
    "batch": "b1",
    "state": "selecting",
    "by": "moderator:mia",
    "action": "reject",
    "scopes": ["sprint", "vault"],
    "selection": {
        "player": "ada",
        "received_since": "1970-01-01T00:00:00.000Z",
        "achieved_until": "1970-01-01T00:00:01.500Z",
    },
    "created_at": "1970-01-01T00:00:01.000Z",
    "changed_at": "1970-01-01T00:00:02.000Z",
    "expires_at": None,
    "detail": None,
    "etag": '"3"',
}


def test_a_batch_that_has_just_begun_shows_what_it_has():
    """Everything that is not known yet is empty, and its reason stands for a code. Whose players are left out is not shown."""
    expected = SHOWN | {
        "code": "rejected-by-moderator",
        "note": "",
        "message": None,
        "applied_by": None,
        "reversed_by": None,
        "looked_at": 0,
        "items": 0,
        "boards": [],
        "in_cases": 0,
        "left_out": {},
        "board_count": 0,
        "podiums": [],
        "podium_count": 0,
        "outcomes": {},
    }
    assert BatchShown(**expected) == batch_shown(NEW)


def test_a_batch_shows_its_preview_and_what_became_of_it():
    """Each number where it belongs. What waits is counted with the outcomes, and the expected is added to what was left."""
    expected = SHOWN | {
        "code": "other",
        "note": "a farm",
        "message": "not-accepted",
        "applied_by": "moderator:sam",
        "reversed_by": "moderator:noor",
        "looked_at": 9,
        "items": 6,
        "boards": [BatchOnBoard(board="vault", items=4)],
        "in_cases": 2,
        "left_out": {"decided-since": 3},
        "board_count": 5,
        "podiums": [PodiumChange(board="vault", window="alltime")],
        "podium_count": 8,
        "outcomes": {"waiting": 1, "decided": 3, "left": 2},
    }
    shown = batch_shown(FULL)
    assert BatchShown(**expected) == shown
    assert ["waiting", "decided", "left"] == list(shown.outcomes)
    assert {"decided": 3, "left": 3} == batch_shown(
        replace(FULL, outcomes={"decided": 3, "left": 3})
    ).outcomes


@pytest.mark.parametrize("state", BatchState)
def test_only_what_waits_to_be_applied_expires(state: BatchState):
    """A preview, and what was refused; a time at which a steward goes on is none. Only a preview expects to leave some."""
    waits = state in {BatchState.PREVIEWED, BatchState.REFUSED}
    is_preview = waits or state in {BatchState.FILLING, BatchState.SELECTING}
    shown = batch_shown(replace(FULL, state=state))
    assert (
        state.value,
        "1970-01-01T01:00:00.000Z" if waits else None,
        {"decided-since": 2 + is_preview},
    ) == (
        shown.state,
        shown.expires_at,
        shown.left_out,
    )
    assert None is batch_shown(replace(FULL, state=state, due_at_ms=None)).expires_at


TOO_MANY = (
    "it selects more than 10000 submissions, which is the most that a batch has: "
    "name a board, a player, a key, a build or a shorter time"
)
UNKNOWN_BOARDS = (
    "some submissions are on boards that no steward knows yet; "
    "they are looked for again until 1970-01-01T01:00:00.005Z, and left then"
)


@pytest.mark.parametrize(
    ("state", "passed", "due_at_ms", "detail"),
    [
        (BatchState.REFUSED, None, 5, TOO_MANY),
        (BatchState.REFUSED, None, None, TOO_MANY),
        (BatchState.PREVIEWED, None, 5, None),
        (BatchState.APPLYING, (["new"], None, 5), 5, UNKNOWN_BOARDS),
        (BatchState.APPLYING, ([], ["new"], 5), 5, UNKNOWN_BOARDS),
        (BatchState.APPLYING, ([], [], 5), 5, None),
        (BatchState.APPLIED, (["new"], None, 5), None, None),
    ],
)
def test_a_batch_says_what_holds_it_up(state: BatchState, passed: Any, due_at_ms: int | None, detail: str):
    """Too large a selection, or boards that are looked for still; nothing else, and nothing once it is through."""
    batch = replace(NEW, state=state, due_at_ms=due_at_ms, preview={"passed": passed} if passed else {})
    assert detail == batch_shown(batch).detail


def test_a_selection_is_stored_as_it_was_asked_for():
    """Each filter under its own name, times as milliseconds, those of 1970 too; what was not asked for is not stored."""
    texts = {"player": "ada", "key": "k1", "build": "1.0", "reason": "velocity-points", "finding": "drift"}
    times = {
        "received_since": "1970-01-01T00:00:00Z",
        "received_until": "1970-01-01T00:00:02Z",
        "achieved_since": "1970-01-01T00:00:03.5Z",
        "achieved_until": "1970-01-01T01:00:00+00:30",
    }
    stored = {"received_since_ms": 0, "received_until_ms": 2_000, "achieved_since_ms": 3_500, "achieved_until_ms": 1_800_000}  # fmt: skip
    assert texts | stored == _selection_from(NewSelection(board="sprint", **texts, **times))
    assert {} == _selection_from(NewSelection(family="track"))


@pytest.mark.parametrize(
    ("selection", "detail"),
    [
        ({"reason": "no-such"}, "selection.reason: there is no such reason; see /docs/reasons"),
        ({"received_since": "1969-12-31T23:59:59.999Z"}, "selection.received_since: is before 1970"),
        ({"received_until": "today"}, "selection.received_until: expected an RFC 3339 instant"),
        ({"achieved_since": "2026-01-01T00:00:00"}, "selection.achieved_since: has no time zone"),
        ({"achieved_until": "2026-01-01T00:00:60Z"}, "selection.achieved_until: leap seconds"),
    ],
)
def test_a_selection_names_real_reasons_and_times(selection: dict[str, str], detail: str):
    """What is refused is named with its field."""
    with pytest.raises(Problem) as refused:
        _selection_from(NewSelection(**selection))
    assert ProblemType.SCHEMA_VIOLATION is refused.value.kind
    assert str(refused.value.detail).startswith(detail)


@pytest.mark.parametrize(
    ("other", "is_the_same"),
    [
        ({"action": "approve"}, False),
        ({"detail": {"code": "other"}}, False),
        ({"scopes": ("sprint",)}, False),
        ({"selection": {"player": "bob"}}, False),
        ({"selection": dict(NEW.selection) | {"not_players": ["sam"]}}, True),
        (
            {"state": BatchState.APPLIED, "version": 9, "items": 4, "created_at_ms": 9, "due_at_ms": None},
            True,
        ),
    ],
)
def test_a_batch_is_the_same_if_the_same_was_asked_for(other: dict[str, Any], *, is_the_same: bool):
    """A repeated request is known by what it decides and on what, not by what became of it or by new players of its sender."""
    assert is_the_same == (_content(NEW) == _content(replace(NEW, **other)))


def test_moderators_are_among_their_own_players():
    """In a fixed order, and once."""
    grants = {"*": ModeratorRole.SENIOR}
    assert ["ada", "mia", "zoe"] == _own(Moderator("mia", grants, frozenset({"zoe", "ada", "mia"})))
    assert ["mia"] == _own(Moderator("mia", grants))


async def test_a_batch_of_everything_is_of_what_its_maker_may_overrule():
    """Each such scope, in order, from now on; a smaller role elsewhere adds none."""
    grants = {"track": ModeratorRole.ADMIN, "vault": ModeratorRole.MODERATOR, "sprint": ModeratorRole.SENIOR}
    edge: Any = SimpleNamespace(clock=lambda: 5_000)
    asked = NewDecisionBatch(
        operation="o1", action="revoke", code="other", note="n", selection=NewSelection()
    )
    batch = await _batch_from(edge, Moderator("mia", grants, frozenset({"zoe"})), asked)
    assert batch == Batch(
        batch_id=batch.batch_id,
        actor="moderator:mia",
        scopes=("sprint", "track"),
        selection={"not_players": ["mia", "zoe"]},
        action="revoke",
        reason=Reason.REVOKED_BY_MODERATOR,
        detail={"decision": "revoke", "code": "other", "note": "n", "message": None, "template": None},
        state=BatchState.SELECTING,
        version=1,
        begin_seq=0,
        created_at_ms=5_000,
        changed_at_ms=5_000,
        due_at_ms=5_000,
    )
