"""A child process that is asked in lines and answers in lines, whatever it writes beside them."""

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
"""What it may write to its standard error for each question; past it the child is killed."""


class LineChild(ChildProcess):
    """A child that was given a program, and the questions it was asked so far."""

    questions = 0
    _words = b""
    _is_mute = False

    def ask(self, question: bytes, limit: int, deadline: float) -> bytes:
        """The line (at most `limit` bytes) that answers, without its line feed. Raises ChildTimedOut, ChildDied or BrokenProtocolRule.

        Its standard error is read all the while, or a program that says much there would stand still for ever. The
        question is written as the child reads it, for the same reason.
        """
        self._hear_complaints(0)
        if self.questions:  # what it said of the run before belongs to another player
            self._words = b""
        self.questions += 1
        unsent, answer, complaints = memoryview(question), bytearray(), 0
        while not answer.endswith(b"\n"):
            ready = self._wait(deadline, sends=bool(unsent))
            if self._stderr in ready:
                complaints = self._hear_complaints(complaints)
            if self._stdout in ready:
                answer += self._hear_answer(limit - len(answer))
            if self._stdin in ready and unsent:
                unsent = self._say(unsent)
        if unsent or answer.count(b"\n") > 1:
            raise BrokenProtocolRule(ProtocolRule.ONE_LINE)
        return bytes(answer[:-1])

    def last_words(self) -> bytes:
        """The end of what it wrote to its standard error since the question; since its start where that was the first."""
        with suppress(BrokenProtocolRule):
            self._hear_complaints(0)
        return self._words

    def explained(self, fault: SimulatorFault) -> SimulatorFault:
        """The fault, with what the child wrote to its standard error where it said nothing else of it."""
        return fault if fault.said else replace(fault, said=last_lines(self.last_words()))

    def _wait(self, deadline: float, *, sends: bool) -> set[int]:
        """The pipes that can go on. Raises ChildTimedOut past the deadline."""
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
        """What else it has answered. Raises ChildDied where it ended, BrokenProtocolRule beyond the `room` that is left."""
        heard = os.read(self._stdout, min(room + 1, READ_BYTES))
        if not heard:
            raise ChildDied
        if len(heard) > room:
            raise BrokenProtocolRule(ProtocolRule.OUTPUT)
        return heard

    def _hear_complaints(self, heard: int) -> int:
        """How many bytes it has complained since the question; only the last are kept. Raises BrokenProtocolRule past the limit."""
        with suppress(BlockingIOError):
            while words := os.read(self._stderr, READ_BYTES):
                self._words = (self._words + words)[-LAST_WORDS_BYTES:]
                heard += len(words)
                if heard > COMPLAINT_BYTES:
                    raise BrokenProtocolRule(ProtocolRule.OUTPUT)
            self._is_mute = True  # it closed the pipe, which would be ready for ever
        return heard

    def _say(self, unsent: memoryview) -> memoryview:
        """What is left to be said. A child that has stopped listening may still have answered."""
        try:
            return unsent[os.write(self._stdin, unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise ChildDied from None
