"""Families: which files describe one, which boards they have, and what those boards share."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import PolicyError, SettingRefused
from policies.family import Family
from policies.judging import Prior
from policies.loader import load_board, load_policies
from policies.opened_board import (
    NarrowedBounds,
    NarrowedScore,
    OpenedBoard,
    content_digest,
    family_named_by,
)
from policies.policy_changes import changes_between, refuse_restart
from policies.seeds import SEED_BITS, board_seed
from tests.support.game import MODULE

THREE_LINES = "family: track\ntitle: Tracks\nscore: {maximum: 100000}\n"
REPLAYED = (
    f"builds: {{b1: {{simulator: {MODULE}}}}}\nreplay: {{maximum_ticks: 600, stats: [coins]}}\n"
    "rules: [{name: pace, rule: score <= stats.coins * 10}]\n"
)
ON = "validators: {similarity: flag}\n"
MONZA = OpenedBoard("track.monza", "track", "Monza")


def family(folder: Path, *settings: str, text: str = THREE_LINES) -> Family:
    folder.mkdir(exist_ok=True)
    (folder / "track.yaml").write_text(text + "".join(settings))
    [family] = load_policies(folder).families.values()
    return family


def test_three_lines_make_a_family(tmp_path: Path):
    """And a folder may have nothing else; every board of it has the settings of the family."""
    track = family(tmp_path / "policies")
    board = track.board(MONZA)

    assert {} == load_policies(tmp_path / "policies").boards
    assert ("track", "track.monza", "track", MONZA) == (track.name, board.name, board.family, board.opened)
    assert ("Monza", 100_000) == (board.policy.title, board.policy.score.maximum)


def test_a_folder_has_boards_and_families(tmp_path: Path):
    """Each is found under its own name, and no name is both."""
    (tmp_path / "coins.yaml").write_text("board: coins\ntitle: Coins\nscore: {maximum: 9}\n")
    (tmp_path / "track.yaml").write_text(THREE_LINES)
    policies = load_policies(tmp_path)
    assert (["coins"], ["track"]) == (list(policies.boards), list(policies.families))
    assert {"coins", "track"} == policies.by_name.keys()

    (tmp_path / "coins.yaml").write_text("board: track\ntitle: Coins\nscore: {maximum: 9}\n")
    with pytest.raises(PolicyError, match=r"track\.yaml: board 'track' is already described"):
        load_policies(tmp_path)
    (tmp_path / "coins.yaml").rename(tmp_path / "zoo.yaml")
    with pytest.raises(PolicyError, match=r"zoo\.yaml: family 'track' is already described"):
        load_policies(tmp_path)
    with pytest.raises(PolicyError, match="expected a board, and this file describes the family 'track'"):
        load_board(tmp_path / "track.yaml")


@pytest.mark.parametrize(
    ("settings", "line", "fault"),
    [
        ("board: track\n", 4, "board: a file describes a `board` or a `family`, not both"),
        ("names: '[a-'\n", 4, "names: not a pattern that can be matched in linear time: "),
        ("names: 'a)|(b'\n", 4, "names: not a pattern that can be matched in linear time: "),
        ("names: '(a)\\1'\n", 4, "names: not a pattern that can be matched in linear time: "),
        ("names: '(?=a)a'\n", 4, "names: not a pattern that can be matched in linear time: "),
        (
            "names: '(((a{99}){99}){99}){99}'\n",
            4,
            "names: not a pattern that can be matched in linear time: ",
        ),
        (f"names: {'a' * 201}\n", 4, "names: expected a text of at most 200 characters"),
        ("names: ''\n", 4, "names: expected a text of 1 or more characters"),
        ("names: []\n", 4, "names: expected 1 or more elements"),
        ("names: [a, b, a]\n", 4, "names: each name may be given once"),
        ("names:\n  - monza\n  - mon.za\n", 6, "names.1: expected a text of the form"),
        ("names: 5\n", 4, "names: "),
        ("opened_by: anybody\n", 4, "opened_by: expected `servers`, `players` or `both`"),
        ("opened_by: players\n", 4, "opened_by: players may only open boards whose names the policy knows"),
        (
            "names: '[0-9-]+'\nschedule: daily\nopened_by: players\n",
            6,
            "opened_by: a schedule opens its boards at their time",
        ),
        (
            "opened_by: players\nopening: {signed_by: [AAAA]}\n",
            5,
            "opening.signed_by: An Ed25519 public key has 32 bytes",
        ),
        (
            f"opened_by: players\nopening: {{signed_by: [{'A' * 43}=]}}\n",
            5,
            "opening.signed_by: The public key is a point of small order",
        ),
        (
            "opened_by: players\nopening: {signed_by: [x]}\n",
            5,
            "opening.signed_by: expected 32 bytes in base64",
        ),
        (
            "opened_by: players\nopening: {signed_by: ['WjPKkl6R+EyaCgmqVa/Yd4-9OqEdthEb4xqhGyVGRY8A=']}\n",
            5,
            "opening.signed_by: expected 32 bytes in base64",
        ),
        ("\nopened_by: both\n", 5, "opened_by: players may only open boards whose names the policy knows"),
        (
            "opening: {per_hour: 5}\n",
            4,
            "opening: `opening` limits players, and `opened_by: servers` lets none",
        ),
        (
            "names: [a]\nopened_by: both\nopening:\n  per_hour: 0\n",
            7,
            "opening.per_hour: expected at least 1",
        ),
        (
            "metadata_filters: {a: number}\n",
            4,
            "metadata_filters.a: expected `text`, `integer` or `boolean`",
        ),
        (f"metadata_filters: {{{', '.join(f'a{n}: text' for n in range(9))}}}\n", 4, "metadata_filters: "),
        ("names_free_after_delete: maybe\n", 4, "names_free_after_delete: expected true or false"),
        ("seed: game\n", 4, "seed: expected `run` or `board`"),
        (
            f"seed: board\n{REPLAYED}",
            4,
            "seed: with `seed: board` a stolen recording replays, but `validators.similarity` is",
        ),
        (f"{ON}seed: board\nwindows: [alltime]\n{REPLAYED}", 0, ""),
        ("seed: board\n", 0, ""),
        ("seed: board\nvalidators: {recording_reuse: off}\n", 0, ""),
        (
            f"seed: board\nvalidators: {{similarity: reject, recording_reuse: shadow}}\n{REPLAYED}",
            4,
            "replays, but `validators.recording_reuse` is `shadow`: set `flag` or `reject`",
        ),
        (
            f"validators:\n  similarity: off\n  recording_reuse: off\nseed: board\n{REPLAYED}",
            7,
            "`validators.recording_reuse` is `off` and `validators.similarity` is `off`",
        ),
        ("writes: trusted\nseed: board\n", 5, "seed: only players' runs have seeds"),
    ],
)
def test_a_wrong_family_is_named_with_its_line(tmp_path: Path, settings: str, line: int, fault: str):
    """File, line, setting, and what was expected there."""
    path = tmp_path / "track.yaml"
    path.write_text(THREE_LINES + settings)
    if not fault:
        load_policies(tmp_path)
        return
    with pytest.raises(PolicyError) as refused:
        load_policies(tmp_path)
    assert 1 == len(str(refused.value).splitlines()), str(refused.value)
    assert str(refused.value).startswith(f"{path}:{line}: ")
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("text", "fault"), [("family: Track", "family: "), ("family: [a]", "family: "), ("family:", "family: ")]
)
def test_the_name_of_a_family_is_a_name(tmp_path: Path, text: str, fault: str):
    """It is refused once, under its own line."""
    (tmp_path / "a.yaml").write_text(THREE_LINES.replace("family: track", text))
    with pytest.raises(PolicyError, match=rf"^{tmp_path}/a\.yaml:1: {fault}[^\n]*$"):
        load_policies(tmp_path)


def test_a_board_of_a_file_has_no_dot(tmp_path: Path):
    """Else it could be a family's too."""
    (tmp_path / "a.yaml").write_text("title: Monza\nscore: {maximum: 9}\nboard: track.monza\n")
    with pytest.raises(PolicyError, match=r"a\.yaml:3: board: a dot belongs to the boards of a family"):
        load_policies(tmp_path)


def test_a_board_of_a_file_may_have_a_seed_of_its_own(tmp_path: Path):
    """Everyone plays the same course there too, with the same two validators."""
    path = tmp_path / "cup.yaml"
    path.write_text(f"board: cup\ntitle: Cup\nscore: {{maximum: 9}}\nseed: board\n{ON}")
    assert board_seed("", "cup", bytes(32)) == load_board(path).seed
    path.write_text(f"board: cup\ntitle: Cup\nscore: {{maximum: 100000}}\nseed: board\n{REPLAYED}")
    with pytest.raises(
        PolicyError, match=r"cup\.yaml:4: seed: with `seed: board` a stolen recording replays"
    ):
        load_board(path)


@pytest.mark.parametrize(
    ("names", "rest", "is_named"),
    [
        ("", "monza", True),
        ("", "Monza_GP-2", True),
        ("", "mon.za", False),
        ("", "", False),
        ("names: [monza, Spa]\n", "monza", True),
        ("names: [monza, Spa]\n", "Spa", True),
        ("names: [monza, Spa]\n", "spa", False),
        ("names: '20[0-9]{2}-[01][0-9]'\n", "2026-11", True),
        ("names: '20[0-9]{2}-[01][0-9]'\n", "2026-11-23", False),
        ("names: '20[0-9]{2}-[01][0-9]'\n", "x2026-11", False),
        ("names: 'a|b'\n", "a", True),
        ("names: 'a|b'\n", "ab", False),
        ("names: '.*'\n", "mon za", False),
        ("names: '.*'\n", "monza\n", False),
        ("names: 'monza'\n", "monza\n", False),
    ],
)
def test_the_policy_says_how_boards_are_named(tmp_path: Path, names: str, rest: str, is_named: bool):
    """The pattern matches the whole rest, and never more than a name can be."""
    track = family(tmp_path / "policies", names)
    assert is_named == track.is_named(f"track.{rest}")
    assert not track.is_named(f"road.{rest}")
    assert not track.is_named(f"trackx{rest}")


def test_players_open_no_boards_where_they_have_no_runs(tmp_path: Path):
    """A family to which only servers write would have boards that nobody asked a run on."""
    (tmp_path / "a.yaml").write_text(
        "family: track\ntitle: Tracks\nwrites: trusted\nnames: [a]\nopened_by: both\n"
    )
    with pytest.raises(
        PolicyError, match=r"a\.yaml:5: opened_by: a player's first run opens a board, and here"
    ):
        load_policies(tmp_path)


def test_a_pattern_takes_no_longer_for_a_hard_name(tmp_path: Path):
    """What makes a backtracking engine take for ever is answered at once."""
    track = family(tmp_path / "policies", "names: '(?:(?:[a-z]*)*[a-z]*)*-'\n")
    assert not track.is_named(f"track.{'a' * 64}")


@settings(deadline=None)
@given(
    st.from_regex(r"[a-z][a-z0-9-]{0,47}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
)
def test_a_name_belongs_to_one_family(name: str, rest: str):
    """Two families never have a board of one name: the family is read off the name."""
    assert name == family_named_by(f"{name}.{rest}")
    assert rest == OpenedBoard(f"{name}.{rest}", name, "").rest


def test_boards_share_what_the_family_computed(tmp_path: Path):
    """Rules are compiled once, and no section, simulator or rule of places is there twice."""
    track = family(tmp_path / "policies", REPLAYED)
    monza, spa = (track.board(replace(MONZA, board=f"track.{name}")) for name in ("monza", "spa"))

    for part in ("score", "limits", "compiled_rules", "claim_stats", "replay"):
        assert getattr(monza.policy, part) is getattr(spa.policy, part) is getattr(track.template, part)
    assert monza.simulators is spa.simulators is track.simulators
    assert monza.ranking.rule == spa.ranking.rule
    assert ("track.monza", "track.spa") == (monza.ranking.policy.board, spa.ranking.policy.board)


def test_a_board_of_another_family_is_refused(tmp_path: Path):
    """It would be judged by rules that are not its own."""
    with pytest.raises(PolicyError, match=r"board 'road\.monza' is not of the family 'track'"):
        family(tmp_path / "policies").board(OpenedBoard("road.monza", "road", "Monza"))


def test_the_digest_covers_what_judges_a_run(tmp_path: Path):
    """The family's policy, the content and the bounds; not the title, which judges nothing."""
    track = family(tmp_path / "policies")
    changed = [
        {},
        {"parameters": b'{"laps":3}'},
        {"asset": bytes(range(32))},
        {"bounds": NarrowedBounds(score=NarrowedScore(maximum=50))},
        {"bounds": NarrowedBounds(score=NarrowedScore(minimum=50))},
    ]
    digests = [track.board(replace(MONZA, **changes)).digest for changes in changed]
    assert track.digest == digests[0]
    assert len(changed) == len(set(digests))
    same = {"title": "Autodromo", "metadata": {"a": 1}, "version": 4, "bounds": NarrowedBounds()}
    assert track.digest == track.board(replace(MONZA, **same)).digest
    other = family(tmp_path / "other", "run_lifetime_s: 60\n")
    assert digests[1] != other.board(replace(MONZA, **changed[1])).digest


def test_a_board_with_one_seed_has_it_for_ever(tmp_path: Path):
    """It follows from the family, the name and the content, as the reference says."""
    track = family(tmp_path / "policies", "seed: board\n", ON)
    bare, loaded = MONZA, replace(MONZA, parameters=b'{"laps":3}')
    text = b"".join(len(part).to_bytes(8, "big") + part for part in (b"track", b"track.monza", bytes(32)))
    expected = int.from_bytes(hashlib.sha256(b"scoregate/board-seed/1\n" + text).digest()[:8], "big") >> 1

    assert expected == track.board(bare).seed == track.board(replace(bare, title="x", version=9)).seed
    assert board_seed("track", "track.monza", content_digest(b'{"laps":3}', None)) == track.board(loaded).seed
    assert None is family(tmp_path / "other").board(bare).seed


@settings(deadline=None)
@given(
    st.sets(
        st.tuples(st.text("ab.", max_size=4), st.text("ab.", max_size=4), st.binary(max_size=3)), max_size=9
    )
)
def test_seeds_keep_their_parts_apart(parts: set[tuple[str, str, bytes]]):
    """No letter moves from the family to the board or the content; each seed fits into a ticket."""
    seeds = {board_seed(*each) for each in parts}
    assert len(parts) == len(seeds)
    assert all(0 <= seed < 2**SEED_BITS for seed in seeds)


def test_a_name_against_the_pattern_is_refused_with_the_pattern(tmp_path: Path):
    """Whoever opens the board sees what its name has to be."""
    track = family(tmp_path / "policies", "names: '[0-9]{3}'\n")
    with pytest.raises(SettingRefused) as refused:
        track.refuse(replace(MONZA, board="track.abc"))
    assert "`abc` does not match the family's `names`: [0-9]{3}" == str(refused.value)
    track.refuse(replace(MONZA, board="track.123"))


@pytest.mark.parametrize(
    ("changes", "location", "fault"),
    [
        ({"board": "track.Spa"}, "board", "`Spa` is none of the family's `names`"),
        ({"board": "track.mon.za"}, "board", "expected `track\\.`"),
        ({"title": ""}, "title", "1 to 80"),
        ({"metadata": {"laps": "3"}}, "metadata.laps", "expected integer"),
        ({"metadata": {"laps": True}}, "metadata.laps", "expected integer"),
        ({"metadata": {"biome": "x" * 65}}, "metadata.biome", "expected text"),
        ({"metadata": {"wet": 1}}, "metadata.wet", "expected boolean"),
        ({"bounds": NarrowedBounds(maximum_ticks=5)}, "bounds.maximum_ticks", "the family has no `replay`"),
    ],
)
def test_a_family_says_which_boards_it_does_not_allow(
    tmp_path: Path, changes: Any, location: str, fault: str
):
    """The field, and what was expected there."""
    track = family(
        tmp_path / "policies",
        "names: [monza]\nmetadata_filters: {laps: integer, biome: text, wet: boolean}\n",
    )
    track.refuse(replace(MONZA, metadata={"laps": 3, "biome": "x" * 64, "wet": False, "other": [1]}))
    track.refuse(replace(MONZA, metadata={"laps": None}))
    with pytest.raises(SettingRefused, match=fault) as refused:
        track.refuse(replace(MONZA, **changes))
    assert location == ".".join(refused.value.location)


def test_a_flag_does_not_become_a_number(tmp_path: Path):
    """In Python both are equal; filters tell them apart."""
    track = family(tmp_path / "policies", "names: [monza]\nmetadata_filters: {wet: boolean}\n")
    wet = replace(MONZA, metadata={"wet": True})
    track.refuse_change(wet, replace(wet, title="Monza in the rain"))
    with pytest.raises(SettingRefused, match="expected boolean"):
        track.refuse_change(wet, replace(wet, metadata={"wet": 1}))


def test_a_board_opened_under_another_pattern_stays(tmp_path: Path):
    """A change of `names` closes nothing that players already have."""
    track = family(tmp_path / "policies", "names: [spa]\n")
    assert not track.is_named("track.monza")
    assert "track.monza" == track.board(MONZA).name


def test_a_change_of_a_family_is_told_like_one_of_a_board(tmp_path: Path):
    """What takes effect at once does so for all its boards; what is stored needs more."""
    old = family(tmp_path / "old")
    new = family(tmp_path / "new", "opened_by: both\nnames: [a]\noperator: latest\n")
    effects = {change.name: change.effect.name for change in changes_between(old, new)}
    assert {"names": "AT_ONCE", "opened_by": "AT_ONCE", "operator": "FOLDED"} == effects
    refuse_restart({"track": old}, {"track": family(tmp_path / "fine", "names: [a]\n")})
    with pytest.raises(PolicyError) as refused:
        refuse_restart({"track": old}, {"track": new})
    assert "needs a restart: family 'track': operator was best and is now latest" == str(refused.value)


def test_a_family_neither_goes_nor_becomes_a_board_while_a_part_runs(tmp_path: Path):
    """Either would strand all its boards at once."""
    old = {"track": family(tmp_path / "old")}
    path = tmp_path / "a.yaml"
    path.write_text("board: track\ntitle: T\nscore: {maximum: 9}\n")
    with pytest.raises(PolicyError, match="needs a restart: family 'track' is gone"):
        refuse_restart(old, {})
    with pytest.raises(PolicyError, match="needs a restart: family 'track' is gone"):
        refuse_restart(old, {"track": load_board(path)})
    with pytest.raises(PolicyError, match="needs a restart: board 'track' is gone"):
        refuse_restart({"track": load_board(path)}, old)


def test_a_prior_of_one_board_is_its_own(tmp_path: Path):
    """It takes the place of the family's on that board alone."""
    track = family(tmp_path / "policies", "anomaly: {prior: {mean: 5000, spread: 2000}}\n")
    bounds = NarrowedBounds(prior=Prior(mean=4000.0, spread=2000.0))
    track.refuse(replace(MONZA, bounds=bounds))
    assert bounds.prior == track.board(replace(MONZA, bounds=bounds)).policy.anomaly.prior
    assert 5000 == track.board(MONZA).policy.anomaly.prior.mean


def test_the_least_spread_of_scores_follows_from_the_board_s_bounds(tmp_path: Path):
    """A board with a tenth of the scores finds a tenth of the distance unusual."""
    track = family(tmp_path / "policies")
    small = replace(MONZA, bounds=NarrowedBounds(score=NarrowedScore(maximum=10_000)))
    assert [1000.0, 100.0] == [track.board(each).policy.spread_floor for each in (MONZA, small)]
