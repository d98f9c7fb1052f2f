"""Measures events sealed and verified per second, beside plain SHA-256 over the same bytes.

    python -m bench.seal [--events 100000] [--rounds 5]

A ledger on SQLite is filled with runs, half of them promoted. Then the steward's sealer seals everything, and
the audit of `scoregate ledger verify` reads it back: every event with the facts of its submission, hashed
into the tree and compared, every signature, every state. The other side is the least that any check needs:
hashing the bytes of those entries in memory, in this process. Rounds alternate. Prints medians, and their
ratio last.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gateway.ledger.records import NewSubmission
from gateway.ledger.seals import chain
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings, bundled_policies
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.loader import Board, load_board
from policies.vocabulary import Claim, Reason, State
from validators.judge import Judgement
from validators.submission import Submission

GROUP = 500


class NoIndex:
    """An index that drops all changes."""

    async def project(self, _board: Board, _changes: Sequence[Change]) -> None:
        """Do nothing."""


def a_run(number: int, board: Board) -> NewSubmission:
    """Return a run of one of a thousand players, with stats and a recording's digest as in the arcade."""
    now_ms = wall_clock()
    submission_id = f"01m7waegd9j58mvpamxk{number:08d}"
    claim = Claim(number % 100_000, 3_600, {"best_combo": 5, "motes": 80, "near_misses": 4})
    player = f"p594be6ac861bec{number % 1000:04d}"
    build, has_recording = "arcade-1", True
    run = Submission(submission_id, board.name, player, build, number, now_ms, now_ms, claim, has_recording)
    return NewSubmission(
        submission=run,
        judgement=Judgement(State.PENDING, Reason.ACCEPTED),
        credential=f"run:{submission_id}",
        nonce=f"nonce-{number:016d}",
        content_digest=hashlib.sha256(b"%d" % number).digest(),
        recording=None,
        recording_digest=hashlib.sha256(b"recording %d" % number).digest(),
        recording_bytes=2_000,
        simulator="sha256:" + "0" * 64,
        policy_digest=board.digest,
    )


async def fill(ledger: SqliteLedger, board: Board, count: int) -> int:
    """Append two runs for every three of `count` events, promote half of them, and return the events."""
    runs = max(1, count * 2 // 3)
    for begin in range(0, runs, GROUP):
        news = [a_run(number, board) for number in range(begin, min(runs, begin + GROUP))]
        await asyncio.gather(*(ledger.append(new) for new in news))
        decisions = [
            Decision(
                new.submission.submission_id,
                State.PROMOTED,
                "replay",
                Reason.VERIFIED,
                wall_clock(),
                frozenset({State.PENDING}),
            )
            for new in news[::2]
        ]
        await settle(ledger, NoIndex(), board, decisions)
    return (await ledger.read(chain.unsealed())).events


async def entries_of(ledger: SqliteLedger, board: Board, count: int) -> list[bytes]:
    """Return the entries of all events, as bytes."""
    entries = []
    for number in range(max(1, count * 2 // 3)):
        rows = await ledger.read(chain.event_rows(a_run(number, board).submission.submission_id))
        entries += [entry_of(event, facts) for event, facts in rows]
    return entries


def hashing_s(entries: Sequence[bytes]) -> float:
    """Return the seconds that it takes to hash the entries, one by one."""
    started = time.perf_counter()
    for entry in entries:
        hashlib.sha256(entry).digest()
    return time.perf_counter() - started


async def measure(folder: Path, count: int, rounds: int) -> float:
    """Print the speeds of sealing, audit and hashing, and return the ratio of the last two."""
    settings = Settings(data_dir=folder)
    board = load_board(bundled_policies() / "arcade.yaml")
    ledger = SqliteLedger(settings.ledger_path)
    await ledger.open()
    try:
        events = await fill(ledger, board, count)
        entries = await entries_of(ledger, board, count)
        keys = PublicKeys(seal_key_of(settings, is_made=True).public_key)
        sealer = Sealer(settings, ledger, clock=lambda: wall_clock() + 3_600_000)
        started = time.perf_counter()
        while await sealer.step():
            pass
        sealed_s = time.perf_counter() - started
        audits, hashings = list[float](), list[float]()
        for _ in range(rounds):
            started = time.perf_counter()
            report = await audit(ledger, keys)
            audits.append(time.perf_counter() - started)
            assert report.sealed_events == events == len(entries), report
            hashings.append(hashing_s(entries))
    finally:
        await ledger.close()
    size = sum(map(len, entries)) / len(entries)
    verified_s, plain_s = statistics.median(audits), statistics.median(hashings)
    print(f"{events} events of {size:.0f} bytes on average, under {report.seals} seals")
    print(f"sealed   {events / sealed_s:10.0f} events/s")
    print(f"verified {events / verified_s:10.0f} events/s")
    print(f"SHA-256  {events / plain_s:10.0f} events/s")
    return plain_s / verified_s


def main() -> None:
    """Print the speeds, and the ratio last."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--events", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratio = asyncio.run(measure(Path(folder), options.events, options.rounds))
    print(f"ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
