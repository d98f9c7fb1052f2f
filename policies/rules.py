"""Rules of a studio's own over a claim: CEL, in a closed list of words, bounded before it is compiled.

The engine (`common-expression-language`) has no limit on what an expression may cost, so what could cost much is not
let near it: a rule has no macro that walks a list, no pattern, no function but a few conversions, and is short and
shallow. What is left takes time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.fields import Name, PolicySection
from policies.judging import ModeSetting
from policies.vocabulary import SCORE_LIMIT, Mode

RULE_LENGTH: Final = 500
"""Most characters of a rule. At this length no nesting of what is allowed exhausts a stack of 256 KiB (tried)."""

NESTING: Final = 16
"""How deep brackets may stand in each other."""

RULES: Final = 16
"""Most rules of a board."""

SAMPLES: Final = 24
"""Claims that a rule is tried on as it is loaded."""

NAMES: Final = ("score", "ticks", "elapsed_ms", "build")
"""What a rule speaks of, beside the stats: `elapsed_ms` is since the ticket, by our clock."""

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
"""Quotes beside quotes are refused: three of them begin another kind of text in CEL, which would hide words from here. A stat is not
called: `stats.all(…)` walks a list, also where a stat is named `all`."""

_DEEPER: Final = {"(": 1, "[": 1, ")": -1, "]": -1}

_UNABLE: Final = (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError)
"""What the engine raises for an expression that has no value: overflow, division by zero, no such stat, other types."""


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

    @property
    def stats(self) -> frozenset[str]:
        """The stats it speaks of."""
        return frozenset(match["stat"] for match in _tokens(self.rule) if match["stat"])

    @cached_property
    def condition(self) -> Condition:
        """The rule, compiled."""
        return Condition((self.rule,))


class Condition:
    """Rules that are asked together: one evaluation for all of them."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._program = _compiled(" && ".join(f"({each})" for each in rules) or "true")

    def holds(self, claim: dict[str, Any]) -> bool | None:
        """True if every rule is true of the claim, False if one is not, None if that cannot be said."""
        try:
            answer = self._program.execute(claim)
        except _UNABLE:
            return None
        return answer if isinstance(answer, bool) else None

    def fault(self, claim: dict[str, Any]) -> str:
        """What is wrong with a rule that cannot be asked of any claim; empty if nothing is, or only of this one."""
        try:
            answer = self._program.execute(claim)
        except ArithmeticError:
            return ""
        except _UNABLE as error:
            return str(error).split(".")[0] or type(error).__name__
        return "" if isinstance(answer, bool) else f"a rule is true or false, and this gives {answer!r}"


class CompiledRules(NamedTuple):
    """The rules of a board that are not off, each with its mode, and all of them as one condition; None without any."""

    together: Condition | None
    weighed: tuple[tuple[Rule, Mode], ...]


def compile_rules(rules: Sequence[Rule], mode: Mode) -> CompiledRules:
    """The rules that are asked, where `mode` is that of rules without one of their own."""
    each = tuple((rule, rule.mode or mode) for rule in rules if (rule.mode or mode) is not Mode.OFF)
    return CompiledRules(Condition([rule.rule for rule, _ in each]) if each else None, each)


def refuse_unusable_rules(
    rules: Sequence[Rule], stats: Mapping[str, tuple[int, int]], scores: tuple[int, int], build: str
) -> None:
    """Raises ValidationError, naming each rule that no claim can be asked."""
    faults = [
        InitErrorDetails(
            type=PydanticCustomError("rule", "{fault}", {"fault": fault}),
            loc=("rules", at, "rule"),
            input=rule.rule,
        )
        for at, rule in enumerate(rules)
        if (fault := _fault_of(rule, stats, scores, build))
    ]
    if faults:
        raise ValidationError.from_exception_data("rules", faults)


def _fault_of(rule: Rule, stats: Mapping[str, tuple[int, int]], scores: tuple[int, int], build: str) -> str:
    """What is wrong with a rule of a board; empty if nothing is.

    `stats` are those that a claim may have, with lowest and highest value, `scores` the lowest and highest score. The
    rule is tried on claims between them, since the engine finds other types only where it comes by.
    """
    unknown = sorted(rule.stats - stats.keys())
    if unknown:
        known = ", ".join(sorted(stats)) or "none"
        return f"there is no stat `{unknown[0]}`; those that a claim has here: {known}"
    faults = (rule.condition.fault(claim) for claim in _samples(stats, scores, build))
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
    """Raises ValueError saying what a rule may not have, or where it is no CEL."""
    depth = 0
    for match in _tokens(text):
        _refuse_unknown(match["word"], match["method"])
        depth += _DEEPER.get(match["sign"], 0)
        if depth > NESTING:
            raise ValueError(f"brackets may stand {NESTING} deep")
    try:
        _compiled(text)
    except ValueError as error:
        raise ValueError(f"not CEL: {_plainly(error)}") from None


def _compiled(text: str) -> Any:
    """The program of an expression. Raises ValueError."""
    import cel  # noqa: PLC0415 - it brings a command line, slow to load and of no use to a board without rules

    return cel.compile(text)


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"a rule has no {text[at : at + 8]!r} in it")
        yield match
        at = match.end()


def _refuse_unknown(word: str | None, method: str | None) -> None:
    if word == "stats":
        raise ValueError("`stats` stands with the name of one, as `stats.kills`")
    if word is not None and word not in _WORDS:
        raise ValueError(
            f"a rule knows no `{word}`: it has {', '.join(NAMES)}, stats.<name>, has, int and double"
        )
    if method is not None and method not in _METHODS:
        raise ValueError(f"a rule knows no `.{method}`")


def _plainly(error: ValueError) -> str:
    """The first fault that the engine's parser names, without its own frame."""
    found = re.search(r"<input>:\d+:(\d+): (?:Syntax error: )?([^\n|]{1,120})", str(error))
    return f"at character {found[1]}: {found[2].strip()}" if found else "it cannot be read"
