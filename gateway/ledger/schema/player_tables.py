"""Tables of players: their names, friends and groups, and the boards that they joined."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from gateway.ledger.schema.base import Int64, Text, metadata, required

players = Table(
    "players",
    metadata,
    Column("player", Text, primary_key=True),
    required("name", Text),
    required("created_at_ms", Int64),
    Column("search_key", Text),
    Index("players_by_name", "search_key", "player"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Players with names. `search_key` is by what a name is looked for (`gateway.ledger.name_keys`)."""

player_addresses = Table(
    "player_addresses",
    metadata,
    Column("player", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    required("seen_at_ms", Int64),
    Index("player_addresses_by_address", "address", "seen_at_ms", "player"),
    Index("player_addresses_by_age", "seen_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Keyed hashes of the addresses that players submitted from lately."""

taken_names = Table(
    "taken_names",
    metadata,
    Column("name_key", Text, primary_key=True),
    required("player", Text),
    Index("taken_names_of_player", "player"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Display names by what they look like (`gateway.ledger.name_keys`), if a deployment wants unique ones."""

friends = Table(
    "friends",
    metadata,
    Column("player", Text, primary_key=True),
    Column("friend", Text, primary_key=True),
    required("at_ms", Int64),
    Index("friends_by_friend", "friend", "player"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

friend_lists = Table(
    "friend_lists",
    metadata,
    Column("player", Text, primary_key=True),
    required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

memberships = Table(
    "memberships",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    required("version", Int64),
    required("segments", Text),
    Index("memberships_of_player", "player", "board"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

joins = Table(
    "joins",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    required("is_joined", Int64),
    required("actor", Text),
    required("at_ms", Int64),
    Index("joins_of_player", "player", "board"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Who is on a board now."""

join_changes = Table(
    "join_changes",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    required("is_joined", Int64),
    required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""When each player of a board joined or left, the newest of many changes."""
