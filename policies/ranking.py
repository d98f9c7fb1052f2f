"""The place of a standing on its board, exact to the last tie, as two sortable values.

A place is an integer and a text. The index sorts a ZSET by them (score, then the bytes of the member), the
ledger sorts an SQL index, and both give the same ranks: the lower place is ahead.

| `tie_break` | integer | text |
|---|---|---|
| `first` | ±score | time and sequence of the event, in fixed width, then the player |
| `fields` | ±score | the tie fields, then as `first` |
| `composite` | (±score - lowest) x slots + slot of time | the player |

A ZSET score is an IEEE double, exact for integers up to 2**53, so `composite` has 53 bits for both values.
Its slots are as short as those bits allow (`Ranking.resolutions_ms`). `score << 32 | seconds` is not used: it
needs 32 bits besides the score's, and above 2,097,151 points two different times would give the same double.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from policies.choices import Operator, RankKind, TieBreak, TieField, WindowKind
from policies.fields import SortOrder
from policies.model import Policy
from policies.rollups import Rollup
from policies.ties import COMPOSITE_BEGIN_MS, COMPOSITE_SPANS_MS
from policies.vocabulary import SCORE_LIMIT
from policies.windows import Window, window_named

_TIME_DIGITS: Final = 12
_SEQ_DIGITS: Final = 10
_FIELD_DIGITS: Final = 14
_FIELD_OFFSET: Final = SCORE_LIMIT + 1
_FIELD_BEST: Final = 2**54 - 2
_FIELD_MISSING: Final = 2**54
"""A tie field is an exact integer. Raised by 2**53, an ascending one is between 1 and 2**54 - 1, in 14 hex
digits.

A descending one is `_FIELD_BEST` minus the raised value: from 2**54 - 3 to -1, whose minus sorts before every
digit.
"""

_FIELDS_VERSION: Final = 2
"""Version of the rule on boards with tie fields. In version 1, 2**53 - 1 tied with a missing field."""


class ReachedScore(NamedTuple):
    """A score and the submission that reached it: time (Unix ms), event number, and packed tie fields."""

    score: int
    at_ms: int
    seq: int
    submission_id: str
    ties: str = ""


class BoardPlace(NamedTuple):
    """The place of a standing on its board. Places compare as their ranks do."""

    order: int
    member: str


class Ranking:
    """The order of one board. `rule` identifies it: places of different rules do not compare."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._sign = 1 if policy.order is SortOrder.ASCENDING else -1
        self._is_composite = policy.tie_break is TieBreak.COMPOSITE
        self._lowest = min(self._sign * policy.score.minimum, self._sign * policy.score.maximum)
        self._highest = max(self._sign * policy.score.minimum, self._sign * policy.score.maximum)
        self.resolutions_ms = policy.tie_resolutions_ms
        self.tie_digits = _FIELD_DIGITS * len(policy.tie_fields)
        self.rule = _rule(policy)

    @property
    def keeps_groups(self) -> bool:
        """Return whether the index keeps the distinct groups, which dense ranks need."""
        return RankKind.DENSE in self.policy.ranks

    def merit(self, reached: ReachedScore) -> tuple[int, str, int, int]:
        """Return the sort key of `best`; the lower is better."""
        return (self._sign * reached.score, reached.ties, reached.at_ms, reached.seq)

    def standing(self, counting: Sequence[ReachedScore]) -> ReachedScore | None:
        """Return the standing that the operator makes of a player's counting scores; None without any.

        A sum or count is reached with its last submission, and clamped to the limits of a score.
        """
        if not counting:
            return None
        operator = self.policy.operator
        if operator is Operator.BEST:
            return min(counting, key=self.merit)
        latest = max(counting, key=lambda reached: (reached.at_ms, reached.seq))
        if operator is Operator.LATEST:
            return latest
        score = len(counting) if operator is Operator.COUNT else sum(reached.score for reached in counting)
        return latest._replace(score=max(-SCORE_LIMIT, min(SCORE_LIMIT, score)))

    def ties(self, stats: Mapping[str, int]) -> str:
        """Return a run's tie fields, packed so that texts sort as fields do. A missing field is the worst."""
        return "".join(_packed(field, stats.get(field.stat)) for field in self.policy.tie_fields)

    def place(self, window: Window, player: str, reached: ReachedScore) -> BoardPlace:
        """Return the place of a player with this score in a window."""
        if not self._is_composite:
            at = f"{reached.at_ms:0{_TIME_DIGITS}x}{reached.seq:0{_SEQ_DIGITS}x}"
            return BoardPlace(self._sign * reached.score, f"{reached.ties}{at}:{player}")
        slots = self.orders_per_score(window.name)
        ahead = min(max(self._sign * reached.score, self._lowest), self._highest) - self._lowest
        elapsed = max(0, reached.at_ms - _begin_ms(window)) // self.resolutions_ms[window.kind]
        return BoardPlace(ahead * slots + min(elapsed, slots - 1), player)

    def orders_per_score(self, window: str) -> int:
        """Return how many integers of a window belong to one score: 1 unless the time is packed beside it."""
        if not self._is_composite:
            return 1
        kind = WindowKind(window.partition(":")[0])
        return -(-COMPOSITE_SPANS_MS[kind] // self.resolutions_ms[kind])

    def score_at(self, window: str, order: int) -> int:
        """Return the score of a place."""
        if not self._is_composite:
            return self._sign * order
        return self._sign * (self._lowest + order // self.orders_per_score(window))

    def order_from(self, window: str, score: int) -> int:
        """Return the lowest order that a standing with this score can have. Lower is better."""
        order = self._sign * score
        if self._is_composite:
            order = (order - self._lowest) * self.orders_per_score(window)
        return min(max(order, -SCORE_LIMIT), SCORE_LIMIT + 1)

    def borders(self, window: str) -> tuple[int, ...]:
        """Return the lowest order of each of the policy's ranges but the first, in board order.

        A score in `ranges` belongs to the upper of its two ranges, whichever of them is ahead.
        """
        least = 0 if self._sign > 0 else -1
        return tuple(sorted(self.order_from(window, score + least) for score in self.policy.ranges))

    def achieved_at_ms(self, window: str, place: BoardPlace) -> int:
        """Return when the score of a place was reached (Unix ms), to the slot on a composite board.

        Raises ValueError for a member that no standing has.
        """
        if not self._is_composite:
            at = place.member.find(":") - _SEQ_DIGITS
            return int(place.member[at - _TIME_DIGITS : at], 16)
        span = window_named(self.policy, window)
        elapsed = place.order % self.orders_per_score(window)
        return _begin_ms(span) + elapsed * self.resolutions_ms[span.kind]

    def shown_at_ms(self, window: str, at_ms: int) -> int:
        """Return the time of a score as readers see it: on a composite board, its slot's beginning."""
        if not self._is_composite:
            return at_ms
        span = window_named(self.policy, window)
        begin_ms, resolution_ms = _begin_ms(span), self.resolutions_ms[span.kind]
        return begin_ms + max(0, at_ms - begin_ms) // resolution_ms * resolution_ms

    def group(self, window: str, place: BoardPlace) -> tuple[int, str]:
        """Return what tied entries have in common: the score and the tie fields, but not the time."""
        return (place.order // self.orders_per_score(window), place.member[: self.tie_digits])

    def group_begin(self, window: str, place: BoardPlace) -> BoardPlace:
        """Return the lowest place of an entry tied with this one. It sorts groups as their entries."""
        slots = self.orders_per_score(window)
        return BoardPlace(place.order // slots * slots, place.member[: self.tie_digits])

    def group_end(self, window: str, place: BoardPlace) -> BoardPlace:
        """Return a place behind all entries tied with this one, and behind no other."""
        begin = self.group_begin(window, place)
        if self.tie_digits:
            return BoardPlace(begin.order, f"{begin.member}~")  # behind hex digits and the colon
        return BoardPlace(begin.order + self.orders_per_score(window), "")


def player_at(member: str) -> str:
    """Return the player of a member."""
    return member.rpartition(":")[2]


def _begin_ms(window: Window) -> int:
    return max(window.begin_ms, COMPOSITE_BEGIN_MS)


def _packed(field: TieField, value: int | None) -> str:
    if value is None:
        return f"{_FIELD_MISSING:0{_FIELD_DIGITS}x}"
    raised = min(max(value, -SCORE_LIMIT), SCORE_LIMIT) + _FIELD_OFFSET
    if field.order is SortOrder.DESCENDING:
        raised = _FIELD_BEST - raised
    return f"{raised:0{_FIELD_DIGITS}x}"


def _rule(policy: Policy) -> str:
    """Return twelve hex digits of the SHA-256 of everything that decides a standing and its place."""
    bounds = (policy.score.minimum, policy.score.maximum, policy.tie_resolution_ms)
    packed = bounds if policy.tie_break is TieBreak.COMPOSITE else ()
    return _rule_of(policy.operator, policy.order, policy.tie_break, policy.tie_fields, packed, policy.rollup)


@lru_cache(maxsize=1024)  # the boards of a family share one
def _rule_of(
    operator: Operator,
    order: SortOrder,
    tie_break: TieBreak,
    tie_fields: tuple[TieField, ...],
    packed: tuple[int | None, ...],
    rollup: Rollup | None,
) -> str:
    parts = [
        operator.value,
        order.value,
        tie_break.value,
        [(field.stat, field.order.value) for field in tie_fields],
        packed,
        *([_FIELDS_VERSION] if tie_fields else []),
        *([rollup.model_dump(mode="json")] if rollup else []),
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]
