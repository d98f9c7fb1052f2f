"""The routes about players as moderators see them: their submissions and bans."""

from __future__ import annotations

from gateway.edge.auth.moderators import Ability
from gateway.edge.moderation import (
    bans,
    identities_of_players,
    merges_of_players,
    players,
    renames,
    tokens_of_players,
)
from gateway.edge.problems import ProblemType as P
from gateway.edge.route import DURABLE, POST, TOKEN, Caller, Route
from gateway.edge.wire import moderation_bans as wire
from gateway.edge.wire.identity_answers import IdentityList, TokensEnded
from gateway.edge.wire.moderation_merges import MergeOfPlayer, MergesOfPlayer
from gateway.edge.wire.moderation_players import PlayedSubmissions, PlayerProfile, PlayersNamed
from gateway.edge.wire.moderation_renames import NameUndone, NewName, RenameShown

_READ = (*TOKEN, *DURABLE, P.NOT_FOUND)

_SENIOR = (
    *TOKEN, *DURABLE, P.NOT_FOUND, P.TOO_EARLY, P.CSRF, P.SELF_APPROVAL, P.STATE_CONFLICT,
)  # fmt: skip

_RENAME = (
    *POST, *TOKEN, P.CSRF, P.NOT_FOUND, P.SELF_APPROVAL, P.STATE_CONFLICT, P.NAME_TAKEN,
    P.PRECONDITION_FAILED,
)  # fmt: skip

PLAYER_ROUTES = (
    Route("GET", "/v1/moderation/players", players.list_players, Caller.MODERATOR,
          "Find players by the beginning of their names", PlayersNamed,
          problems=(*TOKEN, *DURABLE, P.SCHEMA_VIOLATION, P.NOT_FOUND), query=("name", "limit", "cursor"),
          ability=Ability.READ),
    Route("GET", "/v1/moderation/players/{player}", players.show_player, Caller.MODERATOR,
          "Read a player, as far as your boards reach", PlayerProfile, problems=_READ, ability=Ability.READ),
    Route("GET", "/v1/moderation/players/{player}/submissions", players.list_submissions, Caller.MODERATOR,
          "List the submissions of a player on your boards", PlayedSubmissions,
          problems=(*_READ, P.SCHEMA_VIOLATION), query=("limit", "cursor"), ability=Ability.READ),
    Route("POST", "/v1/moderation/players/{player}/rename", renames.rename_player, Caller.MODERATOR,
          "Give a player another name", RenameShown, NewName, problems=_RENAME, ability=Ability.OVERRULE),
    Route("POST", "/v1/moderation/players/{player}/rename/undo", renames.undo_rename, Caller.MODERATOR,
          "Take the last rename of a player back", RenameShown, NameUndone, problems=_RENAME,
          ability=Ability.OVERRULE),
    Route("DELETE", "/v1/moderation/players/{player}/tokens", tokens_of_players.end_tokens_of_player,
          Caller.MODERATOR, "End all tokens of a player", TokensEnded,
          problems=_SENIOR, ability=Ability.OVERRULE),
    Route("GET", "/v1/moderation/players/{player}/identities",
          identities_of_players.list_identities_of_player, Caller.MODERATOR,
          "List by what a player can sign in", IdentityList, problems=_READ, ability=Ability.OVERRULE),
    Route("DELETE", "/v1/moderation/players/{player}/identities/{identity}",
          identities_of_players.unlink_identity_of_player, Caller.MODERATOR,
          "Take an identity from a player, and end their tokens", IdentityList, problems=_SENIOR,
          ability=Ability.OVERRULE),
    Route("GET", "/v1/moderation/players/{player}/merges", merges_of_players.list_merges_of_player,
          Caller.MODERATOR, "List the merges of a player", MergesOfPlayer, problems=_READ,
          ability=Ability.OVERRULE),
    Route("DELETE", "/v1/moderation/players/{player}/merges/{merge}",
          merges_of_players.undo_merge_of_player, Caller.MODERATOR, "Undo a merge of a player",
          MergeOfPlayer, problems=_SENIOR, ability=Ability.OVERRULE),
    Route("POST", "/v1/moderation/players/{player}/bans", bans.ban_player, Caller.MODERATOR,
          "Ban a player on a board, a family or everywhere", wire.BanShown, wire.NewBan, 201,
          (*POST, *TOKEN, P.CSRF, P.NOT_FOUND, P.SELF_APPROVAL, P.IDEMPOTENCY_MISMATCH),
          ability=Ability.OVERRULE),
    Route("GET", "/v1/moderation/players/{player}/bans", bans.list_bans, Caller.MODERATOR,
          "List the bans of a player", wire.BanList, problems=_READ, ability=Ability.READ),
    Route("DELETE", "/v1/moderation/players/{player}/bans/{ban}", bans.lift_ban, Caller.MODERATOR,
          "Lift a ban of a player", wire.BanShown,
          problems=(*_READ, P.TOO_EARLY, P.CSRF, P.SELF_APPROVAL), ability=Ability.OVERRULE),
)  # fmt: skip
