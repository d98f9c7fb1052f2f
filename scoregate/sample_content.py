"""The content of boards that a family's simulators are tried with: that of declared boards, and a sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from policies.document import PolicyDocument
from policies.errors import SettingRefused
from policies.family_policy import FamilyPolicy
from policies.model import Policy
from policies.opened_board import canonical_parameters
from policies.openings import declared_boards
from replay.kit.runs import RunUnreadable, read_content
from replay.simulators.board_content import EMPTY_CONTENT, BoardContent

TRIED: Final = 20
"""Most contents with which each simulator is tried."""

SAMPLE: Final = "the policy's sample"


def contents_to_try(document: PolicyDocument, policy: Policy) -> Mapping[BoardContent, list[str]]:
    """Return each content, with the boards that have it; nothing but the empty one if no board is known.

    Raises PolicyError for a sample that cannot be read.
    """
    if not isinstance(policy, FamilyPolicy):
        return {EMPTY_CONTENT: []}
    contents: dict[BoardContent, list[str]] = {}
    if policy.sample is not None:
        contents[_sample(document, policy)] = [SAMPLE]
    for board in declared_boards(policy):
        contents.setdefault(BoardContent(board.parameters), []).append(board.board)
    if policy.schedule is not None or not contents:
        contents.setdefault(EMPTY_CONTENT, [])
    return dict(list(contents.items())[:TRIED])


def played_with(contents: Mapping[BoardContent, list[str]]) -> str:
    """Return a phrase with the boards whose content was played; empty if it is that of any board."""
    names = [names[0] for content, names in contents.items() if content != EMPTY_CONTENT]
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f", with the content of {names[0]}{more}"


def _sample(document: PolicyDocument, policy: FamilyPolicy) -> BoardContent:
    assert policy.sample is not None
    try:
        parameters = canonical_parameters(policy.sample.parameters)
    except SettingRefused as refused:
        raise document.fault(["sample", *refused.location], str(refused)) from None
    if policy.sample.asset is None:
        return BoardContent(parameters)
    try:
        asset = read_content(None, document.path.parent / Path(policy.sample.asset)).asset
    except RunUnreadable as error:
        raise document.fault(["sample", "asset"], str(error)) from None
    return BoardContent(parameters, asset)
