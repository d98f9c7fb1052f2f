"""Seals committed events, in order, under signed roots, and exports the checkpoints."""

from __future__ import annotations

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.signing_keys import SealKey, load_seal_key
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger

_log = logger()


def seal_key_of(settings: Settings, *, is_made: bool) -> SealKey:
    """Return the deployment's seal key, created in the data directory if `is_made`. Raises SettingsError."""
    configured = settings.seal_key.get_secret_value() if settings.seal_key else None
    return load_seal_key(settings.data_dir, configured, is_made=is_made)


class Sealer:
    """Seals events once there are enough of them, or the oldest has waited long enough. Any number may run.

    Raises SettingsError if its key cannot be read or created.
    """

    def __init__(self, settings: Settings, ledger: Ledger, *, clock: Clock) -> None:
        self._settings = settings
        self._ledger = ledger
        self._key = seal_key_of(settings, is_made=True)
        self._clock = clock
        self._reported_gap = 0

    async def step(self) -> int:
        """Seal what is due, export all checkpoints if there is a file for them, and return the events sealed.

        Raises SettingsError if the file cannot be written, LedgerTampered if it has a seal that the ledger
        lacks.
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
        # Read first, write after: events never change, and hashing them must not delay writers.
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
        """Return the leaves of the next events for one seal, up to a gap if there is one."""
        leaves: list[bytes] = []
        async for leaf in chain.leaves_from(self._ledger, begin):
            if leaf.seq != begin + len(leaves):
                self._report_gap(begin + len(leaves), leaf.seq)
                break
            leaves.append(leaf.digest)
            if len(leaves) == self._settings.seal_events:
                break
        return leaves

    def _report_gap(self, due: int, found: int) -> None:
        """Log once that an event is missing: sequence numbers have no gaps, even after a crash."""
        if self._reported_gap != due:
            self._reported_gap = due
            _log.error(Event.GAP, due=due, found=found)
