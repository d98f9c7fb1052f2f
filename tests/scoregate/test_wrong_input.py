"""Every command, wrongly: one sentence on standard error that names what is wrong, a status of 2, nothing on standard output."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.ledger.migrate import upgrade_sqlite
from scoregate.cli import main
from tests.support import preloaded
from tests.support.harness import POLICY
from tests.support.ports import unserved_port
from tests.test_docs import commands

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "examples" / "arcade" / "arcade.wasm"
INSTANT = "2026-11-20T12:00:00Z"
ADDRESS = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

WRONG: tuple[tuple[str, str], ...] = (
    ("up --bind nope", "SCOREGATE_BIND: expected a host and a port"),
    ("up --bind {taken}", "cannot listen on {taken}: Address already in use"),
    (
        "up --data-dir /proc/none",
        "/proc/none: cannot be a data directory: No such file or directory; give another",
    ),
    ("up --data-dir {file}", "{file}: cannot be a data directory: File exists; give another with --data-dir"),
    ("up --workers 0", "Invalid value for '--workers': "),
    ("up --edges 0", "Invalid value for '--edges': "),
    ("up --stewards 65", "Invalid value for '--stewards': "),
    ("demo --exit --bind {taken}", "cannot listen on {taken}: Address already in use"),
    ("demo --exit --data-dir {file}", "{file}: cannot be a data directory: File exists"),
    ("serve --bind 127.0.0.1:99999", "SCOREGATE_BIND: expected a port up to 65535"),
    ("serve --edges 2 --bind {taken}", "cannot listen on {taken}: Address already in use"),
    ("serve --edges 2 --fd 3", "--fd: expected no inherited socket with --edges"),
    ("serve --fd 99", "--fd 99: expected a bound socket"),
    ("steward extra", "unexpected extra argument"),
    ("worker --queue nope", "is not one of 'main', 'urgent'"),
    ("status extra", "unexpected extra argument"),
    ("reload --data-dir {folder}", "no part of the deployment in {folder} runs on this machine"),
    ("health --bind {closed}", "not ready: {closed}: [Errno"),
    ("version extra", "unexpected extra argument"),
    ("backup {file}", "{file} is not empty"),
    ("backup {none} --data-dir {folder}", "{folder}/ledger.sqlite3: there is no ledger; --data-dir"),
    ("restore {none}", "{none}: not a finished backup"),
    ("restore {folder}", "{folder}: not a finished backup"),
    ("restore {torn}", "{torn}/SHA256SUMS, line 1: expected a SHA-256"),
    ("token moderator mara --board nope", "there is no board or family 'nope'"),
    ("token moderator Mara!", "name: expected a name of up to 64 small letters"),
    ("moderator add mara --scope nope", "there is no board or family 'nope'"),
    ("moderator add mara --player a/b", "players: expected 1 to 64 letters, digits"),
    ("moderator invite nobody", "there is no such account"),
    ("moderator list --data-dir {file}", "{file}"),
    ("moderator disable nobody", "there is no such account"),
    ("moderator enable nobody", "there is no such account"),
    ("key add eu-1", "Missing option '--public-key'"),
    ("key add eu-1 --public-key nope", "32 bytes"),
    (f"key add eu-1 --public-key {ADDRESS}", "small order"),
    ("key list --data-dir {file}", "{file}"),
    ("key list --data-dir {no_database}", "file is not a database"),
    ("key revoke nope", "nope is not registered"),
    ("key revoke nope --compromised-since nope", "expected a time with a zone"),
    ("policy check {none}", "{none}: cannot be read"),
    ("policy check {folder}", "{folder}: expected a directory with at least one policy file (*.yaml)"),
    ("policy check {junk}", "{junk}: cannot be read"),
    ("policy check {json}", "{json}:1: expected a mapping"),
    ("policy new {file}", "{file} is there already"),
    (
        "policy new {none}/x.yaml --board a --title A --writes trusted --order higher --maximum any --windows alltime",
        "{none}/x.yaml: cannot be written",
    ),
    ("policy diff {none} {policy}", "{none}: cannot be read"),
    ("policy backtest {none}", "{none}: cannot be read"),
    ("policy backtest {policy} --since yesterday", "--since: expected a day"),
    ("board rebuild", "name the boards to rebuild"),
    ("board rebuild nope", "no policy for nope; there are arcade"),
    ("board check nope", "no policy for nope; there are arcade"),
    ("board refold nope", "no policy for nope; there are arcade"),
    ("board open", "name a board and say what it has"),
    ("board open --from {none}", "{none}"),
    ("board open --from {file}.csv", "{file}.csv"),
    ("board open daily.x --title X --parameters {none}", "{none}"),
    ("board open daily.x --title X --parameters /dev/zero", "/dev/zero: expected up to 16777216 bytes"),
    ("board change daily.x", "say what to change: --title"),
    ("board close", "Missing argument 'BOARDS'"),
    ("board reopen", "Missing argument 'BOARDS'"),
    ("board delete daily.x", "Missing option '--reason'"),
    ("board list nope", "no family nope; there is arcade-course, daily"),
    ("board list daily --filter day=1", "with a field of `metadata_filters`: none"),
    ("family list nope", "unexpected extra argument"),
    ("board archive nope", "no policy for nope; there are arcade"),
    ("board archive arcade nope", "has no standings in a window 'nope'"),
    ("board export arcade nope", "no window 'nope'"),
    ("board export arcade nope --output {file}", "no window 'nope'"),
    ("board export arcade nope --format xml", "--format: expected csv, ndjson"),
    ("board export arcade nope --output {none}/x", "{none}/x"),
    ("build list nope", "no policy for nope; there are arcade"),
    ("build allow nope a-1 --reason x", "no policy for nope; there are arcade"),
    ("build provisional arcade nope --reason x", "arcade knows no build nope"),
    ("build block arcade arcade-1", "Missing option '--reason'"),
    ("ledger migrate --url nope://x", "SCOREGATE_LEDGER_URL: expected sqlite:///"),
    ("ledger migrate --url postgresql://{closed}/none", "the ledger was not migrated"),
    ("ledger copy --data-dir {none} --to postgresql://{closed}/none", "ledger.sqlite3: there is no ledger"),
    ("ledger copy --to sqlite:///x", "--to: expected postgresql://"),
    ("ledger copy", "--to: expected postgresql://"),
    ("ledger public-key", "there is no seal key yet"),
    ("ledger verify --public-key {none}", "{none}: the public key cannot be read"),
    ("ledger verify --json", "there is no seal key yet"),
    ("ledger verify --public-key /dev/zero", "/dev/zero: expected up to 1048576 bytes"),
    ("policy check /dev/zero", "/dev/zero: expected up to 4194304 bytes"),
    ("ledger heads --output {none}/x", "{none}/x: heads cannot be written there"),
    ("ledger prove nope", "there is no"),
    ("ledger verify-trail {none}", "{none}: the trail cannot be read"),
    ("ledger verify-proof {none} --public-key {none}", "{none}: the public key cannot be read"),
    ("ledger verify-proof {junk} --public-key {junk}", "{junk}: expected Ed25519 public keys in PEM"),
    (f"ledger as-of nope {INSTANT}", "no policy for nope; there are arcade"),
    ("ledger as-of arcade nope", "nope: expected an instant in the past"),
    (f"ledger as-of arcade {INSTANT} --window nope", "the board keeps the windows alltime"),
    ("replay reverify --board nope --build a", "no policy for nope; there are arcade"),
    ("replay reverify --board arcade --build nope", "arcade has no build nope"),
    ("replay reverify --board arcade --build arcade-1 --simulator {none}", "--simulator: "),
    ("batch list --data-dir {file}", "{file}"),
    ("batch apply nope", "there is no batch nope"),
    ("batch reverse nope", "there is no batch nope"),
    ("player merge ada", "Missing argument"),
    ("player unmerge nope", "there is no merge nope"),
    ("player erase nope --yes --data-dir {file}", "{file}"),
    ("player export nope --data-dir {file}", "{file}"),
    ("player end-tokens nope --data-dir {file}", "{file}"),
    ("player unlink nope 0 --data-dir {file}", "{file}"),
    ("sign", "Missing argument"),
    ("sign ftp://h/v1/boards/arcade/scores --open-run a-1", "expected a URL such as http://localhost:8080"),
    (
        "sign http://{closed}/v1/boards/arcade/scores --open-run a-1",
        "--open-run: The gateway cannot be reached",
    ),
    ("import {file} --board arcade --url http://[ --key-file {pem} --key-id a", "--url: expected an address"),
    ("import {file} --board a --url http://me:x@h --key-file {pem} --key-id a", "address without a user"),
    (
        "import {file} --board arcade --url http://{closed} --key-file {pem} --key-id é",
        "--key-id: expected 1 to",
    ),
    ("import {file} --board arcade --url http://{closed} --key-file {junk} --key-id eu-1", "{junk}"),
    (
        "import {file} --board ../a --url http://{closed} --key-file {junk} --key-id a",
        "--board: expected the name",
    ),
    (
        "import {file} --board a --url http://{closed} --key-file {file} --key-id a --from nope",
        "'nope' is not one of",
    ),
    ("explain {none}", "{none}: No such file or directory"),
    ("sim run {none} {none}", "{none}: expected a simulator"),
    ("sim run {module} {none}", "{none}: cannot be read"),
    ("sim run {module} {json}", "{json}: the file: Input should be an object"),
    ("sim run {module} {junk}", "a recording does not contain its seed"),
    ("sim run {module} {junk} --seed -1", "a seed is a number of 64 bits"),
    ("sim run {module} {junk} --stats a,b", "--stats: expected whole numbers"),
    ("sim run {module} {junk} --policy {none}", "{none}: cannot be read"),
    ("sim check {module} {none}", "{none}: cannot be read"),
    ("sim run {module} {junk} --asset {none}", "{none}: cannot be read"),
    ("sim check {module} {junk} --parameters {junk}", "{junk}: not the parameters of a board"),
    ("sim check {folder} {junk}", "{folder}: expected a simulator"),
    ("webhook add nope", "expected https://<host>/<path>"),
    ("webhook add http://127.0.0.1/x", "expected https"),
    ("webhook add https://example.com/x --board nope", "no such board: nope"),
    ("webhook list --data-dir {no_database}", "file is not a database"),
    ("webhook remove nope", "there is no webhook nope"),
    ("webhook enable nope", "there is no webhook nope"),
    ("webhook test nope", "there is no webhook nope"),
    ("webhook deliveries nope --state nope", "--state: expected pending"),
    ("webhook retry nope", "there is no webhook nope"),
    ("webhook deliveries nope --limit 9999999999999999999", "Invalid value for '--limit': "),
    ("webhook remove {byte}", r"expected UTF-8, not '\udcff'"),
    ("batch apply {byte}", r"expected UTF-8, not '\udcff'"),
    ("build allow arcade arcade-1 --reason {byte}", r"expected UTF-8, not '\udcff'"),
    ("moderator invite {byte}", r"expected UTF-8, not '\udcff'"),
    ("derived rebuild nope", "expected statistics, trends, achievements"),
    ("nope", "No such command 'nope'"),
    ("key nope", "No such command 'nope'"),
    ("key list --nope", "No such option"),
)

SURROUNDINGS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("key list", {"DATA_DIR": "/proc/none"}, "/proc/none"),
    ("key list", {"LEDGER_URL": "postgresql://{closed}/none"}, "PostgreSQL: "),
    ("key list", {"LEDGER_URL": "nope"}, "SCOREGATE_LEDGER_URL: expected sqlite:///"),
    ("key list", {"BIND": "nope"}, "SCOREGATE_BIND: expected a host and a port"),
    ("key list", {"LOG_LEVEL": "loud"}, "SCOREGATE_LOG_LEVEL: "),
    ("serve", {"METRICS_BIND": "127.0.0.1:99999"}, "SCOREGATE_METRICS_BIND: expected a port up to 65535"),
    ("board check", {"REDIS_URL": "redis://{closed}/0"}, "Redis: "),
    ("board rebuild arcade", {"REDIS_URL": "redis://{closed}/0"}, "Redis: "),
    ("board check", {"REDIS_URL": "nope"}, "SCOREGATE_REDIS_URL: expected redis://"),
    ("board check", {"REDIS_URL": "redis://here:there/0"}, "SCOREGATE_REDIS_URL: expected redis://"),
    ("up", {"QUEUE_URL": "nope"}, "SCOREGATE_QUEUE_URL: expected redis://"),
    ("build list", {"POLICIES_DIR": "{none}"}, "{none}: expected a directory"),
    ("build list", {"POLICIES_DIR": "{broken}"}, "{broken}/a.yaml:1: "),
)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the tables speak of: files and folders that are wrong, a port that is taken, and one where nobody answers."""
    for name in ("folder", "broken", "no-database"):
        (tmp_path / name).mkdir()
    (tmp_path / "junk").write_bytes(b"\xff\xfe{junk")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "broken" / "a.yaml").write_text("board: [")
    (tmp_path / "no-database" / "ledger.sqlite3").write_text("this is no database" * 100)
    named = {name: str(tmp_path / name) for name in ("none", "folder", "broken", "junk", "file")}
    named |= {"json": str(tmp_path / "list.json"), "no_database": str(tmp_path / "no-database")}
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "SHA256SUMS").write_bytes(b"\xff\xfe\n")
    private = Ed25519PrivateKey.generate()
    (tmp_path / "pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    named |= {name: str(tmp_path / name) for name in ("torn", "pem")}
    named |= {"byte": os.fsdecode(b"\xff")}
    named |= {"policy": str(POLICY), "module": str(MODULE)}
    with socket.create_server(("127.0.0.1", 0)) as taken, unserved_port() as closed:
        yield {**named, "taken": f"127.0.0.1:{taken.getsockname()[1]}", "closed": f"127.0.0.1:{closed}"}
    assert "kept" == (tmp_path / "file").read_text()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger in which nothing stands."""
    path = tmp_path_factory.mktemp("deployment") / "ledger.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        upgrade_sqlite(connection)
    return path


def ends(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str, str]:
    """Status, standard output and standard error of a command that is run here; any other exception than its end is one."""
    monkeypatch.setattr(sys, "argv", ["scoregate", *shlex.split(line)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def assert_one_sentence(told: str, said: str) -> None:
    """What typer says of options has the usage before it; what we say is a line."""
    assert said in told
    assert "Traceback" not in told
    assert told.startswith("Usage: ") or 1 == len(told.strip().splitlines()), told


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_N08_a_wrong_command_is_told_what_is_wrong_in_a_sentence(
    line: str,
    said: str,
    places: dict[str, str],
    ledger: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Boards, builds, keys, files and instants that there are not, and text that is none of what was expected."""
    (tmp_path / "data").mkdir(mode=0o700)
    shutil.copy(ledger, tmp_path / "data")
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    status, out, err = ends(line.format(**places), monkeypatch, capsys)
    assert 2 == status
    assert out in {"", "PART  PID\n"}
    assert_one_sentence(err, said.format(**places))


@pytest.mark.parametrize(
    ("line", "environment", "said"), SURROUNDINGS, ids=[f"{line} {env}" for line, env, _ in SURROUNDINGS]
)
def test_N08_what_is_wrong_around_a_command_is_told_in_a_sentence(
    line: str,
    environment: dict[str, str],
    said: str,
    places: dict[str, str],
    ledger: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No Redis, no database, no rights on the folder, and settings that cannot be."""
    (tmp_path / "data").mkdir(mode=0o700)
    shutil.copy(ledger, tmp_path / "data")
    surroundings = {"DATA_DIR": str(tmp_path / "data")} | environment
    for name, value in surroundings.items():
        monkeypatch.setenv(f"SCOREGATE_{name}", value.format(**places))
    status, out, err = ends(line, monkeypatch, capsys)
    assert (2, "") == (status, out)
    assert_one_sentence(err, said.format(**places))


OF_A_LEDGER: tuple[str, ...] = (
    "key list",
    "key revoke eu-1",
    "webhook list",
    "webhook test wh_1",
    "build list",
    "build block arcade arcade-1 --reason leaked",
    "board check",
    "board rebuild arcade",
    "board close daily.x",
    "board list daily",
    "derived rebuild statistics",
    "ledger as-of arcade 2026-11-20T12:00:00Z",
)


@pytest.mark.parametrize("line", OF_A_LEDGER)
def test_N08_a_folder_without_a_ledger_is_named_and_left_as_it_was(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped folder would get an empty ledger of its own, in which there are no keys, and no scores."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    status, out, err = ends(line, monkeypatch, capsys)
    assert (2, "") == (status, out)
    assert_one_sentence(err, f"{tmp_path / 'data' / 'ledger.sqlite3'}: there is no ledger")
    assert not (tmp_path / "data").exists()


def test_N08_every_command_is_tried_wrongly() -> None:
    """The first words of the table are all commands that there are."""
    tried = {" ".join(line.split()[:count]) for line, _ in WRONG for count in (1, 2)}
    assert set() == {words.removeprefix("scoregate ") for words in commands()} - tried


@pytest.mark.parametrize(
    "part", ["serve --bind {taken}", "serve --bind no.such.host.invalid:80", "steward", "worker"]
)
def test_N08_a_part_that_cannot_start_says_why_and_ends(
    part: str, places: dict[str, str], tmp_path: Path
) -> None:
    """A port that is taken, a host that is not this one, a database that is not there: the last line is the reason."""
    no_database = {"SCOREGATE_LEDGER_URL": f"postgresql://{places['closed']}/none"}
    environment = {"SCOREGATE_DATA_DIR": str(tmp_path / "data"), **({} if "serve" in part else no_database)}
    words = part.format(**places).split()
    told = preloaded.finished(words, os.environ | environment, timeout_s=120)
    reason = f"SCOREGATE_BIND: cannot listen on {words[-1]}: " if "serve" in part else "PostgreSQL: "
    assert 2 == told.returncode
    assert told.stderr.strip().splitlines()[-1].startswith(reason), told.stderr
    assert "Traceback" not in told.stderr
