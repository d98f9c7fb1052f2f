"""Files as other programs write them are read; what is none is named by its line, and costs no memory."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from policies.errors import SettingsError
from scoregate.commands.imports import ImportFormat
from scoregate.imports import csv_rows, json_records
from scoregate.imports.csv_rows import Columns, scores_of_csv
from scoregate.imports.imported_rows import Checkpoint, import_rows, rows_of
from scoregate.imports.imported_score import ImportedScore
from scoregate.imports.nakama import scores_of_nakama
from scoregate.imports.steam import scores_of_steam
from tests.support.harness import Harness
from tests.support.importing import import_into, key_of, listed

ROWS = "player,score\nada,1200\neve,900\n"
PAGE = '{"leaderboardEntryInformation": {"leaderboardEntries": [%s]}}'
ENTRY = '{"steamID": "ada", "score": 1200, "rank": 1}'


def csv_of(path: Path) -> list[ImportedScore]:
    return list(scores_of_csv(path, Columns("player", "score", None)))


def pairs(scores: list[ImportedScore]) -> list[tuple[str, object]]:
    return [(each.player, each.score) for each in scores]


READABLE = {
    "plain": ROWS.encode(),
    "a mark": codecs.BOM_UTF8 + ROWS.encode(),
    "UTF-16 of PowerShell": codecs.BOM_UTF16_LE + ROWS.encode("utf-16-le"),
    "UTF-16 of old Macs": codecs.BOM_UTF16_BE + ROWS.encode("utf-16-be"),
    "UTF-32": codecs.BOM_UTF32_LE + ROWS.encode("utf-32-le"),
    "CRLF": ROWS.replace("\n", "\r\n").encode(),
    "CR": ROWS.replace("\n", "\r").encode(),
    "no last line end": ROWS.rstrip().encode(),
    "blank lines": ROWS.replace("\n", "\n\n ,\n").encode(),
    "semicolons of a spreadsheet": ROWS.replace(",", ";").encode(),
    "tabs": ROWS.replace(",", "\t").encode(),
    "spaces": ROWS.replace(",", ", ").encode(),
    "quotes": b'"player","score","note"\r\n"ada","1200","a\r\nb, ""c"""\r\n"eve","900",""\r\n',
    "empty cells at the end": b"player,score\nada,1200,,\neve,900,\n",
    "numbers as of a data frame": b"player,score\nada,1200.0\neve,+900\n",
}


@pytest.mark.parametrize("name", READABLE)
def test_what_programs_write_is_read(name: str, tmp_path: Path) -> None:
    """Marks, encodings, line ends, delimiters and quotes change nothing of the rows."""
    (tmp_path / "scores.csv").write_bytes(READABLE[name])
    assert [("ada", 1200), ("eve", 900)] == pairs(csv_of(tmp_path / "scores.csv"))


JSON_TEXTS = {
    "a mark": codecs.BOM_UTF8 + (PAGE % ENTRY).encode(),
    "UTF-16 of PowerShell": codecs.BOM_UTF16_LE + (PAGE % ENTRY).encode("utf-16-le"),
    "a blank line, then several": b"\n" + json.dumps(json.loads(PAGE % ENTRY), indent=2).encode(),
    "CRLF": json.dumps(json.loads(PAGE % ENTRY), indent=2).replace("\n", "\r\n").encode(),
    "an empty page behind it": (PAGE % ENTRY).encode() + (PAGE % "").encode(),
    "pages over several lines": (
        json.dumps(json.loads(PAGE % ""), indent=2) + json.dumps(json.loads(PAGE % ENTRY), indent=2)
    ).encode(),
}


@pytest.mark.parametrize("name", JSON_TEXTS)
def test_pages_are_read_as_they_were_saved(name: str, tmp_path: Path) -> None:
    """On a line each, over several lines, or one directly behind the other."""
    (tmp_path / "steam.json").write_bytes(JSON_TEXTS[name])
    assert [("ada", 1200)] == pairs(list(scores_of_steam(tmp_path / "steam.json")))


UNREADABLE = {
    "empty": (b"", "is empty; expected a line with player, score"),
    "a mark alone": (codecs.BOM_UTF8, "is empty"),
    "latin-1": ("player,score\nada,1\nZoë,2\n".encode("latin-1"), "line 3: the byte 0xeb is not UTF-8"),
    "half of UTF-16": (codecs.BOM_UTF16_LE + ROWS.encode("utf-16-le")[:-1], "is not utf-16"),
    "UTF-16 without a mark": (ROWS.encode("utf-16-le"), "is not text, or UTF-16 without a mark"),
    "gzip": (gzip.compress(ROWS.encode()), "is gzip; unpack it"),
    "a workbook": (b"PK\x03\x04....", "is a ZIP archive or a workbook"),
    "JSON": (b'{"records": []}', "line 1: is JSON; --from says"),
    "no such column": (b"name,points\nada,1\n", "line 1: expected the columns player, score; .*'name, points'"),
    "a column twice": (b"player,score,score\nada,1,2\n", "line 1: the column score is there 2 times"),
    "a quote without an end": (b'player,score\nada,1\n"eve,2\nzoe,3\n', "line 3: unexpected end of data"),
    "text behind a quote": (b'player,score\nada,1\n"eve"x,2\n', "line 3: ',' expected after '\"'"),
    "a long line": (b"player,score\n" + b"a" * 5000 + b",1\n", "line 2: has more than 4096 characters"),
    "a long row": (b'player,score\n"' + b"a\n" * 3000 + b'",1\n', "line 2: has more than 4096 characters; is"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_csv_is_named_by_file_and_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of such a file is written, since all of it is read before."""
    monkeypatch.setattr(csv_rows, "LONGEST_ROW", 4096)
    data, said = UNREADABLE[name]
    (tmp_path / "scores.csv").write_bytes(data)
    with pytest.raises(SettingsError, match=f"^{tmp_path}/scores.csv: .*{said}"):
        csv_of(tmp_path / "scores.csv")


STRANGE = {
    "deep": ("[" * 100_000 + "]" * 100_000, "line 1: .*recursion"),
    "deep inside a record": (PAGE % ENTRY.replace("1200", "[" * 100_000 + "]" * 100_000), "recursion"),
    "deep, over lines": ('{"a":\n' + "[\n" * 100_000, "after line 1: .*recursion"),
    "deep enough to be read": (PAGE % ENTRY.replace('"ada"', "[" * 900 + "]" * 900), "not a list"),
    "a number of 5,000 digits": (PAGE % ENTRY.replace("1200", "9" * 5000), "line 1: .*4300 digits"),
    "no player": (PAGE % ENTRY.replace('"ada"', "null"), "line 1, record 1: expected a record with a text, not None"),
    "gzip": ("\x1f\x8b", "is gzip"),
    "words behind a page": (PAGE % ENTRY + "\n\nAn error", "line 3: is not JSON"),
    "another service's page": ('{"data": {"Rankings": []}}', "line 1, record 1: expected a record with 'rank'"),
    "a long line": (" " * 5000, "line 1: has more than 4096 characters"),
    "a page that is long": ("{\n" * 3000, "write one record on each line"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_json_that_is_none_of_the_service_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested without end, cut, of somebody else, or with a player who is nobody."""
    if "long" in name:
        monkeypatch.setattr(json_records, "LARGEST", 4096)
    text, said = STRANGE[name]
    (tmp_path / "steam.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=f"^{tmp_path}/steam.json: .*{said}"):
        list(scores_of_steam(tmp_path / "steam.json"))


def test_a_pipe_a_folder_and_a_device_are_no_files(tmp_path: Path) -> None:
    """They cannot be read twice, and the first would wait for ever; a link to a file is one."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(SettingsError, match="expected a file, which is read twice"):
            csv_of(path)
    with pytest.raises(FileNotFoundError):
        csv_of(tmp_path / "none")
    (tmp_path / "scores.csv").write_text(ROWS)
    (tmp_path / "link").symlink_to("scores.csv")
    assert 2 == len(csv_of(tmp_path / "link"))


BAD = (
    ("not:a:player,5", "player"),
    ("Zoë,5", "player"),
    (f"{'p' * 65},5", "player"),
    (f"{'é' * 100_000},5", "player"),
    ('"a\x00b",5', "player"),
    ('"a\x1b[2Jb",5', "player"),
    ('"a\nb",5', "player"),
    (",5", "player"),
    ("p1,NaN", "score"),
    ("p1,Infinity", "score"),
    ("p1,1e400", "score"),
    ("p1,1e3", "score"),
    ("p1,1.5", "score"),
    ("p1,1_000", "score"),
    ("p1,٣", "score"),
    ("p1,0x10", "score"),
    (f"p1,{'9' * 100_000}", "score"),
    ("p1,9007199254740993", "score"),
    ("p1,-1", "score"),
    ("p1,", "score"),
    ("p1", "score"),
    ("p1,1,200", "the row has 3 cells, and the header 2"),
)


async def test_every_bad_row_is_named_and_all_others_are_written(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its line in the file, whatever is in it; the dry run says the same. Doubles are written once more."""
    key, source = await key_of(harness, tmp_path), tmp_path / "scores.csv"
    source.write_text(
        "player,score\nada,70\n" + "".join(f"{row}\n" for row, _ in BAD) + "eve,90\nada,60\nada,80\neve,90\n"
    )
    at, expected = 3, []
    for row, said in BAD:
        expected.append((f"line {at}", said))
        at += 1 + row.count("\n")
    assert 1 == await import_into(harness, source, key, dry_run=True)
    tried = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert 1 == await import_into(harness, source, key)
    refused = [json.loads(line) for line in (tmp_path / "scores.csv.arcade.refused").read_text().splitlines()]
    assert tried == refused
    assert len(expected) == len(refused)
    for (place, said), each in zip(expected, refused, strict=True):
        assert place == each["place"]
        assert said in each["reason"], each
    assert [("eve", 90), ("ada", 80)] == await listed(harness)


async def test_bad_records_are_named_by_line_and_record(harness: Harness, tmp_path: Path) -> None:
    """NaN, Infinity, 1e400 and nested values are refused by themselves."""
    key, source = await key_of(harness, tmp_path), tmp_path / "nakama.json"
    values = ("NaN", "-Infinity", "1e400", "[]", '"many"', "true", "1.5", "20")
    records = [
        f'{{"owner_id": "p{n}", "score": {value}, "update_time": "2024-01-01T00:00:00Z"}}'
        for n, value in enumerate(values)
    ]
    records.append('{"owner_id": "sub", "score": 10, "subscore": NaN, "update_time": "2024-01-01T00:00:00Z"}')
    records.append('{"owner_id": "late", "score": 10, "update_time": "2999-01-01T00:00:00Z"}')
    source.write_text(f'{{"records": [{",".join(records[:4])}]}}\n' + "\n".join(records[4:]))
    assert 1 == await import_into(harness, source, key, from_=ImportFormat.NAKAMA)
    refused = [
        json.loads(line) for line in (tmp_path / "nakama.json.arcade.refused").read_text().splitlines()
    ]
    assert ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "sub", "late"] == [each["player"] for each in refused]
    assert ["line 1, record 4", "line 2, record 1"] == [each["place"] for each in refused[3:5]]
    assert [("p7", 20)] == await listed(harness)


async def test_a_file_without_rows_imports_none(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header alone, and pages without records."""
    key = await key_of(harness, tmp_path)
    (tmp_path / "scores.csv").write_text("player,score\n")
    (tmp_path / "nakama.json").write_text("{}\n")
    assert 0 == await import_into(harness, tmp_path / "scores.csv", key)
    assert 0 == await import_into(harness, tmp_path / "nakama.json", key, from_=ImportFormat.NAKAMA)
    assert [] == await asyncio.to_thread(lambda: list(tmp_path.glob("*.refused")))
    assert ["0 written, 0 refused"] * 2 == capsys.readouterr().out.splitlines()[-2:]


def peak_bytes(read: Callable[[], Iterator[Any]]) -> int:
    tracemalloc.start()
    for _ in read():
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("is_dry", [True, False])
async def test_a_refusal_of_the_key_is_told_in_a_sentence(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_dry: bool
) -> None:
    """Of no row it says anything: the dry run ends as the import does, and the same command goes on later."""
    (tmp_path / "rows").write_text(ROWS)
    key = await key_of(harness, tmp_path)
    other = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    right = key.read_bytes()
    key.write_bytes(other)
    with pytest.raises(SystemExit) as ended:
        await import_into(harness, tmp_path / "rows", key, dry_run=is_dry)
    assert 1 == ended.value.code
    assert "once that is mended, the same command goes on" in capsys.readouterr().err
    key.write_bytes(right)
    assert 0 == await import_into(harness, tmp_path / "rows", key, dry_run=is_dry)
    assert ([] if is_dry else [("ada", 1200), ("eve", 900)]) == await listed(harness)


async def test_an_import_of_other_columns_does_not_go_on_where_one_ended(
    harness: Harness, tmp_path: Path
) -> None:
    """What was done says nothing of them: it is refused, until the file that says so is gone."""
    (tmp_path / "rows").write_text("player,score,best\nada,500,700\n")
    key = await key_of(harness, tmp_path)
    assert 0 == await import_into(harness, tmp_path / "rows", key)
    with pytest.raises(SettingsError, match="is of another file, gateway or choice of columns"):
        await import_into(harness, tmp_path / "rows", key, score_column="best")
    await asyncio.to_thread((tmp_path / "rows.arcade.imported").unlink)
    assert 0 == await import_into(harness, tmp_path / "rows", key, score_column="best")
    assert [("ada", 700)] == await listed(harness)


def test_memory_does_not_grow_with_a_file(tmp_path: Path) -> None:
    """Ten times as many rows take as much, of CSV and of JSON on lines."""
    for name, read, line in (
        ("csv", csv_of_lazily, "p{n},{n}\n"),
        ("json", scores_of_nakama, '{{"owner_id": "p{n}", "score": {n}, "update_time": "2024-01-01T00:00:00Z"}}\n'),
    ):  # fmt: skip
        peaks = []
        for count in (1_000, 8_000):
            path = tmp_path / f"{name}.{count}"
            path.write_text(
                ("player,score\n" if name == "csv" else "") + "".join(line.format(n=n) for n in range(count))
            )
            peaks.append(peak_bytes(lambda path=path, read=read: rows_of(read(path), "b")))
        assert peaks[1] < peaks[0] + 50_000, peaks


def csv_of_lazily(path: Path) -> Iterator[ImportedScore]:
    return scores_of_csv(path, Columns("player", "score", None))


def test_a_file_may_be_longer_than_any_of_its_rows(tmp_path: Path) -> None:
    """The bound is that of a row over however many lines; a hundred thousand short ones are read."""
    rows = csv_rows.LONGEST_ROW // 10
    (tmp_path / "long.csv").write_text("player,score\n" + "player,1234\n" * rows)
    assert rows == sum(1 for _ in scores_of_csv(tmp_path / "long.csv", Columns("player", "score", None)))


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Zeros that take no room on the disk, as many as there may be: what is read is bounded."""
    path = tmp_path / "huge.csv"
    path.write_text("player,score\n" + "a" * 4096)
    os.truncate(path, 64 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(SettingsError, match="line 2: has more than 1048576 characters"):
            csv_of(path)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def write_all(batch: Any) -> list[dict[str, Any]]:
    return [{"status": "refused", "problem": {"detail": "no"}} for _ in batch]


def test_files_beside_a_source_are_not_written_through_links(tmp_path: Path) -> None:
    """Whoever shares the folder cannot have the import write to a file elsewhere."""
    rows = list(rows_of([ImportedScore("ada", 1, 0)], "b"))
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "refused").symlink_to(mine)
    (tmp_path / "done.unready").symlink_to(mine)
    checkpoint = Checkpoint(tmp_path / "done", ["here"])
    with pytest.raises(OSError, match="symbolic links"):
        import_rows(rows, write_all, checkpoint, tmp_path / "refused", lambda _: None)
    (tmp_path / "refused").unlink()
    assert (0, 1) == import_rows(rows, write_all, checkpoint, tmp_path / "refused", lambda _: None)
    assert "mine" == mine.read_text()
    assert not (tmp_path / "done").is_symlink()


def test_refusals_are_said_once_however_often_an_import_is_cut_off(tmp_path: Path) -> None:
    """What was said of a batch that was not done is struck; an import that begins anew begins its file anew."""
    rows = list(rows_of((ImportedScore(f"p{n}", n, n) for n in range(1200)), "b"))
    (tmp_path / "refused").write_text("of an earlier import\n")
    checkpoint = Checkpoint(tmp_path / "done", ["here"])
    keep, batches = checkpoint.keep, iter(range(9))

    def cut_off(done: int, refusals: int) -> None:
        if next(batches) == 1:
            raise KeyboardInterrupt
        keep(done, refusals)

    checkpoint.keep = cut_off
    files = (checkpoint, tmp_path / "refused", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        import_rows(rows, write_all, *files)
    assert (0, 1200) == import_rows(rows, write_all, *files)
    said = [json.loads(line)["row"] for line in (tmp_path / "refused").read_text().splitlines()]
    assert list(range(1, 1201)) == said
    with pytest.raises(SettingsError, match="1200 rows were imported before, and the source has fewer now"):
        import_rows(islice(rows, 1000), write_all, *files)


def test_an_import_goes_on_without_the_refusals_that_somebody_took_away(tmp_path: Path) -> None:
    """Those that follow are lines like all others, and nothing stands for those that are gone."""
    rows = list(rows_of((ImportedScore(f"p{n}", n, n) for n in range(1200)), "b"))
    checkpoint, refused = Checkpoint(tmp_path / "done", ["here"]), tmp_path / "refused"
    import_rows(islice(rows, 1000), write_all, checkpoint, refused, lambda _: None)
    refused.unlink()
    import_rows(rows, write_all, checkpoint, refused, lambda _: None)
    assert list(range(1001, 1201)) == [json.loads(line)["row"] for line in refused.read_text().splitlines()]
