"""An operation is declared above its endpoint, and what any of its kind may refuse with is not said again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

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
