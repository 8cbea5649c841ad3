"""The whole product with two edge nodes and one of the cloud, each with an address of its own on this machine, and a
package with stages and policies of somebody's own installed everywhere."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import av
import httpx
import psutil

from app.kit.queue.messages import Queue
from tests.harness.deployment import DRAMATIQ
from tests.harness.joint.deployment import Agent, JointDeployment
from tests.harness.paths import REPOSITORY
from tests.harness.until import until

EDGE, OTHER, CLOUD = "edge0", "edge1", "cloud0"
ADDRESSES = {EDGE: "127.0.0.2", OTHER: "127.0.0.3", CLOUD: "127.0.0.1"}
ROLES = {EDGE: "host", OTHER: "edge", CLOUD: "cloud"}
"""As seen from edge0."""
VIDEO = "/api/v2/video"
GENERATOR = "SingleFrameGenerator"
FRAME = f"{GENERATOR}.image"
CONF = {"resolution": "240p", "fps": 12, "nskip": 0, "ntracking": 0, "encoder": "JPEG"}
MODELS = {
    "face_rfb_640": "ultraface",
    "face_rfb_320": "ultraface",
    "face_slim_320": "ultraface",
    "headpose_fsanet_1x1": "auto",
    "headpose_fsanet_var": "auto",
}
Json = dict[str, Any]

STAGES = '''
import hashlib
import time

from app.video.model.kinds import StageKind, Type

COUNTS = {"count_result": Type.COUNTS}


class Own:
    runtime = "python"

    def __init__(self, models, parameters):
        self.parameters = parameters
        self.hits = self.boxes = 0


class Sizes(Own):
    kind = StageKind("sizes", {"image": Type.IMAGE}, COUNTS, models=0)

    def run(self, inputs):
        height, width, _ = inputs["image"].shape
        return {"count_result": {"width": width, "height": height}}


class Digest(Own):
    """When it began and ended, by the machine's clock, and what it was given."""

    kind = StageKind("digest", {"image": Type.IMAGE}, {"label": Type.LABELS}, models=0)

    def run(self, inputs):
        began = time.monotonic()
        time.sleep(0.1)
        return {"label": [hashlib.sha256(inputs["image"].tobytes()).hexdigest(), str(began), str(time.monotonic())]}


class Compared(Own):
    kind = StageKind("compared", {"one": Type.LABELS, "other": Type.LABELS}, COUNTS, models=0)

    def run(self, inputs):
        (one, *first), (other, *second) = inputs["one"], inputs["other"]
        begins, ends = zip(map(float, first), map(float, second))
        found = {"same": one == other, "beside": max(begins) < min(ends), "after": time.monotonic() >= max(ends)}
        return {"count_result": {name: int(value) for name, value in found.items()}}


class Agreed(Own):
    """Over all frames so far."""

    kind = StageKind("agreed", {"one": Type.BOXES, "other": Type.BOXES}, COUNTS, models=0)

    def run(self, inputs):
        one, other = inputs["one"], inputs["other"]
        self.boxes += len(one) + len(other)
        self.hits += 2 * sum(any(overlap(a, b) >= 0.5 for b in other) for a in one)
        return {"count_result": {"hits": self.hits, "boxes": self.boxes}}


class Pausing(Own):
    kind = StageKind("pausing", {"image": Type.IMAGE}, COUNTS, models=0, parameters=frozenset({"seconds"}))

    def run(self, inputs):
        time.sleep(float(self.parameters["seconds"]))
        return {"count_result": {"paused": 1}}


class Failing(Own):
    kind = StageKind("failing", {"image": Type.IMAGE}, COUNTS, models=0)

    def run(self, inputs):
        raise RuntimeError("the lens is dirty")


def overlap(a, b):
    width, height = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (areas - width * height)
'''
POLICIES = '''
import time


def answer(dag, resource_info):
    host = next(ip for ip, node in resource_info.items() if node["role"] == "host")
    conf = {"resolution": "240p", "fps": 5, "nskip": 0, "ntracking": 0, "encoder": "JPEG"}
    return conf, {stage: {"model_id": 0, "node_role": "host", "node_ip": host} for stage in dag["stages"]}


def tells(*, dag, resource_info, user_constraint, state, **rest):
    """Says what is demanded."""
    state["reason"] = f"Demanded: {user_constraint['delay']}, {user_constraint['quality']}."
    return answer(dag, resource_info)


def raises(**given):
    """Raises."""
    raise KeyError("no such thing")


def sleeps(**given):
    """Takes too long."""
    time.sleep(600)


def nonsense(**given):
    """Answers what cannot be."""
    return {"resolution": "144p"}, {"nothing": 7}
'''
KINDS = ("sizes", "digest", "compared", "agreed", "pausing", "failing")
OWN_POLICIES = ("tells", "raises", "sleeps", "nonsense")


def installed(folder: Path) -> Path:
    """A package of somebody's own, as pip would have put it there."""
    about = folder / "own_video-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "own_stages.py").write_text(STAGES)
    (folder / "own_policies.py").write_text(POLICIES)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-video\nVersion: 1.0\n")
    points = ["[modelmill.video_stages]", *(f"{name} = own_stages:{name.title()}" for name in KINDS)]
    points += ["[modelmill.video_policies]", *(f"{name} = own_policies:{name}" for name in OWN_POLICIES)]
    (about / "entry_points.txt").write_text("\n".join(points) + "\n")
    return folder


class VideoCluster(JointDeployment):
    """early: what edge0 had said before there was a web."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, log_format="json")
        self.folder = folder
        self.kept: dict[str, str] = {}
        """Jobs that several tests share, by the name of the fixture that each of them uses."""
        self.deployment.env["PYTHONPATH"] = f"{REPOSITORY}:{installed(folder / 'site')}"
        self.early = ""

    def control(self) -> None:
        queues = ["--queues", Queue.VIDEO, Queue.VIDEO_PLANS, Queue.NODES, Queue.PERIODIC]
        self.controller = self.deployment.start([DRAMATIQ, "actors", *queues, "--processes", "1", "--threads", "4"])

    def begin(self, data: Path) -> None:
        """The edge first, which has to wait for the web."""
        clips = data / "video"
        videos = [clips / "classroom-270p.mp4", begin_of(clips / "headpose-female-270p.mp4", self.folder / "head.mp4")]
        named = [argument for clip in videos for argument in ("--video", f"people indoor={clip}")]
        log = self.folder / f"{len(self.deployment.processes)}.log"
        self.agent(EDGE, "edge", *named, "--source", str(self.folder))
        self.early = until(log.read_text, lambda text: "again" in text)
        self.start()
        self.agent(OTHER, "edge", *named)
        self.agent(CLOUD, "cloud")
        for name in self.agents:
            until(partial(self._is_online, name))
        for name, decoder in MODELS.items():
            self.add_model(name, (data / "models" / f"{name}.onnx").read_bytes(), decoder=decoder)
        self.stage("face_detection", "face_detection", ["face_rfb_640"], ["face_rfb_320"], ["face_slim_320"])
        self.stage("face_alignment", "face_alignment", ["headpose_fsanet_1x1", "headpose_fsanet_var"])
        for name in ("sizes", "compared", "agreed", "failing"):
            self.stage(name, name)
        for name in ("left", "right"):
            self.stage(name, "digest")
        self.stage("pausing", "pausing", seconds="0.1")
        until(self._serves_all_everywhere)

    def _serves_all_everywhere(self) -> bool:
        """What a node does not serve yet is planned elsewhere."""
        names = {stage["name"] for stage in self.http.get(f"{VIDEO}/stages").json()["stages"]}
        serving = self.http.get("/get_resource_info").json().values()
        return len(serving) == len(ADDRESSES) and all(names <= stages.keys() for stages in serving)

    def agent(self, name: str, side: str, *arguments: str) -> None:
        host = ADDRESSES[name]
        self.agents[name] = Agent(self.deployment, name, side, "--bind", host, *arguments, host=host)

    def stage(self, name: str, kind: str, *models: list[str], **parameters: str) -> None:
        body = {"kind": kind, "models": models, "parameters": parameters}
        answer = self.http.put(f"{VIDEO}/stages/{name}", json=body)
        assert answer.status_code == 200, answer.text

    # --- jobs ---------------------------------------------------------------------------------------------
    def body(self, dag: Json, *, node: str = EDGE, **more: Any) -> Json:
        address = f"{ADDRESSES[node]}:{self.agents[node].port}"
        return {"node_addr": address, "video_id": 0, "dag": dag, "restart_policy": "eos", **more}

    def submit(self, dag: Json, **more: Any) -> str:
        answer = self.http.post("/user/submit_job", json=self.body(dag, **more))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["job_uid"])

    def job(self, uid: str) -> Json:
        job: Json = self.http.get(f"{VIDEO}/jobs/{uid}").json()
        return job

    def result(self, uid: str) -> Json:
        result: Json = self.http.get(f"/user/sync_job_result/{uid}").json()["result"]
        return result

    def frames(self, uid: str) -> list[Json]:
        """The newest."""
        rows: list[Json] = self.result(uid)["appended_result"]
        return rows

    def advances(self, uid: str, frames: int = 10) -> list[Json]:
        """So many from now on."""
        begun = self.job(uid)["n_loop"]
        until(lambda: self.job(uid)["n_loop"] >= begun + frames)
        return self.frames(uid)

    def decisions(self, uid: str) -> list[Json]:
        """Newest first."""
        decisions: list[Json] = self.http.get(f"{VIDEO}/jobs/{uid}/decisions").json()["decisions"]
        return decisions

    def events_text(self, uid: str) -> str:
        """Its events."""
        events = self.http.get(f"{VIDEO}/jobs/{uid}/events").json()["events"]
        return "\n".join(event["message"] for event in events)

    def choose(self, uid: str, policy: str) -> None:
        assert self.http.put(f"{VIDEO}/jobs/{uid}/policy", json={"policy": policy}).status_code == 200

    def give(self, uid: str, conf: Mapping[str, Any], places: Mapping[str, tuple[int, str]]) -> httpx.Response:
        """A plan by hand, at the agent of edge0. places: stage → model and node."""
        mapping = {
            stage: {"model_id": model, "node_role": ROLES[node], "node_ip": ADDRESSES[node]}
            for stage, (model, node) in places.items()
        }
        body = {"job_uid": uid, "video_conf": {**CONF, **conf}, "flow_mapping": mapping}
        return httpx.post(f"{self.agents[EDGE].url}/node/update_plan", json=body, trust_env=False, timeout=60)

    def measured(self, uid: str, conf: Mapping[str, Any], places: Mapping[str, tuple[int, str]]) -> int:
        """The number of that plan by hand, when frames have been processed by it."""
        answer = self.give(uid, conf, places)
        assert answer.status_code == 200, answer.text
        seq: int = self.result(uid)["latest_result"]["plan"]["seq"]
        until(lambda: self.plan_result(uid), lambda result: result.get("plan_seq") == seq and result["frames"] > 3)
        return seq

    def plan_result(self, uid: str) -> Json:
        result: Json = self.result(uid)["latest_result"]["plan_result"]
        return result

    def keep(self, name: str, dag: Json, **more: Any) -> str:
        """A job that runs as long as tests follow each other that use it: see end_jobs."""
        if name not in self.kept:
            self.kept[name] = self.submit(dag, **more)
            until(lambda: self.frames(self.kept[name]))
        return self.kept[name]

    def end_jobs(self, *, but: Collection[str] = ()) -> None:
        """All of them, and their processes; but: names of kept ones that go on."""
        self.cancel_jobs(but=but)
        until(lambda: sum(len(self.runners(name)) for name in self.agents), lambda seen: seen == len(self.kept))

    def cancel_jobs(self, *, but: Collection[str] = ()) -> None:
        """As end_jobs, without waiting for their processes, which an agent that is silent does not end."""
        self.kept = {name: uid for name, uid in self.kept.items() if name in but}
        listed = self.http.get(f"{VIDEO}/jobs", params={"limit": 200}).json()["jobs"]
        for job in listed:
            if job["state"] != "DONE" and job["uid"] not in self.kept.values():
                assert self.http.post(f"{VIDEO}/jobs/{job['uid']}/cancel").status_code == 200

    # --- nodes --------------------------------------------------------------------------------------------
    def calls(self, node: str, uid: str) -> list[Json]:
        """What the node's host of stages has written down of this job's calls."""
        calls = list[Json]()
        for log in self.agents[node].folder.rglob("services-*.log"):
            lines = (json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("}\n"))
            calls += [line for line in lines if line["message"] == "Stage called" and line.get("job") == uid]
        return [call for call in calls if not str(call.get("frame")).startswith("golden")]

    def workers(self, node: str, module: str) -> list[psutil.Process]:
        """Processes of that module that run out of the node's folder."""
        return [process for process in psutil.process_iter() if self._is_of(process, node, module)]

    def runners(self, node: str) -> list[psutil.Process]:
        return self.workers(node, "app.edge.video.runner.main")

    def _is_of(self, process: psutil.Process, node: str, module: str) -> bool:
        try:
            return module in process.cmdline() and process.cwd().startswith(str(self.agents[node].folder))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            return False

    def waiting(self, node: str) -> int:
        """Reports that the web has not heard yet."""
        (file,) = self.agents[node].folder.rglob("*.db")
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as conn:
            return int(conn.execute("SELECT COUNT(*) FROM outbox WHERE path = '/node/sync_job_result'").fetchone()[0])

    def frames_heard(self) -> int:
        """How many results the web has taken, of all jobs; what is counted is kept for longer than a web lives."""
        counted: Mapping[Any, Any] = self.deployment.redis.hgetall("metrics")
        counts = [value for key, value in counted.items() if b"video_frames" in key and b"processed" in key]
        return sum(int(float(value)) for value in counts)

    @contextmanager
    def silent(self, node: str) -> Iterator[None]:
        """Its agent neither hears nor says anything; what it has started goes on."""
        process = self.agents[node].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)


def begin_of(clip: Path, file: Path, packets: int = 70) -> Path:
    """The first frames of the clip, as they are."""
    with av.open(str(clip)) as source, av.open(str(file), "w") as target:
        video = source.streams.video[0]
        stream = target.add_stream_from_template(video)
        for packet in islice(source.demux(video), packets):
            packet.stream = stream
            target.mux(packet)
    return file


def dag(flow: Any, inputs: Mapping[str, Mapping[str, str]], count: str) -> Json:
    """Drawn is the frame itself."""
    return {
        "generator": GENERATOR,
        "flow": flow,
        "input": {**inputs, "Render": {"image": FRAME, "count": count}},
    }


def one_stage(name: str) -> Json:
    """That takes a picture and counts."""
    return dag([GENERATOR, name], {name: {"image": FRAME}}, f"{name}.count_result")


FACES: Json = {
    "generator": GENERATOR,
    "flow": [GENERATOR, "face_detection", "face_alignment"],
    "input": {
        "face_detection": {"image": FRAME},
        "face_alignment": {"image": FRAME, "bbox": "face_detection.bbox", "prob": "face_detection.prob"},
        "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
    },
}
"""The requirement's."""
FORKED = dag(
    {"left": [GENERATOR], "right": [GENERATOR], "compared": ["left", "right"]},
    {
        "left": {"image": FRAME},
        "right": {"image": FRAME},
        "compared": {"one": "left.label", "other": "right.label"},
    },
    "compared.count_result",
)
