"""The asynchronous client of a moderator: it takes cases, decides, bans, and reads what was done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypedDict, TypeVar, Unpack

import aiohttp
from yarl import URL

from .connection import Connection, json_bytes, segment
from .documents import Document
from .feed import FEED_TIMEOUT, follow
from .figures import Figures
from .moderation_models import (
    Ban,
    Batch,
    BatchItem,
    Case,
    CaseHolding,
    Decided,
    NamedPlayer,
    PlayedSubmission,
    Profile,
    QueueCounts,
    QueuedCase,
    Rename,
    TrailEvent,
    TrailFile,
    WhoAmI,
)

ROOT: Final = "/v1/moderation"
PAGE: Final = 100
"""Items of a page, the most that the gateway gives."""
GOING_ON: Final = frozenset({"selecting", "applying", "reversing"})
"""The states of a batch that a steward goes on with."""

Time = datetime | str
"""A `datetime` with a zone, or RFC 3339."""
Item = TypeVar("Item", bound=Document)


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


class TrailFilters(TypedDict, total=False):
    """What a moderator did, for a reason, on a board or family, about a player, in a time."""

    moderator: str
    reason: str
    board: str
    player: str
    since: Time
    until: Time


class Selection(TypedDict, total=False):
    """Submissions for which everything given holds; of each time the first is included, the last is not."""

    board: str
    family: str
    player: str
    key: str
    build: str
    received_since: Time
    received_until: Time
    achieved_since: Time
    achieved_until: Time
    reason: str
    finding: str


class ModeratorClient(Connection):
    """The client of a moderator's program, by a personal token.

    Every method raises `ScoregateError` for a refusal: its `name` is `case-claimed` where a colleague is in
    the case, and `precondition-failed` where it has changed since it was read. What yields items reads page
    after page as it goes.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        session: aiohttp.ClientSession | None = None,
        attempts: int = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(base_url, session=session, attempts=attempts, clock=clock)
        self._bearer = {"Authorization": f"Bearer {token}"}

    async def who_am_i(self) -> WhoAmI:
        """Return whom the token acts for, and what it may do where."""
        return WhoAmI.from_json(await self._read("/session"))

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
        return None if answer["case"] is None else QueuedCase.from_json(answer["case"])

    async def watch_queue(self) -> AsyncGenerator[None, None]:
        """Yield at first and whenever the queue has changed, for ever. It reconnects."""

        async def connect(_last: str | None) -> aiohttp.ClientResponse:
            url = self._url(f"{ROOT}/queue/live")
            return await self._opened().get(
                url, headers=self._bearer, timeout=FEED_TIMEOUT, allow_redirects=False
            )

        async for event in follow(connect, None, self._attempts):
            if event.kind == "queue":
                yield

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

    async def recording(self, submission: str) -> bytes:
        """Return the recording of a submission, as the game sent it."""
        url = self._url(f"{ROOT}{_case_path(submission)}/recording")
        return await self._download(url, aiohttp.ClientResponse.read, headers=self._bearer)

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

    async def player(self, player: str) -> Profile:
        """Return a player, as far as your boards reach."""
        return Profile.from_json(await self._read(_player_path(player)))

    def players_named(self, beginning: str) -> AsyncGenerator[NamedPlayer, None]:
        """Yield the players on your boards whose names begin so; look-alikes and case make no difference."""
        return self._all(NamedPlayer, "/players", "players", {"name": beginning})

    async def rename(self, player: str, was: str, name: str | None, code: str, *, note: str = "") -> Rename:
        """Give a player who is called `was` another name; None is the one of a player who chose none."""
        new = {"was": was, "code": code, "note": note, **({} if name is None else {"name": name})}
        return Rename.from_json(await self._write("POST", f"{_player_path(player)}/rename", new))

    async def undo_rename(self, player: str, was: str) -> Rename:
        """Give a player who is called `was` now the name of before the last rename."""
        document = {"was": was}
        return Rename.from_json(await self._write("POST", f"{_player_path(player)}/rename/undo", document))

    def submissions_of(self, player: str) -> AsyncGenerator[PlayedSubmission, None]:
        """Yield the submissions of a player on your boards, newest first."""
        return self._all(PlayedSubmission, f"{_player_path(player)}/submissions", "submissions", {})

    async def ban(
        self,
        player: str,
        operation: str,
        code: str,
        *,
        board: str | None = None,
        family: str | None = None,
        until: Time | None = None,
        note: str = "",
        message: str = "",
    ) -> Ban:
        """Ban a player on a board, on a family, or without either everywhere; for good, or until a time.

        `operation` is your own id: the same one again gets the ban as it is now.
        """
        new = {"board": board, "family": family, "until": _text(until), "note": note, "message": message}
        given = {name: value for name, value in new.items() if value is not None}
        document = {"operation": operation, "code": code, **given}
        return Ban.from_json(await self._write("POST", f"{_player_path(player)}/bans", document))

    async def lift_ban(self, player: str, ban: str) -> Ban:
        """Lift a ban by its id. What it took off comes back, unless another ban covers it."""
        return Ban.from_json(await self._write("DELETE", f"{_player_path(player)}/bans/{segment(ban)}"))

    async def preview_batch(
        self,
        operation: str,
        action: str,
        code: str,
        selection: Selection,
        *,
        note: str = "",
        message: str | None = None,
    ) -> Batch:
        """Select submissions for one decision (`approve`, `reject`, `revoke`, `reinstate`) without making it.

        A large selection takes a while: `await_batch` waits for its preview. `operation` is your own id.
        """
        document = {
            **_decision(code, note, message),
            "operation": operation,
            "action": action,
            "selection": {name: _text(value) for name, value in selection.items()},
        }
        return Batch.from_json(await self._write("POST", "/batches", document))

    async def apply_batch(self, previewed: Batch) -> Batch:
        """Decide on exactly what was previewed. A large batch takes a while: `await_batch` waits for it."""
        path = f"{_batch_path(previewed.batch)}/apply"
        return Batch.from_json(await self._write("POST", path, etag=previewed.etag))

    async def reverse_batch(self, batch: str) -> Batch:
        """Take back what a batch decided and nobody has decided on since."""
        return Batch.from_json(await self._write("POST", f"{_batch_path(batch)}/reverse"))

    async def abandon_batch(self, batch: str) -> Batch:
        """Let a batch go that was not applied."""
        return Batch.from_json(await self._write("POST", f"{_batch_path(batch)}/abandon"))

    async def batch(self, batch: str) -> Batch:
        """Return a batch as it is now."""
        return Batch.from_json((await self._read(_batch_path(batch), {"limit": 1}))["batch"])

    async def await_batch(self, batch: Batch, *, pause_s: float = 0.5) -> Batch:
        """Return a batch once the gateway has nothing more to do for it."""
        while batch.state in GOING_ON:
            await asyncio.sleep(pause_s)
            batch = await self.batch(batch.batch)
        return batch

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the batches of your boards, newest first."""
        return self._all(Batch, "/batches", "batches", {})

    def batch_items(self, batch: str) -> AsyncGenerator[BatchItem, None]:
        """Yield the submissions of a batch, by board and in the order in which they were received."""
        return self._all(BatchItem, _batch_path(batch), "items", {})

    async def figures(
        self, *, board: str | None = None, since: Time | None = None, until: Time | None = None
    ) -> Figures:
        """Return how decisions went, and how right validators were, on a board or family, or on all."""
        return Figures.from_json(
            await self._read("/figures", {"board": board, "since": since, "until": until})
        )

    def trail(self, **filters: Unpack[TrailFilters]) -> AsyncGenerator[TrailEvent, None]:
        """Yield what moderators did, newest first."""
        return self._all(TrailEvent, "/trail", "events", filters)

    async def trail_csv(self, *, cursor: str | None = None, **filters: Unpack[TrailFilters]) -> TrailFile:
        """Return up to 1,000 rows of what moderators did as CSV, newest first, for seniors."""

        async def read(response: aiohttp.ClientResponse) -> TrailFile:
            following = response.links.get("next")
            cursor = URL(str(following["url"])).query["cursor"] if following else None
            return TrailFile(await response.read(), cursor)

        url = self._url(f"{ROOT}/trail.csv", **_query({**filters, "cursor": cursor}))
        return await self._download(url, read, headers=self._bearer)

    async def _decide(self, kind: str, read: Decidable, code: str, note: str, message: str | None) -> Decided:
        path = f"{_case_path(read.submission)}/{kind}"
        answer = await self._write("POST", path, _decision(code, note, message), etag=read.etag)
        return Decided.from_json(answer)

    async def _hold(self, submission: str, verb: str) -> CaseHolding:
        return CaseHolding.from_json(await self._write("POST", f"{_case_path(submission)}/{verb}"))

    async def _all(
        self, kind: type[Item], path: str, member: str, filters: Mapping[str, Any]
    ) -> AsyncGenerator[Item, None]:
        """Yield the items of all pages. A page may be empty and still have a next one."""
        cursor = None
        while True:
            page = await self._read(path, {**filters, "limit": PAGE, "cursor": cursor})
            for item in page[member]:
                yield kind.from_json(item)
            if (cursor := page["next"]) is None:
                return

    async def _read(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await self._get(f"{ROOT}{path}", self._bearer, **_query(query or {}))

    async def _write(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        etag: str | None = None,
        query: Mapping[str, Any] | None = None,
        repeatable: bool = True,
    ) -> dict[str, Any]:
        url = self._url(f"{ROOT}{path}", **_query(query or {}))
        headers = self._bearer | ({} if etag is None else {"If-Match": etag})
        if document is None:
            return await self._send(method, url, headers, None, repeatable=repeatable)
        headers |= {"Content-Type": "application/json"}
        return await self._send(method, url, headers, json_bytes(document), repeatable=repeatable)


def _query(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _decision(code: str, note: str, message: str | None) -> dict[str, Any]:
    return {"code": code, "note": note} | ({} if message is None else {"message": message})


def _case_path(submission: str) -> str:
    return f"/cases/{segment(submission)}"


def _player_path(player: str) -> str:
    return f"/players/{segment(player)}"


def _batch_path(batch: str) -> str:
    return f"/batches/{segment(batch)}"
