"""What the boards must show, worked out from the ledger's events in plain Python, and what Redis does show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from gateway.clock import wall_clock
from policies.model import Operator, Order, Policy
from policies.windows import FOREVER_MS, window_at
from tests.support.ledger import rows

Shown = dict[str, list[tuple[bytes, float]]]


@dataclass(frozen=True)
class Promoted:
    """A promoted submission, as far as a standing depends on it."""

    seq: int
    submission_id: str
    player: str
    score: int
    received_at_ms: int


def standing(counting: Sequence[Promoted], policy: Policy) -> tuple[int, Promoted] | None:
    """The score that counts and the submission it was reached with, or None."""
    if not counting:
        return None
    latest = max(counting, key=lambda each: (each.received_at_ms, each.seq))
    if policy.operator is Operator.LATEST:
        return latest.score, latest
    if policy.operator is Operator.SUM:
        return sum(each.score for each in counting), latest
    sign = 1 if policy.order is Order.ASCENDING else -1
    best = min(counting, key=lambda each: (sign * each.score, each.received_at_ms, each.seq))
    return best.score, best


def standings(promoted: Iterable[Promoted], policy: Policy) -> dict[tuple[str, str], tuple[int, Promoted]]:
    """(score, submission) by window and player."""
    slots: Mapping[tuple[str, str], list[Promoted]] = defaultdict(list)
    for each in promoted:
        for kind in policy.windows:
            slots[window_at(kind, each.received_at_ms).name, each.player].append(each)
    return {slot: found for slot, counting in slots.items() if (found := standing(counting, policy))}


def promoted_by_events(path: Path, board: str) -> list[Promoted]:
    """The submissions whose last event promoted them."""
    found = rows(
        path,
        "SELECT s.seq, s.submission_id, s.player, s.score, s.received_at_ms FROM submissions s JOIN events e "
        "ON e.seq = (SELECT max(seq) FROM events WHERE submission_id = s.submission_id) "
        "WHERE s.board = ? AND e.to_state = 'promoted'",
        board,
    )
    return [Promoted(*row) for row in found]


def due_on_board(path: Path, policy: Policy, now_ms: int | None = None) -> Shown:
    """Every window of the board, member by member in rank order, as Redis has to hold it."""
    promoted = promoted_by_events(path, policy.board)
    kept = _kept_windows(promoted, policy, now_ms or wall_clock())
    shown: dict[str, list[tuple[bytes, float]]] = defaultdict(list)
    for (window, player), (score, reached) in standings(promoted, policy).items():
        member = f"{reached.received_at_ms:012x}{reached.seq:010x}:{player}".encode()
        if window in kept:
            shown[window].append((member, float(score if policy.order is Order.ASCENDING else -score)))
    return {
        window: sorted(entries, key=lambda entry: (entry[1], entry[0])) for window, entries in shown.items()
    }


def _kept_windows(promoted: Sequence[Promoted], policy: Policy, now_ms: int) -> set[str]:
    """The windows that are over for less than one span of theirs."""
    windows = [window_at(kind, each.received_at_ms) for kind in policy.windows for each in promoted]
    return {window.name for window in windows if (window.expires_at_ms or FOREVER_MS) > now_ms}


def shown_on_board(client: Redis, policy: Policy) -> Shown:
    """Every window that Redis holds of the board, byte for byte."""
    prefix = f"lb:{{{policy.board}}}:"
    found: dict[str, Any] = {}
    for kind in policy.windows:
        for key in client.scan_iter(f"{prefix}{kind.value}*"):
            name = (key if isinstance(key, str) else key.decode()).removeprefix(prefix)
            if not name.endswith(":members"):
                found[name] = client.zrange(prefix + name, 0, -1, withscores=True)
    return found


def pending_in_ledger(path: Path, board: str) -> set[bytes]:
    found = rows(path, "SELECT submission_id FROM submissions WHERE board = ? AND state = 'pending'", board)
    return {row[0].encode() for row in found}
