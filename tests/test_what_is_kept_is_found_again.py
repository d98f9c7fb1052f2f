"""What is kept is found again by a later version: the names, numbers and digests under which it lies.

Each value was computed once and written down. If one differs, what deployments have kept by then is lost to
them, though every other test passes: they keep and look up with one version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pytest

from gateway.derived.webhooks.event_types import trial
from gateway.edge.auth import moderator_secrets
from gateway.edge.auth.keyring import Keyring
from gateway.edge.auth.tickets import Ticket, Tickets
from gateway.edge.auth.tokens import Bearer, Role, Tokens
from gateway.edge.auth.trusted_servers import operation_submission
from gateway.edge.identities.digests import IdentityDigests
from gateway.ledger.name_keys import name_key, search_key
from gateway.ledger.seals.chain import seal_of
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.merkle import leaf_hash, root_of
from gateway.ledger.seals.signing_keys import SealKey
from gateway.settlement.bans import ban_id_of
from gateway.settlement.batches import batch_id_of
from policies.digests import simulator_digest
from policies.judging import ALL_BITS
from policies.model import Policy
from policies.opened_board import NO_CONTENT, canonical_parameters, content_digest
from policies.ranking import Ranking
from policies.seeds import board_seed
from replay.fingerprint import fingerprint_of
from replay.forensics.inputs import inputs_of
from replay.forensics.shingles import bands_of, shingles_of, shingles_of_bytes
from replay.recording import encode, pack_inputs
from replay.simulators import Simulation
from tests.support.policies import a_policy

MASTER: Final = bytes(range(32))
EVENT: Final = {"seq": 7, "board": "arcade", "reason": "verified", "detail": "{}"}
FACTS: Final = {"score": -5, "details": None, "recording_digest": b"\0\1"}
PRESSED: Final = pack_inputs([tick * tick // 50 % 4 for tick in range(600)])
NUMBERS: Final = pack_inputs([(tick * 7919) % 997 for tick in range(600)])
TOKEN: Final = (
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9."
    "eyJpc3MiOiJzY29yZWdhdGUiLCJzdWIiOiJhZGEiLCJyb2xlIjoicGxheWVyIiwiaWF0Ijo3LCJleHAiOjksImdlbiI6MX0."
    "gnm5vR1WQ7wrWvWrfqJ9la3zYUkl1RTEDtbM0XhNRUo"
)
TIES: Final = [{"stat": "coins", "order": "descending"}]
STATS: Final = {"coins": {"minimum": 0, "maximum": 9, "required": True}}
SMALL: Final = {"minimum": 0, "maximum": 1000, "step": 1}
TICKET: Final = Ticket("0" * 26, "arcade", "ada", "1.0.0", MASTER, 2**63, 5, 6, 3, None, 9, MASTER)


def numbers(bands: Iterable[int]) -> str:
    return ",".join(map(str, bands))


def rule(**changes: object) -> str:
    return Ranking(Policy.model_validate(a_policy(**changes))).rule


KEPT: Final[dict[str, tuple[Callable[[], object], str]]] = {
    "the key of a run": (lambda: Keyring(MASTER).derive(b"run"), "cecbdfb8cd29d3554885950139a875c8"),
    "a ticket": (lambda: Tickets(Keyring(MASTER)).issue(TICKET)[0], "f89183e3033284f0b97566a8907849c3"),
    "a ticket without content": (
        lambda: Tickets(Keyring(MASTER)).issue(TICKET._replace(board_content=NO_CONTENT))[0],
        "8760360202771ac574ebaf8f2243e4c9",
    ),
    "an identity": (
        lambda: IdentityDigests(MASTER).identity("device", "key").subject_digest,
        "92eb7674aea860415d63043e152d3327",
    ),
    "a credential that is good once": (
        lambda: IdentityDigests(MASTER).of_credential("steam", "7"),
        "5dc718d27c531255b1f344cef15562a0",
    ),
    "a secret of a moderator": (
        lambda: moderator_secrets.digest_of("secret"),
        "3881219d087dd9c634373fd33dfa33a2",
    ),
    "an operation of a server": (
        lambda: operation_submission("key", "op-1"),
        "9e3aa0c05f6e3b984af791a69a497dd8",
    ),
    "a ban": (lambda: ban_id_of("moderator:mia", "ada", "op-1"), "e0b90e040e4e9d1309de96a583eec743"),
    "a batch": (lambda: batch_id_of("moderator:mia", "op-1"), "a630c1e824c80a084450d4c63941c171"),
    "an event of webhooks": (lambda: trial("arcade", now_ms=1).event_id, "97610629db864298ce9d2f290ad9c6cb"),
    "an event in the log": (lambda: leaf_hash(entry_of(EVENT, FACTS)), "b977e321b06ae7b69eb76266fe3f18e1"),
    "a later event in the log": (
        lambda: leaf_hash(entry_of(EVENT, None)),
        "ae24069e78577923885f135ba3ebe6f2",
    ),
    "a root": (
        lambda: root_of([leaf_hash(each) for each in (b"a", b"b", b"c")]),
        "7b9bd3200eb151d688919853cebe646b",
    ),
    "a seal": (
        lambda: seal_of(SealKey(MASTER), None, [MASTER], at_ms=1).digest,
        "f9e3a9422225ca2ce8e2a762fed98884",
    ),
    "a seal's signature": (
        lambda: seal_of(SealKey(MASTER), None, [MASTER], at_ms=1).signature,
        "8d0035167696b39fd540effcbaa01572",
    ),
    "a board's seed": (
        lambda: board_seed("track", "track.monza", NO_CONTENT),
        "ff0c13f27faf8ae617b324fb37610d3f",
    ),
    "a board's content": (
        lambda: content_digest(canonical_parameters({"laps": 3, "at": "ä"}), MASTER),
        "6261657518817b9aed12d0586c3ca65a",
    ),
    "a simulator with files": (
        lambda: simulator_digest("ab" * 32, {"level.json": "cd" * 32}),
        "227d37e2df97e0e935b5752a59df4877",
    ),
    "a recording": (lambda: encode(PRESSED, [1, 2], 300), "0fc2c384fd1905d046d990d0d0e10834"),
    "likeness by buttons": (
        lambda: numbers(bands_of(shingles_of(inputs_of(PRESSED, ALL_BITS)))),
        "bbf26931ddb9de9c533c1ea10c465bbf",
    ),
    "likeness by numbers": (
        lambda: numbers(bands_of(shingles_of(inputs_of(NUMBERS, ALL_BITS)))),
        "cd3368c2cb581ab872ca1b3fbdb0487f",
    ),
    "likeness by bytes": (
        lambda: numbers(bands_of(shingles_of_bytes(PRESSED))),
        "7f53b1c63785cd2cd11122187a4af3e4",
    ),
    "a simulation": (
        lambda: dict(fingerprint_of(Simulation(3, True, 9, 2**63, (1, 2), (5, 6), 7))),
        "c1a2497def458e12434115f15b7326f5",
    ),
    "a name": (
        lambda: (name_key("  Älpine \uff29O0 "), search_key("Ilse")),
        "128c7fdf2847063b4d1f553a13ce05e8",
    ),
    "a rule": (rule, "4fb0dcdea3e18a640959ca2614d453ec"),
    "a rule with ties": (
        lambda: rule(tie_break="fields", tie_fields=TIES, stats=STATS),
        "57cfd66aea1b0816de7f764f33de194b",
    ),
    "a rule in places": (
        lambda: rule(tie_break="composite", score=SMALL, tie_resolution_ms=60_000),
        "f1d4995b7cb0b7e26c6b8920e1968ac9",
    ),
}
"""How each is made, and the first half of the SHA-256 of it."""


@pytest.mark.parametrize("name", KEPT)
def test_what_was_kept_is_found_under_the_same(name: str) -> None:
    """By what was computed with the version that kept it first."""
    make, kept = KEPT[name]
    made = make()
    raw = made if isinstance(made, bytes) else str(made).encode()
    assert kept == hashlib.sha256(raw).hexdigest()[:32], made


def test_a_token_of_before_is_good_still() -> None:
    """Players keep theirs for a year."""
    assert Bearer("ada", Role.PLAYER, 9, 1, 7) == Tokens(Keyring(MASTER)).check(TOKEN, now_s=8)


def test_no_two_uses_of_the_master_key_share_a_key() -> None:
    """Who has the key of one use, as a player has a run's, can do nothing else with it."""
    purposes = (b"address", b"cursor", b"identity", b"second-factor", b"login-attempt", b"token", b"run")
    assert len(purposes) == len({Keyring(MASTER).derive(purpose) for purpose in purposes})
    assert not np.array_equal(bands_of(shingles_of_bytes(PRESSED)), bands_of(shingles_of_bytes(NUMBERS)))
