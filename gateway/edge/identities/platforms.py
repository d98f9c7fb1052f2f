"""Players by what platforms give to games: tickets of Steam, and keys of the itch app."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

from gateway.edge.auth.provider_documents import ProviderCalls
from gateway.edge.identities.provider import SHOWN_AT_ONCE, ShownSubject
from policies.errors import IdentityRefused, ProviderUnavailable

STEAM: Final = "https://partner.steam-api.com/ISteamUserAuth/AuthenticateUserTicket/v1/"
ITCH: Final = "https://itch.io/api/1/jwt/me"

TICKET_REMEMBERED_S: Final = 30 * 86_400
"""How long a ticket of Steam is remembered, which does not say when it ends."""

_TICKET: Final = re.compile(r"[0-9A-Fa-f]{16,8192}")
_STEAM_ID: Final = re.compile(r"[0-9]{17}")
_ITCH_KEY: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,4096}")
_OK: Final = 200
_REFUSED: Final = frozenset({400, 401, 403})


class SteamTickets:
    """A provider whose credentials are tickets of GetAuthTicketForWebApi, in hexadecimal digits.

    https://partner.steamgames.com/doc/webapi/ISteamUserAuth#AuthenticateUserTicket
    """

    def __init__(self, app: int, key: str, *, identity: str | None = None, address: str = STEAM) -> None:
        self._calls = ProviderCalls(SHOWN_AT_ONCE)  # each credential is a call
        self._asked = {"key": key, "appid": str(app)} | ({"identity": identity} if identity else {})
        self._address = address

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:
        """Return the Steam id of a ticket's holder. Raises IdentityRefused, ProviderUnavailable."""
        if not _TICKET.fullmatch(credential):
            raise IdentityRefused("ticket")
        query = urlencode(self._asked | {"ticket": credential})
        status, answer = await self._calls.call("GET", f"{self._address}?{query}")
        response = answer.get("response")
        if status != _OK or not isinstance(response, dict):
            raise ProviderUnavailable(f"Steam answers {status}")  # 403 is our own key's fault
        params: Any = response.get("params")
        if not isinstance(params, dict) or params.get("result") != "OK":
            raise IdentityRefused("ticket")
        if params.get("publisherbanned") is True:
            raise IdentityRefused("banned")
        steam_id = params.get("steamid")
        if not isinstance(steam_id, str) or not _STEAM_ID.fullmatch(steam_id):
            raise ProviderUnavailable("Steam names nobody")
        return ShownSubject(steam_id, credential.lower(), now_s + TICKET_REMEMBERED_S)


class ItchKeys:
    """A provider whose credentials are the keys that the itch app gives to the games that it starts.

    https://itch.io/docs/itch/integrating/manifest-actions.html
    """

    def __init__(self, *, address: str = ITCH) -> None:
        self._calls = ProviderCalls(SHOWN_AT_ONCE)  # each credential is a call
        self._address = address

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:  # noqa: ARG002 - as all providers
        """Return the id of a key's user. Raises IdentityRefused, ProviderUnavailable."""
        if not _ITCH_KEY.fullmatch(credential):
            raise IdentityRefused("key")
        headers = {"Authorization": f"Bearer {credential}"}
        status, answer = await self._calls.call("GET", self._address, headers=headers)
        if status in _REFUSED or "errors" in answer:
            raise IdentityRefused("key")
        user: Any = answer.get("user")
        if status != _OK or not isinstance(user, dict) or type(user.get("id")) is not int:
            raise ProviderUnavailable(f"itch answers {status}")
        return ShownSubject(str(user["id"]))
