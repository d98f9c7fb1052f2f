"""Commit, then reveal: the digest comes with the score, and the recording when somebody asks for it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from scoregate_client import ScoregateClient, ScoregateError

from gateway.deployment.reference_clock import UNMEASURED_MS, ReferenceClock
from gateway.edge.submissions.large_recordings import LATE_MS
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.submissions import work
from gateway.runtime import failpoints
from gateway.runtime.disk import DiskFloor
from gateway.runtime.failpoints import Point
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.recordings.reveals import OUTAGE_MS, Deadlines
from policies.errors import PolicyError
from policies.vocabulary import Reason, State
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.boards import tiny_play
from tests.support.clock import ShiftedClock
from tests.support.harness import Answer, Harness, Request, Run, running_harness
from tests.support.ledger import rows
from tests.support.metrics import counts
from validators.verification_priority import UNASSESSED

HOUR_S = 3600
OFFERED = {"top": 2, "beats_best_by": 10, "share": 0.0, "reveal_s": HOUR_S}
UNASKED = (409, "state-conflict")


@dataclass
class Committed:
    """A run whose score was sent with the digest of its recording."""

    run: Run
    claim: dict[str, Any]
    recording: bytes
    answer: Answer

    @property
    def path(self) -> str:
        return f"/v1/submissions/{self.run.id}/recording"


class StoppingClock(ShiftedClock):
    """A clock that can be made to stand."""

    stands_at_ms: int | None = None

    def __call__(self) -> int:
        return super().__call__() if self.stands_at_ms is None else self.stands_at_ms


class House:
    """An edge with a board that asks for recordings, its worker and its steward."""

    def __init__(self, harness: Harness, sandbox: Sandbox, clock: StoppingClock) -> None:
        self.harness = harness
        self.sandbox = sandbox
        self.edge = harness.edge
        self.clock = clock

    async def open_run(self, token: str | None = None, board: str = "tiny") -> Run:
        token = token or await self.harness.new_player()
        answer = await self.harness.post(f"/v1/boards/{board}/runs", {"build": boards.BUILD}, token)
        assert answer.status == 201, answer.raw
        return Run(answer.body, token)

    async def commit(
        self, token: str | None = None, *, points: int = 5, recording: bytes | None = None
    ) -> Committed:
        run = await self.open_run(token)
        played = tiny_play(run.info["seed"], points)
        sent = played.recording if recording is None else recording
        claim = {"score": played.score, "ticks": played.ticks, "stats": played.stats} | said_of(sent)
        answer = await self.harness.submit(run, claim, board="tiny")
        return Committed(run, claim, sent, answer)

    async def asked(self, points: int = 5) -> Committed:
        """A newcomer's run, which is always verified."""
        one = await self.commit(points=points)
        await self.verify(one)
        assert await self.reveal_by(one) is not None
        return one

    async def known(self, points: int) -> str:
        """The token of a player who has a verified standing."""
        one = await self.asked(points)
        assert 200 == (await self.reveal(one)).status
        await self.verify(one)
        assert ("promoted", "verified") == await self.stands(one)
        return one.run.token

    async def reveal(self, one: Committed, body: bytes | None = None, token: str | None = None) -> Answer:
        body = one.recording if body is None else body
        return await self.harness.put_octets(one.path, body, token or one.run.token)

    async def verify(self, *some: Committed) -> None:
        await self.harness.verify(*(one.run.id for one in some), sandbox=self.sandbox)

    async def end_reveals(self) -> int:
        return await self.harness.steward().end_reveals()

    async def status(self, one: Committed) -> dict[str, Any]:
        answer = await self.harness.get(f"/v1/submissions/{one.run.id}", one.run.token)
        assert answer.status == 200, answer.raw
        return dict(answer.body)

    async def reveal_by(self, one: Committed) -> int | None:
        """The deadline (ms) that the player is told."""
        told = (await self.status(one))["reveal_by"]
        return None if told is None else round(datetime.fromisoformat(told).timestamp() * 1000)

    async def stands(self, one: Committed) -> tuple[str, str]:
        found = await self.edge.ledger.read(queries.submission(one.run.id))
        assert found
        return found.state.value, found.reason.value

    def rows(self, statement: str, *values: Any) -> list[Any]:
        return rows(self.edge.settings.ledger_path, statement, *values)

    def kept(self) -> list[str]:
        """Digests of the recordings that the ledger knows of."""
        return sorted(row[0].hex() for row in self.rows("SELECT digest FROM recordings"))


def said_of(recording: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(recording).hexdigest()
    return {"recording_digest": f"sha256:{digest}", "recording_bytes": len(recording)}


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


@pytest.fixture
def own_settings(settings: Settings, tmp_path: Path) -> Settings:
    boards.write_board(tmp_path / "policies", verification=OFFERED)
    boards.write_board(tmp_path / "policies", "whole")
    return settings.model_copy(update={"policies_dir": tmp_path / "policies"})


@pytest.fixture
async def house(own_settings: Settings, sandbox: Sandbox) -> AsyncIterator[House]:
    async with running_harness(own_settings, clock := StoppingClock()) as harness:
        yield House(harness, sandbox, clock)


@pytest.fixture
async def storing(own_settings: Settings, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[House]:
    """The same, where every recording goes into the store."""
    changes = {"recording_inline_bytes": 0, "recordings_url": f"file://{tmp_path}/recordings"}
    async with running_harness(own_settings.model_copy(update=changes), clock := StoppingClock()) as harness:
        yield House(harness, sandbox, clock)


async def test_a_recording_is_asked_for_sent_and_verified(house: House):
    """The score is pending, the player is told until when; once the bytes are there the run is replayed and counts."""
    one = await house.commit()
    assert (202, "pending", f"/v1/submissions/{one.run.id}") == (
        one.answer.status, one.answer.body["state"], one.answer.headers["Location"]
    )  # fmt: skip
    assert (None, []) == (await house.reveal_by(one), house.kept())

    asked_at_ms = house.clock()
    with counts(1, "scoregate_reveals_total", board="tiny", outcome="asked"):
        await house.verify(one)
    by_ms = await house.reveal_by(one)
    assert by_ms is not None
    assert abs(by_ms - asked_at_ms - HOUR_S * 1000) < 60_000
    listed = await house.harness.get("/v1/reveals", one.run.token)
    assert [said_of(one.recording) | {"submission": one.run.id, "board": "tiny"}] == [
        {name: value for name, value in each.items() if name != "reveal_by"}
        for each in listed.body["reveals"]
    ]

    with counts(1, "scoregate_reveals_total", board="tiny", outcome="revealed"):
        answer = await house.reveal(one)
    assert (200, said_of(one.recording)["recording_digest"]) == (
        answer.status,
        answer.body["recording_digest"],
    )
    assert [hashlib.sha256(one.recording).hexdigest()] == house.kept()
    assert None is await house.reveal_by(one)
    assert [] == (await house.harness.get("/v1/reveals", one.run.token)).body["reveals"]
    await house.verify(one)
    assert ("promoted", "verified") == await house.stands(one)
    with counts(0, "scoregate_reveals_total", board="tiny", outcome="revealed"):
        assert "true" == (await house.reveal(one)).headers["Idempotency-Replayed"]


async def test_who_was_merged_into_another_player_still_sends_what_they_played(house: House):
    """The token of the source goes on working, on a device that knows of no merge; nobody else's is listed there."""
    one, target = await house.asked(), await house.harness.new_player()
    body = json.dumps({"token": one.run.token}).encode()
    headers = {"Authorization": f"Bearer {target}", "Content-Type": "application/json"}
    merged = await house.harness.send(Request("POST", "/v1/merges", body, headers))
    assert (200, 1) == (merged.status, merged.body["moved"])
    listed = await house.harness.get("/v1/reveals", one.run.token)
    assert [one.run.id] == [each["submission"] for each in listed.body["reveals"]]
    assert await house.reveal_by(one) is not None
    assert 200 == (await house.reveal(one)).status


async def test_the_python_client_commits_and_reveals(house: House):
    """It sends the digest, learns what it is asked for, and sends that, as often as it likes."""
    async with ScoregateClient(house.harness.url, clock=lambda: house.clock() / 1000) as client:
        await client.create_player("Ada")
        run = await client.open_run("tiny", boards.BUILD)
        played = tiny_play(run.seed)
        committed = await client.commit(run, played.score, played.ticks, played.stats, played.recording)
        assert ("pending", ()) == (committed.state, await client.reveals())
        await house.harness.verify(run.run, sandbox=house.sandbox)

        [asked] = await client.reveals()
        assert (run.run, "tiny", len(played.recording)) == (
            asked.submission, asked.board, asked.recording_bytes
        )  # fmt: skip
        assert asked.reveal_by == (await client.submission(run.run)).reveal_by
        with pytest.raises(ScoregateError) as refused:
            await client.reveal(asked.submission, b"something else")
        assert "recording-mismatch" == refused.value.name
        for _ in range(2):
            await client.reveal(asked.submission, played.recording)
        await house.harness.verify(run.run, sandbox=house.sandbox)
        assert ("promoted", True) == ((now := await client.submission(run.run)).state, now.verified)


async def test_what_is_spared_is_never_sent(house: House):
    """An own best below the top counts without its recording, which is not asked for and not taken."""
    token = await house.known(6)
    for points in (18, 20):
        await house.known(points)
    before = house.kept()
    one = await house.commit(token, points=9)
    await house.verify(one)
    assert ("promoted", "sampled") == await house.stands(one)
    assert (None, False) == (await house.reveal_by(one), (await house.status(one))["verified"])
    assert UNASKED == told(await house.reveal(one))
    assert before == house.kept()


async def test_a_board_says_whether_it_offers_it(house: House):
    """Readers see for how long a client has; a board that offers nothing takes no digest."""
    boards_told = (await house.harness.get("/v1/boards")).body["boards"]
    offered = {each["board"]: each["reveal_s"] for each in boards_told}
    assert (HOUR_S, None) == (offered["tiny"], offered["whole"])
    run = await house.open_run(board="whole")
    played = tiny_play(run.info["seed"])
    claim = {"score": played.score, "ticks": played.ticks, "stats": played.stats} | said_of(played.recording)
    assert (422, "schema-violation") == told(await house.harness.submit(run, claim, board="whole"))


NOT_THE_FORM: list[dict[str, Any]] = [
    {"recording": "AAAA"},
    {"recording_bytes": None},
    {"recording_digest": None},
    {"recording_digest": "sha256:" + "A" * 64},
    {"recording_digest": "sha-256=:" + "A" * 43 + "=:"},
    {"recording_digest": "sha256:" + "a" * 64 + "\n"},
    {"recording_bytes": 0},
    {"recording_bytes": True},
]


async def test_a_commitment_has_one_form(house: House):
    """Digest and size stand together in the place of the recording; a refusal leaves nothing behind."""
    run = await house.open_run()
    played = tiny_play(run.info["seed"])
    claim = {"score": played.score, "ticks": played.ticks, "stats": played.stats} | said_of(played.recording)
    for changes, problem in [
        *((each, "schema-violation") for each in NOT_THE_FORM),
        ({"recording_bytes": 65_537}, "payload-too-large"),
    ]:
        sent = {name: value for name, value in (claim | changes).items() if value is not None}
        assert problem == (await house.harness.submit(run, sent, board="tiny")).problem, changes
    assert None is await house.harness.state_of(run.id)


async def test_a_resend_gets_the_stored_answer(house: House):
    """The same bytes again are no second submission, and the recording itself in their place is another content."""
    run = await house.open_run()
    played = tiny_play(run.info["seed"])
    claim = {"score": played.score, "ticks": played.ticks, "stats": played.stats}
    request = house.harness.signed(run, claim | said_of(played.recording), board="tiny")
    answers = [await house.harness.send(request) for _ in range(2)]
    assert [202, 202] == [each.status for each in answers]
    assert ("true", answers[0].headers["Location"]) == (
        answers[1].headers["Idempotency-Replayed"], answers[1].headers["Location"]
    )  # fmt: skip
    whole = claim | {"recording": base64.b64encode(played.recording).decode()}
    assert "run-already-submitted" == (await house.harness.submit(run, whole, board="tiny")).problem


async def test_what_is_sent_must_be_what_was_committed(house: House):
    """Other bytes, more, fewer, or as another type are refused; the right ones are taken after all of that."""
    one = await house.asked()
    wrong = bytes([one.recording[0] ^ 1]) + one.recording[1:]
    assert (422, "recording-mismatch") == told(await house.reveal(one, wrong))
    assert (422, "recording-mismatch") == told(await house.reveal(one, one.recording[:-1]))
    assert (422, "recording-mismatch") == told(await house.reveal(one, b""))
    assert (413, "payload-too-large") == told(await house.reveal(one, one.recording + b"\0"))
    harness, path, token = house.harness, one.path, one.run.token
    typed = await harness.put_octets(path, one.recording, token, **{"Content-Type": "application/json"})
    assert (415, "unsupported-media-type") == told(typed)
    packed = await harness.put_octets(path, one.recording, token, **{"Content-Encoding": "gzip"})
    assert (415, "content-encoding-not-allowed") == told(packed)
    assert [] == house.kept()
    assert 200 == (await house.reveal(one)).status


async def test_only_its_player_sends_a_recording(house: House):
    """For everybody else there is no such submission, moderators of the board included."""
    one = await house.asked()
    assert (404, "not-found") == told(await house.reveal(one, token=await house.harness.new_player()))
    assert (403, "scope-forbidden") == told(await house.reveal(one, token=house.harness.moderator()))
    assert (401, "token-invalid") == told(await house.harness.put_octets(one.path, one.recording, None))
    unknown = await house.harness.put_octets("/v1/submissions/none/recording", b"", one.run.token)
    assert (404, "not-found") == told(unknown)
    assert [] == house.kept()


async def test_nothing_is_taken_that_nobody_asked_for(house: House):
    """Before a worker has chosen it, and of a run that came with its recording."""
    early = await house.commit()
    assert UNASKED == told(await house.reveal(early))
    run = await house.open_run()
    claim = boards.tiny_claim(run.info["seed"])
    assert 202 == (await house.harness.submit(run, claim, board="tiny")).status
    whole = Committed(run, claim, base64.b64decode(claim["recording"]), early.answer)
    assert UNASKED == told(await house.reveal(whole))


async def test_who_has_changed_too_much_sends_no_recordings_either(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """Each is read whole before it can be refused: it is asked of the limit first, and is still asked for afterwards."""
    one = await house.asked()

    async def used_up(_who: str) -> int:
        return 1000

    with monkeypatch.context() as limited:
        limited.setattr(house.edge.profile_limit, "wait_ms", used_up)
        assert (429, "quota-exceeded") == told(await house.reveal(one))
    assert 200 == (await house.reveal(one)).status


async def test_a_recording_whose_commit_comes_late_is_stored_again(
    storing: House, monkeypatch: pytest.MonkeyPatch
):
    """What no row names is collected, though hours later: it is there once the row is, whatever happened in between."""
    one, stored = await storing.asked(), []
    store = storing.edge.recordings.store

    async def slow(digest: bytes, body: bytes) -> None:
        stored.append(digest)
        await store(digest, body)
        storing.clock.shift(LATE_MS / 1000 + 1)

    monkeypatch.setattr(storing.edge.recordings, "store", slow)
    assert 200 == (await storing.reveal(one)).status
    assert [hashlib.sha256(one.recording).digest()] * 2 == stored


async def test_F04_below_the_floor_of_free_disk_only_small_recordings_are_revealed(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """What was asked for takes as much room as what comes with its score; it is still asked for when there is room."""
    one = await house.commit(recording=bytes(5_000))
    await house.verify(one)
    with monkeypatch.context() as full:
        full.setattr(DiskFloor, "is_low", property(lambda _: True))
        refused = await house.reveal(one)
    assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
    assert [] == house.kept()
    assert 200 == (await house.reveal(one)).status


async def test_a_deadline_is_exact_and_settles(house: House):
    """A millisecond before it nothing happens; then the run is rejected, with a class, and its recording comes too late."""
    one = await house.asked()
    by_ms = await house.reveal_by(one)
    assert by_ms is not None
    house.clock.stands_at_ms = by_ms - 1
    assert 0 == await house.end_reveals()
    house.clock.stands_at_ms = by_ms
    with counts(1, "scoregate_reveals_total", board="tiny", outcome="silent"):
        assert 1 == await house.end_reveals()
        assert 0 == await house.end_reveals()
    assert ("rejected", "recording-not-revealed") == await house.stands(one)
    status = await house.status(one)
    assert ("replay", None) == (status["reason"], status["reveal_by"])
    event = (await house.edge.ledger.read(queries.history_of(one.run.id)))[-1]
    assert ("budget", by_ms) == (event["actor"], event["detail"]["due_at_ms"])
    assert UNASKED == told(await house.reveal(one))
    assert [] == house.rows("SELECT kind FROM outbox WHERE kind <> 'project'")


async def test_a_deadline_is_over_when_it_is_beyond_doubt(house: House):
    """By the steward's clock alone it has passed: nothing happens until that is so at the earliest time that it can be."""
    one = await house.asked()
    by_ms = await house.reveal_by(one)
    assert by_ms is not None
    steward = house.harness.steward(ReferenceClock([], wall=house.clock))
    house.clock.stands_at_ms = by_ms + UNMEASURED_MS - 1
    assert 0 == await steward.end_reveals()
    assert ("pending", "accepted") == await house.stands(one)
    house.clock.stands_at_ms = by_ms + UNMEASURED_MS
    assert 1 == await steward.end_reveals()
    assert ("rejected", "recording-not-revealed") == await house.stands(one)


async def test_a_recording_that_comes_late_is_taken_while_nobody_has_settled(house: House):
    """A deadline that no steward has seen is none: the bytes are there, and they decide."""
    one = await house.asked()
    house.clock.shift(HOUR_S + 60)
    assert 200 == (await house.reveal(one)).status
    assert 0 == await house.end_reveals()
    await house.verify(one)
    assert ("promoted", "verified") == await house.stands(one)


async def test_a_recording_that_comes_while_a_steward_settles_wins(house: House):
    """The steward has seen the deadline; before it writes, the bytes are there."""
    one = await house.asked()
    house.clock.shift(HOUR_S + 1)
    late = work.due(reveals.KIND, now_ms=house.clock(), count=1, harms=(UNASSESSED,))
    seen = await house.edge.ledger.read(late)
    assert 200 == (await house.reveal(one)).status
    parts = house.edge.ledger, house.edge.index, house.edge.catalogue
    await Deadlines(*parts, clock=house.clock).end(seen)
    assert ("pending", "accepted") == await house.stands(one)


async def test_a_deadline_that_passed_while_we_were_down_is_none(house: House):
    """Whoever could not reach us gets the whole time again; so much later it is settled after all."""
    one = await house.asked()
    first = await house.reveal_by(one)
    house.clock.shift(HOUR_S + OUTAGE_MS / 1000 + 60)
    back_ms = house.clock()
    assert 1 == await house.end_reveals()
    second = await house.reveal_by(one)
    assert first is not None
    assert second is not None
    assert ("pending", True) == (
        (await house.stands(one))[0],
        back_ms + HOUR_S * 1000 <= second < back_ms + 4e6,
    )
    house.clock.shift(HOUR_S + 60)
    assert 1 == await house.end_reveals()
    assert ("rejected", "recording-not-revealed") == await house.stands(one)


async def test_what_counts_unverified_is_called_in_and_asked_for(house: House):
    """A run in the top whose recording does not come is taken off the board; one that comes is verified."""
    silent, honest = await house.known(6), await house.known(7)
    top = [await house.known(points) for points in (18, 20)]
    runs = [await house.commit(silent, points=9), await house.commit(honest, points=10)]
    await house.verify(*runs)
    assert [("promoted", "sampled")] * 2 == [await house.stands(each) for each in runs]

    for token in top:
        await revoke_best(house, token)
    assert 0 < await house.harness.steward().see_to_top()
    await house.verify(*runs)
    assert None not in [await house.reveal_by(each) for each in runs]
    assert 200 == (await house.reveal(runs[1])).status
    house.clock.shift(HOUR_S + 1)
    assert 1 == await house.end_reveals()
    await house.verify(runs[1])
    assert [("revoked", "recording-not-revealed"), ("promoted", "verified")] == [
        await house.stands(each) for each in runs
    ]


async def revoke_best(house: House, token: str) -> None:
    [[submission_id]] = house.rows(
        "SELECT submission_id FROM submissions WHERE player = ? AND state = 'promoted'",
        house.edge.tokens.check(token, now_s=house.clock() / 1000).subject,  # type: ignore[union-attr]
    )
    decision = Decision(
        submission_id,
        State.REVOKED,
        "moderator:mara",
        Reason.REVOKED_BY_MODERATOR,
        house.clock(),
        frozenset({State.PROMOTED}),
    )
    await settle(house.edge.ledger, house.edge.index, house.edge.catalogue.of_files["tiny"], [decision])


async def test_the_same_digest_of_another_account_is_not_left_to_chance(house: House):
    """Nobody has seen either recording: the second is asked for, and does not fit its own run."""
    tokens = [await house.known(6), await house.known(7)]
    for points in (18, 20):
        await house.known(points)
    first = await house.commit(tokens[0], points=9)
    await house.verify(first)
    second = await house.commit(tokens[1], points=10, recording=first.recording)
    await house.verify(second)
    assert [("promoted", "sampled"), ("pending", "accepted")] == [
        await house.stands(each) for each in (first, second)
    ]
    assert 200 == (await house.reveal(second)).status
    await house.verify(second)
    assert "rejected" == (await house.stands(second))[0]


async def test_the_same_bytes_at_once_are_stored_once(storing: House, tmp_path: Path):
    """Each gets 200, one of them is the first, and one recording is in the store."""
    one = await storing.asked()
    answers = await asyncio.gather(*(storing.reveal(one) for _ in range(6)))
    assert {200} == {each.status for each in answers}
    assert 1 == sum("Idempotency-Replayed" not in each.headers for each in answers)
    assert 1 == len([path for path in (tmp_path / "recordings").rglob("*") if path.is_file()])
    await storing.verify(one)
    assert ("promoted", "verified") == await storing.stands(one)


async def test_a_crash_between_store_and_row_loses_nothing(storing: House):
    """Nothing was acknowledged: the recording is still asked for, and the same bytes are taken the next time."""
    one = await storing.asked()
    failpoints.arm(Point.AFTER_STORE, failpoints.action_of("raise"))
    assert (500, "internal-error") == told(await storing.reveal(one))
    assert ([], True) == (storing.kept(), await storing.reveal_by(one) is not None)
    failpoints.arm(Point.BEFORE_ANSWER, failpoints.action_of("raise"))
    assert (500, "internal-error") == told(await storing.reveal(one))
    assert "true" == (await storing.reveal(one)).headers["Idempotency-Replayed"]
    await storing.verify(one)
    assert ("promoted", "verified") == await storing.stands(one)


async def test_a_worker_that_dies_while_it_asks_loses_nothing(house: House):
    """Its lease ends, and the next one asks."""
    one = await house.commit()
    failpoints.arm(Point.AFTER_LEASE, failpoints.action_of("raise"))
    with pytest.raises(failpoints.Unforeseen):
        await house.verify(one)
    assert None is await house.reveal_by(one)
    house.clock.shift(HOUR_S)
    await house.verify(one)
    assert None is not await house.reveal_by(one)


async def test_the_steward_hands_out_what_was_revealed_and_nothing_before(house: House):
    """What waits for its player is no work, and its age is no backlog."""
    one = await house.asked()
    steward = house.harness.steward()
    house.clock.shift(120)
    assert 0 == await steward.dispatch()
    assert 200 == (await house.reveal(one)).status
    assert 1 == await steward.dispatch()


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_happens_in_whatever_order_each_run_has_one_end(house: House, seed: int):
    """Workers, players, stewards and the clock in random order: none is lost, and none counts that was asked for in vain."""
    chance = random.Random(seed)
    runs = [await house.commit(points=5 + number) for number in range(4)]
    for _ in range(25):
        await _something_happens(house, runs, chance)
        work = {row[0] for row in house.rows("SELECT submission_id FROM outbox WHERE kind <> 'project'")}
        assert work == {one.run.id for one in runs if (await house.stands(one))[0] == "pending"}
    for _ in range(2):
        await _all_is_settled(house, runs)
    assert ("rejected", "recording-not-revealed") == await house.stands(runs[0])
    for one in runs[1:]:
        found = await house.edge.ledger.read(queries.submission(one.run.id))
        assert found
        committed = await house.edge.ledger.read(reveals.commitment(found.seq))
        assert committed
        assert found.state is (State.PROMOTED if committed.revealed_at_ms else State.REJECTED)


async def _something_happens(house: House, runs: list[Committed], chance: random.Random) -> None:
    """The first run's player never answers."""
    one = chance.choice(runs)
    match chance.randrange(5):
        case 0 | 1:
            await house.verify(one)
        case 2 if one is not runs[0]:
            assert (await house.reveal(one)).status in {200, 409}
        case 3:
            await house.end_reveals()
        case 4:
            house.clock.shift(chance.choice([60, 1800, 3601, 7200]))


async def _all_is_settled(house: House, runs: list[Committed]) -> None:
    house.clock.shift(HOUR_S)
    await house.verify(*runs)
    for one in runs[1:]:
        await house.reveal(one)
    await house.verify(*runs)
    while (await house.reveal_by(runs[0]) or 0) > house.clock():  # a steward looks often enough
        house.clock.shift(240)
    await house.end_reveals()


def test_only_a_board_that_verifies_offers_it(tmp_path: Path):
    """An open board asks for no recording; a share of 1 is allowed, and everything is asked for."""
    with pytest.raises(PolicyError, match="reveal_s"):
        boards.board(tmp_path, writes="open", verification={"reveal_s": HOUR_S})
    assert HOUR_S == boards.board(tmp_path, verification={"reveal_s": HOUR_S}).policy.verification.reveal_s
