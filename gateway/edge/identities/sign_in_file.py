"""The file that says by which providers players sign in: nothing that it does not name is ever contacted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from gateway.edge.auth.published_keys import ALGORITHMS
from gateway.edge.http.validation_messages import first_fault
from gateway.edge.identities.platforms import ITCH, STEAM, ItchKeys, SteamTickets
from gateway.edge.identities.provider import BoundedProvider, PlayerProvider
from gateway.edge.identities.sign_in_plugins import plugged_provider
from gateway.edge.identities.signed_tokens import IssuersKeys, SignedTokens, TokenRules
from gateway.ledger.players.identities import DEVICE, RECOVERY
from gateway.runtime.settings import Settings, is_safe_address
from policies.document import read_document
from policies.errors import PolicyError, SettingsError

PROVIDERS_LIMIT: Final = 32


def _address(text: str) -> str:
    if not is_safe_address(text):
        raise ValueError("expected https://<host>/<path>, or http:// on this machine")
    return text


def _place(text: str) -> str:
    return _address(text) if "://" in text else text


def _algorithms(names: list[str]) -> list[str]:
    if unknown := set(names) - set(ALGORITHMS):
        raise ValueError(f"expected some of {', '.join(ALGORITHMS)}, got {', '.join(sorted(unknown))}")
    return names


Address = Annotated[str, AfterValidator(_address)]
Place = Annotated[str, AfterValidator(_place)]
Words = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=512)]], Field(min_length=1, max_length=16)
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TokenSection(_Section):
    """An issuer of signed tokens. Platforms have their issuers, keys and algorithms by themselves.

    Several issuers need `shared_subjects`: that a `sub` is the same person to all of them.
    """

    kind: Literal["jwt", "google", "apple", "epic"]
    audience: Words
    issuer: Words | None = None
    shared_subjects: bool = False
    keys: Place | None = None
    algorithms: Annotated[Words, AfterValidator(_algorithms)] | None = None
    skew_s: Annotated[int, Field(ge=0, le=300)] | None = None
    max_age_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    stale_h: Annotated[int, Field(ge=0, le=720)] = 24


class SteamSection(_Section):
    """Tickets of Steam for one app. The file has the publisher's Web API key, and nothing else."""

    kind: Literal["steam"]
    app: Annotated[int, Field(ge=1)]
    key_file: str
    identity: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    address: Address = STEAM


class ItchSection(_Section):
    """Keys of the itch app."""

    kind: Literal["itch"]
    address: Address = ITCH


class PluginSection(_Section):
    """A studio's own provider, with its settings."""

    kind: Literal["plugin"]
    plugin: str
    settings: dict[str, JsonValue] = {}


Section = Annotated[TokenSection | SteamSection | ItchSection | PluginSection, Field(discriminator="kind")]
ProviderName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class SignInFile(_Section):
    """The providers by name; the name is part of each identity, so it is never changed."""

    providers: Annotated[dict[ProviderName, Section], Field(max_length=PROVIDERS_LIMIT)]


PROFILES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "google": (
        ("https://accounts.google.com", "accounts.google.com"),
        "https://www.googleapis.com/oauth2/v3/certs",
    ),
    "apple": (("https://appleid.apple.com",), "https://appleid.apple.com/auth/keys"),
    "epic": (
        ("https://api.epicgames.dev/epic/oauth/v1", "https://api.epicgames.dev/epic/oauth/v2"),
        "https://api.epicgames.dev/epic/oauth/v2/.well-known/jwks.json",
    ),
}
"""The issuers of platforms and where their keys are. All sign with RS256."""


def providers_of(settings: Settings) -> Mapping[str, BoundedProvider]:
    """Return the providers of the file that the settings name, if any. Raises SettingsError."""
    path = settings.sign_in_file
    if path is None:
        return {}
    try:
        document = read_document(path)
        sections = SignInFile.model_validate(document.settings).providers
    except PolicyError as error:
        raise SettingsError(str(error)) from None
    except ValidationError as error:
        location, message = first_fault(error)
        raise SettingsError(f"{path}: {'.'.join(map(str, location))}: {message}") from None
    return {
        name: BoundedProvider(_built(f"{path}: {name}", name, section, settings))
        for name, section in sections.items()
    }


def _built(where: str, name: str, section: Section, settings: Settings) -> PlayerProvider:
    if name in {DEVICE, RECOVERY}:
        raise SettingsError(f"{where}: is a name of ours; choose another")
    try:
        return _provider(section, settings)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _provider(section: Section, settings: Settings) -> PlayerProvider:
    if isinstance(section, TokenSection):
        return _signed_tokens(section, settings)
    if isinstance(section, SteamSection):
        key = _secret_in(Path(section.key_file))
        return SteamTickets(section.app, key, identity=section.identity, address=section.address)
    if isinstance(section, ItchSection):
        return ItchKeys(address=section.address)
    return plugged_provider(section.plugin, section.settings)


def _signed_tokens(section: TokenSection, settings: Settings) -> SignedTokens:
    issuers, keys = PROFILES.get(section.kind, ((), ""))
    algorithms: list[str] = section.algorithms or ([] if section.kind == "jwt" else ["RS256"])
    issuers, keys = tuple(section.issuer or issuers), section.keys or keys
    if not (issuers and keys and algorithms):
        raise SettingsError("expected `issuer`, `keys` and `algorithms`")
    if len(set(section.issuer or ())) > 1 and not section.shared_subjects:
        raise SettingsError(
            "`issuer` names several, to whom one `sub` may be different people: name a provider for each, "
            "or say `shared_subjects: true`"
        )
    rules = TokenRules(
        issuers,
        tuple(section.audience),
        tuple(algorithms),
        settings.clock_skew_s if section.skew_s is None else section.skew_s,
        section.max_age_s,
        is_once=section.kind == "jwt",
    )
    return SignedTokens(rules, IssuersKeys(keys, stale_s=section.stale_h * 3600.0))


def _secret_in(path: Path) -> str:
    """Return the text of a file with a secret. Raises SettingsError, which does not repeat it."""
    try:
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"{path}: others may read it; run: chmod 600 {path}")
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {type(error).__name__}") from None
    if not text:
        raise SettingsError(f"{path}: is empty")
    return text
