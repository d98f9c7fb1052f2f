"""The offline queue of the Python client: killed between any two of its steps, it loses no run and sends none twice.

`test_conformance_queue.py` kills the process itself, on a real disk, before a real edge.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoregate_client import (
    Flushed,
    HttpAnswer,
    HttpRequest,
    OfflineQueue,
    QueueEntry,
    Run,
    ScoregateError,
    SyncScoregateClient,
    Unanswered,
    Unconnected,
)

from tests.clients.test_python_client import NOW, RUN_DOCUMENT, SUBMISSION_DOCUMENT
from tests.clients.test_python_without_asyncio import Scripted, told
from tests.support.thorough import examples

PROBLEMS = "https://scoregate.dev/problems/"


class Killed(BaseException):
    """The end of the process, which no code of it sees."""


@dataclass
class MemoryDisk:
    """A folder in memory. The process dies before its step `dies_at`, or half way through it if that writes."""

    dies_at: int | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    durable: dict[str, bytes] = field(default_factory=dict)
    steps: int = 0
    held: set[str] = field(default_factory=set)

    def step(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.dies_at:
            raise Killed

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def write(self, name: str, content: bytes) -> None:
        assert name not in self.files
        self.files[name] = content[: len(content) // 2]
        self.step()
        self.files[name] = content

    def rename(self, name: str, new: str) -> None:
        self.step()
        self.files[new] = self.files.pop(name)

    def remove(self, name: str) -> None:
        self.step()
        self.files.pop(name, None)

    def sync(self) -> None:
        self.step()
        self.durable = dict(self.files)

    @contextmanager
    def locked(self, name: str, *, waits: bool) -> Iterator[bool]:
        is_free = name not in self.held
        assert is_free or not waits
        if is_free:
            self.held.add(name)
        try:
            yield is_free
        finally:
            if is_free:
                self.held.discard(name)

    def restart(self, *, power_cut: bool = False, dies_at: int | None = None) -> None:
        """Start again with what the system had, or with what was on the disk for sure."""
        self.files = dict(self.durable) if power_cut else self.files
        self.durable, self.steps, self.dies_at, self.held = dict(self.files), 0, dies_at, set()


class Gateway(Scripted):
    """A gateway that takes each run once, and says what the script has in its place."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__()
        self.disk = disk
        self.taken: dict[str, list[bytes]] = {}
        self.asks_for: list[dict[str, Any]] = []
        self.revealed: list[bytes] = []
        self.seen: dict[str, Any] = {"state": "pending"}

    async def send(self, request: HttpRequest) -> HttpAnswer:
        self.disk.step()
        if self.script:
            return await super().send(request)
        self.sent.append(request)
        if request.method == "PUT":
            self.revealed.append(request.body or b"")
            return told(200, {"submission": "r_1"})
        if request.method == "GET":
            return told(200, {"reveals": self.asks_for} if "reveals" in request.url else self.submission())
        ticket = request.headers["Signature-Input"].partition('keyid="')[2].partition('"')[0]
        bodies = self.taken.setdefault(ticket, [])
        bodies.append(request.body or b"")
        self.disk.step()
        return told(202, SUBMISSION_DOCUMENT)

    def submission(self) -> dict[str, Any]:
        return SUBMISSION_DOCUMENT | self.seen


def a_run(number: int = 0) -> Run:
    return Run.from_json(RUN_DOCUMENT | {"ticket": f"ticket-{number}"})


def a_client(gateway: Gateway) -> SyncScoregateClient:
    client = SyncScoregateClient(
        "https://scores.example",
        token="t",
        transport=gateway,
        runner=gateway,
        clock=lambda: gateway.now_s,
        attempts=1,
    )
    client.core.queue = OfflineQueue(disk=gateway.disk)
    return client


def later(client: SyncScoregateClient, number: int = 0, **how: Any) -> QueueEntry:
    return client.submit_later(a_run(number), 7, 3, {"coins": 1}, b"SGR1", **how)


def survives(gateway: Gateway, act: Any) -> bool:
    """Whether the process lives through an act."""
    try:
        act(a_client(gateway))
    except Killed:
        return False
    return True


@pytest.mark.parametrize("power_cut", [False, True])
def test_an_entry_is_whole_or_not_there_wherever_the_process_dies(power_cut: bool) -> None:
    """And what was returned is there, even if the power fails at once."""
    for dies_at in range(9):
        disk = MemoryDisk(dies_at)
        has_returned = survives(Gateway(disk), later)
        disk.restart(power_cut=power_cut)
        queue = OfflineQueue(disk=disk)
        entries = [queue.read(name) for name in queue.names()]
        assert len(entries) <= 1
        assert entries or not has_returned
        assert survives(Gateway(disk), later)
        assert (1, 1) == (len(queue.names()), len(disk.files)), "what a dead process left stays for ever"
        if has_returned:
            break
    assert dies_at > 2


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_run_is_in_the_queue_or_with_the_gateway_wherever_a_flush_dies(power_cut: bool) -> None:
    """In the end it is with the gateway, under one body, and in the queue no more."""
    for dies_at in range(9):
        disk = MemoryDisk()
        gateway = Gateway(disk)
        later(a_client(gateway))
        disk.restart(dies_at=dies_at)
        has_returned = survives(gateway, lambda client: client.flush())
        disk.restart(power_cut=power_cut)
        assert gateway.taken or a_client(gateway).waiting() == 1
        a_client(gateway).flush()
        assert (1, 0) == (len(set(gateway.taken["ticket-0"])), a_client(gateway).waiting())
        if has_returned:
            break
    assert dies_at > 2


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_committed_recording_is_kept_wherever_a_flush_dies(power_cut: bool) -> None:
    """Until it was asked for and sent, and the run is verified; then nothing is kept."""
    for dies_at in range(12):
        disk = MemoryDisk()
        gateway = Gateway(disk)
        later(a_client(gateway), committed=True)
        disk.restart(dies_at=dies_at)
        has_returned = survives(gateway, lambda client: client.flush())
        disk.restart(power_cut=power_cut)
        asked = {
            "submission": "r_1",
            "board": "arcade",
            "recording_bytes": 4,
            "reveal_by": "2026-11-20T00:00:00Z",
        }
        gateway.asks_for = [asked | {"recording_digest": f"sha256:{sha256(b'SGR1').hexdigest()}"}]
        flushed = a_client(gateway).flush()
        assert (("r_1",), b"SGR1") == (flushed.revealed, gateway.revealed[-1])
        gateway.asks_for, gateway.seen = [], {"state": "promoted", "verified": False}
        a_client(gateway).flush()
        assert 1 == a_client(gateway).waiting()
        gateway.seen = {"state": "promoted", "verified": True}
        a_client(gateway).flush()
        assert {} == disk.files
        if has_returned:
            break
    assert dies_at > 4


def test_a_recording_outlives_seven_days_and_takes_no_place_of_a_run() -> None:
    """A board asks for it later than any run is submitted."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    for number in range(100):
        later(client, number, committed=True)
    client.flush()
    later(client, 100)
    gateway.now_s += 59 * 24 * 3600
    assert ["expired"] == [each.outcome for each in client.flush().outcomes]
    assert 100 == client.waiting()
    gateway.now_s += 2 * 24 * 3600
    client.flush()
    assert 0 == client.waiting()


def test_the_recording_of_another_player_holds_up_no_other() -> None:
    """The gateway knows of no such submission; the next one is still asked for in time."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    for number in range(2):
        later(client, number, committed=True)
    gateway.script = [told(202, SUBMISSION_DOCUMENT | {"submission": f"r_{number}"}) for number in range(2)]
    asked = {
        "submission": "r_1",
        "board": "arcade",
        "recording_bytes": 4,
        "reveal_by": "2026-11-20T00:00:00Z",
        "recording_digest": f"sha256:{sha256(b'SGR1').hexdigest()}",
    }
    gateway.script += [
        told(200, {"reveals": [asked]}),
        told(404, {"type": f"{PROBLEMS}not-found"}, content_type="application/problem+json"),
    ]
    assert (("r_1",), 2) == (client.flush().revealed, client.waiting())


answers = st.one_of(
    st.builds(
        HttpAnswer,
        st.sampled_from([200, 202, 204, 302, 400, 401, 403, 404, 408, 409, 421, 422, 425, 429, 500, 503]),
        st.sampled_from(
            [
                {},
                {"content-type": "application/problem+json"},
                {"content-type": "application/json; charset=utf-8"},
            ]
        ),
        st.sampled_from(
            [
                json.dumps(each).encode()
                for each in (
                    {"type": f"{PROBLEMS}run-expired"},
                    {"type": f"{PROBLEMS}signature-expired", "server_time": NOW + 5},
                    {"type": "about:blank"},
                    {"submission": 7},
                    SUBMISSION_DOCUMENT,
                    [],
                )
            ]
            + [b"<html>", b""]
        ),
    ),
    st.sampled_from([Unanswered("lost"), Unconnected("refused")]),
)


def is_the_gateways_word(answer: HttpAnswer | Exception) -> bool:
    """Whether an answer ends an entry, as the contract of all clients has it."""
    if isinstance(answer, Exception):
        return False
    if answer.status < 300:
        return answer.body == json.dumps(SUBMISSION_DOCUMENT).encode()
    is_problem = (
        answer.headers.get("content-type") == "application/problem+json" and PROBLEMS.encode() in answer.body
    )
    return is_problem and 400 <= answer.status < 500 and answer.status not in {401, 408, 421, 425, 429}


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(answers, min_size=1, max_size=4))
def test_only_the_gateways_own_word_ends_an_entry(script: list[HttpAnswer | Exception]) -> None:
    """Whatever answers stand in the way before it, and the body is the same in each attempt."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    later(client)
    for answer in script:
        # A refusal for time is signed again at once, and gets the same answer again.
        gateway.script = [answer] * 2
        [outcome] = client.flush().outcomes
        is_over = is_the_gateways_word(answer)
        assert (outcome.outcome in {"accepted", "refused"}) == is_over
        assert int(not is_over) == client.waiting()
        if is_over:
            break
    assert 1 == len({request.body for request in gateway.sent})


steps = st.one_of(
    st.tuples(st.just("later"), st.integers(0, 3)),
    st.tuples(st.just("flush"), st.sampled_from([None, Unanswered("lost"), told(500), told(302)])),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(steps, st.none() | st.integers(0, 12), st.booleans()), max_size=8))
def test_every_run_that_was_put_into_the_queue_counts_in_the_end(
    history: list[tuple[tuple[str, Any], int | None, bool]],
) -> None:
    """Through any history of runs, flushes, bad answers, kills and power cuts: all of them, each under one body."""
    gateway = Gateway(MemoryDisk())
    promised: set[str] = set()
    for (act, what), dies_at, power_cut in history:
        gateway.disk.restart(dies_at=dies_at)
        if act == "later":
            if survives(gateway, lambda client, number=what: later(client, number)):
                promised.add(f"ticket-{what}")
        else:
            gateway.script = [what] if what else []
            survives(gateway, lambda client: client.flush())
        if gateway.disk.dies_at is not None:
            gateway.disk.restart(power_cut=power_cut)
    gateway.script = []
    gateway.disk.restart()
    a_client(gateway).flush()
    assert promised <= set(gateway.taken)
    assert all(1 == len(set(bodies)) for bodies in gateway.taken.values())
    assert {} == gateway.disk.files


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_junk_in_a_file_is_a_damaged_entry(content: bytes) -> None:
    """And no other error."""
    with pytest.raises(ValueError, match=r"^no entry of version 1$"):
        QueueEntry.decoded(content)


@pytest.mark.parametrize("written_at", [-1, 1 << 40, 1e300, "5", None])
def test_an_entry_of_no_time_is_a_damaged_one(written_at: object) -> None:
    """Taken for very old, it would be dropped; so it is set aside with its run."""
    document = json.loads(QueueEntry("arcade", "ticket", bytes(32), '{"score":7}', 0).encoded())
    for kept in (0, 1.5, (1 << 40) - 1):
        assert (
            int(kept) == QueueEntry.decoded(json.dumps(document | {"written_at": kept}).encode()).written_at
        )
    with pytest.raises(ValueError, match="no time at which it was written"):
        QueueEntry.decoded(json.dumps(document | {"written_at": written_at}).encode())


@settings(max_examples=examples(40))
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    st.binary(min_size=32, max_size=32),
    st.none() | st.binary(max_size=9),
)
def test_an_entry_is_read_as_it_was_written(board: str, key: bytes, recording: bytes | None) -> None:
    """Whatever the names and bytes."""
    entry = QueueEntry(board, "ticket", key, '{"score":7}', NOW, recording, None)
    assert entry == QueueEntry.decoded(entry.encoded())
    assert b64encode(key) in entry.encoded()


def test_a_run_is_one_entry_for_each_body_that_submits_it() -> None:
    """The same again is the entry that is there; another score is another claim, on which the gateway decides."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    first = later(client)
    other = client.submit_later(a_run(), 8, 3, {"coins": 1}, b"SGR1")
    assert ([first, other], 2) == ([later(client), other], client.waiting())
    client.flush()
    assert [first.body, other.body] == [body.decode() for body in gateway.taken["ticket-0"]]


def test_a_run_is_found_behind_a_damaged_entry_of_its_own() -> None:
    """What cannot be read is no reason to keep what can be twice."""
    gateway = Gateway(MemoryDisk())
    digest = sha256(b"ticket-0").hexdigest()[:8]
    gateway.disk.files[f"0000000000001-{digest}.json"] = b"{"
    client = a_client(gateway)
    assert later(client) == later(client)
    assert 2 == client.waiting()


@pytest.mark.parametrize(
    ("seen", "waiting"),
    [
        ({"state": "promoted", "verified": True}, 0),
        ({"state": "promoted", "verified": False}, 1),
        ({"state": "pending"}, 1),
        ({"state": "held"}, 1),
        ({"state": "rejected"}, 0),
        ({"state": "revoked"}, 0),
        ({"state": "superseded"}, 0),
    ],
)
def test_a_recording_is_kept_as_long_as_it_may_be_asked_for(seen: dict[str, Any], waiting: int) -> None:
    """Until the run is verified, or counts for nothing any more."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    later(client, committed=True)
    gateway.seen = seen
    client.flush()
    assert waiting == client.waiting()


def test_a_damaged_entry_is_set_aside_for_good() -> None:
    """Its new name is on the disk: after a power cut it is not reported once more."""
    disk = MemoryDisk(files={"0000000000001-00000000.json": b"{"})
    assert ["damaged"] == [each.outcome for each in a_client(Gateway(disk)).flush().outcomes]
    disk.restart(power_cut=True)
    assert () == a_client(Gateway(disk)).flush().outcomes
    assert ["0000000000001-00000000.json.damaged"] == disk.names()


def test_a_damaged_entry_holds_up_nobody() -> None:
    """It is set aside and reported, and what lies behind it is sent."""
    gateway = Gateway(MemoryDisk())
    gateway.disk.files["0000000000001-00000000.json"] = b"{"
    client = a_client(gateway)
    later(client)
    assert ["damaged", "accepted"] == [each.outcome for each in client.flush().outcomes]
    assert {"0000000000001-00000000.json.damaged": b"{"} == gateway.disk.files


def test_no_gateway_holds_up_all() -> None:
    """The first entry says so; the others are not tried."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    for number in range(3):
        later(client, number)
    gateway.script = [Unconnected("refused")]
    assert ["kept"] * 3 == [each.outcome for each in client.flush().outcomes]
    assert 1 == len(gateway.sent)


def test_no_recording_is_asked_for_where_no_run_can_be_sent() -> None:
    """A gateway that has too much to do is asked for nothing else."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    later(client, committed=True)
    assert ["accepted"] == [each.outcome for each in client.flush().outcomes]
    later(client, 1)
    before, gateway.script = len(gateway.sent), [told(503)]
    assert ["kept"] == [each.outcome for each in client.flush().outcomes]
    assert ["POST"] == [each.method for each in gateway.sent[before:]]


def test_nothing_is_sent_while_another_flushes() -> None:
    """The other one does."""
    gateway = Gateway(MemoryDisk())
    client = a_client(gateway)
    later(client)
    with OfflineQueue(disk=gateway.disk).flushing():
        assert Flushed() == client.flush()
    assert [] == gateway.sent
    assert ["accepted"] == [each.outcome for each in client.flush().outcomes]


def test_an_entry_is_synced_before_its_name_and_its_name_before_it_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves the whole entry or none: on a real disk, whose folder is synced too."""
    folder, done, fsync = tmp_path / "queue", [], os.fsync

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        synced_path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append((synced_path.name.rpartition(".")[2], len(OfflineQueue(folder).names())))

    monkeypatch.setattr(os, "fsync", synced)
    queue = OfflineQueue(folder)
    queue.add(QueueEntry("arcade", "ticket", bytes(32), '{"score":7}', 0), NOW * 1000)
    assert [("fresh", 0), ("queue", 1)] == done
    [name] = queue.names()
    queue.remove(name)
    assert ("queue", 0) == done[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its descriptors so")
def test_a_queue_keeps_nothing_open(tmp_path: Path) -> None:
    """A game submits for days; and a lock is let go of whatever happened under it."""

    def still_open() -> list[Path]:
        found = []
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # that of the look itself
                found.append(descriptor.readlink())
        return [path for path in found if path.is_relative_to(tmp_path)]

    queue = OfflineQueue(tmp_path / "queue")
    queue.add(QueueEntry("arcade", "ticket", bytes(32), '{"score":7}', 0), NOW * 1000)
    [name] = queue.names()
    assert queue.read(name) is not None
    queue.remove(name)

    def fail() -> None:
        with queue.flushing():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [] == still_open()


def test_only_its_owner_reads_a_queue(tmp_path: Path) -> None:
    """Keys of runs are in it: whatever is usual for files here, and whoever looks into the folder first."""
    before = os.umask(0)
    try:
        for first in ("names", "add"):
            folder = tmp_path / first
            queue = OfflineQueue(folder)
            if first == "names":
                assert [] == queue.names()
            queue.add(QueueEntry("arcade", "ticket", bytes(32), '{"score":7}', 0), NOW * 1000)
            with queue.flushing():
                modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
            assert (0o700, {0o600}) == (folder.stat().st_mode & 0o777, modes)
    finally:
        os.umask(before)


def test_a_second_flush_of_a_folder_leaves_it_to_the_first(tmp_path: Path) -> None:
    """In the same process too; the lock goes with the flush."""
    queues = [OfflineQueue(tmp_path / "queue") for _ in range(2)]
    with queues[0].flushing() as first:
        with queues[1].flushing() as second:
            assert (True, False) == (first, second)
    with queues[1].flushing() as again:
        assert again


def test_threads_that_put_runs_into_one_folder_wait_for_each_other(tmp_path: Path) -> None:
    """Each run is one entry, none above a hundred, and the names are in the order of writing."""
    queue, refused = OfflineQueue(tmp_path / "queue"), []

    def put(first: int) -> None:
        for number in range(first, first + 30):
            entry = QueueEntry("arcade", f"ticket-{number}", bytes(32), '{"score":7}', 0)
            try:
                queue.add(entry, NOW * 1000)
            except ScoregateError as full:
                refused.append(full.reason)

    threads = [threading.Thread(target=put, args=(first,)) for first in (0, 30, 60, 90)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (100, ["queue-full"] * 20) == (len(queue.names()), refused)
    assert [f"{NOW * 1000 + number}" for number in range(100)] == [name[:13] for name in queue.names()]
