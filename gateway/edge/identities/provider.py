"""What a provider of identities is to an edge, and how long and how often it is asked."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from gateway.ledger.moderation.account_rows import is_subject
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IdentityRefused, ProviderUnavailable

SHOWING_S: Final = 8.0
"""The longest time in which a provider says who somebody is, with all that it reads for that."""

SHOWN_AT_ONCE: Final = 64
"""Credentials of one provider that an edge looks at at once; what is beyond is refused."""


class ShownSubject(NamedTuple):
    """Who a credential shows, by the id that the provider never gives to another.

    A credential that is good once has an id, which is remembered until `once_until_s` (Unix seconds). It is
    not the text of the credential, which whoever has it could spell otherwise.
    """

    subject: str
    once: str | None = None
    once_until_s: float = 0.0


class PlayerProvider(Protocol):
    """Says whom a credential shows."""

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:
        """Return whom a credential shows. Raises IdentityRefused, ProviderUnavailable."""
        ...


class BoundedProvider:
    """A provider that occupies an edge no longer than SHOWING_S, with so many credentials at once."""

    def __init__(self, provider: PlayerProvider) -> None:
        self._provider = provider
        self._shown = 0

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:
        """Return whom a credential shows. Raises IdentityRefused, ProviderUnavailable."""
        if self._shown >= SHOWN_AT_ONCE:
            raise ProviderUnavailable("too many are signing in at once")
        self._shown += 1
        try:
            async with asyncio.timeout(SHOWING_S):
                shown = await self._provider.show(credential, now_s=now_s)
        except TimeoutError:
            raise ProviderUnavailable("it took too long") from None
        except (IdentityRefused, ProviderUnavailable):
            raise
        except Exception as error:  # a studio's own plug-in may raise anything
            report(FaultPlace.SIGN_IN, error)
            raise ProviderUnavailable(type(error).__name__) from error
        finally:
            self._shown -= 1
        if not is_subject(shown.subject):
            raise IdentityRefused("sub")
        return shown
