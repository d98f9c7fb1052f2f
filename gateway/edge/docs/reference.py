"""The pages under `/docs`: the interface, drawn from its OpenAPI document, and the written references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from gateway.edge.docs.drawing import environment
from gateway.edge.docs.openapi import common_refusals
from gateway.edge.problems import PROBLEM_BASE, ProblemType
from gateway.edge.routes import ROUTES, Caller, Route

_TABLES: Final = ("refusals", "bodies")
"""Pages of what all routes share."""

_CODE: Final = re.compile(r"`([^`]+)`")
_SIBLING: Final = re.compile(r"([a-z-]+)\.md(#.*)?")
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Section:
    """Routes that the same reader looks for."""

    title: str
    routes: tuple[Route, ...]

    @property
    def slug(self) -> str:
        """The section's place on the page."""
        return _slug(self.title)


@dataclass(frozen=True, slots=True)
class Chapter:
    """A written reference: its HTML, and the headings that lead to its parts."""

    slug: str
    title: str
    html: Markup
    headings: tuple[tuple[str, str], ...]


def draw_pages(document: dict[str, Any], routes: Sequence[Route], written: Path) -> dict[str, str]:
    """Return the HTML of each page by its path: the interface, its routes by section, and the written references."""
    chapters = [_chapter(file) for file in _files(written)]
    templates = environment()
    templates.filters |= {"code": _with_code, "model": _model_name}
    sections = _sections(routes)
    templates.globals |= {
        "info": document["info"],
        "chapters": chapters,
        "sections": sections,
        "operations": {
            (path, method): it for path, ways in document["paths"].items() for method, it in ways.items()
        },
        "schemas": document["components"]["schemas"],
        "problems": sorted(ProblemType, key=_by_status),
        "problem_base": PROBLEM_BASE,
        "refusals": _refusals,
        "place": _places(sections).__getitem__,
    }
    of_section, of_chapter = templates.get_template("routes.html"), templates.get_template("chapter.html")
    return (
        {"/docs": templates.get_template("reference.html").render()}
        | {f"/docs/routes-{one.slug}": of_section.render(section=one) for one in sections}
        | {f"/docs/routes-{name}": templates.get_template(f"{name}.html").render() for name in _TABLES}
        | {f"/docs/{one.slug}": of_chapter.render(chapter=one) for one in chapters}
    )


def _places(sections: Sequence[Section]) -> dict[str, str]:
    """Where each route is described, by the name of its handler."""
    return {
        route.handler.__name__: f"/docs/routes-{section.slug}#{route.handler.__name__}"
        for section in sections
        for route in section.routes
    }


def page_paths(written: Path) -> list[str]:
    """Return the paths of the pages that are drawn."""
    routes = [*(section.slug for section in _sections(ROUTES)), *_TABLES]
    return [
        "/docs",
        *(f"/docs/routes-{slug}" for slug in routes),
        *(f"/docs/{file.stem}" for file in _files(written)),
    ]


def _files(written: Path) -> list[Path]:
    return sorted(written.glob("*.md"))


def _sections(routes: Sequence[Route]) -> list[Section]:
    named: dict[str, list[Route]] = {}
    for route in routes:
        named.setdefault(_section_title(route), []).append(route)
    return [Section(title, tuple(members)) for title, members in named.items()]


def _section_title(route: Route) -> str:
    if route.caller in {Caller.PLAYER, Caller.RUN} or route.path == "/v1/players":
        return "Play"
    if route.caller is Caller.SERVER:
        return "Trusted servers"
    if route.caller is Caller.MODERATOR:
        return "Moderation"
    return "Boards" if route.path.startswith("/v1/") else "Operation"


def _refusals(route: Route) -> list[ProblemType]:
    return sorted({*route.problems, *common_refusals(route.method)}, key=_by_status)


def _by_status(kind: ProblemType) -> tuple[int, str]:
    return kind.status, kind.slug


def _chapter(file: Path) -> Chapter:
    """A Markdown file of our own as a page; links to its siblings lead to their pages."""
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(file.read_text(encoding="utf-8"))
    headings: list[tuple[str, str]] = []
    title = file.stem
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            text = content.content.replace("`", "")
            token.attrSet("id", _slug(text))
            if token.tag == "h1":
                title = text
            elif token.tag == "h2":
                headings.append((_slug(text), text))
        for child in content.children or []:
            if child.type == "link_open":
                child.attrSet("href", _target(str(child.attrGet("href"))))
    # A table whose first column needs no name begins with a head that is empty, which is none.
    html = markdown.renderer.render(tokens, markdown.options, {}).replace("<th></th>", "<td></td>")
    return Chapter(file.stem, title, Markup(html), tuple(headings))  # noqa: S704 - a file that comes with the product


def _target(link: str) -> str:
    sibling = _SIBLING.fullmatch(link)
    if sibling:
        return f"/docs/{sibling[1]}{sibling[2] or ''}"
    return link if link.startswith(("https://", "#")) else "/docs"


def _with_code(text: str) -> Markup:
    """Text with its `code` in elements; the rest escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just here


def _model_name(schema: dict[str, Any]) -> str:
    """The name at the end of a `$ref`, "" for a schema without one."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _slug(text: str) -> str:
    return _NOT_IN_SLUGS.sub("-", text.lower()).strip("-")
