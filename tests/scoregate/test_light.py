"""What is answered before anything is loaded: the version, and the health of an edge that is well."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from scoregate.commands import health
from scoregate.light import DEFAULT_BIND, TIMEOUT_S, is_well
from tests.support.harness import free_port, running_harness
from tests.support.policies import arcade_policy, write_policies
from tests.support.ports import unserved_port

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
WELL = b'{"status":"ready","policies":true}'

CHECKED_WITHIN_S = 4
"""The time-out of the health check in the Dockerfile."""

HEAVY = {"aiohttp", "asyncio", "pydantic", "redis", "rich", "sqlalchemy", "typer"}
"""What takes longer to load than an answer takes."""


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve this answer, and yield the port and what was asked."""
    asked: list[bytes] = []

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_one, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize(
    ("answer", "due"),
    [
        (OK + WELL, True),
        (UNAVAILABLE + WELL, False),
        (OK + b'{"status":"degraded","policies":true}', False),
        (OK + b'{"status":"ending","policies":true}', False),
        (OK + b'{"status":"ready","policies":false}', False),
        (OK + b'{"status":"ready"}', False),
        (OK + b'["ready"]', False),
        (OK + b"It works!", False),
        (OK + b"\xff", False),
        (b"", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
    ],
)
async def test_only_an_edge_that_is_ready_with_its_policies_is_well(answer: bytes, due: bool):
    """All else is asked again by the whole command, which has the words."""
    async with answering(answer) as (port, _):
        assert due is await asyncio.to_thread(is_well, {"SCOREGATE_BIND": f"127.0.0.1:{port}"})


@pytest.mark.parametrize(
    ("bind", "hosts", "host"),
    [
        ("127.0.0.1:{}", None, "127.0.0.1:{}"),
        ("localhost:{}", None, "127.0.0.1:{}"),
        ("0.0.0.0:{}", None, "127.0.0.1:{}"),
        ("127.0.0.1:{}", "scores.example.com,other.example", "scores.example.com"),
    ],
)
async def test_an_edge_is_asked_under_a_name_that_it_has(bind: str, hosts: str | None, host: str):
    """Its own, or the first of those that are set, wherever on this machine it listens; variables have any case."""
    async with answering(OK + WELL) as (port, asked):
        variables = {"scoregate_bind": bind.format(port)} | ({"SCOREGATE_HOSTS": hosts} if hosts else {})
        assert await asyncio.to_thread(is_well, variables)
    assert f"\r\nHost: {host.format(port)}\r\n".encode() in asked[0]


@pytest.mark.parametrize(
    "variables",
    [
        {"SCOREGATE_BIND": "[::1]:{}"},
        {"SCOREGATE_BIND": "192.0.2.7:{}"},
        {"SCOREGATE_BIND": "127.0.0.1:{}0000"},
        {"SCOREGATE_BIND": "127.0.0.1"},
        {"SCOREGATE_BIND": "127.0.0.1:{}", "SCOREGATE_HOSTS": "a\r\nX-Other: b"},
        {"SCOREGATE_BIND": "127.0.0.1:{}", "SCOREGATE_HOSTS": ""},
    ],
)
async def test_what_is_set_in_another_way_is_left_to_the_whole_command(variables: dict[str, str]):
    """No question is sent that may be the wrong one."""
    async with answering(OK + WELL) as (port, asked):
        told = {name: value.format(port) for name, value in variables.items()}
        assert not await asyncio.to_thread(is_well, told)
    assert [] == asked


def test_an_edge_that_does_not_answer_is_left_to_the_whole_command_at_once():
    """Which has its own patience, within that of a container."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert not is_well({"SCOREGATE_BIND": f"127.0.0.1:{listening.getsockname()[1]}"})
    assert TIMEOUT_S + health.TIMEOUT_S < CHECKED_WITHIN_S


def test_nobody_at_the_address_is_not_well():
    """The whole command says which address that is."""
    with unserved_port() as port:
        assert not is_well({"SCOREGATE_BIND": f"127.0.0.1:{port}"})


def test_the_address_without_a_setting_is_that_of_the_settings():
    """Told twice, so that no settings have to be loaded."""
    assert Settings.model_fields["bind"].default == DEFAULT_BIND


async def test_a_real_edge_is_well_and_nothing_heavy_is_loaded_to_see_it(tmp_path: Path, valkey_url: str):
    """By a process of its own, as a container starts one."""
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", arcade_policy()),
        redis_url=valkey_url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as harness:
        answer = await harness.ready()
        run = f"import os, sys, scoregate.light as light; print(light.is_well(os.environ), {HEAVY} & sys.modules.keys())"
        environment = {"SCOREGATE_BIND": harness.authority}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", run],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
        )
    assert f"{answer.body['status'] == 'ready'} set()\n" == done.stdout


def test_the_version_is_told_without_loading_anything_heavy():
    """It is what a user asks first, and a script asks often."""
    run = (
        "import sys, scoregate.light as light; light.main(); print(set(sys.argv) and {} & sys.modules.keys())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", run.format(HEAVY), *words], capture_output=True, check=True, text=True
        ).stdout
        for words in (["--version"], ["version"])
    ]
    assert [f"{version('scoregate')}\nset()\n"] * 2 == told
