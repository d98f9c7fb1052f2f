"""Shadow bans: their player sees themselves wherever their own token reads, and nobody else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.edge.reads.read_budget import DECLARED_US, OWN_VIEW_US
from gateway.ledger.standings import banned_folds
from gateway.runtime.clock import rfc3339
from gateway.runtime.metering import CostMeter
from gateway.runtime.settings import Settings
from gateway.settlement.bans import BanFollower, begin
from gateway.steward.archive.archiving import QUIET_MS
from policies.errors import LedgerUnavailable
from policies.vocabulary import State
from tests.attacks.test_bans import ban, path_of, state_of, unban
from tests.support.attack import accept, honest, registered
from tests.support.banning import a_ban
from tests.support.charges import noted_charges
from tests.support.desk import player_of, submitted
from tests.support.families import open_tracks
from tests.support.feeds import sse, websocket
from tests.support.groups import call, token_of
from tests.support.harness import Answer, Harness, Request, free_port
from tests.support.policies import a_family, a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

BOARD = "/v1/boards/sprint"
KINDS = ("alltime", "daily", "weekly")
DAY_S = 86_400
FIELDS = ("Cache-Control", "Vary", "Scoregate-Window")


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    sprint = a_policy(
        "sprint",
        windows=list(KINDS),
        ranks=["sparse", "unique"],
        segments=["country"],
        self_declared=["country"],
    )
    total = {"board": "total", "title": "Total", "rollup": {"family": "track", "take": "sum"}}
    boards = (
        arcade_policy(),
        sprint,
        a_family("track", writes="trusted", score={"minimum": 0, "maximum": 1000}),
        total,
    )
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def a_board(harness: Harness) -> tuple[str, str, str, str]:
    """Token, id and best run of a player between two others; and the id of the one behind."""
    harness.clock.leave_midnight()
    token = await harness.new_player("Ada")
    own = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    first, last = await player_of(harness, "Bob"), await player_of(harness, "Cyd")
    best = ""
    for player, score in ((first, 300), (own, 150), (own, 200), (last, 100)):
        run = await submitted(harness, player, score, board="sprint", state=State.PROMOTED)
        best = run if score == 200 else best
    await harness.edge.index.drained()
    return token, own, best, last


def reads(own: str, other: str, best: str) -> list[str]:
    """What a player may read of a board with their token."""
    return [
        *(f"{BOARD}/entries?window={kind}" for kind in KINDS),
        f"{BOARD}/entries?offset=1&limit=1",
        f"{BOARD}/entries?offset=2&limit=1",
        *(f"{BOARD}/entries/{own}?window={kind}" for kind in KINDS),
        f"{BOARD}/entries/{other}",
        f"{BOARD}/entries/{own}/around?radius=1",
        f"{BOARD}/entries/{other}/around?radius=0",
        *(f"{BOARD}/percentiles?at=0,34,66,67,100&window={kind}" for kind in KINDS),
        f"{BOARD}/distribution?bins=4",
        f"{BOARD}/distribution?edges=100,150,200,201",
        f"{BOARD}/details?submissions={best}",
    ]


def tagless(answer: Answer) -> Any:
    """All that a player can tell an answer by, but for a tag, which changes as the board does."""
    entries = answer.body.get("entries", [])
    shown = answer.body | {
        "next": bool(answer.body.get("next")),
        "previous": bool(answer.body.get("previous")),
    }
    return answer.status, shown, len(entries), [answer.headers.get(name) for name in FIELDS]


async def test_a_shadow_banned_player_notices_nothing_and_is_seen_by_nobody(harness: Harness):
    """Every read with their token is as before, its fields too; all others are as without them; until the end."""
    token, own, best, last = await a_board(harness)
    stranger = await harness.new_player("Dan")
    paths = [*reads(own, last, best), f"/v1/submissions/{best}"]
    before = [tagless(await harness.get(path, token)) for path in paths]
    assert {200} == {answer[0] for answer in before}
    public = [(await harness.get(path)).raw for path in paths[:-1]]

    made = await ban(harness, own, board="sprint", shadow=True, message="")
    assert (201, True, 2) == (made.status, made.body["shadow"], made.body["followed"])
    after = [tagless(await harness.get(path, token)) for path in paths]
    assert before == after
    for path in reads(own, last, best):
        for answer in (await harness.get(path), await harness.get(path, stranger)):
            assert own not in answer.raw.decode() or (answer.status, own in path) == (404, True)
    assert 2 == (await harness.get(f"{BOARD}/entries")).body["total"]
    assert [1, 2] == [each["rank"] for each in (await harness.get(f"{BOARD}/entries")).body["entries"]]
    assert before == [tagless(await harness.get(path, token)) for path in paths]  # whoever read in between

    await unban(harness, own, made.body["ban"])
    assert before == [tagless(await harness.get(path, token)) for path in paths]
    assert public == [(await harness.get(path)).raw for path in paths[:-1]]


async def test_an_ended_token_of_a_shadow_banned_player_sees_what_everybody_sees(harness: Harness):
    """The new one still has the own view; a thief learns nothing, and uses up nobody's budget of reads."""
    token, own, _, _ = await a_board(harness)
    await ban(harness, own, board="sprint", shadow=True, message="")
    path = f"{BOARD}/entries"
    assert 3 == (await harness.get(path, token)).body["total"]
    fresh = (
        await harness.send(Request("DELETE", "/v1/tokens", b"", {"Authorization": f"Bearer {token}"}))
    ).body
    public = (await harness.get(path)).body
    assert [2, 2, 3] == [
        public["total"],
        *[(await harness.get(path, each)).body["total"] for each in (token, fresh["token"])],
    ]


async def test_a_shadow_banned_player_plays_on_and_sees_each_new_run_count(harness: Harness):
    """It is answered as ever, shown as promoted with its rank, and counts once the ban is lifted."""
    token, own, _, _ = await a_board(harness)
    made = (await ban(harness, own, shadow=True, message="")).body["ban"]
    run = await harness.open_run(token, board="sprint")
    await accept(harness, honest(harness, run, {"score": 250, "ticks": 60}))
    held = await harness.get(f"/v1/submissions/{run.id}", token)
    assert "held" == held.body["state"]
    earlier = await harness.get(f"{BOARD}/entries", token)
    told = {"code": "plausible", "message": "well done"}
    await harness.post(f"/v1/moderation/cases/{run.id}/approve", told, harness.moderator())
    seen = (await harness.get(f"/v1/submissions/{run.id}", token)).body
    assert ("promoted", None, 2, "well done") == (
        seen["state"],
        seen["reason"],
        seen["rank"],
        seen["message"],
    )
    assert None is seen["appeal"]
    refused = await harness.post(f"/v1/submissions/{run.id}/appeal", {"text": "why"}, token)
    assert (409, "state-conflict") == (refused.status, refused.problem)
    page = await harness.get(f"{BOARD}/entries", token)
    assert [300, 250, 100] == [each["score"] for each in page.body["entries"]]
    assert earlier.headers["ETag"] != page.headers["ETag"]
    assert ("revoked", "banned") == await state_of(harness, run)
    await unban(harness, own, made)
    assert seen == (await harness.get(f"/v1/submissions/{run.id}", token)).body
    assert page.body["entries"] == (await harness.get(f"{BOARD}/entries")).body["entries"]


async def test_no_cache_mixes_what_is_shown_with_a_token_and_without(harness: Harness):
    """A tag of one answer never confirms the other, and caches are told to keep them apart."""
    token, own, _, _ = await a_board(harness)
    path = f"{BOARD}/entries"
    public = await harness.get(path)
    assert ("public, max-age=0, must-revalidate", "Authorization") == tuple(
        public.headers[name] for name in ("Cache-Control", "Vary")
    )
    with_token = await harness.get(path, token)
    assert (public.headers["ETag"], "private, max-age=0, must-revalidate") == tuple(
        with_token.headers[name] for name in ("ETag", "Cache-Control")
    )
    await ban(harness, own, shadow=True, message="")
    pages = [await harness.get(path, who) for who in (token, None)]
    tags = [page.headers["ETag"] for page in pages]
    assert [3, 2] == [page.body["total"] for page in pages] == [int(tag[:-1].split("-")[-1]) for tag in tags]

    async def asked(who: str | None, tag: str) -> int:
        headers = {"If-None-Match": tag} | ({"Authorization": f"Bearer {who}"} if who else {})
        async with harness.session.get(harness.url + path, headers=headers) as response:
            return response.status

    assert [304, 200] == [await asked(token, tag) for tag in tags]
    assert [200, 304] == [await asked(None, tag) for tag in tags]
    assert 200 == await asked(token, public.headers["ETag"])


async def test_open_bans_hide_no_shadow_and_a_shadow_takes_no_message(harness: Harness):
    """Of both, the open one decides; a player who is told of a ban would notice it."""
    token, own, best, _ = await a_board(harness)
    told = await ban(harness, own, shadow=True)
    assert (422, "schema-violation") == (told.status, told.problem)
    shadow = await ban(harness, own, shadow=True, message="")
    other = await ban(harness, own, shadow=False, message="")
    assert (422, "idempotency-mismatch") == (other.status, other.problem)
    until = rfc3339(harness.clock() + 60_000)
    await ban(harness, own, operation="ban-2", board="sprint", until=until)
    refused = await harness.post(f"{BOARD}/runs", {"build": "arcade-1"}, token)
    assert (403, "player-banned") == (refused.status, refused.problem)
    assert 404 == (await harness.get(f"{BOARD}/entries/{own}", token)).status
    state = (await harness.get(f"/v1/submissions/{best}", token)).body
    assert ("revoked", "moderation") == (state["state"], state["reason"])
    [listed] = [
        each for each in (await harness.get(path_of(own), harness.moderator())).body["bans"] if each["shadow"]
    ]
    assert shadow.body["ban"] == listed["ban"]
    trail = (await harness.get("/v1/moderation/trail", harness.moderator())).body["events"]
    assert [False, True] == [each["detail"]["is_shadow"] for each in trail if each["reason"] == "banned"]


async def test_without_the_ledger_an_own_view_is_the_one_of_all(harness: Harness, monkeypatch: Any):
    """The index still answers; nothing fails for the sake of a ban."""
    token, own, best, last = await a_board(harness)
    await ban(harness, own, shadow=True, message="")
    paths = [path for path in reads(own, last, best) if f"/{own}" not in path and "details" not in path]

    async def away(*_: Any) -> Any:
        raise LedgerUnavailable("away")

    monkeypatch.setattr(type(harness.edge.ledger), "read", away)
    answers = [await harness.get(path, token) for path in paths]
    assert {200} == {answer.status for answer in answers}
    assert not [answer for answer in answers if own in answer.raw.decode()]


async def test_a_shadow_banned_player_finds_all_their_boards_in_lists(harness: Harness):
    """Pages of a family's boards, and named boards, with ranks and totals, of others too; to others nowhere."""
    key = await registered(harness)
    token = await harness.new_player("Ada")
    own = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    names = [f"track.{letter}" for letter in "abcd"]
    await open_tracks(harness.edge.ledger, *names)
    for number, name in enumerate(names):
        for player, score in ((own, 5), ("bob", 4 + number % 2 * 2)):
            entry = {"operation": f"op-{number}-{player}", "player": player, "score": score}
            written = await harness.as_server(key, "eu-1", f"/v1/boards/{name}/entries", entry)
            assert 202 == written.status, written.raw
    await harness.edge.index.drained()

    async def listed(token: str | None, limit: int) -> list[Any]:
        rows: list[Any] = []
        path = f"/v1/families/track/players/{own}/standings?limit={limit}"
        more = ""
        while True:
            page = (await harness.get(path + more, token)).body
            rows += page["standings"]
            if page["next"] is None:
                return rows
            more = f"&cursor={page['next']}"

    named = f"/v1/players/{own}/entries?boards={','.join(names)},sprint"
    of_rollup = [
        "/v1/boards/total/entries",
        f"/v1/boards/total/entries/{own}",
        "/v1/boards/total/distribution?bins=2",
        f"/v1/players/{own}/entries?boards=total",
        "/v1/players/bob/entries?boards=total",
    ]
    of_other = [
        path.replace(own, "bob") for path in (named, f"/v1/families/track/players/{own}/standings?limit=3")
    ]
    before = [await listed(token, limit) for limit in (1, 3, 25)], (await harness.get(named, token)).body
    others = [(await harness.get(path, token)).body for path in of_other]
    rollup = [(await harness.get(path, token)).body for path in of_rollup]
    assert (2, 20) == (rollup[0]["total"], rollup[1]["score"])
    assert [(name, 1 + number % 2, 2) for number, name in enumerate(names)] == [
        (row["board"], row["rank"], row["total"]) for row in before[0][0]
    ]
    scopes = ({"board": "track.b"}, {"board": "track.d"}, {"family": "track"})
    for number, (scope, letters) in enumerate(zip(scopes, ("acd", "ac", ""), strict=True)):
        left = [f"track.{letter}" for letter in letters]
        assert (
            201
            == (await ban(harness, own, operation=f"ban-{number}", shadow=True, message="", **scope)).status
        )
        for who in (None, await harness.new_player("Dan")):
            assert left == [row["board"] for row in await listed(who, 3)]
            entries = (await harness.get(named, who)).body["entries"]
            assert left == [row["board"] for row in entries if row["status"] == "ranked"]
        after = [await listed(token, limit) for limit in (1, 3, 25)], (await harness.get(named, token)).body
        assert before == after
        assert others == [(await harness.get(path, token)).body for path in of_other]
        assert rollup == [(await harness.get(path, token)).body for path in of_rollup]
        public = await harness.get(of_rollup[1])
        wanted = (200, 5 * len(left)) if left else (404, None)
        assert wanted == (public.status, public.body.get("score"))
        seen = [(await harness.get(path)).body for path in of_other]
        assert 1 == seen[0]["entries"][1]["standing"]["total"] == seen[1]["standings"][1]["total"]


async def test_a_shadow_banned_player_without_a_run_finds_nothing_of_theirs_as_before(harness: Harness):
    """Neither on a rollup nor on the board of the ban, by name or in its pages."""
    token = await harness.new_player("Ada")
    own = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    paths = [
        f"/v1/players/{own}/entries?boards=total,sprint",
        "/v1/players/bob/entries?boards=total,sprint",
        f"/v1/families/track/players/{own}/standings",
        "/v1/boards/total/entries",
    ]
    before = [(await harness.get(path, token)).body for path in paths]
    assert 201 == (await ban(harness, own, shadow=True, message="")).status
    assert before == [(await harness.get(path, token)).body for path in paths]


async def test_a_shadow_banned_player_is_among_friends_and_named_players_to_themselves(harness: Harness):
    """With both ranks; a friend finds nobody there."""
    token, own, _, last = await a_board(harness)
    friend = await harness.new_player("Eve")
    for who, whom in ((token, last), (friend, own), (friend, last)):
        followed = Request("PUT", f"/v1/friends/{whom}", b"", {"Authorization": f"Bearer {who}"})
        assert 200 == (await harness.send(followed)).status
    paths = [
        f"{BOARD}/entries?players={last},{own},nobody",
        f"{BOARD}/entries?players={last}",
        f"{BOARD}/entries?friends=true",
        f"{BOARD}/entries?friends=true&offset=1&limit=1",
        f"{BOARD}/entries/{last}/around?friends=true&radius=1",
        f"{BOARD}/entries/{own}/around?friends=true&radius=0",
    ]
    before = [(await harness.get(path, token)).body for path in paths]
    assert [(2, 1), (3, 2)] == [(each["global_rank"], each["rank"]) for each in before[2]["entries"]]
    await ban(harness, own, shadow=True, message="")
    assert before == [(await harness.get(path, token)).body for path in paths]
    for path in paths[:4]:
        page = (await harness.get(path, friend)).body
        assert own not in {each["player"] for each in page["entries"]}
    assert 404 == (await harness.get(paths[-1], friend)).status


async def test_a_shadow_banned_player_is_on_the_boards_of_their_groups_to_themselves(harness: Harness):
    """With both ranks, among neighbours; others' ranks in groups of others are those beside this player."""
    token, own, _, last = await a_board(harness)
    top = (await harness.get(f"{BOARD}/entries")).body["entries"][0]["player"]
    for who, country in ((own, "de"), (top, "de"), (last, "fr")):
        path = f"{BOARD}/memberships/country"
        assert 200 == (await call(harness, "PUT", path, token_of(harness, who), {"value": country})).status
    await harness.edge.index.drained()
    paths = [
        f"{BOARD}/entries?segment=country:de",
        f"{BOARD}/entries?segment=country:de&offset=1",
        f"{BOARD}/entries?segment=country:de&limit=1",
        f"{BOARD}/entries?segment=country:fr",
        f"{BOARD}/entries/{own}/around?segment=country:de&radius=1",
        f"{BOARD}/entries/{top}/around?segment=country:de&radius=1",
        f"{BOARD}/entries/{own}/around?segment=country:fr",
    ]

    async def seen(who: str | None) -> list[Any]:
        answers = [await harness.get(path, who) for path in paths]
        return [(answer.status, answer.body) for answer in answers]

    before = await seen(token)
    assert [(2, 2)] == [(each["rank"], each["global_rank"]) for each in before[1][1]["entries"]]
    assert [(1, 3)] == [(each["rank"], each["global_rank"]) for each in before[3][1]["entries"]]
    await ban(harness, own, shadow=True, message="")
    assert before == await seen(token)
    public = await seen(None)
    assert [1, 0, 1, 1] == [len(body["entries"]) for _, body in public[:4]]
    assert [404, 200] == [status for status, _ in public[4:6]]
    assert 2 == public[3][1]["entries"][0]["global_rank"]


async def test_a_shadow_banned_player_pays_for_the_view_of_their_own(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """And nobody else for anything: a look into memory is free."""
    token, own, _, _ = await a_board(harness)
    charged = noted_charges(monkeypatch)
    monkeypatch.setattr(CostMeter, "add", lambda *_: None)  # what is measured may be anything
    costs = []
    for shadow in (False, True):
        if shadow:
            await ban(harness, own, shadow=True, message="")
        for who in (token, None):
            charged.clear()
            await harness.get(f"{BOARD}/entries", who)
            own_views = [cost for cost in charged if OWN_VIEW_US <= cost < OWN_VIEW_US + 1]
            costs.append((len(own_views), max(charged) < OWN_VIEW_US))
            assert DECLARED_US["/v1/boards/{board}/entries"] <= charged[0] < OWN_VIEW_US
    assert [(0, True), (0, True), (1, False), (0, True)] == costs
    monkeypatch.setattr(banned_folds, "RUNS_LIMIT", 0)
    charged.clear()
    page = await harness.get(f"{BOARD}/entries?window=daily", token)
    assert own not in page.raw.decode()
    assert any(cost >= OWN_VIEW_US for cost in charged)


async def test_a_shadow_banned_player_stays_in_archived_windows_to_themselves(harness: Harness):
    """Pages, cursors, figures and lists are as they were, of a later revision; others see nobody there."""
    token, own, _, last = await a_board(harness)
    day = (await harness.get(f"{BOARD}/entries?window=daily")).body["window"]
    harness.clock.shift(DAY_S + 600)
    steward = harness.steward()
    while await steward.archive():
        pass
    paths = [
        f"{BOARD}/entries?window={day}",
        f"{BOARD}/entries?window={day}&offset=2",
        f"{BOARD}/entries?window={day}&limit=1&ranks=unique",
        f"{BOARD}/entries/{own}?window={day}",
        f"{BOARD}/entries/{last}?window={day}",
        f"{BOARD}/entries/{own}/around?window={day}&radius=1",
        f"{BOARD}/entries/{last}/around?window={day}&radius=1",
        f"{BOARD}/entries?players={last},{own}&window={day}",
        f"{BOARD}/percentiles?at=0,34,66,67,100&window={day}",
        f"{BOARD}/distribution?edges=100,150,200,201&window={day}",
        f"/v1/players/{own}/entries?boards=sprint&window={day}",
        f"/v1/players/{last}/entries?boards=sprint&window={day}",
    ]

    async def seen(who: str | None) -> list[Any]:
        """Each answer without its revision; a cursor stands for the page that it leads to."""
        shown = []
        for path in paths:
            body = (await harness.get(path, who)).body
            while body.get("next"):
                following = (await harness.get(f"{BOARD}/entries?cursor={body['next']}", who)).body
                body = following | {"entries": body["entries"] + following["entries"]}
            shown.append(
                {name: body[name] for name in body if name not in ("revision", "frozen_at", "previous")}
            )
        return shown

    before = await seen(token)
    assert [3, 3, 1] == [
        len(before[0]["entries"]),
        len(before[2]["entries"]),
        before[1]["entries"][0]["rank"] - 2,
    ]
    await ban(harness, own, shadow=True, message="")
    assert before == await seen(token)

    async def build_revision() -> None:
        await steward.archive()
        harness.clock.shift(QUIET_MS / 1000)
        while await steward.archive():
            pass

    await build_revision()
    assert before == await seen(token)
    page = await harness.get(paths[0])
    assert (2, 2, False) == (page.body["revision"], page.body["total"], own in page.raw.decode())
    assert [404, 404] == [(await harness.get(paths[at])).status for at in (3, 5)]
    behind = f"/v1/moderation/cases/{page.body['entries'][1]['submission']}/revoke"
    await harness.post(behind, {"code": "other", "note": "a cheat"}, harness.moderator())
    await build_revision()
    shown = (await harness.get(paths[5], token)).body
    assert (3, 2, [1, 2]) == (shown["revision"], shown["total"], [each["rank"] for each in shown["entries"]])


async def test_a_shadow_banned_player_is_not_told_by_their_own_feed(harness: Harness):
    """Neither by events nor by a socket, though its edge has not heard of the ban yet; others hear of it."""
    token, own, _, last = await a_board(harness)
    async with (
        sse(harness, board="sprint") as public,
        sse(harness, board="sprint", token=token) as of_own,
        websocket(harness, board="sprint", protocols=["scoregate.v1", f"bearer.{token}"]) as socket,
    ):
        follower = BanFollower(harness.edge.ledger, harness.edge.index, harness.edge.catalogue)
        await harness.edge.ledger.write(begin(a_ban("one", own, "sprint", is_shadow=True)))
        await follower.follow("one", now_ms=harness.clock(), slices=100)
        await submitted(harness, last, 120, board="sprint", state=State.PROMOTED)
        heard = [
            [(told := await feed.event()).data["player"], told.data["score"]] for feed in (of_own, socket)
        ]
        assert [[last, 120]] * 2 == heard
        gone = (await public.event()).data
        assert (own, None) == (gone["player"], gone["score"])
