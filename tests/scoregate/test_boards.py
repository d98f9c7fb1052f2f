"""`scoregate board`: what it prints and the status it ends with."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.catalogue.family_terms import terms_of
from gateway.catalogue.rules_in_force import rule_in_force
from gateway.deployment import run_files
from gateway.index import keys
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.derived.folded_rules import BegunFold, end_fold, noted_rules
from gateway.runtime.clock import wall_clock
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.index.check import IndexReport
from gateway.wiring import load_policies, open_index, open_ledger
from policies import loader
from policies.errors import IndexUnavailable, LedgerUnavailable, RebuildRefused, SettingsError
from policies.opened_board import OpenedBoard
from policies.vocabulary import Reason, State
from scoregate.cli import app
from scoregate.commands.boards import _as_json
from tests.support import boards
from tests.support.ledger import new_submission
from tests.support.valkey import ValkeyServer

ALLTIME = "lb:{201}:tiny:alltime"


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A deployment by its environment, with a board of three players and one without any."""
    for board in ("tiny", "other"):
        boards.write_board(tmp_path / "policies", board)
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(tmp_path / "policies"))
    monkeypatch.setenv("SCOREGATE_REDIS_URL", valkey.url)
    monkeypatch.setattr("gateway.steward.index.check.IN_FLIGHT_S", 0)
    asyncio.run(fill(Settings()))
    return tmp_path


async def fill(settings: Settings) -> None:
    known = load_policies(settings)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        for at, player in enumerate(("ada", "bob", "cy"), start=1):
            new = new_submission(f"run-{player}", player=player, score=at)
            await ledger.append(new)
            at_ms = new.submission.received_at_ms
            pending = frozenset({State.PENDING})
            decision = Decision(f"run-{player}", State.PROMOTED, "replay", Reason.VERIFIED, at_ms, pending)
            await settle(ledger, index, known["tiny"], [decision])


def board(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["board", *arguments])


def test_rebuild_ends_with_a_summary(house: Path, valkey: ValkeyServer):
    """One board by name, or all: a line for each with what was built and how fast; the boards are there again."""
    with valkey.client() as redis:
        before = redis.zrange(ALLTIME, 0, -1, withscores=True)
        redis.flushall()
        done = board("rebuild", "tiny")
        assert before == redis.zrange(ALLTIME, 0, -1, withscores=True)
        assert (0, 1) == (done.exit_code, done.output.strip().count("per second"))
        assert "tiny: rebuilt 3 standings, 5 baselines and 0 pending in" in done.output

        every = board("rebuild", "--all")
        assert (0, 2) == (every.exit_code, every.output.count(": rebuilt "))
        assert {"lb:{32}:other:whole", "lb:{201}:tiny:whole"} == set(redis.keys("*whole"))


@pytest.mark.parametrize("arguments", [[], ["tiny", "--all"]], ids=str)
def test_rebuild_wants_to_be_told_which(house: Path, arguments: list[str]):
    """Nothing named, and names beside --all, are refused: nobody rebuilds everything by a slip."""
    assert 2 == board("rebuild", *arguments).exit_code


def test_rebuild_is_refused_while_another_builds(house: Path, valkey: ValkeyServer):
    """The line says so, and for how long at most. Of all boards it is the only one that is passed over."""
    with valkey.client() as redis:
        redis.set("lb:{32}:other:building", "another", px=20_000)
        every = board("rebuild", "--all")
        assert (1, 1) == (every.exit_code, every.output.count("other is already being rebuilt"))
        assert "tiny: rebuilt 3 standings" in every.output
        redis.set("lb:{201}:tiny:building", "another", px=20_000)
        refused = board("rebuild", "tiny")
        assert isinstance(refused.exception, RebuildRefused)
        assert "tiny is already being rebuilt" in str(refused.exception)
        assert "another" == redis.get("lb:{201}:tiny:building")


def test_I26_check_ends_with_0_when_equal_and_1_when_not(house: Path, valkey: ValkeyServer):
    """Each difference is a line with its place and both sides; after --repair, which tells of it too, all is equal."""
    board("rebuild", "--all")
    equal = board("check")
    assert (0, 2) == (equal.exit_code, equal.output.count("the index is what the ledger says"))

    with valkey.client() as redis:
        redis.zadd(ALLTIME, {"0" * 22 + ":eve": -999})
    found = board("check", "tiny")
    assert (1, 0) == (found.exit_code, board("check", "other").exit_code)
    assert 1 == board("check", "tiny", "other").exit_code, "whichever of them it is"
    [line, verdict] = found.output.splitlines()
    assert line.startswith("forged-member: tiny alltime eve: the ledger has nothing, Redis has 0000")
    assert "tiny: 1 differences" == verdict

    repaired = board("check", "tiny", "--repair")
    assert (1, "tiny: 1 differences repaired; none is left") == (
        repaired.exit_code,
        repaired.output.splitlines()[-1],
    )
    assert 0 == board("check").exit_code


def test_check_goes_by_the_clock_of_the_deployment(
    house: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """A machine whose own clock is an hour behind takes nothing of what was settled just now for forged."""
    board("rebuild", "--all")
    with closing(sqlite3.connect(house / "data" / "ledger.sqlite3")) as ledger, valkey.client() as redis:
        [[submission]] = ledger.execute("SELECT submission_id FROM submissions WHERE board = 'tiny' LIMIT 1")
        redis.zadd("lb:{201}:tiny:settled", {submission: redis.time()[0] * 1000})
    monkeypatch.setattr("gateway.runtime.clock.wall_clock", lambda: wall_clock() - 3_600_000)
    checked = board("check", "tiny")
    assert (0, True) == (checked.exit_code, "the index is what the ledger says" in checked.output)


def test_check_goes_on_to_other_boards_beside_what_it_cannot_read(house: Path, valkey: ValkeyServer):
    """A board of which a part is unreadable ends it with an error, once all boards are printed."""
    boards.write_board(house / "policies", "other", exact_ranks=10)
    board("rebuild", "--all")
    with valkey.client() as redis:
        redis.set(ALLTIME.replace("{201}:tiny", "{32}:other"), "of another type")
        redis.zadd(ALLTIME, {"0" * 22 + ":eve": -999})
    for programs in (board("check", "--json"), board("check", "--json", "tiny", "other")):
        assert isinstance(programs.exception, IndexUnavailable), "a program is not told that all is well"
        assert {"other", "tiny"} == {json.loads(line)["board"] for line in programs.stdout.splitlines()}
    found = board("check")
    assert isinstance(found.exception, IndexUnavailable)
    assert "forged-key: other lb:{32}:other:alltime" in found.output
    assert "other: 1 differences, and a part that cannot be compared: Redis: " in found.output
    assert "tiny: 1 differences\n" in found.output
    repaired = board("check", "--repair")
    assert "other: 1 differences repaired; none is left" in repaired.output
    assert (1, 0) == (repaired.exit_code, board("check").exit_code)


def test_check_speaks_to_machines(house: Path, valkey: ValkeyServer):
    """A line of JSON for each board, whatever was put into Redis."""
    board("rebuild", "--all")
    with valkey.client() as redis:
        redis.zadd("lb:{201}:tiny:pending", {b"\xff[bold]\n": 1})
    found = board("check", "--json")
    assert 1 == found.exit_code
    other, tiny = map(json.loads, found.stdout.splitlines())
    assert {"board": "other", "differences": [], "is_complete": True, "is_repaired": False} == other
    [difference] = tiny["differences"]
    assert ("forged-pending", "\\xff[bold]\\n") == (difference["kind"], difference["submission"])
    assert {"board", "kind", "window", "player", "submission", "key", "ledger", "index"} == set(difference)


@pytest.mark.parametrize(
    ("left", "failure", "is_repaired"),
    [(0, None, True), (1, None, False), (0, IndexUnavailable(), False)],
)
def test_programs_are_told_of_a_repair_only_where_all_is_equal(
    left: int, failure: IndexUnavailable | None, is_repaired: bool
):
    """What comes up again, or cannot be compared, is not repaired."""
    report = IndexReport((), is_complete=True, left=left, failure=failure)
    assert is_repaired == json.loads(_as_json("tiny", report, is_repaired=True))["is_repaired"]


def test_notes_of_another_users_parts_are_in_no_commands_way(house: Path, monkeypatch: pytest.MonkeyPatch):
    """The Redis of the deployment is configured, so that nothing has to be known of the parts here."""

    def unreadable(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_files, "running_parts", unreadable)
    for words in (("rebuild", "--all"), ("check",)):
        done = board(*words)
        assert (0, "") == (done.exit_code, done.stderr), done.exception


@pytest.mark.parametrize("command", ["rebuild", "check", "refold"])
def test_what_cannot_be_done_is_an_error(house: Path, command: str, monkeypatch: pytest.MonkeyPatch):
    """An unknown board, no Redis, no ledger: each the error that the command line ends with 2 for, as one line."""
    assert isinstance(board(command, "nowhere").exception, SettingsError)
    monkeypatch.setenv("SCOREGATE_LEDGER_URL", f"sqlite:///{house}")
    assert isinstance(board(command, "tiny").exception, LedgerUnavailable)
    monkeypatch.delenv("SCOREGATE_LEDGER_URL")
    monkeypatch.setenv("SCOREGATE_REDIS_URL", f"unix://{house}/nothing.sock")
    assert isinstance(board(command, "tiny").exception, IndexUnavailable)


def test_refold_brings_standings_to_a_changed_policy(house: Path, valkey: ValkeyServer):
    """Says how many standings changed, rebuilds the board in the new order, and leaves its note to a steward."""
    asyncio.run(note_as_folded(Settings(), "tiny"))
    boards.write_board(house / "policies", "tiny", order="ascending", operator="latest")
    done = board("refold", "tiny")
    assert 0 == done.exit_code
    assert "tiny: looked at 3 players, changed 3 standings" in done.output
    with valkey.client() as redis:
        assert [1.0, 2.0, 3.0] == [score for _, score in redis.zrange(ALLTIME, 0, -1, withscores=True)]
    assert asyncio.run(notes(Settings()))["tiny"] < 0


async def note_as_folded(settings: Settings, name: str) -> None:
    """As a steward does with these policies."""
    rule = rule_in_force(loader.load_policies(settings.policies_dir), name)
    assert rule
    async with open_ledger(settings) as ledger:
        assert await ledger.write(end_fold(BegunFold(rule, None)))


async def notes(settings: Settings) -> Mapping[str, int]:
    async with open_ledger(settings) as ledger:
        return (await ledger.read(noted_rules())).numbers


async def fill_family(settings: Settings) -> None:
    """Open two boards of a family, and let one have an entry."""
    family = loader.load_policies(settings.policies_dir).families["track"]
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        opened = [OpenedBoard(f"track.{name}", "track", name) for name in ("spa", "unused")]
        await ledger.write(open_boards(terms_of(family), opened, actor="server:eu", at_ms=1))
        new = new_submission("run-dee", board="track.spa", player="dee", score=7)
        await ledger.append(new)
        at_ms, pending = new.submission.received_at_ms, frozenset({State.PENDING})
        decision = Decision("run-dee", State.PROMOTED, "replay", Reason.VERIFIED, at_ms, pending)
        await settle(ledger, index, family.board(opened[0]), [decision])


def test_all_boards_are_also_those_of_families_that_have_entries(house: Path, valkey: ValkeyServer):
    """Each is compared and built anew with those of files; a board that nobody played is not."""
    file = boards.write_board(house / "policies", "track")
    policy = json.loads(file.read_text())
    file.write_text(json.dumps({"family": policy.pop("board")} | policy))
    asyncio.run(fill_family(Settings()))
    assert 0 == board("rebuild", "track.spa").exit_code
    with valkey.client() as redis:
        redis.zadd(f"lb:{{{lane_of('track.spa')}}}:track.spa:alltime", {"forged": 1})
        checked = board("check")
        assert 1 == checked.exit_code
        assert "track.spa: 1 differences" in checked.output
        assert "track.unused" not in checked.output
        every = board("rebuild", "--all")
        assert (0, 3) == (every.exit_code, every.output.count(": rebuilt "))
        assert 0 == board("check").exit_code


def test_a_cold_board_is_built_if_it_is_named(house: Path, valkey: ValkeyServer):
    """Of all boards it is passed over, since nobody asks for it; an operator who names it does."""
    file = boards.write_board(house / "policies", "track")
    policy = json.loads(file.read_text())
    file.write_text(json.dumps({"family": policy.pop("board")} | policy))
    asyncio.run(fill_family(Settings()))
    with valkey.client() as redis:
        redis.delete(keys.sentinel("track.spa"))
        redis.hset(keys.cold("track.spa"), "*", 1)
        every = board("rebuild", "--all")
        assert (0, False) == (every.exit_code, "track.spa" in every.output)
        assert not redis.exists(keys.sentinel("track.spa"))
        named = board("rebuild", "track.spa")
        assert (0, True) == (named.exit_code, "track.spa: rebuilt" in named.output)
        assert redis.exists(keys.sentinel("track.spa"))
