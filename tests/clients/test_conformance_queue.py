"""The offline queue of every client: nothing that a player has played is lost, and nothing counts twice."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.clients.driver import Driver
from tests.clients.faulty import Canned, Cut
from tests.clients.playing import SCORES, opened
from tests.clients.stage import BRIEF_S, Stage, claim
from tests.support.boards import BUILD
from tests.support.ports import unserved_port

DAY_S = 86_400
REVEALS = "/v1/reveals"
PORTAL = b"<!doctype html><title>Welcome to our Wi-Fi</title><a href=/login>Log in</a>"
IN_THE_WAY = {
    "a page": Canned(200, PORTAL, {"Content-Type": "text/html"}),
    "a page as JSON": Canned(200, PORTAL, {"Content-Type": "application/json"}),
    "JSON of another": Canned(200, b'{"ok":true}', {"Content-Type": "application/json"}),
    "a list": Canned(202, b'["submission"]', {"Content-Type": "application/json"}),
    "nothing": Canned(204),
    "a redirect": Canned(302, headers={"Location": "/login"}),
    "a permanent redirect": Canned(308, headers={"Location": "/login"}),
    "a page that forbids": Canned(403, PORTAL, {"Content-Type": "text/html"}),
    "a bare not found": Canned(404),
    "a problem of another": Canned(
        403, b'{"type":"about:blank","title":"no"}', {"Content-Type": "application/problem+json"}
    ),
    "a login": Canned(511, PORTAL, {"Content-Type": "text/html"}),
    "an error": Canned(500, PORTAL, {"Content-Type": "text/html"}),
    "another edge's host": Canned(
        421, b'{"type":"https://scoregate.dev/problems/x"}', {"Content-Type": "application/problem+json"}
    ),
}
"""What captive portals and gateways say in place of the edge."""


class Phone:
    """A client with a queue, whose process and network come and go."""

    def __init__(self, driver: Driver, stage: Stage, folder: Path) -> None:
        self.driver, self.stage, self.folder = driver, stage, folder
        self.token = ""

    def opened(self, board: str = "tiny") -> dict[str, Any]:
        """A run of a new player, while there is a network."""
        self.driver.ask("open", base_url=self.stage.url, queue=str(self.folder))
        self.token = self.driver.ask("create_player", name="Ada")["token"]
        run: dict[str, Any] = self.driver.ask("open_run", board=board, build=BUILD)
        return run

    def begin(self, **how: Any) -> None:
        """Open the client anew over the same folder; one attempt for each request."""
        defaults = {"base_url": self.stage.url, "queue": str(self.folder), "token": self.token, "attempts": 1}
        self.driver.ask("open", **defaults | how)

    def later(self, run: dict[str, Any], points: int = 5, **how: Any) -> None:
        """Play a run, and leave it to the queue."""
        self.driver.ask("submit_later", ticket=run["ticket"], **claim(run["seed"], points), **how)

    def flush(self) -> list[str]:
        """The outcomes, in order."""
        return [each["outcome"] for each in self.driver.ask("flush")["outcomes"]]

    def waiting(self) -> int:
        return int(self.driver.ask("waiting")["entries"])

    def files(self, pattern: str = "*.json") -> list[Path]:
        return sorted(self.folder.glob(pattern))


@pytest.fixture
def phone(driver: Driver, stage: Stage, tmp_path: Path) -> Phone:
    return Phone(driver, stage, tmp_path / "queue")


def test_a_run_played_offline_counts_once_after_the_game_was_killed(phone: Phone, stage: Stage):
    """Played without a network, killed, started again without one, killed in the middle of sending: once."""
    run = phone.opened()
    with unserved_port() as port:
        phone.begin(base_url=f"http://127.0.0.1:{port}")
        phone.later(run)
        phone.driver.kill()
        phone.begin(base_url=f"http://127.0.0.1:{port}")
        assert ["kept"] == phone.flush()
    phone.begin()
    stage.proxy.on(SCORES, Cut.NEVER)
    phone.driver.begin("flush")
    stage.proxy.await_answer(SCORES)
    phone.driver.kill()
    phone.begin()
    assert 1 == phone.waiting()
    [outcome] = phone.driver.ask("flush")["outcomes"]
    assert ("accepted", run["ticket"]) == (outcome["outcome"], outcome["ticket"])
    assert "promoted" == stage.settled(outcome["receipt"]["submission"])
    assert [("tiny", "promoted")] == stage.runs_of(run["player"])
    assert ([], 0, []) == (phone.flush(), phone.waiting(), phone.files())


def test_an_entry_is_one_private_file_without_the_token(phone: Phone):
    """Its shape is that of all clients, so that a game which changes its client loses nothing."""
    run = phone.opened()
    phone.later(run, points=6)
    phone.later(run, points=6)
    [path] = phone.files()
    entry = json.loads(path.read_text())
    written_ms, digest = path.stem.split("-")
    honest = claim(run["seed"], points=6)
    assert (1, "tiny", run["ticket"], run["key"]) == tuple(
        entry[name] for name in ("version", "board", "ticket", "key")
    )
    stats = dict(honest["stats"])
    body = {name: honest[name] for name in ("score", "ticks")} | {
        "stats": stats,
        "recording": honest["recording"],
    }
    assert json.dumps(body, separators=(",", ":")) == entry["body"]
    assert (13, sha256(run["ticket"].encode()).hexdigest()[:8]) == (len(written_ms), digest)
    assert int(written_ms) // 1000 == int(entry["written_at"])
    assert phone.token not in path.read_text()
    assert os.name == "nt" or not stat.S_IMODE(path.stat().st_mode) & 0o077


def test_nothing_in_the_way_deletes_an_entry(phone: Phone, stage: Stage):
    """Portals, proxies and gateways may answer whatever they like: only the gateway's own word ends an entry."""
    run = phone.opened()
    phone.later(run)
    phone.begin()
    for name, answer in IN_THE_WAY.items():
        # A 421 is sent again at once by whoever obeys RFC 9110, §15.5.20, as every fetch does.
        stage.proxy.on(SCORES, answer, times=2 if name == "another edge's host" else 1)
        assert (["kept"], 1) == (phone.flush(), phone.waiting()), name
    targets = {each.line for each in stage.proxy.exchanges}
    assert not any("/login" in line for line in targets), "a redirect was followed"
    stage.proxy.forget()
    assert ["accepted"] == phone.flush()
    assert "promoted" == stage.settled(run["run"])


def test_a_run_that_the_gateway_refuses_leaves_the_queue(phone: Phone, stage: Stage):
    """A run that has ended, and one that was submitted with another score: refused, and not tried again."""
    brief = phone.opened("brief")
    phone.later(brief)
    run = phone.driver.ask("open_run", board="tiny", build=BUILD)
    phone.later(run, points=4)
    phone.driver.ask("submit", ticket=run["ticket"], **claim(run["seed"], 5))
    stage.harness.clock.shift(BRIEF_S + 5)
    try:
        outcomes = phone.driver.ask("flush")["outcomes"]
    finally:
        stage.harness.clock.shift(-BRIEF_S - 5)
    assert [("refused", "run-expired"), ("refused", "run-already-submitted")] == [
        (each["outcome"], each["problem"]["reason"]) for each in outcomes
    ]
    assert (0, []) == (phone.waiting(), phone.flush())


def test_entries_are_sent_in_the_order_in_which_they_were_written(phone: Phone, stage: Stage):
    """The oldest first, also after a restart; one that is kept does not hold up the others."""
    runs = [phone.opened()]
    runs += [phone.driver.ask("open_run", board="tiny", build=BUILD) for _ in range(2)]
    now_s = int(time.time())
    for number, run in enumerate(runs):
        phone.begin(now_s=now_s - 30 + number)
        phone.later(run)
    phone.driver.kill()
    phone.begin()
    stage.proxy.on(SCORES, IN_THE_WAY["a page that forbids"])
    outcomes = phone.driver.ask("flush")["outcomes"]
    assert [run["ticket"] for run in runs] == [each["ticket"] for each in outcomes]
    assert ["kept", "accepted", "accepted"] == [each["outcome"] for each in outcomes]
    assert ["accepted"] == phone.flush()


def damaged(path: Path) -> dict[str, bytes]:
    whole = path.read_bytes()
    entry = json.loads(whole)
    return {
        "0000000000001-00000000.json": b"",
        "0000000000002-00000000.json": whole[:-20],
        "0000000000003-00000000.json": b'{"version":1}',
        "0000000000004-00000000.json": json.dumps(entry | {"version": 2}).encode(),
        "0000000000005-00000000.json": json.dumps(entry | {"ticket": 7}).encode(),
        "0000000000006-00000000.json": json.dumps(entry | {"key": "?"}).encode(),
        "0000000000007-00000000.json": os.urandom(64),
    }


def test_a_damaged_entry_is_set_aside_and_blocks_nobody(phone: Phone):
    """It is reported once, and its bytes stay for whoever wants to look."""
    run = phone.opened()
    phone.later(run)
    broken = damaged(phone.files()[0])
    for name, content in broken.items():
        (phone.folder / name).write_bytes(content)
    phone.driver.kill()
    phone.begin()
    outcomes = phone.flush()
    assert ["accepted"] == [each for each in outcomes if each != "damaged"]
    assert len(broken) == outcomes.count("damaged")
    assert sorted(broken.values()) == sorted(path.read_bytes() for path in phone.files("*.damaged"))
    assert ([], 0) == (phone.flush(), phone.waiting())


def test_a_full_queue_refuses_the_newest_and_keeps_the_oldest(phone: Phone):
    """A hundred entries; the game hears of it."""
    run = phone.opened()
    phone.later(run)
    [path] = phone.files()
    entry = json.loads(path.read_text())
    for number in range(99):
        ticket = f"{run['ticket']}{number}"
        name = f"{int(path.stem[:13]) - number}-{sha256(ticket.encode()).hexdigest()[:8]}.json"
        (phone.folder / name).write_text(json.dumps(entry | {"ticket": ticket}))
    phone.driver.kill()
    phone.begin()
    other = phone.driver.ask("open_run", board="tiny", build=BUILD)
    error = phone.driver.refusal("submit_later", ticket=other["ticket"], **claim(other["seed"]))
    assert "queue-full" == error.reason
    assert (100, 100) == (phone.waiting(), len(phone.files()))
    assert path in phone.files()


def test_an_entry_of_more_than_seven_days_is_dropped_and_reported(phone: Phone, stage: Stage):
    """No run lives that long; nothing is sent."""
    run = phone.opened()
    phone.later(run)
    phone.begin(clock_offset_s=8 * DAY_S)
    assert (["expired"], 0, []) == (phone.flush(), phone.waiting(), phone.files())
    assert [] == stage.proxy.seen(SCORES)


@pytest.mark.parametrize("offset_s", [-3600, 3600])
def test_a_queue_on_a_clock_that_is_an_hour_off_is_flushed(phone: Phone, stage: Stage, offset_s: int):
    """Signed again with the gateway's time."""
    run = phone.opened()
    phone.begin(clock_offset_s=offset_s)
    phone.later(run)
    assert ["accepted"] == phone.flush()
    assert [401, 202] == [each.status for each in stage.proxy.seen(SCORES)]


def test_two_that_flush_one_folder_send_each_entry_once(
    phone: Phone, stage: Stage, another: Callable[[Driver], Driver]
):
    """Two processes of a game at the same time."""
    runs = [phone.opened()]
    runs += [phone.driver.ask("open_run", board="tiny", build=BUILD) for _ in range(2)]
    for run in runs:
        phone.later(run)
    second = another(phone.driver)
    phone.begin()
    second.ask("open", base_url=stage.url, queue=str(phone.folder), token=phone.token, attempts=1)
    phone.driver.begin("flush")
    second.begin("flush")
    told = [*phone.driver.answer()["outcomes"], *second.answer()["outcomes"]]
    accepted = [each["ticket"] for each in told if each["outcome"] == "accepted"]
    assert sorted(run["ticket"] for run in runs) == sorted(accepted)
    assert 3 == len(stage.proxy.seen(SCORES))
    assert 0 == phone.waiting()


def test_a_committed_recording_is_kept_until_it_was_revealed(phone: Phone, stage: Stage):
    """Over a restart: flush sends the digest, then the recording that is asked for, and then forgets it."""
    run = phone.opened("careful")
    phone.later(run, points=600, committed=True)
    phone.driver.kill()
    phone.begin()
    stage.proxy.on(REVEALS, Canned(503))
    told = phone.driver.ask("flush")
    assert (["accepted"], []) == ([each["outcome"] for each in told["outcomes"]], told["revealed"])
    assert b"recording_digest" in stage.proxy.seen(SCORES)[0].body
    phone.driver.ask("create_player", name="Eve")  # who is told of no submission of Ada's
    phone.driver.ask("flush")
    assert 1 == len(phone.files()), "Ada's recording is gone when she is back"
    stage.rest()
    phone.driver.kill()
    phone.begin()
    assert [run["run"]] == phone.driver.ask("flush")["revealed"]
    assert "promoted" == stage.settled(run["run"])
    phone.flush()
    assert (0, []) == (phone.waiting(), phone.files())


def test_recordings_that_are_only_kept_fill_no_queue(phone: Phone):
    """A hundred committed runs that the gateway has: the next run waits beside them, and is sent."""
    run = phone.opened("careful")
    phone.later(run, committed=True)
    assert ["accepted"] == phone.flush()
    [path] = [each for each in phone.folder.iterdir() if run["ticket"] in each.read_text()]
    entry = json.loads(path.read_text())
    for number in range(1, 101):
        ticket = f"{run['ticket']}{number}"
        mark = sha256(ticket.encode()).hexdigest()[:8]
        name = f"{int(path.name[:13]) - number}-{mark}{path.name[22:]}"
        (phone.folder / name).write_text(json.dumps(entry | {"ticket": ticket}))
    phone.driver.kill()
    phone.begin()
    other = phone.driver.ask("open_run", board="tiny", build=BUILD)
    phone.later(other)
    assert "accepted" in phone.flush()


def test_a_recording_that_is_asked_for_late_is_still_there(phone: Phone, stage: Stage):
    """A board may ask for it weeks after the run, and gives up to thirty days to send it."""
    run = phone.opened("careful")
    phone.later(run, points=600, committed=True)
    phone.driver.kill()
    phone.begin()
    stage.proxy.on(REVEALS, Canned(503))
    assert ["accepted"] == phone.flush()
    stage.rest()
    phone.driver.kill()
    phone.begin(clock_offset_s=59 * DAY_S)
    assert [run["run"]] == phone.driver.ask("flush")["revealed"]
    assert "promoted" == stage.settled(run["run"])


def test_the_first_open_and_submit_leave_no_entry(phone: Phone, stage: Stage):
    """What is submitted at once needs no queue."""
    run = opened(phone.driver, stage, queue=str(phone.folder))
    phone.driver.ask("submit", ticket=run["ticket"], **claim(run["seed"]))
    assert (0, []) == (phone.waiting(), phone.files())
