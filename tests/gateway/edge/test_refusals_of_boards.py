"""What a game server is told whose operation on a board is refused: what is wrong, what there is, what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.ledger.boards.board_differences import NEVER_CHANGE, differences
from gateway.ledger.boards.board_life import life_of
from gateway.ledger.boards.life_changes import CLOSED_SINCE, STAYS_DELETED
from gateway.runtime.clock import rfc3339
from policies.opened_board import NarrowedBounds, NarrowedScore, OpenedBoard
from tests.gateway.edge.test_families import BOARDS, Studio, opening, settings, studio

__all__ = ["settings", "studio"]

MONZA = OpenedBoard(
    "track.monza",
    "track",
    "Monza",
    metadata={"country": "it", "cars": {"class": "gt3"}},
    parameters=b'{"laps":3}',
    asset=bytes(31) + b"\1",
    bounds=NarrowedBounds(score=NarrowedScore(maximum=900)),
    closes_at_ms=1_800_000_000_000,
)
OPEN = "the board is open already; "


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"title": "Spa"}, OPEN + 'title is "Monza", not "Spa": `change` it instead'),
        (
            {"metadata": {"country": "be", "cars": {"class": "gt3"}, "wet": True}},
            OPEN + 'metadata.country is "it", not "be"; metadata.wet is none, not true: `change` it instead',
        ),
        (
            {"metadata": {}, "title": "Spa", "closes_at_ms": None},
            OPEN
            + 'title is "Monza", not "Spa"; metadata.cars.class is "gt3", not none; 2 more differ: `change` it instead',
        ),
        ({"bounds": None}, OPEN + "bounds.score.maximum is 900, not none: `change` it instead"),
        (
            {"closes_at_ms": 1_800_000_000_001},
            OPEN + "closes_at is 2027-01-15T08:00:00.000Z, not 2027-01-15T08:00:00.001Z: `change` it instead",
        ),
        (
            {"parameters": b'{"laps":5}', "title": "Spa"},
            OPEN + f'title is "Monza", not "Spa"; parameters.laps is 3, not 5: {NEVER_CHANGE}',
        ),
        ({"asset": bytes(31) + b"\2"}, OPEN + f"asset differs: {NEVER_CHANGE}"),
        ({"parameters": b""}, OPEN + f"parameters.laps is 3, not none: {NEVER_CHANGE}"),
    ],
)
def test_NR_a_name_that_is_taken_says_what_differs(changes: dict[str, Any], expected: str):
    """By the names that requests have, with both values, and what to do; never more than two of them."""
    assert expected == differences(MONZA, replace(MONZA, **changes))


def test_NR_what_differs_is_said_briefly():
    """However much there is: the sentence is stored for each refused operation of a batch."""
    full = {f"k{'é' * 40}{at}": "x" * 100 for at in range(20)}
    wanted = replace(MONZA, metadata=full, bounds=NarrowedBounds(), title="T" * 80)
    text = differences(MONZA, wanted)
    assert len(text) < 300
    assert "19 more" not in text
    assert "22 more differ" in text
    for at in (40, 41):  # and however long the names are
        plain, name = replace(MONZA, metadata=None), "k" * (at - len("metadata."))
        text = differences(plain, replace(plain, metadata={name: 1}))
        assert (at == 40) == (f"metadata.{'k' * 31} is none, not 1:" in text)
        assert (at == 41) == (f"metadata.{'k' * 30}… is none, not 1:" in text)
    assert "the bounds differ" in differences(
        replace(MONZA, bounds=None), replace(MONZA, bounds=NarrowedBounds())
    )


async def test_NR_a_refused_operation_says_what_to_do_instead(studio: Studio):
    """The version of the board as it is now, its content, or that another board is wanted. A deletion has a reason."""
    await studio.done(opening("a", parameters={"laps": 3}), opening("b"))
    change = {"action": "change", "board": "track.a", "version": 1}
    results = await studio.done(
        change | {"title": "New"},
        change | {"title": "Newer"},
        change | {"parameters": {"laps": 4}},
        opening("b", title="Other"),
        {"action": "delete", "board": "track.b"},
        {"action": "delete", "board": "track.b", "reason": ""},
        {"action": "delete", "board": "track.b", "reason": "never raced"},
        {"action": "reopen", "board": "track.b"},
        {"action": "close", "board": "track.nobody"},
    )
    told = [(result["problem"] or {}).get("detail") for result in results]
    assert told[0] is None
    assert "version: the board has version 2 by now, and the change is based on 1" in told[1]
    assert NEVER_CHANGE in told[2]
    assert OPEN + 'title is "B", not "Other": `change` it instead' == told[3]
    assert "reason: is missing" == told[4]
    assert told[5].startswith("reason: ")
    assert [None, STAYS_DELETED, "no board of the family has this name"] == told[6:]
    life = await studio.harness.edge.ledger.read(life_of("track.b"))
    assert [{}, {"why": "never raced"}] == [
        {k: v for k, v in each.detail.items() if k == "why"} for each in life
    ]


async def test_NR_no_board_is_opened_whose_time_is_over(studio: Studio):
    """It would take no runs. A request that is sent again is answered as before, though its time has come since."""
    clock = studio.harness.clock
    over, soon = rfc3339(clock()), rfc3339(clock() + 50_000)
    opened = opening("a", closes_at=soon)
    first = await studio.send(opened, opening("b", closes_at=over), operation="once")
    assert ["opened", "refused"] == [result["status"] for result in first.body["results"]]
    detail = first.body["results"][1]["problem"]["detail"]
    assert detail.startswith(f"closes_at: is past, by our clock it is {over[:4]}-")
    assert detail.endswith("Z; give a later time")
    assert ["track.a"] == [board["board"] for board in (await studio.harness.get(BOARDS)).body["boards"]]
    clock.shift(60)
    again = await studio.send(opened, opening("b", closes_at=over), operation="once")
    assert ["opened", "refused"] == [result["status"] for result in again.body["results"]]
    change = {"action": "change", "board": "track.a", "version": 1}
    same, renamed, ended = await studio.done(
        opened, change | {"title": "New", "closes_at": soon}, change | {"version": 2, "closes_at": over}
    )
    assert ["same", "changed", "refused"] == [same["status"], renamed["status"], ended["status"]]
    assert ended["problem"]["detail"].startswith("closes_at: is past")
    assert ended["problem"]["detail"].endswith("give a later time, or close the board")
    await studio.done({"action": "close", "board": "track.a"})
    [late] = await studio.done(change | {"version": 3, "closes_at": over})
    assert CLOSED_SINCE == late["problem"]["detail"]


async def test_NR_a_key_that_is_not_registered_is_no_secret_told(studio: Studio):
    """Unknown, with another key's signature, or with another body: one answer, which says where to look."""
    body: dict[str, Any] = {"operation": "once", "boards": [opening("a")]}
    stranger = Ed25519PrivateKey.generate()
    answers = [
        await studio.harness.as_server(stranger, "nobody", BOARDS, body),
        await studio.harness.as_server(stranger, "eu-1", BOARDS, body),
        await studio.harness.as_server(studio.private, "EU-1", BOARDS, body),
    ]
    assert [(401, "signature-invalid")] * 3 == [(answer.status, answer.problem) for answer in answers]
    [raw] = {answer.raw for answer in answers}
    assert b"the key may be unknown or revoked" in raw
    assert b"`scoregate key list`" in raw
