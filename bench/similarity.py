"""Measures how fast a similar recording is found among many, and how often a changed copy is found.

    python -m bench.similarity [--recordings 100000] [--queries 100] [--quick]

A ledger in an SQLite file (WAL, synchronous=FULL) is filled with recordings of about a minute of play with
five buttons, whose presses have a hand's log-normal scatter, each as a submission with its bands. Then copies
of some of them are searched as a worker does: bands of the copy, search in the ledger (the same commit adds
the copy), comparison with the nearest. For each way to change a copy the table says how many shared a band
with the original, and how many were then named in a finding. Recordings without a copy in the ledger show how
many are named for no reason. Times are medians and 99th percentiles over all queries, one after the other.
The last line is `recall R`, for copies in which 5 % of the presses were moved. --quick is 2,000 recordings
and 20 queries of each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gateway.ledger.judgement.bands import BandedRecording, Neighbour, put_and_find
from gateway.ledger.records import NewSubmission
from gateway.ledger.sqlite.store import SqliteLedger
from policies.judging import Forensics
from policies.vocabulary import Claim, Reason, State
from replay.forensics.inputs import inputs_of
from replay.forensics.shingles import bands_of
from replay.forensics.similarity import ComparableRecording, similarity
from replay.recording import decode, encode
from replay.worker.evidence import MOST_COMPARED
from tests.replay.forensics import players
from validators.judge import Judgement
from validators.submission import Submission

Words = NDArray[np.uint32]

TICKS: Final = 3600
BUTTONS: Final = 5
AT_ONCE: Final = 500
LIMITS: Final = Forensics()

CHANGES: Final[dict[str, Callable[[Words, int], Words]]] = {
    "nothing": lambda words, _: words,
    "a tick later": lambda words, _: players.moved(words, 1),
    "an unused button pressed": players.with_noise,
    "1 % of the presses edited": lambda words, seed: players.edited(words, seed, 0.01),
    "5 % edited": lambda words, seed: players.edited(words, seed, 0.05),
    "10 % edited": lambda words, seed: players.edited(words, seed, 0.10),
    "ticks put in at ten places": players.with_pauses,
    "a fifth cut off": lambda words, _: players.cut(words, 0.2),
    "half cut off": lambda words, _: players.cut(words, 0.5),
}


def words_of_run(seed: int) -> Words:
    """Return the words of a run, always the same for a seed. Each button is pressed every 0.3 to 1 s."""
    rng = np.random.default_rng(seed)
    words = np.zeros(TICKS, np.uint32)
    for bit in range(BUTTONS):
        intervals = rng.uniform(20, 60) * np.exp(rng.normal(0, 0.4, 3 * TICKS // 20))
        lengths = np.minimum(
            rng.uniform(4.5, 9) * np.exp(rng.normal(0, 0.25, intervals.size)), intervals * 0.8
        )
        presses = np.floor(np.cumsum(intervals)).astype(np.int64)
        toggles = np.concatenate([presses, presses + np.maximum(1, lengths.astype(np.int64))])
        np.bitwise_xor.at(words, toggles[toggles < TICKS], np.uint32(1 << bit))
    return np.bitwise_xor.accumulate(words)


def read(recording: bytes) -> ComparableRecording:
    """Read a recording as a worker does."""
    return ComparableRecording(
        recording, inputs_of(decode(recording, maximum_ticks=2 * TICKS).inputs, LIMITS.buttons)
    )


def submission(number: int, recording: bytes) -> NewSubmission:
    """Return a verified run of a new player."""
    run = Submission(
        f"run-{number}", "bench", f"p{number}", "b1", 0, 0, 60_000, Claim(1, TICKS), has_recording=True
    )
    digest = hashlib.sha256(recording).digest()
    judgement = Judgement(State.PROMOTED, Reason.VERIFIED)
    name = f"n{number}"
    return NewSubmission(run, judgement, name, name, digest, recording, digest, len(recording), "", "")


async def fill(ledger: SqliteLedger, recordings: int) -> None:
    """Append the recordings. Submission number n has sequence number n + 1."""
    for first in range(0, recordings, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, recordings))
        recorded = [encode(words_of_run(number).astype("<u4").tobytes(), (), 0) for number in numbers]
        await asyncio.gather(
            *(
                ledger.append(submission(number, recording))
                for number, recording in zip(numbers, recorded, strict=True)
            )
        )
        banded = [
            BandedRecording("bench", number + 1, bands_of(read(recording).shingles))
            for number, recording in zip(numbers, recorded, strict=True)
        ]
        await ledger.write(put_and_find(banded))


@dataclass
class QueryOutcome:
    """The outcome of all queries of one kind."""

    queries: int = 0
    shared: int = 0
    named: int = 0
    others: int = 0
    times_ms: dict[str, list[float]] = field(
        default_factory=lambda: {"bands": [], "search": [], "compare": []}
    )


async def search(ledger: SqliteLedger, seq: int, words: Words, original: str, outcome: QueryOutcome) -> None:
    """Search for a recording's like, and count whether the original is found."""
    copy = ComparableRecording(b"", inputs_of(words.astype("<u4").tobytes(), LIMITS.buttons))
    started = time.perf_counter()
    bands = bands_of(copy.shingles)
    banded = time.perf_counter()
    [near] = await ledger.write(put_and_find([BandedRecording("bench", seq, bands)]))
    searched = time.perf_counter()
    named = _named(copy, near)
    for step, took_s in zip(
        ("bands", "search", "compare"),
        (banded - started, searched - banded, time.perf_counter() - searched),
        strict=True,
    ):
        outcome.times_ms[step].append(took_s * 1000)
    outcome.queries += 1
    outcome.shared += original in {neighbour.submission_id for neighbour in near}
    outcome.named += original in named
    outcome.others += bool(set(named) - {original})


def _named(copy: ComparableRecording, near: Iterable[Neighbour]) -> tuple[str, ...]:
    alike = [
        (neighbour.submission_id, read(neighbour.recording.body))
        for neighbour in list(near)[:MOST_COMPARED]
        if neighbour.recording and neighbour.recording.body
    ]
    return next((finding.others for finding in similarity(copy, alike, LIMITS)), ())


async def measure(recordings: int, queries: int) -> dict[str, QueryOutcome]:
    """Fill a ledger, and return the outcome of each kind of change."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.sqlite3")
        await ledger.open()
        started = time.perf_counter()
        await fill(ledger, recordings)
        print(
            f"{recordings} recordings put in, "
            f"{(time.perf_counter() - started) / recordings * 1000:.2f} ms each"
        )
        outcomes, seqs = {}, count(10**12)
        rng = np.random.default_rng(0)
        for name, change in CHANGES.items():
            outcomes[name] = QueryOutcome()
            for number in rng.choice(recordings, min(queries, recordings), replace=False).tolist():
                words = change(words_of_run(number), number)
                await search(ledger, next(seqs), words, f"run-{number}", outcomes[name])
        outcomes["another recording"] = QueryOutcome()
        for number in range(recordings, recordings + queries):
            await search(ledger, next(seqs), words_of_run(number), "", outcomes["another recording"])
        await ledger.close()
        return outcomes


def main() -> None:
    """Print the table, the times and the recall."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--recordings", type=int, default=100_000)
    arguments.add_argument("--queries", type=int, default=100)
    arguments.add_argument("--quick", action="store_true")
    options = arguments.parse_args()
    if options.quick:
        options.recordings, options.queries = 2_000, 20
    outcomes = asyncio.run(measure(options.recordings, options.queries))
    print(f"{'changed in the copy':28} queries   shared a band   named   others named")
    for name, outcome in outcomes.items():
        shared, named, others = (
            part / outcome.queries for part in (outcome.shared, outcome.named, outcome.others)
        )
        print(f"{name:28} {outcome.queries:7} {shared:15.3f} {named:7.3f} {others:14.3f}")
    for step in ("bands", "search", "compare"):
        times = np.concatenate([outcome.times_ms[step] for outcome in outcomes.values()])
        median, worst = np.percentile(times, [50, 99])
        print(f"{step:8} {median:8.2f} ms median, {worst:8.2f} ms at the 99th percentile")
    edited = outcomes["5 % edited"]
    print(f"recall {edited.named / edited.queries:.3f}")


if __name__ == "__main__":
    main()
