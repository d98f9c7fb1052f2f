"""The expected ledger and boards, computed from the events in plain Python, and what Redis has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis
from sqlalchemy import Select, bindparam, select

from gateway.index import keys
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import events, submissions
from gateway.ledger.schema import standings as standings_table
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.runtime.clock import wall_clock
from policies.choices import Operator
from policies.fields import SortOrder
from policies.model import Policy
from policies.vocabulary import REMARKS, TRANSITIONS, Reason, State
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
    if policy.operator is Operator.COUNT:
        return len(counting), latest
    sign = 1 if policy.order is SortOrder.ASCENDING else -1
    best = min(counting, key=lambda each: (sign * each.score, each.received_at_ms, each.seq))
    return best.score, best


def standings(promoted: Iterable[Promoted], policy: Policy) -> dict[tuple[str, str], tuple[int, Promoted]]:
    """(score, submission) by window and player."""
    slots: Mapping[tuple[str, str], list[Promoted]] = defaultdict(list)
    for each in promoted:
        for kind in policy.windows:
            slots[window_at(policy, kind, each.received_at_ms).name, each.player].append(each)
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
    return due(promoted_by_events(path, policy.board), policy, now_ms or wall_clock())


def due(promoted: Sequence[Promoted], policy: Policy, now_ms: int) -> Shown:
    """The same, of these submissions."""
    kept = _kept_windows(promoted, policy, now_ms)
    shown: dict[str, list[tuple[bytes, float]]] = defaultdict(list)
    for (window, player), (score, reached) in standings(promoted, policy).items():
        member = f"{reached.received_at_ms:012x}{reached.seq:010x}:{player}".encode()
        if window in kept:
            shown[window].append((member, float(score if policy.order is SortOrder.ASCENDING else -score)))
    return {
        window: sorted(entries, key=lambda entry: (entry[1], entry[0])) for window, entries in shown.items()
    }


def _kept_windows(promoted: Sequence[Promoted], policy: Policy, now_ms: int) -> set[str]:
    """The windows that are over for less than one span of theirs."""
    windows = [window_at(policy, kind, each.received_at_ms) for kind in policy.windows for each in promoted]
    return {window.name for window in windows if (window.expires_at_ms or FOREVER_MS) > now_ms}


def shown_on_board(client: Redis, policy: Policy) -> Shown:
    """Every window that Redis holds of the board, byte for byte."""
    prefix = keys.stem(policy.board)
    found: dict[str, Any] = {}
    for kind in policy.windows:
        for key in client.scan_iter(f"{prefix}{kind.value}*"):
            name = (key if isinstance(key, str) else key.decode()).removeprefix(prefix)
            if not name.endswith((":members", ":groups")):
                found[name] = client.zrange(prefix + name, 0, -1, withscores=True)
    return found


def pending_in_ledger(path: Path, board: str) -> set[bytes]:
    found = rows(path, "SELECT submission_id FROM submissions WHERE board = ? AND state = 'pending'", board)
    return {row[0].encode() for row in found}


class Sent(NamedTuple):
    """A submission as the ledger has it."""

    seq: int
    submission_id: str
    board: str
    player: str
    score: int
    received_at_ms: int
    state: str


class Told(NamedTuple):
    """An event as the ledger has it."""

    seq: int
    submission_id: str
    from_state: str
    to_state: str
    reason: str

    @property
    def is_allowed(self) -> bool:
        """A change that the vocabulary has, or a remark that keeps a state which takes it."""
        if remarked := REMARKS.get(Reason(self.reason)):
            return self.from_state == self.to_state and self.to_state in remarked
        return self.to_state in TRANSITIONS[State(self.from_state)]


@dataclass(frozen=True)
class History:
    """All that the ledger says, read at one moment."""

    submissions: Sequence[Sent]
    events: Sequence[Told]
    standings: Mapping[tuple[str, str, str], tuple[int, str]]
    """(score, submission) by board, window and player, where something counts."""

    def states(self) -> dict[str, str]:
        return {each.submission_id: each.state for each in self.submissions}

    def promoted(self, board: str) -> list[Promoted]:
        """The submissions of a board whose last event promoted them."""
        last = {event.submission_id: event.to_state for event in self.events}
        return [
            Promoted(each.seq, each.submission_id, each.player, each.score, each.received_at_ms)
            for each in self.submissions
            if each.board == board and last.get(each.submission_id) == State.PROMOTED
        ]

    def pending(self, board: str) -> set[bytes]:
        return {
            each.submission_id.encode()
            for each in self.submissions
            if (each.board, each.state) == (board, "pending")
        }


_s, _e = submissions.c, events.c
_PAGE = 5_000


def _page(*columns: Any) -> Query:
    """Rows after a sequence number, which is the first column."""
    found: Select[Any] = select(*columns).where(columns[0] > bindparam("after")).order_by(columns[0])
    return Query(found.limit(_PAGE))


_SENT = _page(_s.seq, _s.submission_id, _s.board, _s.player, _s.score, _s.received_at_ms, _s.state)
_TOLD = _page(_e.seq, _e.submission_id, _e.from_state, _e.to_state, _e.reason)
_st = standings_table.c
_STANDINGS = Query(
    select(_st.board, _st.window, _st.player, _st.score, _st.submission_id).where(_st.score.is_not(None))
)


async def history_of(ledger: Ledger) -> History:
    """All that a ledger says, whichever database carries it."""

    async def work(tx: Transaction) -> History:
        sent, told = await _all(tx, _SENT), await _all(tx, _TOLD)
        stands = {tuple(row[:3]): (row[3], row[4]) for row in await tx.rows(_STANDINGS)}
        submissions, events = [Sent(*row) for row in sent], [Told(*row) for row in told]
        return History(submissions, events, stands)  # type: ignore[arg-type]

    operation: Operation[History] = work
    return await ledger.read(operation)


async def _all(tx: Transaction, query: Query) -> list[Row]:
    found: list[Row] = []
    while page := await tx.rows(query, after=found[-1][0] if found else 0):
        found += page
    return found


def breaches(history: History, policies: Iterable[Policy]) -> list[str]:
    """Everything in which the ledger contradicts itself or the rules; nothing, if it keeps them."""
    seqs = [event.seq for event in history.events]
    holes = [] if seqs == list(range(1, len(seqs) + 1)) else [f"events are numbered {seqs}"]
    told: dict[str, list[Told]] = defaultdict(list)
    for event in history.events:
        if event.submission_id:  # others are of accounts, bans and boards
            told[event.submission_id].append(event)
    chains = [f"{each}: {chain}" for each, chain in told.items() if not _is_legal(chain)]
    last = {each: chain[-1].to_state for each, chain in told.items()}
    states = [] if last == history.states() else [f"by events {last}, by state {history.states()}"]
    return [*holes, *chains, *states, *_wrong_standings(history, policies)]


def _is_legal(chain: Sequence[Told]) -> bool:
    is_linked = all(before.to_state == after.from_state for before, after in pairwise(chain))
    are_allowed = all(event.is_allowed for event in chain)
    return chain[0].from_state == State.RECEIVED and is_linked and are_allowed


def _wrong_standings(history: History, policies: Iterable[Policy]) -> list[str]:
    expected = {
        (policy.board, window, player): (score, reached.submission_id)
        for policy in policies
        for (window, player), (score, reached) in standings(history.promoted(policy.board), policy).items()
    }
    slots = expected.keys() | history.standings.keys()
    wrong = [slot for slot in slots if expected.get(slot) != history.standings.get(slot)]
    return [f"{slot}: {history.standings.get(slot)}, not {expected.get(slot)}" for slot in wrong]


def differences(client: Redis, history: History, policies: Iterable[Policy], now_ms: int) -> list[str]:
    """Everything in which the index is not what the ledger says, by board; client without decoding."""
    return [
        f"{policy.board}: {what}"
        for policy in policies
        for what in _differences(client, history, policy, now_ms)
    ]


def _differences(client: Redis, history: History, policy: Policy, now_ms: int) -> list[str]:
    over = {
        window.name
        for each in history.submissions
        for window in (window_at(policy, kind, each.received_at_ms) for kind in policy.windows)
        if (window.expires_at_ms or FOREVER_MS) <= now_ms
    }
    shown = {name: found for name, found in shown_on_board(client, policy).items() if name not in over}
    expected = due(history.promoted(policy.board), policy, now_ms)
    waiting = set(client.zrange(keys.pending(policy.board), 0, -1))
    wrong = [] if expected == shown else [f"shows {shown}, not {expected}"]
    return wrong + ([] if waiting == history.pending(policy.board) else [f"has {waiting} pending"])
