"""A studio's own validators: found as entry points, asked with everything, trusted with nothing."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from ruamel.yaml import YAML

from policies.errors import PolicyError
from policies.loader import Board, load_board
from policies.model import Policy
from policies.plugins import GROUP, Plugin
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity, State
from tests.support.plugins import install, installed
from tests.support.policies import a_policy, write_policies
from tests.support.submissions import a_policy as a_model
from tests.support.submissions import a_submission
from validators.judge import judge
from validators.submission import History

ROUND = """
from policies.vocabulary import Expected, Finding, Reason

def check(submission, policy, history, settings):
    if submission.claim.score % settings["multiple"] == 0:
        yield Finding(Reason.PLUGIN, submission.claim.score, Expected(unit="round"), code="round-score",
                      detail={"highest": policy.score.maximum, "known": history.player.count})
"""


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    with installed(tmp_path / "packages") as folder:
        yield folder


def a_board(tmp_path: Path, plugins: dict[str, Any]) -> Board:
    return load_board(write_policies(tmp_path / "policies", a_policy(plugins=plugins)) / "sprint.yaml")


def refusal(tmp_path: Path, plugins: dict[str, Any]) -> str:
    with pytest.raises(PolicyError) as caught:
        a_board(tmp_path, plugins)
    return str(caught.value)


def found(policy: Policy, **claim: Any) -> tuple[Finding, ...]:
    findings = judge(a_submission(**claim), policy, History(), digest="sha256:p").findings
    return tuple(each for each in findings if each.validator.startswith("plugin:"))


def asked(packages: Path, source: str, **plugin: Any) -> tuple[Finding, ...]:
    """What a validator of this source finds in an honest submission."""
    install(packages, "acme-check", source)
    return found(a_model(plugins={"acme-check": Plugin(mode=Mode.REJECT, **plugin)}))


@pytest.mark.parametrize(
    ("mode", "severity", "state"),
    [
        (Mode.SHADOW, Severity.NOTE, State.PENDING),
        (Mode.FLAG, Severity.FLAG, State.PENDING),
        (Mode.REJECT, Severity.REJECT, State.REJECTED),
    ],
)
def test_a_validator_of_ones_own_finds_by_its_mode(
    packages: Path, mode: Mode, severity: Severity, state: State
):
    """It is given submission, policy, history and settings; severity, validator and policy are filled in."""
    install(packages, "acme-round", ROUND)
    policy = a_model(plugins={"acme-round": Plugin(mode=mode, settings={"multiple": 100})})
    judgement = judge(a_submission(score=1_000), policy, History(), digest="sha256:p")
    detail = {"highest": 10_000, "known": 0}
    expected = Finding(
        Reason.PLUGIN,
        1_000,
        Expected(unit="round"),
        0,
        detail,
        severity,
        "plugin:acme-round",
        "sha256:p",
        "round-score",
    )
    assert ((expected,), state) == (judgement.findings, judgement.state)
    assert judgement.refusal is None
    assert () == found(policy, score=1_010)


def test_one_that_is_off_is_neither_asked_nor_loaded(packages: Path, tmp_path: Path):
    """So a broken release can be switched off before it is mended."""
    install(packages, "acme-broken", "raise RuntimeError('no')")
    board = a_board(tmp_path, {"acme-broken": {"mode": "off"}, "acme-gone": {"mode": "off"}})
    assert () == found(board.policy)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise RuntimeError('no key')", "acme_wrong:check cannot be loaded: RuntimeError: no key"),
        ("check = 3", "acme_wrong:check is a int, not a function"),
        ("other = 3", "acme_wrong:check cannot be loaded: AttributeError"),
    ],
)
def test_one_that_cannot_be_loaded_is_an_error_of_its_line(
    packages: Path, tmp_path: Path, source: str, told: str
):
    """Whatever its code does as it is imported, the policy says which validator it is."""
    install(packages, "acme-wrong", source)
    message = refusal(tmp_path, {"acme-wrong": {"mode": "shadow"}})
    assert f"sprint.yaml:1: plugins.acme-wrong: {told}" in message


def test_one_that_is_missing_or_offered_twice_is_an_error(packages: Path, tmp_path: Path):
    """The message says what there is, which may be nothing."""
    assert "(installed validators: none)" in refusal(tmp_path, {"acme-gone": {}})
    install(packages, "acme-round", ROUND)
    message = refusal(tmp_path, {"acme-gone": {}})
    assert "found 0" in message
    assert "acme-round" in message
    install(packages, "acme-round", ROUND, package="another")
    assert "found 2" in refusal(tmp_path, {"acme-round": {}})


def test_settings_are_checked_as_the_policy_is_read(packages: Path, tmp_path: Path):
    """By the validator itself, if it has a way to."""
    source = """
class Check:
    def __call__(self, submission, policy, history, settings):
        return ()

    def check_settings(self, settings):
        if "from" not in settings:
            raise ValueError("`from` is missing")

check = Check()
"""
    install(packages, "acme-check", source)
    assert "plugins.acme-check: settings: `from` is missing" in refusal(tmp_path, {"acme-check": {}})
    board = a_board(tmp_path, {"acme-check": {"settings": {"from": 5, "of": ["a", {"b": 1.5}]}}})
    assert {"from": 5, "of": ["a", {"b": 1.5}]} == board.policy.plugins["acme-check"].settings


def test_settings_that_break_their_check_are_refused(packages: Path, tmp_path: Path):
    """Whatever it raises: the file is at fault then, and not the gateway."""
    source = """
def check(submission, policy, history, settings):
    return ()

check.check_settings = lambda settings: settings["from"] + 1
"""
    install(packages, "acme-sum", source)
    assert "plugins.acme-sum: settings: 'from'" in refusal(tmp_path, {"acme-sum": {}})
    told = refusal(tmp_path, {"acme-sum": {"settings": {"from": "a"}}})
    assert "plugins.acme-sum: settings: can only concatenate str" in told


def test_the_digest_of_a_policy_names_the_version_of_the_package(packages: Path, tmp_path: Path):
    """So the ledger says by which release something was found."""
    plugins = {"acme-round": {"settings": {"multiple": 10}}}
    install(packages, "acme-round", ROUND)
    first = a_board(tmp_path, plugins).digest
    assert first == a_board(tmp_path, plugins).digest
    (packages / "acme_round-1.0.dist-info").rename(packages / "acme_round-2.0.dist-info")
    (packages / "acme_round-2.0.dist-info" / "METADATA").write_text("Name: acme_round\nVersion: 2.0\n")
    with installed(packages):  # what was loaded stays until a restart
        pass
    assert first != a_board(tmp_path, plugins).digest


FAILING = {
    "raises": ("def check(*_):\n    return {}['a']\n", "KeyError", 2),
    "raises late": ("def check(*_):\n    yield from ()\n    raise RuntimeError\n", "RuntimeError", 3),
    "is no finding": ("def check(*_):\n    return [1]\n", "TypeError", None),
    "is nothing": ("def check(*_):\n    return None\n", "TypeError", None),
    "takes less": ("def check(submission):\n    return ()\n", "TypeError", None),
    "recurses": ("def check(*args):\n    return check(*args)\n", "RecursionError", None),
}


@pytest.mark.parametrize(("source", "error", "line"), FAILING.values(), ids=FAILING)
def test_a_failure_is_found_and_convicts_nobody(packages: Path, source: str, error: str, line: int | None):
    """It is a note unless the policy wants a moderator to look; it says the error's class and its line."""
    [finding] = asked(packages, source)
    assert (Reason.PLUGIN_FAILED, Severity.NOTE, error) == (finding.reason, finding.severity, finding.code)
    assert "plugin:acme-check" == finding.validator
    assert line is None or {"line": line} == finding.detail


def test_a_failure_flags_where_the_policy_says_so(packages: Path):
    """Then who crashes it is not past it."""
    [finding] = asked(packages, FAILING["raises"][0], on_failure=Mode.FLAG)
    assert Severity.FLAG is finding.severity


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.REJECT])
def test_a_failure_cannot_be_made_to_reject_or_to_be_silent(mode: Mode):
    """A fault of ours is never a verdict, and always in the record."""
    with pytest.raises(ValueError, match="rejects nobody"):
        Plugin(on_failure=mode)


UNSOUND = [
    "value=math.nan",
    "value=math.inf",
    "value='many'",
    "value=None",
    "code=''",
    "code='Not A Word'",
    "expected=Expected(at_most=math.inf)",
    "detail={'a': math.nan}",
    "detail={str(n): n for n in range(17)}",
    "sample_size=math.inf",
    "sample_size=2**64",
    "sample_size=-1e300",
    "expected=Expected(unit='\\ud800')",
    "detail={'\\ud800': 1}",
]


@pytest.mark.parametrize("wrong", UNSOUND)
def test_what_the_ledger_could_not_hold_never_gets_there(packages: Path, wrong: str):
    """A finding with a number that is none is a failure of the validator, not of the commit it would have been in."""
    source = f"""
import math
from policies.vocabulary import Expected, Finding, Reason
def check(*_):
    yield Finding(**(dict(reason=Reason.PLUGIN, value=1, expected=Expected(), code="a") | dict({wrong})))
"""
    [finding] = asked(packages, source)
    assert Reason.PLUGIN_FAILED is finding.reason


def test_a_finding_has_up_to_16_numbers(packages: Path):
    """As the page on plug-ins says; its code up to 48 characters."""
    source = """
from policies.vocabulary import Expected, Finding, Reason
def check(*_):
    yield Finding(Reason.PLUGIN, 1, Expected(), detail={str(n): n for n in range(16)}, code="a" * 48)
"""
    [finding] = asked(packages, source)
    assert (Reason.PLUGIN, {str(n): n for n in range(16)}) == (finding.reason, finding.detail)


def test_numbers_of_other_libraries_are_taken_as_python_s_own(packages: Path):
    """NumPy's numbers go into the ledger like any; a reason that is not the plug-in's own is put right."""
    source = """
import numpy
from policies.vocabulary import Expected, Finding, Reason
def check(*_):
    return [Finding(Reason.VERIFIED, numpy.float32(0.5), Expected(numpy.int64(1)), numpy.int32(4),
                    {"p": numpy.float64(0.25)}, code="z")] * 20
"""
    findings = asked(packages, source)
    assert 8 == len(findings)
    assert (Reason.PLUGIN, 0.5, 1, 4, {"p": 0.25}) == (
        findings[0].reason, findings[0].value, findings[0].expected.at_least, findings[0].sample_size, findings[0].detail,
    )  # fmt: skip
    assert math.isclose(0.5, orjson.loads(orjson.dumps(findings[0].as_dict()))["value"])


def test_numbers_beyond_53_bits_stay_as_they_were_given(packages: Path):
    """As whole numbers they would be none that JSON in the ledger has: the commit they are in would fail."""
    source = """
from policies.vocabulary import Expected, Finding, Reason
def check(*_):
    yield Finding(Reason.PLUGIN, 1e300, Expected(-2.0**60, 2.0**53), detail={"whole": 2.0**53 - 1, "more": 2**70}, code="a")
"""
    [finding] = asked(packages, source)
    told = orjson.loads(orjson.dumps(finding.as_dict()))
    assert (1e300, -(2.0**60), 2.0**53) == (
        told["value"],
        told["expected"]["at_least"],
        told["expected"]["at_most"],
    )
    assert {"whole": 2**53 - 1, "more": 2.0**70} == told["detail"]
    assert isinstance(told["detail"]["whole"], int)


def test_settings_are_to_be_read_only(packages: Path):
    """Who writes into them fails: the policy is the same for every submission."""
    [finding] = asked(
        packages, "def check(_s, _p, _h, settings):\n    settings['n'] = 1\n", settings={"n": 0}
    )
    assert "TypeError" == finding.code


def test_the_example_of_the_page_works_as_it_says(packages: Path, tmp_path: Path):
    """The how-to's package, under the name and in the policy that the how-to gives."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "private-rules.md").read_text()
    blocks = dict(re.findall(r"```(python|yaml|toml)\n(.*?)```", page, re.DOTALL))
    offered = tomllib.loads(blocks["toml"])["project"]["entry-points"][GROUP]
    install(packages, "acme-round-scores", blocks["python"], package="acme_rules", attribute="round_scores")
    assert {"acme-round-scores": "acme_rules:round_scores"} == offered
    [finding] = found(a_board(tmp_path, YAML(typ="safe").load(blocks["yaml"])["plugins"]).policy, score=6_000)
    assert ("round-score", 6_000, Severity.NOTE) == (finding.code, finding.value, finding.severity)
    assert "is the lowest score" in refusal(tmp_path, {"acme-round-scores": {}})
