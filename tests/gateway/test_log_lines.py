"""How lines of the log look, what is left out of them, and how many there may be."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from gateway.runtime.log_sieve import NAMES_KEPT, PER_MINUTE, TRACEBACK_CHARACTERS, Sieve, SievedEvents
from gateway.runtime.telemetry import REPEATED

SPEAKING = """
import logging
from gateway.runtime.telemetry import Event, configure_logging, logger
configure_logging("info")
log = logger()
log.debug(Event.SUBMISSION, board="a")
log.info(Event.DECISION, submission="s")
for number in range(9):
    log.error(Event.LEDGER_DOWN, error=str(number))
    log.error(Event.LEDGER_DOWN, part="lag", error=str(number))
def deep(depth):
    if depth:
        deep(depth - 1) if depth % 2 else exec("deep(depth - 1)", {"deep": deep, "depth": depth})
    else:
        raise ValueError("the end of it")
try:
    deep(300)
except ValueError as error:
    log.error(Event.UNEXPECTED, fingerprint="f", exc_info=error)
for _ in range(9):
    logging.getLogger("library").warning("of a library")
logging.getLogger("library").info("of no interest")
"""


def test_a_line_is_written_whatever_its_text():
    """Also one with the name of a file that is not UTF-8: who logs a fault must not fail over it."""
    speaking = (
        'from gateway.runtime.telemetry import Event, configure_logging, logger\nconfigure_logging("info")\n'
        'logger().error(Event.POLICY_REFUSED, error="b\\udcff.yaml", status=7)\n'
    )
    ran = subprocess.run([sys.executable, "-c", speaking], capture_output=True, check=True, timeout=60)
    line = json.loads(ran.stderr)
    assert ("policy_refused", "b\\udcff.yaml") == (line["event"], line["error"])


def test_each_line_is_one_object_and_none_is_endless():
    """With event, level and time; by the level that is set, each subject a few times, a long traceback by its end."""
    ran = subprocess.run(
        [sys.executable, "-c", SPEAKING], capture_output=True, text=True, check=True, timeout=60
    )
    assert "" == ran.stdout
    lines = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    counted = {
        (event, part): sum(
            each["event"] == event and each.get("part") == part and each["level"] == level for each in lines
        )
        for event, part, level in (
            ("submission", None, "debug"),
            ("decision", None, "info"),
            ("ledger_unavailable", None, "error"),
            ("ledger_unavailable", "lag", "error"),
            ("unexpected", None, "error"),
        )
    }
    expected = {("submission", None): 0, ("decision", None): 1, ("unexpected", None): 1}
    expected |= {("ledger_unavailable", part): PER_MINUTE for part in (None, "lag")}
    assert expected == counted
    for line in lines:
        age = datetime.now(UTC) - datetime.fromisoformat(line["timestamp"])
        assert timedelta() <= age < timedelta(minutes=2)
    [unexpected] = [each for each in lines if each["event"] == "unexpected"]
    assert unexpected["exception"].endswith("ValueError: the end of it")
    assert TRACEBACK_CHARACTERS < len(unexpected["exception"]) < TRACEBACK_CHARACTERS + 10
    others = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert ["library: of a library"] * PER_MINUTE == others


def test_whatever_a_fault_or_a_stranger_can_repeat_is_sieved():
    """Each of these can come with every request, job or change; the others are bounded by what they tell of."""
    repeated = {
        "unexpected",
        "ledger_unavailable",
        "index_unavailable",
        "duty_failed",
        "claim_refused",
        "login_refused",
        "sign_in_refused",
        "plugin_failed",
        "recording_fault",
        "changes_missed",
        "changes_forged",
        "job_refused",
        "simulator_failed",
        "forwarded_unread",
        "leases_lost",
    }
    assert repeated == REPEATED


FIELDS = ["moderator", "cause", "fingerprint", "duty", "part", "consumer", "validator", "board"]


@pytest.mark.parametrize("field", FIELDS)
def test_one_subject_that_fails_hides_no_other(field: str):
    """However often one is told of, the first line about another is written; who is in a line makes it no other subject."""
    sieved = SievedEvents(REPEATED, Sieve(monotonic_s=lambda: 0.0))

    def passes(**fields: str) -> bool:
        try:
            sieved(None, "warning", {"event": "duty_failed", **fields})
        except structlog.DropEvent:
            return False
        return True

    assert [True] * PER_MINUTE + [False] == [
        passes(**{field: "one", "player": str(number)}) for number in range(PER_MINUTE + 1)
    ]
    assert passes(**{field: "other"})


def test_who_is_heard_again_and_again_is_not_forgotten_for_others():
    """Of more subjects than are remembered those go that were longest silent, or a flood of others would free one to speak."""
    sieve = Sieve(monotonic_s=lambda: 0.0)
    for number in range(3 * NAMES_KEPT):
        sieve.left_out("talker")
        sieve.left_out(number)
    assert sieve.left_out("talker") is None
    assert sieve.left_out(0) == 0


def test_a_sieve_says_once_how_much_it_left_out():
    """With the first line after it; the next ones leave nothing out."""
    now_s = [0.0]
    sieve = Sieve(monotonic_s=lambda: now_s[0])
    for _ in range(PER_MINUTE + 5):
        sieve.left_out("it")
    now_s[0] = 60.0
    assert [5, *[0] * (PER_MINUTE - 1), None] == [sieve.left_out("it") for _ in range(PER_MINUTE + 1)]
