"""The signature of a request, and the base that it has to cover, by the strict profile of RFC 9421.

The signature covers the head, and the head has the digest of the body. So a head is verified before its body
is read, and gives the request only once the body is the signed one.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypedDict, TypeVar

from aiohttp import web

from gateway.edge.auth import signatures
from gateway.edge.auth.signatures import ParsedSignature
from gateway.edge.problems import Problem, ProblemType

CHALLENGE: Final = {"WWW-Authenticate": 'Signature realm="scoregate"'}
"""The header of a 401 for a signature: RFC 9110 (§15.5.2) requires a challenge."""

Whole_co = TypeVar("Whole_co", covariant=True)

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


class SignedParts(TypedDict):
    """The parts of a request that are signed, as `signatures.signature_base` takes them."""

    method: str
    authority: str
    path: str
    query: str
    content_type: str | None
    content_digest: str | None


class SignedRequest(NamedTuple):
    """A request's signature, not yet verified, and the bytes it must cover."""

    parsed: ParsedSignature
    base: bytes
    content_digest: str

    def check_body(self, body: bytes) -> bytes:
        """Return the SHA-256 of the body. Raises `signature-invalid` for another body than the signed one."""
        return signatures.check_content_digest(self.content_digest, body)


class SignedHead(Protocol[Whole_co]):
    """The head of a request whose signature is verified; the body is not read yet."""

    def with_body(self, body: bytes) -> Whole_co:
        """Return the whole request. Raises `signature-invalid` for another body than the signed one."""


def read_signature(request: web.Request) -> SignedRequest:
    """Return the signature of a request. Raises the matching `signature-*` problem."""
    parsed = parse_signature(request)
    parts = signed_parts(request)
    return SignedRequest(parsed, signatures.signature_base(parsed, **parts), parts["content_digest"] or "")


def parse_signature(request: web.Request) -> ParsedSignature:
    """Return the signature of a request. Raises what `signatures.parse` raises."""
    return signatures.parse(joined_field(request, "Signature-Input"), joined_field(request, "Signature"))


def signed_parts(request: web.Request) -> SignedParts:
    """Return the parts of a request that are signed. Raises `signature-malformed` for a repeated field."""
    content_digest = _single(request, "Content-Digest")
    path, _, query = request.raw_path.partition("?")
    return {
        "method": request.method,
        "authority": authority_of(request.host, request.scheme),
        "path": path,
        "query": "?" + query,
        "content_type": _single(request, "Content-Type"),
        "content_digest": content_digest,
    }


def authority_of(host: str, scheme: str) -> str:
    """Return a host in lower case, without the default port of the scheme (RFC 9421, §2.2.3)."""
    return host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))


def joined_field(request: web.Request, name: str) -> str | None:
    """Return the lines of a dictionary field as one (RFC 9651, §4.2), since a proxy may add a line."""
    values = request.headers.getall(name, ())
    return ", ".join(values) if values else None


def _single(request: web.Request, name: str) -> str | None:
    values = request.headers.getall(name, ())
    if len(values) > 1:
        raise Problem(ProblemType.SIGNATURE_MALFORMED, f"{name} appears more than once")
    return values[0] if values else None
