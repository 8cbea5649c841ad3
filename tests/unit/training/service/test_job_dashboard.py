"""How Ray is asked for the dashboard of a job: with the cluster's token, by GET, and never elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest

from app.training.errors import DashboardMissing, EnvironmentNotFound, RayUnreachable
from app.training.service import job_dashboard
from app.training.service.dashboards import Dashboard, Dashboards
from app.training.service.job_dashboard import JobDashboard
from tests.harness.http_server import respond, served

ATTEMPT: Any = SimpleNamespace(cluster="", submission_id="t--a01")
JOB = {"submission_id": "t--a01", "job_id": "02000000"}
TOKEN = "of-the-cluster"


async def no_log(_: int) -> bytes:
    raise AssertionError("the log is not read")


def data(dashboard: JobDashboard, path: str) -> Any:
    return json.loads(asyncio.run(dashboard.data(ATTEMPT, path, {}, [], no_log)).content)


def opened(address: str, token: str = TOKEN) -> JobDashboard:
    environments: Any = None
    return JobDashboard(Dashboards({"": Dashboard(address, lambda: token)}), environments)


def answered(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"{}", **headers: str) -> None:
    respond(handler, body, status, headers=headers)


def test_the_token_of_the_cluster_is_added_and_a_refused_one_is_said() -> None:
    seen = []

    def answering(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        seen.append((handler.command, handler.path, handler.headers["Authorization"]))
        accepted = handler.headers["Authorization"] == f"Bearer {TOKEN}"
        answered(handler, 200 if accepted else 401, json.dumps(JOB).encode())

    with served(answering) as address:
        assert data(opened(address), "api/jobs/") == [JOB]
        assert seen == [("GET", "/api/jobs/t--a01", f"Bearer {TOKEN}")]
        with pytest.raises(RayUnreachable, match="does not accept our token"):
            data(opened(address, "another"), "api/jobs/")


def test_a_job_that_its_head_has_forgotten_or_that_is_another_is_missing() -> None:
    for status, body in ((404, b"Job t--a01 does not exist"), (200, b'{"submission_id": "x--a01"}'), (200, b"[]")):
        with (
            served(lambda handler, _, status=status, body=body: answered(handler, status, body)) as address,
            pytest.raises(DashboardMissing),
        ):
            data(opened(address), "logical/actors")


def test_a_redirect_is_not_followed_and_nonsense_is_no_answer() -> None:
    paths = []

    def answering(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        paths.append(handler.path)
        if "jobs" in handler.path:
            answered(handler, 200, json.dumps(JOB).encode())
        elif "actors" in handler.path:
            answered(handler, 200, b'{"data": []}')
        else:
            answered(handler, 302, Location="/api/jobs/other")

    with served(answering) as address:
        with pytest.raises(RayUnreachable, match="status 302"):
            data(opened(address), "timezone")
        with pytest.raises(RayUnreachable, match="form that is not known"):
            data(opened(address), "logical/actors")
        assert data(opened(address), "api/data/datasets/02000000") == {"datasets": []}
    assert "/api/jobs/other" not in paths


def test_an_answer_of_many_rows_is_read_beside_the_loop_that_serves_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"data": {"result": {"result": [{"job_id": JOB["job_id"], "name": "a" * 200}] * 5000}}}
    documents, threads = {"jobs": JOB, "tasks": rows}, dict[str, threading.Thread]()

    def noted(name: str) -> Callable[..., Any]:
        function = getattr(job_dashboard, name)

        def call(*arguments: Any) -> Any:
            threads[name] = threading.current_thread()
            return function(*arguments)

        return call

    def answering(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        kind = "jobs" if "jobs" in handler.path else "tasks"
        answered(handler, 200, json.dumps(documents[kind]).encode())

    for name in ("read_json", "redact", "_encode"):
        monkeypatch.setattr(job_dashboard, name, noted(name))
    with served(answering) as address:
        answer = data(opened(address), "api/v0/tasks")
    assert len(answer["data"]["result"]["result"]) == 5000
    assert set(threads) == {"read_json", "redact", "_encode"}
    assert threading.main_thread() not in threads.values()


def test_what_is_no_json_is_said() -> None:
    with (
        served(lambda handler, _: answered(handler, 200, b"no JSON")) as address,
        pytest.raises(RayUnreachable, match="something else than JSON"),
    ):
        data(opened(address), "logical/actors")


def test_whose_environment_is_gone_has_secrets_that_are_not_known() -> None:
    def gone(_: str) -> Any:
        raise EnvironmentNotFound("gone")

    environments: Any = SimpleNamespace(get=gone)
    dashboard = JobDashboard(Dashboards(), environments)
    task: Any = SimpleNamespace(environment="nlp")
    plain: Any = SimpleNamespace(environment="")
    assert dashboard.hidden_variables(task) is None and dashboard.hidden_variables(plain) == []
