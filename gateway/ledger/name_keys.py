"""Keys of display names: two names that look the same have one key.

The key is the skeleton of Unicode Technical Standard 39, section 4, with folded case: each character is
replaced by the prototype of all that are confusable with it. The table is Unicode's, from the package
`confusable-homoglyphs`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import orjson


def name_key(name: str) -> str:
    """Return the key of a display name. Case, spaces and look-alikes make no difference."""
    skeleton = _skeleton(_skeleton(name).casefold())
    return " ".join(skeleton.split())


def search_key(name: str) -> str:
    """Return the key by which a name, or the beginning of one, is looked for.

    Case makes no difference in any script, and look-alikes of small letters make none.
    """
    # A skeleton tells some capitals from their small letters, as I from i, which is l to it.
    return name_key(name.casefold()).replace("i", "l")


def _skeleton(text: str) -> str:
    prototypes = _prototypes()
    replaced = "".join(
        prototypes.get(character, character) for character in unicodedata.normalize("NFD", text)
    )
    return unicodedata.normalize("NFD", replaced)


@cache
def _prototypes() -> Mapping[str, str]:
    """Return the prototype of each character.

    The package links a prototype and each of its look-alikes, in both directions. A prototype of several
    characters is recognized by its length, one with several look-alikes by their number; of a lone pair
    either will do.
    """
    # The package's own module would keep its table for ever, which takes 17 MiB.
    table = orjson.loads((files("confusable_homoglyphs") / "confusables.json").read_bytes())
    links = {
        _bare(key): [_bare(look_alike["c"]) for look_alike in look_alikes]
        for key, look_alikes in table.items()
    }
    return {key: _prototype(key, links) for key in links if len(key) == 1}


def _bare(text: str) -> str:
    # The table puts letters that run from right to left between marks of direction.
    return text.replace("\u200e", "")


def _prototype(character: str, links: Mapping[str, list[str]]) -> str:
    others = links[character]
    if long := [other for other in others if len(other) > 1]:
        return long[0]
    if len(others) > 1:
        return character
    [other] = others
    return other if len(links.get(other, ())) > 1 else min(character, other)
