"""Identities of players: known again by a device's key and a recovery code, and by nothing that is guessed."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from sqlalchemy import select

from gateway.edge.identities.digests import IdentityDigests
from gateway.edge.identities.identity_parts import RECOVERY_RATE
from gateway.edge.identities.recovery_codes import ALPHABET, new_recovery_code, read_recovery_code
from gateway.ledger.acts import Act
from gateway.ledger.players.identities import (
    IDENTITIES_LIMIT,
    RECOVERY,
    Identity,
    UsedCredential,
    identities_of,
    link,
    replace_recovery,
)
from gateway.ledger.schema import events
from gateway.ledger.transaction import Query, Row, Transaction
from policies.choices import Operator
from policies.errors import CredentialUsed, IdentitiesFull
from policies.fields import SortOrder
from tests.support.books import Books, board_of
from tests.support.harness import Answer, Harness, Request
from tests.support.ledger import NOON_MS

_DETAILS = Query(select(events.c.reason, events.c.detail))
TAKEN, FAILED, LAST = (409, "identity-taken"), (401, "sign-in-failed"), (409, "state-conflict")


async def _details(tx: Transaction) -> list[Row]:
    return await tx.rows(_DETAILS)


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


def new_key() -> str:
    return secrets.token_urlsafe(18)


async def created(harness: Harness, **body: Any) -> Answer:
    answer = await harness.post("/v1/players", body)
    assert answer.status == 201, answer.raw
    return answer


async def sign_in(harness: Harness, provider: str, credential: str, token: str | None = None) -> Answer:
    return await harness.post("/v1/players/sign-in", {"provider": provider, "credential": credential}, token)


async def delete(harness: Harness, path: str, token: str) -> Answer:
    return await harness.send(Request("DELETE", path, b"", {"Authorization": f"Bearer {token}"}))


async def test_a_device_gets_its_player_again_and_no_request_creates_two(harness: Harness):
    """After a reinstall, at once from two places, and by sign-in; another key is another player."""
    key = new_key()
    first, second = await asyncio.gather(
        *(created(harness, name=name, device_key=key) for name in ("Ada", "Bob"))
    )
    assert first.body["player"] == second.body["player"]
    assert ["true"] == [
        each.headers["Idempotency-Replayed"]
        for each in (first, second)
        if "Idempotency-Replayed" in each.headers
    ]
    assert first.body["name"] == second.body["name"]
    signed_in = await sign_in(harness, "device", key)
    assert (200, first.body["player"], False) == (
        signed_in.status,
        signed_in.body["player"],
        signed_in.body["is_new"],
    )
    assert 200 == (await harness.get("/v1/friends", signed_in.body["token"])).status
    assert first.body["player"] != (await created(harness, device_key=new_key())).body["player"]
    assert FAILED == told(await sign_in(harness, "device", new_key()))


async def test_keys_that_others_may_have_are_refused(harness: Harness):
    """Short ones, and those that repeat a few characters."""
    for key in ("a" * 40, "abc" * 12, "0" * 22, secrets.token_urlsafe(12), "x" * 87, "ä" * 30):
        assert (422, "schema-violation") == told(await harness.post("/v1/players", {"device_key": key}))
        assert told(await sign_in(harness, "device", key)) in {(422, "schema-violation"), FAILED}


async def test_a_recovery_code_gives_a_token_on_another_device_until_there_is_a_new_one(harness: Harness):
    """It is shown once, to a new player; in any case and grouping; a new code voids it."""
    key = new_key()
    ada = (await created(harness, device_key=key, recovery_code=True)).body
    again = (await created(harness, device_key=key, recovery_code=True)).body
    assert (ada["player"], None) == (again["player"], again["recovery_code"])
    typed = ada["recovery_code"].lower().replace("-", " ").replace("0", "o").replace("1", "l")
    recovered = (await sign_in(harness, "recovery", typed)).body
    assert ada["player"] == recovered["player"]
    made = await harness.send(
        Request("POST", "/v1/recovery-code", b"", {"Authorization": f"Bearer {recovered['token']}"})
    )
    assert 201 == made.status
    assert FAILED == told(await sign_in(harness, "recovery", ada["recovery_code"]))
    assert ada["player"] == (await sign_in(harness, "recovery", made.body["recovery_code"])).body["player"]
    alone = (await created(harness, recovery_code=True)).body
    assert alone["player"] == (await sign_in(harness, "recovery", alone["recovery_code"])).body["player"]


async def test_guesses_of_codes_all_read_the_same_and_run_out(harness: Harness):
    """A typo, a code of nobody and a void one are told apart by nothing; the limit refuses a good one, too."""
    ada = (await created(harness, recovery_code=True)).body
    guesses = [
        ada["recovery_code"][:-1],
        "nothing",
        *(new_recovery_code() for _ in range(RECOVERY_RATE.burst - 2)),
    ]
    refusals = [await sign_in(harness, "recovery", guess) for guess in guesses]
    assert {FAILED} == {told(refusal) for refusal in refusals}
    assert 1 == len({refusal.raw for refusal in refusals})
    limited = await sign_in(harness, "recovery", ada["recovery_code"])
    assert (429, "quota-exceeded") == told(limited)
    assert limited.headers["RateLimit"].startswith('"recovery-address"')


async def test_guesses_of_strangers_keep_nobody_from_recovering(harness: Harness):
    """What is counted is of one address or one network: there is nothing that guesses use up for everybody."""
    parts, client = harness.edge.identities, harness.edge.index.client
    for who in ("1", "2"):
        assert not await parts.recovery_wait_ms(f"address{who}", f"network{who}")
    counted = [str(key) for key in await client.keys("limit:*recovery*")]
    assert 4 == len(counted)
    assert [2, 2] == [sum(f"network{who}" in key for key in counted) for who in ("1", "2")]


def test_a_mistyped_code_is_noticed():
    """Any other character in any place, and any two neighbours that are swapped."""
    code = new_recovery_code().replace("-", "")
    assert code == read_recovery_code(code)
    for at, own in enumerate(code):
        for other in set(ALPHABET) - {own}:
            assert read_recovery_code(code[:at] + other + code[at + 1 :]) is None
        if code[at : at + 2] != code[at : at + 2][::-1]:
            assert read_recovery_code(code[:at] + code[at : at + 2][::-1] + code[at + 2 :]) is None


async def test_an_identity_is_one_players_and_the_last_stays(harness: Harness):
    """Whoever shows another's is told to merge, and no name; linking again changes nothing; unlinking ends it."""
    ada_key, bob_key = new_key(), new_key()
    ada, bob = [(await created(harness, device_key=key)).body for key in (ada_key, bob_key)]
    refused = await sign_in(harness, "device", bob_key, ada["token"])
    assert TAKEN == told(refused)
    assert bob["player"].encode() not in refused.raw
    assert FAILED == told(await sign_in(harness, "recovery", new_recovery_code(), ada["token"]))
    second = new_key()
    for _ in range(2):
        assert ada["player"] == (await sign_in(harness, "device", second, ada["token"])).body["player"]
    own = (await harness.get("/v1/identities", ada["token"])).body["identities"]
    assert ["device", "device"] == [each["provider"] for each in own]
    assert (404, "not-found") == told(
        await delete(harness, f"/v1/identities/{own[0]['identity']}", bob["token"])
    )
    left = await delete(harness, f"/v1/identities/{own[0]['identity']}", ada["token"])
    assert [own[1]] == left.body["identities"]
    assert FAILED == told(await sign_in(harness, "device", ada_key))
    assert LAST == told(await delete(harness, f"/v1/identities/{own[1]['identity']}", ada["token"]))
    recovery = Request("POST", "/v1/recovery-code", b"", {"Authorization": f"Bearer {ada['token']}"})
    assert 201 == (await harness.send(recovery)).status
    assert 200 == (await delete(harness, f"/v1/identities/{own[1]['identity']}", ada["token"])).status


async def test_a_token_of_a_sign_in_is_of_the_generation_that_holds(harness: Harness):
    """Whose tokens were ended signs in again, and the new token is good."""
    key = new_key()
    ada = (await created(harness, device_key=key)).body
    assert 200 == (await delete(harness, "/v1/tokens", ada["token"])).status
    assert 401 == (await harness.get("/v1/identities", ada["token"])).status
    again = (await created(harness, device_key=key)).body
    assert (ada["player"], 200) == (
        again["player"],
        (await harness.get("/v1/identities", again["token"])).status,
    )


async def test_there_are_so_many_identities_and_no_secret_is_kept(harness: Harness):
    """The ledger has digests under a key, and events that name the provider alone."""
    key = new_key()
    ada = (await created(harness, device_key=key)).body
    secret = [key, *(new_key() for _ in range(IDENTITIES_LIMIT))]
    answers = [await sign_in(harness, "device", each, ada["token"]) for each in secret[1:]]
    assert [200] * (IDENTITIES_LIMIT - 1) == [answer.status for answer in answers[:-1]]
    assert (409, "list-full") == told(answers[-1])
    told_of = await harness.edge.ledger.read(_details)
    assert {("identity-linked", '{"provider":"device"}')} == set(told_of)
    stored = b"".join(path.read_bytes() for path in harness.edge.settings.data_dir.glob("ledger*"))
    assert not any(each.encode() in stored for each in secret)


def test_a_recovery_code_is_replaced_though_there_may_be_no_more_identities() -> None:
    """The new one takes the place of the old one; where there is none, it takes one that must be free."""
    books, act = Books(board_of(Operator.BEST, SortOrder.DESCENDING)), Act("player", NOON_MS)
    for player, devices in (("ada", IDENTITIES_LIMIT - 1), ("bob", IDENTITIES_LIMIT)):
        for number in range(devices):
            books.do(link(Identity("device", f"{player}-{number}".encode()), player, act))
    for code in (b"first", b"second"):
        books.do(replace_recovery(Identity(RECOVERY, code), "ada", act))
    own = books.do(identities_of("ada"))
    assert (IDENTITIES_LIMIT, [b"second"]) == (
        len(own),
        [each.subject_digest for each in own if each.provider == RECOVERY],
    )
    with pytest.raises(IdentitiesFull):
        books.do(replace_recovery(Identity(RECOVERY, b"third"), "bob", act))


def test_a_credential_that_is_good_once_is_remembered_until_it_is_refused_by_itself() -> None:
    """Those that have expired make room when another is used, or the table would grow for ever."""
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING))

    def use(digest: bytes, at_ms: int) -> None:
        once, act = UsedCredential(digest, at_ms + 10), Act("player", at_ms)
        books.do(link(Identity("device", b"key"), "ada", act, once=once))

    use(b"one", NOON_MS)
    with pytest.raises(CredentialUsed):
        use(b"one", NOON_MS + 10)
    use(b"two", NOON_MS + 11)
    assert [(b"two",)] == books.rows("SELECT digest FROM used_credentials")


def test_a_provider_and_a_subject_do_not_run_together() -> None:
    """Who shares a beginning with another provider has another digest, also for a credential that is good once."""
    digests = IdentityDigests(bytes(32))
    assert digests.identity("steam", "2x").subject_digest != digests.identity("steam2", "x").subject_digest
    assert digests.of_credential("steam", "2x") != digests.of_credential("steam2", "x")
