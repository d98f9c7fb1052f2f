"""What a worker makes of a submission, a verdict and an audit, row by row, without a ledger or a sandbox."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from gateway.ledger.moderation.batch_items import BatchItem, LeftOut
from gateway.runtime.telemetry import REGISTRY
from policies.fields import SortOrder
from policies.loader import Simulator
from policies.model import Policy
from policies.replaying import BuildStatus
from policies.vocabulary import (
    Divergence,
    Expected,
    Finding,
    Reason,
    Severity,
    SimulatorKind,
    State,
    Verdict,
    VerdictKind,
)
from replay.fingerprint import differences, fingerprint_of
from replay.recording import RecordingError
from replay.simulators import MalformedRecording, Simulation, SimulatorFault
from replay.worker import examination
from replay.worker.audit import AuditedRun, Auditor, AuditOutcome
from replay.worker.evidence import RecordingEvidence
from replay.worker.reverification import ReverificationPlan, ReverifiedRun, Reverifier
from replay.worker.verification_lottery import VerificationLottery
from replay.worker.verifier import Verifier, _event_detail, _simulator_of, longest_s
from tests.support.policies import a_policy
from validators.verification_priority import PromotionImpact

NOW_MS = 1_700_000_000_000
SECOND = 1000


def a_lease(attempt: int = 1, recording: object = "kept", **facts: Any) -> Any:
    """A lease of a pending run of a build that the board has."""
    found = {
        "submission_id": "s1",
        "seq": 7,
        "player": "ada",
        "board": "sprint",
        "build": "1.0",
        "simulator": "sha256:aa",
        "state": State.PENDING,
        "unreadable": (),
        "findings": (),
        "recording_digest": b"d" * 32,
        "board_content": None,
        "issued_at_ms": 0,
        "received_at_ms": 0,
        "claim": SimpleNamespace(score=50),
    } | facts
    is_unrevealed = recording is None and found["recording_digest"] is not None
    return SimpleNamespace(
        submission=SimpleNamespace(**found), recording=recording, attempt=attempt, is_unrevealed=is_unrevealed
    )


def builds(status: BuildStatus = BuildStatus.ALLOW) -> Any:
    return SimpleNamespace(status_of=lambda _board, _build: status)


def a_verifier(status: BuildStatus = BuildStatus.ALLOW, **parts: Any) -> Any:
    """A verifier of three attempts, with its clock at NOW_MS."""
    verifier: Any = object.__new__(Verifier)
    verifier._settings = SimpleNamespace(verify_attempts=3)
    verifier._clock = lambda: NOW_MS
    verifier._builds = builds(status)
    for name, part in parts.items():
        setattr(verifier, f"_{name}", part)
    return verifier


def facts_of(decision: Any) -> tuple[Any, ...]:
    names = ("submission_id", "to_state", "actor", "reason", "at_ms", "from_states", "attempt")
    return (*(getattr(decision, name) for name in names), dict(decision.detail))


@pytest.mark.parametrize(
    ("before", "verdict", "after"),
    [
        (State.PENDING, State.PROMOTED, State.PROMOTED),
        (State.PENDING, State.REJECTED, State.REJECTED),
        (State.PENDING, State.HELD, State.HELD),
        (State.PROMOTED, State.PROMOTED, State.PROMOTED),
        (State.PROMOTED, State.REJECTED, State.REVOKED),
        (State.PROMOTED, State.HELD, State.REVOKED),
        (State.SUPERSEDED, State.HELD, State.HELD),
    ],
)
def test_what_counts_already_is_revoked_by_anything_but_a_clean_verdict(
    before: State, verdict: State, after: State
):
    """The decision holds from the state that was leased, by this attempt, now."""
    lease = a_lease(2, state=before)
    decision = a_verifier()._decision(lease, verdict, Reason.SCORE_MISMATCH, {"x": 1})
    row = ("s1", after, "replay", Reason.SCORE_MISMATCH, NOW_MS, frozenset({before}), 2, {"x": 1})
    assert row == facts_of(decision)


@pytest.mark.parametrize(
    ("lease", "status", "reason", "detail"),
    [
        (a_lease(3), BuildStatus.ALLOW, None, {}),
        (a_lease(4), BuildStatus.ALLOW, Reason.ATTEMPTS_EXHAUSTED, {}),
        (a_lease(4, unreadable=("claim",)), BuildStatus.BLOCKED, Reason.ATTEMPTS_EXHAUSTED, {}),
        (
            a_lease(unreadable=("claim",)),
            BuildStatus.BLOCKED,
            Reason.RECORD_UNREADABLE,
            {"unreadable": ("claim",)},
        ),
        (a_lease(), BuildStatus.BLOCKED, Reason.BUILD_BLOCKED, {"build_status": "blocked"}),
        (a_lease(recording=None), BuildStatus.BLOCKED, Reason.BUILD_BLOCKED, {"build_status": "blocked"}),
        (a_lease(), BuildStatus.PROVISIONAL, None, {}),
        (a_lease(recording=None), BuildStatus.ALLOW, Reason.RECORDING_LOST, {}),
        (a_lease(recording=None, recording_digest=None), BuildStatus.ALLOW, None, {}),
    ],
)
def test_what_must_not_or_cannot_be_played_is_held(
    lease: Any, status: BuildStatus, reason: Reason | None, detail: dict[str, Any]
):
    """After the third attempt; unread, of a blocked build, and without its recording; the first of these reasons."""
    verifier = a_verifier(status)
    decision = verifier._unplayed(lease, SimpleNamespace())
    if reason is None:
        assert decision is None
    else:
        assert (State.HELD, reason, detail) == (decision.to_state, decision.reason, dict(decision.detail))
    is_hopeless = lease.attempt > 3 or bool(lease.submission.unreadable)
    assert is_hopeless is verifier._is_hopeless(lease)
    assert (is_hopeless or status is BuildStatus.BLOCKED) is verifier._is_held({"sprint": None}, lease)


@pytest.mark.parametrize(
    ("reason", "attempt", "is_tried_again"),
    [
        (Reason.ASSET_LOST, 2, True),
        (Reason.ASSET_LOST, 3, False),
        (Reason.BOARD_REPLACED, 1, False),
    ],
)
def test_a_lost_asset_may_come_back_and_a_replaced_board_does_not(
    reason: Reason, attempt: int, is_tried_again: bool
):
    """Until the last attempt, which holds it as nobody's fault."""
    decision = a_verifier()._without_content(a_lease(attempt), reason)
    if is_tried_again:
        assert decision is None
    else:
        assert (State.HELD, reason, {"verdict": "inconclusive"}) == (
            decision.to_state,
            decision.reason,
            dict(decision.detail),
        )


def replay_of(wall_ms: int, kind: SimulatorKind = SimulatorKind.WASM) -> Any:
    return SimpleNamespace(budget=SimpleNamespace(wall_ms=wall_ms), simulator=kind)


@pytest.mark.parametrize(
    ("replays", "seconds"),
    [
        ([], 0),
        ([None], 0),
        ([replay_of(1000)], 1),
        ([replay_of(1001)], 2),
        ([replay_of(999)], 1),
        ([replay_of(2000), replay_of(3000), None], 3),
        ([replay_of(1000, SimulatorKind.PROCESS)], 11),
        ([replay_of(1000, SimulatorKind.PLUGIN), replay_of(10_500)], 11),
    ],
)
def test_a_lease_lasts_as_long_as_the_longest_replay(replays: list[Any], seconds: int):
    """In whole seconds, rounded up, with ten to start a program or a plug-in, which a module does not need."""
    boards = {
        str(number): SimpleNamespace(policy=SimpleNamespace(replay=replay))
        for number, replay in enumerate(replays)
    }
    assert seconds == longest_s(SimpleNamespace(by_name=boards))  # type: ignore[arg-type]


async def test_what_a_lease_is_asked_for_lasts_for_every_run_of_its_job(monkeypatch: pytest.MonkeyPatch):
    """In milliseconds: the setting, and the longest replay as often as there are runs; for an audit twice that."""
    asked: list[Any] = []

    def lease_all(ids: Any, **given: Any) -> Any:
        asked.append((list(ids), given["now_ms"], given["lease_ms"]))
        return None

    async def write(_operation: object) -> list[Any]:
        return []

    async def boards(_names: object) -> dict[str, Any]:
        return {}

    async def refresh() -> None:
        return None

    policies = SimpleNamespace(by_name={"b": SimpleNamespace(policy=SimpleNamespace(replay=replay_of(2000)))})
    catalogue = SimpleNamespace(policies=policies, boards=boards)
    settings: Any = SimpleNamespace(lease_s=60, verify_attempts=3)
    ledger: Any = SimpleNamespace(write=write)
    monkeypatch.setattr("replay.worker.verifier.work.lease_all", lease_all)
    monkeypatch.setattr("replay.worker.audit.audits.lease", lease_all)
    monkeypatch.setattr("replay.worker.audit.audits.finish", lambda seqs, changes: (seqs, changes))
    verifier = a_verifier(settings=settings, ledger=ledger, catalogue=catalogue)
    verifier._builds.refresh_if_old = refresh
    verifier._lottery = SimpleNamespace(spared=boards_of_none)
    verifier._collector = SimpleNamespace(collect=boards_of_none)
    assert 0 == await verifier.verify_all(["a", "b", "c"])
    auditor: Any = Auditor(settings, catalogue, ledger, None, recordings=None, clock=lambda: NOW_MS)  # type: ignore[arg-type]
    assert 0 == await auditor.audit_all(["a", "b", "c"])
    assert [(["a", "b", "c"], NOW_MS, 66_000), (["a", "b", "c"], NOW_MS, 72_000)] == asked


async def boards_of_none(*_given: object) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("status", "lost", "judged", "asked"),
    [
        (BuildStatus.ALLOW, set(), ["whole", "spent"], ["bare", "lost"]),
        (BuildStatus.ALLOW, {"lost"}, ["whole", "lost", "spent"], ["bare", "lost"]),
        (BuildStatus.BLOCKED, set(), ["whole", "bare", "lost", "spent"], []),
    ],
)
async def test_recordings_are_asked_for_where_they_decide(
    monkeypatch: pytest.MonkeyPatch,
    status: BuildStatus,
    lost: set[str],
    judged: list[str],
    asked: list[str],
):
    """Not of what is held whatever they say; what the ledger lost is judged at once, and so is held."""
    leases = [
        a_lease(submission_id="whole"),
        a_lease(submission_id="bare", recording=None),
        a_lease(submission_id="lost", recording=None),
        a_lease(4, submission_id="spent", recording=None),
    ]
    written: list[Any] = []

    def ask(unrevealed: Any, *, now_ms: int) -> Any:
        return [lease.submission.submission_id for lease in unrevealed], now_ms

    async def write(operation: Any) -> set[str]:
        written.append(operation)
        return lost

    monkeypatch.setattr("replay.worker.verifier.reveals.ask", ask)
    verifier = a_verifier(status, ledger=SimpleNamespace(write=write))
    before = REGISTRY.get_sample_value("scoregate_reveals_total", ASKED) or 0.0
    found = await verifier._ask({"sprint": None}, leases)
    assert judged == [lease.submission.submission_id for lease in found]
    assert ([(asked, NOW_MS)] if asked else []) == written
    counted = (REGISTRY.get_sample_value("scoregate_reveals_total", ASKED) or 0.0) - before
    assert len(set(asked) - lost) == counted


ASKED = {"board": "sprint", "outcome": "asked"}


async def test_decisions_are_settled_board_by_board(monkeypatch: pytest.MonkeyPatch):
    """Those of one board together, in order, each board with its own."""
    settled: list[Any] = []

    async def settle(_ledger: object, _index: object, board: str, decisions: Any) -> None:
        settled.append((board, list(decisions)))

    monkeypatch.setattr("replay.worker.verifier.settle", settle)
    verifier = a_verifier(ledger=None, index=None)
    await verifier._settle({"a": "board a", "b": "board b"}, [("a", 1), ("b", 2), ("a", 3)])
    assert [("board a", [1, 3]), ("board b", [2])] == settled


@pytest.mark.parametrize(
    ("lease", "evidence", "loads", "answer"),
    [
        (a_lease(), None, 1, None),
        (a_lease(), b"recording", 0, Reason.VERIFIED),
        (a_lease(recording=None, recording_digest=None), None, 0, Reason.VERIFIED),
    ],
)
async def test_nothing_is_judged_unexamined(
    monkeypatch: pytest.MonkeyPatch, lease: Any, evidence: bytes | None, loads: int, answer: Reason | None
):
    """A recording that was not to be had is asked for, and the run comes again; the event names the build's status."""
    loaded: list[Any] = []
    refreshed: list[int] = []

    async def load(recording: object) -> bytes:
        loaded.append(recording)
        return b""

    async def with_compared(_policy: object, given: Any) -> Any:
        return given

    async def content(*_given: object) -> str:
        return "content"

    async def refresh() -> None:
        refreshed.append(1)

    verifier = a_verifier(
        recordings=SimpleNamespace(load=load),
        collector=SimpleNamespace(with_compared=with_compared),
        contents=SimpleNamespace(of=content),
    )
    verifier._builds.refresh_if_old = refresh
    verdict = Verdict(VerdictKind.VERIFIED, Reason.VERIFIED, "s", "e")
    verifier._verdict = lambda *_: verdict
    monkeypatch.setattr("replay.worker.verifier.examine", lambda *_: ())
    board: Any = SimpleNamespace(policy=None)
    decision = await verifier._decide(board, lease, RecordingEvidence(evidence))
    assert loads == len(loaded)
    assert answer == (decision and decision.reason)
    if decision:
        assert (State.PROMOTED, "allow", "verified", [1]) == (
            decision.to_state,
            decision.detail["build_status"],
            decision.detail["verdict"],
            refreshed,
        )


def test_the_simulator_is_the_one_that_the_ticket_was_issued_for():
    """A build that is gone, or whose simulator is another by now, has none."""
    simulator = Simulator("sha256:aa", Path("/x"))
    board: Any = SimpleNamespace(simulators={"1.0": simulator})
    assert [simulator, None, None] == [
        _simulator_of(board, *each)
        for each in (("1.0", "sha256:aa"), ("1.0", "sha256:bb"), ("2.0", "sha256:aa"))
    ]


def test_the_event_of_a_verdict_has_all_that_a_moderator_and_an_audit_read():
    """Each under its name; a simulator's own words only where there are some; numbers beside them."""
    finding = Finding(Reason.INPUTS_DENSE, 2, Expected(at_most=1, unit="u"), 3)
    divergence = Divergence(0, 10, 1, 2)
    verdict = Verdict(
        VerdictKind.MISMATCH,
        Reason.DIVERGED,
        "sha256:aa",
        "engine 1",
        divergence=divergence,
        detail={"fuel": 9},
        simulated={"score": 4},
    )
    detail = _event_detail(verdict, a_lease(2), [finding])
    assert {
        "verdict": "mismatch",
        "verdict_reason": "diverged",
        "simulator": "sha256:aa",
        "engine": "engine 1",
        "first_divergent_tick": 10,
        "divergence": divergence.as_dict(),
        "simulated": {"score": 4},
        "attempt": 2,
        "findings": [finding.as_dict()],
        "fuel": 9,
    } == detail
    clean = Verdict(VerdictKind.INCONCLUSIVE, Reason.TIMED_OUT, "s", "e", said="words")
    detail = _event_detail(clean, a_lease(), [])
    assert (None, None, {}, [], "words") == tuple(
        detail[name] for name in ("first_divergent_tick", "divergence", "simulated", "findings", "said")
    )


def a_lottery(status: BuildStatus = BuildStatus.ALLOW, drawn: float = 0.5) -> VerificationLottery:
    chance: Any = SimpleNamespace(random=lambda: drawn)
    nobody: Any = None
    return VerificationLottery(nobody, builds(status), nobody, clock=lambda: NOW_MS, chance=chance)


def on_a_share(share: float = 0.5, **policy: Any) -> Any:
    verification = SimpleNamespace(share=share, top=10, beats_best_by=5)
    modes = Policy.model_validate(a_policy()).validators
    return SimpleNamespace(
        name="sprint",
        ranking=None,
        policy=SimpleNamespace(verification=verification, validators=modes, **policy),
    )


NOTE = Finding(Reason.INPUTS_DENSE, 2, Expected(at_most=1, unit="u"), 3, severity=Severity.NOTE)
FLAG = replace(NOTE, severity=Severity.FLAG)


@pytest.mark.parametrize(
    ("lease", "share", "status", "may"),
    [
        (a_lease(), 0.5, BuildStatus.ALLOW, True),
        (a_lease(), 0.0, BuildStatus.ALLOW, True),
        (a_lease(), 1.0, BuildStatus.ALLOW, False),
        (a_lease(state=State.PROMOTED), 0.5, BuildStatus.ALLOW, False),
        (a_lease(2), 0.5, BuildStatus.ALLOW, False),
        (a_lease(recording_digest=None), 0.5, BuildStatus.ALLOW, False),
        (a_lease(recording=None), 0.5, BuildStatus.ALLOW, True),
        (a_lease(findings=(NOTE,)), 0.5, BuildStatus.ALLOW, True),
        (a_lease(findings=(NOTE, FLAG)), 0.5, BuildStatus.ALLOW, False),
        (a_lease(), 0.5, BuildStatus.PROVISIONAL, False),
        (a_lease(), 0.5, BuildStatus.BLOCKED, False),
    ],
)
def test_who_may_be_spared(lease: Any, share: float, status: BuildStatus, may: bool):
    """A first attempt at a pending run with a recording, of an allowed build, of which nothing was found."""
    assert may is a_lottery(status)._may_be_spared(on_a_share(share), lease)


@pytest.mark.parametrize(
    ("drawn", "impact", "is_spared"),
    [
        (0.5, PromotionImpact(True, False, False, 5), True),
        (0.49, PromotionImpact(True, False, False, 5), False),
        (0.51, PromotionImpact(False, False, False, 0), True),
        (0.9, PromotionImpact(True, True, False, 5), False),
        (0.9, PromotionImpact(True, False, True, 5), False),
        (0.9, PromotionImpact(True, False, False, 6), False),
    ],
)
async def test_a_draw_at_the_share_or_above_spares(
    monkeypatch: pytest.MonkeyPatch, drawn: float, impact: PromotionImpact, is_spared: bool
):
    """Unless it must be verified; what counts is promoted as sampled, anything else gives way, unverified."""
    lottery: Any = a_lottery(drawn=drawn)
    reused: list[Any] = []

    async def read(_operation: object) -> PromotionImpact:
        return impact

    async def none_reused(_boards: object, leases: Any) -> set[str]:
        reused.extend(leases)
        return set()

    lottery._ledger = SimpleNamespace(read=read)
    monkeypatch.setattr(lottery, "_reused", none_reused)
    monkeypatch.setattr("replay.worker.verification_lottery.promotion_impact.impact_of", lambda *_: None)
    lease = a_lease()
    spared = await lottery.spared({"sprint": on_a_share()}, [lease])
    if not is_spared:
        assert ({}, []) == (spared, reused)
        return
    [(name, (board, decision))] = spared.items()
    counts = impact.counts
    assert ("s1", "sprint", [lease] * counts) == (name, board, reused)
    state, reason = (State.PROMOTED, Reason.SAMPLED) if counts else (State.SUPERSEDED, Reason.NOT_VERIFIED)
    detail = {"drawn": drawn, "share": 0.5, "prospect": impact._asdict()}
    assert ("s1", state, "budget", reason, NOW_MS, frozenset({State.PENDING}), 1, detail) == facts_of(
        decision
    )


def test_a_draw_is_of_the_systems_chance():
    """Nobody can foresee it from earlier ones."""
    nobody: Any = None
    lottery: Any = VerificationLottery(nobody, nobody, nobody, clock=lambda: 0)
    assert isinstance(lottery._chance, random.SystemRandom)


def a_policy_of(order: SortOrder = SortOrder.DESCENDING, **modes: str) -> Policy:
    return Policy.model_validate(
        a_policy(order=order.value, score={"minimum": 10, "maximum": 90}, validators=modes)
    )


@pytest.mark.parametrize(
    ("order", "score", "same", "is_found"),
    [
        (SortOrder.DESCENDING, 10, ("w", "x", "y"), False),
        (SortOrder.DESCENDING, 90, ("w", "x", "y"), True),
        (SortOrder.DESCENDING, 11, ("w", "x", "y"), True),
        (SortOrder.ASCENDING, 90, ("w", "x", "y"), False),
        (SortOrder.ASCENDING, 10, ("w", "x", "y"), True),
        (SortOrder.DESCENDING, 50, (), False),
    ],
)
def test_P02_a_recording_of_another_submission_is_found_but_at_the_worst_score(
    order: SortOrder, score: int, same: tuple[str, ...], is_found: bool
):
    """Told with whose it is, and how many of them came before."""
    board: Any = SimpleNamespace(policy=a_policy_of(order), digest="sha256:p")
    evidence = RecordingEvidence(b"r", same=same, earlier=frozenset({"y", "z"}))
    found = examination.examine(board, a_lease(claim=SimpleNamespace(score=score)), evidence)
    expected = Expected(at_most=0, unit="submissions with this recording")
    rows = [
        (each.reason, each.value, each.expected, each.others, dict(each.detail), each.policy)
        for each in found
    ]
    row = (Reason.RECORDING_REUSED, 3, expected, ("w", "x", "y"), {"received_before": 1}, "sha256:p")
    assert [row] * is_found == rows


def test_a_check_that_is_off_is_not_made(monkeypatch: pytest.MonkeyPatch):
    """Each of the five has its mode; time since the ticket is told in seconds."""
    asked: list[Any] = []

    def note(name: str) -> Any:
        def check(*given: Any) -> Any:
            asked.append((name, *given[1:3]))
            yield from ()

        return check

    for module, name in (
        ("timing", "timing"),
        ("slow_motion", "input_rate"),
        ("slow_motion", "slow_motion_inputs"),
    ):
        monkeypatch.setattr(getattr(examination, module), name, note(name))
    monkeypatch.setattr(examination.forensic_similarity, "similarity", note("similarity"))
    comparable: Any = SimpleNamespace(inputs="inputs", scatter="scatter", shingles=None)
    evidence = RecordingEvidence(b"r", comparable, compared=(("x", comparable),))
    lease = a_lease(issued_at_ms=1_500, received_at_ms=4_000)
    policy = a_policy_of()
    board: Any = SimpleNamespace(policy=policy, digest="p")
    examination.examine(board, lease, evidence)
    assert [
        ("timing", policy.ticks_per_second, policy.forensics),
        ("input_rate", policy.ticks_per_second, policy.forensics),
        ("slow_motion_inputs", policy.ticks_per_second, 2.5),
        ("similarity", (("x", comparable),), policy.forensics),
    ] == asked
    asked.clear()
    off = dict.fromkeys(("timing", "input_rate", "slow_motion_inputs", "similarity"), "off")
    quiet: Any = SimpleNamespace(policy=a_policy_of(**off), digest="p")
    examination.examine(quiet, lease, evidence)
    examination.examine(board, lease, RecordingEvidence(b"r"))
    foreign: Any = SimpleNamespace(inputs=None, scatter=(), shingles=None)
    examination.examine(board, lease, RecordingEvidence(b"r", foreign))
    assert ["similarity"] == [name for name, *_ in asked]


ONE: Mapping[str, Any] = {"score": 1, "ticks": 2}


@pytest.mark.parametrize(
    ("fingerprints", "names"),
    [
        ([], []),
        ([ONE], []),
        ([ONE, ONE, ONE], []),
        ([ONE, ONE, {"score": 2, "ticks": 2}], ["score"]),
        ([{"score": 2, "ticks": 3}, ONE, ONE], ["score", "ticks"]),
        ([{"score": 1}, ONE], ["ticks"]),
        ([ONE, {"score": 1}], ["ticks"]),
    ],
)
def test_fingerprints_differ_by_name(fingerprints: list[Mapping[str, Any]], names: list[str]):
    """Whichever of them is another, and whichever lacks a value."""
    assert names == differences(fingerprints)


def audited_by(recorded: Any, played: list[Any]) -> Any:
    """An auditor with three attempts of verification, whose simulations give these fingerprints."""

    async def answer(_given: object) -> Any:
        return recorded

    async def load(_given: object) -> bytes:
        return b"recording"

    async def content(*_given: object) -> str:
        return "content"

    outcomes = iter(played)
    auditor: Any = object.__new__(Auditor)
    auditor._settings = SimpleNamespace(verify_attempts=3)
    auditor._ledger = SimpleNamespace(read=answer)
    auditor._recordings = SimpleNamespace(load=load)
    auditor._contents = SimpleNamespace(of=content)
    auditor._fingerprint = lambda *_given: next(outcomes)
    return auditor


AUDITED: Any = SimpleNamespace(
    simulators={"1.0": Simulator("sha256:aa", Path("/x"))}, policy=SimpleNamespace(replay="replay")
)
TWO = {"score": 2, "ticks": 2}


@pytest.mark.parametrize(
    ("lease", "recorded", "played", "outcome", "differs"),
    [
        (a_lease(6), ONE, [ONE, ONE], AuditOutcome.AGREES, ()),
        (a_lease(7), ONE, [ONE, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(unreadable=("claim",)), ONE, [ONE, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(recording=None), ONE, [ONE, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(build="2.0"), ONE, [ONE, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(simulator="sha256:bb"), ONE, [ONE, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(), ONE, [ONE, None], AuditOutcome.UNABLE, ()),
        (a_lease(), ONE, [None, ONE], AuditOutcome.UNABLE, ()),
        (a_lease(), ONE, [TWO, TWO], AuditOutcome.DISAGREES, ("score",)),
        (a_lease(), ONE, [ONE, TWO], AuditOutcome.DISAGREES, ("score",)),
        (a_lease(), None, [ONE, TWO], AuditOutcome.DISAGREES, ("score",)),
        (a_lease(), None, [TWO, TWO], AuditOutcome.AGREES, ()),
    ],
)
async def test_an_audit_agrees_if_two_more_simulations_give_what_the_verdict_had(
    lease: Any, recorded: Any, played: list[Any], outcome: AuditOutcome, differs: tuple[str, ...]
):
    """With each other, where none was recorded; it gives up after six attempts, and where something is missing."""
    run = await audited_by(recorded, played)._audit(AUDITED, lease)
    assert AuditedRun(lease, outcome, differs) == run


async def test_an_audit_is_of_boards_that_are_known_and_reported_where_it_came_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
):
    """What is to be had later is counted and not reported; a lease of a board that nobody knows is left."""
    given: dict[str, Any] = {}
    leases = [a_lease(submission_id=name, board=board) for name, board in ("ab", "cb", "dx")]
    policies = SimpleNamespace(by_name={"b": SimpleNamespace(policy=SimpleNamespace(replay=replay_of(2000)))})

    async def write(_operation: object) -> list[Any]:
        return leases

    async def boards(names: Any) -> dict[str, str]:
        return {name: f"board {name}" for name in names if name == "b"}

    async def audited(board: str, lease: Any) -> Any:
        assert "board b" == board
        name = lease.submission.submission_id
        return None if name == "c" else AuditedRun(lease, AuditOutcome.AGREES)

    async def report(known: Any, runs: Any) -> None:
        given.update(known=dict(known), runs=[each.lease.submission.submission_id for each in runs])

    def leased(_ids: object, **named: Any) -> None:
        given.update(named)

    monkeypatch.setattr("replay.worker.audit.audits.lease", leased)
    catalogue: Any = SimpleNamespace(policies=policies, boards=boards)
    settings: Any = SimpleNamespace(lease_s=60, verify_attempts=3)
    nobody: Any = None
    ledger: Any = SimpleNamespace(write=write)
    auditor: Any = Auditor(settings, catalogue, ledger, nobody, recordings=nobody, clock=lambda: NOW_MS)
    auditor._audit, auditor._report = audited, report
    assert 2 == await auditor.audit_all(["a"])
    expected = {"known": {"b": "board b"}, "runs": ["a"], "boards": catalogue}
    assert expected | {"now_ms": NOW_MS, "lease_ms": 64_000} == given


async def test_a_board_that_replays_nothing_any_more_cannot_be_audited():
    """Its policy may have changed since the run was drawn."""
    board: Any = SimpleNamespace(simulators=AUDITED.simulators, policy=SimpleNamespace(replay=None))
    run = await audited_by(ONE, [ONE, ONE])._audit(board, a_lease())
    assert AuditedRun(a_lease(), AuditOutcome.UNABLE)[1:] == run[1:]


@pytest.mark.parametrize("outcome", [SimulatorFault(Reason.TIMED_OUT), MalformedRecording(), None])
def test_each_simulation_of_an_audit_has_processes_of_its_own(monkeypatch: pytest.MonkeyPatch, outcome: Any):
    """What is no simulation has no fingerprint, and so has a recording that cannot be read."""
    opened: list[str] = []
    simulation = Simulation(20, True, 7, 0xAB, (4,), (), 99)

    @contextmanager
    def fresh() -> Iterator[Any]:
        opened.append("opened")
        yield SimpleNamespace(simulate=lambda request: simulation if outcome is None else outcome)
        opened.append("closed")

    auditor: Any = object.__new__(Auditor)
    auditor._fresh = fresh
    replay: Any = SimpleNamespace()
    monkeypatch.setattr("replay.worker.audit.request_of", lambda *_: "request")
    monkeypatch.setattr("replay.worker.audit.read_recording", lambda *_: "played")
    lease = a_lease(seed=1)
    found = auditor._fingerprint(lease, b"r", replay, None, None)
    assert (None if outcome else fingerprint_of(simulation)) == found
    assert ["opened", "closed"] == opened

    def unreadable(*_given: object) -> None:
        raise RecordingError

    monkeypatch.setattr("replay.worker.audit.read_recording", unreadable)
    assert auditor._fingerprint(lease, b"r", replay, None, None) is None


@pytest.mark.parametrize(
    ("mode", "bands", "digests", "is_reused"),
    [
        ("flag", [1], [b"d"], True),
        ("flag", [1], [b"e"], False),
        ("flag", [1], [b"e", b"d"], True),
        ("flag", [1], [], False),
        ("off", [1], [b"d"], False),
        ("flag", [], [b"d"], False),
    ],
)
async def test_P02_a_run_is_not_spared_if_another_has_its_recording(
    mode: str, bands: list[int], digests: list[bytes], is_reused: bool
):
    """By its digest, on a board that looks for that; what nothing is found by is not looked for."""
    asked: list[Any] = []

    async def write(_operation: object) -> list[Any]:
        asked.append(1)
        return [[SimpleNamespace(digest=each * 32) for each in digests]]

    async def bands_of(*_given: object) -> list[int]:
        return bands

    lottery: Any = a_lottery()
    lottery._ledger = SimpleNamespace(write=write)
    lottery._collector = SimpleNamespace(bands_of=bands_of)
    boards = {"sprint": SimpleNamespace(policy=a_policy_of(recording_reuse=mode))}
    found = await lottery._reused(boards, [a_lease()])
    assert ({"s1"} if is_reused else set(), [1] * bool(bands)) == (found, asked)


async def test_what_disagrees_restricts_its_build_once(monkeypatch: pytest.MonkeyPatch):
    """With the runs and the values that differ; every audit that came to an end is over, whatever it gave."""
    auditor: Any = object.__new__(Auditor)
    auditor._clock = lambda: NOW_MS
    written: list[Any] = []

    async def write(operation: Any) -> set[tuple[str, str]]:
        written.append(operation)
        return set()

    auditor._ledger = SimpleNamespace(write=write)
    monkeypatch.setattr("replay.worker.audit.audits.finish", lambda seqs, changes: (seqs, changes))
    declared = SimpleNamespace(status=BuildStatus.ALLOW)
    boards = {"sprint": SimpleNamespace(policy=SimpleNamespace(builds={"1.0": declared, "2.0": declared}))}
    runs = [
        AuditedRun(a_lease(submission_id="a", seq=1), AuditOutcome.DISAGREES, ("ticks", "score")),
        AuditedRun(a_lease(submission_id="b", seq=2), AuditOutcome.AGREES),
        AuditedRun(a_lease(submission_id="c", seq=3), AuditOutcome.DISAGREES, ("score",)),
        AuditedRun(a_lease(submission_id="d", seq=4, build="2.0"), AuditOutcome.UNABLE),
    ]
    before = {each: counted(each) for each in AuditOutcome}
    await auditor._report(boards, runs)
    [(seqs, [(change, status)])] = written
    counts = [counted(each) - before[each] for each in AuditOutcome]
    assert [1, 2, 1] == counts
    assert [1, 2, 3, 4] == seqs
    assert status is BuildStatus.ALLOW
    why = "simulated again, these runs gave another result (score, ticks): a, c"
    assert ("sprint", "1.0", BuildStatus.PROVISIONAL, "audit", why, NOW_MS) == tuple(change)


def counted(outcome: AuditOutcome) -> float:
    labels = {"board": "sprint", "outcome": outcome.value}
    return REGISTRY.get_sample_value("scoregate_audits_total", labels) or 0.0


def judged(seq: int, **changed: Any) -> ReverifiedRun:
    verdict = Verdict(
        VerdictKind.MISMATCH, Reason.SCORE_MISMATCH, "sha256:aa", "engine 1", detail={"fuel": 9}
    )
    facts = {
        "submission_id": f"s{seq}",
        "player": "ada",
        "score": 5,
        "achieved_at_ms": 1_000,
        "reason": Reason.VERIFIED,
        "newest_event": 70 + seq,
        "verdict": verdict,
        "seq": seq,
    }
    return ReverifiedRun(**(facts | changed))


async def test_a_plan_is_stored_as_a_batch_with_why_each_is_in_it(monkeypatch: pytest.MonkeyPatch):
    """A hundred at a time between its beginning and its end: what it would revoke, and what it leaves out."""
    written: list[Any] = []

    async def write(operation: Any) -> None:
        written.append(operation)

    for name in ("begin", "put_items", "end_filling"):
        monkeypatch.setattr(
            f"replay.worker.reverification.{name}", lambda *given, name=name, **_: (name, *given)
        )
    board: Any = SimpleNamespace(name="sprint")
    ledger: Any = SimpleNamespace(write=write)
    nobody: Any = None
    reverifier = Reverifier(board, ledger, nobody, clock=lambda: NOW_MS, tell=lambda _: None)
    plan = ReverificationPlan(
        to_revoke=[judged(seq) for seq in range(1, 101)],
        inconclusive=[judged(101, verdict=None)],
        decided_by_people=[judged(102)],
    )
    assert frozenset(range(1, 103)) == plan.submissions
    simulator = Simulator("sha256:bb", Path("/x"))
    batch_id = await reverifier.store(plan, "1.0", simulator)
    assert ["begin", "put_items", "put_items", "end_filling"] == [each[0] for each in written]
    (_, batch), (_, *first), (_, named, rest), (_, ended) = written
    assert [batch_id] * 4 == [batch.batch_id, first[0], named, ended]
    assert 100 == len(first[1])
    detail = {
        "verdict_reason": "score-mismatch",
        "simulator": "sha256:bb",
        "engine": "engine 1",
        "divergence": None,
        "fuel": 9,
    }
    one = first[1][0]
    assert (BatchItem("sprint", 1, "s1", "ada", 71), detail) == (
        one._replace(detail="{}"),
        orjson.loads(one.detail),
    )
    assert [
        BatchItem("sprint", 101, "s101", "ada", 171, "barred", None, LeftOut.INCONCLUSIVE.value),
        BatchItem("sprint", 102, "s102", "ada", 172, "barred", None, LeftOut.DECIDED_BY_PERSON.value),
    ] == rest
