"""Who looks at the console: their session, and the places that lead there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderator_credentials import Credential
from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_credential


@dataclass(frozen=True, slots=True)
class Place:
    """A page in the bar, for who has the ability anywhere."""

    path: str
    name: str
    ability: Ability = Ability.READ


PLACES: Final = (
    Place("/console/queue", "Queue"),
    Place("/console/players", "Players"),
    Place("/console/batches", "Batches"),
    Place("/console/figures", "Figures"),
    Place("/console/trail", "Trail"),
    Place("/console/people", "People", Ability.ADMINISTER),
)

OWN_PLACES: Final = (Place("/console/account", "My account"),)


@dataclass(frozen=True, slots=True)
class ConsoleVisit:
    """A moderator at the console, and the token that their forms carry."""

    credential: Credential
    boards: Mapping[str, str]
    """Titles of boards and families that have a file and that this moderator reaches, by their names."""

    @property
    def moderator(self) -> Moderator:
        """Return who it is."""
        return self.credential.moderator

    @property
    def csrf(self) -> str:
        """Return what each form carries; empty for who shows a token instead of a cookie."""
        return self.credential.session.csrf if self.credential.session else ""

    @property
    def places(self) -> list[Place]:
        """Return the pages of the bar that this moderator may open."""
        return [place for place in PLACES if self.moderator.scopes(place.ability)]

    @property
    def own_places(self) -> tuple[Place, ...]:
        """Return the pages of the menu with the moderator's name."""
        return OWN_PLACES


async def visit_of(request: web.Request) -> ConsoleVisit:
    """Return the visit of a request. Raises as `moderator_credential`."""
    credential, policies = await moderator_credential(request), request.app[EDGE].catalogue.policies
    named = {name: board.policy.title for name, board in policies.boards.items()}
    named |= dict.fromkeys(policies.families, "a family")
    return ConsoleVisit(
        credential, {name: named[name] for name in sorted(named) if credential.moderator.reaches(name)}
    )
