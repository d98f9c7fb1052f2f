"""What a validator may look at: the submission and what is known of its player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from policies.vocabulary import Claim
from validators.baseline import EMPTY, Baseline


class Submission(NamedTuple):
    """A claim for one run, with the facts of its ticket. Times are Unix milliseconds of the clock that all edges share.

    `runs_opened` and `runs_submitted` are of the player on the board in the day before this run was opened; None where
    the index could not tell. `clock_error_ms` is how far the two times together may be wrong: it is ours, not the player's.
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
        """Milliseconds between our issuing the ticket and our receiving the submission."""
        return self.received_at_ms - self.issued_at_ms


@dataclass(frozen=True, slots=True)
class History:
    """The promoted scores before this submission: the player's, the whole board's, and those of its build.

    `refusals` are the claims of the player that were refused, where they were so many that the player was limited.
    """

    player: Baseline = EMPTY
    population: Baseline = EMPTY
    build: Baseline = EMPTY
    refusals: int = 0
