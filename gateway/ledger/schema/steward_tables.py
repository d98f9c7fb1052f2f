"""Tables of stewards: their leases, and the seals that they make."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table

from gateway.ledger.schema.base import Int64, Text, metadata, required

stewards = Table(
    "stewards",
    metadata,
    Column("steward", Text, primary_key=True),
    required("expires_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""When the lease of each steward ends."""

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    required("owner", Text),
    required("epoch", Int64),
    Index("leases_of_owner", "owner"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Who has each lane and each duty. `epoch` is the fencing number."""

seals = Table(
    "seals",
    metadata,
    Column("first_seq", Int64, primary_key=True, autoincrement=False),
    required("last_seq", Int64),
    required("root", LargeBinary),
    required("previous", LargeBinary),
    required("created_at_ms", Int64),
    required("key_id", Text),
    required("signature", LargeBinary),
    required("leaves", LargeBinary),
    sqlite_strict=True,
)
"""Spans of the log under a Merkle root, chained and signed (`gateway.ledger.seals`)."""
