"""Tables of the moderators' desk. Secrets are never in them: digests of tokens, hashes of passwords."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

moderators = Table(
    "moderators",
    metadata,
    Column("moderator", Text, primary_key=True),
    required("players", Text),
    Column("password", Text),
    Column("issuer", Text),
    Column("subject", Text),
    Column("second_factor", LargeBinary),
    Column("second_factor_step", Int64),
    required("created_at_ms", Int64),
    Column("disabled_at_ms", Int64),
    required("version", Int64),
    Index("moderators_by_subject", "issuer", "subject", unique=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Accounts of moderators. `version` is the number of the last event of one.

Who logs in through an identity provider has an issuer and a subject there, and no password.
A second factor without a step is not confirmed yet. Its step is that of the last code that was taken.
"""

moderator_grants = Table(
    "moderator_grants",
    metadata,
    Column("moderator", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    required("role", Text),
    Index("moderator_grants_of_role", "role", "scope"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

invitations = Table(
    "invitations",
    metadata,
    Column("moderator", Text, primary_key=True),
    required("digest", LargeBinary, unique=True),
    required("expires_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The invitation that each account may still accept: a later one takes the place of an earlier one."""

moderator_sessions = Table(
    "moderator_sessions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    required("session_id", Text),
    required("moderator", Text),
    required("address", Text),
    required("browser", Text),
    required("created_at_ms", Int64),
    required("used_at_ms", Int64),
    required("expires_at_ms", Int64),
    required("proven_at_ms", Int64),
    Index("moderator_sessions_of_moderator", "moderator", "created_at_ms", "session_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Sessions. `proven_at_ms` is when the owner last proved who they are, 0 if an identity provider keeps it."""

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    required("token_id", Text),
    required("moderator", Text),
    required("label", Text),
    required("ability", Text),
    required("scopes", Text),
    required("created_at_ms", Int64),
    required("expires_at_ms", Int64),
    Index("api_tokens_of_moderator", "moderator", "created_at_ms", "token_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Personal tokens. Their scopes and their ability only ever narrow what the account may do now."""

labels = Table(
    "labels",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("submission_id", Text),
    required("board", Text),
    required("label", Text),
    required("build", Text),
    required("moderator", Text),
    required("reason", Text),
    required("code", Text),
    Column("is_cheat", Int64),
    required("findings", Text),
    required("opened_at_ms", Int64),
    required("decided_at_ms", Int64),
    Column("overturned_by", Int64),
    Column("known_seq", Int64),
    Index("labels_by_time", "decided_at_ms", "seq"),
    Index("labels_of_label", "label", "decided_at_ms", "seq"),
    Index("labels_of_board", "board", "decided_at_ms", "seq"),
    sqlite_strict=True,
)
"""What decisions of moderators say of runs. `seq` is the event's, `label` the board's policy file.

`is_cheat` is NULL if the decision does not say, `findings` what the moderator saw, as JSON; `overturned_by`
is the event that undid or reversed the decision. `known_seq` is the decision that the answer to a check is
compared with, and NULL of every other decision.
"""

renames = Table(
    "renames",
    metadata,
    Column("player", Text, primary_key=True),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("was", Text),
    required("name", Text),
    required("code", Text),
    required("note", Text),
    required("actor", Text),
    required("at_ms", Int64),
    Column("undone_at_ms", Int64),
    required("undone_by", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Names that moderators gave to players. `seq` is the event's; while `undone_by` is empty it stands."""

bans = Table(
    "bans",
    metadata,
    Column("ban_id", Text, primary_key=True),
    required("player", Text),
    required("scope", Text),
    required("is_shadow", Int64),
    required("code", Text),
    required("note", Text),
    required("message", Text),
    required("actor", Text),
    required("began_at_ms", Int64),
    Column("until_ms", Int64),
    Column("lifted_at_ms", Int64),
    required("lifted_by", Text),
    required("changed_seq", Int64),
    required("changed_count", Int64),
    Column("seen_seq", Int64),
    Column("again_ms", Int64),
    Index("bans_of_player", "player", "changed_seq"),
    Index("bans_by_change", "changed_seq"),
    partial_index("bans_to_end", "until_ms", "ban_id", where="lifted_at_ms IS NULL AND until_ms IS NOT NULL"),
    partial_index("bans_at_work", "changed_seq", where="seen_seq IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Bans of players on a board, on the boards of a family, or everywhere (`scope` is empty).

`changed_seq` is the event that began or lifted the ban. Until all submissions in its scope have followed it,
`seen_seq` is the number of the player's submission up to which they have; `changed_count` is how many did.
`again_ms` is when a steward begins anew for those that it passed over, whose board it did not know.
"""
