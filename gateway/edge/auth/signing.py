"""Signing of requests by the profile of `signatures`, as a run or a trusted server does."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.signatures import ED25519, HMAC_SHA256, build_base, content_digest_of
from gateway.edge.auth.structured_fields import byte_sequence


@dataclass(frozen=True, slots=True)
class Draft:
    """A request to be signed: its parts, as in `signature_base`, and the parameters of the signature."""

    method: str
    authority: str
    path: str
    body: bytes
    created: int
    expires: int
    nonce: str
    keyid: str
    tag: str
    query: str = "?"
    content_type: str = "application/json"


class SignedDraft(NamedTuple):
    """The text that was signed, and the four header fields."""

    base: str
    headers: dict[str, str]


def sign_hmac_sha256(key: bytes, draft: Draft) -> dict[str, str]:
    """Return the four header fields of `draft` signed with a shared key."""
    return signed_with(key, draft).headers


def sign_ed25519(private_key: Ed25519PrivateKey, draft: Draft) -> dict[str, str]:
    """Return the four header fields of `draft` signed with a private key."""
    return signed_with(private_key, draft).headers


def signed_with(key: bytes | Ed25519PrivateKey, draft: Draft) -> SignedDraft:
    """Return the base and the fields of `draft`, signed with a run's key or a server's."""
    if isinstance(key, bytes):
        return _sign(draft, HMAC_SHA256, lambda base: hmac.digest(key, base, "sha256"))
    return _sign(draft, ED25519, key.sign)


def _sign(draft: Draft, algorithm: str, sign: Callable[[bytes], bytes]) -> SignedDraft:
    content_digest = content_digest_of(draft.body)
    components = [
        ("@method", draft.method),
        ("@authority", draft.authority),
        ("@path", draft.path),
        ("@query", draft.query),
        ("content-type", draft.content_type),
        ("content-digest", content_digest),
    ]
    names = " ".join(f'"{name}"' for name, _ in components)
    params_text = (
        f'({names});created={draft.created};expires={draft.expires};nonce="{draft.nonce}"'
        f';keyid="{draft.keyid}";alg="{algorithm}";tag="{draft.tag}"'
    )
    base = build_base(components, params_text)
    fields = {
        "Content-Type": draft.content_type,
        "Content-Digest": content_digest,
        "Signature-Input": f"sg={params_text}",
        "Signature": f"sg={byte_sequence(sign(base))}",
    }
    return SignedDraft(base.decode("ascii"), fields)
