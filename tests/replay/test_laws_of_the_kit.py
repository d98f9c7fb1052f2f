"""What the kit, the recording and the sandboxes make of numbers and words, row by row, without a simulator."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from policies.loader import Simulator
from policies.replaying import Budget, RecordingKind, Replay
from policies.vocabulary import Claim, Reason, SimulatorKind, VerdictKind
from replay.confined import confinement
from replay.divergence import divergence_of
from replay.kit.causes import cause_of
from replay.kit.check import Checker, CheckReport, ResultDifference, RunReport, meanings, simulations
from replay.kit.costs import Cost, Costs, costs_of, proposed
from replay.kit.differences import described, first_difference
from replay.kit.engine_settings import PROGRAM_SETTINGS, SETTINGS, settings_of
from replay.kit.remarks import Remark, Weight
from replay.kit.runs import PlayedRun, RunUnreadable, read_content, read_run
from replay.kit.verdict import TimedSimulators, _own_claim, numbered, replay_of, request_for
from replay.recording import Recording, RecordingError, decode, encode, pack_inputs
from replay.simulators import (
    MalformedRecording,
    Simulation,
    SimulatorFault,
    bubblewrap,
    child,
    frames,
    last_lines,
    printable,
)
from replay.simulators.line_protocol import ProtocolRule
from replay.simulators.process import _environment, _launched, _limited
from replay.simulators.wasm import ModuleRule

ONE = Simulation(20, True, 7, 0xAB, (4, 5), (1, 2), 99)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, None),
        ({"fuel": 1}, None),
        ({"checkpoints": (1, 2, 3)}, None),
        ({"checkpoints": (1, 3)}, ("state hash after tick 20", "0" * 15 + "2", "0" * 15 + "3")),
        ({"checkpoints": (3, 2), "score": 8}, ("state hash after tick 10", "0" * 15 + "1", "0" * 15 + "3")),
        ({"ticks": 19, "score": 8}, ("ticks", "20", "19")),
        ({"is_over": False, "score": 8}, ("end of the run", "True", "False")),
        ({"score": 8, "stats": (4, 6)}, ("score", "7", "8")),
        ({"stats": (4, 6), "state_hash": 1}, ("statistics", "(4, 5)", "(4, 6)")),
        ({"state_hash": 0xAC}, ("state hash at the end", "0" * 14 + "ab", "0" * 14 + "ac")),
    ],
)
def test_the_first_difference_is_the_earliest_and_most_telling(changed: dict[str, Any], found: Any):
    """The first checkpoint that differs, then what a claim has; never the fuel, which an engine may change."""
    assert found == first_difference(ONE, replace(ONE, **changed), 10)


def test_without_statistics_none_differ():
    """As tick by tick, where a module tells none."""
    assert first_difference(ONE, replace(ONE, stats=()), 10, has_stats=False) is None
    assert ("statistics", "(4, 5)", "()") == first_difference(ONE, replace(ONE, stats=()), 10)


FAULT = SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 5, "fuel": 3})


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (ONE, "a score of 7 after 20 ticks"),
        (MalformedRecording(), "recording-malformed"),
        (FAULT, "timed-out wall_ms=5"),
        (SimulatorFault(Reason.OUT_OF_FUEL, {"fuel": 3}), "out-of-fuel"),
    ],
)
def test_an_outcome_is_told_in_a_few_words(outcome: Any, words: str):
    """And differs from any other kind, but not from one with the same words."""
    assert words == described(outcome)
    other = SimulatorFault(Reason.OUT_OF_MEMORY)
    assert ("outcome", words, "out-of-memory") == first_difference(outcome, other, 10)
    if outcome is not ONE:
        assert first_difference(outcome, outcome, 10) is None


@pytest.mark.parametrize(
    ("fuel", "seconds", "margin", "maximum_ticks", "fuel_limit", "wall_ms"),
    [
        (1_000, 0.1, 1, None, 1_000, 1_000),
        (999, 0.1, 1, None, 1_000, 1_000),
        (1_001, 1.0, 1, None, 1_100, 1_000),
        (1_100, 1.001, 1, None, 1_100, 1_100),
        (1_101, 1.101, 1, None, 1_200, 1_200),
        (1_000, 1.0, 2.5, None, 2_500, 2_500),
        (1_000, 1.0, 1, 200, 2_000, 2_000),
        (1_000, 1.0, 1, 50, 1_000, 1_000),
        (10**13, 600.0, 1, None, 10**13, 600_000),
        (10**13, 600.0, 2, None, 10**13, 600_000),
        (9.95e12, 1.0, 1, None, 10**13, 1_000),
        (0, 1.0, 1, None, Budget().fuel, 1_000),
    ],
)
def test_limits_are_rounded_up_to_two_digits_within_those_of_a_policy(
    fuel: float, seconds: float, margin: float, maximum_ticks: int | None, fuel_limit: int, wall_ms: int
):
    """Of the worst run, scaled to the longest that is allowed; a run of no ticks is not scaled."""
    costs = [Cost(100, int(fuel), (0.0, seconds)), Cost(100, 0, (0.0,))]
    budget = proposed(costs, 3, margin, maximum_ticks)
    assert (fuel_limit, 3, wall_ms) == (budget.fuel, budget.memory_mib, budget.wall_ms)
    assert proposed([Cost(0, 2_000, (1.0,))], 3, 1, 500) == proposed([Cost(500, 2_000, (1.0,))], 3, 1, 500)
    longer = [Cost(1_000, 500_000_000, (3.0,))]  # than policies allow: it needed what it needed
    assert proposed(longer, 3, 1, 1_000) == proposed(longer, 3, 1, 500) != proposed(longer, 3, 1, 2_000)
    assert [1, 1, 1024, 1024] == [proposed(costs, mib, 1, None).memory_mib for mib in (0, 1, 1024, 1025)]


def test_costs_are_the_middle_and_the_worst_of_all_runs():
    """Fuel of each run, and the time of each repetition in milliseconds."""
    costs = [Cost(10, 3, (0.001, 0.004)), Cost(10, 8, (0.002,)), Cost(10, 4, (0.003, 0.009))]
    assert Costs(4, 8, 3.0, 9.0, 2) == costs_of(costs, 2)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 20}), "it did not answer within 20 ms"),
        (SimulatorFault(Reason.TIMED_OUT), Reason.TIMED_OUT.meaning.removesuffix(".")),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 9}), "it was ended by SIGKILL"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 999}), "it failed"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"trap": 1}), "it trapped: memory out of bounds"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"trap": 999, "exit_status": 3}), "it ended with status 3"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 0}), "it ended with status 0"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, said="a\nb"), "it failed: a\nb"),
        (SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": 2}), "it has imports"),
        (
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": 99}),
            Reason.SIMULATOR_UNUSABLE.meaning.removesuffix("."),
        ),
    ],
)
def test_a_fault_is_explained_to_the_simulators_author(fault: SimulatorFault, words: str):
    """By its limit, its rule, its signal, its trap or its status; with its own words behind."""
    assert words == cause_of(fault)


@pytest.mark.parametrize("rule", [*ModuleRule, *ProtocolRule])
def test_every_rule_has_words_of_its_own(rule: int):
    """No two of them the same."""
    every = [
        cause_of(SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": each}))
        for each in (*ModuleRule, *ProtocolRule)
    ]
    own = cause_of(SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": rule}))
    assert 1 == every.count(own)
    assert Reason.SIMULATOR_UNUSABLE.meaning.removesuffix(".") != own


@pytest.mark.parametrize(
    ("outcome", "ticks", "claim"),
    [
        (FAULT, 30, Claim(0, 30)),
        (ONE, 30, Claim(7, 30, {"a": 4, "b": 5})),
        (ONE, 0, Claim(7, 20, {"a": 4, "b": 5})),
    ],
)
def test_a_run_without_a_claim_claims_what_it_gives(outcome: Any, ticks: int, claim: Claim):
    """With the ticks that its recording announces, where it does."""
    assert claim == _own_claim(outcome, ticks, ("a", "b"))


def test_a_timed_simulator_tells_how_long_the_last_answer_took():
    """And which one it was."""
    times = iter([1.0, 3.5, 10.0, 10.25])
    inner: Any = SimpleNamespace(simulate=lambda request: request, engine_of=lambda kind: f"{kind} 1")
    timed: Any = TimedSimulators(inner, lambda: next(times))
    seen = [(timed.simulate(each), timed.outcome, timed.seconds) for each in ("a", "b")]
    assert [("a", "a", 2.5), ("b", "b", 0.25)] == seen
    assert "x 1" == timed.engine_of("x")


def a_run(recording: bytes) -> Any:
    return SimpleNamespace(name="run", recording=recording)


def test_a_board_that_is_unknown_has_what_fits_the_run():
    """The interval of its checkpoints, sixty where it has none, and the longest run that a policy allows."""
    budget = Budget(fuel=5_000)
    with_some, with_none = encode(bytes(8), (1, 2), 1), encode(bytes(8), (), 0)
    for recording, every in ((with_some, 1), (with_none, 60)):
        expected = Replay(
            simulator=SimulatorKind.PLUGIN,
            maximum_ticks=10_000_000,
            checkpoint_ticks=every,
            stats=("a",),
            budget=budget,
        )
        assert expected == replay_of(a_run(recording), budget, ("a",), SimulatorKind.PLUGIN)
    assert SimulatorKind.WASM is replay_of(a_run(with_none), budget, ()).simulator
    with pytest.raises(RunUnreadable, match=r"^run: not a recording: .*--policy$"):
        replay_of(a_run(b"x"), budget, ())
    assert [("stat_1", "stat_2"), ()] == [numbered(ONE), numbered(FAULT)]


HONEST = {
    "seed": "7",
    "recording": base64.b64encode(b"rec").decode(),
    "score": 5,
    "ticks": 9,
    "stats": {"k": 1},
}


@pytest.mark.parametrize(
    ("changed", "seed", "expected"),
    [
        ({}, None, (7, Claim(5, 9, {"k": 1}))),
        ({}, 8, (8, Claim(5, 9, {"k": 1}))),
        ({}, 0, (0, Claim(5, 9, {"k": 1}))),
        ({"other": 1}, None, (7, Claim(5, 9, {"k": 1}))),
        ({"stats": {}}, None, (7, Claim(5, 9))),
        ({"score": None}, None, (7, None)),
        ({"ticks": None}, None, (7, None)),
        ({"seed": str(2**64 - 1)}, None, (2**64 - 1, Claim(5, 9, {"k": 1}))),
        ({"seed": str(2**64)}, None, "a seed is a number of 64 bits"),
        ({}, -1, "a seed is a number of 64 bits"),
        ({}, 2**64, "a seed is a number of 64 bits"),
        ({"seed": "-1"}, None, "seed: "),
        ({"recording": "?"}, None, "recording: expected base64"),
        ({"recording": "cm Vj"}, None, "recording: expected base64"),
    ],
)
def test_a_run_is_read_from_json(tmp_path: Path, changed: dict[str, Any], seed: int | None, expected: Any):
    """A given seed goes before the file's; without score or ticks there is no claim."""
    file = tmp_path / "run.json"
    file.write_text(json.dumps(HONEST | changed))
    if isinstance(expected, str):
        with pytest.raises(RunUnreadable, match=expected):
            read_run(file, seed)
    else:
        run = read_run(file, seed)
        assert ("run.json", b"rec", *expected) == (run.name, run.recording, run.seed, run.claim)


def test_a_bare_recording_needs_a_seed_and_content_has_bounds(tmp_path: Path):
    """Which it does not contain; parameters in any layout, and an asset of 1 byte to 8 MiB."""
    file = tmp_path / "run.sgr"
    file.write_bytes(b"rec")
    with pytest.raises(RunUnreadable, match="give --seed"):
        read_run(file, None)
    with pytest.raises(RunUnreadable, match="cannot be read"):
        read_run(tmp_path / "gone", 1)
    content = read_content(None, file)
    run = read_run(file, 3, content)
    assert (3, b"rec", None, content) == (run.seed, run.recording, run.claim, run.content)
    file.write_text(' {"b": 1,\n "a": 2} ')
    assert (b'{"a":2,"b":1}', None) == (
        read_content(file, None).parameters,
        read_content(file, None).asset,
    )
    for size, is_read in ((0, False), (1, True), (8 * 2**20, True), (8 * 2**20 + 1, False)):
        file.write_bytes(bytes(size))
        if is_read:
            asset = read_content(None, file).asset
            assert asset is not None
            assert size == len(asset.content)
        else:
            with pytest.raises(RunUnreadable, match="an asset has 1 to 8388608 bytes"):
                read_content(None, file)


def test_a_file_of_a_run_that_does_not_end_is_refused():
    """A device is read up to a limit."""
    for read in (lambda endless: read_run(endless, 1), lambda endless: read_content(None, endless)):
        with pytest.raises(RunUnreadable, match=r"^/dev/zero: expected up to 67108864 bytes$"):
            read(Path("/dev/zero"))


def test_a_check_tells_each_simulation_and_names_each_setting_once():
    """The judging one, its repetitions, a fresh process and the settings, of each run."""
    assert [3 * (1 + 5 + 1 + 9), 1 * (1 + 0 + 1 + 0)] == [simulations(3, 5, 9), simulations(1, 0, 0)]
    names = ["fresh-process", "again", "memory-85", "fresh-process", "any-nan", "memory-limit"]
    differences = tuple(ResultDifference("r", name, "score", "1", "2") for name in names)
    report: Any = SimpleNamespace(runs=[SimpleNamespace(differences=differences)])
    found = dict(meanings(report))
    assert [*dict.fromkeys(names)] == list(found)
    assert {"fresh-process": "in a fresh process"}.items() <= found.items()
    by_kind = [
        settings_of(kind) for kind in (SimulatorKind.WASM, SimulatorKind.PROCESS, SimulatorKind.PLUGIN)
    ]
    assert [SETTINGS, PROGRAM_SETTINGS, ()] == by_kind


GOOD: Any = SimpleNamespace(kind=VerdictKind.VERIFIED)
NOTE, UNUSABLE = (Remark(weight, "x") for weight in (Weight.NOTE, Weight.UNUSABLE))
DIFFERENCE = ResultDifference("r", "again", "score", "1", "2")


@pytest.mark.parametrize(
    ("remarks", "runs", "is_safe"),
    [
        ((), (RunReport("r", GOOD),), True),
        ((NOTE,), (RunReport("r", GOOD),), True),
        ((NOTE, UNUSABLE), (RunReport("r", GOOD),), False),
        ((), (), False),
        ((), (RunReport("r", GOOD), RunReport("s", SimpleNamespace(kind=VerdictKind.MISMATCH))), False),
        ((), (RunReport("r", GOOD), RunReport("s", GOOD, (DIFFERENCE,))), False),
        ((), (RunReport("r", GOOD, untried=("any-nan",)),), True),
    ],
)
def test_a_simulator_is_safe_if_every_run_of_some_was_verified_and_never_differed(
    remarks: tuple[Remark, ...], runs: tuple[RunReport, ...], is_safe: bool
):
    """A note is no fault, and what could not be tried is none; no run at all shows nothing."""
    assert is_safe is CheckReport(remarks, runs, None, None).is_safe


def test_the_proposed_memory_is_enough_for_every_run(monkeypatch: pytest.MonkeyPatch):
    """It is that of the run that needs most, whichever it is."""
    any_: Any = SimpleNamespace(simulate=None)

    def trial(_checker: Any, needed_mib: Any, *_: Any) -> Any:
        checked = RunReport("r", GOOD, cost=Cost(1, 1, (0.0,)), memory_mib=needed_mib)
        return SimpleNamespace(checked=checked, try_under=lambda *_: None)

    monkeypatch.setattr(Checker, "_trial", trial)
    checker = Checker(any_, lambda _: nullcontext(any_), lambda: 0.0, settings=())
    needs: Any = [3, 5, 4]
    report = checker.check(needs, (), memory_mib=None, margin=1.0, maximum_ticks=None)
    assert report.costs is not None
    assert report.budget is not None
    assert (5, 5) == (report.costs.memory_mib, report.budget.memory_mib)


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (2**28, b"\x80\x80\x80\x80\x01"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_a_number_of_a_recording_has_its_shortest_form(number: int, octets: bytes):
    """Groups of seven bits, the lowest first; as an input beside its length, and as the interval."""
    packed = pack_inputs([number])
    recording = b"SGR1\x01\x00\x01\x01" + octets
    assert recording == encode(packed, (), 0)
    assert Recording(1, 0, packed, ()) == decode(recording, maximum_ticks=1)
    head = b"SGR1\x01" + octets + b"\x01\x01\x05"
    hashes = (9,) if number == 1 else ()
    data = head + struct.pack(f"<{len(hashes)}Q", *hashes)
    assert data == encode(pack_inputs([5]), hashes, number)
    assert number == decode(data, maximum_ticks=1).checkpoint_ticks


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_number_beyond_32_bits_is_no_input_and_no_interval(number: int):
    """Nor is a checkpoint beyond 64 bits, a part of a word, or a run of nothing."""
    with pytest.raises(RecordingError, match="32-bit"):
        pack_inputs([number])
    with pytest.raises(RecordingError, match="32-bit"):
        encode(bytes(4), (), number)
    for inputs, hashes, every in (
        (b"", (), 0),
        (bytes(5), (), 0),
        (bytes(4), (2**64,), 1),
        (bytes(8), (1,), 1),
    ):
        with pytest.raises(RecordingError):
            encode(inputs, hashes, every)


@pytest.mark.parametrize(("runs", "shown"), [(128, 128), (129, 128)])
def test_a_divergence_shows_128_runs_of_inputs_from_a_second_before(runs: int, shown: int):
    """The first of them begins at tick 1 where the run does; lengths and words follow on."""
    words = [number % 2 for number in range(runs)]
    played = Recording(runs, runs, pack_inputs(words), (1,))
    found = divergence_of(played, replace(ONE, checkpoints=(2,)))
    assert found is not None
    assert (shown, (1, 1, 0), (2, 1, 1)) == (
        len(found.inputs),
        tuple(found.inputs[0]),
        tuple(found.inputs[1]),
    )


def test_frames_are_of_the_layout_that_both_sides_know():
    """Little-endian, each number in its place; what an answer may have at most follows from the question."""
    digest = "sha256:" + "a" * 64
    order = frames.SimulationOrder(digest, 2**64 - 1, 3, 4, 5, 6, 7, b"in", b"{}", b"d" * 32)
    packed = frames.pack_order(order)
    head = digest.encode() + struct.pack("<QIIQQII", 2**64 - 1, 3, 4, 5, 6, 7, 2)
    assert head + b"d" * 32 + b"{}in" == packed
    assert order == frames.unpack_order(packed)
    plain = replace(order, asset=b"", parameters=b"")
    assert plain == frames.unpack_order(frames.pack_order(plain))
    assert (b"d" * 32, b"map") == frames.unpack_asset(frames.pack_asset(b"d" * 32, b"map"))
    assert (digest, b"\0asm") == frames.unpack_load(frames.pack_load(digest, b"\0asm"))
    answer = struct.pack("<IIqQQII2q2Q", 20, 1, 7, 0xAB, 99, 2, 2, 4, 5, 1, 2)
    assert (answer, ONE) == (frames.pack_simulation(ONE), frames.unpack_simulation(answer))
    limits = [frames.simulation_limit(*each) for each in ((20, 0), (20, 10), (19, 10))]
    assert [40 + 8 * 16 + 8 * count for count in (0, 2, 1)] == limits
    fault = SimulatorFault(Reason.OUT_OF_FUEL, {"fuel": 5, "trap": 0, "other": 1})
    assert struct.pack("<B4q", 0, 5, -1, 0, -1) == frames.pack_fault(fault)
    assert {"fuel": 5, "trap": 0} == frames.unpack_fault(frames.pack_fault(fault)).detail
    many = struct.pack("<IIqQQII17q", 20, 1, 7, 0, 99, 17, 0, *range(17))
    for broken in (b"", answer[:-1], answer + b"x", many):
        with pytest.raises(frames.WireError):
            frames.unpack_simulation(broken)
    for broken in (b"", struct.pack("<B4q", 6, 0, 0, 0, 0)):
        with pytest.raises(frames.WireError):
            frames.unpack_fault(broken)


def test_a_child_that_has_no_memory_says_so():
    """Not that the game's module crashed: more memory would help, and another module would not."""
    poor = SimpleNamespace(keep_asset=Mock(side_effect=MemoryError))
    kind, fault = child._answer(poor, frames.ASSET, bytes(32) + b"map")
    assert (frames.FAULT, Reason.OUT_OF_MEMORY) == (kind, frames.unpack_fault(fault).reason)


def test_a_recording_of_the_games_own_is_as_long_as_its_claim():
    """Nobody but the program knows better; and without a claim it says how long it was."""
    raw = Replay(simulator=SimulatorKind.PROCESS, recording=RecordingKind.RAW, maximum_ticks=7_200)
    program = Simulator("sha256:0", Path("/program"))
    claimed = PlayedRun("run", 1, b"moves", Claim(5, 600))
    assert 600 == request_for(claimed, raw, program).ticks
    assert 0 == request_for(replace(claimed, claim=None), raw, program).ticks


def test_words_of_a_program_are_shown_in_200_characters_of_8_lines():
    """The last lines, and of each the beginning; nothing that a terminal would obey."""
    assert "x" * 200 == printable("x" * 201)
    assert "ab" == printable("a\x1b\nb")
    words = "\n".join(f"line {number}" for number in range(10)).encode()
    assert "\n".join(f"line {number}" for number in range(2, 10)) == last_lines(b"\n" + words + b"\n\xff"[:1])


def test_the_machine_of_a_program_is_spelled_out(tmp_path: Path):
    """Nothing shared, the system as it is, two small file systems, files by descriptor and folders read-only."""
    folder = {"/simulator/files/data": tmp_path}
    data = {bubblewrap.PROGRAM: 7, "/simulator/files/map": 8}
    words = bubblewrap.enclosed("/usr/bin/bwrap", ("/bin/sh", "-c"), {"LANG": "C"}, data, folder)
    system = len(words) - len(bubblewrap.enclosed("b", (), {}, {}))
    assert system > 0
    text = " ".join(words)
    assert text.startswith(
        "/usr/bin/bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv --"
    )
    assert text.endswith(
        "--proc /proc --dev /dev --size 16777216 --tmpfs /dev/shm --size 67108864 --tmpfs /tmp "
        "--dir /simulator/files --perms 0555 --ro-bind-data 7 /simulator/program "
        f"--perms 0444 --ro-bind-data 8 /simulator/files/map --ro-bind {tmp_path} /simulator/files/data "
        "--remount-ro /dev --remount-ro / --chdir /tmp --setenv LANG C -- /bin/sh -c"
    )


@pytest.mark.parametrize(
    ("wall_ms", "runs", "seconds"), [(1000, 1, 1), (1001, 1, 2), (1, 3, 3), (2500, 4, 12)]
)
def test_a_program_is_launched_with_the_time_of_all_its_runs(wall_ms: int, runs: int, seconds: int):
    """Whole seconds for each, rounded up; memory in bytes; blocks of 512 bytes for what it may write."""
    request: Any = SimpleNamespace(
        budget=SimpleNamespace(memory_mib=3, wall_ms=wall_ms), runs_per_process=runs
    )
    *_, how, folder, memory, processor, command = _launched(request, "alone", "/f", ["/p"])
    assert ("alone", "/f", str(3 * 2**20), str(seconds), "/p") == (how, folder, memory, processor, command)
    shell, option, script, program = _limited("/p", 16)
    assert ("/bin/sh", "-c", "/p") == (shell, option, program)
    assert ["ulimit -f 131072 2>/dev/null", "ulimit -p 16 2>/dev/null || ulimit -u 16 2>/dev/null"] == (
        script.strip().splitlines()[:2]
    )
    assert {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
        "LANG": "C.UTF-8",
        "HOME": "/s",
        "TMPDIR": "/s",
        "SCOREGATE_FILES": "/f",
    } == _environment("/f", "/s")


INFINITY = -1


class Limits:
    """The limits of a process, by name, as somebody set them before."""

    RLIM_INFINITY = INFINITY

    def __init__(self, hard: Mapping[str, int]) -> None:
        self.hard = hard
        self.set: list[tuple[str, tuple[int, int]]] = []

    def __getattr__(self, name: str) -> str:
        return name.removeprefix("RLIMIT_")

    def getrlimit(self, kind: str) -> tuple[int, int]:
        return (0, self.hard.get(kind, INFINITY))

    def setrlimit(self, kind: str, limits: tuple[int, int]) -> None:
        self.set.append((kind, limits))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    kept = Limits({"DATA": 900_000_000})
    monkeypatch.setattr(confinement, "resource", kept)
    monkeypatch.setattr(confinement, "_softened", {})
    monkeypatch.setattr(confinement, "process_time", lambda: 2.25)
    return kept


def test_a_program_is_limited_for_good(limits: Limits):
    """Both limits of a kind, and never above one that is stricter already."""
    confinement.limit_program(64 * 2**20, 7)
    assert [
        ("CORE", (0, 0)),
        ("NOFILE", (256, 256)),
        ("CPU", (7, 7)),
        ("AS", (64 * 2**20 + 2**30,) * 2),
        ("DATA", (64 * 2**20,) * 2),
    ] == limits.set
    limits.set.clear()
    confinement._limit_resources()
    assert [
        ("CORE", (0, 0)),
        ("FSIZE", (0, 0)),
        ("NPROC", (0, 0)),
        ("NOFILE", (16, 16)),
        ("AS", (16 * 2**30,) * 2),
        ("DATA", (900_000_000,) * 2),
    ] == limits.set


def test_the_next_run_is_limited_by_what_it_and_this_process_need(limits: Limits):
    """Softly, so that the next one may have more; processor time is counted on, in whole seconds and one more."""
    confinement.limit_next(1_000, 1_750, 500)
    confinement.limit_next(1_000, 1_751, 500)
    confinement.limit_next(900_000_000, 1_751, 500)
    confinement.limit_next(0, 1_751)
    assert [
        ("DATA", (1_500, 900_000_000)),
        ("CPU", (5, INFINITY)),
        ("CPU", (6, INFINITY)),
        ("DATA", (900_000_000, 900_000_000)),
        ("DATA", (768 * 2**20, 900_000_000)),
    ] == limits.set


def test_a_ruleset_has_the_fields_that_its_kernel_knows():
    """Files from the first version, TCP from the fourth, scopes from the sixth."""
    assert [1, 1, 1, 2, 2, 3, 3] == [confinement._fields_of(version) for version in range(1, 8)]
