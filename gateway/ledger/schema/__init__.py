"""The tables of the ledger, one file for each room that writes them.

All times are Unix milliseconds. Whoever imports a table has all of them, so that `metadata` is whole.
"""

from __future__ import annotations

from gateway.ledger.schema.archive_tables import (
    ARCHIVE_IN_FORCE,
    ARCHIVE_KEPT,
    ARCHIVE_WORK,
    archived_entries,
    archived_windows,
)
from gateway.ledger.schema.base import SCHEMA_VERSION, Int64, Text, is_known, metadata
from gateway.ledger.schema.batch_tables import batch_items, batches
from gateway.ledger.schema.board_tables import board_duties, board_fields, boards, family_openings
from gateway.ledger.schema.case_tables import case_counts, case_passes, cases
from gateway.ledger.schema.derived_tables import (
    achievements,
    board_counts,
    deliveries,
    progress,
    trend_slots,
    webhooks,
)
from gateway.ledger.schema.judgement_tables import baselines, build_changes
from gateway.ledger.schema.moderation_tables import (
    api_tokens,
    bans,
    invitations,
    labels,
    moderator_grants,
    moderator_sessions,
    moderators,
    renames,
)
from gateway.ledger.schema.player_tables import (
    friend_lists,
    friends,
    join_changes,
    joins,
    memberships,
    players,
    taken_names,
)
from gateway.ledger.schema.standing_tables import (
    STANDS_IN_FAMILY,
    anchored_windows,
    rank_anchors,
    rank_moves,
    rollup_borders,
    rollup_changes,
    rollup_points,
    standings,
)
from gateway.ledger.schema.steward_tables import leases, seals, stewards
from gateway.ledger.schema.submission_tables import (
    BANNED,
    BY_MODERATOR,
    VERIFIED,
    commitments,
    events,
    is_in,
    outbox,
    recording_bands,
    recording_expiries,
    recordings,
    server_keys,
    server_operations,
    slot_versions,
    submissions,
)

__all__ = [
    "ARCHIVE_IN_FORCE",
    "ARCHIVE_KEPT",
    "ARCHIVE_WORK",
    "BANNED",
    "BY_MODERATOR",
    "SCHEMA_VERSION",
    "STANDS_IN_FAMILY",
    "VERIFIED",
    "Int64",
    "Text",
    "achievements",
    "anchored_windows",
    "api_tokens",
    "archived_entries",
    "archived_windows",
    "bans",
    "baselines",
    "batch_items",
    "batches",
    "board_counts",
    "board_duties",
    "board_fields",
    "boards",
    "build_changes",
    "case_counts",
    "case_passes",
    "cases",
    "commitments",
    "deliveries",
    "events",
    "family_openings",
    "friend_lists",
    "friends",
    "invitations",
    "is_in",
    "is_known",
    "join_changes",
    "joins",
    "labels",
    "leases",
    "memberships",
    "metadata",
    "moderator_grants",
    "moderator_sessions",
    "moderators",
    "outbox",
    "players",
    "progress",
    "rank_anchors",
    "rank_moves",
    "recording_bands",
    "recording_expiries",
    "recordings",
    "renames",
    "rollup_borders",
    "rollup_changes",
    "rollup_points",
    "seals",
    "server_keys",
    "server_operations",
    "slot_versions",
    "standings",
    "stewards",
    "submissions",
    "taken_names",
    "trend_slots",
    "webhooks",
]
