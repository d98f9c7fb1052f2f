"""The answers about families and their boards, from which the OpenAPI document is generated."""

from __future__ import annotations

from typing import Any, Literal

from gateway.edge.wire.fields import Answer, PlayerId
from gateway.edge.wire.outcomes import Refusal


class OpenedBoardShown(Answer):
    """A board of a family as it was opened.

    `parameters` and `asset` (its SHA-256) are what the simulator gets. They never change. `asset_url` is the
    path of the asset's download. `bounds` narrow those of the family. Runs may be opened from `opens_at`
    until `closes_at`. `version` counts its changes.
    """

    board: str
    family: str
    title: str
    state: str
    version: int
    metadata: dict[str, Any]
    parameters: dict[str, Any]
    asset: str | None
    asset_url: str | None
    bounds: dict[str, Any] | None
    opens_at: str | None
    closes_at: str | None
    opened_at: str


class AssetStored(Answer):
    """A file that is stored, durably: its SHA-256, as boards name it, and its size in bytes."""

    family: str
    asset: str
    asset_bytes: int


class BoardOperationOutcome(Answer):
    """The outcome of one operation: the board as it is now, or the problem why nothing changed.

    `same`: the board was so already. A request that is sent again gets its first outcomes.
    """

    status: Literal["opened", "changed", "same", "refused"]
    board: OpenedBoardShown | None = None
    problem: Refusal | None = None


class BoardOperationsDone(Answer):
    """The outcome of each operation, in their order, and the number of refused ones."""

    family: str
    refused: int
    results: list[BoardOperationOutcome]


class FamilyShown(Answer):
    """A family: its name and title, who opens its boards, the metadata that filters them, and its rollups."""

    family: str
    title: str
    opened_by: str
    filters: dict[str, str]
    rollups: list[str]


class FamilyList(Answer):
    """The families of this deployment by name; the next page is `cursor` = `next`, null after the last."""

    families: list[FamilyShown]
    next: str | None


class FamilyBoards(Answer):
    """A page of a family's boards. A filtered page may be short; it has a `next` while there may be more."""

    family: str
    boards: list[OpenedBoardShown]
    next: str | None


class StandingShown(Answer):
    """A player's standing on one board: rank and `total` as of now."""

    board: str
    title: str
    rank: int
    score: int
    achieved_at: str
    submission: str
    total: int


class FamilyStandings(Answer):
    """A page of the boards of a family on which a player stands, by name, with the player's ranks.

    A player who stands on very many deleted boards may get a short page; it has a `next` while there may be
    more.
    """

    family: str
    player: PlayerId
    window: str
    standings: list[StandingShown]
    next: str | None


class PlayerEntry(Answer):
    """A player on one board of a list: `ranked` with a standing, `unranked`, or why there is none.

    `no-board`: no board has this name. `no-window`: the board does not keep the window, or only in its
    archive. `rebuilding`: its policy ranks by another rule now, and its standings are being folded anew.
    """

    board: str
    status: Literal["ranked", "unranked", "no-board", "no-window", "rebuilding"]
    window: str | None = None
    standing: StandingShown | None = None


class PlayerEntries(Answer):
    """The entries of a player on a list of boards, in its order."""

    player: PlayerId
    entries: list[PlayerEntry]
