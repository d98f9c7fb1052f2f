"""Development mode: a refused signature is told what differs from it; and outside of it nobody is told anything."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from gateway.edge import explained_refusals
from gateway.edge.auth.signatures import parse, signature_base
from gateway.edge.submissions.impossible_run import impossible, unplayable
from gateway.runtime.settings import Settings, load_settings
from policies.errors import SettingsError
from policies.model import Policy
from policies.vocabulary import Claim, Expected, Finding, Reason
from tests.support.attack import CLAIM, honest, issued, registered
from tests.support.harness import Harness, Request, Run, free_port, running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies

SLIPS: dict[str, Any] = {
    '"@query"': {"query": ""},
    '"@method"': {"method": "post"},
    '"@path"': {"path": "/v1/boards/sprint/scores/"},
    '"@authority"': {"authority": "127.0.0.1"},
    '"content-type"': {"content_type": "application/json; charset=utf-8"},
}
"""Members of the base, and what was signed in their place."""


@pytest_asyncio.fixture
async def telling(settings: Settings) -> AsyncIterator[Harness]:
    changes = {
        "development": True,
        "bind": f"127.0.0.1:{free_port()}",
        "data_dir": settings.data_dir / "telling",
    }
    async with running_harness(settings.model_copy(update=changes)) as harness:
        yield harness


def signed_anew(
    harness: Harness,
    run: Run,
    *,
    key: bytes | None = None,
    ending: bytes = b"",
    crlf: bool = False,
    **slip: str,
) -> Request:
    """An honest request, but for what was signed."""
    request = honest(harness, run)
    parsed = parse(request.headers["Signature-Input"], request.headers["Signature"])
    parts = {
        "method": "POST", "authority": harness.authority, "path": request.path, "query": "?",
        "content_type": "application/json", "content_digest": request.headers["Content-Digest"],
    }  # fmt: skip
    base = signature_base(parsed, **{**parts, **slip}) + ending
    signature = hmac.digest(key or run.key, base.replace(b"\n", b"\r\n") if crlf else base, "sha256")
    return replace(
        request, headers=request.headers | {"Signature": f"sg=:{base64.b64encode(signature).decode()}:"}
    )


def spoiled(harness: Harness, run: Run) -> dict[str, Request]:
    """A request for each way to be refused for one's signature, by what differs."""
    signed = honest(harness, run)
    given = signed.headers["Signature-Input"]
    return {
        **{member: signed_anew(harness, run, **slip) for member, slip in SLIPS.items()},
        "the text of the base: write no line feed": signed_anew(harness, run, ending=b"\n"),
        "the text of the base: end lines": signed_anew(harness, run, crlf=True),
        "the key: decode": signed_anew(harness, run, key=base64.b64encode(run.key)),
        "the key is another one": signed_anew(harness, run, key=bytes(32)),
        "keyid: no server's key": honest(harness, run, tag="scoregate-server", keyid="nobody"),
        "the body has another digest": replace(signed, body=b'{"score":1}'),
        "the parameter `nonce`": replace(signed, headers=signed.headers | {"Signature-Input": given.replace('nonce="', 'nonce="!')}),
        "`sg` does not sign content-digest": replace(signed, headers=signed.headers | {"Signature-Input": given.replace(' "content-digest"', "")}),
        "Send both": replace(signed, headers={k: v for k, v in signed.headers.items() if k != "Signature"}),
        "Send Content-Type and Content-Digest": replace(signed, headers={k: v for k, v in signed.headers.items() if k != "Content-Digest"}),
    }  # fmt: skip


async def test_each_mistake_is_named_with_the_base_of_the_edge(telling: Harness):
    """One member, and what to write instead; whatever is refused for its signature has the base that should be signed."""
    private, run = await registered(telling), issued(telling)
    for differs, request in spoiled(telling, run).items():
        answer = await telling.send(request)
        assert answer.problem.startswith("signature-"), answer.raw
        assert answer.body["differs"].startswith(differs), answer.raw
        assert f". Development mode: {answer.body['differs']}. " in answer.body["detail"]
        assert ".." not in answer.body["detail"]
        lines = answer.body["signature_base"].split("\n")
        assert ['"@method": POST', f'"@authority": {telling.authority}'] == lines[:2]
        assert lines[-1].startswith('"@signature-params": (')
    entry = {"operation": "op-1", "player": "ada", "score": 7}
    by_server = telling.server_signed(private, "eu-1", entry, board="vault", query="")
    assert (await telling.send(by_server)).body["differs"].startswith('"@query": write `?`')
    assert 202 == (await telling.send(honest(telling, run, CLAIM))).status


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "`bounds` found 1999993 (score-bounds), and possible is at least 0 and at most 1000007 points, in steps of 10": {
        "score": 1_999_993,
        "ticks": 60,
    },
    "`bounds` found 7 (score-bounds), and possible is at least 0 and at most 1000007 points, in steps of 10": {
        "score": 7,
        "ticks": 60,
    },
}
"""Claims that no run can have, by the bound of a board of `NARROW` that each breaks."""

NARROW = {"minimum": 0, "maximum": 1_000_007, "step": 10}


@pytest_asyncio.fixture(params=[True, False], ids=["telling", "discreet"])
async def bounded(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """An edge of a board with narrow bounds, in development mode or outside of it."""
    board = a_policy("sprint", score=NARROW)
    changes = {"development": request.param, "policies_dir": write_policies(settings.data_dir / "own", board)}
    async with running_harness(settings.model_copy(update=changes)) as harness:
        yield harness


async def test_an_impossible_run_is_told_its_bound_in_the_mode_alone(bounded: Harness):
    """Which rule, the run's number and what is possible; outside of the mode no number at all."""
    for bound, claim in IMPOSSIBLE.items():
        answer = await bounded.send(honest(bounded, issued(bounded), claim))
        assert "bounds-violation" == answer.problem, answer.raw
        if bounded.edge.settings.development:
            assert bound == answer.body["bound"]
            assert answer.body["detail"].endswith(f". Development mode: {bound}.")
        else:
            assert {"type", "title", "status", "detail"} == answer.body.keys()
            assert not any(letter.isdigit() for letter in answer.body["detail"])


def test_a_claim_that_no_replay_takes_is_told_what_one_takes():
    """The longest run that there is, and the names of its statistics."""
    policy = Policy.model_validate(arcade_policy())
    long = unplayable(Claim(1, 7_201, {}), policy)
    assert (
        "`ticks` is 7201, and possible is at least 1 and at most 7200 (`replay.maximum_ticks`)" == long.bound
    )
    for ticks, stats in ((60, {}), (7_200, {"coins": 1, "jumps": 2, "other": 3})):
        named = unplayable(Claim(1, ticks, stats), policy)
        names = ", ".join(f"`{name}`" for name in arcade_policy()["replay"]["stats"])
        assert f"`stats` has to have {names} and nothing else (`replay.stats`)" == named.bound


def test_a_statistic_out_of_range_is_told_with_its_name():
    """A validator of a studio's own, or one of statistics, names what it looked at."""
    coarse = Finding(Reason.SCORE_BOUNDS, 1, Expected(), validator="bounds", detail={"step": 1_234_567})
    assert impossible(coarse).bound.endswith(", in steps of 1234567")
    finding = Finding(Reason.STATS_BOUNDS, 9.5, Expected(at_most=4), validator="stats", code="coins")
    assert (
        "`stats` found 9.5 of `coins` (stats-bounds), and possible is at most 4" == impossible(finding).bound
    )


async def test_S24_nothing_of_it_is_told_or_computed_outside_of_the_mode(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """One answer, to the byte, for every signature that does not verify, and no member of development mode in any."""
    monkeypatch.setattr(explained_refusals, "_explanation", None)
    monkeypatch.setattr(explained_refusals, "mistake_in", None)
    run = issued(harness)
    invalid = set()
    for request in spoiled(harness, run).values():
        answer = await harness.send(request)
        assert {"type", "title", "status", "detail"} == answer.body.keys()
        assert answer.body["detail"].find("evelopment") == -1
        if answer.problem == "signature-invalid":
            invalid.add(answer.raw)
    assert 1 == len(invalid)


async def test_S24_who_comes_from_elsewhere_is_told_nothing(telling: Harness):
    """By a proxy in front of an edge of this machine, or from a public address where it listens on all."""
    request = signed_anew(telling, issued(telling), query="")
    assert "differs" in (await telling.send(request)).body
    for name in ("Forwarded", "X-Forwarded-For", "Via", "X-Real-IP"):
        forwarded = replace(request, headers=request.headers | {name: "8.8.8.8"})
        assert {"type", "title", "status", "detail"} == (await telling.send(forwarded)).body.keys()
    near = ("127.0.0.1", "::1", "192.168.1.5", "::ffff:10.0.0.1", "fe80::1")
    far = ("8.8.8.8", "2001:4860::1", "::ffff:8.8.8.8", "100.64.0.1", "", None)
    for address in (*near, *far):
        asked: Any = SimpleNamespace(remote=address, headers={})
        assert (address, address in near) == (address, explained_refusals.is_near(asked))


def test_the_mode_is_off_and_not_for_what_others_reach(monkeypatch: pytest.MonkeyPatch):
    """A public name, a proxy or a shared ledger: the edge does not start with it."""
    assert not load_settings().development
    monkeypatch.setenv("SCOREGATE_DEVELOPMENT", "true")
    for hosts in ("localhost:8080", "192.168.1.5:8080,[::1]:8080", "game.test", "desk.local:80"):
        monkeypatch.setenv("SCOREGATE_HOSTS", hosts)
        assert load_settings().development
    refused = {
        "SCOREGATE_HOSTS": "scores.example",
        "SCOREGATE_TRUSTED_PROXIES": "10.0.0.1",
        "SCOREGATE_LEDGER_URL": "postgresql://db/scores",
    }
    binds = ("8.8.8.8:8080", "0.0.0.0:8080", "[::]:8080")
    monkeypatch.delenv("SCOREGATE_HOSTS")
    for name, value in [*refused.items(), *(("SCOREGATE_BIND", bind) for bind in binds)]:
        monkeypatch.setenv(name, value)
        with pytest.raises(
            SettingsError, match=r"^SCOREGATE_DEVELOPMENT: is not for a deployment that others reach"
        ):
            load_settings()
        monkeypatch.delenv(name)


def test_an_address_of_ipv4_on_a_socket_of_ipv6_is_taken_for_itself():
    """Some versions of the standard library take all of them for private, and strangers are among them."""
    mapped = ("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8")
    requests: list[Any] = [SimpleNamespace(headers={}, remote=each) for each in mapped]
    assert [True, True, False] == [explained_refusals.is_near(request) for request in requests]
