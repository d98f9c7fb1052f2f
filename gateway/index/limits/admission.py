"""Rate limits and histories: one Redis call per batch of submissions, a local bucket without Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.limits.charging import Cell, LocalLimiter, numbers_of
from gateway.index.limits.refusals import LocalCounts, RefusalCounts
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.limits import Limits
from validators.baseline import EMPTY, Baseline, population_of
from validators.submission import History

ADMIT_LINGER_S: Final = 0.001
"""Time that submissions gather before one call: a millisecond of latency for half the calls."""


class Admission(IntEnum):
    """The decision of the limits on a submission; the numbers are those of `admit_submissions.lua`."""

    ADMITTED = 0
    KNOWN = 1
    PLAYER_LIMITED = 2
    ADDRESS_LIMITED = 3
    NETWORK_LIMITED = 4
    PLAYER_BYTES_LIMITED = 5
    ADDRESS_BYTES_LIMITED = 6
    NETWORK_BYTES_LIMITED = 7
    ABNORMAL = 8


_ADMISSIONS: Final = tuple(Admission)

VALUES_PER_SUBMISSION: Final = 5
"""Values that `admit_submissions.lua` returns per submission."""


class AdmissionRequest(NamedTuple):
    """A request to admit a submission. `address` and `network` are hashed; `kib` is the size of its body."""

    submission_id: str
    player: str
    address: str
    build: str = ""
    network: str = ""
    kib: int = 1


class AdmissionResult(NamedTuple):
    """The decision on a submission: wait (ms), remaining submissions, and the history if Redis has all of it.

    `refusals` counts those for which the player was limited before.
    """

    admission: Admission
    wait_ms: int
    left: int
    history: History | None
    refusals: int = 0


class SubmissionLimits:
    """The limits of one board's submissions. Fails limited: without Redis this process decides."""

    def __init__(
        self, client: Redis, board: str, limits: Limits, *, local: LocalLimits | None = None
    ) -> None:
        local = local or LocalLimits()
        self._board = board
        self._limits = limits
        self._script = Script(client, "admit_submissions")
        self._local = local.charges
        self._refusals = RefusalCounts(client, board, limits.refused, local=local.refusals)
        self._batcher: Batcher[AdmissionRequest, AdmissionResult] = Batcher(
            self._send, linger_s=ADMIT_LINGER_S
        )
        self._fixed_keys = [
            keys.pending(board),
            keys.settled(board),
            keys.baselines(board),
            keys.sentinel(board),
        ]
        self._fixed_arguments = [
            *numbers_of(limits.player, limits.player_kib),
            *numbers_of(limits.address, limits.address_kib),
            *numbers_of(limits.of_network, limits.of_network_kib),
            limits.refused.window_s * 1000,
        ]

    async def admit(self, request: AdmissionRequest) -> AdmissionResult:
        """Decide whether the submission may pass now, and charge every limit if it may."""
        try:
            return await self._batcher.ask(request)
        except IndexUnavailable:
            return self._admit_locally(request)

    async def admit_all(self, requests: Sequence[AdmissionRequest]) -> Sequence[AdmissionResult]:
        """Decide on submissions that came together, each as `admit` does, with one wait for all."""
        try:
            return await self._batcher.ask_all(requests)
        except IndexUnavailable:
            return [self._admit_locally(request) for request in requests]

    async def note_refusal(self, player: str, address: str) -> bool:
        """Count a refused claim, or one rejected at once. Return whether player or address have too many."""
        return await self._refusals.note(player, address)

    async def _send(self, group: Sequence[AdmissionRequest]) -> Sequence[AdmissionResult]:
        limit_keys = chain(*map(self._keys_of, group))
        fields = [keys.POPULATION_FIELD, *{population_of(request.build) for request in group}]
        submissions = chain(*((request.submission_id, request.player, request.kib) for request in group))
        answer = await self._script(
            [*self._fixed_keys, *limit_keys], [*self._fixed_arguments, len(fields), *fields, *submissions]
        )
        is_whole, *populations = answer[: 1 + len(fields)]
        by_field = dict(zip(fields, populations, strict=True)) if is_whole else None
        values = answer[1 + len(fields) :]
        return [
            AdmissionResult(
                _ADMISSIONS[status],
                wait_ms,
                left,
                _history(status, baseline, by_field, request.build),
                refusals,
            )
            for request, status, wait_ms, left, baseline, refusals in zip(
                group,
                *(values[at::VALUES_PER_SUBMISSION] for at in range(VALUES_PER_SUBMISSION)),
                strict=True,
            )
        ]

    def _keys_of(self, request: AdmissionRequest) -> Sequence[str]:
        of = partial(keys.limit, self._board)
        limits = (
            of("player", request.player),
            of("address", request.address),
            of("network", request.network),
        )
        return [*limits, *self._refusals.keys_of(request.player, request.address)]

    def _admit_locally(self, request: AdmissionRequest) -> AdmissionResult:
        limits, board = self._limits, self._board
        cells = {
            Admission.NETWORK_LIMITED: Cell(f"{board} network:{request.network}", limits.of_network),
            Admission.ADDRESS_LIMITED: Cell(f"{board} address:{request.address}", limits.address),
            Admission.NETWORK_BYTES_LIMITED: Cell(
                f"{board} network-kib:{request.network}", limits.of_network_kib, request.kib
            ),
            Admission.ADDRESS_BYTES_LIMITED: Cell(
                f"{board} address-kib:{request.address}", limits.address_kib, request.kib
            ),
            Admission.PLAYER_LIMITED: Cell(f"{board} player:{request.player}", limits.player),
            Admission.PLAYER_BYTES_LIMITED: Cell(
                f"{board} player-kib:{request.player}", limits.player_kib, request.kib
            ),
        }
        refused_ms = self._refusals.wait_ms(request.player, request.address)
        if refused_ms:
            return AdmissionResult(Admission.ABNORMAL, refused_ms, 0, None)
        for admission, wait_ms in zip(cells, self._local.charge(*cells.values()), strict=True):
            if wait_ms:
                return AdmissionResult(admission, wait_ms, 0, None)
        return AdmissionResult(Admission.ADMITTED, 0, 0, None)


class LocalLimits:
    """What a process counts by itself while Redis is away, for the boards of which it has parts."""

    def __init__(self, size: int = 65_536) -> None:
        self.charges = LocalLimiter(size)
        self.refusals = LocalCounts(size)


def _history(status: int, player: Any, populations: Mapping[str, Any] | None, build: str) -> History | None:
    """Return the history of a player and of the populations, for admitted submissions.

    Return None if it is unreadable, or if `populations` is None because the index is not whole: every player
    would be a newcomer.
    """
    if status != Admission.ADMITTED or populations is None:
        return None
    try:
        return History(
            _baseline(player),
            _baseline(populations[keys.POPULATION_FIELD]),
            _baseline(populations[population_of(build)]),
        )
    except ValueError:
        return None


def _baseline(stored: Any) -> Baseline:
    return keys.baseline_from_value(stored) if stored else EMPTY
