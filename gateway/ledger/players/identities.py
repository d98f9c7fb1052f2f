"""Identities of players: by what somebody who shows it is known as a player again.

An identity is a provider and a subject, which is a keyed digest: the ledger cannot tell whose it is. It
belongs to one player at a time, whom it was linked to first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select

from gateway.ledger.acts import Act, add_event
from gateway.ledger.players.player_names import name_of_player
from gateway.ledger.players.token_endings import TokenEnding, end_tokens, generation_of
from gateway.ledger.queries import add_player
from gateway.ledger.schema import player_identities, used_credentials
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import CredentialUsed, IdentitiesFull, IdentityTaken, LastWayIn
from policies.vocabulary import Reason

DEVICE: Final = "device"
"""The provider of keys that devices make and keep."""

RECOVERY: Final = "recovery"
"""The provider of recovery codes."""

IDENTITIES_LIMIT: Final = 32
"""Identities that a player has at most, the recovery code among them."""

FORGOTTEN_AT_ONCE: Final = 16
"""Used credentials that have expired and are deleted when another is noted."""

_i, _u = player_identities.c, used_credentials.c

_OWNER = Query(
    select(_i.player).where(
        _i.provider == bindparam("of_provider"), _i.subject_digest == bindparam("of_subject_digest")
    )
)
_OF_PLAYER = Query(
    select(_i.provider, _i.subject_digest, _i.added_at_ms)
    .where(_i.player == bindparam("of_player"))
    .order_by(_i.added_at_ms, _i.provider, _i.subject_digest)
    .limit(IDENTITIES_LIMIT)
)
_ADD = Query(insert(player_identities))
_REMOVE = Query(
    delete(player_identities).where(
        _i.provider == bindparam("of_provider"), _i.subject_digest == bindparam("of_subject_digest")
    )
)
_USED = Query(select(func.count()).where(_u.digest == bindparam("of_digest")))
_USE = Query(insert(used_credentials))
_FORGET = Query(
    delete(used_credentials).where(
        _u.digest.in_(
            select(_u.digest)
            .where(_u.expires_at_ms < bindparam("now"))
            .order_by(_u.expires_at_ms)
            .limit(FORGOTTEN_AT_ONCE)
        )
    )
)


class Identity(NamedTuple):
    """A provider, and the digest of who somebody is to it."""

    provider: str
    subject_digest: bytes


class OwnIdentity(NamedTuple):
    """An identity of a player, and when it was linked to them (Unix ms)."""

    provider: str
    subject_digest: bytes
    added_at_ms: int

    @property
    def shown_id(self) -> str:
        """The id by which it is named where it is shown."""
        return self.subject_digest[:8].hex()


class UsedCredential(NamedTuple):
    """A credential that is good once: its digest, and when it is refused by itself (Unix ms)."""

    digest: bytes
    expires_at_ms: int


class NewcomersName(NamedTuple):
    """The id and the display name of a player who is added unless there is one."""

    player: str
    name: str
    is_unique: bool


class PlayerSignedIn(NamedTuple):
    """A player who has shown an identity, with the generation of the token that they get.

    The name is None if a studio's own tokens made the player. With `is_new` the player was added just now.
    """

    player: str
    name: str | None
    generation: int
    is_new: bool


def owner_of(identity: Identity) -> Operation[str | None]:
    """Return the player whom an identity belongs to, or None."""

    async def work(tx: Transaction) -> str | None:
        rows = await tx.rows(_OWNER, of_provider=identity.provider, of_subject_digest=identity.subject_digest)
        return rows[0][0] if rows else None

    return work


def identities_of(player: str) -> Operation[list[OwnIdentity]]:
    """Return the identities of a player, the oldest first."""

    async def work(tx: Transaction) -> list[OwnIdentity]:
        return [OwnIdentity(*row) for row in await tx.rows(_OF_PLAYER, of_player=player)]

    return work


def sign_in(
    identity: Identity,
    newcomer: NewcomersName | None,
    act: Act,
    *,
    once: UsedCredential | None = None,
    recovery: Identity | None = None,
) -> Operation[PlayerSignedIn | None]:
    """Return the player whom an identity belongs to; if to none, add the newcomer, with a recovery code.

    None if there is no newcomer either. Raises NameTaken, CredentialUsed.
    """

    async def work(tx: Transaction) -> PlayerSignedIn | None:
        await _use(tx, once, act)
        player = await owner_of(identity)(tx)
        if player is not None:
            named = await name_of_player(player)(tx)
            return PlayerSignedIn(player, named and named.name, await generation_of(tx, player), is_new=False)
        if newcomer is None:
            return None
        player, name, is_unique = newcomer
        await add_player(player, name, now_ms=act.at_ms, is_unique=is_unique)(tx)
        for each in (identity, recovery):
            if each is not None:
                await _add(tx, each, player, act)
        return PlayerSignedIn(player, name, 0, is_new=True)

    return work


def link(
    identity: Identity, player: str, act: Act, *, once: UsedCredential | None = None
) -> Operation[PlayerSignedIn | None]:
    """Have an identity belong to a player, and store the event. To link it again changes nothing.

    None for a recovery code that was not made for anybody. Raises IdentityTaken if it is another player's,
    IdentitiesFull, CredentialUsed.
    """

    async def work(tx: Transaction) -> PlayerSignedIn | None:
        await _use(tx, once, act)
        owner = await owner_of(identity)(tx)
        if owner not in {None, player}:
            raise IdentityTaken
        if owner is None:
            if identity.provider == RECOVERY:
                return None
            if len(await identities_of(player)(tx)) >= IDENTITIES_LIMIT:
                raise IdentitiesFull
            await _add(tx, identity, player, act)
            detail = {"provider": identity.provider}
            await add_event(tx, Reason.IDENTITY_LINKED, act, detail, player=player)
        named = await name_of_player(player)(tx)
        return PlayerSignedIn(player, named and named.name, await generation_of(tx, player), is_new=False)

    return work


def unlink(identity: Identity, player: str, act: Act) -> Operation[bool]:
    """Take an identity from a player, store the event, and return whether it was theirs.

    Raises LastWayIn if the player had no other.
    """

    async def work(tx: Transaction) -> bool:
        own = [Identity(*each[:2]) for each in await identities_of(player)(tx)]
        if identity not in own:
            return False
        if own == [identity]:
            raise LastWayIn
        await _unlink(tx, identity, player, act)
        return True

    return work


def take_away(identity: Identity, player: str, act: Act) -> Operation[TokenEnding | None]:
    """Take an identity from a player, be it the last, end all their tokens, and store both events.

    It is for whoever helps the player whom a thief linked theirs to. None if it was not the player's.
    """

    async def work(tx: Transaction) -> TokenEnding | None:
        if await owner_of(identity)(tx) != player:
            return None
        await _unlink(tx, identity, player, act)
        return await end_tokens(player, act)(tx)

    return work


def replace_recovery(identity: Identity, player: str, act: Act) -> Operation[None]:
    """Give a player this recovery code in place of the one of before, and store the event.

    Raises IdentitiesFull.
    """

    async def work(tx: Transaction) -> None:
        own = await identities_of(player)(tx)
        before = [Identity(*each[:2]) for each in own if each.provider == RECOVERY]
        if len(own) - len(before) >= IDENTITIES_LIMIT:
            raise IdentitiesFull
        for each in before:
            await _remove(tx, each)
        await _add(tx, identity, player, act)
        await add_event(tx, Reason.RECOVERY_CODE_MADE, act, {}, player=player)

    return work


async def _add(tx: Transaction, identity: Identity, player: str, act: Act) -> None:
    await tx.run(_ADD, **identity._asdict(), player=player, added_at_ms=act.at_ms)


async def _unlink(tx: Transaction, identity: Identity, player: str, act: Act) -> None:
    await _remove(tx, identity)
    detail = {"provider": identity.provider}
    await add_event(tx, Reason.IDENTITY_UNLINKED, act, detail, player=player)


async def _remove(tx: Transaction, identity: Identity) -> None:
    await tx.run(_REMOVE, of_provider=identity.provider, of_subject_digest=identity.subject_digest)


async def _use(tx: Transaction, once: UsedCredential | None, act: Act) -> None:
    """Note that a credential was used. Raises CredentialUsed if it was before."""
    if once is None:
        return
    await tx.run(_FORGET, now=act.at_ms)
    [[count]] = await tx.rows(_USED, of_digest=once.digest)
    if count:
        raise CredentialUsed
    await tx.run(_USE, **once._asdict())
