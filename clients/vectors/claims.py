"""The bodies of submissions, byte for byte: a digest of other bytes is another submission."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

_RECORDING: Final = bytes.fromhex("534752310100010100")
_EXACT: Final = 2**53 - 1

_CLAIMS: Final[tuple[tuple[str, str, int, int, dict[str, int]], ...]] = (
    ("usual", "members in the order score, ticks, stats, recording; no spaces", 1200, 3600, {"coins": 7}),
    ("no statistics", "an empty object", 0, 1, {}),
    ("statistics in their order", "as given, not sorted", 5, 9, {"zeta": 1, "alpha": 2, "mid": 3}),
    ("negative score", "a minus sign", -5, 1, {"lives": -1}),
    ("largest numbers", "integers, never in exponent form", _EXACT, 2**31, {"most": _EXACT, "least": -_EXACT}),
    ("score of ten million", "no exponent, no separator", 10_000_000, 100_000, {"n": 1_000_000_000_000}),
    ("statistics with quotes", "quote and backslash are escaped", 1, 1, {'a"b': 1, "c\\d": 2}),
    ("statistics with control characters", "short escapes, or \\u and four lower-case digits", 1, 1,
     {"a\nb": 1, "c\td": 2, "e\rf": 3, "g\bh": 4, "i\fj": 5, "k\x01l": 6, "m\x1fn": 7}),
    ("statistics beyond ASCII", "UTF-8, not escaped", 1, 1, {"münzen": 1, "コイン": 2, "🎮": 3}),
    ("statistics with a slash", "slash and DEL are not escaped", 1, 1, {"a/b": 1, "c\x7fd": 2}),
    ("statistics with separators", "U+2028 and U+2029 are not escaped", 1, 1, {"a\u2028b": 1, "c\u2029d": 2}),
    ("sixteen statistics", "the most that a gateway takes", 1, 1, {f"s{number}": number for number in range(16)}),
)  # fmt: skip


def vectors() -> list[dict[str, Any]]:
    """Return every claim with a recording, and the first ones without, and with its digest."""
    found = [_vector(*claim, recording=_RECORDING) for claim in _CLAIMS]
    name, _, *rest = _CLAIMS[0]
    found.append(_vector(f"{name}, without a recording", "the member is left out", *rest))
    found.append(
        _vector(
            f"{name}, committed",
            "digest and size of the recording",
            *rest,
            recording=_RECORDING,
            committed=True,
        )
    )
    large = bytes(range(256)) * 20
    found.append(
        _vector(f"{name}, a longer recording", "padded base64 without lines", *rest, recording=large)
    )
    return found


def _vector(
    name: str,
    why: str,
    score: int,
    ticks: int,
    stats: dict[str, int],
    *,
    recording: bytes = b"",
    committed: bool = False,
) -> dict[str, Any]:
    claim: dict[str, Any] = {"score": score, "ticks": ticks, "stats": stats}
    if committed:
        claim["recording_digest"] = f"sha256:{sha256(recording).hexdigest()}"
        claim["recording_bytes"] = len(recording)
    elif recording:
        claim["recording"] = b64encode(recording).decode()
    body = json.dumps(claim, ensure_ascii=False, separators=(",", ":")).encode()
    return {
        "name": name,
        "why": why,
        "score": score,
        "ticks": ticks,
        "stats": [[key, value] for key, value in stats.items()],
        "recording": b64encode(recording).decode(),
        "committed": committed,
        "body": b64encode(body).decode(),
        "sha256": sha256(body).hexdigest(),
    }
