"""What a recording is held against: how many at most, whose, and that one which is gone hides no other."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.ledger.judgement.bands import Neighbour
from gateway.ledger.records import StoredRecording
from policies.errors import RecordingLost, RecordingsUnavailable
from policies.model import Policy
from replay.worker.evidence import (
    MOST_COMPARED,
    EvidenceCollector,
    RecordingEvidence,
    _comparable_of,
    _indexed_shingles,
    _with_candidates,
)
from tests.replay.games import END, play
from tests.support import boards


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return boards.board(tmp_path).policy


def recorded(seed: int) -> bytes:
    """A recording in which enough happens to be compared."""
    rng = random.Random(seed)
    words = [word for _ in range(100) for word in [rng.choice((2, 4, 6, 8))] * rng.randint(2, 6)]
    return play([*words, END], seed, boards.CHECKPOINT_TICKS).recording


def neighbour(number: int, **changed: Any) -> Neighbour:
    kept = StoredRecording(bytes(32), 5, str(number).encode())
    facts = {
        "submission_id": f"run-{number}",
        "seq": number,
        "player": f"player-{number}",
        "digest": bytes([number]) * 32,
        "recording": kept,
        "shared": 3,
    }
    return Neighbour(**(facts | changed))


def leased(**facts: Any) -> Any:
    found = {"player": "ada", "seq": 5, "recording_digest": bytes([5]) * 32} | facts
    return SimpleNamespace(submission=SimpleNamespace(**found))


def evidence_of(policy: Policy, number: int = 5) -> RecordingEvidence:
    recording = recorded(number)
    return RecordingEvidence(recording, _comparable_of(recording, policy))


def test_a_recording_is_held_against_a_few(policy: Policy):
    """The first of those that the ledger gives, which share most; each costs a load and some milliseconds."""
    found = _with_candidates(
        leased(), policy, evidence_of(policy), [neighbour(number) for number in range(1, 20)]
    )
    assert [f"run-{number}" for number in range(1, MOST_COMPARED + 1)] == [
        each.submission_id for each in found.candidates
    ]
    assert 4 == MOST_COMPARED


def test_a_recording_in_which_little_happens_is_held_against_none(policy: Policy):
    """It is as like another as any two short runs are: none is loaded, and the very same is found by its digest."""
    neighbours = [neighbour(1), neighbour(3, digest=bytes([5]) * 32)]
    count = evidence_of(policy).comparable.shingles.size  # type: ignore[union-attr]
    for minimum, compared in ((count, ["run-1", "run-3"]), (count + 1, [])):
        forensics = policy.forensics.model_copy(update={"minimum_shingles": minimum})
        short = policy.model_copy(update={"forensics": forensics})
        found = _with_candidates(leased(), short, evidence_of(policy), neighbours)
        assert compared == [each.submission_id for each in found.candidates]
        assert ("run-3",) == found.same
        assert bool(compared) is bool(_indexed_shingles(short, evidence_of(policy).comparable).size)
    without = _with_candidates(leased(), policy, RecordingEvidence(b"", None), neighbours)
    assert ((), ("run-3",)) == (without.candidates, without.same)


def test_what_is_the_very_same_and_what_came_before_are_told_apart(policy: Policy):
    """By the digest, and by the ledger's order; one's own runs and what is not kept are compared with nothing."""
    candidates = [
        neighbour(1, player="ada"),
        neighbour(2, recording=None),
        neighbour(3, digest=bytes([5]) * 32),
        neighbour(9),
    ]
    found = _with_candidates(leased(), policy, evidence_of(policy), candidates)
    assert (("run-3",), ["run-3", "run-9"], {"run-1", "run-2", "run-3"}) == (
        found.same,
        [each.submission_id for each in found.candidates],
        found.earlier,
    )


class Shelf:
    """Recordings by their bodies, of which some are not to be had."""

    def __init__(self, **failing: Exception) -> None:
        self.failing = failing

    async def load(self, kept: StoredRecording) -> bytes:
        name = (kept.body or b"").decode()
        if error := self.failing.get(f"n{name}"):
            raise error
        return b"no recording" if name == "4" else recorded(int(name))


async def test_P02_a_recording_that_is_lost_hides_no_other(policy: Policy):
    """P02: what is lost, or cannot be read as the board takes it, is left out; the others are compared."""
    collector: Any = EvidenceCollector(SimpleNamespace(), Shelf(n2=RecordingLost()))  # type: ignore[arg-type]
    asked = RecordingEvidence(candidates=tuple(neighbour(number) for number in (1, 2, 3, 4, 6)))
    found = await collector.with_compared(policy, asked)
    assert ["run-1", "run-3", "run-6"] == [name for name, _ in found.compared]
    assert [recorded(1), recorded(3), recorded(6)] == [each.recording for _, each in found.compared]


async def test_P02_the_very_same_recording_is_neither_loaded_nor_read_again(policy: Policy):
    """P02: its bytes are at hand, so it is compared even where the store has lost it, and with all it has."""
    shelf = Shelf(n1=RecordingsUnavailable(), n3=RecordingLost())
    collector: Any = EvidenceCollector(SimpleNamespace(), shelf)  # type: ignore[arg-type]
    own = evidence_of(policy)
    neighbours = tuple(neighbour(number) for number in (1, 3, 6))
    found = await collector.with_compared(
        policy, replace(own, same=("run-1", "run-3"), candidates=neighbours)
    )
    assert [("run-1", True), ("run-3", True), ("run-6", False)] == [
        (name, each is own.comparable) for name, each in found.compared
    ]


async def test_a_job_reads_each_recording_of_a_board_once(policy: Policy):
    """Copies sent in a row share it; one that is not to be had is asked for again, and boards share nothing."""
    asked: list[bytes] = []

    class Counting(Shelf):
        async def load(self, kept: StoredRecording) -> bytes:
            asked.append(kept.body or b"")
            return await super().load(kept)

    async def write(operation: Any) -> list[list[Neighbour]]:
        return [[] for _ in leases]

    def sent(name: str, number: int, board: str) -> Any:
        facts = {"player": "ada", "seq": 1, "recording_digest": bytes([number]) * 32, "board": board}
        kept = StoredRecording(bytes(32), 5, str(number).encode())
        return SimpleNamespace(submission=SimpleNamespace(submission_id=name, **facts), recording=kept)

    leases = [sent("a", 1, "b"), sent("b", 1, "b"), sent("c", 2, "b"), sent("d", 1, "other")]
    leases += [sent("e", 7, "b"), sent("f", 7, "b")]
    collector = EvidenceCollector(SimpleNamespace(write=write), Counting(n7=RecordingLost()))  # type: ignore[arg-type]
    found = await collector.collect(
        {name: SimpleNamespace(policy=policy) for name in ("b", "other")},  # type: ignore[misc]
        leases,
    )
    assert [b"1", b"2", b"1", b"7", b"7"] == asked
    assert found["a"].comparable is found["b"].comparable is not None
    assert [recorded(1)] * 2 + [recorded(2), recorded(1), None, None] == [
        found[name].recording for name in "abcdef"
    ]


async def test_P02_an_outage_of_the_store_hides_no_original(policy: Policy):
    """P02: nothing is judged until it can be compared."""
    collector: Any = EvidenceCollector(SimpleNamespace(), Shelf(n2=RecordingsUnavailable()))  # type: ignore[arg-type]
    with pytest.raises(RecordingsUnavailable):
        await collector.with_compared(policy, RecordingEvidence(candidates=(neighbour(1), neighbour(2))))
