"""The asynchronous client of a trusted server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Unpack

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .assets import OCTETS, UPLOAD_S, AssetReads
from .connection import ClientOptions, board_path, segment
from .documents import json_bytes
from .families import FamilyReads, family_path
from .models import BoardOutcome, BoardOutcomes, Friends, Joined, Memberships, Operated, Removed, StoredAsset
from .signing import CONTENT_TYPE, Target, sign_for_server


class ServerClient(FamilyReads, AssetReads):
    """The client of a trusted server: it writes, corrects and removes with its registered Ed25519 key.

    Every call is safe to repeat with the same arguments: nothing happens twice, and the answer is the same.
    A board in it is as it is now.
    """

    def __init__(
        self, base_url: str, keyid: str, private_key: Ed25519PrivateKey, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(base_url, **options)
        if not isinstance(private_key, Ed25519PrivateKey):
            expected = "an Ed25519PrivateKey, which load_pem_private_key of cryptography makes of PEM bytes"
            raise TypeError(f"private_key: expected {expected} (given: {type(private_key).__name__})")
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
        return list(Removed.from_json(answer).removed)

    async def increment(
        self, board: str, operation: str, player: str, by: int, *, version: int | None = None
    ) -> dict[str, Any]:
        """Add to the score of a player, on a board that adds scores up."""
        addition = {"operation": operation, "player": player, "by": by}
        return await self._operate(f"{board_path(board)}/increments", addition, version=version)

    async def set_friends(self, player: str, operation: str, friends: Sequence[str]) -> int:
        """Replace the players that a player follows, and return how many they are."""
        body = json_bytes({"operation": operation, "friends": list(friends)})
        path = f"/v1/players/{segment(player)}/friends"
        return Friends.from_json(await self._send_signed("PUT", path, body, CONTENT_TYPE, self._sign)).total

    async def set_memberships(
        self, board: str, operation: str, player: str, segments: Mapping[str, str | None]
    ) -> Mapping[str, str]:
        """Set groups of a player, None for none, and return all groups of the player on the board."""
        change = {"operation": operation, "player": player, "segments": dict(segments)}
        return Memberships.from_json(await self._operate(f"{board_path(board)}/memberships", change)).segments

    async def set_joined(self, board: str, operation: str, player: str, *, joined: bool) -> bool:
        """Have a player join a board or leave it, and return whether the player is on it."""
        change = {"operation": operation, "player": player, "joined": joined}
        return Joined.from_json(await self._operate(f"{board_path(board)}/joins", change)).joined

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
        path = f"{family_path(family)}/boards"
        answer = await self._operate(path, {"operation": operation}, boards=listed)
        return BoardOutcomes.from_json(answer).results

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
        answer = await self._send_signed("PUT", path, content, OCTETS, self._sign, UPLOAD_S)
        return StoredAsset.from_json(answer).asset

    async def _batch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        answer = await self._post_signed(path, [dict(operation) for operation in operations], self._sign)
        return [dict(each) for each in Operated.from_json(answer).results]

    async def _operate(self, path: str, operation: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        chosen = {name: value for name, value in options.items() if value is not None}
        return await self._post_signed(path, {**operation, **chosen}, self._sign)

    def _sign(self, target: Target, body: bytes, now_s: int) -> dict[str, str]:
        parameters = self._parameters(now_s, self._keyid, "ed25519", "scoregate-server")
        return sign_for_server(self._private_key, target, body, parameters)


def _turned(action: str, names: Sequence[str], reason: str) -> list[dict[str, str]]:
    why = {"reason": reason} if reason else {}
    return [{"action": action, "board": name, **why} for name in names]
