"""Tickets and bearer tokens: what comes back is what was put in, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

from gateway.deployment.reference_clock import UNMEASURED_MS
from gateway.edge.auth.keyring import Keyring
from gateway.edge.auth.tickets import Ticket, Tickets, new_run_id
from gateway.edge.auth.tokens import Bearer, Role, Tokens
from policies.opened_board import NO_CONTENT
from policies.seeds import SEED_BITS

KEYRING = Keyring(b"a master key of thirty-two bytes")
TICKETS = Tickets(KEYRING)
TOKENS = Tokens(KEYRING)

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=48)
times = st.integers(0, 2**47)
tickets = st.builds(
    Ticket,
    run=times.map(new_run_id),
    board=names,
    player=st.text("ABCabc019_-", min_size=1, max_size=64),
    build=names,
    simulator=st.binary(min_size=32, max_size=32),
    seed=st.integers(0, 2**SEED_BITS - 1),
    issued_at_ms=times,
    expires_at_ms=times,
    runs_opened=st.none() | st.integers(0, 2**32 - 2),
    runs_submitted=st.none() | st.integers(0, 2**32 - 2),
    clock_error_ms=times,
    board_content=st.just(NO_CONTENT) | st.binary(min_size=32, max_size=32),
)


@given(ticket=tickets)
def test_a_ticket_reads_as_what_was_issued(ticket: Ticket):
    """Every fact comes back, with the key of its run; it fits the `keyid` of a signature."""
    text, key = TICKETS.issue(ticket)
    assert ticket == TICKETS.read(text)
    assert key == TICKETS.key(text)
    assert 32 == len(key)
    assert text.isascii()
    assert len(text) <= 1024


def test_a_ticket_tells_no_count_only_if_there_is_none():
    """One that has no room in it is as large as there is room for, and not unknown."""
    ticket = Ticket("0" * 26, "sprint", "ada", "b-1", bytes(32), 7, 1, 2)
    counts = {None: None, 0: 0, 2**32 - 2: 2**32 - 2, 2**32 - 1: 2**32 - 2, 2**40: 2**32 - 2}
    for given_one, read in counts.items():
        text, _ = TICKETS.issue(ticket._replace(runs_opened=given_one, runs_submitted=given_one))
        assert (read, read) == (TICKETS.read(text).runs_opened, TICKETS.read(text).runs_submitted)


@given(ticket=tickets, text=st.text(st.characters(codec="ascii"), max_size=300))
def test_what_was_not_issued_has_a_key_that_nobody_has(ticket: Ticket, text: str):
    """Made-up text, a ticket of another deployment, and one with another spelling have other keys than any issued."""
    issued, key = TICKETS.issue(ticket)
    elsewhere = Tickets(Keyring(b"another master key of 32 bytes.."))
    assert key != elsewhere.key(issued)
    for spelling in (text, issued + "=", issued + "A", issued[:-1], issued.swapcase(), " " + issued):
        if spelling != issued:
            assert key != TICKETS.key(spelling)


@given(one=tickets, another=tickets)
def test_a_ticket_with_any_fact_changed_has_another_key(one: Ticket, another: Ticket):
    """The key proves the whole text: no run can be moved to another player, board, seed or time."""
    if one != another:
        assert TICKETS.issue(one)[1] != TICKETS.issue(another)[1]


def test_runs_have_keys_and_ids_of_their_own():
    """Two tickets for the same play differ in run and key, and ids grow with time."""
    facts = ("b", "p", "build", bytes(32), 7, 1, 2)
    one, two = (TICKETS.issue(Ticket(new_run_id(1000), *facts)) for _ in range(2))
    assert one[0] != two[0]
    assert one[1] != two[1]
    assert new_run_id(1000) < new_run_id(2000)


def test_a_token_names_its_bearer_until_it_expires():
    """Subject and role come back; at the second of its expiry it is over."""
    bearer = Bearer("ada", Role.PLAYER, 2000, generation=3, issued_at_s=1000)
    token = TOKENS.mint(bearer, now_s=1000)
    assert bearer == TOKENS.check(token, now_s=1999.9)
    assert TOKENS.check(token, now_s=2000) is None


def _with_header(**header: object) -> str:
    """A token whose header is another, over the same claims and signature."""
    head, claims, signature = TOKENS.mint(Bearer("p", Role.PLAYER, 2**40), now_s=0).split(".")
    changed = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    assert changed != head
    return f"{changed}.{claims}.{signature}"


def _minted(claims: dict[str, object], key: bytes) -> str:
    return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(key))


GOOD = {"iss": "scoregate", "sub": "p", "role": "player", "boards": [], "iat": 0, "exp": 2**40}


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "....",
        "\ud800",
        _with_header(alg="none"),
        _with_header(alg="HS512"),
        _with_header(alg="RS256", jwk={"kty": "oct", "k": "AAAA"}),
        _with_header(alg=[["HS256"]]),
        base64.urlsafe_b64encode(b'{"alg":' + b"[" * 5000).decode().rstrip("=") + ".e30.AA",
        _minted(GOOD, b"another key of thirty-two bytes.."),
        _minted(GOOD | {"iss": "other"}, KEYRING.derive(b"token")),
        _minted(GOOD | {"role": "owner"}, KEYRING.derive(b"token")),
        _minted({"iss": "scoregate"}, KEYRING.derive(b"token")),
    ],
)
def test_what_we_did_not_mint_is_no_token(token: str):
    """Other keys, algorithms, issuers and roles, and what is no token at all, name nobody."""
    assert TOKENS.check(token, now_s=0) is None
    assert TOKENS.check(_minted(GOOD, KEYRING.derive(b"token")), now_s=0) is not None


def test_F19_edges_of_before_read_our_tickets_and_we_doubt_the_times_of_theirs():
    """What says how sure an edge was stands at the end, past all that the first version reads; without it nothing is sure."""
    ticket = Ticket("0" * 26, "sprint", "ada", "b-1", bytes(32), 7, 1, 2, clock_error_ms=60_000)
    text, _ = TICKETS.issue(ticket)
    payload = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert (1, b"0000ea60") == (payload[0], payload[-8:])
    before = base64.urlsafe_b64encode(payload[:-8]).rstrip(b"=").decode()
    assert ticket._replace(clock_error_ms=UNMEASURED_MS) == TICKETS.read(before)


def test_only_a_ticket_of_a_board_with_content_is_new_to_edges_of_before():
    """A ticket without a content digest is version 1, byte for byte; one with it cannot be taken for that."""
    ticket = Ticket("0" * 26, "sprint", "ada", "b-1", bytes(32), 7, 1, 2, clock_error_ms=5)
    plain, full = TICKETS.issue(ticket)[0], TICKETS.issue(ticket._replace(board_content=b"c" * 32))[0]
    payloads = [base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) for text in (plain, full)]
    assert [1, 2] == [payload[0] for payload in payloads]
    assert payloads[0][1:] == payloads[1].replace(b"c" * 32, b"")[1:]
    assert payloads[0].endswith(bytes(32) + b"sprintadab-100000005")
    assert [NO_CONTENT, b"c" * 32] == [TICKETS.read(text).board_content for text in (plain, full)]


def test_a_ticket_of_another_version_is_not_read():
    """What a later version packs otherwise would be read as other facts: another board, another end."""
    ticket = Ticket(new_run_id(1), "b", "p", "b-1", bytes(32), 7, 1, 2)
    text, _ = TICKETS.issue(ticket)
    payload = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for version in (0, 3, 255):
        other = base64.urlsafe_b64encode(bytes([version]) + payload[1:]).rstrip(b"=").decode()
        with pytest.raises(ValueError, match="version"):
            TICKETS.read(other)
