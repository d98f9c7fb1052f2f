"""The pages of the reference: their sections, and the paths at which they are served."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.edge.routes import ROUTES, Caller, Route
from gateway.runtime.settings import bundled_policies

OVERVIEW: Final = "/docs"
"""The page that leads to the others."""

ANSWERS_ABOUT_PLAYERS: Final = "answers-about-players"
ANSWERS_TO_MODERATORS: Final = "answers-to-moderators"

SHARED_PAGES: Final = ("refusals", "bodies", "answers", ANSWERS_ABOUT_PLAYERS, ANSWERS_TO_MODERATORS)
"""Pages of the refusals, the bodies and the answers of all routes."""

_ACCESS: Final = frozenset(
    {"invitations", "password", "people", "second-factor", "session", "sessions", "tokens"}
)
"""The parts of `/v1/moderation/` that are about who may do what, and not about submissions or players."""

ABOUT_PLAYERS: Final = "/v1/moderation/players"

_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A group of routes for one kind of reader."""

    title: str
    routes: tuple[Route, ...]

    @property
    def slug(self) -> str:
        """Return the section's part of its path."""
        return slug_of(self.title)


def reference_folder() -> Path:
    """Return the folder of the written references."""
    # `docs/` lies beside the bundled policies, in a checkout and in an installation.
    return bundled_policies().parent / "docs" / "reference"


def page_paths(folder: Path) -> list[str]:
    """Return the paths of all drawn pages. `folder` has the written references."""
    routes = [*(section.slug for section in sections_of(ROUTES)), *SHARED_PAGES]
    return [
        OVERVIEW,
        *(f"/docs/routes-{slug}" for slug in routes),
        *(f"/docs/{file.stem}" for file in reference_files(folder)),
    ]


def reference_files(folder: Path) -> list[Path]:
    """Return the written references in the order of their names."""
    return sorted(folder.glob("*.md"))


def sections_of(routes: Sequence[Route]) -> list[Section]:
    """Return the routes by section, both in the order of the route table."""
    by_title: dict[str, list[Route]] = {}
    for route in routes:
        by_title.setdefault(_title_of(route), []).append(route)
    return [Section(title, tuple(members)) for title, members in by_title.items()]


def slug_of(text: str) -> str:
    """Return a text as it stands in paths and anchors."""
    return _NOT_IN_SLUGS.sub("-", text.lower()).strip("-")


def _title_of(route: Route) -> str:
    if route.caller in {Caller.PLAYER, Caller.RUN} or route.path == "/v1/players":
        return "Play"
    if route.caller is Caller.SERVER:
        return "Trusted servers"
    if route.caller is Caller.MODERATOR or route.path.startswith("/v1/moderation/"):
        if route.path.startswith(ABOUT_PLAYERS):
            return "Moderated players"
        return "Moderators" if route.path.split("/")[3] in _ACCESS else "Moderation"
    return "Boards" if route.path.startswith("/v1/") else "Operation"
