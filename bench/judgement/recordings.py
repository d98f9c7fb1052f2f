"""Applies re-simulation and the forensics of recordings to each run."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from bench.judgement.hands import Hand, Style, words_of
from bench.judgement.pool import Pool, in_parallel
from bench.judgement.population import BUILD, SubmittedRun
from bench.judgement.signals import Signals, sensitive, signals_of
from gateway.ledger.judgement.bands import MOST_IN_BUCKET, MOST_NEIGHBOURS
from policies.judging import Forensics
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason, Verdict, VerdictKind
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import bands_of, shingles_of
from replay.forensics.similarity import ComparableRecording, similarity
from replay.forensics.slow_motion import input_rate, slow_motion_inputs
from replay.forensics.timing import timing
from replay.simulators.sandbox import Sandbox
from replay.verify import verify
from replay.worker.evidence import MOST_COMPARED
from validators.backtest import Proportion

NamedFinding = tuple[str, Finding]
"""A finding and its validator's name."""


class RecordingSignals(NamedTuple):
    """The signals of one recording, its findings at the policy's own limits, its digest and bands."""

    signals: Signals
    findings: tuple[NamedFinding, ...]
    digest: bytes
    bands: Sequence[int]


class Task(NamedTuple):
    """A recording to examine: its hand, a program's inputs, and how long its run was open."""

    hand: Hand
    inputs: bytes
    elapsed_s: float


def verdicts_of(runs: Sequence[SubmittedRun], pool: Pool, board: Board) -> list[Verdict]:
    """Return the verdict on each claim. The same claim of the same recording is played once."""
    replay, simulator = board.policy.replay, board.simulators[BUILD]
    assert replay is not None
    known: dict[tuple[int, int], Verdict] = {}
    with Sandbox() as sandbox:
        for run in runs:
            claim, played = run.submission.claim, pool.runs[run.source]
            key = (run.source, claim.score)
            if key not in known:
                known[key] = verify(claim, played.recording, played.seed, replay, simulator, sandbox)
    return [known[run.source, run.submission.claim.score] for run in runs]


def refused_with_own_seed(thefts: Sequence[SubmittedRun], pool: Pool, board: Board) -> Proportion:
    """Return the proportion of stolen recordings that fail with the seed of the thief's own ticket."""
    replay, simulator = board.policy.replay, board.simulators[BUILD]
    assert replay is not None
    stolen = [(run.submission.claim, pool.runs[run.source].recording, run.hand.change_seed) for run in thefts]
    with Sandbox() as sandbox:
        kinds = [verify(*theft, replay, simulator, sandbox).kind for theft in stolen]
    return Proportion(sum(kind is VerdictKind.MISMATCH for kind in kinds), len(kinds))


def examine(
    runs: Sequence[SubmittedRun], pool: Pool, policy: Policy, processes: int
) -> Iterator[tuple[Signals, tuple[NamedFinding, ...]]]:
    """Yield each run's signals and findings in the order of time, of timing and likeness to others."""
    tasks = [_task(run, pool) for run in runs]
    shelf, open_limits = Shelf(policy.forensics, pool), sensitive(policy).forensics
    look_at = partial(look, policy.forensics, open_limits, policy.ticks_per_second)
    for run, recording in zip(runs, in_parallel(look_at, tasks, processes), strict=True):
        reused, alike = shelf.put_and_find(run, recording)
        findings = [*recording.findings, *(("recording_reuse", finding) for finding in reused)]
        signals = {**recording.signals, **signals_of("recording_reuse", reused)}
        if alike:
            play = shelf.play_of(run)
            signals |= signals_of("similarity", similarity(play, alike, open_limits))
            findings += [("similarity", finding) for finding in similarity(play, alike, policy.forensics)]
        yield signals, tuple(findings)


def look(limits: Forensics, open_limits: Forensics, ticks_per_second: int, task: Task) -> RecordingSignals:
    """Return the signals and findings of one recording by itself."""
    words = words_of(task.hand, task.inputs)
    inputs = inputs_of(words.astype("<u4").tobytes(), limits.buttons)
    signals: dict[str, float] = {}
    findings: list[NamedFinding] = []
    for name, check in _checks(inputs, ticks_per_second, task.elapsed_s):
        signals |= signals_of(name, check(open_limits))
        findings += [(name, finding) for finding in check(limits)]
    shingles = shingles_of(inputs)
    bands = bands_of(shingles) if shingles.size >= limits.minimum_shingles else ()
    return RecordingSignals(signals, tuple(findings), hashlib.sha256(words.tobytes()).digest(), bands)


def _checks(
    inputs: Inputs, ticks_per_second: int, elapsed_s: float
) -> Iterator[tuple[str, Callable[[Forensics], Iterable[Finding]]]]:
    yield "timing", partial(timing, inputs, ticks_per_second)
    yield "input_rate", partial(input_rate, inputs, ticks_per_second)
    yield "slow_motion_inputs", partial(slow_motion_inputs, inputs, ticks_per_second, elapsed_s)


class Shelf:
    """Earlier recordings, searched by their bands as in `gateway.ledger.judgement.bands`."""

    def __init__(self, limits: Forensics, pool: Pool) -> None:
        self._limits = limits
        self._pool = pool
        self._buckets: dict[int, list[int]] = defaultdict(list)
        self._same: Counter[bytes] = Counter()
        self._runs: list[SubmittedRun] = []

    def put_and_find(
        self, run: SubmittedRun, recording: RecordingSignals
    ) -> tuple[list[Finding], list[tuple[str, ComparableRecording]]]:
        """Add a recording. Return findings of its reuse, and the recordings of others to compare it with."""
        near = Counter(at for band in recording.bands for at in self._buckets[band])
        nearest = sorted(near, key=lambda at: (-near[at], at))[:MOST_NEIGHBOURS]
        others = [self._runs[at] for at in nearest if self._runs[at].account is not run.account]
        for band in recording.bands:
            if len(self._buckets[band]) < MOST_IN_BUCKET:
                self._buckets[band].append(len(self._runs))
        self._runs.append(run)
        times = self._same[recording.digest]
        self._same[recording.digest] += 1
        expected = Expected(at_most=0, unit="submissions with this recording")
        reused = [Finding(Reason.RECORDING_REUSED, times, expected)] if times else []
        return reused, [
            (other.submission.submission_id, self.play_of(other)) for other in others[:MOST_COMPARED]
        ]

    def play_of(self, run: SubmittedRun) -> ComparableRecording:
        """Make the recording of a run again."""
        words = words_of(*_task(run, self._pool)[:2])
        return ComparableRecording(b"", inputs_of(words.astype("<u4").tobytes(), self._limits.buttons))


def _task(run: SubmittedRun, pool: Pool) -> Task:
    is_program = run.hand.style is Style.PROGRAM
    inputs = pool.runs[run.source].inputs if is_program else b""
    return Task(run.hand, inputs, run.submission.elapsed_ms / 1000)
