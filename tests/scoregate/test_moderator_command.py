"""`scoregate moderator` and `scoregate token`: who moderates, from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from gateway.deployment.run_files import noted
from gateway.edge.auth.moderator_secrets import digest_of
from gateway.edge.auth.moderators import ModeratorRole
from gateway.ledger.moderation.account_rows import ProviderIdentity
from gateway.ledger.moderation.invitations import accept_invitation
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger
from policies.errors import AccountConflict, SettingsError
from scoregate import deployment_settings
from scoregate.moderator_accounts import add_known, address_of, every_account, first_admin, issue_token
from tests.support import preloaded
from tests.support.ledger import rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def scoregate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return preloaded.finished(words, os.environ | {"SCOREGATE_DATA_DIR": str(folder)})


def listed(folder: Path) -> dict[str, dict[str, object]]:
    lines = scoregate(folder, "moderator", "list", "--json").stdout.splitlines()
    return {row["moderator"]: row for row in map(json.loads, lines)}


def test_a_moderator_is_added_with_an_invitation_and_no_password(folder: Path):
    """The address is all of the output; a name is taken once; who is disabled has no invitation."""
    looked = scoregate(folder, "moderator", "list")
    assert (2, True) == (looked.returncode, "there is no ledger" in looked.stderr), looked.stderr
    words = ("moderator", "add", "mara", "--role", "senior", "--scope", "arcade", "--player", "p1")
    added = scoregate(folder, *words)
    assert 0 == added.returncode, added.stderr
    assert f"{folder / 'ledger.sqlite3'}: nothing has run here" in added.stderr
    [address] = added.stdout.splitlines()
    assert address.startswith("http://localhost:8080/console/invitations/")
    row = listed(folder)["mara"]
    assert (["senior of arcade"], ["p1"], None, "enabled") == (
        row["roles"], row["players"], row["login"], row["state"]
    )  # fmt: skip
    again = scoregate(folder, *words)
    assert (2, "another account has this name\n") == (again.returncode, again.stderr)
    with noted(folder, "edge", bind="127.0.0.1:8392"):
        invited = scoregate(folder, "moderator", "invite", "mara").stdout.strip()
    assert invited.startswith("http://localhost:8392/console/invitations/"), "the edge listens there"
    assert invited.rpartition("/")[2] != address.rpartition("/")[2]
    assert 0 == scoregate(folder, "moderator", "disable", "mara").returncode
    assert "disabled" == listed(folder)["mara"]["state"]
    assert "disabled: enable it first" in scoregate(folder, "moderator", "invite", "mara").stderr
    assert 0 == scoregate(folder, "moderator", "enable", "mara").returncode


async def test_a_moderator_is_added_as_a_person_of_the_identity_provider(folder: Path):
    """Once, with no invitation; not without a provider, and not with what no provider calls anybody."""
    settings = Settings(data_dir=folder, oidc_issuer="https://id.example", oidc_client_id="desk")
    for name, subject, of, refusal in (
        ("mara", "248289761001", settings, None),
        ("noor", "248289761001", settings, "another account logs in as this person"),
        ("noor", "", settings, "--oidc"),
        ("noor", "n\u00f6", settings, "--oidc"),
        ("noor", "7", Settings(data_dir=folder), "SCOREGATE_OIDC_ISSUER"),
    ):
        adding = add_known(of, name, ["*"], ModeratorRole.ADMIN, ["p1"], subject=subject)
        if refusal is None:
            await adding
            continue
        with pytest.raises((AccountConflict, SettingsError), match=refusal):
            await adding
    [account] = await every_account(settings)
    assert ("mara", ProviderIdentity("https://id.example", "248289761001"), ["p1"]) == (
        account.name,
        account.identity,
        list(account.players),
    )
    assert await first_admin(settings) is None, "an admin can log in"


def test_a_token_makes_an_account_and_never_widens_one(folder: Path):
    """A new name gets the role on the boards; one that is there keeps what it has; who is disabled gets none."""
    made = scoregate(folder, "token", "moderator", "mara", "--board", "arcade", "--hours", "3")
    assert made.stdout.startswith("sgm_"), made.stderr
    assert f"{folder / 'ledger.sqlite3'}: nothing has run here" in made.stderr
    lifetimes = rows(folder / "ledger.sqlite3", "SELECT expires_at_ms - created_at_ms FROM api_tokens")
    assert [(3 * 3_600_000,)] == lifetimes
    wide = scoregate(folder, "token", "moderator", "mara", "--role", "admin")
    assert 0 == wide.returncode
    assert ["moderator of arcade"] == listed(folder)["mara"]["roles"]
    assert 0 == scoregate(folder, "moderator", "add", "noor", "--scope", "arcade").returncode
    scoregate(folder, "moderator", "disable", "mara")
    assert "disabled" in scoregate(folder, "token", "moderator", "mara").stderr


def test_a_token_of_which_nothing_is_said_is_for_half_a_day(folder: Path):
    """On all boards of a moderator, and for a shift: one that is lost does little."""
    assert 0 == scoregate(folder, "token", "moderator", "mara").returncode
    told = "SELECT expires_at_ms - created_at_ms FROM api_tokens"
    assert [(12 * 3_600_000,)] == rows(folder / "ledger.sqlite3", told)


async def test_tokens_for_a_name_that_nobody_has_may_be_printed_at_once(folder: Path):
    """Whoever comes first adds the account, and the others find it."""
    issued = [
        issue_token(Settings(data_dir=folder), "mara", [], ModeratorRole.VIEWER, hours=1) for _ in range(8)
    ]
    assert 8 == len(set(await asyncio.gather(*issued)))


async def test_a_token_lasts_as_long_as_was_said_and_reaches_no_further_than_its_owner(folder: Path):
    """For hours, on some of the owner's boards; a board on which the owner has no role is refused by its name."""
    settings, role = Settings(data_dir=folder), ModeratorRole.MODERATOR
    assert await issue_token(settings, "mara", ["arcade", "daily"], role, hours=3)
    assert await issue_token(settings, "mara", ["daily"], role, hours=8760)
    for scopes in (["other"], ["arcade", "other"]):
        with pytest.raises(AccountConflict, match="mara has no role on other"):
            await issue_token(settings, "mara", scopes, role, hours=1)
    assert [(3 * 3_600_000, "arcade daily"), (8760 * 3_600_000, "daily")] == sorted(
        (lifetime_ms, " ".join(json.loads(scopes)))
        for lifetime_ms, scopes in rows(
            folder / "ledger.sqlite3", "SELECT expires_at_ms - created_at_ms, scopes FROM api_tokens"
        )
    )


async def test_a_list_says_who_has_a_second_factor(folder: Path):
    """A password alone is none."""
    settings = Settings(data_dir=folder)
    address = await first_admin(settings)
    assert address is not None
    async with open_ledger(settings) as ledger:
        digest = digest_of(address.rpartition("/")[2])
        assert await ledger.write(accept_invitation(digest, "hash", at_ms=0)) is not None
    row = (await asyncio.to_thread(listed, folder))["admin"]
    assert ("password", False) == (row["login"], row["second_factor"])


async def test_each_start_offers_the_first_admin_until_there_is_one(folder: Path):
    """Another address each time, of which the last holds; none once somebody has set a password."""
    settings = Settings(data_dir=folder, bind="localhost:8080")
    first, second = await first_admin(settings), await first_admin(settings)
    assert first is not None
    assert second is not None
    assert second.startswith("http://localhost:8080/console/invitations/")
    for address, is_accepted in ((first, False), (second, True)):
        work = accept_invitation(digest_of(address.rpartition("/")[2]), "hash", at_ms=0)
        async with open_ledger(settings) as ledger:
            assert is_accepted is (await ledger.write(work) is not None)
    assert await first_admin(settings) is None


@pytest.mark.parametrize(
    ("where", "address"),
    [
        ({"bind": "127.0.0.1:8080"}, "http://localhost:8080/console/invitations/x"),
        ({"bind": "0.0.0.0:8080"}, "http://localhost:8080/console/invitations/x"),
        ({"bind": "[::]:8080"}, "http://localhost:8080/console/invitations/x"),
        (
            {"bind": "0.0.0.0:8080", "hosts": ("scores.example",)},
            "https://scores.example/console/invitations/x",
        ),
    ],
)
def test_an_invitation_is_for_https_but_on_this_machine(where: dict[str, object], address: str):
    """Elsewhere a browser would not keep the session over plain HTTP."""
    assert address == address_of(Settings(**where), "x")


def test_notes_of_another_users_parts_keep_no_invitation_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the edge listens is not known then, and the default address is told."""

    def unreadable(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.delenv("SCOREGATE_BIND", raising=False)
    monkeypatch.setattr(deployment_settings, "running_parts", unreadable)
    assert "http://localhost:8080/console/invitations/x" == address_of(Settings(data_dir=tmp_path), "x")
