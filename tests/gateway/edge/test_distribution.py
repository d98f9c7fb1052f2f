"""Percentiles, gaps and histograms over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.index import keys
from gateway.runtime.settings import Settings
from tests.support.attack import as_server, registered
from tests.support.harness import Harness, free_port
from tests.support.policies import EXACT_LIMIT, a_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORES = [10, 40, 40, 40, 55, 70, 70, 99]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    wide = {"minimum": -EXACT_LIMIT, "maximum": EXACT_LIMIT}
    boards = (
        a_policy("vault", writes="trusted", windows=["alltime", "daily"], score=wide),
        a_policy("dash", writes="trusted", order="ascending"),
    )
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def fill(harness: Harness, *boards: str, scores: Any = SCORES) -> Any:
    """A key, with which the boards were filled."""
    key = await registered(harness)
    for board in boards or ("vault",):
        for number, score in enumerate(scores):
            entry = {"operation": f"{board}-{number}", "player": f"p{number}", "score": score}
            assert 202 == (await as_server(harness, key, entry, board=board)).status
    return key


async def source(harness: Harness, *, is_ledger: bool) -> None:
    """Has the index be whole, so that readers are answered from it, or not; and sees that they are."""
    await harness.steward().reconcile()
    if is_ledger:
        await harness.edge.index.client.delete(*map(keys.sentinel, harness.edge.catalogue.of_files))
    for path in ("vault/entries/p0", "vault/percentiles", "vault/distribution"):
        headers = (await harness.get(f"/v1/boards/{path}")).headers
        assert is_ledger == ("Scoregate-Source" in headers), path


async def read(harness: Harness, path: str) -> Any:
    answer = await harness.get(f"/v1/boards/{path}")
    assert 200 == answer.status, answer.raw
    return answer.body


async def percentiles(harness: Harness, board: str, at: str) -> list[tuple[float, int]]:
    shown = await read(harness, f"{board}/percentiles?at={at}")
    return [(each["at"], each["score"]) for each in shown["percentiles"]]


async def histogram(harness: Harness, query: str) -> list[tuple[Any, Any, int]]:
    shown = await read(harness, f"vault/distribution?{query}")
    assert len(SCORES) == shown["total"] == sum(each["count"] for each in shown["bins"])
    return [(each["least"], each["most"], each["count"]) for each in shown["bins"]]


@pytest.mark.parametrize("is_ledger", [False, True], ids=["index", "ledger"])
async def test_an_entry_says_where_it_is_among_all(harness: Harness, is_ledger: bool):
    """Its percentile is the share that is not better, its gap leads to the next better score, past those that are tied."""
    await fill(harness, "vault", "dash")
    await source(harness, is_ledger=is_ledger)
    shown = [await read(harness, f"vault/entries/p{at}") for at in range(len(SCORES))]
    assert [12.5, 50.0, 50.0, 50.0, 62.5, 87.5, 87.5, 100.0] == [each["percentile"] for each in shown]
    assert [30, 15, 15, 15, 15, 29, 29, None] == [each["gap"] for each in shown]
    assert [8] * 8 == [each["total"] for each in shown]
    shown = [await read(harness, f"dash/entries/p{at}") for at in range(len(SCORES))]
    assert [100.0, 87.5, 87.5, 87.5, 50.0, 37.5, 37.5, 12.5] == [each["percentile"] for each in shown]
    assert [None, 30, 30, 30, 15, 15, 15, 29] == [each["gap"] for each in shown]


@pytest.mark.parametrize("is_ledger", [False, True], ids=["index", "ledger"])
async def test_scores_at_percentiles_are_numpys(harness: Harness, is_ledger: bool):
    """By nearest rank; the best score is at 100, also where less is better. From SQL while Redis is away."""
    await fill(harness, "vault", "dash")
    await source(harness, is_ledger=is_ledger)
    asked = [0, 12.5, 12.51, 50, 62.5, 99, 100]
    due = np.percentile(SCORES, asked, method="inverted_cdf").tolist()
    at = ",".join(map(str, asked))
    assert list(zip(asked, due, strict=True)) == await percentiles(harness, "vault", at)
    due = np.percentile([-each for each in SCORES], asked, method="inverted_cdf")
    assert list(zip(asked, (-due).tolist(), strict=True)) == await percentiles(harness, "dash", at)


async def test_a_histogram_counts_everybody_once(harness: Harness):
    """Bins of equal width over the scores that there are, or between edges, with all that is beyond them."""
    await fill(harness)
    assert [(10, 39, 1), (40, 69, 4), (70, 99, 3)] == await histogram(harness, "bins=3")
    assert [(10, 99, 8)] == await histogram(harness, "bins=1")
    assert 90 == len(await histogram(harness, "bins=100")), "no bin is narrower than a point"
    due = [(None, 39, 1), (40, 69, 4), (70, 98, 2), (99, None, 1)]
    assert due == await histogram(harness, "edges=40,70,99")
    assert [(None, -6, 0), (-5, None, 8)] == await histogram(harness, "edges=-5")
    counts, edges = np.histogram(SCORES, bins=[10, 15, 20, 60, 200])
    shown = await histogram(harness, "edges=" + ",".join(map(str, edges)))
    assert counts.tolist() == [count for *_, count in shown[1:-1]]


async def test_an_archived_window_says_the_same(harness: Harness):
    """What was told of a day before its end is told of it from the archive, with the revision, and without Redis."""
    await fill(harness)
    await source(harness, is_ledger=False)
    day = (await read(harness, "vault/percentiles?window=daily"))["window"]
    paths = [f"percentiles?window={day}&at=0,12.5,50,51,100", f"distribution?window={day}&bins=3"]
    paths += [
        f"distribution?window={day}&edges=40,70",
        f"entries/p4?window={day}",
        f"entries/p7?window={day}",
    ]
    before = [await read(harness, f"vault/{path}") for path in paths]
    harness.clock.shift(86_400 + 600)
    steward = harness.steward()
    while await steward.archive():
        pass
    await harness.edge.index.client.flushall()
    after = [await harness.get(f"/v1/boards/vault/{path}") for path in paths]
    assert before == [each.body for each in after]
    assert {"1"} == {each.headers["Scoregate-Revision"] for each in after}


async def test_the_ends_of_what_is_exact_are_counted(harness: Harness):
    """The largest scores that there are make bins like any others, to the last point."""
    await fill(harness, scores=[-EXACT_LIMIT, 0, EXACT_LIMIT])
    shown = (await read(harness, "vault/distribution?bins=2"))["bins"]
    assert [(-EXACT_LIMIT, 0, 2), (1, EXACT_LIMIT, 1)] == [
        (each["least"], each["most"], each["count"]) for each in shown
    ]
    shown = (await read(harness, f"vault/distribution?edges=-{EXACT_LIMIT},{EXACT_LIMIT}"))["bins"]
    assert [0, 2, 1] == [each["count"] for each in shown]


async def test_an_empty_window_has_no_percentiles(harness: Harness):
    """Nothing is told of nobody; the window that the answer is of is named."""
    empty = {"board": "vault", "window": "alltime", "total": 0, "error": 0.0}
    assert empty | {"percentiles": []} == await read(harness, "vault/percentiles")
    assert empty | {"bins": []} == await read(harness, "vault/distribution")
    assert (await read(harness, "vault/percentiles?window=daily"))["window"].startswith("daily:2")


async def test_an_answer_is_revalidated_until_the_board_moves(harness: Harness):
    """Like a page of the board it bears a tag, which holds until an entry changes."""
    key = await fill(harness)
    await source(harness, is_ledger=False)
    first = await harness.get("/v1/boards/vault/distribution")
    again = {"If-None-Match": first.headers["ETag"]}
    url = harness.url + "/v1/boards/vault/distribution"
    async with harness.session.get(url, headers=again) as response:
        assert 304 == response.status
    await as_server(harness, key, {"operation": "one-more", "player": "new", "score": 1})
    async with harness.session.get(url, headers=again) as response:
        assert (200, 9) == (response.status, (await response.json())["total"])


@pytest.mark.parametrize(
    "query",
    [
        "percentiles?at=",
        "percentiles?at=101",
        "percentiles?at=100.01",
        "percentiles?at=1.005",
        "percentiles?at=-1",
    ]
    + ["percentiles?at=nan", "percentiles?at=" + ",".join(["1"] * 21), "percentiles?at=1,,2"]
    + ["distribution?bins=0", "distribution?bins=101", "distribution?bins=ten", "distribution?edges="]
    + [
        "distribution?edges=3,2",
        "distribution?edges=1,1",
        "distribution?edges=1.5",
        "distribution?bins=2&edges=1",
    ]
    + ["distribution?edges=9007199254740992", "distribution?edges=" + ",".join(map(str, range(100)))],
)
async def test_what_cannot_be_meant_is_refused(harness: Harness, query: str):
    """The refusal names the parameter."""
    answer = await harness.get(f"/v1/boards/vault/{query}")
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert query.partition("?")[2].partition("=")[0] in answer.body["detail"]
