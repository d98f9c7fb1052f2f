"""Cursors of lists: each list takes back its own, and refuses all others in one way."""

from __future__ import annotations

from dataclasses import astuple
from urllib.parse import quote

from gateway.ledger.moderation.queue import BEGINNING
from gateway.ledger.moderation.trail import TrailFilter
from tests.gateway.edge.test_families import Studio, opening, settings, studio
from tests.support.harness import Harness

__all__ = ["settings", "studio"]

ACHIEVEMENTS = "/v1/players/{}/achievements?after="
WINDOWS = "/v1/boards/track.a/windows?{}after="
LISTS = {
    "/v1/boards?cursor=": (("boards",), ["cup"]),
    "/v1/families?cursor=": (("families",), ["level"]),
    "/v1/families/track/boards?cursor=": (("boards", "track", "name", []), ["track.a", 0, 0]),
    "/v1/families/track/players/ada/standings?cursor=": (
        ("standings", "track", "ada"),
        ["alltime", "track.a"],
    ),
    ACHIEVEMENTS.format("ada"): (("achievements", "ada"), [3, "daily:20261101"]),
    ACHIEVEMENTS.format("bob"): (("achievements", "bob"), [3, "daily:20261101"]),
    WINDOWS.format(""): (
        ("windows", "track.a", ["alltime", "daily", "weekly", "monthly", "season"]),
        [1, "alltime"],
    ),
    WINDOWS.format("kind=daily&"): (("windows", "track.a", ["daily"]), [1, "daily:20261101"]),
}
"""Each list, with what it signs and a place in it."""

SCOPES = [f"board-{number}" for number in range(8)]
MODERATED = {
    "/v1/moderation/players?name=a&cursor=": (("players named", "a", SCOPES), ["ada", "p1"]),
    "/v1/moderation/players/ada/submissions?cursor=": (("submissions of", "ada", SCOPES), [5]),
    "/v1/moderation/trail?cursor=": (("trail", SCOPES, *astuple(TrailFilter(frozenset()))[1:]), [5]),
    "/v1/moderation/queue?cursor=": (("queue", SCOPES, []), list(BEGINNING)),
    "/v1/moderation/batches?cursor=": (("batches", SCOPES), [5, "one"]),
}
"""Each list for moderators of some boards, with what it signs and a place in it."""


async def refusal(harness: Harness, path: str) -> tuple[int, str, str]:
    answer = await harness.get(path)
    parameter = path.rpartition("=")[0].rpartition("?")[2].rpartition("&")[2]
    return answer.status, answer.problem, answer.body["detail"].removeprefix(parameter)


async def test_a_list_takes_no_cursor_but_its_own(studio: Studio):
    """Not that of another list, player or kind of window, nor of a board's entries; its own is a page."""
    await studio.done(opening("a"), opening("b"))
    for player in ("ada", "bob"):
        await studio.write("track.a", player, 5)
    cursors = studio.harness.edge.cursors
    own = {path: cursors.next_of(*each) for path, each in LISTS.items()}
    entries = (await studio.harness.get("/v1/boards/track.a/entries?limit=1")).body["next"]
    expected = (
        422,
        "schema-violation",
        ": expected the `next` of a page of this list, in its order and with its filters",
    )
    for path, cursor in own.items():
        answer = await studio.harness.get(path + cursor)
        assert 200 == answer.status, (path, answer.raw)
        for other in {*own.values(), entries, f"!{cursor}", f"{cursor[:3]}!{cursor[3:]}"} - {cursor}:
            assert expected == await refusal(studio.harness, path + other), path
        status, problem, _ = await refusal(studio.harness, f"/v1/boards/track.a/entries?cursor={cursor}")
        assert (422, "schema-violation") == (status, problem)


async def test_a_list_for_moderators_takes_the_cursors_of_all_edges_for_the_same_boards(studio: Studio):
    """Sets have another order in each process; and who may read fewer boards goes on nowhere."""
    harness, told = studio.harness, {}
    for path, signed in MODERATED.items():
        cursor = harness.edge.cursors.next_of(*signed)
        answers = [
            await harness.get(f"{path}{cursor}", harness.moderator(*boards))
            for boards in (SCOPES, SCOPES[1:])
        ]
        told[path] = [(answer.status, answer.problem) for answer in answers]
    assert [[(200, ""), (422, "schema-violation")]] * len(MODERATED) == list(told.values()), told


async def test_what_no_page_gave_is_refused(studio: Studio):
    """Whatever it is, as `schema-violation` by the name of the parameter."""
    await studio.done(opening("a"))
    wrong = {}
    for path in LISTS:
        for text in ("", "x", "cup", "é", "1.alltime", "alltime~track.a", "9" * 400, "\x01"):
            status, problem, detail = await refusal(studio.harness, path + quote(text))
            if (422, "schema-violation", ": expected the `next`") != (status, problem, detail[:21]):
                wrong[path, text] = (status, problem, detail)
    assert {} == wrong
