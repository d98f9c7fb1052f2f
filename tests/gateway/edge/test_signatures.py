"""The signature profile, one rule at a time; beside every refusal stands the request that passes (S01)."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256, sha512
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.auth import signatures
from gateway.edge.auth.signatures import (
    COMPONENTS,
    ED25519,
    HMAC_SHA256,
    ParsedSignature,
    ServerKeyError,
    Tag,
    build_base,
    check_algorithm,
    check_content_digest,
    check_time,
    content_digest_of,
    load_server_public_key,
    parse,
    signature_base,
    verify_ed25519,
    verify_hmac_sha256,
)
from gateway.edge.auth.signing import Draft, sign_ed25519, sign_hmac_sha256
from gateway.edge.problems import Problem, ProblemType

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "signatures.md"
KEY = bytes(range(32))
PRIVATE_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64)))
NOW = 1_700_000_000


def a_draft(**changes: object) -> Draft:
    """A request as honest clients send it."""
    draft = Draft(
        method="POST",
        authority="localhost:8080",
        path="/v1/boards/arcade/scores",
        body=b'{"score":1200}',
        created=NOW,
        expires=NOW + 60,
        nonce="n0nce-n0nce_n0nce",
        keyid="ticket.of.a-run",
        tag=Tag.RUN.value,
    )
    return replace(draft, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Wire:
    """A signed request as it arrives: what the edge reads from it."""

    method: str
    authority: str
    path: str
    query: str
    content_type: str | None
    content_digest: str | None
    signature_input: str | None
    signature: str | None
    body: bytes


def on_the_wire(draft: Draft, headers: dict[str, str]) -> Wire:
    """The draft with its header fields, sent."""
    return Wire(
        draft.method,
        draft.authority,
        draft.path,
        draft.query,
        headers["Content-Type"],
        headers["Content-Digest"],
        headers["Signature-Input"],
        headers["Signature"],
        draft.body,
    )


def a_run_request(**changes: object) -> Wire:
    """S01: a request signed with the key of a run."""
    draft = a_draft(**changes)
    return on_the_wire(draft, sign_hmac_sha256(KEY, draft))


def a_server_request(**changes: object) -> Wire:
    """S01: a request signed by a trusted server."""
    draft = a_draft(tag=Tag.SERVER.value, keyid="server-1", **changes)
    return on_the_wire(draft, sign_ed25519(PRIVATE_KEY, draft))


def base_of(parsed: ParsedSignature, wire: Wire) -> bytes:
    """The signature base of a request on the wire."""
    return signature_base(
        parsed,
        method=wire.method,
        authority=wire.authority,
        path=wire.path,
        query=wire.query,
        content_type=wire.content_type,
        content_digest=wire.content_digest,
    )


def accept(wire: Wire, now_s: float = NOW, skew_s: int = 5) -> ParsedSignature:
    """The signature of a request that passes every step, in the order of the edge."""
    parsed = parse(wire.signature_input, wire.signature)
    check_algorithm(parsed, HMAC_SHA256 if parsed.tag is Tag.RUN else ED25519)
    base = base_of(parsed, wire)
    if parsed.tag is Tag.RUN:
        verified = verify_hmac_sha256(KEY, base, parsed.signature)
    else:
        verified = verify_ed25519(PRIVATE_KEY.public_key(), base, parsed.signature)
    if not verified:
        raise Problem(ProblemType.SIGNATURE_INVALID)
    check_time(parsed, now_s, skew_s)
    assert wire.content_digest is not None
    check_content_digest(wire.content_digest, wire.body)
    return parsed


@contextmanager
def refused(kind: ProblemType) -> Iterator[pytest.ExceptionInfo[Problem]]:
    """Passes when the block is refused with that problem, and an answer can be written of it."""
    with pytest.raises(Problem) as caught:
        yield caught
    assert kind is caught.value.kind
    (caught.value.detail or "").encode("utf-8")  # no lone surrogate: an answer can be written


def resigned(params_text: str, components: tuple[str, ...] | None = None, label: str = "sg") -> Wire:
    """A run request whose parameters are `params_text`, correctly signed over the components it names."""
    wire = a_run_request()
    values = {
        "@method": wire.method,
        "@authority": wire.authority,
        "@path": wire.path,
        "@query": "?",
        "content-type": str(wire.content_type),
        "content-digest": str(wire.content_digest),
    }
    named = COMPONENTS if components is None else components
    base = build_base([(name, values.get(name, "x")) for name in named], params_text)
    return replace(wire, signature_input=f"{label}={params_text}", signature=f"{label}=:{mac_text(base)}:")


def mac_text(base: bytes) -> str:
    """The base64 of the run key's HMAC of `base`."""
    return sign_text(lambda data: hmac.digest(KEY, data, "sha256"), base)


def sign_text(sign: Callable[[bytes], bytes], base: bytes) -> str:
    """The base64 of a signature of `base`."""
    return b64encode(sign(base)).decode("ascii")


def params_of(wire: Wire) -> str:
    """The inner list of a request's only signature."""
    assert wire.signature_input is not None
    return wire.signature_input.removeprefix("sg=")


def test_S01_a_run_request_is_accepted() -> None:
    """The control: everything that the signature says is read."""
    parsed = accept(a_run_request())

    assert parsed.label == "sg"
    assert parsed.components == COMPONENTS
    assert (parsed.created, parsed.expires) == (NOW, NOW + 60)
    assert parsed.nonce == "n0nce-n0nce_n0nce"
    assert parsed.keyid == "ticket.of.a-run"
    assert Tag.RUN is parsed.tag
    assert parsed.alg == HMAC_SHA256
    assert len(parsed.signature) == 32


def test_S01_a_server_request_is_accepted() -> None:
    """The control for trusted servers."""
    parsed = accept(a_server_request(query="?a=1&b=%2F"))
    assert (parsed.tag, parsed.alg, len(parsed.signature)) == (Tag.SERVER, ED25519, 64)


def test_the_components_may_stand_in_any_order() -> None:
    """The declared order is the one that is signed."""
    order = tuple(reversed(COMPONENTS))
    names = " ".join(f'"{name}"' for name in order)
    text = f"({names})" + params_of(a_run_request()).partition(")")[2]
    assert order == accept(resigned(text, order)).components


CHANGES: dict[str, Callable[[Wire], Wire]] = {
    "method": lambda wire: replace(wire, method="PUT"),
    "method case": lambda wire: replace(wire, method="post"),
    "authority": lambda wire: replace(wire, authority="localhost:8081"),
    "path": lambda wire: replace(wire, path="/v1/boards/arcadf/scores"),
    "path slash": lambda wire: replace(wire, path="/v1/boards/arcade/scores/"),
    "query": lambda wire: replace(wire, query="?board=b2"),
    "content-type": lambda wire: replace(wire, content_type="application/jsom"),
    "content-digest": lambda wire: replace(wire, content_digest=content_digest_of(b"other")),
    "created": lambda wire: in_params(wire, f"created={NOW}", f"created={NOW + 1}"),
    "created beyond expires": lambda wire: in_params(wire, f"created={NOW}", f"created={NOW + 4096}"),
    "expires": lambda wire: in_params(wire, f"expires={NOW + 60}", f"expires={NOW + 61}"),
    "expires far": lambda wire: in_params(wire, f"expires={NOW + 60}", f"expires={NOW + 9999}"),
    "nonce": lambda wire: in_params(wire, "n0nce-", "n1nce-"),
    "keyid": lambda wire: in_params(wire, 'keyid="', 'keyid="x'),
    "alg": lambda wire: in_params(wire, "-sha256", "-sha257"),
    "alg left out": lambda wire: in_params(wire, ';alg="hmac-sha256"', ""),
    "tag": lambda wire: in_params(wire, "scoregate-run", "scoregate-ruo"),
    "tag of servers": lambda wire: in_params(wire, "scoregate-run", "scoregate-server"),
    "order of components": lambda wire: in_params(wire, '"@method" "@authority"', '"@authority" "@method"'),
    "order of parameters": lambda wire: in_params(
        wire, f"created={NOW};expires={NOW + 60}", f"expires={NOW + 60};created={NOW}"
    ),
    "one bit of the signature": lambda wire: replace(wire, signature=f"sg=:{flipped(wire.signature)}:"),
}


def in_params(wire: Wire, old: str, new: str) -> Wire:
    """The request with one piece of its Signature-Input exchanged."""
    assert wire.signature_input is not None
    assert old in wire.signature_input
    return replace(wire, signature_input=wire.signature_input.replace(old, new))


def flipped(signature: str | None) -> str:
    """The base64 of a Signature field's value with one bit flipped."""
    raw = bytearray(b64decode(str(signature).removeprefix("sg=:").removesuffix(":")))
    raw[7] ^= 0x10
    return b64encode(raw).decode("ascii")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_S02_a_change_of_anything_covered_is_invalid(change: Callable[[Wire], Wire]) -> None:
    """One change, and the signature does not verify; whatever it is, the answer is the same."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(change(wire))


def test_S02_the_label_is_not_covered() -> None:
    """A label renamed in both fields still names the same signature (RFC 9421, §7.2.5)."""
    wire = a_run_request()
    renamed = replace(
        wire,
        signature_input="other=" + params_of(wire),
        signature=str(wire.signature).replace("sg=", "other="),
    )
    assert accept(renamed).label == "other"


def test_S03_another_body_under_the_same_digest_is_invalid() -> None:
    """The digest is signed, and the body must be its body."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(replace(wire, body=b'{"score":9999}'))


def test_S04_another_body_with_its_own_digest_is_invalid() -> None:
    """The digest cannot follow the body without the key."""
    wire = a_run_request()
    accept(wire)
    body = b'{"score":9999}'
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(replace(wire, body=body, content_digest=content_digest_of(body)))


def test_S05_a_request_without_signature_or_with_half_of_one() -> None:
    """Neither field: missing. One of two: malformed."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_MISSING):
        parse(None, None)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(wire.signature_input, None)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(None, wire.signature)


@pytest.mark.parametrize(
    "components",
    [(), *(COMPONENTS[:at] + COMPONENTS[at + 1 :] for at in range(6)), (*COMPONENTS, "date")],
    ids=["none", *(f"no {name}" for name in COMPONENTS), "one more field"],
)
def test_S06_other_components_than_the_six_are_a_lack_of_coverage(components: tuple[str, ...]) -> None:
    """Signed correctly, but not what must be signed."""
    control = a_run_request()
    accept(control)
    tail = params_of(control).partition(")")[2]
    text = "(" + " ".join(f'"{name}"' for name in components) + ")" + tail
    with refused(ProblemType.SIGNATURE_COVERAGE):
        accept(resigned(text, components))


def test_S06_a_signed_field_that_is_absent_is_a_lack_of_coverage() -> None:
    """A digest that comes in a trailer only, or a missing Content-Type, is not covered."""
    wire = a_run_request()
    accept(wire)
    for absent in (replace(wire, content_type=None), replace(wire, content_digest=None)):
        with refused(ProblemType.SIGNATURE_COVERAGE):
            accept(absent)


@pytest.mark.parametrize("name", ["created", "expires", "nonce", "keyid"])
def test_S06_every_required_parameter_is_required(name: str) -> None:
    """A parameter left out is a lack of coverage."""
    text = params_of(a_run_request())
    accept(resigned(text))
    with refused(ProblemType.SIGNATURE_COVERAGE):
        accept(resigned(re.sub(rf';{name}=("[^"]*"|\d+)', "", text)))


@pytest.mark.parametrize(
    "component",
    [
        '"@scheme"',
        '"@target-uri"',
        '"@unknown"',
        '"@status"',
        '"@signature-params"',
        '"@query-param";name="board"',
        '"content-type";req',
        '"content-type";bs;sf',
        '"date";bs',
        '"date";tr',
        '"date";key="x"',
        '"date";unknown',
        '"@path";req=?0',
        '"Date"',
        '""',
        '"a b"',
        '"a\\"b"',
        "date",
        "1",
        ":Yg==:",
    ],
)
def test_S07_components_that_we_do_not_know_are_malformed(component: str) -> None:
    """Derived components beyond the four, component parameters, and what is no component name at all."""
    text = params_of(a_run_request())
    accept(resigned(text))
    with refused(ProblemType.SIGNATURE_MALFORMED):
        accept(resigned(text.replace(")", f" {component})", 1)))


@pytest.mark.parametrize("changed", ['"@path";req', '"content-type";sf', '"content-digest";key="sha-256"'])
def test_S07_the_six_take_no_parameters(changed: str) -> None:
    """A parameter changes what a component means, so none is read."""
    text = params_of(a_run_request())
    accept(resigned(text))
    with refused(ProblemType.SIGNATURE_MALFORMED):
        accept(resigned(text.replace(changed.partition(";")[0], changed)))


@pytest.mark.parametrize(
    "twice", ['"@method"', '"content-type"', '"content-type";a;b "content-type";b;a', '"date" "date"']
)
def test_S08_a_component_listed_twice_is_malformed(twice: str) -> None:
    """Also with its parameters in another order."""
    text = params_of(a_run_request())
    accept(resigned(text))
    with refused(ProblemType.SIGNATURE_MALFORMED):
        accept(resigned(text.replace(")", f" {twice})", 1)))


FOREIGN = [
    'proxy=("@status" "x-forwarded-for";sf);created=1;keyid="k";tag="acme-proxy"',
    'proxy=( "@method"  "@method";req );alg=token; created=-1.5;n=:Yg==:',
    "proxy=()",
]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("first", [True, False])
def test_S11_only_the_signature_with_our_tag_is_looked_at(*, foreign: str, first: bool) -> None:
    """Signatures of others are read past, wherever they stand and whatever they cover."""
    wire = a_run_request()
    inputs, signatures = [str(wire.signature_input), foreign], [str(wire.signature), "proxy=:YWJj:"]
    order = slice(None, None, -1 if first else 1)
    both = replace(wire, signature_input=", ".join(inputs[order]), signature=", ".join(signatures))
    assert accept(wire) == accept(both)


def test_S11_two_signatures_with_our_tags_are_malformed() -> None:
    """Which one counts would be a guess, also when one is a run's and the other a server's."""
    run, server = a_run_request(), a_server_request()
    accept(run)
    accept(server)
    for other in (run, server):
        second = str(other.signature_input).replace("sg=", "s2=")
        signature = f"{run.signature}, {str(other.signature).replace('sg=', 's2=')}"
        with refused(ProblemType.SIGNATURE_MALFORMED):
            parse(f"{run.signature_input}, {second}", signature)


def test_S11_signatures_of_others_alone_are_invalid() -> None:
    """Without our tag there is no signature for us; a token is not a string."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_INVALID):
        parse(FOREIGN[0], "proxy=:YWJj:")
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(in_params(wire, 'tag="scoregate-run"', "tag=scoregate-run"))
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(in_params(wire, ';tag="scoregate-run"', ""))


def test_S11_a_label_in_one_field_only_is_malformed() -> None:
    """The labels of both fields are the same (RFC 9421, §4)."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(wire.signature_input, str(wire.signature).replace("sg=", "gs="))
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(f"{wire.signature_input}, b=()", wire.signature)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(wire.signature_input, f"{wire.signature}, b=:YWJj:")


@pytest.mark.parametrize("alg", [';alg="hmac-sha256"', "", ';alg="ed25519"'])
def test_S12_a_mac_made_with_the_public_key_is_invalid(alg: str) -> None:
    """The algorithm comes from the key record: a public key is never an HMAC secret (RFC 9421, §7.3.6)."""
    accept(a_server_request())
    public = PRIVATE_KEY.public_key().public_bytes_raw()
    text = params_of(a_server_request()).replace(';alg="ed25519"', alg)
    wire = replace(resigned(text), signature_input=f"sg={text}")
    base = base_of(parse(wire.signature_input, wire.signature), wire)
    forged = sign_text(lambda data: hmac.digest(public, data, "sha256"), base)
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(replace(wire, signature=f"sg=:{forged}:"))


@pytest.mark.parametrize(
    ("alg", "passes"),
    [
        ("", True),
        (';alg="hmac-sha256"', True),
        (';alg="HMAC-SHA256"', False),
        (';alg="none"', False),
        (';alg="ed25519"', False),
        (';alg="hmac-sha256x"', False),
    ],
)
def test_S13_alg_may_be_left_out_and_must_otherwise_be_exact(*, alg: str, passes: bool) -> None:
    """Case counts; the signature itself is correct in every case."""
    wire = resigned(params_of(a_run_request()).replace(';alg="hmac-sha256"', alg))
    if passes:
        accept(wire)
    else:
        with refused(ProblemType.SIGNATURE_INVALID):
            accept(wire)


@pytest.mark.parametrize(
    ("now_s", "passes"),
    [
        (NOW - 6, False),
        (NOW - 5.001, False),
        (NOW - 5, True),
        (NOW, True),
        (NOW + 60, True),
        (NOW + 60.999, True),
        (NOW + 61, False),
    ],
)
def test_S15_both_boundary_seconds_are_inside(*, now_s: float, passes: bool) -> None:
    """From `created - skew` to the end of the second `expires`; the skew widens the beginning only."""
    wire = a_run_request()
    if passes:
        accept(wire, now_s)
        return
    with refused(ProblemType.SIGNATURE_EXPIRED) as caught:
        accept(wire, now_s)
    assert {"server_time": int(now_s // 1)} == caught.value.extensions


@pytest.mark.parametrize("expires", [NOW + 301, NOW, NOW - 1])
def test_S15_a_lifetime_beyond_the_profile_is_malformed_once_verified(expires: int) -> None:
    """300 seconds pass; more, none, or a negative time do not, and only a verified signature is told so."""
    accept(a_run_request(expires=NOW + 300))
    wire = a_run_request(expires=expires)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        accept(wire)
    with refused(ProblemType.SIGNATURE_INVALID):
        accept(replace(wire, method="PUT"))


def spoiled_base64(value: str) -> dict[str, str]:
    """S25: the same 32 bytes, spelt in every way but the right one."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    trailing = alphabet[alphabet.index(value[-2]) + 1]
    return {
        "truncated": value[:-5],
        "truncated to whole quanta": value[:-4],
        "whitespace inside": value[:4] + " " + value[4:],
        "url-safe": "-_" + value[2:],
        "no padding": value[:-1],
        "trailing bits": f"{value[:-2]}{trailing}=",
        "data after padding": value + "AAAA",
        "empty": "",
        "1 MB": value[:4] * 262_144,
        "not ascii": value[:4] + "\udcff" + value[5:],
        "a colon": value[:4] + ":" + value[5:],
        "longer by a byte": b64encode(b64decode(value) + b"x").decode("ascii"),
    }


SPOILED = spoiled_base64(str(a_run_request().signature).removeprefix("sg=:").removesuffix(":"))


@pytest.mark.parametrize("value", SPOILED.values(), ids=SPOILED)
def test_S25_a_signature_that_is_not_canonical_base64_is_malformed(value: str) -> None:
    """One signature has one spelling, and the length of its kind."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        accept(replace(wire, signature=f"sg=:{value}:"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"created={NOW}", f'created="{NOW}"'),
        (f"created={NOW}", f"created={NOW}.0"),
        (f"created={NOW}", f"created=-{NOW}"),
        (f"created={NOW}", f"created=0{NOW}"),
        (f"created={NOW}", f"created=@{NOW}"),
        (f"created={NOW}", "created=1234567890123456"),
        (f"created={NOW}", "created"),
        (f"expires={NOW + 60}", "expires=?1"),
        ("n0nce-n0nce_n0nce", "x" * 15),
        ("n0nce-n0nce_n0nce", "x" * 65),
        ("n0nce-n0nce_n0nce", "n0nce.n0nce.n0nce"),
        ('"n0nce-n0nce_n0nce"', "n0nce-n0nce_n0nce"),
        ('"n0nce-n0nce_n0nce"', ":YWJjYWJjYWJjYWJjYWJj:"),
        ("ticket.of.a-run", ""),
        ("ticket.of.a-run", "x" * 1025),
        ("ticket.of.a-run", "a b"),
        ("ticket.of.a-run", 'a\\"b'),
        ("ticket.of.a-run", "a\\\\b"),
        ("ticket.of.a-run", "a\udcfcb"),
        ('alg="hmac-sha256"', "alg=hmac-sha256"),
        ('alg="hmac-sha256"', "alg"),
        (";alg", ";unknown=1;alg"),
        (";alg", "; alg"),
        (";alg", ';keyid="ticket.of.a-run";alg'),
        ('" "@path', '"  "@path'),
        ("sg=(", "sg=( "),
        ("sg=(", "sg=1, x=("),
        ("sg=(", "SG=("),
    ],
)
def test_parameters_of_another_form_are_malformed(old: str, new: str) -> None:
    """Wrong type, range, alphabet or spelling: refused before any key is looked for."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        parse(in_params(wire, old, new).signature_input, wire.signature)


def test_the_limits_of_nonce_and_keyid_are_inside() -> None:
    """16 and 64 characters of nonce, 1 and 1024 of keyid, pass."""
    for nonce, keyid in (("x" * 16, "k"), ("-" * 64, "~" * 1024)):
        accept(a_run_request(nonce=nonce, keyid=keyid))


@pytest.mark.parametrize("value", ["a\nb", "a\n", "\udcff", "ü"])
@pytest.mark.parametrize("part", ["method", "authority", "path", "query", "content_type", "content_digest"])
def test_values_that_cannot_be_signed_are_malformed(part: str, value: str) -> None:
    """A line feed or a byte above 0x7F in a signed value is a refusal, never an encoding error."""
    wire = a_run_request()
    accept(wire)
    with refused(ProblemType.SIGNATURE_MALFORMED):
        changed = replace(wire, **{part: value})  # type: ignore[arg-type]
        base_of(parse(wire.signature_input, wire.signature), changed)


def digest_field(**digests: bytes) -> str:
    """A Content-Digest field; an underscore in a name stands for a hyphen."""
    return ", ".join(
        f"{name.replace('_', '-')}=:{b64encode(value).decode('ascii')}:" for name, value in digests.items()
    )


BODY = b'{"hello": "world"}'
OF_RFC_9421_B2 = (
    "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
)


@pytest.mark.parametrize(
    "field",
    [
        content_digest_of(BODY),
        OF_RFC_9421_B2,
        digest_field(sha_256=sha256(BODY).digest(), sha_512=sha512(BODY).digest()),
        digest_field(md5=b"anything", sha_256=sha256(BODY).digest()),
    ],
)
def test_a_body_passes_with_every_known_digest_of_it(field: str) -> None:
    """Either algorithm will do, and unknown ones are ignored."""
    check_content_digest(field, BODY)


@pytest.mark.parametrize(
    "field",
    [
        content_digest_of(BODY + b" "),
        digest_field(sha_256=sha256(BODY).digest(), sha_512=sha512(b"").digest()),
        digest_field(sha_512=sha512(b"").digest(), sha_256=sha256(BODY).digest()),
        digest_field(sha_256=sha512(BODY).digest()),
        digest_field(sha_256=sha256(BODY).digest()[:16]),
    ],
)
def test_a_body_is_invalid_when_one_known_digest_is_of_another(field: str) -> None:
    """One mismatch is enough."""
    with refused(ProblemType.SIGNATURE_INVALID):
        check_content_digest(field, BODY)


@pytest.mark.parametrize(
    "field", ["", "sha-256", "sha-256=abc", "sha-256=::", digest_field(md5=b"x"), "\udcff", "SHA-256=:Yg==:"]
)
def test_a_digest_that_cannot_be_read_is_malformed(field: str) -> None:
    """So is one with no algorithm that we know."""
    with refused(ProblemType.SIGNATURE_MALFORMED):
        check_content_digest(field, BODY)


RFC_DATE = ("date", "Tue, 20 Apr 2021 02:07:55 GMT")
RFC_SECRET = b64decode(
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
)
RFC_PRIVATE_KEY = load_der_private_key(
    b64decode("MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF"), password=None
)


def test_the_hmac_vector_of_rfc_9421_is_met_byte_for_byte() -> None:
    """Appendix B.2.5 with the secret of B.1.5."""
    params_text = '("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"'
    signature = b64decode("pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=")

    base = build_base(
        [RFC_DATE, ("@authority", "example.com"), ("content-type", "application/json")], params_text
    )

    expected = (
        b'"date": Tue, 20 Apr 2021 02:07:55 GMT\n'
        b'"@authority": example.com\n'
        b'"content-type": application/json\n'
        b'"@signature-params": ("date" "@authority" "content-type");created=1618884473'
        b';keyid="test-shared-secret"'
    )
    assert expected == base
    assert verify_hmac_sha256(RFC_SECRET, base, signature)
    assert not verify_hmac_sha256(RFC_SECRET, base + b"\n", signature)
    assert not verify_hmac_sha256(RFC_SECRET, base, signature[:-1])
    assert not verify_hmac_sha256(RFC_SECRET[:-1], base, signature)


def test_the_ed25519_vector_of_rfc_9421_is_met_byte_for_byte() -> None:
    """Appendix B.2.6 with the key of B.1.4; Ed25519 is deterministic, so signing gives the same bytes."""
    names = '("date" "@method" "@path" "@authority" "content-type" "content-length")'
    params_text = f'{names};created=1618884473;keyid="test-key-ed25519"'
    signature = b64decode(
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    )
    assert isinstance(RFC_PRIVATE_KEY, Ed25519PrivateKey)
    public_key = load_server_public_key(b64decode("JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="))

    base = build_base(
        [
            RFC_DATE,
            ("@method", "POST"),
            ("@path", "/foo"),
            ("@authority", "example.com"),
            ("content-type", "application/json"),
            ("content-length", "18"),
        ],
        params_text,
    )

    expected = (
        b'"date": Tue, 20 Apr 2021 02:07:55 GMT\n"@method": POST\n"@path": /foo\n"@authority": example.com\n'
        b'"content-type": application/json\n"content-length": 18\n"@signature-params": '
    )
    assert expected + params_text.encode("ascii") == base
    assert RFC_PRIVATE_KEY.sign(base) == signature
    assert verify_ed25519(public_key, base, signature)
    assert not verify_ed25519(public_key, base + b"\n", signature)
    assert not verify_ed25519(public_key, base, signature[:32])
    assert not verify_ed25519(PRIVATE_KEY.public_key(), base, signature)


P = 2**255 - 19
"""The field of Ed25519, its curve constant and group order (RFC 8032, §5.1)."""
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493
Point = tuple[int, int]


def add(one: Point, two: Point) -> Point:
    """The sum of two points of the curve (RFC 8032, §5.1.4, in affine coordinates)."""
    (x1, y1), (x2, y2) = one, two
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x % P, y % P


def multiply(factor: int, point: Point) -> Point:
    """A multiple of a point of the curve."""
    total: Point = (0, 1)
    while factor:
        if factor & 1:
            total = add(total, point)
        point, factor = add(point, point), factor >> 1
    return total


def point_with(y: int) -> Point | None:
    """A point of the curve with that y, if there is one (RFC 8032, §5.1.3)."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x, y) if x * x % P == square else None


def small_order_points() -> set[Point]:
    """The eight points whose order divides 8: what is left once the large order is multiplied away."""
    candidates = (point_with(y) for y in range(2, 60))
    torsion = {multiply(ORDER, point) for point in candidates if point}
    return {add(one, two) for one in torsion for two in torsion}


def encodings(point: Point) -> list[bytes]:
    """Every 32 bytes that decode to a point by y and sign, canonical or not."""
    x, y = point
    signs = (0, 1) if x == 0 else (x & 1,)
    return [
        (value | sign << 255).to_bytes(32, "little")
        for value in (y, y + P)
        if value < 2**255
        for sign in signs
    ]


def test_S35_every_small_order_key_is_refused() -> None:
    """All eight points in all their encodings, derived from the curve; fourteen spellings in all."""
    points = small_order_points()
    assert len(points) == 8
    assert all(multiply(8, point) == (0, 1) for point in points)
    spellings = [raw for point in points for raw in encodings(point)]
    assert len(set(spellings)) == 14
    for raw in spellings:
        with pytest.raises(ServerKeyError):
            load_server_public_key(raw)


def test_S35_a_small_order_key_would_let_anybody_sign() -> None:
    """Why they are refused: R = identity, S = 0 verifies under the key `identity` without any secret."""
    identity = (1).to_bytes(32, "little")
    forged = identity + bytes(32)
    assert verify_ed25519(Ed25519PublicKey.from_public_bytes(identity), b"any message", forged)


@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_S35_every_non_canonical_key_is_refused(sign: int) -> None:
    """The nineteen values of y from the prime to 2^255 - 1 are second spellings."""
    for y in range(P, 2**255):
        with pytest.raises(ServerKeyError, match="canonical"):
            load_server_public_key((y | sign).to_bytes(32, "little"))


def test_S35_keys_of_another_length_are_refused_and_good_ones_loaded() -> None:
    """The control: a generated key is loaded and verifies."""
    raw = PRIVATE_KEY.public_key().public_bytes_raw()
    for wrong in (b"", raw[:-1], raw + b"\0", bytes(32)):
        with pytest.raises(ServerKeyError):
            load_server_public_key(wrong)
    assert verify_ed25519(load_server_public_key(raw), b"message", PRIVATE_KEY.sign(b"message"))


ANY_TEXT = st.text(st.characters() | st.sampled_from('sg=();,: "\\@-0123456789'), max_size=80)


@given(ANY_TEXT | st.none(), ANY_TEXT | st.none(), ANY_TEXT)
def test_any_headers_give_a_signature_or_a_problem(
    signature_input: str | None, signature: str | None, digest: str
) -> None:
    """Whatever stands in the fields, nothing but `Problem` is raised."""
    for read in (lambda: parse(signature_input, signature), lambda: check_content_digest(digest, b"")):
        try:
            read()
        except Problem as problem:
            (problem.detail or "").encode("utf-8")


@given(st.data())
def test_spoiled_headers_give_a_problem_or_the_same_signature(data: st.DataObject) -> None:
    """A good request with a piece of a header field replaced is refused, or it says the same."""
    wire = a_run_request(query="?a=1")
    name = data.draw(st.sampled_from(["signature_input", "signature", "content_digest", "content_type"]))
    text = str(getattr(wire, name))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    spoiled = text[:start] + data.draw(ANY_TEXT) + text[end:]
    try:
        parsed = accept(replace(wire, **{name: spoiled}))  # type: ignore[arg-type]
    except Problem:
        return
    assert accept(wire)._replace(label=parsed.label) == parsed


def test_the_worked_example_of_the_reference_is_true() -> None:
    """The bytes in `docs/reference/signatures.md` are what this code makes and accepts."""
    blocks = dict(
        re.findall(r"<!-- example: ([a-z-]+) -->\n```[a-z]*\n(.*?)\n```", DOCS.read_text("utf-8"), re.DOTALL)
    )
    headers = dict(line.split(": ", 1) for line in blocks["headers"].splitlines())
    key = b64decode(blocks["key"])
    body = blocks["body"].encode("utf-8")

    parsed = parse(headers["Signature-Input"], headers["Signature"])
    base = signature_base(
        parsed,
        method="POST",
        authority=headers["Host"],
        path="/v1/boards/arcade/scores",
        query="?",
        content_type=headers["Content-Type"],
        content_digest=headers["Content-Digest"],
    )

    assert (
        f"POST /v1/boards/arcade/scores HTTP/1.1\n{blocks['headers']}\n\n{blocks['body']}"
        == blocks["request"]
    )
    assert blocks["base"].encode("ascii") == base
    assert verify_hmac_sha256(key, base, parsed.signature)
    check_content_digest(headers["Content-Digest"], body)
    check_time(parsed, parsed.created, 0)


def test_the_reference_names_every_limit_and_problem() -> None:
    """The profile page states the components, parameters and problem types that the code knows."""
    text = DOCS.read_text("utf-8")
    problems = [kind.slug for kind in ProblemType if kind.name.startswith("SIGNATURE_")]
    for word in (
        *COMPONENTS,
        *problems,
        "nonce-reused",
        "created",
        "expires",
        "nonce",
        "keyid",
        "alg",
        "tag",
    ):
        assert f"`{word}`" in text


_LABELS = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
_BYTES = st.sampled_from(
    [b64encode(bytes(32)).decode(), b64encode(b"\xff" * 64).decode(), "A" * 42 + "B=", "AAAA", "A" * 43]
)


@given(
    label=_LABELS,
    proof_label=st.one_of(st.none(), _LABELS),
    created=st.sampled_from(["0", "1", "01", "1700000000", "9" * 15, "9" * 16]),
    nonce=st.sampled_from(["n" * 15, "n" * 16, "n" * 64, "n" * 65, "n" * 15 + "~"]),
    keyid=st.sampled_from(["k", "a.b_c-d", "k k", "", "k" * 1025]),
    alg=st.sampled_from(["", ';alg="hmac-sha256"', ';alg="none"', ';alg="HMAC"', ";alg=x"]),
    tag=st.sampled_from(["scoregate-run", "scoregate-server", "scoregate", "scoregate-run2"]),
    proof=_BYTES,
    mangled=st.sampled_from(["", " ", ",", ";", ";created=1"]),
)
def test_the_short_way_reads_nothing_that_the_long_way_does_not_read_alike(
    label, proof_label, created, nonce, keyid, alg, tag, proof, mangled
):
    """Fields written the usual way are matched at once; whatever that accepts, the whole parser reads the same."""
    names = " ".join(f'"{name}"' for name in signatures.COMPONENTS)
    claim = f'{label}=({names});created={created};expires=1700000060;nonce="{nonce}";keyid="{keyid}"{alg};tag="{tag}"'
    fields = claim + mangled, f"{proof_label or label}=:{proof}:"
    usual = signatures._parse_usual(*fields)
    if usual is not None:
        assert usual == signatures._parse_any(*fields)


def test_what_our_clients_write_is_read_the_short_way():
    """Otherwise the short way would be there for nobody."""
    draft = a_draft()
    headers = sign_hmac_sha256(bytes(32), draft)
    assert signatures._parse_usual(headers["Signature-Input"], headers["Signature"]) is not None
