"""The answers about who players are."""

from __future__ import annotations

from gateway.edge.wire.fields import Answer, PlayerId, Secret


class PlayerToken(Answer):
    """A new bearer token of a player."""

    player: PlayerId
    token: Secret


class TokensEnded(Answer):
    """When all tokens of a player that were issued before were ended."""

    player: PlayerId
    ended_at: str


class SignedIn(Answer):
    """Who somebody is, with a new bearer token. With `is_new` the player was created just now."""

    player: PlayerId
    name: str
    token: Secret
    is_new: bool


class IdentityShown(Answer):
    """Something by which a player can sign in."""

    identity: str
    provider: str
    added_at: str


class IdentityList(Answer):
    """All by which a player can sign in."""

    player: PlayerId
    identities: list[IdentityShown]


class RecoveryCode(Answer):
    """A code that signs the player in on another device. It is shown once."""

    player: PlayerId
    recovery_code: Secret


class NameShown(Answer):
    """The name that a player has now, as it is shown."""

    player: PlayerId
    name: str
