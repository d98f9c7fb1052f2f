"""`scoregate worker`: run a worker."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from scoregate.commands.common import settings_of


def worker(
    queue: Annotated[Literal["main", "urgent"], typer.Option(help="The queue to take work from.")] = "main",
) -> None:
    """Run a worker, which replays and settles."""
    from gateway.runtime.telemetry import configure_logging
    from gateway.steward.dispatch import VerificationQueue
    from replay.worker.process import run_worker
    from scoregate.metrics import serving_metrics
    from scoregate.parts import log_unknown_settings

    settings = settings_of(is_part=True)
    configure_logging(settings.log_level)
    log_unknown_settings()
    with serving_metrics(settings):
        run_worker(settings, queue=VerificationQueue(queue))
