"""Changes accounts of moderators as an operator: from the command line, with the ledger alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from gateway.edge.auth.moderator_credentials import moderator_of_account
from gateway.edge.auth.moderators import EVERYWHERE, Ability, ModeratorRole
from gateway.edge.auth.own_pages import address_at
from gateway.edge.http.validation_messages import first_fault
from gateway.edge.moderation.own_account import new_token
from gateway.edge.moderation.people import INVITATION_PAGE, new_invitation
from gateway.edge.wire.moderation_people import NewModerator
from gateway.ledger.acts import Act
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import accounts, api_tokens, invitations
from gateway.ledger.moderation.account_rows import SUBJECT_LENGTH, Account, ProviderIdentity, is_subject
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger
from policies.errors import AccountConflict, SettingsError
from scoregate.deployment_settings import at_its_address
from scoregate.operator_boards import actor_here

HOUR_MS: Final = 3600 * 1000

FIRST_ADMIN: Final = "admin"
"""The name of the account that the first admin is offered."""

_LOCAL: Final = frozenset({"127.0.0.1", "0.0.0.0", "[::]"})  # noqa: S104 - they are compared, not bound

_ABILITIES: Final[Mapping[str, Ability]] = {ability.role.value: ability for ability in Ability}


async def add(
    settings: Settings, name: str, scopes: Sequence[str], role: ModeratorRole, players: Sequence[str]
) -> str:
    """Add an account, and return the address of its invitation. Raises AccountConflict, SettingsError."""
    new = _checked(name, scopes, role, players)
    token, invitation = new_invitation(wall_clock())
    async with open_ledger(settings) as ledger:
        await ledger.write(
            accounts.add_account(name, new.grants, _act(), players=new.players, invitation=invitation)
        )
    return address_of(settings, token)


async def add_known(
    settings: Settings,
    name: str,
    scopes: Sequence[str],
    role: ModeratorRole,
    players: Sequence[str],
    *,
    subject: str,
) -> None:
    """Add an account that logs in as a subject of the identity provider.

    Raises AccountConflict, and SettingsError without a provider.
    """
    new = _checked(name, scopes, role, players)
    if settings.oidc_issuer is None:
        raise SettingsError("--oidc: set SCOREGATE_OIDC_ISSUER and SCOREGATE_OIDC_CLIENT_ID first")
    if not is_subject(subject):
        raise SettingsError(
            f"--oidc: expected 1 to {SUBJECT_LENGTH} characters of ASCII, as the claim `sub` has"
        )
    identity = ProviderIdentity(settings.oidc_issuer, subject)
    async with open_ledger(settings) as ledger:
        await ledger.write(
            accounts.add_account(name, new.grants, _act(), players=new.players, identity=identity)
        )


async def invite(settings: Settings, name: str) -> str:
    """Invite an account again, and return the address. Raises AccountConflict."""
    token, invitation = new_invitation(wall_clock())
    async with open_ledger(settings) as ledger:
        await ledger.write(invitations.invite(name, invitation, _act()))
    return address_of(settings, token)


async def disable(settings: Settings, name: str) -> None:
    """Disable an account. Raises AccountConflict."""
    async with open_ledger(settings) as ledger:
        await ledger.write(accounts.disable_account(name, _act()))


async def enable(settings: Settings, name: str) -> None:
    """Enable an account. Raises AccountConflict."""
    async with open_ledger(settings) as ledger:
        await ledger.write(accounts.enable_account(name, _act()))


async def every_account(settings: Settings) -> list[Account]:
    """Return all accounts, by name."""
    async with open_ledger(settings) as ledger:
        return await ledger.read(accounts.accounts_after("", count=accounts.ACCOUNTS_LIMIT))


async def issue_token(
    settings: Settings, name: str, scopes: Sequence[str], role: ModeratorRole, *, hours: int
) -> str:
    """Return a new token of an account, which is added if there is none of this name.

    Raises AccountConflict if the account may not do that much, or is disabled.
    """
    new = _checked(name, scopes or [EVERYWHERE], role, ())
    async with open_ledger(settings) as ledger:
        account = await ledger.write(accounts.known_or_new(name, new.grants, _act()))
        for scope in scopes:
            if not moderator_of_account(account).reaches(scope):
                raise AccountConflict(f"{name} has no role on {scope}")
        return await _issue(ledger, account, scopes, _ABILITIES[role.value], hours)


async def first_admin(settings: Settings) -> str | None:
    """Return the address at which the first admin sets a password; None if an admin has one already."""
    token, invitation = new_invitation(wall_clock())
    async with open_ledger(settings) as ledger:
        is_offered = await ledger.write(accounts.offer_first_admin(FIRST_ADMIN, invitation, _act()))
    return address_of(settings, token) if is_offered else None


def address_of(settings: Settings, token: str) -> str:
    """Return the address of an invitation: over HTTPS, or plain for this machine alone.

    It is at the first host of the settings, or at the edge that runs over the data directory.
    """
    return address_at(settings.hosts[0] if settings.hosts else _bind_of(settings), INVITATION_PAGE + token)


def _bind_of(settings: Settings) -> str:
    """Return where the edge listens, as a browser on this machine reaches it."""
    bind = at_its_address(settings).bind
    host, colon, port = bind.rpartition(":")
    return f"localhost{colon}{port}" if host in _LOCAL else bind


async def _issue(
    ledger: Ledger, account: Account, scopes: Sequence[str], ability: Ability, hours: int
) -> str:
    now_ms = wall_clock()
    label = "from the command line"
    text, record = new_token(account.name, label, ability, scopes, now_ms, now_ms + hours * HOUR_MS)
    await ledger.write(api_tokens.issue_token(record, _act()))
    return text


def _act() -> Act:
    return Act(actor_here(), wall_clock())


def _checked(name: str, scopes: Sequence[str], role: ModeratorRole, players: Sequence[str]) -> NewModerator:
    """Return what the API would take too. Raises SettingsError."""
    grants = dict.fromkeys(scopes, role.value)
    try:
        return NewModerator.model_validate({"name": name, "grants": grants, "players": list(players)})
    except ValidationError as error:
        location, words = first_fault(error)
        raise SettingsError(f"{location[0]}: {words}") from None
