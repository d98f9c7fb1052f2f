"""Content-Digest fields, right and wrong, and what an edge says of them under a signature that is good."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from clients.vectors.signed import base64

_BODY: Final = b'{"score":1200}'
_INVALID: Final = "signature-invalid"
_MALFORMED: Final = "signature-malformed"


def _member(name: str, content: bytes) -> str:
    return f"{name}=:{base64(hashlib.new(name.replace('-', ''), content).digest())}:"


def vectors() -> list[dict[str, Any]]:
    """Return all of them; `problem` is empty where the field holds."""
    short, long = _member("sha-256", _BODY), _member("sha-512", _BODY)
    wrong_short, wrong_long = _member("sha-256", b"?"), _member("sha-512", b"?")
    cut = short.removesuffix("=:")
    told: tuple[tuple[str, str, bytes, str, str], ...] = (
        ("sha-256", "what our clients send", _BODY, short, ""),
        ("sha-256 of nothing", "an empty body has a digest", b"", _member("sha-256", b""), ""),
        ("sha-512", "allowed too", _BODY, long, ""),
        ("both", "both match", _BODY, f"{short}, {long}", ""),
        ("both, the other way round", "both match", _BODY, f"{long}, {short}", ""),
        ("an unknown one beside", "it is ignored", _BODY, f"md5=:AAAA:, {short}", ""),
        ("wrong sha-256", "it is of another body", _BODY, wrong_short, _INVALID),
        ("wrong sha-512", "it is of another body", _BODY, wrong_long, _INVALID),
        ("both, sha-256 wrong", "both must match", _BODY, f"{wrong_short}, {long}", _INVALID),
        ("both, sha-512 wrong", "both must match", _BODY, f"{short}, {wrong_long}", _INVALID),
        ("a line feed more in the body", "bodies are compared by bytes", _BODY + b"\n", short, _INVALID),
        ("sha-256 of 31 bytes", "it cannot match", _BODY, f"sha-256=:{base64(bytes(31))}:", _INVALID),
        ("only unknown ones", "neither sha-256 nor sha-512", _BODY, "md5=:AAAA:", _MALFORMED),
        ("upper case", "keys are lower case", _BODY, short.replace("sha", "SHA"), _MALFORMED),
        ("no padding", "base64 is padded", _BODY, f"{cut}:", _MALFORMED),
        ("no colons", "a byte sequence has colons", _BODY, short.replace(":", ""), _MALFORMED),
        ("hexadecimal", "not base64", _BODY, f'sha-256="{hashlib.sha256(_BODY).hexdigest()}"', _MALFORMED),
        ("twice", "a duplicate key is refused", _BODY, f"{short}, {short}", _MALFORMED),
        ("a parameter", "members have none", _BODY, f"{short};a=1", _MALFORMED),
        (
            "the old Digest field's form",
            "RFC 3230 is not RFC 9530",
            _BODY,
            f"SHA-256={short[9:-1]}",
            _MALFORMED,
        ),
        ("empty", "no algorithm at all", _BODY, "", _MALFORMED),
    )
    return [
        {"name": name, "why": why, "body": base64(body), "content_digest": field, "problem": problem}
        for name, why, body, field, problem in told
    ]
