"""Traces of real processes, received as a collector receives them (OTLP over HTTP)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.http_server import respond, served
from tests.harness.operations import logged
from tests.harness.paths import REPOSITORY
from tests.harness.until import until

pytestmark = pytest.mark.slow
STAGES = ("onnx", "bie", "nef")
OURS = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "opentelemetry.trace.propagation.tracecontext")
"""The Redis client imports more of it, for figures of its own, whenever it is installed."""
PARTS = ("fetch inputs", "toolchain", "upload")
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass(frozen=True)
class Span:
    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ns: int
    end_ns: int
    attributes: dict[str, Any]


class Collector:
    """Keeps what is exported to it."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.url = ""

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.take(ExportTraceServiceRequest.FromString(body))
        respond(request)

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [
                    Span(
                        s.name,
                        service,
                        s.trace_id.hex(),
                        s.span_id.hex(),
                        s.parent_span_id.hex(),
                        s.start_time_unix_nano,
                        s.end_time_unix_nano,
                        _attributes(s.attributes),
                    )
                    for s in scope.spans
                ]

    def of_trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id == trace_id]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    with served(made.answer) as made.url:
        yield made


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Deployment]:
    """One worker has all queues: these are programs, and no copies, for two seconds of the processor each."""
    with Deployment(tmp_path_factory.mktemp("traced"), log_format="json") as deployment:
        deployment.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        deployment.start([DRAMATIQ, "actors", "--queues", *STAGES, "done", "--processes", "1", "--threads", "1"])
        deployment.web()
        yield deployment


def test_a_job_is_one_trace_from_its_submission_to_its_end(traced: Deployment, collector: Collector) -> None:
    with Api(traced.url) as api:
        stored = api.upload(small_model(), pngs(3))
        body = {key: stored[key] for key in ("model_key", "quant_key")}
        job_id = api.http.post("/jobs", json=body, headers={"traceparent": GIVEN}).json()["job_id"]
        api.wait(job_id, lambda job: job["status"] == "COMPLETED")
    trace_id, caller = GIVEN.split("-")[1:3]
    spans = until(lambda: collector.of_trace(trace_id), _is_whole)
    by_name = {span.name: span for span in spans}

    web = by_name["POST /jobs"]
    assert (web.parent_id, web.service) == (caller, "modelmill-web")
    assert web.attributes["http.response.status_code"] == 201
    assert web.attributes["modelmill.job_id"] == job_id
    sender = web
    ends = sorted((span for span in spans if span.name == "done"), key=lambda span: span.begin_ns)
    for step, end in zip(STAGES, ends, strict=True):
        stage, wait = by_name[f"stage {step}"], by_name[f"wait {step}"]
        assert {stage.parent_id, wait.parent_id} == {sender.span_id}
        assert wait.begin_ns <= wait.end_ns <= stage.end_ns
        assert stage.attributes["modelmill.worker"].endswith(f"/{step}/0")
        inside = [span for span in spans if span.parent_id == stage.span_id]
        assert [s.name for s in sorted(inside, key=lambda s: s.begin_ns) if s.name in PARTS] == list(PARTS)
        assert all(stage.begin_ns <= s.begin_ns <= s.end_ns <= stage.end_ns for s in inside if s.name in PARTS)
        assert end.parent_id == stage.span_id
        assert end.attributes["modelmill.stage"] == step
        sender = end
    assert sender.attributes["modelmill.job_status"] == "COMPLETED"
    of_job = [span for span in spans if span.name.split()[0] in ("stage", "wait", "done")]
    assert len(of_job) == 3 * 4
    assert {span.attributes["modelmill.job_id"] for span in of_job} == {job_id}
    assert {span.service for span in of_job} == {"modelmill-worker"}


def _is_whole(spans: list[Span]) -> bool:
    """Has every process told its part? Each sends when it likes."""
    names = Counter(span.name for span in spans)
    stages = [f"{part} {step}" for part in ("wait", "stage") for step in STAGES]
    return names["done"] == len(STAGES) and all(names[name] for name in ("POST /jobs", *stages))


def test_a_request_without_a_trace_begins_its_own_and_the_logs_name_it(
    traced: Deployment, collector: Collector
) -> None:
    with Api(traced.url) as api:
        for path in ("/healthz", "/readyz", "/metrics", "/jobs/no-such-job"):
            api.http.get(path)
    spans = until(lambda: [s for s in collector.spans if s.attributes.get("url.path") == "/jobs/no-such-job"])
    assert [(span.name, span.parent_id) for span in spans] == [("GET /jobs/{job_id}", "")]
    assert not [span.name for span in collector.spans if any(p in span.name for p in ("healthz", "readyz", "metrics"))]
    lines = [line for line in logged(traced) if line.get("trace_id") == spans[0].trace_id]
    assert [line["status"] for line in lines] == [404]


UNASKED = (
    {},
    {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
    {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
)
ASKED = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
TOLD = f"print(json.dumps(sorted(name for name in sys.modules if name.startswith({OURS}))), flush=True)\n"
OF_THE_WEB = f"""
import json, os, sys
from app.main import create_app
for wanted in {(*UNASKED, ASKED)}:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    os.environ.update(wanted)
    create_app().state.container.close()
    {TOLD}
"""
OF_A_WORKER = f"import json, sys, actors\n{TOLD}"


def test_unless_otel_is_asked_for_the_web_imports_nothing_that_traces(tmp_path: Path) -> None:
    *unasked, traced = _printed(OF_THE_WEB, tmp_path)
    assert unasked == [[]] * len(UNASKED)
    assert "opentelemetry.sdk.trace" in traced


@pytest.mark.exhaustive  # by the same condition as in the web
def test_unless_otel_is_asked_for_a_worker_imports_nothing_that_traces(tmp_path: Path) -> None:
    for module in UNASKED:
        assert _printed(OF_A_WORKER, tmp_path, **module) == [[]]
    [traced] = _printed(OF_A_WORKER, tmp_path, **ASKED)
    assert "opentelemetry.sdk.trace" in traced


def _printed(code: str, folder: Path, **otel: str) -> list[list[str]]:
    env = {"PATH": "/usr/bin:/bin", "MODELMILL_DATA_DIR": str(folder), **otel}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=env, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_when_traces_are_wanted_and_the_extra_is_missing_the_log_says_what_to_do(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import actors"
    env = {"PATH": "/usr/bin:/bin", "MODELMILL_DATA_DIR": str(tmp_path), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=env, capture_output=True, check=True)
    assert b"pip install 'modelmill[otel]'" in done.stderr
