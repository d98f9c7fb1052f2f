"""The asynchronous client of a player's game."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Unpack

from .assets import AssetReads
from .claims import claim, commitment
from .connection import ClientOptions, board_path, given, segment
from .documents import json_bytes
from .errors import own_refusal
from .families import FamilyReads
from .feed import SILENCE_S, FeedEvent, follow
from .groups import PlayerGroups
from .models import Player, Run, Submission
from .queueing import QueuedSubmitting, queue_in
from .transport import HttpRequest, HttpStream

UNSETTLED: Final = frozenset({"received", "pending"})
"""The states of a submission that the gateway goes on with by itself."""
FIRST_LOOK_S: Final = 0.5
LONGEST_LOOK_S: Final = 5.0


class ScoregateClient(QueuedSubmitting, PlayerGroups, FamilyReads, AssetReads):
    """The client of one player's game: it opens runs, submits them and reads boards.

    `token` is the player's bearer token; `create_player` fetches one. `queue` is the folder of the runs
    that are submitted later. Every method raises `ScoregateError` for a refusal, and with status 0 if no
    attempt reached the gateway.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        queue: Path | str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(base_url, **options)
        self.token = token
        self.queue = queue_in(queue)

    async def create_player(self, name: str) -> Player:
        """Create a player, for whom this client acts from then on."""
        player = Player.from_json(await self._post("/v1/players", {"name": name}, {}))
        self.token = player.token
        return player

    async def open_run(self, board: str, build: str, *, name_signature: str | None = None) -> Run:
        """Open a run of this player.

        If the studio signs the names of boards that players open, give what it signed for this board.
        """
        request = {"build": build} | ({"name_signature": name_signature} if name_signature else {})
        return Run.from_json(await self._post(f"{board_path(board)}/runs", request, self._bearer()))

    async def submit(
        self, run: Run, score: int, ticks: int, stats: Mapping[str, int], recording: bytes | None = None
    ) -> Submission:
        """Submit a run, and return when the gateway has stored it. Safe to repeat with the same claim.

        A board that replays its runs needs a recording.
        """
        return await self._submit(run, claim(score, ticks, stats, recording))

    async def commit(
        self, run: Run, score: int, ticks: int, stats: Mapping[str, int], recording: bytes
    ) -> Submission:
        """Submit a run with its recording's digest alone, on a board that offers this (`reveal_s`).

        Keep the recording as long as the run is pending, or counts without being verified. Send it with
        `reveal` when `reveals` lists it.
        """
        return await self._submit(run, commitment(score, ticks, stats, recording))

    async def answer(self, submission: str, text: str) -> None:
        """Answer a moderator's question about a submission, once. Safe to repeat."""
        await self._say(submission, "answer", text)

    async def appeal(self, submission: str, text: str) -> None:
        """Appeal against the decision on a submission, once. Safe to repeat."""
        await self._say(submission, "appeal", text)

    async def _say(self, submission: str, verb: str, text: str) -> None:
        headers = {**self._bearer(), "Content-Type": "application/json"}
        url = self._url(f"/v1/submissions/{segment(submission)}/{verb}")
        await self._send("POST", url, headers, json_bytes({"text": text}))

    async def _submit(self, run: Run, body: bytes) -> Submission:
        return await self._submitted(run.board, run.ticket, run.key, body)

    async def wait_until_settled(self, submission: Submission | str, timeout_s: float = 60.0) -> Submission:
        """Return a submission once the gateway has decided on it, or leaves that to a moderator (`held`).

        The live feed of its board wakes this client early; without an event loop it reads now and then.
        Raises a `ScoregateError` named `timeout`.
        """
        deadline_s = time.monotonic() + timeout_s
        name = submission if isinstance(submission, str) else submission.submission
        seen = await self.submission(name)
        pause_s = FIRST_LOOK_S
        hints = self.watch(seen.board, players=[seen.player])
        async with self._runner.hinted(hints) as pause:
            while seen.state in UNSETTLED:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise own_refusal("timeout", f"The submission is {seen.state} after {timeout_s:g} s.")
                await pause(min(pause_s, left_s))
                pause_s = min(pause_s * 2, LONGEST_LOOK_S)
                seen = await self.submission(name)
        return seen

    def watch(
        self,
        board: str,
        *,
        window: str | None = None,
        players: Sequence[str] = (),
        friends: bool = False,
        events: Sequence[str] = (),
        mode: str = "all",
        after: str | None = None,
    ) -> AsyncGenerator[FeedEvent, None]:
        """Yield the events of a board's live feed for ever, from now on or after an id. It reconnects.

        Read the board at each `begin` and `reset`. `friends` needs the player's token.
        """
        query = given(mode=mode, window=window, players=players, events=events, friends=friends)
        url = str(self._url(f"{board_path(board)}/live", query))
        headers = self._bearer() if friends else {}

        def connect(last: str | None) -> AbstractAsyncContextManager[HttpStream]:
            resumed = headers | ({"Last-Event-ID": last} if last else {})
            return self._transport.listen(HttpRequest("GET", url, resumed, silence_s=SILENCE_S))

        return follow(connect, after, self._attempts, self._runner.sleep)

    async def _post(
        self, path: str, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        # Not repeatable: after a lost answer, a second request might create a second thing.
        headers = {**headers, "Content-Type": "application/json"}
        return await self._send("POST", self._url(path), headers, json_bytes(document), repeatable=False)
