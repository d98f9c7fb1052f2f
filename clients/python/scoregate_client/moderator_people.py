"""Accounts of moderators, for admins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from .connection import segment
from .moderator_requests import ModeratorRequests
from .player_models import Invitation, Person


class PeopleModeration(ModeratorRequests):
    """Who moderates, on which boards. A change names the account as it was read."""

    def people(self) -> AsyncGenerator[Person, None]:
        """Yield the accounts of moderators, by name."""
        return self._all(Person, "/people", "moderators", {})

    async def person(self, name: str) -> Person:
        """Return a moderator's account."""
        return Person.from_json(await self._read(f"/people/{segment(name)}"))

    async def add_person(
        self, name: str, grants: Mapping[str, str], *, players: Sequence[str] = ()
    ) -> Invitation:
        """Add a moderator with roles by scope, and return the page on which they set a password."""
        # Not repeatable: the invitation is shown once.
        document = {"name": name, "grants": dict(grants), "players": list(players)}
        return Invitation.from_json(await self._write("POST", "/people", document, repeatable=False))

    async def change_person(
        self, read: Person, grants: Mapping[str, str], *, players: Sequence[str] = ()
    ) -> Person:
        """Give an account these roles by scope, and these own players, from now on."""
        document = {"grants": dict(grants), "players": list(players)}
        path = f"/people/{segment(read.moderator)}"
        return Person.from_json(await self._write("PUT", path, document, etag=read.etag))

    async def disable_person(self, read: Person) -> Person:
        """Have an account's sessions and tokens refused from the next request on."""
        return Person.from_json(await self._turn(read, "disable"))

    async def enable_person(self, read: Person) -> Person:
        """Let a disabled account in again."""
        return Person.from_json(await self._turn(read, "enable"))

    async def invite_again(self, read: Person) -> Invitation:
        """Return a new invitation for an account that has accepted none."""
        return Invitation.from_json(await self._turn(read, "invite"))

    async def reset_person(self, read: Person) -> Invitation:
        """End an account's password, second factor, sessions and tokens, and return an invitation."""
        return Invitation.from_json(await self._turn(read, "reset"))

    async def _turn(self, read: Person, verb: str) -> dict[str, Any]:
        path = f"/people/{segment(read.moderator)}/{verb}"
        return await self._write("POST", path, etag=read.etag, repeatable=False)
