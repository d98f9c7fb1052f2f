"""A child process that answers lines with lines, whatever else it writes."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from dataclasses import replace

from replay.simulators import SimulatorFault, last_lines
from replay.simulators.child_process import (
    LAST_WORDS_BYTES,
    READ_BYTES,
    ChildDied,
    ChildProcess,
    ChildTimedOut,
    left_ms,
)
from replay.simulators.line_protocol import BrokenProtocolRule, ProtocolRule

COMPLAINT_BYTES = 1024 * 1024
"""Bytes that it may write to standard error for each question; beyond that the child is killed."""


class LineChild(ChildProcess):
    """A child that was given a program, and the number of its questions so far."""

    questions = 0
    _words = b""
    _is_mute = False

    def ask(self, question: bytes, limit: int, deadline: float) -> bytes:
        """Return the line (at most `limit` bytes) that answers, without its line feed.

        Raises ChildTimedOut, ChildDied or BrokenProtocolRule.
        """
        self._hear_complaints(0)
        if self.questions:  # its words about the previous run belong to another player
            self._words = b""
        self.questions += 1
        unsent, answer, complaints = memoryview(question), bytearray(), 0
        # A child that nobody reads from blocks, also while we write: so all three pipes take turns.
        while not answer.endswith(b"\n"):
            ready = self._wait(deadline, sends=bool(unsent))
            if self._stderr in ready:
                complaints = self._hear_complaints(complaints)
            if self._stdout in ready:
                answer += self._hear_answer(limit - len(answer))
            if self._stdin in ready:
                unsent = self._say(unsent)
        if unsent or answer.count(b"\n") > 1:
            raise BrokenProtocolRule(ProtocolRule.ONE_LINE)
        return bytes(answer[:-1])

    def last_words(self) -> bytes:
        """Return the end of its standard error since the question, or since its start for the first one."""
        with suppress(BrokenProtocolRule):
            self._hear_complaints(0)
        return self._words

    def explained(self, fault: SimulatorFault) -> SimulatorFault:
        """Return the fault, with the child's standard error if the fault has no words of its own."""
        return fault if fault.said else replace(fault, said=last_lines(self.last_words()))

    def _wait(self, deadline: float, *, sends: bool) -> set[int]:
        """Return the pipes that are ready. Raises ChildTimedOut past the deadline."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if not self._is_mute:
            poll.register(self._stderr, select.POLLIN)
        if sends:
            poll.register(self._stdin, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(left_ms(deadline))}
        if not ready:
            raise ChildTimedOut
        return ready

    def _hear_answer(self, room: int) -> bytes:
        """Return more of its answer. Raises ChildDied at the end, BrokenProtocolRule beyond `room` bytes."""
        heard = os.read(self._stdout, min(room + 1, READ_BYTES))
        if not heard:
            raise ChildDied
        if len(heard) > room:
            raise BrokenProtocolRule(ProtocolRule.OUTPUT)
        return heard

    def _hear_complaints(self, heard: int) -> int:
        """Return the bytes on standard error since the question, keeping only the last of them.

        Raises BrokenProtocolRule past the limit.
        """
        with suppress(BlockingIOError):
            while words := os.read(self._stderr, READ_BYTES):
                self._words = (self._words + words)[-LAST_WORDS_BYTES:]
                heard += len(words)
                if heard > COMPLAINT_BYTES:
                    raise BrokenProtocolRule(ProtocolRule.OUTPUT)
            self._is_mute = True  # a closed pipe would be ready forever
        return heard

    def _say(self, unsent: memoryview) -> memoryview:
        """Return what is left to write. A child that stopped reading may still have answered."""
        try:
            return unsent[os.write(self._stdin, unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise ChildDied from None
