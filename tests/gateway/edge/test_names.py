"""Display names: at least one character that is seen, bounds after composing, and nothing that hides or turns a line."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gateway.edge.players.names import MOST_BYTES, MOST_CHARACTERS, display_name
from gateway.edge.problems import Problem
from gateway.ledger.name_keys import name_key
from gateway.runtime.settings import Settings
from tests.support.harness import Harness, running_harness
from tests.support.ledger import rows

INVISIBLE = [
    "\u3164", "\u2800", "\u17b4", "\u17b5", "\u115f", "\u1160", "\uffa0", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f",
    "\u180e", "\u202e", "\u2066", "\u061c", "\ufe0f", "\u0301", "\U000e0101", "\U000e0041", "\u2028", "\x00", "\x85", "\ue000", "\u0378",
]  # fmt: skip


@pytest.mark.parametrize("character", INVISIBLE, ids=lambda each: f"U+{ord(each):04X}")
def test_F11_a_name_of_what_is_not_seen_is_refused(character: str):
    """By itself, several of it, and with spaces around."""
    for name in (character, character * 5, f" {character} "):
        with pytest.raises(Problem, match="name: "):
            display_name(name)


@pytest.mark.parametrize("character", INVISIBLE[:13], ids=lambda each: f"U+{ord(each):04X}")
def test_F11_nothing_invisible_hides_in_a_name(character: str):
    """Two names that look the same by it cannot both be had."""
    with pytest.raises(Problem, match="invisible"):
        display_name(f"Ada{character}Lovelace")


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        ("Ada", "Ada"), ("  Zoë ", "Zoë"), ("Zoe\u0308", "Zoë"), ("张伟", "张伟"), ("नमस्ते", "नमस्ते"), ("Ada\u00a0\u3000L", "Ada  L"),
        ("e\u0301" * 24, "é" * 24), ("❤\ufe0f", "❤\ufe0f"), ("𝄞" * 24, "𝄞" * 24), ("-", "-"), ("7", "7"),
    ],
)  # fmt: skip
def test_F11_names_of_all_scripts_are_taken_as_they_are_composed(wish: str, shown: str):
    """Length is that of what is shown, and not of how it was sent."""
    assert shown == display_name(wish)


@pytest.mark.parametrize("wish", ["a" * 25, "\u0958" * 13, "a" + "\u0335" * 4])
def test_F11_what_is_too_long_once_it_is_composed_is_refused(wish: str):
    """Some characters become two by composing; and marks make no towers."""
    with pytest.raises(Problem, match="expected at most"):
        display_name(wish)


def test_F11_each_character_may_have_as_many_marks_as_any_script_needs():
    """They are counted for each by itself, whatever says how it is drawn; one more is refused."""
    three = "x\u0335\u0336\u0337"
    for taken in (three, three * 3, f"{three[:2]}\ufe0f{three[2:]}"):
        assert taken == display_name(taken)
    for tower in (f"{three}\u0338", f"{three}\ufe0f\u0338", f"x{three}\u0338"):
        with pytest.raises(Problem, match="at most 3 marks"):
            display_name(tower)


@hypothesis_settings(deadline=None)
@given(wish=st.text(max_size=40))
def test_F11_whatever_is_taken_can_be_seen_and_is_bounded(wish: str):
    """What is taken is composed, is taken again as it is, and has a letter, number, sign or symbol."""
    try:
        name = display_name(wish)
    except Problem:
        return
    assert name == display_name(name) == unicodedata.normalize("NFC", name)
    assert 1 <= len(name) <= MOST_CHARACTERS
    assert len(name.encode()) <= MOST_BYTES
    assert any(unicodedata.category(each)[0] in "LNPS" for each in name)


async def test_F11_a_player_gets_the_composed_name_or_one_of_ours(harness: Harness):
    """201 with what is shown; what cannot be is 422, and no name at all is one made of the id."""
    made = await harness.post("/v1/players", {"name": "e\u0301" * 24})
    assert (201, "é" * 24) == (made.status, made.body["name"])
    refused = await harness.post("/v1/players", {"name": "\u3164"})
    assert (422, "schema-violation") == (refused.status, refused.problem)
    for wish in ({}, {"name": "  "}):
        assert (await harness.post("/v1/players", wish)).body["name"].startswith("Player ")


@pytest.mark.parametrize(
    ("one", "other"),
    [("Ada", "\u0410\u0501\u0430"), ("Ada L", "ADA  l"), ("PayPal", "P\u0430yPaI"), ("l0l", "IOI"), ("MARA", "mara"), ("Modern", "Modem"), ("\U0001d400da", "Ada")],
)  # fmt: skip
def test_F11_names_that_look_the_same_have_one_key(one: str, other: str):
    """Other scripts, other case, more spaces, and letters that only look alike."""
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(("one", "other"), [("Ada", "Ida"), ("Zoë", "Zoe"), ("Ben", "Bob"), ("张伟", "张韦")])
def test_F11_names_that_look_different_have_two(one: str, other: str):
    """The control."""
    assert name_key(one) != name_key(other)


async def test_F11_where_names_are_unique_a_look_alike_is_refused(settings: Settings):
    """The second of two that look alike is 409 and leaves no player; nameless ones and other names are taken."""
    async with running_harness(settings.model_copy(update={"unique_names": True})) as harness:
        names = ["Ada", "\u0410da", "ada", "Ida", None, None]
        answers = [await harness.post("/v1/players", {"name": name} if name else {}) for name in names]
    assert [201, 409, 409, 201, 201, 201] == [answer.status for answer in answers]
    assert "name-taken" == answers[1].problem
    assert 4 == rows(settings.ledger_path, "SELECT count(*) FROM players")[0][0]


async def test_F11_names_need_not_be_unique(harness: Harness):
    """By default two players may have one name."""
    assert [201, 201] == [(await harness.post("/v1/players", {"name": "Ada"})).status for _ in range(2)]
