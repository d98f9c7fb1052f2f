"""Uploads of assets while processes die and disks fill up: what was answered is there, and nothing else stays."""

from __future__ import annotations

import resource
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.recordings.directory import INCOMING
from gateway.recordings.recording_store import ASSETS, kept_name
from gateway.runtime.failpoints import Point
from gateway.runtime.settings import Settings
from gateway.steward.recordings.collecting import Collector
from tests.support.asset_files import a_map, digest_text, upload
from tests.support.attack import registered
from tests.support.deployment import KILLED, Client, Deployment, client_of, deployed, ended
from tests.support.families import write_family
from tests.support.harness import Answer, running_harness
from tests.support.valkey import ValkeyServer

MAP = a_map(300_000)
DIES_BEFORE_ITS_NAME = "import os; os.link = lambda *_: os.kill(os.getpid(), 9)"


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def settings_of(deployment: Deployment) -> Settings:
    facts = {"data_dir": deployment.folder / "data", "policies_dir": deployment.policies}
    return Settings(**facts, redis_url=deployment.valkey.url, bind=deployment.authority)


async def key_of(deployment: Deployment) -> Ed25519PrivateKey:
    async with running_harness(settings_of(deployment)) as harness:
        return await registered(harness, "eu-1", "track")


async def stored(client: Client, private: Ed25519PrivateKey) -> Answer:
    return await client.harness.send(upload(client.harness, private, MAP))


async def test_an_edge_that_dies_in_an_upload_leaves_only_what_is_collected(
    tmp_path: Path, valkey: ValkeyServer
):
    """Before the file has its name or after, unanswered: it is sent again, and what no board names goes with the rest."""
    with deployed(tmp_path, valkey) as deployment:
        write_family(deployment.policies)
        private = await key_of(deployment)
        folder = tmp_path / "data" / "recordings"
        kept = ASSETS + kept_name(bytes.fromhex(digest_text(MAP)))
        async with client_of(deployment) as client:
            for how in ({"before": DIES_BEFORE_ITS_NAME}, {"failpoint": Point.AFTER_STORE}):
                edge = deployment.start("serve", **how)
                await deployment.is_answering()
                with pytest.raises(aiohttp.ClientError):
                    await stored(client, private)
                assert KILLED == await ended(edge)
        left = files(folder)
        assert (2, True) == (len(left), kept in left)
        assert 1 == sum(name.startswith(f"{INCOMING}/") for name in left)
        async with running_harness(settings_of(deployment)) as harness:
            again = await harness.send(upload(harness, private, MAP))
            assert (200, "true") == (again.status, again.headers["Idempotency-Replayed"])
            collector = Collector(harness.edge.ledger, harness.edge.recordings, grace_ms=-60_000)
            assert [2, 1] == [await collector.step() for _ in range(2)]
        assert ["clock"] == files(folder)


async def test_a_full_disk_refuses_an_upload_and_takes_it_later(tmp_path: Path, valkey: ValkeyServer):
    """Not a byte can be written: 503, nothing left; 201 once there is room."""
    with deployed(tmp_path, valkey) as deployment:
        write_family(deployment.policies)
        private = await key_of(deployment)
        edge = deployment.start("serve")
        await deployment.is_answering()
        async with client_of(deployment) as client:
            before = resource.prlimit(edge.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            refused = await stored(client, private)
            resource.prlimit(edge.pid, resource.RLIMIT_FSIZE, before)
            assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
            assert "1" == refused.headers["Retry-After"]
            assert [] == files(tmp_path / "data" / "recordings")
            assert 201 == (await stored(client, private)).status
        assert [ASSETS + kept_name(bytes.fromhex(digest_text(MAP)))] == files(
            tmp_path / "data" / "recordings"
        )
