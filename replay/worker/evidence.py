"""What is examined of each submission: its recording, its inputs, and the recordings on the board that are like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.ledger.judgement.bands import BandedRecording, Neighbour, put_and_find
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease
from gateway.recordings.recordings import Recordings
from policies.errors import RecordingLost, RecordingsUnavailable
from policies.loader import Board
from policies.model import Operator, Policy
from policies.replaying import RecordingKind
from policies.vocabulary import Mode
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import bands_of
from replay.forensics.similarity import ComparableRecording
from replay.recording import RecordingError, decode
from replay.worker.failure_isolation import isolate_failures, submission_id_of

MOST_COMPARED: Final = 4
"""Recordings that one is held against, those that share most bands: each costs a few milliseconds."""

_REPEATS_PAY: Final = frozenset({Operator.SUM, Operator.COUNT})
"""Where a player gains by sending their own run again. Elsewhere it counts once at most, and who always plays the same
opening, or knows a course by heart, is like nobody more than themselves."""


@dataclass(frozen=True, slots=True)
class RecordingEvidence:
    """One recording, ready to be examined.

    `same` are submissions with the very same one, `candidates` those that it is to be held against, `compared` these once their
    recordings are there. `earlier` are those of either that were received before it.
    """

    recording: bytes | None = None
    comparable: ComparableRecording | None = None
    same: tuple[str, ...] = ()
    candidates: tuple[Neighbour, ...] = ()
    compared: Sequence[tuple[str, ComparableRecording]] = ()
    earlier: frozenset[str] = frozenset()

    @property
    def inputs(self) -> Inputs | None:
        """Its inputs; None where it has none that can be read."""
        return self.comparable.inputs if self.comparable else None


class EvidenceCollector:
    """Gets ready what is examined, for a job at a time: one commit of the ledger for all of it.

    What is expanded at a time, four bytes a tick, are the recordings of the job, and MOST_COMPARED of those beside one
    of them.
    """

    def __init__(self, ledger: Ledger, recordings: Recordings) -> None:
        self._ledger = ledger
        self._recordings = recordings

    async def collect(
        self, boards: Mapping[str, Board], leases: Sequence[Lease]
    ) -> dict[str, RecordingEvidence]:
        """What there is to examine, by submission; nothing of a recording that cannot be had. Raises LedgerUnavailable.

        One that makes us fail has no evidence, and the others have theirs.
        """
        found = await isolate_failures(lambda some: self._collect(boards, some), leases, submission_id_of)
        return {name: evidence for each in found for name, evidence in each.items()}

    async def _collect(
        self, boards: Mapping[str, Board], leases: Sequence[Lease]
    ) -> dict[str, RecordingEvidence]:
        found: dict[str, RecordingEvidence] = {}
        banded: list[BandedRecording] = []
        for lease in leases:
            policy = boards[lease.submission.board].policy
            recording = await self._recording(lease)
            play = _play_of(recording, policy) if recording else None
            found[lease.submission.submission_id] = RecordingEvidence(recording, play)
            bands = _bands(lease, policy, play)
            banded.append(BandedRecording(policy.board, lease.submission.seq, bands, lease.submission.player))
        if any(each.bands for each in banded):
            neighbours = await self._ledger.write(put_and_find(banded))
            for lease, candidates in zip(leases, neighbours, strict=True):
                name, policy = lease.submission.submission_id, boards[lease.submission.board].policy
                found[name] = _with_candidates(lease, policy, found[name], candidates)
        return found

    async def with_compared(self, policy: Policy, evidence: RecordingEvidence) -> RecordingEvidence:
        """The evidence with the recordings that it is to be held against; what is lost is left out.

        Raises RecordingsUnavailable: an outage of the store hides no original.
        """
        compared = []
        for each in evidence.candidates:
            assert each.recording is not None
            try:
                recording = await self._recordings.load(each.recording)
            except RecordingLost:
                continue
            play = _play_of(recording, policy)
            if play:
                compared.append((each.submission_id, play))
        return replace(evidence, compared=compared)

    async def bands_of(self, lease: Lease, policy: Policy) -> Sequence[int]:
        """Under which numbers the index has a recording; what cannot be had now is found by its digest alone."""
        recording = None if policy.validators.similarity is Mode.OFF else await self._recording(lease)
        return _bands(lease, policy, _play_of(recording, policy) if recording else None)

    async def _recording(self, lease: Lease) -> bytes | None:
        try:
            return await self._recordings.load(lease.recording) if lease.recording else None
        except (RecordingsUnavailable, RecordingLost):
            return None  # whoever decides on the submission finds out, and says so


def _with_candidates(
    lease: Lease, policy: Policy, evidence: RecordingEvidence, neighbours: Sequence[Neighbour]
) -> RecordingEvidence:
    """The evidence with the others that it is to be held against, which are not expanded yet."""
    digest = lease.submission.recording_digest
    same = tuple(each.submission_id for each in neighbours if each.digest == digest)
    candidates: list[Neighbour] = []
    if evidence.comparable and evidence.comparable.shingles.size >= policy.forensics.minimum_shingles:
        candidates = [each for each in neighbours if _may_be_a_copy(lease, each, policy)][:MOST_COMPARED]
    earlier = frozenset(each.submission_id for each in neighbours if each.seq < lease.submission.seq)
    return replace(evidence, same=same, candidates=tuple(candidates), earlier=earlier)


def _may_be_a_copy(lease: Lease, other: Neighbour, policy: Policy) -> bool:
    if policy.validators.similarity is Mode.OFF or other.recording is None:
        return False
    return other.player != lease.submission.player or policy.operator in _REPEATS_PAY


def _play_of(recording: bytes, policy: Policy) -> ComparableRecording | None:
    """The recording to be compared; None for one that is not what the board takes."""
    if policy.replay is None:
        return None
    if policy.replay.recording is RecordingKind.RAW:
        return ComparableRecording(recording, None)
    try:
        decoded = decode(recording, maximum_ticks=policy.replay.maximum_ticks)
    except RecordingError:
        return None
    return ComparableRecording(recording, inputs_of(decoded.inputs, policy.forensics.buttons))


def _bands(lease: Lease, policy: Policy, play: ComparableRecording | None) -> Sequence[int]:
    """Under which numbers the index has a recording: one for its very bytes (of its SHA-256), those of its shingles."""
    digest = lease.submission.recording_digest
    exact = [int.from_bytes(digest[:8], "big", signed=True)] if digest else []
    modes = policy.validators
    if modes.similarity is Mode.OFF or play is None or play.shingles.size < policy.forensics.minimum_shingles:
        return exact if modes.recording_reuse is not Mode.OFF else []
    return [*exact, *bands_of(play.shingles)]
