"""Where a plan puts a run that was judged again: the machine takes back what the machine decided, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from policies.errors import RecordingLost, RecordingsUnavailable
from policies.vocabulary import Claim, Reason, Verdict, VerdictKind
from replay.worker import reverification
from replay.worker.reverification import ReverificationPlan, ReverifiedRun, Reverifier
from tests.support import boards


def judged(kind: VerdictKind | None, reason: Reason) -> ReverifiedRun:
    verdict = kind and Verdict(kind, Reason.SCORE_MISMATCH, "sha256:0", "engine")
    return ReverifiedRun("run", "ada", 5, 1_000, reason, 7, verdict, 3)


def placed(found: ReverifiedRun) -> tuple[int, int, int, int]:
    plan = ReverificationPlan()
    plan.note(found)
    return (plan.looked_at, len(plan.to_revoke), len(plan.inconclusive), len(plan.decided_by_people))


BY_PEOPLE = [
    each for each in Reason if each not in {Reason.VERIFIED, Reason.SAMPLED, Reason.REVERIFICATION_UNDONE}
]


@pytest.mark.parametrize("reason", [Reason.VERIFIED, Reason.SAMPLED, Reason.REVERIFICATION_UNDONE])
def test_what_the_machine_let_count_it_takes_back(reason: Reason):
    """Whether it was verified, spared, or reinstated by the undoing of a batch."""
    assert (1, 1, 0, 0) == placed(judged(VerdictKind.MISMATCH, reason))


@pytest.mark.parametrize("reason", BY_PEOPLE)
def test_what_a_person_decided_is_a_persons(reason: Reason):
    """It is shown, and stays as it is."""
    assert (1, 0, 0, 1) == placed(judged(VerdictKind.MISMATCH, reason))


@pytest.mark.parametrize("kind", [None, VerdictKind.INCONCLUSIVE, VerdictKind.VERIFIED])
def test_what_is_not_known_to_be_false_stays(kind: VerdictKind | None):
    """A recording that is lost, and a simulator that fails, convict nobody; a run that is still true is nothing to show."""
    expected = (1, 0, 0, 0) if kind is VerdictKind.VERIFIED else (1, 0, 1, 0)
    assert expected == placed(judged(kind, Reason.VERIFIED))


class Gone:
    """A store in which a recording is lost, or which is away."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def load(self, kept: object) -> bytes:
        raise self.error


def a_run(*unreadable: str, recording: object = "kept") -> Any:
    return SimpleNamespace(recording=recording, submission=SimpleNamespace(unreadable=unreadable))


async def test_what_cannot_be_played_again_is_not_known(tmp_path: Path):
    """Without a recording, with one that is lost, or with a row that cannot be read; a store that is away ends the plan."""
    parts: Any = (boards.board(tmp_path), None)
    clock: Any = {"clock": lambda: 0, "tell": lambda count: None}
    nobody: Any = SimpleNamespace()
    lost = Reverifier(*parts, Gone(RecordingLost()), **clock)  # type: ignore[arg-type]
    away = Reverifier(*parts, Gone(RecordingsUnavailable()), **clock)  # type: ignore[arg-type]
    for reverifier, run in ((away, a_run(recording=None)), (away, a_run("claim")), (lost, a_run())):
        assert None is await reverifier._verdict(run, nobody, nobody)
    with pytest.raises(RecordingsUnavailable):
        await away._verdict(a_run(), nobody, nobody)


async def test_a_run_whose_ban_begins_behind_the_walk_is_in_the_plan_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It counted when the walk came by, and only a ban keeps it from counting when those are looked at."""
    facts = {"submission_id": "s", "player": "ada", "claim": Claim(5, 1), "achieved_at_ms": 1_000}
    run = SimpleNamespace(submission=SimpleNamespace(reason=Reason.VERIFIED, seq=3, **facts), newest_event=7)

    async def walked(_build: str) -> Any:
        yield run

    async def false(*_: object) -> Verdict:
        return Verdict(VerdictKind.MISMATCH, Reason.SCORE_MISMATCH, "sha256:0", "engine")

    async def no_impact(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(reverification, "impact_of_revoking", no_impact)
    parts: Any = (boards.board(tmp_path), None, None)
    reverifier = Reverifier(*parts, clock=lambda: 0, tell=lambda count: None)
    for name, work in (("_promoted", walked), ("_banned", walked), ("_verdict", false)):
        monkeypatch.setattr(reverifier, name, work)
    nobody: Any = SimpleNamespace()
    plan = await reverifier.plan("b-1", nobody, nobody)
    assert (1, ["s"]) == (plan.looked_at, [each.submission_id for each in plan.to_revoke])
