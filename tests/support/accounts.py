"""Records of what clients know of their submissions, to be checked against the ledger."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from policies.vocabulary import State
from tests.support.oracle import History

TERMINAL = {State.PROMOTED, State.REJECTED, State.HELD}


class Book:
    """One client's file: a line for each thing it learns, on disk before it does anything else."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, word: str, submission_id: str) -> None:
        os.write(self._file, f"{word} {submission_id}\n".encode())
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


@dataclass
class Accounts:
    """All books together."""

    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    @property
    def unknown(self) -> set[str]:
        """Sent, with no answer that says what became of it."""
        return self.sent - self.acknowledged - self.refused


def read_books(paths: Sequence[Path]) -> Accounts:
    """The accounts in these files. A line that was not finished was never noted."""
    accounts = Accounts()
    kept = {"intent": accounts.sent, "ok": accounts.acknowledged, "refused": accounts.refused}
    for path in paths:
        for line in path.read_text().splitlines(keepends=True):
            word, _, submission_id = line.strip().partition(" ")
            if line.endswith("\n") and word in kept:
                kept[word].add(submission_id)
    return accounts


@dataclass(frozen=True)
class Audit:
    """The accounts against the ledger."""

    sent: int
    acknowledged: int
    unknown: int
    killed: int
    lost: list[str]
    """Acknowledged, and not in the ledger."""
    doubled: list[str]
    """Stored or judged more than once."""
    stuck: list[str]
    """Without a terminal state."""
    strange: list[str]
    """In the ledger although nobody sent it or it was refused; and whatever else contradicts the rules."""
    is_index_equal: bool

    @property
    def is_clean(self) -> bool:
        return self.is_index_equal and not (self.lost or self.doubled or self.stuck or self.strange)

    def __str__(self) -> str:
        broken = f", strange {len(self.strange)}" if self.strange else ""
        return (
            f"sent {self.sent}, acknowledged {self.acknowledged}, unknown {self.unknown}, "
            f"killed {self.killed}, lost {len(self.lost)}, doubled {len(self.doubled)}, "
            f"stuck {len(self.stuck)}{broken}, index {'equal' if self.is_index_equal else 'DIFFERENT'}"
        )


def audit(
    accounts: Accounts, history: History, wrong: Sequence[str], *, killed: int, is_index_equal: bool
) -> Audit:
    """Check the accounts against the ledger; `wrong` is what is wrong in the ledger itself."""
    stored = Counter(each.submission_id for each in history.submissions)
    verdicts = Counter(each.submission_id for each in history.events if each.from_state == State.PENDING)
    return Audit(
        len(accounts.sent),
        len(accounts.acknowledged),
        len(accounts.unknown),
        killed,
        lost=sorted(accounts.acknowledged - stored.keys()),
        doubled=sorted(each for each in stored if stored[each] > 1 or verdicts[each] > 1),
        stuck=sorted(each for each, state in history.states().items() if state not in TERMINAL),
        strange=[*wrong, *sorted(stored.keys() - accounts.acknowledged - accounts.unknown)],
        is_index_equal=is_index_equal,
    )
