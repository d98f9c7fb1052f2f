"""Origins that a policy names: written as browsers send them, or they would never match."""

from __future__ import annotations

import pytest

from policies.origins import check_origin, refuse_beside_any


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "https://game.example",
        "http://localhost:3000",
        "https://game.example:8443",
        "https://[::1]:8080",
        "http://game.example:443",
        "https://game.example:80",
        "https://a",
        f"https://a{'b' * 251}c",
        "capacitor://localhost",
        "https://my_game.example",
        "https://game.example:65535",
    ],
)
def test_what_browsers_send_is_an_origin(origin: str) -> None:
    """It comes out as it went in."""
    assert origin == check_origin(origin)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "game.example",
        "https://",
        "https://game.example/",
        "https://game.example/path",
        "https://game.example?x",
        "https://Game.example",
        "HTTPS://game.example",
        "https://game.example:443",
        "http://game.example:80",
        "https://game.example:0443",
        "https://game.example:0",
        "https://game.example:",
        "https://game.example:123456",
        "https://-game.example",
        "https://game.example-",
        f"https://a{'b' * 252}c",
        "https://user@game.example",
        "https://*.game.example",
        "https://game.example\n",
        " https://game.example",
        "1http://game.example",
        "https://[::g]",
        "**",
    ],
)
def test_what_no_browser_sends_is_refused(text: str) -> None:
    """A default port, a path, capitals, a pattern: it looks right and allows nobody."""
    with pytest.raises(ValueError, match=r"origin|null"):
        check_origin(text)


def test_every_page_stands_alone() -> None:
    """Beside `*` no other has a meaning."""
    for origins in ((), ("*",), ("https://a.example", "https://b.example")):
        assert origins == refuse_beside_any(origins)
    with pytest.raises(ValueError, match="alone"):
        refuse_beside_any(("https://a.example", "*"))
