"""Submitting later: a run waits in the offline queue until the gateway itself has said what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

from .assets import OCTETS
from .board_reads import BoardReads
from .claims import claim, commitment
from .connection import Sign, board_path, segment
from .documents import document_of
from .errors import ScoregateError, own_refusal
from .models import Reveal, RevealPage, Run, Submission
from .offline_queue import KEPT_S, RECORDING_KEPT_S, OfflineQueue
from .queue_entries import Flushed, QueueEntry, QueueOutcome
from .recording import recording_digest
from .signing import CONTENT_TYPE, Target, sign_for_run

_NOT_FINAL: Final = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.MISDIRECTED_REQUEST,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
_HOLDS_UP_ALL: Final = frozenset({0, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""After these the rest of the queue waits for the next flush: there is no gateway, or it has enough to do."""
_OVER: Final = frozenset({"rejected", "revoked", "superseded"})
"""The states of a submission whose recording nobody asks for any more."""


class QueuedSubmitting(BoardReads):
    """Submits runs now or later, and sends the recordings that are asked for."""

    queue: OfflineQueue | None = None

    async def submit_later(
        self,
        run: Run,
        score: int,
        ticks: int,
        stats: Mapping[str, int],
        recording: bytes | None = None,
        *,
        committed: bool = False,
    ) -> QueueEntry:
        """Put a run into the queue, and return when it is on the disk. Call `flush` to submit it.

        With `committed` the digest of the recording goes first, and the queue keeps the recording as long as
        the gateway may ask for it. Raises a `ScoregateError` named `queue-full` if 100 runs wait.
        """
        queue, kept = self._queue(), None
        if committed:
            if recording is None:
                raise ValueError("A committed run needs a recording.")
            body, kept = commitment(score, ticks, stats, recording), recording
        else:
            body = claim(score, ticks, stats, recording)
        now_ms = int(self._clock() * 1000)
        entry = QueueEntry(run.board, run.ticket, run.key, body.decode(), now_ms // 1000, kept)
        return await self._runner.in_thread(lambda: queue.add(entry, now_ms))

    async def waiting(self) -> int:
        """Return how many runs are in the queue, with those whose recordings may still be asked for."""
        return len(await self._runner.in_thread(self._queue().names))

    async def flush(self) -> Flushed:
        """Submit what waits, the oldest first, and return what became of each.

        An entry goes only when the gateway itself has accepted or refused it. Safe to call at any time: while
        another process or task flushes the same folder, this returns at once.
        """
        queue = self._queue()
        with queue.flushing() as is_ours:
            if not is_ours:
                return Flushed()
            outcomes: list[QueueOutcome] = []
            is_held_up = False
            for name in await self._runner.in_thread(queue.swept):
                outcome = await self._flushed(queue, name, is_held_up=is_held_up)
                if outcome:
                    outcomes.append(outcome)
                    is_held_up |= _holds_up(outcome)
            revealed = () if is_held_up else await self._revealed(queue)
            return Flushed(tuple(outcomes), revealed)

    async def reveals(self) -> tuple[Reveal, ...]:
        """Return up to 100 recordings that the gateway requests from this player, the next deadline first."""
        return RevealPage.from_json(await self._get("/v1/reveals", self._bearer())).reveals

    async def reveal(self, submission: str, recording: bytes) -> None:
        """Send a requested recording, and return when the gateway has stored it. Safe to repeat."""
        headers = {**self._bearer(), "Content-Type": OCTETS}
        url = self._url(f"/v1/submissions/{segment(submission)}/recording")
        await self._send("PUT", url, headers, recording)

    async def submission(self, submission: str) -> Submission:
        """Return a submission of this player in its current state."""
        return Submission.from_json(await self._get(f"/v1/submissions/{segment(submission)}", self._bearer()))

    async def _submitted(self, board: str, ticket: str, key: bytes, body: bytes) -> Submission:
        path = f"{board_path(board)}/scores"
        answer = await self._answer_to_signed("POST", path, body, CONTENT_TYPE, self._signer(key, ticket))
        return Submission.from_json(document_of(answer.body))

    def _signer(self, key: bytes, ticket: str) -> Sign:
        def sign(target: Target, body: bytes, now_s: int) -> dict[str, str]:
            parameters = self._parameters(now_s, ticket, "hmac-sha256", "scoregate-run")
            return sign_for_run(key, target, body, parameters)

        return sign

    async def _flushed(self, queue: OfflineQueue, name: str, *, is_held_up: bool) -> QueueOutcome | None:
        """Return what became of an entry, None for one that was accepted before or is gone."""
        disk = self._runner.in_thread
        try:
            entry = await disk(lambda: queue.read(name))
        except ValueError as damage:
            aside = await disk(lambda: queue.set_aside(name))
            return QueueOutcome("damaged", aside, problem=own_refusal("damaged", str(damage)))
        if entry is None:
            return None
        if self._clock() - entry.written_at > (RECORDING_KEPT_S if entry.submission else KEPT_S):
            await disk(lambda: queue.remove(name))
            return None if entry.submission else QueueOutcome("expired", name, entry)
        if entry.submission:
            return None
        return QueueOutcome("kept", name, entry) if is_held_up else await self._sent(queue, name, entry)

    async def _sent(self, queue: OfflineQueue, name: str, entry: QueueEntry) -> QueueOutcome:
        try:
            receipt = await self._submitted(entry.board, entry.ticket, entry.key, entry.body.encode())
        except ScoregateError as problem:
            if not is_final(problem):
                return QueueOutcome("kept", name, entry, problem=problem)
            await self._runner.in_thread(lambda: queue.remove(name))
            return QueueOutcome("refused", name, entry, problem=problem)
        await self._runner.in_thread(lambda: _settle(queue, name, entry, receipt))
        return QueueOutcome("accepted", name, entry, receipt)

    async def _revealed(self, queue: OfflineQueue) -> tuple[str, ...]:
        """Send the recordings that are asked for, forget those that will not be, and name the sent ones."""
        kept = await self._runner.in_thread(lambda: list(_committed(queue)))
        if not kept or self.token is None:
            return ()
        revealed: list[str] = []
        try:
            asked = {each.submission: each.recording_digest for each in await self.reveals()}
            for name, submission, recording in kept:
                try:
                    if asked.get(submission) == recording_digest(recording):
                        await self.reveal(submission, recording)
                        revealed.append(submission)
                    else:
                        await self._forget(queue, name, submission)
                except ScoregateError as refusal:
                    if not is_final(refusal):
                        raise
                    # Of another player, who may come back, or refused: it must not hold up the others.
        except ScoregateError:
            pass  # the next flush tries again
        return tuple(revealed)

    async def _forget(self, queue: OfflineQueue, name: str, submission: str) -> None:
        seen = await self.submission(submission)
        if seen.verified or seen.state in _OVER:
            await self._runner.in_thread(lambda: queue.remove(name))

    def _queue(self) -> OfflineQueue:
        if self.queue is None:
            raise ValueError("A queue is needed: pass the folder `queue`.")
        return self.queue


def is_final(problem: ScoregateError) -> bool:
    """Tell whether a refusal ends an entry: the gateway's own word, and none that passes."""
    is_refusal = HTTPStatus.BAD_REQUEST <= problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return problem.is_of_gateway and is_refusal and problem.status not in _NOT_FINAL


def _holds_up(outcome: QueueOutcome) -> bool:
    """Tell whether the rest of the queue waits for the next flush."""
    problem = outcome.problem
    return outcome.outcome == "kept" and problem is not None and problem.status in _HOLDS_UP_ALL


def queue_in(folder: Path | str | None) -> OfflineQueue | None:
    """Return the queue in a folder."""
    return None if folder is None else OfflineQueue(folder)


def _settle(queue: OfflineQueue, name: str, entry: QueueEntry, receipt: Submission) -> None:
    """Remove an accepted entry, or note what it became if its recording may be asked for."""
    if entry.recording is None:
        queue.remove(name)
    else:
        queue.change(name, replace(entry, submission=receipt.submission))


def _committed(queue: OfflineQueue) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, submission and recording of the accepted entries whose recording may be asked for."""
    for name in queue.names():
        entry = queue.read(name)
        if entry and entry.submission and entry.recording is not None:
            yield name, entry.submission, entry.recording
