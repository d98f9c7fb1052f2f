"""The page that plays recordings: only what can stand in a frame and in a header, word for word, is taken."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.playback import Playback

TAKEN = {
    "/arcade/playback.html": "'self'",
    "/": "'self'",
    "/player?game=hurdles&version=2": "'self'",
    "https://studio.example/player.html": "https://studio.example",
    "https://play.studio.example:8443/a/b.html?x=1": "https://play.studio.example:8443",
    "http://localhost:3000/player": "http://localhost:3000",
    "http://127.0.0.1:3000/player": "http://127.0.0.1:3000",
}
REFUSED = [
    "",
    "player.html",
    "//studio.example/player.html",
    "/player.html#here",
    "/player html",
    "/player;script-src",
    "http://studio.example/player.html",
    "https://studio.example",
    "https://me:secret@studio.example/player.html",
    "https://*.example/player.html",
    "https://studio.example;/player.html",
    "https://studio.example /player.html",
    "https://[::1]/player.html",
    "https://Studio.example/player.html",
    "javascript:alert(1)//",
    "data:text/html,x",
    "https://studio.example/\r\nX: y",
]


@pytest.mark.parametrize("page", TAKEN)
def test_a_page_is_framed_from_its_origin_alone(page: str):
    """A path is of the edge itself; of an address no more than its origin goes into the console's header."""
    assert TAKEN[page] == Playback(page=page).frame_source
    assert Playback().frame_source is None


@pytest.mark.parametrize("page", REFUSED)
def test_what_is_no_plain_page_is_refused(page: str):
    """Nothing that runs by itself, leads elsewhere, carries a password, or would say more in a header than an origin."""
    with pytest.raises(ValidationError, match="expected a path of the edge"):
        Playback(page=page)


def test_buttons_have_short_names_on_one_line():
    """Up to 32 of them, one for each bit."""
    assert ("left", "Sprung ↑") == Playback(buttons=("left", "Sprung ↑")).buttons
    for names in (("",), ("x" * 25,), ("a\nb",), ("a",) * 33):
        with pytest.raises(ValidationError):
            Playback(buttons=names)
