"""Requests of bans and of batches over HTTP: on boards, on families and on everything, to the last byte and millisecond."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.moderation import bans, batches
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from tests.support.archives import HandClock
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.logs import lines_of, logged
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

ALL, SMALLER = "*", ModeratorRole.MODERATOR


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    policies = (
        a_policy("sprint"),
        a_family("track", writes="trusted", score={"minimum": 0, "maximum": 1_000}),
        {"board": "world", "title": "World", "rollup": {"family": "track"}},
    )
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


@pytest.fixture
def operations() -> Iterator[str]:
    return (f"o{number}" for number in count())


def path_of(player: str, ban: str = "") -> str:
    return f"/v1/moderation/players/{player}/bans" + (f"/{ban}" if ban else "")


async def banned(harness: Harness, token: str, body: dict[str, Any], player: str = "ada") -> Answer:
    return await harness.post(path_of(player), {"code": "cheating"} | body, token)


async def lifted(harness: Harness, token: str, ban: str, player: str = "ada") -> Answer:
    return await harness.send(
        Request("DELETE", path_of(player, ban), b"", {"Authorization": f"Bearer {token}"})
    )


def said(answer: Answer) -> tuple[int, str, str]:
    return answer.status, answer.problem, answer.body.get("detail", "")


async def test_a_ban_is_on_a_board_or_a_family_or_everything(harness: Harness, operations: Iterator[str]):
    """Whoever may overrule there bans there, and no wider; what is no place to ban on is refused by its name."""
    everything, on_board, on_family = (
        harness.moderator(*boards, name=name)
        for boards, name in (((), "mara"), (("sprint",), "sam"), (("track",), "tom"))
    )
    smaller = harness.moderator(name="noor", role=SMALLER)
    rollup = "board: is a rollup; ban the player on its family"
    forbidden, unknown = (403, "scope-forbidden"), (404, "not-found")
    table: list[tuple[str, dict[str, str], Any]] = [
        (everything, {}, (None, None)),
        (everything, {"board": "sprint"}, ("sprint", None)),
        (everything, {"family": "track"}, (None, "track")),
        (everything, {"family": "kart"}, (404, "not-found", "no such family")),
        (everything, {"board": "world"}, (422, "schema-violation", rollup)),
        (everything, {"board": "nowhere"}, (404, "not-found")),
        (on_board, {"board": "sprint"}, ("sprint", None)),
        (on_board, {}, unknown),
        (on_board, {"family": "track"}, unknown),
        (on_family, {"family": "track"}, (None, "track")),
        (on_family, {}, unknown),
        (on_family, {"board": "sprint"}, unknown),
        (smaller, {}, forbidden),
        (smaller, {"board": "sprint"}, forbidden),
    ]
    for token, scope, expected in table:
        answer = await banned(harness, token, scope | {"operation": next(operations)})
        if answer.status == 201:
            assert expected == (answer.body["board"], answer.body["family"])
        else:
            assert expected == said(answer)[: len(expected)], scope
    seen = {
        token: [(each["board"], each["family"], each["by"]) for each in (await harness.get(path_of("ada"), token)).body["bans"]]
        for token in (everything, on_board, on_family, smaller)
    }  # fmt: skip
    made = [
        (None, "track", "moderator:tom"),
        ("sprint", None, "moderator:sam"),
        (None, "track", "moderator:mara"),
        ("sprint", None, "moderator:mara"),
        (None, None, "moderator:mara"),
    ]
    assert seen == {
        everything: made,
        smaller: made,
        on_board: [each for each in made if each[0] == "sprint"],
        on_family: [each for each in made if each[1] == "track"],
    }


async def test_a_ban_is_made_once_and_lifted_once(harness: Harness):
    """A repeated request gets the same answer, and is said so; another body under its operation is refused. Each is logged once."""
    token, now_ms = harness.moderator(), harness.clock()
    body = {"operation": "o1", "note": "why", "until": rfc3339(now_ms + 60_000)}
    with logged(bans) as lines:
        first, *again = [await banned(harness, token, body) for _ in range(3)]
        assert [(201, None), (201, "true"), (201, "true")] == [
            (each.status, each.headers.get("Idempotency-Replayed")) for each in (first, *again)
        ]
        assert [first.body] * 2 == [each.body for each in again]
        other = await banned(harness, token, body | {"note": "because"})
        assert (422, "idempotency-mismatch") == said(other)[:2]
        ban = first.body["ban"]
        assert (404, "not-found", "there is no such ban of the player") == said(
            await lifted(harness, token, ban, player="bob")
        )
        assert 404 == (await lifted(harness, token, "nothing")).status
        ends = [await lifted(harness, token, ban) for _ in range(2)]
    assert [(200, None), (200, "true")] == [
        (each.status, each.headers.get("Idempotency-Replayed")) for each in ends
    ]
    assert [("moderator:mara", True)] * 2 == [
        (each.body["lifted_by"], each.body["is_settled"]) for each in ends
    ]
    facts = {"player": "ada", "ban": ban, "moderator": "mara", "log_level": "info"}
    assert [[facts]] * 2 == [lines_of(lines, event) for event in ("player_banned", "ban_lifted")]


async def test_a_ban_is_lifted_by_whoever_may_make_it(harness: Harness):
    """Who does not reach its scope does not learn of it; a smaller role, and whose own player it is, may not lift it."""
    mara = harness.moderator()
    wide = (await banned(harness, mara, {"operation": "o1"})).body["ban"]
    on_board = (await banned(harness, mara, {"operation": "o2", "board": "sprint"})).body["ban"]
    sam = harness.moderator("sprint", name="sam")
    assert [404, 200] == [(await lifted(harness, sam, ban)).status for ban in (wide, on_board)]
    for name, role, problem in (
        ("noor", SMALLER, "scope-forbidden"),
        ("ada", ModeratorRole.SENIOR, "self-approval"),
    ):
        token = harness.moderator(name=name, role=role)
        assert problem == (await lifted(harness, token, wide)).problem
    assert (
        "self-approval" == (await banned(harness, harness.moderator(name="ada"), {"operation": "o3"})).problem
    )


async def test_a_ban_ends_later_than_now(settings: Settings, operations: Iterator[str]):
    """By a millisecond at least. A repeated request is answered also when its time is over."""
    clock = HandClock(wall_clock())
    async with running_harness(settings, clock=clock) as harness:
        token = harness.moderator()
        for later_ms, expected in ((-1, 422), (0, 422), (1, 201)):
            body = {"operation": next(operations), "until": rfc3339(clock() + later_ms)}
            answer = await banned(harness, token, body)
            assert expected == answer.status
        assert (
            "until: is not in the future"
            == (await banned(harness, token, body | {"operation": "o", "until": rfc3339(clock())})).body[
                "detail"
            ]
        )
        clock.shift(1)
        again = await banned(harness, token, body)
        assert (201, "true") == (again.status, again.headers.get("Idempotency-Replayed"))


async def test_the_longest_ban_fits(harness: Harness):
    """Sixteen kibibytes and no byte more."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {harness.moderator()}"}
    body = json.dumps({"operation": "o1", "code": "cheating"}).encode()
    answers = [
        await harness.send(Request("POST", path_of("ada"), body.ljust(size), headers))
        for size in (16_385, 16_384)
    ]
    assert [413, 201] == [each.status for each in answers]


async def test_a_batch_is_of_what_its_maker_may_overrule(harness: Harness, operations: Iterator[str]):
    """A board, a family, or all of one's own scopes; a reader sees those batches of which they may read everything."""
    both = harness.moderator("track", "sprint", name="sam")
    mixed = {"mara": harness.moderator(), "sam": both, "tom": harness.moderator("track", name="tom")}

    async def made(name: str, **selection: str) -> Answer:
        body = {
            "operation": next(operations),
            "action": "reject",
            "code": "other",
            "note": "n",
            "selection": selection,
        }
        return await harness.post("/v1/moderation/batches", body, mixed[name])

    scopes = {
        ("mara", ""): ["*"],
        ("mara", "sprint"): ["sprint"],
        ("sam", ""): ["sprint", "track"],
        ("tom", ""): ["track"],
        ("tom", "track"): ["track"],
    }
    with logged(batches) as lines:
        for (name, scope), expected in scopes.items():
            chosen = {"family" if scope == "track" else "board": scope} if scope else {}
            answer = await made(name, **chosen)
            assert (201, expected) == (answer.status, answer.body["scopes"])
            assert answer.body["etag"] == answer.headers["ETag"]
        path = f"/v1/moderation/batches/{answer.body['batch']}"
        turned = [
            await harness.post(f"{path}/{turn}", None, mixed["tom"])
            for turn in ("apply", "reverse", "reverse")
        ]
    assert [("applied", None), ("reversed", None), ("reversed", "true")] == [
        (each.body["state"], each.headers.get("Idempotency-Replayed")) for each in turned
    ]
    facts = {"batch": answer.body["batch"], "moderator": "tom", "log_level": "info"}
    assert [facts | {"state": state} for state in ("applying", "reversing")] == lines_of(lines, "batch")
    assert "not-found" == (await made("tom", board="sprint")).problem
    assert (404, "not-found", "no such family") == said(await made("mara", family="kart"))
    assert "not-found" == (await made("mara", board="nowhere")).problem
    for name, most, expected in (("mara", 25, 5), ("sam", 25, 4), ("tom", 25, 2), ("tom", 1, 1)):
        page = (await harness.get(f"/v1/moderation/batches?limit={most}", mixed[name])).body
        assert (expected, most == 1) == (len(page["batches"]), page["next"] is not None)
    listed, cursor = list[str](), ""
    while cursor is not None:
        page = (await harness.get(f"/v1/moderation/batches?limit=1{cursor}", mixed["sam"])).body
        listed += [",".join(each["scopes"]) for each in page["batches"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert ["sprint", "sprint,track", "track", "track"] == sorted(listed)


async def test_a_page_of_batches_has_a_hundred_at_most(harness: Harness):
    """And one at least."""
    limits = {"0": 422, "1": 200, "100": 200, "101": 422}
    assert limits == {
        limit: (await harness.get(f"/v1/moderation/batches?limit={limit}", harness.moderator())).status
        for limit in limits
    }
