"""What of Ray's dashboard passes for one job, and what is left of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from app.training.model.ray_dashboard import (
    REDACTED,
    choose_request,
    driver_log_lines,
    job_of,
    own_answer,
    redact,
    static_type,
)

OURS, THEIRS = "02000000", "03000000"
SECRET = "hf_abcdefgh"
DOCUMENT = {
    "submission_id": "t--a01",
    "job_id": OURS,
    "message": f"it failed with {SECRET}",
    "runtime_env": {"env_vars": {"HF_TOKEN": SECRET, "FOLDER": "/homes/alice"}, "pip": ["--index-url=https://u:p@x"]},
}
JOB = job_of("t--a01", DOCUMENT, ["HF_TOKEN"])


@pytest.mark.parametrize(
    "path",
    [
        "api/jobs/other--a01",
        f"api/jobs/{THEIRS}",
        "api/jobs/t--a01/logs",
        "api/jobs/t--a01/logs/tail",
        "api/jobs/t--a01/stop",
        "api/packages/gcs/x.zip",
        "api/component_activities",
        "api/serve/applications/",
        "api/v0/actors",
        "api/v0/jobs",
        "api/v0/logs",
        "api/v0/objects",
        "api/v0/runtime_envs",
        "api/v0/workers",
        f"api/data/datasets/{THEIRS}",
        "events",
        "nodes/" + "a" * 56,
        "logical/actors/../../api/jobs",
        "logical/actors/..",
        "memory_profile",
        "test/dump",
        "worker/traceback",
        "../api/jobs/",
        "/api/jobs/",
        "static/js/../../api/jobs/",
        "static/js/..js",
        "static/js/main.js.map",
        "static/../api/jobs/",
        "speedscope-1.5.3/index.html",
    ],
)
def test_what_is_not_of_this_job_does_not_pass(path: str) -> None:
    assert static_type(path) is None and own_answer(path, JOB) is None and choose_request(path, {}, JOB) is None


def test_the_list_of_jobs_is_this_one_without_its_secrets() -> None:
    [document] = own_answer("api/jobs/", JOB)
    assert own_answer(f"api/jobs/{OURS}", JOB) == own_answer("api/jobs/t--a01", JOB) == document
    assert document["runtime_env"] == {"env_vars": {"HF_TOKEN": REDACTED, "FOLDER": REDACTED}}
    assert document["message"] == f"it failed with {REDACTED}"


def test_without_its_environment_every_value_is_secret() -> None:
    job = job_of("t--a01", {**DOCUMENT, "message": "in /homes/alice"}, None)
    assert job.document["message"] == f"in {REDACTED}"
    assert job_of("t--a01", {**DOCUMENT, "message": "in /homes/alice"}, []).document["message"] == "in /homes/alice"


def test_environments_in_any_form_keep_no_values() -> None:
    given = {
        "runtimeEnv": '{"env_vars": {"A": "x"}}',
        "serialized_runtime_env": "{}",
        "tasks": [{"runtime_env_info": {"serialized_runtime_env": '{"env_vars": {}}'}}, {"error_message": SECRET}],
    }
    assert redact(given, JOB.secrets) == {
        "runtimeEnv": REDACTED,
        "serialized_runtime_env": REDACTED,
        "tasks": [{"runtime_env_info": {}}, {"error_message": REDACTED}],
    }


def test_rows_and_actors_of_other_jobs_are_left_out() -> None:
    rows = [{"job_id": OURS, "name": "a"}, {"job_id": THEIRS, "name": "b"}]
    request = choose_request("api/v0/tasks", {"filter_keys": "job_id", "filter_values": THEIRS}, JOB)
    assert request is not None and ("filter_values", THEIRS) not in request.query
    part = request.part({"data": {"result": {"total": 2, "result": rows}}}, JOB)
    assert part["data"]["result"]["result"] == rows[:1] and part["data"]["result"]["total"] == 1
    actors: dict[str, Any] = {"a1": {"jobId": OURS, "gpus": [{"uuid": "g", "processesPids": [{"pid": 7}]}]}}
    every = choose_request("logical/actors", {}, JOB)
    assert every is not None
    kept = every.part({"data": {"actors": {**actors, "b2": {"jobId": THEIRS}}}}, JOB)
    assert kept["data"]["actors"] == {"a1": {"jobId": OURS, "gpus": [{"uuid": "g"}]}}
    one = choose_request("logical/actors/" + "b2" * 16, {}, JOB)
    assert one is not None and one.part({"data": {"detail": {"jobId": THEIRS}}}, JOB) is None


def test_nodes_tell_nothing_of_what_runs_on_them() -> None:
    request = choose_request("nodes", {"view": "details"}, JOB)
    assert request is not None and request.query == (("view", "summary"),)
    node = {"hostname": "n", "cmdline": ["ray"], "workers": [{"cmdline": ["bob"]}], "raylet": {"nodeId": "a", "x": 1}}
    [kept] = request.part({"data": {"summary": [node]}}, JOB)["data"]["summary"]
    assert kept == {"hostname": "n", "raylet": {"nodeId": "a"}, "gpus": [], "tpus": [], "workers": []}


def test_one_task_is_named_by_its_number_alone() -> None:
    for value, count in (("a" * 48, 2), ("x' or 1", 1)):
        request = choose_request("api/v0/tasks", {"filter_keys": "task_id", "filter_values": value}, JOB)
        assert request is not None
        assert [name for name, _ in request.query].count("filter_keys") == count


def test_the_log_is_the_jobs_own() -> None:
    own = {"filename": "job-driver-t--a01.log", "lines": "50"}
    assert driver_log_lines("api/v0/logs/file", own, JOB) == 50
    assert driver_log_lines("api/v0/logs/file", {**own, "lines": "-1"}, JOB) == 10000
    for other in ({**own, "filename": "job-driver-x--a01.log"}, {"task_id": "a" * 48}, {}):
        assert driver_log_lines("api/v0/logs/file", other, JOB) is None


def test_a_job_that_has_not_joined_the_cluster_has_nothing_more() -> None:
    job = job_of("t--a01", {"submission_id": "t--a01", "job_id": None}, [])
    assert choose_request("api/v0/tasks", {}, job) is None and choose_request("logical/actors", {}, job) is None
    assert own_answer("api/jobs/", job) == [job.document]
