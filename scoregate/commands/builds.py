"""`scoregate build`: what each build of the game may do, and the kill switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from policies.errors import SettingsError
from scoregate.commands.common import OPERATOR, DataDir, deployment_of, existing_ledger, finish, policy_named
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.ledger.judgement.builds import BuildChange
    from gateway.runtime.settings import Settings
    from policies.loader import Board, Family
    from policies.replaying import BuildStatus

REASON_CHARACTERS: Final = 500
"""The longest reason. Lists show reasons; a longer text belongs elsewhere."""

app = typer.Typer(no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", help="The reason, in a sentence, which the ledger keeps.")]


@dataclass(frozen=True, slots=True)
class ListedBuild:
    """A build of a board: its status, the newest change of it by an operator, and its simulator's digest.

    A change wins over the policy. `change` is None if there was none; `simulator` is None for a build that
    the policy does not name.
    """

    board: str
    build: str
    status: BuildStatus
    change: BuildChange | None
    simulator: str | None

    def facts(self) -> Mapping[str, object]:
        """Return the build for tables and programs."""
        from gateway.runtime.clock import rfc3339

        return {
            "board": self.board,
            "build": self.build,
            "status": self.status.value,
            "simulator": self.simulator,
            "by": self.change.actor if self.change else "policy",
            "since": rfc3339(self.change.at_ms) if self.change else None,
            "reason": self.change.reason if self.change else None,
        }


@app.command("list")
def build_list(
    board: Annotated[str | None, typer.Argument(help="A board by name; by default all.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List builds: board, build, status, digest of the simulator, and who changed the status when and why."""
    rows = [build.facts() for build in finish(_all_builds(deployment_of(data_dir), board))]
    show(rows, ("board", "build", "status", "simulator", "by", "since", "reason"), as_json=as_json)


@app.command("allow")
def build_allow(board: str, build: str, reason: Reason, data_dir: DataDir = None) -> None:
    """Let a build play, even if the policy does not."""
    _change(board, build, "allow", reason, data_dir)


@app.command("provisional")
def build_provisional(board: str, build: str, reason: Reason, data_dir: DataDir = None) -> None:
    """Hold verified runs of a build until a moderator decides."""
    _change(board, build, "provisional", reason, data_dir)


@app.command("block")
def build_block(board: str, build: str, reason: Reason, data_dir: DataDir = None) -> None:
    """Refuse new runs of a build, and hold the submissions of its open runs."""
    _change(board, build, "blocked", reason, data_dir)


def _change(board: str, build: str, word: str, reason: str, data_dir: Path | None) -> None:
    from policies.replaying import BuildStatus

    status = BuildStatus(word)
    is_new = finish(set_status(deployment_of(data_dir, is_writing=True), board, build, status, reason=reason))
    effect = "running parts follow within two seconds" if is_new else "it was that before"
    typer.echo(f"{board} {build}: {status}; {effect}")


async def _all_builds(settings: Settings, board: str | None) -> list[ListedBuild]:
    """Return the builds of a board, or of all, by name. Raises SettingsError for a board without a policy."""
    from gateway.ledger.judgement.builds import build_changes_of
    from policies.loader import load_policies

    policies = load_policies(settings.policies_dir)
    boards = policies.by_name
    names = sorted(boards) if board is None else [policy_named(policies, board).name]
    builds = []
    async with existing_ledger(settings) as ledger:
        for name in names:
            changes = {change.build: change for change in await ledger.read(build_changes_of(name))}
            known = sorted({*boards[name].policy.builds, *changes})
            builds += [_listed(boards[name], build, changes.get(build)) for build in known]
    return builds


def _listed(board: Board | Family, build: str, change: BuildChange | None) -> ListedBuild:
    from policies.replaying import BuildStatus

    declared = board.policy.builds.get(build)
    simulator = board.simulators.get(build)
    status = change.status if change else declared.status if declared else BuildStatus.ALLOW
    return ListedBuild(board.name, build, status, change, simulator.digest if simulator else None)


async def set_status(settings: Settings, board: str, build: str, status: BuildStatus, *, reason: str) -> bool:
    """Set the status of a build. Return False if the last change had set the same status.

    Raises SettingsError for a board without a policy, an unknown build, and an empty or long reason.
    """
    from gateway.ledger.judgement.builds import BuildChange, build_changes_of, set_build_status
    from gateway.runtime.clock import wall_clock
    from policies.loader import load_policies

    if not reason.strip() or len(reason) > REASON_CHARACTERS:
        raise SettingsError(f"--reason: expected 1 to {REASON_CHARACTERS} characters")
    declared = policy_named(load_policies(settings.policies_dir), board).policy.builds
    async with existing_ledger(settings) as ledger:
        # A board without a registry takes any build; a build that was retired may still have open runs.
        if declared and build not in declared:
            changed = {change.build for change in await ledger.read(build_changes_of(board))}
            if build not in changed:
                raise SettingsError(
                    f"{board} knows no build {build}; there are {', '.join(sorted(declared))}"
                )
        change = BuildChange(board, build, status, OPERATOR, reason.strip(), wall_clock())
        return await ledger.write(set_build_status(change))
