"""The fourth schema: the moderators' desk.

Indexes find the submissions of a player, and the events that a moderator caused.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import text

revision: Final = "0004"
down_revision: Final = "0003"

_BY_MODERATOR: Final = text("actor LIKE 'moderator:%'")


def upgrade() -> None:
    """Add the indexes of what moderators look for."""
    op.create_index("submissions_of_player", "submissions", ["player", "seq"])
    _add_index("events_by_moderator", ["actor", "seq"])
    _add_index("events_by_moderators", ["seq"])


def _add_index(name: str, columns: list[str]) -> None:
    op.create_index(name, "events", columns, sqlite_where=_BY_MODERATOR, postgresql_where=_BY_MODERATOR)
