"""The evidence about each submission: its recording, its inputs, and similar recordings on the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from gateway.ledger.judgement.bands import BandedRecording, Neighbour, put_and_find
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import VerificationLease
from gateway.recordings.recordings import Recordings
from policies.choices import Operator
from policies.errors import RecordingLost, RecordingsUnavailable
from policies.loader import Board
from policies.model import Policy
from policies.replaying import RecordingKind
from policies.vocabulary import Mode
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import NO_SHINGLES, Hashes, bands_of, bands_of_all
from replay.forensics.similarity import ComparableRecording, read_together
from replay.recording import Recording, RecordingError, decode
from replay.worker.failure_isolation import isolate_failures, submission_id_of

MOST_COMPARED: Final = 4
"""Recordings that one is compared with, those that share most bands; each costs a few milliseconds."""

EXPANDED_BYTES: Final = 256 * 2**20
"""Inputs of a job that are expanded at once, unless one recording has more: 64 runs of a million ticks."""

TICK_BYTES: Final = 4

_REPEATS_PAY: Final = frozenset({Operator.SUM, Operator.COUNT})
"""Where a player gains by sending their own run again. Elsewhere it counts at most once, and a player who
always plays the same opening, or knows a course by heart, resembles nobody more than themselves."""


@dataclass(frozen=True, slots=True)
class RecordingEvidence:
    """One recording, ready to be examined.

    `same` are submissions with the same recording, `candidates` those to compare it with, and `compared` the
    candidates once their recordings are loaded. `earlier` are those of both that were received before it.
    """

    recording: bytes | None = None
    comparable: ComparableRecording | None = None
    same: tuple[str, ...] = ()
    candidates: tuple[Neighbour, ...] = ()
    compared: Sequence[tuple[str, ComparableRecording]] = ()
    earlier: frozenset[str] = frozenset()

    @property
    def inputs(self) -> Inputs | None:
        """Return its inputs; None if it has none that can be read."""
        return self.comparable.inputs if self.comparable else None

    @property
    def played(self) -> Recording | None:
        """Return what was decoded; None in a game's own format, and if it cannot be decoded."""
        return self.comparable.played if self.comparable else None


class EvidenceCollector:
    """Collects evidence for a part of a job at a time, in one commit of the ledger.

    At any time it expands the recordings of that part and MOST_COMPARED others.
    """

    def __init__(self, ledger: Ledger, recordings: Recordings) -> None:
        self._ledger = ledger
        self._recordings = recordings

    async def collect(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> dict[str, RecordingEvidence]:
        """Return the evidence by submission, empty for a recording that is unavailable.

        A submission that makes us fail has no evidence, and the others have theirs. Raises LedgerUnavailable.
        """
        parts = await isolate_failures(lambda some: self._collect(boards, some), leases, submission_id_of)
        return {name: evidence for part in parts for name, evidence in part.items()}

    async def _collect(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> dict[str, RecordingEvidence]:
        evidence = await self._read(boards, leases)
        banded = _banded_all(boards, leases, evidence)
        if any(entry.bands for entry in banded):
            neighbours = await self._ledger.write(put_and_find(banded))
            for lease, candidates in zip(leases, neighbours, strict=True):
                name, policy = lease.submission.submission_id, boards[lease.submission.board].policy
                evidence[name] = _with_candidates(lease, policy, evidence[name], candidates)
        return evidence

    async def _read(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> dict[str, RecordingEvidence]:
        """Return the recording of each submission in comparable form, all of them read together."""
        evidence: dict[str, RecordingEvidence] = {}
        read: dict[tuple[str, bytes], RecordingEvidence] = {}  # one of each recording: some send one often
        together: list[ComparableRecording] = []
        for lease in leases:
            same = lease.submission.board, lease.submission.recording_digest or b""
            if (own := read.get(same)) is None:
                recording, policy = await self._recording(lease), boards[lease.submission.board].policy
                own = RecordingEvidence(recording, _comparable_of(recording, policy) if recording else None)
                if own.comparable and policy.validators.similarity is not Mode.OFF:
                    together.append(own.comparable)
                if recording and lease.submission.recording_digest:
                    read[same] = own
            evidence[lease.submission.submission_id] = own
        read_together(together)
        return evidence

    async def with_compared(self, policy: Policy, evidence: RecordingEvidence) -> RecordingEvidence:
        """Return the evidence with the candidates' recordings loaded, leaving out those that are lost.

        Copies of the very same bytes are at hand, so they are neither loaded nor decoded. Raises
        RecordingsUnavailable, so that an outage of the store hides no original.
        """
        compared = []
        for candidate in evidence.candidates:
            assert candidate.recording is not None
            if evidence.comparable and candidate.submission_id in evidence.same:
                compared.append((candidate.submission_id, evidence.comparable))
                continue
            try:
                recording = await self._recordings.load(candidate.recording)
            except RecordingLost:
                continue
            comparable = _comparable_of(recording, policy)
            if comparable:
                compared.append((candidate.submission_id, comparable))
        return replace(evidence, compared=compared)

    async def bands_of(self, lease: VerificationLease, policy: Policy) -> Sequence[int]:
        """Return the bands under which the index has a recording; without the recording, its digest's."""
        recording = None if policy.validators.similarity is Mode.OFF else await self._recording(lease)
        comparable = _comparable_of(recording, policy) if recording else None
        return _bands(lease, policy, bands_of(_indexed_shingles(policy, comparable)))

    async def _recording(self, lease: VerificationLease) -> bytes | None:
        try:
            return await self._recordings.load(lease.recording) if lease.recording else None
        except (RecordingsUnavailable, RecordingLost):
            return None  # the verifier loads it again, and decides what its loss means


def parts_of(
    boards: Mapping[str, Board], leases: Sequence[VerificationLease]
) -> list[list[VerificationLease]]:
    """Return a job's leases in parts whose recordings may be expanded at once; usually that is one part."""
    parts: list[list[VerificationLease]] = [[]]
    size = 0
    for lease in leases:
        replay = boards[lease.submission.board].policy.replay
        largest = TICK_BYTES * replay.maximum_ticks if replay else 0
        if parts[-1] and size + largest > EXPANDED_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(lease)
        size += largest
    return parts


def _with_candidates(
    lease: VerificationLease, policy: Policy, evidence: RecordingEvidence, neighbours: Sequence[Neighbour]
) -> RecordingEvidence:
    """Return the evidence with the neighbours to compare it with, not loaded yet."""
    digest = lease.submission.recording_digest
    same = tuple(neighbour.submission_id for neighbour in neighbours if neighbour.digest == digest)
    candidates: list[Neighbour] = []
    if evidence.comparable and evidence.comparable.shingles.size >= policy.forensics.minimum_shingles:
        suspects = (neighbour for neighbour in neighbours if _may_be_a_copy(lease, neighbour, policy))
        candidates = list(islice(suspects, MOST_COMPARED))
    seq = lease.submission.seq
    earlier = frozenset(neighbour.submission_id for neighbour in neighbours if neighbour.seq < seq)
    return replace(evidence, same=same, candidates=tuple(candidates), earlier=earlier)


def _may_be_a_copy(lease: VerificationLease, other: Neighbour, policy: Policy) -> bool:
    if policy.validators.similarity is Mode.OFF or other.recording is None:
        return False
    return other.player != lease.submission.player or policy.operator in _REPEATS_PAY


def _comparable_of(recording: bytes, policy: Policy) -> ComparableRecording | None:
    """Return the recording in comparable form; None if it is not what the board takes."""
    if policy.replay is None:
        return None
    if policy.replay.recording is RecordingKind.RAW:
        return ComparableRecording(recording, None)
    try:
        decoded = decode(recording, maximum_ticks=policy.replay.maximum_ticks)
    except RecordingError:
        return None
    return ComparableRecording(recording, inputs_of(decoded.inputs, policy.forensics.buttons), decoded)


def _banded_all(
    boards: Mapping[str, Board],
    leases: Sequence[VerificationLease],
    evidence: Mapping[str, RecordingEvidence],
) -> list[BandedRecording]:
    """Return the recordings of a job with their bands in the index."""
    policies = [boards[lease.submission.board].policy for lease in leases]
    shingles = [
        _indexed_shingles(policy, evidence[lease.submission.submission_id].comparable)
        for lease, policy in zip(leases, policies, strict=True)
    ]
    return [
        BandedRecording(
            policy.board, lease.submission.seq, _bands(lease, policy, bands), lease.submission.player
        )
        for lease, policy, bands in zip(leases, policies, bands_of_all(shingles), strict=True)
    ]


def _bands(lease: VerificationLease, policy: Policy, bands: Sequence[int]) -> Sequence[int]:
    """Return a recording's bands in the index: one from its SHA-256, and those of its shingles."""
    digest = lease.submission.recording_digest
    exact = [int.from_bytes(digest[:8], "big", signed=True)] if digest else []
    return [*exact, *bands] if bands or policy.validators.recording_reuse is not Mode.OFF else []


def _indexed_shingles(policy: Policy, comparable: ComparableRecording | None) -> Hashes:
    """Return the shingles that a recording can be found by; none on a board that does not look for copies."""
    if policy.validators.similarity is Mode.OFF or comparable is None:
        return NO_SHINGLES
    return (
        comparable.shingles if comparable.shingles.size >= policy.forensics.minimum_shingles else NO_SHINGLES
    )
