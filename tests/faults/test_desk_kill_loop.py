"""Moderators who decide, ban and batch, and parts killed under them: what was answered is in the log, once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis import Redis

from gateway.edge.auth.moderators import ModeratorRole
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import load_settings
from gateway.wiring import open_ledger
from policies.vocabulary import REMARKS, State
from tests.support import boards, moderators
from tests.support.deployment import Client, Deployment, client_of, deployed, eventually
from tests.support.harness import Answer, Request
from tests.support.ledger import new_submission, rows
from tests.support.oracle import due_on_board, shown_on_board
from tests.support.ports import free_port
from tests.support.preloaded import Process
from tests.support.seeds import fault_seed
from tests.support.thorough import examples
from tests.support.valkey import running_valkey

PARTS = ("serve 1", "serve 2", "steward 1", "steward 2")
FATAL = {
    "serve": ("after-settle", "inside-settle", "after-project"),
    "steward": ("after-settle", "before-fenced-write"),
}
"""Points at which a part that was started again dies anew, once it gets there."""

KILLS = examples(4)
BETWEEN = 8
"""Requests that are answered between two kills, however slow the machine is."""

RUNS = 60
PLAYERS = tuple(f"player-{number}" for number in range(5))
BANNED_MS = 1_500
CODES = {"approve": "plausible", "reinstate": "plausible", "reject": "impossible", "revoke": "impossible",
         "hold": "second-look", "undo": "mistake"}  # fmt: skip


class Desk:
    """A deployment whose parts die, its moderators, and what they were answered by the note that each request had."""

    def __init__(self, house: Deployment, chance: random.Random) -> None:
        self.house = house
        self.chance = chance
        self.other_edge = f"127.0.0.1:{free_port()}"
        self.statuses: dict[str, int | None] = {}
        self.answered = 0
        self.is_over = False
        self.clients: tuple[Client, ...] = ()
        self.at_work: list[asyncio.Task[None]] = []
        self._parts = {part: self._start(part) for part in PARTS}

    def _start(self, part: str, failpoint: str | None = None) -> Process:
        own = {"bind": self.other_edge} if part == "serve 2" else {}
        return self.house.start(part.split(maxsplit=1)[0], failpoint, **own)

    async def supervise(self) -> None:
        while True:
            for part, process in self._parts.items():
                if process.poll() is not None:
                    self._parts[part] = self._start(part)
            await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill a part, and start it again so that it dies once more, at a point at which much is half done."""
        part = self.chance.choice(PARTS)
        self._parts[part].kill()
        self._parts[part].wait()
        self._parts[part] = self._start(part, self.chance.choice(FATAL[part.split()[0]]))
        goal = self.answered + BETWEEN
        await eventually(
            lambda: self.answered >= goal or any(each.done() for each in self.at_work), self.house.log
        )

    async def ask(
        self, token: str, path: str, body: Any = None, *, method: str = "POST", **headers: str
    ) -> Answer | None:
        """The answer of whichever edge gives one, to the same request each time; None after so many tries."""
        content = b"" if body is None else json.dumps(body).encode()
        own = {"Authorization": f"Bearer {token}"} | ({"Content-Type": "application/json"} if content else {})
        request = Request(method, f"/v1/moderation/{path}", content, own | headers)
        answer = None
        for _ in range(20):
            with suppress(aiohttp.ClientError, TimeoutError):
                answer = await self.chance.choice(self.clients).harness.send(request)
                assert answer.status != 500, answer.raw
                if answer.status != 503:
                    break
            await asyncio.sleep(0.1)
        is_known = answer is not None and answer.status != 503
        if body and "note" in body:
            self.statuses[body["note"]] = answer.status if answer and is_known else None
        self.answered += is_known
        return answer if is_known else None

    def note(self) -> str:
        return f"note {len(self.statuses)} of {self.chance.randrange(10**9)}"


async def decides(desk: Desk, token: str) -> None:
    """Does whatever may be done on a submission, as the case has it."""
    run = f"run-{desk.chance.randrange(RUNS)}"
    case = await desk.ask(token, f"cases/{run}", method="GET")
    if case is None or not case.body.get("decisions"):
        return
    kind = desk.chance.choice(case.body["decisions"])["decision"]
    body = {"code": CODES[kind], "note": desk.note()}
    for _ in range(desk.chance.choice((1, 1, 2))):
        await desk.ask(token, f"cases/{run}/{kind}", body, **{"If-Match": case.headers["ETag"]})


async def bans(desk: Desk, token: str) -> None:
    """Bans somebody, for a while or until it is lifted."""
    player, note = desk.chance.choice(PLAYERS), desk.note()
    body = {"operation": note.replace(" ", "-"), "code": "cheating", "note": note}
    is_timed = desk.chance.random() < 0.5
    until = {"until": rfc3339(wall_clock() + BANNED_MS)} if is_timed else {}
    banned = await desk.ask(token, f"players/{player}/bans", body | until)
    if banned and banned.status == 201 and not is_timed:
        await desk.ask(token, f"players/{player}/bans/{banned.body['ban']}", method="DELETE")


async def batches(desk: Desk, token: str) -> None:
    """Decides on all that is in a state, and may take it back."""
    action, note = desk.chance.choice(("approve", "revoke", "reinstate")), desk.note()
    body = {"operation": note.replace(" ", "-"), "code": CODES[action], "note": note, "action": action,
            "selection": {"board": "tiny"}}  # fmt: skip
    made = await desk.ask(token, "batches", body)
    if made is None or made.body.get("state") != "previewed":
        return
    batch = f"batches/{made.body['batch']}"
    await desk.ask(token, f"{batch}/apply", **{"If-Match": made.body["etag"]})
    if desk.chance.random() < 0.6:
        await desk.ask(token, f"{batch}/reverse")


async def keeps_on(desk: Desk, token: str, *acts: Callable[[Desk, str], Awaitable[None]]) -> None:
    while not desk.is_over:
        await desk.chance.choice(acts)(desk, token)
        await asyncio.sleep(desk.chance.uniform(0, 0.1))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Two edges and two stewards over a board of held runs, with nobody at the desk yet."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, steward_lease_s=1.5) as house:
        boards.write_board(house.policies, writes="open")
        async with open_ledger(load_settings(**house.settings)) as ledger:
            for number in range(RUNS):
                facts: dict[str, Any] = {
                    "player": PLAYERS[number % len(PLAYERS)],
                    "score": number % 12,
                    "recording": None,
                }
                run = new_submission(
                    f"run-{number}", state=State.HELD, at_ms=wall_clock() - RUNS + number, **facts
                )
                await ledger.append(run)
        desk = Desk(house, random.Random(fault_seed()))
        await house.is_answering()
        async with client_of(house) as one, client_of(house, desk.other_edge) as other:
            desk.clients = (one, other)
            supervisor = asyncio.create_task(desk.supervise())
            yield desk
            supervisor.cancel()


def senior(house: Deployment, name: str) -> str:
    return moderators.token_of(
        load_settings(**house.settings), name, ModeratorRole.SENIOR, (), now_ms=wall_clock()
    )


def is_quiet(ledger: Path) -> bool:
    """Whether no batch and no ban has work left, and all bans that end have ended."""
    work = (
        "SELECT 1 FROM batches WHERE state IN ('selecting', 'applying', 'reversing')",
        "SELECT 1 FROM bans WHERE seen_seq IS NOT NULL OR (lifted_at_ms IS NULL AND until_ms IS NOT NULL)",
    )
    return not any(rows(ledger, statement) for statement in work)


async def test_whatever_is_killed_each_decision_is_in_the_log_as_it_was_answered(desk: Desk):
    """Decisions, bans and batches: once if answered, at most once if not; states, cases and the board follow."""
    house, ledger = desk.house, desk.house.ledger
    people = {name: senior(house, name) for name in ("mara", "noor", "sven")}
    desk.at_work = [
        asyncio.create_task(keeps_on(desk, people["mara"], decides)),
        asyncio.create_task(keeps_on(desk, people["noor"], decides)),
        asyncio.create_task(keeps_on(desk, people["sven"], bans, batches)),
    ]
    for _ in range(KILLS):
        await desk.kill()
    desk.is_over = True
    await asyncio.gather(*desk.at_work)
    await eventually(lambda: is_quiet(ledger), house.log)
    assert [] == [*miscounted(ledger, desk.statuses), *misjudged(ledger), *misplaced(ledger)]
    policy = boards.board(house.policies, writes="open").policy
    with Redis.from_url(house.valkey.url) as redis:
        await eventually(lambda: due_on_board(ledger, policy) == shown_on_board(redis, policy), house.log)


def miscounted(ledger: Path, statuses: dict[str, int | None]) -> list[str]:
    """The requests that are not in the log as often as their answers say."""
    noted = rows(ledger, "SELECT json_extract(detail, '$.note'), submission_id FROM events")
    of_batches = {note for (note,) in rows(ledger, "SELECT json_extract(detail, '$.note') FROM batches")}
    found = Counter(each for each in noted if each[0] in statuses)
    times: dict[str, int] = Counter(note for note, _ in found)
    wrong = [
        f"{note} of {run}: {count} times"
        for (note, run), count in found.items()
        if count > 1 and note not in of_batches
    ]
    for note, status in statuses.items():
        is_done = status is not None and status < 300
        if note not in of_batches and ((is_done and times[note] != 1) or times[note] > 1):
            wrong.append(f"{note}: answered {status}, in the log {times[note]} times")
    return wrong


def misjudged(ledger: Path) -> list[str]:
    """The submissions that are not in the state, or not in the queue, as their events and bans say."""
    told = defaultdict(list)
    for run, *event in rows(
        ledger, "SELECT submission_id, from_state, to_state, reason, actor, detail FROM events ORDER BY seq"
    ):
        told[run].append(event)
    banned = {player for (player,) in rows(ledger, "SELECT player FROM bans WHERE lifted_at_ms IS NULL")}
    waiting = {run for (run,) in rows(ledger, "SELECT submission_id FROM cases")}
    wrong = []
    for run, player, *is_now in rows(ledger, "SELECT submission_id, player, state, reason FROM submissions"):
        stands = standing_without_bans(told[run])
        due = ["revoked", "banned"] if stands[0] == State.PROMOTED and player in banned else [*stands]
        if is_now != due or told[run][-1][1] != is_now[0]:
            wrong.append(f"{run}: {is_now}, not {due}")
        if (run in waiting) is not (stands[0] == State.HELD):
            wrong.append(f"{run}: {stands[0]}, and has {'a' if run in waiting else 'no'} case")
    return wrong


def standing_without_bans(events: list[list[str]]) -> tuple[str, str]:
    """The state and the reason that a submission with these events would have, had nobody been banned."""
    stands = ("", "")
    for _, to_state, reason, actor, detail in events:
        if reason == "banned" and actor != "ban":
            stands = ("promoted", json.loads(detail)["was"])
        elif actor != "ban" and reason not in REMARKS:
            stands = (to_state, reason)
    return stands


def misplaced(ledger: Path) -> list[str]:
    """The items of batches whose outcome is not what the log has of the batch."""
    made = Counter(rows(ledger, "SELECT json_extract(detail, '$.batch'), submission_id FROM events"))
    times = {"decided": 1, "kept": 1, "reversed": 2}
    found = rows(ledger, "SELECT batch_id, submission_id, outcome FROM batch_items")
    return [
        f"{run} of {batch}: {outcome}, in the log {made[batch, run]} times"
        for batch, run, outcome in found
        if made[batch, run] != times.get(outcome, 0)
    ]
