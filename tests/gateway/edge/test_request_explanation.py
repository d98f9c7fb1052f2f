"""What is said of a request without sending it is what an edge answers; and where it fails, what to write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.edge.auth.signatures import parse, signature_base
from gateway.edge.auth.tickets import Tickets
from gateway.edge.request_explanation import Known, Outcome, Step, compared, explain
from gateway.runtime.settings import Settings
from scoregate.commands.sign import _run_opened
from scoregate.signing_keys import GivenKey, GivenKeys
from tests.gateway.edge.test_development_mode import IMPOSSIBLE, NARROW, spoiled
from tests.support.attack import honest, issued, registered
from tests.support.harness import Harness, Request, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.raw import as_bytes, exchange


@pytest.fixture
def known(harness: Harness) -> Known:
    """All that a command reads of a deployment."""
    return known_of(harness)


def known_of(harness: Harness) -> Known:
    edge = harness.edge
    return Known(edge.settings, edge.clock, edge.tickets, edge.server_keys, edge.tokens, edge.catalogue)


def failure(steps: list[Step]) -> Step | None:
    assert all(step.outcome is not Outcome.FAILED for step in steps[:-1]), steps
    return steps[-1] if steps[-1].outcome is Outcome.FAILED else None


def slug(steps: list[Step]) -> str:
    """The problem that the last step names, empty if none failed."""
    step = failure(steps)
    return step.lines[0].partition(" ")[0] if step else ""


PLACES = {
    "too long": "a request of HTTP/1.1",
    "elsewhere": "the target",
    "no path": "the target",
    "no method": "the target",
    "no board": "the board",
    "no JSON": "the media type, the coding and the announced size of the body",
    "coded": "the media type, the coding and the announced size of the body",
    "too large": "the media type, the coding and the announced size of the body",
    "unsigned": "the fields of the signature",
    "Send both": "the fields of the signature",
    "another signer's tag": "the signature",
    "late": "the time of the signature",
    "early": "the time of the signature",
    "long": "the time of the signature",
    "another board": "what the key may do",
    "no player": "what the key may do",
    "another's board": "what the key may do",
    "the body has another digest": "the digest of the body",
    "a field too many": "the content",
    "twice": "the content",
}
"""What the edge looks at when it refuses a request."""


async def hostile(harness: Harness) -> dict[str, bytes]:
    """Requests that are refused somewhere on their way, and two that are not."""
    private, run = await registered(harness, "eu-1", "vault"), issued(harness)
    signed = honest(harness, run)

    def sent(request: Request, **other: Any) -> bytes:
        return as_bytes(request, harness.authority, **other)

    def with_fields(request: Request, **fields: str) -> Request:
        return replace(
            request,
            headers=request.headers | {name.replace("_", "-"): value for name, value in fields.items()},
        )

    by_server = harness.server_signed(
        private, "eu-1", {"operation": "op-9", "player": "ada", "score": 7}, board="vault"
    )
    foreign = harness.server_signed(
        private, "eu-1", {"operation": "op-8", "player": "ada", "score": 7}, board="arcade"
    )
    now_s = harness.clock() // 1000
    return {
        **{name: sent(request) for name, request in spoiled(harness, run).items()},
        "another signer's tag": sent(honest(harness, run, tag="scoregate-server")),
        "a run on a server's route": sent(harness.signed(run, {"score": 1}), line="POST /v1/boards/vault/entries HTTP/1.1"),
        "no HTTP": b"what is this\r\n\r\n",
        "too long": b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
        "elsewhere": as_bytes(signed, "elsewhere.example"),
        "no path": sent(signed, line="POST /v1/nothing HTTP/1.1"),
        "no method": sent(signed, line="PATCH /v1/boards/sprint/scores HTTP/1.1"),
        "no board": sent(signed, line="POST /v1/boards/nothing/scores HTTP/1.1"),
        "another board": sent(harness.signed(run, {"score": 1, "ticks": 60}, board="vault")),
        "no JSON": sent(with_fields(signed, Content_Type="text/plain")),
        "coded": sent(with_fields(signed, Content_Encoding="gzip")),
        "too large": sent(signed, length=10_000_000),
        "unsigned": sent(Request("POST", signed.path, signed.body, {"Content-Type": "application/json"})),
        "late": sent(honest(harness, run, created=now_s - 500)),
        "early": sent(honest(harness, run, created=now_s + 400)),
        "long": sent(honest(harness, run, lifetime_s=400)),
        "no player": sent(with_fields(signed, Authorization="Bearer no")),
        "another's board": sent(foreign),
        "a field too many": sent(honest(harness, run, {"score": 1, "ticks": 60, "cheat": 1})),
        "twice": sent(honest(harness, run, raw=b'{"score":1,"score":2}')),
        "by a server": sent(by_server),
        "honest": sent(signed),
    }  # fmt: skip


async def test_an_edge_answers_what_is_explained(harness: Harness, known: Known):
    """The same problem for each, and none where the edge takes the request."""
    answers, explained = {}, {}
    for name, raw in (await hostile(harness)).items():
        explained[name] = slug(await explain(raw, known))
        answers[name] = (await exchange(harness.authority, raw)).problem
    assert answers == explained
    assert {""} == {answers["honest"], answers["by a server"]}
    assert 12 < len(set(answers.values()))


async def test_a_refusal_is_told_at_what_the_edge_looked_at(harness: Harness, known: Known):
    """And all before it has passed, so that nobody looks for the mistake of a board in a signature."""
    sent = await hostile(harness)
    steps = {name: failure(await explain(sent[name], known)) for name in PLACES}
    assert PLACES == {name: step and step.title for name, step in steps.items()}


async def test_an_impossible_run_is_told_its_bound(settings: Settings):
    """As development mode does, without the mode; and one that is possible is left to the edge."""
    policies = write_policies(settings.data_dir / "own", a_policy("sprint", score=NARROW))
    async with running_harness(settings.model_copy(update={"policies_dir": policies})) as harness:
        known = known_of(harness)
        for bound, claim in IMPOSSIBLE.items():
            raw = as_bytes(honest(harness, issued(harness), claim), harness.authority)
            step = failure(await explain(raw, known))
            assert step is not None
            assert ("the content", bound) == (step.title, step.lines[1])
            assert "bounds-violation" == (await exchange(harness.authority, raw)).problem
        possible = honest(harness, issued(harness), {"score": 10, "ticks": 60})
        assert failure(await explain(as_bytes(possible, harness.authority), known)) is None


async def test_what_to_write_is_said(harness: Harness, known: Known):
    """Each mistake of a signer is named as in development mode, below the base of the edge."""
    run = issued(harness)
    for differs, request in spoiled(harness, run).items():
        step = failure(await explain(as_bytes(request, harness.authority), known))
        assert step is not None
        expected = "write sha-256=:" if differs.startswith("the body") else differs
        assert any(line.startswith(expected) or expected in line for line in step.lines), (differs, step)


async def test_without_the_deployment_it_goes_as_far_as_a_key_leads(harness: Harness, known: Known):
    """With the run's key up to the content; without any it says that it cannot look; and nothing is taken for granted."""
    run = issued(harness)
    raw, wrong = (
        as_bytes(honest(harness, run), harness.authority),
        as_bytes(honest(harness, run, key=bytes(32)), harness.authority),
    )
    bare = Known(known.settings.model_copy(update={"hosts": ("elsewhere",)}), known.clock)
    with_key = bare._replace(tickets=GivenKeys(GivenKey(run.key)), server_keys=GivenKeys(GivenKey(run.key)))
    outcomes = {step.title.partition(":")[0]: step.outcome for step in await explain(raw, with_key)}
    assert Outcome.PASSED is outcomes["the signature"] is outcomes["the digest of the body"]
    assert ("signature-invalid", "") == (
        slug(await explain(wrong, with_key)),
        slug(await explain(wrong, bare)),
    )
    tagged = await explain(
        as_bytes(honest(harness, run, tag="scoregate-server"), harness.authority), with_key
    )
    assert 'tag: write "scoregate-run", as the key is one of a run' in tagged[-1].lines
    outcomes = {step.title: step.outcome for step in await explain(raw, bare)}
    assert Outcome.UNKNOWN is outcomes["the board"] is outcomes["the signature"]
    assert Outcome.PASSED is outcomes["the digest of the body"]
    head = raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    outcomes = {step.title: step.outcome for step in await explain(head, known, has_body=False)}
    assert (Outcome.PASSED, Outcome.UNKNOWN) == (
        outcomes["the signature"],
        outcomes["the digest of the body"],
    )


async def test_a_signers_base_is_compared_line_by_line(harness: Harness, known: Known):
    """The lines that differ, both as they are, with what no eye sees."""
    request = honest(harness, issued(harness), key=bytes(32))
    parsed = parse(request.headers["Signature-Input"], request.headers["Signature"])
    parts = {"method": "POST", "authority": harness.authority, "path": request.path, "query": "?",
             "content_type": "application/json", "content_digest": request.headers["Content-Digest"]}  # fmt: skip
    theirs = signature_base(parsed, **parts | {"path": "/v1/boards/Sprint/scores"})
    step = failure(await explain(as_bytes(request, harness.authority), known, theirs))
    assert step is not None
    assert "line 3: yours is     '\"@path\": /v1/boards/Sprint/scores'" in step.lines
    assert "line 3: the edge's is '\"@path\": /v1/boards/sprint/scores'" in step.lines
    told = list(compared("a\nb", b"a\r\nb\r\n"))
    assert [
        "carriage returns" in told[0],
        "ends with a line feed" in told[1],
        "look at the key" in told[2],
    ] == [True] * 3


async def test_a_run_is_opened_to_sign_with(harness: Harness):
    """By a new player, on the board that the URL names; its key is that of its ticket."""
    given = await _run_opened(urlsplit(f"{harness.url}/v1/boards/sprint/scores"), "b-1")
    assert harness.edge.tickets.key(given.key_id) == given.key
    assert "sprint" == harness.edge.tickets.read(given.key_id).board
    assert isinstance(harness.edge.tickets, Tickets)
