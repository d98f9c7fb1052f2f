"""What every client does with a score on a bad network, by the same scenarios over the driver of each."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.clients.driver import Driver
from tests.clients.faulty import Canned, Cut
from tests.clients.playing import SCORES, opened, submitted
from tests.clients.stage import BRIEF_S, Stage, claim
from tests.support.boards import BUILD
from tests.support.ports import unserved_port

NONCE = "conformance-nonce-000001"


def test_a_run_is_opened_submitted_replayed_and_on_the_board(driver: Driver, stage: Stage):
    """The worker replays the recording that the client sent, and what it gives is what the client reads."""
    run = opened(driver, stage)
    receipt = submitted(driver, run, points=7)
    assert "pending" == receipt["state"]
    assert "promoted" == stage.settled(receipt["submission"])
    seen = driver.ask("submission", submission=receipt["submission"])
    assert ("promoted", 7) == (seen["state"], seen["score"])
    assert 7 == driver.ask("entry", board="tiny", player=run["player"])["score"]


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_what_is_lost_on_the_way_is_sent_again_and_counts_once(driver: Driver, stage: Stage, cut: Cut):
    """The same body bytes, and a fresh connection; the edge takes the second for the first."""
    run = opened(driver, stage)
    stage.proxy.on(SCORES, cut)
    receipt = submitted(driver, run)
    first, second = stage.proxy.seen(SCORES)
    assert first.body == second.body
    assert (cut is Cut.AFTER) == (b"Idempotency-Replayed: true" in second.answer)
    assert "promoted" == stage.settled(receipt["submission"])
    assert [("tiny", "promoted")] == stage.runs_of(run["player"])


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_says_try_again_is_tried_again(driver: Driver, stage: Stage, status: int):
    """With the pause that it names, which is none here; the answer need not be JSON."""
    run = opened(driver, stage)
    stage.proxy.on(SCORES, Canned(status, b"<html>busy</html>", {"Retry-After": "0"}))
    assert "pending" == submitted(driver, run)["state"]
    assert 2 == len(stage.proxy.seen(SCORES))


def test_a_pause_that_is_asked_for_is_kept(driver: Driver, stage: Stage):
    """A second, where the client itself would have waited half of one at most."""
    run = opened(driver, stage)
    stage.proxy.on(SCORES, Canned(503, headers={"Retry-After": "1"}))
    submitted(driver, run)
    first, second = stage.proxy.seen(SCORES)
    assert second.at_s - first.at_s >= 1.0


def test_a_pause_of_more_than_a_minute_is_left_to_the_game(driver: Driver, stage: Stage):
    """The refusal is raised, with the seconds."""
    run = opened(driver, stage)
    stage.proxy.on(SCORES, Canned(503, headers={"Retry-After": "61"}))
    error = driver.refusal("submit", ticket=run["ticket"], **claim(run["seed"]))
    assert (503, 61) == (error.status, error.retry_after_s)
    assert 1 == len(stage.proxy.seen(SCORES))


def test_a_refusal_is_not_tried_again(driver: Driver, stage: Stage):
    """Another score of the same run; the name of the problem is the reason."""
    run = opened(driver, stage)
    submitted(driver, run)
    error = driver.refusal("submit", ticket=run["ticket"], **claim(run["seed"], points=6))
    assert (409, "run-already-submitted") == (error.status, error.reason)
    assert 2 == len(stage.proxy.seen(SCORES))


def test_a_gateway_that_cannot_be_reached_is_an_error_of_status_0(driver: Driver):
    """After as many attempts as were allowed."""
    with unserved_port() as port:
        driver.ask("open", base_url=f"http://127.0.0.1:{port}", attempts=1)
        error = driver.refusal("entries", board="tiny")
    assert (0, "") == (error.status, error.reason)


@pytest.mark.parametrize("address", ["localhost:8080", "ftp://localhost:8080"])
def test_an_address_without_a_scheme_of_http_is_refused_at_once(driver: Driver, address: str):
    """Not after six attempts, and in words of what an address is."""
    error = driver.refusal("open", base_url=address)
    assert (0, "invalid") == (error.status, error.reason)
    if driver.language.name in {"python", "python-sync", "javascript"}:
        assert f"expected an address that begins with http:// or https:// (given: {address})" in error.detail
    driver.ask("open", base_url="HTTP://localhost:8080/behind/a/proxy")


def test_what_would_create_a_second_is_not_repeated(driver: Driver, stage: Stage):
    """A player whose answer was lost may exist: the game hears of it instead."""
    driver.ask("open", base_url=stage.url)
    stage.proxy.on("^POST /v1/players$", Cut.AFTER)
    assert 0 == driver.refusal("create_player", name="Ada").status
    assert 1 == len(stage.proxy.seen("^POST /v1/players$"))
    stage.proxy.on("^POST /v1/players$", Canned(503, headers={"Retry-After": "0"}))
    assert driver.ask("create_player", name="Ada")["token"]


@pytest.mark.parametrize("offset_s", [-3600, 3600])
def test_a_clock_that_is_an_hour_off_costs_one_request(driver: Driver, stage: Stage, offset_s: int):
    """The gateway's time is taken from its refusal, and kept for the next run."""
    run = opened(driver, stage, clock_offset_s=offset_s)
    submitted(driver, run)
    assert [401, 202] == [each.status for each in stage.proxy.seen(SCORES)]
    submitted(driver, driver.ask("open_run", board="tiny", build=BUILD))
    assert [401, 202, 202] == [each.status for each in stage.proxy.seen(SCORES)]


def test_a_run_that_ended_is_refused_by_name(driver: Driver, stage: Stage):
    """Its time is over, whatever the client says."""
    run = opened(driver, stage, "brief")
    stage.harness.clock.shift(BRIEF_S + 5)
    try:
        error = driver.refusal("submit", ticket=run["ticket"], **claim(run["seed"]))
    finally:
        stage.harness.clock.shift(-BRIEF_S - 5)
    assert "run-expired" == error.reason


def test_a_committed_recording_is_sent_when_it_is_asked_for(driver: Driver, stage: Stage):
    """First the digest; the worker asks; then the recording, and the run counts."""
    run = opened(driver, stage, "careful")
    receipt = submitted(driver, run, points=500, do="commit")
    stage.rest()
    [asked] = driver.ask("reveals")["reveals"]
    recording = claim(run["seed"], points=500)["recording"]
    assert receipt["submission"] == asked["submission"]
    driver.ask("reveal", submission=asked["submission"], recording=recording)
    assert "promoted" == stage.settled(receipt["submission"])


def test_requests_of_all_clients_are_equal_to_the_byte(driver: Driver, stage: Stage):
    """For the same run, clock and nonce: target, body, and the fields of the signature."""
    now_s = stage.harness.clock() // 1000
    run = opened(driver, stage, now_s=now_s, nonce=NONCE)
    submitted(driver, run, points=3)
    [sent] = stage.proxy.seen(SCORES)
    honest = claim(run["seed"], points=3)
    stats = ",".join(f'"{name}":{value}' for name, value in honest["stats"])
    claimed = f'"score":{honest["score"]},"ticks":{honest["ticks"]},"stats":{{{stats}}}'
    body = f'{{{claimed},"recording":"{honest["recording"]}"}}'.encode()
    assert body == sent.body
    assert fields_of(run, body, now_s, stage.authority) == {
        name: sent.fields[name]
        for name in ("host", "content-type", "content-digest", "signature-input", "signature")
    }


def fields_of(run: dict[str, Any], body: bytes, now_s: int, authority: str) -> dict[str, str]:
    """The fields of a submission as docs/reference/signatures.md has them."""
    digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
    params = (
        '("@method" "@authority" "@path" "@query" "content-type" "content-digest")'
        f';created={now_s};expires={now_s + 300};nonce="{NONCE}";keyid="{run["ticket"]}"'
        ';alg="hmac-sha256";tag="scoregate-run"'
    )
    base = (
        f'"@method": POST\n"@authority": {authority}\n"@path": /v1/boards/tiny/scores\n"@query": ?\n'
        f'"content-type": application/json\n"content-digest": {digest}\n"@signature-params": {params}'
    )
    signature = hmac.digest(b64decode(run["key"]), base.encode(), "sha256")
    return {
        "host": authority,
        "content-type": "application/json",
        "content-digest": digest,
        "signature-input": f"sg={params}",
        "signature": f"sg=:{b64encode(signature).decode()}:",
    }
