"""What Ray's dashboard may show of one job: which of its requests pass, as what, and what is left of the answers. Pure.

Ray receives no path and no query of a browser: both are composed here, of ids that match a pattern and of the job's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.kit.text.json_values import JsonObject

REDACTED = "<redacted>"
MOST_ROWS = "10000"
LEAST_SECRET = 8
"""Characters: a shorter value would be redacted wherever its letters come by chance."""
MEDIA_TYPES = {
    "js": "text/javascript",
    "css": "text/css",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}
_STATIC = re.compile(rf"(?:static/(?:js|css|media)/[A-Za-z0-9._-]+|favicon)\.({'|'.join(MEDIA_TYPES)})")
_ID = re.compile(r"[0-9a-f]{8,64}")
_ENVIRONMENT = re.compile(r"runtime_?env|env_?vars", re.IGNORECASE)
_NODE_FIELDS = ("hostname", "ip", "cpu", "cpus", "mem", "bootTime")
_RAYLET_FIELDS = ("nodeId", "state", "isHeadNode", "nodeName", "resourcesTotal")
_OWN = {
    "api/authentication_mode": {"authentication_mode": "disabled"},
    "api/cluster_status": {"result": True, "data": {"clusterStatus": ""}},
    "api/grafana_health": {"result": False},
    "api/profiling_enabled": {"result": True, "data": {"profilingEnabled": False}},
    "api/prometheus_health": {"result": False},
    "api/v0/runtime_env_redaction": {"result": True, "data": {"redactionEnabled": True}},
}
"""Not part of this: the token is not the browser's, nothing is profiled, and the whole cluster is not shown."""


@dataclass(frozen=True)
class DashboardJob:
    """A job as Ray knows it now. Numbers of jobs begin anew with each head, so an older one may be somebody else's."""

    submission_id: str
    document: Mapping[str, Any]
    """As the job server describes it, redacted."""
    secrets: tuple[str, ...] = ()
    """Values that nothing shows."""

    @property
    def job_id(self) -> str:
        """Ray's number of it; "" as long as its program has not joined the cluster."""
        job_id = str(self.document.get("job_id") or "")
        return job_id if _ID.fullmatch(job_id) else ""


@dataclass(frozen=True)
class Forwarded:
    """What Ray is asked, and what of its answer is this job's."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    part: Callable[[Any, DashboardJob], Any] = lambda answer, _: answer
    """Of the parsed answer; None: it is of another job."""
    instead: Any = None
    """The answer if Ray has none; None: that is an error."""


def job_of(submission_id: str, document: Mapping[str, Any], hidden_variables: Iterable[str] | None) -> DashboardJob:
    """The job that the job server describes.

    Args:
        hidden_variables: environment variables whose values are secrets; None: they are not known, so all are.
    """
    runtime_env = document.get("runtime_env")
    variables = runtime_env.get("env_vars") if isinstance(runtime_env, dict) else None
    variables = variables if isinstance(variables, dict) else {}
    names = variables if hidden_variables is None else hidden_variables
    values = {str(variables[name]) for name in names if name in variables}
    lines = {line for value in values for line in (value, *value.splitlines())}
    secrets = tuple(sorted((line for line in lines if len(line) >= LEAST_SECRET), key=len, reverse=True))
    return DashboardJob(submission_id, redact(document, secrets), secrets)


def static_type(path: str) -> str | None:
    """The media type of a file of the dashboard; None: it is not a file."""
    if path == "":
        return "text/html"
    match = _STATIC.fullmatch(path)
    return MEDIA_TYPES[match.group(1)] if match and ".." not in path else None


def own_answer(path: str, job: DashboardJob) -> Any:
    """What is answered without asking Ray again; None: something else."""
    if path == "api/jobs/":
        return [job.document]
    if path in {f"api/jobs/{job.submission_id}", f"api/jobs/{job.job_id or job.submission_id}"}:
        return job.document
    return _OWN.get(path)


def driver_log_lines(path: str, query: Mapping[str, str], job: DashboardJob) -> int | None:
    """How many of the last lines of the job's own log are requested; None: something else."""
    if path != "api/v0/logs/file" or query.get("filename") != f"job-driver-{job.submission_id}.log":
        return None
    lines = query.get("lines", "")
    return int(lines) if lines.isascii() and lines.isdigit() and len(lines) <= len(MOST_ROWS) else int(MOST_ROWS)


def choose_request(path: str, query: Mapping[str, str], job: DashboardJob) -> Forwarded | None:
    """What Ray is asked for a request of the dashboard; None: that request does not pass."""
    if path in _OF_ALL_JOBS:
        return _OF_ALL_JOBS[path]
    if not job.job_id:
        return None
    of_job = {
        "api/v0/tasks": Forwarded(path, (*_make_rows(), *_make_task_filters(query, job)), _rows_of("job_id")),
        "api/v0/tasks/summarize": Forwarded(path, (*_filter("job_id", job.job_id), *_make_summary(query))),
        "api/v0/tasks/timeline": Forwarded(path, (("job_id", job.job_id),)),
        "api/v0/placement_groups": Forwarded(path, _make_rows(), _rows_of("creator_job_id")),
        "logical/actors": Forwarded(path, (), _select_actors),
        f"api/data/datasets/{job.job_id}": Forwarded(path, instead={"datasets": []}),
    }
    folder, _, actor_id = path.rpartition("/")
    if folder == "logical/actors" and _ID.fullmatch(actor_id):
        return Forwarded(path, (), _select_actor)
    return of_job.get(path)


def redact(value: Any, secrets: tuple[str, ...]) -> Any:
    """The same without values of environment variables, and without these secrets in any text."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, Mapping):
        return {
            key: _list_names(each) if _ENVIRONMENT.search(str(key)) else redact(each, secrets)
            for key, each in value.items()
        }
    return [redact(each, secrets) for each in value] if isinstance(value, list) else value


def _list_names(environment: Any) -> Any:
    """Which variables there are."""
    if not isinstance(environment, Mapping):
        return REDACTED if environment else environment
    variables = environment.get("env_vars")
    return {"env_vars": dict.fromkeys(variables, REDACTED)} if isinstance(variables, Mapping) else {}


def _make_rows() -> tuple[tuple[str, str], ...]:
    return (("detail", "1"), ("limit", MOST_ROWS))


def _filter(key: str, value: str) -> tuple[tuple[str, str], ...]:
    return (("filter_keys", key), ("filter_predicates", "="), ("filter_values", value))


def _make_task_filters(query: Mapping[str, str], job: DashboardJob) -> tuple[tuple[str, str], ...]:
    task_id = query.get("filter_values", "")
    is_one = query.get("filter_keys") == "task_id" and _ID.fullmatch(task_id)
    return (*_filter("job_id", job.job_id), *(_filter("task_id", task_id) if is_one else ()))


def _make_summary(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return (("summary_by", "lineage"),) if query.get("summary_by") == "lineage" else ()


def _rows_of(field: str) -> Callable[[Any, DashboardJob], Any]:
    """Of a list of Ray's state API: the rows of the job by this field."""

    def rows(answer: Any, job: DashboardJob) -> Any:
        inner = answer["data"]["result"]
        own = [row for row in inner["result"] if row.get(field) == job.job_id]
        counts = {"total": len(own), "num_after_truncation": len(own), "num_filtered": len(own)}
        return {**answer, "data": {**answer["data"], "result": {**inner, **counts, "result": own}}}

    return rows


def _select_actors(answer: Any, job: DashboardJob) -> Any:
    actors = {
        key: _select_own_actor(each) for key, each in answer["data"]["actors"].items() if each["jobId"] == job.job_id
    }
    return {**answer, "data": {"actors": actors}}


def _select_actor(answer: Any, job: DashboardJob) -> Any:
    detail = answer["data"]["detail"]
    return {**answer, "data": {"detail": _select_own_actor(detail)}} if detail["jobId"] == job.job_id else None


def _select_own_actor(actor: Mapping[str, Any]) -> JsonObject:
    """Its GPUs may have processes of others, too."""
    return {**actor, "gpus": [_remove_processes(gpu) for gpu in actor.get("gpus") or []]}


def _select_nodes(answer: Any, _: DashboardJob) -> Any:
    """The machines, and nothing of what runs there."""
    return {**answer, "data": {"summary": [_select_node(node) for node in answer["data"]["summary"]]}}


def _select_node(node: Mapping[str, Any]) -> JsonObject:
    raylet = node.get("raylet") or {}
    return {
        **{name: node[name] for name in _NODE_FIELDS if name in node},
        "raylet": {name: raylet[name] for name in _RAYLET_FIELDS if name in raylet},
        "gpus": [_remove_processes(gpu) for gpu in node.get("gpus") or []],
        "tpus": [],
        "workers": [],
    }


def _remove_processes(gpu: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in gpu.items() if name != "processesPids"}


_OF_ALL_JOBS = {"timezone": Forwarded("timezone"), "nodes": Forwarded("nodes", (("view", "summary"),), _select_nodes)}
