"""Game builds from the command line: what each may do, and the kill switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.ledger.judgement.builds import BuildChange, build_changes_of, set_build_status
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies
from policies.errors import SettingsError
from policies.loader import Board
from policies.replaying import BuildStatus
from scoregate.existing import existing_ledger
from scoregate.keys import OPERATOR

REASON_CHARACTERS: Final = 500
"""A reason is read in lists; what is longer belongs elsewhere."""


@dataclass(frozen=True, slots=True)
class ListedBuild:
    """A build of a board: its status in the policy (None: not in it), and the newest change of it, which holds over that."""

    board: str
    build: str
    declared: BuildStatus | None
    change: BuildChange | None
    simulator: str | None

    @property
    def status(self) -> BuildStatus:
        """The status that holds."""
        if self.change:
            return self.change.status
        return self.declared or BuildStatus.ALLOW


async def all_builds(settings: Settings, board: str | None) -> list[ListedBuild]:
    """The builds of a board, or of all, by their names. Raises SettingsError for a board without a policy."""
    boards = load_policies(settings)
    names = sorted(boards) if board is None else [_named(boards, board).name]
    found = []
    async with existing_ledger(settings) as ledger:
        for name in names:
            changes = {each.build: each for each in await ledger.read(build_changes_of(name))}
            found += _listed(boards[name], changes)
    return found


def _listed(board: Board, changes: Mapping[str, BuildChange]) -> list[ListedBuild]:
    declared = board.policy.builds
    return [
        ListedBuild(
            board.name,
            build,
            declared[build].status if build in declared else None,
            changes.get(build),
            board.simulators[build].digest if build in board.simulators else None,
        )
        for build in sorted({*declared, *changes})
    ]


async def set_status(
    settings: Settings, board: str, build: str, status: BuildStatus, *, reason: str, clock: Clock = wall_clock
) -> bool:
    """True if the status of the build was changed, False if it was changed to that before.

    Raises SettingsError for a board without a policy, a build that it never knew, and a reason that says nothing.
    """
    if not reason.strip() or len(reason) > REASON_CHARACTERS:
        raise SettingsError(f"--reason: expected 1 to {REASON_CHARACTERS} characters")
    known = _named(load_policies(settings), board).policy.builds
    async with existing_ledger(settings) as ledger:
        # A board without a registry takes any build; a build that was retired may still have open runs.
        if known and build not in known:
            before = {each.build for each in await ledger.read(build_changes_of(board))}
            if build not in before:
                raise SettingsError(f"{board} knows no build {build}; there are {', '.join(sorted(known))}")
        change = BuildChange(board, build, status, OPERATOR, reason.strip(), clock())
        return await ledger.write(set_build_status(change))


def _named(boards: Mapping[str, Board], name: str) -> Board:
    if name not in boards:
        raise SettingsError(f"no policy for {name}; there are {', '.join(sorted(boards))}")
    return boards[name]
