"""Pages that do not change: sent small to those who unpack them, and once to those who keep them."""

from __future__ import annotations

import gzip

import pytest
from aiohttp import ClientSession
from multidict import CIMultiDictProxy

from gateway.edge.docs.stored_page import StoredPage
from tests.support.harness import Harness

PATHS = ("/openapi.json", "/docs/settings", "/docs/reference.css", "/arcade/", "/arcade/arcade.wasm")


async def answer_to(
    harness: Harness, path: str, method: str = "GET", **headers: str
) -> tuple[int, CIMultiDictProxy[str], bytes]:
    """Status, fields and bytes as they were sent."""
    async with ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as session:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with session.request(method, harness.url + path, headers=fields) as answer:
            return answer.status, answer.headers, await answer.read()


@pytest.mark.parametrize("path", PATHS)
async def test_who_takes_gzip_gets_less_of_the_same(harness: Harness, path: str):
    """The forms are told apart by their tags, and a cache is told by what."""
    _, plain, body = await answer_to(harness, path)
    _, packed, small = await answer_to(harness, path, Accept_Encoding="gzip, deflate, br")
    assert ("gzip", None) == (packed["Content-Encoding"], plain.get("Content-Encoding"))
    assert body == gzip.decompress(small)
    assert len(small) < len(body)
    assert plain["ETag"] != packed["ETag"]
    assert ["Accept-Encoding"] * 2 == [fields["Vary"] for fields in (plain, packed)]
    assert plain["Content-Type"] == packed["Content-Type"]


async def test_the_description_is_a_tenth_of_its_size_in_gzip(harness: Harness):
    _, _, body = await answer_to(harness, "/openapi.json")
    _, _, small = await answer_to(harness, "/openapi.json", Accept_Encoding="gzip")
    assert len(small) < len(body) / 10


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("path", PATHS)
async def test_who_has_a_page_is_not_sent_it_again(harness: Harness, path: str, coding: str):
    """A 304 for the form that they have, also among others and for `*`; the page for the tag of the other form."""
    other = "" if coding else "gzip"
    _, fields, body = await answer_to(harness, path, Accept_Encoding=coding)
    tag = fields["ETag"]
    for has in (tag, f'"another", {tag}', f"W/{tag}", "*"):
        status, again, nothing = await answer_to(harness, path, Accept_Encoding=coding, If_None_Match=has)
        assert (304, tag, b"") == (status, again["ETag"], nothing), has
        assert ("Accept-Encoding", "no-cache") == (again["Vary"], again["Cache-Control"])
        assert "Content-Encoding" not in again
    status, _, sent = await answer_to(harness, path, Accept_Encoding=coding, If_None_Match='"another"')
    assert (200, body) == (status, sent)
    assert 200 == (await answer_to(harness, path, Accept_Encoding=other, If_None_Match=tag))[0]


async def test_a_head_says_the_size_of_the_form_that_would_be_sent(harness: Harness):
    _, plain, body = await answer_to(harness, "/docs/settings")
    _, packed, small = await answer_to(harness, "/docs/settings", Accept_Encoding="gzip")
    for coding, size, form in (("", len(body), plain), ("gzip", len(small), packed)):
        status, head, nothing = await answer_to(harness, "/docs/settings", "HEAD", Accept_Encoding=coding)
        assert (200, str(size), b"") == (status, head["Content-Length"], nothing)
        assert form["ETag"] == head["ETag"]


@pytest.mark.parametrize(
    "accepted",
    ["gzip", "GZIP", "br, gzip", "gzip;q=0.1", "gzip ; q=1", "deflate;q=0.5,gzip;q=1.000", "*", "*;q=0.2", "br;q=0, *"],
)  # fmt: skip
async def test_gzip_is_taken(harness: Harness, accepted: str):
    _, fields, _ = await answer_to(harness, "/docs/settings", Accept_Encoding=accepted)
    assert "gzip" == fields["Content-Encoding"]


@pytest.mark.parametrize(
    "accepted",
    ["", "identity", "br", "gzip;q=0", "gzip; q=0.000", "*;q=0", "*, gzip;q=0", "xgzip", "gzip-1", "gzip;level=9"],
)  # fmt: skip
async def test_gzip_is_not_taken(harness: Harness, accepted: str):
    _, fields, _ = await answer_to(harness, "/docs/settings", Accept_Encoding=accepted)
    assert "Content-Encoding" not in fields


async def test_what_is_filled_in_for_each_reader_is_sent_whole(harness: Harness):
    """The overview shows the host that was asked: no tag says that it is the page that another was sent."""
    for path in ("/docs", "/"):
        status, fields, _ = await answer_to(harness, path, Accept_Encoding="gzip", If_None_Match="*")
        assert 200 == status
        assert not {"ETag", "Content-Encoding", "Vary"} & set(fields), path


def test_what_gzip_does_not_make_smaller_has_one_form():
    page = StoredPage(b"short", {"Content-Type": "text/plain"})
    assert ["identity"] == list(page.forms)


def test_pages_of_one_content_have_one_tag_in_every_process():
    """Whichever edge answers: the tag follows from the bytes alone, and other bytes have another."""
    one, same, other = (StoredPage(body * 400, {}).forms for body in (b"a page ", b"a page ", b"A page "))
    assert one == same
    assert not {tag for _, tag in one.values()} & {tag for _, tag in other.values()}
