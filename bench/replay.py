"""Measures verified runs per second of one worker core, beside the bare module.

    python -m bench.replay [--runs 30] [--rounds 9]

Both sides get the same recordings of about a minute of the arcade game, made by its headless players. A
verified run is everything that a worker does for a verdict: decode the recording, have the sandbox simulate
it, compare. A raw run is one `simulate` call in this process, with wasmtime's default settings (no fuel), in
a fresh instance of the compiled module. Both run on one processor core, in turns. Prints medians of the
rounds, and their ratio last.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wasmtime import Config, Engine, Func, Instance, Memory, Module, Store

from examples.arcade.players import CHECKPOINT_TICKS, STATS, Arcade, play
from policies.loader import Simulator
from policies.replaying import Replay
from policies.vocabulary import Claim, VerdictKind
from replay.recording import encode, pack_inputs
from replay.simulators import Simulators
from replay.simulators.sandbox import Sandbox
from replay.verify import verify

MODULE = Path(__file__).resolve().parents[1] / "examples" / "arcade" / "arcade.wasm"
SHORTEST_TICKS, LONGEST_TICKS = 3_000, 4_500
SKILL = 0.9


@dataclass(frozen=True)
class RecordedRun:
    """An honest run: seed, claim and recording, and its inputs as the module reads them."""

    seed: int
    claim: Claim
    recording: bytes
    inputs: bytes


def recorded(count: int) -> list[RecordedRun]:
    """Play `count` runs of 50 to 75 seconds, the same every time."""
    arcade, runs, seed = Arcade(MODULE), list[RecordedRun](), 0
    while len(runs) < count:
        seed += 1
        played = play(arcade, seed, SKILL, random.Random(seed))
        if SHORTEST_TICKS <= played.ticks <= LONGEST_TICKS:
            inputs = pack_inputs(played.inputs)
            recording = encode(inputs, played.checkpoints, CHECKPOINT_TICKS)
            runs.append(RecordedRun(seed, Claim(played.score, played.ticks, played.stats), recording, inputs))
    return runs


def verifier(simulators: Simulators) -> Callable[[RecordedRun], None]:
    """Return a function that verifies a run, or fails."""
    digest = "sha256:" + hashlib.sha256(MODULE.read_bytes()).hexdigest()
    policy = Replay(maximum_ticks=36_000, stats=STATS)
    simulator = Simulator(digest, MODULE)

    def verified(run: RecordedRun) -> None:
        verdict = verify(run.claim, run.recording, run.seed, policy, simulator, simulators)
        assert verdict.kind is VerdictKind.VERIFIED, verdict

    return verified


def raw() -> Callable[[RecordedRun], None]:
    """Return a function that simulates a run in this process."""
    engine = Engine(Config())
    module = Module(engine, MODULE.read_bytes())

    def simulated(run: RecordedRun) -> None:
        with Store(engine) as store:
            exports = Instance(store, module, []).exports(store)
            memory, inputs, simulate = exports["memory"], exports["inputs"], exports["simulate"]
            assert isinstance(memory, Memory)
            assert isinstance(inputs, Func)
            assert isinstance(simulate, Func)
            address = inputs(store, run.claim.ticks)
            ctypes.memmove(
                ctypes.addressof(memory.data_ptr(store).contents) + address, run.inputs, len(run.inputs)
            )
            result = simulate(store, run.seed, run.claim.ticks, CHECKPOINT_TICKS)
            assert memory.read(store, result + 8, result + 16) == run.claim.score.to_bytes(8, "little")

    return simulated


def runs_per_second(work: Callable[[RecordedRun], None], runs: list[RecordedRun]) -> float:
    """Return the runs per second of one round over all runs."""
    started = time.perf_counter()
    for run in runs:
        work(run)
    return len(runs) / (time.perf_counter() - started)


def main() -> None:
    """Print the two speeds and their ratio."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--runs", type=int, default=30)
    arguments.add_argument("--rounds", type=int, default=9)
    options = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    runs = recorded(options.runs)
    seconds = statistics.mean(run.claim.ticks for run in runs) / 60
    print(f"{len(runs)} recordings of {seconds:.0f} s of play on average, one core")
    with Sandbox() as sandbox:
        works = {"raw": raw(), "verified": verifier(sandbox)}
        rounds: dict[str, list[float]] = {name: [runs_per_second(work, runs)] for name, work in works.items()}
        for _ in range(options.rounds):
            for name, work in works.items():
                rounds[name].append(runs_per_second(work, runs))
    speeds = {name: statistics.median(rates[1:]) for name, rates in rounds.items()}
    for name, speed in speeds.items():
        print(f"{name:9} {speed:8.0f} runs/s, {speed * seconds / 3600:.1f} hours of play per second")
    print(f"ratio {speeds['verified'] / speeds['raw']:.3f}")


if __name__ == "__main__":
    main()
