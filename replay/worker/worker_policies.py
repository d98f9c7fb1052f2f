"""Changes a worker's policies between two jobs, so that one policy judges a run from lease to verdict."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rq.exceptions import StopRequested

from gateway.catalogue.catalogue import Catalogue
from gateway.runtime.reload import Reload, is_terminal_gone, read_again, reloading
from gateway.runtime.settings import Settings
from policies.loader import Policies


class WorkerPolicies:
    """The policies of a worker process. `put` is called with each new set that takes effect.

    `tell` hears of each reload once it is over.
    """

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        put: Callable[[Policies], None],
        tell: Callable[[Reload], None],
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._put = put
        self._tell = tell
        self._is_held = False
        self._is_asked = False

    def hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal's handler
        """Handle SIGHUP: read the files again, now or after the current job.

        If our terminal was closed, the signal means that the process must end.
        """
        if is_terminal_gone():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._is_asked = True
        if not self._is_held:
            self._read_again()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold policies unchanged inside; a change requested meanwhile is made at the end."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self._read_again()

    def _read_again(self) -> None:
        while self._is_asked:
            self._is_asked = False
            self._is_held = True  # a signal that arrives in here must wait for the end, not nest
            try:
                with reloading(self._catalogue, self._tell, StopRequested) as conclude:
                    reload = read_again(self._settings, self._catalogue)
                    if reload.policies is not None:
                        self._catalogue.replace(reload.policies)
                        self._put(reload.policies)
                    conclude(reload)
            finally:
                self._is_held = False
