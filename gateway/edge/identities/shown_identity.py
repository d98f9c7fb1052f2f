"""Who somebody is by what they show: the key of a device, or a recovery code."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aiohttp import web

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.context import EDGE
from gateway.edge.http.request import client_names
from gateway.edge.identities.identity_parts import RECOVERY_RATE
from gateway.edge.identities.recovery_codes import read_recovery_code
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.bodies import DEVICE_KEY
from gateway.ledger.players.identities import DEVICE, RECOVERY, Identity, UsedCredential
from gateway.runtime.telemetry import Event, logger
from policies.errors import IdentityRefused, ProviderUnavailable
from policies.limits import Rate

SIGN_IN_RATE: Final = Rate(per_minute=60, burst=120)
"""New players and sign-ins of one address; a network gets `NETWORK_SHARE` times as many."""

VARIETY: Final = 8
"""Different characters of a device key: random ones have more, all but once in a hundred million."""

PROVIDER_RETRY_S: Final = 10
"""When to come again if a provider did not answer."""

_log = logger()

_NO_PLAYER: Final = "there is no player to whom this belongs"


class ShownIdentity(NamedTuple):
    """An identity that somebody has shown to be theirs, by a credential that may be good only once."""

    identity: Identity
    once: UsedCredential | None = None


async def shown_identity(request: web.Request, provider: str, credential: str) -> ShownIdentity:
    """Return whose identity a credential shows.

    Raises `sign-in-failed`, `quota-exceeded`, `schema-violation` for a provider that there is not, and
    `dependency-unavailable` for one that does not answer.
    """
    await charge_sign_in(request)
    if provider == DEVICE:
        return ShownIdentity(device_identity(request, credential))
    if provider == RECOVERY:
        return ShownIdentity(await _recovery_identity(request, credential))
    return await _shown_to_provider(request, provider, credential)


async def charge_sign_in(request: web.Request) -> None:
    """Count a sign-in, or a new player. Raises `quota-exceeded`."""
    edge = request.app[EDGE]
    wait_ms = await edge.player_limit.wait_ms(*client_names(edge, request))
    if wait_ms:
        raise quota_exceeded("address", SIGN_IN_RATE, wait_ms)


def device_identity(request: web.Request, key: str) -> Identity:
    """Return the identity of a device. Raises `schema-violation` for a key that others may have, too."""
    if not re.match(DEVICE_KEY, key) or len(set(key)) < VARIETY:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, "device key: expected at least 128 random bits in base64url"
        )
    return request.app[EDGE].identities.digests.identity(DEVICE, key)


def sign_in_failed(detail: str = _NO_PLAYER) -> Problem:
    """Return the refusal of a credential that shows no player."""
    return Problem(ProblemType.SIGN_IN_FAILED, detail)


async def _shown_to_provider(request: web.Request, name: str, credential: str) -> ShownIdentity:
    edge = request.app[EDGE]
    parts = edge.identities
    if name not in parts.providers:
        known = ", ".join([DEVICE, RECOVERY, *parts.providers])
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"provider: expected one of {known}")
    try:
        shown = await parts.providers[name].show(credential, now_s=edge.clock() / 1000)
    except IdentityRefused as refusal:
        _log.warning(Event.SIGN_IN_REFUSED, provider=name, fault=str(refusal))
        raise sign_in_failed(f"{name}: `{refusal}` does not hold") from None
    except ProviderUnavailable as fault:
        _log.warning(Event.SIGN_IN_REFUSED, provider=name, fault=str(fault))
        headers = {"Retry-After": str(PROVIDER_RETRY_S)}
        detail = f"{name} does not say now who you are"
        raise Problem(ProblemType.DEPENDENCY_UNAVAILABLE, detail, headers=headers) from None
    identity = parts.digests.identity(name, shown.subject)
    if shown.once is None:
        return ShownIdentity(identity)
    digest = parts.digests.of_credential(name, shown.once)
    return ShownIdentity(identity, UsedCredential(digest, int(shown.once_until_s * 1000)))


async def _recovery_identity(request: web.Request, text: str) -> Identity:
    edge = request.app[EDGE]
    wait_ms = await edge.identities.recovery_wait_ms(*client_names(edge, request))
    if wait_ms:
        raise quota_exceeded("recovery-address", RECOVERY_RATE, wait_ms)
    code = read_recovery_code(text)
    if code is None:
        raise sign_in_failed()
    return edge.identities.digests.identity(RECOVERY, code)
