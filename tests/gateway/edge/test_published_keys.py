"""The keys of a provider: which of those that it publishes count, and which one a token means."""

from __future__ import annotations

from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from gateway.edge.auth import published_keys
from gateway.edge.auth.published_keys import ALGORITHMS, KEYS_LIMIT, RSA_BITS, keys_of, verified
from policies.errors import IdentityRefused, ProviderUnavailable
from tests.support.identity_provider import ec_key, signed

KEY = ec_key("one")


def public(key: Any, **changed: Any) -> dict[str, Any]:
    """A key as a provider publishes it; None leaves a member out."""
    members = key.as_dict(private=False) | changed
    return {name: value for name, value in members.items() if value is not None}


class Published:
    """Keys that never change, and how often they were asked for."""

    def __init__(self, *keys: Any) -> None:
        self._keys = keys_of({"keys": [public(key) for key in keys]})
        self.asked: list[bool] = []

    async def keys(self, *, is_new: bool = False) -> KeySet:
        self.asked.append(is_new)
        return self._keys


@pytest.mark.parametrize(
    "key",
    [
        public(KEY, use=None),
        public(KEY),
        public(OKPKey.generate_key("Ed25519")),
        public(RSAKey.generate_key(RSA_BITS)),
    ],
)
def test_keys_to_sign_with_count(key: dict[str, Any]) -> None:
    """Of each kind, whether or not they say what they are for."""
    assert 1 == len(keys_of({"keys": [key]}).keys)


@pytest.mark.parametrize(
    "key",
    [
        public(KEY, use="enc"),
        public(KEY, use=""),
        public(KEY, use=None, x=None),
        public(KEY, crv="P-1"),
        public(KEY, x=7),
        {"kty": "RSA", "n": "_" * (RSA_BITS // 6 - 1), "e": "AQAB"},
        OctKey.generate_key(256).as_dict(private=True),
        {},
        {"kty": []},
        "key",
        None,
        7,
    ],
)
@pytest.mark.filterwarnings("ignore:Key size should be")
def test_keys_that_are_none_are_passed_over(key: Any) -> None:
    """One to encrypt with, a torn one, a short one and a secret one: the others of the set count all the same."""
    assert ["one"] == [each.kid for each in keys_of({"keys": [key, public(KEY)]}).keys]


@pytest.mark.parametrize("document", [{}, {"keys": None}, {"keys": {"one": public(KEY)}}])
def test_a_document_without_keys_is_no_answer(document: dict[str, Any]) -> None:
    """It is told as a provider that does not answer, not as a token that does not hold."""
    with pytest.raises(ProviderUnavailable):
        keys_of(document)


def test_of_too_many_keys_the_first_count() -> None:
    """As many as there may be, and no more: each is read and kept."""
    many = [public(KEY, kid=str(number)) for number in range(KEYS_LIMIT + 1)]
    assert [str(number) for number in range(KEYS_LIMIT)] == [
        each.kid for each in keys_of({"keys": many}).keys
    ]


async def test_a_token_means_the_key_that_it_names_or_the_only_one_of_its_kind() -> None:
    """Without a name, and two keys that fit, it means none: not the first."""
    other, rsa = ec_key("two"), RSAKey.generate_key(RSA_BITS, {"kid": "three"})
    named = signed({"sub": "ada"}, other, "ES256")
    nameless_key = ECKey.import_key(KEY.as_dict(private=True) | {"kid": ""})
    nameless = published_keys.jwt.encode({"alg": "ES256"}, {"sub": "ada"}, nameless_key)
    assert {"sub": "ada"} == (await verified(named, Published(KEY, other, rsa))).claims
    assert {"sub": "ada"} == (await verified(nameless, Published(KEY, rsa))).claims
    for token, published in ((nameless, Published(KEY, other)), (named, Published(KEY, rsa))):
        with pytest.raises(IdentityRefused, match="key"):
            await verified(token, published)
        assert [False, True] == published.asked  # it may be a new one


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "x.y.z",
        "e30.e30.e30",
        "bnVsbA.e30.e30",
        "W10.e30.e30",
        pytest.param("W" * 10_000 + ".e30.e30", id="long"),
        pytest.param(signed({}, KEY, "ES256")[:-4], id="short signature"),
        pytest.param(signed({}, KEY, "ES256").replace(".", "..", 1), id="four parts"),
    ],
)
async def test_what_is_no_token_is_refused_as_one_that_does_not_hold(token: str) -> None:
    """Whatever the library raises over it."""
    with pytest.raises(IdentityRefused):
        await verified(token, Published(KEY))


@pytest.mark.parametrize("fault", [RecursionError, ValueError, TypeError])
async def test_no_token_makes_the_edge_fail(monkeypatch: pytest.MonkeyPatch, fault: type[Exception]) -> None:
    """JSON that is nested too deeply, and what else a parser may raise."""

    def fails(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(published_keys.jwt, "decode", fails)
    with pytest.raises(IdentityRefused, match="signature"):
        await verified(signed({}, KEY, "ES256"), Published(KEY))


async def test_only_the_algorithms_that_are_named_are_taken() -> None:
    """A provider's own, among those of which no key is a secret."""
    token = signed({"sub": "ada"}, KEY, "ES256")
    with pytest.raises(IdentityRefused, match="alg"):
        await verified(token, Published(KEY), [each for each in ALGORITHMS if each != "ES256"])
