"""The rules in force, under the names by which the ledger notes them."""

from __future__ import annotations

from typing import Final

from gateway.ledger.derived.folded_rules import RuleInForce, rule_number
from policies.loader import Board, Family, Policies
from policies.opened_board import family_named_by

_ANY: Final = "any"


def noted_name(board: str) -> str:
    """Return the name under which a board's rule is noted: all boards of a family have one note."""
    return family_named_by(board) or board


def rule_in_force(policies: Policies, name: str) -> RuleInForce | None:
    """Return the rule in force for a board of a file or a family, None without a policy."""
    if family := policies.families.get(name):
        return _of_family(family)
    board = policies.boards.get(name)
    return _of_file(policies, board) if board else None


def _of_family(family: Family) -> RuleInForce:
    number = rule_number(family.ranking_of(f"{family.name}.{_ANY}"))
    return RuleInForce(family.name, number, rollups=tuple(rollup.name for rollup in family.rollups))


def _of_file(policies: Policies, board: Board) -> RuleInForce:
    rollup = board.policy.rollup
    family = policies.families.get(rollup.family) if rollup else None
    if family is None:
        return RuleInForce(board.name, rule_number(board.ranking))
    number = rule_number(board.ranking, family.ranking_of(f"{family.name}.{_ANY}"))
    return RuleInForce(board.name, number, family=_of_family(family))
