"""Headless players of the arcade game, from clumsy to superhuman, for demos and tests.

`play(module, seed, skill, rng, max_ticks)` returns what a client would submit. A player sees the game through
the module's `view()` record, after a reaction delay, weighs a few short plans and holds its keys for several
ticks. `skill` sets the delay, the patience and the mistakes. Floats are fine here: only the recorded words
count.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wasmtime import Config, Engine, Func, Instance, Memory, Module, Store

CHECKPOINT_TICKS = 60
LEFT, RIGHT, OUTWARD, INWARD, NOVA = 1, 2, 4, 8, 16
STATS = ("motes", "near_misses", "best_combo")

# The record behind view(), in the order of struct State in core/arcade.c.
VIEW = struct.Struct("<Qq 22i 4i 9i 9i 240i")
MOTES_AT, FLARES_AT, SHARDS_AT = 28, 37, 46
STATS_AT = struct.Struct("<3i")
STATS_OFFSET = 16 + 13 * 4

RADIANS = 2 * 3.141592653589793 / 65536
RINGS = (120.0, 190.0, 260.0)
STEP_TICKS = 4
HOP_PIXELS = 7.0
TOP_SPEED, THRUST = 1480, 190
HIT_PIXELS, FLARE_BLAST, WAVE_PIXELS = 10.0, 26, 2.0


@dataclass(frozen=True)
class ArcadeRun:
    """A finished run, as a client would submit it."""

    seed: int
    inputs: list[int]
    score: int
    ticks: int
    stats: dict[str, int]
    checkpoints: list[int]
    is_over: bool


@dataclass(frozen=True)
class Habits:
    """The habits of a player of some skill; all times are in ticks."""

    delay: int
    patience: int
    jitter: int
    horizon: int
    mistake: float
    margin: float
    greed: float
    has_second_thoughts: bool


class FallingShard(NamedTuple):
    """A falling shard: angle in 1/65536 turns, radius in pixels; `drift` and `fall` change them per tick."""

    angle: int
    radius: float
    fall: float
    drift: int
    size: float


class Flare(NamedTuple):
    """A sector of the sky that burns during the last `FLARE_BLAST` of its ticks."""

    ticks_left: int
    angle: int
    half_width: int


class Sight(NamedTuple):
    """The game as a player sees it at one instant."""

    angle: int
    radius: float
    speed: int
    ring: int
    energy: int
    wave: tuple[int, float, int, int]
    motes: list[tuple[int, int]]
    flares: list[Flare]
    shards: list[FallingShard]


class Plan(NamedTuple):
    """A plan to steer one way, then another, on a ring; -1 is left."""

    first: int
    second: int
    ring: int


def habits(skill: float) -> Habits:
    """Return the habits of a player of `skill` 0 to 1; 1.0 is superhuman."""
    if skill >= 1.0:
        return Habits(0, 8, 1, 36, 0.0, 7.0, 3.5, has_second_thoughts=True)
    clumsy = 1.0 - skill
    return Habits(
        delay=5 + round(21 * clumsy),
        patience=9 + round(14 * clumsy),
        jitter=3 + round(8 * clumsy),
        horizon=32,
        mistake=0.02 + 0.7 * clumsy**2,
        margin=2.0 + 6.0 * skill,
        greed=1.0 + skill,
        has_second_thoughts=skill > 0.3,
    )


class BulkResult(NamedTuple):
    """The result record of the bulk call."""

    ticks: int
    is_over: bool
    score: int
    stats: list[int]
    checkpoints: list[int]


def signed_64(number: int) -> int:
    """Return the signed number with the same 64 bits."""
    return number - (1 << 64) if number >> 63 else number


class Arcade:
    """The compiled module; opens any number of independent sessions."""

    def __init__(self, module: Path | str) -> None:
        self.engine = Engine(Config())
        self.module = Module.from_file(self.engine, str(module))

    def open(self, seed: int) -> Session:
        """Open a session at tick 0 of the run with this seed."""
        return Session(self, seed)


class Session:
    """One run being played tick by tick."""

    def __init__(self, arcade: Arcade, seed: int) -> None:
        self.store = Store(arcade.engine)
        self._exports = Instance(self.store, arcade.module, []).exports(self.store)
        self._tick = self._func("tick")
        self._hash = self._func("state_hash")
        self._call("start", signed_64(seed))
        self._view_at = self._call("view")
        memory = self._exports["memory"]
        assert isinstance(memory, Memory)
        self.memory = memory

    def _func(self, name: str) -> Func:
        func = self._exports[name]
        assert isinstance(func, Func)
        return func

    def _call(self, name: str, *arguments: int) -> int:
        return int(self._func(name)(self.store, *arguments) or 0)

    def tick(self, word: int) -> bool:
        """Play one tick and return whether the run goes on."""
        return bool(self._tick(self.store, word - (1 << 32) if word >> 31 else word))

    def look(self) -> bytes:
        """Return the raw view record."""
        return bytes(self.memory.read(self.store, self._view_at, self._view_at + VIEW.size))

    def score(self) -> int:
        """Return the score so far."""
        return self._call("score")

    def state_hash(self) -> int:
        """Return the unsigned hash of the state."""
        return int(self._hash(self.store)) & 0xFFFFFFFFFFFFFFFF

    def simulate(self, seed: int, words: list[int], checkpoint_every: int) -> BulkResult:
        """Return the result of the bulk call for these words, which ends this session's own run."""
        self.memory.write(
            self.store, struct.pack(f"<{len(words)}I", *words), self._call("inputs", len(words))
        )
        address = self._call("simulate", signed_64(seed), len(words), checkpoint_every)
        head = struct.unpack("<IIqQII", self.memory.read(self.store, address, address + 32))
        ticks, is_over, score, _, stat_count, checkpoint_count = head
        end = address + 32 + 8 * (stat_count + checkpoint_count)
        tail = struct.unpack(
            f"<{stat_count}q{checkpoint_count}Q", self.memory.read(self.store, address + 32, end)
        )
        return BulkResult(ticks, bool(is_over), score, list(tail[:stat_count]), list(tail[stat_count:]))


def sight_in(raw: bytes) -> Sight:
    """Return what a view record shows."""
    v = VIEW.unpack(raw)
    count = v[23]
    shards = [v[at : at + 5] for at in range(SHARDS_AT, SHARDS_AT + 6 * count, 6)]
    return Sight(
        angle=v[4],
        radius=v[5] / 256,
        speed=v[6],
        ring=v[7],
        energy=v[14],
        wave=(v[24], v[25] / 256, v[26], v[27]),
        motes=[(v[at + 1], v[at + 2]) for at in range(MOTES_AT, FLARES_AT, 3) if v[at] > 0],
        flares=[Flare(*v[at : at + 3]) for at in range(FLARES_AT, SHARDS_AT, 3) if v[at] > 0],
        shards=[
            FallingShard(a, r / 256, fall / 256, drift, size / 256) for a, r, fall, drift, size in shards
        ],
    )


def signed_angle(angle: int) -> int:
    """Return the angle between -32768 and 32767."""
    return ((angle + 32768) & 65535) - 32768


class Mind:
    """Chooses plans by their dangers and by what they reach."""

    def __init__(self, own: Sight, world: Sight, habits: Habits) -> None:
        self.own, self.world, self.habits = own, world, habits
        self.times = range(STEP_TICKS, habits.horizon + 1, STEP_TICKS)
        self.dangers = [self._shards_at(time) for time in self.times]

    def _shards_at(self, time: int) -> list[tuple[int, float, float]]:
        moved = ((s.angle + s.drift * time, s.radius - s.fall * time, s.size) for s in self.world.shards)
        return [(angle, radius, size) for angle, radius, size in moved if 80 < radius < 310]

    def best(self, plans: list[Plan]) -> Plan:
        """Return the cheapest plan, the first of equals."""
        return min(plans, key=self.cost)

    def cost(self, plan: Plan) -> float:
        """Return the danger on the way, plus the distance left to the nearest mote, plus effort."""
        path = self._path(plan)
        danger = 0.0
        for index, (angle, radius) in enumerate(path):
            weight = 1.0 / (index + 2)
            danger += weight * self._shard_danger(index, angle, radius)
            danger += weight * self._sky_danger(self.times[index], angle, radius)
        effort = 2.0 * abs(plan.ring - self.own.ring) + abs(plan.first) + abs(plan.first - plan.second)
        return danger + self.habits.greed * self._mote_distance(*path[-1]) / 40 + effort * 0.2

    def _path(self, plan: Plan) -> list[tuple[int, float]]:
        angle, radius, speed = float(self.own.angle), self.own.radius, float(self.own.speed)
        path = []
        for time in self.times:
            steering = plan.first if time <= 16 else plan.second
            speed = (
                max(-TOP_SPEED, min(TOP_SPEED, speed + steering * THRUST * STEP_TICKS))
                if steering
                else speed * 0.6
            )
            climb = RINGS[plan.ring] - radius
            radius += max(-HOP_PIXELS * STEP_TICKS, min(HOP_PIXELS * STEP_TICKS, climb))
            angle += STEP_TICKS * speed * 10430 / 256 / radius
            path.append((int(angle), radius))
        return path

    def _shard_danger(self, index: int, angle: int, radius: float) -> float:
        danger = 0.0
        for shard_angle, shard_radius, size in self.dangers[index]:
            across = shard_radius - radius
            if -50 < across < 50:
                along = signed_angle(shard_angle - angle) * (shard_radius + radius) / 2 * RADIANS
                room = (across * across + along * along) ** 0.5 - size - HIT_PIXELS - self.habits.margin
                danger += 100.0 if room < 0 else 6.0 / (1 + room * room / 20)
        return danger

    def _sky_danger(self, time: int, angle: int, radius: float) -> float:
        margin = 10 * self.habits.margin
        danger = 0.0
        for ticks_left, middle, half_width in self.world.flares:
            inside = half_width + 5 * margin - abs(signed_angle(middle - angle))
            if inside > 0 and 0 < ticks_left - time <= FLARE_BLAST + 3:
                danger += 90.0 + inside / 100
        warning, wave_radius, gap, half_width = self.world.wave
        reach = wave_radius + WAVE_PIXELS * max(0, time - warning)
        outside = abs(signed_angle(gap - angle)) - half_width + 3 * margin
        if wave_radius and reach < radius + 14 and outside > 0:
            danger += 4.0 + outside / 400 + (90.0 if abs(reach - radius) < 16 else 0.0)
        return danger

    def _mote_distance(self, angle: int, radius: float) -> float:
        along_and_across = (
            abs(signed_angle(mote_angle - angle)) * radius * RADIANS + abs(RINGS[ring] - radius)
            for mote_angle, ring in self.world.motes
        )
        return min(along_and_across, default=0.0)


class Hands:
    """Turns plans into held keys, with a reaction delay and slips."""

    def __init__(self, habits: Habits, rng: random.Random) -> None:
        self.habits, self.rng = habits, rng
        self.memory: deque[bytes] = deque(maxlen=habits.delay + 1)
        self.plan = Plan(0, 0, 1)
        self.wait = 0
        self.since = 0
        self.tap = 0
        self.tap_ticks = 0

    def word(self, raw: bytes) -> int:
        """Return the input word for the next tick, given the view after the last one."""
        self.memory.append(raw)
        self.wait -= 1
        self.since += 1
        if self.wait <= 0:
            # Players know where they are at once; the delay is for the world around them.
            self._decide(sight_in(raw), sight_in(self.memory[0]))
        self.tap_ticks -= 1
        steering = self.plan.first if self.since <= 16 else self.plan.second
        return (0, RIGHT, LEFT)[steering] | (self.tap if self.tap_ticks > 0 else 0)

    def _decide(self, own: Sight, world: Sight) -> None:
        plans = self._plans(own.ring)
        mind = Mind(own, world, self.habits)
        slips = self.rng.random() < self.habits.mistake
        self.plan = self.rng.choice(plans) if slips else mind.best(plans)
        self.since = 0
        self.wait = self.habits.patience + self.rng.randint(-self.habits.jitter, self.habits.jitter)
        if self.tap_ticks < -1:
            self._tap(self._button(own, mind))

    def _plans(self, ring: int) -> list[Plan]:
        rings = [r for r in (ring, ring + 1, ring - 1) if 0 <= r <= 2]
        if self.habits.has_second_thoughts:
            return [Plan(first, second, r) for r in rings for first in (0, 1, -1) for second in (0, 1, -1)]
        return [Plan(way, way, r) for r in rings for way in (0, 1, -1)]

    def _button(self, own: Sight, mind: Mind) -> int:
        if own.energy == 6 and mind.cost(self.plan) > 40:
            return NOVA
        if self.plan.ring == own.ring:
            return 0
        return OUTWARD if self.plan.ring > own.ring else INWARD

    def _tap(self, button: int) -> None:
        if button:
            self.tap = button
            self.tap_ticks = 2 if self.habits.delay == 0 else self.rng.randint(3, 7)


def play(
    module: Arcade | Path | str, seed: int, skill: float, rng: random.Random, max_ticks: int = 7200
) -> ArcadeRun:
    """Play a whole run. After `max_ticks` the player releases the keys and waits for the end."""
    session = (module if isinstance(module, Arcade) else Arcade(module)).open(seed)
    hands = Hands(habits(skill), rng)
    inputs: list[int] = []
    checkpoints: list[int] = []
    choose: Callable[[bytes], int] = hands.word
    goes_on = True
    while goes_on:
        word = choose(session.look()) if len(inputs) < max_ticks else 0
        goes_on = session.tick(word)
        inputs.append(word)
        if len(inputs) % CHECKPOINT_TICKS == 0:
            checkpoints.append(session.state_hash())
    stats = dict(zip(STATS, STATS_AT.unpack_from(session.look(), STATS_OFFSET), strict=True))
    return ArcadeRun(seed, inputs, session.score(), len(inputs), stats, checkpoints, is_over=True)
