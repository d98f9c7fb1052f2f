"""A tiny game that keeps to module interface version 1, its twin in Python, and modules that break it.

The game: the state is mixed with each input word; a word with its lowest bit set scores one, a word of
exactly `END` ends the run. Its statistics are the number of scoring ticks and the largest word (as i32).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wasmtime import wat2wasm

from replay.recording import encode, pack_inputs

END = 0xDEAD
MULTIPLIER = 6364136223846793005
INPUTS_AT, RESULT_AT, ROOM_TICKS = 65_536, 1024, 100_000

GAME = f"""
(module
  (memory (export "memory") 9 9)
  (global $state (mut i64) (i64.const 0))
  (global $score (mut i64) (i64.const 0))
  (global $largest (mut i32) (i32.const 0))
  (global $over (mut i32) (i32.const 0))
  (func (export "abi_version") (result i32) i32.const 1)
  (func $start (export "start") (param $seed i64)
    (global.set $state (local.get $seed))
    (global.set $score (i64.const 0))
    (global.set $largest (i32.const 0))
    (global.set $over (i32.const 0)))
  (func $tick (export "tick") (param $word i32) (result i32)
    (if (global.get $over) (then (return (i32.const 0))))
    (global.set $state
      (i64.add (i64.mul (global.get $state) (i64.const {MULTIPLIER})) (i64.extend_i32_u (local.get $word))))
    (global.set $score
      (i64.add (global.get $score) (i64.extend_i32_u (i32.and (local.get $word) (i32.const 1)))))
    (if (i32.gt_u (local.get $word) (global.get $largest)) (then (global.set $largest (local.get $word))))
    (global.set $over (i32.eq (local.get $word) (i32.const {END})))
    (i32.eqz (global.get $over)))
  (func (export "score") (result i64) global.get $score)
  (func (export "state_hash") (result i64) global.get $state)
  (func (export "inputs") (param $ticks i32) (result i32)
    (select (i32.const {INPUTS_AT}) (i32.const 0) (i32.le_u (local.get $ticks) (i32.const {ROOM_TICKS}))))
  (func (export "simulate") (param $seed i64) (param $ticks i32) (param $every i32) (result i32)
    (local $played i32) (local $checkpoints i32) (local $goes_on i32)
    (call $start (local.get $seed))
    (local.set $goes_on (i32.const 1))
    (block $end (loop $next
      (br_if $end (i32.eqz (i32.and (local.get $goes_on) (i32.lt_u (local.get $played) (local.get $ticks)))))
      (local.set $goes_on (call $tick
        (i32.load offset={INPUTS_AT} (i32.mul (local.get $played) (i32.const 4)))))
      (local.set $played (i32.add (local.get $played) (i32.const 1)))
      (if (local.get $every) (then
        (if (i32.eqz (i32.rem_u (local.get $played) (local.get $every))) (then
          (i64.store offset={RESULT_AT + 48}
            (i32.mul (local.get $checkpoints) (i32.const 8)) (global.get $state))
          (local.set $checkpoints (i32.add (local.get $checkpoints) (i32.const 1)))))))
      (br $next)))
    (i32.store (i32.const {RESULT_AT}) (local.get $played))
    (i32.store (i32.const {RESULT_AT + 4}) (global.get $over))
    (i64.store (i32.const {RESULT_AT + 8}) (global.get $score))
    (i64.store (i32.const {RESULT_AT + 16}) (global.get $state))
    (i32.store (i32.const {RESULT_AT + 24}) (i32.const 2))
    (i32.store (i32.const {RESULT_AT + 28}) (local.get $checkpoints))
    (i64.store (i32.const {RESULT_AT + 32}) (global.get $score))
    (i64.store (i32.const {RESULT_AT + 40}) (i64.extend_i32_u (global.get $largest)))
    (i32.const {RESULT_AT})))
"""
STATS = ("scoring_ticks", "largest_word")

PARAMETERS_AT, ASSET_AT, ROOM_BYTES = 524_288, 532_480, 57_344
"""Where the module of courses keeps its board's content: a page that the tiny game leaves alone."""

_TAKES = f"""
  (func (export "parameters") (param i32) (result i32) (i32.const {PARAMETERS_AT}))
  (func (export "asset") (param $bytes i32) (result i32)
    (select (i32.const {ASSET_AT}) (i32.const 0) (i32.le_u (local.get $bytes) (i32.const {ROOM_BYTES}))))
"""
COURSES = (
    GAME.replace('(func (export "score")', _TAKES + '(func (export "score")')
    .replace(
        f"(i64.store (i32.const {RESULT_AT + 32}) (global.get $score))",
        f"(i64.store (i32.const {RESULT_AT + 32}) (i64.load32_u (i32.const {PARAMETERS_AT})))",
    )
    .replace("(i64.extend_i32_u (global.get $largest))", f"(i64.load32_u (i32.const {ASSET_AT}))")
)
"""The tiny game, whose statistics are the first four bytes of its board's parameters and asset."""


@dataclass(frozen=True)
class Module:
    """A module file and its digest."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Play:
    """One run of the game, worked out in Python."""

    inputs: bytes
    ticks: int
    is_over: bool
    score: int
    state_hash: int
    stats: dict[str, int]
    checkpoints: list[int]
    recording: bytes


def play(words: Sequence[int], seed: int, checkpoint_ticks: int) -> Play:
    """What the game makes of these inputs."""
    state, score, largest, checkpoints, ticks = seed, 0, 0, [], 0
    for ticks, word in enumerate(words, 1):
        state = (state * MULTIPLIER + word) % 2**64
        score, largest = score + (word & 1), max(largest, word)
        if checkpoint_ticks and ticks % checkpoint_ticks == 0:
            checkpoints.append(state)
        if word == END:
            break
    inputs = pack_inputs(words[:ticks])
    stats = dict(zip(STATS, (score, largest), strict=True))
    recording = encode(inputs, checkpoints, checkpoint_ticks)
    return Play(inputs, ticks, words[ticks - 1] == END, score, state, stats, checkpoints, recording)


def store(directory: Path, wat: str) -> Module:
    """The module that `wat` describes, written to `directory`."""
    return store_bytes(directory, bytes(wat2wasm(wat)))


def store_bytes(directory: Path, module: bytes) -> Module:
    """The module, written to `directory`."""
    path = directory / f"{hashlib.sha256(module).hexdigest()[:16]}.wasm"
    path.write_bytes(module)
    return at(path)


def at(path: Path) -> Module:
    """The module that is at `path`."""
    return Module(path, "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest())


def broken(
    simulate: str = "i32.const 1024",
    *,
    memory: str = "2",
    version: str = "i32.const 1",
    inputs: str = "i32.const 4096",
    more: str = "",
    imports: str = "",
) -> str:
    """A module of the right shape, with the given bodies in the places where one breaks things."""
    return f"""
    (module {imports}
      (memory (export "memory") {memory})
      {more}
      (func (export "abi_version") (result i32) {version})
      (func (export "start") (param i64))
      (func (export "tick") (param i32) (result i32) i32.const 1)
      (func (export "score") (result i64) i64.const 0)
      (func (export "state_hash") (result i64) i64.const 0)
      (func (export "inputs") (param i32) (result i32) {inputs})
      (func (export "simulate") (param i64 i32 i32) (result i32) (local $n i32) {simulate}))
    """
