"""A stub of the host of the stages and one of the agent, in threads, and a runner between them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.edge.video.runner import job, reporter
from app.edge.video.runner.job import JobRunner
from app.edge.video.runner.main import _application
from app.edge.video.runner.reporter import PlanRequester
from app.edge.video.stage_host.pictures import H264Decoder
from app.edge.video.work import RunnerWork
from app.inference.model_card import Format, ModelCard
from app.video.model.constraint import Constraint
from app.video.model.dag import Dag, read_dag
from app.video.model.job import JobContent, Mode, RestartPolicy, StageHost
from app.video.model.kinds import Stage
from app.video.model.plan import Encoder, Plan, Role, StagePlace, VideoConf
from app.video.model.stage_call import H264, KEPT, RAW, KeyframeNeeded, unpack_call
from tests.harness.until import PATIENCE_S
from tests.harness.video.dags import REQUIREMENT
from tests.harness.web import Server

SECRET = "the secret of a job"
UID = "GLOBAL_ID_1.SUB_ID_1"
PATIENCE = {
    (job, "EVERY_S"): 0.1,
    (job, "LOOK_S"): 0.05,
    (job, "PROBE_S"): 0.1,
    (PlanRequester, "LEAST_S"): 0.3,
    (reporter, "TIMEOUT_S"): PATIENCE_S,
}
"""How often a runner of the tests reports, reads its work, asks after lost hosts and demands a plan, and how long it
waits for its agent: rows of whose arrival it does not hear are sent again."""
NEVER = 10**6
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def detected(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"bbox": [[10.0, 10.0, 40.0, 50.0]], "prob": [0.9]}


def aligned(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    count = len(inputs.get("bbox", ()))
    return {"head_pose": [[1.0, 2.0, 3.0]] * count, "count_result": {"up": count, "total": count}}


@dataclass(frozen=True)
class Called:
    """kind: content type of its picture; size: width and height; digest: of the pixels."""

    stage: str
    model_id: int
    kind: str
    sent: int
    size: tuple[int, int]
    digest: str
    began: float
    ended: float
    want: frozenset[str]
    frame: str


class Served:
    """A Starlette application served by a thread."""

    def __init__(self, port: int = 0) -> None:
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def serve(self, app: Starlette) -> None:
        self._server = Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Soon; see stop."""
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True

    def stop(self) -> None:
        self.end()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
        self.socket.close()


class StubHost(Served):
    """answers: stage → what it finds; delays: stage → seconds; problems: stage → HTTP status and code to answer;
    prepared: stages with models that it was to open; it answers that they are open while may_open is set."""

    def __init__(self, node: str, *, role: str = "host", port: int = 0) -> None:
        super().__init__(port)
        self.node, self.role = node, role
        self.answers: dict[str, Answer] = {"face_detection": detected, "face_alignment": aligned}
        self.delays: dict[str, float] = {}
        self.problems: dict[str, tuple[int, str]] = {}
        self.calls: list[Called] = []
        self.prepared: list[tuple[str, int]] = []
        self.may_open = threading.Event()
        self.may_open.set()
        self.forget_kept = False
        self.lose_packets = 0
        self._kept: dict[tuple[str, str, str], list[np.ndarray]] = {}
        self._stream = H264Decoder()
        self._turn = threading.Condition()
        self._lock = threading.Lock()
        self.serve(
            Starlette(
                routes=[
                    Route("/healthz", lambda _: JSONResponse({"status": 0})),
                    Route("/service/{name}", self._call, methods=["POST"]),
                    Route("/prepare/{name}", self._prepare, methods=["POST"]),
                ]
            )
        )

    @property
    def as_host(self) -> StageHost:
        return StageHost(self.node, self.role, "127.0.0.1", self.url, SECRET)

    def of(self, stage: str) -> list[Called]:
        with self._lock:
            return [call for call in self.calls if call.stage == stage and not call.frame.startswith("golden")]

    async def _call(self, request: Request) -> Response:
        import anyio

        body = await request.body()
        return await anyio.to_thread.run_sync(self._answer, request, body)

    def _prepare(self, request: Request) -> Response:
        with self._lock:
            self.prepared.append((request.path_params["name"], int(request.query_params["model_id"])))
        self.may_open.wait()
        return JSONResponse({"status": 0})

    def _answer(self, request: Request, body: bytes) -> Response:
        began = time.monotonic()
        if request.headers.get("authorization") != f"Bearer {SECRET}":
            return self._refusal(401, "UNAUTHORIZED")
        stage = request.path_params["name"]
        call = unpack_call(stage, body, request.headers, request.query_params)
        if stage in self.problems:
            return self._refusal(*self.problems[stage])
        inputs: dict[str, Any] = dict(call.fields)
        kind = ""
        for name, several in call.pictures.items():
            key = (call.job, call.frame, name)
            kind = several[0].content_type.partition(";")[0]
            if kind == KEPT:
                if self.forget_kept or key not in self._kept:
                    return self._refusal(409, "PICTURE_NOT_KEPT")
            elif kind == H264 and self.lose_packets:
                self.lose_packets -= 1
                return self._refusal(409, "KEYFRAME_NEEDED")
            else:
                try:
                    self._kept[key] = [self._pixels(each.data, each.content_type) for each in several]
                except KeyframeNeeded as error:
                    return self._refusal(error.status, error.code)
            inputs[name] = self._kept[key]
        pictures: list[np.ndarray] | None = next((inputs[name] for name in call.pictures), None)
        time.sleep(self.delays.get(stage, 0.0))
        outputs = dict(self.answers[stage](inputs))
        shape = pictures[0].shape if pictures else (0, 0)
        digest = hashlib.sha256(pictures[0].tobytes()).hexdigest() if pictures else ""
        ended = time.monotonic()
        with self._lock:
            self.calls.append(
                Called(
                    stage,
                    call.model_id,
                    kind,
                    len(body),
                    (shape[1], shape[0]),
                    digest,
                    began,
                    ended,
                    call.want,
                    call.frame,
                )
            )
        outputs = {name: value for name, value in outputs.items() if not call.want or name in call.want}
        return JSONResponse({**outputs, "server_ms": (ended - began) * 1000, "queue_ms": 0, "model": "stub@4"})

    def _pixels(self, data: bytes, content_type: str) -> np.ndarray:
        kind, *options = content_type.split(";")
        if kind == RAW:
            named = dict(option.split("=") for option in options)
            return np.frombuffer(data, np.uint8).reshape(int(named["height"]), int(named["width"]), 3)
        if kind == H264:
            seq = int(options[0].removeprefix("seq="))
            with self._turn:
                self._turn.wait_for(lambda: self._stream.is_next(data, seq), 0.3)
                try:
                    return self._stream.picture(data, seq)
                finally:
                    self._turn.notify_all()
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    @staticmethod
    def _refusal(status: int, code: str) -> Response:
        body = {"status": 1, "error": "as the test wants it", "code": code}
        return JSONResponse(body, status_code=status)


class StubAgent(Served):
    """away: answers 503 and hears nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[dict[str, Any]] = []
        self.demands: list[dict[str, Any]] = []
        self.snapshots: list[bytes] = []
        self.away = False
        self.serve(
            Starlette(
                routes=[
                    Route("/node/get_plan", self._get_plan, methods=["POST"]),
                    Route("/node/sync_job_result", self._sync, methods=["POST"]),
                    Route("/video/{uid}/picture", self._picture, methods=["POST"]),
                ]
            )
        )

    @property
    def results(self) -> list[dict[str, Any]]:
        return [row for report in list(self.reports) for row in report["results"]]

    @property
    def processed(self) -> list[dict[str, Any]]:
        return [row for row in self.results if not row["tracked"]]

    @property
    def ending(self) -> tuple[str, str] | None:
        endings = [(report["ending"], report["reason"]) for report in list(self.reports) if "ending" in report]
        assert len(endings) <= 1, "an ending is said once"
        return endings[0] if endings else None

    @property
    def notes(self) -> str:
        return "\n".join(report["note"] for report in list(self.reports) if "note" in report)

    def plan_result(self, seq: int) -> dict[str, Any]:
        """The last of that plan; empty while there is none."""
        results = [report["plan_result"] for report in list(self.reports) if "plan_result" in report]
        return next((each for each in reversed(results) if each["plan_seq"] == seq), {})

    async def _get_plan(self, request: Request) -> Response:
        return await self._heard(request, self.demands)

    async def _sync(self, request: Request) -> Response:
        return await self._heard(request, self.reports)

    async def _picture(self, request: Request) -> Response:
        self.snapshots.append(await request.body())
        return JSONResponse({"status": 0})

    async def _heard(self, request: Request, into: list[dict[str, Any]]) -> Response:
        if self.away:
            return Response(status_code=503)
        into.append(json.loads(await request.body()))
        return JSONResponse({"status": 0})


def card(name: str) -> ModelCard:
    return ModelCard(name, Format.ONNX, hashlib.sha256(name.encode()).hexdigest(), 1)


def stages_of(dag: Dag) -> tuple[Stage, ...]:
    return tuple(
        Stage(name, dag.own[name].kind if name in dag.own else name, tuple((card(f"{name}-{n}"),) for n in range(3)))
        for name in dag.stages
    )


def plan_of(dag: Dag, node: str, seq: int = 1, *, model_id: int = 0, **conf: Any) -> Plan:
    """Every stage on that node."""
    role = Role.HOST if node == "edge-1" else Role.CLOUD
    places = {stage: StagePlace(model_id, role, "127.0.0.1", node) for stage in dag.stages}
    return Plan(seq, VideoConf(**{"fps": 120.0, "resolution": "1080p", "encoder": Encoder.JPEG, **conf}), places)


@dataclass
class Deployment:
    folder: Path
    agent: StubAgent
    hosts: list[StubHost]
    media_server: str = ""
    runner: JobRunner | None = None
    work: RunnerWork | None = None
    _live: list[Served] = field(default_factory=list)

    def content(self, plan: Plan | None, dag: Any = None, **more: Any) -> JobContent:
        read = read_dag(dag or REQUIREMENT)
        given: dict[str, Any] = {
            "uid": UID,
            "video_id": "0",
            "dag": read,
            "stages": stages_of(read),
            "mode": Mode.RUN,
            "realtime": False,
            "restart_policy": RestartPolicy.NEVER,
            "constraint": Constraint(),
            "plan": plan,
            "hosts": tuple(host.as_host for host in self.hosts),
            "secret": SECRET,
            **more,
        }
        return JobContent(**given)

    def start(self, content: JobContent, source: Path | str) -> JobRunner:
        """A job that processes each frame, as fast as it can be, asks for no other plan meanwhile, however slow the
        machine is: what is counted is counted anew with each demand."""
        self.work = RunnerWork(
            content,
            str(source),
            host="127.0.0.1",
            port=0,
            folder=self.folder,
            agent_url=self.agent.url,
            node="edge-1",
            media_server=self.media_server,
        )
        path = self.folder / "work.json"
        self.work.write(path)
        self.runner = JobRunner(RunnerWork.read(path), path)
        if not content.realtime:
            self.runner.requester.FRAMES = self.runner.requester.LATE = NEVER
        self.runner.start()
        return self.runner

    def change(self, **content: Any) -> None:
        """As the agent's side does it: the file is written anew."""
        assert self.work is not None
        self.work = replace(self.work, content=replace(self.work.content, **content))
        self.work.write(self.folder / "work.json")

    def serve(self) -> str:
        """URL of the runner's own server."""
        assert self.runner is not None
        served = Served()
        served.serve(_application(self.runner))
        self._live.append(served)
        return served.url

    def stop(self) -> None:
        """Closes the runner, once; the agent and the hosts stay."""
        if self.runner is not None:
            self.runner.close()
            self.runner = None

    def close(self) -> None:
        self.stop()
        servers = (*self._live, self.agent, *self.hosts)
        for served in servers:
            served.end()
        for served in servers:
            served.stop()


@contextlib.contextmanager
def deployment(folder: Path, *hosts: StubHost) -> Iterator[Deployment]:
    made = Deployment(folder, StubAgent(), list(hosts) or [StubHost("edge-1")])
    with pytest.MonkeyPatch.context() as patched:
        for (place, name), seconds in PATIENCE.items():
            patched.setattr(place, name, seconds)
        try:
            yield made
        finally:
            made.close()


def video(path: Path, frames: int = 50, fps: int = 25, size: tuple[int, int] = (320, 180)) -> Path:
    """A bright square that moves two pixels a frame to the right, on a grey ground with a pattern."""
    path.write_bytes(_video(frames, fps, size))
    return path


@functools.cache
def _video(frames: int, fps: int, size: tuple[int, int]) -> bytes:
    width, height = size
    rng = np.random.default_rng(1)
    ground = np.repeat(rng.integers(90, 130, (height, width, 1), np.uint8), 3, axis=2)
    square = np.repeat(rng.integers(120, 255, (40, 40, 1), np.uint8), 3, axis=2)
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.bit_rate = 4_000_000
        for number in range(frames):
            picture = ground.copy()
            left = min(20 + 2 * number, width - 40)
            picture[60:100, left : left + 40] = square
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return file.getvalue()
