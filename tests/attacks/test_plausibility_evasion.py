"""Scores that should not get in: out of bounds, made up, from a borrowed ticket, or learnt into acceptance."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.index import keys
from gateway.ledger import queries
from gateway.runtime.settings import Settings
from policies.judging import Transform
from replay.simulators.sandbox import Sandbox
from tests.support.attack import INVALID, a_run, accept, as_server, honest, issued, refuse, registered
from tests.support.game import BUILD
from tests.support.harness import Harness, Run, running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies
from validators.scale import robust_middle

BOUNDS = (422, "bounds-violation")
FORBIDDEN = (403, "scope-forbidden")
ENTRIES = "/v1/boards/{}/entries"


async def standing(harness: Harness, board: str = "arcade") -> list[int]:
    return [entry["score"] for entry in (await harness.get(ENTRIES.format(board))).body["entries"]]


async def told(harness: Harness, run: Run) -> tuple[str, str | None]:
    """State and reason as the player is told them."""
    answer = await harness.get(f"/v1/submissions/{run.id}", run.token)
    return answer.body["state"], answer.body["reason"]


@pytest.mark.parametrize(
    "change",
    [
        {"score": 115_410},
        {"score": -10},
        {"score": 15},
        {"ticks": 0},
        {"ticks": 7201},
        {"stats": {}},
        {"stats": {"motes": 1, "near_misses": 1}},
        {"stats": {"motes": 1, "near_misses": 1, "best_combo": 1, "lives": 9}},
        {"stats": {"motes": 1, "near_misses": 1, "other": 1}},
    ],
)
async def test_V01_what_the_game_cannot_give_is_refused_without_the_limit(
    harness: Harness, change: dict[str, Any]
):
    """A score off the grid or out of range, or impossible stats, is 422 and says nothing of where the limit is."""
    run, claim = await harness.played()
    answer = await refuse(harness, harness.signed(run, claim | change), BOUNDS)
    assert {"type", "title", "status", "detail"} == set(answer.body)
    assert not any(limit in answer.raw for limit in (b"115400", b"7200"))
    await accept(harness, harness.signed(run, claim))


async def test_V01_a_pace_no_game_has_is_rejected_without_a_word(harness: Harness):
    """Points that come faster than they can are accepted like any claim, and never stand."""
    run, claim = await harness.played()
    await accept(harness, harness.signed(run, claim | {"score": 115_400}))
    assert ("rejected", "implausible") == await told(harness, run)
    assert [] == await standing(harness)


async def test_V03_a_score_just_below_the_bound_needs_its_replay(harness: Harness, sandbox: Sandbox):
    """A claim that passes every check before the replay is still only what the replay makes of it."""
    run, claim = await harness.played()
    seconds = 7200 / 60
    harness.clock.shift(seconds)
    forged = claim | {"score": 115_400, "ticks": 7200}
    assert b'"state":"pending"' in (await accept(harness, harness.signed(run, forged))).raw
    await harness.verify(run.id, sandbox=sandbox)
    assert ("rejected", "replay") == await told(harness, run)
    assert [] == await standing(harness)


async def baselines(harness: Harness, board: str, player: str) -> dict[str, tuple[int, float]]:
    """Count and mean of what is learnt of a player and of all, in the ledger; the index must hold the same."""
    stored = await harness.edge.ledger.read(queries.baselines_of(board, player, BUILD))
    in_index = await harness.edge.index.client.hgetall(keys.baselines(board))
    assert {each.player or "*": each.count for each in stored} == {
        k: int(v.split()[1]) for k, v in in_index.items()
    }
    return {each.player or "*": (each.count, each.mean) for each in stored}


async def promoted(harness: Harness, token: str, score: int, board: str = "sprint") -> Run:
    """A run with this score that a moderator approved."""
    run = await harness.open_run(token, board)
    await accept(harness, honest(harness, run, {"score": score, "ticks": 60}))
    decided = await harness.post(
        f"/v1/moderation/cases/{run.id}/approve", {"code": "other", "note": "seen"}, harness.moderator()
    )
    assert 200 == decided.status, decided.raw
    return run


async def findings(harness: Harness, run: Run) -> list[tuple[str, int]]:
    case = await harness.get(f"/v1/moderation/cases/{run.id}", harness.moderator())
    return [(each["reason"], each["sample_size"]) for each in case.body["submission"]["findings"]]


async def held(harness: Harness, token: str, score: int) -> Run:
    run = await harness.open_run(token, "sprint")
    await accept(harness, honest(harness, run, {"score": score, "ticks": 60}))
    return run


async def test_V04_a_slow_climb_by_unverified_runs_teaches_nothing(harness: Harness):
    """Each run a little higher than the last moves no baseline while none is promoted; the last is flagged as ever."""
    token = await harness.new_player()
    for score in (95, 100, 105, 95, 100, 105, 100, 100):
        await promoted(harness, token, score)
    player = (await held(harness, token, 100)).player
    learnt = await baselines(harness, "sprint", player)
    for step in range(1, 12):
        await held(harness, token, 100 + step * 29)
    assert learnt == await baselines(harness, "sprint", player)
    assert ("anomaly-player", 8) in await findings(harness, await held(harness, token, 500))


async def test_V04_a_slow_climb_by_promoted_runs_is_a_drift(harness: Harness):
    """Each run 2.9 deviations above the own baseline, and let in each time: no anomaly, and within eight runs a drift."""
    token = await harness.new_player()
    scores = [70, 130, 100, 85, 115, 95, 105, 100]
    for score in scores:
        await promoted(harness, token, score)
    for _ in range(8):
        middle = robust_middle(tuple(scores), Transform.NONE)
        scores.append(int(middle.centre + 2.9 * max(middle.spread, 10)))
        reasons = {
            reason for reason, _ in await findings(harness, await promoted(harness, token, scores[-1]))
        }
        assert "anomaly-player" not in reasons
        if "drift" in reasons:
            break
    assert "drift" in reasons
    assert [] == await findings(harness, await held(harness, token, 100))


async def test_V05_pending_held_and_rejected_runs_are_not_learnt_from(harness: Harness, sandbox: Sandbox):
    """Only what was promoted is in a baseline, in the ledger and in the index alike."""
    run, claim = await harness.played()
    await accept(harness, harness.signed(run, claim))
    await harness.verify(run.id, sandbox=sandbox)
    learnt = await baselines(harness, "arcade", run.player)
    assert dict.fromkeys((run.player, f"@{BUILD}", "*"), (1, claim["score"])) == learnt
    forged, other = await harness.played(run.token)
    await accept(harness, harness.signed(forged, other | {"score": other["score"] + 10}))
    assert learnt == await baselines(harness, "arcade", run.player)
    await harness.verify(forged.id, sandbox=sandbox)
    assert ("rejected", "replay") == await told(harness, forged)
    assert learnt == await baselines(harness, "arcade", run.player)


async def test_V06_a_newcomers_record_waits_for_a_moderator(settings: Settings, sandbox: Sandbox):
    """A new account's verified run far above what is believed of players is held, with the finding; a fair one is not."""
    believed = {"threshold": 4.0, "spread_floor": 1, "prior": {"mean": 0, "spread": 1}}
    folder = write_policies(settings.data_dir / "believed", arcade_policy(anomaly=believed))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        run, claim = await harness.played()
        assert claim["score"] > 10
        await accept(harness, harness.signed(run, claim))
        await harness.verify(run.id, sandbox=sandbox)
        assert ("held", "review") == await told(harness, run)
        assert [("anomaly-population", 0)] == await findings(harness, run)
        assert [] == await standing(harness)


async def test_V06_a_newcomers_record_of_a_known_board_waits_too(settings: Settings):
    """Where players are known, who begins with more than anybody reached is found, however near it is; others are not."""
    rule = {
        "minimum_history": 3,
        "minimum_population": 4,
        "spread_floor": 50,
        "prior": {"mean": 0, "spread": 1},
    }
    folder = write_policies(settings.data_dir / "known", a_policy(anomaly=rule))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        regular, newcomer = await harness.new_player(), await harness.new_player("Bea")
        for score in (100, 110, 104, 108):
            await promoted(harness, regular, score)
        assert [] == await findings(harness, await held(harness, newcomer, 110))
        run = await held(harness, newcomer, 111)
        assert [("anomaly-record", 4)] == await findings(harness, run)
        assert ("held", "review") == await told(harness, run)
        assert [] == await findings(harness, await held(harness, regular, 111))


async def test_V07_a_candidate_is_not_part_of_its_own_sample(harness: Harness):
    """With eight runs known an outlier is flagged, which inside its own sample it could never be."""
    token = await harness.new_player()
    for score in (95, 100, 105, 95, 100, 105, 100, 100):
        await promoted(harness, token, score)
    assert ("anomaly-player", 8) in await findings(harness, await held(harness, token, 5000))
    assert [] == await findings(harness, await held(harness, token, 104))


async def test_V10_a_sum_stays_exact_and_a_summand_within_its_bound(harness: Harness):
    """Summing boards bound each score so that sums stay exact; what is above is refused."""
    private = await registered(harness)
    for number in range(4):
        entry = {"operation": f"op-{number}", "player": "ada", "score": 2**40 - number}
        assert 202 == (await as_server(harness, private, entry, board="total")).status
    assert [4 * 2**40 - 6] == await standing(harness, "total")
    answer = await as_server(
        harness, private, {"operation": "x", "player": "ada", "score": 2**40 + 1}, board="total"
    )
    assert BOUNDS == (answer.status, answer.problem)


@pytest.mark.parametrize("score", [0, -1, 1, 9_999, 600_001])
async def test_V11_impossible_times_are_refused_where_low_is_best(harness: Harness, score: int):
    """On an ascending board nothing below the lower bound gets in."""
    run = await a_run(harness, "lap")
    await refuse(harness, honest(harness, run, {"score": score, "ticks": 60}), BOUNDS)
    await accept(harness, honest(harness, run, {"score": 10_000, "ticks": 60}))


async def test_V14_a_ticket_is_its_players_alone(harness: Harness):
    """A submission that comes with another player's token is refused."""
    run = await a_run(harness)
    stranger = await harness.new_player("Eve")
    request = honest(harness, run)
    request.headers["Authorization"] = f"Bearer {stranger}"
    await refuse(harness, request, FORBIDDEN)
    request.headers["Authorization"] = f"Bearer {run.token}"
    await accept(harness, request)


async def test_P03_a_ticket_is_for_one_board_one_time_and_one_seed(harness: Harness, sandbox: Sandbox):
    """A ticket of another board, or an expired one, is refused; a run played on another seed is not its run."""
    elsewhere = issued(harness, board="other")
    await refuse(harness, harness.signed(elsewhere, {"score": 1, "ticks": 60}, board="sprint"), FORBIDDEN)
    late = issued(harness, age_s=601)
    await refuse(harness, honest(harness, late), (403, "run-expired"))
    wished, _ = await harness.played()
    _, claim = await harness.played()
    await accept(harness, harness.signed(wished, claim))
    await harness.verify(wished.id, sandbox=sandbox)
    assert ("rejected", "replay") == await told(harness, wished)


async def test_P03_a_changed_ticket_is_no_ticket(harness: Harness):
    """Every character of a ticket is authenticated: no other seed, player or expiry can be written into it."""
    run = await a_run(harness)
    ticket = run.info["ticket"]
    for at in range(0, len(ticket), 7):
        changed = ticket[:at] + ("A" if ticket[at] != "A" else "B") + ticket[at + 1 :]
        await refuse(harness, honest(harness, run, keyid=changed), INVALID)
    await accept(harness, honest(harness, run))


async def test_P14_more_play_than_time_has_passed_is_rejected(harness: Harness):
    """Ticks that cannot have been played since the ticket was issued are accepted, and rejected without a replay."""
    run, claim = await harness.played(max_ticks=1200)
    harness.clock.shift(-claim["ticks"] / 60)
    await accept(harness, harness.signed(run, claim))
    assert ("rejected", "implausible") == await told(harness, run)
    control, fair = await harness.played()
    assert b'"state":"pending"' in (await accept(harness, harness.signed(control, fair))).raw


async def test_P21_runs_cannot_be_hoarded_for_a_lucky_seed(harness: Harness):
    """A player has at most five open runs, and opens runs no faster than the limit."""
    token = await harness.new_player()
    runs = [await harness.open_run(token) for _ in range(5)]
    refused = await harness.post("/v1/boards/arcade/runs", {"build": "arcade-1"}, token)
    assert (429, "quota-exceeded") == (refused.status, refused.problem)
    assert "Retry-After" in refused.headers
    assert len({run.info["seed"] for run in runs}) == 5
    other = await harness.new_player("Bea")
    assert "arcade" == (await harness.open_run(other)).info["board"]
