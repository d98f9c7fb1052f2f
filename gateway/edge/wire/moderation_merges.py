"""The answers about merges of players, as moderators see them."""

from __future__ import annotations

from gateway.edge.wire.fields import Answer, PlayerId


class MergeOfPlayer(Answer):
    """A merge of the player `source` into `target`, who asked for it, and who undid it when, if anybody did.

    `moved` is how many runs have moved there, or back; `is_done` is false while others follow.
    """

    merge: str
    source: PlayerId
    target: PlayerId
    by: str
    began_at: str
    undone_by: str | None
    undone_at: str | None
    moved: int
    is_done: bool


class MergesOfPlayer(Answer):
    """The newest merges of a player into others, and of others into the player."""

    player: PlayerId
    merges: list[MergeOfPlayer]
