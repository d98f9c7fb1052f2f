"""The numbers of the rules in force, under the names by which the ledger notes them."""

from __future__ import annotations

from typing import Final

from gateway.ledger.derived.folded_rules import rule_number
from policies.loader import Board, Policies
from policies.opened_board import family_named_by

_ANY: Final = "any"


def noted_name(board: str) -> str:
    """Return the name under which a board's rule is noted: all boards of a family have one note."""
    return family_named_by(board) or board


def number_in_force(policies: Policies, name: str) -> int | None:
    """Return the number of the rule in force for a board of a file or a family, None without a policy."""
    if family := policies.families.get(name):
        return rule_number(family.ranking_of(f"{name}.{_ANY}"))
    board = policies.boards.get(name)
    return _number_of(policies, board) if board else None


def _number_of(policies: Policies, board: Board) -> int:
    rollup = board.policy.rollup
    family = policies.families.get(rollup.family) if rollup else None
    return rule_number(board.ranking, family.ranking_of(f"{family.name}.{_ANY}") if family else None)
