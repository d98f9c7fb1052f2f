"""What a validator may see: the submission, and the history of its player."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from policies.vocabulary import Claim
from validators.baseline import EMPTY, Baseline


class Submission(NamedTuple):
    """A claim for one run, with the facts of its ticket. Times are Unix ms of the clock that all edges share.

    `runs_opened` and `runs_submitted` count the player's runs on the board in the day before this run was
    opened; None if the index could not tell. `clock_error_ms` is the possible error of both times together,
    which is ours and not the player's.
    """

    submission_id: str
    board: str
    player: str
    build: str
    seed: int
    issued_at_ms: int
    received_at_ms: int
    claim: Claim
    has_recording: bool
    runs_opened: int | None = None
    runs_submitted: int | None = None
    clock_error_ms: int = 0

    @property
    def elapsed_ms(self) -> int:
        """Return the milliseconds from issuing the ticket to receiving the submission."""
        return self.received_at_ms - self.issued_at_ms


@dataclass(frozen=True, slots=True)
class History:
    """The promoted scores before this submission: the player's, the board's, and the build's.

    `refusals` counts the player's refused claims, if there were enough for the player to be limited.
    """

    player: Baseline = EMPTY
    population: Baseline = EMPTY
    build: Baseline = EMPTY
    refusals: int = 0


MayFind = Callable[[Submission, History], bool]
"""Returns False only if a validator finds nothing. It is prepared for one policy, and costs far less."""
