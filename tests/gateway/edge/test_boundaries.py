"""Small guards of the way in, each at its boundary."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway.edge.auth.keyring import Keyring
from gateway.edge.auth.signatures import Tag
from gateway.edge.auth.tickets import Ticket, Tickets, new_run_id
from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.http import strict_json
from gateway.edge.live import heartbeats
from gateway.edge.problems import Problem
from gateway.edge.submissions.submit import _history, _submission
from gateway.edge.submissions.submitted_recording import OPEN_RECORDING_BYTES
from gateway.runtime.clock import parse_rfc3339
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.choices import Operator
from policies.errors import SettingsError
from policies.fields import SortOrder
from policies.vocabulary import Claim, Reason, State
from tests.contract.test_learning import Nowhere
from tests.support.attack import CLAIM, INVALID, accept, honest, issued, refuse
from tests.support.books import board_of
from tests.support.harness import Harness
from tests.support.ledger import NOON_MS, new_submission, opened
from validators.submission import Submission

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)


async def test_M08_without_the_index_each_history_is_the_right_one(tmp_path: Path):
    """Player, population and build are told apart by what each has promoted, when the ledger tells them."""
    async with opened(tmp_path / "ledger.sqlite3") as ledger:
        runs = [
            ("r0", "ada", "b1", 5),
            ("r1", "bob", "b1", 7),
            ("r2", "ada", "b2", 9),
            ("r3", "cy", "b1", 11),
        ]
        for run, player, build, score in runs:
            await ledger.append(new_submission(run, player=player, build=build, score=score))
        decisions = [
            Decision(run, State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset(State))
            for run, *_ in runs
        ]
        await settle(ledger, Nowhere(), BOARD, decisions)
        edge: Any = SimpleNamespace(ledger=ledger)
        ticket = Ticket("r", "tiny", "ada", "b1", bytes(32), 7, 0, 0)
        history = await _history(edge, ticket)
    assert ((5, 9), (5, 7, 9, 11), (5, 7, 11)) == (
        history.player.scores,
        history.population.scores,
        history.build.scores,
    )


async def test_M09_a_runs_key_signs_for_no_server(harness: Harness):
    """A signature with a run's key under the tag of servers proves nothing; under its own it does."""
    run = issued(harness)
    await refuse(harness, honest(harness, run, tag=Tag.SERVER.value), INVALID)
    await accept(harness, honest(harness, run))


VECTORS = [
    (
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "f0f1f2f3f4f5f6f7f8f9",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
    ),
    (
        "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
        bytes(range(0xB0, 0x100)).hex(),
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c",
    ),
    (
        "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d",
    ),
]
"""RFC 5869, A.1 to A.3: the extracted key, the info, and the first 32 bytes of what is expanded."""


@pytest.mark.parametrize(("extracted", "info", "expanded"), VECTORS)
def test_M10_keys_are_derived_as_rfc_5869_says(extracted: str, info: str, expanded: str):
    """The RFC's own numbers, and another implementation's of both steps; another rule would void every ticket there is."""
    keyring = Keyring(bytes(32))
    keyring._expanding = hmac.new(bytes.fromhex(extracted), digestmod="sha256")
    assert expanded == keyring.derive(bytes.fromhex(info)).hex()
    master = b"a master key of thirty-two bytes"
    due = HKDF(SHA256(), 32, b"scoregate/v1", b"run").derive(master)
    assert due == Keyring(master).derive(b"run")


def test_S36_no_short_master_key_and_no_two_alike():
    """HMAC pads its key with zeros, so one that ends in them would be another's: all are extracted first."""
    master = bytes(range(1, 33))
    with pytest.raises(SettingsError):
        Keyring(master[:31])
    run_keys = [Keyring(each).derive(b"run") for each in (master, master + b"\0")]
    assert 2 == len(set(run_keys))
    assert [32, 32] == [len(key) for key in run_keys]


@pytest.mark.parametrize("late_ms", [0, 1])
async def test_M18_a_ticket_is_good_up_to_its_last_millisecond(harness: Harness, late_ms: int):
    """At the moment of its expiry a run may still be submitted, a millisecond later no more."""
    run = issued(harness)
    now_ms = harness.edge.clock()
    earliest_ms = now_ms - harness.edge.clock_error_ms
    ticket = harness.edge.tickets.read(run.info["ticket"])
    text, key = harness.edge.tickets.issue(
        ticket._replace(expires_at_ms=earliest_ms - late_ms, clock_error_ms=0)
    )
    run.info.update(ticket=text, key=base64.b64encode(key).decode())
    object.__setattr__(harness.edge, "clock", lambda: now_ms)
    if late_ms:
        await refuse(harness, honest(harness, run), (403, "run-expired"))
    else:
        await accept(harness, honest(harness, run))


@pytest.mark.parametrize("late_ms", [0, 1])
async def test_M18_a_run_is_expired_only_if_it_is_by_every_clock(harness: Harness, late_ms: int):
    """What our clock may be wrong by, and what that of the edge that opened the run may have been, are both allowed for."""
    run = issued(harness)
    now_ms, ours_ms, theirs_ms = harness.edge.clock(), 7_000, 5_000
    ticket = harness.edge.tickets.read(run.info["ticket"])
    expires_at_ms = now_ms - ours_ms - theirs_ms - late_ms
    text, key = harness.edge.tickets.issue(
        ticket._replace(expires_at_ms=expires_at_ms, clock_error_ms=theirs_ms)
    )
    run.info.update(ticket=text, key=base64.b64encode(key).decode())
    object.__setattr__(harness.edge, "clock", lambda: now_ms)
    object.__setattr__(harness.edge, "reference", SimpleNamespace(error_ms=ours_ms))
    if late_ms:
        await refuse(harness, honest(harness, run), (403, "run-expired"))
    else:
        await accept(harness, honest(harness, run))


@pytest.mark.parametrize("left_s", [0, 1])
async def test_M18_a_token_has_expired_only_if_it_has_by_every_clock(harness: Harness, left_s: int):
    """What our clock may be wrong by is allowed for, by requests as by feeds that are open."""
    edge, now_s, error_s = harness.edge, harness.clock() // 1000, 7
    bearer = Bearer("ada", Role.PLAYER, now_s - error_s + left_s)
    token = edge.tokens.mint(bearer, now_s=now_s - 3600)
    object.__setattr__(edge, "clock", lambda: now_s * 1000)
    assert 401 == (await harness.get("/v1/friends", token)).status
    object.__setattr__(edge, "reference", SimpleNamespace(error_ms=error_s * 1000))
    assert (200 if left_s else 401) == (await harness.get("/v1/friends", token)).status
    assert (not left_s) == await heartbeats._is_over(edge, bearer)


async def test_M18_a_recording_may_have_exactly_what_the_board_takes(harness: Harness):
    """One byte more is refused, whether it came or only its digest did."""
    for more in (0, 1):
        recording = base64.b64encode(bytes(OPEN_RECORDING_BYTES + more)).decode()
        request = honest(harness, issued(harness), CLAIM | {"recording": recording})
        if more:
            await refuse(harness, request, (413, "payload-too-large"))
        else:
            await accept(harness, request)


def test_M18_a_count_that_a_ticket_cannot_hold_is_the_most_it_can():
    """The largest count is no unknown one."""
    tickets = Tickets(Keyring(bytes(32)))
    for opened_runs, due in (
        (None, None),
        (0, 0),
        (2**32 - 2, 2**32 - 2),
        (2**32 - 1, 2**32 - 2),
        (2**40, 2**32 - 2),
    ):
        ticket = Ticket(new_run_id(1), "b", "p", "b-1", bytes(32), 7, 1, 2, opened_runs, opened_runs)
        read = tickets.read(tickets.issue(ticket)[0])
        assert (due, due) == (read.runs_opened, read.runs_submitted)


@pytest.mark.parametrize("text", [b"1e400", b"-1e400", b'{"a":1e999}'])
def test_M18_a_number_that_overflows_is_refused_on_either_side(text: bytes):
    """Python reads it as an infinity, which is not JSON; the largest that is finite is read."""
    with pytest.raises(Problem, match="out of range"):
        strict_json.parse(text)
    assert [1.7976931348623157e308, -1.7976931348623157e308] == [
        strict_json.parse(each) for each in (b"1.7976931348623157e308", b"-1.7976931348623157e308")
    ]


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity", b'{"object":{"deep":[1,NaN]}}'])
def test_J02_what_is_no_number_of_json_is_no_null_either(text: bytes):
    """It is refused where it stands, also where a field would take anything."""
    with pytest.raises(Problem, match="NaN and infinities are not JSON"):
        strict_json.parse(text)


async def test_F19_a_ticket_says_what_was_so_when_its_run_was_opened(harness: Harness):
    """And how far the clock may have been off; what is submitted bears that doubt, and ours of now beside it."""
    token, edge = await harness.new_player(), harness.edge
    now_ms = edge.clock()
    object.__setattr__(edge, "clock", lambda: now_ms)
    object.__setattr__(edge, "reference", SimpleNamespace(error_ms=7_000))
    first, second = [(await harness.open_run(token)).info for _ in range(2)]
    board, ticket = edge.catalogue.of_files["arcade"], edge.tickets.read(second["ticket"])
    assert (
        Ticket(
            run=second["run"],
            board="arcade",
            player=second["player"],
            build=second["build"],
            simulator=bytes.fromhex(board.simulators[second["build"]].digest.removeprefix("sha256:")),
            seed=int(second["seed"]),
            issued_at_ms=now_ms,
            expires_at_ms=now_ms + board.policy.run_lifetime_s * 1000,
            runs_opened=ticket.runs_opened,
            runs_submitted=0,
            clock_error_ms=7_000,
        )
        == ticket
    )
    assert 1 == ticket.runs_opened - edge.tickets.read(first["ticket"]).runs_opened
    assert (first["seed"] != second["seed"], now_ms) == (True, parse_rfc3339(second["issued_at"]))
    assert ticket.expires_at_ms == parse_rfc3339(second["expires_at"])

    object.__setattr__(edge, "reference", SimpleNamespace(error_ms=500))
    object.__setattr__(edge, "clock", lambda: now_ms + 60_000)
    claim = Claim(12, 34, {"coins": 5})
    assert Submission(
        ticket.run,
        "arcade",
        ticket.player,
        ticket.build,
        ticket.seed,
        now_ms,
        now_ms + 60_000,
        claim,
        has_recording=True,
        runs_opened=ticket.runs_opened,
        runs_submitted=0,
        clock_error_ms=7_500,
    ) == _submission(edge, ticket, claim, has_recording=True)


async def test_a_run_is_sent_by_its_own_player_or_by_nobody_in_particular(harness: Harness):
    """A token need not come with the run's signature; one that does is of the ticket's player, and good."""
    own, other = await harness.new_player(), await harness.new_player()
    run = await harness.open_run(own, "sprint")
    for token, expected in ((other, (403, "scope-forbidden")), ("nonsense", (401, "token-invalid"))):
        request = honest(harness, run)
        request.headers["Authorization"] = f"Bearer {token}"
        await refuse(harness, request, expected)
    request = honest(harness, run)
    request.headers["Authorization"] = f"Bearer {own}"
    await accept(harness, request)
