"""Reading boards: pages, neighbours, windows, and what is not there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.attack import as_server, registered
from tests.support.harness import Harness

VAULT = "/v1/boards/vault"


async def filled(harness: Harness, count: int = 7) -> Ed25519PrivateKey:
    """Puts players p1 (best) to p<count> into the vault; gives the key of the server that did so."""
    private = await registered(harness)
    for number in range(1, count + 1):
        entry = {"operation": f"op-{number}", "player": f"p{number}", "score": 1000 - number}
        assert 202 == (await as_server(harness, private, entry)).status
    return private


def ranks(answer) -> list[tuple[int, str]]:
    return [(entry["rank"], entry["player"]) for entry in answer.body["entries"]]


async def test_pages_follow_each_other(harness: Harness):
    """Offset and limit cut the board into pages without gap or repeat; the total is told on each."""
    await filled(harness)
    seen = []
    for offset in (0, 3, 6, 9):
        answer = await harness.get(f"{VAULT}/entries?offset={offset}&limit=3")
        assert (200, "vault", "alltime", 7) == (
            answer.status,
            answer.body["board"],
            answer.body["window"],
            answer.body["total"],
        )
        seen += ranks(answer)
    assert [(number, f"p{number}") for number in range(1, 8)] == seen


async def test_an_entry_is_shown_with_rank_time_and_submission(harness: Harness):
    """One player's entry says what, when and for which submission."""
    await filled(harness, 2)
    answer = await harness.get(f"{VAULT}/entries/p2")
    entry = answer.body
    assert (200, 2, "p2", "p2", 998) == (
        answer.status,
        *(entry[name] for name in ("rank", "player", "name", "score")),
    )
    assert entry["submission"].startswith("op")
    assert datetime.now(UTC) - datetime.fromisoformat(entry["achieved_at"]) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("player", "radius", "expected"),
    [("p1", 2, "123"), ("p4", 1, "345"), ("p7", 5, "234567"), ("p4", 0, "4"), ("p4", 25, "1234567")],
)
async def test_neighbours_of_a_player(harness: Harness, player: str, radius: int, expected: str):
    """Around a player are as many as asked for on each side, or as there are."""
    await filled(harness)
    answer = await harness.get(f"{VAULT}/entries/{player}/around?radius={radius}")
    assert [(int(number), f"p{number}") for number in expected] == ranks(answer)
    assert 7 == answer.body["total"]


async def test_windows_are_asked_for_by_kind_or_name(harness: Harness):
    """A kind is the current window, a name that one; each is told by its name."""
    await filled(harness, 2)
    now = datetime.fromtimestamp(harness.clock() / 1000, UTC)
    year, week, _ = now.isocalendar()
    names = {
        "daily": f"daily:{now:%Y%m%d}",
        "weekly": f"weekly:{year}W{week:02d}",
        "monthly": f"monthly:{now:%Y%m}",
    }
    for kind, name in names.items():
        current = await harness.get(f"{VAULT}/entries?window={kind}")
        assert (name, 2) == (current.body["window"], current.body["total"])
        assert current.raw == (await harness.get(f"{VAULT}/entries?window={name}")).raw
        assert name == (await harness.get(f"{VAULT}/entries/p1?window={kind}")).headers["Scoregate-Window"]
    assert 0 == (await harness.get(f"{VAULT}/entries?window=daily:19990101")).body["total"]


async def test_a_new_day_begins_empty(harness: Harness):
    """What was reached yesterday is in yesterday's window and in the all-time one."""
    await filled(harness, 1)
    yesterday = (await harness.get(f"{VAULT}/entries?window=daily")).body["window"]
    harness.clock.shift(86_400)
    assert 0 == (await harness.get(f"{VAULT}/entries?window=daily")).body["total"]
    assert 1 == (await harness.get(f"{VAULT}/entries?window={yesterday}")).body["total"]
    assert 1 == (await harness.get(f"{VAULT}/entries")).body["total"]


@pytest.mark.parametrize(
    "path", ["/entries/nobody", "/entries/nobody/around", "/entries/p1?window=daily:19990101"]
)
async def test_a_player_without_an_entry_is_not_ranked(harness: Harness, path: str):
    """404, which says that the board is there and the player is not on it."""
    await filled(harness, 1)
    answer = await harness.get(VAULT + path)
    assert (404, "not-found", False) == (answer.status, answer.problem, answer.body["ranked"])


@pytest.mark.parametrize("path", ["", "/entries", "/entries/p1", "/entries/p1/around", "/live"])
async def test_a_board_that_is_not_there_is_not_found(harness: Harness, path: str):
    """404 without the member that speaks of players."""
    answer = await harness.get(f"/v1/boards/nothing{path}", harness.moderator())
    assert (404, "not-found") == (answer.status, answer.problem)
    assert "ranked" not in answer.body


@pytest.mark.parametrize(
    "window",
    ["hourly", "daily:2026", "weekly:2026-47", "daily:%D9%A1" + "0" * 7, "alltime%0D%0AX:1", "%FF", ""],
)
async def test_a_window_that_the_board_does_not_keep_is_not_found(harness: Harness, window: str):
    """Only windows of the policy, in one spelling, can be asked for."""
    for path in ("/entries", "/entries/p1"):
        answer = await harness.get(f"{VAULT}{path}?window={window}")
        assert (404, "not-found") == (answer.status, answer.problem)
        assert "Scoregate-Window" not in answer.headers
    assert 404 == (await harness.get("/v1/boards/sprint/entries?window=daily")).status


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1",
        "offset=1.5",
        "offset=",
        "offset=%D9%A1",
        "offset=1000000001",
        "limit=0",
        "limit=101",
        "limit=1e1",
        "limit=%2B1",
    ],
)
async def test_numbers_of_a_query_are_whole_and_in_range(harness: Harness, query: str):
    """Anything else is told with the range that is meant."""
    answer = await harness.get(f"{VAULT}/entries?{query}")
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert "expected a whole number" in answer.body["detail"]
    assert 422 == (await harness.get(f"{VAULT}/entries/p1/around?radius=26")).status


async def test_boards_are_described_without_their_limits(harness: Harness):
    """What a board is called and keeps is public; its bounds and thresholds are not."""
    boards = (await harness.get("/v1/boards")).body["boards"]
    assert ["arcade", "sprint", "vault"] == [board["board"] for board in boards]
    arcade = await harness.get("/v1/boards/arcade")
    assert arcade.body == boards[0]
    assert ["arcade-1"] == [each["build"] for each in arcade.body["builds"]]
    assert not any(secret in arcade.raw for secret in (b"115400", b"threshold", b"prior", b"burst"))


async def test_a_players_name_is_shown_and_cannot_hide(harness: Harness):
    """Names are NFC and visible: what controls, hides or breaks lines is refused."""
    shown = await harness.post("/v1/players", {"name": "A\u030angstro\u0308m"})
    assert "\u00c5ngstr\u00f6m" == shown.body["name"]
    assert "no-store" == shown.headers["Cache-Control"]
    for name in ("a\u200bb", "a\u202eb", "a\u2028b", "a\u0007b", "a\ue000b", "x" * 25, ""):
        answer = await harness.post("/v1/players", {"name": name})
        assert (422, "schema-violation") == (answer.status, answer.problem), ascii(name)
    assert (await harness.post("/v1/players", {"name": "  "})).body["name"].startswith("Player ")


async def test_a_submissions_rank_is_told_once_it_counts(harness: Harness):
    """A promoted submission is shown with its rank, and without one while Redis does not know it."""
    run = await harness.open_run(board="sprint")
    await harness.submit(run, {"score": 120, "ticks": 60}, board="sprint")
    held = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    assert ("held", "review", None) == (held["state"], held["reason"], held["rank"])
    await harness.post(
        f"/v1/moderation/cases/{run.id}/approve", {"code": "other", "note": "seen"}, harness.moderator()
    )
    shown = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    assert ("promoted", None, 1) == (shown["state"], shown["reason"], shown["rank"])


async def test_only_what_counts_has_a_rank_whatever_else_its_player_has(harness: Harness):
    """A run that waits or was refused is told without the rank that an older one has."""
    token = await harness.new_player()
    runs = [await harness.open_run(token, "sprint") for _ in range(3)]
    for run, score in zip(runs, (120, 130, 140), strict=True):
        assert 202 == (await harness.submit(run, {"score": score, "ticks": 60}, board="sprint")).status
    for run, verb in ((runs[0], "approve"), (runs[2], "reject")):
        decided = await harness.post(
            f"/v1/moderation/cases/{run.id}/{verb}", {"code": "other", "note": "seen"}, harness.moderator()
        )
        assert 200 == decided.status
    shown = [(await harness.get(f"/v1/submissions/{run.id}", token)).body for run in runs]
    assert [("promoted", 1), ("held", None), ("rejected", None)] == [
        (each["state"], each["rank"]) for each in shown
    ]
