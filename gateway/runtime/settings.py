"""The settings: read from `SCOREGATE_*` in the environment, and checked at start."""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from policies.errors import SettingsError
from policies.origins import Origin, refuse_beside_any

MAXIMUM_PORT = 65_535

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""The hosts of this machine, to which browsers and we speak without TLS."""

ADDRESS_LENGTH = 2_000
"""The most characters of an address of the identity provider."""

EDGE_METRICS_BIND = "127.0.0.1:9464"
"""The default address of an edge's metrics."""

STEWARD_LEASE_S = 6.0
"""The default time of a steward's leases: what a dead one had goes on elsewhere within ten seconds."""

_HOST = r"(?:[^/?#@:,\[\]]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?"
LEDGER_URL = re.compile(
    r"sqlite:///.+|"
    r"postgresql://(?:[^/?#@:]+(?::[^/?#@]*)?@)?"  # user and password
    rf"(?:{_HOST}(?:,{_HOST})*)?(?:/[^/?#@]*)?(?:\?[^#@]*)?"
)
"""Strict, so that an unescaped character in a password is never read as part of a host, port or name."""

CLUSTER_URL = re.compile(
    r"(?P<scheme>rediss?)\+cluster://(?P<who>[^/?#@]*@)?"
    rf"(?P<seeds>{_HOST}(?:,{_HOST})*)/?(?P<options>\?[^#@]*)?"
)
"""A Redis Cluster, given by some of its nodes. A cluster has only one database, so the URL has no path."""

SERVER_URL = re.compile(
    r"rediss?://(?:[^/?#]*@)?(?:[^/?#@:\[\]]*|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?(?:/[0-9]*/?)?(?:\?[^#]*)?"
    r"|unix://(?:[^/?#]*@)?/[^?#]*(?:\?[^#]*)?"
)
"""A single Redis, over TCP or a Unix socket."""


def _matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that refuses a value that does not match, and says what was expected."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"expected {expected}")
        return value

    return AfterValidator(check)


Bind = Annotated[
    str,
    _matching(
        r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}",
        "a host and a port, such as 127.0.0.1:8080 or [::1]:8080",
    ),
]
Csv = Annotated[tuple[str, ...], NoDecode]


def bundled_policies() -> Path:
    """Return the folder of the policy files in the package."""
    return Path(str(files("policies")))


def bundled_arcade() -> Path:
    """Return the folder of the example game in the package."""
    return bundled_policies().parent / "examples" / "arcade"


def _server(url: str) -> str:
    """Return a Redis URL unchanged. Raises ValueError for one that the client would refuse only in use."""
    if "+cluster:" not in url and not SERVER_URL.fullmatch(url):
        raise ValueError(
            "expected redis://<user>:<password>@<host>:<port>/<database>, rediss:// for TLS, or unix://<path>"
        )
    return url


class Settings(BaseSettings):
    """All settings, with units in their names. An unset URL means the embedded part in the data directory."""

    model_config = SettingsConfigDict(
        env_prefix="SCOREGATE_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    data_dir: Path = Path("scoregate-data")
    policies_dir: Path = Field(default_factory=bundled_policies)
    arcade_dir: Path = Field(default_factory=bundled_arcade)
    redis_url: str = "redis://127.0.0.1:6379/0"
    queue_url: str | None = None
    ledger_url: SecretStr | None = None
    recordings_url: str | None = None
    bind: Bind = "127.0.0.1:8080"
    metrics_bind: Bind | None = None
    hosts: Csv = ()
    origins: Annotated[tuple[Origin, ...], NoDecode, AfterValidator(refuse_beside_any)] = ()
    trusted_proxies: Csv = ()
    webhook_hosts: Csv = ()
    kafka_servers: str | None = None
    kafka_topic: Annotated[
        str, _matching(r"[A-Za-z0-9._-]{1,249}", "up to 249 letters, digits, dots, - and _")
    ] = "scoregate.standings"
    master_key: SecretStr | None = None
    seal_key: SecretStr | None = None
    seal_heads: Path | None = None
    oidc_issuer: str | None = None
    oidc_client_id: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        default=None, validate_default=True
    )
    oidc_client_secret: SecretStr | None = None
    oidc_name: Annotated[str, Field(min_length=1, max_length=40)] = "single sign-on"
    sign_in_file: Path | None = None
    password_logins: bool = Field(default=True, validate_default=True)
    sandbox: Literal["any", "bubblewrap"] = "any"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_to: Literal["files", "stdout"] = "files"
    development: bool = False

    clock_offset_s: Annotated[float, Field(gt=0, le=3600)] = 2.0
    unique_names: bool = False
    address_days: Annotated[int, Field(ge=0, le=365)] = 30
    clock_skew_s: Annotated[int, Field(ge=0, le=300)] = 30
    answer_within_s: Annotated[float, Field(ge=0.1, le=60)] = 1.5
    body_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    head_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    keepalive_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 75.0
    write_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    redis_timeout_ms: Annotated[int, Field(ge=10, le=10_000)] = 250
    ledger_queue: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    ledger_pages: Annotated[int, Field(ge=1, le=10_000)] = 32
    connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    connections_per_network: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    arriving_mib: Annotated[int, Field(ge=32, le=1_048_576)] = 128
    unsent_mib: Annotated[int, Field(ge=1, le=1_048_576)] = 64
    boards_in_memory: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    friends_mib: Annotated[int, Field(ge=16, le=1_048_576)] = 64
    read_budget_ms: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    live_pubsub: bool = False
    live_listeners: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    live_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = 128
    live_per_network: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    shutdown_pause_s: Annotated[float, Field(ge=0, le=300)] = 5.0
    shutdown_grace_s: Annotated[float, Field(ge=0, le=300)] = 10.0
    lease_s: Annotated[int, Field(ge=1, le=3600)] = 60
    steward_lease_s: Annotated[float, Field(ge=1, le=60)] = STEWARD_LEASE_S
    verify_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    redispatch_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    reconcile_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    disk_floor_mib: Annotated[int, Field(ge=0, le=1_073_741_824)] = 256
    disk_small_bytes: Annotated[int, Field(ge=0, le=1_048_576)] = 4096
    recording_inline_bytes: Annotated[int, Field(ge=0, le=1_048_576)] = 16_384
    recordings_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    recordings_grace_h: Annotated[int, Field(ge=1, le=8760)] = 24
    verify_batch: Annotated[int, Field(ge=1, le=256)] = 64
    seal_events: Annotated[int, Field(ge=1, le=65_536)] = 4096
    seal_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    archive_after_s: Annotated[float, Field(ge=0, le=2_592_000)] = 300.0
    archive_keep_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    webhook_timeout_s: Annotated[float, Field(gt=0, le=60)] = 15.0
    webhook_attempts: Annotated[int, Field(ge=1, le=100)] = 12
    webhook_disable_after: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    webhook_concurrency: Annotated[int, Field(ge=1, le=256)] = 8

    @field_validator("bind", "metrics_bind")
    @classmethod
    def _has_a_port(cls, value: str | None) -> str | None:
        if value is not None and int(value.rpartition(":")[2]) > MAXIMUM_PORT:
            raise ValueError(f"expected a port up to {MAXIMUM_PORT}")
        return value

    @field_validator("ledger_url")
    @classmethod
    def _is_a_ledger(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not LEDGER_URL.fullmatch(value.get_secret_value()):
            raise ValueError(
                "expected sqlite:///<path> or postgresql://<user>:<password>@<host>:<port>/<database>, "
                "with / ? # @ and : in a name or a password written as %2F %3F %23 %40 and %3A"
            )
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _is_an_issuer(cls, value: str | None) -> str | None:
        if value is not None and (not is_safe_address(value) or urlsplit(value).query):
            raise ValueError("expected https://<host>/<path> without a query, or http:// on this machine")
        return value

    @field_validator("oidc_client_id")
    @classmethod
    def _goes_with_an_issuer(cls, value: str | None, info: ValidationInfo) -> str | None:
        if (value is None) != (info.data.get("oidc_issuer") is None):
            raise ValueError("expected together with SCOREGATE_OIDC_ISSUER")
        return value

    @field_validator("password_logins")
    @classmethod
    def _leaves_a_way_in(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic passes it
        if not value and info.data.get("oidc_issuer") is None:
            raise ValueError("expected SCOREGATE_OIDC_ISSUER, so that somebody can log in")
        return value

    @field_validator("development")
    @classmethod
    def _is_for_nobody_else(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic passes it
        ledger, given = info.data.get("ledger_url"), info.data
        others = [
            host for host in given.get("hosts") or (given.get("bind", ""),) if not is_private_host(host)
        ]
        if given.get("trusted_proxies"):
            others.append("SCOREGATE_TRUSTED_PROXIES")
        if ledger is not None and ledger.get_secret_value().startswith("postgresql:"):
            others.append("a PostgreSQL ledger")
        if value and others:
            raise ValueError(f"is not for a deployment that others reach; here there is {', '.join(others)}")
        return value

    @field_validator("redis_url")
    @classmethod
    def _is_an_index(cls, value: str) -> str:
        if "+cluster:" in value and not CLUSTER_URL.fullmatch(value):
            raise ValueError(
                "expected redis+cluster://<user>:<password>@<host>:<port>,<host>:<port> without a database, "
                "or rediss+cluster: for TLS, "
                "with / ? # @ and : in a name or a password written as %2F %3F %23 %40 and %3A"
            )
        return _server(value)

    @field_validator("queue_url")
    @classmethod
    def _is_no_cluster(cls, value: str | None) -> str | None:
        if value and "+cluster:" in value:
            raise ValueError("RQ does not run on a Redis Cluster; expected one server")
        return None if value is None else _server(value)

    @field_validator("hosts", "origins", "trusted_proxies", "webhook_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @property
    def needs_bubblewrap(self) -> bool:
        """Whether native programs run only in bubblewrap."""
        return self.sandbox == "bubblewrap"

    @property
    def is_on_postgres(self) -> bool:
        """Whether the ledger is a PostgreSQL database rather than an SQLite file."""
        return self.ledger_url is not None and self.ledger_url.get_secret_value().startswith("postgresql:")

    @property
    def ledger_path(self) -> Path:
        """The SQLite file. Raises SettingsError if the ledger is elsewhere."""
        if self.is_on_postgres:
            raise SettingsError("SCOREGATE_LEDGER_URL: this needs the ledger to be an SQLite file")
        if self.ledger_url is None:
            return self.data_dir / "ledger.sqlite3"
        return Path(self.ledger_url.get_secret_value().removeprefix("sqlite:///"))

    @property
    def jobs_url(self) -> str:
        """The Redis of RQ; by default that of the index. Raises SettingsError if that is a cluster."""
        if self.queue_url is None and CLUSTER_URL.fullmatch(self.redis_url):
            raise SettingsError(
                "SCOREGATE_QUEUE_URL: set it to a single Redis: RQ, the job queue, does not run on a cluster"
            )
        return self.queue_url or self.redis_url

    @property
    def bind_address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return host_and_port(self.bind)

    @cached_property
    def allowed_hosts(self) -> frozenset[str]:
        """The authorities that this deployment answers to (RFC 9421's `@authority`, lower case)."""
        if self.hosts:
            return frozenset(host.lower() for host in self.hosts)
        port = self.bind_address[1]
        return frozenset({self.bind.lower(), f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"})


def is_safe_address(text: str) -> bool:
    """Return whether an address is one of HTTPS, or of this machine, so that nobody on the way changes it."""
    try:
        url = urlsplit(text)
        host, has_port = url.hostname or "", url.port is None or url.port > 0
    except ValueError:
        return False
    is_plain = not (url.username or url.password or url.fragment) and text.isascii() and text.isprintable()
    is_safe = url.scheme == "https" or (url.scheme == "http" and host in LOOPBACK)
    return (
        bool(host) and has_port and is_plain and is_safe and " " not in text and len(text) <= ADDRESS_LENGTH
    )


def is_private_host(authority: str) -> bool:
    """Return whether an authority is one of this machine, of a private network, or of a name for tests."""
    host = urlsplit(f"//{authority}").hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host in LOOPBACK or host.endswith((".localhost", ".local", ".test"))
    return address.is_private and not address.is_unspecified  # that listens on every address


def host_and_port(bind: str) -> tuple[str, int]:
    """Return the host and the port of a listening address."""
    host, _, port = bind.rpartition(":")
    return host.strip("[]"), int(port)


def load_settings(**overrides: object) -> Settings:
    """Return the settings of this process. Raises SettingsError, which explains each wrong variable."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("\n".join(map(_fault_line, error.errors()))) from None


def _fault_line(fault: ErrorDetails) -> str:
    variable = ".".join(map(str, fault["loc"])).upper()
    return f"SCOREGATE_{variable}: {fault['msg'].removeprefix('Value error, ')}"
