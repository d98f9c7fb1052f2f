"""Our verifier against the library `http-message-signatures`: what one accepts the other accepts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import (
    HTTPMessageSigner,
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    HTTPSignatureKeyResolver,
    InvalidSignature,
)
from http_message_signatures.algorithms import ED25519 as ORACLE_ED25519
from http_message_signatures.algorithms import HMAC_SHA256 as ORACLE_HMAC_SHA256
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.auth.signatures import (
    COMPONENTS,
    ED25519,
    HMAC_SHA256,
    Tag,
    check_algorithm,
    check_content_digest,
    content_digest_of,
    parse,
    signature_base,
    verify_ed25519,
    verify_hmac_sha256,
)
from gateway.edge.auth.signing import Draft, sign_ed25519, sign_hmac_sha256
from gateway.edge.problems import Problem

KEY = bytes(range(32))
PRIVATE_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64)))
KEYS: dict[Tag, bytes | Ed25519PrivateKey] = {Tag.RUN: KEY, Tag.SERVER: PRIVATE_KEY}
ALGORITHMS: dict[Tag, type[HTTPSignatureAlgorithm]] = {
    Tag.RUN: ORACLE_HMAC_SHA256,
    Tag.SERVER: ORACLE_ED25519,
}


@dataclass
class Request:
    """A request as both verifiers read it; `status_code` is absent, so the library takes it for a request."""

    method: str
    authority: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def url(self) -> str:
        """The target as an absolute URL."""
        return f"http://{self.authority}{self.path}{self.query}"

    def with_header(self, name: str, value: str) -> Request:
        """The same request with one header field exchanged."""
        return replace(self, headers=self.headers | {name: value})


class OneKey(HTTPSignatureKeyResolver):
    """The key record of the one key id that signs."""

    def __init__(self, keyid: str, tag: Tag) -> None:
        self.keyid = keyid
        self.key = KEYS[tag]

    def resolve_private_key(self, key_id: str) -> bytes | Ed25519PrivateKey:
        """The key to sign with."""
        return self.key

    def resolve_public_key(self, key_id: str) -> Any:
        """The key to verify with, None for any other id."""
        if key_id != self.keyid:
            return None
        return self.key.public_key() if isinstance(self.key, Ed25519PrivateKey) else self.key


class TimelessVerifier(HTTPMessageVerifier):
    """The library without its clock: time is tested elsewhere."""

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        """Accepts every time."""


def oracle_accepts(request: Request, keyid: str, tag: Tag) -> bool:
    """Whether the library accepts the request under our profile."""
    verifier = TimelessVerifier(signature_algorithm=ALGORITHMS[tag], key_resolver=OneKey(keyid, tag))
    try:
        verifier.verify(
            request,
            expect_tag=tag.value,
            require_components=[f'"{name}"' for name in COMPONENTS],
            body=request.body,
            max_age=None,
        )
    except InvalidSignature:
        return False
    return True


def gateway_accepts(request: Request, keyid: str, tag: Tag) -> bool:
    """Whether we accept the request."""
    headers = request.headers
    try:
        parsed = parse(headers.get("Signature-Input"), headers.get("Signature"))
        check_algorithm(parsed, HMAC_SHA256 if tag is Tag.RUN else ED25519)
        base = signature_base(
            parsed,
            method=request.method,
            authority=request.authority,
            path=request.path,
            query=request.query,
            content_type=headers.get("Content-Type"),
            content_digest=headers.get("Content-Digest"),
        )
        check_content_digest(headers["Content-Digest"], request.body)
    except (Problem, KeyError):
        return False
    return (parsed.tag, parsed.keyid) == (tag, keyid) and verifies(tag, base, parsed.signature)


def verifies(tag: Tag, base: bytes, signature: bytes) -> bool:
    """Whether the signature is one of the tag's key."""
    if tag is Tag.RUN:
        return verify_hmac_sha256(KEY, base, signature)
    return verify_ed25519(PRIVATE_KEY.public_key(), base, signature)


SEGMENT = st.from_regex(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@\-]|%[0-9A-F]{2}){1,12}", fullmatch=True)
DRAFTS = st.builds(
    Draft,
    method=st.sampled_from(["POST", "PUT", "DELETE"]),
    authority=st.from_regex(r"[a-z][a-z0-9\-]{0,10}(?:\.[a-z]{2,4})?(?::(?:8080|8443|1))?", fullmatch=True),
    path=st.lists(SEGMENT, min_size=1, max_size=5).map(lambda segments: "/" + "/".join(segments)),
    query=st.from_regex(r"\?(?:[A-Za-z0-9=&/?~.]|%[0-9A-F]{2}){0,20}", fullmatch=True),
    content_type=st.sampled_from(
        ["application/json", "application/json; charset=utf-8", "application/x-ndjson"]
    ),
    body=st.binary(min_size=1, max_size=60),
    created=st.integers(1, 4_000_000_000),
    expires=st.integers(1, 4_000_000_000),
    nonce=st.from_regex(r"[A-Za-z0-9_\-]{16,64}", fullmatch=True),
    keyid=st.from_regex(r"[!#-\[\]-~]{1,40}", fullmatch=True),
    tag=st.sampled_from([tag.value for tag in Tag]),
)


def signed(draft: Draft) -> Request:
    """The draft signed by our own code."""
    headers = sign_hmac_sha256(KEY, draft) if draft.tag == Tag.RUN.value else sign_ed25519(PRIVATE_KEY, draft)
    return Request(draft.method, draft.authority, draft.path, draft.query, headers, draft.body)


def in_params(old: str, new: str) -> Callable[[Request], Request]:
    """Exchanges one piece of Signature-Input."""
    return lambda request: request.with_header(
        "Signature-Input", request.headers["Signature-Input"].replace(old, new, 1)
    )


def with_bit_flipped(request: Request) -> Request:
    """One bit of the signature flipped."""
    raw = bytearray(b64decode(request.headers["Signature"].removeprefix("sg=:").removesuffix(":")))
    raw[3] ^= 1
    return request.with_header("Signature", f"sg=:{b64encode(raw).decode('ascii')}:")


def without(name: str) -> Callable[[Request], Request]:
    """Leaves one header field out."""
    return lambda request: replace(request, headers={k: v for k, v in request.headers.items() if k != name})


def without_alg(request: Request) -> Request:
    """The parameter `alg` left out."""
    algorithm = HMAC_SHA256 if HMAC_SHA256 in request.headers["Signature-Input"] else ED25519
    return in_params(f';alg="{algorithm}"', "")(request)


MUTATIONS: dict[str, Callable[[Request], Request]] = {
    "method": lambda request: replace(request, method=request.method + "X"),
    "authority": lambda request: replace(request, authority="x" + request.authority),
    "path": lambda request: replace(request, path=request.path + "/"),
    "query": lambda request: replace(request, query=request.query + "a"),
    "content type": lambda request: request.with_header(
        "Content-Type", request.headers["Content-Type"] + "x"
    ),
    "digest": lambda request: request.with_header("Content-Digest", content_digest_of(b"\0" + request.body)),
    "body": lambda request: replace(request, body=b"\0" + request.body),
    "body and digest": lambda request: replace(request, body=b"\0" + request.body).with_header(
        "Content-Digest", content_digest_of(b"\0" + request.body)
    ),
    "created": in_params(";created=", ";created=1"),
    "expires": in_params(";expires=", ";expires=1"),
    "nonce": in_params('nonce="', 'nonce="a'),
    "keyid": in_params('keyid="', 'keyid="a'),
    "alg": in_params(';alg="', ';alg="a'),
    "alg left out": without_alg,
    "tag": in_params(';tag="', ';tag="a'),
    "order": in_params('"@method" "@authority"', '"@authority" "@method"'),
    "component left out": in_params('"@query" ', ""),
    "component twice": in_params('"@query" ', '"@query" "@query" '),
    "component parameter": in_params('"@query" ', '"@query";req '),
    "unknown component": in_params('"@query" ', '"@query" "@foo" '),
    "parameters listed": in_params('"@query" ', '"@query" "@signature-params" '),
    "unknown parameter": in_params(";nonce", ";foo=1;nonce"),
    "signature bit": with_bit_flipped,
    "label in one field": lambda request: request.with_header(
        "Signature", "x" + request.headers["Signature"]
    ),
    "no signature": without("Signature"),
    "no input": without("Signature-Input"),
    "no digest": without("Content-Digest"),
    "no content type": without("Content-Type"),
}


@settings(max_examples=60, deadline=None)
@given(DRAFTS)
def test_what_we_sign_both_accept_and_every_single_change_both_refuse(draft: Draft) -> None:
    """For each generated request, all the changes in turn; each of them really changes something."""
    request, tag = signed(draft), Tag(draft.tag)
    assert gateway_accepts(request, draft.keyid, tag)
    assert oracle_accepts(request, draft.keyid, tag)
    for name, mutate in MUTATIONS.items():
        changed = mutate(request)
        assert changed != request, name
        assert not gateway_accepts(changed, draft.keyid, tag), name
        assert not oracle_accepts(changed, draft.keyid, tag), name


@settings(max_examples=60, deadline=None)
@given(draft=DRAFTS, order=st.permutations(COMPONENTS), include_alg=st.booleans())
def test_what_the_library_signs_we_accept(*, draft: Draft, order: list[str], include_alg: bool) -> None:
    """Any order of the six, with and without `alg`, and in the library's own order of parameters."""
    tag = Tag(draft.tag)
    fields = {"Content-Type": draft.content_type, "Content-Digest": content_digest_of(draft.body)}
    request = Request(draft.method, draft.authority, draft.path, draft.query, fields, draft.body)
    signer = HTTPMessageSigner(signature_algorithm=ALGORITHMS[tag], key_resolver=OneKey(draft.keyid, tag))
    signer.sign(
        request,
        key_id=draft.keyid,
        created=datetime.fromtimestamp(draft.created, tz=UTC),
        expires=datetime.fromtimestamp(draft.expires, tz=UTC),
        nonce=draft.nonce,
        tag=draft.tag,
        include_alg=include_alg,
        covered_component_ids=order,
        use_existing_digest=True,
    )
    assert oracle_accepts(request, draft.keyid, tag)
    assert gateway_accepts(request, draft.keyid, tag)


@pytest.mark.parametrize("tag", Tag)
def test_S12_the_library_too_refuses_the_algorithm_of_the_other_key(tag: Tag) -> None:
    """A request with the other tag's algorithm is refused by both."""
    other = next(candidate for candidate in Tag if candidate is not tag)
    draft = Draft("POST", "localhost", "/", b"{}", 1, 2, "n" * 16, "k", tag.value)
    request = signed(draft)
    assert gateway_accepts(request, "k", tag)
    assert oracle_accepts(request, "k", tag)
    assert not gateway_accepts(request, "k", other)
    assert not oracle_accepts(request, "k", other)
