"""Tables of who players are: by what they are known again, and which of their tokens are over."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table

from gateway.ledger.schema.base import Int64, Text, metadata, required

player_identities = Table(
    "player_identities",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("subject_digest", LargeBinary, primary_key=True),
    required("player", Text),
    required("added_at_ms", Int64),
    Index("player_identities_of_player", "player", "added_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""By what players are known again. `subject_digest` is a keyed digest (`gateway.edge.identities.digests`).

The provider `device` is of keys that devices keep, `recovery` of recovery codes, of which a player has one.
"""

used_credentials = Table(
    "used_credentials",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    required("expires_at_ms", Int64),
    Index("used_credentials_by_expiry", "expires_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Digests of credentials that are good once, until they would have expired."""

token_endings = Table(
    "token_endings",
    metadata,
    Column("player", Text, primary_key=True),
    required("generation", Int64),
    required("ended_at_ms", Int64),
    required("changed_seq", Int64),
    Index("token_endings_by_change", "changed_seq"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Players whose tokens were ended: those of lower generations are over. `changed_seq` is the event's."""
