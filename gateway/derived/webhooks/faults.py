"""Why an endpoint gave no answer, in a word for the ledger and in words for its operator."""

from __future__ import annotations

import os

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientSSLError,
    ServerDisconnectedError,
)
from yarl import URL

from gateway.derived.webhooks.guard import AddressForbidden
from policies.errors import SettingsError

FAULTS = (ClientError, OSError, ValueError, RuntimeError, SettingsError)
"""What an attempt may end with in place of an answer."""


def outcome_of(error: Exception) -> str:
    """Return a fault in one word, which tells nothing of the address."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return "forbidden" if isinstance(error, SettingsError) else type(error).__name__


def in_words(error: Exception, text: str, timeout_s: float) -> str:
    """Return a fault of a request to a URL in words for its operator; of the URL they have host and port."""
    if isinstance(error, SettingsError):
        return str(error)
    try:
        url = URL(text)
    except ValueError:
        return outcome_of(error)
    if isinstance(error, ClientConnectorDNSError):
        return _of_name(error, url)
    return f"{url.host_port_subcomponent}: {_of_connection(error, timeout_s)}"


def _of_name(error: ClientConnectorDNSError, url: URL) -> str:
    if isinstance(error.os_error, AddressForbidden):
        return f"{error.os_error}; name it in SCOREGATE_WEBHOOK_HOSTS to allow it"
    return f"{url.host}: the name does not resolve"


def _of_connection(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, ClientConnectorCertificateError):
        return f"its certificate is not valid ({_of_tls(error.certificate_error)})"
    if isinstance(error, ClientSSLError):
        return f"no connection over TLS ({_of_tls(error.os_error)})"
    if isinstance(error, ClientConnectorError) and error.os_error.errno:
        is_refused = isinstance(error.os_error, ConnectionRefusedError)
        return "the connection is refused" if is_refused else os.strerror(error.os_error.errno)
    if isinstance(error, ServerDisconnectedError | ClientOSError | ConnectionError):
        return "the connection ended before an answer"  # aiohttp's own words have the whole URL
    return type(error).__name__


def _of_tls(error: Exception) -> str:
    said = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    return str(said or type(error).__name__).replace("_", " ").lower()
