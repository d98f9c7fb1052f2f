"""The served pages of the reference: those in the wheel, or in a checkout those that the edge draws.

`python -m gateway.edge.docs.drawn_pages FOLDER` draws them for a wheel (`hatch_build.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from gateway.edge.docs.sections import page_paths, reference_folder
from gateway.edge.routes import ROUTES

DESCRIPTION: Final = "/openapi.json"

_DRAWN: Final = Path(__file__).parent / "drawn"
"""The folder that `hatch_build.py` adds to a wheel; a checkout has none, so its pages are never stale."""


def load_pages() -> Mapping[str, bytes]:
    """Return the OpenAPI document and every page of the reference, by path."""
    if not _DRAWN.is_dir():
        return _draw_pages()
    paths = [DESCRIPTION, *page_paths(reference_folder())]
    return {path: (_DRAWN / _file_name(path)).read_bytes() for path in paths}


def write_pages(folder: Path) -> None:
    """Draw the pages and write them to `folder`, which is created."""
    folder.mkdir(parents=True)
    for path, body in _draw_pages().items():
        (folder / _file_name(path)).write_bytes(body)


def _draw_pages() -> Mapping[str, bytes]:
    # Imported here, since an edge of a wheel needs no template engine and no Markdown parser.
    from gateway.edge.docs.openapi import describe  # noqa: PLC0415
    from gateway.edge.docs.reference import draw_pages  # noqa: PLC0415

    document = describe(ROUTES)
    pages = draw_pages(document, ROUTES, reference_folder())
    description = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    return {DESCRIPTION: description} | {path: html.encode() for path, html in pages.items()}


def _file_name(path: str) -> str:
    return path.removeprefix("/").replace("/", ".")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
