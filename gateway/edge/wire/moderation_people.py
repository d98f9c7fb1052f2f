"""The bodies and answers about moderators themselves: logins, sessions, tokens, accounts."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gateway.edge.wire.bodies import Body
from gateway.edge.wire.fields import Answer, PlayerId, Secret

SCOPES_LIMIT: Final = 50
"""Most scopes that an account is granted, or a token is limited to."""

LONGEST_TOKEN_DAYS: Final = 365

ModeratorName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Scope = Annotated[str, Field(pattern=r"^(\*|[a-z][a-z0-9_.-]{0,127})$")]
Password = Annotated[Secret, Field(max_length=256)]
PasswordAgain = Annotated[str | None, Field(max_length=256, repr=False)]
Code = Annotated[Secret, Field(max_length=16)]
RoleName = Literal["viewer", "moderator", "senior", "admin"]
AbilityName = Literal["read", "decide", "overrule", "administer"]
Grants = Annotated[dict[Scope, RoleName], Field(max_length=SCOPES_LIMIT)]
OwnPlayers = Annotated[list[PlayerId], Field(max_length=SCOPES_LIMIT)]


class NewLogin(Body):
    """A login. The code is that of the second factor, for accounts that have one."""

    name: Annotated[str, Field(max_length=64)]
    password: Password
    code: Code = ""


class InvitationAccepted(Body):
    """The password that an invited moderator sets."""

    password: Password


class NewPassword(Body):
    """A change of one's own password."""

    password: Password
    new: Password


class PasswordShown(Body):
    """One's own password, shown again."""

    password: Password


class SecondFactorCode(Body):
    """A code that one's app shows now."""

    code: Code


class NewToken(Body):
    """A personal token: up to an ability, on some scopes, or without any on all of one's own.

    One's own password is shown again, so that whoever has the session alone cannot stay. Who logs in through
    the identity provider has none, and has proven there lately who they are.
    """

    password: PasswordAgain = None
    label: Annotated[str, Field(min_length=1, max_length=80)]
    ability: AbilityName = "decide"
    scopes: Annotated[list[Scope], Field(max_length=SCOPES_LIMIT)] = Field(default_factory=list)
    days: Annotated[int, Field(ge=1, le=LONGEST_TOKEN_DAYS)] = 30


class NewModerator(Body):
    """A new account: its roles by scope (a board, a family, or `*`), and the moderator's own players."""

    name: ModeratorName
    grants: Grants
    players: OwnPlayers = Field(default_factory=list)


class ModeratorChange(Body):
    """The roles by scope and the own players that an account has from now on."""

    grants: Grants
    players: OwnPlayers = Field(default_factory=list)


class WhoAmI(Answer):
    """Who sends the request, and what they may do where.

    With a token, the roles are no greater than the token's. `csrf` is what writes by the session's cookie
    carry in `X-Scoregate-Csrf`. Who `has_identity` logs in through the identity provider.
    """

    moderator: str
    by: Literal["session", "token"]
    grants: dict[str, str]
    players: list[str]
    second_factor: bool
    has_identity: bool
    csrf: str | None = None
    expires_at: str


class SessionShown(Answer):
    """A session: when it was opened, used last, and ends at the latest; its browser and hashed address."""

    session: str
    is_this: bool
    browser: str
    address: str
    created_at: str
    used_at: str
    expires_at: str


class SessionList(Answer):
    """The open sessions of an account, the newest first."""

    moderator: str
    sessions: list[SessionShown]


class SessionsEnded(Answer):
    """How many sessions were ended."""

    ended: int


class InvitationShown(Answer):
    """Whom an invitation is for."""

    moderator: str


class InvitationMade(Answer):
    """An invitation, which is shown this once: the page on which it is accepted, and when it ends."""

    moderator: str
    page: Secret
    expires_at: str
    etag: str


class PasswordSet(Answer):
    """A password was set. The sessions and tokens of the account have ended: log in with it."""

    moderator: str


class SecondFactorBegun(Answer):
    """The secret of a second factor for an app, in base32 and as an `otpauth` address, to be confirmed."""

    secret: Secret
    address: Secret


class SecondFactorShown(Answer):
    """Whether logging in takes a code now."""

    second_factor: bool


class TokenShown(Answer):
    """A personal token, without its text."""

    token: str
    label: str
    ability: str
    scopes: list[str]
    created_at: str
    expires_at: str


class TokenIssued(TokenShown):
    """A personal token with its text, which is shown this once."""

    text: Secret


class TokenList(Answer):
    """The tokens of an account that are in force, the newest first."""

    moderator: str
    tokens: list[TokenShown]


class TokenRevoked(Answer):
    """A token was revoked."""

    token: str


class ModeratorShown(Answer):
    """An account: its roles by scope, its own players, and whether and how it can log in."""

    moderator: str
    grants: dict[str, str]
    players: list[str]
    has_password: bool
    has_identity: bool
    second_factor: bool
    created_at: str
    disabled_at: str | None = None
    etag: str


class ModeratorList(Answer):
    """A page of accounts, by name; the next page is `cursor` = `next`."""

    moderators: list[ModeratorShown]
    next: str | None = None
