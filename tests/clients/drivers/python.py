"""The driver of the Python clients: a request a line on standard input, an answer a line on standard output.

With `--sync` it drives the synchronous client, whose methods block.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "clients" / "python"))

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scoregate_client import (
    QueueOutcome,
    Recorder,
    Run,
    ScoregateClient,
    ScoregateError,
    SyncScoregateClient,
    claim,
    commitment,
    encode_recording,
    signing,
)

Arguments = dict[str, Any]
Command = Callable[[Arguments], Awaitable[Any]]


class Awaited:
    """A synchronous client, as if it were one of asyncio."""

    def __init__(self, client: SyncScoregateClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*words: Any, **more: Any) -> Any:
            return method(*words, **more)

        async def each(*words: Any, **more: Any) -> Any:
            for event in method(*words, **more):
                yield event

        return each if name == "watch" else call


class Session:
    """The client as it was opened last, with the runs that it opened."""

    def __init__(self, *, is_sync: bool = False) -> None:
        self._is_sync = is_sync
        self.client = self._opened("http://127.0.0.1:1")
        self.runs: dict[str, Run] = {}

    def _opened(self, base_url: str, **options: Any) -> Any:
        if self._is_sync:
            return Awaited(SyncScoregateClient(base_url, **options))
        return ScoregateClient(base_url, **options)

    async def open(self, told: Arguments) -> dict[str, Any]:
        await self.client.close()
        offset_s, now_s = told.get("clock_offset_s", 0), told.get("now_s")
        options = {name: told[name] for name in ("token", "attempts", "queue") if name in told}
        if told.get("nonce"):
            options["nonce"] = lambda: told["nonce"]
        options["clock"] = lambda: now_s if now_s is not None else time.time() + offset_s
        try:
            self.client = self._opened(told["base_url"], **options)
        except ValueError as error:
            return invalid(error)
        return {}

    async def create_player(self, told: Arguments) -> Any:
        return asdict(await self.client.create_player(told["name"]))

    async def open_run(self, told: Arguments) -> Any:
        run = await self.client.open_run(told["board"], told["build"])
        self.runs[run.ticket] = run
        return asdict(run) | {"seed": str(run.seed), "key": encoded(run.key)}

    async def submit(self, told: Arguments) -> Any:
        recording = b64decode(told["recording"]) if told.get("recording") else None
        return asdict(await self.client.submit(*self._claim(told), recording))

    async def commit(self, told: Arguments) -> Any:
        return asdict(await self.client.commit(*self._claim(told), b64decode(told["recording"])))

    async def submit_later(self, told: Arguments) -> Any:
        recording = b64decode(told["recording"]) if told.get("recording") else None
        is_committed = bool(told.get("committed"))
        await self.client.submit_later(*self._claim(told), recording, committed=is_committed)
        return {}

    async def flush(self, _: Arguments) -> Any:
        flushed = await self.client.flush()
        return {"outcomes": [*map(shown, flushed.outcomes)], "revealed": list(flushed.revealed)}

    async def waiting(self, _: Arguments) -> Any:
        return {"entries": await self.client.waiting()}

    async def reveals(self, _: Arguments) -> Any:
        return {"reveals": [asdict(reveal) for reveal in await self.client.reveals()]}

    async def reveal(self, told: Arguments) -> Any:
        await self.client.reveal(told["submission"], b64decode(told["recording"]))
        return {}

    async def submission(self, told: Arguments) -> Any:
        return asdict(await self.client.submission(told["submission"]))

    async def entries(self, told: Arguments) -> Any:
        return asdict(await self.client.entries(told.pop("board"), **told))

    async def entry(self, told: Arguments) -> Any:
        return asdict(await self.client.entry(told["board"], told["player"]))

    async def around(self, told: Arguments) -> Any:
        entries = await self.client.around(told["board"], told["player"], radius=told["radius"])
        return {"entries": [asdict(entry) for entry in entries]}

    async def boards(self, told: Arguments) -> Any:
        return asdict(await self.client.boards(**told))

    async def board(self, told: Arguments) -> Any:
        return asdict(await self.client.board(told["board"]))

    async def friends(self, _: Arguments) -> Any:
        return {"friends": [friend.player for friend in (await self.client.friends()).friends]}

    async def follow(self, told: Arguments) -> Any:
        return {"total": await self.client.follow(told["player"])}

    async def unfollow(self, told: Arguments) -> Any:
        return {"total": await self.client.unfollow(told["player"])}

    async def set_membership(self, told: Arguments) -> Any:
        return {"segments": await self.client.set_membership(told["board"], told["segment"], told["group"])}

    async def wait_until_settled(self, told: Arguments) -> Any:
        return asdict(await self.client.wait_until_settled(told["submission"], told["timeout_s"]))

    async def families(self, _: Arguments) -> Any:
        return {"families": [asdict(family) for family in await self.client.families()]}

    async def family_boards(self, told: Arguments) -> Any:
        return asdict(await self.client.family_boards(told.pop("family"), **told))

    async def standings(self, told: Arguments) -> Any:
        return asdict(await self.client.standings(told.pop("family"), told.pop("player"), **told))

    async def entries_on(self, told: Arguments) -> Any:
        return {
            "entries": [asdict(each) for each in await self.client.entries_on(told["player"], told["boards"])]
        }

    async def asset(self, told: Arguments) -> Any:
        return {"content": encoded(await self.client.asset(told["board"], told["digest"]))}

    async def watch(self, told: Arguments) -> Any:
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(told["timeout_s"]):
            async with aclosing(self.client.watch(told["board"], window=told.get("window"))) as watched:
                while len(events) < told["count"]:
                    event = await anext(watched)
                    events.append({"event": event.kind, "id": event.id, "data": event.data})
        return {"events": events}

    def _claim(self, told: Arguments) -> tuple[Run, int, int, dict[str, int]]:
        return self.runs[told["ticket"]], told["score"], told["ticks"], dict(told["stats"])


async def sign(told: Arguments) -> Any:
    target = signing.Target(
        told["method"], told["authority"], told["path"], told["query"], told["content_type"]
    )
    parameters = signing.Parameters(
        **{name: told[name] for name in ("created", "expires", "nonce", "keyid", "tag", "alg")}
    )
    key, body = b64decode(told["key"]), b64decode(told["body"])
    if told["algorithm"] == "ed25519":
        headers = signing.sign_for_server(Ed25519PrivateKey.from_private_bytes(key), target, body, parameters)
    else:
        headers = signing.sign_for_run(key, target, body, parameters)
    params_text = signing.signature_params(parameters)
    base = signing.signature_base(target, headers["Content-Digest"], params_text)
    return {"headers": headers, "base": base.decode()}


async def content_digest(told: Arguments) -> Any:
    return {"content_digest": signing.content_digest(b64decode(told["body"]))}


async def body_of(told: Arguments) -> Any:
    claimed = told["score"], told["ticks"], dict(told["stats"])
    recording = b64decode(told["recording"]) if told.get("recording") else None
    if told.get("committed"):
        return {"body": encoded(commitment(*claimed, recording or b""))}
    return {"body": encoded(claim(*claimed, recording))}


async def recorded(told: Arguments) -> Any:
    hashes = iter([int(each, 16) for each in told["checkpoints"]])
    try:
        recorder = Recorder(told["checkpoint_ticks"])
        for word in chain.from_iterable(repeat(word, length) for length, word in told["inputs"]):
            if recorder.tick(word):
                recorder.checkpoint(next(hashes, -1))
        for spare in hashes:
            recorder.checkpoint(spare)
        return {"recording": encoded(recorder.finish())}
    except ValueError as error:
        return invalid(error)


async def recording_of(told: Arguments) -> Any:
    inputs = [*chain.from_iterable(repeat(word, length) for length, word in told["inputs"])]
    try:
        made = encode_recording(
            inputs, [int(each, 16) for each in told["checkpoints"]], told["checkpoint_ticks"]
        )
    except ValueError as error:
        return invalid(error)
    return {"recording": encoded(made)}


def shown(outcome: QueueOutcome) -> dict[str, Any]:
    """An outcome of a flush, without what is not there."""
    told: dict[str, Any] = {"outcome": outcome.outcome}
    told |= {"ticket": outcome.entry.ticket} if outcome.entry else {}
    told |= {"receipt": asdict(outcome.receipt)} if outcome.receipt else {}
    told |= {"problem": {"reason": outcome.problem.reason}} if outcome.problem else {}
    return told


def invalid(error: ValueError) -> dict[str, Any]:
    """The answer to arguments that the client refuses."""
    return {"error": {"status": 0, "reason": "invalid", "detail": str(error), "retry_after_s": None}}


def encoded(content: bytes) -> str:
    return b64encode(content).decode()


async def answer(commands: Mapping[str, Command], told: Arguments) -> dict[str, Any]:
    """The answer to one request, an error of the client included."""
    do = told.pop("do")
    if do not in commands:
        return {"error": {"status": 0, "reason": "unsupported", "detail": do, "retry_after_s": None}}
    try:
        made = await commands[do](told)
    except ScoregateError as error:
        told_error = {"status": error.status, "reason": error.reason, "detail": str(error)}
        return {"error": told_error | {"retry_after_s": error.retry_after_s}}
    return made if isinstance(made, dict) and "error" in made else {"ok": made}


async def serve() -> None:
    session = Session(is_sync="--sync" in sys.argv)
    names = [name for name in vars(Session) if not name.startswith("_")]
    commands: dict[str, Command] = {name: getattr(session, name) for name in names}
    commands |= {"sign": sign, "content_digest": content_digest, "encode_recording": recording_of}
    commands |= {"record": recorded, "claim": body_of}
    read = partial(asyncio.to_thread, sys.stdin.readline)
    while line := await read():
        sys.stdout.write(json.dumps(await answer(commands, json.loads(line))) + "\n")
        sys.stdout.flush()
    await session.client.close()


if __name__ == "__main__":
    asyncio.run(serve())
