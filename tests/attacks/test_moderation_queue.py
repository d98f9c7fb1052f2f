"""The moderators' queue over HTTP: who sees what of it, and who gets which case."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.edge.auth.moderators import Ability
from gateway.edge.live import queue_feed
from gateway.edge.moderation import queue
from gateway.edge.moderation.own_account import new_token
from gateway.ledger.acts import Act
from gateway.ledger.moderation import queue as moderation_queue
from gateway.ledger.moderation.api_tokens import issue_token
from gateway.ledger.moderation.claims import CLAIM_MS, Claimant, claim_first
from gateway.ledger.moderation.saved_views import VIEWS_LIMIT, save_view
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import parse_rfc3339, rfc3339
from policies.errors import LedgerOverloaded
from policies.vocabulary import State
from tests.attacks.test_moderation import a_held_run, decide
from tests.attacks.test_own_data import a_player
from tests.attacks.test_players_who_are_helped import merged
from tests.support.attack import until
from tests.support.harness import Answer, Harness, Request
from tests.support.ledger import new_submission

QUEUE = "/v1/moderation/queue"
VIEWS = "/v1/moderation/views"


async def listed(harness: Harness, token: str, query: str = "") -> list[str]:
    """The ids of a page of the queue."""
    answer = await harness.get(QUEUE + query, token)
    assert 200 == answer.status, answer.body
    return [case["submission"] for case in answer.body["cases"]]


async def take(harness: Harness, token: str, query: str = "") -> str | None:
    """The id of the case that is next for a moderator."""
    answer = await harness.post(f"{QUEUE}/next{query}", None, token)
    assert 200 == answer.status, answer.body
    return answer.body["case"] and answer.body["case"]["submission"]


async def touch(harness: Harness, submission: str, verb: str, token: str | None) -> Answer:
    return await harness.post(f"/v1/moderation/cases/{submission}/{verb}", None, token)


async def send_as(harness: Harness, token: str, method: str, path: str, body: Any = None) -> Answer:
    headers = {"Authorization": f"Bearer {token}"} | ({"Content-Type": "application/json"} if body else {})
    return await harness.send(Request(method, path, json.dumps(body).encode() if body else b"", headers))


@pytest.mark.parametrize("verb", ["claim", "release", "skip", "cannot-tell"])
async def test_M01_only_moderators_hold_cases(harness: Harness, verb: str):
    """Players and strangers change nothing, and neither ask for the next one nor see the queue."""
    run = await a_held_run(harness)
    for token, status in ((None, 401), (run.token, 403)):
        assert status == (await touch(harness, run.id, verb, token)).status
        assert status == (await harness.post(f"{QUEUE}/next", None, token)).status
        assert status == (await harness.get(QUEUE, token)).status
    assert 200 == (await touch(harness, run.id, verb, harness.moderator())).status


async def test_M02_the_queue_is_that_of_the_moderators_own_boards(harness: Harness):
    """Boards, families and everything; what is out of reach is as if it was not there, also for claims and filters."""
    for name, board in (("a", "sprint"), ("b", "arcade"), ("c", "track.monza"), ("d", "track.imola")):
        await harness.edge.ledger.append(new_submission(name, board=board, state=State.HELD))
    sprint, both = harness.moderator("sprint"), harness.moderator("sprint", "arcade")
    assert ["a"] == await listed(harness, sprint)
    assert ["a", "b"] == await listed(harness, both) == await listed(harness, harness.moderator())
    for foreign, submission in ((harness.moderator("other"), "a"), (sprint, "b")):
        for verb in ("claim", "release", "skip", "cannot-tell"):
            answer = await touch(harness, submission, verb, foreign)
            assert (404, "not-found") == (answer.status, answer.problem)
    for query in ("?board=arcade", "?family=arcade", "?family=track", "?board=track.monza"):
        for answer in (
            await harness.get(QUEUE + query, sprint),
            await harness.post(f"{QUEUE}/next{query}", None, sprint),
        ):
            assert (404, "not-found") == (answer.status, answer.problem)
    assert [] == await listed(harness, harness.moderator("other"))
    assert ["a", None] == [await take(harness, sprint), await take(harness, sprint)]


async def test_M03_two_moderators_get_two_cases_and_a_third_none(harness: Harness):
    """At the same moment; each sees who is in which, and a decision on another's case is refused."""
    runs = {run.id: run for run in [await a_held_run(harness) for _ in range(2)]}
    names = ("mara", "noor", "odo")
    tokens = [harness.moderator(name=name) for name in names]
    got = await asyncio.gather(*(take(harness, token) for token in tokens))
    assert set(runs) == set(filter(None, got))
    assert 1 == got.count(None)
    cases = (await harness.get(QUEUE, tokens[0])).body["cases"]
    assert {(name, case) for name, case in zip(names, got, strict=True) if case} == {
        (each["claim"]["by"], each["submission"]) for each in cases
    }
    [_, stranger] = [token for token, case in zip(tokens, got, strict=True) if case != cases[0]["submission"]]
    run = cases[0]["submission"]
    refused = [await touch(harness, run, verb, stranger) for verb in ("claim", "cannot-tell")]
    refused += [await decide(harness, runs[run], verb, stranger) for verb in ("approve", "reject")]
    assert [(409, "case-claimed")] * 4 == [(each.status, each.problem) for each in refused]
    assert "held" == await harness.state_of(run)


async def test_M03_who_was_slower_with_all_that_was_offered_gets_another_case(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A colleague took what both had seen as free; what waits behind it is still there."""
    runs = [await a_held_run(harness) for _ in range(2)]
    noor, raced = Claimant("noor"), []

    def slower(offered: Any, claimant: Claimant, *, now_ms: int) -> Any:
        async def work(tx: Any) -> Any:
            if not raced:
                raced.append(await claim_first(offered, noor, now_ms=now_ms)(tx))
            return await claim_first(offered, claimant, now_ms=now_ms)(tx)

        return work

    monkeypatch.setattr(moderation_queue, "OFFERED", 1)
    monkeypatch.setattr(queue, "claim_first", slower)
    second = await take(harness, harness.moderator())
    assert {run.id for run in runs} == {raced[0].submission_id, second}


async def test_the_case_of_a_board_that_is_no_more_is_given_to_nobody(harness: Harness):
    """It stays as it is, and keeps nobody from the others."""
    gone = new_submission("gone", board="gone", state=State.HELD, recording=None)
    await harness.edge.ledger.append(gone)
    assert None is await take(harness, harness.moderator())
    run = await a_held_run(harness)
    assert run.id == await take(harness, harness.moderator())


async def test_M03_a_claim_ends_by_itself(harness: Harness):
    """Whoever left the desk without a word keeps nobody from deciding for longer than the lease."""
    run, mara, noor = await a_held_run(harness), harness.moderator(), harness.moderator(name="noor")
    assert run.id == await take(harness, mara)
    assert 409 == (await touch(harness, run.id, "claim", noor)).status
    harness.clock.shift(CLAIM_MS // 1000)
    noor = harness.moderator(name="noor")
    assert (None, run.id) == (
        (await harness.get(QUEUE, noor)).body["cases"][0]["claim"],
        await take(harness, noor),
    )
    assert 200 == (await decide(harness, run, "approve", noor)).status


async def test_M03_who_works_on_a_case_keeps_it(harness: Harness):
    """Each read of the claimant gives them the whole time again; a read of somebody else gives nothing."""
    run, minute = await a_held_run(harness), 60
    case, recording = f"/v1/moderation/cases/{run.id}", f"/v1/moderation/cases/{run.id}/recording"
    assert run.id == await take(harness, harness.moderator())

    async def until() -> int:
        [told] = (await harness.get(QUEUE, harness.moderator(name="noor"))).body["cases"]
        assert "mara" == told["claim"]["by"]
        left_ms = (parse_rfc3339(told["claim"]["until"]) or 0) - harness.clock()
        return round(left_ms / 1000 / minute)

    for path, name, minutes_left in ((case, "mara", 20), (recording, "mara", 20), (case, "noor", 5)):
        harness.clock.shift(15 * minute)
        await harness.get(path, harness.moderator(name=name))
        assert minutes_left == await until()
    own = (await harness.get(case, harness.moderator())).body
    others = (await harness.get(case, harness.moderator(name="noor"))).body
    assert ("mara", True, 20) == (others["claim"]["by"], others["is_waiting"], await until())
    assert (["approve", "reject", "hold"], None) == (
        [each["decision"] for each in own["decisions"]],
        own["refusal"],
    )
    assert ([], "`mara` is in the case") == (others["decisions"], others["refusal"])


async def test_M10_a_case_that_was_decided_is_no_case_any_more(harness: Harness):
    """It cannot be claimed, skipped or doubted; the list and the next one do without it."""
    run, token = await a_held_run(harness), harness.moderator()
    assert 200 == (await touch(harness, run.id, "claim", token)).status
    assert 200 == (await decide(harness, run, "reject", token)).status
    for verb in ("claim", "release", "skip", "cannot-tell"):
        answer = await touch(harness, run.id, verb, token)
        assert (409, "state-conflict") == (answer.status, answer.problem)
    assert ([], None) == (await listed(harness, token), await take(harness, token))


async def test_a_case_waits_for_its_players_answer_until_its_time_is_over(harness: Harness):
    """The queue tells of it, and gives it to nobody; then it is a case like any other, of which nothing is told."""
    run = await a_held_run(harness)
    asked = await decide(harness, run, "hold", harness.moderator(), {"code": "question", "message": "video"})
    assert 200 == asked.status, asked.raw
    harness.clock.stop()

    async def waits() -> tuple[str | None, str | None]:
        token = harness.moderator()
        [case] = (await harness.get(QUEUE, token)).body["cases"]
        return case["waits_until"], await take(harness, token)

    until_at, taken = await waits()
    assert (True, None) == (until_at is not None, taken)
    harness.clock.shift((parse_rfc3339(str(until_at)) - harness.clock()) / 1000)
    assert (None, run.id) == await waits()


async def test_M05_nobody_holds_the_case_of_their_own_run(harness: Harness):
    """Nor is it offered to them; to others it is."""
    run = await a_held_run(harness)
    own = harness.moderator(name=run.player)
    for verb in ("claim", "cannot-tell"):
        answer = await touch(harness, run.id, verb, own)
        assert (403, "self-approval") == (answer.status, answer.problem)
    assert (None, run.id) == (await take(harness, own), await take(harness, harness.moderator()))


async def test_M05_nobody_holds_a_case_that_their_own_player_played_before_a_merge(harness: Harness):
    """Whose run it is now may be another: whoever played it, or has it, is no judge of it."""
    run = await a_held_run(harness)
    _, other = await a_player(harness, "Bob")
    await merged(harness, run.token, other)
    answer = await touch(harness, run.id, "claim", harness.moderator(name=run.player))
    assert (403, "self-approval") == (answer.status, answer.problem)
    assert 200 == (await touch(harness, run.id, "claim", harness.moderator())).status


async def test_the_case_that_could_do_most_harm_is_first(harness: Harness):
    """What would enter the top before what would not; each hour of waiting counts as much as a unit of harm."""
    token = harness.moderator()
    first = await a_held_run(harness)
    assert 200 == (await decide(harness, first, "approve", token)).status
    ledger, now_ms = harness.edge.ledger, harness.clock()
    for name, score, waited_h in (("waited", 1, 7), ("worst", 500, 0), ("no best", 1, 0)):
        at_ms = now_ms - waited_h * 3_600_000
        run = new_submission(
            name, board="sprint", player=first.player, score=score, state=State.HELD, at_ms=at_ms
        )
        await ledger.append(run._replace(achieved_at_ms=now_ms))
    assert 3 == await harness.steward().assess_cases()
    assert 0 == await harness.steward().assess_cases()
    cases = (await harness.get(QUEUE, token)).body["cases"]
    assert [("waited", 0), ("worst", 4), ("no best", 0)] == [
        (each["submission"], each["harm"]) for each in cases
    ]
    assert 7 * 3600 <= cases[0]["waiting_s"] < 7 * 3600 + 60


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["a", "b", "c", "d"]),
        ("?board=arcade", ["c"]),
        ("?family=sprint", ["a", "b", "d"]),
        ("?player=bob", ["b", "c"]),
        ("?build=b-2", ["d"]),
        ("?reason=accepted", ["a", "b", "c", "d"]),
        ("?reason=similarity", None),
        ("?reason=recording-similar", []),
        ("?kind=held", ["a", "b", "c", "d"]),
        ("?kind=nothing", None),
        ("?min_age_s=60", ["a"]),
        ("?max_age_s=60", ["b", "c", "d"]),
        ("?min_age_s=15&max_age_s=60", ["b", "c"]),
        ("?player=bob&board=sprint", ["b"]),
        ("?player=", None),
        ("?min_age_s=-1", None),
        ("?limit=101", None),
        ("?cursor=x", None),
    ],
)
async def test_the_queue_is_filtered(harness: Harness, query: str, expected: list[str] | None):
    """By any of these and by several, within reach; what is no filter is refused with the name of it."""
    for name, board, player, build, age_s in (
        ("a", "sprint", "ada", "b-1", 90),
        ("b", "sprint", "bob", "b-1", 30),
        ("c", "arcade", "bob", "b-1", 20),
        ("d", "sprint", "cyn", "b-2", 10),
    ):
        at_ms = harness.clock() - age_s * 1000
        run = new_submission(name, board=board, player=player, build=build, state=State.HELD, at_ms=at_ms)
        await harness.edge.ledger.append(run)
    if expected is None:
        answer = await harness.get(QUEUE + query, harness.moderator())
        assert (422, "schema-violation") == (answer.status, answer.problem)
        return
    assert expected == await listed(harness, harness.moderator(), query)
    taken = await take(harness, harness.moderator(), query)
    assert (expected or [None])[0] == taken
    if "board" not in query and "family" not in query:
        of_arcade = harness.moderator("arcade", name="noor")
        assert [name for name in expected if name == "c"] == await listed(harness, of_arcade, query)


async def test_M02_cases_are_counted_within_reach(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """By reason, by age and by board, as they are; of single boards of a family one by one, and no other's."""
    oldest_ms = harness.clock() - 3_600_000
    for number, board in enumerate(("sprint", "sprint", "arcade", "track.monza", "track.imola")):
        run = new_submission(f"r{number}", board=board, state=State.HELD, at_ms=oldest_ms + number)
        await harness.edge.ledger.append(run)

    async def counted(*scopes: str) -> dict[str, int]:
        answer = (await harness.get(f"{QUEUE}/counts", harness.moderator(*scopes))).body
        assert sum(answer["boards"].values()) == answer["total"] == sum(answer["reasons"].values())
        assert (not answer["boards"]) == (answer["oldest_at"] is None)
        assert not answer["is_capped"]
        return answer["boards"]

    assert {"sprint": 2, "arcade": 1, "track": 2} == await counted("*")
    assert {"sprint": 2} == await counted("sprint", "other")
    assert {"track": 1, "arcade": 1} == await counted("track.monza", "arcade")
    assert {"track": 2} == await counted("track", "track.monza")
    assert {} == await counted("other")
    for number, age_s in enumerate((20, 7_200, 90_000, 900_000, 900_001)):
        at_ms = harness.clock() - age_s * 1000
        await harness.edge.ledger.append(
            new_submission(f"o{number}", board="other.x", state=State.HELD, at_ms=at_ms)
        )
    for scope in ("other", "other.x"):
        ages = (await harness.get(f"{QUEUE}/counts", harness.moderator(scope))).body["ages"]
        assert [(0, 3600, 1), (3600, 86_400, 1), (86_400, 604_800, 1), (604_800, None, 2)] == [
            (age["at_least_s"], age["under_s"], age["cases"]) for age in ages
        ]
    monkeypatch.setattr(moderation_queue, "AGED", 1)
    monkeypatch.setattr(queue, "AGED", 1)
    ages = (await harness.get(f"{QUEUE}/counts", harness.moderator("other"))).body["ages"]
    assert [(1, False)] * 3 + [(1, True)] == [(age["cases"], age["is_capped"]) for age in ages]
    told = (await harness.get(f"{QUEUE}/counts", harness.moderator("sprint"))).body
    assert rfc3339(oldest_ms) == told["oldest_at"]


async def test_M01_M11_the_queue_is_followed_by_its_moderators_as_long_as_they_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """An event for each change within reach, and none for others; it ends with the token, and is for nobody else."""
    monkeypatch.setattr(queue_feed, "LOOK_S", 0.02)
    run = await a_held_run(harness)
    url, token = f"{harness.url}{QUEUE}/live", harness.moderator("arcade")
    for stranger, status in (({}, 401), ({"Authorization": f"Bearer {run.token}"}, 403)):
        async with harness.session.get(url, headers=stranger) as refused:
            assert status == refused.status
    async with harness.session.get(url, headers={"Authorization": f"Bearer {token}"}) as stream:

        async def told() -> bytes:
            async with asyncio.timeout(20):
                return await stream.content.readuntil(b"\n\n")

        assert (200, b"retry: 2000\n\n", queue_feed.CHANGED) == (stream.status, await told(), await told())
        for number, board in enumerate(("arcade", "sprint", "arcade")):
            held = new_submission(f"r{number}", board=board, state=State.HELD)
            await harness.edge.ledger.append(held)
            if board == "arcade":
                assert queue_feed.CHANGED == await told()
        harness.clock.shift(2 * 86_400)
        await harness.edge.ledger.append(new_submission("late", board="arcade", state=State.HELD))
        async with asyncio.timeout(20):
            assert b"" == (await stream.content.read()).replace(queue_feed.CHANGED, b"")


async def test_one_account_has_few_feeds_of_the_queue(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """All of one credential read it at each change, beside the reads of submissions; others have their own."""
    monkeypatch.setattr(queue_feed, "FEEDS_EACH", 1)
    mara, noor = [{"Authorization": f"Bearer {harness.moderator(name=each)}"} for each in ("mara", "noor")]
    url = f"{harness.url}{QUEUE}/live"
    async with harness.session.get(url, headers=mara) as first:
        assert 200 == first.status
        async with (
            harness.session.get(url, headers=mara) as second,
            harness.session.get(url, headers=noor) as other,
        ):
            assert (429, 200) == (second.status, other.status)
        first.close()

    async def is_taken_again() -> bool:
        async with harness.session.get(url, headers=mara) as third:
            return third.status == 200

    await until(is_taken_again)


async def test_changes_of_the_queue_are_looked_for_again_after_the_last_listener_has_left(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Whoever comes next is woken as the first one was."""
    monkeypatch.setattr(queue_feed, "LOOK_S", 0.02)
    watch = queue_feed.QueueWatch(harness.edge)
    for number in range(2):
        async with watch.listening("mara") as changed:
            held = new_submission(f"r{number}", board="arcade", state=State.HELD)
            await harness.edge.ledger.append(held)
            async with asyncio.timeout(20):
                await changed.wait()


def test_M02_the_version_of_a_queue_is_that_of_the_scopes_in_reach():
    """A listener who moderates one board hears nothing of the others, not even when something happens there."""
    edge: Any = SimpleNamespace()
    watch = queue_feed.QueueWatch(edge)
    watch._versions = {"sprint": 3, "track": 4}
    reaches = (["sprint"], ["track.spa"], ["sprint", "track"], ["*"], ["lap"])
    assert [3, 4, 7, 7, 0] == [watch.version_of(frozenset(scopes)) for scopes in reaches]


async def test_a_feed_of_the_queue_outlives_a_moment_without_the_ledger(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """What changed meanwhile is told once the credential can be read again."""
    monkeypatch.setattr(queue_feed, "LOOK_S", 0.02)
    monkeypatch.setattr(queue_feed, "HEARTBEAT_S", 0.05)
    ledger, read, refused = harness.edge.ledger, harness.edge.ledger.read, list[ReadKind]()

    async def busy(work: Any, kind: ReadKind = ReadKind.REQUESTS) -> Any:
        if kind is ReadKind.REQUESTS:
            refused.append(kind)
            raise LedgerOverloaded
        return await read(work, kind)

    async def is_refused_again() -> bool:
        return len(refused) > 2

    headers = {"Authorization": f"Bearer {harness.moderator()}"}
    async with harness.session.get(f"{harness.url}{QUEUE}/live", headers=headers) as stream:
        assert b"retry: 2000\n\n" + queue_feed.CHANGED == await stream.content.readexactly(36)
        monkeypatch.setattr(ledger, "read", busy)
        await ledger.append(new_submission("r0", board="arcade", state=State.HELD))
        await until(is_refused_again)
        monkeypatch.setattr(ledger, "read", read)
        async with asyncio.timeout(20):
            while queue_feed.CHANGED != await stream.content.readuntil(b"\n\n"):
                pass


async def test_a_cursor_is_of_one_queue(harness: Harness):
    """Of these filters and these boards: another moderator's, or one with other filters, is refused."""
    for _ in range(3):
        await a_held_run(harness)
    token = harness.moderator("sprint")
    cursor = (await harness.get(f"{QUEUE}?limit=1", token)).body["next"]
    assert 2 == len(await listed(harness, token, f"?cursor={cursor}"))
    for other, query in ((harness.moderator(), ""), (token, "&player=x")):
        answer = await harness.get(f"{QUEUE}?cursor={cursor}{query}", other)
        assert (422, "schema-violation") == (answer.status, answer.problem)


async def test_M01_a_token_that_only_reads_changes_no_view(harness: Harness):
    """They are the account's, and its sessions and other tokens go by them."""
    await send_as(harness, harness.moderator(), "PUT", f"{VIEWS}/mine", {"filters": {}})
    now_ms = harness.clock()
    text, token = new_token("mara", "reads", Ability.READ, ["sprint"], now_ms, now_ms + 60_000)
    await harness.edge.ledger.write(issue_token(token, Act("moderator:mara", now_ms)))
    for method, path, body in (("PUT", "new", {"filters": {}}), ("DELETE", "mine", None)):
        refused = await send_as(harness, text, method, f"{VIEWS}/{path}", body)
        assert (method, "scope-forbidden") == (method, refused.problem)
    assert ["mine"] == [view["name"] for view in (await harness.get(VIEWS, text)).body["views"]]


async def test_M02_views_are_saved_for_oneself_as_far_as_ones_boards_reach(harness: Harness):
    """Under a name, in place of the one before; so many and no more; nobody sees another's."""
    mara, noor = harness.moderator("sprint"), harness.moderator(name="noor")
    old = {"filters": {"board": "sprint", "min_age_s": "86400"}}
    put = await send_as(harness, mara, "PUT", f"{VIEWS}/old-ones", old)
    assert (200, [{"name": "old-ones"} | old]) == (put.status, put.body["views"])
    assert [] == (await harness.get(VIEWS, noor)).body["views"]
    assert 404 == (await harness.get(f"{VIEWS}/old-ones", noor)).status
    for name, filters, problem in (
        ("x", {"board": "arcade"}, "not-found"),
        ("x", {"bored": "sprint"}, "schema-violation"),
        ("x", {"min_age_s": "-1"}, "schema-violation"),
        ("x", {"reason": "x" * 129}, "schema-violation"),
        ("x" * 41, {}, "schema-violation"),
        ("-x", {}, "schema-violation"),
        ("X", {}, "schema-violation"),
    ):
        refused = await send_as(harness, mara, "PUT", f"{VIEWS}/{name}", {"filters": filters})
        assert (name, problem) == (name, refused.problem)
    for number in range(VIEWS_LIMIT - 1):
        await harness.edge.ledger.write(save_view("mara", f"v{number}", {}))
    full = await send_as(harness, mara, "PUT", f"{VIEWS}/one-more", {"filters": {}})
    again = await send_as(harness, mara, "PUT", f"{VIEWS}/v1", {"filters": {"kind": "appeal"}})
    assert ("state-conflict", 200) == (full.problem, again.status)
    assert {"name": "v1", "filters": {"kind": "appeal"}} == (await harness.get(f"{VIEWS}/v1", mara)).body
    await send_as(harness, noor, "DELETE", f"{VIEWS}/v1")
    assert VIEWS_LIMIT == len((await harness.get(VIEWS, mara)).body["views"])
    left = await send_as(harness, mara, "DELETE", f"{VIEWS}/v1")
    assert VIEWS_LIMIT - 1 == len(left.body["views"])
