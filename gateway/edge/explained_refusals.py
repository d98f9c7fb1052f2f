"""Development mode: a refused signature is answered with the base that the edge made, and what differs.

An impossible run is answered with the bound that it broke. Outside of that mode all signatures that do not
verify get one answer, as have all impossible runs, so that nobody learns which keys and which bounds there
are.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

from aiohttp import web

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
from gateway.edge.auth.signatures import Tag
from gateway.edge.auth.signed_request import SignedRequest, joined_field, read_signature, signed_parts
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions.impossible_run import ImpossibleRun

EXPLAINED: Final = frozenset(
    {ProblemType.SIGNATURE_INVALID, ProblemType.SIGNATURE_COVERAGE, ProblemType.SIGNATURE_MALFORMED}
)
"""The refusals of signatures that development mode explains."""

_OF_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "Via", "X-Real-IP")


async def explained(request: web.Request, problem: Problem) -> Problem:
    """Return a refusal; in development mode one of a signature with `signature_base` and `differs`.

    That of an impossible run has `bound` there. Nobody from another network is told, also where an edge
    listens on all addresses, or behind a proxy.
    """
    edge = request.app[EDGE]
    if not edge.settings.development or not is_near(request):
        return problem
    if isinstance(problem, ImpossibleRun):
        return _told(problem, f"{problem.bound}.", bound=problem.bound)
    if problem.kind not in EXPLAINED:
        return problem
    base, differs = await _explanation(edge, request)
    more = f"{differs}. The edge's base is in `signature_base`."
    return _told(problem, more, signature_base=base, differs=differs)


def _told(problem: Problem, more: str, **extensions: str | None) -> Problem:
    refused = (problem.detail or problem.kind.title).rstrip(".")
    detail = f"{refused}. Development mode: {more}"
    return Problem(problem.kind, detail, headers=problem.headers, **problem.extensions, **extensions)


def is_near(request: web.Request) -> bool:
    """Return whether a request comes from this machine or a private network, and by no proxy that says so."""
    if any(name in request.headers for name in _OF_PROXIES):
        return False
    try:
        address = ip_address(request.remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_private


async def _explanation(edge: Edge, request: web.Request) -> tuple[str | None, str]:
    """Return the base of a request as it should be signed, and what of its signature differs."""
    try:
        signed = read_signature(request)
    except Problem as refused:
        differs = fault_of_input(joined_field(request, "Signature-Input")) or refused.detail or ""
        return _base_wanted(request), differs.rstrip(".")
    found, is_known = await found_mistake(edge, request, signed)
    return signed.base.decode("ascii"), in_words(signed, found, is_known=is_known)


async def found_mistake(
    edge: Edge, request: web.Request, signed: SignedRequest
) -> tuple[Mistake | None, bool]:
    """Return what explains a signature, as `mistake_in` does, and whether its `keyid` may have a key here."""
    parsed = signed.parsed
    server = await edge.server_keys.find(parsed.keyid)
    if server:
        checks = checks_of_server(server.public_key, parsed.signature)
    else:
        checks = checks_of_run(edge.tickets.key(parsed.keyid), parsed.signature)
    found = mistake_in(parsed, signed_parts(request), checks, edge.settings.allowed_hosts)
    return found, server is not None or parsed.tag is Tag.RUN


def in_words(signed: SignedRequest, found: Mistake | None, *, is_known: bool) -> str:
    """Return what differs as a clause."""
    if found is FITS:
        return fault_of_genuine(signed.parsed) or "the body has another digest than `Content-Digest` says"
    if found is not None:
        return f"{found.member}: {found.advice}"
    if not is_known:
        return "keyid: no server's key is registered under it"
    return "the key is another one, or more than one member of the base differs"


def _base_wanted(request: web.Request) -> str | None:
    try:
        return base_wanted(signed_parts(request))
    except Problem:  # a field is there twice
        return None
