"""Bans as answers show them, and as requests ask for them, without an edge."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation.bans import _ban_of, _content, ban_shown, refuse_own_players
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_bans import BanShown, NewBan
from gateway.ledger.moderation.bans import Ban
from tests.support.harness import Harness

EDGE: Any = SimpleNamespace(catalogue=SimpleNamespace(families={"track": None}), clock=lambda: 5_000)
MIA = Moderator("mia", {"*": ModeratorRole.SENIOR}, frozenset({"zoe"}))
BAN = Ban(
    "ban1", "ada", "sprint", is_shadow=False, code="cheating", note="a note", message="a message",
    actor="moderator:mia", began_at_ms=1_000, until_ms=2_000, lifted_at_ms=3_000, lifted_by="moderator:sam",
    changed_seq=8, changed_count=4, seen_seq=None,
)  # fmt: skip
SHOWN: dict[str, Any] = {
    "ban": "ban1",
    "player": "ada",
    "board": "sprint",
    "family": None,
    "shadow": False,
    "code": "cheating",
    "note": "a note",
    "message": "a message",
    "by": "moderator:mia",
    "began_at": "1970-01-01T00:00:01.000Z",
    "until": "1970-01-01T00:00:02.000Z",
    "lifted_by": "moderator:sam",
    "lifted_at": "1970-01-01T00:00:03.000Z",
    "followed": 4,
    "is_settled": True,
}


@pytest.mark.parametrize(
    ("ban", "shown"),
    [
        ({}, {}),
        ({"scope": "track"}, {"board": None, "family": "track"}),
        ({"scope": ""}, {"board": None}),
        ({"scope": "track.a"}, {"board": "track.a"}),
        ({"is_shadow": True}, {"shadow": True}),
        (
            {"until_ms": None, "lifted_at_ms": None, "lifted_by": ""},
            {"until": None, "lifted_at": None, "lifted_by": None},
        ),
        (
            {"began_at_ms": 0, "until_ms": 0, "lifted_at_ms": 0},
            dict.fromkeys(("began_at", "until", "lifted_at"), "1970-01-01T00:00:00.000Z"),
        ),
        ({"seen_seq": 0}, {"is_settled": False}),
        ({"seen_seq": 7}, {"is_settled": False}),
    ],
)
def test_a_ban_is_shown_whole(ban: dict[str, Any], shown: dict[str, Any]):
    """With its scope as a board, a family or neither; what has not happened is null."""
    assert BanShown(**(SHOWN | shown)) == ban_shown(EDGE, replace(BAN, **ban))


def test_a_request_becomes_a_ban_from_now_on():
    """What was asked for, by whom, and until when; nothing of it has happened yet."""
    asked = {
        "operation": "o1",
        "code": "cheating",
        "note": "n",
        "message": "m",
        "until": "1970-01-01T00:00:09Z",
    }
    ban = _ban_of(EDGE, MIA, "ada", "sprint", NewBan(**asked))
    assert ban == Ban(
        ban.ban_id, "ada", "sprint", is_shadow=False, code="cheating", note="n", message="m",
        actor="moderator:mia", began_at_ms=5_000, until_ms=9_000,
    )  # fmt: skip
    others = [
        _ban_of(EDGE, replace(MIA, name="sam"), "ada", "sprint", NewBan(**asked)),
        _ban_of(EDGE, MIA, "bob", "sprint", NewBan(**asked)),
        _ban_of(EDGE, MIA, "ada", "sprint", NewBan(**asked | {"operation": "o2"})),
    ]
    assert 4 == len({ban.ban_id, *(other.ban_id for other in others)})
    lasting = _ban_of(EDGE, MIA, "ada", "", NewBan(operation="o1", code="cheating", shadow=True))
    assert (True, None, "", "") == (lasting.is_shadow, lasting.until_ms, lasting.note, lasting.message)


def test_a_ban_ends_at_a_time():
    """Whatever is no time is refused, with its field."""
    with pytest.raises(Problem) as refused:
        _ban_of(EDGE, MIA, "ada", "", NewBan(operation="o1", code="cheating", until="tomorrow"))
    assert ProblemType.SCHEMA_VIOLATION is refused.value.kind
    assert str(refused.value.detail).startswith("until: expected an RFC 3339 instant")


@pytest.mark.parametrize(
    ("other", "is_the_same"),
    [
        ({"player": "bob"}, False),
        ({"scope": ""}, False),
        ({"is_shadow": True}, False),
        ({"code": "other"}, False),
        ({"note": ""}, False),
        ({"message": ""}, False),
        ({"until_ms": None}, False),
        (
            {"began_at_ms": 9, "lifted_at_ms": None, "lifted_by": "", "changed_seq": 0, "changed_count": 0,
             "seen_seq": 5, "again_ms": 9},
            True,
        ),
    ],
)  # fmt: skip
def test_a_ban_is_the_same_if_the_same_was_asked_for(other: dict[str, Any], *, is_the_same: bool):
    """A repeated request is known by what it asks for, not by what became of it."""
    assert is_the_same == (_content(BAN) == _content(replace(BAN, **other)))


@pytest.mark.parametrize("player", ["mia", "zoe"])
async def test_nobody_decides_on_their_own_player(harness: Harness, player: str):
    """The one of the moderator's own name is theirs, too; all others are not."""
    with pytest.raises(Problem) as refused:
        await refuse_own_players(harness.edge, MIA, player)
    assert ProblemType.SELF_APPROVAL is refused.value.kind
    await refuse_own_players(harness.edge, MIA, "ada")
