"""Runs the studio's own validators, and trusts nothing that they return."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from policies.model import Policy
from policies.plugins import Plugin, load_plugin
from policies.vocabulary import SCORE_LIMIT, Expected, Finding, Mode, Reason
from validators.studio_findings import StudioFinding
from validators.submission import History, Submission

MOST_FINDINGS: Final = 8
"""Most findings of one validator for a submission; the rest is not read."""

MOST_NUMBERS: Final = 16
"""Most numbers in a finding's detail."""

_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")
_WORDS: Final = 64


def plugins(submission: Submission, policy: Policy, history: History) -> Iterator[StudioFinding]:
    """Yield the findings of the studio's validators, each under `plugin:<name>`, and one for each failure.

    A validator that raises, or returns anything but findings, has failed and has no findings. `on_failure`
    decides whether its failure is only recorded, or sends the run to a moderator.
    """
    for name, plugin in policy.plugins.items():
        if plugin.mode is Mode.OFF:
            continue
        try:
            findings = _run(name, plugin, submission, policy, history)
        except Exception as error:  # noqa: BLE001 - the studio's code must not cost a player the submission
            yield StudioFinding(plugin.on_failure, f"plugin:{name}", _failure(error))
        else:
            for finding in findings:
                yield StudioFinding(plugin.mode, f"plugin:{name}", finding)


def _run(
    name: str, plugin: Plugin, submission: Submission, policy: Policy, history: History
) -> tuple[Finding, ...]:
    results = load_plugin(name).check(submission, policy, history, MappingProxyType(plugin.settings))
    return tuple(_sound(result) for result in islice(results, MOST_FINDINGS))


def _failure(error: Exception) -> Finding:
    """Return a finding with the class of the error and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    detail = {"line": trace.tb_lineno} if trace else {}
    unit, code = "failures", type(error).__name__[:_WORDS]
    return Finding(Reason.PLUGIN_FAILED, 1, Expected(at_most=0, unit=unit), detail=detail, code=code)


def _sound(given: Any) -> Finding:
    """Return the finding without anything that the ledger cannot hold. Raises TypeError and ValueError."""
    if not isinstance(given, Finding):
        raise TypeError("a validator must return findings")
    if not _CODE.fullmatch(given.code):
        raise ValueError("a finding's code must be a lower-case word with digits and hyphens")
    if len(given.detail) > MOST_NUMBERS:
        raise ValueError(f"a finding may have up to {MOST_NUMBERS} numbers")
    at_least, at_most = (
        None if end is None else _number(end) for end in (given.expected.at_least, given.expected.at_most)
    )
    return Finding(
        Reason.PLUGIN,
        _number(given.value),
        Expected(at_least, at_most, _text(given.expected.unit)),
        _count(given.sample_size),
        {_text(name): _number(value) for name, value in given.detail.items()},
        code=given.code,
    )


def _number(given: Any) -> float:
    """Return a finite Python number. Raises TypeError and ValueError."""
    number = float(given)
    if not math.isfinite(number):
        raise ValueError("a finding's numbers must be finite")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _count(given: Any) -> int:
    """Return an integer of 53 bits, which JSON can hold. Raises TypeError and ValueError."""
    number = int(_number(given))
    if abs(number) > SCORE_LIMIT:
        raise ValueError("a finding's sample size may have up to 53 bits")
    return number


def _text(given: Any) -> str:
    """Return a text that UTF-8 can encode, so no lone surrogates. Raises UnicodeEncodeError."""
    text = str(given)[:_WORDS]
    text.encode()
    return text
