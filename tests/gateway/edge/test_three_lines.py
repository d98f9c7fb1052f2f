"""Boards of three lines: they load, take what they say over HTTP, and refuse no honest run by what they leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from policies.choices import Writes
from policies.defaults import SUM_LIMIT
from policies.errors import PolicyError
from policies.loader import load_board
from policies.vocabulary import SCORE_LIMIT
from tests.support.attack import registered
from tests.support.game import MODULE
from tests.support.harness import Answer, Harness, Request
from tests.support.submissions import a_submission
from validators.judge import judge
from validators.submission import History

OPEN = "board: coins\ntitle: Coins\nscore: {maximum: 100000}\n"
TRUSTED = "board: league\ntitle: League\nwrites: trusted\n"
LONG_S = 100_000
"""Far more play than the time since the ticket, if ticks were sixtieths of a second."""


@pytest.fixture
def settings(tmp_path: Path, settings: Settings) -> Settings:
    folder = tmp_path / "three-lines"
    folder.mkdir()
    (folder / "coins.yaml").write_text(OPEN)
    (folder / "league.yaml").write_text(TRUSTED)
    return settings.model_copy(update={"policies_dir": folder})


async def approve(harness: Harness, submission: str) -> Answer:
    """A moderator looks at the case, and says yes to what was seen."""
    case, token = f"/v1/moderation/cases/{submission}", harness.moderator()
    seen = (await harness.get(case, token)).headers.get("ETag", "*")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "If-Match": seen}
    return await harness.send(Request("POST", f"{case}/approve", b'{"code": "plausible"}', headers))


async def test_N02_a_board_of_board_title_and_score_takes_runs(harness: Harness):
    """A run is opened, any pace and any number of ticks is taken and held, and a moderator's yes is an entry."""
    run = await harness.open_run(board="coins")
    sent = await harness.submit(run, {"score": 100_000, "ticks": LONG_S * 60}, board="coins")
    other = await harness.open_run(board="coins")
    beyond = await harness.submit(other, {"score": 100_001, "ticks": 1}, board="coins")

    assert (202, "held") == (sent.status, sent.body["state"])
    assert "bounds-violation" == beyond.problem

    approved = await approve(harness, run.id)
    page = await harness.get("/v1/boards/coins/entries")

    assert 200 == approved.status, approved.raw
    assert [(run.player, 100_000)] == [(each["player"], each["score"]) for each in page.body["entries"]]


async def test_N02_a_board_of_board_title_and_trusted_takes_servers(harness: Harness):
    """A registered server's score of any size counts at once, below zero too; a player opens no run."""
    private = await registered(harness, "eu-1", "league")
    entry = {"player": "ada", "score": -SCORE_LIMIT, "operation": "one"}
    written = await harness.send(harness.server_signed(private, "eu-1", entry, board="league"))
    refused = await harness.post("/v1/boards/league/runs", {"build": "b"}, await harness.new_player())
    page = await harness.get("/v1/boards/league/entries")

    assert (202, "scope-forbidden") == (written.status, refused.problem), written.raw
    assert [("ada", -SCORE_LIMIT)] == [(each["player"], each["score"]) for each in page.body["entries"]]


def test_N02_what_is_left_out_follows_from_the_rest(tmp_path: Path):
    """With a replay players' runs are verified, without one they are open; sums have narrower bounds."""
    file = tmp_path / "a.yaml"
    file.write_text(f"{OPEN}builds: {{b: {{simulator: {MODULE}}}}}\nreplay: {{maximum_ticks: 600}}\n")
    verified = load_board(file)
    file.write_text(f"{TRUSTED}operator: sum\n")
    summing = load_board(file)

    assert Writes.VERIFIED is verified.policy.writes
    assert (-SUM_LIMIT, SUM_LIMIT) == (summing.policy.score.minimum, summing.policy.score.maximum)


def test_N02_a_default_means_what_it_says_when_written_out(tmp_path: Path):
    """The digest is the same, so that stating a default later changes nothing."""
    short, whole = tmp_path / "a.yaml", tmp_path / "b.yaml"
    short.write_text(OPEN)
    whole.write_text(
        f"{OPEN}writes: open\nvelocity: {{slack_s: 2.0}}\nanomaly: {{threshold: 4.0}}\nwindows: [alltime]\n"
    )

    assert load_board(short).digest == load_board(whole).digest


def test_N02_players_scores_need_bounds_that_only_the_studio_knows(tmp_path: Path):
    """A board of two lines, which players would write to, is refused by the name of what is missing."""
    file = tmp_path / "a.yaml"
    file.write_text("board: coins\ntitle: Coins\n")

    with pytest.raises(PolicyError, match="score: this setting is missing"):
        load_board(file)


@pytest.mark.parametrize("score", [0, 1, 50_000, 100_000])
@pytest.mark.parametrize("ticks", [1, 60 * LONG_S])
def test_N02_no_default_rejects_an_honest_run(tmp_path: Path, score: int, ticks: int):
    """Whatever a newcomer and the time since the ticket are, the findings of a three-line board never reject."""
    file = tmp_path / "a.yaml"
    file.write_text(OPEN)
    board = load_board(file)
    submission = a_submission(score=score, ticks=ticks, elapsed_s=0.001, stats={})
    judgement = judge(submission, board.policy, History(), digest=board.digest)

    assert ("held", ()) == (judgement.state, judgement.findings)
