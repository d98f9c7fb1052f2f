"""The rule under which all of a board or family was folded last, noted as the progress of a consumer."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from sqlalchemy import bindparam, exists, literal_column, select

from gateway.ledger.derived import log
from gateway.ledger.schema import ARCHIVE_IN_FORCE, archived_windows, standings
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import Ranking

RULES: Final = "folded-rule"
"""Consumer whose progress on a board or family is the number of the rule under which all of it was folded.

Its progress on all boards counts the changes of these notes.
"""

FOLDING: Final = 0
"""The note of what is being folded: the number of no rule, so nobody reads it under any policy."""

_DIGITS: Final = 12
"""Hex digits of a rule."""

_st, _w = standings.c, archived_windows.c
_OF_OTHER_RULE = Query(
    select(literal_column("1"))
    .where(
        _st.board == bindparam("board"),
        _st.score.is_not(None),
        _st.rule != bindparam("rule"),
        ~exists().where(_w.board == _st.board, _w.window == _st.window, ARCHIVE_IN_FORCE),
    )
    .limit(1)
)


class RuleNotes(NamedTuple):
    """The noted numbers by board or family, and how often a note had changed by then."""

    changes: int
    numbers: Mapping[str, int]


def rule_number(ranking: Ranking, of_family: Ranking | None = None) -> int:
    """Return a ranking's rule as a number of 48 bits.

    A rollup follows from the standings of its family, so the family's rule is part of the number.
    """
    if of_family is None:
        return int(ranking.rule, 16)
    rules = f"{ranking.rule}:{of_family.rule}".encode()
    return int(hashlib.sha256(rules).hexdigest()[:_DIGITS], 16)


def noted_rules() -> Operation[RuleNotes]:
    """Return all notes."""

    async def work(tx: Transaction) -> RuleNotes:
        numbers = await log.positions(RULES)(tx)
        return RuleNotes(numbers.pop(log.ALL_BOARDS, 0), numbers)

    return work


def rule_changes() -> Operation[int]:
    """Return how often a note has changed."""

    async def work(tx: Transaction) -> int:
        return await log.position(RULES)(tx) or 0

    return work


def note_rules(numbers: Mapping[str, int]) -> Operation[None]:
    """Note numbers of boards and families, as one change."""

    async def work(tx: Transaction) -> None:
        for name, number in numbers.items():
            await log.move(RULES, number, name)(tx)
        await log.move(RULES, await rule_changes()(tx) + 1)(tx)

    return work


async def fold_again(tx: Transaction, name: str, rules: Collection[str]) -> None:
    """Note that a board or family has to be folded, unless all of these rules are the one that is noted."""
    noted = await log.position(RULES, name)(tx)
    if noted is not None and any(int(rule, 16) != noted for rule in rules):
        await note_rules({name: FOLDING})(tx)


def boards_of_other_rules(rankings: Collection[Ranking]) -> Operation[list[str]]:
    """Return those boards that have standings of another rule than their ranking's, in order.

    Standings of archived windows do not count: readers get those from the archive, by its own rule. It looks
    through all standings of a board that has none of another rule.
    """

    async def work(tx: Transaction) -> list[str]:
        return [
            ranking.policy.board
            for ranking in rankings
            if await tx.rows(_OF_OTHER_RULE, board=ranking.policy.board, rule=ranking.rule)
        ]

    return work
