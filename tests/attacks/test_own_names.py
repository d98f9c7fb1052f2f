"""Players who rename themselves: as often as is allowed, and to no name that is not theirs to take."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.edge.identities.identity_parts import NAME_RATE
from gateway.index import keys
from gateway.index.inspection import Inspection
from gateway.ledger.acts import Act
from gateway.ledger.moderation.renames import rename, undo_rename
from gateway.ledger.players.own_names import TAKEN_AWAY, OwnName, choose_name
from gateway.ledger.players.player_names import name_of_player
from gateway.runtime.settings import Settings
from gateway.settlement import shown_names
from policies.errors import NameTaken, NotRenamed
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


def taken_away(player: str, was: str, name: str) -> Any:
    """A moderator gives the player another name."""
    act = Act("moderator:mara", 1)
    return rename(player, was, name, act, code="abusive", note="", is_unique=True)


async def two_players(harness: Harness) -> tuple[str, str]:
    """Ada and Bob, of whom nobody else may have the name."""
    players = [
        harness.edge.tokens.check(await harness.new_player(name), now_s=0).subject  # type: ignore[union-attr]
        for name in ("Ada", "Bob")
    ]
    for player, name in zip(players, ("Eda", "Ebo"), strict=True):
        await harness.edge.ledger.write(choose_name(player, name, ACT, is_unique=True))
    return players[0], players[1]


async def test_a_name_that_was_given_back_is_the_players_to_leave_and_to_take(harness: Harness):
    """An undone rename takes nothing away: the name is free once the player leaves it, and theirs if they come back."""
    ada, bob = await two_players(harness)
    write = harness.edge.ledger.write
    await write(taken_away(ada, "Eda", "Odd"))
    await write(undo_rename(ada, "Odd", Act("moderator:mara", 2), is_unique=True))
    await write(choose_name(ada, "Ida", ACT, is_unique=True))
    assert OwnName("Eda", is_new=True) == await write(choose_name(ada, "Eda", ACT, is_unique=True))
    await write(choose_name(ada, "Ida", ACT, is_unique=True))
    assert OwnName("Eda", is_new=True) == await write(choose_name(bob, "Eda", ACT, is_unique=True))


async def test_a_name_stays_ones_own_in_another_spelling(harness: Harness):
    """What looks alike is one name: whoever writes it otherwise has not left it."""
    ada, bob = await two_players(harness)
    write = harness.edge.ledger.write
    assert (await write(choose_name(ada, "EDA", ACT, is_unique=True))).is_new
    with pytest.raises(NameTaken):
        await write(choose_name(bob, "Eda", ACT, is_unique=True))


async def test_a_name_that_a_moderator_took_and_gave_again_is_nobodys_once_it_is_left(harness: Harness):
    """Its player may wish for what they are called; left, it is what a moderator took away, of others too."""
    ada, bob = await two_players(harness)
    write = harness.edge.ledger.write
    await write(taken_away(ada, "Eda", "Odd"))
    await write(taken_away(ada, "Odd", "Eda"))
    assert OwnName("Eda", is_new=False) == await write(choose_name(ada, "Eda", ACT, is_unique=True))
    await write(choose_name(ada, "Ida", ACT, is_unique=True))
    for player, refusal in ((ada, NotRenamed), (bob, NameTaken)):
        with pytest.raises(refusal):
            await write(choose_name(player, "Eda", ACT, is_unique=True))


async def test_of_very_many_names_that_were_taken_away_the_newest_are_barred(harness: Harness):
    """Who was renamed a hundred times does not get the last name back."""
    ada, _ = await two_players(harness)
    write, stands = harness.edge.ledger.write, "Eda"
    for number in range(TAKEN_AWAY + 1):
        await write(taken_away(ada, stands, f"Odd {number}"))
        stands = f"Odd {number}"
    with pytest.raises(NotRenamed):
        await write(choose_name(ada, f"Odd {TAKEN_AWAY - 1}", ACT, is_unique=True))


async def test_a_player_is_found_by_the_name_that_they_chose(harness: Harness):
    """And no more by the one that they left."""
    run = await a_held_run(harness)
    assert 200 == (await named(harness, run.token, "Zoe")).status
    found = {
        name: (await harness.get(f"/v1/moderation/players?name={name}", harness.moderator())).body["players"]
        for name in ("zo", "ada")
    }
    assert {"zo": ["Zoe"], "ada": []} == {
        name: [each["name"] for each in players] for name, players in found.items()
    }


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
