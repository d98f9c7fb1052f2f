"""How a part runs: what it is told by signals, and how a steward heeds it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gateway.deployment.run_files import noted
from gateway.runtime.forced_exit import end_within
from gateway.runtime.reload import BoardsInForce, is_terminal_gone, reload_when_asked
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import configure_logging
from gateway.steward.duties import Steward
from gateway.wiring import index_new_boards
from policies.loader import Board


@dataclass(frozen=True, slots=True)
class Told:
    """What signals have told this process: to end (SIGTERM, SIGINT), at once (the second), to read its policies (SIGHUP)."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """SIGTERM or SIGINT: end in order; the second time without a pause."""
        (self.hurry if self.stop.is_set() else self.stop).set()

    def hang_up(self) -> None:
        """SIGHUP: from the closing of our terminal it means to end."""
        (self.stop if is_terminal_gone() else self.reload).set()


async def do_rounds(duties: Steward, settings: Settings, told: Told) -> None:
    """Does a steward's rounds until told to stop. Other policies are another steward's, which takes over between rounds."""
    boards, is_changed = BoardsInForce(duties.boards), asyncio.Event()

    def put(changed: Mapping[str, Board]) -> None:
        index_new_boards(duties.index, changed)
        boards.replace(changed)
        is_changed.set()

    reloading = asyncio.create_task(reload_when_asked(told.reload, settings, boards, put))
    stopped = asyncio.create_task(told.stop.wait())
    while not stopped.done():
        rounds, changed = asyncio.create_task(duties.run()), asyncio.create_task(is_changed.wait())
        await asyncio.wait({rounds, changed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            end_within(settings.shutdown_grace_s, "steward")
        is_changed.clear()
        changed.cancel()
        rounds.cancel()
        with suppress(asyncio.CancelledError):
            await rounds
        duties = duties.under(boards)
    reloading.cancel()


def run_part(settings: Settings, part: str, run: Callable[[Told], Awaitable[None]]) -> None:
    """Runs a part of the deployment until a signal ends it."""
    configure_logging(settings.log_level)

    async def until_stopped() -> None:
        told = Told()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.end)
        loop.add_signal_handler(signal.SIGHUP, told.hang_up)
        with noted(settings.data_dir, part):
            await run(told)

    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(until_stopped())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - there is none on Windows

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
