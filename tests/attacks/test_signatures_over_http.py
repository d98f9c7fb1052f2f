"""Forgeries, substitutions and replays of signed requests, sent to a real edge. Every refusal stands beside its control."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.edge.auth import signatures, tickets
from gateway.edge.auth.signatures import ServerKeyError, content_digest_of
from gateway.edge.auth.signing import Draft, sign_hmac_sha256
from gateway.runtime.settings import Settings
from scoregate.commands.keys import register
from tests.support.attack import (
    CLAIM,
    COVERAGE,
    ENTRY,
    EXPIRED,
    INVALID,
    MALFORMED,
    MISSING,
    OTHER_CLAIM,
    a_run,
    about,
    accept,
    honest,
    refuse,
    registered,
    rows,
)
from tests.support.clock import ShiftedClock
from tests.support.harness import Answer, Harness, Request, Run, running_harness
from tests.support.raw import RawConnection, as_bytes, exchange
from tests.support.valkey import ValkeyServer

NONCE = "a-nonce-of-24-characters"


def signed_as(harness: Harness, run: Run, **changes: Any) -> Request:
    """An honest request whose signature is of something else, as `changes` say."""
    request = honest(harness, run)
    now_s = harness.clock() // 1000
    parts = {
        "method": "POST",
        "authority": harness.authority,
        "path": request.path,
        "body": request.body,
        "created": now_s,
        "expires": now_s + 60,
        "nonce": NONCE,
        "keyid": run.info["ticket"],
        "tag": "scoregate-run",
    }
    headers = sign_hmac_sha256(run.key, Draft(**(parts | changes)))
    return replace(request, headers=headers | {"Content-Type": "application/json"})


def with_input(request: Request, old: str, new: str) -> Request:
    """The request with another text in its Signature-Input, under the same signature."""
    text = request.headers["Signature-Input"]
    assert old in text
    return replace(request, headers=request.headers | {"Signature-Input": text.replace(old, new, 1)})


def with_header(request: Request, name: str, value: str | None) -> Request:
    kept = {key: each for key, each in request.headers.items() if key != name}
    return replace(request, headers=kept if value is None else kept | {name: value})


async def test_S01_a_valid_request_is_accepted(harness: Harness):
    """An honest submission is answered 202, is one pending row, and is told where it stands."""
    run, claim = await harness.played()
    answer = await harness.submit(run, claim)
    assert (202, "pending") == (answer.status, answer.body["state"])
    assert "pending" == await harness.state_of(run.id)
    assert 1 == await rows(harness)


async def test_S01_a_default_port_is_no_part_of_what_is_signed(settings: Settings):
    """A client that sends it in `Host` signs without it (RFC 9421, 2.2.3), in small letters whatever the settings have."""
    hosts = (settings.bind, "Scores.Example:80", "scores.example:8080")
    async with running_harness(settings.model_copy(update={"hosts": hosts})) as harness:
        for host, authority in (("Scores.example:80", "scores.example"), (hosts[2], hosts[2])):
            request = signed_as(harness, await a_run(harness), authority=authority)
            await accept(harness, with_header(request, "Host", host))
        request = signed_as(harness, await a_run(harness), authority="scores.example")
        await refuse(harness, with_header(request, "Host", hosts[2]), INVALID)


SIGNED_OTHERWISE: dict[str, dict[str, Any]] = {
    "method": {"method": "PUT"},
    "authority": {"authority": "scores.example"},
    "path": {"path": "/v1/boards/other/scores"},
    "query": {"query": "?board=other"},
    "content-type": {"content_type": "application/json; charset=utf-8"},
}

CHANGED_INPUT: dict[str, Callable[[Request], Request]] = {
    "created": lambda request: with_input(request, ";created=1", ";created=2"),
    "expires": lambda request: with_input(request, ";expires=1", ";expires=2"),
    "nonce": lambda request: with_input(request, NONCE, NONCE[:-1] + "S"),
    "keyid": lambda request: with_input(request, 'keyid="A', 'keyid="B'),
    "alg": lambda request: with_input(request, ';alg="hmac-sha256"', ""),
    "tag": lambda request: with_input(request, "scoregate-run", "scoregate-server"),
    "order": lambda request: with_input(request, '"@method" "@authority"', '"@authority" "@method"'),
    "content-digest": lambda request: with_header(
        request,
        "Content-Digest",
        f"sha-512=:{base64.b64encode(hashlib.sha512(request.body).digest()).decode()}:",
    ),
}


async def test_S02_a_change_of_anything_covered_is_invalid(harness: Harness):
    """What was signed is what must have been sent, in every part; the nonce is not burnt by an attempt."""
    for part in (*SIGNED_OTHERWISE, *CHANGED_INPUT):
        with about(part):
            run = await a_run(harness)
            if part in SIGNED_OTHERWISE:
                hostile = signed_as(harness, run, **SIGNED_OTHERWISE[part])
            else:
                hostile = CHANGED_INPUT[part](signed_as(harness, run))
            await refuse(harness, hostile, INVALID)
            await accept(harness, signed_as(harness, run))


async def test_S02_no_flipped_bit_of_the_signature_headers_passes(harness: Harness):
    """Whatever bit of the three fields is flipped, the request is refused and stores nothing."""
    run = await a_run(harness)
    request = signed_as(harness, run)
    for name in ("Signature-Input", "Signature", "Content-Digest"):
        text = request.headers[name]
        for at in range(5, len(text), 11):
            flipped = text[:at] + chr(ord(text[at]) ^ (1 << at % 7)) + text[at + 1 :]
            raw = as_bytes(with_header(request, name, flipped), harness.authority)
            answer = await exchange(harness.authority, raw)
            assert answer.status in {400, 401}, (name, at, flipped)
    assert 0 == await rows(harness)
    await accept(harness, request)


async def test_S03_another_body_under_the_signed_digest_is_invalid(harness: Harness):
    """A body that is not the one of the signed digest is refused like any bad signature, and says no more."""
    run = await a_run(harness)
    request, body = honest(harness, run), json.dumps(OTHER_CLAIM).encode()
    answer = await refuse(harness, replace(request, body=body), INVALID)
    unsigned = with_header(replace(request, body=body), "Content-Digest", content_digest_of(body))
    assert (await refuse(harness, unsigned, INVALID)).body == answer.body
    await accept(harness, request)


async def test_S04_another_body_with_its_own_digest_is_invalid(harness: Harness):
    """Changing body and digest together breaks the signature."""
    run = await a_run(harness)
    request = honest(harness, run)
    body = json.dumps(OTHER_CLAIM).encode()
    hostile = with_header(replace(request, body=body), "Content-Digest", content_digest_of(body))
    await refuse(harness, hostile, INVALID)
    await accept(harness, request)


async def test_S05_no_signature_and_half_of_one(harness: Harness):
    """No signature is missing; half of one is malformed; a 401 carries a challenge."""
    run = await a_run(harness)
    request = honest(harness, run)
    only_input = with_header(request, "Signature", None)
    only_signature = with_header(request, "Signature-Input", None)
    answer = await refuse(harness, with_header(only_input, "Signature-Input", None), MISSING)
    assert answer.headers["WWW-Authenticate"].startswith("Signature ")
    await refuse(harness, only_input, MALFORMED)
    await refuse(harness, only_signature, MALFORMED)
    await accept(harness, request)


def covering(harness: Harness, run: Run, components: str) -> Request:
    """A request whose signature is genuine, over this component list."""
    request = honest(harness, run)
    values = {
        "@method": "POST",
        "@authority": harness.authority,
        "@path": request.path,
        "@query": "?",
        "content-type": "application/json",
        "content-digest": request.headers["Content-Digest"],
    }
    params = request.headers["Signature-Input"].removeprefix("sg=")
    params = f"({components}){params[params.index(')') + 1 :]}"
    lines = [
        f"{name}: {values.get(name.strip(chr(34)).split(chr(34))[0], '')}"
        for name in components.split(" ")
        if name
    ]
    base = "\n".join([*lines, f'"@signature-params": {params}']).encode()
    mac = base64.b64encode(hmac.digest(run.key, base, "sha256")).decode()
    return replace(
        request, headers=request.headers | {"Signature-Input": f"sg={params}", "Signature": f"sg=:{mac}:"}
    )


ALL_SIX = '"@method" "@authority" "@path" "@query" "content-type" "content-digest"'


async def test_S06_less_than_the_six_components_is_a_lack_of_coverage(harness: Harness):
    """A genuine signature over nothing, or without one of the six, does not cover what it must."""
    run = await a_run(harness)
    for left_out in ALL_SIX.split(" "):
        await refuse(
            harness,
            covering(harness, run, ALL_SIX.replace(left_out, "").replace("  ", " ").strip()),
            COVERAGE,
        )
    await refuse(harness, covering(harness, run, ""), COVERAGE)
    await accept(harness, covering(harness, run, ALL_SIX))


async def test_S07_components_that_we_do_not_know_are_malformed(harness: Harness):
    """Derived components beyond the profile, and parameters on components, are refused as unreadable."""
    run = await a_run(harness)
    for extra in ('"@status"', '"@signature-params"', '"@query-param";name="a"', '"content-type";bs;sf'):
        await refuse(harness, covering(harness, run, f"{ALL_SIX} {extra}"), MALFORMED)
    for changed in ('"@method";req', '"@method";x=1', '"@path";bs'):
        name = changed.split(";")[0]
        await refuse(harness, covering(harness, run, ALL_SIX.replace(name, changed)), MALFORMED)
    await accept(harness, covering(harness, run, ALL_SIX))


async def test_S08_a_component_listed_twice_is_malformed(harness: Harness):
    """The same component twice is refused, with its parameters reordered too."""
    run = await a_run(harness)
    for twice in ('"@method"', '"content-digest"', '"content-type";a;b "content-type";b;a'):
        await refuse(harness, covering(harness, run, f"{ALL_SIX} {twice}"), MALFORMED)
    await accept(harness, covering(harness, run, ALL_SIX))


@pytest.mark.parametrize("is_first", [True, False])
async def test_S11_a_proxys_own_signature_beside_ours_is_not_looked_at(harness: Harness, *, is_first: bool):
    """A second label with a foreign tag changes nothing, whichever comes first."""
    request = honest(harness, await a_run(harness))
    foreign = (
        'proxy=("@method");created=1;keyid="p";tag="proxy"',
        f"proxy=:{base64.b64encode(bytes(32)).decode()}:",
    )
    fields = {}
    for name, other in zip(("Signature-Input", "Signature"), foreign, strict=True):
        both = [other, request.headers[name]] if is_first else [request.headers[name], other]
        fields[name] = ", ".join(both)
    await accept(harness, replace(request, headers=request.headers | fields))


async def test_S12_a_mac_made_with_the_public_key_is_invalid(harness: Harness):
    """The algorithm comes from the key record: knowing a public key does not let anybody sign with it as a secret."""
    private = await registered(harness)
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    control = harness.server_signed(private, "eu-1", ENTRY, board="vault")
    for alg in (';alg="hmac-sha256"', ';alg="ed25519"', ""):
        claimed = with_input(control, ';alg="ed25519"', alg)
        params = claimed.headers["Signature-Input"].removeprefix("sg=")
        parts = [
            "POST",
            harness.authority,
            control.path,
            "?",
            "application/json",
            control.headers["Content-Digest"],
        ]
        lines = [f"{name}: {value}" for name, value in zip(ALL_SIX.split(" "), parts, strict=True)]
        base = "\n".join([*lines, f'"@signature-params": {params}']).encode()
        mac = base64.b64encode(hmac.digest(public, base, "sha256")).decode()
        await refuse(harness, with_header(claimed, "Signature", f"sg=:{mac}:"), INVALID)
    await accept(harness, control)


@pytest.mark.parametrize(
    ("alg", "passes"),
    [("", True), ("hmac-sha256", True), ("HMAC-SHA256", False), ("none", False), ("ed25519", False)],
)
async def test_S13_alg_is_left_out_or_exactly_the_keys(harness: Harness, *, alg: str, passes: bool):
    """`alg` may be absent; if it is there it must be the key's, letter for letter."""
    run = await a_run(harness)
    request = honest(harness, run)
    params = request.headers["Signature-Input"].removeprefix("sg=")
    params = params.replace(';alg="hmac-sha256"', f';alg="{alg}"' if alg else "")
    parts = [
        "POST",
        harness.authority,
        request.path,
        "?",
        "application/json",
        request.headers["Content-Digest"],
    ]
    lines = [f"{name}: {value}" for name, value in zip(ALL_SIX.split(" "), parts, strict=True)]
    mac = hmac.digest(run.key, "\n".join([*lines, f'"@signature-params": {params}']).encode(), "sha256")
    fields = {"Signature-Input": f"sg={params}", "Signature": f"sg=:{base64.b64encode(mac).decode()}:"}
    signed = replace(request, headers=request.headers | fields)
    if passes:
        await accept(harness, signed)
    else:
        await refuse(harness, signed, INVALID)
        await accept(harness, request)


class FrozenClock(ShiftedClock):
    """Stands half-way through a second until it is shifted."""

    def __init__(self) -> None:
        super().__init__()
        self._stands_at_ms = ShiftedClock()() // 1000 * 1000 + 500

    def __call__(self) -> int:
        return self._stands_at_ms + self.offset_ms


@pytest.mark.parametrize(
    ("created", "lifetime_s", "passes"),
    [(30, 60, True), (31, 60, False), (-60, 60, True), (-61, 60, False), (-300, 300, True), (0, 60, True)],
)
async def test_S15_the_boundary_seconds_of_a_signature(
    settings: Settings, *, created: int, lifetime_s: int, passes: bool
):
    """From `created - skew` (30 s) to `expires`, both whole seconds included, a signature is in time."""
    async with running_harness(settings, FrozenClock()) as harness:
        run = await a_run(harness)
        request = honest(harness, run, created=harness.clock() // 1000 + created, lifetime_s=lifetime_s)
        if passes:
            await accept(harness, request)
        else:
            await refuse(harness, request, EXPIRED)
            await accept(harness, honest(harness, run))


@pytest.mark.parametrize("off_by_s", [-300, 300])
async def test_S16_an_honest_player_with_a_wrong_clock_can_sign_again(harness: Harness, off_by_s: int):
    """The refusal carries our time; signing again with it passes."""
    run = await a_run(harness)
    wrong = honest(harness, run, created=harness.clock() // 1000 + off_by_s)
    answer = await refuse(harness, wrong, EXPIRED)
    assert "GMT" in answer.headers["Date"]
    assert abs(answer.body["server_time"] - harness.clock() // 1000) <= 1
    await accept(harness, honest(harness, run, created=answer.body["server_time"]))


async def test_S17_a_byte_identical_resend_gets_the_stored_answer(harness: Harness):
    """A retry is safe: the same body again, marked as replayed, and still one row."""
    request = honest(harness, await a_run(harness))
    first = await accept(harness, request)
    again = await harness.send(request)
    assert (202, "true", first.raw) == (again.status, again.headers["Idempotency-Replayed"], again.raw)
    assert 1 == await rows(harness)


async def test_S17_a_resend_signed_anew_gets_the_stored_answer(harness: Harness):
    """The same claim for the same run under a fresh nonce is a retry too."""
    run = await a_run(harness)
    first = await accept(harness, honest(harness, run))
    again = await harness.send(honest(harness, run))
    assert ("true", first.raw) == (again.headers["Idempotency-Replayed"], again.raw)
    assert 1 == await rows(harness)


async def test_S18_a_nonce_with_other_content_is_refused(harness: Harness):
    """A nonce stands for one content; the same run with other content and another nonce is refused as well."""
    run = await a_run(harness)
    await accept(harness, honest(harness, run, nonce=NONCE))
    await refuse(harness, honest(harness, run, OTHER_CLAIM, nonce=NONCE), (401, "nonce-reused"))
    await refuse(harness, honest(harness, run, OTHER_CLAIM), (409, "run-already-submitted"))


async def test_S19_one_request_sent_to_many_edges_at_once_is_accepted_once(
    settings: Settings, valkey: ValkeyServer
):
    """Of a hundred equal requests at four edges, one is the first; all others are its replay."""
    settings = settings.model_copy(update={"hosts": ("scores.example",)})
    async with AsyncExitStack() as stack:
        edges = [
            await stack.enter_async_context(
                running_harness(settings.model_copy(update={"bind": "127.0.0.1:0"}))
            )
            for _ in range(4)
        ]
        harness = edges[0]
        ports = [edge.authority for edge in edges]
        for edge in edges:
            edge.authority = "scores.example"
            edge.session.headers["Host"] = "scores.example"
        request = honest(harness, await a_run(harness))
        raw = as_bytes(request, "scores.example")
        answers = await asyncio.gather(*(exchange(port, raw) for port in ports * 25))
        assert {202} == {answer.status for answer in answers}
        assert 1 == sum("Idempotency-Replayed" not in answer.headers for answer in answers)
        assert 1 == len({answer.raw for answer in answers})
        assert 1 == await rows(harness)


async def test_S20_a_forgery_with_a_victims_nonce_does_not_lock_the_victim_out(harness: Harness):
    """Nothing is burnt by what was not proven: after the forgery the victim's own request passes."""
    run = await a_run(harness)
    forged = honest(harness, run, OTHER_CLAIM, nonce=NONCE, key=bytes(32))
    await refuse(harness, forged, INVALID)
    await accept(harness, honest(harness, run, nonce=NONCE))


async def test_S22_a_captured_request_replayed_after_flushall_adds_no_row(
    harness: Harness, valkey: ValkeyServer
):
    """The ledger, not Redis, knows what was submitted."""
    request = honest(harness, await a_run(harness))
    first = await accept(harness, request)
    with valkey.client() as client:
        client.flushall()
    again = await harness.send(request)
    assert ("true", first.raw) == (again.headers["Idempotency-Replayed"], again.raw)
    assert 1 == await rows(harness)


def unknown(keyid: str) -> str:
    """A key id of the same form that was never issued."""
    return ("B" if keyid[-20] == "A" else "A").join([keyid[:-20], keyid[-19:]])


def without_date(answer: Answer) -> tuple[Any, ...]:
    fields = {name: value for name, value in answer.headers.items() if name != "Date"}
    return answer.status, fields, answer.raw


async def test_S24_unknown_keys_and_wrong_signatures_look_and_cost_alike(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The answers are the same byte for byte, and behind them the same steps were taken."""
    steps: list[str] = []

    def counted(name: str, call: Callable[..., Any], *args: Any) -> Any:
        steps.append(name)
        return call(*args)

    for where, name in (
        (hmac, "digest"),
        (hmac, "compare_digest"),
        (tickets.Tickets, "read"),
        (signatures, "build_base"),
    ):
        monkeypatch.setattr(where, name, partial(counted, name, getattr(where, name)))
    run = await a_run(harness)
    bad_mac = honest(harness, run, key=bytes(32))
    no_such_key = honest(harness, run, keyid=unknown(run.info["ticket"]), key=bytes(32))
    raws = [as_bytes(request, harness.authority) for request in (bad_mac, no_such_key)]
    seen = []
    for raw in raws:
        steps.clear()
        answer = await exchange(harness.authority, raw)
        seen.append((without_date(answer), tuple(steps)))
    assert 401 == seen[0][0][0]
    assert seen[0] == seen[1]


async def test_S24_unknown_servers_and_wrong_signatures_look_and_cost_alike(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The same holds for registered keys: one Ed25519 verification each, and one answer."""
    await registered(harness)
    verify, verified = signatures.verify_ed25519, []

    def counted(*args: Any) -> bool:
        verified.append(args)
        return verify(*args)

    monkeypatch.setattr(signatures, "verify_ed25519", counted)
    stranger = Ed25519PrivateKey.generate()
    answers = [
        await refuse(harness, harness.server_signed(stranger, key_id, ENTRY, board="vault"), INVALID)
        for key_id in ("eu-1", "eu-2")
    ]
    assert without_date(answers[0]) == without_date(answers[1])
    assert 2 == len(verified)


def spoiled(signature: str) -> dict[str, str]:
    """The base64 of a signature, wrong in one way each."""
    text = signature.removeprefix("sg=:").removesuffix(":")
    return {
        "truncated": text[:-5],
        "whitespace": f"{text[:9]} {text[9:]}",
        "url-safe": "-_" + text[2:],
        "no padding": text.rstrip("="),
        "trailing bits": text[:-2] + chr(ord(text[-2]) + 1) + "=",
        "after padding": text + "AAAA",
        "empty": "",
    }


async def test_S25_a_signature_that_is_not_canonical_base64_is_malformed(harness: Harness):
    """One signature has one spelling."""
    request = honest(harness, await a_run(harness))
    for text in spoiled(request.headers["Signature"]).values():
        await refuse(harness, with_header(request, "Signature", f"sg=:{text}:"), MALFORMED)
    huge = with_header(request, "Signature", f"sg=:{'A' * 2**20}:")
    await refuse(harness, huge, (431, "headers-too-large"))
    await accept(harness, request)


async def test_S27_a_body_in_chunks_is_signed_by_a_field_and_never_by_a_trailer(harness: Harness):
    """Chunks and their extensions change nothing; a digest that comes after the body was not there to be signed."""
    run = await a_run(harness)
    request = honest(harness, run)
    digest = request.headers["Content-Digest"]

    def in_chunks(request: Request, extension: str = "", trailer: str = "") -> bytes:
        head = as_bytes(request, harness.authority, body=b"", headers={"Transfer-Encoding": "chunked"})
        head = head.replace(b"Content-Length: 0\r\n", b"")
        chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(each), extension.encode(), each) for each in halves)
        return head + chunks + f"0\r\n{trailer}\r\n".encode()

    halves = (request.body[:7], request.body[7:])
    trailer = f"Content-Digest: {digest}\r\n"
    await refuse(harness, in_chunks(with_header(request, "Content-Digest", None), trailer=trailer), COVERAGE)
    other = f"Content-Digest: {content_digest_of(b'{}')}\r\n"
    answer = await exchange(harness.authority, in_chunks(request, ";a=b", other))
    assert 202 == answer.status, answer.raw
    assert 1 == await rows(harness)


async def test_S29_a_signed_field_in_two_readings_does_not_pass(harness: Harness):
    """Sent twice, under the name of a derived component, after a space, or folded: 400, and the plain one passes."""
    request = honest(harness, await a_run(harness))
    raw = as_bytes(request, harness.authority)
    digest = f"Content-Digest: {request.headers['Content-Digest']}\r\n".encode()
    kind = b"Content-Type: application/json\r\n"
    for hostile in (
        raw.replace(kind, kind + b"Content-Type: text/plain\r\n"),
        raw.replace(kind, b"Content-Type: text/plain\r\n" + kind),
        raw.replace(kind, b"@method: GET\r\n" + kind),
        raw.replace(digest, b" " + digest),
        raw.replace(digest, digest.replace(b": ", b":\r\n ")),
        raw.replace(digest, digest.replace(b": ", b" : ")),
    ):
        assert raw != hostile
        with about(hostile):
            await refuse(harness, hostile, MALFORMED, (400, "malformed-request"))
    await accept(harness, request)


@pytest.mark.parametrize("coding", ["gzip", "gzip-decoded", "foo", "broken"])
async def test_S28_content_codings_are_refused(harness: Harness, coding: str):
    """Whatever the digest is over, a body with a content coding is refused before anything is made of it."""
    run = await a_run(harness)
    plain = json.dumps(CLAIM).encode()
    packed = {"gzip": gzip.compress(plain), "broken": b"\x1f\x8bbroken", "gzip-decoded": plain}.get(
        coding, plain
    )
    request = honest(harness, run, raw=packed)
    if coding == "gzip-decoded":
        request = replace(request, body=gzip.compress(plain))
    encoding = "foo" if coding == "foo" else "gzip"
    await refuse(
        harness, with_header(request, "Content-Encoding", encoding), (415, "content-encoding-not-allowed")
    )
    await accept(harness, honest(harness, run))


async def test_S30_requests_meant_for_another_deployment_are_refused(harness: Harness):
    """Another host, an absolute target, two hosts and none are refused; so is what was signed for elsewhere."""
    run = await a_run(harness)
    request = honest(harness, run)
    misdirected = (421, "misdirected")
    await refuse(harness, as_bytes(request, "scores.example"), misdirected)
    absolute = f"POST http://evil.example{request.path} HTTP/1.1"
    await refuse(harness, as_bytes(request, harness.authority, line=absolute), misdirected)
    ours = f"POST http://{harness.authority}{request.path} HTTP/1.1"
    await refuse(harness, as_bytes(request, harness.authority, line=ours), misdirected)
    doubled = as_bytes(request, f"{harness.authority}\r\nHost: evil.example")
    await refuse(harness, doubled, (400, "malformed-request"))
    await refuse(harness, signed_as(harness, run, authority="staging.example"), INVALID)
    await accept(harness, request)


async def test_S30_a_request_captured_on_staging_is_nothing_in_production(settings: Settings):
    """A deployment with another master key knows neither the ticket nor the key, even under the same name."""
    hosts = {"hosts": ("scores.example",)}
    staging_settings = settings.model_copy(
        update=hosts | {"data_dir": settings.data_dir / "s", "bind": "127.0.0.1:0"}
    )
    production_settings = settings.model_copy(update=hosts)
    async with (
        running_harness(staging_settings) as staging,
        running_harness(production_settings) as production,
    ):
        staging.session.headers["Host"] = "scores.example"
        run = await a_run(staging)
        staging.authority = "scores.example"
        captured = as_bytes(honest(staging, run), "scores.example")
        await refuse(production, captured, INVALID)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/boards%2Fsprint/scores",
        "/v1/boards/other/../sprint/scores",
        "/v1/boards/./sprint/scores",
        "//v1/boards/sprint/scores",
        "/v1//boards/sprint/scores",
        "/v1/boards/sprint;x/scores",
        "/v1/boards/spr%69nt/scores",
        "/v1/boards/spr%69NT/scores",
        "/v1/boards/sprint/scores/",
        "/V1/boards/sprint/scores",
        "/v1/boards/SPRINT/scores",
        "/v1/boards/sprint/scores%00",
        "/v1/boards/sprint/scores#x",
        "/v1/boards/sprint\\scores",
    ],
)
async def test_S31_another_spelling_of_a_path_names_nothing(harness: Harness, path: str):
    """A path has one spelling; a request never reaches another board than the one that was signed."""
    run = await a_run(harness)
    request = honest(harness, run)
    line = f"POST {path} HTTP/1.1"
    await refuse(
        harness,
        as_bytes(request, harness.authority, line=line),
        (404, "not-found"),
        (400, "malformed-request"),
    )
    signed_so = replace(signed_as(harness, run, path=path), path=path)
    await refuse(harness, signed_so, (404, "not-found"), (400, "malformed-request"))
    await accept(harness, request)


async def test_S31_a_long_path_costs_no_more_than_its_length(harness: Harness):
    """Refusing a path takes linear time: eight thousand characters are answered at once."""
    path = "/" + "a" * 4000 + "/" + "b" * 4000 + "%"
    line = f"GET {path} HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n"
    started = time.process_time()
    answer = await exchange(harness.authority, line.encode())
    assert time.process_time() - started < 0.5
    assert (404, "not-found") == (answer.status, answer.problem)


async def test_S32_a_query_that_was_not_signed_is_invalid(harness: Harness):
    """The query is covered: adding, doubling or emptying it breaks the signature, and it selects no board."""
    run = await a_run(harness)
    request = honest(harness, run)
    for query in ("?board=other", "?board=sprint&board=other", "?a", "??"):
        line = f"POST {request.path}{query} HTTP/1.1"
        await refuse(harness, as_bytes(request, harness.authority, line=line), INVALID)
    await accept(harness, request)


async def test_S33_early_data_is_refused(harness: Harness):
    """A request that a proxy took as TLS early data could be a replay: 425, and later without the mark 202."""
    request = honest(harness, await a_run(harness))
    await refuse(harness, with_header(request, "Early-Data", "1"), (425, "too-early"))
    await accept(harness, request)


SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]
NOT_CANONICAL = [
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@pytest.mark.parametrize("point", [*SMALL_ORDER, *NOT_CANONICAL])
async def test_S35_a_key_that_anybody_can_sign_for_is_not_registered(harness: Harness, point: str):
    """Points of small order and encodings that are not canonical are refused at registration, so nothing is forged."""
    raw = bytes.fromhex(point)
    with pytest.raises(ServerKeyError):
        await register(harness.edge.settings, "weak", base64.b64encode(raw).decode(), ("*",))
    forged = harness.server_signed(Ed25519PrivateKey.generate(), "weak", ENTRY, board="vault")
    signature = base64.b64encode(raw + bytes(32)).decode()
    await refuse(harness, with_header(forged, "Signature", f"sg=:{signature}:"), INVALID)


async def test_one_connection_carries_refusals_and_acceptances(harness: Harness):
    """A refusal that read its body leaves the connection usable for the next request."""
    run = await a_run(harness)
    request = honest(harness, run)
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(honest(harness, run, key=bytes(32)), harness.authority))
        assert 401 == (await connection.answer()).status
        await connection.send(as_bytes(request, harness.authority))
        assert 202 == (await connection.answer()).status
