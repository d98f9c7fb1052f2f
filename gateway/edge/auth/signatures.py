"""The signature profile: RFC 9421 and RFC 9530, narrowed until a signed request has one reading.

`docs/reference/signatures.md` is the contract with clients. Call in this order: `parse`, find the key of
`keyid`, `check_algorithm`, `signature_base`, `verify_*`, `check_time`, `check_content_digest`. Trust nothing
from `parse` before `verify_*` returned true. The detail of a refusal never repeats received text, which may
hold lone surrogates that no answer can encode.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from math import floor
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.edge.auth.structured_fields import (
    InnerList,
    StructuredFieldError,
    byte_sequence,
    parse_byte_sequences,
    parse_inner_lists,
)
from gateway.edge.problems import Problem, ProblemType
from policies.errors import ScoregateError
from policies.signed_names import refuse_weak_key

HMAC_SHA256 = "hmac-sha256"
ED25519 = "ed25519"
COMPONENTS = ("@method", "@authority", "@path", "@query", "content-type", "content-digest")
MAX_LIFETIME_S = 300

FRESH_NONCE: Final = "nonce: expected another one for another request"

_INVALID: Final = (
    "no key that is known here signed exactly this request: the key may be unknown or revoked, or something "
    "signed was changed on the way; operators see the registered keys with `scoregate key list`"
)

_DIGESTS = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
_SIGNATURE_BYTES = frozenset({32, 64})
"""Lengths of an HMAC-SHA256 and of an Ed25519 signature."""

_COMPONENT_SET = frozenset(COMPONENTS)
_COMPONENT_LIST = re.compile(r'\((?>(?:"@?[a-z0-9!#$%&\'*+\-.^_`|~]++"(?: (?=")|(?=\))))*)\)')
_INTEGER = re.compile(r"0|[1-9][0-9]{0,14}+")
_REQUIRED = {
    "created": _INTEGER,
    "expires": _INTEGER,
    "nonce": re.compile(r'"[A-Za-z0-9_\-]{16,64}+"'),
    "keyid": re.compile(r'"[!#-\[\]-~]{1,1024}+"'),
}
_USUAL_INPUT = re.compile(
    r"([a-z][a-z0-9]{0,15})=("
    + re.escape("(" + " ".join(f'"{name}"' for name in COMPONENTS) + ")")
    + r";created=([1-9][0-9]{0,14});expires=([1-9][0-9]{0,14})"
    r';nonce="([A-Za-z0-9_-]{16,64})";keyid="([A-Za-z0-9_.-]{1,1024})"'
    r'(?:;alg="([a-z0-9-]{1,64})")?;tag=("scoregate-(?:run|server)"))'
)
_USUAL_SIGNATURE = re.compile(r"([a-z][a-z0-9]{0,15})=:([A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{86}==):")
_FORMS = _REQUIRED | {"tag": re.compile(r'"[a-z\-]++"'), "alg": re.compile(r'"[!#-\[\]-~]{1,64}+"')}


class Tag(Enum):
    """The kind of signer: a run with its own key, or a trusted server with its registered key."""

    RUN = "scoregate-run"
    SERVER = "scoregate-server"


_TAGS = {f'"{tag.value}"': tag for tag in Tag}


class ServerKeyError(ScoregateError):
    """The bytes are no public key that a server may register."""


class ParsedSignature(NamedTuple):
    """A well-formed signature that is not verified yet. Times are Unix seconds."""

    label: str
    components: tuple[str, ...]
    params_text: str
    created: int
    expires: int
    nonce: str
    keyid: str
    tag: Tag
    alg: str | None
    signature: bytes


def parse(signature_input: str | None, signature: str | None) -> ParsedSignature:
    """Return the signature with a tag of this service, from the two header fields (lines joined by `, `)."""
    if signature_input is None and signature is None:
        raise Problem(ProblemType.SIGNATURE_MISSING, "Send Signature-Input and Signature.")
    if signature_input is None or signature is None:
        raise _malformed("Send both Signature-Input and Signature.")
    return _parse_usual(signature_input, signature) or _parse_any(signature_input, signature)


def _parse_usual(signature_input: str, signature: str) -> ParsedSignature | None:
    """Return the signature of fields in the form of Scoregate's own clients, None for any other form.

    One match takes a third of the time of a parse. `_parse_any` reads all fields that it accepts in the same
    way.
    """
    claim, proof = _USUAL_INPUT.fullmatch(signature_input), _USUAL_SIGNATURE.fullmatch(signature)
    if claim is None or proof is None:
        return None
    label, params_text, created, expires, nonce, keyid, alg, tag = claim.groups()
    signed_label, text = proof.groups()
    raw = a2b_base64(text)
    if label != signed_label or b2a_base64(raw, newline=False).decode("ascii") != text:
        return None
    return ParsedSignature(
        label, COMPONENTS, params_text, int(created), int(expires), nonce, keyid, _TAGS[tag], alg, raw
    )


def _parse_any(signature_input: str, signature: str) -> ParsedSignature:
    try:
        members = parse_inner_lists(signature_input)
        signatures = parse_byte_sequences(signature)
    except StructuredFieldError as error:
        raise _malformed(str(error)) from None
    if members.keys() != signatures.keys():
        raise _malformed("Signature-Input and Signature must have the same labels.")
    label, tag = _select_tagged(members)
    if len(signatures[label]) not in _SIGNATURE_BYTES:
        raise _malformed("The signature has the wrong length.")
    return _read_member(label, tag, members[label], signatures[label])


def build_base(components: Iterable[tuple[str, str]], params_text: str) -> bytes:
    """Return the signature base (RFC 9421, §2.5) of components, their values and the parameters' text."""
    lines = [f'"{name}": {value}' for name, value in components]
    return _as_base("\n".join([*lines, f'"@signature-params": {params_text}']), len(lines))


def _as_base(base: str, components: int) -> bytes:
    # A line feed inside a value would let one component pass as two (RFC 9421, §7.5.7).
    if not base.isascii() or base.count("\n") != components:
        raise _malformed("A signed component holds a line feed or a character beyond ASCII.")
    return base.encode("ascii")


def signature_base(
    parsed: ParsedSignature,
    *,
    method: str,
    authority: str,
    path: str,
    query: str,
    content_type: str | None,
    content_digest: str | None,
) -> bytes:
    """Return the bytes that `parsed` has to sign for a request with these parts.

    `authority` is in lower case without the default port. `path` and `query` are raw (percent-encoded);
    `query` has its question mark, and is `?` if it is empty. Raises `signature-coverage` if a header field is
    missing.
    """
    if content_type is None or content_digest is None:
        raise _uncovered("Send Content-Type and Content-Digest as header fields.")
    if parsed.components == COMPONENTS:
        # One text for the usual order, which every client of ours signs: a third of the time.
        return _as_base(
            f'"@method": {method}\n"@authority": {authority}\n"@path": {path}\n"@query": {query}\n'
            f'"content-type": {content_type}\n"content-digest": {content_digest}\n'
            f'"@signature-params": {parsed.params_text}',
            len(COMPONENTS),
        )
    values = {
        "@method": method,
        "@authority": authority,
        "@path": path,
        "@query": query,
        "content-type": content_type,
        "content-digest": content_digest,
    }
    return build_base([(name, values[name]) for name in parsed.components], parsed.params_text)


def check_algorithm(parsed: ParsedSignature, expected: str) -> None:
    """Refuse a signature that names another algorithm than that of its key."""
    if parsed.alg is not None and parsed.alg != expected:
        raise invalid_signature()


def verify_hmac_sha256(key: bytes, base: bytes, signature: bytes) -> bool:
    """Return whether `signature` is the HMAC-SHA256 of `base`, in constant time."""
    # Not `hmac.digest`: it gives the interpreter lock away, and waits to get it back, whatever the length.
    return hmac.compare_digest(hmac.new(key, base, "sha256").digest(), signature)


def verify_ed25519(public_key: Ed25519PublicKey, base: bytes, signature: bytes) -> bool:
    """Return whether `signature` is a signature of `base` by the owner of `public_key`."""
    try:
        public_key.verify(signature, base)
    except InvalidSignature:
        return False
    return True


def check_time(parsed: ParsedSignature, now_s: float, skew_s: int) -> None:
    """Refuse a signature unless the time is from `created - skew_s` to `expires`, both seconds included.

    Call this after the signature verified: a flipped bit in `created` must be an invalid signature, and only
    the holder of the key may learn the edge's time.
    """
    if not 0 < parsed.expires - parsed.created <= MAX_LIFETIME_S:
        raise _malformed(f"expires must be 1 to {MAX_LIFETIME_S} seconds after created.")
    now = floor(now_s)
    if not parsed.created - skew_s <= now <= parsed.expires:
        detail = "The clock of the sender is ahead." if now < parsed.created else "The signature has expired."
        raise Problem(ProblemType.SIGNATURE_EXPIRED, detail, server_time=now)


def check_content_digest(header: str, body: bytes) -> bytes:
    """Return the SHA-256 of a body after all known digests in its Content-Digest (RFC 9530) matched."""
    digest = hashlib.sha256(body).digest()
    if header != f"sha-256={byte_sequence(digest)}":
        _check_digests(header, body)
    return digest


def _check_digests(header: str, body: bytes) -> None:
    try:
        digests = parse_byte_sequences(header)
    except StructuredFieldError as error:
        raise _malformed(str(error)) from None
    known = digests.keys() & _DIGESTS.keys()
    if not known:
        raise _malformed("Content-Digest needs sha-256 or sha-512.")
    if any(_DIGESTS[name](body).digest() != digests[name] for name in known):
        # A detail of its own would tell, with a captured request, that the rest of it is genuine.
        raise invalid_signature()


def content_digest_of(body: bytes) -> str:
    """Return the Content-Digest field of a body: its SHA-256."""
    return f"sha-256={byte_sequence(hashlib.sha256(body).digest())}"


def fault_of_parameters(parameters: Mapping[str, str]) -> str | None:
    """Return the first parameter that is missing, unknown or of another form; None if none is."""
    for name, value in parameters.items():
        form = _FORMS.get(name)
        if form is None or not form.fullmatch(value):
            return name
    return next((name for name in (*_REQUIRED, "tag") if name not in parameters), None)


def load_server_public_key(raw: bytes) -> Ed25519PublicKey:
    """Return the Ed25519 key of 32 bytes. Raises ServerKeyError for non-canonical keys and small orders."""
    try:
        refuse_weak_key(raw)
    except ValueError as error:
        raise ServerKeyError(str(error)) from None
    return Ed25519PublicKey.from_public_bytes(raw)


def invalid_signature() -> Problem:
    """Return the answer to every signature that does not verify, whatever its fault.

    It is the same for all of them, so that it does not tell a known key from an unknown one.
    """
    return Problem(ProblemType.SIGNATURE_INVALID, _INVALID)


def _malformed(detail: str) -> Problem:
    return Problem(ProblemType.SIGNATURE_MALFORMED, detail)


def _uncovered(detail: str) -> Problem:
    return Problem(ProblemType.SIGNATURE_COVERAGE, detail)


def _select_tagged(members: dict[str, InnerList]) -> tuple[str, Tag]:
    candidates = [
        (label, _TAGS[member.parameters["tag"]])
        for label, member in members.items()
        if member.parameters.get("tag") in _TAGS
    ]
    if len(candidates) > 1:
        raise _malformed("Only one signature may have a tag of this service.")
    if not candidates:
        raise Problem(ProblemType.SIGNATURE_INVALID, "No signature has a tag of this service.")
    return candidates[0]


def _read_member(label: str, tag: Tag, member: InnerList, signature: bytes) -> ParsedSignature:
    _check_forms(member)
    components = _read_components(member.items_text)
    parameters = member.parameters
    if not parameters.keys() >= _REQUIRED.keys():
        raise _uncovered(f"The parameters {', '.join(_REQUIRED)} and tag are required.")
    return ParsedSignature(
        label=label,
        components=components,
        params_text=member.text,
        created=int(parameters["created"]),
        expires=int(parameters["expires"]),
        nonce=parameters["nonce"][1:-1],
        keyid=parameters["keyid"][1:-1],
        tag=tag,
        alg=parameters["alg"][1:-1] if "alg" in parameters else None,
        signature=signature,
    )


@lru_cache(maxsize=1024)
def _read_components(items_text: str) -> tuple[str, ...]:
    """Return the six components in the order in which they are signed."""
    # The cache is small: there are 720 orders, each client uses one, and exceptions are not cached.
    if not _COMPONENT_LIST.fullmatch(items_text):
        raise _malformed("A component has parameters, or the list is not in canonical form.")
    names = tuple(items_text[1:-1].replace('"', "").split())
    if len(set(names)) != len(names):
        raise _malformed("A component is listed twice.")
    if any(name.startswith("@") and name not in _COMPONENT_SET for name in names):
        raise _malformed("A derived component is not one of this service.")
    if set(names) != _COMPONENT_SET:
        raise _uncovered(f"Exactly these components are to be signed: {', '.join(COMPONENTS)}.")
    return names


def _check_forms(member: InnerList) -> None:
    # Text in another than its canonical form (RFC 9651) would have two signature bases.
    if " " in member.text[len(member.items_text) :]:
        raise _malformed("The parameters are not in canonical form.")
    for name, value in member.parameters.items():
        form = _FORMS.get(name)
        if form is None or not form.fullmatch(value):
            raise _malformed("A parameter is unknown, of the wrong type, or out of range.")
