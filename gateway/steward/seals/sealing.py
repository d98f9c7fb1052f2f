"""The steward's seals: whatever has been committed is put under a signed root, in order, and told elsewhere."""

from __future__ import annotations

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.keys import SealKey, load_seal_key
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger

_log = logger()


def seal_key_of(settings: Settings, *, is_made: bool) -> SealKey:
    """The seal key of this deployment, made in the data directory if `is_made`. Raises SettingsError."""
    configured = settings.seal_key.get_secret_value() if settings.seal_key else None
    return load_seal_key(settings.data_dir, configured, is_made=is_made)


class Sealer:
    """Seals events when there are enough of them, or the oldest has waited long enough. Any number may run.

    Raises SettingsError if its key cannot be had.
    """

    def __init__(self, settings: Settings, ledger: Ledger, *, clock: Clock) -> None:
        self._settings = settings
        self._ledger = ledger
        self._key = seal_key_of(settings, is_made=True)
        self._clock = clock
        self._told_of_gap = 0

    async def step(self) -> int:
        """How many events were sealed; every head is in the file for heads on return, if there is one.

        Raises SettingsError if that file cannot be written, LedgerTampered if it knows of a seal that the ledger lacks.
        """
        sealed = await self._seal() if self._is_due(await self._ledger.read(chain.unsealed())) else 0
        if self._settings.seal_heads is not None:
            await export_checkpoints(self._ledger, self._settings.seal_heads)
        return sealed

    def _is_due(self, unsealed: chain.Unsealed) -> bool:
        if unsealed.since_ms is None:
            return False
        waited_ms = self._clock() - unsealed.since_ms
        return unsealed.events >= self._settings.seal_events or waited_ms >= self._settings.seal_s * 1000

    async def _seal(self) -> int:
        # Read first, written after: events never change, and hashing them must not hold up who writes.
        after = await self._ledger.read(chain.newest_seal())
        leaves = await self._unsealed(after.last_seq + 1 if after else 1)
        if not leaves:
            return 0
        seal = chain.seal_of(self._key, after, leaves, at_ms=self._clock())
        if not await self._ledger.write(chain.add(seal, leaves)):
            return 0
        _log.info(Event.SEALED, first=seal.first_seq, last=seal.last_seq)
        return len(leaves)

    async def _unsealed(self, begin: int) -> list[bytes]:
        """The leaves of the next events, as many as go under one seal, up to a gap if there is one."""
        found: list[bytes] = []
        async for leaf in chain.leaves_from(self._ledger, begin):
            if leaf.seq != begin + len(found):
                self._tell_of_gap(begin + len(found), leaf.seq)
                break
            found.append(leaf.digest)
            if len(found) == self._settings.seal_events:
                break
        return found

    def _tell_of_gap(self, due: int, found: int) -> None:
        """Says once that an event is missing: sequence numbers have no gaps, whatever crashed."""
        if self._told_of_gap != due:
            self._told_of_gap = due
            _log.error(Event.GAP, due=due, found=found)
