"""The programs in the pages of the Python client, run as they are written, against a gateway that replays."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scoregate_client import Run, ScoregateClient, Submission

from tests.clients import buttons
from tests.clients.faulty import Canned
from tests.clients.stage import Stage, claim, running_stage

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"


ZOE_ALONE = json.dumps(
    {
        "board": "arcade",
        "window": "alltime",
        "total": 1,
        "entries": [{"rank": 1, "player": "p_zoe", "name": "Zoe", "score": 7}],
    }
).encode()


def shown(page: Path, name: str) -> str:
    """The example of that name in a page."""
    text = page.read_text("utf-8")
    [found] = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_program_of_the_readme_is_on_the_board(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the file in the folder of examples; it plays, submits, waits, and shows the board."""
    program = shown(CLIENT / "README.md", "five minutes")
    assert (CLIENT / "examples" / "five_minutes.py").read_text("utf-8") == program
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["five_minutes.py", stage.url])
    exec(compile(program, "five_minutes.py", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    ranked = re.search(r"^\d+ points are promoted, rank 1\n1\. Ada \d+$", said, re.MULTILINE)
    # for a moment, what counts is not ranked yet, as the page says
    assert ranked or re.search(r"^\d+ points are promoted, rank None$", said, re.MULTILINE), said
    assert [] == list((tmp_path / "scoregate-queue").glob("*.json"))


def test_the_program_of_the_readme_says_that_a_run_waits(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind a portal that answers for the gateway: it shows the board all the same, and nothing is lost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["five_minutes.py", stage.url])
    stage.proxy.on("/scores", Canned(403, b"<html>", {"Content-Type": "text/html"}), times=9)
    stage.proxy.on("/entries", Canned(200, ZOE_ALONE, {"Content-Type": "application/json"}))
    program = (CLIENT / "examples" / "five_minutes.py").read_text("utf-8")
    exec(compile(program, "five_minutes.py", "exec"), {"__name__": "__main__"})
    assert "kept 403 about:blank: no detail\n1. Zoe 7\n" == capsys.readouterr().out
    assert 1 == len(list((tmp_path / "scoregate-queue").glob("*.json")))


def test_the_game_with_a_loop_of_its_own_submits_beside_it(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it could not send the last time; and it is the same player then."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(shown(ROOT / "docs" / "how-to" / "clients" / "python.md", "thread"), names)
    first = names["Scores"](stage.url)
    run: Run = first.begin()
    board = first.client.open_run("tiny", "tiny-1")
    honest = claim(str(board.seed))
    first.client.submit_later(
        board, honest["score"], honest["ticks"], dict(honest["stats"]), b64decode(honest["recording"])
    )
    later = names["Scores"](stage.url)
    assert later.begin().player == run.player
    later.send().join()
    [told] = later.told
    assert told.startswith(f"{honest['score']}: promoted, rank ")


class BehindTheBoard(ScoregateClient):
    """A client whose first look at a promoted run comes before the board shows it."""

    has_looked = False

    async def submission(self, submission: str) -> Submission:
        seen = await super().submission(submission)
        if seen.state == "promoted" and not self.has_looked:
            self.has_looked = True
            return replace(seen, rank=None)
        return seen


def run_main(page: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the program with a `main` in a page, against the gateway at a URL."""
    [program] = re.findall(
        r"^```python\n((?:(?!^```).)*async def main.*?)^```",
        page.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    program = program.replace("http://localhost:8080", url).replace("max_ticks=600", "max_ticks=60")
    monkeypatch.setattr("scoregate_client.ScoregateClient", BehindTheBoard)
    exec(compile(program, page.name, "exec"), {"__name__": "__main__"})


def test_the_program_of_the_tutorial_waits_for_the_rank(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the run counts a moment before the board shows it."""
    run_main(ROOT / "docs" / "tutorial" / "first-board.md", stage.url, monkeypatch)
    said = capsys.readouterr().out
    assert re.search(r"^Ada \d+ pending$", said, re.MULTILINE), said
    assert re.search(r"^promoted None rank \d+$", said, re.MULTILINE), said


@pytest.fixture
def with_buttons(tmp_path: Path) -> Iterator[Stage]:
    """A gateway with the board of docs/how-to/put-your-game-on-it.md."""
    buttons.build_buttons(tmp_path)
    with running_stage(tmp_path) as stage:
        yield stage


def test_the_program_that_plays_a_game_of_ones_own_waits_for_the_rank(
    with_buttons: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what the page says."""
    monkeypatch.chdir(tmp_path)
    run_main(buttons.PAGE, with_buttons.url, monkeypatch)
    assert re.search(r"^\d+ promoted None rank 1$", capsys.readouterr().out, re.MULTILINE)
