"""Tools of the attack tests: a hostile request that must leave nothing, beside an honest one."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.edge.auth.tickets import Ticket, new_run_id
from scoregate.commands.keys import register
from tests.support.counting import counts
from tests.support.harness import Answer, Harness, Request, Run
from tests.support.raw import as_bytes, exchange

CLAIM = {"score": 120, "ticks": 60}
OTHER_CLAIM = {"score": 121, "ticks": 60}
INVALID = (401, "signature-invalid")
MALFORMED = (400, "signature-malformed")
COVERAGE = (401, "signature-coverage")
MISSING = (401, "signature-missing")
EXPIRED = (401, "signature-expired")


async def a_run(harness: Harness, board: str = "sprint") -> Run:
    return await harness.open_run(board=board)


def honest(harness: Harness, run: Run, claim: Any = CLAIM, **signing: Any) -> Request:
    return harness.signed(run, claim, board=run.info["board"], **signing)


async def rows(harness: Harness) -> int:
    """Submissions in the ledger, on any board."""
    found = [await harness.edge.ledger.read(counts(board)) for board in harness.edge.catalogue.of_files]
    return sum(sum(states.values()) for states in found)


async def refuse(harness: Harness, hostile: Request | bytes, *expected: tuple[int, str]) -> Answer:
    """The refusal of a request; nothing may have been stored for it."""
    before = await rows(harness)
    raw = hostile if isinstance(hostile, bytes) else as_bytes(hostile, harness.authority)
    answer = await exchange(harness.authority, raw)
    assert (answer.status, answer.problem) in expected, answer.raw
    assert before == await rows(harness)
    return answer


def assert_reused(operation: str, answer: Answer) -> None:
    """The request was refused for its operation id, which has stood for other content, and told by that id."""
    assert (422, "idempotency-mismatch") == (answer.status, answer.problem), answer.raw
    assert answer.body["detail"].startswith(f"{operation}: ")
    assert answer.body["detail"].endswith("take a new one")


async def accept(harness: Harness, request: Request) -> Answer:
    """The S01 control: the honest request passes, for the first time."""
    before = await rows(harness)
    answer = await harness.send(request)
    assert (202, None) == (answer.status, answer.headers.get("Idempotency-Replayed")), answer.raw
    assert before + 1 == await rows(harness)
    return answer


async def registered(harness: Harness, key_id: str = "eu-1", *boards: str) -> Ed25519PrivateKey:
    """The private key of a trusted server that was just registered."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    await register(harness.edge.settings, key_id, base64.b64encode(public).decode(), boards or ("*",))
    return private


ENTRY = {"operation": "op-1", "player": "ada", "score": 7}


def issued(
    harness: Harness, player: str = "p1", board: str = "sprint", *, age_s: float = 0, lifetime_s: int = 600
) -> Run:
    """A run whose ticket was issued at the source, past the limits on opening runs."""
    now_ms = harness.clock() - int(age_s * 1000)
    ticket = Ticket(
        new_run_id(now_ms), board, player, "b-1", bytes(32), 7, now_ms, now_ms + lifetime_s * 1000
    )
    text, key = harness.edge.tickets.issue(ticket)
    info = {
        "run": ticket.run,
        "ticket": text,
        "key": base64.b64encode(key).decode(),
        "board": board,
        "player": player,
    }
    return Run(info, "")


async def as_server(harness: Harness, private: Ed25519PrivateKey, entry: Any, **how: Any) -> Answer:
    """The answer to a trusted server's write to the vault."""
    return await harness.send(harness.server_signed(private, "eu-1", entry, **({"board": "vault"} | how)))


@contextmanager
def about(case: object) -> Iterator[None]:
    """Have a failure say which of the cases of a test it is in."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case of {case!r:.200}")
        raise


async def until(is_so: Callable[[], Awaitable[object]], *, within_s: float = 30) -> None:
    """Returns once `is_so` gives something true."""
    deadline = time.monotonic() + within_s
    while not await is_so():
        assert time.monotonic() < deadline, "it never came about"
        await asyncio.sleep(0.005)
