"""Players who rename themselves: as often as is allowed, and to no name that is not theirs to take."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.edge.identities.identity_parts import NAME_RATE
from gateway.ledger.acts import Act
from gateway.ledger.moderation.renames import rename
from gateway.ledger.players.own_names import choose_name
from gateway.ledger.players.player_names import name_of_player
from policies.errors import NameTaken
from tests.support.harness import Answer, Harness, Request

ACT = Act("player:x", 1)


async def named(harness: Harness, token: str, name: Any) -> Answer:
    body = b'{"name": "%s"}' % str(name).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return await harness.send(Request("PUT", "/v1/name", body, headers))


async def test_a_player_chooses_a_name_so_many_times_an_hour(harness: Harness):
    """It is checked as a new player's, and the ledger has it."""
    token = await harness.new_player("Ada")
    player = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    assert (422, "schema-violation") == (
        (refused := await named(harness, token, "\u202eadA")).status,
        refused.problem,
    )
    answers = [await named(harness, token, f"Ada {number}") for number in range(NAME_RATE.per_hour + 1)]
    assert [200] * NAME_RATE.per_hour + [429] == [answer.status for answer in answers]
    stands = await harness.edge.ledger.read(name_of_player(player))
    assert stands is not None
    assert f"Ada {NAME_RATE.per_hour - 1}" == stands.name


async def test_nobody_takes_back_what_a_moderator_took_away(harness: Harness):
    """In no spelling that looks like it; another name is taken."""
    token = await harness.new_player("Bad Name")
    player = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    work = rename(
        player, "Bad Name", "Ada", Act("moderator:mara", 1), code="abusive", note="", is_unique=False
    )
    await harness.edge.ledger.write(work)
    refused = await named(harness, token, "bad  NAME")
    assert (409, "state-conflict") == (refused.status, refused.problem)
    assert 200 == (await named(harness, token, "Ida")).status


async def test_unique_names_are_one_players_and_free_once_they_are_left(harness: Harness):
    """What is left behind is nobody's, so that no player keeps many."""
    ada, bob = [
        harness.edge.tokens.check(await harness.new_player(name), now_s=0).subject for name in ("Ada", "Bob")
    ]  # type: ignore[union-attr]
    write = harness.edge.ledger.write
    await write(choose_name(ada, "Ida", ACT, is_unique=True))
    with pytest.raises(NameTaken):
        await write(choose_name(bob, "1da", ACT, is_unique=True))
    await write(choose_name(ada, "Eda", ACT, is_unique=True))
    assert (await write(choose_name(bob, "Ida", ACT, is_unique=True))).is_new
    assert not (await write(choose_name(bob, "Ida", ACT, is_unique=True))).is_new
