"""Nodes with videos and jobs that run or have run on them, put into the database as nodes and controller would have
left them. No process runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.inference.model_card import Format, ModelCard
from app.kit.clock import to_text
from app.nodes.errors import NodeExists
from app.nodes.model import NodeReport, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.service import Nodes
from app.video import store
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import JOBS, PART, SERVICES, SERVICES_PART, Ending, JobState, RestartPolicy, VideoJob
from app.video.model.kinds import Stage, StageSpec
from app.video.model.plan import Encoder, Plan, Role, StagePlace, VideoConf
from app.video.model.report import Measurement
from app.video.service import SeriesPoint, Video

BEGAN = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
EDGE, CLOUD = "edge0", "cloud0"
ADDRESSES = {EDGE: "192.168.56.102", CLOUD: "114.212.81.11"}
AGENT_PORT = 7000
VIDEOS = {
    "0": {"type": "traffic flow", "name": "traffic-720p.mp4"},
    "1": {"type": "people indoor", "name": "classroom-270p.mp4"},
}
MEDIA_SERVER = "rtsp://192.168.56.102:8554/jobs"
MODELS = {
    "face_detection": (("face_rfb_640",), ("face_rfb_320",), ("face_slim_320",)),
    "face_alignment": (("headpose_fsanet_1x1",),),
}
POINTS = 30


def dag() -> dict[str, Any]:
    """The requirement's example."""
    generator = "SingleFrameGenerator"
    return {
        "generator": generator,
        "flow": [generator, "face_detection", "face_alignment"],
        "input": {
            "face_detection": {"image": f"{generator}.image"},
            "face_alignment": {
                "image": f"{generator}.image",
                "bbox": "face_detection.bbox",
                "prob": "face_detection.prob",
            },
            "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
        },
    }


def stage(name: str) -> Stage:
    """With models that are nowhere."""
    cards = tuple(
        tuple(ModelCard(model, Format.ONNX, _digest(model), 1 << 20) for model in models) for models in MODELS[name]
    )
    return Stage(name, name, cards)


def video_nodes(nodes: Nodes, *, now: datetime, jobs: Sequence[str] = ()) -> None:
    """edge0 with two videos and cloud0, both online, with their hosts of stages. jobs: uids of those that edge0 runs.
    Without an order they are not told to: what the controller makes of that is another matter."""
    for name, side in ((EDGE, Side.EDGE), (CLOUD, Side.CLOUD)):
        with suppress(NodeExists):
            nodes.register(name, side, now=now)
        offer = {"address": f"{ADDRESSES[name]}:{AGENT_PORT}", "videos": VIDEOS, "media_server": MEDIA_SERVER}
        offers = {JOBS: offer} if name == EDGE else {}
        runners = [_runner(uid, number) for number, uid in enumerate(jobs)] if name == EDGE else []
        report = NodeReport(
            cpu=0.35,
            memory=0.4,
            load=0.7,
            memory_bytes=8 << 30,
            cores=4,
            free_disk_bytes=1 << 40,
            offers=offers,
            workers=(_host(name), *runners),
        )
        nodes.report(name, report, address=ADDRESSES[name], version="1", now=now)


def running_video(
    video: Video,
    owner: str = "local",
    *,
    now: datetime = BEGAN,
    constraint: object = None,
    policy: str = "profile",
    recording: object = None,
) -> VideoJob:
    """A job on video 1 of edge0, a minute old, with a plan (detection at the edge, alignment in the cloud), ten
    results, decisions, events, points of its plots, measurements, and a catalogue with its two stages."""
    job = _stored(video, owner, now - timedelta(minutes=1), constraint, policy, recording)
    video_nodes(video.resources.nodes, now=now, jobs=[job.uid])
    with video.jobs.database.write() as conn:
        kept = store.lock(conn, job.uid)
        assert kept is not None
        store.enter(conn, kept, JobState.EXEC, at=to_text(now - timedelta(seconds=59)), message="Plan 1 by profile.")
        store.add_event(conn, job.uid, to_text(now), type="Note", message="The source has 24 frames a second.")
        store.change(
            conn,
            job.uid,
            plan_seq=2,
            plan=plan().to_json(),
            plan_result=plan_result(),
            reported_at=to_text(now),
            results=[result(n) for n in range(41, 51)],
            n_loop=50,
            report_seq=50,
            asked=2,
            generator_output={"seq": 50, "bytes": 18900.0, "objects": 4, "fps": 24.0, "width": 480, "height": 270},
        )
        _decide(conn, job, now)
        store.put_measurements(conn, measured(now))
    for number in range(POINTS):
        at = to_text(now - timedelta(seconds=2 * (POINTS - number)))
        shown = {**plan_result(), "e2e_p50": 0.2 + 0.005 * number, "e2e_p95": 0.25 + 0.006 * number}
        video.reports.plots.add(job.uid, vars(SeriesPoint(at, shown, plan().to_json(), job.constraint.hi)))
    return video.jobs.get(owner, job.uid)


def waiting_video(video: Video, owner: str = "local", *, now: datetime = BEGAN) -> VideoJob:
    """A job without a plan."""
    video_nodes(video.resources.nodes, now=now)
    return _stored(video, owner, now, None, "profile")


def ended_video(
    video: Video,
    owner: str = "local",
    *,
    now: datetime = BEGAN,
    ending: Ending = Ending.FINISHED,
    reason: str = "The video came to its end.",
) -> VideoJob:
    """As running_video, and then it ended so."""
    job = running_video(video, owner, now=now)
    with video.jobs.database.write() as conn:
        kept = store.lock(conn, job.uid)
        assert kept is not None
        store.enter(conn, kept, JobState.DONE, at=to_text(now), message=reason, ending=ending)
    return video.jobs.get(owner, job.uid)


def plan(seq: int = 2) -> Plan:
    places = {
        "face_detection": StagePlace(0, Role.HOST, ADDRESSES[EDGE], EDGE),
        "face_alignment": StagePlace(0, Role.CLOUD, ADDRESSES[CLOUD], CLOUD),
    }
    return Plan(seq, VideoConf("480p", 24.0, 1, 2, Encoder.JPEG), places, "profile")


def plan_result() -> dict[str, Any]:
    return {
        "delay": {"face_detection": 0.12, "face_alignment": 0.09},
        "iou": {"face_detection": 0.97},
        "mae": {"face_alignment": 1.5},
        "server": {"face_detection": 0.11, "face_alignment": 0.03},
        "queue": {"face_detection": 0.002, "face_alignment": 0.001},
        "e2e_p50": 0.23,
        "e2e_p95": 0.31,
        "fps": 5.8,
        "frames": 50,
        "tracked": 100,
        "skipped": 50,
        "dropped": 1,
        "violations": 0,
        "bytes_up": 18900.0,
        "up_mbps": {CLOUD: 18.5},
        "fallbacks": 0,
        "plan_seq": 2,
    }


def result(n_loop: int) -> dict[str, Any]:
    return {"n_loop": n_loop, "up": n_loop % 4, "total": 4, "e2e": 0.23, "tracked": False}


def measured(now: datetime) -> list[Measurement]:
    """Of both stages on both nodes at three sizes."""
    return [
        Measurement(
            node,
            name,
            model_id,
            _digest(models[0]),
            resolution,
            delay_s=round(0.01 * (size + 1) * (3 - model_id) / (3 if node == CLOUD else 1), 5),
            bytes=9000.0 * (size + 1),
            quality=round(0.99 - 0.03 * model_id - 0.01 * (2 - size), 3),
            frames=30,
            at=to_text(now),
        )
        for node in (CLOUD, EDGE)
        for name, variants in MODELS.items()
        for model_id, models in enumerate(variants)
        for size, resolution in enumerate(("360p", "480p", "720p"))
    ]


def _stored(
    video: Video, owner: str, at: datetime, constraint: object, policy: str, recording: object = None
) -> VideoJob:
    read = read_dag(dag() | {"recording": recording})
    job = VideoJob(
        uid="",
        owner=owner,
        node=EDGE,
        video_id="1",
        dag=read,
        stages=tuple(stage(name) for name in read.stages),
        constraint=read_constraint(constraint),
        policy=policy,
        restart_policy=RestartPolicy.NEVER,
        created_at=to_text(at),
        secret="a secret of the runner",
        reason="It waits for its first plan.",
    )
    with video.jobs.database.write() as conn:
        number = store.next_number(conn)
        job = replace(job, uid=f"GLOBAL_ID_{number}.SUB_ID_1")
        store.add_job(conn, store.StoredJob(job, number))
        for name in read.stages:
            store.put_stage(
                conn, store.StoredStage(owner, to_text(at), StageSpec(name, name, MODELS[name]), stage(name))
            )
    return job


def _decide(conn: Any, job: VideoJob, now: datetime) -> None:
    rows = (
        (1, "start", "new", "Nothing is measured yet: what is likely to be fast enough.", plan(1).to_json()),
        (2, "period", "new", "More quality fits into 0.8 s.", plan(2).to_json()),
        (3, "period", "late", "The policy took longer than 1 s.", None),
    )
    for seq, why, outcome, reason, chosen in rows:
        at = to_text(now - timedelta(seconds=59 - 10 * seq))
        decided = store.DecisionRecord(at, seq, job.policy, why, outcome, reason, 1.7, _digest(f"{seq}"), chosen)
        store.add_decision(conn, job.uid, decided)


def _host(node: str) -> WorkerReport:
    way = {CLOUD if node == EDGE else EDGE: {"up_mbps": 20.0, "down_mbps": 40.0, "at": to_text(BEGAN)}}
    detail = {
        "n_process": 2,
        "cpu_ratio": 0.3,
        "mem_ratio": 0.2,
        "queue": 0,
        "way": way,
        "stages": dict.fromkeys(MODELS, "onnxruntime"),
    }
    return WorkerReport(
        WorkKey(SERVICES, node, SERVICES_PART),
        "video",
        node,
        node,
        1,
        WorkerState.RUNNING,
        pid=100,
        address=f"{ADDRESSES[node]}:5500",
        started_at=to_text(BEGAN),
        detail=detail,
    )


def _runner(uid: str, number: int) -> WorkerReport:
    return WorkerReport(
        WorkKey(JOBS, uid, PART),
        "video",
        uid,
        uid,
        1,
        WorkerState.RUNNING,
        pid=200 + number,
        address=f"{ADDRESSES[EDGE]}:{5101 + number}",
        started_at=to_text(BEGAN),
    )


def _digest(text: str) -> str:
    return text.encode().hex().ljust(64, "0")[:64]
