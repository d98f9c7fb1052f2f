"""Boards that a player's first run opens: real names alone, once, within limits, and nothing left by a refusal."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import SecretStr
from scoregate_client import ScoregateClient, sign_board_name

from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.context import EDGE, Edge
from gateway.edge.submissions import first_runs, runs
from gateway.edge_wiring import put_in_force
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.transaction import Operation
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from policies.loader import load_policies
from policies.opened_board import BoardState
from policies.seeds import board_seed
from tests.support.clock import ShiftedClock
from tests.support.families import open_tracks, turn_tracks
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.policies import a_family, write_policies
from tests.support.stores import Store, on_both_if_thorough, on_both_ledgers
from tests.support.valkey import ValkeyServer, running_valkey

ROOT = Path(__file__).parents[2]
BODY = {"build": "b-1"}
ONE_COURSE = {"seed": "board", "validators": {"similarity": "flag", "recording_reuse": "flag"}}


@dataclass
class Deployment:
    """Two edges with one ledger and one Redis, behind a proxy that says from where players come."""

    one: Harness
    other: Harness
    store: Store
    valkey: ValkeyServer

    async def run(
        self, board: str, player: str = "ada", *, edge: Harness | None = None, address: str = "", **more: Any
    ) -> Answer:
        """The answer to a player who asks for a run."""
        edge = edge or self.one
        now_s = edge.clock() // 1000
        token = edge.edge.tokens.mint(Bearer(player, Role.PLAYER, now_s + 3600), now_s=now_s)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        if address:
            headers["X-Forwarded-For"] = address
        body = json.dumps(BODY | more).encode()
        return await edge.send(Request("POST", f"/v1/boards/{board}/runs", body, headers))

    async def told(self, board: str, player: str = "ada", **how: Any) -> tuple[int, str]:
        answer = await self.run(board, player, **how)
        return answer.status, answer.problem

    async def rows(self) -> dict[str, int]:
        """How many rows each table has that an opening writes to."""
        tables = ("boards", "board_fields", "events", "outbox", "board_duties", "submissions")
        counts = {table: (await self.store.sql(f"SELECT count(*) FROM {table}"))[0][0] for table in tables}
        [(players_boards,)] = await self.store.sql("SELECT coalesce(sum(boards), 0) FROM family_openings")
        return counts | {"players' boards": int(players_boards)}

    def forget_limits(self) -> None:
        """Empties Redis."""
        with self.valkey.client() as client:
            client.flushall()

    def keys(self, pattern: str) -> dict[str, int]:
        """The keys of Redis and how long they live (s)."""
        with self.valkey.client() as client:
            return {str(key): client.ttl(key) for key in client.keys(pattern)}


def settings_of(tmp_path: Path, redis_url: str, ledger_url: str, *families: dict[str, Any]) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", *families),
        redis_url=redis_url,
        ledger_url=SecretStr(ledger_url),
        trusted_proxies=("127.0.0.1",),
        bind=f"127.0.0.1:{free_port()}",
    )


@asynccontextmanager
async def deployed(
    tmp_path: Path, valkey: ValkeyServer, store: Store, *families: dict[str, Any]
) -> AsyncIterator[Deployment]:
    # However busy the machine is, none of a hundred requests at once comes too late.
    settings = settings_of(tmp_path, valkey.url, store.url, *families).model_copy(
        update={"answer_within_s": 60.0}
    )
    beside = settings.model_copy(update={"bind": f"127.0.0.1:{free_port()}"})
    clock = ShiftedClock()
    async with running_harness(settings, clock) as one, running_harness(beside, clock) as other:
        yield Deployment(one, other, store, valkey)


NOTHING = (404, "not-found")
OPENED = (201, "")
QUOTA = (429, "quota-exceeded")


@on_both_ledgers
async def test_a_first_run_opens_a_board_on_every_edge(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """One request opens it and gives the run; the other edge has it at once; the player is the actor."""
    family = a_family(opened_by="both", names=["monza", "Spa", "imola"], builds={"b-1": {}}, **ONE_COURSE)
    async with deployed(tmp_path, valkey, store, family) as game:
        assert NOTHING == (
            (before := await game.other.get("/v1/boards/track.monza")).status, before.problem,
        )  # fmt: skip
        run = await game.run("track.monza", "ada")
        assert 201 == run.status, run.raw
        assert "track.monza" == run.body["board"]
        assert str(board_seed("track", "track.monza", bytes(32))) == run.body["seed"]
        shown = (await game.other.get("/v1/boards/track.monza")).body["opened"]
        assert ("monza", "open", 1, {}, {}) == tuple(
            shown[name] for name in ("title", "state", "version", "metadata", "parameters")
        )
        assert OPENED == await game.told("track.monza", "bob", edge=game.other)
        events = await game.store.sql("SELECT board, player, actor, reason, to_state, detail FROM events")
        [(*facts, detail)] = events
        assert ["track.monza", "", "player:ada", "board-opened", "open"] == facts
        assert ("monza", {}, "", None) == tuple(
            json.loads(detail)[name] for name in ("title", "metadata", "parameters", "asset")
        )
        listed = (await game.other.get("/v1/families/track/boards")).body["boards"]
        assert ["track.monza"] == [board["board"] for board in listed]
        assert 'scoregate_boards_opened_total{by="player",family="track"}' in await game.one.metrics()

        # A server's board is played and never opened by a player, and what was closed or deleted stays so.
        await open_tracks(game.one.edge.ledger, "track.Spa", "track.imola")
        await turn_tracks(game.one.edge.ledger, ["track.Spa"], BoardState.CLOSED)
        await turn_tracks(game.one.edge.ledger, ["track.imola"], BoardState.DELETED)
        rows = await game.rows()
        for edge in (game.one, game.other):
            assert (403, "board-closed") == await game.told("track.Spa", "dee", edge=edge)
            assert NOTHING == await game.told("track.imola", "dee", edge=edge)
        assert rows == await game.rows()
        assert {"limit:{track}:openings:player:ada"} == set(game.keys("limit:*:openings:player:*"))


@on_both_ledgers
async def test_a_hundred_players_open_a_name_once(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """By two edges at once: each has a run, there is one board and one event, and an edge charges one player."""
    async with deployed(tmp_path, valkey, store, a_family(opened_by="players", names="[a-z]{5}")) as game:
        edges = (game.one, game.other)
        answers = await asyncio.gather(
            *(game.run("track.monza", f"p{at}", edge=edges[at % 2]) for at in range(100))
        )
        assert Counter({201: 100}) == Counter(answer.status for answer in answers)
        assert 100 == len({answer.body["run"] for answer in answers})
        rows = await game.rows()
        assert (1, 1, 1) == (rows["boards"], rows["events"], rows["players' boards"])
        assert 2 >= len(game.keys("limit:{track}:openings:player:*"))
        assert [0, 0] == [len(edge.edge.openings) for edge in edges]


async def test_a_player_who_comes_late_is_not_charged(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """On either edge: of who found no board, and takes a turn when another's opening is over and forgotten."""
    player_of, found_none, is_open = runs.player_of, asyncio.Semaphore(0), asyncio.Event()

    async def held(request: web.Request) -> Bearer:
        bearer = await player_of(request)
        if bearer.subject != "ada":
            found_none.release()
            await is_open.wait()
        return bearer

    monkeypatch.setattr(runs, "player_of", held)
    async with deployed(tmp_path, valkey, store, a_family(opened_by="players", names="[a-z]+")) as game:
        late = [
            asyncio.create_task(game.told("track.monza", player, edge=edge))
            for player, edge in (("bob", game.one), ("cyd", game.other))
        ]
        async with asyncio.timeout(20):
            for _ in late:
                await found_none.acquire()
        assert OPENED == await game.told("track.monza", "ada")
        assert 0 == len(game.one.edge.openings)
        is_open.set()
        assert [OPENED, OPENED] == await asyncio.gather(*late)
        assert {"limit:{track}:openings:player:ada"} == set(game.keys("limit:*:openings:player:*"))


@on_both_ledgers
async def test_players_open_no_more_than_the_policy_says(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """Each player, address and network, by any edge; and all together, whatever they do to addresses and Redis."""
    limits = {"player_per_hour": 2, "address_per_hour": 3, "per_hour": 30, "in_all": 31}
    family = a_family(opened_by="players", names="[a-z0-9]+", opening=limits)
    async with deployed(tmp_path, valkey, store, family) as game:
        edges = (game.one, game.other)
        game.one.clock.stop()

        async def refused(name: str, *by: str, **how: Any) -> Answer:
            rows = await game.rows()
            answer = await game.run("track.refused", *by, **how)
            assert QUOTA == (answer.status, answer.problem), answer.raw
            assert f'"{name}";r=0;t={answer.headers["Retry-After"]}' == answer.headers["RateLimit"]
            assert 0 < int(answer.headers["Retry-After"]) <= 3600
            assert rows == await game.rows()
            return answer

        for at, edge in enumerate(edges):
            assert OPENED == await game.told(f"track.a{at}", edge=edge, address="10.0.0.1")
        await refused("player-openings", address="10.9.9.9")
        assert OPENED == await game.told("track.b", "bob", address="10.0.0.1")
        answer = await refused("address-openings", "bob", edge=game.other, address="10.0.0.1")
        assert '"address-openings";q=3;w=3600' == answer.headers["RateLimit-Policy"]
        assert OPENED == await game.told("track.a0", "bob", address="10.0.0.1"), "it is open already"
        for at in range(21):
            assert OPENED == await game.told(f"track.c{at}", f"c{at}", address=f"10.0.0.{2 + at // 3}")
        await refused("network-openings", "cyd", address="10.0.0.99")
        assert all(0 < life_s <= 3600 for life_s in game.keys("limit:*:openings:*").values())

        for at in range(6):  # with 24 opened before
            game.forget_limits()
            assert OPENED == await game.told(f"track.d{at}", f"d{at}", address=f"10.1.{at}.1")
        for at in range(5):
            game.forget_limits()
            await refused("openings", f"e{at}", edge=edges[at % 2], address=f"10.2.{at}.1")
        game.one.clock.shift(120)
        assert OPENED == await game.told("track.last", "fay", address="10.3.0.1")
        game.one.clock.shift(86_400)
        rows = await game.rows()
        for at, edge in enumerate(edges):
            full = await game.told("track.refused", f"g{at}", edge=edge, address=f"10.4.{at}.1")
            assert (409, "family-full") == full
        assert OPENED == await game.told("track.last", "gus", address="10.4.5.1")
        assert rows == await game.rows()
        assert NOTHING == ((read := await game.one.get("/v1/boards/track.refused")).status, read.problem)


def key_text(private: Ed25519PrivateKey) -> str:
    return base64.b64encode(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def signed(private: Ed25519PrivateKey, board: str, domain: str = "scoregate/board-name/1\n") -> str:
    return base64.b64encode(private.sign(f"{domain}{board}".encode())).decode()


@on_both_if_thorough
async def test_a_name_is_real_if_the_studio_signed_it(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """Exactly this name, of this family, by a key of the policy; and it must be one that the policy allows."""
    first, second, stranger = (Ed25519PrivateKey.generate() for _ in range(3))
    keys = {"signed_by": [key_text(first), key_text(second)]}
    families = (
        a_family("map", opened_by="both", opening=keys),
        a_family(opened_by="players", names="[a-z]+", opening=keys),
    )
    async with deployed(tmp_path, valkey, store, *families) as game:
        unsigned = (403, "name-unsigned")
        assert unsigned == await game.told("map.k3x9")
        for false in (
            signed(stranger, "map.k3x9"),
            signed(first, "map.k3x8"),
            signed(first, "track.k3x9"),
            signed(first, "k3x9"),
            signed(first, "map.k3x9", ""),
            base64.b64encode(bytes(64)).decode(),
        ):
            assert unsigned == await game.told("map.k3x9", name_signature=false)
        for malformed in ("", "x" * 88, signed(first, "map.k3x9")[:-2], 7):
            told = await game.told("map.k3x9", name_signature=malformed)
            assert (422, "schema-violation") == told
        assert NOTHING == await game.told("track.K3", name_signature=signed(first, "track.K3"))
        assert {0} == set((await game.rows()).values())
        assert {} == game.keys("limit:*:openings:*")

        assert OPENED == await game.told("map.k3x9", name_signature=signed(first, "map.k3x9"))
        assert OPENED == await game.told("map.other", name_signature=signed(second, "map.other"))
        assert OPENED == await game.told("track.monza", name_signature=signed(second, "track.monza"))
        assert OPENED == await game.told("map.k3x9", "bob", edge=game.other), "an open board needs none"
        assert OPENED == await game.told("map.k3x9", name_signature=signed(stranger, "map.k3x9"))
        assert 3 == (await game.rows())["boards"]


@on_both_if_thorough
async def test_the_client_and_the_how_to_sign_alike(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """What a map server signs with either is what the edge takes, and the page's own example opens its board."""
    page = (ROOT / "docs" / "how-to" / "a-board-for-each-level.md").read_text(encoding="utf-8")
    [key], [signature] = (
        re.findall(r"signed_by: \[(.+)\]", page),
        re.findall(r'"name_signature": "(.+)"', page),
    )
    own = Ed25519PrivateKey.generate()
    opening = {"signed_by": [key, key_text(own)]}
    async with deployed(
        tmp_path, valkey, store, a_family("map", opened_by="players", opening=opening)
    ) as game:
        async with ScoregateClient(game.one.url) as client:
            await client.create_player("Ada")
            run = await client.open_run("map.k3x9", "b-1", name_signature=signature)
            assert "map.k3x9" == run.board
            run = await client.open_run("map.own", "b-1", name_signature=sign_board_name(own, "map.own"))
            assert "map.own" == run.board


async def test_a_run_that_is_refused_opens_nothing(tmp_path: Path, valkey: ValkeyServer, store: Store):
    """Nor does anything that is no run of a player; a false name leaves neither a row, nor a key, nor a memory."""
    families = (
        a_family(opened_by="players", names=["monza"], builds={"b-1": {}}),
        a_family("level", names=["a"]),
        a_family("tour", opened_by="both", names=["a"], boards={"a": {"title": "A"}}),
    )
    async with deployed(tmp_path, valkey, store, *families) as game:
        now_s = game.one.clock() // 1000
        moderator = game.one.moderator("track")
        expired = game.one.edge.tokens.mint(Bearer("ada", Role.PLAYER, now_s - 60), now_s=now_s - 3600)
        before = await game.rows()
        path = "/v1/boards/track.monza/runs"
        for token, body, status in (
            (None, BODY, 401),
            (expired, BODY, 401),
            (moderator, BODY, 403),
        ):
            assert status == (await game.one.post(path, body, token)).status
        assert (422, "build-unknown") == await game.told("track.monza", build="b-2")
        assert (422, "schema-violation") == await game.told("track.monza", build="b 2")
        assert (422, "schema-violation") == await game.told("track.monza", title="Mine")
        for read in ("", "/entries", "/players/ada", "/windows"):
            assert 404 == (await game.one.get(f"/v1/boards/track.monza{read}")).status
        assert NOTHING == await game.told("level.a"), "its boards are opened by servers"
        assert NOTHING == await game.told("tour.a"), "a steward opens what is declared"
        for at in range(300):
            assert NOTHING == await game.told(f"track.n{at}")
        for false in ("track", "track.", "track.Monza", "track.monza.gp", "other.monza"):
            assert 404 == (await game.run(false)).status, false
        assert before == await game.rows()
        assert {} == game.keys("limit:*:openings:*")
        assert [] == [key for key in game.keys("*") if "track." in key or "level." in key]
        assert (0, 0, 0) == (
            len(game.one.edge.catalogue.cache), len(game.one.edge.openings), len(game.one.edge.parts.cache),
        )  # fmt: skip
        assert OPENED == await game.told("track.monza")


async def test_policies_that_changed_meanwhile_open_nothing(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """A request that was under way by then finds what its board would be by the policies of now: nothing."""
    opening = runs.open_first
    later = write_policies(tmp_path / "later", a_family(names="[a-z]+", builds={"b-1": {}}))

    async def open_later(request: web.Request, *about: Any) -> Any:
        put_in_force(request.app[EDGE], load_policies(later))
        return await opening(request, *about)

    family = a_family(opened_by="players", names="[a-z]+", builds={"b-1": {}})
    async with deployed(tmp_path, valkey, store, family) as game:
        before = await game.rows()
        with monkeypatch.context() as patched:
            patched.setattr(runs, "open_first", open_later)
            assert NOTHING == await game.told("track.monza")
        assert before == await game.rows()
        assert OPENED == await game.told("track.monza", edge=game.other)


async def test_a_board_that_ended_meanwhile_takes_no_run_of_who_opened_it(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Nor of those who waited for it: each run is for the board as it is once it is open."""
    async with deployed(tmp_path, valkey, store, a_family(opened_by="players", names="[a-z]+")) as game:
        opening = first_runs._open

        async def open_and_close(edge: Edge, *about: Any) -> None:
            await opening(edge, *about)
            await turn_tracks(edge.ledger, ["track.monza"], BoardState.CLOSED)

        monkeypatch.setattr(first_runs, "_open", open_and_close)
        told = await asyncio.gather(*(game.told("track.monza", player) for player in ("ada", "bob")))
        assert [(403, "board-closed")] * 2 == told
        assert OPENED == await game.told("track.spa", "dee"), "another board is as it was opened"


async def test_a_ledger_that_fails_leaves_a_whole_board_or_none(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """503 to all who wait for it, and no run; asked again, the board is there if its commit was made."""
    async with deployed(tmp_path, valkey, store, a_family(opened_by="players", names="[a-z]+")) as game:
        ledger = type(game.one.edge.ledger)
        write, calls = ledger.write, []
        under_way, waiting = game.one.edge.openings._under_way, 10

        async def refuse(self: Any, work: Operation[Any]) -> Any:
            calls.append(work)
            async with asyncio.timeout(20):
                while under_way["track.monza"].requests < waiting:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0)
            raise LedgerUnavailable("the disk is gone")

        async def commit_unheard(self: Any, work: Operation[Any]) -> Any:
            await write(self, work)
            raise LedgerUnavailable("nobody heard the answer")

        down = (503, "temporary-reduced-capacity")
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "write", refuse)
            told = await asyncio.gather(*(game.told("track.monza", f"p{at}") for at in range(10)))
            assert [down] * 10 == told
            assert 1 == len(calls), "those who wait do not try one after the other"
            waiting = 1
            assert down == await game.told("track.monza", "late")
            assert 2 == len(calls), "who comes later does"
        assert {0} == set((await game.rows()).values())
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "write", commit_unheard)
            assert down == await game.told("track.monza")
        rows = await game.rows()
        assert OPENED == await game.told("track.monza")
        assert (1, 1, 1) == (rows["boards"], rows["events"], rows["players' boards"])
        assert rows == await game.rows()
        with monkeypatch.context() as patch:

            async def unread(self: Any, work: Operation[Any], *kind: Any) -> Any:
                raise LedgerUnavailable("the disk is gone")

            patch.setattr(ledger, "read", unread)
            assert down == await game.told("track.spa")
        assert OPENED == await game.told("track.spa")


async def test_without_redis_boards_are_opened_within_the_limits_of_a_process(tmp_path: Path, store: Store):
    """A player's limit holds by itself, and the limit of all players does as before."""
    limits = {"player_per_hour": 2, "per_hour": 4}
    family = a_family(opened_by="players", names="[a-z]+", opening=limits)
    with running_valkey() as valkey:
        async with deployed(tmp_path, valkey, store, family) as game:
            valkey.kill()
            assert [OPENED, OPENED] == [await game.told(f"track.{rest}") for rest in ("a", "b")]
            refused = await game.run("track.c")
            assert (429, '"player-openings"') == (refused.status, refused.headers["RateLimit"].split(";")[0])
            assert [OPENED, OPENED] == [await game.told(f"track.{rest}", rest) for rest in ("c", "d")]
            refused = await game.run("track.e", "eve")
            assert (429, '"openings"') == (refused.status, refused.headers["RateLimit"].split(";")[0])
            boards = await game.one.edge.ledger.read(boards_named([f"track.{rest}" for rest in "abcde"]))
            assert ["track.a", "track.b", "track.c", "track.d"] == sorted(boards)
