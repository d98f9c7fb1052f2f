"""`scoregate status`: what people see of a deployment on a terminal, and what programs read."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gateway.deployment.presence import PartKind, PartReport
from gateway.deployment.reload_answers import ReloadAnswer
from gateway.deployment.run_files import PartFile, RunningPart, without_credentials
from gateway.ledger.submissions import waiting as waiting_work
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from scoregate import deployment_status, embedded
from scoregate.commands import status
from scoregate.deployment_status import STATED, DeploymentStatus
from tests.support import preloaded
from tests.support.deployment import Deployment, client_of, deployed, ended, eventually
from tests.support.ledger import new_submission, opened
from tests.support.ports import unserved_port
from tests.support.valkey import ValkeyServer, running_valkey

WIDTH = 80
PARTS = ["edge", "steward", "worker"]


def told(deployment: Deployment, *words: str, **changed: str) -> Any:
    """A finished call of the command beside a deployment."""
    settings = {name: str(value) for name, value in (deployment.settings | changed).items()}
    environment = {f"SCOREGATE_{name.upper()}": value for name, value in settings.items()}
    return preloaded.finished(("status", *words), os.environ | environment)


def rows_of(deployment: Deployment) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told(deployment, "--json").stdout.splitlines()]


def waiting(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["work"]: row["waiting"] for row in rows if "work" in row}


async def test_PT_the_status_says_who_has_what_and_what_waits(tmp_path: Path):
    """A steward has all lanes, and what it did waits no more; once it has ended, all lanes wait for another."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        house.start("serve")
        await house.is_answering()
        async with client_of(house) as client:
            await client.submitted()
        before = rows_of(house)
        assert ["edge"] == [row["part"] for row in before if "part" in row]
        assert [*STATED] == [row["work"] for row in before if "work" in row]
        assert (1, 0) == (waiting(before)["verify"], waiting(before)["verify-urgent"])
        assert [True] == [bool(row["oldest"]) for row in before if row.get("work") == "verify"]

        with valkey.client() as client:
            client.hset("scoregate:layout", "removed", 1_234)
            client.set("lb:{arcade}:whole", "1")
        assert "removed from Redis: 1234 so far" in told(house).stderr

        steward = house.start("steward")
        house.start("worker")
        await eventually(lambda: is_at_rest(rows_of(house)) and is_upgraded(valkey), house.log)
        rows = {row["part"]: row for row in rows_of(house) if "part" in row}
        assert PARTS == sorted(rows)
        assert [None, 256, None] == [rows[part]["lanes"] for part in PARTS]
        assert ([], []) == (rows["edge"]["duties"], rows["edge"]["failing"])
        assert {"seals", "dispatch"} < set(rows["steward"]["duties"])

        plain = told(house)
        heads = [line.split() for line in plain.stdout.splitlines() if line.isupper()]
        assert [[name.upper() for name in status.PART_COLUMNS], ["WORK", "WAITING", "OLDEST"]] == heads
        assert (0, "") == (plain.returncode, plain.stderr)

        steward.terminate()
        assert 0 == await ended(steward)
        left = waiting(rows_of(house))
        assert (256, True) == (left["lanes-unowned"], left["duties-unowned"] > 0)

        valkey.kill()
        away = told(house)
        assert 0 == away.returncode
        assert "only this machine's parts are known" in away.stderr
        assert ["edge", "worker"] == [line.split()[0] for line in away.stdout.splitlines()[1:3]]


def is_at_rest(rows: list[dict[str, Any]]) -> bool:
    """Tell whether all parts have said what they have, and nothing waits but for its seal."""
    stewards = [row for row in rows if row.get("part") == "steward"]
    is_known = all(row["lanes"] == 256 for row in stewards) and sum("part" in row for row in rows) == 3
    left = {work for work, count in waiting(rows).items() if count}
    return bool(stewards) and is_known and left <= {"seal"}


def is_upgraded(valkey: ValkeyServer) -> bool:
    """Tell whether a steward has found that no key of an earlier version is left."""
    with valkey.client() as client:
        return client.hgetall("scoregate:layout") == {"is": "lanes", "removed": "1235"}


def told_elsewhere(deployment: Deployment, *words: str, **other: str) -> Any:
    """A finished call in a shell that knows the data directory, and `other` settings."""
    shell = {name: value for name, value in os.environ.items() if not name.startswith("SCOREGATE_")}
    known = {"data_dir": str(deployment.settings["data_dir"])} | other
    return preloaded.finished(
        ("status", *words), shell | {f"SCOREGATE_{name.upper()}": value for name, value in known.items()}
    )


async def test_the_status_asks_the_redis_that_the_parts_here_use(tmp_path: Path):
    """In a shell without the address, also beside an old Valkey of `up`; one with another is told of both."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house, unserved_port() as port:
        house.start("serve")
        await house.is_answering()
        other = f"redis://127.0.0.1:{port}/0"
        note = tmp_path / "data" / "valkey" / "address"
        note.parent.mkdir()
        note.write_text(f"{other}\n")

        def is_known() -> bool:
            edge = told_elsewhere(house, "--json")
            return "" == edge.stderr and bool(json.loads(edge.stdout.splitlines()[0])["version"])

        await eventually(is_known, house.log)
        wrong = told_elsewhere(house, redis_url=other)
        assert f"the parts here use {valkey.url}, and {other} is asked\n" in wrong.stderr
        assert "only this machine's parts are known" in wrong.stderr


@pytest.mark.parametrize(
    ("url", "noted"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
        ("rediss://ada:secret@host:6379/0", "rediss://***@host:6379/0"),
        ("redis+cluster://:secret@a:1,b:2", "redis+cluster://***@a:1,b:2"),
        ("redis://host/0?password=secret", "redis://host/0?password=***"),
        ("unix://ada:secret@/run/valkey.sock?db=1", "unix://***@/run/valkey.sock?db=1"),
    ],
)
def test_a_note_of_a_redis_has_no_credentials(url: str, noted: str):
    """What a part uses can be told to whoever reads its file, and its password cannot."""
    assert noted == without_credentials(url)


def test_parts_that_differ_and_passwords_leave_the_address_to_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A command asks no Redis by half an address, nor one of two; it uses the one that all parts here use."""
    monkeypatch.delenv("SCOREGATE_REDIS_URL", raising=False)
    settings = Settings(data_dir=tmp_path)
    for used, expected in (
        (["redis://a:1/0", None, "redis://a:1/0"], "redis://a:1/0"),
        (["redis://a:1/0", "redis://b:1/0"], settings.redis_url),
        (["redis://***@a:1/0"], settings.redis_url),
    ):
        parts = [RunningPart("edge", 1, 0, tmp_path / "none", url) for url in used]
        monkeypatch.setattr(embedded, "running_parts", lambda _, parts=parts: parts)
        found = embedded.with_noted_redis(settings)
        assert (expected, expected != settings.redis_url) == (
            found.redis_url,
            "redis_url" in found.model_fields_set,
        )


async def test_PT_nothing_runs_and_nothing_is_made(tmp_path: Path):
    """Without a deployment the status is 1, and no ledger or folder is there afterwards."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        nothing = told(house)
        assert (1, 1) == (nothing.returncode, len(nothing.stdout.splitlines()))
        assert nothing.stderr.startswith(f"no part of the deployment in {house.folder / 'data'} runs; ")
        assert not house.ledger.exists()
        for_programs = told(house, "--json")
        assert (1, "", nothing.stderr) == (for_programs.returncode, for_programs.stdout, for_programs.stderr)


async def test_PT_a_look_does_not_upgrade_the_ledger_of_older_parts(tmp_path: Path):
    """The parts that run would not understand it any more: what waits is left out, and the reason is told."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        edge = house.start("serve")
        await house.is_answering()
        with closing(sqlite3.connect(house.ledger)) as ledger, ledger:
            ledger.execute("UPDATE alembic_version SET version_num = '0002'")
        older = told(house)
        assert "the ledger has schema version 0002, this scoregate" in older.stderr
        assert "WORK" not in older.stdout
        with closing(sqlite3.connect(house.ledger)) as ledger:
            assert [("0002",)] == ledger.execute("SELECT version_num FROM alembic_version").fetchall()
        edge.terminate()
        assert 0 == await ended(edge)


async def test_PT_a_ledger_that_is_away_hides_no_part(tmp_path: Path):
    """A database that does not answer is a sentence; the parts are listed all the same."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house, unserved_port() as port:
        house.start("serve")
        await house.is_answering()
        await eventually(lambda: len(rows_of(house)) > len(STATED), house.log)
        away = told(house, ledger_url=f"postgresql://nobody@127.0.0.1:{port}/none")
        assert "what waits is not known" in away.stderr
        assert (0, "edge") == (away.returncode, away.stdout.splitlines()[1].split()[0])


def part(kind: PartKind, pid: int = 4_194_304, **facts: Any) -> dict[str, Any]:
    """A row of the table, with what takes the most room."""
    return {
        "part": kind.value,
        "pid": pid,
        "host": "a-machine-with-a-long-name.example.internal",
        "since": rfc3339(wall_clock() - 7_384_000),
        "version": "0.1.0",
        "policies": "2937fdd196e9dbbb",
        "lanes": None,
        "is_starting": False,
        "duties": (),
        "failing": (),
    } | facts


def drawn(*parts: dict[str, Any], work: list[dict[str, Any]] | None = None) -> str:
    screen = Console(width=WIDTH, force_terminal=True, color_system=None, record=True)
    with screen.capture() as captured:
        status._show_on(screen, DeploymentStatus(parts, work or [], []))
    return captured.get()


def test_PT_the_table_fits_a_terminal():
    """However much a part has or lacks: 80 columns, and every word of it is there."""
    duties = ("seals", "dispatch", "projection", "derivations", "deliveries", "agenda", "collecting")
    failing = ("audit:arcade", "anchors:a-board-with-a-long-name")
    steward = part(PartKind.STEWARD, lanes=256, duties=duties, failing=failing)
    shown = drawn(part(PartKind.EDGE), steward)
    assert WIDTH >= max(map(len, shown.splitlines()))
    words = "".join(shown.split())
    assert all(name in words.replace("-", "") for name in duties)
    assert "2h3min" in words
    assert "policies2937fdd1" in words
    assert 1 == shown.count("a-machine-with-a-long-name")


def reported(kind: PartKind, age_ms: int, lanes: int = 0) -> dict[str, Any]:
    """A part as another machine hears of it, begun so long ago."""
    facts: dict[str, Any] = {"kind": kind, "policies": "0" * 16, "since_ms": wall_clock() - age_ms}
    return dict(deployment_status._row(PartReport(lanes=lanes, **facts)))


def test_NR_a_steward_without_lanes_is_starting_only_at_first():
    """It has none for some seconds, which is no fault yet. Later, none is none; other parts never have any."""
    late_ms = deployment_status.STARTING_MS
    rows = [
        reported(PartKind.STEWARD, 1_000),
        reported(PartKind.STEWARD, 1_000, lanes=128),
        reported(PartKind.STEWARD, late_ms),
        reported(PartKind.EDGE, 1_000),
    ]
    assert [(None, True), (128, False), (0, False), (None, False)] == [
        (row["lanes"], row["is_starting"]) for row in rows
    ]
    lines = [line.split() for line in drawn(*(row | {"pid": at} for at, row in enumerate(rows))).splitlines()]
    cells = {line[1]: line[3:] for line in lines if line and line[0] in PARTS}
    assert {"0": ["s", "starting"], "1": ["s", "128"], "3": ["s"]} == {at: cells[at] for at in "013"}
    assert "0" == cells["2"][-1]


def test_NR_what_a_part_has_noted_is_newer_than_its_report(tmp_path: Path):
    """Right after a reload its report has the policies of before, for two seconds. Without a report it is listed too."""
    local = RunningPart("edge", 11, 0, tmp_path / "edge-11")
    before = PartReport(kind=PartKind.EDGE, policies="a" * 16, since_ms=0)
    rows = [deployment_status._local_row(local, before), deployment_status._local_row(local, None)]
    answer = ReloadAnswer(began_ns=1, policies="b" * 16)
    PartFile("edge", local.path).put_note(answer.model_dump_json().encode())
    rows += [deployment_status._local_row(local, before), deployment_status._local_row(local, None)]
    assert ["a" * 16, None, "b" * 16, "b" * 16] == [row["policies"] for row in rows]
    assert {("edge", rfc3339(0))} == {(row["part"], row["since"]) for row in rows}


def test_PT_what_the_parts_do_not_agree_on_is_a_column():
    """During an upgrade each part is shown with its version; what they share stays in the title."""
    shown = drawn(part(PartKind.EDGE), part(PartKind.EDGE, version="0.2.0"))
    assert WIDTH >= max(map(len, shown.splitlines()))
    title, *table = shown.splitlines()
    assert "version" not in title
    assert (1, 1) == tuple(sum(each in line for line in table) for each in ("0.1.0", "0.2.0"))


@pytest.mark.parametrize(
    ("name", "values", "troubles"),
    [
        ("version", ("0.1.0", "0.1.0", None), []),
        (
            "version",
            ("0.1.0", "0.2.0", None),
            ["the parts are of different versions; restart the older ones"],
        ),
        ("policies", ("a" * 16, "a" * 16, None), []),
        (
            "policies",
            ("a" * 16, "b" * 16, None),
            ["the parts go by different policies; see `scoregate reload`"],
        ),
    ],
)
def test_PT_parts_that_differ_are_told(name: str, values: tuple[str | None, ...], troubles: list[str]):
    """With what to do about it; what is not known of a part is no difference."""
    assert troubles == deployment_status._differences(
        [part(PartKind.EDGE, **{name: each}) for each in values]
    )


def test_PT_what_a_terminal_would_obey_is_not_drawn():
    """Anybody with access to Redis writes reports: no markup, no escape gets through."""
    shown = drawn(part(PartKind.STEWARD, failing=("\x1b[2Jgone", "[bold]loud")))
    assert "\x1b[2J" not in shown
    assert "[bold]" in shown.replace("\n", "")


def test_PT_a_number_that_may_be_larger_says_so():
    """With how long the oldest has waited, in whole units."""
    at = rfc3339(wall_clock() - 90_000)
    rows = [{"work": "verify", "waiting": 10_000, "or_more": True, "oldest": at}]
    assert "10000+ 1 min 30 s" in " ".join(drawn(part(PartKind.EDGE), work=rows).split())


async def test_PT_a_ledger_that_is_slow_hides_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What waits is not known then, which is said; whoever looks is not kept waiting."""

    @asynccontextmanager
    async def slow(_: Settings) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.delenv("SCOREGATE_REDIS_URL", raising=False)
    settings = Settings(data_dir=tmp_path)
    async with opened(settings.ledger_path):
        pass
    monkeypatch.setattr(deployment_status, "open_ledger", slow)
    monkeypatch.setattr(deployment_status, "LEDGER_S", 0.01)
    monkeypatch.setattr(
        deployment_status, "running_parts", lambda _: [RunningPart("edge", 1, 0, tmp_path / "none")]
    )
    found = await deployment_status.status_of(settings)
    assert ["edge"] == [row["part"] for row in found.parts]
    assert "what waits is not known: the ledger did not answer within 0.01 s" in found.troubles


async def test_PT_of_a_long_outbox_no_kind_is_known_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Only its oldest rows are counted: whatever waits behind them, there may be some of each kind."""
    settings = Settings(data_dir=tmp_path)
    async with opened(settings.ledger_path) as ledger:
        for name in ("a", "b"):
            await ledger.append(new_submission(name))
    whole, _ = await deployment_status._work(settings)
    monkeypatch.setattr(waiting_work, "ROWS_LIMIT", 1)
    cut, _ = await deployment_status._work(settings)
    outbox = {"verify-urgent", "verify", "show", "await-recording"}
    assert set() == {row["work"] for row in whole if row["or_more"]}
    assert outbox == {row["work"] for row in cut if row["or_more"]}
    assert {0} < {row["waiting"] for row in cut if row["or_more"]}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (3_600, "1 h"), (200_000, "2 d 7 h"), (-9, "0 s")]
)
def test_PT_times_are_told_as_people_do(seconds: int, text: str):
    """A clock that is behind makes nothing younger than now."""
    assert text == status._ago(rfc3339(wall_clock() - seconds * 1000 - 500))
