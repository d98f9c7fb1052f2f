"""Whatever what we depend on does to a connection has its answer: never a 500, in a thorough run on either event loop."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop
from pydantic import SecretStr

import gateway
from gateway.runtime.settings import Settings
from tests.support.attack import registered, until
from tests.support.every_route import requests, statuses
from tests.support.harness import Harness, free_port, running_harness
from tests.support.hostile import HostileServer, Manner, hostile_server
from tests.support.policies import a_policy, write_policies
from tests.support.postgres import APP, PostgresServer
from tests.support.proxy import ChaosProxy, as_it_comes, chaos_proxy
from tests.support.thorough import IS_THOROUGH
from tests.support.valkey import ValkeyServer

LOOPS = {"uvloop": uvloop.run} | ({"asyncio": asyncio.run} if IS_THOROUGH else {})
"""That of an edge on Linux, and the other one."""

SUM = {"operator": "sum", "score": {"minimum": 0, "maximum": 2**40, "step": 1}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    boards = (
        a_policy("sprint"),
        a_policy(
            "vault", writes="trusted", segments=["country"], self_declared=["country"], joins="required"
        ),
        a_policy("total", writes="trusted", **SUM),
    )
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, bind=bind, redis_timeout_ms=50)


async def failures(harness: Harness, private, manner: Manner, player: str) -> list[str]:
    """The requests, of one for each route, that were answered with a 500, or `/readyz` if it was not answered."""
    found = await statuses(harness, requests(harness, private, player=player))
    wrong = [f"{manner.name}: {each}" for each, status in found.items() if status == 500]
    return wrong + [f"{manner.name}: readyz {found['GET /readyz']}"] * (
        found["GET /readyz"] not in {200, 503}
    )


@pytest.mark.parametrize("loop", LOOPS)
def test_F20_a_redis_that_behaves_like_none_is_no_500(settings: Settings, loop: str, monkeypatch):
    """Connections that are reset, hang, are cut in a reply or answer nonsense: every route answers, and none with 500."""
    wrong: list[str] = []
    bodies: list[str] = []

    async def scenario() -> None:
        async with hostile_server() as hostile:
            url = f"redis://127.0.0.1:{hostile.port}/0"
            async with running_harness(settings.model_copy(update={"redis_url": url})) as harness:
                private = await registered(harness)
                for manner in Manner:
                    hostile.manner = manner
                    wrong.extend(await failures(harness, private, manner, f"p-{manner.name}"))
                hostile.manner = Manner.RESET_AT_ONCE
                bodies.append((await harness.get("/readyz")).body["status"])

    LOOPS[loop](scenario())
    assert [] == wrong
    assert ["degraded"] == bodies


@pytest.mark.parametrize("loop", LOOPS)
def test_F20_a_redis_that_turns_under_an_edge_that_knew_it_is_no_500(
    settings: Settings, valkey: ValkeyServer, loop: str
):
    """The same with connections that were good before: what is in the pool breaks in the middle of its use."""
    wrong: list[str] = []

    async def scenario() -> None:
        async with hostile_server() as hostile, chaos_proxy(str(valkey.socket)) as proxy:
            changed = settings.model_copy(update={"redis_url": proxy.redis_url})
            async with running_harness(changed) as harness:
                private = await registered(harness)
                await asyncio.to_thread(
                    harness.moderator
                )  # its account comes through the proxy, which runs here
                for manner in (Manner.RESET, Manner.RESET_AT_ONCE, Manner.CUT):
                    assert [] == await failures(harness, private, manner, "well")
                    hostile.manner = manner
                    await turned(proxy, hostile, lambda m=manner: failures(harness, private, m, "ill"), wrong)

    LOOPS[loop](scenario())
    assert [] == wrong


async def turned(
    proxy: ChaosProxy, hostile: HostileServer, ask: Callable[[], Awaitable[list[str]]], wrong: list[str]
) -> None:
    """Asks while the proxy's other end is the hostile one, beginning in the middle of it."""
    good, proxy._upstream = proxy._upstream, f"127.0.0.1:{hostile.port}"
    asked = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    proxy.reset_all()
    wrong.extend(await asked)
    wrong.extend(await ask())
    proxy._upstream = good
    proxy.reset_all()


@pytest.mark.parametrize("loop", LOOPS)
def test_F20_a_database_that_behaves_like_none_is_no_500(
    settings: Settings, valkey: ValkeyServer, postgres_server: PostgresServer, loop: str, monkeypatch
):
    """PostgreSQL behind a balancer that resets, cuts and answers nonsense: 503 where the ledger is needed, never 500."""
    monkeypatch.setattr("gateway.ledger.postgres.store.REPLY_TIMEOUT_S", 0.5)
    monkeypatch.setattr("gateway.ledger.postgres.store.CONNECT_TIMEOUT_S", 0.5)
    wrong: list[str] = []

    async def scenario() -> None:
        async with (
            postgres_server.database() as name,
            hostile_server() as hostile,
            chaos_proxy(f"127.0.0.1:{postgres_server.port}", as_it_comes) as proxy,
        ):
            url = SecretStr(postgres_server.url(name, APP, port=proxy.port))
            changed = settings.model_copy(update={"redis_url": valkey.url, "ledger_url": url})
            async with running_harness(changed) as harness:
                private = await registered(harness)
                await asyncio.to_thread(
                    harness.moderator
                )  # its account comes through the proxy, which runs here
                for manner in (Manner.RESET, Manner.RESET_AT_ONCE, Manner.CUT, Manner.NOISE, Manner.NUMBERS):
                    hostile.manner = manner
                    await turned(proxy, hostile, lambda m=manner: failures(harness, private, m, "ill"), wrong)
                await until(lambda: is_ready(harness), within_s=20)

    LOOPS[loop](scenario())
    assert [] == wrong


async def is_ready(harness: Harness) -> bool:
    return (await harness.get("/readyz")).status == 200


_CLIENTS = {"_client", "client", "_commands"}
_PIPES = {"pipe", "pipeline"}
_MENTIONED = re.compile(rf"\b({'|'.join(_CLIENTS | _PIPES)})\s*\.|\btransact\(")
"""What a file has that has such a call: only these are parsed."""
_BOUNDARIES = {"index_boundary", "boundary"}
_BELOW = {"cluster.py", "transactions.py", "scripts.py", "gathered_commands.py"}
"""What the boundary is drawn around: the client itself, and what is only called within it."""


def test_F20_no_call_to_redis_passes_by_its_boundary():
    """Every awaited call of a Redis client, anywhere in the gateway, stands within the block that maps its errors."""
    root = Path(inspect.getfile(gateway)).parent
    calls = [
        (f"{path.relative_to(root)}:{line}", is_guarded)
        for path in root.rglob("*.py")
        if path.name not in _BELOW and _MENTIONED.search(text := path.read_text())
        for line, is_guarded in client_calls(ast.parse(text), is_guarded=False)
    ]
    assert [] == [place for place, is_guarded in calls if not is_guarded]
    assert 30 < len(calls)


def client_calls(node: ast.AST, *, is_guarded: bool) -> Iterator[tuple[int, bool]]:
    """Yield the lines of awaited calls of a client, a pipeline or `transact`, and whether they are in a boundary."""
    if isinstance(node, ast.With):
        is_guarded = is_guarded or any(is_boundary(item.context_expr) for item in node.items)
    if isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and is_of_a_client(node.value.func):
        yield node.value.lineno, is_guarded
    for inner in ast.iter_child_nodes(node):
        yield from client_calls(inner, is_guarded=is_guarded)


def is_of_a_client(function: ast.expr) -> bool:
    """Whether it is `transact`, or a method of something called a client or a pipeline."""
    if isinstance(function, ast.Attribute) and function.attr != "aclose":
        owner = function.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return name in _CLIENTS | _PIPES
    return isinstance(function, ast.Name) and function.id == "transact"


def is_boundary(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and getattr(expression.func, "id", "") in _BOUNDARIES
