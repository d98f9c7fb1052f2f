"""Whatever a reader puts into the query and the headers of a read: an answer or a refusal, and never a failure of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as properties
from hypothesis import strategies as st

from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.routes import ROUTES
from gateway.runtime.settings import Settings
from tests.gateway.edge.test_cursors import changed
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.harness import Harness, free_port
from tests.support.logins import admin
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.thorough import examples
from tests.support.valkey import ValkeyServer

FIELDS: Final = (
    "Last-Event-ID",
    "If-None-Match",
    "Authorization",
    "X-Forwarded-For",
    "Sec-WebSocket-Protocol",
    "Origin",
)
TELLING: Final = [
    "daily:00010101", "season:999912312359", "monthly:999912", "weekly:2026W54", "alltime:", "daily:", ":",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1969-01-01T00:00:00Z", "99999999999999999999-0",
    "0-0", "-1", "1e9", "9" * 15, "0" * 400, "p1,p2", "club:", "\x00", "é", "\udc80", "999999999999999.daily:0W",
    "alltime~track.a", "daily:00010101~track.a", "track.a,vault,,",
    "-", "true", "sparse", "50,", "1,2,1", 'W/"x", *', '"', "Bearer a.b.c", "Bearer \u00ff", "::1, 999.1.1.1", "scoregate.v1",
]  # fmt: skip
ROWS: Final = [route for route in ROUTES if route.method == "GET"]
LISTS: Final = [route.path for route in ROWS if "limit" in route.query]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    kinds = ["alltime", "daily", "weekly", "monthly", "season"]
    vault = a_policy(
        "vault",
        writes="trusted",
        windows=kinds,
        season="0 0 29 2 *",
        time_zone="Europe/Berlin",
        segments=["club"],
    )
    track = a_family(writes="trusted", windows=kinds, season="0 0 29 2 *", metadata_filters={"land": "text"})
    folder = write_policies(tmp_path / "policies", vault, track)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


def values() -> st.SearchStrategy[str]:
    """Telling values, and any texts."""
    return st.one_of(st.sampled_from(TELLING), st.text(max_size=40), st.integers().map(str))


@st.composite
def reads(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """A target of some GET route, with junk in its query, and junk in some headers."""
    route = draw(st.sampled_from(ROWS))
    named = [*route.query, "nothing"] if draw(st.integers(0, 9)) == 0 else list(route.query)
    chosen = draw(st.lists(st.sampled_from(named), unique=True, max_size=3)) if named else []
    chosen = [name.replace("{field}", "land") for name in chosen]
    query = "&".join(f"{name}={quote(draw(values()), safe='', errors='surrogateescape')}" for name in chosen)
    path = (
        route.path.replace("{family}", "track")
        .replace("{board}", "vault")
        .replace("{player}", "p1")
        .replace("{submission}", "nothing")
    )
    fields = draw(st.dictionaries(st.sampled_from(FIELDS), values(), max_size=2))
    return f"{path}?{query}".removesuffix("?"), fields


async def status_of(harness: Harness, target: str, fields: Mapping[str, str]) -> int:
    """The status that these bytes get; 0 if the connection is closed upon them."""
    lines = [f"GET {target} HTTP/1.1", f"Host: {harness.authority}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    raw = "\r\n".join(lines).encode("utf-8", "surrogateescape" if "\udc80" in str(fields) else "replace")
    host, _, port = harness.authority.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(raw + b"\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 20)
    finally:
        writer.close()
    return int(line.split()[1]) if line else 0


async def test_F02_no_junk_in_a_read_is_a_failure_of_ours(harness: Harness):
    """Every parameter and header of every GET route, by whatever token: no 5xx but 503."""
    await filled(harness, 3)
    now_s = harness.clock() // 1000
    player = harness.edge.tokens.mint(Bearer("p1", Role.PLAYER, now_s + 3600), now_s=now_s)
    tokens = [None, f"Bearer {player}", f"Bearer {harness.moderator()}"]
    loop = asyncio.get_running_loop()

    @properties(
        max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(reads(), st.sampled_from(tokens))
    def look(read: tuple[str, dict[str, str]], token: str | None) -> None:
        target, fields = read
        fields = {name: value.replace("\r", "").replace("\n", "") for name, value in fields.items()}
        if token:
            fields["Authorization"] = token
        asked = asyncio.run_coroutine_threadsafe(status_of(harness, target, fields), loop)
        status = asked.result(30)
        assert status < 500 or status == 503, (target, fields)

    await asyncio.to_thread(look)


async def test_F02_a_cursor_that_we_did_not_give_is_refused(harness: Harness):
    """Another byte, anywhere, or another length: 422 each; the one that was given goes on."""
    await filled(harness, 5)
    given_one = (await harness.get(f"{VAULT}/entries?limit=2")).body["next"]
    cursors = [changed(given_one, at) for at in (0, 15, 16, 40, 70, -1)]
    cursors += [
        given_one[:-1] + ("A" if given_one[-1] != "A" else "B"),
        given_one + "A",
        "",
        "é",
        given_one[:20],
    ]
    found = [await harness.get(f"{VAULT}/entries?limit=2&cursor={quote(each)}") for each in cursors]
    assert [(422, "schema-violation")] * len(cursors) == [(each.status, each.problem) for each in found]
    assert 200 == (await harness.get(f"{VAULT}/entries?limit=2&cursor={given_one}")).status


async def test_a_page_of_any_list_has_one_row_at_least_and_a_hundred_at_most(harness: Harness):
    """Both ends can be asked for, and what is beyond them is refused with the range; a file has more rows."""
    decision = {"operation": "o-1", "action": "reject", "code": "other", "note": "n"}
    selected = decision | {"selection": {"board": "vault"}}
    made = await harness.post("/v1/moderation/batches", selected, admin(harness))
    names = {"family": "track", "board": "vault", "player": "p1", "batch": made.body["batch"]}
    for path in LISTS:
        most, told = 1_000 if path.endswith(".csv") else 100, list[str]()
        for limit in (0, 1, most, most + 1):
            answer = await harness.get(f"{path.format_map(names)}?limit={limit}", admin(harness))
            told.append(answer.body["detail"] if answer.problem else "")
        refusal = f"limit: expected a whole number from 1 to {most}"
        assert (path, [refusal, "", "", refusal]) == (path, told)
    assert len(LISTS) > 10
