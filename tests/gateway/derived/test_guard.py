"""Where webhooks may go: nowhere inside, however it is spelled, unless the operator says so."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver

from gateway.derived.webhooks.guard import GuardedResolver, check_url
from gateway.ledger.derived.webhooks import DeliveryState
from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from tests.gateway.derived.conftest import SECRET
from tests.support.derived import catch_up
from tests.support.receiver import receiving

FORBIDDEN = [
    "http://example.com/",
    "ftp://example.com/",
    "https:///hook",
    "example.com/hook",
    "https://user:secret@example.com/",
    "https://user@example.com/",
    "https://:secret@example.com/",
    "https://example.com/#part",
    "https://example.com:99999/",
    "https://exa mple.com/",
    "https://example.com/a b",
    "https://example.com/\x7f",
    "https://ex\u00e4mple.com/",
    "https://example.com/" + "a" * 1981,
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://0.0.0.0/",
    "https://10.1.2.3/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[fe80::1]/",
    "https://[fd00::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[ff02::1]/",
]


@pytest.mark.parametrize("url", FORBIDDEN)
def test_what_is_not_public_is_refused(url: str):
    """Other schemes, credentials, and inside addresses in every spelling that a resolver understands."""
    with pytest.raises(SettingsError):
        check_url(url, ())


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook?key=1",
        "https://example.com:8443/",
        "https://93.184.216.34/",
        "https://[2606:4700::1]/",
        "https://[64:ff9b::5db8:d822]/",  # 93.184.216.34 behind NAT64
        "https://example.com/" + "a" * 1980,
    ],
)
def test_what_is_public_is_allowed(url: str):
    """Names, ports and addresses of the internet, over TLS."""
    assert url == str(check_url(url, ()))


@pytest.mark.parametrize("named", ["127.0.0.1", "127.0.0.1:9000", "[::1]", "hooks.internal"])
def test_a_named_host_may_be_plain_and_private(named: str):
    """The host that is named, on the port that is named, and no other."""
    url = f"http://{named}" + ("" if named.endswith("9000") else ":9000")
    assert check_url(url, (named,)).port == 9000
    with pytest.raises(SettingsError):
        check_url(url, ("other.internal", "127.0.0.1:9001"))


class Rebinding(AbstractResolver):
    """Gives one answer after another for the same name."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        facts = {"hostname": host, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        return [facts | {"host": each} for each in answer]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([["127.0.0.1"]], "ClientConnectorDNSError"),
        ([["10.0.0.1", "169.254.169.254"]], "ClientConnectorDNSError"),
        (
            [["192.0.2.1", "127.0.0.1"]],
            "ClientConnectorDNSError",
        ),  # documentation addresses are not public either
    ],
)
async def test_a_name_that_leads_inside_is_not_connected_to(stage, answers, outcome):
    """What was found for the name is looked at, and it is that which is connected to: nothing asks again in between."""
    async with receiving(SECRET) as inside:
        port = inside.url.rpartition(":")[2].partition("/")[0]
        endpoint = await stage.webhook(f"https://sneaky.example:{port}/hook")
        resolver = Rebinding(*answers)
        settings = Settings(**stage.settings.model_dump() | {"webhook_hosts": ()})
        derivations = stage.derivations(settings, resolver=resolver)
        await catch_up(derivations)
        await stage.score("ada", 5)
        await catch_up(derivations)
        await derivations.sender.step()
        await derivations.sender.idle()
        waiting = await stage.queued(endpoint, DeliveryState.PENDING)
        assert ({outcome}, []) == ({each.outcome for each in waiting}, inside.received)
        assert resolver.asked


async def test_of_a_name_that_leads_inside_too_the_public_addresses_are_left():
    """Whatever embeds an address inside is inside; a host that is named is given as it is, on its port alone."""
    inside = [
        "10.0.0.1",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fe80::1%eth0",
        "none",
    ]
    public = ["93.184.216.34", "2606:4700::1"]
    resolver = GuardedResolver(("hooks.internal:8080",), Rebinding([*inside, *public]))
    given = {
        (host, port): [each["host"] for each in await resolver.resolve(host, port)]
        for host, port in (("example.com", 443), ("hooks.internal", 443), ("hooks.internal", 8080))
    }
    assert {
        ("example.com", 443): public,
        ("hooks.internal", 443): public,
        ("hooks.internal", 8080): [*inside, *public],
    } == given


async def test_an_endpoint_whose_host_is_no_longer_named_is_not_told(stage):
    """What the settings forbid now is forbidden for endpoints that were registered before."""
    async with receiving(SECRET) as inside:
        endpoint = await stage.webhook(inside.url, types=("submission.decided",))
        derivations = stage.derivations(Settings(**stage.settings.model_dump() | {"webhook_hosts": ()}))
        await catch_up(derivations)
        await stage.score("ada", 5)
        await catch_up(derivations)
        await derivations.sender.step()
        await derivations.sender.idle()
        [waiting] = await stage.queued(endpoint)
        assert ("forbidden", []) == (waiting.outcome, inside.received)
