"""The interface's description: complete, resolvable, and true of what the edge answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.edge.docs import openapi
from gateway.edge.docs.sections import sections_of
from gateway.edge.problems import PROBLEM_BASE, ProblemType
from gateway.edge.routes import ROUTES, Caller
from tests.support.harness import Harness

DOCUMENT = openapi.describe(ROUTES)
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every object of the document."""
    if isinstance(node, dict):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(each)


def target(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


async def test_the_document_is_served_as_it_is_generated(harness: Harness):
    """`/openapi.json` is that document, as JSON."""
    answer = await harness.get("/openapi.json")
    assert (200, "application/json", DOCUMENT) == (answer.status, answer.headers["Content-Type"], answer.body)


def test_it_is_openapi_3_1():
    """The members that OpenAPI 3.1 requires are there, and no others at the top."""
    assert re.fullmatch(r"3\.1\.\d", DOCUMENT["openapi"])
    assert {"title", "version"} <= set(DOCUMENT["info"])
    assert set(DOCUMENT) <= {
        "openapi",
        "info",
        "paths",
        "components",
        "servers",
        "tags",
        "security",
        "jsonSchemaDialect",
    }
    for operation in OPERATIONS.values():
        assert operation["responses"]
        assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"])
        assert all(response["description"] for response in operation["responses"].values())


def test_every_reference_resolves():
    """No `$ref` points to nothing, and no schema lies there unused."""
    references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}
    assert references
    assert all(target(reference) for reference in references)
    assert {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]} == references


def test_every_route_is_an_operation():
    """One operation for each row of the table, under a name of its own."""
    assert {(route.method, route.path) for route in ROUTES} == set(OPERATIONS)
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert sorted(set(names)) == sorted(names)


def test_every_parameter_of_a_path_is_declared():
    """The braces of a path are its path parameters, each required and described."""
    for (_, path), operation in OPERATIONS.items():
        declared = {each["name"]: each for each in operation["parameters"] if each["in"] == "path"}
        assert set(re.findall(r"{(\w+)}", path)) == set(declared)
        assert all(
            each["required"] and each["description"]
            for each in operation["parameters"]
            if each["in"] == "path"
        )


def test_every_caller_has_its_security_scheme():
    """Whoever must prove something finds how in the schemes."""
    schemes = DOCUMENT["components"]["securitySchemes"]
    for route in ROUTES:
        security = OPERATIONS[(route.method, route.path)].get("security", [])
        assert (route.caller is Caller.ANYONE) == (security == [])
        assert all(name in schemes for each in security for name in each)


NOT_OF_A_ROUTE = {ProblemType.METHOD_NOT_ALLOWED, ProblemType.ASSET_MISSING}
"""What is only answered where no route is, or within the outcome of one operation of many."""


@pytest.mark.parametrize("kind", ProblemType)
def test_every_problem_is_documented(kind: ProblemType):
    """Each type is in the problem's enumeration, and among the answers of a route that gives it."""
    assert (
        PROBLEM_BASE + kind.slug in DOCUMENT["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    )
    told = [
        response["description"]
        for operation in OPERATIONS.values()
        for status, response in operation["responses"].items()
        if status == str(kind.status)
    ]
    assert any(f"`{kind.slug}`" in each for each in told) == (kind not in NOT_OF_A_ROUTE)


def test_problem_names_and_statuses_are_distinct_and_stable():
    """A name says one thing; these are part of the interface, and change with its version alone."""
    assert len(ProblemType) == len({kind.slug for kind in ProblemType})
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.slug) for kind in ProblemType)
    public = {"signature-invalid": 401, "run-already-submitted": 409, "nonce-reused": 401, "misdirected": 421}
    public |= {
        "quota-exceeded": 429,
        "bounds-violation": 422,
        "temporary-reduced-capacity": 503,
        "self-approval": 403,
    }
    assert public.items() <= {kind.slug: kind.status for kind in ProblemType}.items()


async def test_the_reference_page_has_every_operation(harness: Harness):
    """`/docs` leads to where each method and path is described, and may run nothing that is not ours."""
    answer = await harness.get("/docs")
    page = answer.raw.decode()
    assert 200 == answer.status
    places = dict(re.findall(r'href="(/docs/routes-[a-z-]+)#(\w+)"', page)[::-1])
    described = {where: (await harness.get(where)).raw.decode() for where in places}
    for (method, path), operation in OPERATIONS.items():
        where = re.search(rf'href="(/docs/routes-[a-z-]+)#{operation["operationId"]}"', page)[1]
        assert f'id="{operation["operationId"]}"' in described[where]
        assert path in page
        assert method in page
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "nosniff" == answer.headers["X-Content-Type-Options"]


@pytest.mark.parametrize(
    ("method", "path", "title"),
    [
        ("POST", "/v1/players", "Play"),
        ("POST", "/v1/boards/{board}/scores", "Play"),
        ("POST", "/v1/boards/{board}/entries", "Trusted servers"),
        ("GET", "/v1/boards/{board}/entries", "Boards"),
        ("GET", "/v1/moderation/queue", "Moderation"),
        ("GET", "/v1/moderation/batches", "Moderation"),
        ("GET", "/v1/moderation/people", "Moderators"),
        ("POST", "/v1/moderation/session", "Moderators"),
        ("GET", "/v1/moderation/players", "Moderated players"),
        ("GET", "/readyz", "Operation"),
    ],
)
def test_a_route_is_in_the_section_of_who_calls_it(method: str, path: str, title: str):
    """And in no other."""
    titles = [
        section.title
        for section in sections_of(ROUTES)
        if (method, path) in {(route.method, route.path) for route in section.routes}
    ]
    assert [title] == titles


async def test_a_method_that_a_path_has_not_is_told_which_it_has(harness: Harness):
    """405 names the allowed methods; an unknown path is 404."""
    async with harness.session.delete(f"{harness.url}/v1/boards/vault/scores") as response:
        assert (405, "OPTIONS,POST") == (response.status, response.headers["Allow"])
        assert "application/problem+json" == response.headers["Content-Type"]
    assert (404, "not-found") == ((answer := await harness.get("/v2/boards")).status, answer.problem)


async def test_answers_match_their_schemas(harness: Harness):
    """What the readers answer has exactly the members that the document says."""
    for path, route in {
        "/v1/boards": "/v1/boards",
        "/v1/boards/vault": "/v1/boards/{board}",
        "/readyz": "/readyz",
    }.items():
        reference = OPERATIONS[("GET", route)]["responses"]["200"]["content"]["application/json"]["schema"][
            "$ref"
        ]
        assert set(target(reference)["properties"]) == set((await harness.get(path)).body)


def test_an_operation_says_what_it_takes_and_gives():
    """Bodies by their media types, preconditions, numbers as numbers; and its answer in the words of what it does."""
    for route in ROUTES:
        operation = OPERATIONS[(route.method, route.path)]
        content = operation.get("requestBody", {"required": True, "content": {}})
        kinds = {"application/octet-stream"} if route.takes_octets else set()
        kinds |= {"application/json"} if route.body else set()
        kinds |= {"application/x-ndjson"} if route.path.endswith("batch") else set()
        assert (True, kinds) == (content["required"], set(content["content"])), route.path
        success = operation["responses"][str(route.status)]
        assert (route.handler.__doc__ or "").splitlines()[0] == success["description"]
        given = {"application/octet-stream"} if route.gives_octets else set()
        given |= {"application/json"} if route.answer else set()
        assert given == set(success.get("content", {}))
        needed = {each["name"] for each in operation["parameters"] if each["required"]}
        expected = {*re.findall(r"{(\w+)}", route.path), *(["If-Match"] if route.is_conditional else [])}
        assert expected == needed
        numbers = {each["name"] for each in operation["parameters"] if each["schema"]["type"] == "integer"}
        assert {"offset", "limit", "radius", "bins", "min_age_s", "max_age_s"} & set(route.query) == numbers
        common = {"422", "429"} if route.method == "GET" else set()
        assert {"400", "417", "421", "431", "500"} | common <= operation["responses"].keys()


def test_a_precondition_is_told_of_every_route_that_refuses_who_sends_none():
    """And of no other: who generates a client from the document would not get it to send one."""
    required = [route.path for route in ROUTES if ProblemType.PRECONDITION_REQUIRED in route.problems]
    assert required == [route.path for route in ROUTES if route.is_conditional]
    assert len(required) > 8


def test_where_a_list_goes_on_is_said_by_the_field_that_its_pages_have():
    """`after` takes the `next` of a page."""
    lists = [route for route in ROUTES if "after" in route.query and route.answer]
    assert 2 == len(lists)
    for route in lists:
        [after] = [
            each for each in OPERATIONS[(route.method, route.path)]["parameters"] if each["name"] == "after"
        ]
        assert route.answer is not None
        assert "next" in route.answer.model_fields, route.path
        assert "`next`" in after["description"], route.path


def test_who_may_call_is_said_by_the_scheme_of_their_credential():
    """A player's and a moderator's token are two, and so are the signatures of runs and of servers."""
    schemes = {
        Caller.ANYONE: [],
        Caller.PLAYER: [{"playerToken": []}],
        Caller.MODERATOR: [{"moderatorToken": []}, {"moderatorSession": []}],
        Caller.ACCOUNT: [{"moderatorToken": []}, {"moderatorSession": []}],
        Caller.RUN: [{"runSignature": []}],
        Caller.SERVER: [{"serverSignature": []}],
    }
    assert [schemes[route.caller] for route in ROUTES] == [
        OPERATIONS[(route.method, route.path)].get("security", []) for route in ROUTES
    ]


async def test_each_problem_has_a_place_that_can_be_linked(harness: Harness):
    """`/docs/problems#<its name>` is the row that describes it."""
    page = (await harness.get("/docs/problems")).raw.decode()
    assert sorted(kind.slug for kind in ProblemType) == sorted(re.findall(r'<tr id="([a-z-]+)">', page))
    assert len(set(ids := re.findall(r' id="([^"]+)"', page))) == len(ids)
