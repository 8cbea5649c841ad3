"""Nodes for the measurements of video: two hosts of stages with a core each and a shaped link between them, runners of
jobs, and in place of agent and web a small server that asks the policy and writes down what the runners report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import psutil

from app.edge.video.work import RunnerWork, ServicesWork
from app.edge.work_file import VARIABLE
from app.video.model.constraint import read_constraint
from app.video.model.job import JobContent, Mode, RestartPolicy, ServicesContent, StageHost
from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from app.video.scheduling.contract import Measured, ResourceInfo, ServiceInfo
from app.video.scheduling.policy_messages import PlanningInput
from app.video.scheduling.policy_runner import PolicyRunner
from ops.benchmarks.video_case import Case
from ops.benchmarks.video_fixed import CLOUD, EDGE, ROLES
from ops.benchmarks.video_rows import SeenFrame
from tests.harness.link import Line, Link
from tests.harness.ports import free_port

SECRET, ADDRESS = "benchmark", "127.0.0.1"
START_S, END_S = 60.0, 10.0


class NotMeasured(Exception):
    """The argument says why, with the end of the process's log."""


@dataclass
class Job:
    """What one runner was told and said. plans: [(second, plan)]; decisions: milliseconds each."""

    uid: str
    policy: str | None
    work: RunnerWork
    path: Path
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    frames: list[SeenFrame] = field(default_factory=list)
    reports: list[tuple[float, int]] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    decisions: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    memory: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    process: subprocess.Popen[bytes] | None = None
    used_before: Sequence[float] = ()
    """Percent of each core in the second before its runner began."""

    def await_frame(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.frames:
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                log = self.path.with_name("log").read_text()[-3000:]
                raise NotMeasured(f"{self.uid} brought no frame:\n{log}")
            time.sleep(0.1)

    @property
    def plan(self) -> Plan | None:
        return self.plans[-1][1] if self.plans else None

    def take(self, plan: Plan) -> None:
        """Into its runner's file; the next number."""
        numbered = replace(plan, seq=len(self.plans) + 1)
        self.plans.append((time.monotonic(), numbered))
        self.work = replace(self.work, content=replace(self.work.content, plan=numbered))
        self.work.write(self.path)


class VideoNodes:
    """One scenario's nodes. bits_per_s: of the link at the begin, 0: no limit. pins: each node has a core, not all."""

    def __init__(
        self, case: Case, folder: Path, rows: Sequence[Measured], *, line: Line, hi_s: float, pins: bool = True
    ) -> None:
        self.case, self.folder, self.rows, self.line, self.hi_s = case, folder, rows, line, hi_s
        self.jobs: dict[str, Job] = {}
        self.details: dict[str, Mapping[str, Any]] = {}
        self.hosts: dict[str, StageHost] = {}
        self.policy_runner = PolicyRunner()
        self.cores = cores()
        self.pins = pins
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> VideoNodes:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stack.callback(self.policy_runner.close)
        self._server = ThreadingHTTPServer((ADDRESS, 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._stack.callback(self._server.server_close)
        self._stack.callback(self._server.shutdown)
        self.url = f"http://{ADDRESS}:{self._server.server_address[1]}"
        ports = {name: free_port() for name in ROLES}
        self.link = self._stack.enter_context(Link((ADDRESS, ports[CLOUD]), self.line))
        reached = {EDGE: ports[EDGE], CLOUD: self.link.port}
        self.hosts = {
            name: StageHost(name, role, f"{ADDRESS}:{reached[name]}", f"http://{ADDRESS}:{reached[name]}", SECRET)
            for name, role in ROLES.items()
        }
        for name in ROLES:
            peers = (self.hosts[CLOUD],) if name == EDGE else ()
            self._stack.enter_context(self._host(name, ports[name], peers))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def _host(self, name: str, port: int, peers: tuple[StageHost, ...]) -> Iterator[None]:
        folder = self.folder / name
        stages = {stage.name: stage for stage in self.case.stages}
        content = ServicesContent(stages, SECRET, peers, processes=1)
        work = ServicesWork(
            content, self.case.files, host=ADDRESS, port=port, folder=folder, agent_url=self.url, node=name
        )
        work.write(folder / "work.json")
        with started("app.edge.video.stage_host.host", folder, core=self.cores[name] if self.pins else None) as process:
            _await_url(f"http://{ADDRESS}:{port}/healthz", process, folder / "log")
            yield

    def run_jobs(self, stack: ExitStack, count: int, policy: str | None, plan: Plan | None) -> list[Job]:
        """Begun together; all have brought a frame."""
        jobs = [stack.enter_context(self.begun(policy, plan)) for _ in range(count)]
        for job in jobs:
            job.await_frame()
        return jobs

    @contextmanager
    def job(self, policy: str | None, plan: Plan | None = None, *, realtime: bool = True) -> Iterator[Job]:
        """One that has brought a frame."""
        with self.begun(policy, plan, realtime=realtime) as job:
            job.await_frame()
            yield job

    @contextmanager
    def begun(self, policy: str | None, plan: Plan | None = None, *, realtime: bool = True) -> Iterator[Job]:
        """A runner on the edge's core. policy None: the plan stays."""
        self._count += 1
        uid = f"GLOBAL_ID_{self._count}.SUB_ID_1"
        folder = self.folder / uid
        content = JobContent(
            uid,
            "0",
            self.case.dag,
            self.case.stages,
            Mode.RUN,
            realtime,
            RestartPolicy.EOS,
            read_constraint({"delay": self.hi_s}),
            None,
            tuple(self.hosts.values()),
            SECRET,
        )
        work = RunnerWork(
            content,
            str(self.case.clip),
            host=ADDRESS,
            port=free_port(),
            folder=folder,
            agent_url=self.url,
            node=EDGE,
        )
        job = self.jobs[uid] = Job(uid, policy, work, folder / "work.json")
        if plan is not None:
            job.take(plan)
        else:
            work.write(job.path)
            job.used_before = cpu_percents(1.0)
        with started("app.edge.video.runner.main", folder, core=self.cores[EDGE] if self.pins else None) as process:
            job.process = process
            yield job
        del self.jobs[uid]

    def told(self, path: str, body: Mapping[str, Any]) -> None:
        if path == "/video/services/info":
            self.details[str(body["key"])] = body["detail"]
        elif path == "/node/get_plan" and (job := self.jobs.get(str(body["job_uid"]))):
            self._decide(job, body)
        elif path == "/node/sync_job_result" and (job := self.jobs.get(str(body["job_uid"]))):
            self._note(job, body)

    def _note(self, job: Job, body: Mapping[str, Any]) -> None:
        now, result = time.monotonic(), body.get("plan_result") or {}
        with job.lock:
            seq = result.get("plan_seq", len(job.plans))
            plan = next((plan for _, plan in job.plans if plan.seq == seq), job.plan)
            if plan is None:
                return
            steady = now - time.time()
            job.frames += [
                SeenFrame(
                    int(row["n_loop"]), float(row["at"]) - float(row["e2e"]) + steady, float(row["e2e"]), now, plan
                )
                for row in body["results"]
                if not row.get("tracked")
            ]
            job.reports.append((now, len(body["results"])))
            if "bytes_up" in result:
                job.sent.append(result["bytes_up"])
            if body.get("note") or body.get("reason"):
                job.notes.append(f"{body.get('note', '')}{body.get('reason', '')}")

    def _decide(self, job: Job, body: Mapping[str, Any]) -> None:
        if job.policy is None:
            return
        with job.lock:
            last = job.plan.to_json() if job.plan else None
            state = {
                **job.memory,
                "profile": list(self.rows),
                "now": time.monotonic(),
                "last_plan": last and {key: last[key] for key in ("video_conf", "flow_mapping")},
            }
            decision = self.policy_runner.decide(
                PlanningInput(
                    policy=job.policy,
                    job_uid=job.uid,
                    dag=self.case.info,
                    # an agent has measured before the first decision, too; afterwards, since the last one
                    resource_info=self.resources(job.used_before if not job.decisions else cpu_percents()),
                    last_plan_res=body.get("last_plan_result"),
                    user_constraint={"delay": (-1.0, self.hi_s), "quality": 0.0, "given": {}},
                    generator_output=body.get("generator_output") or self.case.source,
                    state=state,
                )
            )
            job.memory = {
                key: value for key, value in decision.state.items() if key not in ("profile", "now", "last_plan")
            }
            job.decisions.append(decision.took_ms)
            job.reasons.append(f"{decision.outcome}: {decision.reason}")
            if decision.plan is not None:
                job.take(decision.plan)

    def resources(self, used: Sequence[float]) -> ResourceInfo:
        """As the web would have it. Each node is one core of this machine. used: percent of each core."""
        infos: ResourceInfo = {}
        for name, host in self.hosts.items():
            detail = self.details.get(name, {})
            way = self.details.get(EDGE, {}).get("way", {}).get(name, {})
            cpu = used[self.cores[name]] / 100
            service: ServiceInfo = {
                "n_process": 1,
                "cpu_ratio": min(cpu, detail.get("cpu_ratio", 0.0) * (psutil.cpu_count() or 1)),
                "mem_ratio": 0.0,
                "url": host.url,
                "queue": detail.get("queue", 0),
            }
            infos[host.ip] = {
                "node": name,
                "ip": host.ip,
                "role": host.role,
                "online": True,
                "cpu_ratio": cpu,
                "mem_ratio": 0.0,
                "cores": 1,
                "accelerators": [],
                "up_mbps": way.get("up_mbps"),
                "down_mbps": way.get("down_mbps"),
                "age_s": 0.0,
                "service": {stage.name: service for stage in self.case.stages},
            }
        return infos

    def plan(self, places: Mapping[str, str], conf: VideoConf, model: int = 0) -> Plan:
        """A fixed one: stage → node."""
        mapping = {
            stage: StagePlace(model, Role(ROLES[name]), self.hosts[name].ip, name) for stage, name in places.items()
        }
        return Plan(0, conf, mapping, "fixed")


@contextmanager
def started(module: str, folder: Path, *, core: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told by folder/work.json, on that core alone, or anywhere."""
    argv = [*([] if core is None else pinned(core)), sys.executable, "-m", module]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, VARIABLE: str(folder / "work.json")}, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_url(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, trust_env=False).status_code < 500:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise NotMeasured(f"{url} did not answer:\n{log.read_text()[-3000:]}")


def _handler(deployment: VideoNodes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            answer = b'{"status": 0}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            if self.headers.get("content-type", "").startswith("application/json"):
                deployment.told(unquote(self.path), json.loads(data))

        def log_message(self, *_: object) -> None:
            """Nothing is printed between the rows."""

    return Handler


def cores() -> dict[str, int]:
    """A core for each node, of those that this process may use; on a machine with one it is the same."""
    usable = sorted(os.sched_getaffinity(0))
    return {EDGE: usable[0], CLOUD: usable[-1]}


def cpu_percents(seconds: float | None = None) -> Sequence[float]:
    """Of each core, in the next seconds; None: since the last call."""
    return psutil.cpu_percent(seconds, percpu=True)


def pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core)]


def busy(core: int) -> Callable[[], Any]:
    """Something that computes on that core without end."""
    process = subprocess.Popen([*pinned(core), sys.executable, "-c", "while True: pass"])

    def end() -> None:
        process.kill()
        process.wait()

    return end
