"""`scoregate sign`: print what to sign of a request, and the header fields of its signature."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from policies.errors import SettingsError
from scoregate.commands.common import finish

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from gateway.edge.auth.signing import Draft
    from scoregate.signing_keys import GivenKey

KEY_VARIABLE: Final = "SIGNING_KEY"

STDIN: Final = Path("-")

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A method of HTTP (RFC 9110, section 9.1)."""
_FIELD: Final = re.compile(r"[!-~]+( +[!-~]+)*")
"""A value of a header field that is signed as it stands."""
_NONCE: Final = re.compile(r"[!#-\[\]-~]+")
"""A text that stands as it is between the quotes of `Signature-Input`."""

KeyFile = Annotated[
    Path | None,
    typer.Option(help="A run as it was opened (JSON), a run's key (base64), or a server's key (PEM)."),
]
Key = Annotated[str | None, typer.Option(envvar=KEY_VARIABLE, help="The same as text. SIGNING_KEY.")]


def sign(
    url: str,
    method: Annotated[str, typer.Option(help="The method of the request.")] = "POST",
    body: Annotated[Path | None, typer.Option(help="The file with the body; - is standard input.")] = None,
    content_type: Annotated[str, typer.Option(help="The media type of the body.")] = "application/json",
    key_file: KeyFile = None,
    key: Key = None,
    key_id: Annotated[
        str | None, typer.Option(help="The run's ticket, or the id of the server's key.")
    ] = None,
    open_run: Annotated[
        str | None, typer.Option(help="Open a run of this build on the board of the URL, as a new player.")
    ] = None,
    created: Annotated[
        int | None, typer.Option(help="When it is signed (Unix seconds); by default now.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=300, help="How long the signature is valid.")] = 60,
    nonce: Annotated[str | None, typer.Option(help="The nonce; by default a new one.")] = None,
    as_curl: Annotated[bool, typer.Option("--curl", help="Print a command for curl instead.")] = False,
) -> None:
    """Print the signature base and the header fields of a request, without sending it."""
    from gateway.edge.auth.signing import signed_with

    parts = _parts_of(url)
    _refuse_unsendable(method, content_type, nonce)
    given = finish(_run_opened(parts, open_run)) if open_run else _given(key_file, key)
    content = _content(body)
    draft = _draft(parts, method, content, content_type, given, key_id, created, seconds, nonce)
    signed = signed_with(given.key, draft)
    if as_curl:
        typer.echo(_as_curl(url, method, content, signed.headers))
        return
    typer.echo(f"The signature base, {len(signed.base)} bytes, without a line feed at the end:\n")
    typer.echo(signed.base)
    typer.echo("\nThe header fields:\n")
    for name, value in signed.headers.items():
        typer.echo(f"{name}: {value}")


def _given(key_file: Path | None, key: str | None) -> GivenKey:
    """Return the key of a file or a text. Raises SettingsError if there is none."""
    from scoregate.signing_keys import key_in, read_key_file

    if key_file is not None:
        return read_key_file(key_file)
    if key is not None:
        return key_in(key, "--key")
    raise SettingsError("a key is needed: --key-file, --key, SIGNING_KEY, or --open-run to get one")


def _content(body: Path | None) -> bytes:
    if body is None:
        return b""
    return content_of(body)


def content_of(path: Path) -> bytes:
    """Return the content of a file or standard input. Raises SettingsError for too much, and OSError."""
    from policies.bounded_files import bytes_of
    from scoregate.signing_keys import LONGEST_REQUEST

    if path != STDIN:
        return bytes_of(path, LONGEST_REQUEST)
    content = sys.stdin.buffer.read(LONGEST_REQUEST + 1)
    if len(content) > LONGEST_REQUEST:
        raise SettingsError(f"standard input: expected up to {LONGEST_REQUEST} bytes")
    return content


def _parts_of(url: str) -> SplitResult:
    """Return the parts of a URL as it is sent. Raises SettingsError for anything else."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise SettingsError(f"expected a URL, not {url!r}") from None
    if not url.isascii() or any(character <= " " for character in url) or "@" in parts.netloc:
        raise SettingsError("expected a URL as it is sent: percent signs for what is not ASCII, no user")
    if not is_whole:
        raise SettingsError("expected a URL such as http://localhost:8080/v1/boards/arcade/scores")
    return parts


def _refuse_unsendable(method: str, content_type: str, nonce: str | None) -> None:
    """Raise SettingsError for what no request could carry as it is signed."""
    for option, value, form in (
        ("--method", method, _TOKEN),
        ("--content-type", content_type, _FIELD),
        ("--nonce", nonce, _NONCE),
    ):
        if value is not None and not form.fullmatch(value):
            raise SettingsError(f"{option}: {value!r} cannot be sent as it is")


def _draft(
    parts: SplitResult,
    method: str,
    content: bytes,
    content_type: str,
    given: GivenKey,
    key_id: str | None,
    created: int | None,
    seconds: int,
    nonce: str | None,
) -> Draft:
    """Return the request that is to be signed. Raises SettingsError without a `keyid`."""
    import secrets
    import time

    from gateway.edge.auth.signatures import Tag
    from gateway.edge.auth.signing import Draft
    from scoregate.signing_keys import checked_key_id

    key_id = key_id or given.key_id
    if not key_id:
        raise SettingsError(
            "--key-id: expected the run's ticket, or the id under which the key is registered"
        )
    created = int(time.time()) if created is None else created
    return Draft(
        method=method.upper(),
        authority=parts.netloc.lower().removesuffix({"http": ":80", "https": ":443"}[parts.scheme]),
        path=parts.path or "/",
        query=f"?{parts.query}",
        body=content,
        content_type=content_type,
        created=created,
        expires=created + seconds,
        nonce=nonce or secrets.token_urlsafe(18),
        keyid=checked_key_id(key_id, "--key-id"),
        tag=(Tag.RUN if isinstance(given.key, bytes) else Tag.SERVER).value,
    )


async def _run_opened(parts: SplitResult, build: str) -> GivenKey:
    """Open a run as a new player on the board that the URL names, and return its key.

    Raises SettingsError if the edge refuses, or for a URL without a board.
    """
    from scoregate_client import ScoregateClient, ScoregateError

    from scoregate.signing_keys import GivenKey

    board = re.match(r"/v1/boards/([^/]+)/", parts.path)
    if board is None:
        raise SettingsError(
            "--open-run: expected a URL such as http://localhost:8080/v1/boards/arcade/scores"
        )
    try:
        async with ScoregateClient(f"{parts.scheme}://{parts.netloc}", attempts=1) as client:
            await client.create_player("signer")
            run = await client.open_run(board[1], build)
    except ScoregateError as refused:
        raise SettingsError(f"--open-run: {refused}") from None
    return GivenKey(run.key, run.ticket)


def _as_curl(url: str, method: str, content: bytes, headers: dict[str, str]) -> str:
    """Return the command that sends the request. Raises SettingsError for a body that is no text."""
    from shlex import quote

    words = ["curl", "-i", "-X", method.upper(), url]
    for name, value in headers.items():
        words += ["-H", f"{name}: {value}"]
    try:
        return " ".join(map(quote, [*words, "--data-raw", content.decode("utf-8")]))
    except UnicodeDecodeError:
        raise SettingsError("--curl: expected a body of text") from None
