"""Something to see on the pages of joint inference: nodes with workers, a model, a service with samples and plots."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from app.bootstrap.container import Container
from app.inference.model_card import Format, ModelCard
from app.inference.picture_codec import encode
from app.inference.prediction import Box, Prediction
from app.joint_inference import store
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.rollout import ROLLOUT, Rollout, RolloutState
from app.joint_inference.model.tally import Sample, Source, Tally
from app.joint_inference.service.producers import producer_of_service
from app.joint_inference.service.row_report import RowReport
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.clock import now, to_text
from app.nodes.model import DiscoveredCamera, NodeReport, Side, WorkerReport, WorkerState, WorkKey
from app.results.model.rule import Rule, RuleSet, Zone
from app.results.model.schedule import Schedule, Weekday
from app.results.model.sink import SinkContent, SinkKind
from tests.harness.joint.deployment import resource

USER, NAME, FLEET = "local", "gate", "fleet"
BERLIN = {"site": "berlin"}
OLD, NEW = (ModelCard(f"small@{version}", Format.ONNX, str(version) * 64, 1) for version in (1, 2))
SEEN = {
    "model": NEW.name,
    "sha256": NEW.sha256,
    "comparison": {"sha256": NEW.sha256, "pictures": 31, "agreement": 0.97, "ms": 6.6, "former_ms": 6.0, "errors": 0},
}
"""What the edge worker of the fleet says of itself."""
TALLY = Tally(
    inferences=1000,
    hard=400,
    uploaded=300,
    failed=40,
    kept=60,
    fallback=50,
    bytes_uploaded=3 << 20,
    edge_ms_p50=6.2,
    edge_ms_p95=9.0,
    cloud_ms_p50=41.0,
    cloud_ms_p95=80.0,
    fps=24.5,
    start_time="2026-01-01T00:00:00.000Z",
)


def set_scene(container: Container) -> None:
    at = now()
    service = container.joint.services.create(
        USER, resource(NAME, edge="edge0", cloud="cloud0", small="small", big="big", algorithm="IBT"), now=at
    )
    for name, side, role in (("edge0", Side.EDGE, Role.EDGE), ("cloud0", Side.CLOUD, Role.CLOUD)):
        container.nodes.register(name, side, now=at)
        key = WorkKey(PLURAL, service.uid, role.value)
        with container.database.write() as conn:
            container.nodes.order(conn, name, key, namespace="default", name=NAME, generation=1, content={})
        worker = WorkerReport(
            key,
            "default",
            NAME,
            f"{NAME}-{role}",
            1,
            WorkerState.RUNNING,
            pid=4711,
            address="127.0.0.1:5000",
            restarts=2,
            exit_code=-9,
            log=("loading the model", "serving"),
            started_at=to_text(at),
            detail={
                "runtime": "onnxruntime 1.31 · ONNX twin",
                "why": "no Kneron runtime (kp) on this node",
                **({"sources": _sources(at), "broadcasts": _broadcasts()} if role is Role.EDGE else {}),
            },
        )
        camera = DiscoveredCamera("10.0.0.7", "http://10.0.0.7/onvif/device_service", "Front door", "X-100")
        figures = NodeReport(
            0.42, 0.7, 1.2, 8 << 30, 4, 20 << 30, ("Kneron KL720",), workers=(worker,), discovered=(camera,)
        )
        container.nodes.report(name, figures, address="127.0.0.1", version="0.1.0", now=at)
    _add_fleet(container, at)
    for point in range(12):
        tally = replace(TALLY, inferences=80 * point + 80, update_time=to_text(at + timedelta(seconds=6 * point)))
        status = UpstreamStatus(status="running", uid=service.uid, task_info=tally.to_task_info())
        container.joint.reports.note(service.uid, status, now=at + timedelta(seconds=6 * point))
    picture, kind = encode(np.random.default_rng(1).integers(0, 256, (240, 320, 3), np.uint8))
    small, big = Box(40, 40, 120, 160, 0.62, 0), Box(42, 38, 118, 162, 0.97, 0)
    for number in range(4):
        container.joint.samples.add(
            "edge0",
            service.uid,
            Sample(
                f"s{number}",
                to_text(at),
                320,
                240,
                "1 of 1 boxes ≤ 0.90",
                1.0,
                Source.CLOUD,
                Prediction((small,), ms=6.0),
                Prediction((big,), ms=24.0),
                6.0,
                61.0,
                20_000,
                ("face",),
                f"clip.mp4 #{number}",
            ),
            picture,
            kind,
            now=at + timedelta(seconds=number),
        )
    _add_results(container, service, at)


def _sources(at: datetime) -> list[dict[str, Any]]:
    """One that delivers, and one that does not."""
    begun = to_text(at - timedelta(minutes=5))
    door = {
        "name": "door",
        "status": "running",
        "since": begun,
        "last_frame_at": to_text(at),
        "frames": 960,
        "hard": 360,
    }
    yard = {"name": "yard", "status": "no_signal", "since": begun, "message": "rtsp://10.0.0.7/1 cannot be opened."}
    return [door, yard]


def _broadcasts() -> list[dict[str, Any]]:
    """One that is sent, and one whose server is away."""
    state = {"connections": 1, "core_share": 0.061, "url": "rtsp://media.example/cameras/"}
    door = {**state, "source": "door", "url": f"{state['url']}door", "is_sending": True, "frames": 3210, "problem": ""}
    return [door, {**state, "source": "yard", "url": f"{state['url']}yard", "frames": 0, "problem": "404 Not Found"}]


def _add_fleet(container: Container, at: datetime) -> None:
    """A service on all nodes with a label, with a new model in its first wave on one of the two."""
    document = resource(FLEET, edge="", cloud="cloud0", small="small@stable", big="big", algorithm="IBT")
    edge = document["spec"]["edgeWorker"]
    del edge["nodeName"]
    edge |= {"nodeSelector": BERLIN, "rollout": {"waves": ["1", "50%", "100%"]}}
    service = container.joint.services.create(USER, document, now=at)
    worker = WorkerReport(
        WorkKey(PLURAL, service.uid, "edge"), "default", FLEET, f"{FLEET}-edge", 1, WorkerState.RUNNING
    )
    for name, workers in (("cam0", (replace(worker, pid=4712, detail=SEEN),)), ("cam1", ())):
        container.nodes.register(name, Side.EDGE, now=at)
        container.nodes.access.label(name, BERLIN, by=USER)
        container.nodes.report(name, NodeReport(workers=workers), address="127.0.0.1", version="0.1.0", now=at)
    rollout = Rollout(OLD, NEW, RolloutState.PROGRESSING, wave_at=to_text(at), nodes=("cam0",))
    with container.database.write() as conn:
        store.put_report(conn, service.uid, "cam0", {**TALLY.to_task_info(), "phase": "running"})
        store.change_service(conn, service, rollout=ROLLOUT.write(rollout))


def _add_results(container: Container, service: Service, at: datetime) -> None:
    """Rules, rows of a minute, and a sink of them that nothing has reached yet."""
    door = Zone("door", ((0.1, 0.1), (0.5, 0.1), (0.5, 0.9), (0.1, 0.9)))
    night = Schedule((Weekday.FRIDAY, Weekday.SATURDAY), "22:00", "06:00", "Asia/Taipei")
    rules = (Rule("somebody", zone="door", label="face", cooldown_s=20), Rule("at-night", at_least=2, schedule=night))
    container.results.rules.put(producer_of_service(service), RuleSet((door,), rules))
    rows: list[dict[str, Any]] = [
        {
            "at": at.timestamp() + number,
            "size": [320, 240],
            "bbox": [[40, 40, 120, 160]] * (number % 4),
            "labels": ["face"] * (number % 4),
            "scores": [0.91] * (number % 4),
            "sample": f"{number:08d}",
            "answered_by": "cloud" if number % 5 == 0 else "edge",
            "is_hard": number % 5 == 0,
        }
        for number in range(60)
    ]
    container.joint.reports.add_rows("edge0", service.uid, RowReport(run="r", batch=1, rows=rows), now=at)
    address = "mqtts://mill:secret@93.184.215.14/cameras/gate"
    producer = producer_of_service(service)
    container.results.sinks.add(producer, SinkKind.MQTT, SinkContent.ROWS, address, now=at)
