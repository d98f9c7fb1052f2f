"""A client in its own language, driven over JSON lines: CLIENTS in tests/clients/languages.py lists them."""

from __future__ import annotations

import base64
import json
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.languages import Language

PATIENCE_S = 40.0
"""For one answer: longer than six attempts with their pauses take on a busy machine."""


class ClientError(Exception):
    """An error that a client reported: a ScoregateError of its language."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.status: int = error["status"]
        self.reason: str = error["reason"]
        self.detail: str = error["detail"]
        self.retry_after_s: float | None = error.get("retry_after_s")


class Driver:
    """The process of one client, which is started when it is first asked."""

    def __init__(self, language: Language, command: Sequence[str], log: Path) -> None:
        self.language = language
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._do = ""

    def twin(self) -> Driver:
        """A driver of the same client with a process of its own."""
        return Driver(self.language, self._command, self._log)

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer of the client. Raises ClientError."""
        self.begin(do, **arguments)
        return self.answer()

    def begin(self, do: str, **arguments: Any) -> None:
        """Ask without waiting for the answer."""
        process = self._process or self._start()
        self._do = do
        assert process.stdin
        process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        process.stdin.flush()

    def answer(self) -> Any:
        """The answer to what was asked last."""
        told = self._told()
        assert 1 == len(told), told
        if told.get("error", {}).get("reason") == "unsupported":
            assert self._do in self.language.lacks, f"{self.language.name} has no {self._do}"
            pytest.skip(f"{self.language.name} has no {self._do}, as its entry in the list says")
        assert self._do not in self.language.lacks, f"{self._do} is no lack of {self.language.name} any more"
        if "error" in told:
            raise ClientError(told["error"])
        return told["ok"]

    def refusal(self, do: str, **arguments: Any) -> ClientError:
        """The error with which it answers."""
        with pytest.raises(ClientError) as raised:
            self.ask(do, **arguments)
        return raised.value

    def bytes_of(self, do: str, member: str, **arguments: Any) -> bytes:
        """What it answers in base64."""
        return base64.b64decode(self.ask(do, **arguments)[member], validate=True)

    def kill(self) -> None:
        """Kill it, as a phone does a game; the next question starts it anew."""
        if self._process:
            self._process.kill()
            self._process.communicate()
        self._process, self._buffer = None, b""

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )
        return self._process

    def _told(self) -> dict[str, Any]:
        process = self._process
        assert process
        assert process.stdout
        deadline = time.monotonic() + PATIENCE_S
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            received = process.stdout.read(1 << 20) if ready else b""
            if not received:
                why = "ended" if ready else f"gave no answer in {PATIENCE_S} s"
                self.kill()
                pytest.fail(
                    f"the {self.language.name} client {why} at {self._do}:\n{self._log.read_text()[-3000:]}"
                )
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        told: dict[str, Any] = json.loads(line)
        return told
