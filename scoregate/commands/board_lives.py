"""`scoregate board open`, `change`, `close`, `reopen` and `delete`: the lives of boards of families."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from policies.errors import SettingsError
from scoregate.commands.common import DataDir, deployment_of, finish
from scoregate.commands.tables import AsJson, show, show_json

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings
    from scoregate.operator_boards import BoardAnswer

SHOWN: Final = 1_000
"""Most rows of a table of outcomes. Of larger files it has only what was refused; `--json` has all."""

SHOWN_CHARACTERS: Final = 200
"""Most characters that a fault repeats of an option."""

LONGEST_OBJECT: Final = 2**24
"""Most bytes of a file with parameters or metadata."""

NONE: Final = "none"
"""The word that takes a value away."""

Title = Annotated[str | None, typer.Option(help="Its title for readers.")]
Metadata = Annotated[
    str | None, typer.Option(help="A JSON object for readers, or the path of a file with one.")
]
Bounds = Annotated[
    str | None, typer.Option(help="Narrower bounds, as a JSON object or the path of a file with one.")
]
OpensAt = Annotated[str | None, typer.Option(help="When runs may first be opened, as 2026-11-22T00:00:00Z.")]
ClosesAt = Annotated[str | None, typer.Option(help="When runs may no longer be opened.")]
Names = Annotated[list[str], typer.Argument(metavar="BOARDS", help="Boards by name.")]
Reason = Annotated[str, typer.Option("--reason", help="The reason, in a sentence, which the ledger keeps.")]


def board_open(
    board: Annotated[str | None, typer.Argument(help="The board's name, such as track.monza.")] = None,
    title: Title = None,
    metadata: Metadata = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            help="A JSON object for the simulator, or the path of a file with one. It never changes."
        ),
    ] = None,
    asset: Annotated[
        str | None,
        typer.Option(help="A file for the simulator, or the sha256: of a stored one. It never changes."),
    ] = None,
    bounds: Bounds = None,
    opens_at: OpensAt = None,
    closes_at: ClosesAt = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", help="Open the boards of a file: .csv with a head, .json or .jsonl."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Open a board of a family, or all boards of a file. Boards that are open so already stay as they are."""
    given = {"title": title, "asset": asset, "opens_at": opens_at, "closes_at": closes_at}
    objects = {"metadata": metadata, "parameters": parameters, "bounds": bounds}
    given |= {name: _object(name, text) for name, text in objects.items()}
    fields = {name: value for name, value in given.items() if value is not None}
    if (board is None) == (file is None) or (file and fields):
        raise SettingsError("name a board and say what it has, or give a file of boards with --from")
    settings = deployment_of(data_dir, is_writing=True)
    if file is not None:
        finish(_open_file(settings, file, as_json=as_json))
    else:
        finish(_perform(settings, [{"action": "open", "board": board, **fields}], as_json=as_json))


def board_change(
    board: Annotated[str, typer.Argument(help="The board's name.")],
    title: Title = None,
    metadata: Metadata = None,
    bounds: Bounds = None,
    opens_at: OpensAt = None,
    closes_at: ClosesAt = None,
    version: Annotated[
        int | None,
        typer.Option(help="Change it only if this is its version still; by default whatever it is."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Change what is given of a board. `none` takes metadata, bounds or a time away."""
    given = {"metadata": metadata, "bounds": bounds, "opens_at": opens_at, "closes_at": closes_at}
    changes: dict[str, Any] = {}
    for name, text in given.items():
        if text is not None:
            is_time = name.endswith("_at")
            changes[name] = None if text == NONE else text if is_time else _object(name, text)
    if title is not None:
        changes["title"] = title
    if not changes:
        raise SettingsError("say what to change: --title, --metadata, --bounds, --opens-at or --closes-at")
    item = {"action": "change", "board": board, **changes, "version": version}
    finish(_perform(deployment_of(data_dir, is_writing=True), [item], as_json=as_json))


def board_close(
    boards: Names, reason: Reason = "", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Close boards: they take no new runs, and runs under way still count."""
    _turn("close", boards, reason, data_dir, as_json=as_json)


def board_reopen(
    boards: Names, reason: Reason = "", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Open closed boards again."""
    _turn("reopen", boards, reason, data_dir, as_json=as_json)


def board_delete(boards: Names, reason: Reason, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Delete boards for good: nobody reads or plays them any more, and only the ledger keeps them."""
    _turn("delete", boards, reason, data_dir, as_json=as_json)


def _turn(action: str, boards: Sequence[str], reason: str, data_dir: Path | None, *, as_json: bool) -> None:
    items = [{"action": action, "board": board, "reason": reason} for board in boards]
    finish(_perform(deployment_of(data_dir, is_writing=True), items, as_json=as_json))


async def _open_file(settings: Settings, file: Path, *, as_json: bool) -> None:
    from policies.loader import load_policies
    from scoregate.board_files import boards_in

    families = load_policies(settings.policies_dir).families
    await _perform(settings, boards_in(file, families), as_json=as_json, folder=file.parent)


async def _perform(
    settings: Settings, items: Iterable[Mapping[str, Any]], *, as_json: bool, folder: Path = Path()
) -> None:
    """Perform operations and print what became of each. Exits with status 1 if one was refused."""
    from scoregate.operator_boards import open_operator

    table = _Outcomes(as_json=as_json)
    try:
        async with open_operator(settings) as operator:
            async for answers in operator.perform_all(items, folder):
                table.take(answers)
    finally:
        table.end()  # batches before a fault in the file stay done
    if table.has_refused:
        raise typer.Exit(1)


class _Outcomes:
    """The outcomes of operations: printed at once as JSON, or kept for a table of bounded size."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._counts: dict[str, int] = {}
        self._rows: list[BoardAnswer] = []

    def take(self, answers: Sequence[BoardAnswer]) -> None:
        """Count the outcomes of a batch, and show or keep them."""
        if self._as_json:
            show_json(map(_facts, answers))
        is_first = not self._counts
        for answer in answers:
            self._counts[answer.outcome] = self._counts.get(answer.outcome, 0) + 1
        if not is_first:
            self._rows = [answer for answer in self._rows if not answer.is_done]
        self._rows += [answer for answer in answers if is_first or not answer.is_done]
        del self._rows[SHOWN:]

    def end(self) -> None:
        """Print the table and the counts."""
        if self._as_json:
            return
        if self._rows:
            show(map(_facts, self._rows), ("board", "outcome", "version", "detail"), as_json=False)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self._counts.items())
        if sum(self._counts.values()) > 1:
            typer.echo(counts)

    @property
    def has_refused(self) -> bool:
        """Return whether an operation was refused."""
        return bool(self._counts.get("refused"))


def _facts(answer: BoardAnswer) -> Mapping[str, object]:
    return {
        "board": answer.board,
        "outcome": answer.outcome,
        "version": answer.version,
        "detail": answer.detail,
    }


def _object(name: str, text: str | None) -> Any:
    """Return the JSON that an option has or that is in the file it names. Raises SettingsError."""
    import json

    from policies.bounded_files import bytes_of

    if text is None:
        return None
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text)
        return json.loads(bytes_of(Path(text), LONGEST_OBJECT))
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
        raise SettingsError(f"--{name}: {shown}: not a JSON object: {error}") from None
