"""Trusted servers: keys out of their scope, operations twice, wrong clocks, and secrets where they must not be."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from gateway.edge.auth.keyring import Keyring, load_keyring
from gateway.edge.auth.signing import Draft, sign_hmac_sha256
from gateway.edge.http.responses import json_response
from gateway.edge.wire import bodies, identity_answers, identity_bodies, outcomes, own_data_answers
from gateway.edge.wire import moderation_people as people
from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from tests.support.attack import (
    CLAIM,
    ENTRY,
    INVALID,
    OTHER_CLAIM,
    a_run,
    accept,
    as_server,
    honest,
    issued,
    refuse,
    registered,
    rows,
)
from tests.support.harness import Harness, Request, Run, running_harness

FORBIDDEN = (403, "scope-forbidden")


async def test_T01_keys_do_not_reach_beyond_their_scope(harness: Harness):
    """A run's key writes no entries, a server's key submits no runs and writes to no other board than its own."""
    private = await registered(harness, "eu-1", "vault")
    run = await a_run(harness)
    await refuse(harness, entry_signed_by(harness, run), FORBIDDEN)
    await refuse(harness, harness.server_signed(private, "eu-1", ENTRY, board="sprint"), FORBIDDEN)
    scores = "/v1/boards/sprint/scores"
    on_scores = harness.server_signed(private, "eu-1", CLAIM, path=scores)
    on_scores.path = scores
    await refuse(harness, on_scores, FORBIDDEN)
    await accept(harness, harness.server_signed(private, "eu-1", ENTRY, board="vault"))
    await accept(harness, honest(harness, run))


def entry_signed_by(harness: Harness, run: Run) -> Request:
    """A server's write to the vault, signed with the key of a run."""
    now_s = harness.clock() // 1000
    path, body = "/v1/boards/vault/entries", json.dumps(ENTRY).encode()
    draft = Draft(
        method="POST",
        authority=harness.authority,
        path=path,
        body=body,
        created=now_s,
        expires=now_s + 60,
        nonce="a-nonce-of-24-characters",
        keyid=run.info["ticket"],
        tag="scoregate-run",
    )
    return Request("POST", path, body, sign_hmac_sha256(run.key, draft))


async def test_T01_clients_do_not_write_to_a_trusted_board(harness: Harness):
    """A board of servers opens no runs for players, and takes none whose ticket is genuine."""
    token = await harness.new_player()
    opened = await harness.post("/v1/boards/vault/runs", {"build": "b-1"}, token)
    assert FORBIDDEN == (opened.status, opened.problem)
    await refuse(harness, honest(harness, issued(harness, board="vault")), FORBIDDEN)


async def test_T04_an_operation_twice_has_one_effect(harness: Harness):
    """Sent again, in turn or twenty times at once, an operation gets the stored answer and counts once."""
    private = await registered(harness)
    first = await as_server(harness, private, ENTRY)
    again = await as_server(harness, private, ENTRY)
    assert (202, None, first.raw) == (first.status, first.headers.get("Idempotency-Replayed"), again.raw)
    assert "true" == again.headers["Idempotency-Replayed"]
    parallel = [
        as_server(harness, private, ENTRY | {"operation": "op-2", "player": "bea"}) for _ in range(20)
    ]
    answers = await asyncio.gather(*parallel)
    assert {202} == {answer.status for answer in answers}
    assert 1 == sum("Idempotency-Replayed" not in answer.headers for answer in answers)
    assert 2 == await rows(harness)
    page = (await harness.get("/v1/boards/vault/entries")).body
    assert [("ada", 7), ("bea", 7)] == [(entry["player"], entry["score"]) for entry in page["entries"]]


async def test_T04_an_operation_with_other_content_is_refused(harness: Harness):
    """An operation id stands for one write: other content, or the same for another board, is not it."""
    private = await registered(harness)
    await accept(harness, harness.server_signed(private, "eu-1", ENTRY, board="vault"))
    mismatch = (422, "idempotency-mismatch")
    await refuse(
        harness, harness.server_signed(private, "eu-1", ENTRY | {"score": 8}, board="vault"), mismatch
    )
    await refuse(harness, harness.server_signed(private, "eu-1", ENTRY, board="total"), mismatch)
    assert [] == (await harness.get("/v1/boards/total/entries")).body["entries"]


async def test_T04_operations_of_two_servers_are_two(harness: Harness):
    """An operation id is its server's own."""
    one, two = await registered(harness, "eu-1"), await registered(harness, "eu-2")
    await accept(harness, harness.server_signed(one, "eu-1", ENTRY, board="vault"))
    await accept(harness, harness.server_signed(two, "eu-2", ENTRY, board="vault"))


@pytest.mark.parametrize("off_by_s", [-600, 600])
async def test_T10_a_server_with_a_wrong_clock_is_told_the_time(harness: Harness, off_by_s: int):
    """The refusal carries our time, and signing with it passes."""
    private = await registered(harness)
    created = harness.clock() // 1000 + off_by_s
    wrong = harness.server_signed(private, "eu-1", ENTRY, board="vault", created=created)
    answer = await refuse(harness, wrong, (401, "signature-expired"))
    right = harness.server_signed(private, "eu-1", ENTRY, board="vault", created=answer.body["server_time"])
    await accept(harness, right)


def test_T12_a_key_file_that_others_may_read_is_refused(tmp_path: Path):
    """The master key file is made private; opened to others, the start fails and says what to do."""
    made = load_keyring(tmp_path, None)
    path = tmp_path / "master.key"
    assert 0o600 == path.stat().st_mode & 0o777
    assert made.fingerprint == load_keyring(tmp_path, None).fingerprint
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 600"):
            load_keyring(tmp_path, None)


def test_T12_a_short_or_unreadable_master_key_is_refused(tmp_path: Path):
    """Less than 32 bytes, or no base64, is no master key; the refusal does not repeat it."""
    for text in (base64.b64encode(bytes(31)).decode(), "not base64!"):
        with pytest.raises(SettingsError) as refused:
            load_keyring(tmp_path, text)
        assert text not in str(refused.value)


async def test_T12_secrets_are_in_no_repr_log_or_refusal(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Master key, run key, tokens and signatures appear nowhere but in the answers that hand them out."""
    master = base64.b64encode(os.urandom(32)).decode()
    settings = settings.model_copy(
        update={"master_key": type(settings).model_validate({"master_key": master}).master_key}
    )
    shown: list[str] = []
    for module in ("submissions.runs", "identities.signing_in"):
        monkeypatch.setattr(f"gateway.edge.{module}.json_response", remembering_repr(shown))
    caplog.set_level(logging.DEBUG)
    with capture_logs() as events:
        async with running_harness(settings) as harness:
            run = await a_run(harness)
            request = honest(harness, run)
            refused = [
                await harness.send(honest(harness, run, key=bytes(32))),
                await harness.send(honest(harness, run, raw=b"{")),
                await harness.get("/v1/submissions/x", run.token),
                await harness.get("/v1/submissions/x", run.token[:-3]),
            ]
            await accept(harness, request)
            refused.append(await harness.send(honest(harness, run, OTHER_CLAIM)))
            edge = harness.edge
            parts = [
                edge,
                edge.settings,
                edge.tickets,
                edge.tokens,
                edge.server_keys,
                edge.addresses,
                Keyring(b"k" * 32),
            ]
            text = " ".join(
                [
                    *map(repr, [*parts, events]),
                    *(each.raw.decode() + str(each.headers) for each in refused),
                    caplog.text,
                ]
                + shown
            )
    signature = request.headers["Signature"].removeprefix("sg=:").removesuffix(":")
    for secret in (master, run.info["key"], run.token, signature):
        assert secret not in text
    assert 2 == len(shown)


@pytest.mark.parametrize(
    ("model", "secrets"),
    [
        (bodies.NewPlayer, ["device_key"]),
        (identity_bodies.SignIn, ["credential"]),
        (own_data_answers.NewMerge, ["token"]),
        (people.NewLogin, ["password", "code"]),
        (people.InvitationAccepted, ["password"]),
        (people.NewPassword, ["password", "new"]),
        (people.PasswordShown, ["password"]),
        (people.SecondFactorCode, ["code"]),
        (people.NewToken, ["password"]),
        (outcomes.PlayerCreated, ["token", "recovery_code"]),
        (outcomes.RunOpened, ["key"]),
        (identity_answers.PlayerToken, ["token"]),
        (identity_answers.SignedIn, ["token"]),
        (identity_answers.RecoveryCode, ["recovery_code"]),
        (people.InvitationMade, ["page"]),
        (people.SecondFactorBegun, ["secret", "address"]),
        (people.TokenIssued, ["text"]),
    ],
)
def test_T12_no_secret_of_a_body_or_an_answer_is_in_its_repr(model: type[BaseModel], secrets: list[str]):
    """Whatever is logged of it, or told of a failure; what is no secret is told."""
    sent = model.model_construct(**{name: f"<{name}>" for name in model.model_fields})
    assert [] == [name for name in secrets if f"<{name}>" in repr(sent)]
    assert all(f"<{name}>" in repr(sent) for name in model.model_fields.keys() - {*secrets})


def remembering_repr(shown: list[str]) -> Any:
    def respond(answer: Any, **how: Any) -> Any:
        shown.append(repr(answer))
        return json_response(answer, **how)

    return respond


async def test_an_unknown_or_spoiled_server_signature_is_invalid(harness: Harness):
    """A server that was never registered, and a registered one that signs another body, are refused alike."""
    private = await registered(harness)
    await refuse(harness, harness.server_signed(private, "eu-9", ENTRY, board="vault"), INVALID)
    request = harness.server_signed(private, "eu-1", ENTRY, board="vault")
    request.body = request.body.replace(b"7", b"8")
    await refuse(harness, request, INVALID)
    await accept(harness, harness.server_signed(private, "eu-1", ENTRY, board="vault"))
