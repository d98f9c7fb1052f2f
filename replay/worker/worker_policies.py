"""How a worker heeds changed policies: between two jobs, so that one policy judges a run from the lease to the verdict."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from gateway.runtime.reload import BoardsInForce, is_terminal_gone, read_again
from gateway.runtime.settings import Settings
from policies.loader import Board


class WorkerPolicies:
    """The policies of a worker process; `put` is called with those that are in force from then on."""

    def __init__(
        self, settings: Settings, boards: Mapping[str, Board], put: Callable[[Mapping[str, Board]], None]
    ) -> None:
        self._settings = settings
        self._boards = BoardsInForce(boards)
        self._put = put
        self._is_held = False
        self._is_asked = False

    def hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal's handler
        """SIGHUP: reads the files again, now or after the job at hand. From the closing of our terminal it means to end."""
        if is_terminal_gone():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._is_asked = True
        if not self._is_held:
            self._read_again()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing changes inside; what was asked for meanwhile is done at the end."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self._read_again()

    def _read_again(self) -> None:
        while self._is_asked:
            self._is_asked = False
            self._is_held = True  # what a signal in here asks for has to come after this, not under it
            try:
                boards = read_again(self._settings, self._boards)
                if boards is not None:
                    self._boards.replace(boards)
                    self._put(boards)
            finally:
                self._is_held = False
