"""Requests that mean the same, and refusals that say what was wrong with one, and no more of it than that."""

from __future__ import annotations

from tests.support.harness import Harness, Request


async def test_a_token_is_read_as_http_has_it(harness: Harness):
    """The scheme has no case and may be followed by spaces (RFC 9110, section 11.1); another scheme shows no token."""
    token = await harness.new_player()
    for field, status in (
        (f"Bearer {token}", 200),
        (f"bearer {token}", 200),
        (f"BEARER   {token} ", 200),
        (f"Basic {token}", 401),
        (token, 401),
        ("Bearer", 401),
        (f"Bearer {token}x", 401),
    ):
        answer = await harness.send(Request("GET", "/v1/friends", b"", {"Authorization": field}))
        assert status == answer.status, field[:8]


async def test_who_shows_no_token_is_told_how_and_who_shows_a_wrong_one_that_it_is(harness: Harness):
    """With the challenge that a 401 carries; a token that has expired is as one of nobody."""
    none, wrong = await harness.get("/v1/friends"), await harness.get("/v1/friends", "nonsense")
    told = {each.body["detail"] for each in (none, wrong)}
    assert {
        "send Authorization: Bearer <token>",
        "it does not verify, or has expired: get a new one",
    } == told
    for answer in (none, wrong):
        assert ("token-invalid", 'Bearer realm="scoregate"') == (
            answer.problem,
            answer.headers["WWW-Authenticate"],
        )
    token = await harness.new_player()
    harness.clock.shift(366 * 86_400)
    assert wrong.raw == (await harness.get("/v1/friends", token)).raw


async def test_a_parameter_that_there_is_not_is_named_and_no_more_than_named(harness: Harness):
    """A refusal is short, however long what it refuses; it says what there is instead."""
    long = await harness.get(f"/v1/boards?{'x' * 5_000}=1")
    assert (422, f"{'x' * 64}: no such parameter; expected limit, cursor") == (
        long.status,
        long.body["detail"],
    )
    none = await harness.get("/livez?a=1")
    assert "a: no such parameter; there are none" == none.body["detail"]


async def test_whole_numbers_are_short(harness: Harness):
    """Each has one way to be written, so that what a read costs is told from it, and a cache keeps one page."""
    for text, status in (("5", 200), ("05", 422), ("0", 422), ("0" * 6_000 + "5", 422)):
        assert status == (await harness.get(f"/v1/boards?limit={text}")).status, len(text)
