"""An operation is declared above its endpoint, and what any of its kind may refuse with is not said again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from app.kit.errors import Forbidden
from app.kit.web.http import EXCEPTION_HANDLERS
from app.kit.web.operations import Operations


class Thing(BaseModel):
    name: str = ""


@pytest.mark.parametrize(
    ("path", "details", "errors"),
    [
        ("/things", {}, {503}),
        ("/things/{name}", {}, {404, 503}),
        ("/things/{name:path}", {"more_errors": (409,)}, {404, 409, 503}),
        ("/things", {"query": Thing}, {422, 503}),
        ("/things", {"body": Thing}, {400, 413, 422, 503}),
        ("/things/{name}", {"body": Thing, "errors": (418,)}, {418}),
        ("/things", {"errors": ()}, set()),
    ],
)
def test_an_operation_may_refuse_as_those_of_its_kind(path: str, details: dict[str, Any], errors: set[int]) -> None:
    operations = Operations()

    @operations.add("POST", path, "A thing", {200: Thing}, **details)
    def endpoint(_: Request) -> Response:
        return Response()

    (operation,) = operations
    assert set(operation.errors) == errors
    assert operation.endpoint is endpoint and operation.route().name == "endpoint"


def test_a_path_has_those_parameters_of_its_module_that_it_names() -> None:
    operations = Operations({"name": {"pattern": "a"}, "part": {"pattern": "b"}})
    paths = ["/things", "/things/{name}", "/things/{name}/{part}/{other}"]
    for path in paths:
        operations.add("GET", path, "A thing", {200: Thing}, callers=("node",))(lambda _: Response())
    assert [list(operation.parameters) for operation in operations] == [[], ["name"], ["name", "part"]]
    assert [operation.path for operation in operations] == [
        "/things",
        "/things/{name}",
        "/things/{name}/{part}/{other}",
    ]
    assert all(operation.callers == ("node",) for operation in operations)


class Page(BaseModel):
    first: int = 0


def test_an_endpoint_is_given_the_body_and_the_query_that_its_operation_declares() -> None:
    operations = Operations()

    @operations.add("PUT", "/things/{name}", "A thing", {200: Thing}, body=Thing, query=Page)
    def put_thing(request: Request, body: Thing, params: Page) -> Response:
        return Response(f"{request.path_params['name']} {body.name} {params.first}")

    with TestClient(Starlette(routes=[operation.route() for operation in operations])) as client:
        assert client.put("/things/a?first=2", json={"name": "b"}).text == "a b 2"


def test_a_guard_refuses_before_the_body_is_read() -> None:
    operations = Operations()

    def refuse(_: Request) -> None:
        raise Forbidden("Not for you.")

    @operations.add("PUT", "/things", "A thing", {200: Thing}, body=Thing, guard=refuse)
    def put_thing(_: Request, body: Thing) -> Response:
        return Response(body.name)

    routes = [operation.route() for operation in operations]
    with TestClient(Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)) as client:
        answer = client.put("/things", content=b"no JSON")
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, "Not for you.")
