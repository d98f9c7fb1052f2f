"""Batches over HTTP: who may make, see, apply and reverse them, and what else is refused."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from gateway.edge.auth.moderators import ModeratorRole
from gateway.ledger import queries, schema
from gateway.ledger.moderation.claims import CLAIM_MS
from gateway.ledger.transaction import Query
from gateway.settlement import batch_steps
from gateway.settlement import batches as settlement_batches
from policies.vocabulary import Expected, Finding, Reason, Severity, State
from tests.support.harness import Answer, Harness
from tests.support.ledger import new_submission

PATH = "/v1/moderation/batches"


async def held(
    harness: Harness, *names: str, board: str = "sprint", player: str = "ada", **facts: Any
) -> None:
    for name in names:
        new = new_submission(name, board=board, player=player, state=State.HELD, recording=None, **facts)
        await harness.edge.ledger.append(new)


def a_body(**changes: Any) -> dict[str, Any]:
    return {
        "operation": secrets.token_hex(8),
        "action": "reject",
        "code": "other",
        "note": "all of one farm",
        "selection": {"board": "sprint"},
    } | changes


async def made(harness: Harness, *, token: str | None = None, **changes: Any) -> Answer:
    return await harness.post(PATH, a_body(**changes), token or harness.moderator())


async def turned(harness: Harness, batch: str, turn: str, token: str | None = None) -> Answer:
    return await harness.post(f"{PATH}/{batch}/{turn}", None, token or harness.moderator())


async def states(harness: Harness, *names: str) -> list[str]:
    found = [await harness.edge.ledger.read(queries.submission(name)) for name in names]
    return [each.state.value for each in found if each]


async def test_a_batch_is_previewed_applied_and_reversed(harness: Harness):
    """The preview says what it will decide; then that is decided, and taken back, each once."""
    await held(harness, "one", "two")
    await held(harness, "three", board="vault", player="bob")
    body = a_body(selection={})
    first = await harness.post(PATH, body, harness.moderator())
    assert (201, "previewed", 3, 2) == (
        first.status,
        first.body["state"],
        first.body["items"],
        first.body["board_count"],
    )
    assert {"waiting": 3} == first.body["outcomes"]
    again = await harness.post(PATH, body, harness.moderator())
    assert ("true", first.body) == (again.headers["Idempotency-Replayed"], again.body)
    other = await harness.post(PATH, body | {"note": "of another"}, harness.moderator())
    assert "idempotency-mismatch" == other.problem
    batch = first.body["batch"]

    applied = await turned(harness, batch, "apply")
    assert (200, "applied", {"decided": 3}) == (
        applied.status,
        applied.body["state"],
        applied.body["outcomes"],
    )
    assert ["rejected"] * 3 == await states(harness, "one", "two", "three")
    [*_, event] = await harness.edge.ledger.read(queries.history_of("one"))
    assert ("moderator:mara", "rejected-by-moderator") == (event["actor"], event["reason"])
    assert {"batch": batch, "code": "other", "note": "all of one farm"}.items() <= event["detail"].items()
    page = await harness.get(f"{PATH}/{batch}?limit=2", harness.moderator())
    rest = await harness.get(f"{PATH}/{batch}?limit=2&cursor={page.body['next']}", harness.moderator())
    shown = [each["submission"] for each in (*page.body["items"], *rest.body["items"])]
    assert (["one", "two", "three"], None) == (shown, rest.body["next"])

    taken_back = await turned(harness, batch, "reverse")
    assert ("reversed", {"reversed": 3}) == (taken_back.body["state"], taken_back.body["outcomes"])
    assert ["held"] * 3 == await states(harness, "one", "two", "three")
    again = await turned(harness, batch, "reverse")
    assert "true" == again.headers["Idempotency-Replayed"]
    assert "state-conflict" == (await turned(harness, batch, "abandon")).problem
    listed = await harness.get(PATH, harness.moderator())
    assert [batch] == [each["batch"] for each in listed.body["batches"]]


async def test_a_cursor_is_of_one_batch(harness: Harness):
    """The place in the items of another batch is refused."""
    await held(harness, "one", "two")
    here, other = [(await made(harness)).body["batch"] for _ in range(2)]
    cursor = (await harness.get(f"{PATH}/{here}?limit=1", harness.moderator())).body["next"]
    pages = [
        await harness.get(f"{PATH}/{each}?cursor={cursor}", harness.moderator()) for each in (here, other)
    ]
    assert [(200, ""), (422, "schema-violation")] == [(page.status, page.problem) for page in pages]


async def test_M03_a_preview_is_applied_as_it_was_seen(harness: Harness):
    """Without its ETag 428, with another 412; what a colleague decided meanwhile stays, and is said."""
    await held(harness, "one", "two")
    batch = (await made(harness)).body["batch"]
    path, token = f"{PATH}/{batch}/apply", harness.moderator()
    for version, problem in ((None, "precondition-required"), ('"1"', "precondition-failed")):
        headers = {"Authorization": f"Bearer {token}"} | ({"If-Match": version} if version else {})
        async with harness.session.post(harness.url + path, headers=headers) as response:
            refused = await response.json()
        assert refused["type"].endswith(problem)
    decision = {"code": "plausible"}
    colleague = harness.moderator(name="noor")
    assert 200 == (await harness.post("/v1/moderation/cases/one/approve", decision, colleague)).status
    applied = await turned(harness, batch, "apply")
    assert {"decided": 1, "overtaken": 1} == applied.body["outcomes"]
    assert {"decided-since": 1} == applied.body["left_out"]
    assert ["promoted", "rejected"] == await states(harness, "one", "two")


async def test_M01_only_seniors_make_and_apply_batches(harness: Harness):
    """Smaller roles read them; players and strangers get nothing."""
    await held(harness, "one")
    batch = (await made(harness)).body["batch"]
    for role, may_read in ((ModeratorRole.VIEWER, True), (ModeratorRole.MODERATOR, True)):
        token = harness.moderator(name=f"a-{role.value}", role=role)
        assert "scope-forbidden" == (await made(harness, token=token)).problem
        for turn in ("apply", "reverse", "abandon"):
            assert "scope-forbidden" == (await turned(harness, batch, turn, token)).problem
        assert may_read is (200 == (await harness.get(f"{PATH}/{batch}", token)).status)
    assert 401 == (await harness.post(PATH, a_body())).status
    assert ["held"] == await states(harness, "one")


async def test_M02_a_batch_beyond_ones_boards_is_not_there(harness: Harness):
    """Not in the list, not by its id; and all in one's scope is no board of others."""
    await held(harness, "one")
    await held(harness, "two", board="vault")
    everywhere = (await made(harness, selection={})).body["batch"]
    here = harness.moderator("sprint", name="noor")
    own = await made(harness, token=here, selection={})
    assert (1, ["sprint"]) == (own.body["items"], own.body["scopes"])
    assert "not-found" == (await made(harness, token=here, selection={"board": "vault"})).problem
    assert 404 == (await harness.get(f"{PATH}/{everywhere}", here)).status
    for turn in ("apply", "reverse", "abandon"):
        assert 404 == (await turned(harness, everywhere, turn, here)).status
    listed = await harness.get(PATH, here)
    assert [own.body["batch"]] == [each["batch"] for each in listed.body["batches"]]
    assert ["held", "held"] == await states(harness, "one", "two")


async def test_a_page_of_batches_passes_over_what_is_beyond_ones_boards(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """So far, and then it is short with a `next`: pages are not empty for those whose boards have few."""
    here, own = harness.moderator("sprint", name="noor"), []
    for number in range(5):  # the order of batches is that of the events before them
        await held(harness, f"run-{number}")
        token, selection = (here, {"board": "sprint"}) if number < 2 else (None, {})
        batch = (await made(harness, token=token, selection=selection)).body["batch"]
        own += [batch] if number < 2 else []
    first = (await harness.get(f"{PATH}?limit=1", here)).body
    second = (await harness.get(f"{PATH}?limit=1&cursor={first['next']}", here)).body
    assert own[::-1] == [each["batch"] for page in (first, second) for each in page["batches"]]
    monkeypatch.setattr("gateway.edge.moderation.batches.PAGE_LIMIT", 1)
    monkeypatch.setattr("gateway.edge.moderation.batches._PASSED_OVER", 1)
    short = (await harness.get(f"{PATH}?limit=1", here)).body
    assert ([], True) == (short["batches"], bool(short["next"]))


async def test_M05_nobody_decides_on_their_own_by_a_batch(harness: Harness):
    """Not in one of their own, and not by applying a colleague's."""
    await held(harness, "one", player="mara")
    await held(harness, "two", player="noor")
    own = await made(harness)
    assert (1, {"not-yours": 1}) == (own.body["items"], own.body["left_out"])
    noor = harness.moderator(name="noor")
    applied = await turned(harness, own.body["batch"], "apply", noor)
    assert ({"barred": 1}, {"not-yours": 1}) == (applied.body["outcomes"], applied.body["left_out"])
    assert ["held", "held"] == await states(harness, "one", "two")


async def test_M05_nobody_takes_back_what_a_batch_decided_on_their_own(harness: Harness):
    """The rest of the batch is reversed; theirs stays as a colleague decided it."""
    await held(harness, "one", player="noor")
    await held(harness, "two")
    batch = (await made(harness)).body["batch"]
    assert {"decided": 2} == (await turned(harness, batch, "apply")).body["outcomes"]
    assert 200 == (await turned(harness, batch, "reverse", harness.moderator(name="noor"))).status
    assert ["rejected", "held"] == await states(harness, "one", "two")


async def test_a_moderator_has_so_many_unfinished_batches_and_no_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The next is refused until one is applied or abandoned; the same again is answered, and a colleague has their own."""
    monkeypatch.setattr(settlement_batches, "MOST_UNFINISHED", 2)
    await held(harness, "one")
    bodies = [a_body(), a_body()]
    first, _ = [await harness.post(PATH, body, harness.moderator()) for body in bodies]
    refused = await made(harness)
    assert ("state-conflict", True) == (refused.problem, "not finished" in refused.body["detail"])
    assert 201 == (await harness.post(PATH, bodies[0], harness.moderator())).status
    assert 201 == (await made(harness, token=harness.moderator(name="noor"))).status
    assert "applied" == (await turned(harness, first.body["batch"], "apply")).body["state"]
    assert 201 == (await made(harness)).status


async def test_what_is_no_selection_is_refused(harness: Harness):
    """By the field that is wrong; a board that is not there is not found."""
    for changes, said in (
        ({"action": "hold"}, "action"),
        ({"code": "plausible"}, "code"),
        ({"note": ""}, "note"),
        ({"selection": {"board": "sprint", "family": "track"}}, "selection"),
        ({"selection": {"reason": "because"}}, "selection.reason"),
        ({"selection": {"received_since": "yesterday"}}, "selection.received_since"),
        ({"selection": {"colour": "red"}}, "selection.colour"),
    ):
        answer = await made(harness, **changes)
        assert ("schema-violation", True) == (answer.problem, answer.body["detail"].startswith(said)), (
            answer.raw
        )
    for selection in ({"board": "none"}, {"family": "none"}):
        assert "not-found" == (await made(harness, selection=selection)).problem


async def test_a_selection_by_finding_finds_what_the_validator_said(harness: Harness):
    """By its validator or its reason."""
    new = new_submission("one", board="sprint", state=State.HELD, recording=None)
    finding = Finding(
        Reason.ANOMALY_PLAYER, 5.0, Expected(at_most=4.0, unit="deviations"), severity=Severity.FLAG,
        validator="anomaly",
    )  # fmt: skip
    await harness.edge.ledger.append(new._replace(judgement=replace(new.judgement, findings=(finding,))))
    await held(harness, "two")
    for wanted, items in (("anomaly", 1), ("anomaly-player", 1), ("velocity", 0)):
        assert items == (await made(harness, selection={"finding": wanted})).body["items"]


async def test_a_large_batch_is_a_stewards(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """The answer comes before it is done; the steward previews and applies it, and lets it go once it is abandoned."""
    monkeypatch.setattr(batch_steps, "AT_ONCE", 1)
    monkeypatch.setattr(batch_steps.BatchSteps.follow, "__kwdefaults__", {"steps": 1})
    await held(harness, "one", "two")
    steward = harness.steward()
    answer = await made(harness)
    assert "selecting" == answer.body["state"]
    while await steward.keep_batches():
        pass
    applying = await turned(harness, answer.body["batch"], "apply")
    while await steward.keep_batches():
        pass
    shown = await harness.get(f"{PATH}/{applying.body['batch']}", harness.moderator())
    assert ("applied", {"decided": 2}) == (shown.body["batch"]["state"], shown.body["batch"]["outcomes"])
    await held(harness, "three")
    left = (await made(harness)).body["batch"]
    assert "abandoned" == (await turned(harness, left, "abandon")).body["state"]
    while await steward.keep_batches():
        pass
    assert 404 == (await harness.get(f"{PATH}/{left}", harness.moderator())).status
    assert ["held"] == await states(harness, "three")


async def test_a_case_that_a_colleague_was_in_long_ago_is_decided_like_any_other(harness: Harness):
    """A claim ends by itself, also for the preview of a batch."""
    await held(harness, "one")
    noor = harness.moderator(name="noor")
    assert 200 == (await harness.post("/v1/moderation/cases/one/claim", None, noor)).status
    harness.clock.shift(CLAIM_MS / 1000)
    previewed = await made(harness)
    assert 0 == previewed.body["in_cases"]
    assert {"decided": 1} == (await turned(harness, previewed.body["batch"], "apply")).body["outcomes"]


async def test_a_case_that_a_colleague_is_in_stays_theirs(harness: Harness):
    """The preview counts it, and the batch leaves it; labels are left by what it decides, and overturned by the reversal."""
    await held(harness, "one", "two")
    noor = harness.moderator(name="noor")
    assert 200 == (await harness.post("/v1/moderation/cases/one/claim", None, noor)).status
    previewed = await made(harness)
    assert 1 == previewed.body["in_cases"]
    batch = previewed.body["batch"]
    applied = await turned(harness, batch, "apply")
    assert {"barred": 1, "decided": 1} == applied.body["outcomes"]
    assert {"claimed": 1} == applied.body["left_out"]
    page = await harness.get(f"{PATH}/{batch}", harness.moderator())
    assert ["claimed", None] == [each["why"] for each in page.body["items"]]
    assert ["held", "rejected"] == await states(harness, "one", "two")
    assert [("two", None)] == await labels(harness)
    await turned(harness, batch, "reverse")
    [(name, overturned_by)] = await labels(harness)
    assert ("two", True) == (name, overturned_by is not None)


async def labels(harness: Harness) -> list[tuple[str, int | None]]:
    query = Query(select(schema.labels.c.submission_id, schema.labels.c.overturned_by))
    rows = await harness.edge.ledger.read(lambda tx: tx.rows(query))
    return [(name, overturned_by) for name, overturned_by in rows]
