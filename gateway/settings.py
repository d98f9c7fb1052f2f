"""Where things are and how much they may take: read from `SCOREGATE_*` in the environment, checked at start."""

from __future__ import annotations

from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from policies.errors import SettingsError

MAXIMUM_PORT = 65_535

Csv = Annotated[tuple[str, ...], NoDecode]


def bundled_policies() -> Path:
    """The folder of policy files that comes with the product."""
    return Path(str(files("policies")))


def bundled_arcade() -> Path:
    """The folder of the game that comes with the product."""
    return bundled_policies().parent / "examples" / "arcade"


class Settings(BaseSettings):
    """Every setting, with its unit in its name. Unset URLs mean the embedded part in the data directory."""

    model_config = SettingsConfigDict(env_prefix="SCOREGATE_", extra="ignore", frozen=True)

    data_dir: Path = Path("scoregate-data")
    policies_dir: Path = Field(default_factory=bundled_policies)
    arcade_dir: Path = Field(default_factory=bundled_arcade)
    redis_url: str = "redis://127.0.0.1:6379/0"
    queue_url: str | None = None
    ledger_url: str | None = None
    bind: Annotated[str, Field(pattern=r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$")] = "127.0.0.1:8080"
    hosts: Csv = ()
    trusted_proxies: Csv = ()
    master_key: SecretStr | None = None
    log_level: Annotated[str, Field(pattern=r"^(debug|info|warning|error)$")] = "info"

    clock_skew_s: Annotated[int, Field(ge=0, le=300)] = 30
    body_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    keepalive_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    redis_timeout_ms: Annotated[int, Field(ge=10, le=10_000)] = 250
    ledger_queue: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    shutdown_grace_s: Annotated[float, Field(ge=0, le=300)] = 10.0
    lease_s: Annotated[int, Field(ge=1, le=3600)] = 60
    verify_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    redispatch_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    reconcile_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    verify_batch: Annotated[int, Field(ge=1, le=256)] = 16

    @field_validator("bind")
    @classmethod
    def _has_a_port(cls, value: str) -> str:
        if int(value.rpartition(":")[2]) > MAXIMUM_PORT:
            raise ValueError(f"expected a port up to {MAXIMUM_PORT}")
        return value

    @field_validator("hosts", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @property
    def ledger_path(self) -> Path:
        """The SQLite file. Raises SettingsError for a ledger URL of another kind."""
        if self.ledger_url is None:
            return self.data_dir / "ledger.sqlite3"
        if not self.ledger_url.startswith("sqlite:///"):
            raise SettingsError(f"SCOREGATE_LEDGER_URL: expected sqlite:///<path>, got {self.ledger_url!r}")
        return Path(self.ledger_url.removeprefix("sqlite:///"))

    @property
    def jobs_url(self) -> str:
        """The Redis of RQ; the same server as the index unless told otherwise."""
        return self.queue_url or self.redis_url

    @property
    def bind_address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = self.bind.rpartition(":")
        return host.strip("[]"), int(port)

    @cached_property
    def allowed_hosts(self) -> frozenset[str]:
        """Authorities this deployment answers to (RFC 9421's `@authority`, lower case)."""
        if self.hosts:
            return frozenset(host.lower() for host in self.hosts)
        port = self.bind_address[1]
        return frozenset({self.bind.lower(), f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"})


def load_settings(**overrides: object) -> Settings:
    """The settings of this process. Raises SettingsError naming the variable and what was expected of it."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = [
            f"SCOREGATE_{'.'.join(map(str, each['loc'])).upper()}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        ]
        raise SettingsError("\n".join(lines)) from None
