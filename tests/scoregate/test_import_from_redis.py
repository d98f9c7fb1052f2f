"""A sorted set is copied from a Valkey with a password, behind TLS, or not at all if the connection is cut."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from policies.errors import SettingsError
from scoregate.imports import redis_copy
from scoregate.imports.redis_copy import copy_sorted_set, scores_of_copy
from tests.support.certificates import a_certificate
from tests.support.valkey import ValkeyServer

MEMBERS = 3_000


@contextmanager
def relayed(
    server: ValkeyServer, certificate: Path | None = None, most_bytes: int | None = None
) -> Iterator[int]:
    """A port before a server, which speaks TLS, or ends each connection after some bytes of the answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
    if context and certificate:
        context.load_cert_chain(certificate)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError):
                secured = context.wrap_socket(client, server_side=True) if context else client
                threading.Thread(target=relay, args=(secured,), daemon=True).start()

    def relay(client: socket.socket) -> None:
        """Take turns, as Redis does: a question, then as much of an answer as comes."""
        answered = 0
        with client, socket.socket(socket.AF_UNIX) as inner, suppress(OSError):
            inner.connect(str(server.socket))
            threading.Thread(target=pump, args=(client, inner), daemon=True).start()
            while data := inner.recv(65_536):
                answered += len(data)
                if most_bytes is not None and answered > most_bytes:
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.fixture
def source(valkey: ValkeyServer) -> Iterator[ValkeyServer]:
    """A server with a sorted set `lb`, and a list `list`."""
    with valkey.client() as client:
        client.flushall()
        client.zadd("lb", {f"p{number:04}": number for number in range(MEMBERS)})
        client.rpush("list", "ada")
        yield valkey
        client.config_set("requirepass", "")
        client.flushall()


def test_a_password_is_taken_from_the_address_or_the_surroundings(
    source: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with every character that has a meaning, written by percent signs; without it, nothing is copied."""
    with source.client() as client:
        client.config_set("requirepass", "a/b#c@d:e")
    unix = f"unix://{source.socket}"
    with pytest.raises(SettingsError, match="Redis: Authentication required"):
        copy_sorted_set(unix, "lb", tmp_path / "none")
    with pytest.raises(SettingsError, match=r"Redis: .*(?:WRONGPASS|invalid username-password)"):
        copy_sorted_set(f"{unix}?password=wrong", "lb", tmp_path / "wrong")
    with relayed(source) as port:
        url = f"redis://:a%2Fb%23c%40d%3Ae@127.0.0.1:{port}/0"
        assert MEMBERS == copy_sorted_set(url, "lb", tmp_path / "copy")
        with pytest.raises(SettingsError, match="written as %2F") as refused:
            copy_sorted_set(f"redis://:a/b#c@127.0.0.1:{port}/0", "lb", tmp_path / "unread")
        assert "a/b" not in str(refused.value)
    monkeypatch.setenv("REDISCLI_AUTH", "a/b#c@d:e")
    assert MEMBERS == copy_sorted_set(unix, "lb", tmp_path / "other")


def test_tls_is_spoken_with_a_server_whose_certificate_is_known(source: ValkeyServer, tmp_path: Path) -> None:
    """By the authority in the address; a certificate of nobody known is refused."""
    certificate = a_certificate(tmp_path / "valkey.pem")
    with relayed(source, certificate) as port:
        url = f"rediss://127.0.0.1:{port}/0"
        with pytest.raises(SettingsError, match=r"Redis: .*(?i:certificate)"):
            copy_sorted_set(url, "lb", tmp_path / "none")
        assert MEMBERS == copy_sorted_set(f"{url}?ssl_ca_certs={certificate}", "lb", tmp_path / "copy")


def test_a_copy_that_is_cut_off_is_none(source: ValkeyServer, tmp_path: Path) -> None:
    """The connection ends amid the members; the same command copies all of them later."""
    url = f"unix://{source.socket}"
    with (
        relayed(source, most_bytes=30_000) as port,
        pytest.raises(SettingsError, match="Redis: "),
    ):
        copy_sorted_set(f"redis://127.0.0.1:{port}/0", "lb", tmp_path / "copy")
    assert MEMBERS == copy_sorted_set(url, "lb", tmp_path / "copy")


def test_what_is_no_sorted_set_is_named(source: ValkeyServer, tmp_path: Path) -> None:
    """Another type, a name that is not there, and a set that ends while it is copied."""
    url = f"unix://{source.socket}"
    with pytest.raises(SettingsError, match="list: expected a sorted set; Redis has a list"):
        copy_sorted_set(url, "list", tmp_path / "list")
    with pytest.raises(SettingsError, match="none: expected a sorted set; Redis has nothing of this name"):
        copy_sorted_set(url, "none", tmp_path / "none")
    with pytest.raises(SettingsError, match=r"Redis: .*No such file"):
        copy_sorted_set("unix:///nowhere.sock", "lb", tmp_path / "nowhere")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="expected a file, not a link"):
        copy_sorted_set(url, "lb", tmp_path / "link")


def test_a_set_that_ends_while_it_is_copied_is_no_copy(
    source: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis answers that there is no more, as at the end of a set."""
    pages = redis_copy._pages

    def removing(client: object, key: str) -> Iterator[object]:
        for number, page in enumerate(pages(client, key)):
            yield page
            if number == 0:
                with source.client() as other:
                    other.delete(key)

    monkeypatch.setattr(redis_copy, "_pages", removing)
    with pytest.raises(SettingsError, match="lb: expected a sorted set; Redis has nothing of this name"):
        copy_sorted_set(f"unix://{source.socket}", "lb", tmp_path / "copy")


def test_two_members_do_not_become_one_player(source: ValkeyServer, tmp_path: Path) -> None:
    """Where a prefix is taken off one of them; bytes that are no text are a player that is refused."""
    with source.client() as client:
        client.delete("lb")
        client.zadd("lb", {"user:ada": 1, "user:eve": 2, b"user:\xff": 3, "inf": float("inf")})
        copy_sorted_set(f"unix://{source.socket}", "lb", tmp_path / "copy")
        scores = list(scores_of_copy(tmp_path / "copy", "user:", is_ascending=True))
        assert [("ada", 1), ("eve", 2), ("\ufffd", 3), ("inf", "inf")] == [each[:2] for each in scores]
        client.zadd("lb", {"ada": 5})
        copy_sorted_set(f"unix://{source.socket}", "lb", tmp_path / "double")
        with pytest.raises(SettingsError, match="'ada' and 'user:ada' would be one player"):
            list(scores_of_copy(tmp_path / "double", "user:", is_ascending=True))
        assert 5 == len(list(scores_of_copy(tmp_path / "double", "", is_ascending=True)))
