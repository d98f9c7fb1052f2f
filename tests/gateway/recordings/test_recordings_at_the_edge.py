"""A submission with a large recording, from the socket to its verdict, over a directory and over a bucket."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import resource
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from gateway.recordings.recordings import Recordings
from gateway.runtime import failpoints
from gateway.runtime.failpoints import Point
from gateway.runtime.settings import Settings
from policies.errors import RecordingsUnavailable
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.attack import until
from tests.support.boards import tiny_claim
from tests.support.bucket import Bucket
from tests.support.deployment import client_of, deployed
from tests.support.harness import Harness, Request, Run, running_harness
from tests.support.ledger import is_intact, rows
from tests.support.valkey import ValkeyServer

HOUR_S = 3600


@pytest.fixture
def own_settings(settings: Settings, tmp_path: Path) -> Settings:
    """Every recording counts as large, but for where a test says otherwise."""
    boards.write_board(tmp_path / "policies")
    return settings.model_copy(
        update={
            "policies_dir": tmp_path / "policies",
            "recordings_url": f"file://{tmp_path}/recordings",
            "recording_inline_bytes": 0,
        }
    )


@asynccontextmanager
async def house_of(settings: Settings, **changes: Any) -> AsyncIterator[Harness]:
    async with running_harness(settings.model_copy(update=changes)) as harness:
        yield harness


@pytest.fixture
async def house(own_settings: Settings) -> AsyncIterator[Harness]:
    async with house_of(own_settings) as harness:
        yield harness


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


async def open_run(house: Harness) -> Run:
    token = await house.new_player()
    answer = await house.post("/v1/boards/tiny/runs", {"build": boards.BUILD}, token)
    assert answer.status == 201, answer.raw
    return Run(answer.body, token)


async def played(house: Harness, **how: Any) -> tuple[Run, Request]:
    """A run, played and signed, and not sent yet."""
    run = await open_run(house)
    return run, house.signed(run, tiny_claim(run.info["seed"], **how), board="tiny")


async def submitted(house: Harness, **how: Any) -> tuple[Run, bytes]:
    """A run that was accepted, and its recording."""
    run, request = await played(house, **how)
    answer = await house.send(request)
    assert (202, "pending") == (answer.status, answer.body["state"])
    return run, base64.b64decode(json.loads(request.body)["recording"])


def ledger_of(house: Harness) -> Path:
    return house.edge.settings.ledger_path


def stored_rows(house: Harness) -> list[Any]:
    return rows(ledger_of(house), "SELECT size_bytes, body IS NULL FROM recordings ORDER BY first_seq")


def reason_of(house: Harness, run: Run) -> str:
    [[reason]] = rows(ledger_of(house), "SELECT reason FROM submissions WHERE submission_id = ?", run.id)
    return str(reason)


async def test_a_large_recording_is_in_the_store_and_a_small_one_in_its_row(
    own_settings: Settings, place: str, sandbox: Sandbox
):
    """The size in the settings decides; either is verified and promoted."""
    async with house_of(own_settings, recordings_url=place, recording_inline_bytes=100) as house:
        small, small_bytes = await submitted(house, ticks=25)
        large, large_bytes = await submitted(house, ticks=2000)
        assert len(small_bytes) <= 100 < len(large_bytes)
        assert [(len(small_bytes), 0), (len(large_bytes), 1)] == stored_rows(house)
        store = house.edge.recordings.large
        digest = hashlib.sha256(large_bytes).digest()
        assert [digest.hex()] == [blob.name[-64:] for blob in store.page("", 10)]

        assert 2 == await house.verify(small.id, large.id, sandbox=sandbox)
        assert ["promoted"] * 2 == [await house.state_of(each.id) for each in (small, large)]


async def test_a_resend_stores_nothing_more(house: Harness, tmp_path: Path):
    """The same bytes get the stored answer; other bytes for the same run are refused, and are in no store."""
    run, request = await played(house)
    assert 202 == (await house.send(request)).status
    before = files(tmp_path / "recordings")
    await house.edge.index.drained()
    for is_index_empty in (False, True):
        if is_index_empty:
            await house.edge.index.client.flushall()
        assert "true" == (await house.send(request)).headers.get("Idempotency-Replayed")
        other = await house.submit(run, tiny_claim(run.info["seed"], points=9), board="tiny")
        assert (409, "run-already-submitted") == (other.status, other.problem)
    assert before == files(tmp_path / "recordings")


async def test_refused_requests_bring_nothing_into_the_store(house: Harness, tmp_path: Path):
    """A wrong signature, an impossible score, a recording too large: refused before anything is written."""
    run = await open_run(house)
    claim = tiny_claim(run.info["seed"])
    long = base64.b64encode(bytes(70_000)).decode()
    refused = [
        await house.submit(run, claim, board="tiny", key=b"x" * 32),
        await house.submit(run, claim | {"score": 2_000_000}, board="tiny"),
        await house.submit(run, claim | {"recording": long}, board="tiny"),
        await house.submit(run, claim | {"recording": "%"}, board="tiny"),
    ]
    assert ["signature-invalid", "bounds-violation", "payload-too-large", "schema-violation"] == [
        each.problem for each in refused
    ]
    assert not (tmp_path / "recordings").exists()


async def test_I09_I18_a_full_disk_refuses_what_it_cannot_keep_and_takes_it_later(
    tmp_path: Path, valkey: ValkeyServer
):
    """Not a byte can be written, neither to store, ledger nor log: 503, nothing left; 202 once there is room."""
    with deployed(tmp_path, valkey, recording_inline_bytes=0) as deployment:
        edge = deployment.start("serve")
        await deployment.is_answering()
        async with client_of(deployment) as client:
            runs = [await client.open_run() for _ in range(2)]
            claims = [tiny_claim(run.info["seed"]) for run in runs]
            claims[1].pop("recording")
            requests = [
                client.harness.signed(run, claim, board="tiny", lifetime_s=290)
                for run, claim in zip(runs, claims, strict=True)
            ]
            before = resource.prlimit(edge.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
            refused = [await client.harness.send(request) for request in requests]
            resource.prlimit(edge.pid, resource.RLIMIT_FSIZE, before)
            assert [(503, "temporary-reduced-capacity", "1")] * 2 == [
                (each.status, each.problem, each.headers["Retry-After"]) for each in refused
            ]
            assert {} == deployment.states()
            assert [] == files(tmp_path / "data" / "recordings")
            assert [202, 202] == [(await client.harness.send(request)).status for request in requests]
        assert {run.id for run in runs} == deployment.states().keys()
        assert is_intact(deployment.ledger)


async def test_I18_small_recordings_need_no_store(own_settings: Settings, tmp_path: Path):
    """While the directory cannot be had, what goes into the ledger's rows is accepted as ever."""
    (tmp_path / "file").write_bytes(b"")
    away = f"file://{tmp_path}/file/recordings"
    async with house_of(own_settings, recordings_url=away, recording_inline_bytes=100) as house:
        _, large = await played(house, ticks=2000)
        _, small = await played(house)
        assert [503, 202] == [(await house.send(each)).status for each in (large, small)]


async def test_F25_a_store_that_fails_is_missing_until_it_works_again(own_settings: Settings, bucket: Bucket):
    """Readiness names it from the first refusal on, stays 200, and forgets it with the next recording that is stored."""
    async with house_of(own_settings, recordings_url="s3://evidence", recordings_timeout_s=0.5) as house:
        _, request = await played(house)
        assert "recordings" not in (await house.get("/readyz")).body["missing"]
        bucket.go_on.clear()
        assert 503 == (await house.send(request)).status
        await until_missing(house, is_missing=True)
        bucket.go_on.set()
        assert 202 == (await house.send(request)).status
        await until_missing(house, is_missing=False)


async def until_missing(house: Harness, *, is_missing: bool) -> None:
    async def is_so() -> bool:
        ready = await house.get("/readyz")
        assert 200 == ready.status
        return is_missing == ("recordings" in ready.body["missing"])

    await until(is_so)


async def test_a_stalled_bucket_holds_up_nobody_else(own_settings: Settings, bucket: Bucket):
    """The loop answers others meanwhile; the submission is 503 by the deadline, and 202 once the bucket goes on."""
    async with house_of(own_settings, recordings_url="s3://evidence", recordings_timeout_s=0.5) as house:
        run, request = await played(house)
        bucket.go_on.clear()
        sending = asyncio.create_task(house.send(request))
        assert 200 == (await house.get("/livez")).status
        assert not sending.done()
        refused = await sending
        assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
        assert None is await house.state_of(run.id)
        bucket.go_on.set()
        assert 202 == (await house.send(request)).status


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
async def test_a_recording_that_our_store_damaged_convicts_nobody(
    house: Harness, tmp_path: Path, sandbox: Sandbox, damage: str
):
    """The run is held, the reason names the fault as ours, and its player is told that somebody will look at it."""
    run, body = await submitted(house)
    [name] = files(tmp_path / "recordings")
    path = tmp_path / "recordings" / name
    match damage:
        case "truncated":
            path.write_bytes(body[:-1])
        case "altered":
            path.write_bytes(bytes([body[0] ^ 1]) + body[1:])
        case "missing":
            path.unlink()

    assert 1 == await house.verify(run.id, sandbox=sandbox)
    assert ("held", "recording-lost") == (await house.state_of(run.id), reason_of(house, run))
    told = await house.get(f"/v1/submissions/{run.id}", run.token)
    assert ("held", "review") == (told.body["state"], told.body["reason"])


async def test_a_recording_altered_in_the_ledger_convicts_nobody(own_settings: Settings, sandbox: Sandbox):
    """What is inline is checked like the rest: somebody with the database in hand makes no cheat of a player."""
    async with house_of(own_settings, recording_inline_bytes=100) as house:
        run, body = await submitted(house)
        with closing(sqlite3.connect(ledger_of(house))) as intruder, intruder:
            intruder.execute("DROP TRIGGER recordings_no_update")
            intruder.execute("UPDATE recordings SET body = ?", (body + b"x",))
        assert 1 == await house.verify(run.id, sandbox=sandbox)
        assert ("held", "recording-lost") == (await house.state_of(run.id), reason_of(house, run))


async def test_a_store_that_is_away_for_a_moment_lets_nobody_past_unexamined(
    house: Harness, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """What came back only for the replay was not looked at for likeness and timing: the submission comes again."""
    run, _ = await submitted(house)
    load, failures = Recordings.load, iter([RecordingsUnavailable("away")])

    async def flaky(*asked: Any) -> bytes:
        for failure in failures:
            raise failure
        return await load(*asked)

    monkeypatch.setattr(Recordings, "load", flaky)
    await house.verify(run.id, sandbox=sandbox)
    assert "pending" == await house.state_of(run.id)
    house.clock.shift(3_600)
    await house.verify(run.id, sandbox=sandbox)
    assert "promoted" == await house.state_of(run.id)


async def test_a_store_that_is_away_delays_a_verdict_and_gives_none(
    own_settings: Settings, bucket: Bucket, sandbox: Sandbox
):
    """What cannot be read now is not lost: the submission stays pending, and is promoted when the bucket is back."""
    async with house_of(own_settings, recordings_url="s3://evidence") as house:
        run, _ = await submitted(house)
        bucket.status = 403
        await house.verify(run.id, sandbox=sandbox)
        assert "pending" == await house.state_of(run.id)
        bucket.status = 0
        house.clock.shift(HOUR_S)
        await house.verify(run.id, sandbox=sandbox)
        assert "promoted" == await house.state_of(run.id)


async def test_a_commit_that_comes_late_finds_its_recording_stored_again(
    house: Harness, tmp_path: Path, sandbox: Sandbox
):
    """Hours between store and commit, and all of it collected meanwhile: it is there before the 202."""
    run, request = await played(house)

    def collected_meanwhile() -> None:
        for name in files(tmp_path / "recordings"):
            (tmp_path / "recordings" / name).unlink()
        house.clock.shift(100 * HOUR_S)

    failpoints.arm(Point.AFTER_STORE, collected_meanwhile)
    assert 202 == (await house.send(request)).status
    assert 1 == len(files(tmp_path / "recordings"))
    await house.verify(run.id, sandbox=sandbox)
    assert "promoted" == await house.state_of(run.id)
