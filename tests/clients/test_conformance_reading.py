"""What every client reads: boards by pages and filters, friends and groups, families, the feed, and junk."""

from __future__ import annotations

import random
from hashlib import sha256

from tests.clients.driver import ClientError, Driver
from tests.clients.faulty import Canned
from tests.clients.playing import SCORES, opened, submitted
from tests.clients.stage import ASSET, Stage, claim

JSON = {"Content-Type": "application/json"}


def test_pages_are_read_by_cursor_offset_and_filter(driver: Driver, stage: Stage):
    """Three players of a board of their own, one entry a page, and each filter by itself."""
    runs = [opened(driver, stage, "pages") for _ in range(3)]
    for points, run in enumerate(runs, 1):
        stage.settled(submitted(driver, run, points)["submission"])
    players = [run["player"] for run in reversed(runs)]

    page = driver.ask("entries", board="pages", players=players)
    assert players == [each["player"] for each in page["entries"] if each["player"] in players]
    assert [1, 2, 3] == [each["rank"] for each in page["entries"]]

    seen: list[str] = []
    page = driver.ask("entries", board="pages", limit=1, window="weekly")
    while True:
        seen += [each["player"] for each in page["entries"]]
        assert len(page["entries"]) == 1
        if page["next"] is None:
            break
        page = driver.ask("entries", board="pages", limit=1, window="weekly", cursor=page["next"])
    assert players == [player for player in seen if player in players]
    skipped = driver.ask("entries", board="pages", offset=1, limit=1)
    assert [seen[1]] == [each["player"] for each in skipped["entries"]]
    assert 3 <= skipped["total"]
    assert driver.ask("entries", board="pages", limit=2, ranks="unique")["entries"]

    around = driver.ask("around", board="pages", player=players[1], radius=1)["entries"]
    assert players[1] in [each["player"] for each in around]
    assert nobody(driver, "pages", "p_nobody")


def nobody(driver: Driver, board: str, player: str) -> bool:
    try:
        return driver.ask("entry", board=board, player=player) is None
    except ClientError as error:
        return error.reason == "not-found"


def test_friends_are_followed_and_read(driver: Driver, stage: Stage):
    """A follows B: both are on the board among friends, until B is unfollowed."""
    other = opened(driver, stage)
    stage.settled(submitted(driver, other, 4)["submission"])
    run = opened(driver, stage)
    stage.settled(submitted(driver, run, 5)["submission"])
    driver.ask("follow", player=other["player"])
    assert [other["player"]] == driver.ask("friends")["friends"]
    among = driver.ask("entries", board="tiny", friends=True)["entries"]
    assert [run["player"], other["player"]] == [each["player"] for each in among]
    driver.ask("unfollow", player=other["player"])
    assert [] == driver.ask("friends")["friends"]
    alone = driver.ask("entries", board="tiny", friends=True)["entries"]
    assert [run["player"]] == [each["player"] for each in alone]


def test_a_player_declares_a_group_and_reads_its_board(driver: Driver, stage: Stage):
    """Only its members, ranked among themselves."""
    country = f"c{driver.language.name}"
    run = opened(driver, stage)
    stage.settled(submitted(driver, run, 5)["submission"])
    driver.ask("set_membership", board="tiny", segment="country", group=country)
    [entry] = driver.ask("entries", board="tiny", segment=f"country:{country}")["entries"]
    assert (run["player"], 1) == (entry["player"], entry["rank"])


def test_boards_and_families_are_listed_page_by_page(driver: Driver, stage: Stage):
    """And a player's standings on the boards of a family."""
    run = opened(driver, stage, "track.monza")
    stage.settled(submitted(driver, run, 5)["submission"])

    names: list[str] = []
    cursor: dict[str, str] = {}
    while cursor is not None:
        page = driver.ask("boards", limit=2, **cursor)
        names += [board["board"] for board in page["boards"]]
        cursor = {"cursor": page["next"]} if page["next"] else None
    assert {"tiny", "brief", "careful"} < set(names)
    assert "Tiny" == driver.ask("board", board="tiny")["title"]

    assert ["track"] == [family["family"] for family in driver.ask("families")["families"]]
    first = driver.ask("family_boards", family="track", limit=1)
    second = driver.ask("family_boards", family="track", limit=1, cursor=first["next"])
    listed = [board["board"] for page in (first, second) for board in page["boards"]]
    assert ["track.monza", "track.spa"] == listed
    italian = driver.ask("family_boards", family="track", metadata={"country": "it"})
    assert ["track.monza"] == [board["board"] for board in italian["boards"]]
    [standing] = driver.ask("standings", family="track", player=run["player"])["standings"]
    assert ("track.monza", 5) == (standing["board"], standing["score"])
    on = driver.ask("entries_on", player=run["player"], boards=["track.monza", "tiny", "gone"])["entries"]
    assert ["ranked", "unranked", "no-board"] == [each["status"] for each in on]


def test_an_asset_is_downloaded_whole_or_not_at_all(driver: Driver, stage: Stage):
    """Its digest is compared: other bytes are asked for again, and never given to the game."""
    driver.ask("open", base_url=stage.url)
    digest = f"sha256:{sha256(ASSET).hexdigest()}"
    stage.proxy.on("/assets/", Canned(200, ASSET[:-1] + b"?", {"Content-Type": "application/octet-stream"}))
    content = driver.bytes_of("asset", "content", board="track.spa", digest=digest)
    assert content == ASSET
    assert 2 == len(stage.proxy.seen("/assets/"))


def test_a_board_is_watched_until_a_run_counts(driver: Driver, stage: Stage):
    """The first event says to read the board; the next is the change."""
    run = opened(driver, stage)
    driver.begin("watch", board="tiny", window="alltime", count=2, timeout_s=20)
    stage.proxy.await_answer("/live", b"event: begin")
    player = stage.submit_beside("tiny", points=9)
    begin, standing = driver.answer()["events"]
    assert ["begin", "standing"] == [begin["event"], standing["event"]]
    assert (player, 9) == (standing["data"]["player"], standing["data"]["score"])
    assert player != run["player"]


def test_a_client_waits_until_its_run_is_settled(driver: Driver, stage: Stage):
    """Promoted by the worker meanwhile; and one that nobody settles is an error in the end."""
    run = opened(driver, stage)
    receipt = submitted(driver, run, 6)
    waited = driver.ask("wait_until_settled", submission=receipt["submission"], timeout_s=20)
    assert ("promoted", 6) == (waited["state"], waited["score"])
    waiting = opened(driver, stage, "careful")
    committed = submitted(driver, waiting, points=700, do="commit")
    error = driver.refusal("wait_until_settled", submission=committed["submission"], timeout_s=1)
    assert 0 == error.status


def junk(seed: int) -> list[bytes | Canned]:
    """Answers that no gateway gives."""
    rng = random.Random(seed)
    deep = b"[" * 100_000
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return [
        Canned(200, b"", JSON),
        Canned(200, b"null", JSON),
        Canned(200, b"7", JSON),
        Canned(200, b'"text"', JSON),
        Canned(200, b"[]", JSON),
        Canned(200, b"{}", JSON),
        Canned(200, b'{"entries":null}', JSON),
        Canned(200, b'{"entries":[7,null,"x"],"total":"many"}', JSON),
        Canned(200, b'{"entries":{}}', JSON),
        Canned(200, b'{"entries":[{"rank":1e999}]}', JSON),
        Canned(200, b"\xff\xfe\x00", JSON),
        Canned(200, b'{"entries":[', JSON),
        Canned(200, deep, JSON),
        Canned(200, rng.randbytes(2000), JSON),
        Canned(200, b'{"a":"' + b"x" * 3_000_000 + b'"}', JSON),
        Canned(404, deep, {"Content-Type": "application/problem+json"}),
        Canned(400, b'{"type":7,"title":[],"detail":{}}', {"Content-Type": "application/problem+json"}),
        Canned(400, b'[{"type":"x"}]', {"Content-Type": "application/problem+json"}),
        Canned(302, headers={"Location": "\x01"}),
        Canned(999, b"?"),
        head + b"Content-Length: 100\r\n\r\n{",
        head + b"Content-Length: x\r\n\r\n{}",
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        rng.randbytes(300),
        b"",
    ]


def test_junk_ends_as_an_error_and_never_as_a_crash(driver: Driver, stage: Stage):
    """Whatever stands for an answer to a read, the game gets a ScoregateError, and the next read is fine."""
    for number, answer in enumerate(junk(7)):
        driver.ask("open", base_url=stage.url, attempts=1)
        stage.proxy.on("/entries", answer)
        error = driver.refusal("entries", board="tiny")
        assert isinstance(error.reason, str), (number, answer)
        assert isinstance(error.detail, str), (number, answer)
    assert "entries" in driver.ask("entries", board="tiny")


def test_junk_for_a_receipt_is_an_error_too(driver: Driver, stage: Stage):
    """A run whose answer says nothing was perhaps taken: sent again it has its receipt."""
    run = opened(driver, stage, attempts=1)
    for answer in junk(8)[:12]:
        stage.proxy.on(SCORES, answer)
        driver.refusal("submit", ticket=run["ticket"], **claim(run["seed"]))
    assert run["run"] == submitted(driver, run)["submission"]


VIEWS = r"^GET /v1/(boards/tiny/entries|families/track/players/|players/[^/]+/entries)"


def test_reads_of_standings_say_who_looks(driver: Driver, stage: Stage):
    """A player who is banned in shadow is shown as standing to nobody else; a client without the token would tell."""
    run = opened(driver, stage)
    stage.settled(submitted(driver, run, 4)["submission"])
    stage.proxy.forget()
    driver.ask("entries", board="tiny")
    driver.ask("entry", board="tiny", player=run["player"])
    driver.ask("around", board="tiny", player=run["player"], radius=1)
    driver.ask("standings", family="track", player=run["player"])
    driver.ask("entries_on", player=run["player"], boards=["tiny"])
    asked = [each.head.lower() for each in stage.proxy.seen(VIEWS)]
    assert [True] * 5 == [b"\r\nauthorization: bearer " in head for head in asked]
