"""What a browser may do with the arcade's page that plays recordings, which the console frames.

The page has an opaque origin there, so a browser asks for what it loads as for another site's.
"""

from __future__ import annotations

from typing import Final

_PAGE: Final = "playback.html"

_LOADED: Final = frozenset({"playback.js", "game.js", "scene.js", "arcade.wasm"})
"""The files that the page reads. It reads nothing else of this edge."""

_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"
)


def security_of(name: str) -> dict[str, str]:
    """Return the headers in which a file of the arcade differs from other pages."""
    if name == _PAGE:
        return {"Content-Security-Policy": _POLICY}
    return {"Access-Control-Allow-Origin": "*"} if name in _LOADED else {}
