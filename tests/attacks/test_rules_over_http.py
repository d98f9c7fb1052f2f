"""Claims that do not add up, time that does not fit, and seeds that are shopped for: what a client is told, and what is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.edge.submissions import submit
from gateway.ledger import queries
from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support.attack import accept, honest, refuse
from tests.support.game import play_run
from tests.support.harness import Harness, Run, free_port, running_harness
from tests.support.metrics import metric
from tests.support.plugins import install, installed
from tests.support.policies import EXACT_LIMIT, a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

BOUNDS = (422, "bounds-violation")
RULES = [
    {"name": "adds-up", "rule": "score == stats.coins * 10 + stats.kills * 100"},
    {"name": "a-kill-a-second", "rule": "stats.kills * 60 <= ticks"},
    {"name": "not-too-many", "rule": "stats.coins <= 40", "mode": "flag"},
    {"name": "few", "rule": "stats.coins <= 30", "mode": "shadow"},
]
STATS = {"coins": {"maximum": 50}, "kills": {"maximum": 99}}
LAP = {
    "order": "ascending",
    "score": {"minimum": 1_000, "maximum": 600_000},
    "stats": {"one": {"minimum": 500}, "two": {"minimum": 500}},
    "rules": [{"name": "sectors", "rule": "score == stats.one + stats.two"}],
}
HUGE = {"rules": [{"name": "product", "rule": "stats.a * stats.b <= score"}]}
ANY = {"minimum": -EXACT_LIMIT, "maximum": EXACT_LIMIT}
QUIET = {"slow_motion": "off", "anomaly": "off"}
FAIR = {"score": 230, "ticks": 600, "stats": {"coins": 3, "kills": 2}}


def boards() -> list[dict[str, Any]]:
    limits = a_policy()["limits"] | {"open_runs": 50}
    return [
        arcade_policy(slow_motion={"ratio": 3, "least_s": 1}, validators={"slow_motion": "flag"}),
        arcade_policy(board="patient", slow_motion={"ratio": 3, "least_s": 1}),
        a_policy("sums", stats=STATS, rules=RULES, validators=QUIET),
        a_policy("tried", stats=STATS, rules=RULES, validators=QUIET | {"rules": "flag", "stats": "flag"}),
        a_policy("lap", **LAP, validators=QUIET),
        a_policy("huge", **HUGE, stats={"a": ANY, "b": ANY}, score=ANY, validators=QUIET),
        a_policy(
            "shop",
            abandonment={"least_runs": 10, "least_share": 0.5},
            limits=limits,
            validators=QUIET | {"abandonment": "flag"},
        ),
    ]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", *boards())
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def a_run(harness: Harness, board: str, *, played_s: float = 10, token: str | None = None) -> Run:
    """An open run of which this much time has passed."""
    run = await harness.open_run(token, board)
    harness.clock.shift(played_s)
    return run


async def evidence(harness: Harness, run: Run) -> list[tuple[str, str, str]]:
    """What moderators see of a submission: reason, code and severity of each finding."""
    case = await harness.get(f"/v1/moderation/cases/{run.id}", harness.moderator())
    return [(f["reason"], f["code"], f["severity"]) for f in case.body["submission"]["findings"]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"score": 231}, ("rules", "rule-broken", "adds-up")),
        ({"ticks": 119}, ("rules", "rule-broken", "a-kill-a-second")),
        ({"stats": {"coins": 51, "kills": 0}, "score": 510}, ("stats", "stats-bounds", "coins")),
        ({"stats": {"coins": 23}}, ("stats", "stats-names", "kills")),
        ({"stats": {"coins": 3, "kills": 2, "cheats": 1}}, ("stats", "stats-names", "cheats")),
    ],
)
async def test_V01_an_impossible_combination_is_refused_without_the_rule(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: tuple[str, str, str]
):
    """The client hears neither the rule nor the limit, our log does, and nothing is stored; the honest claim passes."""
    run = await a_run(harness, "sums")
    with capture_logs() as lines:
        monkeypatch.setattr(submit, "_log", submit.logger())
        answer = await refuse(harness, honest(harness, run, FAIR | change), BOUNDS)
    assert {"type", "title", "status", "detail"} == set(answer.body)
    [line] = [each for each in lines if each["event"] == "claim_refused"]
    assert told == (line["validator"], line["reason"], line["code"])
    assert run.id == line["submission"]
    await accept(harness, honest(harness, run, FAIR))
    assert [] == await evidence(harness, run)


async def test_V01_what_is_tried_in_another_mode_is_evidence_and_no_refusal(harness: Harness):
    """With `flag` and `shadow` the answer is 202, and moderators see what was broken, by the rule's own mode first."""
    run = await a_run(harness, "tried")
    await accept(
        harness, honest(harness, run, {"score": 1, "ticks": 600, "stats": {"coins": 45, "kills": 2}})
    )
    assert [
        ("rule-broken", "adds-up", "flag"),
        ("rule-broken", "not-too-many", "flag"),
        ("rule-broken", "few", "note"),
    ] == await evidence(harness, run)
    status = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    assert ("held", "implausible") == (status["state"], status["reason"])
    assert "adds-up" not in str(status)


async def test_V10_numbers_at_their_limits_are_exact_or_have_no_answer(harness: Harness):
    """The largest numbers are taken as they are; a product that no number holds is a flag, and no failure of ours."""
    run = await a_run(harness, "huge")
    claim = {"score": EXACT_LIMIT, "ticks": 60, "stats": {"a": EXACT_LIMIT, "b": 1}}
    beyond = claim | {"stats": {"a": EXACT_LIMIT + 1, "b": 1}}
    await refuse(harness, honest(harness, run, beyond), (422, "schema-violation"))
    await refuse(harness, honest(harness, run, claim | {"score": EXACT_LIMIT - 1}), BOUNDS)
    await accept(harness, honest(harness, run, claim))
    assert [] == await evidence(harness, run)
    other = await a_run(harness, "huge")
    await accept(harness, honest(harness, other, claim | {"stats": {"a": EXACT_LIMIT, "b": -EXACT_LIMIT}}))
    assert [("rule-failed", "product", "flag")] == await evidence(harness, other)
    assert "held" == await harness.state_of(other.id)


@pytest.mark.parametrize(
    "claim",
    [
        {"score": 1_000, "stats": {"one": 500, "two": 501}},
        {"score": 1_000, "stats": {"one": 1_001, "two": -1}},
        {"score": 0, "stats": {"one": 0, "two": 0}},
    ],
)
async def test_V11_a_lap_is_no_faster_than_its_sectors(harness: Harness, claim: dict[str, Any]):
    """Where low is best, rules and ranges hold as elsewhere."""
    run = await a_run(harness, "lap")
    await refuse(harness, honest(harness, run, claim | {"ticks": 60}), BOUNDS)
    await accept(
        harness, honest(harness, run, {"score": 1_000, "ticks": 60, "stats": {"one": 500, "two": 500}})
    )


@pytest.mark.parametrize(
    ("board", "state", "severity"), [("arcade", "held", "flag"), ("patient", "promoted", "note")]
)
async def test_P15_slow_motion_is_for_a_moderator_and_rejects_nobody(
    harness: Harness, sandbox: Sandbox, board: str, state: str, severity: str
):
    """A verified run that took four times its play is held where the policy flags it, and only noted by default."""
    run = await harness.open_run(board=board)
    claim = play_run(run.info["seed"], max_ticks=600)
    harness.clock.shift(claim["ticks"] / 60 * 4)
    await accept(harness, harness.signed(run, claim, board=board))
    await harness.verify(run.id, sandbox=sandbox)
    assert state == await harness.state_of(run.id)
    assert [("slow-motion", "", severity)] == await evidence(harness, run)


async def test_P21_who_opens_many_runs_and_submits_few_is_found(harness: Harness):
    """Ten runs are looked at and left; the next that is submitted says so. The counts are facts of the ledger."""
    shopper = await harness.new_player()
    for _ in range(10):
        await harness.open_run(shopper, "shop")
    lucky = await a_run(harness, "shop", token=shopper)
    await accept(harness, honest(harness, lucky, {"score": 5, "ticks": 60}))
    assert [("runs-abandoned", "", "flag")] == await evidence(harness, lucky)
    stored = await harness.edge.ledger.read(queries.submission(lucky.id))
    assert stored is not None
    assert (10, 0) == (stored.runs_opened, stored.runs_submitted)


async def test_P21_who_submits_what_they_open_is_not(harness: Harness):
    """The control: each run is counted as submitted once its submission is committed."""
    token = await harness.new_player()
    for _ in range(11):
        run = await a_run(harness, "shop", token=token)
        await accept(harness, honest(harness, run, {"score": 5, "ticks": 60}))
        await harness.edge.index.drained()
    stored = await harness.edge.ledger.read(queries.submission(run.id))
    assert stored is not None
    assert (10, 10) == (stored.runs_opened, stored.runs_submitted)
    assert [] == await evidence(harness, run)


@pytest.fixture
async def studio(settings: Settings, tmp_path: Path) -> AsyncIterator[Harness]:
    """An edge with two validators of a studio's own, one of which crashes on a score of 666."""
    source = """
from policies.vocabulary import Expected, Finding, Reason
def check(submission, policy, history, settings):
    if submission.claim.score == settings["crash"]:
        raise RuntimeError("a bug")
    yield Finding(Reason.PLUGIN, submission.claim.score, Expected(at_most=5), code="too-lucky")
"""
    plugins = {
        "acme-luck": {"mode": "flag", "settings": {"crash": 666}},
        "acme-strict": {"mode": "shadow", "on_failure": "flag", "settings": {"crash": 666}},
    }
    with installed(tmp_path / "packages") as packages:
        install(packages, "acme-luck", source)
        install(packages, "acme-strict", source)
        folder = write_policies(tmp_path / "studio", a_policy("studio", plugins=plugins, validators=QUIET))
        async with running_harness(settings.model_copy(update={"policies_dir": folder})) as running:
            yield running


def failures(validator: str) -> float:
    return metric("scoregate_plugin_failures_total", board="studio", validator=f"plugin:{validator}")


async def test_V01_a_studios_own_validator_finds_what_only_it_knows(studio: Harness):
    """Moderators see its finding with its code; the player hears no more than of any other."""
    run = await a_run(studio, "studio")
    await accept(studio, honest(studio, run, {"score": 7, "ticks": 60}))
    assert [("plugin", "too-lucky", "flag"), ("plugin", "too-lucky", "note")] == await evidence(studio, run)
    assert "review" == (await studio.get(f"/v1/submissions/{run.id}", run.token)).body["reason"]


async def test_V01_a_claim_that_crashes_a_validator_is_accepted_and_seen(studio: Harness):
    """The submission is durable, the failures are in the record and counted, and `on_failure` decides on a look."""
    before = [failures("acme-luck"), failures("acme-strict")]
    run = await a_run(studio, "studio")
    await accept(studio, honest(studio, run, {"score": 666, "ticks": 60}))
    assert [
        ("plugin-failed", "RuntimeError", "note"),
        ("plugin-failed", "RuntimeError", "flag"),
    ] == await evidence(studio, run)
    assert [count + 1 for count in before] == [failures("acme-luck"), failures("acme-strict")]
