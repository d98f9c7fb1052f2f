"""Backup and restore, by the very commands of the how-to page, of a deployment that takes submissions meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.settings import Settings
from policies.errors import ScoregateError
from scoregate.backup import FACTS, LEDGER, SUMS, BackupFailed, back_up
from scoregate.restore import RestoreFailed, restore
from tests.support import boards
from tests.support.boards import tiny_claim
from tests.support.bucket import running_bucket
from tests.support.clock import ShiftedClock
from tests.support.deployment import Client, eventually
from tests.support.harness import Harness, Request, free_port
from tests.support.ledger import is_intact, new_submission, opened, rows

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "backup-and-restore.md"
PATIENCE_S = 60.0


def commands(heading: str) -> list[str]:
    """The shell examples below a heading of the page, each as it is written there."""
    _, _, text = PAGE.read_text().partition(f"\n### {heading}\n")
    section = re.split(r"^#{2,3} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


class Machine:
    """Where the commands of the page are run: its folders are below a temporary one, and its port is ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = f"127.0.0.1:{free_port()}"
        self.log = folder / "log.txt"
        self.before = folder / "var" / "lib" / "scoregate"
        self.backup = folder / "backup" / "monday"
        self.after = folder / "srv" / "scoregate"
        boards.write_board(folder / "policies")
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SCOREGATE_POLICIES_DIR": str(self.folder / "policies"),
            "SCOREGATE_BIND": self.authority,
            "SCOREGATE_RECORDING_INLINE_BYTES": "200",
            "SCOREGATE_RECONCILE_S": "0.2",
            "SCOREGATE_LEASE_S": "1",
            "SCOREGATE_REDISPATCH_S": "0.3",
            "SCOREGATE_LOG_LEVEL": "warning",
        }

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """The script's shell and all that it starts, as one group of processes."""
        placed = re.sub(r"(?<=[ =])/(backup|var|srv)\b", rf"{self.folder}/\1", script)
        with self.log.open("ab") as log:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", placed],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(shell)
        return shell

    async def run(self, script: str) -> None:
        """Returns once the script has ended well."""
        status = await asyncio.to_thread(self.start(script).wait, PATIENCE_S)
        assert 0 == status, self.log.read_text()[-3000:]

    def kill(self) -> None:
        """Ends every process of every script without warning."""
        for shell in self._running:
            parts = children(shell.pid)  # each in a session of its own
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            for part in parts:
                with suppress(ProcessLookupError):
                    os.kill(part, signal.SIGKILL)
            shell.wait()
        self._running.clear()

    async def is_answering(self) -> bool:
        host, port = self.authority.split(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True

    async def is_silent(self) -> bool:
        return not await self.is_answering()


@contextmanager
def machine_in(folder: Path) -> Iterator[Machine]:
    machine = Machine(folder)
    try:
        yield machine
    finally:
        machine.kill()


class Player:
    """A client of the tiny board that keeps what it sent."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: dict[str, tuple[Request, Any]] = {}

    async def submit(self, points: int, ticks: int, token: str | None = None) -> str:
        run = await self.client.open_run(token)
        claim = tiny_claim(run.info["seed"], points, ticks)
        request = self.client.harness.signed(run, claim, board="tiny", lifetime_s=290)
        answer = await self.client.harness.send(request)
        assert 202 == answer.status, answer.raw
        self.sent[run.id] = (request, answer.body)
        return run.id

    async def board(self) -> Any:
        answer = await self.client.harness.get("/v1/boards/tiny/entries?limit=100")
        assert 200 == answer.status, answer.raw
        return [(each["player"], each["score"], each["submission"]) for each in answer.body["entries"]]


async def test_the_page_is_followed_and_nothing_that_was_backed_up_is_lost(tmp_path: Path):
    """Backed up while it runs, killed, restored elsewhere with an empty Valkey: the same boards, the same answers."""
    [back_up_it, check_it], [restore_it, start_it] = commands("Back up"), commands("Restore")
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with machine_in(tmp_path) as machine:
            machine.start(f"scoregate up --data-dir {machine.before}")
            await wait_until(machine.is_answering, machine)
            player = Player(Client(Harness(None, ShiftedClock(), session, machine.authority)))  # type: ignore[arg-type]
            early = [await player.submit(points, ticks) for points, ticks in ((5, 25), (7, 3000), (9, 30))]
            await settled(machine.before / LEDGER, early, machine)
            board = await board_of(player, 3, machine)

            is_over = asyncio.Event()
            submitting = asyncio.create_task(submit_until(is_over, player))
            await machine.run(back_up_it)
            is_over.set()
            late = await submitting
            await machine.run(check_it)
            machine.kill()
            await wait_until(machine.is_silent, machine)

            await machine.run(restore_it)
            await machine.run(start_it + "\ndisown -a")
            known = [row[0] for row in rows(machine.after / LEDGER, "SELECT submission_id FROM submissions")]
            await settled(machine.after / LEDGER, known, machine)
            players = rows(machine.after / LEDGER, "SELECT DISTINCT player FROM submissions")
            restored = await board_of(player, len(players), machine)
            assert board == [each for each in restored if each[2] in early]
            assert set(early) <= set(known) <= set(early) | set(late)
            for submission_id in early:
                request, told = player.sent[submission_id]
                again = await player.client.harness.send(request)
                assert (202, "true") == (again.status, again.headers.get("Idempotency-Replayed"))
                assert told["submission"] == again.body["submission"]
            assert is_intact(machine.after / LEDGER)


async def submit_until(is_over: asyncio.Event, player: Player) -> list[str]:
    """Submissions, large and small, for as long as the backup is written."""
    done: list[str] = []
    token = await player.client.harness.new_player()
    while not is_over.is_set() or not done:
        done.append(await player.submit(2, 25 + 3000 * (len(done) % 2), token))
    return done


async def board_of(player: Player, entries: int, machine: Machine) -> Any:
    """The board, once it has as many entries."""

    async def is_whole() -> bool:
        return len(await player.board()) == entries

    await wait_until(is_whole, machine)
    return await player.board()


async def settled(ledger: Path, submission_ids: list[str], machine: Machine) -> None:
    def are_promoted() -> bool:
        states = dict(rows(ledger, "SELECT submission_id, state FROM submissions"))
        return {"promoted"} == {states.get(each) for each in submission_ids}

    await eventually(are_promoted, machine.log, PATIENCE_S)


async def wait_until(is_so: Any, machine: Machine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await is_so():
        said = machine.log.read_text()[-2000:] if machine.log.exists() else ""
        assert time.monotonic() < deadline, f"it never came about: {said}"
        await asyncio.sleep(0.05)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(data_dir=tmp_path / "data", policies_dir=tmp_path / "policies")


@pytest.fixture
async def deployment(settings: Settings) -> Settings:
    """A data directory with a key, and a submission with a large recording."""
    await fill(settings)
    return settings


async def fill(settings: Settings) -> None:
    from gateway.recordings.opening import store_of  # noqa: PLC0415

    settings.data_dir.mkdir(exist_ok=True)
    (settings.data_dir / "master.key").write_text("secret\n")
    (settings.data_dir / "master.key").chmod(0o600)
    body = b"a large recording"
    store_of(settings).store(sha256(body).digest(), body)
    async with opened(settings.ledger_path) as ledger:
        await ledger.append(new_submission("small"))
        await ledger.append(new_submission("large", recording=body)._replace(recording=None))


def elsewhere(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})


def tree(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items()}


def test_a_backup_has_everything_with_its_sum(deployment: Settings, tmp_path: Path):
    """Ledger, key, recording and facts; all that is there is summed, and for its owner's eyes alone."""
    facts = back_up(deployment, tmp_path / "backup")

    found = tree(tmp_path / "backup")
    sums = dict(reversed(line.split("  ")) for line in found.pop(SUMS).decode().splitlines())
    assert {name: sha256(body).hexdigest() for name, body in found.items()} == sums
    digest = sha256(b"a large recording").hexdigest()
    assert {
        LEDGER,
        "master.key",
        FACTS,
        f"recordings/{digest[:2]}/{digest[2:4]}/{digest}",
    } == found.keys()
    assert (2, ["master.key"], 1, []) == (facts.head, facts.keys, facts.recordings, facts.lost)
    assert ["tiny"] == list(json.loads(found[FACTS])["policies"])
    assert 0o700 == (tmp_path / "backup").stat().st_mode & 0o777
    assert {0o600} == {(tmp_path / "backup" / name).stat().st_mode & 0o777 for name in (LEDGER, "master.key")}


def test_a_restored_deployment_is_the_one_that_was_backed_up(deployment: Settings, tmp_path: Path):
    """The same rows, the same recording, the same key; and a board whose policy has changed since is named."""
    back_up(deployment, tmp_path / "backup")
    boards.write_board(tmp_path / "policies", title="Tiny again")
    there = elsewhere(deployment, tmp_path)
    restored = restore(there, tmp_path / "backup")

    assert (2, 1, ("tiny",)) == (restored.head, restored.recordings, restored.other_policies)
    for table in ("submissions", "events", "recordings", "outbox"):
        kept = f"SELECT * FROM {table} ORDER BY 1"
        assert rows(deployment.ledger_path, kept) == rows(there.ledger_path, kept)
    before, after = tree(deployment.data_dir), tree(there.data_dir)
    unchanged = {name for name in before if name.startswith(("recordings", "master"))}
    assert {name: before[name] for name in unchanged} == {name: after[name] for name in unchanged}
    assert 0o600 == (there.data_dir / "master.key").stat().st_mode & 0o777


async def test_recordings_in_a_bucket_are_backed_up_and_put_into_a_bucket(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The backup has their bytes; restoring puts them where the settings say."""
    with running_bucket() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        settings = settings.model_copy(update={"recordings_url": "s3://evidence/before"})
        await fill(settings)
        assert 1 == back_up(settings, tmp_path / "backup").recordings
        there = elsewhere(settings, tmp_path).model_copy(update={"recordings_url": "s3://evidence/after"})
        restore(there, tmp_path / "backup")
        [before, after] = [
            [key.removeprefix(prefix) for key in bucket.objects if key.startswith(prefix)]
            for prefix in ("before/", "after/")
        ]
        assert before == after


def test_a_recording_that_was_lost_before_is_named_and_the_rest_backed_up(
    deployment: Settings, tmp_path: Path
):
    """One damaged recording is no reason to have no backup."""
    [path] = (deployment.data_dir / "recordings").glob("??/??/*")
    path.write_bytes(b"something else")
    facts = back_up(deployment, tmp_path / "backup")
    assert (0, [path.name]) == (facts.recordings, facts.lost)
    assert 0 == restore(elsewhere(deployment, tmp_path), tmp_path / "backup").recordings


def test_neither_writes_over_anything(deployment: Settings, tmp_path: Path):
    """A target with something in it is refused, and left as it is."""
    back_up(deployment, tmp_path / "backup")
    before = tree(tmp_path / "backup"), tree(deployment.data_dir)
    with pytest.raises(BackupFailed, match="not empty"):
        back_up(deployment, tmp_path / "backup")
    with pytest.raises(BackupFailed, match="not empty"):
        restore(deployment, tmp_path / "backup")
    assert before == (tree(tmp_path / "backup"), tree(deployment.data_dir))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / SUMS).unlink(), "not a finished backup"),
        (lambda folder: (folder / "master.key").unlink(), "master.key is missing"),
        (lambda folder: (folder / LEDGER).write_bytes(b""), "ledger.sqlite3 is not what it was"),
        (lambda folder: (folder / SUMS).write_text(""), "ledger.sqlite3 is not in SHA256SUMS"),
        (lambda folder: (folder / SUMS).write_text(f"{'0' * 64}  ../../etc/passwd\n"), "line 1"),
        (lambda folder: (folder / SUMS).write_text(f"{'0' * 64}  /etc/passwd\n"), "line 1"),
    ],
    ids=["no-sums", "missing", "altered", "unlisted", "outside", "absolute"],
)
def test_a_damaged_backup_is_refused_before_anything_is_written(
    deployment: Settings, tmp_path: Path, damage: Any, said: str
):
    """Whatever is wrong is said, and there is no data directory afterwards."""
    back_up(deployment, tmp_path / "backup")
    damage(tmp_path / "backup")
    there = elsewhere(deployment, tmp_path)
    with pytest.raises(RestoreFailed, match=said):
        restore(there, tmp_path / "backup")
    assert not there.data_dir.exists()


def test_a_damaged_or_missing_ledger_is_not_backed_up(deployment: Settings, tmp_path: Path):
    """A backup that could not be restored is not called one."""
    with closing(sqlite3.connect(deployment.ledger_path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = deployment.ledger_path.read_bytes()
    deployment.ledger_path.write_bytes(whole[:8192] + bytes(4096) + whole[12288:])
    with pytest.raises(BackupFailed):
        back_up(deployment, tmp_path / "backup")
    assert not (tmp_path / "backup" / SUMS).exists()
    with pytest.raises(BackupFailed, match="there is no ledger"):
        back_up(elsewhere(deployment, tmp_path), tmp_path / "other")


def test_a_ledger_on_a_database_server_is_left_to_its_own_tools(settings: Settings, tmp_path: Path):
    """The error says what to read."""
    url = "postgresql://ada:secret@localhost:5432/scoregate"
    settings = Settings(data_dir=settings.data_dir, policies_dir=settings.policies_dir, ledger_url=url)
    with pytest.raises(ScoregateError, match=r"backup-and-restore\.md"):
        back_up(settings, tmp_path / "backup")
