"""Two users, every route: what is another's looks like what does not exist, byte for byte but for the id asked for.

A route that this module does not know fails, so a new one has to say here whose things it shows.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.routing import Mount, Route, WebSocketRoute

from app.bootstrap.container import assemble
from app.kit.clock import now
from app.main import create_app
from app.settings import Settings
from tests.harness.api import has_ended, npz, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.joint.deployment import resource
from tests.harness.training.scheduler import SCRIPT
from tests.harness.users import OURS, Person
from tests.harness.video.records import running_video

UNKNOWN = "00000000-0000-4000-8000-000000000000"
UNKNOWN_VIDEO = "GLOBAL_ID_999.SUB_ID_1"
UNKNOWN_TOKEN = "f" * 12
UNKNOWN_TARGET = "e" * 32
UNKNOWN_SHARE = "d" * 32
UNKNOWN_SWEEP = "c" * 32
UNKNOWN_DELIVERY = f"msg_{'b' * 32}"
UNKNOWN_CALIBRATION = "12345678-1234-4234-8234-123456789abc"
UNKNOWN_TASK = "mvp2-alice-script-20260101-000000-0000"
HOME = "/private/users"
K8S, SEDNA, JIS = "/apis/neptune.io/v1alpha1", "/apis/sedna.io/v1alpha1", "jointinferenceservices"
MARK = "Alices-secret-net"
TUS = {"Tus-Resumable": "1.0.0"}
PART = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
FIELD = f"field {base64.b64encode(b'images').decode()}"

OPEN = {
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/static",
    "/objects/{key:path}",
    "/ui/lang",
    "/ui/login",
    "/ui/logout",
    "/ui/shared/{share_id}",
    "/shared/{share_id}/files/{name}",
    "/device-results/{job_id}",
    "/receipts/key",
}
"""Show nothing of anybody, or ask for a signature of their own."""
COMMON = {
    "/",
    "/ui",
    "/ui/netron",
    "/uploads/resumable",
    "/ui/api",
    "/ui/demonstrations",
    "/ui/demonstrations/live",
    "/ui/demonstrations/{name}/start",
    "/ui/demonstrations/{name}/stop",
    "/api/v2/demonstrations",
    "/ui/data/common",
    "/ui/data/common/{path:path}",
    "/version",
    "/api",
    "/api/v1",
    "/api/v1/namespaces",
    "/api/v1/namespaces/{namespace}",
    "/api/v1/namespaces/{namespace}/events",
    "/apis",
    "/apis/neptune.io",
    K8S,
    "/apis/sedna.io",
    SEDNA,
    "/openapi/v2",
    "/openapi/v3",
    f"/openapi/v3{K8S}",
    f"/openapi/v3{SEDNA}",
    "/apis/{rest:path}",
}
"""The same for all who are signed in."""
NODES = re.compile(r"/neptune/nodes|/ui/nodes")
"""The installation's: seen by those who may use them (see test_node_access), an administrator adds them and sees their
work."""
LINK = "/neptune/link/"
"""A node's own: users have no business there, and a node none elsewhere but where it reports of services."""
VIDEO = "/api/v2/video"
SHARED = {
    "GET /api/v2/task-environments",
    "PUT /api/v2/task-environments/{environment}",
    "DELETE /api/v2/task-environments/{environment}",
    f"GET {VIDEO}/nodes",
    f"GET {VIDEO}/kinds",
    f"GET {VIDEO}/policies",
    f"GET {VIDEO}/stages",
    f"GET {VIDEO}/profile",
    f"PUT {VIDEO}/stages/{{name}}",
    f"GET {VIDEO}/stages/{{name}}/access",
    f"PUT {VIDEO}/stages/{{name}}/access",
    f"DELETE {VIDEO}/stages/{{name}}",
    "GET /get_service_list",
    "GET /get_execute_url/{stage}",
    "GET /get_resource_info",
    "GET /get_cluster_info",
    "POST /service/{stage}",
    "POST /execute_task/{stage}",
    "POST /node/update_status",
    f"GET {VIDEO}/changes",
    "GET /ui/video/events",
    "GET /ui/tasks/events",
    "GET /ui/jobs/events",
    "GET /ui/demonstrations/events",
    "GET /ui/cluster/events",
    "GET /ui/services/events",
    "GET /ui/node-events",
    "GET /ui/video/stages",
    "POST /ui/video/stages",
    "POST /ui/video/stages/measure",
    "GET /ui/video/stages/{name}/remove",
    "POST /ui/video/stages/{name}/remove",
}
"""Of video, the installation's: nodes, stages and what they take. An administrator changes them. Changes are a stream
without an end: that it tells of one's own is seen in test_video_api. The streams of pages say only that something
changed."""
LISTS = {
    "/jobs",
    "/ui/jobs",
    "/ui/jobs/live",
    "/ui/jobs/running",
    "/ui/jobs/completions",
    "/ui/search",
    "/ui/search/results",
    "/results",
    "/ui/results",
    "/archive",
    "/ui/archive",
    "/system",
    "/ui/system",
    "/ui/system/state",
    "/api/v2/me",
    "/api/v2/me/tokens",
    "/ui/account",
    "/ui/account/notifications",
    "/sweeps",
    "/ui/sweeps",
    "/ui/sweeps/new",
    "/notifications/targets",
    "/notifications/deliveries",
    "/ui/jobs/new",
    "/api/v2/tasks",
    "/api/v2/task-sweeps",
    "/api/v2/cluster",
    "/ui/tasks",
    "/ui/tasks/rows",
    "/ui/tasks/new",
    "/ui/task-sweeps",
    "/ui/cluster",
    "/ui/cluster/state",
    "/api/v2/video/jobs",
    "/user/get_all_status",
    "/ui/video",
    "/ui/video/rows",
    "/ui/video/new",
    "/ui/video/what-if",
    "/api/v2/video/job-sets",
    "/ui/video/sets",
    "/api/v2/models",
    "/api/v2/models/shared",
    "/ui/models",
    "/ui/models/new",
    f"{SEDNA}/models",
    "/api/v2/services",
    "/ui/services",
    "/ui/services/rows",
    "/ui/services/new",
    f"{K8S}/{JIS}",
    f"{K8S}/namespaces/{{namespace}}/{JIS}",
    f"{SEDNA}/{JIS}",
    f"{SEDNA}/namespaces/{{namespace}}/{JIS}",
}
"""GET shows one's own things only."""
ADMIN = re.compile(r"/api/v2/users|/api/v2/audit|/ui/admin")
OWN = {
    "POST /api/v2/me/sftp-password",
    "PUT /api/v2/me/sftp-password",
    "GET /api/v2/me/ssh-keys",
    "PUT /api/v2/me/ssh-keys",
    "GET /ui/data",
    "GET /ui/data/sftp-password",
    "POST /ui/data/sftp-password",
    "POST /ui/data/sftp-password/own",
    "POST /ui/data/ssh-keys",
    "POST /ui/data/ssh-keys/remove",
    "GET /ui/data/files",
    "GET /ui/data/files/{path:path}",
    "POST /ui/data/upload/{path:path}",
    "POST /notifications/targets",
    "POST /ui/account/notifications",
    "POST /ui/jobs/views",
    "POST /ui/jobs/new/sample/{name}",
    "POST /transfers",
}
"""Name nobody: they are about whoever asks, and paths are within their own home."""
ELSEWHERE = {"GET /transfers/{transfer_id}"}
"""Names a thing that takes a server to make: see test_exchange."""
THINGS = {
    "GET /jobs/{job_id}",
    "GET /jobs/{job_id}/actions",
    "GET /jobs/{job_id}/device-results",
    "GET /jobs/{job_id}/pack",
    "POST /jobs/{job_id}/exports",
    "GET /ui/jobs/{job_id}/exports",
    "POST /ui/jobs/{job_id}/exports",
    "PATCH /api/v2/tasks/{task_id}",
    "POST /api/v2/tasks/{task_id}/stacks",
    "POST /ui/tasks/{task_id}/stacks",
    "GET /ui/tasks/{task_id}/ray/{attempt_no:int}/{path:path}",
    "GET /ui/tasks/{task_id}/tensorboard/{path:path}",
    "POST /ui/tasks/{task_id}/tensorboard/{path:path}",
    "GET /api/v2/tasks/{task_id}/checkpoints",
    "GET /api/v2/tasks/{task_id}/metrics",
    "GET /api/v2/tasks/{task_id}/metrics.csv",
    "GET /ui/tasks/{task_id}/metrics",
    "GET /ui/tasks/{task_id}/metrics/live",
    f"GET {VIDEO}/jobs/{{job_uid}}/rows",
    f"GET {VIDEO}/jobs/{{job_uid}}/rows.csv",
    f"GET {VIDEO}/jobs/{{job_uid}}/rows.jsonl",
    f"GET {VIDEO}/jobs/{{job_uid}}/rows.parquet",
    "GET /ui/video/{job_uid}/results",
    f"GET {VIDEO}/jobs/{{job_uid}}/rules",
    f"PUT {VIDEO}/jobs/{{job_uid}}/rules",
    f"GET {VIDEO}/jobs/{{job_uid}}/rule-events",
    f"GET {VIDEO}/jobs/{{job_uid}}/rule-events/{{event_id}}/picture",
    f"GET {VIDEO}/jobs/{{job_uid}}/rule-events/{{event_id}}/clip",
    f"GET {VIDEO}/jobs/{{job_uid}}/recording",
    f"PUT {VIDEO}/jobs/{{job_uid}}/recording",
    f"GET {VIDEO}/jobs/{{job_uid}}/clip",
    f"GET {VIDEO}/jobs/{{job_uid}}/sinks",
    f"POST {VIDEO}/jobs/{{job_uid}}/sinks",
    f"DELETE {VIDEO}/jobs/{{job_uid}}/sinks/{{sink_id}}",
    f"POST {VIDEO}/jobs/{{job_uid}}/sinks/{{sink_id}}/test",
    "GET /ui/video/{job_uid}/sinks",
    "POST /ui/video/{job_uid}/sinks",
    "POST /ui/video/{job_uid}/sinks/test",
    "POST /ui/video/{job_uid}/sinks/remove",
    "GET /ui/video/{job_uid}/rules",
    "POST /ui/video/{job_uid}/rules",
    "POST /ui/video/{job_uid}/rules/remove",
    "POST /ui/video/{job_uid}/zones",
    "POST /ui/video/{job_uid}/zones/remove",
    "GET /ui/video/{job_uid}/rule-events/{event_id:int}/picture",
    "GET /ui/video/{job_uid}/recording",
    "POST /ui/video/{job_uid}/recording",
    f"GET {VIDEO}/job-sets/{{set_id}}",
    f"DELETE {VIDEO}/job-sets/{{set_id}}",
    "GET /ui/video/sets/{set_id}",
    "POST /ui/video/sets/{set_id}/delete",
    "DELETE /jobs/{job_id}",
    "PATCH /uploads/resumable/{upload_id}",
    "DELETE /uploads/resumable/{upload_id}",
    "GET /jobs/{job_id}/events",
    "POST /jobs/{job_id}/cancel",
    "GET /jobs/{job_id}/logs/{step}",
    "GET /jobs/{job_id}/artifacts",
    "GET /jobs/{job_id}/artifacts/{name}",
    "GET /jobs/{job_id}/artifacts/{name}/link",
    "GET /results/{job_id}",
    "GET /archive/{job_id}",
    "DELETE /archive/{job_id}",
    "PUT /archive/{job_id}/keep",
    "POST /archive/{job_id}/convert",
    "GET /archive/{job_id}/artifacts/{name}",
    "GET /ui/archive/{job_id}",
    "PATCH /archive/{job_id}",
    "POST /ui/archive/{job_id}/edit",
    "POST /ui/archive/{job_id}/keep",
    "POST /ui/archive/{job_id}/delete",
    "GET /ui/archive/{job_id}/all.zip",
    "GET /results/{job_id}/{name}",
    "GET /ui/jobs/{job_id}",
    "GET /ui/jobs/{job_id}/live",
    "POST /ui/jobs/{job_id}/cancel",
    "POST /ui/jobs/{job_id}/delete",
    "GET /ui/jobs/{job_id}/all.zip",
    "GET /ui/jobs/{job_id}/answers/{place:int}",
    "POST /ui/jobs/{job_id}/apply",
    "POST /ui/jobs/{job_id}/edit",
    "POST /ui/jobs/{job_id}/keep",
    "GET /ui/jobs/{job_id}/quality",
    "GET /ui/jobs/{job_id}/quality.csv",
    "GET /ui/jobs/{job_id}/quality.json",
    "GET /ui/jobs/{job_id}/samples/{index:int}",
    "GET /ui/jobs/{job_id}/graph/{artifact}",
    "GET /ui/jobs/{job_id}/graph/{artifact}/model",
    "POST /ui/jobs/{job_id}/resubmit",
    "GET /ui/inputs/{kind}/{source_id}/thumbs/{file}",
    "DELETE /api/v2/me/tokens/{token_id}",
    "PATCH /jobs/{job_id}",
    "POST /jobs/{job_id}/shares",
    "GET /jobs/{job_id}/shares",
    "DELETE /jobs/{job_id}/shares/{share_id}",
    "GET /ui/jobs/{job_id}/shares",
    "POST /ui/jobs/{job_id}/shares",
    "POST /ui/jobs/{job_id}/shares/{share_id}/revoke",
    "GET /sweeps/{sweep_id}",
    "GET /sweeps/{sweep_id}/table.csv",
    "POST /sweeps/{sweep_id}/cancel",
    "DELETE /sweeps/{sweep_id}",
    "GET /ui/sweeps/{sweep_id}",
    "GET /ui/sweeps/{sweep_id}/events",
    "POST /ui/sweeps/{sweep_id}/cancel",
    "POST /ui/sweeps/{sweep_id}/delete",
    "GET /notifications/targets/{target_id}",
    "PATCH /notifications/targets/{target_id}",
    "DELETE /notifications/targets/{target_id}",
    "POST /notifications/targets/{target_id}/test",
    "GET /notifications/deliveries/{delivery_id}",
    "POST /notifications/deliveries/{delivery_id}/redeliver",
    "POST /ui/account/notifications/{target_id}/test",
    "POST /ui/account/notifications/{target_id}/switch",
    "POST /ui/account/notifications/{target_id}/remove",
    "POST /ui/account/notifications/messages/{delivery_id}/redeliver",
    "POST /ui/account/tokens/{token_id}/revoke",
    "GET /api/v2/tasks/{task_id}",
    "GET /api/v2/task-sweeps/{task_sweep_id}",
    "POST /api/v2/task-sweeps/{task_sweep_id}/again",
    "POST /api/v2/task-sweeps/{task_sweep_id}/cancel",
    "GET /ui/task-sweeps/{task_sweep_id}",
    "GET /ui/task-sweeps/{task_sweep_id}/live",
    "GET /ui/task-sweeps/{task_sweep_id}/events",
    "POST /ui/task-sweeps/{task_sweep_id}/cancel",
    "POST /api/v2/tasks/{task_id}/cancel",
    "POST /api/v2/tasks/{task_id}/again",
    "POST /api/v2/tasks/{task_id}/release",
    "GET /api/v2/tasks/{task_id}/logs",
    "GET /api/v2/tasks/{task_id}/events",
    "GET /api/v2/tasks/{task_id}/spec",
    "POST /api/v2/tasks/{task_id}/convert",
    "POST /api/v2/tasks/{task_id}/export",
    "POST /ui/tasks/{task_id}/export",
    "POST /api/v2/tasks/{task_id}/models",
    "POST /ui/tasks/{task_id}/models",
    "GET /ui/tasks/{task_id}",
    "GET /ui/tasks/{task_id}/live",
    "GET /ui/tasks/{task_id}/events",
    "GET /ui/tasks/{task_id}/release",
    "POST /ui/tasks/{task_id}/release",
    "GET /ui/tasks/{task_id}/cancel",
    "POST /ui/tasks/{task_id}/cancel",
    "POST /ui/tasks/{task_id}/convert",
    "GET /ui/tasks/{task_id}/logs",
    "GET /ui/tasks/{task_id}/logs/live",
    *(
        f"{method} {place}/{{namespace}}/{{service}}{rest}"
        for place in ("/api/v2/services",)
        for method, rest in (
            ("GET", ""),
            ("PUT", ""),
            ("DELETE", ""),
            ("POST", "/rollout"),
            ("GET", "/drift"),
            ("PUT", "/drift"),
            ("DELETE", "/drift"),
            ("GET", "/calibrations"),
            ("POST", "/calibrations"),
            ("GET", "/calibrations/{calibration_id}"),
            ("GET", "/events"),
            ("GET", "/samples"),
            ("GET", "/samples/{sample_id}"),
            ("GET", "/rows"),
            ("GET", "/rows.csv"),
            ("GET", "/rows.jsonl"),
            ("GET", "/rows.parquet"),
            ("GET", "/sinks"),
            ("POST", "/sinks"),
            ("DELETE", "/sinks/{sink_id}"),
            ("POST", "/sinks/{sink_id}/test"),
            ("GET", "/rules"),
            ("PUT", "/rules"),
            ("GET", "/rule-events"),
            ("GET", "/rule-events/{event_id}/picture"),
        )
    ),
    *(
        f"{method} /ui/services/{{namespace}}/{{service}}{rest}"
        for method, rest in (
            ("GET", ""),
            ("GET", "/live"),
            ("GET", "/events"),
            ("GET", "/yaml"),
            ("GET", "/edit"),
            ("POST", "/edit"),
            ("POST", "/rollout"),
            ("GET", "/delete"),
            ("POST", "/delete"),
            ("GET", "/calibrate"),
            ("POST", "/calibrate"),
            ("POST", "/calibrate/collected"),
            ("GET", "/drift"),
            ("POST", "/drift"),
            ("POST", "/drift/stop"),
            ("GET", "/samples/{sample_id}"),
            ("GET", "/results"),
            ("GET", "/sinks"),
            ("POST", "/sinks"),
            ("POST", "/sinks/test"),
            ("POST", "/sinks/remove"),
            ("GET", "/rules"),
            ("POST", "/rules"),
            ("POST", "/rules/remove"),
            ("POST", "/zones"),
            ("POST", "/zones/remove"),
            ("GET", "/rule-events/{event_id:int}/picture"),
            ("GET", "/picture"),
        )
    ),
    *(
        f"{method} {group}/namespaces/{{namespace}}/{JIS}/{{service}}{rest}"
        for group in (K8S, SEDNA)
        for method, rest in (
            ("GET", ""),
            ("PUT", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("GET", "/status"),
            ("PUT", "/status"),
            ("PATCH", "/status"),
        )
    ),
    f"POST /{{namespace}}/neptune/upstream/{JIS}/{{service}}/status",
    *(f"{method} {SEDNA}/models/{{model}}" for method in ("GET", "PUT", "PATCH")),
    *(
        f"{method} {VIDEO}/jobs/{{job_uid}}{rest}"
        for method, rest in (
            ("GET", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("PUT", "/constraint"),
            ("PUT", "/policy"),
            ("PUT", "/plan"),
            ("GET", "/results"),
            ("GET", "/events"),
            ("GET", "/decisions"),
            ("GET", "/series"),
            ("GET", "/resources"),
            ("GET", "/picture"),
            ("GET", "/live"),
            ("GET", "/changes"),
        )
    ),
    "GET /user/sync_job_result/{job_uid}",
    "GET /user/video/{job_uid}",
    *(
        f"{method} /ui/video/{{job_uid}}{rest}"
        for method, rest in (
            ("GET", ""),
            ("GET", "/live"),
            ("GET", "/snapshot"),
            ("GET", "/events"),
            ("GET", "/what-if"),
            ("POST", "/what-if"),
            ("POST", "/constraint"),
            ("POST", "/policy"),
            ("POST", "/name"),
            ("GET", "/cancel"),
            ("POST", "/cancel"),
            ("GET", "/delete"),
            ("POST", "/delete"),
        )
    ),
    "GET /ui/calibrations/{calibration_id}",
    "GET /ui/calibrations/{calibration_id}/live",
    "GET /ui/calibrations/{calibration_id}/events",
    "GET /ui/calibrations/{calibration_id}/pick",
    "GET /ui/calibrations/{calibration_id}/apply",
    "POST /ui/calibrations/{calibration_id}/apply",
}
"""Name a thing in their path. {service}: the route calls it {name}."""
BODIES: dict[str, Any] = {
    "PATCH /notifications/targets/{target_id}": {"is_enabled": False},
    "PATCH /jobs/{job_id}": {"notes": "mine"},
    "PATCH /api/v2/tasks/{task_id}": {"priority": "low"},
    "POST /jobs/{job_id}/exports": {"target": "mlflow://experiment/mine"},
    "POST /jobs/{job_id}/shares": {},
    "POST /api/v2/task-sweeps/{task_sweep_id}/again": {"set": {"name": "again"}},
    "POST /api/v2/tasks/{task_id}/again": {"set": {"name": "again"}},
    "POST /api/v2/tasks/{task_id}/export": {"checkpoint": "last"},
    "POST /api/v2/tasks/{task_id}/models": {"artifact": "model.onnx", "name": "mine"},
    "POST /api/v2/tasks/{task_id}/convert": {"artifact": "model.onnx", "images": "pictures"},
    "PATCH /archive/{job_id}": {"name": "n"},
    "PUT /archive/{job_id}/keep": {"is_kept": True},
    f"PATCH {VIDEO}/jobs/{{job_uid}}": {"name": "mine"},
    f"PUT {VIDEO}/jobs/{{job_uid}}/constraint": {"delay": 9.0},
    f"PUT {VIDEO}/jobs/{{job_uid}}/policy": {"policy": "fixed"},
    f"PUT {VIDEO}/jobs/{{job_uid}}/recording": {"recording": {"hours": 1}},
    f"PUT {VIDEO}/jobs/{{job_uid}}/plan": {"video_conf": {}, "flow_mapping": {}},
    f"PUT {VIDEO}/jobs/{{job_uid}}/rules": {"zones": [], "rules": []},
    "PUT /api/v2/services/{namespace}/{service}/rules": {"zones": [], "rules": []},
    "POST /api/v2/services/{namespace}/{service}/sinks": {
        "kind": "http",
        "address": "https://example.org/mine",
        "content": "rows",
    },
    f"POST {VIDEO}/jobs/{{job_uid}}/sinks": {"kind": "http", "address": "https://example.org/mine"},
}
FORMS = {
    "POST /ui/archive/{job_id}/keep": {"keep": "true"},
    "POST /ui/jobs/{job_id}/exports": {"target": "mlflow://experiment/mine"},
    "POST /ui/account/notifications/{target_id}/switch": {"is_enabled": "false"},
    "POST /ui/calibrations/{calibration_id}/apply": {"setting": "0"},
    "POST /ui/tasks/{task_id}/convert": {"artifact": "model.onnx", "images": "pictures"},
    "POST /ui/tasks/{task_id}/export": {"step": "5"},
    "POST /ui/tasks/{task_id}/models": {"artifact": "model.onnx", "name": "mine"},
}
SENDING = {
    "POST /jobs/bulk",
    "POST /sweeps",
    "POST /ui/sweeps/new",
    "POST /api/v2/models",
    "POST /ui/models/new",
    "POST /api/v2/models/decoder",
    "POST /ui/models/decoder",
    "GET /api/v2/models/named",
    "DELETE /api/v2/models/named",
    "GET /api/v2/models/file",
    "GET /api/v2/models/versions",
    "PUT /api/v2/models/tags/{tag}",
    "DELETE /api/v2/models/tags/{tag}",
    "GET /api/v2/models/access",
    "PUT /api/v2/models/access",
    "POST /ui/models/access",
    "POST /ui/models/tag",
    "POST /ui/models/untag",
    "GET /ui/models/named",
    "GET /ui/models/delete",
    "POST /ui/models/delete",
    "POST /api/v2/services",
    "POST /ui/services/new",
    "POST /ui/services/new/preview",
    f"POST {K8S}/{JIS}",
    f"POST {K8S}/namespaces/{{namespace}}/{JIS}",
    f"POST {SEDNA}/{JIS}",
    f"POST {SEDNA}/namespaces/{{namespace}}/{JIS}",
    f"POST {SEDNA}/models",
    "POST /uploads",
    "POST /uploads/presign",
    "POST /uploads/resumable",
    "POST /jobs",
    "POST /ui/jobs/selected",
    "POST /ui/jobs/new",
    "POST /ui/jobs/new/model",
    "POST /ui/jobs/new/images",
    "POST /ui/jobs/new/options",
    "POST /ui/jobs/new/apply",
    "POST /ui/jobs/new/foot",
    "POST /ui/jobs/new/sample",
    "GET /ui/jobs/compare",
    "GET /ui/jobs/compare.csv",
    "GET /ui/sweeps/jobs",
    "GET /ui/sweeps/jobs.csv",
    "POST /api/v2/me/tokens",
    "POST /ui/account/tokens",
    "GET /api/v2/files",
    "GET /api/v2/files/content",
    "PUT /api/v2/files/content",
    "DELETE /api/v2/files",
    "POST /api/v2/files/folders",
    "POST /api/v2/files/move",
    "POST /ui/data/folders",
    "GET /ui/data/move",
    "POST /ui/data/move",
    "GET /ui/data/delete",
    "POST /ui/data/delete",
    "POST /ui/data/restore",
    "GET /ui/data/download",
    "GET /ui/data/picture",
    "GET /ui/jobs/from-data",
    "POST /ui/jobs/from-data",
    "POST /api/v2/tasks",
    "POST /api/v2/task-sweeps",
    "POST /ui/tasks/new",
    "POST /ui/tasks/new/preview",
    "POST /ui/tasks/demonstration",
    f"POST {VIDEO}/jobs",
    f"POST {VIDEO}/job-sets",
    "POST /ui/video/sets",
    f"POST {VIDEO}/profile",
    f"POST {VIDEO}/what-if",
    "POST /user/submit_job",
    "POST /user/submit_job_user_constraint",
    "POST /node/submit_job",
    "POST /node/get_plan",
    "POST /node/update_plan",
    "POST /node/sync_job_result",
    "POST /node/video/{job_uid}/picture",
    "POST /ui/video/new",
    "POST /ui/video/new/preview",
    "POST /ui/video/what-if",
}
"""Name a thing, if any, in their query or body: see `sent`."""


@pytest.fixture(scope="module")
def hers(shared: Deployment, alice: Person) -> dict[str, str]:
    """What alice has: a finished job, an upload, a token, a training task, a service, a video job."""
    container = assemble(shared.settings())
    video = running_video(container.video, "alice", now=now()).uid
    container.close()
    with alice.api() as api:
        job = api.convert(small_model(), pngs(3), name=MARK)
        assert job["status"] == "COMPLETED", job["error"]
        upload = api.upload(small_model(), pngs(2))
        unfinished = api.http.post(
            "/uploads/resumable", headers={**TUS, "Upload-Length": "5", "Upload-Metadata": FIELD}
        )
        assert api.http.put("/api/v2/files/content", params={"path": f"{HOME}/alice/datasets/a.txt"}).is_success
        task = api.http.post("/api/v2/tasks", content=f"{SCRIPT}name: {MARK}\n").json()
        varied = f"{SCRIPT}name: {MARK}\nvary: {{cpus: [1, 2]}}\n"
        task_sweep = api.http.post("/api/v2/task-sweeps", content=varied).json()
        model = {"name": f"{MARK}-model", "job_id": job["job_id"], "artifact": "onnx"}
        assert api.http.post("/api/v2/models", json=model).status_code == 201
        gate = f"{MARK.lower()}-gate"
        assert api.http.post("/api/v2/services", json=a_service(gate, model["name"])).status_code == 201
        samples = {"samples": ("set.npz", npz(x=np.zeros((3, 3, 16, 16), np.float32)))}
        calibration = api.http.post(f"/ui/services/default/{gate}/calibrate", files=samples, headers=OURS)
        assert calibration.status_code == 303, calibration.text
        selected = {"name": MARK, "node_selector": {"site": "nowhere"}, "stages": ["face_detection"]}
        video_set = api.http.post(f"{VIDEO}/job-sets", json=selected).json()
        target = {"kind": "webhook", "address": f"https://example.org/{MARK}"}
        target_id = api.http.post("/notifications/targets", json=target).json()["target_id"]
        share_id = api.http.post(f"/jobs/{job['job_id']}/shares", json={}).json()["share_id"]
        sweep = {"models": [{"name": MARK, **_keys(job)}], "options": [{"name": "plain"}]}
        sweep_id = api.http.post("/sweeps", json=sweep).json()["sweep_id"]
        delivery_id = api.http.post(f"/notifications/targets/{target_id}/test").json()["delivery_id"]
    token_id = alice.token.split("_")[1]
    return {
        "job_id": job["job_id"],
        "upload": upload["upload_id"],
        "upload_id": unfinished.headers["location"].rpartition("/")[2],
        "token_id": token_id,
        "user": "alice",
        "task_id": task["task_id"],
        "service": f"{MARK.lower()}-gate",
        "model": f"{MARK}-model",
        "calibration_id": calibration.headers["location"].rpartition("/")[2],
        "job_uid": video,
        "set_id": video_set["set_id"],
        "target_id": target_id,
        "share_id": share_id,
        "sweep_id": sweep_id,
        "task_sweep_id": task_sweep["sweep_id"],
        "delivery_id": delivery_id,
    }


def _keys(job: Mapping[str, Any]) -> dict[str, str]:
    """Of the inputs of a job, for another."""
    names = {"model_key": "model.onnx", "quant_key": "quant.zip"}
    return {key: job["artifacts"][name]["key"] for key, name in names.items()}


def a_service(name: str, model: str = "small") -> dict[str, Any]:
    return resource(name, edge="edge0", cloud="cloud0", small=model, big=model)


@pytest.fixture(scope="module")
def nobodys() -> dict[str, str]:
    return {
        "job_id": UNKNOWN,
        "upload": UNKNOWN,
        "upload_id": UNKNOWN,
        "token_id": UNKNOWN_TOKEN,
        "user": "nobody-at-all",
        "task_id": UNKNOWN_TASK,
        "service": "unknown-gate-of-nobody",
        "model": "unheard-of-model",
        "calibration_id": UNKNOWN_CALIBRATION,
        "job_uid": UNKNOWN_VIDEO,
        "set_id": UNKNOWN_CALIBRATION,
        "target_id": UNKNOWN_TARGET,
        "share_id": UNKNOWN_SHARE,
        "sweep_id": UNKNOWN_SWEEP,
        "task_sweep_id": UNKNOWN_TASK,
        "delivery_id": UNKNOWN_DELIVERY,
    }


@pytest.fixture(scope="module")
def spy(mallory: Person) -> Iterator[httpx.Client]:
    with mallory.browser() as client:
        yield client


@pytest.fixture
def routes(settings: Settings) -> list[tuple[str, str]]:
    app = create_app(settings)
    app.state.container.close()
    pairs = []
    for route in app.routes:
        if isinstance(route, WebSocketRoute):
            assert route.path.startswith(LINK), "a socket that is not a node's: who may open it?"
            continue
        assert isinstance(route, Route | Mount), f"a route of a new kind: {route}"
        methods = sorted(route.methods or () if isinstance(route, Route) else ["GET"])
        pairs += [(method, named(route.path)) for method in methods if method != "HEAD"]
    return pairs


def named(path: str) -> str:
    """With a name of its own for what is called {name} elsewhere, too."""
    if path.startswith("/ui/video/"):
        return path.replace("{uid}", "{job_uid}")
    if path.startswith(f"{SEDNA}/models/"):
        return path.replace("{name}", "{model}")
    of_services = ("/api/v2/services/", "/ui/services/", f"{K8S}/", f"{SEDNA}/", "/{namespace}/neptune/")
    return path.replace("{name}", "{service}") if path.startswith(of_services) else path


def is_known(method: str, path: str) -> bool:
    if path.startswith(LINK) or NODES.match(path):
        return True
    if path in OPEN | COMMON or ADMIN.match(path) or f"{method} {path}" in THINGS | SENDING | OWN | SHARED | ELSEWHERE:
        return True
    return method == "GET" and path in LISTS


def test_it_is_known_of_every_route_whose_things_it_shows(routes: list[tuple[str, str]]) -> None:
    assert [f"{method} {path}" for method, path in routes if not is_known(method, path)] == []
    assert {f"{method} {path}" for method, path in routes} >= THINGS | SENDING


def test_without_a_token_no_route_says_anything(
    shared: Any, routes: list[tuple[str, str]], hers: dict[str, str]
) -> None:
    transport = httpx.HTTPTransport(local_address="127.0.2.1")
    with httpx.Client(base_url=shared.url, transport=transport, timeout=60, trust_env=False) as client:
        for method, path in routes:
            if path not in OPEN:
                answer = client.request(method, filled(path, hers), headers={**OURS, "Accept": "application/json"})
                is_page = path.startswith("/ui/")
                assert answer.status_code == (303 if is_page else 401), (method, path)
                assert not is_page or answer.headers["location"].startswith("/ui/login"), (method, path)


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
@pytest.mark.parametrize("thing", sorted(THINGS))
def test_anothers_thing_is_answered_like_one_that_does_not_exist(
    spy: httpx.Client, hers: dict[str, str], nobodys: dict[str, str], thing: str, accept: str
) -> None:
    method, path = thing.split(" ")
    seen = []
    for whose in (hers, nobodys):
        body = {"json": BODIES.get(thing), "data": FORMS.get(thing)}
        if "{service}" in path and method in ("PUT", "PATCH", "POST"):
            body = body_for(path, whose)
        headers = {"Accept": accept, **TUS}
        if method == "PATCH":
            headers |= PART if "/uploads/" in path else {"Content-Type": "application/merge-patch+json"}
        seen.append(shape_of(spy.request(method, filled(path, whose), headers=headers, **body), whose))
    assert seen[0] == seen[1]
    assert seen[0][0] in (404, 200 if path.endswith("/live") else 404)


def body_for(path: str, whose: Mapping[str, str]) -> dict[str, Any]:
    """What would change a service that is one's own."""
    if "/upstream/" in path:
        info = {"inferenceNumber": 1, "hardExampleNumber": 0, "uploadCloudRatio": 0}
        return {"json": {"phase": "inference", "status": "running", "output": {"taskInfo": info}}}
    if path.endswith("/drift"):
        time = {"since": "2026-11-20T00:00:00Z", "until": "2026-11-21T00:00:00Z"}
        return {"json": time} if path.startswith("/api/") else {"data": time}
    if path.endswith("/calibrations"):
        return {"json": {}}
    if path.endswith("/rollout"):
        return {"json": {"action": "pause"}} if path.startswith("/api/") else {"data": {"action": "pause"}}
    if path.startswith("/ui/"):
        return {"data": {"yaml": json.dumps(a_service(whose["service"]))}}
    group = {"apiVersion": "sedna.io/v1alpha1"} if path.startswith(SEDNA) else {}
    return {"json": {**a_service(whose["service"]), **group, "status": {"active": 7}}}


def a_model(name: str) -> dict[str, Any]:
    metadata, spec = {"name": name}, {"url": "/model.onnx"}
    return {"apiVersion": "sedna.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}


def sent(whose: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """What each sending route can be given that names a thing."""
    model, images = (f"uploads/{whose['upload']}/{name}" for name in ("model.onnx", "quant.zip"))
    of_job = [f"jobs/{whose['job_id']}/input/{name}" for name in ("model.onnx", "quant.zip")]
    nothing: list[dict[str, Any]] = []
    fields = {"model_key": model, "quant_key": images, "from": whose["job_id"]}
    form = {name: (None, value) for name, value in fields.items()}
    form_of_job = {**form, "model_key": (None, of_job[0]), "quant_key": (None, of_job[1])}
    file, mine = f"{HOME}/{whose['user']}/datasets/a.txt", f"{HOME}/mallory/datasets/a.txt"
    at = [{"params": {"path": path}} for path in (file, f"{HOME}/mallory/../{whose['user']}/datasets/a.txt")]
    task = {"mode": "form", "workload": "sft", "model_id": "a/b", "n_gpus_per_node": "1", "train_file": file}
    selected = [
        {"data": {"id": whose["job_id"], "action": action, "tag": "ours", **confirmed}}
        for action in ("cancel", "delete", "tag", "untag", "keep", "unkeep")
        for confirmed in ({}, {"confirmed": "true"})
    ]
    model_of, body = {"params": {"name": whose["model"]}}, {"name": "mine", "job_id": whose["job_id"]}
    video: dict[str, Any] = {"job_uid": whose["job_uid"]}
    return {
        "POST /jobs/bulk": [
            {"json": {"verb": verb, "job_ids": [whose["job_id"]]}}
            for verb in ("cancel", "delete", "tag", "keep", "unkeep")
        ],
        "POST /sweeps": nothing,
        "POST /ui/sweeps/new": [{"data": {"job": whose["job_id"], "method": "minmax", "scale": "channel"}}],
        f"POST {VIDEO}/jobs": nothing,
        f"POST {VIDEO}/job-sets": nothing,
        "POST /ui/video/sets": nothing,
        f"POST {VIDEO}/profile": nothing,
        "POST /user/submit_job": nothing,
        "POST /node/submit_job": nothing,
        f"POST {VIDEO}/what-if": [{"json": video}],
        "POST /user/submit_job_user_constraint": [{"json": {**video, "user_constraint": {"delay": 9.0}}}],
        "POST /node/get_plan": [{"json": {**video, "dag": {}}}],
        "POST /node/update_plan": [{"json": {**video, "video_conf": {}, "flow_mapping": {}}}],
        "POST /node/sync_job_result": [{"json": {**video, "seq": 10_000, "results": [{"n_loop": 10_000}]}}],
        "POST /node/video/{job_uid}/picture": nothing,
        "POST /ui/video/new": nothing,
        "POST /ui/video/new/preview": nothing,
        "POST /ui/video/what-if": nothing,
        **{
            f"{method} {path}": [model_of]
            for method, path in (
                ("GET", "/api/v2/models/named"),
                ("DELETE", "/api/v2/models/named"),
                ("GET", "/api/v2/models/file"),
                ("GET", "/api/v2/models/versions"),
                ("DELETE", "/api/v2/models/tags/{tag}"),
                ("GET", "/api/v2/models/access"),
                ("GET", "/ui/models/named"),
                ("GET", "/ui/models/delete"),
            )
        },
        "PUT /api/v2/models/tags/{tag}": [{**model_of, "json": {"version": 1}}],
        "PUT /api/v2/models/access": [{**model_of, "json": {"allowed": None}}],
        "POST /api/v2/models/decoder": [{**model_of, "json": {"source": "def decode(*_): ..."}}],
        "POST /ui/models/decoder": [
            {"data": {"name": whose["model"]}, "files": {"decoder": ("d.py", b"def decode(*_): ...")}}
        ],
        "POST /ui/models/access": [{"data": {"name": whose["model"], "allowed": "*"}}],
        "POST /ui/models/tag": [{"data": {"name": whose["model"], "tag": "stable", "version": "1"}}],
        "POST /ui/models/untag": [{"data": {"name": whose["model"], "tag": "stable"}}],
        "POST /ui/models/delete": [{"data": {"name": whose["model"]}}],
        "POST /api/v2/models": [{"json": {**body, "artifact": "onnx"}}],
        "POST /ui/models/new": [
            {"files": {name: (None, value) for name, value in {**body, "artifact": "onnx", "way": "job"}.items()}}
        ],
        "POST /api/v2/services": nothing,
        "POST /ui/services/new/preview": nothing,
        "POST /ui/services/new": nothing,
        f"POST {K8S}/{JIS}": nothing,
        f"POST {K8S}/namespaces/{{namespace}}/{JIS}": nothing,
        f"POST {SEDNA}/{JIS}": nothing,
        f"POST {SEDNA}/namespaces/{{namespace}}/{JIS}": nothing,
        f"POST {SEDNA}/models": [{"json": a_model(whose["model"])}],
        "POST /uploads": nothing,
        "POST /uploads/presign": nothing,
        "POST /uploads/resumable": nothing,
        "POST /api/v2/me/tokens": nothing,
        "POST /ui/account/tokens": nothing,
        "POST /ui/jobs/new/sample": nothing,
        "POST /jobs": [
            {"json": {"model_key": model, "quant_key": images}},
            {"json": {"model_key": of_job[0], "quant_key": of_job[1]}},
        ],
        "POST /ui/jobs/selected": selected,
        "POST /ui/jobs/new": [{"files": form}, {"files": form_of_job}],
        "POST /ui/jobs/new/model": [{"files": form}, {"files": form_of_job}],
        "POST /ui/jobs/new/images": [{"files": form}, {"files": form_of_job}],
        "POST /ui/jobs/new/options": [{"files": form}, {"files": form_of_job}],
        "POST /ui/jobs/new/apply": [{"files": form}, {"files": form_of_job}],
        "POST /ui/jobs/new/foot": [{"files": form}, {"files": form_of_job}],
        "GET /api/v2/files": [*at, {"params": {"path": f"{HOME}/{whose['user']}"}}],
        "GET /api/v2/files/content": at,
        "DELETE /api/v2/files": at,
        "PUT /api/v2/files/content": [{**one, "content": b"x"} for one in at],
        "POST /api/v2/files/folders": [{"json": {"path": f"{file}-new"}}],
        "POST /api/v2/files/move": [
            {"json": {"source": file, "target": mine}},
            {"json": {"source": mine, "target": file}},
        ],
        **{f"GET /ui/data/{page}": at for page in ("move", "delete", "download", "picture")},
        "GET /ui/jobs/from-data": at,
        "POST /ui/data/delete": [{"data": {"path": file}}],
        "POST /ui/jobs/from-data": [{"data": {"path": file}}],
        "POST /ui/data/folders": [{"data": {"path": file, "name": "x"}}],
        "POST /ui/data/move": [
            {"data": {"source": file, "folder": f"{HOME}/mallory/datasets", "name": "x"}},
            {"data": {"source": mine, "folder": f"{HOME}/{whose['user']}/datasets", "name": "x"}},
        ],
        "POST /ui/data/restore": [
            {"data": {"source": file, "target": mine}},
            {"data": {"source": mine, "target": file}},
        ],
        "POST /api/v2/task-sweeps": [
            {"content": f"workload: sft\nmodel_id: a/b\nn_gpus_per_node: 1\nvary: {{train_file: [{file}]}}\n"}
        ],
        "POST /api/v2/tasks": [{"content": f"workload: sft\nmodel_id: a/b\nn_gpus_per_node: 1\ntrain_file: {file}\n"}],
        "POST /ui/tasks/new": [{"data": {**task, "action": action}} for action in ("submit", "preview", "mode:yaml")],
        "POST /ui/tasks/new/preview": [{"data": task}],
        "POST /ui/tasks/demonstration": nothing,
        "GET /ui/jobs/compare": [
            {"params": {"a": whose["job_id"]}},
            {"params": {"a": whose["job_id"], "b": whose["job_id"]}},
        ],
        "GET /ui/sweeps/jobs": [{"params": {"job": whose["job_id"]}}],
        "GET /ui/sweeps/jobs.csv": [{"params": {"job": whose["job_id"]}}],
        "GET /ui/jobs/compare.csv": [{"params": {"a": whose["job_id"], "b": whose["job_id"]}}],
    }


@pytest.mark.parametrize("thing", sorted(SENDING))
def test_naming_anothers_thing_is_answered_like_naming_none(
    spy: httpx.Client, hers: dict[str, str], nobodys: dict[str, str], thing: str
) -> None:
    method, path = thing.split(" ")
    for mine, other in zip(sent(hers)[thing], sent(nobodys)[thing], strict=True):
        seen = shape_of(spy.request(method, path, **mine), hers)
        assert seen == shape_of(spy.request(method, path, **other), nobodys)
        assert MARK.encode() not in seen[2]


def test_the_form_filled_in_from_anothers_job_is_the_one_from_none(
    spy: httpx.Client, hers: dict[str, str], nobodys: dict[str, str]
) -> None:
    for path in (
        "/ui/jobs/new?from={job_id}",
        "/ui/jobs/live?ids={job_id}",
        "/ui/tasks/new?from={task_id}",
    ):
        seen = [shape_of(spy.get(path.format(**whose)), whose) for whose in (hers, nobodys)]
        assert seen[0] == seen[1]


@pytest.mark.parametrize("path", sorted(LISTS))
def test_a_list_shows_ones_own(spy: httpx.Client, alice: Person, hers: dict[str, str], path: str) -> None:
    text = spy.get(path, headers={"Accept": "application/json"}).text
    assert (
        MARK not in text
        and hers["service"] not in text
        and not any(hers[name] in text for name in ("job_id", "token_id", "task_id", "job_uid"))
    )
    # those that are not empty
    if path in (
        "/jobs",
        "/ui/jobs",
        "/archive",
        "/ui/archive",
        "/api/v2/me/tokens",
        "/ui/account",
        "/api/v2/tasks",
        "/ui/tasks",
        "/api/v2/task-sweeps",
        "/ui/task-sweeps",
        "/api/v2/models",
        "/ui/models",
        f"{SEDNA}/models",
        "/api/v2/services",
        "/ui/services",
        f"{K8S}/{JIS}",
        f"{SEDNA}/{JIS}",
        "/api/v2/video/jobs",
        "/user/get_all_status",
        "/ui/video",
        "/api/v2/video/job-sets",
        "/ui/video/sets",
    ):
        with alice.browser() as own:
            seen = own.get(path, headers={"Accept": "application/json"}).text
        assert MARK in seen or any(hers[name] in seen for name in ("token_id", "service", "job_uid"))


@pytest.mark.parametrize("query", ["owner=alice", f"q={MARK}", "owner=alice&status=COMPLETED"])
def test_no_filter_reaches_anothers_jobs(spy: httpx.Client, admin: Person, hers: dict[str, str], query: str) -> None:
    assert spy.get(f"/jobs?{query}").json()["jobs"] == []
    assert MARK not in re.sub(r'value="[^"]*"', "", spy.get(f"/ui/jobs?{query}").text)
    with admin.api() as api:  # an administrator manages accounts, and sees no more of people's work than anybody
        assert api.http.get(f"/jobs?{query}").json()["jobs"] == []
        assert api.http.get(f"/jobs/{hers['job_id']}").status_code == 404


def test_for_a_user_the_administrators_places_do_not_exist(
    spy: httpx.Client, routes: list[tuple[str, str]], hers: dict[str, str]
) -> None:
    tried = [(method, path) for method, path in routes if ADMIN.match(path)]
    assert len(tried) > 15
    for method, path in [*tried, ("GET", "/api/v2/users/"), ("GET", "/ui/admin"), ("OPTIONS", "/api/v2/audit")]:
        place = filled(path, hers)
        nowhere = ("/ui/nowhere" if path.startswith("/ui") else "/nowhere") + "?" + "x" * 3
        seen = shape_of(spy.request(method, place), {"place": place})
        assert seen == shape_of(spy.request(method, nowhere), {"place": nowhere}), (method, path)
        assert seen[0] == 404


def test_users_have_no_business_on_the_link_of_a_node(
    spy: httpx.Client, routes: list[tuple[str, str]], hers: dict[str, str]
) -> None:
    tried = [(method, path) for method, path in routes if path.startswith(LINK)]
    assert len(tried) >= 5
    for method, path in tried:
        assert spy.request(method, filled(path, hers)).status_code == 401, (method, path)


def test_nodes_are_an_administrators_to_add_and_their_work_to_see(
    spy: httpx.Client, admin: Person, routes: list[tuple[str, str]]
) -> None:
    with admin.browser() as client:
        made = client.post("/neptune/nodes", json={"name": "edge7", "side": "edge"}, headers=OURS)
        assert made.status_code == 201
        token = made.json()["token"]
    assert spy.get("/neptune/nodes").status_code == 200
    changing = [(method, path) for method, path in routes if NODES.match(path) and method != "GET"]
    assert len(changing) >= 4
    for method, path in changing:
        body = (
            {"json": {"name": "edge1", "side": "edge"}} if path.startswith("/neptune") else {"data": {"name": "edge1"}}
        )
        answer = spy.request(method, path.replace("{name}", "edge7"), **(body if method == "POST" else {}))
        assert answer.status_code in (403, 404), (method, path)
    with httpx.Client(base_url=str(spy.base_url), headers={"Authorization": f"Bearer {token}"}) as node:
        for path in ("/jobs", "/neptune/nodes", "/api/v2/services", "/ui/jobs", "/api/v2/users"):
            assert node.get(path).status_code == 401, path


def test_what_was_tried_has_changed_nothing(alice: Person, hers: dict[str, str]) -> None:
    with alice.api() as api:
        assert has_ended(api.job(hers["job_id"])) and api.job(hers["job_id"])["status"] == "COMPLETED"
        assert api.http.get(f"/jobs/{hers['job_id']}/artifacts/out.nef").status_code == 200
        kept = api.http.get("/api/v2/files/content", params={"path": f"{HOME}/alice/datasets/a.txt"})
        assert (kept.status_code, kept.content) == (200, b"")
        assert api.http.get(f"/api/v2/tasks/{hers['task_id']}").json()["state"] == "QUEUED"
        video = api.http.get(f"/api/v2/video/jobs/{hers['job_uid']}").json()
        assert (video["name"], video["state"], video["n_loop"]) == ("", "EXEC", 50)
        assert video["constraint"]["delay"] == 0.8
        service = api.http.get(f"/api/v2/services/default/{hers['service']}").json()["resource"]
        assert (service["metadata"]["generation"], service["status"]["active"]) == (1, 0)
        assert api.http.get("/api/v2/models/named", params={"name": hers["model"]}).status_code == 200


def filled(path: str, whose: Mapping[str, str]) -> str:
    given = {
        "job_id": whose["job_id"],
        "source_id": whose["upload"],
        "kind": "upload",
        "file": "0.jpg",
        "step": "onnx",
        "name": "alice" if "users" in path else "out.nef",
        "artifact": "out.onnx",
        "index": "0",
        "place": "0",
        "event_id": "1",
        "sink_id": "a1" * 16,
        "token_id": whose["token_id"],
        "transfer_id": UNKNOWN,
        "key": "a",
        "path": "datasets",
        "task_id": whose["task_id"],
        "attempt_no": "1",
        "service": whose["service"],
        "model": whose["model"],
        "namespace": "default",
        "sample_id": "s1",
        "rest": "x",
        "calibration_id": whose["calibration_id"],
        "upload_id": whose["upload_id"],
        "job_uid": whose["job_uid"],
        "stage": "face_detection",
        "environment": "gpu",
        "tag": "stable",
        "node": "edge0",
        "camera": "1000",
        "target_id": whose["target_id"],
        "delivery_id": whose["delivery_id"],
        "share_id": whose["share_id"],
        "sweep_id": whose["sweep_id"],
        "task_sweep_id": whose["task_sweep_id"],
        "set_id": whose["set_id"],
        "uid": UNKNOWN,
        "sha256": "0" * 64,
    }
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda answer: given[answer[1]], path)


def shape_of(answer: httpx.Response, whose: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Status, head and body without the ids that were asked for, and without the one-time keys of forms."""
    body = re.sub(rb"[?]once=[0-9a-f]{32}", b"", answer.content)
    head = {k: v for k, v in answer.headers.items() if k not in ("date", "x-request-id")}
    values = sorted(whose.values(), key=len, reverse=True)
    for known in [*values, *(value[:8] for value in values)]:  # several begin alike
        body = body.replace(known.encode(), b"<id>")
        head = {name: text.replace(known, "<id>") for name, text in head.items()}
    head.pop("content-length", None)
    return answer.status_code, head, body
