"""Rules: what a policy may ask of a claim, and what is refused as the file is read."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from policies.errors import PolicyError
from policies.loader import load_board
from policies.model import Policy
from policies.rules import NESTING, RULE_LENGTH, RULES, Condition, Rule
from tests.support.policies import a_policy

STATS = {"coins": {"maximum": 500}, "kills": {"maximum": 99}, "all": {"required": False}}
CLAIM = {"score": 230, "ticks": 600, "elapsed_ms": 12_000, "build": "2.1", "stats": {"coins": 3, "kills": 2}}


def a_rule(text: str) -> Policy:
    return Policy.model_validate(a_policy(stats=STATS, rules=[{"name": "r", "rule": text}]))


def refusal(folder: Path, *lines: str, **changes: object) -> str:
    """What is wrong with a policy that ends in these lines of YAML, without its path."""
    base = "\n".join(f"{name}: {json.dumps(value)}" for name, value in a_policy(**changes).items())
    path = folder / "sprint.yaml"
    path.write_text("\n".join([base, *lines]))
    with pytest.raises(PolicyError) as caught:
        load_board(path)
    return str(caught.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("score == stats.coins * 10 + stats.kills * 100", True),
        ("score == stats.coins * 10 + stats.kills * 100 + 1", False),
        ("stats.kills * 1000 <= elapsed_ms", True),
        ("double(score) / double(ticks) < 0.3", False),
        ("has(stats.coins) && !(stats.coins > 3)", True),
        ("build in ['2.0', '2.1'] && build.startsWith('2')", True),
        ("ticks > 60 ? score < 1000 : score == 0", True),
        ("score % 10 == 0 && score >= -9007199254740991", True),
        ("(" * NESTING + "score > 0" + ")" * NESTING, True),
    ],
)
def test_a_rule_is_true_or_false_of_a_claim(text: str, answer: bool):
    """What the reference says a rule can say is understood."""
    assert answer is a_rule(text).rules[0].condition.holds(CLAIM)


@pytest.mark.parametrize(
    "text",
    [
        "score == 9007199254740991 * 9007199254740991",
        "score * 1024 * 1024 * 1024 * 1024 * 1024 * 1024 > 0",
        "score / (stats.coins - 3) > 0",
        "score % (stats.coins - 3) == 0",
        "int(1e300) > score",
    ],
)
def test_V10_numbers_without_an_exact_answer_have_none(text: str):
    """A product beyond 2^63 and a division by zero are no answer, and none that was rounded or went round."""
    assert a_rule(text).rules[0].condition.holds(CLAIM) is None


def test_V10_whole_numbers_are_exact_to_the_end():
    """A claim of 2^53 - 1 is told from one beside it, and multiplied without rounding."""
    condition = a_rule("score * 1000 == 9007199254740991000").rules[0].condition
    assert condition.holds(CLAIM | {"score": 2**53 - 1})
    assert condition.holds(CLAIM | {"score": 2**53 - 2}) is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score ==", "not CEL: at character 9"),
        ("points == 1", "a rule cannot use `points`"),
        ("score == stats.coin", "there is no stat `coin`; a claim on this board has: all, coins, kills"),
        ("score + 1.5 > 2.0", "No such overload"),
        ("score", "a rule must be true or false, but this gives"),
        ("stats.coins > 0 ? score : 1", "a rule must be true or false, but this gives"),
        ("build == 3 || build > 'a' && build + 1 == 2", "Unsupported operation"),
        ("score(1) == 1", "Undefined variable or function"),
        ("size(stats) == 2", "a rule cannot use `size`"),
        ("stats['coins'] == 1", "`stats` needs the name of a stat"),
        ("stats.all (k, k == 'a')", "`stats` needs the name of a stat"),
        ("[1, 2].all(x, [1, 2].all(y, x > y))", "a rule cannot use `.all`"),
        ("build.matches('(a+)+$')", "a rule cannot use `.matches`"),
        ("'a' + 'b' + string(score) == 'c'", "a rule cannot use `string`"),
        ("'''a' '''+ [1].map(x, x) +'''", "a rule cannot contain"),
        ("build == 'a\\n'", "a rule cannot contain"),
        ("score == 1 // always", "a rule cannot contain"),
        ("score == 0x10", "a rule cannot use `x10`"),
        ("(" * (NESTING + 1) + "true" + ")" * (NESTING + 1), f"brackets may be nested {NESTING} deep"),
        ("true " + "&& true" * RULE_LENGTH, f"at most {RULE_LENGTH} characters"),
        ("", "1 or more characters"),
    ],
)
def test_a_rule_that_cannot_be_asked_is_an_error_of_its_line(tmp_path: Path, text: str, message: str):
    """Wrong syntax, names and types, and whatever could cost much, are refused as the file is read, with the line."""
    lines = [
        "rules:",
        "  - name: fine",
        "    rule: score >= 0",
        "  - name: wrong",
        f"    rule: {json.dumps(text)}",
    ]
    told = refusal(tmp_path, *lines, stats=STATS)
    line = len(a_policy(stats=STATS)) + 5
    assert told.startswith(f"{line}: rules.1.rule: ")
    assert message in told


@pytest.mark.parametrize(
    "text",
    [
        "stats.coins == 0 ? 1 : true",
        "stats.coins == 500 ? 1 : true",
        "stats.coins == 0 || stats.coins == 500 ? true : 1",
        "stats.all > 1000 ? 1 : true",
        "score == 0 ? 1 : true",
        "score > 1000000 ? 1 : true",
        "ticks > 1000000 ? 1 : true",
        "elapsed_ms == 0 ? 1 : true",
        "elapsed_ms > 1000000 ? 1 : true",
        "build == '2.1' ? 1 : true",
        "score > 1000000 && stats.coins == 500 && stats.kills == 0 ? 1 : true",
    ],
)
def test_a_rule_that_is_wrong_only_for_some_claims_is_refused_as_well(text: str):
    """It is tried on both ends of every range and between them, with a build of the board's own."""
    with pytest.raises(ValidationError, match="a rule must be true or false, but this gives"):
        Policy.model_validate(a_policy(stats=STATS, builds={"2.1": {}}, rules=[{"name": "r", "rule": text}]))


def test_a_board_has_as_many_rules_as_it_says(tmp_path: Path):
    """Each is evaluated for every claim that breaks one of them, so their number is bounded."""
    rules = [{"name": f"rule-{number}", "rule": "score >= 0"} for number in range(RULES + 1)]
    assert len(rules[:-1]) == len(Policy.model_validate(a_policy(rules=rules[:-1])).compiled_rules.weighed)
    assert "at most 16 elements" in refusal(tmp_path, rules=rules)


@pytest.mark.parametrize(
    ("text", "holds"), [("score", None), ("ticks - 1", None), ("build", None), ("true", True)]
)
def test_what_is_neither_true_nor_false_is_no_answer(text: str, holds: bool | None):
    """A number is not taken for true: a rule that was wrong lets nobody through."""
    assert holds is Condition((text,)).holds(CLAIM)
    assert holds is Condition(("true", text)).holds(CLAIM)


def test_the_mode_of_a_rule_goes_before_that_of_all_rules():
    """A rule that has one is asked though all others are off, and is off though they are not."""
    rules = [
        {"name": "own", "rule": "score > 0", "mode": "flag"},
        {"name": "off", "rule": "score > 1", "mode": "off"},
        {"name": "plain", "rule": "score > 2"},
    ]
    found = {}
    for mode in ("off", "reject"):
        policy = Policy.model_validate(a_policy(rules=rules, validators={"rules": mode}))
        found[mode] = [(rule.name, each.value) for rule, each in policy.compiled_rules.weighed]
    assert {"off": [("own", "flag")], "reject": [("own", "flag"), ("plain", "reject")]} == found
    none = Policy.model_validate(a_policy(rules=rules[1:], validators={"rules": "off"})).compiled_rules
    assert (None, ()) == (none.together, none.weighed)


def test_rules_are_named_once(tmp_path: Path):
    """A name has to say which rule it was."""
    rules = [{"name": "one", "rule": "true"}, {"name": "one", "rule": "score >= 0"}]
    assert "each rule needs a unique name" in refusal(tmp_path, rules=rules)


def test_a_summing_board_keeps_its_bounds(tmp_path: Path):
    """V10: without them a sum could pass what the ledger holds."""
    changes = {"operator": "sum", "score": {"maximum": 2**40}, "validators": {"bounds": "flag"}}
    assert "needs `validators.bounds: reject`" in refusal(tmp_path, **changes)


def test_statistics_of_a_replay_are_those_it_gives(tmp_path: Path):
    """A range for a statistic that no replay gives would never be looked at."""
    replay = {"maximum_ticks": 600, "stats": ["coins"]}
    changes = {"replay": replay, "builds": {"b": {"simulator": "b.wasm"}}}
    assert "stats.kills" in refusal(tmp_path, stats={"kills": {}}, **changes)
    assert "stats.coins" in refusal(tmp_path, stats={"coins": {"required": False}}, **changes)


words = st.sampled_from(
    [
        "score",
        "ticks",
        "stats.coins",
        "1",
        "0",
        "2.5",
        "'a'",
        "build",
        "(",
        ")",
        "[",
        "]",
        "+",
        "-",
        "*",
        "/",
        "%",
    ]
    + [
        "==",
        "<",
        "&&",
        "||",
        "!",
        "?",
        ":",
        ",",
        "in",
        "has(stats.kills)",
        "double(score)",
        "int(2.5)",
        ".",
        "true",
    ]
)


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(words, min_size=1, max_size=30))
@example(parts=["true"])
@example(parts=["1", "+", "1"])
def test_whatever_is_written_is_a_rule_or_refused(parts: list[str]):
    """Nothing made of the allowed words ends in anything but an answer, no answer, or a refusal; "not" turns an answer."""
    text = " ".join(parts)
    try:
        rule, turned = Rule(name="r", rule=text), Rule(name="r", rule=f"!({text})")
    except ValueError:
        return
    answer = rule.condition.holds(CLAIM)
    assert isinstance(answer, bool | None)
    assert turned.condition.holds(CLAIM) is (None if answer is None else not answer)


@pytest.mark.parametrize(
    "text",
    [
        "!" * (RULE_LENGTH - 4) + "true",
        "- " * 240 + "1 == 1",
        "true" + "&&true" * 80,
        "1" + "+1" * 240 + " == 241",
    ],
)
def test_the_longest_rules_fit_a_small_stack(text: str):
    """At the greatest length no repetition of what is allowed is too deep for 256 KiB."""
    answers: list[bool | None] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(
            target=lambda: answers.append(Rule(name="r", rule=text).condition.holds(CLAIM))
        )
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert [True] == answers
