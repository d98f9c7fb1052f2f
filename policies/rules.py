"""A studio's own rules for a claim: CEL in a closed vocabulary, bounded before it is compiled.

The engine (`common-expression-language`) does not limit an expression's cost. So everything that could be
expensive is refused: macros that walk a list, patterns, all functions but a few conversions, long texts and
deep nesting. What remains takes time proportional to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from random import Random
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.fields import Name, PolicySection
from policies.judging import ModeSetting
from policies.vocabulary import SCORE_LIMIT, Mode

RULE_LENGTH: Final = 500
"""Maximum characters of a rule. At this length no allowed nesting exhausts a stack of 256 KiB (measured)."""

NESTING: Final = 16
"""Maximum depth of nested brackets."""

RULES: Final = 16
"""Maximum rules of a board."""

SAMPLES: Final = 24
"""Claims on which a rule is tried when it is loaded."""

NAMES: Final = ("score", "ticks", "elapsed_ms", "build")
"""Names available to a rule besides `stats`. `elapsed_ms` counts from the ticket, by our clock."""

_WORDS: Final = frozenset({*NAMES, "true", "false", "in", "has", "int", "double"})
_METHODS: Final = frozenset({"startsWith", "endsWith", "contains"})

_TOKEN: Final = re.compile(
    r"""\s+
    | (?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?
    | (?:"[^"\\\n]*"|'[^'\\\n]*')(?!["'])
    | \bstats\s*\.\s*(?P<stat>[A-Za-z_]\w*)\b(?!\s*\()
    | \.\s*(?P<method>[A-Za-z_]\w*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>[-+*%<>=!&|?:,()\[\]]|/(?!/))
    """,
    re.VERBOSE | re.ASCII,
)
"""Adjacent quotes are refused: three of them begin another kind of string in CEL, which would hide words from
this check. A stat cannot be called: `stats.all(…)` walks a list, even if a stat is named `all`."""

_DEEPER: Final = {"(": 1, "[": 1, ")": -1, "]": -1}

_UNABLE: Final = (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError)
"""Exceptions of the engine for an expression without a value: overflow, division by zero, a missing stat,
wrong types."""


class Rule(PolicySection):
    """A condition that every honest claim fulfils, as `score == stats.coins * 10 + stats.kills * 100`."""

    name: Name
    rule: Annotated[str, Field(min_length=1, max_length=RULE_LENGTH)]
    mode: ModeSetting | None = None

    @field_validator("rule")
    @classmethod
    def _in_words_that_are_known(cls, text: str) -> str:
        _refuse_unreadable(text)
        return text

    @cached_property
    def condition(self) -> Condition:
        """Return the compiled rule."""
        return Condition((self.rule,))


class Condition:
    """One or more rules, compiled into one expression."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._program = _compile(" && ".join(f"({rule})" for rule in rules) or "true")

    def holds(self, claim: dict[str, Any]) -> bool | None:
        """Return whether every rule is true of the claim; None if the engine cannot say."""
        try:
            answer = self._program.execute(claim)
        except _UNABLE:
            return None
        return answer if isinstance(answer, bool) else None

    def fault(self, claim: dict[str, Any]) -> str:
        """Return why a rule can hold for no claim; empty if nothing is wrong, or only with this claim."""
        try:
            answer = self._program.execute(claim)
        except ArithmeticError:
            return ""
        except _UNABLE as error:
            return str(error).split(".")[0] or type(error).__name__
        return "" if isinstance(answer, bool) else f"a rule must be true or false, but this gives {answer!r}"


class CompiledRules(NamedTuple):
    """A board's rules that are not off with their modes, and one condition of them all, if any."""

    together: Condition | None
    weighed: tuple[tuple[Rule, Mode], ...]


def compile_rules(rules: Sequence[Rule], mode: Mode) -> CompiledRules:
    """Return the rules that are not off. `mode` applies to rules without a mode of their own."""
    weighed = tuple((rule, rule.mode or mode) for rule in rules if (rule.mode or mode) is not Mode.OFF)
    return CompiledRules(Condition([rule.rule for rule, _ in weighed]) if weighed else None, weighed)


def refuse_unusable_rules(
    rules: Sequence[Rule], stats: Mapping[str, tuple[int, int]], scores: tuple[int, int], build: str
) -> None:
    """Raise ValidationError that names each rule which cannot be evaluated for any claim."""
    faults = [
        InitErrorDetails(
            type=PydanticCustomError("rule", "{fault}", {"fault": fault}),
            loc=("rules", at, "rule"),
            input=rule.rule,
        )
        for at, rule in enumerate(rules)
        if (fault := _fault_of(rule.rule, tuple(stats.items()), scores, build))
    ]
    if faults:
        raise ValidationError.from_exception_data("rules", faults)


@lru_cache(maxsize=1024)  # boards of one game have the same rules
def _fault_of(
    rule: str, ranges: tuple[tuple[str, tuple[int, int]], ...], scores: tuple[int, int], build: str
) -> str:
    """Return what is wrong with a rule of a board; empty if nothing is.

    `ranges` gives the lowest and highest value of each stat of a claim, `scores` the lowest and highest
    score. The rule is tried on claims within these ranges, since the engine detects a wrong type only in a
    branch that it evaluates.
    """
    stats = dict(ranges)
    unknown = sorted(_stats_of(rule) - stats.keys())
    if unknown:
        known = ", ".join(sorted(stats)) or "none"
        return f"there is no stat `{unknown[0]}`; a claim on this board has: {known}"
    condition = Condition((rule,))
    faults = (condition.fault(claim) for claim in _samples(stats, scores, build))
    return next(filter(None, faults), "")


def _samples(
    stats: Mapping[str, tuple[int, int]], scores: tuple[int, int], build: str
) -> Iterator[dict[str, Any]]:
    random = Random(0)  # noqa: S311 - the same claims each time

    def between(ends: tuple[int, int]) -> int:
        return random.choice((*ends, max(ends[0], min(random.choice((0, 1, 2, 1000)), ends[1]))))

    for _ in range(SAMPLES):
        yield {
            "score": between(scores),
            "ticks": between((1, SCORE_LIMIT)),
            "elapsed_ms": between((0, SCORE_LIMIT)),
            "build": build,
            "stats": {name: between(ends) for name, ends in stats.items()},
        }


def _refuse_unreadable(text: str) -> None:
    """Raise ValueError if the text contains anything that a rule may not, or is not CEL."""
    depth = 0
    for match in _tokens(text):
        _refuse_unknown(match["word"], match["method"])
        depth += _DEEPER.get(match["sign"], 0)
        if depth > NESTING:
            raise ValueError(f"brackets may be nested {NESTING} deep")
    try:
        _compile(text)
    except ValueError as error:
        raise ValueError(f"not CEL: {_plainly(error)}") from None


@lru_cache(maxsize=1024)
def _compile(text: str) -> Any:
    """Return the program of an expression. Raises ValueError."""
    import cel  # noqa: PLC0415 - slow to load, and few boards have rules

    return cel.compile(text)


def _stats_of(text: str) -> frozenset[str]:
    return frozenset(match["stat"] for match in _tokens(text) if match["stat"])


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"a rule cannot contain {text[at : at + 8]!r}")
        yield match
        at = match.end()


def _refuse_unknown(word: str | None, method: str | None) -> None:
    if word == "stats":
        raise ValueError("`stats` needs the name of a stat, as in `stats.kills`")
    if word is not None and word not in _WORDS:
        raise ValueError(
            f"a rule cannot use `{word}`, only {', '.join(NAMES)}, stats.<name>, has, int and double"
        )
    if method is not None and method not in _METHODS:
        raise ValueError(f"a rule cannot use `.{method}`")


def _plainly(error: ValueError) -> str:
    """Return the first fault that the engine's parser names, without the parser's frame."""
    fault = re.search(r"<input>:\d+:(\d+): (?:Syntax error: )?([^\n|]{1,120})", str(error))
    return f"at character {fault[1]}: {fault[2].strip()}" if fault else "it cannot be read"
