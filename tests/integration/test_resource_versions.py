"""GET answers a version of what can be changed; a change with If-Match is refused if it names another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.kit.lease import hold
from app.kit.web import resource_versions
from app.kit.web.idempotency import kept_answers_of
from app.main import create_app
from app.settings import Settings
from tests.harness.api import Api, pngs, small_model
from tests.harness.users import Within, within

OWN_VERSIONS = {"/api/v2/files"}
"""Its GET lists a folder; the version of a file is in its entry."""


@pytest.fixture
def web(settings: Settings) -> Iterator[Within]:
    with within(settings) as web:
        yield web


def if_match(answer: Any) -> dict[str, str]:
    return {"If-Match": answer.headers["etag"]}


def test_every_resource_that_one_path_reads_and_changes_has_a_version(settings: Settings) -> None:
    app = create_app(settings)
    paths = json.loads(json.dumps(app.state.openapi()))["paths"]
    app.state.container.sandbox.close()
    app.state.container.close()
    app.state.container.broker.close()
    checked = 0
    for path, operations in paths.items():
        answer = operations.get("get", {}).get("responses", {}).get("200", {})
        changes = operations.keys() & {"put", "patch", "delete"}
        if "application/json" not in answer.get("content", {}) or path in OWN_VERSIONS:
            continue
        for method in changes:
            sent = {each["name"] for each in operations[method]["parameters"] if each["in"] == "header"}
            assert "If-Match" in sent and "412" in operations[method]["responses"], f"{method} {path}"
            assert "ETag" in answer["headers"], path
            checked += 1
    assert checked > 15


def test_a_change_of_a_user_needs_the_version_that_it_names(web: Within) -> None:
    web.post("/api/v2/users", json={"name": "alice"})
    seen = web.get("/api/v2/users/alice")
    changed = web.request("PATCH", "/api/v2/users/alice", json={"quota_files": 7}, headers=if_match(seen))
    assert (changed.status_code, changed.json()["quota_files"]) == (200, 7), changed.text
    assert changed.headers["etag"] == web.get("/api/v2/users/alice").headers["etag"] != seen.headers["etag"]
    late = web.request("PATCH", "/api/v2/users/alice", json={"quota_files": 8}, headers=if_match(seen))
    assert (late.status_code, late.json()["error"]["code"]) == (412, "PRECONDITION_FAILED")
    assert web.get("/api/v2/users/alice").json()["quota_files"] == 7
    assert web.request("DELETE", "/api/v2/users/alice", headers=if_match(seen)).status_code == 412
    assert web.request("PATCH", "/api/v2/users/alice", json={"quota_files": 9}).status_code == 200
    assert (
        web.request("PATCH", "/api/v2/users/alice", json={"quota_files": 7}, headers={"If-Match": "*"}).status_code
        == 200
    )
    assert (
        web.request("PATCH", "/api/v2/users/bob", json={"quota_files": 7}, headers={"If-Match": "*"}).status_code == 412
    )


def test_a_node_is_deleted_only_as_it_was_seen(web: Within) -> None:
    web.post("/neptune/nodes", json={"name": "edge0", "side": "edge"})
    seen = web.get("/neptune/nodes/edge0")
    assert web.request("PUT", "/neptune/nodes/edge0/labels", json={"labels": {"site": "north"}}).status_code < 300
    assert web.request("DELETE", "/neptune/nodes/edge0", headers=if_match(seen)).status_code == 412
    current = web.get("/neptune/nodes/edge0")
    assert web.request("DELETE", "/neptune/nodes/edge0", headers=if_match(current)).status_code < 300


def test_of_two_changes_that_name_one_version_one_is_made(web: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_versions, "WAIT_S", 120.0)
    web.post("/api/v2/users", json={"name": "alice"})
    seen = if_match(web.get("/api/v2/users/alice"))
    with ThreadPoolExecutor(4) as pool:
        changes = [
            pool.submit(web.request, "PATCH", "/api/v2/users/alice", json={"quota_files": count}, headers=seen)
            for count in range(1, 5)
        ]
    made = [change.result() for change in changes if change.result().status_code == 200]
    assert [change.result().status_code for change in changes].count(412) == 3
    assert web.get("/api/v2/users/alice").json()["quota_files"] == made[0].json()["quota_files"]


@pytest.mark.parametrize("query", ["", "?cancel=true"])
def test_a_change_does_not_wait_forever_for_another(web: Within, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """Whatever the query of the change alone says, it is of the same resource."""
    monkeypatch.setattr(resource_versions, "WAIT_S", 0.0)
    web.post("/api/v2/users", json={"name": "alice"})
    user = "/api/v2/users/alice"
    with hold(kept_answers_of.held(web.app).lease(f"version:{user}?")) as is_ours:
        assert is_ours
        answer = web.request("DELETE", user + query, headers={"If-Match": "*"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "CHANGE_IN_PROGRESS")
    assert web.request("DELETE", user + query, headers={"If-Match": "*"}).status_code < 300


def test_the_version_of_a_job_is_of_what_its_owner_may_change(api: Api) -> None:
    job = f"/jobs/{api.convert(small_model(), pngs(2))['job_id']}"
    seen = api.http.get(job)
    assert api.http.patch(job, json={"name": "first"}, headers=if_match(seen)).status_code == 200
    assert api.http.patch(job, json={"name": "second"}, headers=if_match(seen)).status_code == 412
    assert api.http.delete(job, headers=if_match(seen)).status_code == 412
    assert api.http.delete(job, headers=if_match(api.http.get(job))).status_code == 204
