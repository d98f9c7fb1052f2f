"""Describes a deployment of one family of boards for a measurement, in an empty folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.runtime.settings import Settings
from tests.support import boards
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.valkey import ValkeyServer


@dataclass(frozen=True)
class FamilyDeployment:
    """A deployment that is measured: its settings, how they look in the environment, and its servers."""

    settings: Settings
    environment: Mapping[str, str]
    valkey: ValkeyServer
    folder: Path

    @property
    def authority(self) -> str:
        """Return the host and port of the edge."""
        return self.settings.bind


@contextmanager
def database(server: PostgresServer | None) -> Iterator[str]:
    """Yield the name of an empty database, which is dropped afterwards."""
    if server is None:
        yield ""
        return
    with asyncio.Runner() as runner:
        database = server.database()
        name = runner.run(database.__aenter__())
        try:
            yield name
        finally:
            runner.run(database.__aexit__(None, None, None))


def family_deployment(
    family: str, folder: Path, valkey: ValkeyServer, ledger_url: str | None
) -> FamilyDeployment:
    """Write the policy of a family that trusted servers may write to, and return the deployment of it."""
    file = boards.write_board(folder / "policies", family, limits=_WIDE, cold_after_h=24)
    policy: dict[str, Any] = json.loads(file.read_text())
    policy["family"] = policy.pop("board")
    file.write_text(json.dumps(policy))
    chosen = {
        "data_dir": str(folder / "data"),
        "policies_dir": str(folder / "policies"),
        "redis_url": valkey.url,
        "bind": f"127.0.0.1:{free_port()}",
        "shutdown_pause_s": "0",
        "read_budget_ms": "1000000",
        "log_level": "warning",
        "seal_s": "5",
    } | ({"ledger_url": ledger_url} if ledger_url else {})
    environment = {f"SCOREGATE_{name.upper()}": value for name, value in chosen.items()}
    return FamilyDeployment(Settings(**chosen), environment, valkey, folder)  # type: ignore[arg-type]


_WIDE: Final = {
    "player": {"per_minute": 1_000_000, "burst": 100_000},
    "address": {"per_minute": 1_000_000, "burst": 100_000},
    "open_runs": 1000,
}
