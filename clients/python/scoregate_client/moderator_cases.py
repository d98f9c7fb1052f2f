"""Cases: the queue and its views, who is in a case, and decisions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypedDict, Unpack

from .connection import segment
from .feed import SILENCE_S, follow
from .moderation_models import (
    Case,
    CaseHolding,
    Decided,
    NextCase,
    QueueCounts,
    QueuedCase,
    SavedView,
    SavedViews,
    Surroundings,
)
from .moderator_requests import ROOT, ModeratorRequests, decision
from .transport import HttpRequest, HttpStream


class Decidable(Protocol):
    """A submission as it was read: what a decision on it names."""

    @property
    def submission(self) -> str:
        """Return its id."""

    @property
    def etag(self) -> str:
        """Return its version."""


class QueueFilters(TypedDict, total=False):
    """The cases of a board or family, for a reason, of a player, a build, a kind, or of some age."""

    board: str
    family: str
    reason: str
    player: str
    build: str
    kind: str
    min_age_s: int
    max_age_s: int


class CaseModeration(ModeratorRequests):
    """The queue, cases, and decisions on them."""

    def queue(self, **filters: Unpack[QueueFilters]) -> AsyncGenerator[QueuedCase, None]:
        """Yield the cases that wait, those of greatest expected harm first."""
        return self._all(QueuedCase, "/queue", "cases", filters)

    def appeals(self, **filters: Unpack[QueueFilters]) -> AsyncGenerator[QueuedCase, None]:
        """Yield the appeals that wait. `approve` grants one, `reject` denies it."""
        filters["kind"] = "appeal"
        return self.queue(**filters)

    async def counts(self) -> QueueCounts:
        """Return how many cases wait, by reason and by board."""
        return QueueCounts.from_json(await self._read("/queue/counts"))

    async def next_case(self, **filters: Unpack[QueueFilters]) -> QueuedCase | None:
        """Claim the first case that nobody is in, and return it; None if there is none."""
        # Not repeatable: after a lost answer, a second request would claim a second case.
        answer = await self._write("POST", "/queue/next", query=filters, repeatable=False)
        return NextCase.from_json(answer).case

    async def watch_queue(self) -> AsyncGenerator[None, None]:
        """Yield at first and whenever the queue has changed, for ever. It reconnects."""

        def connect(_last: str | None) -> AbstractAsyncContextManager[HttpStream]:
            url = str(self._url(f"{ROOT}/queue/live"))
            return self._transport.listen(HttpRequest("GET", url, self._bearer, silence_s=SILENCE_S))

        async for event in follow(connect, None, self._attempts, self._runner.sleep):
            if event.kind == "queue":
                yield

    async def views(self) -> tuple[SavedView, ...]:
        """Return your saved views of the queue: `queue(**view.filters)` is one."""
        return _views(await self._read("/views"))

    async def save_view(self, name: str, **filters: Unpack[QueueFilters]) -> tuple[SavedView, ...]:
        """Save filters of the queue under a name, and return all views."""
        texts = {each: str(value) for each, value in filters.items()}
        return _views(await self._write("PUT", f"/views/{segment(name)}", {"filters": texts}))

    async def remove_view(self, name: str) -> tuple[SavedView, ...]:
        """Remove a saved view, and return the others."""
        return _views(await self._write("DELETE", f"/views/{segment(name)}"))

    async def claim(self, submission: str) -> CaseHolding:
        """Take a case for 20 minutes, or for 20 more."""
        return await self._hold(submission, "claim")

    async def release(self, submission: str) -> CaseHolding:
        """Leave a case."""
        return await self._hold(submission, "release")

    async def skip(self, submission: str) -> CaseHolding:
        """Leave a case to others for an hour."""
        return await self._hold(submission, "skip")

    async def cannot_tell(self, submission: str) -> CaseHolding:
        """Leave a case to others for good: you cannot tell."""
        return await self._hold(submission, "cannot-tell")

    async def case(self, submission: str) -> Case:
        """Return a submission with its findings and history. Its `submission` is what you decide on."""
        return Case.from_json(await self._read(_case_path(submission)))

    async def surroundings(self, submission: str) -> Surroundings:
        """Return what surrounds a case: what is like it, and what was decided there."""
        return Surroundings.from_json(await self._read(f"{_case_path(submission)}/surroundings"))

    async def recording(self, submission: str) -> bytes:
        """Return the recording of a submission, as the game sent it."""
        return (await self._file(f"{_case_path(submission)}/recording")).body

    async def approve(
        self, read: Decidable, code: str, *, note: str = "", message: str | None = None
    ) -> Decided:
        """Let a held submission count, or grant the appeal against what became of it.

        `read` is the submission as you read it: a case of the queue, a case's `submission`, or the answer to
        your last decision. If it has changed since, the decision is refused with `precondition-failed`.
        `code` is a reason code, `note` for colleagues, and `message` a template's name or a text for the
        player.
        """
        return await self._decide("approve", read, code, note, message)

    async def reject(
        self, read: Decidable, code: str, *, note: str = "", message: str | None = None
    ) -> Decided:
        """Reject a held submission, or deny the appeal against what became of it."""
        return await self._decide("reject", read, code, note, message)

    async def hold(
        self, read: Decidable, code: str, *, note: str = "", message: str | None = None
    ) -> Decided:
        """Take a submission back into the queue, or ask the player of a held one (`question`) the message."""
        return await self._decide("hold", read, code, note, message)

    async def revoke(
        self, read: Decidable, code: str, *, note: str = "", message: str | None = None
    ) -> Decided:
        """Take a promoted submission off the board."""
        return await self._decide("revoke", read, code, note, message)

    async def reinstate(
        self, read: Decidable, code: str, *, note: str = "", message: str | None = None
    ) -> Decided:
        """Let a revoked submission count again."""
        return await self._decide("reinstate", read, code, note, message)

    async def undo(
        self, read: Decidable, code: str = "mistake", *, note: str = "", message: str | None = None
    ) -> Decided:
        """Take the last decision on a submission back."""
        return await self._decide("undo", read, code, note, message)

    async def _decide(self, kind: str, read: Decidable, code: str, note: str, message: str | None) -> Decided:
        path = f"{_case_path(read.submission)}/{kind}"
        answer = await self._write("POST", path, decision(code, note, message), etag=read.etag)
        return Decided.from_json(answer)

    async def _hold(self, submission: str, verb: str) -> CaseHolding:
        return CaseHolding.from_json(await self._write("POST", f"{_case_path(submission)}/{verb}"))


def _case_path(submission: str) -> str:
    return f"/cases/{segment(submission)}"


def _views(document: Mapping[str, Any]) -> tuple[SavedView, ...]:
    return SavedViews.from_json(document).views
