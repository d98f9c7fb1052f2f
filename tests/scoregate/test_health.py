"""`scoregate health`, and what `up` and `status` say of a deployment whose Redis does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from gateway.deployment.run_files import RunningPart
from gateway.runtime.settings import Settings, bundled_policies
from scoregate import deployment_status, stack
from scoregate.cli import app
from scoregate.commands import health, up
from scoregate.processes import Supervisor
from scoregate.stack import Stack
from tests.support.ports import unserved_port

READY = {"status": "ready", "index": True, "disk": True, "clock": True, "missing": [], "failing": []}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (READY, ""),
        (
            READY | {"status": "degraded", "index": False, "clock": False},
            "degraded: Redis does not answer, or takes no writes; the clock is off, or cannot be compared\n",
        ),
        (
            READY | {"status": "degraded", "missing": ["steward", "worker"], "failing": ["seals"]},
            "degraded: missing: steward, worker; failing: seals\n",
        ),
        (
            READY | {"policies": False},
            "ready; but the policy files were refused, and older ones are in force\n",
        ),
        (READY | {"policies": True}, ""),
        ({"status": "degraded", "disk": False, "later": False}, "degraded: space is short\n"),
    ],
)
def test_an_edge_that_is_degraded_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], said: str
):
    """On standard error, with status 0, because it takes submissions; nothing is told of one that is well."""
    monkeypatch.setattr(health, "_health_of", lambda _: health._read(200, orjson.dumps(answer)))
    told = CliRunner().invoke(app, ["health"])
    assert (0, said) == (told.exit_code, told.stderr)


@pytest.mark.parametrize("body", [b'{"ok":true}', b"[]", b'"status"', b"null", b"<html>", b"", b"\xff"])
def test_what_is_no_edge_is_not_ready(monkeypatch: pytest.MonkeyPatch, body: bytes):
    """Another program that has the port may answer whatever it likes with 200."""
    monkeypatch.setattr(health, "_health_of", lambda _: health._read(200, body))
    told = CliRunner().invoke(app, ["health", "--json"])
    assert (2, False) == (told.exit_code, orjson.loads(told.stdout)["is_ready"])
    assert "not ready: what answers there is no edge: 200 " in told.stderr


def test_an_edge_that_is_not_ready_says_why(monkeypatch: pytest.MonkeyPatch):
    """In its own words, whatever else is amiss."""
    body = orjson.dumps(READY | {"status": "unavailable", "ledger": False})
    monkeypatch.setattr(health, "_health_of", lambda _: health._read(503, body))
    told = CliRunner().invoke(app, ["health"])
    assert (2, True) == (told.exit_code, f"not ready: {body.decode()}" in told.stderr)


def test_an_edge_that_does_not_answer_is_told_with_its_address():
    """And with the option that says where else to ask."""
    with unserved_port() as port:
        told = CliRunner().invoke(app, ["health", "--bind", f"127.0.0.1:{port}"])
    assert 2 == told.exit_code
    assert f"not ready: 127.0.0.1:{port}: [Errno" in told.stderr
    assert "--bind or SCOREGATE_BIND says where to ask" in told.stderr


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_what_answers_no_http_is_not_ready(greeting: bytes):
    """Whatever else has the port: a line that says so, and no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(65_536)
                client.sendall(greeting)

        greeting_one = threading.Thread(target=greet)
        greeting_one.start()
        bind = f"127.0.0.1:{listener.getsockname()[1]}"
        told = CliRunner().invoke(app, ["health", "--json", "--bind", bind])
        greeting_one.join()
    assert (2, False) == (told.exit_code, orjson.loads(told.stdout)["is_ready"])
    assert told.stderr.startswith("not ready: ")


def test_up_says_that_the_configured_redis_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Everything runs all the same, and the first words say what is amiss and where."""
    with unserved_port() as port:
        settings = Settings(data_dir=tmp_path, redis_url=f"redis://127.0.0.1:{port}/0")

        @contextmanager
        def running(*_: object, **__: object) -> Iterator[Stack]:
            yield Stack(settings, Supervisor(None))

        monkeypatch.setattr(stack, "running_stack", running)
        monkeypatch.setattr(Stack, "keep_up", lambda _: None)
        told = CliRunner().invoke(app, ["up"])
    assert "is up" in told.stdout
    [degraded] = [line for line in told.stdout.splitlines() if line.startswith("Degraded: ")]
    assert f"127.0.0.1:{port}" in degraded


@pytest.mark.parametrize("is_own", [True, False])
def test_up_says_by_which_policies_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_own: bool):
    """Those of the operator, by their folder as it is; of those of the package there is nothing to edit."""
    folder = tmp_path / "[bold] and so on" / ("long" * 20)  # neither markup nor the width of a terminal
    policies = folder / "policies" if is_own else bundled_policies()
    settings = Settings(
        data_dir=folder / "data", policies_dir=policies, arcade_dir=folder / "none", bind="[fe80::7]:8080"
    )

    @contextmanager
    def running(*_: object, **__: object) -> Iterator[Stack]:
        yield Stack(settings, Supervisor(None))

    monkeypatch.setattr(stack, "running_stack", running)
    monkeypatch.setattr(Stack, "keep_up", lambda _: None)
    monkeypatch.setattr(Stack, "index_fault", "[/gone] does not answer")
    monkeypatch.setattr(up, "print_first_admin", lambda *_: None)
    told = CliRunner().invoke(app, ["up", "--data-dir", str(tmp_path)])
    lines = told.stdout.splitlines()
    assert f"is up; its data is in {folder / 'data'}" in lines[0]
    assert "  the interface   http://[fe80::7]:8080/docs" in lines
    own = [line for line in lines if line.startswith("  the policies ")]
    assert ([f"  the policies    {policies}"] if is_own else []) == own
    assert "Degraded: [/gone] does not answer" in lines


async def test_the_status_says_that_this_shell_does_not_know_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Parts run here, and which others there are only Redis knows. Nothing is said where no part runs."""
    monkeypatch.delenv("SCOREGATE_REDIS_URL", raising=False)
    settings = Settings(data_dir=tmp_path)
    assert [] == (await deployment_status.status_of(settings)).troubles
    unset = "only this machine's parts are known: SCOREGATE_REDIS_URL is not set here"
    for url, expected in ((None, unset), ("redis://***@a/0", f"{unset}; the parts here use redis://***@a/0")):
        part = RunningPart("edge", 1, 0, tmp_path / "none", url)
        monkeypatch.setattr(deployment_status, "running_parts", lambda _, part=part: [part])
        assert [expected] == (await deployment_status.status_of(settings)).troubles
