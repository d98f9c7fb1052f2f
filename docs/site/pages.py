"""Makes a site of the pages that people also read in the repository: MkDocs calls these functions.

The site has three kinds of pages: those in `docs`, those that lie beside what they describe (READMEs of
clients and examples, and the pages at the top), and one for each problem, at the address that is the type of
the problem. Links are written as they are right in the repository; here they become links between pages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
PROBLEMS: Final = "docs/reference/problems.md"

BESIDE: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "clients/python/README.md": "clients/python.md",
    "clients/javascript/README.md": "clients/javascript.md",
    "clients/unity/README.md": "clients/unity.md",
    "clients/godot/README.md": "clients/godot.md",
    "clients/c/README.md": "clients/c.md",
    "clients/vectors/README.md": "clients/vectors.md",
    "examples/arcade/README.md": "examples/arcade.md",
    "examples/doom/README.md": "examples/doom.md",
    "examples/hurdles/README.md": "examples/hurdles.md",
}
"""The pages that do not lie in `docs`: where they are in the repository, and on the site."""

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": (
        "index.md",
        "tutorial",
        "how-to/put-your-game-on-it.md",
        "how-to/port-your-game.md",
        "examples",
    ),
    "Clients": ("how-to/clients", "clients"),
    "How to": ("how-to",),
    "Reference": ("reference",),
    "Explanation": ("explanation", "performance.md", "reliability.md"),
    "Problems": ("problems",),
    "Decisions": ("adr/README.md", "adr"),
    "The project": ("changelog.md", "contributing.md", "security.md"),
}
"""What the navigation shows, by folder or page. A page is in the first section that takes it."""

_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_DEFINITION: Final = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_ROW: Final = re.compile(r"^\| `([a-z-]+)` \| (\d{3}) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in `docs`, the navigation, and `llms.txt`."""
    for source, place in BESIDE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text("utf-8")))
    for name, text in problem_pages():
        files.append(File.generated(config, f"problems/{name}.md", content=text))
    config.nav = list(navigation(files))
    files.append(File.generated(config, "llms.txt", content=_for_programs(files, config)))
    return files


def navigation(files: Files) -> Iterator[dict[str, Any]]:
    """Yield the sections of the site, each with its pages by title."""
    pages = {file.src_uri: _title(file) for file in files.documentation_pages()}
    for section, folders in SECTIONS.items():
        inside = [place for place in pages if place in folders or posixpath.dirname(place) in folders]
        inside.sort(key=lambda place: (_turn(place, folders), *_by_number(pages[place])))
        yield {section: [{pages.pop(place): place} for place in inside]}


def _turn(place: str, folders: tuple[str, ...]) -> int:
    return folders.index(place if place in folders else posixpath.dirname(place))


def _by_number(title: str) -> tuple[int, str]:
    number = re.match(r"\d+", title)
    return (int(number[0]) if number else 0), title.lower()


def _title(file: File) -> str:
    heading = re.search(r"^# (.+)$", file.content_string, re.MULTILINE)
    return heading[1].replace("`", "") if heading else file.src_uri


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Turn the links of a page into links between pages of the site."""
    return linked(markdown, page.file.src_uri, files)


def _for_programs(files: Files, config: MkDocsConfig) -> str:
    """Return `llms.txt` (llmstxt.org): what each page is about, for readers that are programs."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in config.nav or []:
        for name, pages in section.items():
            lines += ["", f"## {name}", ""]
            lines += [_in_a_line(files, page, config) for page in pages]
    return "\n".join(lines) + "\n"


def _in_a_line(files: Files, page: Mapping[str, str], config: MkDocsConfig) -> str:
    ((title, place),) = page.items()
    file = files.get_file_from_path(place)
    assert file is not None
    where = posixpath.join(config.site_url or "/", "" if file.url == "./" else file.url)
    return f"- [{title}]({where}): {_first_sentence(file.content_string)}"


def _first_sentence(text: str) -> str:
    """Return the sentence that a page begins with, without its links and emphasis."""
    blocks = re.split(r"\n\s*\n", _FENCE.sub("", text))
    words = next((" ".join(block.split()) for block in blocks if re.match(r"[\w*\[`]", block)), "")
    words = _LINK.sub(r"\2", words).replace("**", "")
    return re.split(r"(?<=[.:])\s", words, maxsplit=1)[0]


def problem_pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each problem, and its page: what the tables of the reference say of it."""
    for name, status, when, due in _ROW.findall((ROOT / PROBLEMS).read_text("utf-8")):
        text = (
            f"# {name}\n\nStatus **{status}**.\n\n**When:** {when}.\n\n"
            f"**What a client should do:** {due}.\n\n[All problems](../reference/problems.md)\n"
        )
        yield name, re.sub(r"\]\((?!\.\./reference/problems\.md\))([^)]+)\)", _from_reference, text)


def _from_reference(found: re.Match[str]) -> str:
    """Return a link of the reference as it is from the folder of problems."""
    target = found[1] if not found[1].startswith("#") else f"problems.md{found[1]}"
    if "://" in target:
        return found[0]
    return f"]({posixpath.normpath(posixpath.join('../reference', target))})"


def linked(markdown: str, place: str, files: Files) -> str:
    """Return a page with its links as they are on the site; what is not there is named without a link."""
    spared: list[str] = []

    def spare(found: re.Match[str]) -> str:
        spared.append(found[0])
        return f"\0{len(spared) - 1}\0"

    def link(found: re.Match[str]) -> str:
        target = _on_the_site(found[3], place, files)
        return found[2] if target is None else f"{found[1]}[{found[2]}]({target})"

    def definition(found: re.Match[str]) -> str:
        return f"[{found[1]}]: {_on_the_site(found[2], place, files) or './'}"

    markdown = _DEFINITION.sub(definition, _LINK.sub(link, _FENCE.sub(spare, markdown)))
    return re.sub(r"\0(\d+)\0", lambda found: spared[int(found[1])], markdown)


def _repository_path(place: str) -> str:
    """Return where a page of the site is in the repository."""
    beside = {on_site: source for source, on_site in BESIDE.items()}
    return beside.get(place, f"docs/{place}")


def _on_the_site(target: str, place: str, files: Files) -> str | None:
    path, mark, anchor = target.partition("#")
    if "://" in target or target.startswith("mailto:") or not path:
        return target
    source = posixpath.normpath(posixpath.join(posixpath.dirname(_repository_path(place)), path))
    if source not in BESIDE and not source.startswith("docs/"):
        return None
    found = BESIDE.get(source) or source.removeprefix("docs/")
    if files.get_file_from_path(found) is None:
        found = posixpath.join(found, "README.md")
    if files.get_file_from_path(found) is None:
        return None
    return posixpath.relpath(found, posixpath.dirname(place) or ".") + mark + anchor
