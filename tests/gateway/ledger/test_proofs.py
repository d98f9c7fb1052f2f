"""Inclusion proofs: they hold with nothing but the public key, and not with a bit of them changed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.ledger.seals.chain import seal_of
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.merkle import leaf_hash
from gateway.ledger.seals.proofs import Proof, ProvenEvent, check_proof, prove
from gateway.ledger.seals.signing_keys import PublicKeys, SealKey, read_public_keys
from gateway.steward.seals.sealing import seal_key_of
from policies.errors import LedgerTampered, ProofInvalid, SettingsError
from tests.support.ledger import opened
from tests.support.sealed import RUNS, SealedLedger


async def proof_of(sealed: SealedLedger, submission_id: str) -> tuple[bytes, int]:
    async with opened(sealed.path) as ledger:
        proof, unsealed = await prove(ledger, submission_id)
    return (proof.written() if proof else b""), unsealed


async def test_every_sealed_event_is_proven(sealed: SealedLedger):
    """Each run: its events up to the last seal, with the facts in the first; the newer ones are counted."""
    sealed_seqs = {n: [n + 1, n + 11] if n < 5 else [n + 1] for n in range(RUNS)}
    for n, seqs in sealed_seqs.items():
        written, unsealed = await proof_of(sealed, f"run-{n}")
        proof = check_proof(written, sealed.keys)
        assert seqs == [each.event["seq"] for each in proof.events]
        assert ((n in {0, 5}), 100 + n) == (unsealed == 1, proof.events[0].facts["score"])
    assert (b"", 0) == await proof_of(sealed, "nobody")


async def test_M09_a_proof_holds_in_an_empty_directory(sealed: SealedLedger, tmp_path: Path):
    """Another process, with no ledger, no settings and no secret: the proof, the public key, and the verdict."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "proof.json").write_bytes((await proof_of(sealed, "run-3"))[0])
    public = seal_key_of(sealed.settings, is_made=False).public_pem()
    (tmp_path / "far" / "key.pem").write_text(public)
    (tmp_path / "data").rename(tmp_path / "gone")

    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCOREGATE_")}
    command = [
        sys.executable,
        "-m",
        "scoregate",
        "ledger",
        "verify-proof",
        "proof.json",
        "--public-key",
        "key.pem",
    ]
    folder = tmp_path / "far"
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "event 4: received to pending, score 103 by p0" in done.stdout
    assert "event 14: pending to promoted" in done.stdout
    assert {"proof.json", "key.pem"} == {path.name for path in (tmp_path / "far").iterdir()}


async def test_M09_no_bit_of_a_proof_can_be_flipped(sealed: SealedLedger):
    """Every byte of the file, in the bit that changes the case of hexadecimal, and in another one."""
    written, _ = await proof_of(sealed, "run-8")
    for at in range(len(written)):
        for bit in {5, at % 8}:
            flipped = bytearray(written)
            flipped[at] ^= 1 << bit
            with pytest.raises(ProofInvalid):
                check_proof(bytes(flipped), sealed.keys)
    assert check_proof(written, sealed.keys)


async def test_M09_a_proof_that_says_something_else_does_not_hold(sealed: SealedLedger):
    """Other facts, another event's path, another seal, another key, events twice or out of order: refused."""
    written, _ = await proof_of(sealed, "run-3")
    other = json.loads((await proof_of(sealed, "run-2"))[0])
    proof = json.loads(written)
    first, second = proof["events"]
    wrong = [
        proof | {"submission": "run-2"},
        proof | {"events": [second, first]},
        proof | {"events": [first, first]},
        proof | {"events": []},
        proof | {"events": [first, other["events"][1]]},
        proof | {"events": [first | {"facts": first["facts"] | {"score": 999}}]},
        proof | {"events": [{name: value for name, value in first.items() if name != "facts"}]},
        proof | {"events": [second | {"facts": first["facts"]}]},
        proof | {"events": [first | {"path": first["path"][1:]}]},
        proof | {"events": [first | {"path": first["path"] + first["path"][:1]}]},
        proof | {"events": [first | {"seal": second["seal"]}]},
        proof | {"events": [first | {"event": first["event"] | {"seq": 2**70}}]},
        proof | {"events": [first | {"event": first["event"] | {"seq": True}}]},
        proof | {"more": 1},
    ]
    for each in wrong:
        with pytest.raises(ProofInvalid):
            check_proof(json.dumps(each, indent=2).encode() + b"\n", sealed.keys)
    assert written == json.dumps(proof, indent=2).encode() + b"\n"
    with pytest.raises(ProofInvalid, match="not signed by the key"):
        check_proof(written, PublicKeys(SealKey(bytes(32)).public_key))
    for text in (b"", b"{}", b"\xff", b"[" * 100_000, b"null", written + b"\n", written.strip()):
        with pytest.raises(ProofInvalid):
            check_proof(text, sealed.keys)


def test_M09_the_life_of_a_board_is_proven_by_its_own_events_alone():
    """What its players did there is no part of it, though sealed: a run's event, or a rollup's of a player."""
    key = SealKey(bytes(32))

    def proof_of_life(**facts: str) -> bytes:
        event = {
            "seq": 1,
            "board": "track.monza",
            "submission_id": "",
            "player": "",
            "to_state": "closed",
            **facts,
        }
        seal = seal_of(key, None, [leaf_hash(entry_of(event, None))], at_ms=1)
        return Proof(board="track.monza", events=[ProvenEvent(event=event, path=[], seal=seal)]).written()

    assert check_proof(proof_of_life(), PublicKeys(key.public_key))
    for other in ({"submission_id": "run-1"}, {"player": "ada"}, {"board": "track.spa"}):
        with pytest.raises(ProofInvalid, match="belongs to another board"):
            check_proof(proof_of_life(**other), PublicKeys(key.public_key))


async def test_M09_what_is_not_as_it_was_sealed_is_not_proven(sealed: SealedLedger):
    """A proof is never made of an event that was changed, or under leaves that were."""
    sealed.tamper("UPDATE submissions SET score = 1 WHERE submission_id = 'run-3'")
    with pytest.raises(LedgerTampered, match="event 4 is not what was sealed"):
        await proof_of(sealed, "run-3")
    assert (await proof_of(sealed, "run-9"))[0]
    sealed.tamper("UPDATE seals SET leaves = x'' WHERE first_seq = 6")
    with pytest.raises(LedgerTampered, match="event 10 is not what was sealed"):
        await proof_of(sealed, "run-9")


def test_public_keys_are_read_from_pem_one_or_more(tmp_path: Path):
    """After a change of keys both are believed; what is no Ed25519 public key is refused, with what was expected."""
    path = tmp_path / "keys.pem"
    one, two = SealKey(bytes(32)), SealKey(bytes([1]) * 32)
    path.write_text(one.public_pem() + two.public_pem())
    keys = read_public_keys(path)
    assert all(keys.is_signed(each.key_id, b"message", each.sign(b"message")) for each in (one, two))
    assert not keys.is_signed(one.key_id, b"message", two.sign(b"message"))
    other = X25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    of_another_kind = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    broken = one.public_pem().replace("M", "N")
    for text in ("", "a key", broken, of_another_kind, one.public_pem() + of_another_kind):
        path.write_text(text)
        with pytest.raises(SettingsError):
            read_public_keys(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_public_keys(tmp_path / "nothing")
