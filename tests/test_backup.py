"""Backup and restore, by the very commands of the how-to page, of a deployment that takes submissions meanwhile."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.recordings.opening import store_of
from gateway.runtime.settings import Settings, bundled_policies
from policies.errors import ScoregateError
from scoregate.backup_files import FACTS, LEDGER, SUMS, BackupFailed
from scoregate.commands.backup import back_up, backup
from scoregate.commands.restore import RestoreFailed, restore, restore_backup
from tests.support import boards
from tests.support.bucket import running_bucket
from tests.support.deployment import eventually
from tests.support.durability import SureDisk
from tests.support.ledger import is_intact, new_submission, opened, rows
from tests.support.opened_boards import opening
from tests.support.page import (
    PATIENCE_S,
    Machine,
    assert_gets_the_stored_answers,
    board_of,
    examples,
    machine_in,
    player_on,
    submit_until,
    wait_until,
)

PAGE = "backup-and-restore.md"


async def test_the_page_is_followed_and_nothing_that_was_backed_up_is_lost(tmp_path: Path):
    """Backed up while it runs, killed, restored elsewhere with an empty Valkey: the same boards, the same answers."""
    [back_up_it, check_it] = examples(PAGE, "## SQLite", "### Back up")
    [restore_it, start_it] = examples(PAGE, "## SQLite", "### Restore")
    with machine_in(tmp_path) as machine:
        async with player_on(machine) as player:
            machine.start(f"scoregate up --data-dir {machine.before}")
            await wait_until(machine.is_answering, machine)
            early = [await player.submit(points, ticks) for points, ticks in ((5, 25), (7, 3000), (9, 30))]
            await settled(machine.before / LEDGER, early, machine)
            board = await board_of(player, 3, machine)

            is_over = asyncio.Event()
            submitting = asyncio.create_task(submit_until(is_over, player))
            await machine.run(back_up_it)
            is_over.set()
            late = await submitting
            await machine.run(check_it)
            machine.kill()
            await wait_until(machine.is_silent, machine)

            await machine.run(restore_it)
            await machine.run(start_it + "\ndisown -a")
            known = [row[0] for row in rows(machine.after / LEDGER, "SELECT submission_id FROM submissions")]
            await settled(machine.after / LEDGER, known, machine)
            players = rows(machine.after / LEDGER, "SELECT DISTINCT player FROM submissions")
            restored = await board_of(player, len(players), machine)
            assert board == [each for each in restored if each[2] in early]
            assert set(early) <= set(known) <= set(early) | set(late)
            await assert_gets_the_stored_answers(player, early)
            assert is_intact(machine.after / LEDGER)


async def settled(ledger: Path, submission_ids: list[str], machine: Machine) -> None:
    def are_promoted() -> bool:
        states = dict(rows(ledger, "SELECT submission_id, state FROM submissions"))
        return {"promoted"} == {states.get(each) for each in submission_ids}

    await eventually(are_promoted, machine.log, PATIENCE_S)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(data_dir=tmp_path / "data", policies_dir=tmp_path / "policies")


@pytest.fixture
async def deployment(settings: Settings) -> Settings:
    """A data directory with a key, and a submission with a large recording."""
    await fill(settings)
    return settings


async def fill(settings: Settings) -> None:
    settings.data_dir.mkdir(exist_ok=True)
    (settings.data_dir / "master.key").write_text("secret\n")
    (settings.data_dir / "master.key").chmod(0o600)
    body = b"a large recording"
    store_of(settings).store(sha256(body).digest(), body)
    async with opened(settings.ledger_path) as ledger:
        await ledger.append(new_submission("small"))
        await ledger.append(new_submission("large", recording=body)._replace(recording=None))


def elsewhere(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})


def tree(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items()}


def test_a_backup_has_everything_with_its_sum(deployment: Settings, tmp_path: Path):
    """Ledger, key, recording and facts; all that is there is summed, and for its owner's eyes alone."""
    facts = back_up(deployment, tmp_path / "backup")

    found = tree(tmp_path / "backup")
    sums = dict(reversed(line.split("  ")) for line in found.pop(SUMS).decode().splitlines())
    assert {name: sha256(body).hexdigest() for name, body in found.items()} == sums
    digest = sha256(b"a large recording").hexdigest()
    assert {
        LEDGER,
        "master.key",
        FACTS,
        f"recordings/{digest[:2]}/{digest[2:4]}/{digest}",
    } == found.keys()
    assert (2, ["master.key"], 1, []) == (facts.head, facts.keys, facts.recordings, facts.lost)
    assert ["tiny"] == list(json.loads(found[FACTS])["policies"])
    assert 0o700 == (tmp_path / "backup").stat().st_mode & 0o777
    assert {0o600} == {(tmp_path / "backup" / name).stat().st_mode & 0o777 for name in (LEDGER, "master.key")}


def test_a_restore_without_the_policies_names_the_boards_that_lack_one(
    deployment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Parts would start without a word, and the boards would not be found."""
    back_up(deployment, tmp_path / "backup")
    monkeypatch.delenv("SCOREGATE_POLICIES_DIR", raising=False)
    restore(tmp_path / "backup", tmp_path / "elsewhere")
    said = capsys.readouterr().out.splitlines()
    assert (
        f"{bundled_policies()} has no policy of 'tiny': start the parts with SCOREGATE_POLICIES_DIR"
        in said[-1]
    )
    assert "another policy" not in "".join(said)


def test_a_restored_deployment_is_the_one_that_was_backed_up(deployment: Settings, tmp_path: Path):
    """The same rows, the same recording, the same key; and a board whose policy has changed since is named."""
    back_up(deployment, tmp_path / "backup")
    boards.write_board(tmp_path / "policies", title="Tiny again")
    there = elsewhere(deployment, tmp_path)
    restored = restore_backup(there, tmp_path / "backup")

    assert (2, 1) == (restored.head, restored.recordings)
    assert (("tiny",), ()) == (restored.other_policies, restored.no_policy)
    for table in ("submissions", "events", "recordings", "outbox"):
        kept = f"SELECT * FROM {table} ORDER BY 1"
        assert rows(deployment.ledger_path, kept) == rows(there.ledger_path, kept)
    before, after = tree(deployment.data_dir), tree(there.data_dir)
    unchanged = {name for name in before if name.startswith(("recordings", "master"))}
    assert {name: before[name] for name in unchanged} == {name: after[name] for name in unchanged}
    modes = [(there.data_dir / name).stat().st_mode & 0o777 for name in ("master.key", LEDGER)]
    assert [0o600, 0o600] == modes


def test_what_is_backed_up_or_restored_is_on_the_disk(
    deployment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A power cut right afterwards takes no file, and no name of a file or a folder."""
    disk = SureDisk(monkeypatch)
    back_up(deployment, tmp_path / "backups" / "of today")
    assert [] == disk.unsure(tmp_path / "backups")
    there = deployment.model_copy(update={"data_dir": tmp_path / "new" / "data"})
    restore_backup(there, tmp_path / "backups" / "of today")
    assert [] == disk.unsure(tmp_path / "new")


def test_a_ledger_that_is_copied_wrongly_is_put_nowhere(
    deployment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """By a disk that fails, say: what was checked is the backup, and not its copy."""
    back_up(deployment, tmp_path / "backup")

    def copy(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:-1] + b"?")

    monkeypatch.setattr("scoregate.commands.restore.shutil.copyfile", copy)
    there = elsewhere(deployment, tmp_path)
    with pytest.raises(RestoreFailed, match="the ledger changed while it was copied"):
        restore_backup(there, tmp_path / "backup")
    assert not there.ledger_path.exists()


async def test_recordings_in_a_bucket_are_backed_up_and_put_into_a_bucket(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The backup has their bytes; restoring puts them where the settings say."""
    with running_bucket() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        settings = settings.model_copy(update={"recordings_url": "s3://evidence/before"})
        await fill(settings)
        assert 1 == back_up(settings, tmp_path / "backup").recordings
        there = elsewhere(settings, tmp_path).model_copy(update={"recordings_url": "s3://evidence/after"})
        restore_backup(there, tmp_path / "backup")
        [before, after] = [
            [key.removeprefix(prefix) for key in bucket.objects if key.startswith(prefix)]
            for prefix in ("before/", "after/")
        ]
        assert before == after


def test_a_recording_that_was_lost_before_is_named_and_the_rest_backed_up(
    deployment: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """One damaged recording is no reason to have no backup; the status of the command tells a script."""
    [path] = (deployment.data_dir / "recordings").glob("??/??/*")
    path.write_bytes(b"something else")
    facts = back_up(deployment, tmp_path / "backup")
    assert (0, [path.name]) == (facts.recordings, facts.lost)
    assert 0 == restore_backup(elsewhere(deployment, tmp_path), tmp_path / "backup").recordings
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(deployment.policies_dir))
    with pytest.raises(SystemExit) as ended:
        backup(tmp_path / "another", deployment.data_dir)
    assert 2 == ended.value.code
    assert f"lost before this, and not in the backup: {path.name}\n" == capsys.readouterr().err


async def test_assets_of_boards_are_backed_up_with_recordings(deployment: Settings, tmp_path: Path):
    """A restored deployment can play every board's runs again, and a lost asset is named."""
    digest, missing = sha256(b"a map").digest(), sha256(b"a lost map").digest()
    store_of(deployment).of_assets().store(digest, b"a map")
    async with opened(deployment.ledger_path) as ledger:
        await ledger.write(opening("track.monza", digest))
        await ledger.write(opening("track.lost", missing))
    facts = back_up(deployment, tmp_path / "backup")
    assert (2, [missing.hex()]) == (facts.recordings, facts.lost)
    there = elsewhere(deployment, tmp_path)
    restore_backup(there, tmp_path / "backup")
    assert b"a map" == store_of(there).of_assets().load(digest, 100)
    assert store_of(there).size(digest) is None


@pytest.mark.parametrize(("key", "told"), [("master.key", "master.key"), (None, "no key")])
def test_it_is_told_whether_a_backup_has_the_keys(
    deployment: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    key: str | None,
    told: str,
):
    """Where the master key is a variable, there is none to copy: it has to be kept elsewhere."""
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(deployment.policies_dir))
    if key is None:
        (deployment.data_dir / "master.key").unlink()
    backup(tmp_path / "backup", deployment.data_dir)
    assert capsys.readouterr().out.endswith(f": the ledger up to event 2, 1 recordings, {told}\n")


def test_a_ledger_that_is_kept_elsewhere_is_not_replaced(deployment: Settings, tmp_path: Path):
    """The data directory is empty, and the ledger of a deployment that runs is where the settings say."""
    back_up(deployment, tmp_path / "backup")
    live = tmp_path / "ledgers" / "live.sqlite3"
    live.parent.mkdir()
    live.write_bytes(b"of the deployment that runs")
    there = deployment.model_copy(
        update={"data_dir": tmp_path / "elsewhere", "ledger_url": SecretStr(f"sqlite:///{live}")}
    )
    with pytest.raises(RestoreFailed, match="there is a ledger already"):
        restore_backup(there, tmp_path / "backup")
    assert (b"of the deployment that runs", False) == (live.read_bytes(), there.data_dir.exists())
    live.unlink()
    assert 2 == restore_backup(there, tmp_path / "backup").head
    assert is_intact(live)


def test_neither_writes_over_anything(deployment: Settings, tmp_path: Path):
    """A target with something in it is refused, and left as it is; so is one that is no folder."""
    (tmp_path / "file").touch()
    with pytest.raises(BackupFailed, match="not empty"):
        back_up(deployment, tmp_path / "file")
    back_up(deployment, tmp_path / "backup")
    before = tree(tmp_path / "backup"), tree(deployment.data_dir)
    with pytest.raises(BackupFailed, match="not empty"):
        back_up(deployment, tmp_path / "backup")
    with pytest.raises(BackupFailed, match="not empty"):
        restore_backup(deployment, tmp_path / "backup")
    assert before == (tree(tmp_path / "backup"), tree(deployment.data_dir))


def as_summed(folder: Path, facts: bytes) -> None:
    """Put other facts into a backup, with their sum."""
    before = sha256((folder / FACTS).read_bytes()).hexdigest()
    (folder / FACTS).write_bytes(facts)
    sums = (folder / SUMS).read_text()
    (folder / SUMS).write_text(sums.replace(before, sha256(facts).hexdigest()))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / SUMS).unlink(), "not a finished backup"),
        (lambda folder: (folder / "master.key").unlink(), "master.key is missing"),
        (lambda folder: (folder / LEDGER).write_bytes(b""), "ledger.sqlite3 is not what it was"),
        (lambda folder: (folder / SUMS).write_text(""), "ledger.sqlite3 is not in SHA256SUMS"),
        (lambda folder: (folder / SUMS).write_text(f"{'0' * 64}  ../../etc/passwd\n"), "line 1"),
        (lambda folder: (folder / SUMS).write_text(f"{'0' * 64}  /etc/passwd\n"), "line 1"),
        (lambda folder: (folder / SUMS).write_bytes(b"\xff" + (folder / SUMS).read_bytes()), "line 1"),
        (lambda folder: as_summed(folder, b"{nope"), "these are not the facts of a backup"),
        (lambda folder: as_summed(folder, b"[1]"), "these are not the facts of a backup"),
        (
            lambda folder: as_summed(folder, b'{"format": 1, "more": 2}'),
            "these are not the facts of a backup",
        ),
        (lambda folder: as_summed(folder, b'{"format": 2}'), "a backup of format 2; this scoregate reads 1"),
    ],
    ids=["no-sums", "missing", "altered", "unlisted", "outside", "absolute", "bytes", "no-json", "no-object"]
    + ["other-facts", "newer"],
)
def test_a_damaged_backup_is_refused_before_anything_is_written(
    deployment: Settings, tmp_path: Path, damage: Any, said: str
):
    """Whatever is wrong is said, and there is no data directory afterwards."""
    back_up(deployment, tmp_path / "backup")
    damage(tmp_path / "backup")
    there = elsewhere(deployment, tmp_path)
    with pytest.raises(RestoreFailed, match=said):
        restore_backup(there, tmp_path / "backup")
    assert not there.data_dir.exists()


def test_a_damaged_or_missing_ledger_is_not_backed_up(deployment: Settings, tmp_path: Path):
    """A backup that could not be restored is not called one."""
    with closing(sqlite3.connect(deployment.ledger_path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = deployment.ledger_path.read_bytes()
    deployment.ledger_path.write_bytes(whole[:8192] + bytes(4096) + whole[12288:])
    with pytest.raises(BackupFailed):
        back_up(deployment, tmp_path / "backup")
    assert not (tmp_path / "backup" / SUMS).exists()
    with pytest.raises(BackupFailed, match="there is no ledger; --data-dir"):
        back_up(elsewhere(deployment, tmp_path), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_ledger_whose_indexes_say_something_else_is_not_backed_up(deployment: Settings, tmp_path: Path):
    """It is read without an error, and would give wrong answers: the check of the copy finds it."""
    with closing(sqlite3.connect(deployment.ledger_path, isolation_level=None)) as connection:
        named = "name IN ('events_of_players', 'events_of_submission')"
        indexes = connection.execute(f"SELECT name, rootpage FROM sqlite_schema WHERE {named}").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("BEGIN")
        for (name, _), (_, root) in zip(indexes, indexes[::-1], strict=True):
            connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, name))
        connection.execute("COMMIT")
    with pytest.raises(BackupFailed, match="the ledger is damaged"):
        back_up(deployment, tmp_path / "backup")
    assert not (tmp_path / "backup" / SUMS).exists()


def test_a_ledger_on_a_database_server_is_left_to_its_own_tools(settings: Settings, tmp_path: Path):
    """The error says what to read."""
    url = "postgresql://ada:secret@localhost:5432/scoregate"
    settings = Settings(data_dir=settings.data_dir, policies_dir=settings.policies_dir, ledger_url=url)
    with pytest.raises(ScoregateError, match=r"backup-and-restore\.md"):
        back_up(settings, tmp_path / "backup")
