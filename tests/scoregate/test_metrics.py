"""A steward and a worker have no socket of their own: their metrics are served where the settings say."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import cast
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs

from gateway.edge.context import Edge
from gateway.edge.health import gauges
from gateway.edge.health.gauges import measure_from_threads
from gateway.ledger.derived.webhooks import (
    DeliveryAttempt,
    DeliveryState,
    Webhook,
    WebhookEvent,
    add_webhook,
    lease_due,
    note_attempts,
    queue,
)
from gateway.ledger.moderation import late_queues
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REGISTRY, count_submission
from policies.errors import SettingsError
from scoregate import metrics
from scoregate.metrics import Rendering, serving_edge_metrics, serving_metrics
from tests.support.harness import Harness, free_port

LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp (Linux, Documentation/networking/proc_net_tcp)."""


def settings_at(bind: str | None, folder: Path) -> Settings:
    return Settings(data_dir=folder, metrics_bind=bind)


def test_the_metrics_of_a_part_are_served_while_it_runs(tmp_path: Path):
    """In Prometheus' text format, at the address that the settings name; the port is free again afterwards."""
    settings = settings_at(f"127.0.0.1:{free_port()}", tmp_path)
    count_submission("arcade", "promoted")
    for _ in range(2):
        with serving_metrics(settings), urlopen(f"http://{settings.metrics_bind}/metrics") as response:
            text = response.read().decode()
    assert 'scoregate_submissions_total{board="arcade",outcome="promoted"}' in text


def test_metrics_are_at_their_path_and_nowhere_else(tmp_path: Path):
    """Whatever a scraper asks for besides; at any other path there is nothing."""
    settings = settings_at(f"127.0.0.1:{free_port()}", tmp_path)
    with serving_metrics(settings):
        for path, status in (("/metrics?name=x", 200), ("/metrics/", 404), ("/", 404), ("/metricsx", 404)):
            connection = HTTPConnection(*settings.metrics_bind.rsplit(":", 1))
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (status, status == 200) == (answer.status, b"scoregate_" in answer.read())
            connection.close()


def test_metrics_are_served_over_ipv6_too(tmp_path: Path):
    """As the settings of every part may name an address."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        port = probe.getsockname()[1]
    with serving_metrics(settings_at(f"[::1]:{port}", tmp_path)):
        assert "scoregate_" in scrape(f"http://[::1]:{port}/metrics")[0]


def test_a_fault_of_ours_is_reported_and_a_scraper_that_left_is_none(tmp_path: Path):
    """Otherwise each scrape that is given up looks like a bug to whoever watches the faults."""
    settings = settings_at(f"127.0.0.1:{free_port()}", tmp_path)
    faults: list[Exception] = [BrokenPipeError(), TimeoutError(), RuntimeError("a bug")]
    for fault, events in zip(faults, ([], [], ["unexpected"]), strict=True):

        def refresh(fault: Exception = fault) -> None:
            raise fault

        with capture_logs() as said, serving_metrics(settings, refresh), pytest.raises(RemoteDisconnected):
            scrape(f"http://{settings.metrics_bind}/metrics")
        assert events == [each["event"] for each in said]


def test_a_scraper_that_says_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each would keep a thread and a connection for ever; its time is up after five seconds, here at once."""
    settings = settings_at(f"127.0.0.1:{free_port()}", tmp_path)
    limit = socket.socket.settimeout

    def hurried(sock: socket.socket, time_s: float | None) -> None:
        limit(sock, 0.01 if time_s == metrics.CLIENT_S else time_s)

    monkeypatch.setattr(socket.socket, "settimeout", hurried)
    host, _, port = str(settings.metrics_bind).partition(":")
    with serving_metrics(settings), socket.create_connection((host, int(port))) as silent:
        silent.settimeout(30)
        assert b"" == silent.recv(1)


def test_an_address_that_is_taken_is_named(tmp_path: Path):
    """The part does not start without the metrics it was told to serve, and says why."""
    settings = settings_at(f"127.0.0.1:{free_port()}", tmp_path)
    with (
        serving_metrics(settings),
        pytest.raises(SettingsError, match=f"SCOREGATE_METRICS_BIND: {settings.metrics_bind}: .*in use"),
        serving_metrics(settings),
    ):
        pass


def test_nothing_is_served_unless_told(tmp_path: Path):
    """Unset means nowhere: this process listens on no more than before."""
    before = listening()
    with serving_metrics(settings_at(None, tmp_path)):
        assert before == listening()
    with serving_metrics(settings_at(f"127.0.0.1:{free_port()}", tmp_path)):
        assert 1 == len(listening() - before)


def test_F09_however_many_ask_it_is_rendered_once_a_second():
    """A flood of scrapes, from many threads, costs what one costs."""
    now, asked = [100.0], []
    rendering = Rendering(lambda: asked.append(now[0]), monotonic_s=lambda: now[0])
    with ThreadPoolExecutor(8) as threads:
        texts = set(threads.map(lambda _: rendering.text(), range(64)))
    assert (1, [100.0]) == (len(texts), asked)
    now[0] += 1.0
    assert rendering.text()
    assert [100.0, 101.0] == asked


async def test_F09_an_edge_tells_them_apart_from_its_players(harness: Harness):
    """With what the ledger says, and the product's name for a server at most; the public port knows no such path."""
    run, claim = await harness.played()
    await harness.submit(run, claim)
    hook = Webhook("wh", "https://example.com/", b"s" * 32, ("*",), ("*",), 0)
    await harness.edge.ledger.write(add_webhook(hook))
    told = [WebhookEvent(f"event-{number}", "vault", "submission.decided", b"{}") for number in range(3)]
    await harness.edge.ledger.write(lambda tx: queue(tx, told, now_ms=0))
    [due] = await harness.edge.ledger.write(lease_due("wh", now_ms=0, until_ms=1, count=1))
    over = DeliveryAttempt(due, DeliveryState.DEAD, 0, "404", is_success=False, is_gone=False)
    await harness.edge.ledger.write(note_attempts([over], now_ms=0, disable_after=9))
    late = {"board": "vault", "label": "vault", "since_ms": 0}
    await harness.edge.ledger.write(lambda tx: tx.run(late_queues._BEGIN, **late))
    assert 404 == (await harness.get("/v1/boards/nothing")).status
    settings = settings_at(f"127.0.0.1:{free_port()}", harness.edge.settings.data_dir)
    with serving_edge_metrics(settings, measure_from_threads(harness.edge)):
        text, server = await asyncio.to_thread(scrape, f"http://{settings.metrics_bind}/metrics")
    assert 'scoregate_verify_backlog{queue="urgent"} 0.0' in text
    assert "scoregate_unsealed_events 1.0" in text
    assert 'scoregate_webhook_undelivered{state="pending"} 2.0' in text
    assert "scoregate_queues_late 1.0" in text
    assert 'scoregate_webhook_undelivered{state="dead"} 1.0' in text
    assert 'scoregate_request_seconds_count{route="/v1/boards/{board}/scores",status="2xx"}' in text
    assert 'scoregate_problems_total{type="not-found"}' in text
    assert server is None
    assert 404 == (await harness.get("/metrics")).status


def test_F09_an_edge_without_an_address_has_the_usual_one_if_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second edge on the machine starts all the same, and says that its metrics are served nowhere."""
    monkeypatch.setattr(metrics, "EDGE_METRICS_BIND", f"127.0.0.1:{free_port()}")
    settings = settings_at(None, tmp_path)
    with serving_edge_metrics(settings, lambda: None):
        text, _ = scrape(f"http://{metrics.EDGE_METRICS_BIND}/metrics")
        with capture_logs() as said, serving_edge_metrics(settings, lambda: None):
            assert ["metrics_unserved"] == [each["event"] for each in said]
    assert "scoregate_unexpected_total" in text


def test_F09_an_edge_whose_loop_hangs_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its gauges keep their last value; what is counted as it happens is told."""
    monkeypatch.setattr(gauges, "TIMEOUT_S", 0.01)
    loop = asyncio.new_event_loop()

    async def made() -> Callable[[], None]:
        return gauges.measure_from_threads(cast("Edge", None))

    measure = loop.run_until_complete(made())
    assert b"scoregate_unexpected_total" in Rendering(measure).text()
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()


def test_every_metric_is_looked_at_by_some_test():
    """One that nothing counts any more looks like a quiet day to whoever watches it."""
    folder = Path(__file__).parents[1]
    tests = "\n".join(each.read_text() for each in folder.rglob("test_*.py"))
    names = {each.name for each in REGISTRY.collect() if each.name.startswith("scoregate_")}
    assert len(names) > 30
    assert set() == {name for name in names if not re.search(rf"\b{name}(_total|_count)?\b", tests)}


def scrape(url: str) -> tuple[str, str | None]:
    """The metrics that are served there, and who says that it serves them."""
    with urlopen(url) as response:
        return response.read().decode(), response.headers["Server"]


def listening() -> set[str]:
    """The sockets of this process on which somebody can connect, by their inode numbers."""
    opened = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == LISTEN} & opened
