"""Rows of another leaderboard come onto a board once, in their order, however often an import is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from gateway.edge.wire.bodies import BATCH_LIMIT
from policies.errors import SettingsError
from scoregate.commands.imports import import_scores
from scoregate.imports import imported_rows
from scoregate.imports.csv_rows import Columns, scores_of_csv
from scoregate.imports.imported_rows import Checkpoint, Row, check_rows, import_rows, rows_of
from tests.support.durability import SureDisk
from tests.support.harness import Harness
from tests.support.importing import import_into, key_of, listed


def rows(text: str, at: str | None = None, board: str = "b") -> list[Row]:
    with NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(text)
        file.flush()
        return list(rows_of(scores_of_csv(Path(file.name), Columns("who", "points", at)), board))


def test_an_import_that_was_cut_off_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may have been written already is sent again under the same operation ids; refusals name the row."""
    monkeypatch.setattr(imported_rows, "BATCH", 2)
    listed, sent = rows("who,points\n" + "".join(f"p{n},{n}\n" for n in range(5))), []

    def write_each(batch: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        sent.append([row["operation"] for row in batch])
        if len(sent) == 2:
            raise ConnectionError
        return [
            {"status": "refused", "problem": {"detail": "too high"}}
            if row["score"] == 4
            else {"status": "done"}
            for row in batch
        ]

    files = (Checkpoint(tmp_path / "checkpoint", ["here", b"rows"]), tmp_path / "refusals")
    with pytest.raises(ConnectionError):
        import_rows(listed, write_each, *files, lambda _: None)
    assert (4, 1) == import_rows(listed, write_each, *files, lambda _: None)
    assert sent[1] == sent[2]
    assert (4, 1) == import_rows(listed, write_each, *files, lambda _: None)
    with pytest.raises(SettingsError, match="of another file, gateway"):
        Checkpoint(tmp_path / "checkpoint", ["there", b"rows"]).load()
    assert '{"row": 5, "place": "line 6", "player": "p4", "reason": "too high"}\n' == files[1].read_text()


def test_no_refusal_is_lost_that_a_checkpoint_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the import goes on behind these rows: their refusals are on the disk before it says so."""
    monkeypatch.setattr(imported_rows, "BATCH", 2)
    disk, kept = SureDisk(monkeypatch), list[int]()
    refusals, checkpoint = tmp_path / "refusals", Checkpoint(tmp_path / "checkpoint", [b"rows"])

    def keep(done: int, said: int) -> None:
        assert [] == [each for each in disk.unsure(tmp_path) if each.endswith("refusals")]
        assert said == refusals.stat().st_size
        kept.append(done)

    monkeypatch.setattr(checkpoint, "keep", keep)
    refused = {"status": "refused", "problem": {"detail": "too high"}}
    listed = rows("who,points\n" + "".join(f"p{n},{n}\n" for n in range(5)))
    assert (0, 5) == import_rows(
        listed, lambda batch: [refused] * len(batch), checkpoint, refusals, lambda _: None
    )
    assert [2, 4, 5] == kept


def test_a_checkpoint_is_whole_before_it_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves this one or the one before, and what a killed import left of one is in nobody's way."""
    disk, checkpoint = SureDisk(monkeypatch), Checkpoint(tmp_path / "checkpoint", [b"rows"])
    (tmp_path / "checkpoint.unready").write_text("half of")
    checkpoint.keep(7, 3)
    assert ["checkpoint"] == [path.name for path in tmp_path.iterdir()]
    assert [] == [each for each in disk.unsure(tmp_path) if each.startswith("the content")]
    assert (7, 3) == checkpoint.load()


def test_a_dry_run_sends_no_more_at_once_than_the_gateway_takes() -> None:
    """Its operation that is always refused is one of them; each row has its number and its own reason."""
    listed = rows("who,points\n" + "".join(f"p{n},{n}\n" for n in range(2 * BATCH_LIMIT + 1)))
    asked: list[int] = []

    def errors_of(batch: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        asked.append(len(batch))
        wrong = [at for at, row in enumerate(batch) if row["player"] in {"p3", f"p{BATCH_LIMIT}"}]
        return [{"index": at, "detail": "too high"} for at in (*wrong, len(batch) - 1)]

    checked = list(check_rows(listed, errors_of))
    assert max(asked) <= BATCH_LIMIT
    assert [*range(1, len(listed) + 1)] == [number for number, _, _ in checked]
    assert [("p3", "too high"), (f"p{BATCH_LIMIT}", "too high")] == [
        (row.player, reason) for _, row, reason in checked if reason
    ]


def test_rows_keep_their_times_or_their_order() -> None:
    """Equal scores rank as they did: by the column of times, or one millisecond after the other."""
    assert ["2019-05-01T00:00:00Z"] == [
        row.write["achieved_at"] for row in rows("who,points,at\na,1,2019-05-01T00:00:00Z\n", "at")
    ]
    first, second = rows("who,points\na,1\nb,1\n")
    assert first.write["achieved_at"] < second.write["achieved_at"]
    with pytest.raises(SettingsError, match="points"):
        rows("who\na\n")


def test_a_row_is_another_operation_on_another_board() -> None:
    """One file can be imported onto several boards: a server's operation is of one board for ever."""
    here, there = (rows("who,points\na,1\n", board=board)[0].write for board in ("here", "there"))
    assert here["operation"] != there["operation"]
    assert here | {"operation": ""} == there | {"operation": ""}


async def test_the_command_brings_a_file_onto_a_board_once(harness: Harness, tmp_path: Path) -> None:
    """Ties rank as in the file; a bad row is refused by itself; a second run from the start changes nothing."""
    key, source = await key_of(harness, tmp_path), tmp_path / "scores.csv"
    source.write_text("player,score\nzoe,70\nada,70\nbob,many\neve,90\n")
    for _ in range(2):
        assert 1 == await import_into(harness, source, key)
        (tmp_path / "scores.csv.arcade.imported").unlink()

    assert 3 == await harness.rows()
    listed = (await harness.get("/v1/boards/arcade/entries")).body["entries"]
    assert [("eve", 1), ("zoe", 2), ("ada", 3)] == [(each["player"], each["rank"]) for each in listed]
    assert (
        '"row": 3, "place": "line 4", "player": "bob"' in (tmp_path / "scores.csv.arcade.refused").read_text()
    )


async def test_an_import_goes_on_however_its_address_ends(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slash at the end makes no other gateway: what is done is known, and is not done again."""
    key, source = await key_of(harness, tmp_path), tmp_path / "scores.csv"
    source.write_text("player,score\nzoe,70\n")
    assert 0 == await import_into(harness, source, key)
    await asyncio.to_thread(import_scores, str(source), "arcade", f"{harness.url}/", key, "eu-1")
    assert "goes on after row 1" in " ".join(capsys.readouterr().err.split())
    assert [("zoe", 70)] == await listed(harness)
