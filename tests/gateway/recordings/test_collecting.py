"""Collecting: what no submission names goes, in two steps and hours apart; what one names, or is about to, never does."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from gateway.ledger.submissions import work
from gateway.recordings.opening import recordings_of
from gateway.recordings.recording_store import condemned_name, kept_name
from gateway.recordings.recordings import Recordings
from gateway.runtime.failpoints import Point
from gateway.runtime.settings import Settings
from gateway.steward.recordings import collecting
from gateway.steward.recordings.collecting import Collector
from tests.support import boards
from tests.support.boards import tiny_claim
from tests.support.bucket import Bucket
from tests.support.deployment import KILLED, WALL, Deployment, client_of, deployed, ended
from tests.support.ledger import new_submission, opened
from tests.support.metrics import counts
from tests.support.valkey import ValkeyServer

COLLECTED = "scoregate_recordings_collected_total"
GRACE_S = 3600
SEED = 20_261_120
real_ns = time.time_ns


def make_older(bucket: Bucket | None, folder: Path, by_s: float) -> None:
    """Dates everything in the store back."""
    if bucket is not None:
        with bucket.lock:
            for key, (body, at) in bucket.objects.items():
                bucket.objects[key] = (body, at - timedelta(seconds=by_s))
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        at = path.stat().st_mtime - by_s
        os.utime(path, (at, at))


class Keeping:
    """A ledger, a store, and a collector over both that is driven step by step."""

    def __init__(self, ledger: object, recordings: Recordings, make_older: Callable[[float], None]) -> None:
        self.ledger = ledger
        self.recordings = recordings
        self.store = recordings.large
        self.make_older = make_older
        self.collector = Collector(ledger, recordings, grace_ms=GRACE_S * 1000)

    def leave(self, body: bytes) -> bytes:
        """The digest of a recording that is in the store and in no row."""
        digest = hashlib.sha256(body).digest()
        self.store.store(digest, body)
        return digest

    async def submit(self, submission_id: str, body: bytes) -> bytes:
        """The digest of a recording that is stored and then named, as the edge does it."""
        digest = hashlib.sha256(body).digest()
        await self.recordings.store(digest, body)
        await self.name(submission_id, body)
        return digest

    async def name(self, submission_id: str, body: bytes) -> None:
        new = new_submission(submission_id, recording=body)
        await self.ledger.append(new._replace(recording=None))

    async def collect(self, later_s: float = 0) -> int:
        """How much a whole walk over the store did, so much later."""
        self.make_older(later_s)
        done = await self.collector.step()
        while self.collector._after:
            done += await self.collector.step()
        return done

    def names(self) -> list[str]:
        return [blob.name for blob in self.store.page("", 1000) if blob.name != "clock"]


@pytest.fixture
async def keeping(tmp_path: Path, place: str, request: pytest.FixtureRequest) -> AsyncIterator[Keeping]:
    recordings = recordings_of(Settings(recordings_url=place, recordings_timeout_s=10))
    bucket = request.getfixturevalue("bucket") if place.startswith("s3") else None
    async with opened(tmp_path / "ledger.sqlite3") as ledger:
        yield Keeping(ledger, recordings, partial(make_older, bucket, tmp_path / "recordings"))
    recordings.close()


async def test_what_no_submission_names_is_set_aside_and_then_removed(keeping: Keeping):
    """Not before it is old, and not before it was aside as long again; until then it can be read."""
    left, named = keeping.leave(b"left over"), await keeping.submit("run", b"named")
    assert 0 == await keeping.collect(later_s=GRACE_S - 60)
    with counts(1, COLLECTED, action="condemned"):
        assert 1 == await keeping.collect(later_s=120)
    assert sorted([condemned_name(left), kept_name(named)]) == keeping.names()
    assert b"left over" == keeping.store.load(left, 100)
    assert 0 == await keeping.collect()
    with counts(1, COLLECTED, action="removed"):
        assert 1 == await keeping.collect(later_s=GRACE_S + 60)
    assert [kept_name(named)] == keeping.names()
    assert 0 == await keeping.collect(later_s=100 * GRACE_S)
    assert b"named" == keeping.store.load(named, 100)


async def test_what_was_found_in_its_place_just_before_it_was_set_aside_is_put_back(keeping: Keeping):
    """A submission relies on bytes that are there, and commits after they were condemned: they stay readable."""
    digest = keeping.leave(b"the same bytes")
    await keeping.recordings.store(digest, b"the same bytes")
    assert 1 == await keeping.collect(later_s=2 * GRACE_S)
    await keeping.name("run", b"the same bytes")

    assert b"the same bytes" == keeping.store.load(digest, 100)
    with counts(1, COLLECTED, action="reprieved"):
        assert 1 == await keeping.collect(later_s=2 * GRACE_S)
    assert [kept_name(digest)] == keeping.names()
    assert b"the same bytes" == keeping.store.load(digest, 100)


async def test_a_resend_of_what_is_set_aside_is_stored_anew(keeping: Keeping):
    """Nothing that is condemned is relied upon."""
    digest = keeping.leave(b"the same bytes")
    await keeping.collect(later_s=2 * GRACE_S)
    await keeping.submit("run", b"the same bytes")
    assert sorted([condemned_name(digest), kept_name(digest)]) == keeping.names()
    await keeping.collect(later_s=2 * GRACE_S)
    assert b"the same bytes" == keeping.store.load(digest, 100)


async def test_submissions_of_the_very_bytes_that_are_being_collected_lose_none(keeping: Keeping):
    """Seeded: half of the leftovers are submitted while the collector walks; all that is named is there for ever."""
    chance = random.Random(SEED)
    bodies = [b"recording %d" % n for n in range(40)]
    for body in bodies:
        keeping.leave(body)
    keeping.make_older(2 * GRACE_S)
    chosen = chance.sample(bodies, 20)

    async def submit_some(share: list[bytes]) -> None:
        for body in share:
            await asyncio.sleep(chance.uniform(0, 0.005))
            await keeping.submit(f"run-{body.decode()}", body)

    await asyncio.gather(keeping.collect(), keeping.collect(), *(submit_some(chosen[n::4]) for n in range(4)))
    for _ in range(3):
        await keeping.collect(later_s=2 * GRACE_S)
    digests = [hashlib.sha256(body).digest() for body in chosen]
    assert chosen == [keeping.store.load(digest, 100) for digest in digests], f"seed {SEED}"
    assert sorted(map(kept_name, digests)) == keeping.names(), f"seed {SEED}"


async def test_a_slice_is_bounded_and_the_walk_goes_on_where_it_was(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
):
    """However much there is, one step looks at a slice of it; the next one at the next."""
    monkeypatch.setattr(collecting, "SLICE", 4)
    for n in range(10):
        keeping.leave(b"%d" % n)
    keeping.make_older(2 * GRACE_S)
    steps = [await keeping.collector.step() for _ in range(6)]
    assert max(steps) <= 4
    assert 10 == sum(steps)
    assert 0 == len([name for name in keeping.names() if not name.startswith("condemned/")])


async def test_I19_a_wrong_clock_of_ours_makes_nothing_old(keeping: Keeping, monkeypatch: pytest.MonkeyPatch):
    """Years ahead or behind, what is new in the store stays: its age is told by the store's own clock."""
    left = keeping.leave(b"new")
    for years in (-10, 10):
        monkeypatch.setattr(time, "time_ns", lambda by=years: real_ns() + by * 365 * 86_400 * 10**9)
        assert 0 == await keeping.collect()
    assert [kept_name(left)] == keeping.names()


async def test_what_is_not_ours_is_left_alone(keeping: Keeping):
    """A file that somebody put there has another name, and stays."""
    blobs = keeping.store._blobs
    for name in ("readme.txt", "ab/cd/notes", f"00/00/{'f' * 64}", "condemned/mine"):
        blobs.put(name, b"mine")
    assert 0 == await keeping.collect(later_s=100 * GRACE_S)
    assert 4 == len(keeping.names())


async def test_a_file_that_a_crash_left_unnamed_is_removed(keeping: Keeping, place: str):
    """It is in nobody's way for the grace, and goes then."""
    if place.startswith("s3"):
        keeping.store._blobs.put("incoming/0a", b"an object of such a name is treated alike")
    else:
        incoming = Path(place.removeprefix("file://")) / "incoming"
        incoming.mkdir(parents=True)
        (incoming / "0a").write_bytes(b"half a rec")
    assert 0 == await keeping.collect()
    assert 1 == await keeping.collect(later_s=2 * GRACE_S)
    assert [] == keeping.names()


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path, valkey, recording_inline_bytes=0) as deployment:
        boards.write_board(deployment.policies, budget=WALL)
        yield deployment


async def test_I10_an_edge_that_dies_between_store_and_commit_leaves_what_is_collected(house: Deployment):
    """Nothing was acknowledged; one run's retry is promoted over the leftover, the other's leftover goes in the end."""
    requests = {}
    async with client_of(house) as client:
        for name, points in (("retried", 5), ("given up", 7)):
            edge = house.start("serve", Point.AFTER_STORE)
            await house.is_answering()
            run = await client.open_run()
            requests[name] = client.harness.signed(
                run, tiny_claim(run.info["seed"], points), board="tiny", lifetime_s=300
            )
            with pytest.raises(aiohttp.ClientError):
                await client.harness.send(requests[name])
            assert KILLED == await ended(edge)
            if name == "retried":
                retried = run
        assert {} == house.states()
        for part in ("serve", "steward", "worker"):
            house.start(part)
        await house.is_answering()
        assert 202 == (await client.harness.send(requests["retried"])).status
        assert {retried.id: "promoted"} == await house.settled(retried.id)

    recordings = recordings_of(Settings(data_dir=house.folder / "data"))
    async with opened(house.ledger) as ledger:
        keeping = Keeping(ledger, recordings, partial(make_older, None, house.folder / "data" / "recordings"))
        assert 2 == len(keeping.names())
        assert [1, 1, 0] == [await keeping.collect(later_s=2 * GRACE_S) for _ in range(3)]
        [kept] = await ledger.read(work.recordings_in_store(after=b"", count=10))
        assert [kept_name(kept.digest)] == keeping.names()
    recordings.close()
