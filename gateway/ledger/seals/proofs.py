"""Inclusion proofs that events of a submission, or of a board's life, were sealed.

Checking one takes only the public key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.chain import Digest, EventRow, Seal
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.merkle import inclusion_path, leaf_hash, root_by_path
from gateway.ledger.seals.signing_keys import PublicKeys
from policies.errors import LedgerTampered, ProofInvalid

PATH_LIMIT: Final = 63
"""Most hashes of a path: sequence numbers have 63 bits."""


class ProofSection(BaseModel):
    """The base of a proof's sections: strict models without extra fields, with bytes in hexadecimal."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_bytes="hex", val_json_bytes="hex"
    )


class Bytes(ProofSection):
    """A value of bytes, which JSON cannot tell from text."""

    hex: bytes


Value = int | str | Bytes
Fields = dict[str, Value]


class ProvenEvent(ProofSection):
    """A sealed event: its columns, the submission's facts if it is the first, and its path to the root."""

    event: Fields
    facts: Fields | None = None
    path: Annotated[list[Digest], Field(max_length=PATH_LIMIT)]
    seal: Seal


class Proof(ProofSection):
    """The sealed events of one submission, or of one board's life, oldest first."""

    format: Literal["scoregate-proof-1"] = "scoregate-proof-1"
    submission: str | None = None
    board: str | None = None
    events: Annotated[list[ProvenEvent], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_one_subject(self) -> Self:
        if (self.submission is None) == (self.board is None):
            raise ValueError("expected a submission or a board")
        return self

    @property
    def subject(self) -> str:
        """Return what it is about, in words."""
        return f"submission {self.submission}" if self.board is None else f"board {self.board}"

    def written(self) -> bytes:
        """Return the proof as text. Each proof has exactly one text."""
        plain = orjson.loads(self.model_dump_json(exclude_none=True))
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


async def prove(ledger: Ledger, submission_id: str) -> tuple[Proof | None, int]:
    """Return the proof of a submission's sealed events (None without any), and how many have no seal yet.

    Raises LedgerTampered if an event is not what was sealed.
    """
    rows = await ledger.read(chain.event_rows(submission_id))
    sealed = await _sealed(ledger, rows)
    proof = Proof(submission=submission_id, events=sealed) if sealed else None
    return proof, len(rows) - len(sealed)


async def prove_life(ledger: Ledger, board: str) -> tuple[Proof | None, int]:
    """Return the proof of a board's life, by its sealed events, and how many have no seal yet.

    Raises LedgerTampered as `prove` does.
    """
    rows = await ledger.read(chain.life_rows(board))
    sealed = await _sealed(ledger, rows)
    return Proof(board=board, events=sealed) if sealed else None, len(rows) - len(sealed)


def check_proof(written: bytes, keys: PublicKeys) -> Proof:
    """Return the proof of a text after checking that one of the keys signed the root over each event.

    Raises ProofInvalid. Each proof has exactly one text, so no byte of it can change unnoticed.
    """
    try:
        proof = Proof.model_validate_json(written)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the text"
        raise ProofInvalid(f"this is not a proof: {where}: {first['msg']}") from None
    if proof.written() != written:
        raise ProofInvalid("this is not the exact text of a proof")
    seqs = [_check(event, proof, keys) for event in proof.events]
    if seqs != sorted(set(seqs)):
        raise ProofInvalid("its events are not in order")
    return proof


def _check(proven: ProvenEvent, proof: Proof, keys: PublicKeys) -> int:
    """Check an event, and return its sequence number.

    Raises ProofInvalid if it belongs to another submission or board, or if no signed root covers it.
    """
    event, seal = _plain(proven.event), proven.seal
    seq = event.get("seq")
    if not isinstance(seq, int) or not _is_about(proof, event):
        what = "submission" if proof.board is None else "board"
        raise ProofInvalid(f"one of its events belongs to another {what}")
    if not seal.is_signed_by_any(keys):
        raise ProofInvalid(f"{seal} is not signed by the key")
    facts = None if proven.facts is None else _plain(proven.facts)
    try:
        leaf = leaf_hash(entry_of(event, facts))
    except ValueError as error:
        raise ProofInvalid(f"event {seq}: {error}") from None
    if root_by_path(leaf, seq - seal.first_seq, seal.size, proven.path) != seal.root:
        raise ProofInvalid(f"event {seq} is not under {seal}")
    return seq


def _is_about(proof: Proof, event: Mapping[str, Any]) -> bool:
    if proof.board is None:
        return bool(event.get("submission_id") == proof.submission)
    # An event of a board's life has no submission and no player.
    subject = (event.get("board"), event.get("submission_id"), event.get("player"))
    return subject == (proof.board, "", "")


async def _sealed(ledger: Ledger, rows: Sequence[EventRow]) -> list[ProvenEvent]:
    """Return the proofs of those of these events, oldest first, that are sealed. Each seal is read once."""
    proven: list[ProvenEvent] = []
    seal: Seal | None = None
    leaves: Sequence[bytes] | None = None
    for event, facts in rows:
        if seal is None or event["seq"] > seal.last_seq:
            seal = await ledger.read(chain.seal_at(event["seq"]))
            if seal is None:
                return proven
            leaves = await ledger.read(chain.sealed_leaves(seal))
        proven.append(_proven(event, facts, seal, leaves))
    return proven


def _proven(
    event: Mapping[str, Any], facts: Mapping[str, Any] | None, seal: Seal, leaves: Sequence[bytes] | None
) -> ProvenEvent:
    seq = event["seq"]
    if leaves is None or leaves[seq - seal.first_seq] != leaf_hash(entry_of(event, facts)):
        # Also if its texts were erased, which leaves nothing that the seal itself covers.
        raise LedgerTampered(f"event {seq} is not what was sealed; `scoregate ledger verify` says more")
    return ProvenEvent(
        event=_fields(event),
        facts=None if facts is None else _fields(facts),
        path=inclusion_path(leaves, seq - seal.first_seq),
        seal=seal,
    )


def _fields(row: Mapping[str, Any]) -> Fields:
    return {
        name: Bytes(hex=value) if isinstance(value, bytes) else value
        for name, value in row.items()
        if value is not None
    }


def _plain(fields: Fields) -> dict[str, int | str | bytes]:
    return {name: value.hex if isinstance(value, Bytes) else value for name, value in fields.items()}
