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

    @operations.post(path, "A thing", Thing, **details)
    def endpoint(_: Request) -> Response:
        return Response()

    (operation,) = operations
    assert set(operation.errors) == errors
    assert operation.endpoint is endpoint and operation.route().name == "endpoint"


def test_a_path_has_those_parameters_of_its_module_that_it_names() -> None:
    operations = Operations({"name": {"pattern": "a"}, "part": {"pattern": "b"}})
    paths = ["/things", "/things/{name}", "/things/{name}/{part}/{other}"]
    for path in paths:
        operations.get(path, "A thing", Thing, callers=("node",))(lambda _: Response())
    assert [list(operation.parameters) for operation in operations] == [[], ["name"], ["name", "part"]]
    assert [operation.path for operation in operations] == [
        "/things",
        "/things/{name}",
        "/things/{name}/{part}/{other}",
    ]
    assert all(operation.callers == ("node",) for operation in operations)


class Page(BaseModel):
    first: int = 0


def test_an_endpoint_is_given_the_parameters_of_its_path_a_body_and_a_query_by_its_signature() -> None:
    operations, deleted = Operations(), list[str]()

    @operations.put("/things/{name}", "A thing", Thing)
    def put_thing(_: Request, name: str, body: Thing, params: Page) -> Response:
        return Response(f"{name} {body.name} {params.first}")

    @operations.post("/things/{name}", "A thing", {201: Thing})
    async def post_thing(_: Request, name: str, body: Thing) -> Response:
        return Response(f"{name} {body.name}")

    @operations.delete("/things/{name}", "A thing")
    def delete_thing(_: Request, name: str) -> None:
        deleted.append(name)

    assert [(one.body, one.query) for one in operations] == [(Thing, Page), (Thing, None), (None, None)]
    assert operations[0].errors == (404, 400, 413, 422, 503)
    with TestClient(Starlette(routes=[operation.route() for operation in operations])) as client:
        assert client.put("/things/a?first=2", json={"name": "b"}).text == "a b 2"
        assert client.post("/things/a", json={"name": "b"}).text == "a b"
        assert client.delete("/things/a").status_code == 204
    assert deleted == ["a"]


def test_a_guard_refuses_before_the_body_is_read() -> None:
    operations = Operations()

    def refuse(_: Request) -> None:
        raise Forbidden("Not for you.")

    @operations.put("/things", "A thing", Thing, guard=refuse)
    def put_thing(_: Request, body: Thing) -> Response:
        return Response(body.name)

    routes = [operation.route() for operation in operations]
    with TestClient(Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)) as client:
        answer = client.put("/things", content=b"no JSON")
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, "Not for you.")
