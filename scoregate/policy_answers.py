"""The answers that a new policy file is made of: given as options, asked for, or taken as their defaults."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from policies.errors import SettingsError
from policies.fields import SortOrder
from policies.model import WindowKind, Writes
from policies.vocabulary import SCORE_LIMIT

T = TypeVar("T")

TITLE_LENGTH: Final = 80
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")
_BUILD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_WINDOWS: Final = tuple(each.value for each in WindowKind if each is not WindowKind.SEASON)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a new board's runs are played again."""

    simulator: Path
    build: str
    maximum_ticks: int
    ticks_per_second: int
    buttons: int


@dataclass(frozen=True, slots=True)
class NewBoard:
    """A board that is to have a policy file. `maximum` is None where a score is whatever fits."""

    board: str
    title: str
    writes: Writes
    order: SortOrder
    minimum: int
    maximum: int | None
    windows: tuple[str, ...]
    replay: Replayed | None


class Answers:
    """Each answer by the name of its option; one that was not given is asked for, unless `is_asking` is false."""

    def __init__(self, given: dict[str, Any], *, is_asking: bool) -> None:
        self._given = given
        self._is_asking = is_asking

    def has(self, option: str) -> bool:
        """Whether an answer was given."""
        return self._given.get(option) is not None

    def of(self, option: str, question: str, read: Callable[[str], T], default: str | None = None) -> T:
        """The answer to one question, read. Raises SettingsError for a wrong option, or one that is needed."""
        given = self._given.get(option)
        if given is None and self._is_asking:
            answer: T = typer.prompt(question, default=default, value_proc=_asked_again(read), err=True)
            return answer
        text = default if given is None else str(given)
        if text is None:
            raise SettingsError(f"--{option} is needed: {question}")
        try:
            return read(text)
        except ValueError as error:
            raise SettingsError(f"--{option}: {error}") from None


def _asked_again(read: Callable[[str], T]) -> Callable[[str], T]:
    def reading(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return reading


def new_board(answers: Answers, file: Path) -> NewBoard:
    """The board that the answers describe. Raises SettingsError."""
    named = file.stem if _NAME.fullmatch(file.stem) else None
    board = answers.of("board", "Name of the board, in URLs and keys", board_name, named)
    title = answers.of("title", "Title for readers", title_of, board.replace("-", " ").title())
    likely = Writes.VERIFIED if answers.has("simulator") else Writes.OPEN
    writes = answers.of(
        "writes",
        "Who writes: players whose runs are replayed (verified), players through a moderator (open), or game servers (trusted)",
        writes_of,
        likely.value,
    )
    order = answers.of("order", "Which scores are better, higher or lower ones", order_of, "higher")
    minimum, maximum = _bounds(answers, writes)
    windows = answers.of("windows", f"Windows, of {', '.join(_WINDOWS)}", windows_of, "alltime")
    replay = _replay(answers, board) if writes is Writes.VERIFIED else None
    return NewBoard(board, title, writes, order, minimum, maximum, windows, replay)


def _bounds(answers: Answers, writes: Writes) -> tuple[int, int | None]:
    """Lowest and highest score; servers need to know neither."""
    if writes is Writes.TRUSTED:
        maximum = answers.of("maximum", "Highest score there can be, or `any`", maximum_of, "any")
    else:
        maximum = answers.of(
            "maximum", "Highest score there can be", whole_number(-SCORE_LIMIT + 1, SCORE_LIMIT)
        )
    if maximum is None:
        return -SCORE_LIMIT, None
    lowest = "0" if maximum > 0 else None
    return answers.of(
        "minimum", "Lowest score there can be", whole_number(-SCORE_LIMIT, maximum - 1), lowest
    ), maximum


def _replay(answers: Answers, board: str) -> Replayed:
    return Replayed(
        answers.of("simulator", "File of the simulator (.wasm, .py, or a program)", file_of),
        answers.of("build", "Name of the game's build", build_name, f"{board[:30]}-1"),
        answers.of("maximum-ticks", "Ticks of the longest run", whole_number(1, 10_000_000)),
        answers.of("ticks-per-second", "Ticks of a second of play", whole_number(1, 1000), "60"),
        answers.of(
            "buttons",
            "Buttons of the game: how many of the lowest bits of an input",
            whole_number(0, 32),
            "0",
        ),
    )


def board_name(text: str) -> str:
    """A board's name. Raises ValueError, as each of these."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"expected small letters, digits and -, up to 48, a letter first; got {text!r}")
    return text


def build_name(text: str) -> str:
    """A build's name."""
    if not _BUILD.fullmatch(text):
        raise ValueError(f"expected letters, digits, dots, - and _, up to 32; got {text!r}")
    return text


def title_of(text: str) -> str:
    """A title that fits."""
    if not 0 < len(text) <= TITLE_LENGTH or not text.isprintable():
        raise ValueError(f"expected 1 to {TITLE_LENGTH} characters that can be printed")
    return text


def writes_of(text: str) -> Writes:
    """Who writes."""
    if text not in set(Writes):
        raise ValueError(f"expected {', '.join(Writes)}; got {text!r}")
    return Writes(text)


def order_of(text: str) -> SortOrder:
    """Which scores are first: `higher` or `lower`."""
    orders = {"higher": SortOrder.DESCENDING, "lower": SortOrder.ASCENDING}
    if text not in orders:
        raise ValueError(f"expected higher or lower; got {text!r}")
    return orders[text]


def windows_of(text: str) -> tuple[str, ...]:
    """Kinds of windows, each once."""
    named = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not named or set(named) - set(_WINDOWS):
        raise ValueError(f"expected some of {', '.join(_WINDOWS)}, with commas; got {text!r}")
    return named


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A reader of whole numbers in a range."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,16}", text) or not least <= int(text) <= most:
            raise ValueError(f"expected a whole number from {least} to {most}; got {text!r}")
        return int(text)

    return read


def maximum_of(text: str) -> int | None:
    """A highest score; None for `any`."""
    return None if text == "any" else whole_number(-SCORE_LIMIT + 1, SCORE_LIMIT)(text)


def file_of(text: str) -> Path:
    """A file that is there."""
    if not Path(text).is_file():
        raise ValueError(f"there is no such file: {text}")
    return Path(text)
