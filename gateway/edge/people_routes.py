"""The routes about moderators themselves: logins, sessions, tokens, accounts."""

from __future__ import annotations

from dataclasses import replace

from gateway.edge.auth.moderators import Ability
from gateway.edge.moderation import own_account, own_sessions, people
from gateway.edge.problems import ProblemType as P
from gateway.edge.route import DURABLE, POST, TOKEN, Caller, Route
from gateway.edge.wire import moderation_people as wire

_LOGIN = (*POST, P.LOGIN_FAILED, P.SECOND_FACTOR_REQUIRED, P.QUOTA_EXCEEDED, P.CSRF, P.INSECURE_ORIGIN)
_INVITED = (*POST, P.NOT_FOUND, P.QUOTA_EXCEEDED, P.CSRF, P.LOGIN_FAILED)
_OWN = (*TOKEN, *DURABLE)
_OWN_WRITE = (*_OWN, P.TOO_EARLY, P.CSRF)
_OWN_SECRET = (*POST, *TOKEN, P.CSRF, P.LOGIN_FAILED, P.QUOTA_EXCEEDED, P.STATE_CONFLICT)
_ADMIN = (*TOKEN, *DURABLE, P.NOT_FOUND)
_ADMIN_WRITE = (*_ADMIN, P.TOO_EARLY, P.CSRF, P.STATE_CONFLICT)
_CHANGE = (*POST, *TOKEN, P.CSRF, P.NOT_FOUND, P.STATE_CONFLICT)
_TURN = (*_ADMIN_WRITE, P.PRECONDITION_REQUIRED, P.PRECONDITION_FAILED)

_OF_OWN = (
    Route("GET", "/session", own_sessions.show_session, Caller.ACCOUNT,
          "Read who you are, and what you may do", wire.WhoAmI, problems=_OWN),
    Route("DELETE", "/session", own_sessions.close_session, Caller.ACCOUNT, "Log out",
          wire.SessionsEnded, problems=_OWN_WRITE),
    Route("GET", "/sessions", own_sessions.list_sessions, Caller.ACCOUNT, "List your sessions",
          wire.SessionList, problems=_OWN),
    Route("DELETE", "/sessions", own_sessions.end_sessions, Caller.ACCOUNT, "End all of your sessions",
          wire.SessionsEnded, problems=_OWN_WRITE),
    Route("DELETE", "/sessions/{session}", own_sessions.end_session, Caller.ACCOUNT,
          "End one of your sessions", wire.SessionsEnded, problems=(*_OWN_WRITE, P.NOT_FOUND)),
    Route("PUT", "/password", own_account.change_password, Caller.ACCOUNT, "Change your password",
          wire.PasswordSet, wire.NewPassword, problems=(*_OWN_SECRET, P.PRECONDITION_FAILED)),
    Route("POST", "/second-factor", own_account.begin_second_factor, Caller.ACCOUNT,
          "Begin a second factor for your logins", wire.SecondFactorBegun, wire.PasswordShown, 201,
          _OWN_SECRET),
    Route("POST", "/second-factor/confirm", own_account.confirm_second_factor, Caller.ACCOUNT,
          "Confirm your second factor with a code", wire.SecondFactorShown, wire.SecondFactorCode,
          problems=(*_OWN_SECRET, P.PRECONDITION_FAILED)),
    Route("POST", "/second-factor/remove", own_account.remove_second_factor, Caller.ACCOUNT,
          "Remove your second factor", wire.SecondFactorShown, wire.PasswordShown, problems=_OWN_SECRET),
    Route("GET", "/tokens", own_account.list_tokens, Caller.ACCOUNT, "List your tokens",
          wire.TokenList, problems=_OWN),
    Route("POST", "/tokens", own_account.issue_token, Caller.ACCOUNT, "Issue a token for a program of yours",
          wire.TokenIssued, wire.NewToken, 201, _OWN_SECRET),
    Route("DELETE", "/tokens/{token}", own_account.revoke_token, Caller.ACCOUNT, "Revoke one of your tokens",
          wire.TokenRevoked, problems=(*_OWN_WRITE, P.NOT_FOUND)),
)  # fmt: skip

_OF_EVERYBODY = (
    Route("POST", "/session", own_sessions.open_session, Caller.ANYONE, "Log in as a moderator",
          wire.WhoAmI, wire.NewLogin, 201, _LOGIN),
    Route("GET", "/invitations/{invitation}", own_sessions.show_invitation, Caller.ANYONE,
          "Read whom an invitation is for", wire.InvitationShown,
          problems=(*DURABLE, P.NOT_FOUND, P.QUOTA_EXCEEDED)),
    Route("POST", "/invitations/{invitation}", own_sessions.accept_invitation, Caller.ANYONE,
          "Accept an invitation: set a password", wire.PasswordSet, wire.InvitationAccepted,
          problems=_INVITED),
)  # fmt: skip

_OF_ADMINS = (
    Route("GET", "/people", people.list_people, Caller.MODERATOR, "List the accounts of moderators",
          wire.ModeratorList, problems=(*_ADMIN, P.SCHEMA_VIOLATION), query=("limit", "cursor")),
    Route("POST", "/people", people.add_person, Caller.MODERATOR, "Add a moderator, and get an invitation",
          wire.InvitationMade, wire.NewModerator, 201, _CHANGE),
    Route("GET", "/people/{moderator}", people.show_person, Caller.MODERATOR, "Read a moderator's account",
          wire.ModeratorShown, problems=_ADMIN),
    Route("PUT", "/people/{moderator}", people.change_person, Caller.MODERATOR,
          "Change a moderator's roles and own players", wire.ModeratorShown, wire.ModeratorChange,
          problems=(*_CHANGE, P.PRECONDITION_REQUIRED, P.PRECONDITION_FAILED), is_conditional=True),
    Route("POST", "/people/{moderator}/disable", people.disable_person, Caller.MODERATOR,
          "Disable a moderator's account", wire.ModeratorShown, problems=_TURN, is_conditional=True),
    Route("POST", "/people/{moderator}/enable", people.enable_person, Caller.MODERATOR,
          "Enable a moderator's account", wire.ModeratorShown, problems=_TURN, is_conditional=True),
    Route("POST", "/people/{moderator}/invite", people.invite_person, Caller.MODERATOR,
          "Get a new invitation for a moderator", wire.InvitationMade, None, 201, _TURN,
          is_conditional=True),
    Route("POST", "/people/{moderator}/reset", people.reset_person, Caller.MODERATOR,
          "End a moderator's access, and get a new invitation", wire.InvitationMade, None, 201, _TURN,
          is_conditional=True),
    Route("GET", "/people/{moderator}/sessions", people.list_sessions_of_person, Caller.MODERATOR,
          "List a moderator's sessions", wire.SessionList, problems=_ADMIN),
    Route("DELETE", "/people/{moderator}/sessions", people.end_sessions_of_person, Caller.MODERATOR,
          "End all sessions of a moderator", wire.SessionsEnded, problems=_ADMIN_WRITE),
    Route("GET", "/people/{moderator}/tokens", people.list_tokens_of_person, Caller.MODERATOR,
          "List a moderator's tokens", wire.TokenList, problems=_ADMIN),
    Route("DELETE", "/people/{moderator}/tokens/{token}", people.revoke_token_of_person, Caller.MODERATOR,
          "Revoke a moderator's token", wire.TokenRevoked, problems=_ADMIN_WRITE),
)  # fmt: skip

PEOPLE_ROUTES: tuple[Route, ...] = tuple(
    replace(route, path=f"/v1/moderation{route.path}", ability=ability)
    for routes, ability in ((_OF_EVERYBODY, None), (_OF_OWN, None), (_OF_ADMINS, Ability.ADMINISTER))
    for route in routes
)
