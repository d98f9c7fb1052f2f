"""Variables of the environment that look like settings and are none: a command and a part say so, once."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from gateway.runtime.unknown_variables import SHOWN, unknown_variables
from scoregate import parts
from scoregate.parts import log_unknown_settings
from tests.support import preloaded
from tests.support.deployment import deployed, eventually
from tests.support.game import ROOT
from tests.support.logs import lines_of, logged
from tests.support.valkey import running_valkey

MISSPELT = {"SCOREGATE_REDIS_ULR": "redis://:secret@a/0", "SCOREGATE_PORT": "8080", "scoregate_databir": "x"}
NEAREST = {
    "SCOREGATE_PORT": None,
    "SCOREGATE_REDIS_ULR": "SCOREGATE_REDIS_URL",
    "scoregate_databir": "SCOREGATE_DATA_DIR",
}


def test_a_misspelt_setting_is_found_with_the_nearest_one():
    """Settings, in any case, are none of these, and what Kubernetes says of a service of that name is not either."""
    settings = {f"SCOREGATE_{name.upper()}": "1" for name in Settings.model_fields}
    services = {
        "SCOREGATE_SERVICE_HOST": "10.0.0.1",
        "SCOREGATE_SERVICE_PORT_HTTP": "80",
        "SCOREGATE_EDGE_SERVICE_PORT": "80",
        "SCOREGATE_EDGE_PORT": "tcp://10.0.0.1:80",
        "SCOREGATE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    others = {"SCOREGATE": "1", "_SCOREGATE_COMPLETE": "1", "scoregate_bind": "1", "PATH": "/bin"}
    assert NEAREST == unknown_variables(settings | services | others | MISSPELT)
    assert {} == unknown_variables(services | {"SCOREGATE_PORT": "tcp://10.0.0.1:80"})
    assert SHOWN == len(unknown_variables({f"SCOREGATE_{number}": "" for number in range(SHOWN + 1)}))


def test_a_misspelt_port_is_no_service_of_kubernetes():
    """Kubernetes writes an address for the port of a service, and people write a number."""
    ports = {"SCOREGATE_METRICS_PORT": "9100", "SCOREGATE_REDIS_PORT": "6380", "SCOREGATE_EDGE_PORT": ""}
    assert sorted(ports) == sorted(unknown_variables(ports))
    assert {} == unknown_variables(dict.fromkeys(ports, "tcp://10.0.0.1:80"))


def test_what_the_product_itself_reads_is_no_misspelt_setting():
    """No variable that a file of the repository names is told to whoever sets it."""
    rooms = [
        ROOT / room for room in ("clients", "docs", "examples", "gateway", "replay", "scoregate", "tests")
    ]
    files = [*ROOT.glob("*.*"), *(file for room in rooms for file in room.rglob("*.*"))]
    texts = [
        file.read_bytes()
        for file in files
        if file.suffix in {".md", ".py", ".js", ".yaml", ".toml"} and file.name != Path(__file__).name
    ]
    named = {name.decode() for text in texts for name in re.findall(rb"\bSCOREGATE_[A-Z0-9_]+[A-Z0-9]", text)}
    assert "SCOREGATE_FAILPOINT" in named
    assert {} == unknown_variables(dict.fromkeys(named, "1"))


def test_a_part_logs_each_of_them_without_its_value(monkeypatch: pytest.MonkeyPatch):
    """The value may be a password."""
    for name, value in MISSPELT.items():
        monkeypatch.setenv(name, value)
    with logged(parts) as lines:
        log_unknown_settings()
    told = lines_of(lines, "setting_unknown")
    assert NEAREST == {line["variable"]: line["nearest"] for line in told}
    assert "secret" not in str(told)


async def test_a_command_and_each_part_say_it_once(tmp_path: Path):
    """A command on standard error, in one line; a part in its log, and it runs all the same."""
    command = preloaded.finished(("status", "--data-dir", str(tmp_path)), os.environ | MISSPELT)
    assert [
        "SCOREGATE_PORT: unknown setting, without effect",
        "SCOREGATE_REDIS_ULR: unknown setting, without effect; did you mean SCOREGATE_REDIS_URL?",
        "scoregate_databir: unknown setting, without effect; did you mean SCOREGATE_DATA_DIR?",
    ] == command.stderr.splitlines()[:-1]
    with running_valkey() as valkey, deployed(tmp_path, valkey, redis_ulr="x") as house:
        for part in ("serve", "steward", "worker"):
            house.start(part)
        await house.is_answering()
        await eventually(lambda: house.log.read_text().count("setting_unknown") >= len(NEAREST), house.log)
        lines = [json.loads(line) for line in house.log.read_text().splitlines() if line.startswith("{")]
    told = [line for line in lines if line["event"] == "setting_unknown"]
    assert [("SCOREGATE_REDIS_ULR", "SCOREGATE_REDIS_URL")] * 3 == [
        (line["variable"], line["nearest"]) for line in told
    ]
    assert "unknown setting" not in house.log.read_text()
