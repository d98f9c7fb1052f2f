"""Sends a seeded random history over HTTP, and writes down in the oracle what was acknowledged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.oracle.calendars import Span, span_at
from tests.oracle.oracle import Oracle
from tests.support.attack import registered
from tests.support.clock import ShiftedClock
from tests.support.groups import by_server
from tests.support.harness import Answer, Harness

PLAYERS = tuple(f"p{number}" for number in range(16))
VALUES = ("de", "fr", "jp")
BEGIN_MS = int(datetime(2031, 10, 25, 20, tzinfo=UTC).timestamp() * 1000)
"""A Saturday evening: the clocks of Berlin are put back in the night, those of Havana a week later. It is ahead of us, since
Redis lets keys go by its own clock."""

EXACT = 2**53 - 1
STEPS_S = (0, 0, 0, 0.001, 0.002, 0.5, 7, 90, 1800, 7200)
PAST_S = (0.001, 1, 60, 3600, 20_000, 90_000, 200_000)
FIELDS = ("kills", "deaths", "coins", "lives")
FIELD_VALUES = (0, 1, 2, 3, -1, EXACT, -EXACT)
REFUSED = {"stale-version"}
"""What a correct operation may be refused as; then nothing was written."""


class HandClock(ShiftedClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms = BEGIN_MS

    def __call__(self) -> int:
        return self.at_ms

    def shift(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1000)


class Driver:
    """One deployment with its oracle. `operations` counts what was acknowledged."""

    def __init__(self, harness: Harness, oracle: Oracle, random: Random, key: Ed25519PrivateKey) -> None:
        self.harness = harness
        self.oracle = oracle
        self.random = random
        self.operations = 0
        self.instants: list[int] = []
        self.past: dict[str, set[Span]] = {board: set() for board in oracle.policies}
        self._key = key
        self._revoked: list[tuple[str, str]] = []
        self._steps: list[tuple[int, Callable[[str], Awaitable[None]]]] = [
            (50, self._write),
            (8, self._batch),
            (8, self._correct),
            (7, self._remove),
            (4, self._take_back),
            (4, self._reinstate),
            (10, self._join),
            (6, self._put_into),
            (3, self._befriend),
        ]

    @classmethod
    async def begin(cls, harness: Harness, policies: dict[str, Any], random: Random) -> Driver:
        """A driver of fresh boards, most of whose players have joined what has to be joined."""
        oracle = Oracle(policies)
        driver = cls(harness, oracle, random, await registered(harness))
        for board, policy in policies.items():
            described = await harness.get(f"/v1/boards/{board}")
            oracle.resolutions[board] = described.body["tie_resolutions_ms"]
            if policy["joins"] == "required":
                for player in PLAYERS[:8]:
                    await driver._set_joined(board, player, joined=True)
        return driver

    @property
    def now_ms(self) -> int:
        return self.harness.clock()

    async def run(self, operations: int) -> None:
        """That many steps, with time passing between them."""
        weights = [weight for weight, _ in self._steps]
        for _ in range(operations):
            board = self.random.choice(list(self.oracle.policies))
            [(_, step)] = self.random.choices(self._steps, weights)
            await step(board)
            self.instants.append(self.now_ms)
            self.harness.clock.shift(self.random.choice(STEPS_S))

    def spans(self, board: str) -> list[Span]:
        """The current windows of a board, and those over that anything was achieved in."""
        policy = self.oracle.policies[board]
        current = {span_at(policy, kind, self.now_ms) for kind in policy["windows"]}
        return sorted(current | self.past[board])

    async def _send(self, method: str, path: str, body: Any, status: int) -> Answer | None:
        """The answer to a trusted server's request; None where it was refused for a reason."""
        answer = await self.harness.send(by_server(self.harness, self._key, method, path, body))
        if answer.problem in REFUSED:
            return None
        assert status == answer.status, (path, body, answer.raw)
        self.operations += 1
        return answer

    def _operation(self, board: str, player: str) -> dict[str, Any]:
        return {"operation": f"op-{self.random.getrandbits(60):x}", "player": player}

    def _new(self, board: str) -> dict[str, Any]:
        """A write of a random score, of which many are equal."""
        policy = self.oracle.policies[board]
        lowest, highest = policy["score"]["minimum"], policy["score"]["maximum"]
        near = max(lowest, min(0, highest - 12))
        score = self.random.choice([lowest, highest, *(near + self.random.randint(0, 12) for _ in range(12))])
        if policy["operator"] == "sum" and abs(score) > 2**40:
            score = near
        body = self._operation(board, self.random.choice(PLAYERS)) | {"score": score}
        names = [each["stat"] for each in policy.get("tie_fields", [])]
        if names:
            given = self.random.sample(names, self.random.randint(0, len(names)))
            body["stats"] = {name: self.random.choice(FIELD_VALUES) for name in given}
        if self.random.random() < 0.35:
            body["achieved_at"] = _text(self.now_ms - int(1000 * self.random.choice(PAST_S)))
        if self.random.random() < 0.15:
            body["version"] = self.now_ms // 1000 - BEGIN_MS // 1000 + self.random.randint(1, 40)
        return body

    def _note(self, board: str, body: dict[str, Any], submission: str) -> None:
        """Writes down a score that was taken."""
        said = body.get("achieved_at")
        achieved_ms = round(datetime.fromisoformat(said).timestamp() * 1000) if said else self.now_ms
        stats, version = body.get("stats", {}), body.get("version")
        facts = {"achieved_ms": achieved_ms, "at_ms": self.now_ms, "stats": stats, "version": version}
        self.oracle.write(board, body["player"], submission, body["score"], **facts)
        policy = self.oracle.policies[board]
        self.past[board] |= {span_at(policy, kind, achieved_ms) for kind in policy["windows"]}

    async def _write(self, board: str) -> None:
        body = self._new(board)
        if self.oracle.policies[board]["operator"] == "sum" and self.random.random() < 0.5:
            increment = {name: body[name] for name in ("operation", "player", "version") if name in body}
            path = f"/v1/boards/{board}/increments"
            answer = await self._send("POST", path, increment | {"by": body["score"]}, 202)
            body = increment | {"score": body["score"]}
        else:
            answer = await self._send("POST", f"/v1/boards/{board}/entries", body, 202)
        if answer:
            self._note(board, body, answer.body["submission"])

    async def _correct(self, board: str) -> None:
        counting = self.oracle.counting(board)
        if not counting:
            return
        submission, player, _ = self.random.choice(counting)
        body = self._new(board) | {"player": player, "replaces": submission}
        if answer := await self._send("POST", f"/v1/boards/{board}/entries", body, 202):
            self.oracle.turn(submission, self.now_ms, counts=False)
            self._note(board, body, answer.body["submission"])

    async def _batch(self, board: str) -> None:
        """Several operations at one instant, each by itself."""
        bodies = [self._new(board) for _ in range(self.random.randint(2, 8))]
        told = [{"action": "write"} | body for body in bodies]
        answer = await self._send("POST", f"/v1/boards/{board}/entries:batch", told, 200)
        assert answer is not None
        for body, result in zip(bodies, answer.body["results"], strict=True):
            if result["status"] == "done":
                self._note(board, body, result["result"]["submission"])
            else:
                assert result["problem"]["type"].rsplit("/", 1)[1] in REFUSED, result

    async def _remove(self, board: str) -> None:
        """One submission, or all that counts for a player, up to a version or without one."""
        if not (counting := self.oracle.counting(board)):
            return
        submission, player, _ = self.random.choice(counting)
        body = self._operation(board, player)
        due = {each for each, _, _ in self.oracle.counting(board, player)}
        how = self.random.choice(("one", "one", "all", "version"))
        if how == "one":
            body, due = body | {"submission": submission}, {submission}
        elif how == "version":
            body["version"] = self.now_ms // 1000 - BEGIN_MS // 1000 + self.random.randint(-40, 20)
            if body["version"] < 1:
                return
            versions = {each: version for each, _, version in self.oracle.counting(board, player)}
            due = {
                each for each, version in versions.items() if version is None or version <= body["version"]
            }
        if answer := await self._send("POST", f"/v1/boards/{board}/removals", body, 200):
            assert due == set(answer.body["removed"]), (board, body, due, answer.body)
            for each in due:
                self.oracle.turn(each, self.now_ms, counts=False)

    async def _take_back(self, board: str) -> None:
        if counting := self.oracle.counting(board):
            submission, _, _ = self.random.choice(counting)
            await self._decide(submission, "revoke", counts=False)
            self._revoked.append((board, submission))

    async def _reinstate(self, _board: str) -> None:
        if self._revoked:
            _, submission = self._revoked.pop(self.random.randrange(len(self._revoked)))
            await self._decide(submission, "reinstate", counts=True)

    async def _decide(self, submission: str, what: str, *, counts: bool) -> None:
        path = f"/v1/moderation/cases/{submission}/{what}"
        answer = await self.harness.post(
            path, {"code": "other", "note": "by chance"}, self.harness.moderator()
        )
        assert 200 == answer.status, answer.raw
        self.operations += 1
        self.oracle.turn(submission, self.now_ms, counts=counts)

    async def _join(self, board: str) -> None:
        if self.oracle.policies[board]["joins"] == "required":
            await self._set_joined(board, self.random.choice(PLAYERS), joined=self.random.random() < 0.6)

    async def _set_joined(self, board: str, player: str, *, joined: bool) -> None:
        body = self._operation(board, player) | {"joined": joined}
        await self._send("POST", f"/v1/boards/{board}/joins", body, 200)
        self.oracle.join(board, player, self.now_ms, joined=joined)

    async def _put_into(self, board: str) -> None:
        segments = self.oracle.policies[board].get("segments", [])
        if segments:
            player, segment = self.random.choice(PLAYERS), self.random.choice(segments)
            value = self.random.choice((*VALUES, *VALUES, None))
            body = self._operation(board, player) | {"segments": {segment: value}}
            await self._send("POST", f"/v1/boards/{board}/memberships", body, 200)
            self.oracle.put_into(board, player, segment, value)

    async def _befriend(self, board: str) -> None:
        player, *friends = self.random.sample(PLAYERS, self.random.randint(1, 8))
        body = {"operation": self._operation(board, player)["operation"], "friends": friends}
        await self._send("PUT", f"/v1/players/{player}/friends", body, 200)
        self.oracle.befriend(player, friends)


def _text(at_ms: int) -> str:
    """An instant by RFC 3339."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
