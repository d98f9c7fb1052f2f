"""Assets over HTTP: game servers upload them by digest, players download them, and neither costs us more than bounds allow."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from redis.crc import key_slot
from scoregate_client import DamagedAsset, ScoregateClient, ScoregateError, ServerClient

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.seats import Seats
from gateway.edge.assets import asset_traffic
from gateway.edge.assets.download import _copy
from gateway.edge.http import body
from gateway.edge.problems import Problem
from gateway.index import keys
from gateway.index.connection import connect
from gateway.index.limits.charging import LocalLimiter
from gateway.recordings.recording_store import ASSETS, condemned_name, kept_name
from gateway.runtime.settings import Settings
from policies.errors import IndexUnavailable, RecordingLost
from policies.limits import Rate
from policies.opened_board import ASSET_BYTES
from tests.support.asset_files import MIB, OCTETS, a_map, digest_text, upload, upload_path
from tests.support.attack import registered, until
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.leaving import requests_that_stay
from tests.support.metrics import counts
from tests.support.policies import a_family, write_policies
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer

MAP = a_map(700_000)
"""Three parts of a download."""


class Studio:
    """A game server with a key for the family, and an edge."""

    def __init__(self, harness: Harness, private: Ed25519PrivateKey) -> None:
        self.harness = harness
        self.private = private

    async def store(self, content: bytes, **how: Any) -> Answer:
        return await self.harness.send(upload(self.harness, self.private, content, **how))

    async def operate(self, *boards: Any) -> list[dict[str, Any]]:
        path, body = "/v1/families/track/boards", {"operation": digest_text(repr(boards).encode())}
        body |= {"boards": list(boards)}
        answer = await self.harness.as_server(self.private, "eu-1", path, body)
        assert answer.status == 200, answer.raw
        return list(answer.body["results"])

    async def opened(self, name: str, content: bytes) -> str:
        """The path of the asset of a board that was just opened with it."""
        opening = {"action": "open", "board": f"track.{name}", "title": name}
        [result] = await self.operate(opening | {"asset": f"sha256:{digest_text(content)}"})
        assert result["status"] == "opened", result
        return str(result["board"]["asset_url"])

    async def served(self, content: bytes, name: str = "monza") -> str:
        """The path of a file that was stored and named by a board."""
        assert (await self.store(content)).status in {200, 201}
        return await self.opened(name, content)

    async def raw(self, connection: RawConnection, content: bytes, sent: bytes = b"", **how: Any) -> Answer:
        """The answer to an upload's head, which announces the whole, with no more of the body than `sent`."""
        await connection.send(self.head(content, **how) + sent)
        return await connection.answer()

    def head(self, content: bytes, **how: Any) -> bytes:
        request = upload(self.harness, self.private, content, **how)
        return as_bytes(request, self.harness.authority, body=b"", length=len(content))


@pytest.fixture
def own_settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", a_family(), a_family("level"))
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=folder,
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        recordings_url=f"file://{tmp_path}/recordings",
    )


@asynccontextmanager
async def studio_of(settings: Settings, **changes: Any) -> AsyncIterator[Studio]:
    async with running_harness(settings.model_copy(update=changes)) as harness:
        yield Studio(harness, await registered(harness, "eu-1", "track"))


@pytest.fixture
async def studio(own_settings: Settings) -> AsyncIterator[Studio]:
    async with studio_of(own_settings) as studio:
        yield studio


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


async def test_a_map_is_uploaded_named_by_a_board_and_downloaded(
    own_settings: Settings, place: str, monkeypatch: pytest.MonkeyPatch
):
    """By anyone, with headers under which it is kept for ever and does nothing; the ticket names it too."""
    async with studio_of(own_settings, recordings_url=place) as studio:
        harness, digest = studio.harness, digest_text(MAP)
        opening = {"action": "open", "board": "track.monza", "title": "M", "asset": f"sha256:{digest}"}
        [early] = await studio.operate(opening)
        assert early["problem"]["type"].endswith("/asset-missing")
        first, again = await studio.store(MAP), await studio.store(MAP)
        assert [(201, None), (200, "true")] == [
            (each.status, each.headers.get("Idempotency-Replayed")) for each in (first, again)
        ]
        expected = {"family": "track", "asset": f"sha256:{digest}", "asset_bytes": len(MAP)}
        assert expected == first.body == again.body

        [repeated] = await studio.operate(opening)
        assert early == repeated
        assert "under another operation id" in repeated["problem"]["detail"]
        url = await studio.opened("monza", MAP)
        assert f"/v1/boards/track.monza/assets/{digest}" == url
        described = (await harness.get("/v1/boards/track.monza")).body["opened"]
        run = (await harness.open_run(board="track.monza")).info
        for told in (described, run):
            assert (f"sha256:{digest}", url) == (told["asset"], told["asset_url"])
        answer = await harness.get(url)
        assert (200, MAP) == (answer.status, answer.raw)
        kept = {"Cache-Control": "public, max-age=31536000, immutable", "ETag": f'"{digest}"'}
        sent = kept | {
            "Content-Type": OCTETS,
            "Content-Length": str(len(MAP)),
            "Content-Disposition": f'attachment; filename="{digest}.bin"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Accept-Ranges": "none",
            "Content-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode()}:",
        }
        assert sent == {name: answer.headers[name] for name in sent}
        head = await harness.send(Request("HEAD", url, b""))
        assert (200, b"", sent) == (head.status, head.raw, {name: head.headers[name] for name in sent})
        monkeypatch.setattr(type(harness.edge.lag), "behind_s", lambda *_: 5.0)  # which no file ever is
        for known in (f'"{digest}"', "*", f'W/"{digest}", "other"'):
            unchanged = await harness.send(Request("GET", url, b"", {"If-None-Match": known}))
            assert (304, b"", kept) == (
                unchanged.status,
                unchanged.raw,
                {n: unchanged.headers[n] for n in kept},
            )


async def test_only_the_asset_of_a_board_that_is_not_deleted_is_read(studio: Studio):
    """Not what another board names, what nobody names, a recording, or the former asset of a name."""
    harness, other = studio.harness, a_map(1_000, 2)
    url = await studio.served(MAP)
    await studio.served(other, "spa")
    assert 201 == (await studio.store(a_map(500))).status
    board = "/v1/boards/track.monza/assets/"
    refused = [
        board + digest_text(other),
        board + digest_text(a_map(500)),
        board + "0" * 64,
        board + digest_text(MAP).upper(),
        board + "sha256:" + digest_text(MAP),
        "/v1/boards/track.imola/assets/" + digest_text(MAP),
    ]
    assert [(404, "not-found")] * 6 == [said(await harness.get(path)) for path in refused]
    await studio.operate({"action": "close", "board": "track.monza"})
    assert 200 == (await harness.get(url)).status
    await studio.operate({"action": "delete", "board": "track.monza", "reason": "over"})
    assert (404, "not-found") == said(await harness.get(url))


async def test_no_board_shows_a_recording(own_settings: Settings, place: str):
    """A server that knows the digest of a player's recording can neither open a board with it nor learn that it is there."""
    async with studio_of(own_settings, recordings_url=place) as studio:
        private = a_map(20_000, 3)
        await studio.harness.edge.recordings.store(bytes.fromhex(digest_text(private)), private)
        named = {"board": "track.spy", "title": "Spy", "asset": f"sha256:{digest_text(private)}"}
        [refused] = await studio.operate({"action": "open"} | named)
        assert refused["problem"]["type"].endswith("/asset-missing")
        path = f"/v1/boards/track.spy/assets/{digest_text(private)}"
        assert (404, "not-found") == said(await studio.harness.get(path))
        assert 201 == (await studio.store(private)).status


async def test_an_upload_is_refused_before_its_body_is_read(studio: Studio, tmp_path: Path):
    """A wrong or foreign key, another digest, a type, a size, or a disk nearly full: answered without a byte of 8 MiB."""
    content, stranger = bytes(ASSET_BYTES), Ed25519PrivateKey.generate()
    digest = digest_text(content)
    foreign = f"/v1/families/level/assets/{digest}"
    other = f"/v1/families/track/assets/{'0' * 64}"
    cases: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"tag": "scoregate-run"}, (401, "signature-invalid")),
        ({"keyid": "nobody"}, (401, "signature-invalid")),
        ({"created": 0, "expires": 60}, (401, "signature-expired")),
        ({"path": foreign}, (403, "scope-forbidden")),
        ({"path": f"/v1/families/none/assets/{digest}"}, (404, "not-found")),
        ({"path": f"/v1/families/track/assets/{digest[1:]}"}, (404, "not-found")),
        ({"path": other}, (422, "asset-mismatch")),
        ({"content_type": "application/json"}, (415, "unsupported-media-type")),
        ({"content_type": "text/html"}, (415, "unsupported-media-type")),
    ]
    for how, expected in cases:
        async with RawConnection(studio.harness.authority) as connection:
            assert expected == said(await studio.raw(connection, content, **how)), how
    async with RawConnection(studio.harness.authority) as connection:
        large = bytes(ASSET_BYTES + 1)
        assert (413, "payload-too-large") == said(await studio.raw(connection, large))
    honest, studio.private = studio.private, stranger
    async with RawConnection(studio.harness.authority) as connection:
        assert (401, "signature-invalid") == said(await studio.raw(connection, content))
    studio.private = honest
    unsigned = Request("PUT", upload_path(content), b"", {"Content-Type": OCTETS})
    async with RawConnection(studio.harness.authority) as connection:
        await connection.send(as_bytes(unsigned, studio.harness.authority, length=ASSET_BYTES))
        assert (401, "signature-missing") == said(await connection.answer())
    assert not (tmp_path / "recordings").exists()


async def test_below_the_floor_of_free_disk_only_small_files_are_stored(
    own_settings: Settings, tmp_path: Path
):
    """A large one is refused before its body, with a time to come back; what is announced by no length counts as large."""
    async with studio_of(own_settings, disk_floor_mib=1_073_741_824) as studio:
        async with RawConnection(studio.harness.authority) as connection:
            refused = await studio.raw(connection, MAP)
        assert (503, "temporary-reduced-capacity") == said(refused)
        assert "60" == refused.headers["Retry-After"]
        assert 503 == (await chunked(studio, b"a small map", b"a small map")).status
        assert [] == files(tmp_path / "recordings")
        assert 201 == (await studio.store(b"a small map")).status


async def chunked(studio: Studio, named: bytes, *chunks: bytes) -> Answer:
    """The answer to an upload without a length, signed for `named`."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    request = upload(studio.harness, studio.private, named)
    async with studio.harness.session.put(
        studio.harness.url + request.path, data=body(), headers=request.headers
    ) as response:
        return Answer(response.status, response.headers, await response.read())


async def test_what_is_not_the_announced_file_leaves_nothing(studio: Studio, tmp_path: Path):
    """Other bytes, none, too many without a length, an encoding, a broken connection: refused, and the disk is as it was."""
    harness = studio.harness
    signed = upload(harness, studio.private, MAP)
    answers = [
        await harness.send(replace(signed, body=MAP[:-1] + b"x")),
        await harness.send(replace(signed, body=MAP[:-1])),
        await studio.store(b""),
        await chunked(studio, MAP, MAP, b"more"),
        await chunked(studio, MAP, *[bytes(MIB)] * 9),
        await harness.send(replace(signed, headers=signed.headers | {"Content-Encoding": "gzip"})),
    ]
    assert [
        (422, "asset-mismatch"),
        (422, "asset-mismatch"),
        (422, "schema-violation"),
        (422, "asset-mismatch"),
        (413, "payload-too-large"),
        (415, "content-encoding-not-allowed"),
    ] == [said(answer) for answer in answers]
    async with RawConnection(harness.authority) as connection:
        await connection.send(studio.head(MAP) + MAP[:1000])
        await until(lambda: uploading(studio, 1))
        connection.reset()
    await until(lambda: uploading(studio, 0))
    assert [] == files(tmp_path / "recordings")
    assert 201 == (await chunked(studio, MAP, MAP[:5], MAP[5:])).status
    assert [ASSETS + kept_name(hashlib.sha256(MAP).digest())] == files(tmp_path / "recordings")


async def uploading(studio: Studio, count: int) -> bool:
    return studio.harness.edge.asset_traffic.uploads == count


async def test_slow_uploads_hold_few_places_for_a_short_time(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """No more than allowed are read at once, and one that does not come in time gives its place back."""
    monkeypatch.setattr(asset_traffic, "UPLOADS", 1)
    async with studio_of(own_settings, body_timeout_s=1.0) as studio:
        async with RawConnection(studio.harness.authority) as slow:
            await slow.send(studio.head(MAP) + MAP[:1000])
            await until(lambda: uploading(studio, 1))
            refused = await studio.store(b"another map")
            assert (503, "temporary-reduced-capacity", "1") == (
                *said(refused),
                refused.headers["Retry-After"],
            )
            assert (408, "request-timeout") == said(await slow.answer())
        assert 201 == (await studio.store(b"another map")).status


async def test_a_large_file_may_arrive_slowly(own_settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """All that has arrived gives time to the rest, however little of it came last."""
    monkeypatch.setattr(body, "SLOWEST_BYTES_S", 10_000)
    async with studio_of(own_settings, body_timeout_s=0.2) as studio:
        async with RawConnection(studio.harness.authority) as slow:
            await slow.send(studio.head(MAP) + MAP[:-2])
            await until(lambda: uploading(studio, 1))
            for at in (-2, -1):
                await asyncio.sleep(0.3)
                await slow.send(MAP[at : at + 1 or None])
            assert 201 == (await slow.answer()).status


async def test_slow_uploads_of_one_key_leave_places_to_others(studio: Studio):
    """Its next upload waits, another key's is stored at once; whatever ends gives its place back and leaves nothing."""
    traffic, other = studio.harness.edge.asset_traffic, await registered(studio.harness, "us-1", "track")
    async with RawConnection(studio.harness.authority) as one, RawConnection(studio.harness.authority) as two:
        for connection in (one, two):
            await connection.send(studio.head(MAP) + MAP[:1000])
        await until(lambda: uploading(studio, 2))
        refused = await studio.store(b"another map")
        assert (429, "quota-exceeded", "1") == (*said(refused), refused.headers["Retry-After"])
        foreign = upload(studio.harness, other, b"another map", keyid="us-1")
        assert 201 == (await studio.harness.send(foreign)).status
        one.reset()
        await until(lambda: uploading(studio, 1))
        assert 200 == (await studio.store(b"another map")).status
    await until(lambda: uploading(studio, 0))
    assert {} == traffic._uploads


async def test_an_upload_takes_no_room_from_bodies_that_arrive(studio: Studio):
    """The places for uploads bound them, so that none is charged and then refused for another one's bytes."""
    arriving = studio.harness.edge.arriving
    arriving._limit_bytes = 0
    async with RawConnection(studio.harness.authority) as slow:
        await slow.send(studio.head(MAP) + MAP[:-1])
        await until(lambda: uploading(studio, 1))
        await slow.send(MAP[-1:])
        assert (201, 0) == ((await slow.answer()).status, arriving.total_bytes)


async def test_a_reader_that_leaves_takes_its_download_along(studio: Studio):
    """Its request and the part that it was sent do not wait for the collector of cycles."""
    url = await studio.served(a_map(ASSET_BYTES))
    head = as_bytes(Request("GET", url, b""), studio.harness.authority)

    async def downloads(count: int) -> bool:
        return studio.harness.edge.asset_traffic.downloads == count

    async def leave() -> None:
        async with RawConnection(studio.harness.authority) as reader:
            await reader.send(head)
            assert b"HTTP/1.1 200 OK\r\n" == await reader.line()
            reader.reset()
        await until(lambda: downloads(0))

    assert await requests_that_stay(leave) <= 1


async def test_a_key_uploads_and_an_address_downloads_only_so_many_bytes(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    """With Redis and without it; a copy that the reader has and a repetition of a refusal cost nothing.

    A refusal names the limit that has no room.
    """
    url = await studio.served(MAP)
    slow = Rate(per_minute=1, burst=700)
    monkeypatch.setattr(asset_traffic, "UPLOAD_KIB", slow)
    monkeypatch.setattr(asset_traffic, "DOWNLOAD_KIB", slow)
    for is_redis_there in (True, False):
        client = studio.harness.edge.index.client
        await client.flushall()
        if not is_redis_there:
            monkeypatch.setattr(studio.harness.edge.asset_traffic._limit._charges, "_script", away)
        assert [200, 429] == [(await studio.store(MAP)).status for _ in range(2)]
        async with RawConnection(studio.harness.authority) as connection:
            refused = await studio.raw(connection, MAP)
        assert (429, "quota-exceeded") == said(refused)
        assert '"upload-bytes";q=716800;qu="content-bytes";w=42000' == refused.headers["RateLimit-Policy"]
        assert 0 < int(refused.headers["Retry-After"])
        read = studio.harness.get
        assert [200, 429, 429] == [(await read(url)).status for _ in range(3)]
        limit = '"address-download-bytes";q=716800;qu="content-bytes";w=42000'
        assert limit == (await read(url)).headers["RateLimit-Policy"]
        await client.flushall()
        studio.harness.edge.asset_traffic._limit._charges._local = LocalLimiter()
        with monkeypatch.context() as fewer:
            fewer.setattr(asset_traffic, "DOWNLOAD_RATE", Rate(per_minute=1, burst=3))
            heads = [await studio.harness.send(Request("HEAD", url, b"")) for _ in range(4)]
        assert [200, 200, 200, 429] == [head.status for head in heads]
        assert '"address-downloads";q=3;w=180' == heads[3].headers["RateLimit-Policy"]
        known = await studio.harness.send(Request("GET", url, b"", {"If-None-Match": "*"}))
        assert 304 == known.status
    assert key_slot(keys.downloads("n", "a").encode()) == key_slot(keys.downloads("n", "").encode())


async def test_a_network_downloads_as_much_as_several_of_its_addresses(valkey: ValkeyServer):
    """Players behind one provider do not share the quota of one, and no network takes all."""
    client = connect(valkey.url, timeout_ms=5_000)
    traffic, whole = asset_traffic.AssetTraffic(client), asset_traffic.DOWNLOAD_KIB.burst * 1024
    for number in range(3):
        await traffic.charge_download(ClientName(f"a{number}", "n"), whole)
    with pytest.raises(Problem, match="used up"):
        await traffic.charge_download(ClientName("another", "n"), whole)
    await traffic.charge_download(ClientName("another", "m"), whole)
    await client.aclose()


async def away(*_: Any) -> Any:
    raise IndexUnavailable("away")


async def test_readers_hold_few_places(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """So many from an address, and so many in all; each place is given back."""
    url, traffic = await studio.served(MAP), studio.harness.edge.asset_traffic
    monkeypatch.setattr(traffic, "_seats", Seats(1, 1))
    part = studio.harness.edge.recordings.assets.part
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stalled(*asked: Any) -> bytes | None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        return part(*asked)

    monkeypatch.setattr(studio.harness.edge.recordings.assets, "part", stalled)
    reading = asyncio.create_task(studio.harness.get(url))
    await begun.wait()
    assert (429, "quota-exceeded") == said(await studio.harness.get(url))
    monkeypatch.setattr(asset_traffic, "DOWNLOADS", 1)
    assert (503, "temporary-reduced-capacity") == said(await studio.harness.get(url))
    go_on.set()
    assert MAP == (await reading).raw
    assert (0, 0) == (traffic.downloads, len(traffic._seats))
    assert MAP == (await studio.harness.get(url)).raw


async def test_who_does_not_read_is_cut_off(own_settings: Settings):
    """After the time for an answer, which begins with each part; the place is free again."""
    content = a_map(ASSET_BYTES)
    async with studio_of(own_settings, write_timeout_s=0.5) as studio:
        url, traffic = await studio.served(content), studio.harness.edge.asset_traffic
        async with RawConnection(studio.harness.authority) as connection:
            await connection.send(f"GET {url} HTTP/1.1\r\nHost: {studio.harness.authority}\r\n\r\n".encode())

            async def downloading(count: int) -> bool:
                return traffic.downloads == count

            await until(lambda: downloading(1))
            await until(lambda: downloading(0))
        assert content == (await studio.harness.get(url)).raw


async def test_a_reader_who_has_left_is_told_of_no_damage():
    """The connection is gone, so there is none to cut, and it is no fault of ours."""
    sent: list[bytes] = []

    async def prepared(_request: Any) -> None:
        return None

    async def written(part: bytes) -> None:
        sent.append(part)

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"the first"
        raise RecordingLost("altered")

    request: Any = SimpleNamespace(method="GET", transport=None)
    response: Any = SimpleNamespace(prepare=prepared, write=written)
    await _copy(request, response, parts())
    assert [b"the first"] == sent


async def test_a_damaged_file_is_never_whole_to_a_reader(studio: Studio, tmp_path: Path):
    """Altered at its begin, its end or its length: not found, or cut off before its end; and again once it is stored anew."""
    url, small_url = await studio.served(MAP), await studio.served(b"a small map", "spa")
    folder = tmp_path / "recordings" / ASSETS
    path = folder / kept_name(hashlib.sha256(MAP).digest())
    for damaged in (MAP[:-1] + bytes([MAP[-1] ^ 1]), bytes([MAP[0] ^ 1]) + MAP[1:], MAP + b"more", MAP[:-5]):
        path.write_bytes(damaged)
        with counts(1, "scoregate_recording_faults_total", fault="altered"):
            with pytest.raises(aiohttp.ClientPayloadError):
                await studio.harness.get(url)
    path.unlink()
    assert (404, "not-found") == said(await studio.harness.get(url))
    (folder / kept_name(hashlib.sha256(b"a small map").digest())).write_bytes(b"a sm\0ll map")
    assert (404, "not-found") == said(await studio.harness.get(small_url))
    assert [201, 201] == [(await studio.store(each)).status for each in (MAP, b"a small map")]
    assert [MAP, b"a small map"] == [(await studio.harness.get(each)).raw for each in (url, small_url)]
    (folder / condemned_name(b"x")).parent.mkdir()
    path.rename(folder / condemned_name(hashlib.sha256(MAP).digest()))
    assert MAP == (await studio.harness.get(url)).raw


async def test_the_clients_store_and_download_a_map(studio: Studio, tmp_path: Path):
    """The Python client signs the upload for any clock, compares what it downloads, and tells a damaged file."""
    url, session = studio.harness.url, studio.harness.session
    late = {"session": session, "clock": lambda: 0.0, "attempts": 1}
    server = ServerClient(url, "eu-1", studio.private, **late)
    digest = await server.store_asset("track", MAP)
    assert f"sha256:{digest_text(MAP)}" == digest == await server.store_asset("track", MAP)
    [outcome] = await server.open_boards(
        "track", "op", [{"board": "track.monza", "title": "M", "asset": digest}]
    )
    assert outcome.board is not None
    path = upload_path(MAP).rpartition("/")[2]
    assert f"/v1/boards/track.monza/assets/{path}" == outcome.board.asset_url
    client = ScoregateClient(url, session=session, attempts=1)
    assert MAP == await client.asset("track.monza", digest)
    with pytest.raises(ScoregateError, match="not-found"):
        await client.asset("track.spa", digest)
    (tmp_path / "recordings" / ASSETS / kept_name(hashlib.sha256(MAP).digest())).write_bytes(MAP[:-1] + b"?")
    with pytest.raises(ScoregateError, match="not completed"):
        await client.asset("track.monza", digest)


async def test_the_python_client_comes_again_for_a_map_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch):
    """After a 503 and a damaged file alike; not if the gateway wants it to wait for long."""
    pauses: list[float] = []

    async def note(_: object, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("scoregate_client.running.AsyncioRunner.sleep", note)
    answers = iter(["7", b"damaged", "soon", MAP, "61"])

    async def answer(_: web.Request) -> web.Response:
        told = next(answers)
        if isinstance(told, bytes):
            return web.Response(body=told)
        return web.Response(status=503, headers={"Retry-After": told})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(app) as gateway,
        ScoregateClient(str(gateway.make_url("")), jitter=lambda: 1.0) as client,
    ):
        assert MAP == await client.asset("track.monza", f"sha256:{digest_text(MAP)}")
        assert [7, 1, 2] == pauses
        with pytest.raises(ScoregateError) as refused:
            await client.asset("track.monza", f"sha256:{digest_text(MAP)}")
    assert (503, 61, 3) == (refused.value.status, refused.value.retry_after_s, len(pauses))


async def test_an_upload_of_the_python_client_may_take_longer_than_its_other_requests():
    """Whatever the session allows for a request."""

    async def stored(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(0.2)
        return web.json_response({"asset": request.path})

    app = web.Application()
    app.router.add_put("/{path:.*}", stored)
    short, private = aiohttp.ClientTimeout(total=0.1), Ed25519PrivateKey.generate()
    async with TestServer(app) as gateway, aiohttp.ClientSession(timeout=short) as session:
        server = ServerClient(str(gateway.make_url("")), "eu-1", private, session=session, attempts=1)
        assert upload_path(MAP) == await server.store_asset("track", MAP)


@pytest.mark.parametrize(
    ("content", "why"), [(b"not the map", "its digest"), (bytes(ASSET_BYTES + 1), "more than 8388608 bytes")]
)
async def test_the_python_client_takes_no_other_file(content: bytes, why: str):
    """Whoever stands between may send what they like: it is read up to a bound, and refused."""

    async def lie(_: web.Request) -> web.Response:
        return web.Response(body=content)

    app = web.Application()
    app.router.add_get("/{path:.*}", lie)
    async with TestServer(app) as gateway, ScoregateClient(str(gateway.make_url("")), attempts=1) as client:
        with pytest.raises(DamagedAsset, match=why):
            await client.asset("track.monza", f"sha256:{digest_text(MAP)}")
