"""A board's parameters and asset reach the simulators of all three kinds, in their sandboxes, and no other board's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator, load_policies
from policies.opened_board import ASSET_BYTES, NO_CONTENT, OpenedBoard
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, Reason, SimulatorKind
from replay.recording import encode, pack_inputs
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, SimulatorFault
from replay.simulators.board_content import EMPTY_CONTENT, Asset, BoardContent
from replay.simulators.frames import SimulationOrder
from replay.simulators.line_protocol import question
from replay.simulators.line_simulators import LineSimulators
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import ProcessSimulators
from replay.simulators.sandbox import Sandbox
from replay.simulators.wasm import Machine, ModuleRule
from replay.verify import verify
from replay.worker.board_contents import BoardContents, ContentUnavailable
from tests.replay.games import ASSET_AT, COURSES, GAME, PARAMETERS_AT, STATS, play, store
from tests.support import programs
from tests.support.families import write_family
from tests.support.programs import SEED, WORDS, need_bubblewrap, need_programs, serving, write

PARAMETERS = b'{"gap":7,"speed":[1,2]}'
OTHER_PARAMETERS = b'{"a":8}'
MAP, OTHER_MAP = Asset.of(b"a map of walls" * 3), Asset.of(b"another map" * 4)
FULL = BoardContent(PARAMETERS, MAP)
BUDGET = Budget(fuel=50_000_000, memory_mib=64, wall_ms=20_000)

PROGRAM = """
def number_of(data):
    return int.from_bytes(data[:4].ljust(4, b"\\0"), "little")
"""
ANSWER = """
given = json.dumps(asked["parameters"], separators=(",", ":")).encode() if "parameters" in asked else b""
there = open(asked["asset"], "rb").read() if "asset" in asked else b""
say(dict(honest(asked), stats={"scoring_ticks": number_of(given), "largest_word": number_of(there)}))
"""
PLUGIN = f"""
{programs.PLUGIN.replace("recording):", "recording, parameters=None, asset=None):")}
"""
PLUGIN_ANSWER = """    import json
    given = json.dumps(parameters, separators=(",", ":")).encode() if parameters is not None else b""
    number = lambda data: int.from_bytes((data or b"")[:4].ljust(4, b"\\0"), "little")
    stats = {"scoring_ticks": number(given), "largest_word": number(asset)}
    return dict(play(seed, inputs, checkpoint_ticks), stats=stats)
"""


def first_number(data: bytes) -> int:
    """The first four bytes as the modules above read them."""
    return int.from_bytes(data[:4].ljust(4, b"\0"), "little")


def numbers_of(content: BoardContent) -> tuple[int, int]:
    """The statistics of a run with this content."""
    return first_number(content.parameters), first_number(content.asset.content if content.asset else b"")


@contextmanager
def wasm(directory: Path) -> Iterator[tuple[Sandbox, SimulationRequest]]:
    """Modules, and a run of one that takes its board's content."""
    module = store(directory, COURSES)
    inputs = b"".join(word.to_bytes(4, "little") for word in WORDS)
    with Sandbox() as sandbox:
        yield sandbox, SimulationRequest(module.path, module.digest, SEED, inputs, len(WORDS), 50, BUDGET)


@contextmanager
def native(directory: Path, *, is_alone: bool) -> Iterator[tuple[ProcessSimulators, SimulationRequest]]:
    """Native programs, in bubblewrap or without, and a run of one."""
    need_programs()
    if not is_alone:
        need_bubblewrap()
    with ProcessSimulators(start_wall_ms=20_000, is_alone=is_alone) as simulators:
        yield simulators, programs.request(serving(directory, ANSWER, PROGRAM), budget=BUDGET)


@contextmanager
def plugin(directory: Path) -> Iterator[tuple[PluginSimulators, SimulationRequest]]:
    """Plug-ins, and a run of one."""
    text = PLUGIN.replace("    return play(seed, inputs, checkpoint_ticks)\n", PLUGIN_ANSWER)
    with PluginSimulators() as plugins:
        yield plugins, programs.request(write(directory, text, "p.py"), SimulatorKind.PLUGIN, budget=BUDGET)


Opened = tuple[Sandbox | LineSimulators, SimulationRequest]


@pytest.fixture(params=["wasm", "inside", "alone", "plugin"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Simulators of each kind, and a run on one whose two statistics tell what its board gave it."""
    how: str = request.param
    kinds: dict[str, Callable[[], object]] = {
        "wasm": lambda: wasm(tmp_path),
        "plugin": lambda: plugin(tmp_path),
    }
    opening = kinds.get(how, lambda: native(tmp_path, is_alone=how == "alone"))()
    with opening as both:  # type: ignore[attr-defined]
        yield both


def stats_of(outcome: SimulationOutcome) -> tuple[int, ...]:
    """The statistics of a run that must have been played."""
    assert isinstance(outcome, Simulation), outcome
    return outcome.stats


@pytest.mark.parametrize("content", [FULL, BoardContent(PARAMETERS), BoardContent(asset=MAP), EMPTY_CONTENT])
def test_a_boards_content_reaches_its_simulator(opened: Opened, content: BoardContent) -> None:
    """Parameters and asset arrive byte by byte, and a board without them gives nothing."""
    simulators, run = opened
    assert numbers_of(content) == stats_of(simulators.simulate(replace(run, content=content)))


def test_one_process_plays_many_boards_apart(opened: Opened) -> None:
    """Each run sees its own board's content, whatever board the same simulator served before it."""
    simulators, run = opened
    other = BoardContent(OTHER_PARAMETERS, OTHER_MAP)
    boards = [
        FULL,
        FULL,
        other,
        EMPTY_CONTENT,
        BoardContent(PARAMETERS),
        FULL,
        BoardContent(asset=OTHER_MAP),
        other,
    ]
    played = [stats_of(simulators.simulate(replace(run, content=content))) for content in boards]
    assert [numbers_of(content) for content in boards] == played


def test_a_run_is_judged_with_its_boards_content(opened: Opened) -> None:
    """The claim of a run on a board is verified with that board's content, and with no other."""
    simulators, run = opened
    kind, game = run.kind, play(WORDS, SEED, 50)
    first, second = numbers_of(FULL)
    claim = Claim(game.score, game.ticks, dict(zip(STATS, (first, second), strict=True)))
    replay = Replay(simulator=kind, maximum_ticks=1000, checkpoint_ticks=50, stats=STATS, budget=BUDGET)
    simulator = Simulator(run.digest, run.module)
    recording = encode(pack_inputs(WORDS), game.checkpoints, 50)
    for content, reason in [(FULL, Reason.VERIFIED), (EMPTY_CONTENT, Reason.STATS_MISMATCH)]:
        verdict = verify(claim, recording, SEED, replay, simulator, simulators, content)
        assert reason is verdict.reason


# What it costs, and what is not kept

LARGE = Asset.of(b"far more than a question has" * 2_000)


def test_a_warm_child_gets_an_asset_once(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """An asset goes to a child with its first run on it, and again only if another board's came in between."""
    simulators, run = opened
    if isinstance(simulators, ProcessSimulators):
        return  # its assets are files of sandboxes, as the next test sees
    sent = 0

    def written(descriptor: int, data: bytes | memoryview, write: Callable[..., int] = os.write) -> int:
        nonlocal sent
        sent += (count := write(descriptor, data))
        return count

    monkeypatch.setattr(os, "write", written)
    boards = [BoardContent(PARAMETERS, LARGE), BoardContent(OTHER_PARAMETERS, LARGE), FULL]
    was_sent = []
    for content in [*boards, boards[0], EMPTY_CONTENT, boards[0]]:
        sent = 0
        stats_of(simulators.simulate(replace(run, content=content)))
        was_sent.append(sent > len(LARGE.content))
    assert [True, False, False, True, False, True] == was_sent


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_warm_program_serves_the_boards_of_one_asset(tmp_path: Path, is_alone: bool) -> None:
    """A native child, whose sandbox has the asset, plays all boards that have it, and no other board."""
    with native(tmp_path, is_alone=is_alone) as (simulators, run):

        def child(content: BoardContent) -> int:
            stats_of(simulators.simulate(replace(run, content=content)))
            return next(reversed(simulators._children.values()))._process.pid

        first, same = child(FULL), child(BoardContent(OTHER_PARAMETERS, MAP))
        others = child(BoardContent(PARAMETERS, OTHER_MAP)), child(BoardContent(PARAMETERS))
        assert (first, 3) == (same, len({first, *others}))


def test_modules_forget_another_boards_asset(tmp_path: Path) -> None:
    """A machine has the asset of its last run alone: a run that names another cannot be played with it."""
    machine, module = Machine(), store(tmp_path, COURSES)
    assert machine.load(module.digest, module.path.read_bytes()) is None
    order = SimulationOrder(module.digest, SEED, 1, 0, 10**6, 2**24, 1000, b"abcd", asset=MAP.digest)
    machine.keep_asset(MAP.digest, MAP.content)
    assert numbers_of(BoardContent(asset=MAP)) == stats_of(machine.run(order))
    assert (0, 0) == stats_of(machine.run(replace(order, asset=b"")))
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == machine.run(order)


def test_a_program_can_only_read_its_asset(opened: Opened, tmp_path: Path) -> None:
    """The file of an asset cannot be changed, and the sandbox holds no other board's."""
    simulators, run = opened
    if not isinstance(simulators, ProcessSimulators):
        return  # no other kind sees a file
    body = """
    there, refused = asked.get("asset", "/nowhere/asset"), 0
    for how in ("ab", "wb"):
        try:
            open(there, how)
        except OSError:
            refused += 1
    number(10 * refused + os.path.exists("/simulator/asset" if there.startswith("/simulator") else there))
    """
    (tmp_path / "other").mkdir()
    other = serving(tmp_path / "other", body)
    run = replace(run, module=other.path, digest=other.digest)
    scores = [simulators.simulate(replace(run, content=content)) for content in (FULL, EMPTY_CONTENT)]
    assert [21, 20] == [score.score for score in scores if isinstance(score, Simulation)]


def test_the_largest_asset_arrives(opened: Opened) -> None:
    """Eight MiB reach a program and a plug-in whole; a module that has less room refuses them."""
    simulators, run = opened
    content = BoardContent(PARAMETERS, Asset.of(b"01234567" + bytes(ASSET_BYTES - 8)))
    outcome = simulators.simulate(replace(run, content=content))
    if isinstance(simulators, Sandbox):
        assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ModuleRule.ASSET}) == outcome
    else:
        assert numbers_of(content) == stats_of(outcome)


@pytest.mark.parametrize(
    ("content", "rule", "place"),
    [
        (BoardContent(PARAMETERS), ModuleRule.PARAMETERS, PARAMETERS_AT),
        (BoardContent(asset=MAP), ModuleRule.ASSET, ASSET_AT),
    ],
)
def test_content_is_never_copied_behind_a_modules_memory(
    tmp_path: Path, content: BoardContent, rule: ModuleRule, place: int
) -> None:
    """A module that names a place with too little room after it is unusable, and the next run is played."""
    last = COURSES.replace(f"(i32.const {place})", f"(i32.const {9 * 65_536 - 8})", 1)
    with wasm(tmp_path) as (sandbox, run):
        module = store(tmp_path, last)
        outcome = sandbox.simulate(replace(run, module=module.path, digest=module.digest, content=content))
        assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": rule}) == outcome
        assert numbers_of(content) == stats_of(sandbox.simulate(replace(run, content=content)))


# Simulators that do not take it


@pytest.mark.parametrize(
    ("content", "rule"),
    [(BoardContent(PARAMETERS), ModuleRule.PARAMETERS), (BoardContent(asset=MAP), ModuleRule.ASSET)],
)
@pytest.mark.parametrize("of_another_type", ["", '(global (export "{}") i32 (i32.const 8))'])
def test_a_module_that_takes_no_content_plays_boards_without(
    tmp_path: Path, content: BoardContent, rule: ModuleRule, of_another_type: str
) -> None:
    """An old module plays as it did, also with exports of these names; a board's content makes it unusable."""
    extra = of_another_type.format(rule.name.lower())
    module = store(
        tmp_path, GAME.replace('(func (export "abi_version")', f'{extra} (func (export "abi_version")')
    )
    with wasm(tmp_path) as (sandbox, any_run):
        run = replace(any_run, module=module.path, digest=module.digest)
        assert tuple(play(WORDS, SEED, 50).stats.values()) == stats_of(sandbox.simulate(run))
        outcome = sandbox.simulate(replace(run, content=content))
        assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": rule}) == outcome


@pytest.mark.parametrize(("content", "name"), [(BoardContent(PARAMETERS), "parameters"), (FULL, "asset")])
def test_a_plug_in_that_takes_no_content_plays_boards_without(
    tmp_path: Path, content: BoardContent, name: str
) -> None:
    """An old plug-in plays as it did, and says what it was given too much on a board with content."""
    text = (
        programs.PLUGIN
        if name == "parameters"
        else programs.PLUGIN.replace("recording):", "recording, parameters):")
    )
    old = write(tmp_path, text, "old.py")
    with PluginSimulators() as plugins:
        run = programs.request(old, SimulatorKind.PLUGIN)
        assert tuple(play(WORDS, SEED, 50).stats.values()) == stats_of(plugins.simulate(run))
        outcome = plugins.simulate(replace(run, content=content))
        assert isinstance(outcome, SimulatorFault)
        assert f"unexpected keyword argument '{name}'" in outcome.said


def test_the_question_of_a_board_without_content_is_the_old_one(tmp_path: Path) -> None:
    """Programs written before there was content get the line they always got."""
    line = json.loads(question(programs.request(serving(tmp_path)), 1))
    assert ["version", "id", "seed", "ticks", "checkpoint_ticks", "inputs", "recording"] == list(line)


# Budgets


@pytest.mark.parametrize("name", ["parameters", "asset"])
def test_taking_content_is_paid_from_the_budget(tmp_path: Path, name: str) -> None:
    """A module that loops, or takes memory for ever, while it is given content ends within its limits."""
    taking = f'(func (export "{name}") (param $bytes i32) (result i32)'
    endless = store(
        tmp_path,
        COURSES.replace("(param i32)", "(param $bytes i32)").replace(taking, f"{taking} (loop $l br $l)"),
    )
    (tmp_path / "g").mkdir()
    growing = (
        COURSES.replace("(param i32)", "(param $bytes i32)")
        .replace('"memory") 9 9', '"memory") 9')
        .replace(
            taking, f"{taking} (if (i32.eq (memory.grow (i32.const 512)) (i32.const -1)) (then unreachable))"
        )
    )
    greedy = store(tmp_path / "g", growing)
    with wasm(tmp_path) as (sandbox, any_run):
        run = replace(any_run, content=FULL, budget=Budget(fuel=10_000_000, memory_mib=16, wall_ms=20_000))
        outcomes = [
            sandbox.simulate(replace(run, module=module.path, digest=module.digest))
            for module in (endless, greedy)
        ]
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, SimulatorFault)]
        assert [Reason.OUT_OF_FUEL, Reason.SIMULATOR_TRAPPED] == reasons
        roomy = Budget(fuel=10_000_000, memory_mib=40, wall_ms=20_000)
        outcome = sandbox.simulate(replace(run, module=greedy.path, digest=greedy.digest, budget=roomy))
        assert numbers_of(FULL) == stats_of(outcome)


async def test_a_run_is_judged_with_no_content_but_that_of_its_ticket(tmp_path: Path):
    """A ticket without content is one of a board without any, also where the name has another board by now."""
    family = load_policies(write_family(tmp_path).parent).families["track"]
    boards = [
        family.board(OpenedBoard("track.spa", "track", "Spa", parameters=text)) for text in (b"", PARAMETERS)
    ]
    contents = BoardContents(None)  # type: ignore[arg-type]  # no board has an asset
    plain, full = boards
    for board, bound in ((plain, full.content_digest), (full, None), (full, NO_CONTENT)):
        with pytest.raises(ContentUnavailable) as refused:
            await contents.of(board, bound)
        assert Reason.BOARD_REPLACED is refused.value.reason
    assert [BoardContent(b""), BoardContent(b""), BoardContent(PARAMETERS)] == [
        await contents.of(board, bound)
        for board, bound in ((plain, None), (plain, NO_CONTENT), (full, full.content_digest))
    ]
