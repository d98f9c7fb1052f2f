"""What the Doom example takes for a demo, how it reads the engine's reports, and that its files are what it builds."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from examples.doom import demos, level
from examples.doom.verify import (
    DEMO_BYTES,
    Demo,
    Fault,
    Level,
    NotADemo,
    maps_of,
    parse_demo,
    read_analysis,
    read_levels,
    without_footer,
)
from tests.support.doom import DOOM, FILES, recorded

STRAIGHT = recorded("straight")
HEADER = STRAIGHT[:13]
TIC = bytes([50, 0, 0, 0])

LEVELSTAT = "MAP01 - 0:07.29 (0:07)  K: 1/1  I: 2/2  S: 1/1 \r\n"
ANALYSIS = """skill 4
nomonsters 0
respawn 0
fast 0
pacifist 0
reborn 0
100k 1
100s 1
tyson_weapons 1
turbo 0
category UV Max
"""


def changed(at: int, value: int) -> bytes:
    """The straight demo with another byte."""
    return STRAIGHT[:at] + bytes([value]) + STRAIGHT[at + 1 :]


def test_the_map_is_what_its_generator_builds() -> None:
    """A fresh build equals the committed map, byte for byte."""
    assert level.build() == (FILES / "hall.wad").read_bytes()


def test_the_demos_are_what_their_generator_writes() -> None:
    """Fresh demos equal the committed ones, byte for byte, and there are no others."""
    committed = {path.stem: path.read_bytes() for path in (DOOM / "demos").iterdir()}
    assert dict(demos.demos()) == committed


def test_a_demo_says_its_map_skill_and_length() -> None:
    """A demo of Doom 1.9 is taken as it is."""
    assert Demo(STRAIGHT, map=1, skill=3, tics=77) == parse_demo(STRAIGHT)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HEADER, id="header alone"),
        pytest.param(HEADER + b"\x80", id="no tics"),
        pytest.param(STRAIGHT[:-1], id="no end"),
        pytest.param(STRAIGHT[:-3], id="cut within a tic"),
        pytest.param(STRAIGHT[:-5], id="cut after a tic"),
        pytest.param(STRAIGHT + b"\x80", id="a byte behind the end"),
        pytest.param(STRAIGHT[:-1] + b"\x80\0\0\0" + TIC + b"\x80", id="an end in the middle"),
        pytest.param(HEADER + TIC * (DEMO_BYTES // 4) + b"\x80", id="too long"),
        pytest.param(changed(0, 111), id="long tics"),
        pytest.param(changed(0, 202), id="Boom"),
        pytest.param(changed(1, 5), id="no such skill"),
        pytest.param(changed(2, 2), id="no such episode"),
        pytest.param(changed(3, 0), id="map 0"),
        pytest.param(changed(3, 33), id="map 33"),
        pytest.param(changed(4, 1), id="deathmatch"),
        pytest.param(changed(5, 2), id="respawn that is neither on nor off"),
        pytest.param(changed(8, 1), id="through another player's eyes"),
        pytest.param(changed(9, 0), id="no player"),
        pytest.param(changed(10, 1), id="two players"),
        pytest.param(changed(16, 0x82), id="saves a game"),
        pytest.param(changed(16, 0xC0), id="an unknown special button"),
    ],
)
def test_what_is_no_demo_of_one_players_run_is_refused(data: bytes) -> None:
    """Every part of the header and the form of the whole are checked before the engine sees them."""
    with pytest.raises(NotADemo):
        parse_demo(data)


def test_a_pause_belongs_into_a_demo() -> None:
    """Of the special buttons, pausing is the one that may be pressed."""
    assert 77 == parse_demo(changed(16, 0x81)).tics


@given(some.binary(max_size=200))
@example(b"\x80" * 18)
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    """Whatever bytes come, they are a demo or not; nothing else happens."""
    with suppress(NotADemo):
        assert data == parse_demo(data).data


@given(some.binary(max_size=4).map(lambda head: HEADER[: 13 - len(head)] + head), some.binary(max_size=120))
def test_no_bytes_behind_a_header_crash_the_parser(header: bytes, tics: bytes) -> None:
    """The same for what looks like a demo at first."""
    with suppress(NotADemo):
        demo = parse_demo(header + tics)
        assert len(header + tics) == 13 + 4 * demo.tics + 1


@given(some.binary(max_size=300))
def test_P01_whatever_a_port_writes_behind_the_end_is_no_part_of_the_play(footer: bytes) -> None:
    """Two copies of a demo with other footers are the same recording once it is sent."""
    assert STRAIGHT == without_footer(STRAIGHT + footer)


def test_a_demo_without_an_end_stays_as_it_is() -> None:
    """Taking the footer off mends nothing."""
    assert STRAIGHT[:-1] == without_footer(STRAIGHT[:-1])


def test_levelstat_is_read_as_the_engine_writes_it() -> None:
    """Time in hundredths, and the tics that they stand for."""
    found = read_levels(LEVELSTAT)
    assert [Level(1, by_secret_exit=False, centiseconds=729, kills=1, items=2, secrets=1)] == found
    assert [255] == [each.tics for each in found]


def test_every_time_stands_for_one_number_of_tics() -> None:
    """Hundredths of a second tell all tics of two hours apart."""
    texts = (
        f"MAP01 - {tics // 2100}:{tics % 2100 / 35:05.2f} (0:00)  K: 0/0  I: 0/0  S: 0/0 "
        for tics in range(0, 2 * 3600 * 35, 7)
    )
    assert list(range(0, 2 * 3600 * 35, 7)) == [read_levels(text)[0].tics for text in texts]


def test_a_secret_exit_and_wide_columns_are_read() -> None:
    """Columns are padded where a demo finished several levels."""
    text = (
        "MAP15s -  9:59.97 ( 9:59)  K:   3/120  I:  0/9   S: 0/11 \r\n"
        "MAP31 - 12:00.00 (21:59)  K: 120/120  I: 12/12  S: 0/11 \r\n"
    )
    assert [(15, True, 59_997), (31, False, 72_000)] == [
        (each.map, each.by_secret_exit, each.centiseconds) for each in read_levels(text)
    ]


@given(some.text(max_size=200))
@example("MAP01 - 0:60.00 (0:07)  K: 1/1  I: 2/2  S: 1/1 \r\n")
def test_any_other_levelstat_is_our_fault(text: str) -> None:
    """What the engine should never write convicts nobody."""
    if text.splitlines():
        with pytest.raises(Fault):
            read_levels(text)


def test_analysis_is_read_by_the_engines_names() -> None:
    """Facts by name, with the category as text."""
    found = read_analysis(ANALYSIS)
    assert ("4", "0", "UV Max") == (found["skill"], found["turbo"], found["category"])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(ANALYSIS.replace("turbo 0\n", ""), id="a fact is missing"),
        pytest.param(ANALYSIS + "turbo 1\n", id="a fact stands twice"),
        pytest.param(ANALYSIS.replace("turbo 0", "turbo no"), id="no number"),
        pytest.param(ANALYSIS.replace("UV Max", "UV Everything"), id="an unknown category"),
        pytest.param(ANALYSIS + "\x7f\n", id="garbage"),
    ],
)
def test_any_other_analysis_is_our_fault(text: str) -> None:
    """What the engine should never write convicts nobody."""
    with pytest.raises(Fault):
        read_analysis(text)


def test_the_map_of_a_wad_is_found_by_its_name() -> None:
    """The directory of the WAD says which maps there are."""
    assert frozenset({1}) == maps_of(level.build())


@given(some.binary(max_size=100))
def test_no_wad_crashes_its_reader(data: bytes) -> None:
    """A damaged map is a fault that has a name, or has no maps."""
    with suppress(Fault):
        assert maps_of(b"PWAD" + data) <= frozenset(range(100))
