"""Nodes with videos that are only pretended: they store what they are told and report what a test says, at once."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from app.bootstrap.container import Container
from app.kit.clock import now as clock
from app.kit.clock import to_text
from app.nodes.model import NodeReport, Operation, Order, Side, WorkerReport, WorkerState, WorkKey
from app.results.model.producer import Producer
from app.results.model.sink import NODE_SINKS, SinkProgress
from app.results.service import Rules
from app.video.model.job import JOBS, SERVICES, VideoJob
from app.video.model.kinds import StageSpec
from app.video.model.plan import Plan
from app.video.scheduling.policy_messages import Decision, PlanningInput
from app.video.service import Controller, Jobs, Planner, Reports, Submission, Video
from app.video.service.producers import producer_of_job
from tests.harness.api import small_model
from tests.harness.video.records import ADDRESSES, AGENT_PORT, MEDIA_SERVER, MODELS, VIDEOS, dag

USER = "local"
NODES = {"edge0": Side.EDGE, "edge1": Side.EDGE, "cloud0": Side.CLOUD}
ADDRESS = {**ADDRESSES, "edge1": "192.168.56.103"}
_begun: list[Path] = []
"""The data folder with which each env begins, as the first env of this process has made it."""


class FixedPolicyRunner:
    """answers: what it decides, one after the other, the last for ever. inputs: with what."""

    def __init__(self, *answers: Decision | Plan | None) -> None:
        self.answers = list(answers)
        self.inputs: list[PlanningInput] = []
        self.meanwhile = lambda: None

    def decide(self, question: PlanningInput) -> Decision:
        self.inputs.append(question)
        self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Decision):
            return answer
        outcome = "new" if answer else "same"
        return Decision(answer, outcome, "It is fixed.", 1.5, "hash", {"calls": len(self.inputs)})


class Env:
    """The catalogue with the requirement's stages, edge0 with two videos, edge1 with none, and the cloud. now: moves on
    when a test says so. sent: what is asked of the scheduler; woken: of the controller."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.now = clock().replace(microsecond=0)
        _begin(container, self.now)
        self.video: Video = container.video
        self.woken: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self.video.jobs.wake = self.woken.append
        self.video.catalogue.on_change = lambda: self.woken.append("")
        self.video.jobs.request_plan = self.video.planning.send = lambda uid, why: self.sent.append((uid, why))
        self.known: dict[str, dict[WorkKey, Order]] = {name: {} for name in NODES}
        self.away = set[str]()
        self.media_server = MEDIA_SERVER
        self.detail: dict[str, dict[str, Any]] = {name: {} for name in NODES}
        self.states: dict[WorkKey, WorkerState] = {}
        self.former = dict[WorkKey, int]()
        self.messages = dict[WorkKey, str]()
        self.report_problem = self.delivery_problem = ""
        self.sinks: Mapping[str, SinkProgress] = {}
        self.videos: Mapping[str, Mapping[str, str]] = VIDEOS
        for name, side in NODES.items():
            container.nodes.register(name, side, now=self.now)
        for name, models in MODELS.items():
            self.video.catalogue.put(USER, StageSpec(name, name, models), now=self.now)
        self.report()

    @property
    def jobs(self) -> Jobs:
        return self.video.jobs

    @property
    def planning(self) -> Planner:
        return self.video.planning

    @property
    def reports(self) -> Reports:
        return self.video.reports

    @property
    def rules(self) -> Rules:
        return self.container.results.rules

    def producer(self, uid: str) -> Producer:
        """The job, as those who keep results see it."""
        return producer_of_job(self.jobs.get(USER, uid))

    @property
    def controller(self) -> Controller:
        return self.video.controller

    def decide_by(self, *answers: Decision | Plan | None) -> FixedPolicyRunner:
        policy_runner = FixedPolicyRunner(*answers)
        self.planning.policy_runner = lambda: policy_runner  # type: ignore[assignment, return-value]
        return policy_runner

    def submit(self, **other: Any) -> VideoJob:
        return self.jobs.submit(USER, replace(Submission("edge0", "1", dag()), **other), now=self.now)

    def running(self, **other: Any) -> VideoJob:
        """With plan 1, its nodes told."""
        self.decide_by(a_plan())
        job = self.submit(**other)
        self.settle()
        self.later(2)
        assert self.planning.schedule(job.uid, "start", now=self.now) == 0
        return self.job(job.uid)

    def job(self, uid: str) -> VideoJob:
        return self.jobs.get(USER, uid)

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def settle(self) -> None:
        """Nodes and controller in turn, until nothing changes any more."""
        for _ in range(3):
            for uid in self.uids():
                self.controller.reconcile(uid, now=self.now)
            self.report()

    def uids(self) -> list[str]:
        jobs, _ = self.jobs.page(USER)
        return ["", *(job.uid for job in jobs)]

    def report(self) -> None:
        for name in NODES:
            if name not in self.away:
                self._act(name)

    def orders(self, kind: str, uid: str) -> list[Order]:
        with self.container.database.read() as conn:
            return self.container.nodes.orders_of(conn, kind, uid)

    def content(self, uid: str) -> Mapping[str, Any]:
        """Of the order that edge0 has of this job."""
        (order,) = self.orders(JOBS, uid)
        assert order.operation is not Operation.DELETE
        return order.content

    def _act(self, name: str) -> None:
        nodes, known = self.container.nodes, self.known[name]
        for order in nodes.pending(name):
            if order.operation is Operation.DELETE:
                known.pop(order.key, None)
            else:
                known[order.key] = order
            nodes.acknowledge(name, [order.seq])
        offer = {"address": f"{ADDRESS[name]}:{AGENT_PORT}", "videos": self.videos, "media_server": self.media_server}
        offers = {JOBS: offer} if name == "edge0" else {}
        workers = tuple(self._worker(name, order) for order in known.values() if order.key.kind != NODE_SINKS)
        report = NodeReport(
            cpu=0.25,
            worker_cpu={"videojobs": 0.1, "videoservices": 0.05, "jointinferenceservices": 0.07},
            memory=0.5,
            cores=4,
            accelerators=("KL720",),
            offers=offers,
            workers=workers,
            report_problem=self.report_problem,
            delivery_problem=self.delivery_problem,
            sinks=self.sinks if name == "edge0" else {},
        )
        nodes.report(name, report, address=ADDRESS[name], version="1", now=self.now)

    def _worker(self, name: str, order: Order) -> WorkerReport:
        is_host = order.key.kind == SERVICES
        detail = (
            {
                "n_process": 2,
                "cpu_ratio": 0.1,
                "mem_ratio": 0.2,
                "queue": 3,
                "stages": dict.fromkeys(order.content.get("stages", {}), "onnx"),
                **self.detail[name],
            }
            if is_host
            else {}
        )
        return WorkerReport(
            order.key,
            order.namespace,
            order.name,
            order.name,
            order.generation,
            self.states.get(order.key, WorkerState.RUNNING),
            pid=1,
            former_generation=self.former.get(order.key, 0),
            message=self.messages.get(order.key, ""),
            started_at=to_text(self.now),
            detail=detail,
            address=f"{ADDRESS[name]}:{5500 if is_host else 5101}",
        )


def _begin(container: Container, now: datetime) -> None:
    """The database of this version with the user and the models of the stages: what a sandbox and migrations would make
    anew for each test is made once and copied. No connection stays open meanwhile: SQLite takes pages of a file that is
    written over beneath it for its own."""
    container.database.close()
    if _begun:
        for left in container.settings.data_dir.glob("*.db-*"):  # the log of what is written over
            left.unlink()
        shutil.copytree(_begun[0], container.settings.data_dir, dirs_exist_ok=True)
        return
    container.prepare()
    for model in {model for variants in MODELS.values() for models in variants for model in models}:
        container.models.add_upload(USER, model, [small_model()], now=now)
    container.database.close()
    folder = Path(tempfile.mkdtemp(prefix="modelmill-video-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(container.settings.data_dir, folder, dirs_exist_ok=True)
    _begun.append(folder)


def a_plan(cloud: Sequence[str] = ("face_alignment",)) -> Plan:
    """These stages in the cloud, the others at the host."""
    from tests.harness.video.records import plan

    made = plan(0)
    places = {
        stage: made.flow_mapping["face_alignment" if stage in cloud else "face_detection"]
        for stage in made.flow_mapping
    }
    return replace(made, flow_mapping=places)
