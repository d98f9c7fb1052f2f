"""Why a signature does not fit, told from it alone: bases written by hand with one mistake each, and what is told of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.signature_diagnosis import (
    FITS,
    Mistake,
    base_wanted,
    checks_of_run,
    checks_of_server,
    fault_of_genuine,
    fault_of_input,
    mistake_in,
)
from gateway.edge.auth.signatures import COMPONENTS, ParsedSignature, Tag
from gateway.edge.auth.signed_request import SignedParts

KEY = bytes(range(32))
PARAMS = '("@method" "@authority" "@path" "@query" "content-type" "content-digest");created=1;expires=2;nonce="n";keyid="k";tag="scoregate-run"'
PARTS: SignedParts = {
    "method": "POST",
    "authority": "play.example:8443",
    "path": "/v1/a%20b",
    "query": "?x=%2F",
    "content_type": "application/json; v=1",
    "content_digest": "sha-256=:AAAA:",
}
VALUES = {
    '"@method"': "POST",
    '"@authority"': "play.example:8443",
    '"@path"': "/v1/a%20b",
    '"@query"': "?x=%2F",
    '"content-type"': "application/json; v=1",
    '"content-digest"': "sha-256=:AAAA:",
    '"@signature-params"': PARAMS,
}


def parsed(signature: bytes = b"", **changes: Any) -> ParsedSignature:
    facts = {"label": "sig", "components": COMPONENTS, "params_text": PARAMS, "created": 1, "expires": 2}
    named = {"nonce": "n", "keyid": "k", "tag": Tag.RUN, "alg": None, "signature": signature}
    return ParsedSignature(**{**facts, **named, **changes})


def base(**changed: str) -> str:
    """The text that a signer has to sign, with some values changed."""
    values = VALUES | {f'"{name}"': value for name, value in changed.items()}
    return "\n".join(f"{name}: {value}" for name, value in values.items())


def told(text: str, key: bytes = KEY, parts: SignedParts = PARTS, *others: str) -> Mistake | None:
    """What is said of a signature that somebody made over a text by HMAC."""
    signature = hmac.digest(key, text.encode(), hashlib.sha256)
    return mistake_in(parsed(signature), parts, checks_of_run(KEY, signature), others)


@pytest.mark.parametrize(
    ("component", "signed"),
    [
        ("@method", "post"),
        ("@authority", "play.example"),
        ("@authority", "play.example:80"),
        ("@authority", "play.example:443"),
        ("@authority", "http://play.example:8443"),
        ("@authority", "https://play.example:8443"),
        ("@path", "/v1/a%20b?x=%2F"),
        ("@path", "/v1/a%20b/"),
        ("@path", "/v1/a b"),
        ("@path", "http://play.example:8443/v1/a%20b?x=%2F"),
        ("@path", "https://play.example:8443/v1/a%20b?x=%2F"),
        ("@path", "v1/a%20b?x=%2F"),
        ("@query", ""),
        ("@query", "x=%2F"),
        ("@query", "?x=/"),
        ("content-type", "application/json"),
        ("content-type", "application/json; charset=utf-8"),
        ("content-type", "application/json;charset=utf-8"),
        ("content-digest", ":AAAA:"),
        ("content-digest", "AAAA"),
    ],
)
def test_a_component_that_was_signed_otherwise_is_named(component: str, signed: str):
    """With what to write, and what was signed."""
    here = VALUES[f'"{component}"']
    expected = Mistake(f'"{component}"', f"write `{here}`; signed was `{signed}`")
    assert expected == told(base(**{component: signed}))


def test_the_path_of_a_request_without_a_query_has_no_question_mark():
    """An empty query is signed as `?`, which is part of no path. A host without a port is a host."""
    parts: SignedParts = {**PARTS, "query": "?", "path": "/v1/", "authority": "play.example"}
    plain = {"@query": "?", "@path": "/v1/", "@authority": "play.example"}
    assert FITS == told(base(**plain), KEY, parts)
    for component, signed in (
        ("@path", "v1/"),
        ("@path", "/v1"),
        ("@query", ""),
        ("@authority", "play.example:443"),
    ):
        mistake = told(base(**plain | {component: signed}), KEY, parts)
        assert Mistake(f'"{component}"', f"write `{plain[component]}`; signed was `{signed}`") == mistake


def test_other_names_of_an_edge_are_tried():
    """One by one, and no name that nobody gave."""
    text = base(**{"@authority": "inside:8080"})
    assert None is told(text)
    mistake = told(text, KEY, PARTS, "elsewhere", "inside:8080")
    assert Mistake('"@authority"', "write `play.example:8443`; signed was `inside:8080`") == mistake


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (base() + "\n", "write no line feed after the last line"),
        (base().replace("\n", "\r\n"), "end lines by a line feed alone, without a carriage return"),
        ((base() + "\n").replace("\n", "\r\n"), "end lines by a line feed alone, and the last by none"),
        (base().rpartition("\n")[0], 'sign the line `"@signature-params"` too'),
        (
            base().rpartition("\n")[0] + f'\n"@signature-params": sig={PARAMS}',
            'write `"@signature-params"` without the label of the signature',
        ),
        (
            "\n".join(f"{name[1:-1]}: {value}" for name, value in VALUES.items()),
            "write the names of components in double quotes",
        ),
    ],
)
def test_a_base_that_was_put_together_otherwise_is_explained(text: str, advice: str):
    """Its ends of lines, its last line, and its quotes."""
    assert Mistake("the text of the base", advice) == told(text)


def test_a_key_that_was_read_otherwise_is_explained():
    """Its text in base64, and its hex digits. What fits has no mistake, and two mistakes at once are not guessed."""
    text = Mistake("the key", "decode the run's `key` from base64: its text was used as the key")
    digits = Mistake("the key", "use the 32 bytes of the run's `key`: their hex digits were used")
    assert [FITS, text, digits, None] == [
        told(base(), key) for key in (KEY, base64.b64encode(KEY), KEY.hex().encode(), bytes(32))
    ]
    mistake = told(base(**{"@method": "post"}), KEY.hex().encode())
    assert mistake == Mistake('"@method"', "write `POST`; signed was `post`")
    assert None is told(base(**{"@method": "post", "@query": ""}))


def test_a_server_s_signature_is_checked_by_its_key():
    """By Ed25519; a value beyond ASCII is no guess."""
    private = Ed25519PrivateKey.generate()
    for changes, expected in (
        ({}, FITS),
        ({"@query": ""}, Mistake('"@query"', "write `?x=%2F`; signed was ``")),
        ({"@method": "PUT"}, None),
    ):
        signature = private.sign(base(**changes).encode())
        checks = checks_of_server(private.public_key(), signature)
        assert expected == mistake_in(parsed(signature), PARTS, checks, ["é"])


@pytest.mark.parametrize(
    ("length", "tag", "alg", "fault"),
    [
        (32, Tag.RUN, None, None),
        (32, Tag.RUN, "hmac-sha256", None),
        (32, Tag.RUN, "ed25519", 'alg: write "hmac-sha256", or leave it out'),
        (32, Tag.SERVER, None, 'tag: write "scoregate-run", as the key is one of a run'),
        (64, Tag.SERVER, None, None),
        (64, Tag.SERVER, "ed25519", None),
        (64, Tag.SERVER, "hmac-sha256", 'alg: write "ed25519", or leave it out'),
        (64, Tag.RUN, "ed25519", 'tag: write "scoregate-server", as the key is one of a server'),
    ],
)
def test_a_signature_that_fits_may_still_say_the_wrong_kind(
    length: int, tag: Tag, alg: str | None, fault: str | None
):
    """Runs have HMAC with SHA-256, and servers have Ed25519: the length of the signature tells which it is."""
    assert fault == fault_of_genuine(parsed(bytes(length), tag=tag, alg=alg))


def test_the_base_that_is_wanted_names_what_is_missing():
    """In the order of our own clients, with the form of its parameters."""
    form = PARAMS.partition(";")[0] + ';created=...;expires=...;nonce="...";keyid="...";tag="..."'
    missing = {
        "content-type": "(the request has no such field)",
        "content-digest": "(the request has no such field)",
    }
    bare: SignedParts = {**PARTS, "content_type": None, "content_digest": None}
    assert base(**{"@signature-params": form}) == base_wanted(PARTS)
    assert base(**{"@signature-params": form} | missing) == base_wanted(bare)


ALL = PARAMS.partition(";")[0]
GIVEN = 'created=1;expires=2;nonce="nnnnnnnnnnnnnnnn";keyid="k";tag="scoregate-run"'


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        (f"sig={ALL};{GIVEN}", None),
        (f'sig={ALL};{GIVEN};alg="hmac-sha256"', None),
        (None, None),
        ("", None),
        ("sig=(", None),
        (f'sig=("@method" "@path" "content-digest");{GIVEN}', "`sig` does not sign @authority, @query, content-type"),
        (f'mine={ALL[:-1]} "date" "host");{GIVEN}', "`mine` signs date, host, which is none of the six components"),
        (f"sig={ALL};{GIVEN.replace('created=1;', '')}", "the parameter `created` of `sig` is missing, unknown or of another form"),
        (f"sig={ALL};{GIVEN.partition(';tag=')[0]}", "the parameter `tag` of `sig` is missing, unknown or of another form"),
        (f"sig={ALL};{GIVEN};more=1", "the parameter `more` of `sig` is missing, unknown or of another form"),
        (f"sig={ALL};{GIVEN.replace('expires=2', 'expires=soon')}", "the parameter `expires` of `sig` is missing, unknown or of another form"),
        (f'sig={ALL};{GIVEN}, other=("@method");{GIVEN}', "`other` does not sign @authority, @path, @query, content-type, content-digest"),
    ],
)  # fmt: skip
def test_a_signature_input_that_lacks_something_is_told_what(field: str | None, fault: str | None):
    """The first member at fault by its label; what cannot be read at all is told elsewhere."""
    assert fault == fault_of_input(field)
