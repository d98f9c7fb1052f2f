"""Settings as an operator writes them: what is taken, what it means, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.settings import Settings, load_settings
from policies.errors import SettingsError

TAKEN = {
    "redis_url": [
        "redis://127.0.0.1:6379/0",
        "redis://localhost",
        "redis://user:secret@cache.example:6380/3",
        "rediss://:secret@[2001:db8::1]:6379",
        "unix:///run/redis.sock?db=1",
        "redis+cluster://a:1,b:2",
        "rediss+cluster://user:secret@a:1,[::1]:2/",
    ],
    "queue_url": ["redis://127.0.0.1", "unix:///run/redis.sock"],
    "ledger_url": ["sqlite:////srv/ledger.db", "postgresql://u:p%40w@db:5432/scores", "postgresql:///scores"],
    "bind": ["127.0.0.1:8080", "[::1]:0", "edge.example:65535"],
    "metrics_bind": ["0.0.0.0:9464"],
}
REFUSED = {
    "redis_url": [
        "localhost:6379",
        "http://localhost",
        "redis://host:port",
        "redis://host/first",
        "redis+cluster://a:1/0",
        "",
    ],
    "queue_url": ["redis+cluster://a:1,b:2", "amqp://localhost", "localhost"],
    "ledger_url": ["mysql://db/scores", "sqlite://", "postgresql://u:p/w@db/scores"],
    "bind": ["8080", "127.0.0.1", "127.0.0.1:65536", "::1:80", "host:"],
    "metrics_bind": ["127.0.0.1:65536", ":9464"],
    "oidc_issuer": [
        "id.example",
        "http://id.example",
        "https://id.example/?a=b",
        "https://a:b@id.example",
        "ftp://localhost",
    ],
    "oidc_client_id": ["desk"],
    "password_logins": ["false"],
    "kafka_topic": ["a topic", "x" * 250],
    "answer_within_s": ["0", "soon"],
    "log_level": ["loud"],
}


def cases(of: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in of.items() for value in values]


@pytest.mark.parametrize(("name", "value"), cases(TAKEN))
def test_what_is_written_right_is_taken(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    """From the environment, as it is."""
    monkeypatch.setenv(f"SCOREGATE_{name.upper()}", value)
    taken: Any = getattr(load_settings(), name)
    assert value == (taken.get_secret_value() if name == "ledger_url" else taken)


@pytest.mark.parametrize(("name", "value"), cases(REFUSED))
def test_what_is_written_wrong_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    """At start, in a line that names the variable and does not begin with the library's words."""
    monkeypatch.setenv(f"SCOREGATE_{name.upper()}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert str(refused.value).startswith(f"SCOREGATE_{name.upper()}: ")
    assert "Value error" not in str(refused.value)


def test_everything_that_is_wrong_is_told_at_once_and_no_secret_is(monkeypatch: pytest.MonkeyPatch):
    """One line for each variable; a URL with a password in it is not repeated."""
    monkeypatch.setenv("SCOREGATE_LEDGER_URL", "postgresql://u:hunter/2@db/scores")
    monkeypatch.setenv("SCOREGATE_REDIS_URL", "redis://u:hunter2@host:port")
    monkeypatch.setenv("SCOREGATE_LEASE_S", "0")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    lines = str(refused.value).splitlines()
    assert ["SCOREGATE_LEASE_S", "SCOREGATE_LEDGER_URL", "SCOREGATE_REDIS_URL"] == sorted(
        line.partition(":")[0] for line in lines
    )
    assert "hunter" not in str(refused.value)


def test_hosts_are_those_of_the_address_unless_they_are_named(monkeypatch: pytest.MonkeyPatch):
    """By default whatever reaches this machine by itself; named ones in any case, with spaces, and no others."""
    own = Settings(bind="Edge.Example:8443").allowed_hosts
    assert {"edge.example:8443", "127.0.0.1:8443", "localhost:8443", "[::1]:8443"} == own
    monkeypatch.setenv("SCOREGATE_HOSTS", "Scores.Example, , api.scores.example:444,")
    monkeypatch.setenv("SCOREGATE_TRUSTED_PROXIES", " 10.0.0.0/8 ,192.0.2.1")
    settings = load_settings()
    assert {"scores.example", "api.scores.example:444"} == settings.allowed_hosts
    assert ("10.0.0.0/8", "192.0.2.1") == settings.trusted_proxies


def test_an_address_is_what_one_can_listen_on():
    """IPv6 without its brackets, and the port as a number."""
    assert [("127.0.0.1", 8080), ("::1", 0)] == [
        Settings(bind=bind).bind_address for bind in ("127.0.0.1:8080", "[::1]:0")
    ]


def test_a_ledger_is_where_its_url_says(tmp_path: Path):
    """A file in the data directory, another file, or a database, which is no file and is said to be none."""
    assert tmp_path / "ledger.sqlite3" == Settings(data_dir=tmp_path).ledger_path
    other = Settings(data_dir=tmp_path, ledger_url=f"sqlite:///{tmp_path}/other.db")
    assert (tmp_path / "other.db", False) == (other.ledger_path, other.is_on_postgres)
    database = Settings(data_dir=tmp_path, ledger_url="postgresql://db/scores")
    assert database.is_on_postgres
    with pytest.raises(
        SettingsError, match="SCOREGATE_LEDGER_URL: this needs the ledger to be an SQLite file"
    ):
        _ = database.ledger_path


def test_an_identity_provider_is_named_with_the_client_that_we_are_to_it():
    """Both or neither; over HTTPS, but on this machine."""
    for issuer in ("https://id.example/realms/studio", "http://127.0.0.1:5556/dex", "http://localhost:9000/"):
        known = load_settings(oidc_issuer=issuer, oidc_client_id="desk", password_logins=False)
        assert (issuer, False) == (known.oidc_issuer, known.password_logins)
    with pytest.raises(SettingsError, match="SCOREGATE_OIDC_CLIENT_ID"):
        load_settings(oidc_issuer="https://id.example")
