"""Signed requests as they arrive, and what an edge says of them: accepted, or refused with which problem."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha512
from typing import Any, Final

from clients.vectors.signed import (
    BODY,
    COMPONENTS,
    NOW,
    SECRET,
    SERVER,
    Parts,
    base64,
    listed,
    public_of,
    sha256_field,
)

SKEW_S: Final = 5
OTHER: Final = "scores.example"
_ED25519_ORDER: Final = 2**252 + 27742317777372353535851937790883648493

RUN: Final = Parts()
TRUSTED: Final = Parts(**SERVER)

Vector = dict[str, Any]


def vectors() -> list[Vector]:
    """Return all of them, the accepted ones first."""
    told = {
        "": [*_accepted()],
        "signature-missing": [
            _sent("neither field", "no signature", RUN, signature_input=None, signature=None)
        ],
        "signature-malformed": [
            *_half(),
            *_unreadable(),
            *_base64(),
            *_labels(),
            *_components(),
            *_forms(),
            *_life(),
        ],
        "signature-coverage": [*_uncovered()],
        "signature-invalid": [*_unknown(), *_changed(), *_forged()],
        "signature-expired": [*_late()],
    }
    return [{**vector, "problem": problem} for problem, group in told.items() for vector in group]


def _sent(name: str, why: str, parts: Parts, params: str | None = None, **changes: Any) -> Vector:
    """Return a request that is signed over its parts, with these fields exchanged after that."""
    params = listed() + parts.parameters if params is None else params
    signature = base64(parts.sign(parts.base(params)))
    is_server = parts.algorithm == "ed25519"
    return {
        "name": name,
        "why": why,
        "algorithm": parts.algorithm,
        "known_key": base64(public_of(parts.key) if is_server else parts.key),
        "known_keyid": parts.keyid,
        "now": NOW,
        "method": parts.method,
        "authority": parts.authority,
        "path": parts.path,
        "query": parts.query,
        "content_type": parts.content_type,
        "content_digest": parts.digest,
        "signature_input": f"sg={params}",
        "signature": f"sg=:{signature}:",
        "body": base64(parts.body),
    } | changes


def _ordered(name: str, why: str, components: tuple[str, ...], parts: Parts = RUN) -> Vector:
    """Return a request that signs just these components."""
    params = listed(components) + parts.parameters
    signature = base64(parts.sign(parts.base(params, components)))
    return _sent(name, why, parts, signature_input=f"sg={params}", signature=f"sg=:{signature}:")


def _with(name: str, why: str, old: str, new: str, parts: Parts = RUN, **changes: Any) -> Vector:
    """Return a request whose parameters are changed before they are signed."""
    params = listed() + parts.parameters
    if old not in params:
        raise ValueError(old)
    return _sent(name, why, parts, params.replace(old, new, 1), **changes)


def _relabelled(name: str, why: str, label: str) -> Vector:
    whole = _sent(name, why, RUN)
    fields = {field: label + whole[field].removeprefix("sg") for field in ("signature_input", "signature")}
    return whole | fields


def _accepted() -> Iterator[Vector]:
    yield _sent("run", "as our clients send it", RUN)
    yield _sent("trusted server", "as our clients send it", TRUSTED)
    yield _sent("alg left out", "it is optional", replace(RUN, alg=None))
    yield _ordered("components in another order", "any order, which is signed", COMPONENTS[::-1])
    params = (
        f'{listed()};tag="scoregate-run";keyid="{RUN.keyid}";nonce="{RUN.nonce}"'
        f";expires={RUN.expires};created={RUN.created}"
    )
    yield _sent("parameters in another order", "any order, which is signed", RUN, params)
    yield _relabelled("another label", "any label, which is not signed", "*a-b.c_9")
    proxy = '("@method");created=1;keyid="p";tag="proxy"'
    mine = _sent("a proxy's signature beside", "only ours is checked", RUN)
    yield mine | {
        "signature_input": f"proxy={proxy}, {mine['signature_input']}",
        "signature": f"{mine['signature']}, proxy=:{base64(bytes(64))}:",
    }
    both = f"sha-512=:{base64(sha512(BODY).digest())}:, {sha256_field(BODY)}"
    yield _sent("two digests", "both match", replace(RUN, content_digest=both))
    yield _sent("created as far ahead as is allowed", "created - skew is inside", RUN, now=NOW - SKEW_S)
    yield _sent("the last second", "expires is inside", RUN, now=RUN.expires)
    yield _sent("the longest life", "300 seconds", replace(RUN, expires=NOW + 300))
    yield _sent("the longest keyid", "1024 characters", replace(RUN, keyid="k" * 1024))
    yield _sent("an empty body", "it has a digest", replace(RUN, body=b""))


def _half() -> Iterator[Vector]:
    yield _sent("no Signature", "both are needed", RUN, signature=None)
    yield _sent("no Signature-Input", "both are needed", RUN, signature_input=None)


def _unreadable() -> Iterator[Vector]:
    usual = _sent("", "", RUN)
    told, proof = usual["signature_input"], usual["signature"]
    for name, why, field in (
        ("empty Signature-Input", "no member", ""),
        ("a label alone", "no list", "sg"),
        ("a list that does not end", "no structured field", 'sg=("@method"'),
        ("a comma at the end", "no structured field", f"{told},"),
        ("Signature-Input beyond ASCII", "ASCII only", told.replace("example-ticket", "tické")),
        (
            "Signature-Input of 8193 characters",
            "8192 at most",
            told.replace("example-ticket", "k" * 8193)[:8193],
        ),
        ("an upper-case label", "keys are lower case", told.replace("sg=", "SG=")),
    ):
        yield _sent(name, why, RUN, signature_input=field)
    for name, why, field in (
        ("Signature without colons", "a byte sequence has colons", proof.replace(":", "")),
        ("Signature as a string", "not a byte sequence", proof.replace(":", '"')),
        ("Signature with a parameter", "members have none", f"{proof};a"),
        ("Signature as a list", "not a byte sequence", f"sg=({proof[3:]})"),
    ):
        yield _sent(name, why, RUN, signature=field)


def _base64() -> Iterator[Vector]:
    proof = _sent("", "", RUN)["signature"]
    text = proof[4:-1]
    for name, why, encoded in (
        ("base64 without padding", "it is padded", text.rstrip("=")),
        ("base64 with a space", "no whitespace", f"{text[:8]} {text[8:]}"),
        ("base64 of the url alphabet", "the standard alphabet", "-_" + text[2:]),
        ("base64 with bits after the last byte", "it is canonical", f"{text[:-2]}{_next(text[-2])}="),
        ("an empty signature", "never empty", ""),
        ("a signature of 31 bytes", "32 or 64", base64(bytes(31))),
        ("a signature of 33 bytes", "32 or 64", base64(bytes(33))),
        ("a signature in hexadecimal", "48 bytes if read as base64", "0123456789abcdef" * 4),
    ):
        yield _sent(name, why, RUN, signature=f"sg=:{encoded}:")


def _next(character: str) -> str:
    """Return the character of base64 after one whose last two bits are zero."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return alphabet[alphabet.index(character) + 1]


def _labels() -> Iterator[Vector]:
    usual = _sent("", "", RUN)
    told, proof = usual["signature_input"], usual["signature"]
    yield _sent("labels that differ", "the same in both", RUN, signature="x" + proof)
    yield _sent("a label too many in Signature", "the same in both", RUN, signature=f"{proof}, x=:AAAA:")
    yield _sent("a label twice in Signature-Input", "refused", RUN, signature_input=f"{told}, {told}")
    yield _sent("a label twice in Signature", "refused", RUN, signature=f"{proof}, {proof}")
    yield _sent(
        "two signatures of ours",
        "there must be one",
        RUN,
        signature_input=f"{told}, b{told}",
        signature=f"{proof}, b{proof}",
    )
    others = [f"p{number}" for number in range(16)]
    yield _sent(
        "17 labels",
        "up to 16",
        RUN,
        signature_input=", ".join([told, *(f'{label}=("@method")' for label in others)]),
        signature=", ".join([proof, *(f"{label}=:AAAA:" for label in others)]),
    )


def _components() -> Iterator[Vector]:
    yield _ordered("a component twice", "each once", (*COMPONENTS, "@query"))
    for name in ("@target-uri", "@scheme", "@request-target", "@status", "@query-param", "@signature-params"):
        yield _ordered(f"component {name}", "not one of the four", (*COMPONENTS, name))
    for parameter in ("req", "sf", "bs", "tr", 'key="a"'):
        yield _with(f"a component with {parameter}", "no parameters", '"@query"', f'"@query";{parameter}')
    yield _with("two spaces between components", "one", '"@method" ', '"@method"  ')
    yield _with("a space in front of the first component", "none", '("@method"', '( "@method"')
    yield _with("a space behind the last component", "none", '"content-digest")', '"content-digest" )')
    yield _with("a component in upper case", "lower case", '"content-type"', '"Content-Type"')
    yield _with("a component without quotes", "a string", '"@query"', "query")


def _forms() -> Iterator[Vector]:
    created, nonce = f";created={NOW}", f'"{RUN.nonce}"'
    for name, why, old, new in (
        ("an unknown parameter", "none other", created, f"{created};a=1"),
        ("a parameter twice", "refused", created, f"{created}{created}"),
        ("a space before a parameter", "canonical form", created, f"; created={NOW}"),
        ("created as a string", "an integer", created, f';created="{NOW}"'),
        ("created with a fraction", "an integer", created, f"{created}.0"),
        ("created below zero", "no sign", created, f";created=-{NOW}"),
        ("created with a plus", "no sign", created, f";created=+{NOW}"),
        ("created with a leading zero", "none", created, f";created=0{NOW}"),
        ("created of 16 digits", "15 at most", created, ";created=1000000000000000"),
        ("created without a value", "an integer", created, ";created"),
        ("expires as a date", "an integer", f";expires={NOW + 60}", f";expires=@{NOW + 60}"),
        ("nonce of 15 characters", "16 at least", nonce, '"123456789012345"'),
        ("nonce of 65 characters", "64 at most", nonce, '"' + "n" * 65 + '"'),
        ("nonce in standard base64", "only letters, digits, - and _", nonce, '"AAAA+/AAAA+/AAAA+/AA=="'),
        ("nonce as a token", "a string", nonce, RUN.nonce),
        ("nonce as bytes", "a string", nonce, f":{b64encode(bytes(16)).decode()}:"),
        ("keyid that is empty", "1 character at least", '"example-ticket"', '""'),
        ("keyid of 1025 characters", "1024 at most", '"example-ticket"', '"' + "k" * 1025 + '"'),
        ("keyid with a space", "visible ASCII without it", '"example-ticket"', '"example ticket"'),
        ("keyid with a quote", "visible ASCII without it", '"example-ticket"', r'"example\"ticket"'),
        ("alg as a token", "a string", '"hmac-sha256"', "hmac-sha256"),
    ):
        yield _with(name, why, old, new)


def _life() -> Iterator[Vector]:
    yield _sent("a life of nothing", "1 second at least", replace(RUN, expires=NOW))
    yield _sent("a life below nothing", "1 second at least", replace(RUN, expires=NOW - 1))
    yield _sent("a life of 301 seconds", "300 at most", replace(RUN, expires=NOW + 301))
    yield _sent("a digest that cannot be read", "signed, and yet", replace(RUN, content_digest="sha-256"))
    yield _sent("a digest of md5 alone", "sha-256 or sha-512", replace(RUN, content_digest="md5=:AAAA:"))


def _uncovered() -> Iterator[Vector]:
    for left_out in COMPONENTS:
        rest = tuple(name for name in COMPONENTS if name != left_out)
        yield _ordered(f"without {left_out}", "all six are signed", rest)
    yield _ordered("no components", "all six are signed", ())
    yield _ordered("another field too", "exactly the six", (*COMPONENTS, "date"))
    for name, text in (
        ("created", f";created={NOW}"),
        ("expires", f";expires={NOW + 60}"),
        ("nonce", f';nonce="{RUN.nonce}"'),
        ("keyid", f';keyid="{RUN.keyid}"'),
    ):
        yield _with(f"without {name}", "it is required", text, "")
    yield _sent("no Content-Type", "it must be a header field", RUN, content_type=None)
    yield _sent("no Content-Digest", "it must be a header field", RUN, content_digest=None)


def _unknown() -> Iterator[Vector]:
    tag = ';tag="scoregate-run"'
    yield _with("no tag", "none of ours", tag, "")
    yield _with("another tag", "none of ours", tag, ';tag="other"')
    yield _with("a tag in upper case", "none of ours", tag, ';tag="SCOREGATE-RUN"')
    yield _with("a tag as a token", "none of ours", tag, ";tag=scoregate-run")
    yield _sent("an unknown keyid", "no such key", RUN, known_keyid="another-ticket")
    yield _sent("another key", "not the one of the keyid", RUN, known_key=base64(SECRET[::-1]))
    yield _sent(
        "the key in base64", "decode it first", replace(RUN, key=b64encode(SECRET)), known_key=base64(SECRET)
    )
    yield _with("alg of the other kind of key", "it is the key's", '"hmac-sha256"', '"ed25519"')
    yield _with("alg in upper case", "case counts", '"hmac-sha256"', '"HMAC-SHA256"')
    yield _with("alg of SHA-512", "it is the key's", '"hmac-sha256"', '"hmac-sha512"')


def _changed() -> Iterator[Vector]:
    for name, why, change in (
        ("method changed", "it is signed", {"method": "PUT"}),
        ("authority changed", "a proxy that sends its own Host", {"authority": "internal:8080"}),
        ("authority without its port", "the port is part of it", {"authority": "localhost"}),
        ("path changed", "another board", {"path": "/v1/boards/other/scores"}),
        ("path with a slash more", "paths are compared by bytes", {"path": f"{RUN.path}/"}),
        ("query added", "it is signed", {"query": "a=1"}),
        ("media type changed", "a charset was added", {"content_type": "application/json; charset=utf-8"}),
        ("body changed", "its digest is signed", {"body": base64(BODY.replace(b"1200", b"1300"))}),
        ("body serialized again", "bytes count", {"body": base64(BODY.replace(b":", b": "))}),
        (
            "body and digest changed",
            "the digest is signed",
            {"body": base64(b"{}"), "content_digest": sha256_field(b"{}")},
        ),
    ):
        yield _sent(name, why, RUN, **change)
    escaped = replace(RUN, path="/v1/boards/caf%C3%A9/scores")
    yield _sent("path decoded", "escapes are kept", escaped, path="/v1/boards/caf%c3%a9/scores")
    told = _sent("", "", RUN)["signature_input"]
    for name, old, new in (
        ("created changed", f"created={NOW}", f"created={NOW + 1}"),
        ("expires changed", f"expires={NOW + 60}", f"expires={NOW + 61}"),
        ("nonce changed", "nonce_0001", "nonce_0002"),
        ("alg taken away", ';alg="hmac-sha256"', ""),
        ("order changed", '"@method" "@authority"', '"@authority" "@method"'),
    ):
        yield _sent(name, "parameters are signed", RUN, signature_input=told.replace(old, new, 1))


def _forged() -> Iterator[Vector]:
    params = listed() + RUN.parameters
    base, key = RUN.base(params), RUN.sign

    def proof(text: str) -> str:
        return f"sg=:{base64(key(text))}:"

    flipped = bytearray(key(base))
    flipped[0] ^= 1
    yield _sent(
        "a bit of the signature", "it does not verify", RUN, signature=f"sg=:{base64(bytes(flipped))}:"
    )
    yield _sent("zeros", "they do not verify", RUN, signature=f"sg=:{base64(bytes(32))}:")
    yield _sent("a base with a line feed at its end", "there is none", RUN, signature=proof(f"{base}\n"))
    yield _sent("a base with CR LF", "line feeds alone", RUN, signature=proof(base.replace("\n", "\r\n")))
    bare = base.replace('"@query": ?', '"@query": ')
    yield _sent(
        "a base without the question mark", "? alone if there is no query", RUN, signature=proof(bare)
    )
    for name, old, new in (
        ("a base with an upper-case host", "localhost", "LOCALHOST"),
        ("a base with the scheme", "localhost", "http://localhost"),
        ("a base with upper-case names", '"content-type"', '"Content-Type"'),
        ("a base with the label", '"@signature-params": ', '"@signature-params": sg='),
    ):
        yield _sent(name, "not what is signed", RUN, signature=proof(base.replace(old, new)))
    default = replace(RUN, authority=OTHER)
    yield _sent(
        "a base with the default port",
        "left out",
        replace(default, authority=f"{OTHER}:443"),
        authority=OTHER,
    )
    yield _sent(
        "HMAC under a server's tag", "the tag says the kind of key", replace(TRUSTED), signature=proof(base)
    )
    server = TRUSTED.sign(TRUSTED.base(listed() + TRUSTED.parameters))
    beyond = int.from_bytes(server[32:], "little") + _ED25519_ORDER
    again = base64(server[:32] + beyond.to_bytes(32, "little"))
    yield _sent("Ed25519 with S beyond the order", "RFC 8032, 5.1.7", TRUSTED, signature=f"sg=:{again}:")
    yield _sent("Ed25519 of zeros", "it does not verify", TRUSTED, signature=f"sg=:{base64(bytes(64))}:")


def _late() -> Iterator[Vector]:
    yield _sent("a second late", "expires has passed", RUN, now=RUN.expires + 1)
    yield _sent("an hour late", "expires has passed", RUN, now=NOW + 3600)
    yield _sent("a second too far ahead", "created is beyond the allowance", RUN, now=NOW - SKEW_S - 1)
    yield _sent("an hour ahead", "created is beyond the allowance", RUN, now=NOW - 3600)
