"""`scoregate board archive` and `export`: final ranks by hand, and as a file."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.ledger import queries
from gateway.ledger.archive.reading import ArchivedEntry
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.wiring import load_policies, open_ledger
from policies.choices import WindowKind
from policies.errors import ArchiveRefused
from policies.vocabulary import Reason, State
from policies.windows import window_at
from scoregate.cli import app
from scoregate.commands import archives
from tests.support import boards
from tests.support.archives import DAY_S
from tests.support.ledger import new_submission


class NoIndex:
    """Stands for an index that shows everything."""

    async def project(self, _board, _changes: object) -> None:
        pass


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment on whose yesterday three players stand, and on whose today one does."""
    boards.write_board(tmp_path / "policies", windows=["alltime", "daily"])
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(tmp_path / "policies"))
    asyncio.run(_filled(Settings(data_dir=tmp_path / "data", policies_dir=tmp_path / "policies")))
    return tmp_path / "data"


async def _filled(settings: Settings) -> None:
    async with open_ledger(settings) as ledger:
        await ledger.write(queries.add_player("p1", '=1+"1"', now_ms=1))
        for number in range(3):
            await _score(settings, ledger, f"p{number}", number, wall_clock() - DAY_S * 1000)
        await _score(settings, ledger, "now", 1, wall_clock())


async def _score(settings: Settings, ledger: Ledger, player: str, score: int, at_ms: int) -> None:
    await ledger.append(new_submission(f"s-{player}", player=player, score=score, at_ms=at_ms))
    decision = Decision(f"s-{player}", State.PROMOTED, "test", Reason.VERIFIED, at_ms, frozenset(State))
    await settle(ledger, NoIndex(), load_policies(settings)["tiny"], [decision])


def day(data_dir: Path, ago_s: int = DAY_S) -> str:
    policies_dir = data_dir.parent / "policies"
    policy = load_policies(Settings(data_dir=data_dir, policies_dir=policies_dir))["tiny"].policy
    return window_at(policy, WindowKind.DAILY, wall_clock() - ago_s * 1000).name


def run(*words: str, data_dir: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["board", *words, "--data-dir", str(data_dir)])
    return result.exit_code, result.output + str(result.exception or "")


def test_a_window_is_archived_by_hand_and_listed(data_dir: Path):
    """Also one with something pending in it, which the steward would wait for; what is not over is refused."""
    code, line = run("archive", "tiny", day(data_dir), data_dir=data_dir)
    name, revision, entries, frozen_at, upto = line.splitlines()[1].split()
    assert (0, day(data_dir), "1", "3", "8") == (code, name, revision, entries, upto)
    assert frozen_at <= rfc3339(wall_clock())
    assert (0, line) == run("archive", "tiny", data_dir=data_dir)
    with closing(sqlite3.connect(data_dir / "ledger.sqlite3")) as ledger, ledger:
        ledger.execute("UPDATE archived_windows SET stage = 'forgotten'")
    code, head = run("archive", "tiny", data_dir=data_dir)
    assert (0, 1) == (code, len(head.splitlines())), "what cannot be read is not listed"
    code, said = run("archive", "tiny", day(data_dir, 0), data_dir=data_dir)
    assert code
    assert f"{day(data_dir, 0)} is not over yet" in said
    code, said = run("archive", "nothing", data_dir=data_dir)
    assert code
    assert "no policy for nothing" in said


def test_an_archived_window_is_exported(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As CSV, in which no name is a formula, and as a JSON object a line; every page of it once."""
    monkeypatch.setattr(archives, "PAGE", 2)
    run("archive", "tiny", day(data_dir), data_dir=data_dir)
    code, text = run("export", "tiny", day(data_dir), data_dir=data_dir)
    entries = list(csv.DictReader(io.StringIO(text)))
    assert (0, ["p2", "p1", "p0"]) == (code, [entry["player"] for entry in entries])
    assert ("2", "2", "2", "1", "s-p1", '\'=1+"1"') == tuple(
        entries[1][name] for name in ("rank", "sparse_rank", "dense_rank", "score", "submission", "name")
    )
    file = tmp_path / "final.ndjson"
    code, said = run(
        "export", "tiny", day(data_dir), "--format", "ndjson", "--output", str(file), data_dir=data_dir
    )
    assert (0, f"{file}: 3 entries\n") == (code, said)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(1, "p2", 2), (2, "p1", 1), (3, "p0", 0)] == [(e["rank"], e["player"], e["score"]) for e in lines]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("a=1", "a=1"),
        ("'=1", "'=1"),
    ],
)
def test_no_name_is_a_formula_to_a_spreadsheet(name: str, cell: str):
    """Whatever a player chose: an apostrophe makes a text of it. Programs that read JSON get it as it is."""
    entry = ArchivedEntry(1, 1, 1, "ada", name, 5, 0, "run-1", -5, "x")
    [row], [line] = (list(archives._lines([entry], form)) for form in archives.Format)
    assert ["1", "1", "1", "ada", cell, "5"] == next(csv.reader([row]))[:6]
    assert name == json.loads(line)["name"]


def test_an_export_that_fails_leaves_the_older_one(data_dir: Path, tmp_path: Path):
    """And nothing beside it."""
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "final.csv"
    file.write_text("older")
    assert run("export", "tiny", day(data_dir), "--output", str(file), data_dir=data_dir)[0]
    assert ("older", [file]) == (file.read_text(), [*file.parent.iterdir()])


def test_what_is_not_archived_is_not_exported(data_dir: Path):
    """Nor in a form that there is not."""
    code, said = run("export", "tiny", day(data_dir), data_dir=data_dir)
    assert code
    assert "the archive has no window" in said
    code, said = run("export", "tiny", day(data_dir), "--format", "xml", data_dir=data_dir)
    assert (2, True) == (code, "--format: expected csv, ndjson" in said)


def test_an_export_is_of_one_revision_or_none(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """A decision that changes the window between two pages ends it, with a word on what to do."""
    monkeypatch.setattr(archives, "PAGE", 2)
    assert 0 == run("archive", "tiny", day(data_dir), data_dir=data_dir)[0]

    class Meanwhile(io.StringIO):
        def writelines(self, lines: Iterable[str]) -> None:
            super().writelines(lines)
            with closing(sqlite3.connect(data_dir / "ledger.sqlite3")) as ledger, ledger:
                ledger.execute("UPDATE archived_windows SET revision = revision + 1")

    settings = Settings(data_dir=data_dir, policies_dir=data_dir.parent / "policies")
    with pytest.raises(ArchiveRefused, match="got a new revision meanwhile; export it again"):
        asyncio.run(archives.export(settings, "tiny", day(data_dir), archives.Format.CSV, Meanwhile()))


def test_an_export_replaces_neither_a_pipe_nor_a_link(data_dir: Path, tmp_path: Path):
    """Nor /dev/stdout, which is one; what a link names has the entries."""
    run("archive", "tiny", day(data_dir), data_dir=data_dir)
    link, file = tmp_path / "latest.csv", tmp_path / "final.csv"
    link.symlink_to(file)
    file.write_text("older")
    assert 0 == run("export", "tiny", day(data_dir), "--output", str(link), data_dir=data_dir)[0]
    assert (True, 4) == (link.is_symlink(), len(file.read_text().splitlines()))
    reading, writing = os.pipe()
    try:
        pipe = f"/dev/fd/{writing}"
        assert 0 == run("export", "tiny", day(data_dir), "--output", pipe, data_dir=data_dir)[0]
        assert file.read_bytes() == os.read(reading, 10_000)
    finally:
        os.close(reading)
        os.close(writing)
