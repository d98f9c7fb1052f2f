"""Every key of the index, and the two encodings that live in it. All keys of a board share its hash tag."""

from __future__ import annotations

from gateway.records import Standing, StoredBaseline
from policies.model import Order

POPULATION_FIELD = "*"
"""Field of the population in a baselines hash; no player id can be an asterisk."""

_TIME_DIGITS = 12
_SEQ_DIGITS = 10
MEMBER_PREFIX = _TIME_DIGITS + _SEQ_DIGITS + 1
"""Characters of a member before its player id."""


def pending(board: str) -> str:
    """ZSET: submission id by the time it was received (ms)."""
    return f"lb:{{{board}}}:pending"


def settled(board: str) -> str:
    """ZSET: submission ids that were decided within the last hour, by when (ms)."""
    return f"lb:{{{board}}}:settled"


def window(board: str, name: str) -> str:
    """ZSET: the canonical board of a window; member by order value."""
    return f"lb:{{{board}}}:{name}"


def members(board: str, name: str) -> str:
    """HASH: player to `<seq> <member> <submission>`; the member is empty once nothing counts any more."""
    return f"lb:{{{board}}}:{name}:members"


def names(board: str) -> str:
    """HASH: player to display name."""
    return f"lb:{{{board}}}:names"


def baselines(board: str) -> str:
    """HASH: player, or `*`, to `<seq> <count> <mean> <squares>`."""
    return f"lb:{{{board}}}:baselines"


def changes(board: str) -> str:
    """STREAM: every change of a standing, for the live feed."""
    return f"lb:{{{board}}}:changes"


def open_runs(board: str, player: str) -> str:
    """ZSET: runs a player has open, by the time their ticket expires (ms)."""
    return f"lb:{{{board}}}:open:{player}"


def limit(board: str, kind: str, who: str) -> str:
    """STRING: theoretical arrival time (µs) of a GCRA limit; `who` is a player id or a hashed address."""
    return f"lb:{{{board}}}:limit:{kind}:{who}"


def player_creation(address: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on new players of a hashed address."""
    return f"limit:{{{address}}}:players"


def sentinel(board: str) -> str:
    """STRING: there while the index has been whole since it was last emptied."""
    return f"lb:{{{board}}}:whole"


def lease(board: str) -> str:
    """STRING: the generation of the rebuild under way; it ends by itself with a builder that died."""
    return f"lb:{{{board}}}:building"


def built(board: str, generation: str, live: str) -> str:
    """The key, beside a live one, in which a rebuild makes its successor."""
    return f"{stem(board)}built:{generation}:{live.removeprefix(stem(board))}"


def stem(board: str) -> str:
    """What every key of a board begins with."""
    return f"lb:{{{board}}}:"


def order_value(score: int, order: Order) -> int:
    """The ZSET score of a score: ascending order values are ascending ranks on every board."""
    return score if order is Order.ASCENDING else -score


def member_of(standing: Standing) -> str:
    """The ZSET member of a standing: when it was reached, in fixed width, then the player.

    Redis sorts equal scores by the bytes of the member, so the earlier one stands ahead, exactly: first by
    millisecond, then by the ledger's sequence.
    """
    return f"{standing.achieved_at_ms:012x}{standing.achieved_seq:010x}:{standing.player}"


def achieved_at_ms(member: str) -> int:
    """When the standing behind a member was reached (Unix ms)."""
    return int(member[:_TIME_DIGITS], 16)


def player_of(member: str) -> str:
    """The player behind a member."""
    return member[MEMBER_PREFIX:]


def slot_value(standing: Standing) -> str:
    """What the members hash holds for a standing."""
    member = "" if standing.score is None else member_of(standing)
    return f"{standing.seq} {member} {standing.submission_id}"


def baseline_field(stored: StoredBaseline) -> str:
    """The field of a stored baseline."""
    return stored.player or POPULATION_FIELD


def baseline_value(stored: StoredBaseline) -> str:
    """The value of a stored baseline; `repr` of a float reads back as the same float."""
    return f"{stored.seq} {stored.count} {stored.mean!r} {stored.squares!r}"


def probe() -> str:
    """STRING: nothing; the readiness check writes it to see whether Redis takes writes."""
    return "scoregate:probe"
