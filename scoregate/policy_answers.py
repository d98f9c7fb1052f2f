"""Collects the answers for a new policy file: from options, from questions, or from defaults."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from policies.choices import WindowKind, Writes
from policies.errors import SettingsError
from policies.family_policy import OpenedBy, refuse_pattern
from policies.fields import SortOrder
from policies.seeds import SeedOf
from policies.vocabulary import SCORE_LIMIT

T = TypeVar("T")

TITLE_LENGTH: Final = 80
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")
_BUILD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_WINDOWS: Final = tuple(kind.value for kind in WindowKind if kind is not WindowKind.SEASON)


@dataclass(frozen=True, slots=True)
class NewReplay:
    """The simulator, build and ticks of a new board whose runs are played again."""

    simulator: Path
    build: str
    maximum_ticks: int
    ticks_per_second: int
    buttons: int


@dataclass(frozen=True, slots=True)
class NewFamily:
    """What a new file says of a family besides the settings of its boards. `names` is a pattern or empty."""

    opened_by: OpenedBy
    names: str
    seed: SeedOf


@dataclass(frozen=True, slots=True)
class NewPolicy:
    """A board or family that needs a policy file. `maximum` is None if its scores have no bounds."""

    name: str
    title: str
    writes: Writes
    order: SortOrder
    minimum: int
    maximum: int | None
    windows: tuple[str, ...]
    replay: NewReplay | None
    family: NewFamily | None = None


class Questionnaire:
    """Answers by the names of their options. It asks for missing ones if `is_asking`."""

    def __init__(self, options: dict[str, Any], *, is_asking: bool) -> None:
        self._options = options
        self._is_asking = is_asking

    def has(self, option: str) -> bool:
        """Return whether the option was given."""
        return self._options.get(option) is not None

    def answer(self, option: str, question: str, read: Callable[[str], T], default: str | None = None) -> T:
        """Return the answer, as `read` reads it. Raises SettingsError for a wrong or missing option."""
        value = self._options.get(option)
        if value is None and self._is_asking:
            answer: T = typer.prompt(question, default=default, value_proc=_asking_again(read), err=True)
            return answer
        text = default if value is None else str(value)
        if text is None:
            raise SettingsError(f"--{option} is needed: {question}")
        try:
            return read(text)
        except ValueError as error:
            raise SettingsError(f"--{option}: {error}") from None


def _asking_again(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return `read` with errors that make typer ask again."""

    def reading(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return reading


def new_policy(questions: Questionnaire, file: Path) -> NewPolicy:
    """Return the board or family that the answers describe. Raises SettingsError."""
    if questions.has("board") and questions.has("family"):
        raise SettingsError("--board and --family: a file describes one of them")
    suggested = file.stem if _NAME.fullmatch(file.stem) else None
    is_family = questions.has("family")
    if is_family:
        board = questions.answer("family", "Name of the family", board_name)
    else:
        board = questions.answer("board", "Name of the board, in URLs and keys", board_name, suggested)
    title = questions.answer("title", "Title for readers", title_of, board.replace("-", " ").title())
    likely = Writes.VERIFIED if questions.has("simulator") else Writes.OPEN
    writes = questions.answer(
        "writes",
        "Who writes: players whose runs are replayed (verified), players through a moderator (open), "
        "or game servers (trusted)",
        writes_of,
        likely.value,
    )
    order = questions.answer("order", "Better scores, higher or lower", order_of, "higher")
    minimum, maximum = _bounds(questions, writes)
    windows = questions.answer("windows", f"Windows, of {', '.join(_WINDOWS)}", windows_of, "alltime")
    replay = _replay(questions, board) if writes is Writes.VERIFIED else None
    family = _family(questions, writes) if is_family else None
    return NewPolicy(board, title, writes, order, minimum, maximum, windows, replay, family)


def _family(questions: Questionnaire, writes: Writes) -> NewFamily:
    opened_by = questions.answer(
        "opened-by",
        "Who opens its boards: game servers (servers), the first run of a player (players), or both",
        opened_by_of,
        OpenedBy.SERVERS.value,
    )
    names = questions.answer(
        "names",
        "Pattern for their names after the dot, such as [a-z]{1,20}",
        pattern_of if opened_by is OpenedBy.SERVERS else real_pattern_of,
        "" if opened_by is OpenedBy.SERVERS else None,
    )
    if writes is Writes.TRUSTED:
        return NewFamily(opened_by, names, SeedOf.RUN)
    seed = questions.answer(
        "seed",
        "Whose is the seed: each run's own (run), or one for a board, so that all play one course (board)",
        seed_of,
        SeedOf.RUN.value,
    )
    return NewFamily(opened_by, names, seed)


def _bounds(questions: Questionnaire, writes: Writes) -> tuple[int, int | None]:
    """Return the lowest and the highest score. A board of game servers may go without."""
    if writes is Writes.TRUSTED:
        maximum = questions.answer("maximum", "Highest score there can be, or `any`", maximum_of, "any")
    else:
        maximum = questions.answer(
            "maximum", "Highest score there can be", whole_number(-SCORE_LIMIT + 1, SCORE_LIMIT)
        )
    if maximum is None:
        return -SCORE_LIMIT, None
    lowest = "0" if maximum > 0 else None
    return questions.answer(
        "minimum", "Lowest score there can be", whole_number(-SCORE_LIMIT, maximum - 1), lowest
    ), maximum


def _replay(questions: Questionnaire, board: str) -> NewReplay:
    return NewReplay(
        questions.answer("simulator", "File of the simulator (.wasm, .py, or a program)", file_of),
        questions.answer("build", "Name of the game's build", build_name, f"{board[:30]}-1"),
        questions.answer("maximum-ticks", "Ticks of the longest run", whole_number(1, 10_000_000)),
        questions.answer("ticks-per-second", "Ticks of a second of play", whole_number(1, 1000), "60"),
        questions.answer(
            "buttons",
            "Buttons of the game: the number of lowest bits of an input that are buttons",
            whole_number(0, 32),
            "0",
        ),
    )


def board_name(text: str) -> str:
    """Read a board's name. Raises ValueError, like all readers below."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"expected small letters, digits and -, up to 48, a letter first; got {text!r}")
    return text


def build_name(text: str) -> str:
    """Read a build's name."""
    if not _BUILD.fullmatch(text):
        raise ValueError(f"expected letters, digits, dots, - and _, up to 32; got {text!r}")
    return text


def title_of(text: str) -> str:
    """Read a title."""
    if not 0 < len(text) <= TITLE_LENGTH or not text.isprintable():
        raise ValueError(f"expected 1 to {TITLE_LENGTH} characters that can be printed")
    return text


def opened_by_of(text: str) -> OpenedBy:
    """Read who opens the boards of a family."""
    if text not in set(OpenedBy):
        raise ValueError(f"expected {', '.join(OpenedBy)}; got {text!r}")
    return OpenedBy(text)


def pattern_of(text: str) -> str:
    """Read a pattern for names; empty for any name."""
    if text:
        refuse_pattern(text)
    return text


def real_pattern_of(text: str) -> str:
    """Read a pattern for names that are known to be real, which has to be given."""
    if not text:
        raise ValueError("players may only open boards whose names the policy knows to be real")
    return pattern_of(text)


def seed_of(text: str) -> SeedOf:
    """Read what has a seed of its own."""
    if text not in set(SeedOf):
        raise ValueError(f"expected {', '.join(SeedOf)}; got {text!r}")
    return SeedOf(text)


def writes_of(text: str) -> Writes:
    """Read who writes."""
    if text not in set(Writes):
        raise ValueError(f"expected {', '.join(Writes)}; got {text!r}")
    return Writes(text)


def order_of(text: str) -> SortOrder:
    """Read which scores are first: `higher` or `lower`."""
    orders = {"higher": SortOrder.DESCENDING, "lower": SortOrder.ASCENDING}
    if text not in orders:
        raise ValueError(f"expected higher or lower; got {text!r}")
    return orders[text]


def windows_of(text: str) -> tuple[str, ...]:
    """Read kinds of windows, each once."""
    kinds = tuple(dict.fromkeys(kind.strip() for kind in text.split(",") if kind.strip()))
    if not kinds or set(kinds) - set(_WINDOWS):
        raise ValueError(f"expected some of {', '.join(_WINDOWS)}, with commas; got {text!r}")
    return kinds


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,16}", text) or not least <= int(text) <= most:
            raise ValueError(f"expected a whole number from {least} to {most}; got {text!r}")
        return int(text)

    return read


def maximum_of(text: str) -> int | None:
    """Read a highest score; None for `any`."""
    return None if text == "any" else whole_number(-SCORE_LIMIT + 1, SCORE_LIMIT)(text)


def file_of(text: str) -> Path:
    """Read the path of an existing file."""
    if not Path(text).is_file():
        raise ValueError(f"no such file: {text}")
    return Path(text)
