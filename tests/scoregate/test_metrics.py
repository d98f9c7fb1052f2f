"""A steward and a worker have no socket of their own: their metrics are served where the settings say."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.settings import Settings
from gateway.telemetry import count_submission
from policies.errors import SettingsError
from scoregate.metrics import serving_metrics
from tests.support.harness import free_port

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


def listening() -> set[str]:
    """The sockets of this process on which somebody can connect, by their inode numbers."""
    opened = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == LISTEN} & opened
