"""Runs a part of the deployment, an edge or a steward, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.deployment.run_files import PartFile, noted
from gateway.runtime.reload import is_terminal_gone
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, configure_logging, logger
from gateway.runtime.unknown_variables import unknown_variables
from scoregate.processes import holding_signals

_log = logger()


@dataclass(frozen=True, slots=True)
class Signals:
    """Events that signals set: stop, hurry, and reload the policies."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Take a SIGTERM or SIGINT: stop in order; the second one skips the pause."""
        (self.hurry if self.stop.is_set() else self.stop).set()

    def hang_up(self) -> None:
        """Take a SIGHUP: reload, or stop if our terminal was closed."""
        (self.stop if is_terminal_gone() else self.reload).set()


def log_unknown_settings() -> None:
    """Log the variables of the environment that look like settings and are none."""
    for name, nearest in unknown_variables(os.environ).items():
        _log.warning(Event.SETTING_UNKNOWN, variable=name, nearest=nearest)


def run_part(settings: Settings, part: str, run: Callable[[Signals, PartFile], Awaitable[None]]) -> None:
    """Run a part of the deployment until a signal ends it."""
    configure_logging(settings.log_level)
    log_unknown_settings()

    async def until_stopped() -> None:
        signals = Signals()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signals.end)
        loop.add_signal_handler(signal.SIGHUP, signals.hang_up)
        bind = settings.bind if part == "edge" else None
        with noted(settings.data_dir, part, settings.redis_url, bind) as part_file:
            await run(signals, part_file)
        ignore_signals(loop)

    gc.freeze()  # what was imported lives as long as the process: no collection needs to look at it
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(until_stopped())


def ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Ignore signals from now on. A loop that closes gives them back to the system, which kills for them."""
    with holding_signals():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - there is none on Windows

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
