"""Who uses the pages of joint inference without scripts, and what lies behind them: the real services."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx
import numpy as np

from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.joint_inference import store
from app.joint_inference.model.resource import PLURAL, Service
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after
from app.joint_inference.model.tally import Breaker, Sample, Tally
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.clock import now, to_text
from app.nodes.model import NodeReport, Side, WorkerReport, WorkerState, WorkKey
from tests.harness.browser import joint_records
from tests.harness.paths import SAMPLES
from tests.harness.users import OURS, Within

USER = "local"
SAMPLE = SAMPLES / "helmet" / "service.yaml"
FORM = {
    "mode": "form",
    "action": "submit",
    "name": "faces",
    "namespace": "default",
    "edge_node": "edge0",
    "edge_model": "small",
    "cloud_node": "cloud0",
    "cloud_model": "big",
    "algorithm": "IBT",
    "IBT.threshold_img": "0.9",
    "IBT.threshold_box": "0.7",
    "IBT.empty_is_hard": "false",
    "source": "clip.mp4",
    "max_upload_ratio": "0.3",
    "edge_parameters": "fps=5\nscore_threshold = 0.6\n",
    "cloud_parameters": "",
}


def worker(name: str, model: str, node: str) -> dict[str, Any]:
    plain = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnxruntime", "frameworkVersion": ""}
    return {"name": name, "model": {"name": model}, "nodeName": node, "workerSpec": {**plain, "parameters": []}}


def resource(name: str, edge: str = "small", cloud: str = "big") -> dict[str, Any]:
    edge_worker = {**worker("edgeworker", edge, "edge0"), "hardExampleAlgorithm": {"name": "IBT", "parameters": []}}
    return {
        "apiVersion": "neptune.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"edgeWorker": edge_worker, "cloudWorker": worker("cloudworker", cloud, "cloud0")},
    }


class Browser:
    """One who uses the pages; and what lies behind them, to make things happen."""

    def __init__(self, web: Within) -> None:
        self.web = web
        self.container: Container = web.app.state.container

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.web.get(path, **options)

    def send(self, path: str, fields: dict[str, str], **options: Any) -> httpx.Response:
        return self.web.post(path, data=fields, headers=OURS, **options)

    def make(self, name: str, user: str = USER, at: datetime | None = None, **models: str) -> Service:
        return self.container.joint.services.create(user, resource(name, **models), now=at or now())

    def condition(self, service: Service, type_: ConditionType, reason: Reason, message: str = "") -> None:
        with self.container.database.write() as conn:
            fresh = store.by_uid(conn, service.uid)
            assert fresh is not None
            known_ones = fresh.status.get("conditions", ())
            listed = conditions_after(known_ones, Condition(type_, reason, message), None, to_text(now()))
            store.change_service(conn, fresh, status={**fresh.status, "conditions": listed})

    def report(self, service: Service, tally: Tally) -> None:
        status = UpstreamStatus(status="running", uid=service.uid, task_info=tally.to_task_info())
        self.container.joint.reports.note(service.uid, status, now=now())

    def nodes(self, *workers: WorkerReport) -> None:
        for name, side in (("edge0", Side.EDGE), ("cloud0", Side.CLOUD)):
            if self.container.nodes.find(name) is None:
                self.container.nodes.register(name, side, now=now())
            told = NodeReport(workers=tuple(w for w in workers if w.key.part == side.value))
            self.container.nodes.report(name, told, address="127.0.0.1", version="1", now=now())

    def sample(self, service: Service, sample: Sample, side: int = 40) -> None:
        with self.container.database.write() as conn:
            self.container.nodes.order(
                conn,
                "edge0",
                WorkKey(PLURAL, service.uid, "edge"),
                namespace="default",
                name=service.name,
                generation=1,
                content={},
            )
        picture, kind = encode(np.zeros((side, side, 3), np.uint8))
        self.container.joint.samples.add("edge0", service.uid, sample, picture, kind, now=now())

    def spec(self, name: str) -> Any:
        return self.container.joint.services.get(USER, "default", name).spec


def worker_report(browser: Browser, service: Service, worker: str = "edge", **facts: Any) -> WorkerReport:
    usual: dict[str, Any] = {"state": WorkerState.RUNNING, "pid": 4711, "log": ("serving",)}
    return WorkerReport(
        WorkKey(PLURAL, service.uid, worker), "default", service.name, f"{worker}worker", 1, **{**usual, **facts}
    )


TALLY = replace(joint_records.TALLY, breaker=Breaker.OPEN, last_error="refused", update_time="2026-01-01T00:10:00.000Z")


def names_in(page: httpx.Response) -> list[str]:
    return re.findall(r'class="row-link" href="[^"]*">([^<]+)<', page.text)
