"""The OpenAPI document: valid, complete, and true of the service that serves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from pydantic import SecretStr
from starlette.routing import Route

from app.kit.web.operations import Operation
from app.main import collect_declarations, create_app
from app.settings import Settings
from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.described import assert_answers_as_described, document_of, trials

UNDESCRIBED = {"/": "a page"}
SLASHES = re.compile(r":path\}")
PAGES = ("/ui", "/static")
KUBERNETES = re.compile(r"/api|/(api/v1|apis|openapi|version)(/.*)?")
"""Described by itself, at /openapi/v3, as Kubernetes' tools expect it."""
EVENTS = "/jobs/{job_id}/events"
STREAMS = {EVENTS, "/api/v2/video/changes"}
"""Without an end, or with none to wait for."""


@pytest.fixture(scope="session")
def described(service: Deployment) -> Any:
    return document_of(service.url)


@pytest.fixture(scope="module")
def finished(service: Deployment) -> Iterator[dict[str, Any]]:
    with Api(service.url) as api:
        yield api.convert(small_model(), pngs(3))


def test_the_document_is_valid(described: Any) -> None:
    described.validate()
    assert described.raw_schema["openapi"] == "3.1.0"
    ids = [o["operationId"] for path in described.raw_schema["paths"].values() for o in path.values()]
    assert len(ids) == len(set(ids))


def test_every_route_is_in_the_document_but_for_pages_and_signed_links(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, secret_key=SecretStr("x")))
    document = app.state.openapi()
    routes = [route for route in app.routes if isinstance(route, Route) and not is_elsewhere(route.path)]
    missing = {
        (method, route.path)
        for route in routes
        for method in route.methods or ()
        if method != "HEAD" and method.lower() not in document["paths"].get(SLASHES.sub("}", route.path), {})
    }
    app.state.container.sandbox.close()
    app.state.container.close()
    app.state.container.broker.close()
    assert {path for _, path in missing} == set(UNDESCRIBED)


def is_elsewhere(path: str) -> bool:
    return path.startswith(PAGES) or KUBERNETES.fullmatch(path) is not None


def needs_ray(operation: Operation) -> bool:
    """Those are tried in test_tasks_api, where there is a cluster."""
    return str(operation.endpoint.__module__).startswith("app.training.")


TRIED = [each for each in collect_declarations()[1] if not (needs_ray(each) or each.path in STREAMS)]


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "mode"), trials(TRIED))
def test_the_service_answers_what_the_document_says(
    described: Any, operation: Operation, mode: schemathesis.GenerationMode
) -> None:
    """To requests as described, and to others."""
    assert_answers_as_described(described, operation, mode)


READS = [
    "/jobs",
    "/jobs/{job_id}",
    "/jobs/{job_id}/artifacts",
    "/jobs/{job_id}/artifacts/{name}/link",
    "/jobs/{job_id}/logs/{step}",
    EVENTS,
    "/archive",
    "/archive/{job_id}",
    "/healthz",
    "/readyz",
]


def said_of(described: Any, path: str, method: str, answer: httpx.Response) -> None:
    """Does the document say so? Raises what it does not say."""
    described[path][method].validate_response(answer)


@pytest.mark.parametrize("path", READS)
def test_what_is_said_of_a_job_that_exists_is_as_described(
    described: Any, api: Api, finished: dict[str, Any], path: str
) -> None:
    answer = api.http.get(path.format(job_id=finished["job_id"], name="out.nef", step="bie"))
    assert answer.status_code == 200
    said_of(described, path, "GET", answer)


def test_every_file_of_a_job_has_a_type_that_is_described(described: Any, api: Api, finished: dict[str, Any]) -> None:
    path = "/jobs/{job_id}/artifacts/{name}"
    known = described.raw_schema["paths"][path]["get"]["responses"]
    for name in finished["artifacts"]:
        url = path.format(job_id=finished["job_id"], name=name)
        for status, headers in ((200, {}), (206, {"Range": "bytes=0-0"})):
            answer = api.http.get(url, headers=headers)
            assert answer.status_code == status
            assert answer.headers["content-type"].partition(";")[0] in known[str(status)]["content"]
    refused = api.http.get(url, headers={"Range": "bytes=99999999-"})
    said_of(described, path, "GET", refused)


def test_what_is_said_of_a_clip_that_is_too_long_is_as_described(described: Any, api: Api) -> None:
    path = "/api/v2/video/jobs/{job_uid}/clip"
    answer = api.http.get(path.format(job_uid="GLOBAL_ID_0.SUB_ID_0"), params={"since": "2000-01-01T00:00:00Z"})
    assert answer.status_code == 400
    assert "400" in described.raw_schema["paths"][path]["get"]["responses"]


def test_what_changes_a_job_answers_as_described(described: Any, api: Api) -> None:
    created = api.submit(small_model(), pngs(2))
    said_of(described, "/jobs", "POST", created)
    url, job = f"/jobs/{created.json()['job_id']}", "/jobs/{job_id}"
    steps = [
        ("DELETE", job, "", 409),
        ("POST", f"{job}/cancel", "/cancel", 200),
        ("POST", f"{job}/cancel", "/cancel", 409),
        ("DELETE", job, "", 204),
        ("GET", job, "", 404),
    ]
    for method, path, rest, status in steps:
        answer = api.http.request(method, url + rest)
        assert answer.status_code == status, answer.text
        said_of(described, path, method, answer)
