"""`scoregate steward`: run the background duties."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from scoregate.commands.common import settings_of

if TYPE_CHECKING:
    from gateway.deployment.run_files import PartFile
    from gateway.runtime.reload import Reload
    from gateway.runtime.settings import Settings
    from gateway.steward.duties import Steward
    from policies.loader import Policies
    from scoregate.parts import Signals


def steward() -> None:
    """Run the background duties."""
    import time

    from gateway.deployment.policies_folder import note_policies_folder
    from gateway.deployment.reload_answers import teller
    from gateway.runtime.reload import Reload
    from gateway.steward_wiring import open_steward
    from scoregate.metrics import serving_metrics
    from scoregate.parts import run_part

    settings = settings_of(is_part=True)

    async def run(signals: Signals, part_file: PartFile) -> None:
        began_ns = time.monotonic_ns()
        with serving_metrics(settings):
            async with open_steward(settings) as duties:
                note_policies_folder(settings, "steward")
                tell = teller(part_file, duties.catalogue)
                tell(Reload(began_ns, duties.catalogue.policies))
                await _do_rounds(duties, settings, signals, tell)

    run_part(settings, "steward", run)


async def _do_rounds(
    duties: Steward, settings: Settings, signals: Signals, tell: Callable[[Reload], None]
) -> None:
    """Do a steward's rounds until a signal ends them.

    A steward keeps the policies it was made with. When they change, a new steward takes over between rounds.
    """
    import asyncio

    from gateway.runtime.forced_exit import end_within
    from gateway.runtime.reload import reload_when_asked

    policies, is_changed, is_in_force = duties.catalogue.policies, asyncio.Event(), asyncio.Event()

    async def put(changed: Policies) -> None:
        nonlocal policies
        policies = changed
        is_in_force.clear()
        is_changed.set()
        await is_in_force.wait()

    reloading = asyncio.create_task(reload_when_asked(signals.reload, settings, duties.catalogue, put, tell))
    stopped = asyncio.create_task(signals.stop.wait())
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
        if not stopped.done():
            duties = duties.under(policies)
            is_in_force.set()
    reloading.cancel()
