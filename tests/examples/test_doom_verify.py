"""What the Doom verifier answers for demos, by the real engine, over the lines that a worker speaks with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.doom import demos, level, verify
from examples.doom.verify import CATEGORIES, DemoVerifier
from tests.support.doom import FILES, Asked, recorded, require_engine, running_verifier

MALFORMED = {"malformed": True}
STRAIGHT = {
    "level_tics": 68,
    "kills": 0,
    "items": 1,
    "secrets": 0,
    "secret_exit": 0,
    "skill": 4,
    "nomonsters": 0,
    "respawn": 0,
    "fast": 0,
    "turbo": 0,
    "reborn": 0,
    "pacifist": 1,
    "tyson": 1,
    "all_kills": 0,
    "all_secrets": 0,
    "category": CATEGORIES.index("Pacifist"),
}


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    require_engine()
    with running_verifier(tmp_path_factory.mktemp("private")) as asked:
        yield asked


def category_of(answer: dict[str, Any]) -> str:
    return CATEGORIES[answer["stats"]["category"]]


def test_a_finished_demo_has_the_time_and_the_facts_that_the_engine_says(verifier: Asked) -> None:
    """Ticks are those of the demo, the score is the level's time in hundredths of a second."""
    expected = {"ticks": 77, "is_over": True, "score": 194, "stats": STRAIGHT, "checkpoints": []}
    assert expected == verifier.ask(recorded("straight"))


def test_two_replays_of_one_demo_give_the_same(verifier: Asked) -> None:
    """Nothing of an earlier run is left for the next."""
    first = verifier.ask(recorded("thorough"))
    verifier.ask(recorded("turbo"))
    assert first == verifier.ask(recorded("thorough"))


def test_everything_done_is_the_category_of_everything(verifier: Asked) -> None:
    """Kills, items and secrets are counted by the engine, and so is what they make."""
    answer = verifier.ask(recorded("thorough"))
    stats = answer["stats"]
    assert (729, 1, 2, 1, "UV Max") == (
        answer["score"],
        stats["kills"],
        stats["items"],
        stats["secrets"],
        category_of(answer),
    )


def test_a_turbo_demo_says_so(verifier: Asked) -> None:
    """Faster than a keyboard can ask for, so the engine calls it turbo, and no category of its own."""
    answer = verifier.ask(recorded("turbo"))
    assert (131, 1, "Other") == (answer["score"], answer["stats"]["turbo"], category_of(answer))


@pytest.mark.parametrize(
    ("name", "stat", "category"),
    [("respawn", "respawn", "Other"), ("no-monsters", "nomonsters", "NoMo"), ("reborn", "reborn", "Other")],
)
def test_a_run_of_another_kind_says_so(verifier: Asked, name: str, stat: str, category: str) -> None:
    """The switches that a demo was recorded with, and a death that set its clock back, are among its statistics."""
    answer = verifier.ask(recorded(name))
    assert (True, 1, category) == (answer["is_over"], answer["stats"][stat], category_of(answer))


def test_an_easier_skill_says_so(verifier: Asked) -> None:
    """Skills count from 1, as on the game's menu."""
    demo = demos.demo(demos.straight(), demos.GameSettings(skill=0))
    assert 1 == verifier.ask(demo)["stats"]["skill"]


def test_a_demo_that_does_not_finish_is_not_over(verifier: Asked) -> None:
    """Its tics are counted, and it has no time."""
    answer = verifier.ask(recorded("unfinished"))
    assert (40, False, 0, 0) == (
        answer["ticks"],
        answer["is_over"],
        answer["score"],
        answer["stats"]["level_tics"],
    )


def test_a_demo_that_goes_on_in_the_next_map_has_the_time_of_its_own(verifier: Asked) -> None:
    """What comes after the end changes nothing, as long as no other level is finished."""
    tics = [*demos.straight(), *(demos.hold(1, buttons=demos.USE) + demos.hold(9)) * 40]
    answer = verifier.ask(demos.demo(tics))
    assert (len(tics), True, 194) == (answer["ticks"], answer["is_over"], answer["score"])


def test_a_demo_that_finishes_two_levels_is_not_over(tmp_path: Path) -> None:
    """What the engine says of it is of both, so it is a run of neither; each alone is one."""
    require_engine()
    (tmp_path / "halls.wad").write_bytes(level.wad(*level.lumps(b"MAP01"), *level.lumps(b"MAP02")))
    next_map = (demos.hold(1, buttons=demos.USE) + demos.hold(9)) * 40
    through_both = demos.demo([*demos.straight(), *next_map, *demos.straight()])
    second = demos.demo(demos.straight(), demos.GameSettings(map=2))
    with running_verifier(tmp_path, tmp_path) as asked:
        answers = [asked.ask(demo) for demo in (through_both, second, recorded("straight"))]
    assert [False, True, True] == [answer["is_over"] for answer in answers]


@pytest.mark.parametrize(
    "demo",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"SGR1 is another format", id="garbage"),
        pytest.param(recorded("straight")[:-1], id="cut short"),
        pytest.param(recorded("straight") + b"-file other.wad", id="names files behind its end"),
        pytest.param(demos.demo(demos.straight(), demos.GameSettings(map=2)), id="of another map"),
    ],
)
def test_what_is_no_demo_of_this_map_is_malformed(verifier: Asked, demo: bytes) -> None:
    """It is told apart from what we cannot judge, and the verifier goes on."""
    assert [MALFORMED, 194] == [verifier.ask(demo), verifier.ask(recorded("straight"))["score"]]


@pytest.mark.parametrize(
    "line",
    [b"", b"no json", b"[]", b"{}", b'{"recording": null}', b'{"recording": "?"}', b'{"recording": "\xff"}'],
)
def test_what_is_no_request_is_a_fault_and_no_verdict(verifier: Asked, line: bytes) -> None:
    """A worker that speaks otherwise learns so; nobody's run is judged by it."""
    assert {"id": None, "fault": "the request has no recording"} == verifier.ask_line(line)


def test_an_engine_that_fails_is_a_fault(tmp_path: Path) -> None:
    """A map that the engine cannot load says nothing of the player."""
    require_engine()
    (tmp_path / "empty.wad").write_bytes(level.wad((b"MAP01", b"")))
    with running_verifier(tmp_path, tmp_path) as asked:
        assert {"fault"} == asked.ask(recorded("straight")).keys()


def test_an_engine_that_takes_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is stopped, and nobody is called a cheat."""
    require_engine()
    monkeypatch.setattr(verify, "ENGINE_WALL_S", 0.001)
    with pytest.raises(verify.Fault, match="took too long"):
        DemoVerifier(FILES).judge(recorded("straight"))


def test_without_a_map_it_does_not_begin(tmp_path: Path) -> None:
    """A folder without a map is told to who installs it."""
    with pytest.raises(verify.Fault, match="have to be installed"):
        DemoVerifier(tmp_path)
