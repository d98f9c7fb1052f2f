"""Looking into the ledger from the command line: is it what was sealed, and what did it say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.audit import AuditReport, audit, check_checkpoints
from gateway.ledger.seals.checkpoints import export_checkpoints
from gateway.ledger.seals.keys import PublicKeys, read_public_keys
from gateway.ledger.seals.proofs import Proof, check_proof, prove
from gateway.ledger.standings.history import board_as_of, ranks_of
from gateway.runtime.clock import parse_rfc3339, rfc3339, wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.seals.sealing import seal_key_of
from gateway.wiring import load_policies
from policies.errors import LedgerTampered, ProofInvalid, SettingsError
from policies.windows import window_at, window_named
from scoregate.existing import existing_ledger

PROOF_LIMIT_BYTES = 16 * 1024 * 1024


def public_key(settings: Settings) -> str:
    """The public key of the deployment's seals, in PEM. Raises SettingsError if there is none yet."""
    return seal_key_of(settings, is_made=False).public_pem()


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found whole; since when events wait to be sealed for longer than they should; and how many heads are there."""

    audit: AuditReport
    overdue_since_ms: int | None
    heads: int | None = None

    def words(self) -> str:
        """The same for people."""
        told = _told(self.audit)
        if self.overdue_since_ms is not None:
            since = rfc3339(self.overdue_since_ms)
            told += f" though they wait since {since}: the newest seals were removed, or no steward runs"
        return told if self.heads is None else f"{told}\nall {self.heads} exported heads are in the ledger"

    def facts(self) -> dict[str, object]:
        """The same for programs."""
        overdue = None if self.overdue_since_ms is None else rfc3339(self.overdue_since_ms)
        found = {**asdict(self.audit), "unsealed_events": self.audit.unsealed_events}
        return {"is_clean": True, **found, "overdue_since": overdue, "heads": self.heads}


@dataclass(frozen=True, slots=True)
class BoardThen:
    """A board as it stood: what it was, in a sentence, and its first entries."""

    head: str
    rows: list[dict[str, object]]


async def verify(settings: Settings, key_file: Path | None, heads_file: Path | None) -> Verified:
    """What was found whole. Raises LedgerTampered, or what kept it from being checked."""
    keys = _keys(settings, key_file)
    async with existing_ledger(settings) as ledger:
        found = await audit(ledger, keys)
        verified = Verified(found, await _overdue(ledger, found, settings))
        if heads_file is None:
            return verified
        with _opened(heads_file) as lines:
            count = await check_checkpoints(ledger, keys, lines)
    if not count:
        raise SettingsError(f"{heads_file}: has no heads, and an empty file proves nothing")
    return replace(verified, heads=count)


async def export(settings: Settings, path: Path) -> int:
    """How many heads were appended to the file."""
    async with existing_ledger(settings) as ledger:
        return await export_checkpoints(ledger, path)


async def write_proof(settings: Settings, submission_id: str) -> tuple[bytes, int]:
    """The proof of a submission's sealed events, as it is written, and how many events it does not speak of yet.

    Raises SettingsError if there is nothing to prove.
    """
    async with existing_ledger(settings) as ledger:
        proof, unsealed = await prove(ledger, submission_id)
    if proof is None and not unsealed:
        raise SettingsError(f"there is no submission {submission_id}")
    if proof is None:
        raise SettingsError(
            f"no event of {submission_id} is sealed yet; the steward seals within {settings.seal_s:g} s"
        )
    return proof.written(), unsealed


def verify_proof(file: Path, key_file: Path) -> str:
    """What a proof proves, in words, by nothing but a public key. Raises ProofInvalid."""
    keys = read_public_keys(key_file)
    try:
        if file.stat().st_size > PROOF_LIMIT_BYTES:
            raise ProofInvalid("this is no proof: it is too large")
        written = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: the proof cannot be read: {error}") from None
    return _proven(check_proof(written, keys))


async def as_of(settings: Settings, board_name: str, instant_ms: int, window: str, limit: int) -> BoardThen:
    """A board as it stood at an instant. Raises SettingsError for a board or a window that there is not."""
    board = load_policies(settings).get(board_name)
    if board is None:
        raise SettingsError(f"there is no board {board_name!r}")
    kinds = {kind.value: kind for kind in board.policy.windows}
    try:
        span = (
            window_at(board.policy, kinds[window], instant_ms)
            if window in kinds
            else window_named(board.policy, window)
        )
    except ValueError:
        raise SettingsError(f"the board keeps the windows {', '.join(kinds)}") from None
    async with existing_ledger(settings) as ledger:
        standings = await board_as_of(ledger, board.policy, span, instant_ms)
    first = standings[:limit]
    ranks = ranks_of(first, board.ranking, span, board.policy.ranks[0])
    rows = [
        {
            "rank": rank,
            "score": each.score,
            "player": each.player,
            "achieved_at": rfc3339(each.achieved_at_ms),
            "submission": each.submission_id,
        }
        for rank, each in zip(ranks, first, strict=True)
    ]
    at = rfc3339(instant_ms)
    return BoardThen(f"{board_name}, {span.name}, at {at}: {len(standings)} entries", rows)


def instant_ms(text: str) -> int:
    """The instant of an RFC 3339 text, in Unix milliseconds. Raises SettingsError."""
    at_ms = parse_rfc3339(text)
    if at_ms is None or at_ms > wall_clock():
        raise SettingsError(f"{text}: expected an instant that has been, as 2026-11-20T12:00:00Z")
    return at_ms


def _keys(settings: Settings, key_file: Path | None) -> PublicKeys:
    if key_file is not None:
        return read_public_keys(key_file)
    return PublicKeys(seal_key_of(settings, is_made=False).public_key)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise SettingsError(f"{path}: the heads cannot be read: {error}") from None


def _told(found: AuditReport) -> str:
    tail = (
        f"{found.unsealed_events} events from {found.sealed_events + 1} on are not sealed yet"
        if found.unsealed_events
        else "nothing is left to seal"
    )
    return (
        f"clean: {found.events} events of {found.submissions} submissions, "
        f"{found.sealed_events} of them under {found.seals} seals; {tail}"
    )


async def _overdue(ledger: Ledger, found: AuditReport, settings: Settings) -> int | None:
    """Since when events wait that should be sealed by now. Raises LedgerTampered if nothing at all is sealed."""
    since_ms = (await ledger.read(chain.unsealed())).since_ms
    if since_ms is None or since_ms >= wall_clock() - settings.seal_s * 1000:
        return None
    if not found.seals:
        raise LedgerTampered(
            f"nothing is sealed, though {found.events} events wait since {rfc3339(since_ms)}: "
            "the seals were removed, or no steward has run"
        )
    return since_ms


def _proven(proof: Proof) -> str:
    lines = [f"proven: {len(proof.events)} events of submission {proof.submission}"]
    for each in proof.events:
        event, facts = each.event, each.facts or {}
        claim = f", score {facts['score']} by {facts['player']}" if facts else ""
        sealed = f"sealed {rfc3339(each.seal.created_at_ms)} by {each.seal.key_id}"
        lines.append(f"  event {event['seq']}: {event['from_state']} to {event['to_state']}{claim}; {sealed}")
    return "\n".join(lines)
