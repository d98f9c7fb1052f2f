"""Whose page a request comes from: ours by any host that we have, and nobody's who only looks like it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.edge.auth.own_pages import address_at, is_own_origin, refuse_foreign_pages, refuse_plain_http
from gateway.edge.context import EDGE
from gateway.edge.problems import Problem, ProblemType

HOSTS = ("scores.example", "scores.example:8443", "localhost:8080")
OWN, FOREIGN = "https://scores.example", "https://evil.example"


def request_with(**headers: str) -> web.Request:
    app = web.Application()
    app[EDGE] = SimpleNamespace(settings=SimpleNamespace(allowed_hosts=HOSTS))  # type: ignore[assignment]
    return make_mocked_request(
        "POST", "/v1/x", headers={name.replace("_", "-"): value for name, value in headers.items()}, app=app
    )


@pytest.mark.parametrize(
    "origin",
    [
        OWN,
        "http://scores.example",
        "HTTPS://Scores.Example",
        "https://scores.example:8443",
        "http://localhost:8080",
    ],
)
def test_an_origin_of_ours_has_one_of_our_hosts(origin: str) -> None:
    """Over TLS or not, since a proxy may end it; in any case, though browsers write small letters."""
    assert is_own_origin(request_with(), origin)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "scores.example",
        "https://scores.example/",
        "https://scores.example.evil.example",
        "https://evil-scores.example",
        "https://scores.example:444",
        "https://localhost",
        "ftp://scores.example",
        "https://scores.example@evil.example",
    ],
)
def test_an_origin_that_only_looks_like_ours_is_foreign(origin: str) -> None:
    """It is compared as a whole: host and port."""
    assert not is_own_origin(request_with(), origin)


@pytest.mark.parametrize("is_cookie", [True, False])
@pytest.mark.parametrize("site", [None, "same-origin", "none", "same-site", "cross-site", ""])
@pytest.mark.parametrize("origin", [None, OWN, FOREIGN, "null"])
def test_each_thing_that_a_browser_says_has_to_hold(
    origin: str | None, site: str | None, *, is_cookie: bool
) -> None:
    """One that holds does not make up for the other; with a cookie, to say nothing is not enough."""
    said = {"Origin": origin, "Sec_Fetch_Site": site}
    request = request_with(**{name: value for name, value in said.items() if value is not None})
    is_ours = origin in {None, OWN} and site in {None, "same-origin", "none"}
    if is_ours and (not is_cookie or (origin, site) != (None, None)):
        refuse_foreign_pages(request, is_cookie=is_cookie)
        return
    with pytest.raises(Problem) as refused:
        refuse_foreign_pages(request, is_cookie=is_cookie)
    assert ProblemType.CSRF is refused.value.kind


@pytest.mark.parametrize(
    ("origin", "is_kept"),
    [
        ("http://scores.example", False),
        ("http://10.0.0.1:8080", False),
        ("http://localhost.evil.example", False),
        ("https://scores.example", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("null", True),
        (None, True),
    ],
)
def test_where_a_browser_would_not_keep_the_session_the_page_says_so(
    origin: str | None, *, is_kept: bool
) -> None:
    """Only over plain HTTP, and not on this machine."""
    request = request_with(**({} if origin is None else {"Origin": origin}))
    if is_kept:
        refuse_plain_http(request)
        return
    with pytest.raises(Problem) as refused:
        refuse_plain_http(request)
    assert ProblemType.INSECURE_ORIGIN is refused.value.kind


def test_an_address_of_ours_is_over_tls_unless_it_is_here() -> None:
    """With the host's port, and whatever its path is."""
    assert [
        "https://scores.example:8443/a?b",
        "http://localhost:8080/",
        "http://127.0.0.1/",
        "http://[::1]:80/",
        "https://127.0.0.1.example/",
    ] == [
        address_at("scores.example:8443", "/a?b"),
        *(address_at(host, "/") for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "127.0.0.1.example")),
    ]
