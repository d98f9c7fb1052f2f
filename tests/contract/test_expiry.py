"""The end of recordings, on every ledger: of runs that were refused or revoked, when the time is over, and of no others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.derived.log import position
from gateway.ledger.judgement.audits import KIND
from gateway.ledger.judgement.expiry import MOST_USES, end_recordings, endings_after, expired_at
from gateway.ledger.ledger import Ledger
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Operation
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from gateway.steward.recordings import expiring
from gateway.steward.recordings.expiring import DAY_MS, Expirer
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.choices import Operator
from policies.errors import LedgerTampered
from policies.fields import SortOrder
from policies.limits import RecordingRetention
from policies.loader import Policies, load_policies
from policies.moderation import Moderation
from policies.opened_board import BoardState, OpenedBoard
from policies.vocabulary import Reason, State
from tests.contract.test_learning import Nowhere
from tests.support.books import board_of
from tests.support.families import open_tracks, turn_tracks, write_family
from tests.support.ledger import NOON_MS, new_submission
from tests.support.metrics import counts
from tests.support.stores import Store, open_in
from tests.support.torn import tear

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)
ENDED = (
    "INSERT INTO recording_expiries (digest, size_bytes, first_seq, expired_at_ms) "
    "SELECT digest, size_bytes, first_seq, 1 FROM recordings"
)
P, H, R, X, S = State.PROMOTED, State.HELD, State.REJECTED, State.REVOKED, State.SUPERSEDED


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def keeping(days: int | None, appeal_days: int = 0) -> SimpleNamespace:
    """Boards that keep what was refused for so many days, and take appeals for so many."""
    sections = {
        "recordings": RecordingRetention(refused_days=days),
        "moderation": Moderation(appeal_days=appeal_days),
    }
    policy = BOARD.policy.model_copy(update=sections)
    return SimpleNamespace(policy=policy)


class House:
    """A ledger with a steward that ends recordings, at whatever time it is."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self.ledger = ledger
        self.store = store

    async def append(
        self, run: str, recording: bytes, *states: State, on_day: int = 0, actor: str = "replay"
    ) -> None:
        """A run with this recording, and the decisions on it."""
        await self.ledger.append(new_submission(run, recording=recording, at_ms=NOON_MS))
        for state in states:
            at_ms = NOON_MS + on_day * DAY_MS
            decision = Decision(run, state, actor, Reason.VERIFIED, at_ms, frozenset(State))
            [settled] = await settle(self.ledger, Nowhere(), BOARD, [decision])
            assert isinstance(settled, Change), (run, state)

    async def expire(self, day: float, days: int | None = 10, appeal_days: int = 0) -> None:
        now_ms = NOON_MS + int(day * DAY_MS)
        expirer = Expirer(
            self.ledger, Catalogue(Policies({"tiny": keeping(days, appeal_days)})), clock=lambda: now_ms
        )
        while passed := await expirer.step():
            assert expiring.SLICE == passed  # after a slice that is not full nothing is due at once

    async def kept(self) -> set[bytes]:
        return {bytes(body) for (body,) in await self.store.sql("SELECT body FROM recordings")}


@pytest.fixture
def house(ledger: Ledger, store: Store) -> House:
    return House(ledger, store)


async def test_F04_recordings_end_of_what_was_refused_or_revoked_and_of_nothing_else(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """Ten days after the last decision and not before; what counts, is held or waits keeps its own for ever."""
    monkeypatch.setattr(expiring, "SLICE", 3)
    runs: Sequence[tuple[str, tuple[State, ...]]] = [
        ("rejected", (R,)), ("waits", ()), ("held", (H,)), ("counts", (P,)), ("back", (P, X, P)),
        ("held-then-rejected", (H, R)), ("revoked", (P, X)), ("superseded", (S,)),
    ]  # fmt: skip
    for run, states in runs:
        await house.append(run, run.encode(), *states)
    everything = {run.encode() for run, _ in runs}
    await house.expire(day=9.9)
    assert everything == await house.kept()
    await house.expire(day=400, days=None)
    assert everything == await house.kept()
    with counts(4, "scoregate_recordings_collected_total", action="expired"):
        await house.expire(day=10)
    assert {b"waits", b"held", b"counts", b"back"} == await house.kept()
    digest = hashlib.sha256(b"rejected").digest()
    assert NOON_MS + 10 * DAY_MS == await house.ledger.read(expired_at(digest))
    assert [(4,)] == await house.store.sql("SELECT count(*) FROM recording_expiries")
    assert None is await house.ledger.read(expired_at(hashlib.sha256(b"counts").digest()))
    assert [(8,)] == await house.store.sql(
        "SELECT count(*) FROM submissions WHERE recording_digest IS NOT NULL"
    )


async def test_F04_a_recording_is_kept_while_its_player_may_appeal(house: House):
    """Two days are not enough where fourteen are given to appeal."""
    await house.append("run", b"a run", R)
    for day, kept in ((13.9, {b"a run"}), (14, set())):
        await house.expire(day=day, days=2, appeal_days=14)
        assert kept == await house.kept()


async def test_F04_a_recording_is_kept_while_an_appeal_waits(house: House):
    """However long that takes; once it is denied the time begins anew."""
    await house.append("run", b"a run", R)
    for day, reason in ((0, Reason.APPEALED), (50, Reason.APPEAL_DENIED)):
        decision = Decision("run", R, "player", reason, NOON_MS + day * DAY_MS, frozenset(State))
        [remark] = await settle(house.ledger, Nowhere(), BOARD, [decision])
        assert isinstance(remark, Change)
        await house.expire(day=day + 9.9)
        assert {b"a run"} == await house.kept()
    await house.expire(day=60)
    assert set() == await house.kept()


async def test_F04_a_recording_is_kept_while_a_moderators_decision_can_be_undone(house: House):
    """Where what was refused is kept for ten days, what a moderator refused is kept for thirty, and then it ends too."""
    await house.append("by-replay", b"by a replay", R)
    await house.append("by-mara", b"by a moderator", H, R, actor="moderator:mara")
    for day, kept in ((11, {b"by a moderator"}), (29.9, {b"by a moderator"}), (30, set())):
        await house.expire(day=day)
        assert kept == await house.kept()


async def test_F04_a_recording_is_kept_while_only_a_ban_revokes_its_run(house: House):
    """However long the ban is, since the run counts again after it; what is revoked besides ends with its time."""
    for run in ("banned", "revoked"):
        await house.append(run, run.encode(), P)
        follows = Decision(run, X, "ban", Reason.BANNED, NOON_MS, frozenset({P}))
        [settled] = await settle(house.ledger, Nowhere(), BOARD, [follows])
        assert isinstance(settled, Change)
    verdict = Decision("revoked", X, "replay", Reason.SCORE_MISMATCH, NOON_MS, frozenset({P}))
    [settled] = await settle(house.ledger, Nowhere(), BOARD, [verdict])
    assert isinstance(settled, Change)
    await house.expire(day=400)
    assert {b"banned"} == await house.kept()


async def test_F04_a_steward_that_comes_late_ends_nothing_and_takes_no_other_back(house: House):
    """Two have read the same events: whoever is second changes nothing, and the next look begins where the first is."""
    await house.append("run", b"a run", R)

    async def ending(after: int) -> tuple[Operation[int], int]:
        passed, upto, _ = await house.ledger.read(endings_after(after, count=99))
        span = (after, upto)
        return end_recordings("tests", span, passed, lambda _: 0, now_ms=NOON_MS + DAY_MS), upto

    late, upto = await ending(0)
    assert 1 == await house.ledger.write(late)
    await house.append("other", b"another", R)
    next_one, newest = await ending(upto)
    assert 1 == await house.ledger.write(next_one)
    assert 0 == await house.ledger.write(late)
    assert newest == await house.ledger.read(position("tests"))


async def test_F04_a_recording_that_several_runs_sent_is_kept_for_the_last_of_them(house: House):
    """One that counts keeps it; of several that were refused the newest decision counts."""
    await house.append("thief", b"stolen", R)
    await house.append("owner", b"stolen", P)
    await house.append("one", b"twice", R)
    await house.append("other", b"twice", R, on_day=5)
    await house.expire(day=12)
    assert {b"stolen", b"twice"} == await house.kept()
    await house.expire(day=15)
    assert {b"stolen"} == await house.kept()


async def test_F04_a_recording_of_more_runs_than_are_looked_at_is_kept(house: House):
    """One that counts may be among those that are not."""
    runs = [f"run-{number}" for number in range(MOST_USES + 2)]
    new = [new_submission(run, recording=b"of many", at_ms=NOON_MS) for run in runs]
    await asyncio.gather(*(house.ledger.append(each) for each in new))
    refusals = [
        Decision(run, R, "replay", Reason.SCORE_MISMATCH, NOON_MS, frozenset(State)) for run in runs[:-1]
    ]
    await settle(house.ledger, Nowhere(), BOARD, refusals)
    promotion = Decision(runs[-1], P, "replay", Reason.VERIFIED, NOON_MS, frozenset(State))
    await settle(house.ledger, Nowhere(), BOARD, [promotion])
    await house.expire(day=20)
    assert {b"of many"} == await house.kept()


async def test_F04_what_is_still_to_be_audited_is_kept(house: House, store: Store):
    """A run that was drawn for an audit and revoked since has its recording until the audit is done."""
    await house.append("drawn", b"drawn", P, X)
    await store.sql(
        "INSERT INTO outbox (seq, kind, submission_id, board, player, due_at_ms, priority, handed_out) "
        f"VALUES (1, '{KIND}', 'drawn', 'tiny', 'ada', 0, 0, 0)"
    )
    await house.expire(day=20)
    assert {b"drawn"} == await house.kept()


async def test_recordings_of_closed_and_deleted_boards_end_as_those_of_open_ones(
    house: House, store: Store, tmp_path: Path
):
    """What was refused goes when due, also if it is refused after the end; what stands, is held or audited stays."""
    write_family(tmp_path, recordings={"refused_days": 10}, moderation={"appeal_days": 0})
    policies = load_policies(tmp_path)
    boards = {
        name: policies.families["track"].board(OpenedBoard(name, "track", name))
        for name in ("track.open", "track.closed", "track.deleted")
    }
    await open_tracks(house.ledger, *boards)

    async def decide(board: str, run: str, state: State, on_day: int = 0) -> None:
        at_ms = NOON_MS + on_day * DAY_MS
        decision = Decision(f"{board}-{run}", state, "replay", Reason.VERIFIED, at_ms, frozenset(State))
        [settled] = await settle(house.ledger, Nowhere(), boards[board], [decision])
        assert isinstance(settled, Change)

    runs = {"waits": (), "held": (H,), "counts": (P,), "refused": (R,), "late": (H,), "drawn": (P, X)}
    for board in boards:
        for run, states in runs.items():
            name = f"{board}-{run}"
            await house.ledger.append(
                new_submission(name, board=board, recording=name.encode(), at_ms=NOON_MS)
            )
            for state in states:
                await decide(board, run, state)
        await store.sql(
            "INSERT INTO outbox (seq, kind, submission_id, board, player, due_at_ms, priority, handed_out) "
            f"SELECT seq, '{KIND}', submission_id, board, player, 0, 0, 0 FROM submissions "
            f"WHERE submission_id = '{board}-drawn'"
        )
    await turn_tracks(house.ledger, ["track.closed"], BoardState.CLOSED, at_ms=NOON_MS)
    await turn_tracks(house.ledger, ["track.deleted"], BoardState.DELETED, at_ms=NOON_MS)
    for board in boards:
        await decide(board, "late", R, on_day=5)

    async def kept(day: float) -> set[str]:
        now_ms = NOON_MS + int(day * DAY_MS)
        expirer = Expirer(house.ledger, Catalogue(policies), clock=lambda: now_ms)
        while await expirer.step():
            pass
        return {body.decode() for body in await house.kept()}

    everything = {f"{board}-{run}" for board in boards for run in runs}
    refused, late = ({f"{board}-{run}" for board in boards} for run in ("refused", "late"))
    assert everything == await kept(9.9)
    assert everything - refused == await kept(10)
    assert everything - refused - late == await kept(15)
    assert everything - refused - late == await kept(4_000)


async def test_F04_a_recording_that_is_brought_again_is_there_again(house: House):
    """It is stored as a new one, is there for its run, and ends once more."""
    await house.append("first", b"again", R)
    await house.expire(day=11)
    assert set() == await house.kept()
    await house.append("second", b"again")
    assert {b"again"} == await house.kept()
    [lease] = await house.ledger.write(work.lease_all(["second"], now_ms=NOON_MS, lease_ms=1000))
    assert lease.recording is not None
    assert b"again" == lease.recording.body
    assert None is await house.ledger.read(expired_at(lease.recording.digest))
    await house.append("third", b"other", R, on_day=50)
    await house.expire(day=80)
    assert {b"again"} == await house.kept()


async def test_F04_the_database_refuses_to_delete_what_a_run_needs(house: House, store: Store):
    """Not even our own code can: neither what has no end written down, nor what counts and has one."""
    await house.append("counts", b"counts", P)
    await house.append("refused", b"refused", R)
    for prepare in ("SELECT 1", ENDED):
        await store.sql(prepare)
        with pytest.raises(Exception, match="append-only"):
            await store.sql("DELETE FROM recordings")
    with pytest.raises(Exception, match="append-only"):
        await store.sql("DELETE FROM recording_expiries")
    assert {b"counts", b"refused"} == await house.kept()


async def test_F04_the_ledger_is_as_it_was_sealed_once_recordings_have_ended(
    house: House, store: Store, tmp_path: Path
):
    """Digests are sealed and no bytes: `ledger verify` finds all of it whole, and a changed digest still."""
    for run, states in (("refused", (R,)), ("revoked", (P, X)), ("counts", (P,))):
        await house.append(run, run.encode(), *states)
    settings = Settings(data_dir=tmp_path / "data")
    sealer = Sealer(settings, house.ledger, clock=lambda: NOON_MS + 2 * DAY_MS)
    while await sealer.step():
        pass
    keys = PublicKeys(seal_key_of(settings, is_made=False).public_key)
    before = await audit(house.ledger, keys)
    assert (7, 7, 3) == (before.events, before.sealed_events, before.submissions)
    await house.expire(day=11)
    assert {b"counts"} == await house.kept()
    assert before == await audit(house.ledger, keys)
    digest = "(SELECT recording_digest FROM submissions WHERE submission_id = 'counts')"
    await tear(store, "submissions", f"recording_digest = {digest} WHERE submission_id = 'refused'")
    with pytest.raises(LedgerTampered):
        await audit(house.ledger, keys)
