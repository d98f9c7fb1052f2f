"""Players are found by names, and renamed by seniors of all boards: it shows everywhere, and can be taken back."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp
import pytest

from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.moderation import renames
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import change_account, disable_account
from gateway.ledger.players import player_names
from gateway.runtime.settings import Settings
from tests.attacks.test_bans import SEEN
from tests.attacks.test_moderated_players import held_runs
from tests.attacks.test_rights_that_end_meanwhile import meanwhile
from tests.support.attack import accept, honest
from tests.support.desk import player_of
from tests.support.harness import Answer, Harness, Run, running_harness

PLAYERS = "/v1/moderation/players"
HOSTILE = ["\u3164", "a\u202eb", "a\nb", "z" * 25, "Z" + "\u0335" * 4, "\u200b", ""]


async def rename(
    harness: Harness, player: str, was: str, name: str | None, token: str = "", **more: Any
) -> Answer:
    body = {"was": was, "code": "abusive", **({} if name is None else {"name": name}), **more}
    return await harness.post(f"{PLAYERS}/{player}/rename", body, token or harness.moderator())


async def undo(harness: Harness, player: str, was: str, token: str = "") -> Answer:
    return await harness.post(f"{PLAYERS}/{player}/rename/undo", {"was": was}, token or harness.moderator())


async def names_on(harness: Harness, *boards: str) -> list[str]:
    await harness.edge.index.drained()
    pages = [(await harness.get(f"/v1/boards/{board}/entries")).body for board in boards]
    return [entry["name"] for page in pages for entry in page["entries"]]


async def approved(harness: Harness, *runs: Run) -> None:
    for run in runs:
        answer = await harness.post(f"/v1/moderation/cases/{run.id}/approve", SEEN, harness.moderator())
        assert 200 == answer.status, answer.raw


async def test_a_new_name_stands_on_every_board_at_once_and_an_undo_brings_back_the_old_one(harness: Harness):
    """Pages that were kept are read again; a later score of the player changes nothing; both are in the trail."""
    runs = await held_runs(harness, "sprint", "other")
    await approved(harness, *runs)
    player = runs[0].player
    assert ["Ada", "Ada"] == await names_on(harness, "sprint", "other")

    renamed = await rename(harness, player, "Ada", "Bob", note="for us")
    assert (200, "Ada", "Bob", "moderator:mara") == (
        renamed.status,
        *(renamed.body[each] for each in ("was", "name", "by")),
    )
    assert ["Bob", "Bob"] == await names_on(harness, "sprint", "other")
    later = await harness.open_run(runs[0].token, board="sprint")
    await accept(harness, honest(harness, later))
    await approved(harness, later)
    assert ["Bob", "Bob"] == await names_on(harness, "sprint", "other")
    again = await rename(harness, player, "Ada", "Bob", note="for us")
    assert ("true", renamed.body) == (again.headers.get("Idempotency-Replayed"), again.body)
    overtaken = await rename(harness, player, "Ada", "Eve")
    assert (412, "precondition-failed") == (overtaken.status, overtaken.problem)

    undone = await undo(harness, player, "Bob", harness.moderator(name="noor"))
    assert (200, "moderator:noor") == (undone.status, undone.body["undone_by"])
    assert ["Ada", "Ada"] == await names_on(harness, "sprint", "other")
    replayed = await undo(harness, player, "Bob", harness.moderator(name="noor"))
    assert ("true", undone.body) == (replayed.headers.get("Idempotency-Replayed"), replayed.body)
    late = await rename(harness, player, "Ada", "Bob", note="for us")
    assert (409, "state-conflict") == (late.status, late.problem)
    viewer = harness.moderator("sprint", name="vera", role=ModeratorRole.VIEWER)
    notes = [
        (await harness.get(f"{PLAYERS}/{player}", who)).body["renames"]
        for who in (harness.moderator(), viewer)
    ]
    assert [["Bob", "for us"], ["Bob", ""]] == [[each[0]["name"], each[0]["note"]] for each in notes]
    trail = (await harness.get(f"/v1/moderation/trail?player={player}", harness.moderator())).body["events"]
    assert [("noor", "rename-undone"), ("mara", "renamed")] == [
        (event["moderator"], event["reason"]) for event in trail if event["submission"] is None
    ]
    profile = (await harness.get(f"{PLAYERS}/{player}", harness.moderator())).body
    assert ("Ada", [undone.body]) == (profile["name"], profile["renames"])


async def test_a_name_that_was_never_shown_is_shown_when_the_rename_is_sent_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The process that did it died right after its commit."""
    [run] = await held_runs(harness, "sprint")
    await approved(harness, run)

    async def died(*_: Any) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(renames, "show_name", died)
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await rename(harness, run.player, "Ada", "Bob")
    assert ["Ada"] == await names_on(harness, "sprint")
    again = await rename(harness, run.player, "Ada", "Bob")
    assert "true" == again.headers.get("Idempotency-Replayed")
    assert ["Bob"] == await names_on(harness, "sprint")


async def test_M10_a_rename_is_undone_once(harness: Harness):
    """Nothing to undo, and what is undone already, are 409 and change nothing."""
    [run] = await held_runs(harness, "sprint")
    assert (409, "state-conflict") == told(await undo(harness, run.player, "Ada"))
    assert 200 == (await rename(harness, run.player, "Ada", None)).status
    unnamed = f"Player {run.player[-8:]}"
    assert (412, "precondition-failed") == told(await undo(harness, run.player, "Ada"))
    assert 200 == (await undo(harness, run.player, unnamed)).status
    assert (409, "state-conflict") == told(await undo(harness, run.player, "Ada"))
    assert (409, "state-conflict") == told(
        await undo(harness, run.player, unnamed, harness.moderator(name="noor"))
    )


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


async def test_F11_no_moderator_gives_a_name_that_no_player_could_choose(harness: Harness):
    """Nor the one that the player has, nor one to a player who has none, nor any to a player of their own."""
    [run] = await held_runs(harness, "sprint")
    for name in HOSTILE:
        assert (422, "schema-violation") == told(await rename(harness, run.player, "Ada", name)), name
    assert (422, "schema-violation") == told(await rename(harness, run.player, "Ada", " Ada "))
    assert (422, "schema-violation") == told(await rename(harness, run.player, "Ada", "Bob", code="bored"))
    assert (409, "state-conflict") == told(await rename(harness, "nobody", "", "Bob"))
    token, act = harness.moderator(name="own"), Act("operator", harness.clock())
    change = change_account("own", act, grants={"*": "senior"}, players=[run.player])
    await harness.edge.ledger.write(change)
    assert (403, "self-approval") == told(await rename(harness, run.player, "Ada", "Bob", token))
    assert "Ada" == (await harness.get(f"{PLAYERS}/{run.player}", harness.moderator())).body["name"]


async def test_M02_a_name_is_for_seniors_of_all_boards(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """It stands on all of them. Nobody renames by a role that has ended by the time of the write."""
    [run] = await held_runs(harness, "sprint")
    of_board = harness.moderator("sprint", name="lia")
    of_all = harness.moderator(name="moe", role=ModeratorRole.MODERATOR)
    assert (404, "not-found") == told(await rename(harness, run.player, "Ada", "Bob", of_board))
    assert (403, "scope-forbidden") == told(await rename(harness, run.player, "Ada", "Bob", of_all))
    token = harness.moderator(name="noor")
    meanwhile(monkeypatch, harness, disable_account("noor", Act("moderator:mara", harness.clock())))
    assert (409, "state-conflict") == told(await rename(harness, run.player, "Ada", "Bob", token))


async def test_F11_where_names_are_unique_a_name_that_was_taken_away_is_nobodys(settings: Settings):
    """A look-alike of another player's is refused, and nobody gets the old one, so that an undo can."""
    async with running_harness(settings.model_copy(update={"unique_names": True})) as harness:
        ada, _ = await player_of(harness, "Ada"), await player_of(harness, "Eve")
        assert (409, "name-taken") == told(await rename(harness, ada, "Ada", "\u0415ve"))
        assert 200 == (await rename(harness, ada, "Ada", "Bob")).status
        taken = [await harness.post("/v1/players", {"name": name}) for name in ("ada", "BOB", "Ida")]
        assert [409, 409, 201] == [answer.status for answer in taken]
        assert 200 == (await undo(harness, ada, "Bob")).status


async def found(harness: Harness, query: str, *scopes: str) -> list[str]:
    answer = await harness.get(f"{PLAYERS}?{query}", harness.moderator(*scopes))
    assert 200 == answer.status, answer.raw
    return [each["name"] for each in answer.body["players"]]


async def test_players_are_found_by_the_beginnings_of_their_names(harness: Harness):
    """Case and look-alikes make no difference; a page goes on where the last one ended."""
    for name in ("Ada", "\u0410dam", "ADELE", "Bob", "100%", "KIM"):
        token = await harness.new_player(name)
        await accept(harness, honest(harness, await harness.open_run(token, board="sprint")))
    await harness.new_player("Adalbert")
    assert ["Ada", "\u0410dam"] == await found(harness, "name=ada")
    assert ["Ada", "\u0410dam", "ADELE"] == await found(harness, "name=%20aD")
    assert ["100%"] == await found(harness, "name=100%25")
    assert [] == [*await found(harness, "name=%25"), *await found(harness, "name=%F4%8F%BF%BF")]
    assert 6 == len(await found(harness, ""))
    assert ["KIM"] == await found(harness, "name=kim")
    first = (await harness.get(f"{PLAYERS}?name=ad&limit=2", harness.moderator())).body
    assert ["ADELE"] == await found(harness, f"name=ad&limit=2&cursor={first['next']}")
    foreign = await harness.get(f"{PLAYERS}?name=b&cursor={first['next']}", harness.moderator())
    long = await harness.get(f"{PLAYERS}?name={'a' * 97}", harness.moderator())
    assert [(422, "schema-violation")] * 2 == [told(foreign), told(long)]


async def test_M02_a_search_finds_who_has_played_on_the_boards_of_the_moderator(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """As a profile shows them: nobody learns from a search who plays elsewhere."""
    sprint, *_ = await held_runs(harness, "sprint")
    await held_runs(harness, "other")
    seen = {scope: await found(harness, "name=Ada", scope) for scope in ("sprint", "other", "lap", "*")}
    assert {"sprint": 1, "other": 1, "lap": 0, "*": 2} == {scope: len(names) for scope, names in seen.items()}
    answer = await harness.get(f"{PLAYERS}?name=a", harness.moderator("sprint"))
    assert [sprint.player] == [each["player"] for each in answer.body["players"]]
    monkeypatch.setattr(player_names, "LOOKED_AT", 1)
    path, elsewhere = f"{PLAYERS}?name=ada", harness.moderator("lap")
    first = (await harness.get(path, elsewhere)).body
    assert [] == first["players"]
    told = base64.urlsafe_b64decode(first["next"] + "==")
    assert not any(part in told for part in (b"ada", sprint.player.encode())), "nor from a cursor"
    second = (await harness.get(f"{path}&cursor={first['next']}", elsewhere)).body
    assert second["next"] not in {None, first["next"]}
    assert (await harness.get(f"{path}&cursor={second['next']}", elsewhere)).body["next"] is None


async def test_a_profile_has_standings_cases_and_decisions_of_the_boards_of_the_moderator(harness: Harness):
    """Each with its own boards' alone."""
    sprint, waiting, other = await held_runs(harness, "sprint", "sprint", "other")
    await approved(harness, sprint, other)
    for scope, boards, cases in (
        ("sprint", ["sprint"], [waiting.id]),
        ("other", ["other"], []),
        ("*", ["other", "sprint"], [waiting.id]),
    ):
        shown = (await harness.get(f"{PLAYERS}/{sprint.player}", harness.moderator(scope))).body
        assert boards == sorted(entry["board"] for entry in shown["standings"])
        assert {1} == {entry["standing"]["rank"] for entry in shown["standings"]}
        assert cases == [case["submission"] for case in shown["cases"]]
        assert boards == sorted(decision["board"] for decision in shown["decisions"])
