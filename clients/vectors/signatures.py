"""Signatures that every client makes to the byte."""

from __future__ import annotations

from typing import Any, Final

from clients.vectors.signed import NOW, SERVER, Parts, base64, listed, public_of

VISIBLE: Final = "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"
TICKET: Final = "v1.9pqX0kq3n7Vd3H8mQm5u2Q.Zm9v_YmFy-cXV4.3q2-7w"
RFC8032_SEED: Final = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
ALL_BYTES: Final = bytes(range(256))

_RUNS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("run on a port of its own", "a port that is not the default one is part of the authority", {}),
    (
        "run on the default port, alg left out",
        "the default port is not part of the authority",
        {"authority": "scores.example", "expires": NOW + 300, "nonce": "0123456789abcdef", "alg": None},
    ),
    ("authority of an IPv6 address", "in brackets, with its port", {"authority": "[::1]:8443"}),
    ("authority of an IPv6 address without a port", "in brackets", {"authority": "[2001:db8::1]"}),
    ("authority of an IPv4 address", "as it is sent in Host", {"authority": "127.0.0.1:18080"}),
    ("authority in punycode", "as it is sent in Host", {"authority": "xn--bcher-kva.example"}),
    ("authority of one label", "no dot is needed", {"authority": "gateway"}),
    ("path of a root", "a slash alone", {"path": "/"}),
    ("path with escapes", "percent-encoding is kept", {"path": "/v1/boards/caf%C3%A9/scores"}),
    (
        "path with lower-case escapes",
        "percent-encoding is not normalized",
        {"path": "/v1/boards/a%2fb/scores"},
    ),
    ("path with dots", "boards of families have dots", {"path": "/v1/boards/track.monza/scores"}),
    ("path with punctuation", "none of it is escaped", {"path": "/~a!$&'()*+,;=:@-._/"}),
    ("query", "the question mark is added, escapes are kept", {"query": "a=1&b=%2F&c="}),
    ("query of one name", "no equals sign is added", {"query": "flag"}),
    ("query with question marks", "only the first one begins it", {"query": "a=?&?b"}),
    ("query with a plus", "a plus is not a space", {"query": "name=a+b%20c"}),
    ("query with UTF-8", "as it is sent, in escapes", {"query": "q=%E2%9C%93"}),
    ("query of equals signs", "nothing is parsed", {"query": "=&=="}),
    ("method PUT", "the method is signed", {"method": "PUT"}),
    ("method DELETE", "the method is signed", {"method": "DELETE", "body": b""}),
    ("method PATCH", "the method is signed", {"method": "PATCH"}),
    ("media type with a charset", "the field as sent", {"content_type": "application/json; charset=utf-8"}),
    ("media type of a batch", "the field as sent", {"content_type": "application/x-ndjson"}),
    ("media type of octets", "the field as sent", {"content_type": "application/octet-stream"}),
    ("body that is empty", "it has a digest too", {"body": b""}),
    ("body of one zero byte", "text functions end there", {"body": b"\0"}),
    ("body of every byte", "bodies are bytes", {"body": ALL_BYTES}),
    ("body beyond ASCII", "UTF-8, four bytes long too", {"body": '{"name":"Zoë 🎮 ✓"}'.encode()}),
    ("body with line feeds", "nothing is trimmed", {"body": b'\r\n{"score":\n1}\r\n'}),
    ("body with spaces", "nothing is serialized again", {"body": b'{ "score" : 1.50 }'}),
    ("body of 20000 bytes", "many blocks of the hash", {"body": ALL_BYTES * 78 + ALL_BYTES[:32]}),
    *(
        (f"body of {size} bytes", "an edge of a block of SHA-256", {"body": b"x" * size})
        for size in (55, 56, 63, 64, 65, 119, 120, 128)
    ),
    ("created 1", "the earliest time", {"created": 1, "expires": 2}),
    (
        "created 2147483647",
        "the last second of 32 bits with a sign",
        {"created": 2**31 - 1, "expires": 2**31},
    ),
    ("created 4294967295", "the last second of 32 bits", {"created": 2**32 - 1, "expires": 2**32 + 298}),
    (
        "created of 15 digits",
        "the latest time; more than 32 bits",
        {"created": 999_999_999_999_998, "expires": 999_999_999_999_999},
    ),
    ("expires after a second", "the shortest life", {"expires": NOW + 1}),
    ("expires after 300 seconds", "the longest life, which our clients use", {"expires": NOW + 300}),
    ("nonce of 16 characters", "the shortest", {"nonce": "AAAAAAAAAAAAAAAA"}),
    ("nonce of 24 characters", "18 bytes in url-safe base64", {"nonce": "q1-_8mZ0kLw3Rt7Yx2Vb5NcQ"}),
    ("nonce of 64 characters", "the longest", {"nonce": "-_" * 32}),
    ("keyid of one character", "the shortest", {"keyid": "k"}),
    ("keyid like a ticket", "dots, minus and underscores", {"keyid": TICKET}),
    ("keyid of all punctuation", "but for quote and backslash", {"keyid": VISIBLE}),
    ("keyid of 1024 characters", "the longest", {"keyid": "Kk09" * 256}),
    *(
        (
            f"keyid of {size} characters",
            "moves the end of the base over an edge of a block",
            {"keyid": "k" * size},
        )
        for size in (35, 36, 37, 44, 45, 46, 100, 101)
    ),
    ("key of zeros", "32 bytes that text functions take for none", {"key": bytes(32)}),
    ("key of high bytes", "no byte is ASCII", {"key": b"\xff" * 32}),
    ("key with a zero in it", "a key is no text", {"key": b"\x01\0" * 16}),
)

_SERVERS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("trusted server", "Ed25519, whose signatures are always the same", {}),
    ("trusted server, alg left out", "the gateway knows the key's algorithm", {"alg": None}),
    ("trusted server with a port", "as for runs", {"authority": "scores.example:8443"}),
    ("trusted server with a query", "as for runs", {"query": "dry=1"}),
    ("trusted server, empty body", "as for runs", {"body": b""}),
    ("trusted server, body beyond ASCII", "as for runs", {"body": '{"reason":"Betrug überführt"}'.encode()}),
    ("trusted server, a batch", "another media type", {"content_type": "application/x-ndjson"}),
    (
        "trusted server, an asset",
        "PUT of octets",
        {"method": "PUT", "content_type": "application/octet-stream"},
    ),
    ("trusted server, long keyid", "the longest", {"keyid": "s" * 1024}),
    ("trusted server, the first key of RFC 8032", "its section 7.1", {"key": RFC8032_SEED}),
    ("trusted server, key of zeros", "a seed like any other", {"key": bytes(32)}),
    *(
        (
            f"trusted server, keyid of {size} characters",
            "moves the base over an edge of SHA-512",
            {"keyid": "s" * size},
        )
        for size in (28, 29, 44, 45, 60, 61, 76, 77)
    ),
)


def vectors() -> list[dict[str, Any]]:
    """Return all of them, flat."""
    runs = [_vector(name, why, Parts(**changes)) for name, why, changes in _RUNS]
    return runs + [_vector(name, why, Parts(**{**SERVER, **changes})) for name, why, changes in _SERVERS]


def _vector(name: str, why: str, parts: Parts) -> dict[str, Any]:
    params = listed() + parts.parameters
    base = parts.base(params)
    is_server = parts.algorithm == "ed25519"
    return {
        "name": name,
        "why": why,
        "algorithm": parts.algorithm,
        "key": base64(parts.key),
        "public": base64(public_of(parts.key)) if is_server else "",
        "method": parts.method,
        "authority": parts.authority,
        "path": parts.path,
        "query": parts.query,
        "content_type": parts.content_type,
        "body": base64(parts.body),
        "created": parts.created,
        "expires": parts.expires,
        "nonce": parts.nonce,
        "keyid": parts.keyid,
        "alg": parts.alg or "",
        "tag": parts.tag,
        "content_digest": parts.digest,
        "base": base,
        "signature_input": f"sg={params}",
        "signature": f"sg=:{base64(parts.sign(base))}:",
    }
