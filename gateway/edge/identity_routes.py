"""The routes by which players show who they are."""

from __future__ import annotations

from gateway.edge.identities import chosen_names, own_data, own_identities, own_tokens, signing_in
from gateway.edge.problems import ProblemType as P
from gateway.edge.route import DURABLE, POST, TOKEN, Caller, Route
from gateway.edge.wire import identity_answers as answers
from gateway.edge.wire.bodies import NewPlayer
from gateway.edge.wire.identity_bodies import SignIn, WishedName
from gateway.edge.wire.outcomes import PlayerCreated
from gateway.edge.wire.own_data_answers import ErasureShown, MergeShown, NewMerge

_CHANGE = (*TOKEN, *DURABLE, P.TOO_EARLY, P.QUOTA_EXCEEDED)

IDENTITY_ROUTES = (
    Route("POST", "/v1/players", signing_in.create_player, Caller.ANYONE,
          "Create an anonymous player, or get the one of this device", PlayerCreated, NewPlayer, 201,
          (*POST, P.QUOTA_EXCEEDED, P.NAME_TAKEN)),
    Route("POST", "/v1/players/sign-in", signing_in.sign_in, Caller.ANYONE,
          "Sign in by an identity, or link it to your player", answers.SignedIn, SignIn,
          problems=(*POST, *TOKEN, P.SIGN_IN_FAILED, P.IDENTITY_TAKEN, P.LIST_FULL, P.NAME_TAKEN,
                    P.QUOTA_EXCEEDED, P.DEPENDENCY_UNAVAILABLE)),
    Route("PUT", "/v1/name", chosen_names.rename_oneself, Caller.PLAYER, "Choose another name",
          answers.NameShown, WishedName,
          problems=(*POST, *TOKEN, P.QUOTA_EXCEEDED, P.STATE_CONFLICT, P.NAME_TAKEN)),
    Route("GET", "/v1/identities", own_identities.list_identities, Caller.PLAYER,
          "List by what you can sign in", answers.IdentityList, problems=(*TOKEN, *DURABLE)),
    Route("DELETE", "/v1/identities/{identity}", own_identities.unlink_identity, Caller.PLAYER,
          "Unlink an identity", answers.IdentityList, problems=(*_CHANGE, P.NOT_FOUND, P.STATE_CONFLICT)),
    Route("POST", "/v1/recovery-code", own_identities.make_recovery_code, Caller.PLAYER,
          "Get a new recovery code, which voids the one of before", answers.RecoveryCode, status=201,
          problems=(*_CHANGE, P.LIST_FULL)),
    Route("DELETE", "/v1/tokens", own_tokens.end_own_tokens, Caller.PLAYER,
          "End all your tokens, and get a new one", answers.PlayerToken,
          problems=_CHANGE),
    Route("POST", "/v1/merges", own_data.merge_player, Caller.PLAYER,
          "Merge the player of another token into yours", MergeShown, NewMerge,
          problems=(*POST, *TOKEN, P.STATE_CONFLICT, P.QUOTA_EXCEEDED)),
    Route("DELETE", "/v1/merges/{merge}", own_data.part_player, Caller.PLAYER,
          "Undo a merge into your player", MergeShown, problems=(*_CHANGE, P.NOT_FOUND, P.STATE_CONFLICT)),
    Route("GET", "/v1/export", own_data.export_own, Caller.PLAYER,
          "Get what there is about you, as lines of JSON",
          problems=(*TOKEN, *DURABLE, P.QUOTA_EXCEEDED, P.SCHEMA_VIOLATION), query=("after",),
          gives_octets=True),
    Route("PUT", "/v1/erasure", own_data.erase_own, Caller.PLAYER,
          "Have your data erased in a week", ErasureShown, problems=(*_CHANGE, P.STATE_CONFLICT)),
    Route("DELETE", "/v1/erasure", own_data.keep_own, Caller.PLAYER,
          "Keep your data after all", ErasureShown, problems=(*_CHANGE, P.STATE_CONFLICT)),
)  # fmt: skip
