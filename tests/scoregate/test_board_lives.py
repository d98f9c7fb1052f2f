"""`scoregate board open`, `change`, `close`, `reopen`, `delete` and `list`: an operator's boards of families."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.ledger.boards import board_opening
from gateway.ledger.derived import counts
from gateway.recordings.recording_store import ASSETS, kept_name
from policies.errors import SettingsError
from scoregate.cli import app
from scoregate.commands import board_lives
from tests.support.families import write_family
from tests.support.policies import a_policy, write_policies


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with the policies of a family."""
    filters = {"country": "text", "level": "integer", "wet": "boolean"}
    folder = write_family(tmp_path / "policies", metadata_filters=filters).parent
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(folder))
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert 0 == CliRunner().invoke(app, ["ledger", "migrate"]).exit_code
    return tmp_path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["board", *map(str, words)])


def rows(*words: object) -> list[dict[str, Any]]:
    told = run(*words, "--json")
    found = [json.loads(line) for line in told.stdout.splitlines()]
    if not told.exception or isinstance(told.exception, SystemExit):  # a program is told as people are
        assert any(row.get("outcome") == "refused" for row in found) == bool(told.exit_code)
    return found


def listed(*words: object) -> list[str]:
    return [row["board"].removeprefix("track.") for row in rows("list", "track", *words)]


def life(data: Path) -> list[tuple[str, ...]]:
    """Board, reason and actor of every event, and what it says besides."""
    with closing(sqlite3.connect(data / "ledger.sqlite3")) as ledger:
        return ledger.execute("SELECT board, reason, actor, detail FROM events ORDER BY seq").fetchall()


def test_a_board_has_a_whole_life_from_the_command_line(data: Path):
    """Opened with all it can have, the same again, changed in part, closed, reopened and deleted: each an event of this user."""
    (data / "gap.json").write_text('{"gap": 55}')
    (data / "map.bin").write_bytes(b"a map")
    has = ("--metadata", '{"country": "it"}', "--parameters", data / "gap.json", "--asset", data / "map.bin")
    times = ("--opens-at", "2026-12-01T00:00:00Z", "--closes-at", "2026-12-02T00:00:00Z")
    words = ("open", "track.monza", "--title", "Monza", *has, *times, "--bounds", '{"maximum_ticks": 5}')

    assert [0, 0] == [run(*words).exit_code for _ in range(2)]
    assert [("same", 1)] == [(row["outcome"], row["version"]) for row in rows(*words)]
    [board] = rows("list", "track")
    digest = hashlib.sha256(b"a map").hexdigest()
    assert {"metadata": {"country": "it"}, "parameters": '{"gap":55}', "asset": f"sha256:{digest}"} == {
        name: board[name] for name in ("metadata", "parameters", "asset")
    }
    assert ({"maximum_ticks": 5}, "2026-12-02T00:00:00.000Z") == (board["bounds"], board["closes_at"])
    assert [b"a map"] == [file.read_bytes() for file in (data / "recordings").rglob(f"*{digest[-8:]}*")]

    changed = run("change", "track.monza", "--title", "Monza GP", "--closes-at", "none", "--bounds", "none")
    assert ["track.monza", "changed", "2", "-"] == changed.output.splitlines()[1].split()
    assert 1 == run("change", "track.monza", "--title", "Late", "--version", 1).exit_code
    [board] = rows("list", "track")
    assert ("Monza GP", None, None, {"country": "it"}) == tuple(
        board[name] for name in ("title", "closes_at", "bounds", "metadata")
    )

    assert 0 == run("close", "track.monza", "--reason", "rain").exit_code
    assert (["monza"], []) == (listed("--state", "closed"), listed("--state", "open"))
    assert 0 == run("reopen", "track.monza").exit_code
    assert 2 == run("delete", "track.monza").exit_code  # it needs a reason
    assert 0 == run("delete", "track.monza", "--reason", "a mistake").exit_code
    assert ([], ["monza"]) == (listed(), listed("--state", "deleted"))
    reasons = ["board-opened", "board-changed", "board-closed", "board-reopened", "board-deleted"]
    assert [("track.monza", reason, "operator:ada") for reason in reasons] == [
        event[:3] for event in life(data)
    ]
    assert [None, None, "rain", None, "a mistake"] == [
        json.loads(event[3]).get("why") for event in life(data)
    ]


def test_a_file_name_that_there_cannot_be_refuses_its_board_alone(data: Path):
    """JSON can say what no name of a file has; those behind it are opened all the same."""
    items = [
        {"board": f"track.{name}", "title": name, "asset": asset}
        for name, asset in (("a", "nul\0.bin"), ("b", "\ud800.bin"), ("c", None), ("d", 7), ("e", ["x"]))
    ]
    (data / "boards.json").write_text(json.dumps(items))
    opened = rows("open", "--from", data / "boards.json")
    assert ["refused", "refused", "opened", "refused", "refused"] == [row["outcome"] for row in opened]
    assert "asset: no file can have the name" in opened[0]["detail"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("boards.csv", "board,title\r\ntrack.a,Ä\r\n"),
        ("boards.json", '[{"board": "track.a", "title": "Ä"}]'),
        ("boards.jsonl", '{"board": "track.a", "title": "Ä"}\r\n\r\n'),
    ],
)
def test_a_file_that_a_spreadsheet_has_saved_is_read(data: Path, name: str, text: str):
    """With a mark of UTF-8 at its beginning, which is no part of its first word, and the line ends of Windows."""
    (data / name).write_bytes(text.encode("utf-8-sig"))
    assert [("track.a", "opened")] == [
        (row["board"], row["outcome"]) for row in rows("open", "--from", data / name)
    ]
    assert ["Ä"] == [row["title"] for row in rows("list", "track")]


def test_a_board_is_opened_with_no_asset_that_nobody_has(data: Path):
    """Its runs could not be played again; the control is the same file, stored."""
    digest = f"sha256:{hashlib.sha256(b'a map').hexdigest()}"
    words = ("open", "track.a", "--title", "A", "--asset")
    [refused] = rows(*words, digest)
    assert ("refused", "asset: no file has this digest; give the path of the file instead") == (
        refused["outcome"],
        refused["detail"],
    )
    (data / "map.bin").write_bytes(b"a map")
    assert 0 == run("open", "track.b", "--title", "B", "--asset", data / "map.bin").exit_code
    assert ["opened"] == [row["outcome"] for row in rows(*words, digest)]


def test_what_is_said_beside_a_file_of_boards_is_refused(data: Path):
    """It would be taken for a title of each of them, or for nothing."""
    (data / "boards.csv").write_text("board,title\ntrack.a,A\n")
    for words in (["--title", "B"], ["--metadata", "{}"], ["track.b"]):
        refused = run("open", *words, "--from", data / "boards.csv")
        assert "name a board and say what it has, or give a file of boards" in str(refused.exception)
    assert [] == listed()


def test_a_file_of_boards_is_opened_item_by_item(data: Path, monkeypatch: pytest.MonkeyPatch):
    """A table, lines and a list say the same; what is refused keeps nothing else from being opened, in batches."""
    monkeypatch.setattr(board_opening, "BATCH_LIMIT", 2)
    (data / "maps").mkdir()
    for name in ("spa", "imola"):
        (data / "maps" / f"{name}.bin").write_bytes(name.encode())
    table = (
        "board,title,metadata.country,metadata.level,metadata.wet,parameters.gap,bounds.score.maximum,asset\n"
        "track.a,A,12,12,true,60,,\n"
        "track.b,B,it,,,,5,maps/spa.bin\n"
        "track.c,C,,x,,,,maps/imola.bin\n"
        "kart.d,D,,,,,,\n"
        "track.e,E,,,,,,maps/none.bin\n"
        "track.f,F,,,,,,\n"
    )
    (data / "boards.csv").write_text(table)
    opened = rows("open", "--from", data / "boards.csv")
    told = {row["board"]: (row["outcome"], row["detail"]) for row in opened}
    assert ["track.a", "track.b", "track.c", "kart.d", "track.e", "track.f"] == list(told)
    assert {("opened", None)} == {told[f"track.{rest}"] for rest in "abf"}
    assert ("refused", "metadata.level: expected integer as `metadata_filters` says") == told["track.c"]
    assert ("refused", f"no family kart; there is track in {data}/policies") == told["kart.d"]
    assert f"asset: {data}/maps/none.bin: cannot be read" in told["track.e"][1]
    digests = [hashlib.sha256(name).digest() for name in (b"spa", b"imola")]
    assert [True, False] == [(data / "recordings" / ASSETS / kept_name(each)).exists() for each in digests]
    shown = {row["board"]: row for row in rows("list", "track")}
    assert {"country": "12", "level": 12, "wet": True} == shown["track.a"]["metadata"]
    assert ('{"gap":60}', {"score": {"maximum": 5}}) == (
        shown["track.a"]["parameters"],
        shown["track.b"]["bounds"],
    )

    again = run("open", "--from", data / "boards.csv")
    assert (1, "3 same, 3 refused") == (again.exit_code, again.output.splitlines()[-1])
    monkeypatch.setattr(board_lives, "SHOWN", 2)
    assert ["track.c", "kart.d"] == [
        line.split()[0] for line in run("open", "--from", data / "boards.csv").output.splitlines()[1:-1]
    ]
    same = [{"board": "track.f", "title": "F"}, {"action": "open", "board": "track.g", "title": "G"}]
    (data / "b.json").write_text(json.dumps({"operation": "x", "boards": same}))
    (data / "b.jsonl").write_text("\n".join(map(json.dumps, same)) + "\n")
    assert [["same", "opened"], ["same", "same"]] == [
        [row["outcome"] for row in rows("open", "--from", data / name)] for name in ("b.json", "b.jsonl")
    ]
    assert 4 == len(life(data))


def test_boards_are_listed_in_order_and_by_their_metadata(data: Path, monkeypatch: pytest.MonkeyPatch):
    """By name or newest, a page after the other; those that have all values; never more than the limit, and it says so."""
    lines = [
        {"board": f"track.{rest}", "title": rest, "metadata": {"level": n % 2}}
        for n, rest in enumerate("cab")
    ]
    (data / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert 0 == run("open", "--from", data / "b.jsonl").exit_code
    monkeypatch.setattr(board_opening, "BATCH_LIMIT", 1)
    assert (["a", "b", "c"], ["b", "a", "c"]) == (listed(), listed("--order", "newest"))
    assert (["b", "c"], []) == (
        listed("--filter", "level=0"),
        listed("--filter", "level=0", "--filter", "wet=true"),
    )
    assert ["a", "b"] == listed("--limit", 2)
    assert "and more: --limit is 2" == run("list", "track", "--limit", 2).output.splitlines()[-1]
    [family] = CliRunner().invoke(app, ["family", "list", "--json"]).output.splitlines()
    assert ("track", ["country:text", "level:integer", "wet:boolean"]) == (
        json.loads(family)["family"],
        json.loads(family)["filters"],
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("open",), "name a board and say what it has"),
        (("open", "track.a", "--from", "b.csv"), "name a board and say what it has"),
        (("open", "track.a", "--title", "A", "--metadata", "{"), "--metadata: {: not a JSON object"),
        (("change", "track.a", "--bounds", "{"), "--bounds: {: not a JSON object"),
        (
            ("change", "track.a", "--bounds", '{"":' + "[" * 50_000),
            f'--bounds: {{"":{"[" * 196}…: not a JSON object',
        ),
        (("change", "track.a"), "say what to change"),
        (("list", "kart"), "no family kart; there is track"),
        (("list", "track", "--order", "size"), "--order: expected name, newest, played; got 'size'"),
        (("list", "track", "--state", "gone"), "--state: expected open, closed, deleted; got 'gone'"),
        (("list", "track", "--filter", "size=1"), "with a field of `metadata_filters`: country, level, wet"),
        (("list", "track", "--filter", "level=x"), "--filter: level: expected a whole number"),
    ],
)
def test_wrong_words_are_told_in_a_sentence(data: Path, words: tuple[str, ...], sentence: str):
    """Nothing is done, and the sentence says what was expected."""
    result = run(*words)
    assert isinstance(result.exception, SettingsError)
    assert sentence in str(result.exception)
    assert [] == life(data)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("b.csv", "name,title\n", ":1: unknown columns name"),
        ("b.csv", "title\n", ":1: no column `board`"),
        ("b.csv", "board,title\ntrack.a\n", ":2: this line has not as many cells"),
        ("b.json", "{}", ": expected a list of boards"),
        ("b.json", "[", ": not JSON"),
        ("b.jsonl", "7\n", ":1: expected a board to open"),
        ("b.jsonl", '\n{"board": \n', ":2: not JSON: Expecting value at column 10"),
        ("b.jsonl", f'{{}}\n{{"board": {"9" * 5_000}}}\n', ":2: not JSON: Exceeds the limit"),
        ("b.jsonl", "[" * 100_000, ":1: not JSON: maximum recursion depth"),
        ("b.json", "[" * 100_000, ": not JSON: maximum recursion depth"),
        ("b.jsonl", "\udcff", ": not UTF-8 after line 0"),
        ("b.jsonl", '{"action": "delete", "board": "track.a"}\n', ":1: expected a board to open"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(data: Path, name: str, text: str, fault: str):
    """It is an error of the file, and opens nothing."""
    (data / name).write_text(text, errors="surrogateescape")
    result = run("open", "--from", data / name)
    assert isinstance(result.exception, SettingsError)
    assert f"{data / name}{fault}" in str(result.exception)
    assert [] == life(data)


def test_what_was_done_before_a_fault_in_the_file_is_told(data: Path, monkeypatch: pytest.MonkeyPatch):
    """The batches before it stay, with their table; the fault is named with its line."""
    monkeypatch.setattr(board_opening, "BATCH_LIMIT", 2)
    lines = [json.dumps({"board": f"track.{rest}", "title": rest}) for rest in "abc"]
    (data / "b.jsonl").write_text("\n".join([*lines, "{"]))
    result = run("open", "--from", data / "b.jsonl")
    assert f"{data / 'b.jsonl'}:4: not JSON" in str(result.exception)
    assert ["track.a", "track.b", "2"] == [line.split()[0] for line in result.output.splitlines()[1:]]
    assert ["a", "b"] == listed()


def test_a_column_of_the_whole_wins_over_its_parts(data: Path):
    """Wherever it stands in the table; where its cell is empty, the parts count."""
    head = "metadata,board,title,metadata.country,bounds.score,bounds.score.maximum"
    (data / "b.csv").write_text(
        f'{head}\n"{{""level"": 1}}",track.a,A,it,"{{""minimum"": 2}}",5\n,track.b,B,it,,5\n'
    )
    assert ["opened", "opened"] == [row["outcome"] for row in rows("open", "--from", data / "b.csv")]
    assert [({"level": 1}, {"score": {"minimum": 2}}), ({"country": "it"}, {"score": {"maximum": 5}})] == [
        (row["metadata"], row["bounds"]) for row in rows("list", "track")
    ]


def test_a_board_of_a_schedule_is_not_open_before_its_time(data: Path):
    """Neither by its name nor from a file: it has the times of its day, which the list shows."""
    write_family(data / "policies", "daily", schedule="daily")
    (data / "days.jsonl").write_text('{"board": "daily.2098-12-25", "title": "Day"}')
    assert 0 == run("open", "daily.2098-12-24", "--title", "Eve").exit_code
    assert 0 == run("open", "--from", data / "days.jsonl").exit_code
    midnights = [f"2098-12-{day}T00:00:00.000Z" for day in (24, 25, 26)]
    shown = sorted((row["opens_at"], row["closes_at"]) for row in rows("list", "daily"))
    assert [(midnights[0], midnights[1]), (midnights[1], midnights[2])] == shown


def test_what_became_of_a_board_is_told_by_its_own_word(data: Path):
    """Each of the commands has one; a board that is so already is the same."""
    assert ["opened"] == [row["outcome"] for row in rows("open", "track.a", "--title", "A")]
    told = [
        rows(word, "track.a", "--reason", "r")[0]["outcome"]
        for word in ("close", "close", "reopen", "delete")
    ]
    assert ["closed", "same", "reopened", "deleted"] == told


def test_a_folder_without_a_ledger_is_told_before_its_families(tmp_path: Path):
    """The families there are not those of the deployment that was meant."""
    result = run("list", "level", "--data-dir", tmp_path / "none")
    assert isinstance(result.exception, SettingsError)
    assert "there is no ledger; --data-dir" in str(result.exception)


def counted(data: Path, **counts: tuple[int, int]) -> None:
    """Write what the stewards have counted of boards, whose full stops are underlines here."""
    with closing(sqlite3.connect(data / "ledger.sqlite3")) as ledger, ledger:
        rows = [(name.replace("_", "."), *both) for name, both in counts.items()]
        ledger.executemany("INSERT INTO board_counts VALUES (?, ?, ?)", rows)


def test_boards_are_listed_with_those_that_no_policy_describes(data: Path):
    """Boards of files, with none of their runs or with some; then what a lost file leaves; a family's are its own."""
    write_policies(data / "policies", a_policy("alps"), a_policy("bora"))
    counted(data, bora=(7, 5), gone=(3, 2), track_monza=(4, 4), other_monza=(1, 0))
    boards = rows("list")
    assert [
        ("alps", 0, 0, "a file"),
        ("bora", 7, 5, "a file"),
        ("gone", 3, 2, "nothing"),
        ("other.monza", 1, 0, "nothing"),
    ] == [tuple(row[name] for name in ("board", "submissions", "promoted", "described_by")) for row in boards]
    assert ("Bora", "open", True) == (
        boards[1]["title"],
        boards[1]["writes"],
        boards[1]["digest"].startswith("sha256:"),
    )
    assert {None} == {row[name] for row in boards[2:] for name in ("title", "writes", "digest")}
    assert "DESCRIBED BY" in run("list").output.splitlines()[0]


def test_boards_without_a_policy_are_listed_up_to_the_limit(data: Path, monkeypatch: pytest.MonkeyPatch):
    """However many a page of them has; that there are more is said."""
    monkeypatch.setattr(counts, "COUNTED_AT_ONCE", 2)
    counted(data, **{f"gone{number}": (number, 0) for number in range(5)})
    assert [f"gone{number}" for number in range(5)] == [row["board"] for row in rows("list")]
    assert ["gone0", "gone1", "gone2"] == [row["board"] for row in rows("list", "--limit", 3)]
    assert "and more: --limit is 3" in run("list", "--limit", 3).output
    assert "and more" not in run("list", "--limit", 5).output


def test_what_chooses_among_a_familys_boards_needs_the_family(data: Path):
    """An order, a filter or a state says nothing of boards of files."""
    for words in (("--order", "newest"), ("--filter", "country=it"), ("--state", "open")):
        refused = run("list", *words)
        assert (1, True) == (refused.exit_code, "name one" in str(refused.exception))


def test_a_list_has_a_hundred_boards_unless_told_otherwise(data: Path):
    """Whoever has more is told that there are more, and how to see them."""
    items = [{"board": f"track.n{number:03}", "title": "N"} for number in range(101)]
    (data / "boards.json").write_text(json.dumps(items))
    assert 0 == run("open", "--from", data / "boards.json").exit_code
    told = run("list", "track").stdout.splitlines()
    assert (102, "and more: --limit is 100") == (len(told), told[-1])
    assert 100 == len(rows("list", "track"))
    assert 102 == len(run("list", "track", "--limit", 101).stdout.splitlines())
