"""The vectors in clients/vectors: made by one generator, and passed by the edge and by an independent library."""

from __future__ import annotations

import json
from base64 import b64decode
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import ED25519 as LIBRARY_ED25519
from http_message_signatures.algorithms import HMAC_SHA256 as LIBRARY_HMAC_SHA256

from clients.vectors import make
from clients.vectors.requests import SKEW_S
from gateway.edge.auth.signatures import (
    ED25519,
    HMAC_SHA256,
    Tag,
    check_algorithm,
    check_content_digest,
    check_time,
    invalid_signature,
    load_server_public_key,
    parse,
    signature_base,
    verify_ed25519,
    verify_hmac_sha256,
)
from gateway.edge.problems import Problem
from replay.recording import RecordingError, decode, encode, pack_inputs
from tests.clients.driver import Driver

Vector = dict[str, Any]


def load(name: str) -> list[Vector]:
    vectors: list[Vector] = json.loads((make.FOLDER / name).read_text("ascii"))
    return vectors


@pytest.mark.parametrize("name", make.FILES)
def test_the_committed_vectors_are_those_of_the_generator(name: str):
    """To the byte; `python -m clients.vectors.make` writes them."""
    assert make.text_of(make.FILES[name]()) == (make.FOLDER / name).read_text("ascii")


def test_there_are_vectors_on_every_edge_of_a_block_of_the_hashes():
    """A client with a SHA of its own errs there: at the last byte of a block, and where the padding needs another."""
    bases = [(each["algorithm"], len(each["base"])) for each in load("signatures.json")]
    runs = {size % 64 for algorithm, size in bases if algorithm == HMAC_SHA256}
    assert {54, 55, 56, 63, 0, 1} <= runs
    for before in (32, 64):  # RFC 8032, 5.1.6: what SHA-512 reads ahead of the message
        assert {111, 112, 127, 0} <= {
            (size + before) % 128 for algorithm, size in bases if algorithm == ED25519
        }
    assert {55, 56, 63, 0, 1} <= {len(b64decode(each["body"])) % 64 for each in load("signatures.json")}


def verdict(vector: Vector) -> str:
    """The name of the problem with which the edge's verifier refuses a request, "" if it accepts it."""
    try:
        parsed = parse(vector["signature_input"], vector["signature"])
        fields = ("method", "authority", "path", "content_type", "content_digest")
        parts = {field: vector[field] for field in fields}
        base = signature_base(parsed, query=f"?{vector['query']}", **parts)
        key = b64decode(vector["known_key"])
        is_run = parsed.tag is Tag.RUN
        if parsed.keyid != vector["known_keyid"] or is_run != (vector["algorithm"] == HMAC_SHA256):
            raise invalid_signature()
        if not (
            verify_hmac_sha256(key, base, parsed.signature)
            if is_run
            else verify_ed25519(load_server_public_key(key), base, parsed.signature)
        ):
            raise invalid_signature()
        check_algorithm(parsed, vector["algorithm"])
        check_time(parsed, vector["now"] + 0.999, SKEW_S)
        check_content_digest(vector["content_digest"], b64decode(vector["body"]))
    except Problem as problem:
        return problem.kind.value[0]
    return ""


def test_the_edge_says_of_each_request_what_its_vector_does():
    """Accepted, or refused with the problem of the table in docs/reference/signatures.md."""
    vectors = load("requests.json")
    assert {each["name"]: each["problem"] for each in vectors} == {
        each["name"]: verdict(each) for each in vectors
    }
    known = {"", "missing", "malformed", "coverage", "invalid", "expired"}
    assert {name and f"signature-{name}" for name in known} == {each["problem"] for each in vectors}


def test_the_edge_accepts_each_signature():
    """With the key of its vector, at the second of its beginning, and with no part changed."""
    for vector in load("signatures.json"):
        known = {"known_key": vector["public"] or vector["key"], "known_keyid": vector["keyid"]}
        whole = {**vector, **known, "now": vector["created"]}
        assert verdict(whole) == "", vector["name"]
        for part in ("method", "authority", "path", "query", "content_type"):
            assert verdict({**whole, part: f"{whole[part]}x"}) == "signature-invalid", (vector["name"], part)


class OneKey(HTTPSignatureKeyResolver):
    """The key of a vector, whatever the id."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector

    def resolve_public_key(self, key_id: str) -> bytes | Ed25519PublicKey:
        public = b64decode(self.vector["public"])
        return Ed25519PublicKey.from_public_bytes(public) if public else b64decode(self.vector["key"])

    def resolve_private_key(self, key_id: str) -> bytes | Ed25519PrivateKey:
        raise NotImplementedError


class TimelessVerifier(HTTPMessageVerifier):
    """The library without its clock."""

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        """Accepts every time."""


def test_an_independent_library_accepts_each_signature():
    """http-message-signatures, which shares no code with any client or with the gateway."""
    for vector in load("signatures.json"):
        names = ("Content-Type", "Content-Digest", "Signature-Input", "Signature")
        headers = {name: vector[name.lower().replace("-", "_")] for name in names}
        query = vector["query"] and f"?{vector['query']}"
        url = f"http://{vector['authority']}{vector['path']}{query}"
        request = SimpleNamespace(
            method=vector["method"], url=url, headers=headers, body=b64decode(vector["body"])
        )
        algorithm = LIBRARY_ED25519 if vector["public"] else LIBRARY_HMAC_SHA256
        verifier = TimelessVerifier(signature_algorithm=algorithm, key_resolver=OneKey(vector))
        verifier.verify(request, expect_tag=vector["tag"], body=request.body, max_age=None)


def verdict_on_digest(vector: Vector) -> str:
    try:
        check_content_digest(vector["content_digest"], b64decode(vector["body"]))
    except Problem as problem:
        return problem.kind.value[0]
    return ""


def test_the_edge_reads_each_digest_as_its_vector_does():
    """Holds, does not hold, or cannot be read."""
    vectors = load("digests.json")
    told = {each["name"]: each["problem"] for each in vectors}
    assert told == {each["name"]: verdict_on_digest(each) for each in vectors}


def test_the_decoder_reads_each_recording_and_gives_its_bytes_again():
    """The decoder of workers, which refuses every other encoding."""
    for vector in load("recordings.json"):
        recorded = decode(bytes.fromhex(vector["recording"]), maximum_ticks=vector["ticks"])
        words = chain.from_iterable(repeat(word, length) for length, word in vector["inputs"])
        assert pack_inputs(words) == recorded.inputs, vector["name"]
        hashes = [int(each, 16) for each in vector["checkpoints"]]
        made = encode(recorded.inputs, hashes, vector["checkpoint_ticks"])
        assert vector["recording"] == made.hex(), vector["name"]


def test_the_decoder_refuses_each_malformed_recording():
    """For the reason that the vector names, which is one of docs/reference/recording.md."""
    for vector in load("malformed.json"):
        recording, most = bytes.fromhex(vector["recording"]), vector["maximum_ticks"]
        with pytest.raises(RecordingError):
            pytest.fail(f"{vector['name']} was read as {decode(recording, maximum_ticks=most)}")


def test_a_client_signs_each_vector_to_the_byte(driver: Driver):
    """Digest, base, Signature-Input and Signature."""
    members = ("method", "authority", "path", "query", "content_type", "body", "created", "expires", "nonce")
    lacks = driver.language.lacks
    for vector in load("signatures.json"):
        if vector["algorithm"] in lacks:
            continue
        told = {name: vector[name] for name in (*members, "keyid", "tag", "algorithm", "key")}
        signed = driver.ask("sign", alg=vector["alg"] or None, **told)
        assert vector["base"] == signed["base"], vector["name"]
        names = ("Content-Type", "Content-Digest", "Signature-Input", "Signature")
        assert {name: vector[name.lower().replace("-", "_")] for name in names} == signed["headers"], vector[
            "name"
        ]
        digest = driver.ask("content_digest", body=vector["body"])
        assert {"content_digest": vector["content_digest"]} == digest, vector["name"]


@pytest.mark.parametrize("do", ["encode_recording", "record"])
def test_a_client_encodes_each_recording_and_refuses_what_is_none(driver: Driver, do: str):
    """At once, and tick by tick with the recorder."""
    members = ("inputs", "checkpoints", "checkpoint_ticks")
    for vector in load("recordings.json"):
        made = driver.bytes_of(do, "recording", **{name: vector[name] for name in members})
        assert vector["recording"] == made.hex(), vector["name"]
    for vector in load("unencodable.json"):
        error = driver.refusal(do, **{name: vector[name] for name in members})
        assert error.reason == "invalid", vector["name"]


def test_a_client_writes_each_claim_to_the_byte(driver: Driver):
    """The body of a submission, whose digest is signed."""
    for vector in load("claims.json"):
        told = {name: vector[name] for name in ("score", "ticks", "stats")}
        told |= {name: vector[name] for name in ("recording", "committed") if vector[name]}
        body = driver.bytes_of("claim", "body", **told)
        assert b64decode(vector["body"]) == body, vector["name"]


def test_the_readme_counts_the_vectors():
    """As does the reference."""
    count = sum(len(load(name)) for name in make.FILES)
    assert (make.FOLDER / "README.md").read_text().split("\n")[2].startswith(f"{count} cases")
    assert (
        f"has {count} cases" in (make.FOLDER.parents[1] / "docs" / "reference" / "signatures.md").read_text()
    )
