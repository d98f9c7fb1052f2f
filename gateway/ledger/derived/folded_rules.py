"""The rule under which all of a board or family was folded last, noted as the progress of a consumer.

A note is the number of a rule, or a mark: a negative number, another one each time, and nobody reads a board
that has it. Whoever folds standings by another rule than the one noted leaves a mark in the same transaction.
Stewards alone note numbers, and only in place of the mark under which they folded
(`docs/adr/0084-a-board-waits-for-its-rule.md`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule under the name by which it is noted: its number, a rollup's family, and a family's rollups."""

    name: str
    number: int
    family: RuleInForce | None = None
    rollups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BegunFold:
    """A fold by a rule, and the note that says so: whoever finds another one there has to fold again.

    The mark is None for what was never noted.
    """

    rule: RuleInForce
    mark: int | None


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


def begin_fold(rule: RuleInForce, begun: BegunFold | None = None) -> Operation[BegunFold | None]:
    """Mark as not folded what has to be folded by a rule and what follows from it, and return the fold.

    None if the rule is noted, and for a rollup whose family is not folded yet. A fold that was `begun` is
    returned as it was if nobody has touched its mark.
    """

    async def work(tx: Transaction) -> BegunFold | None:
        note = await log.position(RULES, rule.name)(tx)
        if note == rule.number or not await _has_folded_family(tx, rule):
            return None
        if begun == BegunFold(rule, note):
            return begun
        if note is None and rule.family:  # a rollup that is new has nothing that could be read wrongly
            return BegunFold(rule, None)
        return BegunFold(rule, await _mark(tx, [rule.name, *rule.rollups]))

    return work


def end_fold(fold: BegunFold) -> Operation[bool]:
    """Note the rule by which all was folded, and return True; False if it has to be folded again.

    Then somebody else has changed the mark, or a rollup's family is being folded.
    """

    async def work(tx: Transaction) -> bool:
        rule = fold.rule
        if await log.position(RULES, rule.name)(tx) != fold.mark or not await _has_folded_family(tx, rule):
            return False
        await log.move(RULES, rule.number, rule.name)(tx)
        await log.move(RULES, await rule_changes()(tx) + 1)(tx)
        return True

    return work


def mark_changed(rule: RuleInForce) -> Operation[None]:
    """Mark what no longer is as noted once standings were folded by a rule, of whatever board has it.

    It belongs into the transaction that changes them. Marked are a family's rollups, what was noted under
    another rule, and a rollup that was folded before its family.
    """

    async def work(tx: Transaction) -> None:
        note = await log.position(RULES, rule.name)(tx)
        is_as_noted = note is None or (note == rule.number and await _has_folded_family(tx, rule))
        if names := [*rule.rollups, *([] if is_as_noted else [rule.name])]:
            await _mark(tx, names)

    return work


def mark_all(names: Collection[str]) -> Operation[int]:
    """Mark boards and families as not folded by any rule, and return the mark."""

    async def work(tx: Transaction) -> int:
        return await _mark(tx, names)

    return work


async def fold_again(tx: Transaction, name: str, rules: Collection[str]) -> None:
    """Mark a board or family to be folded, unless all of these rules are the one that is noted."""
    noted = await log.position(RULES, name)(tx)
    if noted is not None and any(int(rule, 16) != noted for rule in rules):
        await _mark(tx, [name])


async def _mark(tx: Transaction, names: Collection[str]) -> int:
    changes = await rule_changes()(tx) + 1
    for name in names:
        await log.move(RULES, -changes, name)(tx)
    await log.move(RULES, changes)(tx)
    return -changes


async def _has_folded_family(tx: Transaction, rule: RuleInForce) -> bool:
    """Return whether there is nothing that a rollup has to wait for."""
    family = rule.family
    return family is None or await log.position(RULES, family.name)(tx) == family.number


def has_other_rule(ranking: Ranking) -> Operation[bool]:
    """Return whether a board has standings of another rule than its ranking's.

    Standings of archived windows do not count: readers get those from the archive, by its own rule. It looks
    through all standings of a board that has none of another rule.
    """

    async def work(tx: Transaction) -> bool:
        return bool(await tx.rows(_OF_OTHER_RULE, board=ranking.policy.board, rule=ranking.rule))

    return work
