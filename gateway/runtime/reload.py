"""Reloads of policies while a part runs: either all files of a folder come into force, or none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, Protocol

from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import POLICY_RELOADS, POLICY_STALE, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError
from policies.loader import Policies, load_policies
from policies.policy_changes import refuse_restart

_had_terminal: Final = os.isatty(0)
_log = logger()


class PoliciesInForce(Protocol):
    """The policies that a part works with. `is_stale` means that the files have changed, and were refused."""

    is_stale: bool
    policies: Policies


def read_again(settings: Settings, in_force: PoliciesInForce) -> Policies | None:
    """Load the policy files. If they are wrong or need a restart, log it, count it, and return None."""
    try:
        policies = load_policies(settings.policies_dir)
        refuse_restart(in_force.policies.by_name, policies.by_name)
    except ScoregateError as error:
        POLICY_RELOADS.labels("refused").inc()
        POLICY_STALE.set(1)
        in_force.is_stale = True
        _log.error(Event.POLICY_REFUSED, error=str(error))
        return None
    POLICY_RELOADS.labels("in_force").inc()
    POLICY_STALE.set(0)
    in_force.is_stale = False
    return policies


async def reload_when_asked(
    requested: asyncio.Event,
    settings: Settings,
    in_force: PoliciesInForce,
    put: Callable[[Policies], None],
) -> None:
    """Load the files, on a thread, whenever `requested` is set, and call `put` in the loop. Never returns."""
    while True:
        await requested.wait()
        requested.clear()
        try:
            policies = await asyncio.to_thread(read_again, settings, in_force)
        except Exception as error:  # noqa: BLE001 - a bug in reading must not end a part that serves
            report(FaultPlace.POLICIES, error)
            continue
        if policies is not None:
            put(policies)


def is_terminal_gone() -> bool:
    """Return whether the terminal that started this process is closed: SIGHUP then means exit, not reload."""
    return _had_terminal and not os.isatty(0)
