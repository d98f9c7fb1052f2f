"""Asks the studio's own validators, and takes nothing from them on trust."""

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
"""Most findings of one validator for one submission; what comes after them is left unread."""

MOST_NUMBERS: Final = 16
"""Most numbers in the detail of a finding."""

_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")
_WORDS: Final = 64


def plugins(submission: Submission, policy: Policy, history: History) -> Iterator[StudioFinding]:
    """What the studio's own validators found, each under `plugin:<name>`, and a finding for each that failed.

    One that raises, or gives what is no finding, has found nothing: its failure is what is found. `on_failure` says
    whether that only stands in the record, or a moderator looks at the run.
    """
    for name, plugin in policy.plugins.items():
        if plugin.mode is Mode.OFF:
            continue
        try:
            found = _asked(name, plugin, submission, policy, history)
        except Exception as error:  # noqa: BLE001 - the studio's code must not cost a player the submission
            yield StudioFinding(plugin.on_failure, f"plugin:{name}", _failure(error))
        else:
            for each in found:
                yield StudioFinding(plugin.mode, f"plugin:{name}", each)


def _asked(
    name: str, plugin: Plugin, submission: Submission, policy: Policy, history: History
) -> tuple[Finding, ...]:
    found = load_plugin(name).check(submission, policy, history, MappingProxyType(plugin.settings))
    return tuple(_sound(each) for each in islice(found, MOST_FINDINGS))


def _failure(error: Exception) -> Finding:
    """What failed and where: the class of the error, and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    detail = {"line": trace.tb_lineno} if trace else {}
    unit, code = "failures", type(error).__name__[:_WORDS]
    return Finding(Reason.PLUGIN_FAILED, 1, Expected(at_most=0, unit=unit), detail=detail, code=code)


def _sound(given: Any) -> Finding:
    """The finding with nothing in it that the ledger cannot hold. Raises TypeError and ValueError."""
    if not isinstance(given, Finding):
        raise TypeError("a validator gives findings")
    if not _CODE.fullmatch(given.code):
        raise ValueError("a finding's code is a lower-case word with digits and hyphens")
    if len(given.detail) > MOST_NUMBERS:
        raise ValueError(f"a finding has up to {MOST_NUMBERS} numbers")
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
    """A finite number of Python's own. Raises TypeError and ValueError."""
    number = float(given)
    if not math.isfinite(number):
        raise ValueError("a finding's numbers are finite")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _count(given: Any) -> int:
    """A whole number of 53 bits: JSON in the ledger has none above 64. Raises TypeError and ValueError."""
    number = int(_number(given))
    if abs(number) > SCORE_LIMIT:
        raise ValueError("a finding's sample size has up to 53 bits")
    return number


def _text(given: Any) -> str:
    """A text that UTF-8 can hold, which lone surrogates are not in. Raises UnicodeEncodeError."""
    text = str(given)[:_WORDS]
    text.encode()
    return text
