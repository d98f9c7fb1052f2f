"""Inclusion proofs: that events of a submission were sealed, for whoever has the public key and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.chain import Digest, Seal
from gateway.ledger.seals.keys import PublicKeys
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.merkle import inclusion_path, leaf_hash, root_by_path
from policies.errors import LedgerTampered, ProofInvalid

PATH_LIMIT: Final = 63


class ProofSection(BaseModel):
    """A section of a proof: closed, strict, bytes in hexadecimal."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_bytes="hex", val_json_bytes="hex"
    )


class Bytes(ProofSection):
    """A value that is bytes, told apart from text."""

    hex: bytes


Value = int | str | Bytes
Fields = dict[str, Value]


class ProvenEvent(ProofSection):
    """An event as it was sealed: its columns, the submission's facts if it is the first, and its way to the root."""

    event: Fields
    facts: Fields | None = None
    path: Annotated[list[Digest], Field(max_length=PATH_LIMIT)]
    seal: Seal


class Proof(ProofSection):
    """The sealed events of one submission, oldest first."""

    format: Literal["scoregate-proof-1"] = "scoregate-proof-1"
    submission: str
    events: Annotated[list[ProvenEvent], Field(min_length=1)]

    def written(self) -> bytes:
        """The one text of this proof."""
        plain = orjson.loads(self.model_dump_json(exclude_none=True))
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


async def prove(ledger: Ledger, submission_id: str) -> tuple[Proof | None, int]:
    """The proof of a submission's sealed events, None if there are none, and how many events are not sealed yet.

    Raises LedgerTampered if an event is not what was sealed.
    """
    rows = await ledger.read(chain.event_rows(submission_id))
    proven = [await _prove(ledger, event, facts) for event, facts in rows]
    sealed = [each for each in proven if each is not None]
    proof = Proof(submission=submission_id, events=sealed) if sealed else None
    return proof, len(rows) - len(sealed)


def check_proof(written: bytes, keys: PublicKeys) -> Proof:
    """The proof that a text is, each of its events under a root that one of the keys signed. Raises ProofInvalid.

    There is one text for each proof: a byte that can be changed without a trace is none that is proven.
    """
    try:
        proof = Proof.model_validate_json(written)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the text"
        raise ProofInvalid(f"this is no proof: {where}: {first['msg']}") from None
    if proof.written() != written:
        raise ProofInvalid("this is not how a proof is written")
    seqs = [_check(each, proof.submission, keys) for each in proof.events]
    if seqs != sorted(set(seqs)):
        raise ProofInvalid("its events are not in order")
    return proof


def _check(proven: ProvenEvent, submission_id: str, keys: PublicKeys) -> int:
    """The sequence number of a proven event. Raises ProofInvalid if the event is of another submission, or is not under a signed root."""
    event, seal = _plain(proven.event), proven.seal
    seq = event.get("seq")
    if not isinstance(seq, int) or event.get("submission_id") != submission_id:
        raise ProofInvalid("an event of it is none of this submission")
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


async def _prove(
    ledger: Ledger, event: Mapping[str, Any], facts: Mapping[str, Any] | None
) -> ProvenEvent | None:
    seq = event["seq"]
    seal = await ledger.read(chain.seal_at(seq))
    if seal is None:
        return None
    kept = await ledger.read(chain.sealed_leaves(seal))
    if kept is None or kept[seq - seal.first_seq] != leaf_hash(entry_of(event, facts)):
        raise LedgerTampered(f"event {seq} is not what was sealed; `scoregate ledger verify` says more")
    return ProvenEvent(
        event=_fields(event),
        facts=None if facts is None else _fields(facts),
        path=inclusion_path(kept, seq - seal.first_seq),
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
