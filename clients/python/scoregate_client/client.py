"""The asynchronous clients: one for a player's game, one for a trusted server."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .assets import OCTETS, UPLOAD_TIMEOUT, AssetReads
from .connection import board_path, json_bytes, segment
from .families import FamilyReads, board_outcomes, family_path
from .feed import FEED_TIMEOUT, FeedEvent, follow
from .models import BoardOutcome, Entry, EntryPage, Player, Reveal, Run, Submission
from .signing import Parameters, Target, sign_for_run, sign_for_server

SIGNATURE_LIFETIME_S = 300
"""The longest lifetime that the gateway allows: a repetition sends the same signature."""


class ScoregateClient(FamilyReads, AssetReads):
    """The client of one player's game: it opens runs, submits them and reads boards.

    `token` is the player's bearer token; `create_player` fetches one. Every method raises `ScoregateError`
    for a refusal, and with status 0 if no attempt reached the gateway.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        session: aiohttp.ClientSession | None = None,
        attempts: int = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(base_url, session=session, attempts=attempts, clock=clock)
        self.token = token

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
        encoded = {} if recording is None else {"recording": b64encode(recording).decode("ascii")}
        return await self._submit(run, {"score": score, "ticks": ticks, "stats": dict(stats), **encoded})

    async def commit(
        self, run: Run, score: int, ticks: int, stats: Mapping[str, int], recording: bytes
    ) -> Submission:
        """Submit a run with its recording's digest alone, on a board that offers this (`reveal_s`).

        Keep the recording as long as the run is pending, or counts without being verified. Send it with
        `reveal` when `reveals` lists it.
        """
        digest = {
            "recording_digest": f"sha256:{sha256(recording).hexdigest()}",
            "recording_bytes": len(recording),
        }
        return await self._submit(run, {"score": score, "ticks": ticks, "stats": dict(stats), **digest})

    async def reveals(self) -> tuple[Reveal, ...]:
        """Return up to 100 recordings that the gateway requests from this player, the next deadline first."""
        document = await self._get("/v1/reveals", self._bearer())
        return tuple(Reveal.from_json(item) for item in document["reveals"])

    async def reveal(self, submission: str, recording: bytes) -> None:
        """Send a requested recording, and return when the gateway has stored it. Safe to repeat."""
        headers = {**self._bearer(), "Content-Type": "application/octet-stream"}
        url = self._url(f"/v1/submissions/{segment(submission)}/recording")
        await self._send("PUT", url, headers, recording)

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

    async def _submit(self, run: Run, claim: Mapping[str, Any]) -> Submission:
        def sign(target: Target, body: bytes, now_s: int) -> dict[str, str]:
            return sign_for_run(
                run.key, target, body, _parameters(now_s, run.ticket, "hmac-sha256", "scoregate-run")
            )

        return Submission.from_json(await self._post_signed(f"{board_path(run.board)}/scores", claim, sign))

    async def submission(self, submission: str) -> Submission:
        """Return a submission of this player in its current state."""
        return Submission.from_json(await self._get(f"/v1/submissions/{segment(submission)}", self._bearer()))

    async def entries(
        self, board: str, *, window: str = "alltime", offset: int = 0, limit: int = 25
    ) -> EntryPage:
        """Return the page of the board that starts at rank `offset` + 1."""
        path = f"{board_path(board)}/entries"
        return EntryPage.from_json(await self._get(path, window=window, offset=offset, limit=limit))

    async def entry(self, board: str, player: str, *, window: str = "alltime") -> Entry:
        """Return a player's entry. Raises a `ScoregateError` named `not-found` if there is none."""
        return Entry.from_json(await self._get(_entry_path(board, player), window=window))

    async def around(self, board: str, player: str, *, radius: int = 5) -> tuple[Entry, ...]:
        """Return a player's entry and those up to `radius` ranks above and below it."""
        document = await self._get(f"{_entry_path(board, player)}/around", radius=radius)
        return tuple(Entry.from_json(item) for item in document["entries"])

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
        query: dict[str, str | int] = {"mode": mode}
        lists = {"window": [window] if window else [], "players": players, "events": events}
        query |= {name: ",".join(values) for name, values in lists.items() if values}
        query |= {"friends": "true"} if friends else {}
        url = self._url(f"{board_path(board)}/live", **query)
        headers = self._bearer() if friends else {}

        async def connect(last: str | None) -> aiohttp.ClientResponse:
            resumed = headers | ({"Last-Event-ID": last} if last else {})
            return await self._opened().get(url, headers=resumed, timeout=FEED_TIMEOUT, allow_redirects=False)

        return follow(connect, after, self._attempts)

    async def _post(
        self, path: str, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        # Not repeatable: after a lost answer, a second request might create a second thing.
        headers = {**headers, "Content-Type": "application/json"}
        return await self._send("POST", self._url(path), headers, json_bytes(document), repeatable=False)

    def _bearer(self) -> dict[str, str]:
        if self.token is None:
            raise ValueError("A token is needed: pass one, or call create_player first.")
        return {"Authorization": f"Bearer {self.token}"}


class ServerClient(FamilyReads, AssetReads):
    """The client of a trusted server: it writes, corrects and removes with its registered Ed25519 key.

    Every call is safe to repeat with the same arguments: nothing happens twice, and the answer is the same.
    A board in it is as it is now.
    """

    def __init__(
        self,
        base_url: str,
        keyid: str,
        private_key: Ed25519PrivateKey,
        *,
        session: aiohttp.ClientSession | None = None,
        attempts: int = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(base_url, session=session, attempts=attempts, clock=clock)
        self._keyid = keyid
        self._private_key = private_key

    async def write_entry(
        self,
        board: str,
        operation: str,
        player: str,
        score: int,
        *,
        version: int | None = None,
        replaces: str | None = None,
        stats: Mapping[str, int] | None = None,
        details: Mapping[str, Any] | None = None,
        achieved_at: datetime | str | None = None,
    ) -> dict[str, Any]:
        """Write a score and return the answer. `operation` is your own id, which is never written twice.

        `replaces` names a submission of the player that this one corrects. `version` orders the write among
        removals of the player; a late one raises a `ScoregateError` named `stale-version`. `achieved_at`,
        a `datetime` with a zone or RFC 3339, is the time of the score; `details` has `integers` and `object`.
        """
        entry = {"operation": operation, "player": player, "score": score}
        options = {
            "version": version,
            "replaces": replaces,
            "stats": None if stats is None else dict(stats),
            "details": None if details is None else dict(details),
            "achieved_at": achieved_at.isoformat() if isinstance(achieved_at, datetime) else achieved_at,
        }
        return await self._operate(f"{board_path(board)}/entries", entry, **options)

    async def remove(
        self,
        board: str,
        operation: str,
        player: str,
        *,
        submission: str | None = None,
        version: int | None = None,
        reason: str | None = None,
    ) -> list[str]:
        """Remove a submission, or all of the player's up to `version`. Return those that no longer count."""
        removal = {"operation": operation, "player": player}
        options = {"submission": submission, "version": version, "reason": reason}
        answer = await self._operate(f"{board_path(board)}/removals", removal, **options)
        return list(answer["removed"])

    async def write_batch(self, board: str, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Perform up to 500 operations, all or none, and return the answer to each.

        Each has an `action`, `write` or `remove`, and the members that the methods of those names send. If
        one is wrong, `problem["errors"]` of the `ScoregateError` named `batch-refused` says which and why.
        """
        return await self._batch(f"{board_path(board)}/entries/batch", operations)

    async def write_each(self, board: str, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Perform up to 1,000 operations, each by itself, and return their outcomes.

        They are what `write_batch` takes. An outcome has a `status`, `done` or `refused`, and a `result` or a
        `problem`. A refusal raises nothing.
        """
        return await self._batch(f"{board_path(board)}/entries:batch", operations)

    async def operate_boards(
        self, family: str, operation: str, boards: Sequence[Mapping[str, Any]]
    ) -> tuple[BoardOutcome, ...]:
        """Perform up to 1,000 operations on boards of a family, each by itself, and return their outcomes.

        Each has an `action` (`open`, `change`, `close`, `reopen`, `delete`), the `board`'s name, and what the
        HTTP reference lists for it. `operation` is your own id, which is performed once. A refusal raises
        nothing.
        """
        listed = [dict(board) for board in boards]
        return board_outcomes(
            await self._operate(f"{family_path(family)}/boards", {"operation": operation}, boards=listed)
        )

    async def open_boards(
        self, family: str, operation: str, boards: Sequence[Mapping[str, Any]]
    ) -> tuple[BoardOutcome, ...]:
        """Open boards: each has a `board` and a `title`, and may have `metadata`, `parameters` and more."""
        return await self.operate_boards(family, operation, [{**board, "action": "open"} for board in boards])

    async def change_boards(
        self, family: str, operation: str, boards: Sequence[Mapping[str, Any]]
    ) -> tuple[BoardOutcome, ...]:
        """Change boards: each has a `board`, the `version` that you saw, and what becomes different."""
        changes = [{**board, "action": "change"} for board in boards]
        return await self.operate_boards(family, operation, changes)

    async def close_boards(
        self, family: str, operation: str, names: Sequence[str], *, reason: str = ""
    ) -> tuple[BoardOutcome, ...]:
        """Close boards: they take no new runs. `reason` stays in the log."""
        return await self.operate_boards(family, operation, _turned("close", names, reason))

    async def reopen_boards(
        self, family: str, operation: str, names: Sequence[str], *, reason: str = ""
    ) -> tuple[BoardOutcome, ...]:
        """Reopen closed boards."""
        return await self.operate_boards(family, operation, _turned("reopen", names, reason))

    async def delete_boards(
        self, family: str, operation: str, names: Sequence[str], *, reason: str
    ) -> tuple[BoardOutcome, ...]:
        """Delete boards for good: nobody finds them any more. The ledger keeps them, and the `reason`."""
        return await self.operate_boards(family, operation, _turned("delete", names, reason))

    async def store_asset(self, family: str, content: bytes) -> str:
        """Store a file of up to 8 MiB, and return its digest, with which boards of the family are opened.

        A file that no board names is removed after a day: open the board soon.
        """
        name = sha256(content).hexdigest()
        path = f"{family_path(family)}/assets/{name}"
        answer = await self._send_signed("PUT", path, content, OCTETS, self._sign, UPLOAD_TIMEOUT)
        return str(answer["asset"])

    async def _batch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        answer = await self._post_signed(path, [dict(operation) for operation in operations], self._sign)
        return list(answer["results"])

    async def _operate(self, path: str, operation: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        chosen = {name: value for name, value in options.items() if value is not None}
        return await self._post_signed(path, {**operation, **chosen}, self._sign)

    def _sign(self, target: Target, body: bytes, now_s: int) -> dict[str, str]:
        parameters = _parameters(now_s, self._keyid, "ed25519", "scoregate-server")
        return sign_for_server(self._private_key, target, body, parameters)


def _parameters(now_s: int, keyid: str, alg: str, tag: str) -> Parameters:
    return Parameters(now_s, now_s + SIGNATURE_LIFETIME_S, secrets.token_urlsafe(18), keyid, tag, alg)


def _turned(action: str, names: Sequence[str], reason: str) -> list[dict[str, str]]:
    why = {"reason": reason} if reason else {}
    return [{"action": action, "board": name, **why} for name in names]


def _entry_path(board: str, player: str) -> str:
    return f"{board_path(board)}/entries/{segment(player)}"
