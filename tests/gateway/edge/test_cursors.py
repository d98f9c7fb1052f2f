"""Cursors over HTTP: through a board and back while it moves, and no cursor but one that a page of the board gave."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.edge.reads.cursors import Cursor
from gateway.index import keys
from gateway.index.board_index import Cut
from policies.choices import RankKind
from policies.ranking import BoardPlace
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.harness import Answer, Harness


@pytest.fixture(autouse=True)
async def whole(harness: Harness) -> None:
    """The index is read, since it is marked as one that nothing is missing of."""
    await harness.edge.index.client.set(keys.sentinel("vault"), "1")


async def page(harness: Harness, query: str = "limit=3") -> Answer:
    answer = await harness.get(f"{VAULT}/entries?{query}")
    assert 200 == answer.status, answer.raw
    return answer


async def change(harness: Harness, private: Any, *written: tuple[str, int | None]) -> None:
    """Writes players' scores to the vault; None takes back what they have."""
    for player, score in written:
        operation = {"operation": f"{player}-{score}", "player": player}
        path = f"{VAULT}/removals" if score is None else f"{VAULT}/entries"
        body = operation if score is None else operation | {"score": score}
        request = harness.server_signed(private, "eu-1", body, path=path)
        request.path = path
        assert (await harness.send(request)).status in (200, 202)


def players(answer: Answer) -> str:
    return "".join(entry["player"].removeprefix("p") for entry in answer.body["entries"])


async def test_the_board_is_gone_through_and_back(harness: Harness):
    """`next` leads to the end and `previous` to the beginning, where each is null; ranks go on."""
    await filled(harness)
    down = [await page(harness)]
    while (cursor := down[-1].body["next"]) is not None:
        down.append(await page(harness, f"limit=3&cursor={cursor}"))
    assert ["123", "456", "7"] == [players(each) for each in down]
    assert [1, 4, 7] == [each.body["entries"][0]["rank"] for each in down]
    assert down[0].body["previous"] is None
    up = [down[-1]]
    while (cursor := up[-1].body["previous"]) is not None:
        up.append(await page(harness, f"limit=3&cursor={cursor}"))
    assert ["7", "456", "123"] == [players(each) for each in up]


async def test_a_page_goes_on_where_the_last_one_ended(harness: Harness):
    """Who comes in ahead moves the ranks and not the entries; who was last may have gone."""
    private = await filled(harness, 6)
    cursor = (await page(harness)).body["next"]
    await change(harness, private, ("p8", 5000), ("p9", 4000), ("p3", None))
    answer = await page(harness, f"limit=2&cursor={cursor}")
    assert ("45", 5, 7) == (players(answer), answer.body["entries"][0]["rank"], answer.body["total"])
    back = await page(harness, f"limit=9&cursor={answer.body['previous']}")
    assert "8912" == players(back)


async def test_neighbours_lead_on(harness: Harness):
    """From around a player one can scroll both ways."""
    await filled(harness)
    around = await harness.get(f"{VAULT}/entries/p4/around?radius=1")
    assert "67" == players(await page(harness, f"limit=9&cursor={around.body['next']}"))
    assert "12" == players(await page(harness, f"limit=9&cursor={around.body['previous']}"))


async def test_beyond_the_last_entry_there_is_a_way_back(harness: Harness):
    """An empty page has the cursor of what is before it."""
    private = await filled(harness, 3)
    cursor = (await page(harness, "limit=2")).body["next"]
    await change(harness, private, ("p3", None))
    beyond = await page(harness, f"limit=2&cursor={cursor}")
    assert ("", None) == (players(beyond), beyond.body["next"])
    assert "12" == players(await page(harness, f"limit=2&cursor={beyond.body['previous']}"))


async def test_B11_beyond_the_last_entry_by_offset_there_is_a_way_back_too(harness: Harness):
    """Whoever asks for an offset that is too high gets the cursor of the last page; of an empty window none."""
    await filled(harness, 3)
    beyond = await page(harness, "offset=50&limit=2")
    assert ("", None) == (players(beyond), beyond.body["next"])
    assert "23" == players(await page(harness, f"limit=2&cursor={beyond.body['previous']}"))
    nobody = await harness.get("/v1/boards/sprint/entries?offset=5")
    assert (None, None) == (nobody.body["next"], nobody.body["previous"])


async def test_a_cursor_stays_with_its_window(harness: Harness):
    """After midnight `window=daily` with yesterday's cursor goes on with yesterday; another window is refused."""
    await filled(harness, 4)
    first = await page(harness, "window=daily&limit=2")
    until_midnight_s = 86_400 - datetime.fromtimestamp(harness.clock() / 1000, UTC).timestamp() % 86_400
    harness.clock.shift(until_midnight_s + 1)
    second = await page(harness, f"window=daily&limit=2&cursor={first.body['next']}")
    assert (first.body["window"], "34") == (second.body["window"], players(second))
    refused = await harness.get(f"{VAULT}/entries?window=weekly&cursor={first.body['next']}")
    assert (422, "schema-violation") == (refused.status, refused.problem)


@pytest.mark.parametrize(
    "beside",
    [
        "offset=1",
        "friends=true",
        "players=p1",
        "segment=a:b",
        "ranks=sparse",
        "as_of=2026-11-20T00:00:00Z",
    ],
)
async def test_a_cursor_stands_alone(harness: Harness, beside: str):
    """What would mean other entries is refused beside it."""
    await filled(harness, 3)
    cursor = (await page(harness, "limit=1")).body["next"]
    answer = await harness.get(f"{VAULT}/entries?{beside}&cursor={cursor}")
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert "cursor" in answer.body["detail"]


async def test_a_cursor_of_ranks_that_the_board_no_longer_has_is_refused(harness: Harness):
    """As after a policy that shows fewer kinds of ranks."""
    await filled(harness, 3)
    board = harness.edge.catalogue.of_files["vault"]
    gone = next(kind for kind in RankKind if kind not in board.policy.ranks)
    text = harness.edge.cursors.text(board, Cursor("alltime", gone, Cut(BoardPlace(0, "z"))))
    answer = await harness.get(f"{VAULT}/entries?cursor={text}")
    assert (422, "cursor: is not of this board") == (answer.status, answer.body["detail"])


async def test_a_cursor_of_another_board_says_nothing_of_its_order(harness: Harness):
    """Only a cursor of this very board is outdated by another order; one of another board is just that."""
    await filled(harness, 2)
    of_files = harness.edge.catalogue.of_files
    text = harness.edge.cursors.text(
        of_files["vault"], Cursor("alltime", of_files["vault"].policy.ranks[0], Cut(BoardPlace(0, "z")))
    )
    other = next(
        name for name, each in of_files.items() if each.ranking.rule != of_files["vault"].ranking.rule
    )
    answer = await harness.get(f"/v1/boards/{other}/entries?cursor={text}")
    assert (422, "cursor: is not of this board") == (answer.status, answer.body["detail"])


def decoded(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def changed(cursor: str, at: int) -> str:
    """A cursor with another bit."""
    raw = bytearray(decoded(cursor))
    raw[at] ^= 1
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


async def test_a_cursor_is_sealed(harness: Harness):
    """Nobody reads in it what a list passed over, nor how long that is; a place has the same cursor anywhere."""
    cursors, listed = harness.edge.cursors, ("players named", "a", ["sprint"])
    short, same, longer = (cursors.next_of(listed, (key, "p1")) for key in ("ada", "ada", "adalind"))
    assert short == same != longer
    assert len(short) == len(longer)
    assert not [told for told in (b"ada", b"p1", b"sprint") if told in decoded(short)]
    await filled(harness, 2)
    assert b"vault" not in decoded((await page(harness, "limit=1")).body["next"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cursor: "",
        lambda cursor: "!",
        lambda cursor: cursor[:-2],
        lambda cursor: cursor + "%3D",
        lambda cursor: "A" * 2000,
        lambda cursor: "bnVsbA",
        lambda cursor: "%0A" + cursor,
        lambda cursor: cursor + "!",
        lambda cursor: changed(cursor, 0),
        lambda cursor: changed(cursor, 16),
        lambda cursor: changed(cursor, -1),
    ],
)
async def test_only_cursors_of_the_board_are_taken(harness: Harness, spoil):
    """Cut, padded, spelt otherwise, changed, made up, or of another board: a clear refusal."""
    await filled(harness, 2)
    cursor = (await page(harness, "limit=1")).body["next"]
    answer = await harness.get(f"{VAULT}/entries?window=alltime&cursor={spoil(cursor)}")
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert answer.body["detail"].startswith("cursor: ")
    assert 422 == (await harness.get(f"/v1/boards/sprint/entries?cursor={cursor}")).status
