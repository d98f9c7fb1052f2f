"""The steward's seals: due in time, in order, once, over no gap; and told elsewhere."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.ledger import queries
from gateway.ledger.seals import chain
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.chain import Seal
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.runtime.settings import Settings
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.errors import LedgerTampered, SettingsError
from tests.support.attack import until
from tests.support.harness import Harness
from tests.support.ledger import NOON_MS, new_submission, opened, rows


class Hands:
    """A sealer over a real ledger, with a clock to set."""

    def __init__(self, settings: Settings, ledger: SqliteLedger) -> None:
        self.settings = settings
        self.ledger = ledger
        self.now_ms = NOON_MS
        self.sealer = self.another()

    def another(self, **settings: Any) -> Sealer:
        changed = self.settings.model_copy(update=settings)
        return Sealer(changed, self.ledger, clock=lambda: self.now_ms)

    async def append(self, first: int, count: int) -> None:
        for n in range(first, first + count):
            await self.ledger.append(new_submission(f"run-{n}"))

    def ranges(self) -> list[tuple[int, int]]:
        return rows(self.settings.ledger_path, "SELECT first_seq, last_seq FROM seals ORDER BY first_seq")

    async def seal(self) -> list[Seal]:
        return [each async for each in chain.seals_after(self.ledger)]


@pytest.fixture
async def hands(tmp_path: Path) -> AsyncIterator[Hands]:
    settings = Settings(data_dir=tmp_path / "data", seal_events=4, seal_s=60)
    async with opened(settings.ledger_path) as ledger:
        yield Hands(settings, ledger)


async def test_a_seal_is_due_by_number_or_by_age(hands: Hands):
    """At so many events, however young; or when the oldest has waited so long, however few."""
    assert 0 == await hands.sealer.step()
    await hands.append(1, 3)
    assert 0 == await hands.sealer.step()
    await hands.append(4, 7)
    assert [4, 4, 0] == [await hands.sealer.step() for _ in range(3)]

    hands.now_ms += 59_999
    assert 0 == await hands.sealer.step()
    hands.now_ms += 1
    assert [2, 0] == [await hands.sealer.step() for _ in range(2)]
    assert [(1, 4), (5, 8), (9, 10)] == hands.ranges()


async def test_seals_are_chained_and_signed(hands: Hands):
    """Each names the digest of the one before, and the key verifies it."""
    await hands.append(1, 8)
    assert [4, 4] == [await hands.sealer.step() for _ in range(2)]
    one, two = await hands.seal()
    keys = PublicKeys(seal_key_of(hands.settings, is_made=False).public_key)
    assert (chain.NOTHING, one.digest) == (one.previous, two.previous)
    assert one.is_signed_by_any(keys)
    assert two.is_signed_by_any(keys)
    assert not two.model_copy(update={"previous": chain.NOTHING}).is_signed_by_any(keys)


async def test_several_stewards_seal_each_event_once(hands: Hands, monkeypatch: pytest.MonkeyPatch):
    """All see the same tail and seal it; one of them is first, and the others change nothing."""
    await hands.append(1, 20)
    barrier = asyncio.Barrier(4)
    stewards = [hands.another() for _ in range(4)]
    for steward in stewards:
        unsealed = steward._unsealed

        async def together(begin: int, unsealed: Any = unsealed) -> list[bytes]:
            found = await unsealed(begin)
            await barrier.wait()
            return found

        monkeypatch.setattr(steward, "_unsealed", together)

    for _ in range(5):
        assert [0, 0, 0, 4] == sorted(await asyncio.gather(*(steward.step() for steward in stewards)))
    assert [(n, n + 3) for n in range(1, 21, 4)] == hands.ranges()
    keys = PublicKeys(seal_key_of(hands.settings, is_made=False).public_key)
    assert 5 == (await audit(hands.ledger, keys)).seals


async def test_a_seal_that_is_there_already_is_not_added(hands: Hands):
    """By the unique first sequence number, and only at the end of the chain."""
    await hands.append(1, 8)
    await hands.sealer.step()
    [one] = await hands.seal()
    for first_seq, last_seq in ((1, 4), (1, 9), (4, 8), (6, 8)):
        other = one.model_copy(update={"first_seq": first_seq, "last_seq": last_seq})
        assert not await hands.ledger.write(chain.add(other, []))
    assert [(1, 4)] == hands.ranges()


async def test_M09_nothing_is_sealed_over_a_gap(hands: Hands):
    """What comes before the gap is; then it is said once that an event is missing, and the tail grows for all to see."""
    await hands.append(1, 6)
    with closing(sqlite3.connect(hands.settings.ledger_path)) as connection, connection:
        connection.execute("DROP TRIGGER events_no_delete")
        connection.execute("DELETE FROM events WHERE seq = 3")
    hands.now_ms += 60_000
    with capture_logs() as logs:
        assert [2, 0, 0] == [await hands.sealer.step() for _ in range(3)]

    assert [(1, 2)] == hands.ranges()
    gaps = [log for log in logs if log["event"] == "gap"]
    assert [{"event": "gap", "log_level": "error", "due": 3, "found": 4}] == gaps
    assert (4, NOON_MS) == await hands.ledger.read(chain.unsealed())


async def test_M09_seals_cannot_be_rewritten(hands: Hands):
    """The triggers refuse."""
    await hands.append(1, 4)
    await hands.sealer.step()
    for statement in ("UPDATE seals SET root = x'00'", "DELETE FROM seals"):
        with (
            closing(sqlite3.connect(hands.settings.ledger_path)) as connection,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            connection.execute(statement)


async def test_heads_are_appended_where_the_setting_says(hands: Hands, tmp_path: Path):
    """Each head once, one a line, in order, whoever was there before; and another steward goes on from there."""
    path = tmp_path / "heads"
    await hands.append(1, 8)
    await hands.sealer.step()
    steward = hands.another(seal_heads=path)
    assert 4 == await steward.step()
    assert 0 == await steward.step()
    await hands.append(9, 4)
    assert 4 == await hands.another(seal_heads=path).step()

    assert await hands.seal() == [Seal.model_validate_json(line) for line in path.read_bytes().splitlines()]
    assert 0 == await export_checkpoints(hands.ledger, path)


async def test_heads_are_on_the_disk_before_anybody_is_told(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All lines of an export; one without a new head syncs nothing."""
    path = tmp_path / "heads"
    await hands.append(1, 8)
    assert [4, 4] == [await hands.sealer.step() for _ in range(2)]
    fsync, synced = os.fsync, list[int]()

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path:
            synced.append(len(path.read_bytes().splitlines()))

    monkeypatch.setattr(os, "fsync", noted)
    assert [2, 0] == [await export_checkpoints(hands.ledger, path) for _ in range(2)]
    assert [2] == synced


async def test_a_torn_line_of_heads_is_written_again(hands: Hands, tmp_path: Path):
    """Wherever a crash cut the file off, the next export makes it what it should be."""
    path = tmp_path / "heads"
    await hands.append(1, 12)
    assert [4, 4, 4] == [await hands.sealer.step() for _ in range(3)]
    assert 3 == await export_checkpoints(hands.ledger, path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        await export_checkpoints(hands.ledger, path)
        assert whole == path.read_bytes()


async def test_M09_heads_of_another_past_stop_the_export(hands: Hands, tmp_path: Path):
    """A file whose last head the ledger lacks is left as it is, and so is one that holds no heads."""
    path = tmp_path / "heads"
    await hands.append(1, 4)
    await hands.sealer.step()
    [one] = await hands.seal()
    foreign = one.model_copy(update={"root": chain.NOTHING}).model_dump_json().encode() + b"\n"
    for text, error in (
        (foreign, LedgerTampered),
        (b"notes\n", SettingsError),
        (b"notes", SettingsError),
        (one.model_dump_json().encode() + b"\nnotes", SettingsError),
        (b"x" * 5000, SettingsError),
    ):
        path.write_bytes(text)
        with pytest.raises(error):
            await export_checkpoints(hands.ledger, path)
        assert text == path.read_bytes()
    with pytest.raises(SettingsError, match="heads cannot be written"):
        await export_checkpoints(hands.ledger, tmp_path / "none" / "heads")


async def test_sealing_goes_on_while_heads_cannot_be_written(hands: Hands, tmp_path: Path):
    """The steward seals all the same, says so each time, and writes all heads once it can, with nothing new to seal."""
    steward = hands.another(seal_heads=tmp_path / "none" / "heads")
    await hands.append(1, 8)
    for _ in range(2):
        with pytest.raises(SettingsError):
            await steward.step()
    assert [(1, 4), (5, 8)] == hands.ranges()
    (tmp_path / "none").mkdir()
    assert 0 == await steward.step()
    assert 2 == len((tmp_path / "none" / "heads").read_text().splitlines())


def test_T12_the_seal_key_is_made_private_and_stays(tmp_path: Path):
    """Made once, readable by its owner alone; opened to others it is refused, saying what to do."""
    settings = Settings(data_dir=tmp_path / "data")
    with pytest.raises(SettingsError, match="there is no seal key yet"):
        seal_key_of(settings, is_made=False)
    made = seal_key_of(settings, is_made=True)
    path = tmp_path / "data" / "seal.key"
    assert 0o600 == path.stat().st_mode & 0o777
    assert made.key_id == seal_key_of(settings, is_made=True).key_id
    assert made.public_pem() == seal_key_of(settings, is_made=False).public_pem()
    path.chmod(0o640)
    with pytest.raises(SettingsError, match=r"others may read the seal key; run: chmod 600 .*seal\.key"):
        seal_key_of(settings, is_made=True)


async def test_T12_the_seal_key_is_in_no_log_and_no_repr(hands: Hands):
    """Neither in the file's spelling nor as bytes, whatever is shown of the parts that hold it."""
    secret = (hands.settings.data_dir / "seal.key").read_text().strip()
    settings = hands.settings.model_copy(
        update={"seal_key": type(hands.settings).model_validate({"seal_key": secret}).seal_key}
    )
    await hands.append(1, 4)
    with capture_logs() as logs:
        await hands.sealer.step()
    key = seal_key_of(settings, is_made=False)
    shown = f"{key!r} {hands.sealer.__dict__!r} {settings!r} {logs!r} {key.public_pem()}"
    assert "sealed" in shown
    assert secret not in shown
    for bad in (secret[:20], "not base64!"):
        with pytest.raises(SettingsError) as raised:
            seal_key_of(settings.model_copy(update={"seal_key": type(settings.seal_key)(bad)}), is_made=False)
        assert bad not in str(raised.value)


async def test_the_steward_seals_and_the_edge_tells_of_the_tail(harness: Harness):
    """Among its other duties; what waits for a seal, and since when, is there to be scraped."""
    run, claim = await harness.played()
    assert 202 == (await harness.submit(run, claim)).status
    harness.clock.shift(61)
    scraped = await harness.metrics()
    assert "scoregate_unsealed_events 1.0" in scraped
    assert float(scraped.split("\nscoregate_unsealed_age_seconds ")[1].split()[0]) >= 61

    rounds, seen_seq = asyncio.create_task(harness.steward().run()), 0

    async def all_is_sealed() -> bool:
        nonlocal seen_seq
        newest_seq = await harness.edge.ledger.read(queries.newest_seq())
        if newest_seq != seen_seq:  # boards that open by themselves come when they come
            seen_seq = newest_seq
            harness.clock.shift(61)
        lines = (await harness.metrics()).splitlines()
        return {"scoregate_unsealed_events 0.0", "scoregate_unsealed_age_seconds 0.0"} <= set(lines)

    await until(all_is_sealed, within_s=30)
    seal = await harness.edge.ledger.read(chain.newest_seal())
    assert seal is not None
    assert seal.last_seq >= seen_seq
    rounds.cancel()
    await asyncio.wait([rounds])
