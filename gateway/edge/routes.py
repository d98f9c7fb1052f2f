"""The table of all routes."""

from __future__ import annotations

from gateway.edge.assets import download, upload
from gateway.edge.auth.moderators import Ability
from gateway.edge.batch_routes import BATCH_ROUTES
from gateway.edge.health import endpoints
from gateway.edge.identity_routes import IDENTITY_ROUTES
from gateway.edge.live import feed_request, sse, websocket
from gateway.edge.moderation import cases, decisions, figures, surroundings, trail
from gateway.edge.people_routes import PEOPLE_ROUTES
from gateway.edge.player_routes import PLAYER_ROUTES
from gateway.edge.players import friends, joins, memberships
from gateway.edge.problems import ProblemType as P
from gateway.edge.queue_routes import QUEUE_ROUTES
from gateway.edge.reads import (
    boards,
    details,
    distribution,
    entries,
    families,
    player_standings,
    statistics,
    submission_state,
    windows,
)
from gateway.edge.route import CAPPED, DURABLE, POST, TOKEN, Caller, Handler, Route
from gateway.edge.servers import board_operations, server_batches, server_operations
from gateway.edge.submissions import appeals, reveals, runs, submit
from gateway.edge.wire import board_answers, board_bodies, bodies, outcomes, read_models
from gateway.edge.wire.moderation_decisions import Decided, NewDecision, PlayerStatement, StatementKept
from gateway.edge.wire.moderation_figures import Figures
from gateway.edge.wire.moderation_surroundings import CaseSurroundings
from gateway.edge.wire.moderation_trail import TrailPageShown

__all__ = ["ROUTES", "Caller", "Route"]

_SIGNED = (
    P.SIGNATURE_MISSING,
    P.SIGNATURE_MALFORMED,
    P.SIGNATURE_INVALID,
    P.SIGNATURE_EXPIRED,
    P.SIGNATURE_COVERAGE,
)
_ORDERED = (P.NOT_FOUND, P.BOARD_REBUILDING)
_INDEXED = (*_ORDERED, P.DEPENDENCY_UNAVAILABLE)
_SUBMIT = (
    *POST,
    *_SIGNED,
    P.TOKEN_INVALID,
    P.RUN_EXPIRED,
    P.BOARD_REPLACED,
    P.RUN_ALREADY_SUBMITTED,
    P.NONCE_REUSED,
    P.BOUNDS_VIOLATION,
    P.SCOPE_FORBIDDEN,
    P.PLAYER_BANNED,
    P.QUOTA_EXCEEDED,
    P.ABNORMAL_USAGE,
    P.NOT_FOUND,
)
_SERVER = (*POST, *_SIGNED, P.SCOPE_FORBIDDEN, P.NONCE_REUSED, P.NOT_FOUND)
_SERVER_FILE = (
    *CAPPED,
    *DURABLE,
    *_SIGNED,
    P.SCHEMA_VIOLATION,
    P.UNSUPPORTED_MEDIA_TYPE,
    P.CONTENT_ENCODING_NOT_ALLOWED,
    P.TOO_EARLY,
    P.SCOPE_FORBIDDEN,
    P.NOT_FOUND,
)
_SETTLED = (P.IDEMPOTENCY_MISMATCH, P.STALE_VERSION, P.STATE_CONFLICT)
_FOLLOW = (*TOKEN, *DURABLE, P.TOO_EARLY, P.NOT_FOUND, P.LIST_FULL, P.QUOTA_EXCEEDED)
_JOIN = (*TOKEN, *DURABLE, P.TOO_EARLY, P.NOT_FOUND, P.STATE_CONFLICT, P.QUOTA_EXCEEDED)
_STATEMENT = (*POST, *TOKEN, P.NOT_FOUND, P.STATE_CONFLICT, P.QUOTA_EXCEEDED)
_DECIDE = (
    *POST,
    *TOKEN,
    P.NOT_FOUND,
    P.STATE_CONFLICT,
    P.CASE_CLAIMED,
    P.SELF_APPROVAL,
    P.PRECONDITION_REQUIRED,
    P.PRECONDITION_FAILED,
)
_LIVE = (*_INDEXED, *TOKEN, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY)
_STORED = (*TOKEN, *DURABLE, P.NOT_FOUND)
_TRAIL = ("moderator", "reason", "board", "player", "since", "until")


def _decision(name: str, handler: Handler, summary: str) -> Route:
    """Return the route of a moderator's decision."""
    return Route(
        "POST",
        f"/v1/moderation/cases/{{submission}}/{name}",
        handler,
        Caller.MODERATOR,
        summary,
        Decided,
        NewDecision,
        problems=_DECIDE,
        is_conditional=True,
        ability=Ability.DECIDE,
    )


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/friends", friends.list_friends, Caller.PLAYER, "List the players that you follow",
          outcomes.FriendsShown, problems=(*TOKEN, *DURABLE)),
    Route("PUT", "/v1/friends/{player}", friends.follow_player, Caller.PLAYER, "Follow a player",
          outcomes.FriendsChanged, problems=_FOLLOW),
    Route("DELETE", "/v1/friends/{player}", friends.unfollow_player, Caller.PLAYER, "Unfollow a player",
          outcomes.FriendsChanged, problems=_FOLLOW),
    Route("PUT", "/v1/players/{player}/friends", friends.replace_friends, Caller.SERVER,
          "Replace the friends of a player as a trusted server", outcomes.FriendsChanged,
          bodies.NewFriends, 200, (*_SERVER, P.IDEMPOTENCY_MISMATCH)),
    Route("POST", "/v1/boards/{board}/runs", runs.open_run, Caller.PLAYER, "Open a run",
          outcomes.RunOpened, bodies.NewRun, 201,
          (*POST, *TOKEN, P.BUILD_UNKNOWN, P.BUILD_BLOCKED, P.BOARD_CLOSED, P.NAME_UNSIGNED, P.FAMILY_FULL,
           P.PLAYER_BANNED, P.QUOTA_EXCEEDED, P.NOT_FOUND)),
    Route("POST", "/v1/boards/{board}/scores", submit.submit_score, Caller.RUN, "Submit the score of a run",
          outcomes.ScoreAccepted, bodies.NewScore, 202, _SUBMIT),
    Route("GET", "/v1/submissions/{submission}", submission_state.show_submission, Caller.PLAYER,
          "Read the state of a submission", outcomes.SubmissionStatus, problems=_STORED),
    Route("PUT", "/v1/submissions/{submission}/recording", reveals.reveal_recording, Caller.PLAYER,
          "Send a requested recording", outcomes.RecordingRevealed, status=200, takes_octets=True,
          problems=(*CAPPED, *TOKEN, *DURABLE, P.UNSUPPORTED_MEDIA_TYPE, P.CONTENT_ENCODING_NOT_ALLOWED,
                    P.TOO_EARLY, P.NOT_FOUND, P.STATE_CONFLICT, P.RECORDING_MISMATCH, P.QUOTA_EXCEEDED)),
    Route("POST", "/v1/submissions/{submission}/answer", appeals.answer_question, Caller.PLAYER,
          "Answer a moderator's question about a submission", StatementKept, PlayerStatement,
          problems=_STATEMENT),
    Route("POST", "/v1/submissions/{submission}/appeal", appeals.appeal, Caller.PLAYER,
          "Appeal against the decision on a submission", StatementKept, PlayerStatement,
          problems=_STATEMENT),
    Route("GET", "/v1/reveals", reveals.list_reveals, Caller.PLAYER,
          "List the recordings that you are asked to send", outcomes.RevealList,
          problems=(*TOKEN, *DURABLE)),
    Route("GET", "/v1/families", families.list_families, Caller.ANYONE, "List the families of boards",
          board_answers.FamilyList, problems=(P.SCHEMA_VIOLATION,), query=("limit", "cursor")),
    Route("GET", "/v1/families/{family}/boards", families.list_family_boards, Caller.ANYONE,
          "List the boards of a family", board_answers.FamilyBoards,
          problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY),
          query=("order", "limit", "cursor", "metadata.{field}")),
    Route("POST", "/v1/families/{family}/boards", board_operations.operate_boards, Caller.SERVER,
          "Open, change, close, reopen or delete up to 1000 boards of a family as a trusted server",
          board_answers.BoardOperationsDone, board_bodies.NewBoardOperations, 200,
          (*_SERVER, P.IDEMPOTENCY_MISMATCH)),
    Route("GET", "/v1/families/{family}/players/{player}/standings", player_standings.list_family_standings,
          Caller.ANYONE, "List the boards of a family on which a player stands, with the player's ranks",
          board_answers.FamilyStandings,
          problems=(*_ORDERED, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY),
          query=("window", "limit", "cursor", "ranks")),
    Route("GET", "/v1/players/{player}/entries", player_standings.list_player_entries, Caller.ANYONE,
          "Read one player's entries on up to 100 boards", board_answers.PlayerEntries,
          problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY),
          query=("boards", "window")),
    Route("PUT", "/v1/families/{family}/assets/{digest}", upload.store_asset, Caller.SERVER,
          "Store an asset for boards of a family as a trusted server", board_answers.AssetStored, status=201,
          takes_octets=True, problems=(*_SERVER_FILE, P.ASSET_MISMATCH, P.QUOTA_EXCEEDED)),
    Route("GET", "/v1/boards/{board}/assets/{digest}", download.send_asset, Caller.ANYONE,
          "Read the asset of a board", problems=(P.NOT_FOUND, P.QUOTA_EXCEEDED, P.REDUCED_CAPACITY),
          gives_octets=True),
    Route("GET", "/v1/boards", boards.list_boards, Caller.ANYONE, "List the boards",
          read_models.BoardList, problems=(P.SCHEMA_VIOLATION,), query=("limit", "cursor")),
    Route("GET", "/v1/boards/{board}", boards.show_board, Caller.ANYONE, "Describe a board",
          read_models.BoardInfo, problems=(P.NOT_FOUND,)),
    Route("GET", "/v1/boards/{board}/entries", entries.list_entries, Caller.ANYONE, "Read a page of a board",
          read_models.EntriesRead,
          problems=(*_INDEXED, *TOKEN, P.SCHEMA_VIOLATION, P.QUOTA_EXCEEDED, P.REDUCED_CAPACITY),
          query=("window", "offset", "limit", "cursor", "ranks", "as_of", "friends", "players", "segment")),
    Route("POST", "/v1/boards/{board}/entries", server_operations.write_entry, Caller.SERVER,
          "Write or correct a score as a trusted server", outcomes.ScoreAccepted, bodies.NewEntry, 202,
          (*_SERVER, *_SETTLED, P.BOUNDS_VIOLATION)),
    Route("POST", "/v1/boards/{board}/entries/batch", server_batches.write_batch, Caller.SERVER,
          "Perform up to 500 operations as a trusted server, all or none", outcomes.BatchDone,
          bodies.NewBatch, 200, (*_SERVER, P.BATCH_REFUSED)),
    Route("POST", "/v1/boards/{board}/entries:batch", server_batches.write_each, Caller.SERVER,
          "Perform up to 1000 operations as a trusted server, each on its own", outcomes.OperationsDone,
          bodies.NewOperations, 200, _SERVER),
    Route("POST", "/v1/boards/{board}/increments", server_operations.increment_entry, Caller.SERVER,
          "Add to a score as a trusted server", outcomes.ScoreAccepted, bodies.NewIncrement, 202,
          (*_SERVER, *_SETTLED, P.BOUNDS_VIOLATION, P.OPERATOR_MISMATCH)),
    Route("GET", "/v1/boards/{board}/join", joins.show_join, Caller.PLAYER,
          "Check whether you have joined a board", outcomes.JoinShown, problems=(*_STORED, P.STATE_CONFLICT)),
    Route("PUT", "/v1/boards/{board}/join", joins.join_board, Caller.PLAYER, "Join a board",
          outcomes.JoinShown, problems=_JOIN),
    Route("DELETE", "/v1/boards/{board}/join", joins.leave_board, Caller.PLAYER, "Leave a board",
          outcomes.JoinShown, problems=_JOIN),
    Route("POST", "/v1/boards/{board}/joins", joins.write_join, Caller.SERVER,
          "Have a player join or leave a board as a trusted server", outcomes.JoinShown, bodies.NewJoin, 200,
          (*_SERVER, P.IDEMPOTENCY_MISMATCH, P.STATE_CONFLICT)),
    Route("GET", "/v1/boards/{board}/players/{player}/memberships", memberships.show_memberships,
          Caller.ANYONE, "List the groups that a player is in", outcomes.MembershipShown,
          problems=(P.NOT_FOUND, *DURABLE)),
    Route("PUT", "/v1/boards/{board}/memberships/{segment}", memberships.declare_membership, Caller.PLAYER,
          "Declare which group you are in", outcomes.MembershipShown, bodies.NewDeclaration, 200,
          (*POST, *TOKEN, P.NOT_FOUND, P.QUOTA_EXCEEDED)),
    Route("POST", "/v1/boards/{board}/memberships", memberships.write_membership, Caller.SERVER,
          "Set the groups of a player as a trusted server", outcomes.MembershipShown, bodies.NewMembership,
          200, (*_SERVER, P.IDEMPOTENCY_MISMATCH)),
    Route("POST", "/v1/boards/{board}/removals", server_operations.remove_entries, Caller.SERVER,
          "Remove scores as a trusted server", outcomes.Removed, bodies.NewRemoval, 200,
          (*_SERVER, *_SETTLED)),
    Route("GET", "/v1/boards/{board}/details", details.list_details, Caller.ANYONE,
          "Read the details of submissions", read_models.DetailsList,
          problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("submissions",)),
    Route("GET", "/v1/boards/{board}/entries/{player}", entries.show_entry, Caller.ANYONE,
          "Read one player's entry", read_models.EntryRead,
          problems=(*_INDEXED, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("window", "ranks")),
    Route("GET", "/v1/boards/{board}/entries/{player}/around", entries.list_around, Caller.ANYONE,
          "Read the entries around a player", read_models.AroundRead,
          problems=(*_INDEXED, *TOKEN, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY),
          query=("window", "radius", "ranks", "friends", "segment")),
    Route("GET", "/v1/boards/{board}/percentiles", distribution.show_percentiles, Caller.ANYONE,
          "Read the scores at percentiles", read_models.Percentiles,
          problems=(*_INDEXED, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("window", "at")),
    Route("GET", "/v1/boards/{board}/distribution", distribution.show_distribution, Caller.ANYONE,
          "Read a histogram of the scores", read_models.Distribution,
          problems=(*_INDEXED, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("window", "bins", "edges")),
    Route("GET", "/v1/boards/{board}/live", sse.follow_board, Caller.ANYONE,
          "Follow a board live (Server-Sent Events)", problems=_LIVE, query=feed_request.QUERY,
          is_stream=True),
    Route("GET", "/v1/boards/{board}/live/websocket", websocket.follow_board_by_websocket, Caller.ANYONE,
          "Follow a board live (WebSocket)", status=101, problems=(*_LIVE, P.CSRF), query=feed_request.QUERY,
          is_stream=True),
    Route("GET", "/v1/boards/{board}/windows", windows.list_windows, Caller.ANYONE, "List a board's windows",
          read_models.WindowList, problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY),
          query=("kind", "limit", "after")),
    Route("GET", "/v1/boards/{board}/statistics", statistics.show_statistics, Caller.ANYONE,
          "Read the statistics of a board", read_models.BoardStatistics,
          problems=(P.NOT_FOUND, P.REDUCED_CAPACITY)),
    Route("GET", "/v1/boards/{board}/trending", statistics.list_trending, Caller.ANYONE,
          "List the players who recently played or improved most", read_models.Trending,
          problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("kind", "span", "limit")),
    Route("GET", "/v1/players/{player}/achievements", statistics.list_achievements, Caller.ANYONE,
          "List a player's achievements", read_models.AchievementPage,
          problems=(P.NOT_FOUND, P.SCHEMA_VIOLATION, P.REDUCED_CAPACITY), query=("limit", "after")),
    *QUEUE_ROUTES,
    Route("GET", "/v1/moderation/cases/{submission}", cases.show_case, Caller.MODERATOR,
          "Read a submission with its findings and history", outcomes.CaseFile, problems=_STORED,
          ability=Ability.READ),
    Route("GET", "/v1/moderation/cases/{submission}/recording", cases.send_recording, Caller.MODERATOR,
          "Read the recording of a submission", problems=_STORED, gives_octets=True, ability=Ability.READ),
    _decision("approve", decisions.approve, "Approve a held submission"),
    _decision("reject", decisions.reject, "Reject a held submission"),
    _decision("hold", decisions.hold, "Hold a submission, or ask its player a question"),
    _decision("revoke", decisions.revoke, "Revoke a promoted submission"),
    _decision("reinstate", decisions.reinstate, "Reinstate a revoked submission"),
    _decision("undo", decisions.undo, "Undo the last decision on a submission"),
    Route("GET", "/v1/moderation/cases/{submission}/surroundings", surroundings.show_surroundings,
          Caller.MODERATOR, "Read what surrounds a case: what is like it, and what was decided there",
          CaseSurroundings, problems=_STORED, ability=Ability.READ),
    Route("GET", "/v1/moderation/trail", trail.list_trail, Caller.MODERATOR, "List what moderators did",
          TrailPageShown, problems=(*_STORED, P.SCHEMA_VIOLATION), query=(*_TRAIL, "limit", "cursor"),
          ability=Ability.READ),
    Route("GET", "/v1/moderation/trail.csv", trail.export_trail, Caller.MODERATOR,
          "Export what moderators did as CSV", problems=(*_STORED, P.SCHEMA_VIOLATION), gives_octets=True,
          query=(*_TRAIL, "limit", "cursor"), ability=Ability.OVERRULE),
    *BATCH_ROUTES,
    Route("GET", "/v1/moderation/figures", figures.show_figures, Caller.MODERATOR,
          "Read how decisions went, and how right validators were", Figures,
          problems=(*_STORED, P.SCHEMA_VIOLATION), query=("board", "since", "until"), ability=Ability.READ),
    *IDENTITY_ROUTES,
    *PEOPLE_ROUTES,
    *PLAYER_ROUTES,
    Route("GET", "/livez", endpoints.livez, Caller.ANYONE, "Check that the process answers",
          outcomes.Liveness),
    Route("GET", "/readyz", endpoints.readyz, Caller.ANYONE, "Check that submissions can be accepted",
          outcomes.Readiness),
)  # fmt: skip
