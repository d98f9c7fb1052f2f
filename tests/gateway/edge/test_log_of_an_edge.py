"""What an edge writes into its log: by the names, levels and ids of the reference, when it happens and no more often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.edge import app, listening
from gateway.edge.auth import ended_tokens
from gateway.edge.auth.ended_tokens import EndedTokens
from gateway.edge.health import lag
from gateway.edge.health.lag import Lag
from gateway.edge.http import request as reading
from gateway.edge.http import responses
from gateway.edge.moderation import decisions
from gateway.edge.reads import board_reader
from gateway.edge.submissions import submit
from gateway.index.board_index import BoardIndex
from gateway.index.limits.charging import LocalLimiter
from gateway.runtime import refreshing
from gateway.runtime.settings import Settings
from gateway.runtime.unexpected import FaultPlace
from gateway.settlement import banned_players, builds
from gateway.settlement.banned_players import BannedPlayers
from gateway.settlement.builds import BuildRegistry
from policies.errors import IndexUnavailable, LedgerOverloaded, LedgerUnavailable, ScoregateError
from policies.loader import Policies
from tests.support.attack import accept, honest, issued, until
from tests.support.harness import Harness, running_harness
from tests.support.logs import lines_of, logged
from tests.support.metrics import counts
from tests.support.policies import GENEROUS, a_policy, write_policies
from tests.support.valkey import running_valkey

IMPOSSIBLE = {"score": -1, "ticks": 60}


async def test_an_edge_says_when_it_is_ready_and_when_it_has_ended(settings: Settings):
    """With the address that it has, which `SCOREGATE_BIND` may have left to the system."""
    with logged(listening) as lines:
        async with running_harness(settings.model_copy(update={"bind": "127.0.0.1:0"})) as harness:
            port = int(harness.authority.rpartition(":")[2])
            started = {"part": "edge", "host": "127.0.0.1", "port": port, "log_level": "info"}
            assert [started] == lines_of(lines, "started")
            assert [] == lines_of(lines, "stopped")
    assert [{"part": "edge", "log_level": "info"}] == lines_of(lines, "stopped")


async def test_submissions_and_decisions_are_logged_by_their_ids(harness: Harness):
    """A submission each time it comes, a resend as one; a decision with who made it, and not when it is sent again."""
    run, moderator = issued(harness, "ada"), harness.moderator(name="mara")
    request = honest(harness, run)
    with logged(responses, decisions) as lines:
        await accept(harness, request)
        await harness.send(request)
        path = f"/v1/moderation/cases/{run.id}/approve"
        seen = await harness.as_seen(path, moderator)
        for _ in range(2):
            async with harness.session.post(
                harness.url + path,
                json={"code": "other", "note": "seen"},
                headers=seen | {"Authorization": f"Bearer {moderator}"},
            ) as decided:
                assert 200 == decided.status
    whose = {"board": "sprint", "submission": run.id, "log_level": "debug"}
    assert [whose | {"outcome": outcome} for outcome in ("held", "replayed")] == lines_of(lines, "submission")
    decision = {"submission": run.id, "state": "promoted", "moderator": "mara", "log_level": "info"}
    assert [decision] == lines_of(lines, "decision")


async def test_a_player_who_asks_for_moderation_fills_no_log(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Each attempt is a warning with who and how, but so many a minute and no more, whoever makes them."""
    now_ns = [10**15]
    monkeypatch.setattr(reading, "_attempts", LocalLimiter(now_ns=lambda: now_ns[0]))
    token = await harness.new_player()
    with logged(reading) as lines:
        refused = [await harness.get("/v1/moderation/queue", token) for _ in range(62)]
        assert {403} == {each.status for each in refused}
        assert 60 == len(lines_of(lines, "refused"))
        now_ns[0] += 60 * 10**9
        await harness.get("/v1/moderation/queue", token)
    told = lines_of(lines, "refused")
    assert 61 == len(told)
    assert ("player", "GET", "warning") == tuple(told[0][name] for name in ("role", "method", "log_level"))


async def test_who_is_limited_for_refused_claims_is_logged_once(settings: Settings):
    """When it begins: while it lasts they are told when to come again, and are not written down each time."""
    policy = a_policy("sprint", limits=GENEROUS | {"refused": {"player": 2, "address": 100}})
    folder = write_policies(settings.data_dir / "own", policy)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        with logged(submit) as lines:
            sent = [
                await harness.send(honest(harness, issued(harness, "prober"), IMPOSSIBLE)) for _ in range(4)
            ]
    assert ["bounds-violation"] * 2 + ["abnormal-usage-detected"] * 2 == [each.problem for each in sent]
    assert 1 <= int(sent[-1].headers["Retry-After"])
    limited = {"board": "sprint", "player": "prober", "log_level": "warning"}
    assert [limited] == lines_of(lines, "abnormal_usage")


async def test_a_redis_that_does_not_answer_is_logged_wherever_it_is_missed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """By each read that the ledger answers, which asks once, and by those that nothing else can, who are to come again."""
    asked: list[str] = []

    async def note(index: BoardIndex, *_: Any) -> Any:
        asked.append(index.board)
        raise IndexUnavailable

    with running_valkey() as own:
        async with running_harness(settings.model_copy(update={"redis_url": own.url})) as harness:
            token = await harness.new_player()
            own.kill()
            for way in ("page", "around"):
                monkeypatch.setattr(BoardIndex, way, note)
            with logged(board_reader) as of_reads:
                assert 200 == (await harness.get("/v1/boards/sprint/entries?limit=3")).status
                assert 404 == (await harness.get("/v1/boards/sprint/entries/ada")).status
                statistics = await harness.get("/v1/boards/sprint/statistics")
            with logged(app) as of_refusals:
                refused = await harness.get("/v1/boards/sprint/entries?friends=true", token)
            listed = await harness.get("/v1/boards/sprint/entries?players=ada,bob")
    assert [] == asked
    assert (200, 0, None) == (
        statistics.status,
        *(statistics.body[name] for name in ("attempts", "players_ever")),
    )
    assert (503, "dependency-unavailable", "1") == (
        refused.status,
        refused.problem,
        refused.headers["Retry-After"],
    )
    assert "the index does not answer, and this cannot be read from the ledger" == refused.body["detail"]
    assert refused.body == listed.body
    for lines, count in ((of_reads, 3), (of_refusals, 1)):
        told = lines_of(lines, "index_unavailable")
        assert count == len(told)
        assert {"warning"} == {each["log_level"] for each in told}
        assert all(each["error"] for each in told)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LedgerUnavailable("the disk is gone"), [{"error": "the disk is gone", "log_level": "error"}]),
        (LedgerOverloaded("too much"), []),
    ],
)
async def test_a_ledger_that_refuses_is_an_error_and_one_that_is_busy_is_none(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, error: ScoregateError, told: list[dict[str, Any]]
):
    """The reader is told to come again either way; the log has what the operator has to mend."""
    token = await harness.new_player()

    async def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(harness.edge.ledger, "read", refuse)
    with logged(app) as lines:
        refused = await harness.get("/v1/friends", token)
    assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
    assert 1 <= int(refused.headers["Retry-After"]) <= (5 if told == [] else 1)
    assert told == lines_of(lines, "ledger_unavailable")


class Failing:
    """A ledger that raises one error after the other, and then has nothing to tell."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.reads = 0

    async def read(self, *_: Any) -> Any:
        self.reads += 1
        if self._errors:
            raise self._errors.pop(0)
        return {}


LOOPS = {
    "lag": (
        lag,
        "LOOK_S",
        FaultPlace.LAG,
        lambda ledger: Lag(ledger, None, Catalogue(Policies()), clock=lambda: 0),
    ),  # type: ignore[arg-type]
    "builds": (builds, "REFRESH_S", FaultPlace.BUILDS, BuildRegistry),
    "bans": (banned_players, "REFRESH_S", FaultPlace.BANS, BannedPlayers),
    "tokens": (ended_tokens, "REFRESH_S", FaultPlace.TOKENS, EndedTokens),
}


@pytest.mark.parametrize("part", LOOPS)
async def test_what_an_edge_looks_at_for_ever_outlives_a_ledger_that_is_away(
    monkeypatch: pytest.MonkeyPatch, part: str
):
    """It says which part missed it, reports what nobody foresaw, and looks again."""
    module, pause, place, make = LOOPS[part]
    monkeypatch.setattr(module, pause, 0.0)
    ledger: Any = Failing(LedgerUnavailable("away"), ZeroDivisionError("one of ours"))
    watched: Any = make(ledger)

    async def has_gone_on() -> bool:
        return bool(ledger.reads > 2)

    with logged(refreshing) as lines, counts(1, "scoregate_unexpected_total", place=place.value):
        watching = asyncio.create_task(watched.keep_fresh())
        await until(has_gone_on)
        watching.cancel()
        await asyncio.wait([watching])
    assert watching.cancelled()
    away = {"part": part, "error": "away", "log_level": "warning"}
    assert [away] == lines_of(lines, "ledger_unavailable")
