"""Players who rename themselves: as often as is allowed, and to no name that is not theirs to take."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.edge.identities.identity_parts import NAME_RATE
from gateway.index import keys
from gateway.index.inspection import Inspection
from gateway.ledger.acts import Act
from gateway.ledger.moderation.renames import rename
from gateway.ledger.players.own_names import choose_name
from gateway.ledger.players.player_names import name_of_player
from gateway.runtime.settings import Settings
from gateway.settlement import shown_names
from policies.errors import NameTaken
from tests.attacks.test_bans import a_held_run, approve
from tests.support.harness import Answer, Harness, Request, running_harness

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
    assert 3 == NAME_RATE.per_hour, "as the reference of the routes says"
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


async def test_what_is_refused_or_changes_nothing_uses_up_no_name(settings: Settings):
    """A wish that another has, one that a moderator took away, and the name that the player has."""
    async with running_harness(settings.model_copy(update={"unique_names": True})) as harness:
        await harness.post("/v1/players", {"name": "Bob"})
        token = (await harness.post("/v1/players", {"name": "Ada"})).body["token"]
        player = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
        away = rename(
            player, "Ada", "Ida", Act("moderator:mara", 1), code="abusive", note="", is_unique=False
        )
        await harness.edge.ledger.write(away)
        wishes = ["Bob", "Ada", "Ida"] * (NAME_RATE.per_hour + 1)
        answers = [await named(harness, token, wish) for wish in wishes]
        assert [409, 409, 200] * (NAME_RATE.per_hour + 1) == [answer.status for answer in answers]
        changes = [await named(harness, token, f"Eda {number}") for number in range(NAME_RATE.per_hour + 1)]
        assert [200] * NAME_RATE.per_hour + [429] == [answer.status for answer in changes]


async def test_a_name_is_looked_for_on_all_boards_at_once(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """One call asks for all of them, and only those that show another one are given it."""
    run = await a_held_run(harness)
    await approve(harness, run)
    asked, given, answers_of, put = [], [], shown_names.answers_of, Inspection.put

    async def counted(client: Any, commands: Any) -> Any:
        asked.append(len(commands))
        return await answers_of(client, commands)

    async def noted(inspection: Inspection, key: str, values: Any) -> None:
        given.append(key)
        await put(inspection, key, values)

    monkeypatch.setattr(shown_names, "answers_of", counted)
    monkeypatch.setattr(Inspection, "put", noted)
    assert 200 == (await named(harness, run.token, "Ida")).status
    assert [len(harness.edge.catalogue.of_files)] == asked
    assert [keys.names("sprint")] == given
    page = (await harness.get("/v1/boards/sprint/entries")).body
    assert ["Ida"] == [entry["name"] for entry in page["entries"]]
