"""Finds out why a signature does not fit its request, by trying the mistakes that signers make.

For commands, and for edges in development mode alone: whoever is told of a mistake learns that the key is
known here, which `signatures` keeps from everybody.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.edge.auth import signatures
from gateway.edge.auth.signatures import COMPONENTS, ED25519, HMAC_SHA256, ParsedSignature, Tag
from gateway.edge.auth.signed_request import SignedParts
from gateway.edge.auth.structured_fields import StructuredFieldError, parse_inner_lists
from gateway.edge.problems import Problem

Check = Callable[[bytes], bool]
"""Whether a signature is one of these bytes."""

_NAMES: Final = {name: name.removeprefix("@").replace("-", "_") for name in COMPONENTS}
_MEDIA: Final = ("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8")
_ABSENT: Final = "(the request has no such field)"


@dataclass(frozen=True, slots=True)
class Mistake:
    """What was signed in another way than it is read here: a component, the text of the base, or the key."""

    member: str
    advice: str


FITS: Final = Mistake("nothing", "the signature fits")
"""The answer of `mistake_in` for a signature that its key made over exactly this request."""

_LIST: Final = "(" + " ".join(f'"{name}"' for name in COMPONENTS) + ")"
_PARAMS: Final = f'{_LIST};created=...;expires=...;nonce="...";keyid="...";tag="..."'


def checks_of_server(key: Ed25519PublicKey, signature: bytes) -> Iterator[tuple[Mistake | None, Check]]:
    """Yield the check by the registered key of a server."""
    yield None, lambda base: signatures.verify_ed25519(key, base, signature)


def checks_of_run(key: bytes, signature: bytes) -> Iterator[tuple[Mistake | None, Check]]:
    """Yield checks by the key of a run, and by what is taken for it by mistake."""

    def by(wrong: bytes) -> Check:
        return lambda base: signatures.verify_hmac_sha256(wrong, base, signature)

    text = base64.b64encode(key)
    yield None, by(key)
    yield Mistake("the key", "decode the run's `key` from base64: its text was used as the key"), by(text)
    yield (
        Mistake("the key", "use the 32 bytes of the run's `key`: their hex digits were used"),
        by(key.hex().encode()),
    )


def mistake_in(
    parsed: ParsedSignature,
    parts: SignedParts,
    checks: Iterable[tuple[Mistake | None, Check]],
    authorities: Iterable[str] = (),
) -> Mistake | None:
    """Return the one mistake that explains a signature, FITS if there is none, None if no known one does.

    `authorities` are others that the signer may have written. Raises what `signatures.signature_base` raises.
    """
    bases: list[tuple[Mistake | None, bytes]] = [(None, signatures.signature_base(parsed, **parts))]
    bases += _other_bases(parsed, parts, authorities)
    for wrong_key, check in checks:
        for wrong_base, base in bases:
            if check(base):
                return wrong_base or wrong_key or FITS
    return None


def fault_of_genuine(parsed: ParsedSignature) -> str | None:
    """Return what is wrong with a signature that fits all the same; None if it is nothing of its own."""
    is_hmac = len(parsed.signature) == hashlib.sha256().digest_size
    algorithm, tag = (HMAC_SHA256, Tag.RUN) if is_hmac else (ED25519, Tag.SERVER)
    if parsed.tag is not tag:
        return f'tag: write "{tag.value}", as the key is one of {"a run" if is_hmac else "a server"}'
    if parsed.alg not in {None, algorithm}:
        return f'alg: write "{algorithm}", or leave it out'
    return None


def base_wanted(parts: SignedParts) -> str:
    """Return the base of these parts in the order of our own clients, with what is missing named."""
    values: dict[str, str | None] = {name: parts[key] for name, key in _NAMES.items()}  # type: ignore[literal-required]
    lines = [f'"{name}": {_ABSENT if value is None else value}' for name, value in values.items()]
    return "\n".join([*lines, f'"@signature-params": {_PARAMS}'])


def fault_of_input(signature_input: str | None) -> str | None:
    """Return which member of a `Signature-Input` is missing, or not as it has to be; None if none is."""
    try:
        members = parse_inner_lists(signature_input or "")
    except StructuredFieldError:
        return None
    for label, member in members.items():
        named = re.findall(r'"([^"]*)"', member.items_text)
        if missing := [name for name in COMPONENTS if name not in named]:
            return f"`{label}` does not sign {', '.join(missing)}"
        if others := [name for name in named if name not in COMPONENTS]:
            return f"`{label}` signs {', '.join(others)}, which is none of the six components"
        if fault := signatures.fault_of_parameters(member.parameters):
            return f"the parameter `{fault}` of `{label}` is missing, unknown or of another form"
    return None


def _other_bases(
    parsed: ParsedSignature, parts: SignedParts, authorities: Iterable[str]
) -> Iterator[tuple[Mistake, bytes]]:
    for name, other in _other_values(parts, authorities):
        here = parts[_NAMES[name]]  # type: ignore[literal-required]
        if other == here:
            continue
        with suppress(Problem):  # of a value beyond ASCII
            base = signatures.signature_base(parsed, **{**parts, _NAMES[name]: other})  # type: ignore[arg-type]
            yield Mistake(f'"{name}"', f"write `{here}`; signed was `{other}`"), base
    yield from _other_texts(signatures.signature_base(parsed, **parts), parsed)


def _other_values(parts: SignedParts, authorities: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what signers write for a component by mistake."""
    method, authority, path, query = parts["method"], parts["authority"], parts["path"], parts["query"]
    host = authority.rpartition(":")[0] if re.search(r":\d+$", authority) else authority
    yield "@method", method.lower()
    for other in (
        host,
        f"{host}:80",
        f"{host}:443",
        f"http://{authority}",
        f"https://{authority}",
        *authorities,
    ):
        yield "@authority", other
    whole = path + (query if query != "?" else "")
    for other in (whole, f"{path}/", path.rstrip("/"), unquote(path), f"http://{authority}{whole}",
                  f"https://{authority}{whole}", whole.lstrip("/")):  # fmt: skip
        yield "@path", other
    for other in ("", query[1:], unquote(query)):
        yield "@query", other
    for media in _MEDIA:
        yield "content-type", media
    digest = parts["content_digest"] or ""
    yield "content-digest", digest.partition("=")[2]
    yield "content-digest", digest.partition("=")[2].strip(":")


def _other_texts(base: bytes, parsed: ParsedSignature) -> Iterator[tuple[Mistake, bytes]]:
    """Yield bases that were put together by mistake."""
    begin, _, params = base.rpartition(b'\n"@signature-params": ')
    labelled = b'"@signature-params": ' + parsed.label.encode() + b"=" + params
    unquoted = re.sub(rb'^"([^"]*)":', rb"\1:", base, flags=re.MULTILINE)
    for advice, text in (
        ("write no line feed after the last line", base + b"\n"),
        ("end lines by a line feed alone, without a carriage return", base.replace(b"\n", b"\r\n")),
        ("end lines by a line feed alone, and the last by none", (base + b"\n").replace(b"\n", b"\r\n")),
        ('sign the line `"@signature-params"` too', begin),
        ('write `"@signature-params"` without the label of the signature', begin + b"\n" + labelled),
        ("write the names of components in double quotes", unquoted),
    ):  # fmt: skip
        yield Mistake("the text of the base", advice), text
