"""Recordings that replay to the score they claim, and were stolen, made by a program, or played in slow motion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.ledger.judgement import bands
from gateway.ledger.queries import submission
from gateway.ledger.records import StoredRecording
from gateway.recordings.recordings import Recordings
from gateway.runtime.settings import Settings
from policies.errors import RecordingsUnavailable
from policies.seeds import board_seed
from replay.simulators.sandbox import Sandbox
from tests.replay.forensics import players
from tests.replay.forensics.players import Words
from tests.replay.games import END, GAME, play, store
from tests.support.boards import CHECKPOINT_TICKS, claim_of, write_board
from tests.support.game import BUILD
from tests.support.harness import Harness, Run, free_port, running_harness
from tests.support.valkey import ValkeyServer

NO_CHECKPOINTS = 100_000
"""Ticks between checkpoints: a game without any, and whose score its seed does not change, replays whoever sends it."""

FLAGS = dict.fromkeys(("recording_reuse", "timing", "input_rate", "slow_motion_inputs", "similarity"), "flag")


def write_boards(folder: Path) -> Path:
    """Boards of a game that ignores its seed.

    What is found is flagged, or recorded as by default; sums count; or what changes little is spared.
    """
    folder.mkdir()
    common: dict[str, Any] = {
        "builds": {BUILD: {"simulator": str(store(folder, GAME).path)}},
        "replay": {
            "maximum_ticks": 20_000,
            "checkpoint_ticks": NO_CHECKPOINTS,
            "stats": ["scoring_ticks", "largest_word"],
        },
    }
    write_board(folder, "strict", validators=FLAGS, **common)
    write_board(folder, "shadow", **common)
    lasting = {
        "stats": common["replay"]["stats"],
        "maximum_ticks": 20_000,
        "checkpoint_ticks": CHECKPOINT_TICKS,
    }
    write_board(folder, "course", validators=FLAGS, seed="board", **common | {"replay": lasting})
    write_board(folder, "farm", validators=FLAGS, operator="sum", **common)
    spares_all = {"top": 1, "beats_best_by": 1_000_000, "share": 0.0}
    write_board(folder, "spared", validators={"similarity": "flag"}, verification=spares_all, **common)
    return folder


@pytest.fixture
async def harness(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Harness]:
    policies, bind = write_boards(tmp_path / "policies"), f"127.0.0.1:{free_port()}"
    settings = Settings(data_dir=tmp_path / "data", policies_dir=policies, redis_url=valkey.url, bind=bind)
    async with running_harness(settings) as running:
        yield running


async def judged(
    harness: Harness,
    sandbox: Sandbox,
    words: Words,
    *,
    board: str = "strict",
    token: str | None = None,
    slowness: float = 1.0,
) -> tuple[Run, list[dict[str, Any]]]:
    """A run with these inputs, sent and verified, and all that moderators see of what was found."""
    run = await sent(harness, words, board=board, token=token, slowness=slowness)
    assert 1 == await harness.verify(run.id, sandbox=sandbox)
    return run, await found_in(harness, run)


async def sent(
    harness: Harness, words: Words, *, board: str = "strict", token: str | None = None, slowness: float = 1.0
) -> Run:
    """A run with these inputs that waits for its verdict."""
    run = await harness.open_run(token, board)
    claim = claim_of(play([*words.tolist(), END], 0, NO_CHECKPOINTS))
    harness.clock.shift(claim["ticks"] / 60 * slowness)
    assert 202 == (await harness.submit(run, claim, board=board)).status
    return run


async def found_in(harness: Harness, run: Run) -> list[dict[str, Any]]:
    """All that moderators see of what was found."""
    case = await harness.get(f"/v1/moderation/cases/{run.id}", harness.moderator())
    findings: list[dict[str, Any]] = case.body["submission"]["findings"]
    return findings


async def states(harness: Harness, *runs: Run) -> list[str | None]:
    return [await harness.state_of(run.id) for run in runs]


def mutated(words: Words, seed: int = 1) -> Words:
    """Moved by a tick, some presses moved or taken out, and a button pressed that the game does not know."""
    return players.with_noise(players.edited(players.moved(words, 1), seed, 0.05), seed, bit=20, times=30)


async def test_P02_a_mutated_copy_of_anothers_recording_is_held_and_names_it(
    harness: Harness, sandbox: Sandbox
):
    """Where the replay cannot tell, the likeness does: in the held list and the case, with the other submission."""
    original, nothing = await judged(harness, sandbox, players.honest(1))
    thief, findings = await judged(harness, sandbox, mutated(players.honest(1)))
    other, nothing_either = await judged(harness, sandbox, players.honest(2))

    assert ["promoted", "held", "promoted"] == await states(harness, original, thief, other)
    assert [] == nothing == nothing_either
    [finding] = findings
    assert ("similarity", "recording-similar", "flag") == (
        finding["validator"],
        finding["reason"],
        finding["severity"],
    )
    assert [original.id] == finding["others"]
    assert finding["value"] > finding["expected"]["at_most"]
    held = await harness.get("/v1/moderation/queue?board=strict", harness.moderator())
    assert [(thief.id, [finding])] == [(each["submission"], each["findings"]) for each in held.body["cases"]]
    told = await harness.get(f"/v1/submissions/{thief.id}", thief.token)
    assert ("held", "review") == (told.body["state"], told.body["reason"])
    assert original.id.encode() not in told.raw


async def test_P02_a_finding_says_who_was_first(harness: Harness, sandbox: Sandbox):
    """A likeness is found in what is looked at later; which of the two was received first is a number beside it."""
    original = await sent(harness, players.honest(1))
    thief = await sent(harness, mutated(players.honest(1)))
    await harness.verify(thief.id, sandbox=sandbox)
    await harness.verify(original.id, sandbox=sandbox)
    copy = await sent(harness, players.moved(players.honest(1), 2))
    await harness.verify(copy.id, sandbox=sandbox)

    assert [] == await found_in(harness, thief)
    [[blamed], [later]] = [await found_in(harness, run) for run in (original, copy)]
    assert ([thief.id], 0) == (blamed["others"], blamed["detail"]["received_before"])
    assert ({thief.id, original.id}, 2) == (set(later["others"]), later["detail"]["received_before"])


async def test_P02_an_original_that_is_away_hides_no_copy(
    harness: Harness, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """While the store does not answer there is no verdict on what is like it; then there is one."""
    original, _ = await judged(harness, sandbox, players.honest(1))
    digest = (await harness.edge.ledger.read(submission(original.id))).recording_digest
    load = Recordings.load

    async def away(recordings: Recordings, stored: StoredRecording) -> bytes:
        if stored.digest == digest:
            raise RecordingsUnavailable("away")
        return await load(recordings, stored)

    monkeypatch.setattr(Recordings, "load", away)
    thief = await sent(harness, mutated(players.honest(1)))
    await harness.verify(thief.id, sandbox=sandbox)
    assert "pending" == await harness.state_of(thief.id)

    monkeypatch.undo()
    harness.clock.shift(3_600)
    await harness.verify(thief.id, sandbox=sandbox)
    assert "held" == await harness.state_of(thief.id)
    assert [[original.id]] == [each["others"] for each in await found_in(harness, thief)]


async def test_what_is_too_little_to_be_like_another_has_no_others_loaded(
    harness: Harness, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """The very same short recording names who sent it by its digest: each is loaded once, for its own verdict."""
    loads: list[bytes] = []
    load = Recordings.load

    async def counted(recordings: Recordings, stored: StoredRecording) -> bytes:
        loads.append(stored.digest)
        return await load(recordings, stored)

    monkeypatch.setattr(Recordings, "load", counted)
    for _ in range(3):
        await judged(harness, sandbox, np.array([1, 0, 1, 2], np.uint32))
    assert 3 == len(loads)


async def test_P02_a_copy_of_what_was_spared_names_it(harness: Harness, sandbox: Sandbox):
    """A run that counts without a replay is in the index of recordings all the same: a verified copy finds it."""
    await judged(harness, sandbox, np.ones(5_000, np.uint32), board="spared")
    token = await harness.new_player()
    await judged(harness, sandbox, np.array([1, 0], np.uint32), board="spared", token=token)
    original, _ = await judged(harness, sandbox, players.honest(1), board="spared", token=token)
    assert "sampled" == (await harness.edge.ledger.read(submission(original.id))).reason.value

    thief, findings = await judged(harness, sandbox, mutated(players.honest(1)), board="spared")
    assert "held" == await harness.state_of(thief.id)
    assert [original.id] in [each["others"] for each in findings]


async def test_P01_the_very_same_recording_names_all_who_sent_it(harness: Harness, sandbox: Sandbox):
    """However short: without enough in it to be like another, it can still be the same."""
    runs = [await judged(harness, sandbox, np.array([1, 0, 1, 2], np.uint32)) for _ in range(3)]

    assert ["promoted", "held", "held"] == await states(harness, *(run for run, _ in runs))
    assert [[], [(["recording-reused"], [runs[0][0].id])]] == [
        [([each["reason"] for each in found], found[0]["others"])] if found else [] for _, found in runs[:2]
    ]
    [finding] = runs[2][1]
    assert [runs[0][0].id, runs[1][0].id] == finding["others"]


async def test_P22_on_a_board_with_one_seed_a_stolen_recording_replays_and_is_held(
    harness: Harness, sandbox: Sandbox
):
    """Everyone plays the same course, so the replay tells no thief; the likeness to the original does."""
    own, changed = players.honest(1), mutated(players.honest(1))
    runs, seeds = [], []
    for words in (own, own, changed, players.honest(2)):
        run = await harness.open_run(board="course")
        seeds.append(int(run.info["seed"]))
        claim = claim_of(play([*words.tolist(), END], seeds[-1], CHECKPOINT_TICKS))
        harness.clock.shift(claim["ticks"] / 60)
        assert 202 == (await harness.submit(run, claim, board="course")).status
        assert 1 == await harness.verify(run.id, sandbox=sandbox)
        runs.append(run)

    assert [board_seed("", "course", bytes(32))] * 4 == seeds
    assert ["promoted", "held", "held", "promoted"] == await states(harness, *runs)
    copied, alike = [await found_in(harness, run) for run in runs[1:3]]
    assert {"recording-reused", "recording-similar"} == {finding["reason"] for finding in copied}
    assert ["recording-similar"] == [finding["reason"] for finding in alike]


async def test_P02_by_default_a_likeness_is_recorded_and_nothing_more(harness: Harness, sandbox: Sandbox):
    """In shadow mode the run counts; a moderator who looks at it sees what was found."""
    original, _ = await judged(harness, sandbox, players.honest(1), board="shadow")
    thief, findings = await judged(harness, sandbox, mutated(players.honest(1)), board="shadow")

    assert ["promoted", "promoted"] == await states(harness, original, thief)
    assert [("recording-similar", "note", [original.id])] == [
        (each["reason"], each["severity"], each["others"]) for each in findings
    ]


async def test_P02_ones_own_runs_are_compared_only_where_repeating_pays(harness: Harness, sandbox: Sandbox):
    """Who plays alike every time gains nothing on a board of bests, and on a board that sums would gain each time."""
    found = {}
    for board in ("strict", "farm"):
        token = await harness.new_player()
        for words in (players.honest(1), mutated(players.honest(1))):
            _, findings = await judged(harness, sandbox, words, board=board, token=token)
        found[board] = [each["reason"] for each in findings]

    assert {"strict": [], "farm": ["recording-similar"]} == found


async def test_P02_a_thiefs_own_copies_do_not_hide_whose_they_are(
    harness: Harness, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """However many of one's own are nearer: a copy of a copy is held against the original too."""
    monkeypatch.setattr(bands, "MOST_NEIGHBOURS", 1)
    original, _ = await judged(harness, sandbox, players.honest(1))
    token, copy = await harness.new_player(), mutated(players.honest(1))
    runs = [(await judged(harness, sandbox, each, token=token)) for each in (copy, players.moved(copy, 1))]

    assert ["held", "held"] == await states(harness, *(run for run, _ in runs))
    assert [[original.id]] * 2 == [each["others"] for _, findings in runs for each in findings]


async def test_P02_what_was_rejected_convicts_nobody(harness: Harness, sandbox: Sandbox):
    """A thief who was first, and claimed what the recording does not give, leaves the honest player alone."""
    run = await harness.open_run(board="strict")
    stolen = claim_of(play([*players.honest(1).tolist(), END], 0, NO_CHECKPOINTS))
    harness.clock.shift(stolen["ticks"] / 60)
    await harness.submit(run, stolen | {"score": stolen["score"] + 1}, board="strict")
    await harness.verify(run.id, sandbox=sandbox)
    honest, findings = await judged(harness, sandbox, players.honest(1))

    assert ["rejected", "promoted"] == await states(harness, run, honest)
    assert [] == findings


async def test_P16_a_program_without_jitter_is_held(harness: Harness, sandbox: Sandbox):
    """Its replay is right to the last tick; its presses are no hand's."""
    program, findings = await judged(harness, sandbox, players.metronome(1))
    hand, nothing = await judged(harness, sandbox, players.honest(1))

    assert ["held", "promoted"] == await states(harness, program, hand)
    assert {"inputs-even", "inputs-periodic"} == {each["reason"] for each in findings}
    assert {"timing"} == {each["validator"] for each in findings}
    assert [] == nothing


async def test_P15_slow_motion_is_held_and_not_rejected(harness: Harness, sandbox: Sandbox):
    """A quarter of the speed, for four times as long; who only took long before the first press is let be."""
    slowed, findings = await judged(harness, sandbox, players.slowed(1), slowness=4.1)
    late, nothing = await judged(harness, sandbox, players.honest(1), slowness=4.1)

    assert ["held", "promoted"] == await states(harness, slowed, late)
    assert {"inputs-dense", "inputs-slowed"} == {
        each["reason"] for each in findings if "inputs" in each["reason"]
    }
    assert [] == [each for each in nothing if "inputs" in each["reason"]]
