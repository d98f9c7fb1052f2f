"""A family of boards in force, and the boards that it makes of rows of the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from policies.board import Board, Simulator
from policies.defaults import SUM_LIMIT
from policies.errors import PolicyError, SettingRefused
from policies.family_policy import FamilyPolicy
from policies.model import Policy
from policies.narrowing import narrowed, refuse_wider
from policies.opened_board import (
    NO_CONTENT,
    OpenedBoard,
    canonical_json,
    family_named_by,
    refuse_unfit,
)
from policies.ranking import Ranking
from policies.rollups import RollupTake

_SHARED: Final = ("claim_stats", "compiled_rules", "tie_resolutions_ms", "spread_floor")
"""What a policy computes once. A copy has it only if it was computed before."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family's policy in force: the model, its digest, the simulator of every build, and its rollups."""

    policy: FamilyPolicy
    digest: str
    simulators: Mapping[str, Simulator]
    rollups: tuple[Board, ...] = field(default=(), repr=False, compare=False)
    template: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute once what all boards of the family share."""
        settings = {name: getattr(self.policy, name) for name in Policy.model_fields}
        template = Policy.model_construct(set(), **settings)
        for shared in _SHARED:
            getattr(template, shared)
        object.__setattr__(self, "template", template)

    @property
    def kind(self) -> str:
        """Return the key that names it in its file."""
        return "family"

    @property
    def name(self) -> str:
        """Return the family's name: what stands before the dot of its boards' names."""
        return self.policy.family

    def is_named(self, board: str) -> bool:
        """Return whether a board of the family may be opened under this name."""
        return family_named_by(board) == self.name and self.policy.allows_rest(board[len(self.name) + 1 :])

    def is_for_players_to_open(self, board: str) -> bool:
        """Return whether a player's first run may open a board of this name, signed if names must be.

        A board that the policy declares is opened with what is declared, by a steward.
        """
        policy, rest = self.policy, board[len(self.name) + 1 :]
        return policy.is_opened_by_players and self.is_named(board) and rest not in policy.boards

    def refuse(self, opened: OpenedBoard) -> None:
        """Raise SettingRefused, naming the field, for a board that this family does not allow.

        It is for what is opened now. A board that was opened under an earlier policy stays.
        """
        refuse_unfit(opened)
        if not self.is_named(opened.board):
            raise SettingRefused(self._fault_of_name(opened.board), "board")
        self._refuse_metadata(opened)
        refuse_wider(self.template, opened.bounds)

    def _fault_of_name(self, board: str) -> str:
        names, rest = self.policy.names, board[len(self.name) + 1 :]
        if isinstance(names, str):
            return f"`{rest}` does not match the family's `names`: {names}"
        return f"`{rest}` is none of the family's `names`"

    def refuse_change(self, before: OpenedBoard, after: OpenedBoard) -> None:
        """Raise SettingRefused, naming the field, for a change that this family does not allow.

        What stays as it was may be from an earlier policy, under which the board was opened.
        """
        refuse_unfit(after)
        if canonical_json(after.metadata) != canonical_json(before.metadata):  # in Python, 1 is equal to true
            self._refuse_metadata(after)
        if after.bounds != before.bounds:
            refuse_wider(self.template, after.bounds)

    def _refuse_metadata(self, opened: OpenedBoard) -> None:
        for name, kind in self.policy.metadata_filters.items():
            value = opened.metadata.get(name)
            if value is not None and not kind.fits(value):
                message = f"expected {kind.value} as `metadata_filters` says"
                raise SettingRefused(message, "metadata", name)

    def settings_of(self, rollup: Policy) -> dict[str, Any]:
        """Return the settings that a rollup has from this family: those of scores that its file leaves out.

        Raises SettingRefused, naming the setting, if the best scores would be in another order than here.
        """
        take, order = rollup.rollup and rollup.rollup.take, self.policy.order
        if take not in {RollupTake.BEST, RollupTake.SUM}:
            return {}
        unsaid = {"order", "decimals"} - rollup.model_fields_set
        if take is RollupTake.BEST and "order" not in unsaid and rollup.order is not order:
            message = f"`take: best` has the order of the family '{self.name}': `{order.value}`"
            raise SettingRefused(message, "order")
        return {name: getattr(self.policy, name) for name in unsaid}

    def with_rollup(self, rollup: Board) -> Family:
        """Return the family with one more rollup.

        Raises SettingRefused, naming the rollup's setting, if the rollup cannot follow from its boards.
        """
        ours, policy = self.policy, rollup.policy
        missing = [kind.value for kind in policy.windows if kind not in ours.windows]
        if missing:
            raise SettingRefused(f"the family '{self.name}' has no window `{missing[0]}`", "windows")
        calendar = (ours.season, ours.time_zone)
        if policy.season and (policy.season, policy.time_zone) != calendar:
            message = f"expected the seasons and the time zone of the family '{self.name}'"
            raise SettingRefused(message, "season")
        largest = max(abs(ours.score.minimum), abs(ours.score.maximum))
        if policy.rollup and policy.rollup.take is RollupTake.SUM and largest > SUM_LIMIT:
            message = f"`take: sum` needs a family with score bounds within ±{SUM_LIMIT}"
            raise SettingRefused(message, "rollup", "take")
        return replace(self, rollups=(*self.rollups, rollup))

    def board(self, opened: OpenedBoard) -> Board:
        """Return a board as it was opened, under the policy in force.

        It shares everything with the family but its name and what it narrows. Raises PolicyError for a board
        of another family.
        """
        if opened.family != self.name:
            raise PolicyError(f"board '{opened.board}' is not of the family '{self.name}'")
        changes = {"board": opened.board, "title": opened.title, **narrowed(self.template, opened.bounds)}
        policy = _changed(self.template, changes)
        return Board(policy, self._digest_of(opened), self.simulators, self.name, opened, self.rollups)

    def ranking_of(self, board: str) -> Ranking:
        """Return the ranking of a board by name. Nothing that a board narrows decides about it."""
        return Ranking(_changed(self.template, {"board": board}))

    def _digest_of(self, opened: OpenedBoard) -> str:
        """Return the digest of what judges the board's runs: the family's, and what differs from it."""
        content, bounds = opened.content_digest, opened.bounds
        if content == NO_CONTENT and not (bounds and bounds.narrows):
            return self.digest
        parts = {
            "family": self.digest,
            "content": content.hex(),
            "bounds": bounds.as_json() if bounds else {},
        }
        return "sha256:" + hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _changed(template: Policy, changes: Mapping[str, Any]) -> Policy:
    """Return a copy of a policy with other values, which were validated before.

    It shares every other value with the template, also those that were computed once.
    """
    policy = template.model_copy(update=changes)
    if "score" in changes:
        policy.__dict__.pop("spread_floor", None)  # it follows from the bounds
    return policy
