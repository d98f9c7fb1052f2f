"""The sections of a policy about replays: how a run is played again, by which builds, and at what cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Self

from pydantic import Field, model_validator

from policies.errors import SettingRefused
from policies.fields import PolicySection, StatName
from policies.vocabulary import SCORE_LIMIT, SimulatorKind

WARM_RUNS = 256
"""Most runs that one process plays. It bounds what leaks or accumulates in a game's program."""

FilePath = Annotated[str, Field(min_length=1, max_length=4096)]


class RecordingKind(StrEnum):
    """The format of a recording: our container of input words, or the game's own."""

    SCOREGATE = "scoregate"
    RAW = "raw"


class BuildStatus(StrEnum):
    """The rights of a build: everything, nothing without a moderator, or not even opening a run."""

    ALLOW = "allow"
    PROVISIONAL = "provisional"
    BLOCKED = "blocked"


class Build(PolicySection):
    """A build of the game. `simulator` is the file that replays its recordings, relative to the policy file.

    `files` are further files and folders that it needs, in addition to `replay.files`.
    """

    simulator: str | None = None
    files: Annotated[tuple[FilePath, ...], Field(max_length=32, strict=False)] = ()
    tells_divergence: bool = False
    status: Annotated[BuildStatus, Field(strict=False)] = BuildStatus.ALLOW


class Budget(PolicySection):
    """The most that one re-simulation may cost. Beyond any of these limits it is `inconclusive`."""

    fuel: Annotated[int, Field(ge=1_000, le=10**13)] = 20_000_000_000
    memory_mib: Annotated[int, Field(ge=1, le=1024)] = 64
    wall_ms: Annotated[int, Field(ge=10, le=600_000)] = 10_000


class AuditRules(PolicySection):
    """The daily audit: how many verified runs are simulated again, and when (`at`, in the board's time zone).

    Each run is drawn with probability `share`; if that gives fewer than `least`, that many are drawn.
    """

    at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "03:00"
    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.01
    least: Annotated[int, Field(ge=0, le=10_000)] = 10


def detection_probability(share: float, runs: int) -> float:
    """Return the probability of verifying at least one of `runs` false runs: 1 - (1 - share)^runs.

    Runs are drawn independently, so the probability that none is verified is a product (the binomial
    distribution at 0).
    """
    return 1.0 - (1.0 - share) ** runs


class Verification(PolicySection):
    """The choice and order of verification. `top`: how many of a window's first places are worth a lie.

    Always verified: a run that would enter the top, a newcomer's, and one that beats the player's best by
    more than `beats_best_by` points. A random `share` of the rest is. With `reveal_s`, a client may send the
    recording's digest with the score, and then has that many seconds to send the recording when it is
    requested.
    """

    top: Annotated[int, Field(ge=1, le=10_000)] = 100
    beats_best_by: Annotated[int, Field(ge=0, le=SCORE_LIMIT)] = 0
    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    reveal_s: Annotated[int, Field(ge=3600, le=2_592_000)] | None = None
    audit: AuditRules = AuditRules()


class Replay(PolicySection):
    """The re-simulation of a recording, by the simulator of the run's build."""

    simulator: Annotated[SimulatorKind, Field(strict=False)] = SimulatorKind.WASM
    recording: Annotated[RecordingKind, Field(strict=False)] = RecordingKind.SCOREGATE
    files: Annotated[tuple[FilePath, ...], Field(max_length=32, strict=False)] = ()
    ticks_per_second: Annotated[int, Field(ge=1, le=1000)] = 60
    maximum_ticks: Annotated[int, Field(ge=1, le=10_000_000)]
    checkpoint_ticks: Annotated[int, Field(ge=1, le=100_000)] = 60
    recording_bytes: Annotated[int, Field(ge=64, le=1_048_576)] = 65_536
    stats: Annotated[tuple[StatName, ...], Field(max_length=16, strict=False)] = ()
    runs_per_process: Annotated[int, Field(ge=1, le=WARM_RUNS)] | None = None
    budget: Budget = Budget()

    @property
    def runs_of_a_process(self) -> int:
        """Return the number of runs after which a process is replaced."""
        # A recording may take over native code, which would then answer for later runs. To Python it is data.
        return self.runs_per_process or (WARM_RUNS if self.simulator is SimulatorKind.PLUGIN else 1)

    @model_validator(mode="after")
    def _simulator_that_can_play_it(self) -> Self:
        if self.recording is RecordingKind.RAW and self.simulator is SimulatorKind.WASM:
            raise ValueError(
                "`recording: raw` needs `simulator: process` or `plugin`: a module takes input words"
            )
        if len(set(self.stats)) < len(self.stats):
            raise ValueError("`stats` names a statistic twice: each of the simulator's needs a unique name")
        if self.runs_per_process and self.simulator is SimulatorKind.WASM:
            raise SettingRefused(
                "it applies to `simulator: process` or `plugin`: a module gets a new instance for each run",
                "runs_per_process",
            )
        return self

    def refuse_unreachable(self, name: str, build: Build) -> None:
        """Raise SettingRefused if the build's simulator could not read its files, or not distinguish them."""
        where = ("builds", name, "files") if build.files else ("replay", "files")
        files = (*self.files, *build.files)
        if files and self.simulator is not SimulatorKind.PROCESS:
            raise SettingRefused("`files` need `simulator: process`: modules and plug-ins read none", *where)
        if nameless := [file for file in files if PurePath(file).name in {"", ".."}]:
            raise SettingRefused(f"{nameless[0]!r} has no name, and the program sees only names", *where)
        if len({PurePath(file).name for file in files}) < len(files):
            message = "two `files` of a build have the same name, and the program sees only names"
            raise SettingRefused(message, *where)
