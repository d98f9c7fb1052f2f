"""The section for moderators: its own reasons and messages stand beside ours, and in the place of none by accident."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from policies.decision_codes import CODES, DecisionKind
from policies.moderation import OWN_WORDS, TEMPLATES, Moderation


def code(name: str, *kinds: DecisionKind, **other: Any) -> dict[str, Any]:
    return {"code": name, "kinds": [kind.value for kind in kinds], "meaning": f"what {name} means"} | other


def section(*codes: dict[str, Any], **templates: str) -> Moderation:
    return Moderation.model_validate({"codes": codes, "templates": templates})


@pytest.mark.parametrize("kind", DecisionKind)
def test_a_reason_of_the_studio_stands_beside_ours(kind: DecisionKind) -> None:
    """For the kinds that it names and no other, with its meaning and whether it is a cheat."""
    others = [each for each in DecisionKind if each is not kind]
    moderation = section(code("emulator", kind, is_cheat=True), code("stream", *others))
    known = moderation.codes_of(kind)
    assert {*CODES[kind], "emulator"} == known.keys()
    assert ("what emulator means", True) == (known["emulator"].meaning, known["emulator"].is_cheat)
    assert all({*CODES[each], "stream"} == moderation.codes_of(each).keys() for each in others)
    assert CODES[kind] == {name: known[name] for name in CODES[kind]}


def test_one_reason_may_be_named_twice_only_for_different_kinds() -> None:
    """Else one of two meanings would be lost."""
    first, second = list(DecisionKind)[:2]
    assert 2 == len(section(code("emulator", first), code("emulator", second)).codes)
    for twice in ([code("emulator", first), code("emulator", first)], [code("emulator", first, first)]):
        with pytest.raises(ValidationError, match="once for a kind"):
            section(*twice)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CODES for name in CODES[kind]])
def test_no_reason_of_the_studio_has_the_name_of_one_of_ours(kind: DecisionKind, name: str) -> None:
    """It would change what that reason means, and what is counted as a cheat."""
    with pytest.raises(ValidationError, match="not as one of ours"):
        section(code(name, kind))


def test_a_message_is_a_template_or_what_was_written() -> None:
    """A studio's text goes before ours of the same name; one that repeats a template's text is that template."""
    moderation = section(tools="No tools.", ours="We looked.")
    assert ("No tools.", "We looked.", TEMPLATES["video"], "Hello") == tuple(
        moderation.message_of(each) for each in ("tools", "ours", "video", "Hello")
    )
    assert ["tools", "tools", "ours", None, None] == [
        moderation.template_of(each)
        for each in ("tools", "No tools.", "We looked.", TEMPLATES["tools"], "Hello")
    ]
    with pytest.raises(ValidationError, match="own words"):
        section(**{OWN_WORDS: "We looked."})


@pytest.mark.parametrize("kind", DecisionKind)
def test_a_template_is_offered_for_the_decisions_that_it_fits(kind: DecisionKind) -> None:
    """Nobody who loses a run reads that it counts; a studio's own fits any decision."""
    against = {DecisionKind.REJECT, DecisionKind.REVOKE}
    for_them = {DecisionKind.APPROVE, DecisionKind.REINSTATE, DecisionKind.UNDO}
    offered = section(ours="We looked.").templates_of(kind).keys()
    assert (kind in against) == ({"not-accepted", "tools", "game-fault"} <= offered)
    assert (kind in for_them) == ({"checked", "our-mistake"} <= offered)
    assert (kind is DecisionKind.HOLD) == ({"video", "how-played"} <= offered)
    assert "ours" in offered
    fitting = {*({*TEMPLATES} & {*offered}), "ours"}
    assert fitting == offered
