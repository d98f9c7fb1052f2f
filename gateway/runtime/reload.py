"""Reloads of policies while a part runs: either all files of a folder come into force, or none."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import POLICY_RELOADS, POLICY_STALE, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError
from policies.loader import Policies, load_policies
from policies.policy_changes import changed_digests, refuse_restart

_FAILED: Final = "the reload itself failed, which is a fault of Scoregate; the part's log has the error"

_had_terminal: Final = os.isatty(0)
_log = logger()


class PoliciesInForce(Protocol):
    """The policies that a part works with. `is_stale` means that the last reload put no others in force."""

    is_stale: bool
    policies: Policies


class Reload(NamedTuple):
    """The result of reading the policy files: what to put in force, or why they were refused.

    `began_ns` is when the reading began, by the clock that all processes of a machine share.
    """

    began_ns: int
    policies: Policies | None
    changed: Mapping[str, str] = MappingProxyType({})
    """The digests of the policies that are new or differ from those in force, by name."""
    refusal: str | None = None


def read_again(settings: Settings, in_force: PoliciesInForce) -> Reload:
    """Load the policy files. If they are wrong or need a restart, log, count and return the refusal."""
    began_ns = time.monotonic_ns()
    try:
        policies = load_policies(settings.policies_dir)
        refuse_restart(in_force.policies.by_name, policies.by_name)
    except ScoregateError as error:
        _mark(in_force, is_stale=True)
        _log.error(Event.POLICY_REFUSED, error=str(error))
        return Reload(began_ns, None, refusal=str(error))
    return Reload(began_ns, policies, changed_digests(in_force.policies.by_name, policies.by_name))


@contextmanager
def reloading(
    in_force: PoliciesInForce, tell: Callable[[Reload], None], *ending: type[Exception]
) -> Iterator[Callable[[Reload], None]]:
    """Read the files and put them in force during the block, which calls what it gets once that is over.

    `tell` hears of the reload. An unexpected error is reported and told as a refusal, because a bug in
    reading must not end a part that serves; errors in `ending` pass.
    """

    def conclude(reload: Reload) -> None:
        if reload.policies is not None:
            _mark(in_force, is_stale=False)
        tell(reload)

    began_ns = time.monotonic_ns()
    try:
        yield conclude
    except ending:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        report(FaultPlace.POLICIES, error)
        _mark(in_force, is_stale=True)
        tell(Reload(began_ns, None, refusal=_FAILED))


async def reload_when_asked(
    requested: asyncio.Event,
    settings: Settings,
    in_force: PoliciesInForce,
    put: Callable[[Policies], Awaitable[None]],
    tell: Callable[[Reload], None],
) -> None:
    """Load the files, on a thread, whenever `requested` is set, and `put` them in force. Never returns.

    `tell` hears of each reload once it is over.
    """
    while True:
        await requested.wait()
        requested.clear()
        with reloading(in_force, tell) as conclude:
            reload = await asyncio.to_thread(read_again, settings, in_force)
            if reload.policies is not None:
                await put(reload.policies)
            conclude(reload)


def _mark(in_force: PoliciesInForce, *, is_stale: bool) -> None:
    POLICY_RELOADS.labels("refused" if is_stale else "in_force").inc()
    POLICY_STALE.set(is_stale)
    in_force.is_stale = is_stale


def is_terminal_gone() -> bool:
    """Return whether the terminal that started this process is closed: SIGHUP then means exit, not reload."""
    return _had_terminal and not os.isatty(0)
