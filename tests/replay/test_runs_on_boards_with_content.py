"""From ticket to verdict on a board with parameters and an asset: a run counts by that content, or by none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.judgement import audits
from gateway.recordings.recording_store import ASSETS, kept_name
from gateway.runtime.settings import Settings
from policies.board import Board
from policies.loader import load_policies
from policies.opened_board import OpenedBoard
from replay.simulators.all_simulators import AllSimulators
from replay.worker.audit import Auditor
from replay.worker.reverification import Reverifier
from tests.replay.games import COURSES, STATS, store
from tests.support.boards import BUILD, claim_of, tiny_play, write_board
from tests.support.harness import Answer, Harness, Run, free_port, running_harness
from tests.support.ledger import rows
from tests.support.metrics import counts
from tests.support.valkey import ValkeyServer

BOARD = "track.monza"
PARAMETERS, MAP = b'{"gap":7}', b"a map of walls"
COURSE = OpenedBoard(BOARD, "track", "Monza", parameters=PARAMETERS, asset=hashlib.sha256(MAP).digest())
OTHER = replace(COURSE, parameters=b'{"a":8}')
PLAIN = replace(COURSE, parameters=b"", asset=None)


@pytest.fixture(scope="module")
def simulators() -> Iterator[AllSimulators]:
    """The real sandbox."""
    with AllSimulators() as opened:
        yield opened


@pytest.fixture
async def harness(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Harness]:
    """An edge with a family, whose simulator takes parameters and assets, and a board with both."""
    write_family(tmp_path / "policies")
    places: dict[str, Any] = {
        "data_dir": tmp_path / "data",
        "policies_dir": tmp_path / "policies",
        "bind": f"127.0.0.1:{free_port()}",
    }
    async with running_harness(Settings(redis_url=valkey.url, verify_attempts=2, **places)) as harness:
        harness.edge.recordings.assets.store(COURSE.asset or b"", MAP)
        terms = FamilyTerms("track", "sha256:track")
        await harness.edge.ledger.write(open_boards(terms, [COURSE], actor="ops", at_ms=harness.clock()))
        yield harness


def write_family(folder: Path, **changes: Any) -> None:
    """Write the policy of the family."""
    file = write_board(folder, "track", module=store(folder.parent, COURSES), **changes)
    policy = json.loads(file.read_text())
    file.write_text(json.dumps(policy | {"family": policy.pop("board")}))


def open_as(harness: Harness, opened: OpenedBoard) -> None:
    """Have the catalogue find the board opened otherwise, as if its name had been opened anew."""
    catalogue = harness.edge.catalogue

    async def found(names: Sequence[str]) -> Mapping[str, OpenedBoard]:
        return {name: opened for name in names if name == opened.board}

    catalogue._lookup = found
    catalogue.cache.drop(opened.board)


async def board_of(harness: Harness) -> Board:
    """The board as it is now."""
    board = await harness.edge.catalogue.board(BOARD)
    assert board is not None
    return board


def claim_on(course: OpenedBoard, run: Run, **changes: Any) -> dict[str, Any]:
    """An honest claim: the game's statistics are the first four bytes of the parameters and of the asset."""
    first = [int.from_bytes(content[:4], "little") for content in (course.parameters, MAP)]
    return claim_of(tiny_play(run.info["seed"])) | {"stats": dict(zip(STATS, first, strict=True))} | changes


async def open_run(harness: Harness) -> Run:
    """A run on the board as it is now."""
    token = await harness.new_player()
    answer = await harness.post(f"/v1/boards/{BOARD}/runs", {"build": BUILD}, token)
    assert 201 == answer.status, answer.raw
    return Run(answer.body, token)


async def submitted(harness: Harness, course: OpenedBoard = COURSE, **changes: Any) -> tuple[Run, Answer]:
    """A run on the board as it is now, submitted as it is then."""
    run = await open_run(harness)
    harness.clock.shift(1)
    return run, await harness.submit(run, claim_on(course, run, **changes), board=BOARD)


async def fate(harness: Harness, run: Run) -> str:
    """State and reason of a run."""
    stored = await harness.edge.ledger.read(queries.submission(run.id))
    assert stored is not None
    return f"{stored.state.value} {stored.reason.value}"


async def test_a_run_is_judged_with_what_its_ticket_bound(harness: Harness, simulators: AllSimulators):
    """The answer says what the board has, the ledger keeps the digest, and only a claim on that course is verified."""
    run, answer = await submitted(harness)
    assert ('{"gap":7}', f"sha256:{hashlib.sha256(MAP).hexdigest()}") == (
        run.info["parameters"],
        run.info["asset"],
    )
    other, _ = await submitted(harness, OTHER)
    assert (202, 2) == (answer.status, await harness.verify(run.id, other.id, sandbox=simulators))
    assert ["promoted verified", "rejected stats-mismatch"] == [
        await fate(harness, each) for each in (run, other)
    ]
    stored = await harness.edge.ledger.read(queries.submission(run.id))
    assert stored is not None
    assert COURSE.content_digest == stored.board_content


async def test_a_ticket_of_another_content_is_refused(harness: Harness):
    """A board that was opened anew takes no run of the earlier one, nor one of a board without content."""
    run = await open_run(harness)
    open_as(harness, PLAIN)
    plain = await open_run(harness)
    assert (None, None) == (plain.info["parameters"], plain.info["asset"])
    for opened, late in ((OTHER, run), (OTHER, plain), (PLAIN, run)):
        open_as(harness, opened)
        harness.clock.shift(1)
        answer = await harness.submit(late, claim_on(COURSE, late), board=BOARD)
        assert (403, "board-replaced") == (answer.status, answer.problem)
    assert 0 == len(rows(harness.edge.settings.ledger_path, "SELECT seq FROM submissions"))


async def test_a_run_of_before_is_never_judged_on_other_content(harness: Harness, simulators: AllSimulators):
    """Accepted before the name was opened anew, it waits for a moderator: nobody is called a cheat for it."""
    run, _ = await submitted(harness)
    open_as(harness, OTHER)
    assert 1 == await harness.verify(run.id, sandbox=simulators)
    assert "held board-replaced" == await fate(harness, run)


@pytest.mark.parametrize("damage", ["missing", "altered"])
async def test_a_lost_asset_is_tried_again_and_then_held(
    harness: Harness, simulators: AllSimulators, damage: str
):
    """The store has no such asset, or other bytes: no verdict; once it is back in time, the run counts."""
    path = harness.edge.settings.data_dir / "recordings" / ASSETS / kept_name(COURSE.asset or b"")
    runs = [(await submitted(harness))[0] for _ in range(2)]
    path.unlink() if damage == "missing" else path.write_bytes(b"a map without walls")
    await harness.verify(*(run.id for run in runs), sandbox=simulators)
    assert ["pending accepted"] * 2 == [await fate(harness, run) for run in runs]
    harness.clock.shift(3600)
    await harness.verify(runs[0].id, sandbox=simulators)
    assert "held asset-lost" == await fate(harness, runs[0])
    harness.edge.recordings.assets.store(COURSE.asset or b"", MAP)
    await harness.verify(runs[1].id, sandbox=simulators)
    assert "promoted verified" == await fate(harness, runs[1])


async def test_an_audit_and_a_reverification_play_with_the_content(
    harness: Harness, simulators: AllSimulators
):
    """Both agree with the verdict; without the content neither says that anything differs."""
    run, _ = await submitted(harness)
    await harness.verify(run.id, sandbox=simulators)
    edge = harness.edge
    board = await board_of(harness)
    parts: dict[str, Any] = {"recordings": edge.recordings, "clock": harness.clock}
    plan = await _reverify(harness, board, simulators)
    assert (1, [], []) == (plan.looked_at, plan.to_revoke, plan.inconclusive)
    for opened, outcome in ((COURSE, "agrees"), (OTHER, "unable")):
        open_as(harness, opened)
        auditor = Auditor(edge.settings, edge.catalogue, edge.ledger, AllSimulators, **parts)
        [stored] = [await edge.ledger.read(queries.submission(run.id))]
        assert stored is not None
        draw = await edge.ledger.read(audits.draw_of(BOARD))
        some = [audits.VerifiedSubmission(stored.seq, run.id, stored.player)]
        await edge.ledger.write(audits.note(draw, some, is_last=True, now_ms=harness.clock()))
        with counts(1, "scoregate_audits_total", board="track", outcome=outcome):
            assert 1 == await auditor.audit_all([run.id])
    plan = await _reverify(harness, await board_of(harness), simulators)
    assert (1, [], 1) == (plan.looked_at, plan.to_revoke, len(plan.inconclusive))


async def _reverify(harness: Harness, board: Board, simulators: AllSimulators) -> Any:
    parts: dict[str, Any] = {"clock": harness.clock, "tell": lambda _: None}
    edge = harness.edge
    reverifier = Reverifier(board, edge.ledger, edge.recordings, **parts)
    return await reverifier.plan(BUILD, board.simulators[BUILD], simulators)


async def test_a_board_with_a_seed_gives_it_to_every_run(
    harness: Harness, simulators: AllSimulators, tmp_path: Path
):
    """Everybody plays the same course, which another content of the board changes."""
    modes = {"similarity": "flag", "recording_reuse": "flag"}
    write_family(tmp_path / "policies", seed="board", validators=modes)
    harness.edge.catalogue.replace(load_policies(tmp_path / "policies"))
    board = await board_of(harness)
    runs = [(await submitted(harness))[0], await open_run(harness)]
    assert [str(board.seed)] * 2 == [run.info["seed"] for run in runs]
    await harness.verify(runs[0].id, sandbox=simulators)
    assert "promoted verified" == await fate(harness, runs[0])
    open_as(harness, OTHER)
    assert runs[0].info["seed"] != (await open_run(harness)).info["seed"]
