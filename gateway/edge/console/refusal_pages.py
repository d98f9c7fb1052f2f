"""Refusals as pages: what went wrong, in words, and the way on."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from aiohttp import web

from gateway.edge.console.page_drawing import draw, go_to, is_fragment
from gateway.edge.console.wording import without_field
from gateway.edge.problems import Problem, ProblemType, problem_response

ROOT: Final = "/console"

SIGN_IN: Final = "/console/sign-in"

_OWN_PATH: Final = re.compile(r"/console(/[A-Za-z0-9_~-][A-Za-z0-9_.~:-]*)+(\?[A-Za-z0-9_.~:%=&+-]*)?")

_NOTICE: Final = {"HX-Retarget": "#notices", "HX-Reswap": "innerHTML"}

_KEPT: Final = ("Retry-After", "Allow")
"""Headers of a problem that its page has too."""


class Way(NamedTuple):
    """A link that leads on."""

    path: str
    name: str


_WORDS: Final = {
    ProblemType.TOKEN_INVALID: ("You are signed out", "Your session has ended. Sign in, and go on."),
    ProblemType.SCOPE_FORBIDDEN: ("Your role does not allow this", None),
    ProblemType.NOT_FOUND: (
        "There is nothing here",
        "It may have been removed, or lie on a board that is not yours.",
    ),
    ProblemType.SCHEMA_VIOLATION: ("Nothing was stored", None),
    ProblemType.CSRF: ("This did not come from the console", "Reload the page, and send it again."),
    ProblemType.PRECONDITION_FAILED: ("The case has changed", None),
    ProblemType.QUOTA_EXCEEDED: ("That was too much at once", None),
    ProblemType.INTERNAL: ("That is our fault", None),
    ProblemType.REDUCED_CAPACITY: ("Not at this moment", "Nothing was stored. Try again in a moment."),
    ProblemType.DEPENDENCY_UNAVAILABLE: ("Not at this moment", "Nothing was stored. Try again in a moment."),
}
"""Titles, and where they say more, the text below."""

_INVITATIONS: Final = "/console/invitations/"

_SPENT_INVITATION: Final = (
    "This link does not work any more",
    "It works once, within 72 hours. Sign in if you have set a password, or ask an admin for a new one.",
)


def is_of_console(request: web.BaseRequest) -> bool:
    """Return whether a request is for a page of the console."""
    return request.path == ROOT or request.path.startswith(f"{ROOT}/")


def own_path(text: str | None, otherwise: str) -> str:
    """Return a path that came from outside if it is one of the console's, else another."""
    return text if text and len(text) < 1000 and _OWN_PATH.fullmatch(text) else otherwise  # noqa: PLR2004


def refusal_page(request: web.Request, problem: Problem) -> web.Response:
    """Count a refusal and return its page, or for htmx its notice; who is signed out is sent to sign in."""
    plain = problem_response(problem)
    if problem.kind is ProblemType.TOKEN_INVALID and request.method == "GET" and not is_fragment(request):
        return go_to(
            request, f"{SIGN_IN}?next={quote(own_path(request.path_qs, '/console/queue'), safe='/')}"
        )
    title, words = _title_and_words(request, problem)
    headers = {name: plain.headers[name] for name in _KEPT if name in plain.headers}
    return draw(
        request,
        "refusal_notice.html" if is_fragment(request) else "refusal.html",
        status=plain.status,
        headers=headers | (_NOTICE if is_fragment(request) else {}),
        title=title,
        detail=words,
        way=_way(request, problem),
    )


def _title_and_words(request: web.Request, problem: Problem) -> tuple[str, str]:
    if problem.kind is ProblemType.NOT_FOUND and request.path.startswith(_INVITATIONS):
        return _SPENT_INVITATION
    title, words = _WORDS.get(problem.kind, (problem.kind.title, None))
    is_form = problem.kind is ProblemType.SCHEMA_VIOLATION and request.method == "POST"
    return title, words or (without_field(problem) if is_form else problem.detail) or problem.kind.title


def _way(request: web.Request, problem: Problem) -> Way | None:
    """Return the way on; None for a form that is still open and only has to be filled in."""
    if problem.kind is ProblemType.TOKEN_INVALID or request.path.startswith(_INVITATIONS):
        return Way(SIGN_IN, "Sign in")
    if problem.kind is ProblemType.SCHEMA_VIOLATION and is_fragment(request):
        return None
    submission = request.match_info.get("submission")
    is_there = problem.kind is not ProblemType.NOT_FOUND
    if submission and is_there and request.path != (case := f"/console/cases/{submission}"):
        return Way(case, "Read the case again")
    if request.method == "GET" and is_there:
        return Way(own_path(request.path_qs, "/console/queue"), "Try again")
    return Way("/console/queue", "To the queue")
