"""What the ledger tells the boards: the records that both speak of, owned by neither."""

from __future__ import annotations

from dataclasses import dataclass

from policies.vocabulary import State


@dataclass(frozen=True, slots=True)
class Standing:
    """What counts for a player in a window. `score` None: nothing does any more. `seq` orders its versions."""

    board: str
    window: str
    player: str
    name: str
    score: int | None
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str
    expires_at_ms: int
    seq: int


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """A baseline with the sequence number that orders its versions; player `""` is the board's population."""

    board: str
    player: str
    count: int
    mean: float
    squares: float
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """What the index has to learn of one settled decision. Projecting it twice does nothing more."""

    seq: int
    submission_id: str
    board: str
    player: str
    state: State
    standings: tuple[Standing, ...] = ()
    baselines: tuple[StoredBaseline, ...] = ()
