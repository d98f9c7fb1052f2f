"""The pages under `/docs`, drawn from the OpenAPI document and from the written references."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from gateway.edge.docs.drawing import environment
from gateway.edge.docs.first_submission import AUTHORITY, BOARD, BUILD
from gateway.edge.docs.openapi import common_refusals
from gateway.edge.docs.sections import (
    ABOUT_PLAYERS,
    ANSWERS_ABOUT_PLAYERS,
    ANSWERS_TO_MODERATORS,
    OVERVIEW,
    SHARED_PAGES,
    Section,
    reference_files,
    sections_of,
    slug_of,
)
from gateway.edge.problems import PROBLEM_BASE, ProblemType
from gateway.edge.routes import Route

_CODE: Final = re.compile(r"`([^`]+)`")
_REFERENCE: Final = re.compile(r"#/components/schemas/(\w+)")
_PROBLEM_ROW: Final = re.compile(r"<tr>(?=\n<td><code>([a-z-]+)</code></td>)")
_TEMPLATES: Final = {"refusals": "refusals.html"}
"""The templates of shared pages that do not describe models."""

_SIBLING: Final = re.compile(r"^([a-z-]+)\.md(#.*)?$")


@dataclass(frozen=True, slots=True)
class Chapter:
    """A written reference: its HTML, and its second-level headings, each with its slug."""

    slug: str
    title: str
    html: Markup
    headings: tuple[tuple[str, str], ...]


def draw_pages(document: dict[str, Any], routes: Sequence[Route], folder: Path) -> dict[str, str]:
    """Return the HTML of each page by its path: the overview, the routes by section, and the references."""
    chapters = [_chapter(file) for file in reference_files(folder)]
    templates = environment()
    templates.filters |= {"code": _with_code, "model": _model_name}
    sections = sections_of(routes)
    templates.globals |= {
        "info": document["info"],
        "chapters": chapters,
        "sections": sections,
        "operations": {
            (path, method): operation
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        },
        "schemas": document["components"]["schemas"],
        "problems": sorted(ProblemType, key=_by_status),
        "problem_base": PROBLEM_BASE,
        "example": {"authority": AUTHORITY, "board": BOARD, "build": BUILD},
        "refusals": _refusals,
        "place": _places(sections).__getitem__,
        "page_of": partial(_page_of, _models_by_page(document)),
    }
    section_page, chapter_page = templates.get_template("routes.html"), templates.get_template("chapter.html")
    return (
        {OVERVIEW: templates.get_template("reference.html").render()}
        | {f"/docs/routes-{section.slug}": section_page.render(section=section) for section in sections}
        | {
            f"/docs/routes-{page}": templates.get_template(_TEMPLATES.get(page, "bodies.html")).render(
                page=page
            )
            for page in SHARED_PAGES
        }
        | {f"/docs/{chapter.slug}": chapter_page.render(chapter=chapter) for chapter in chapters}
    )


def _places(sections: Sequence[Section]) -> dict[str, str]:
    """Return the link to each route's description by the name of its handler."""
    return {
        route.handler.__name__: f"/docs/routes-{section.slug}#{route.handler.__name__}"
        for section in sections
        for route in section.routes
    }


def _page_of(by_page: Mapping[str, set[str]], model: str) -> str:
    """Return the page on which a model is described: the first that has it."""
    return next((page for page, models in by_page.items() if model in models), ANSWERS_TO_MODERATORS)


def _models_by_page(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the models of requests' bodies, and of answers but for those to moderators about no player."""
    operations = {
        path: list(operations_of_path.values()) for path, operations_of_path in document["paths"].items()
    }
    bodies = [operation.get("requestBody", {}) for each in operations.values() for operation in each]
    answers, about_players = list[Any](), list[Any]()
    for path, each in operations.items():
        if not path.startswith("/v1/moderation/"):
            answers += [operation["responses"] for operation in each]
        elif path.startswith(ABOUT_PLAYERS):
            about_players += [operation["responses"] for operation in each]
    schemas = document["components"]["schemas"]
    return {
        "bodies": _models_within(bodies, schemas),
        "answers": _models_within(answers, schemas),
        ANSWERS_ABOUT_PLAYERS: _models_within(about_players, schemas),
    }


def _models_within(nodes: list[Any], schemas: Mapping[str, Any]) -> set[str]:
    """Return the models that parts of the document refer to, and those within them."""
    models: set[str] = set()
    waiting = _models_in(nodes)
    while waiting:
        models |= waiting
        waiting = _models_in([schemas[name] for name in waiting]) - models
    return models


def _models_in(node: Any) -> set[str]:
    """Return the models that a part of the document refers to."""
    return set(_REFERENCE.findall(orjson.dumps(node).decode()))


def _refusals(route: Route) -> list[ProblemType]:
    return sorted({*route.problems, *common_refusals(route.method)}, key=_by_status)


def _by_status(kind: ProblemType) -> tuple[int, str]:
    return kind.status, kind.slug


def _chapter(file: Path) -> Chapter:
    """Return a Markdown file as a chapter, in which links to its siblings lead to their pages."""
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(file.read_text(encoding="utf-8"))
    headings: list[tuple[str, str]] = []
    title = file.stem
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            text = content.content.replace("`", "")
            token.attrSet("id", slug_of(text))
            if token.tag == "h1":
                title = text
            elif token.tag == "h2":
                headings.append((slug_of(text), text))
        if content.children:
            content.children = list(_led(content.children))
    # Markdown needs a heading for every column; an empty one is none to a screen reader.
    html = markdown.renderer.render(tokens, markdown.options, {}).replace("<th></th>", "<td></td>")
    if file.stem == "problems":
        html = _PROBLEM_ROW.sub(r'<tr id="\1">', html)
    return Chapter(file.stem, title, Markup(html), tuple(headings))  # noqa: S704 - a file of the product


def _led(tokens: Sequence[Token]) -> Iterator[Token]:
    """Return tokens with links to pages of the edge; a link to any other file becomes its name."""
    file = None
    for token in tokens:
        if token.type == "link_open":
            link = str(token.attrGet("href"))
            file = _unserved_file(link)
            token.attrSet("href", _SIBLING.sub(r"/docs/\1\2", link))
        if file is None:
            yield token
        elif token.type == "link_close":
            yield Token("html_inline", "", 0, content=f" <small>[{escape(file)}]</small>")
            file = None
        elif token.type != "link_open":
            yield token


def _unserved_file(link: str) -> str | None:
    """Return the path in the source of a file that no edge serves; None for any other link."""
    if _SIBLING.fullmatch(link) or link.startswith(("https://", "#")):
        return None
    return posixpath.normpath(posixpath.join("docs/reference", link.partition("#")[0]))


def _with_code(text: str) -> Markup:
    """Return text as HTML, in which backquoted parts are `code` elements."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just here


def _model_name(schema: dict[str, Any]) -> str:
    """Return the name at the end of a `$ref`, "" for a schema without one."""
    return str(schema.get("$ref", "")).rpartition("/")[2]
