"""Webhooks from the command line."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import DeliveryState, WebhookEvent
from scoregate.cli import app
from tests.support.ledger import opened, rows
from tests.support.ports import unserved_port


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SCOREGATE_WEBHOOK_HOSTS", "127.0.0.1")
    return tmp_path


@pytest.fixture
def endpoint() -> Iterator[HTTPServer]:
    """An endpoint on a thread; it answers with its `status`."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(self.server.status)  # type: ignore[attr-defined]
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answering)
    server.status = 200  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["webhook", *words])


def added(*words: str) -> tuple[str, str]:
    webhook, secret = run("add", *words).stdout.split()
    return webhook, secret


def objects(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*words, "--json").output.splitlines()]


def refusal(result: Result) -> str:
    assert type(result.exception).__name__ in {"SettingsError", "SystemExit"}, result.exception
    return str(result.exception) + result.output


def test_an_endpoint_is_registered_listed_and_removed(data: Path):
    """Its secret is shown once, and is none that anybody else has."""
    webhook, secret = added("https://example.com/a", "--board", "arcade", "--event", "rank.changed")
    other, other_secret = added("https://example.com/b")
    assert secret.startswith("whsec_")
    assert secret != other_secret
    listed = run("list").output
    assert secret not in listed
    assert [
        ["WEBHOOK", "URL", "BOARDS", "EVENTS", "FAILED", "IN", "A", "ROW", "DISABLED", "AT"],
        [webhook, "https://example.com/a", "arcade", "rank.changed", "0", "-"],
        [other, "https://example.com/b", "*", "*", "0", "-"],
    ] == [line.split() for line in listed.splitlines()]
    assert 0 == run("remove", webhook).exit_code
    assert "there is no webhook" in refusal(run("remove", webhook))
    assert [other] == [each["webhook"] for each in objects("list")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://example.com/"], "expected https"),
        (["https://10.0.0.1/"], "not a public address"),
        (["https://example.com/", "--board", "nothing"], "no such board: nothing"),
        (["https://example.com/", "--event", "nothing"], "no such event: nothing"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: Path, words: list[str], said: str):
    """Before anything is written."""
    assert said in refusal(run("add", *words))
    assert [] == objects("list")


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_an_endpoint_is_tried_at_once(data: Path, endpoint: HTTPServer, status: int, code: int):
    """What it answered is printed, and the exit status says whether that was a success."""
    endpoint.status = status  # type: ignore[attr-defined]
    webhook, _ = added(f"http://127.0.0.1:{endpoint.server_port}/hook")
    result = run("test", webhook)
    assert (code, f"{status}\n") == (result.exit_code, result.output)
    assert "there is no webhook" in refusal(run("test", "wh_nothing"))


def test_what_failed_of_a_trial_is_said_in_words(data: Path):
    """With host and port, and nothing of the path, which may be a secret."""
    with unserved_port() as port:
        webhook, _ = added(f"http://127.0.0.1:{port}/secret-path")
        result = run("test", webhook)
    assert (1, f"127.0.0.1:{port}: the connection is refused\n") == (result.exit_code, result.output)


def test_dead_deliveries_are_seen_and_tried_again(data: Path):
    """Each with its event, when it ended, how often it was tried and what was answered last."""
    webhook, _ = added("https://example.com/a")
    path = data / "ledger.sqlite3"

    async def die() -> None:
        async with opened(path) as ledger:
            told = [WebhookEvent("evt_1", "arcade", "rank.changed", b"{}")]
            await ledger.write(lambda tx: webhooks.queue(tx, told, now_ms=1))
            [leased] = await ledger.write(webhooks.lease_due(webhook, now_ms=2, until_ms=3, count=9))
            attempt = webhooks.DeliveryAttempt(
                leased, DeliveryState.DEAD, 4, "500", is_success=False, is_gone=True
            )
            await ledger.write(webhooks.note_attempts([attempt], now_ms=4, disable_after=9))

    asyncio.run(die())
    assert ["evt_1", "rank.changed", "1970-01-01T00:00:00.004Z", "1", "500"] == (
        run("deliveries", webhook).output.splitlines()[1].split()
    )
    assert [("evt_1", 1)] == [(each["event"], each["attempts"]) for each in objects("deliveries", webhook)]
    assert "expected pending, delivered, dead" in refusal(run("deliveries", webhook, "--state", "lost"))
    assert [(1, False)] == [
        (each["failed_in_a_row"], each["disabled_at"] is None) for each in objects("list")
    ]
    assert 0 == run("enable", webhook).exit_code
    assert [(0, True)] == [(each["failed_in_a_row"], each["disabled_at"] is None) for each in objects("list")]
    assert "1 deliveries are due again\n" == run("retry", webhook).output
    assert [] == objects("deliveries", webhook)
    assert [("pending", 0)] == rows(path, "SELECT state, tries FROM deliveries")
    for command in ("enable", "retry", "deliveries", "remove"):
        assert "there is no webhook wh_nothing" in refusal(run(command, "wh_nothing"))


def test_only_what_can_be_made_anew_is(data: Path):
    """Messages are not told again: what was told cannot be taken back."""
    result = CliRunner().invoke(app, ["derived", "rebuild", "webhooks"])
    assert "expected statistics, trends, achievements" in refusal(result)
