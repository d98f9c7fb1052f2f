"""`scoregate sign` and `scoregate explain`: what to sign, and what an edge would say of what was signed."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from typer.testing import CliRunner, Result

from gateway.deployment.run_files import RunningPart
from gateway.edge.auth.keyring import keyring_of
from gateway.runtime.settings import bundled_policies, load_settings
from policies.errors import SettingsError
from scoregate import deployment_settings, signing_keys
from scoregate.cli import app
from scoregate.raw_requests import raw_request
from tests.support.game import ROOT

PAGE = (ROOT / "docs" / "reference" / "signatures.md").read_text()
URL = "http://localhost:8080/v1/boards/arcade/scores"


def example(name: str) -> str:
    """A worked example of signatures.md."""
    match = re.search(rf"<!-- example: {name} -->\n```\w*\n(.*?)\n```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


WHEN = ("--created", "1700000000", "--nonce", "example-nonce_0001")


def run(*words: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=given)


def test_the_example_of_the_reference_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same base and fields, whether the key is a word, a variable, a file or an answer that opened a run."""
    body = tmp_path / "body"
    body.write_text(example("body"))
    key, run_json = tmp_path / "key", tmp_path / "run.json"
    key.write_text(example("key") + "\n")
    run_json.write_text(json.dumps({"ticket": "example-ticket", "key": example("key"), "seed": 1}))
    shared = ("sign", URL, "--body", str(body), *WHEN)
    ways = [
        run(*shared, "--key-id", "example-ticket", "--key", example("key")),
        run(*shared, "--key-id", "example-ticket", "--key-file", str(key)),
        run(*shared, "--key-file", str(run_json)),
        run("sign", URL, "--body", "-", *WHEN, "--key-file", str(run_json), given=example("body").encode()),
    ]
    monkeypatch.setenv("SIGNING_KEY", example("key"))
    ways.append(run(*shared, "--key-id", "example-ticket"))
    for result in ways:
        assert (0, "") == (result.exit_code, result.stderr), result.output
        _, base, _, fields = result.stdout.strip().split("\n\n")
        assert (example("base"), example("headers").partition("\n")[2]) == (base, fields)
        assert example("key") not in result.stdout
    curl = shlex.split(run(*shared, "--key-id", "example-ticket", "--curl").stdout)
    assert ["curl", "-i", "-X", "POST", URL] == curl[:5]
    assert ["--data-raw", example("body")] == curl[-2:]


def test_a_server_signs_with_its_private_key(tmp_path: Path):
    """The tag and the algorithm follow from the key; the port that everybody means is not signed."""
    private = Ed25519PrivateKey.generate()
    pem = tmp_path / "server.pem"
    pem.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    result = run(
        "sign",
        "https://Scores.example:443/v1/boards/b/entries?x=1",
        "--method",
        "put",
        "--key-file",
        str(pem),
        "--key-id",
        "eu-1",
    )
    _, base, _, fields = result.stdout.strip().split("\n\n")
    assert [
        '"@method": PUT',
        '"@authority": scores.example',
        '"@path": /v1/boards/b/entries',
        '"@query": ?x=1',
    ] == base.split("\n")[:4]
    assert base.endswith('keyid="eu-1";alg="ed25519";tag="scoregate-server"')
    signature = re.search(r"^Signature: sg=:(.*):$", fields, re.MULTILINE)
    assert signature is not None
    private.public_key().verify(base64.b64decode(signature[1]), base.encode())


def test_media_type_and_lifetime_are_signed_as_they_are_given():
    """In the base and in the fields, which the request has to carry."""
    words = ("--key", example("key"), "--key-id", "x", "--content-type", "application/octet-stream", *WHEN)
    _, base, _, fields = run("sign", URL, *words, "--seconds", "300").stdout.strip().split("\n\n")
    assert '"content-type": application/octet-stream\n' in base
    assert "Content-Type: application/octet-stream\n" in fields
    assert [";created=1700000000;expires=1700000300;"] * 2 == [
        each[0] for each in (re.findall(r";created=.*?;expires=.*?;", text) for text in (base, fields))
    ]


def test_a_body_is_signed_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch):
    """One on standard input that is too long is not cut; one that no shell can carry is not left out."""
    monkeypatch.setattr(signing_keys, "LONGEST_REQUEST", 10)
    words = ("sign", URL, "--body", "-", "--key", example("key"), "--key-id", "x")
    assert 0 == run(*words, given=bytes(10)).exit_code
    for given, more, told in (
        (bytes(11), (), "standard input: expected up to 10 bytes"),
        (b"\xff", ("--curl",), "--curl: expected a body of text"),
    ):
        refused = run(*words, *more, given=given)
        assert (True, "") == (isinstance(refused.exception, SettingsError), refused.stdout)
        assert told == str(refused.exception)


@pytest.mark.parametrize("kind", ["encrypted", "of another kind", "public"])
def test_a_file_with_another_key_is_refused(tmp_path: Path, kind: str):
    """One that needs a password, one that is no Ed25519 key, and the public part alone: by one sentence."""
    private = Ed25519PrivateKey.generate()
    how = (Encoding.PEM, PrivateFormat.PKCS8)
    texts = {
        "encrypted": private.private_bytes(*how, BestAvailableEncryption(b"secret")),
        "of another kind": X25519PrivateKey.generate().private_bytes(*how, NoEncryption()),
        "public": private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }
    pem = tmp_path / "server.pem"
    pem.write_bytes(texts[kind])
    refused = run("sign", URL, "--key-file", str(pem), "--key-id", "eu-1")
    assert isinstance(refused.exception, SettingsError)
    assert f"{pem}: expected the answer that opened a run" in str(refused.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((URL,), "a key is needed"),
        ((URL, "--key", "short"), "expected the answer that opened a run"),
        ((URL, "--key", base64.b64encode(bytes(31)).decode()), "it has 31 bytes"),
        ((URL, "--key", example("key")), "--key-id: expected the run's ticket"),
        (("localhost:8080/v1", "--key", example("key"), "--key-id", "x"), "expected a URL such as"),
        (("http://[::1", "--key", example("key"), "--key-id", "x"), "expected a URL, not 'http://[::1'"),
        (("http://h/ü", "--key", example("key"), "--key-id", "x"), "expected a URL as it is sent"),
        (("http://h/a b", "--key", example("key"), "--key-id", "x"), "expected a URL as it is sent"),
        (("http://h/a\nb", "--key", example("key"), "--key-id", "x"), "expected a URL as it is sent"),
        (("http://me:secret@h/a", "--key", example("key"), "--key-id", "x"), "expected a URL as it is sent"),
        ((URL, "--key", '{"key": ' + "[" * 100_000), "expected the answer that opened a run"),
        ((URL, "--key-file", "/dev/zero"), "/dev/zero: expected up to 65536 bytes"),
        ((URL, "--key", example("key"), "--body", "/dev/zero"), "/dev/zero: expected up to 67108864 bytes"),
        (("http://localhost:1/v1/players", "--open-run", "b-1"), "--open-run: expected a URL such as"),
        (("ftp://localhost/v1/boards/arcade/scores", "--open-run", "b-1"), "expected a URL such as"),
        (("http://:80/v1/boards/arcade/scores", "--open-run", "b-1"), "expected a URL such as"),
        (("http://[::1/v1/boards/arcade/scores", "--open-run", "b-1"), "expected a URL, not"),
        (("http://h:99999/v1/boards/arcade/scores", "--open-run", "b-1"), "expected a URL, not"),
        (("http://h:99999/a", "--key", example("key"), "--key-id", "x"), "expected a URL, not"),
        ((URL, "--key", example("key"), "--key-id", 'x"y'), "--key-id: expected 1 to 1024 characters of ASCII"),
        ((URL, "--key", json.dumps({"key": example("key"), "ticket": "é"})), "--key-id: expected 1 to 1024"),
        ((URL, "--key", example("key"), "--key-id", "x", "--nonce", "a\nb"), "--nonce: 'a\\nb' cannot be sent"),
        ((URL, "--key", example("key"), "--key-id", "x", "--method", "PÖST"), "--method: 'PÖST' cannot"),
        ((URL, "--key", example("key"), "--key-id", "x", "--method", ""), "--method: '' cannot be sent"),
        ((URL, "--key", example("key"), "--key-id", "x", "--content-type", "é"), "--content-type: 'é' cannot"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(words: tuple[str, ...], told: str):
    """And what cannot be sent, in a sentence; nothing is printed of a signature then."""
    result = run("sign", *words)
    assert isinstance(result.exception, SettingsError)
    assert "" == result.stdout
    assert told in str(result.exception)


def outcomes(result: Result) -> dict[str, str]:
    """What became of each step, by what it looks at."""
    steps = re.findall(r"^(ok|FAILS|\?) +([^:\n]+)", result.stdout, re.MULTILINE)
    return {title: outcome for outcome, title in steps}


def test_a_request_is_read_as_people_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With either line end, with a line feed of an editor, without a length, or as curl prints it, which prints no body."""
    data = tmp_path / "data"
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(data))
    head, _, body = example("request").partition("\n\n")
    lengthy = f"{head}\nContent-Length: {len(body)}"
    curl = (
        "* Connected\n"
        + "".join(f"> {line}\n" for line in lengthy.split("\n"))
        + "> \n} [74 bytes data]\n< HTTP/1.1 401\n"
    )
    (tmp_path / "body").write_text(body)
    given = ("--key", example("key"), "--at", "1700000030")
    ways = [
        run("explain", *given, given=f"{head}\n\n{body}".encode()),
        run("explain", *given, given=f"{lengthy}\n\n".replace("\n", "\r\n").encode() + body.encode()),
        run("explain", "-", *given, given=f"{lengthy}\n\n{body}\n\nnext line of the log".encode()),
        run("explain", *given, "--body", str(tmp_path / "body"), given=curl.encode()),
        run("explain", *given, "--body", str(tmp_path / "body"), given=curl.replace("\n", "\r\n").encode()),
    ]
    for result in ways:
        assert 0 == result.exit_code, result.output
        assert {"ok"} == {
            outcomes(result)[title]
            for title in ("the signature", "the time of the signature", "the digest of the body")
        }
        assert example("key") not in result.stdout
    without = run("explain", *given, given=curl.encode())
    assert (0, "?") == (without.exit_code, outcomes(without)["the digest of the body"])
    late = run("explain", "--key", example("key"), given=f"{head}\n\n{body}".encode())
    assert (1, "FAILS") == (late.exit_code, outcomes(late)["the time of the signature"])
    assert not data.exists()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (b"POST /a HTTP/1.1\n\nbody", b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"),
        (b"GET /a HTTP/1.1\n\n", b"GET /a HTTP/1.1\r\n\r\n"),
        (
            b"POST /a HTTP/1.1\nContent-Length: 2\n\nbody",
            b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nbo",
        ),
        (
            b"POST /a HTTP/1.1\nTransfer-Encoding: chunked\n\n4\r\nbody\r\n0\r\n\r\n",
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        ),
    ],
)
def test_a_length_is_added_where_none_is_announced(given: bytes, read: bytes):
    """A request has one way to end: what is chunked gets no length, which an edge would refuse."""
    assert read == raw_request(given).data


def test_a_body_that_was_cut_is_no_body_to_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a log has it that keeps the first bytes: the digest was that of the whole."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    head, _, body = example("request").partition("\n\n")
    given = f"{head}\nContent-Length: {len(body)}\n\n{body[:-1]}"
    result = run("explain", "--key", example("key"), "--at", "1700000030", given=given.encode())
    assert (0, "?") == (result.exit_code, outcomes(result)["the digest of the body"])


def test_the_key_of_a_server_signs_for_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever key a run's signature was made with: that of a server is no reason to call it right."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    pem = tmp_path / "server.pem"
    private = Ed25519PrivateKey.generate()
    pem.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    zeros = base64.b64encode(bytes(32)).decode()
    signed = run("sign", URL, "--body", "-", "--key", zeros, "--key-id", "a-ticket", given=b"{}")
    fields = signed.stdout.strip().split("\n\n")[3]
    request = f"POST /v1/boards/arcade/scores HTTP/1.1\nHost: localhost:8080\n{fields}\n\n{{}}".encode()
    assert "ok" == outcomes(run("explain", "--key", zeros, given=request))["the signature"]
    assert "FAILS" == outcomes(run("explain", "--key-file", str(pem), given=request))["the signature"]


def test_a_request_does_nothing_to_the_terminal_on_which_it_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is a stranger's: what a terminal would obey, such as CSI in one character, is shown as `?`."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    given = ("--key", example("key"), "--at", "1700000030")
    for place in ("localhost", "application/json"):
        request = example("request").replace(place, f"\x9b2J{place}").encode()
        result = run("explain", *given, given=request)
        assert (1, False) == (result.exit_code, "\x9b" in result.stdout)
        assert f"?2J{place}" in result.stdout


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (
            "1700000962",
            "`expires` was 902 s before now, 1700000962; to look at the request as of when it was sent",
        ),
        ("1699999100", "`created` is 900 s after now, 1699999100: sign with the gateway's time"),
    ],
)
def test_a_signature_outside_its_time_is_told_by_how_much(at: str, told: str):
    """Who reads of a request an hour later must not take the hour for a clock that is wrong."""
    result = run("explain", "--key", example("key"), "--at", at, given=example("request").encode())
    assert (1, "FAILS") == (result.exit_code, outcomes(result)["the time of the signature"])
    assert told in " ".join(result.stdout.split())


def test_a_base_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was signed instead is found by trying; a base of the signer is shown beside the edge's."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path / "data"))
    theirs = tmp_path / "base"
    theirs.write_text(example("base").replace("POST", "Post"))
    request = example("request").replace("Host: localhost:8080", "Host: localhost:9090").encode()
    result = run(
        "explain", "--key", example("key"), "--at", "1700000030", "--base", str(theirs), given=request
    )
    assert (1, "FAILS") == (result.exit_code, outcomes(result)["the signature"])
    assert "line 1: yours is     '\"@method\": Post'" in result.stdout
    assert "signature-invalid (401)" in result.stdout


def test_the_data_of_a_deployment_are_asked_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its boards, the keys of its runs and the registered ones; a key that it does not know fails."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(bundled_policies()))
    private = Ed25519PrivateKey.generate()
    public = base64.b64encode(private.public_key().public_bytes_raw()).decode()
    assert 0 == run("key", "add", "eu-1", "--public-key", public).exit_code
    keyring_of(load_settings())
    pem, body = tmp_path / "server.pem", b'{"operation":"op-1","player":"ada","score":70}'
    pem.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for key_id, expected in (("eu-1", "ok"), ("eu-2", "FAILS")):
        signed = run(
            "sign",
            URL.replace("scores", "entries"),
            "--body",
            "-",
            "--key-file",
            str(pem),
            "--key-id",
            key_id,
            given=body,
        )
        fields = signed.stdout.strip().split("\n\n")[3]
        request = (
            f"POST /v1/boards/arcade/entries HTTP/1.1\nHost: localhost:8080\n{fields}\n\n".encode() + body
        )
        told = outcomes(result := run("explain", given=request))
        assert (int(expected == "FAILS"), expected) == (result.exit_code, told["the signature"]), (
            result.output
        )
        assert ("ok", expected == "ok") == (told["the board"], "what the key may do" in told)
    assert "keyid: no server's key is registered under it" in result.stdout


def test_the_data_are_asked_where_the_master_key_is_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As it is in a container; no key is made beside it."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(bundled_policies()))
    monkeypatch.setenv("SCOREGATE_MASTER_KEY", base64.b64encode(bytes(32)).decode())
    assert 0 == run("ledger", "migrate").exit_code
    told = outcomes(run("explain", "--at", "1700000030", given=example("request").encode()))
    assert ("ok", "FAILS") == (told["the board"], told["the signature"])
    assert not (tmp_path / "master.key").exists()


def test_a_request_is_for_the_edge_that_runs_over_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Wherever it listens, which nothing in this shell says; once it is gone, for the usual address."""
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SCOREGATE_POLICIES_DIR", str(bundled_policies()))
    monkeypatch.setenv("SCOREGATE_MASTER_KEY", base64.b64encode(bytes(32)).decode())
    monkeypatch.delenv("SCOREGATE_BIND", raising=False)
    assert 0 == run("ledger", "migrate").exit_code
    request = example("request").replace("Host: localhost:8080", "Host: 127.0.0.1:9191").encode()
    edge = RunningPart("edge", 1, 0, tmp_path / "none", bind="127.0.0.1:9191")
    for parts, expected in (([edge], "ok"), ([], "FAILS")):
        monkeypatch.setattr(deployment_settings, "running_parts", lambda _, parts=parts: parts)
        assert expected == outcomes(run("explain", given=request))["the target"]
