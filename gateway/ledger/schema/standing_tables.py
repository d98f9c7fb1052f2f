"""Tables of standings: of boards and rollups, and the anchors from which ranks are counted."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Table, text

from gateway.ledger.schema.base import Int64, Text, metadata, required

STANDS_IN_FAMILY: Final = text("score IS NOT NULL AND board LIKE '%.%'")
"""The condition of the index `standings_of_player`. A query that is to use the index says it likewise."""

standings = Table(
    "standings",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("score", Int64),
    required("achieved_at_ms", Int64),
    required("achieved_seq", Int64),
    required("submission_id", Text),
    required("expires_at_ms", Int64),
    required("seq", Int64),
    required("order_value", Int64),
    required("member", Text),
    required("rule", Text),
    Index(
        "standings_by_place",
        "board",
        "window",
        "order_value",
        "member",
        sqlite_where=text("score IS NOT NULL"),
        postgresql_where=text("score IS NOT NULL"),
    ),
    Index(
        "standings_of_player",
        "player",
        "window",
        "board",
        sqlite_where=STANDS_IN_FAMILY,
        postgresql_where=STANDS_IN_FAMILY,
    ),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Standings, which follow from promoted submissions."""

rollup_points = Table(
    "rollup_points",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    required("points", Int64),
    required("achieved_at_ms", Int64),
    required("achieved_seq", Int64),
    required("submission_id", Text),
    Index("rollup_points_of_board", "rollup", "board", "window"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The points that players have for their ranks on boards of a rollup's family."""

rollup_borders = Table(
    "rollup_borders",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    required("rule", Text),
    required("borders", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The places up to which percentiles give points on a board, as JSON, and by which rules: none if void."""

rollup_changes = Table(
    "rollup_changes",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    required("seq", Int64),
    required("after", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Windows of boards whose ranks have to be compared with the points that were given there.

Of a board that was deleted, all players are folded anew, those after `after`.
"""

anchored_windows = Table(
    "anchored_windows",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    required("rule", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rank_anchors = Table(
    "rank_anchors",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("order_value", Int64, primary_key=True, autoincrement=False),
    Column("member", Text, primary_key=True),
    required("ahead", Int64),
    required("groups_ahead", Int64),
    Index("rank_anchors_by_rank", "board", "window", "ahead"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""How many standings are ahead of some places (`gateway.ledger.standings.anchors`)."""

rank_moves = Table(
    "rank_moves",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("series", Int64, primary_key=True, autoincrement=False),
    Column("order_value", Int64, primary_key=True, autoincrement=False),
    Column("member", Text, primary_key=True),
    required("delta", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Changes of the standings ahead of places since their anchors were counted."""
