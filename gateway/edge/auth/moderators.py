"""Moderators, and what their roles allow them on which boards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.runtime.telemetry import label_of

EVERYWHERE: Final = "*"
"""The scope of every board."""


class ModeratorRole(StrEnum):
    """The role of a moderator on a scope, from the smallest to the greatest."""

    VIEWER = "viewer"
    MODERATOR = "moderator"
    SENIOR = "senior"
    ADMIN = "admin"


_RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {role.value: rank for rank, role in enumerate(ModeratorRole)}
)


class Ability(StrEnum):
    """What a request asks of its moderator; each role also has the abilities of the smaller ones."""

    READ = "read"
    DECIDE = "decide"
    OVERRULE = "overrule"
    ADMINISTER = "administer"

    @property
    def role(self) -> ModeratorRole:
        """Return the smallest role that has the ability."""
        return _SMALLEST[self]


_SMALLEST: Final[Mapping[Ability, ModeratorRole]] = MappingProxyType(
    {
        Ability.READ: ModeratorRole.VIEWER,
        Ability.DECIDE: ModeratorRole.MODERATOR,
        Ability.OVERRULE: ModeratorRole.SENIOR,
        Ability.ADMINISTER: ModeratorRole.ADMIN,
    }
)


@dataclass(frozen=True, slots=True)
class Moderator:
    """Who moderates: a name, and a role on each scope.

    A scope is a board, a family, or `*`. `players` are the moderator's own players, on whose submissions they
    never decide.
    """

    name: str
    grants: Mapping[str, ModeratorRole]
    players: frozenset[str] = frozenset()

    def reaches(self, board: str | None) -> bool:
        """Return whether any role extends to a board; `*` asks for every board, None for any."""
        if board is None:
            return bool(self.grants)
        return any(scope in self.grants for scope in _scopes_of(board))

    def may(self, ability: Ability, board: str | None) -> bool:
        """Return whether the moderator has an ability on a board.

        `*` asks for every board, None for any.
        """
        if board is None:
            return bool(self.scopes(ability))
        roles = (self.grants.get(scope) for scope in _scopes_of(board))
        return any(role is not None and _RANKS[role] >= _RANKS[ability.role] for role in roles)

    def role_on(self, scope: str, *, at_most: ModeratorRole) -> ModeratorRole | None:
        """Return the role on a scope, but none greater than `at_most`; None without a role there."""
        roles = [self.grants[each] for each in _scopes_of(scope) if each in self.grants]
        largest = max(roles, key=_RANKS.__getitem__, default=None)
        return largest and min(largest, at_most, key=_RANKS.__getitem__)

    def scopes(self, ability: Ability) -> frozenset[str]:
        """Return the scopes on which the moderator has an ability: `*` alone if it is among them."""
        scopes = frozenset(
            scope for scope, role in self.grants.items() if _RANKS[role] >= _RANKS[ability.role]
        )
        return frozenset({EVERYWHERE}) if EVERYWHERE in scopes else scopes


def _scopes_of(board: str) -> tuple[str, ...]:
    return (EVERYWHERE, board, label_of(board))
