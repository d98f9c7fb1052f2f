"""Signing in by providers: only what is meant for this game, by whoever it was issued to, in its time, once."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from joserfc.jwk import ECKey, RSAKey

from gateway.edge.auth import provider_documents
from gateway.edge.identities import provider as bounds
from gateway.edge.identities import sign_in_plugins
from gateway.edge.identities.platforms import ItchKeys, SteamTickets
from gateway.edge.identities.provider import BoundedProvider
from gateway.edge.identities.sign_in_file import PROFILES, providers_of
from gateway.edge.identities.sign_in_plugins import PluggedProvider, plugged_provider
from gateway.edge.identities.signed_tokens import IssuersKeys, SignedTokens, TokenRules
from gateway.runtime.settings import Settings
from policies.errors import IdentityRefused, ProviderUnavailable, SettingsError
from tests.attacks.test_identities import FAILED, TAKEN, created, new_key, sign_in, told
from tests.support.harness import Harness
from tests.support.identity_provider import ec_key, signed
from tests.support.ports import free_port

ISSUER, AUDIENCE = "https://id.studio.example", "space-race"
AWAY = (503, "dependency-unavailable")
KEY = ec_key("one")
RULES = TokenRules((ISSUER,), (AUDIENCE,), ("ES256", "RS256"), skew_s=30)


def keys_file(folder: Path, *keys: Any) -> Path:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    return path


def studio(folder: Path, rules: TokenRules = RULES) -> BoundedProvider:
    """A provider whose keys are in a file: the studio's."""
    return BoundedProvider(SignedTokens(rules, IssuersKeys(str(keys_file(folder, KEY)), stale_s=60)))


def claims(harness: Harness, **changed: Any) -> dict[str, Any]:
    now_s = harness.clock() // 1000
    every = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now_s, "exp": now_s + 300} | changed
    return {name: value for name, value in every.items() if value is not None}


@asynccontextmanager
async def platform(answer: Any) -> AsyncIterator[str]:
    """The address of a stand-in for a platform."""
    app = web.Application()
    app.router.add_get("/asked", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/asked"
    finally:
        await runner.cleanup()


async def test_a_token_of_the_studios_issuer_is_one_player(harness: Harness, tmp_path: Path):
    """The first sign-in creates the player, later ones find it; another subject is another, and merging is said."""
    harness.edge.identities.providers = {"studio": studio(tmp_path)}
    first = await sign_in(harness, "studio", signed(claims(harness), KEY, "ES256"))
    assert (200, True) == (first.status, first.body["is_new"])
    again = await sign_in(harness, "studio", signed(claims(harness, aud=["other", AUDIENCE]), KEY, "ES256"))
    assert (first.body["player"], False) == (again.body["player"], again.body["is_new"])
    other = (await created(harness, device_key=new_key())).body
    assert TAKEN == told(
        await sign_in(harness, "studio", signed(claims(harness), KEY, "ES256"), other["token"])
    )
    bob = signed(claims(harness, sub="bob"), KEY, "ES256")
    assert other["player"] == (await sign_in(harness, "studio", bob, other["token"])).body["player"]
    assert (422, "schema-violation") == told(await sign_in(harness, "nobody", bob))


async def test_a_token_that_is_not_ours_now_shows_nobody(harness: Harness, tmp_path: Path):
    """Each claim, each key and each algorithm is refused by its name; `none`, and a public key as a secret, too."""
    harness.edge.identities.providers = {"studio": studio(tmp_path)}
    now_s = harness.clock() // 1000
    wrong = {
        "iss": signed(claims(harness, iss="https://evil.example"), KEY, "ES256"),
        "aud": signed(claims(harness, aud="another-game"), KEY, "ES256"),
        "aud none": signed(claims(harness, aud=None), KEY, "ES256"),
        "azp": signed(claims(harness, aud=[AUDIENCE, "x"], azp="x"), KEY, "ES256"),
        "azp object": signed(claims(harness, aud=[AUDIENCE, "x"], azp={"x": []}), KEY, "ES256"),
        "exp": signed(claims(harness, exp=now_s - 31), KEY, "ES256"),
        "exp none": signed(claims(harness, exp=None), KEY, "ES256"),
        "exp far": signed(claims(harness, exp=2**63, jti="far"), KEY, "ES256"),
        "exp true": signed(claims(harness, exp=True), KEY, "ES256"),
        "iat": signed(claims(harness, iat=now_s + 60), KEY, "ES256"),
        "nbf": signed(claims(harness, nbf=now_s + 60), KEY, "ES256"),
        "sub": signed(claims(harness, sub=None), KEY, "ES256"),
        "sub long": signed(claims(harness, sub="x" * 256), KEY, "ES256"),
        "alg": signed(claims(harness), KEY, "none"),
        "alg hs": signed(claims(harness), KEY, "HS256"),
        "alg pinned": signed(claims(harness), ECKey.generate_key("P-384", {"kid": "one"}), "ES384"),
        "key": signed(claims(harness), ec_key("another"), "ES256"),
        "signature": signed(claims(harness), ec_key("one"), "ES256"),
        "key kind": signed(claims(harness), RSAKey.generate_key(2048, {"kid": "one"}), "RS256"),
        "signature none": "x.y.z",
    }
    for name, token in wrong.items():
        refused = await sign_in(harness, "studio", token)
        assert FAILED == told(refused), name
        assert f"`{name.split()[0]}`" in refused.body["detail"], refused.body


async def test_a_token_with_an_id_is_good_once_however_it_is_spelt(harness: Harness, tmp_path: Path):
    """Also with the other signature that holds for it (ECDSA has two), and for whoever links it."""
    harness.edge.identities.providers = {"studio": studio(tmp_path)}
    token = signed(claims(harness, jti="7"), KEY, "ES256")
    assert 200 == (await sign_in(harness, "studio", token)).status
    replayed = await sign_in(harness, "studio", token)
    assert FAILED == told(replayed)
    assert "used before" in replayed.body["detail"]
    assert FAILED == told(await sign_in(harness, "studio", _other_signature(token)))
    assert 200 == (await sign_in(harness, "studio", signed(claims(harness, jti="8"), KEY, "ES256"))).status
    harness.clock.shift(400)
    assert 200 == (await sign_in(harness, "studio", signed(claims(harness, jti="7"), KEY, "ES256"))).status


async def test_a_new_key_is_read_once_in_a_while_and_old_ones_last_while_it_is_away(tmp_path: Path):
    """Unknown keys have it read again, no more than that; without it, known keys hold for the stated time."""
    now, reads, is_away = [0.0], [0], [False]
    second = ec_key("two")
    keys = [KEY]

    async def answer(_request: web.Request) -> web.Response:
        reads[0] += 1
        if is_away[0]:
            return web.json_response({}, status=500)
        return web.json_response({"keys": [key.as_dict(private=False) for key in keys]})

    token = {
        key.kid: signed({"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": 1, "exp": 9e9}, key, "ES256")
        for key in (KEY, second)
    }
    async with platform(answer) as address:
        issuer = SignedTokens(RULES, IssuersKeys(address, stale_s=7200, monotonic_s=lambda: now[0]))
        assert "ada" == (await issuer.show(token["one"], now_s=60)).subject
        keys.append(second)
        for _ in range(3):
            with pytest.raises(IdentityRefused, match="key"):
                await issuer.show(token["two"], now_s=60)
        assert [1] == reads
        now[0] = provider_documents.AGAIN_S + 1
        assert "ada" == (await issuer.show(token["two"], now_s=60)).subject
        is_away[0], now[0] = True, 3 + provider_documents.AGAIN_S + provider_documents.KEPT_S
        assert "ada" == (await issuer.show(token["one"], now_s=60)).subject
        assert [3] == reads
        now[0] = 7300.0
        with pytest.raises(ProviderUnavailable):
            await issuer.show(token["one"], now_s=60)


async def test_a_key_that_is_published_to_encrypt_with_signs_nobody_in(harness: Harness, tmp_path: Path):
    """The same token by the key that is published to sign with is good."""
    other, file = ec_key("two"), tmp_path / "keys.json"
    listed = [KEY.as_dict(private=False), {**other.as_dict(private=False), "use": "enc"}]
    file.write_text(json.dumps({"keys": listed}))
    rules = SignedTokens(RULES, IssuersKeys(str(file), stale_s=60))
    harness.edge.identities.providers = {"studio": BoundedProvider(rules)}
    assert FAILED == told(await sign_in(harness, "studio", signed(claims(harness), other, "ES256")))
    assert 200 == (await sign_in(harness, "studio", signed(claims(harness), KEY, "ES256"))).status


async def test_one_at_a_time_waits_for_new_keys_of_an_issuer():
    """Forged tokens name any key: those that come while the keys are read anew are refused at once."""
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        asked.set()
        await goes_on.wait()
        return web.json_response({"keys": [KEY.as_dict(private=False)]})

    async with platform(answer) as address, asyncio.timeout(30):
        keys = IssuersKeys(address, stale_s=60)
        first = asyncio.create_task(keys.keys(is_new=True))
        await asked.wait()
        with pytest.raises(ProviderUnavailable, match="being read"):
            await keys.keys(is_new=True)
        goes_on.set()
        assert ["one"] == [key.kid for key in (await first).keys]


async def test_steam_says_whose_ticket_it_is(harness: Harness):
    """By the publisher's key, for this app and identity; a ticket is good once; our own fault is no player's."""
    asked: list[dict[str, str]] = []
    answers: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        status, response = answers.pop(0)
        return web.json_response(response, status=status)

    params = {
        "result": "OK",
        "steamid": "76561197960287930",
        "ownersteamid": "76561197960287930",
        "publisherbanned": False,
    }
    ticket, fresh = "14000000" * 8, "15000000" * 8
    async with platform(answer) as address:
        harness.edge.identities.providers = {
            "steam": BoundedProvider(SteamTickets(480, "the key", identity="scoregate", address=address))
        }
        answers += [(200, {"response": {"params": params}})] * 3
        signed_in = await sign_in(harness, "steam", ticket)
        assert 200 == signed_in.status
        assert {"key": "the key", "appid": "480", "identity": "scoregate", "ticket": ticket} == asked[0]
        assert FAILED == told(await sign_in(harness, "steam", ticket.upper()))
        assert signed_in.body["player"] == (await sign_in(harness, "steam", fresh)).body["player"]
        answers += [
            (200, {"response": {"error": {"errorcode": 101, "errordesc": "Invalid ticket"}}}),
            (200, {"response": {"params": params | {"publisherbanned": True}}}),
            (200, {"response": {"params": params | {"result": "Failure"}}}),
            (403, {}), (200, {"response": {"params": params | {"steamid": "x"}}}), (302, {}),
        ]  # fmt: skip
        refused = [await sign_in(harness, "steam", f"{number:02}" * 32) for number in range(6)]
        assert [FAILED, FAILED, FAILED, AWAY, AWAY, AWAY] == [told(each) for each in refused]
        assert {"10"} == {each.headers["Retry-After"] for each in refused[3:]}
        assert b"the key" not in b"".join(each.raw for each in refused)
    assert FAILED == told(await sign_in(harness, "steam", "no ticket"))
    assert AWAY == told(await sign_in(harness, "steam", fresh))


async def test_itch_says_whose_key_it_is():
    """By its profile; a key that it does not know shows nobody."""

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {'k' * 20}":
            return web.json_response({"errors": ["invalid key"]})
        return web.json_response({"user": {"id": 4711, "username": "ada"}})

    async with platform(answer) as address:
        itch = ItchKeys(address=address)
        assert "4711" == (await itch.show("k" * 20, now_s=0)).subject
        for key in ("x" * 20, "a key\r\nX-Evil: 1"):
            with pytest.raises(IdentityRefused):
                await itch.show(key, now_s=0)


async def test_a_platform_is_asked_about_as_many_credentials_as_are_looked_at_at_once():
    """Many players who come at once are not refused for the few calls that reading an issuer's keys needs."""
    asked, held = [], asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        if len(asked) > provider_documents.AT_ONCE:
            held.set()
        await held.wait()
        return web.json_response({"user": {"id": 4711}})

    async with platform(answer) as address:
        itch = ItchKeys(address=address)
        keys = [f"{number:020}" for number in range(provider_documents.AT_ONCE + 1)]
        async with asyncio.timeout(10):
            shown = await asyncio.gather(*(itch.show(key, now_s=0) for key in keys))
    assert {"4711"} == {each.subject for each in shown}


async def test_as_many_calls_are_under_way_at_once_as_may_be():
    """One more is refused at once, and the places of those that have ended are free again, also of what failed."""
    held, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def answer(request: web.Request) -> web.Response:
        begun.release()
        await held.wait()
        return web.Response(text=request.query["text"])

    async with platform(answer) as address, asyncio.timeout(10):
        calls = provider_documents.ProviderCalls(2)
        for _ in range(2):
            held.clear()
            waiting = [asyncio.create_task(calls.read(f"{address}?text={text}")) for text in ("{}", "no")]
            for _ in waiting:
                await begun.acquire()
            with pytest.raises(ProviderUnavailable, match="too many"):
                await calls.read(f"{address}?text={{}}")
            held.set()
            good, bad = await asyncio.gather(*waiting, return_exceptions=True)
            assert ({}, ProviderUnavailable) == (good, type(bad))


async def test_a_provider_that_is_slow_or_broken_occupies_nobody(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Time and number are bounded, faults of a studio's package are its own; others sign in meanwhile."""
    held, entered = asyncio.Event(), asyncio.Event()

    async def show(credential: str) -> str:
        if credential == "broken":
            raise KeyError(credential)
        if credential == "wrong":
            raise ValueError
        entered.set()
        await held.wait()
        return "ada"

    monkeypatch.setattr(bounds, "SHOWN_AT_ONCE", 1)
    harness.edge.identities.providers = {"own": BoundedProvider(PluggedProvider(show))}
    assert [AWAY, FAILED] == [told(await sign_in(harness, "own", each)) for each in ("broken", "wrong")]
    slow = asyncio.create_task(sign_in(harness, "own", "slow"))
    await entered.wait()
    assert AWAY == told(await sign_in(harness, "own", "slow"))
    held.set()
    assert 200 == (await slow).status
    held.clear()
    monkeypatch.setattr(bounds, "SHOWING_S", 0.01)
    assert AWAY == told(await sign_in(harness, "own", "slow"))


def test_what_the_file_names_is_all_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each kind is built from its section; a wrong one is refused at the start, with its place and no secret."""
    key = tmp_path / "steam.key"
    key.write_text("a secret")
    key.chmod(0o600)
    file = tmp_path / "sign-in.yaml"
    whole = {
        "studio": {
            "kind": "jwt",
            "issuer": [ISSUER],
            "audience": [AUDIENCE],
            "keys": "keys.json",
            "algorithms": ["ES256"],
        },
        **{kind: {"kind": kind, "audience": ["us"]} for kind in PROFILES},
        "steam": {"kind": "steam", "app": 480, "key_file": str(key)},
        "itch": {"kind": "itch"},
    }

    def built(providers: Any) -> list[str]:
        file.write_text(json.dumps({"providers": providers}))
        return sorted(providers_of(Settings(data_dir=tmp_path, sign_in_file=file)))

    assert [] == sorted(providers_of(Settings(data_dir=tmp_path)))
    assert sorted(whole) == built(whole)
    wrong = [
        {"device": whole["itch"]}, {"Studio": whole["studio"]}, {"x": {"kind": "jwt", "audience": ["us"]}},
        {"x": whole["studio"] | {"algorithms": ["HS256"]}}, {"x": whole["studio"] | {"algorithms": ["none"]}},
        {"x": whole["studio"] | {"keys": "http://id.studio.example/keys"}}, {"x": whole["studio"] | {"audience": []}},
        {"x": whole["steam"] | {"key_file": str(tmp_path / "missing")}}, {"x": {"kind": "plugin", "plugin": "missing"}},
        {"x": {"kind": "itch", "address": "http://itch.example"}}, {"x": {"kind": "other"}},
    ]  # fmt: skip
    for providers in wrong:
        with pytest.raises(SettingsError):
            built(providers)
    for name in ("device", "recovery"):
        with pytest.raises(SettingsError, match="a name of ours"):
            built({name: whole["itch"]})
    for mode in (0o644, 0o640, 0o604):
        key.chmod(mode)
        with pytest.raises(SettingsError, match="chmod") as told_of:
            built(whole)
        assert "a secret" not in str(told_of.value)


async def test_what_the_file_says_of_a_token_holds(tmp_path: Path):
    """How far its times may be off, also not at all, and how old it may be; what it leaves out is the edge's."""
    keys_file(tmp_path, KEY)
    file, now_s = tmp_path / "sign-in.yaml", 1_800_000_000
    section = {
        "kind": "jwt", "issuer": [ISSUER], "audience": [AUDIENCE], "keys": str(tmp_path / "keys.json"), "algorithms": ["ES256"],
    }  # fmt: skip

    async def shows(token: dict[str, Any], **more: int) -> str:
        file.write_text(json.dumps({"providers": {"studio": section | more}}))
        settings = Settings(data_dir=tmp_path, sign_in_file=file, clock_skew_s=20)
        every = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now_s, "exp": now_s + 300} | token
        try:
            return (
                await providers_of(settings)["studio"].show(signed(every, KEY, "ES256"), now_s=now_s)
            ).subject
        except IdentityRefused as refused:
            return str(refused)

    ended = {"iat": now_s - 300, "exp": now_s - 10}
    assert ["ada", "exp", "ada", "exp"] == [
        await shows(ended), await shows(ended, skew_s=0), await shows(ended, skew_s=11), await shows(ended, skew_s=10)
    ]  # fmt: skip
    old = {"iat": now_s - 100}
    assert ["ada", "ada", "iat"] == [
        await shows(old), await shows(old, max_age_s=100, skew_s=0), await shows(old, max_age_s=99, skew_s=0)
    ]  # fmt: skip


@pytest.mark.parametrize(("more", "hours"), [({}, 24), ({"stale_h": 48}, 48)])
async def test_keys_that_cannot_be_read_any_more_hold_for_the_hours_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, int], hours: int
):
    """A day if it names none: an issuer that is away keeps nobody out meanwhile, and no key for ever."""
    keys, file, now_s = keys_file(tmp_path, KEY), tmp_path / "sign-in.yaml", [0.0]
    section = {"kind": "jwt", "issuer": [ISSUER], "audience": [AUDIENCE], "keys": str(keys)}
    file.write_text(json.dumps({"providers": {"studio": section | {"algorithms": ["ES256"]} | more}}))
    # What `IssuersKeys` measures with by default was bound when it was defined.
    monkeypatch.setitem(IssuersKeys.__init__.__kwdefaults__, "monotonic_s", lambda: now_s[0])
    issuer = providers_of(Settings(data_dir=tmp_path, sign_in_file=file))["studio"]
    token = signed({"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": 1, "exp": 9e9}, KEY, "ES256")
    assert "ada" == (await issuer.show(token, now_s=60)).subject
    keys.unlink()
    now_s[0] = hours * 3600.0 - 1
    assert "ada" == (await issuer.show(token, now_s=60)).subject
    now_s[0] += provider_documents.AGAIN_S
    with pytest.raises(ProviderUnavailable):
        await issuer.show(token, now_s=60)


async def test_steam_is_asked_for_the_identity_that_the_file_names(tmp_path: Path):
    """Else a ticket that a player gave to another service would sign that service in here."""
    key, file = tmp_path / "steam.key", tmp_path / "sign-in.yaml"
    key.write_text("a secret\n")
    key.chmod(0o600)
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response({"response": {"error": {"errorcode": 101, "errordesc": "Invalid ticket"}}})

    async with platform(answer) as address:
        for named in ({"identity": "scores"}, {}):
            section = {"kind": "steam", "app": 480, "key_file": str(key), "address": address, **named}
            file.write_text(json.dumps({"providers": {"steam": section}}))
            steam = providers_of(Settings(data_dir=tmp_path, sign_in_file=file))["steam"]
            with pytest.raises(IdentityRefused):
                await steam.show("14000000" * 8, now_s=0)
    assert [("480", "a secret", "scores"), ("480", "a secret", None)] == [
        (each["appid"], each["key"], each.get("identity")) for each in asked
    ]


async def test_a_studios_package_offers_a_provider(monkeypatch: pytest.MonkeyPatch):
    """It is made with its settings; one that cannot be made is refused at the start."""

    class Point:
        name, value = "own", "studio:make"

        @staticmethod
        def load() -> Any:
            return lambda settings: _shows(settings["prefix"])

    monkeypatch.setattr(
        sign_in_plugins, "entry_points", lambda group: [Point] if group == "scoregate.sign_in" else []
    )
    own = plugged_provider("own", {"prefix": "x-"})
    assert "x-ada" == (await own.show("ada", now_s=0)).subject
    with pytest.raises(SettingsError, match="KeyError"):
        plugged_provider("own", {})
    for found in ([], [Point, Point]):
        monkeypatch.setattr(sign_in_plugins, "entry_points", lambda group, found=found: found)
        with pytest.raises(SettingsError, match=f"expected one installed package .* found {len(found)}"):
            plugged_provider("own", {"prefix": "x-"})


def _shows(prefix: str) -> Any:
    async def show(credential: str) -> str:
        return prefix + credential

    return show


def _other_signature(token: str) -> str:
    """The same token with the other of the two signatures of ECDSA that hold (r, n - s)."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    head, body, signature = token.split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    s = order - int.from_bytes(raw[32:], "big")
    return f"{head}.{body}.{base64.urlsafe_b64encode(raw[:32] + s.to_bytes(32, 'big')).rstrip(b'=').decode()}"


def test_two_issuers_with_the_same_numbers_are_no_one_provider(tmp_path: Path):
    """Unless the file says that a number is one person to both; the platforms' own issuers are one."""
    file = tmp_path / "sign-in.yaml"
    section = {"kind": "jwt", "audience": [AUDIENCE], "keys": "keys.json", "algorithms": ["ES256"]}
    settings = Settings(data_dir=tmp_path, sign_in_file=file)

    def read(**more: Any) -> Any:
        file.write_text(json.dumps({"providers": {"studio": section | more}}))
        return providers_of(settings)

    two = [ISSUER, "https://other.example"]
    with pytest.raises(SettingsError, match="shared_subjects"):
        read(issuer=two)
    assert {"studio"} == read(issuer=two, shared_subjects=True).keys() == read(issuer=[ISSUER]).keys()
    assert {"studio"} == read(kind="google").keys()


async def test_the_same_number_at_two_providers_is_two_players(harness: Harness, tmp_path: Path):
    """An identity is of its provider: who is number one there is nobody here."""
    other = TokenRules(("https://other.example",), RULES.audiences, RULES.algorithms, skew_s=30)
    harness.edge.identities.providers = {"studio": studio(tmp_path), "other": studio(tmp_path, other)}
    answers = [
        await sign_in(harness, provider, signed(claims(harness, iss=issuer), KEY, "ES256"))
        for provider, issuer in (("studio", ISSUER), ("other", "https://other.example"))
    ]
    assert [200, 200] == [answer.status for answer in answers]
    assert answers[0].body["player"] != answers[1].body["player"]


async def test_unknown_keys_cost_an_issuer_one_reading_in_ten_seconds(harness: Harness):
    """However many forged tokens name one; those of a known key are taken meanwhile, and of a new one after that."""
    asked, now = [], [1_000.0]
    published, new = [KEY], ec_key("two")

    async def answer(_: web.Request) -> web.Response:
        asked.append(1)
        return web.json_response({"keys": [key.as_dict(private=False) for key in published]})

    async with platform(answer) as address:
        issuer = SignedTokens(RULES, IssuersKeys(address, stale_s=0, monotonic_s=lambda: now[0]))
        good, late = [signed(claims(harness), key, "ES256") for key in (KEY, new)]
        now_s = harness.clock() / 1000
        assert "ada" == (await issuer.show(good, now_s=now_s)).subject
        forged = [signed(claims(harness), ec_key(f"forged-{number}"), "ES256") for number in range(5)]
        for number in range(50):
            now[0] += 0.5
            with pytest.raises(IdentityRefused):
                await issuer.show(forged[number % 5], now_s=now_s)
            assert "ada" == (await issuer.show(good, now_s=now_s)).subject
        assert 1 + 25 / provider_documents.AGAIN_S >= len(asked) > 1
        published.append(new)
        now[0] += provider_documents.AGAIN_S
        assert "ada" == (await issuer.show(late, now_s=now_s)).subject
