"""The sections of a policy that say how a run is played again, by which builds of the game, and at what cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Self

from pydantic import Field, model_validator

from policies.errors import SettingRefused
from policies.fields import PolicySection, StatName
from policies.vocabulary import SCORE_LIMIT, SimulatorKind

WARM_RUNS = 256
"""The most runs that one process plays: what leaks in a game's program, or adds up in it, does not go on for ever."""

FilePath = Annotated[str, Field(min_length=1, max_length=4096)]


class RecordingKind(StrEnum):
    """What the bytes of a recording are: our container of input words, or a format of the game's own."""

    SCOREGATE = "scoregate"
    RAW = "raw"


class BuildStatus(StrEnum):
    """What a build of the game may do: all, nothing without a moderator, or not even open a run."""

    ALLOW = "allow"
    PROVISIONAL = "provisional"
    BLOCKED = "blocked"


class Build(PolicySection):
    """A build of the game. `simulator` is the file that plays its recordings again, relative to the policy file.

    `files` are further files and folders that it needs, besides those of `replay.files`.
    """

    simulator: str | None = None
    files: Annotated[tuple[FilePath, ...], Field(max_length=32, strict=False)] = ()
    tells_divergence: bool = False
    status: Annotated[BuildStatus, Field(strict=False)] = BuildStatus.ALLOW


class Budget(PolicySection):
    """What one re-simulation may cost. Past any of these it is `inconclusive`."""

    fuel: Annotated[int, Field(ge=1_000, le=10**13)] = 20_000_000_000
    memory_mib: Annotated[int, Field(ge=1, le=1024)] = 64
    wall_ms: Annotated[int, Field(ge=10, le=600_000)] = 10_000


class AuditRules(PolicySection):
    """How many of a day's verified runs are simulated again, and when: `at`, in the board's time zone.

    A run is drawn with the chance `share`; where that gives fewer than `least`, so many are drawn.
    """

    at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "03:00"
    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.01
    least: Annotated[int, Field(ge=0, le=10_000)] = 10


def detection_probability(share: float, runs: int) -> float:
    """The chance that at least one of `runs` false runs is among those verified: 1 - (1 - share)^runs.

    Each is drawn by itself, so the chance that none is verified is a product (the binomial distribution at 0).
    """
    return 1.0 - (1.0 - share) ** runs


class Verification(PolicySection):
    """What is verified, and in which order. `top`: the first so many of a window are those worth a lie.

    What would enter it is always verified, and so is a newcomer, and what beats the player's best by more than
    `beats_best_by` points; of the rest a random `share` is. With `reveal_s` a client may send the digest of a recording
    with the score, and has so many seconds to send the recording once it is asked for.
    """

    top: Annotated[int, Field(ge=1, le=10_000)] = 100
    beats_best_by: Annotated[int, Field(ge=0, le=SCORE_LIMIT)] = 0
    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    reveal_s: Annotated[int, Field(ge=3600, le=2_592_000)] | None = None
    audit: AuditRules = AuditRules()


class Replay(PolicySection):
    """How a recording is re-simulated, by the simulator of the run's build."""

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
        """Runs after which a process is replaced.

        Unless the board says otherwise, a native program plays one: a recording may take over such code, which would
        then answer for the runs that come after it. To Python a recording is data.
        """
        return self.runs_per_process or (WARM_RUNS if self.simulator is SimulatorKind.PLUGIN else 1)

    @model_validator(mode="after")
    def _simulator_that_can_play_it(self) -> Self:
        if self.recording is RecordingKind.RAW and self.simulator is SimulatorKind.WASM:
            raise ValueError(
                "`recording: raw` needs `simulator: process` or `plugin`: a module takes input words"
            )
        if len(set(self.stats)) < len(self.stats):
            raise ValueError("`stats` names a statistic twice: each of the simulator's has a name of its own")
        if self.runs_per_process and self.simulator is SimulatorKind.WASM:
            raise SettingRefused(
                "it is for `simulator: process` or `plugin`: a module has an instance of its own for each run",
                "runs_per_process",
            )
        return self

    def refuse_unreachable(self, name: str, build: Build) -> None:
        """Raises SettingRefused if the build's simulator could not read its files, or not tell one from the other."""
        where = ("builds", name, "files") if build.files else ("replay", "files")
        files = (*self.files, *build.files)
        if files and self.simulator is not SimulatorKind.PROCESS:
            raise SettingRefused("`files` need `simulator: process`: modules and plug-ins read none", *where)
        if nameless := [each for each in files if PurePath(each).name in {"", ".."}]:
            raise SettingRefused(f"{nameless[0]!r} has no name, which is all that the program sees", *where)
        if len({PurePath(each).name for each in files}) < len(files):
            told = "two `files` of a build have the same name, which is all that the program sees"
            raise SettingRefused(told, *where)
