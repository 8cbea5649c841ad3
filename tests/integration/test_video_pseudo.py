"""`modelmill video pseudo` as somebody types it: its ports, a job from one end to the other, and its end."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.standalone.sample_clip import HEADS
from app.video.cli.demo.catalogue import DECODERS
from app.video.cli.demo.deployment import Ports
from app.video.cli.demo.show import job
from tests.harness.command_line import run
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

FACES_IN_CLASSROOM = 4
MODELS = [name for name in DECODERS if name != "det_yolox_nano_416"]
"""A second detector would be imported, and run by nobody."""
NUMBERED = "GLOBAL_ID_77.SUB_ID_1"
OPTIONS = ("--port", "--tracker-port", "--edge-port", "--picture-port", "--edge-picture-port", "--service-port")


class Pseudo:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.ports = Ports(*(free_port() for _ in OPTIONS))
        self.log = folder / "said"
        ports = [text for pair in zip(OPTIONS, map(str, astuple(self.ports)), strict=True) for text in pair]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.cli.main", "video", "pseudo", *ports, *arguments],
                cwd=folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder), "COLUMNS": "80"},
            )
        self.http = httpx.Client(trust_env=False, timeout=PATIENCE_S)

    def url(self, port: int, path: str) -> str:
        return f"http://127.0.0.1:{port}{path}"

    def status(self, port: int, path: str = "/healthz") -> int:
        """0: nothing answers."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.http.get(self.url(port, path)).status_code
        except httpx.TransportError:
            return 0

    def is_up(self) -> bool:
        return all(self.status(port) == 200 for port in astuple(self.ports))

    def end(self) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def pseudo(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[Pseudo]:
    """For all tests of this file; the last of them ends it."""
    clip, models = shared_data / "video" / "classroom-270p.mp4", tmp_path_factory.mktemp("models")
    for name in MODELS:
        (models / f"{name}.onnx").symlink_to(shared_data / "models" / f"{name}.onnx")
    arguments = ("--videos", f"people indoor={clip}", "--models", str(models))
    made = Pseudo(tmp_path_factory.mktemp("pseudo"), *arguments)
    yield made
    made.end()


def result_of(pseudo: Pseudo, uid: str) -> dict[str, Any]:
    answer = pseudo.http.get(pseudo.url(pseudo.ports.users, f"/user/sync_job_result/{uid}")).json()
    assert answer["status"] == 0
    result: dict[str, Any] = answer["result"]
    return result


@pytest.mark.slow
def test_one_command_gives_the_requirements_ports_and_runs_its_job(pseudo: Pseudo, shared_data: Path) -> None:
    ports = pseudo.ports
    until(pseudo.is_up)
    address = f"127.0.0.2:{ports.edge}"
    for port in (ports.users, ports.tracker):
        status = until(lambda at=port: pseudo.http.get(pseudo.url(at, "/user/get_all_status")).json()["data"])
        assert status[address]["video"] == {
            "0": {"type": "people indoor", "name": "classroom-270p.mp4", "size": "480x270", "fps": "12"},
        }
    until(lambda: "Ctrl-C ends everything" in pseudo.log.read_text())

    face = base64.b64encode((shared_data / "images" / "face_1.jpg").read_bytes()).decode()
    call = pseudo.url(ports.services, "/service/face_detection")
    boxes = until(lambda: pseudo.http.post(call, json={"image": face}), lambda answer: answer.status_code == 200)
    assert len(boxes.json()["bbox"]) == len(boxes.json()["prob"]) > 0

    answer = pseudo.http.post(pseudo.url(ports.users, "/user/submit_job"), json=job(ports)).json()
    uid = answer["job_uid"]
    assert answer["status"] == 0
    results = until(lambda: result_of(pseudo, uid)["appended_result"], lambda value: len(value) == 10)
    assert {frame["total"] for frame in results} <= {FACES_IN_CLASSROOM - 1, FACES_IN_CLASSROOM}
    assert {"127.0.0.1", "127.0.0.2"} >= {
        place["node_ip"] for place in result_of(pseudo, uid)["latest_result"]["plan"]["flow_mapping"].values()
    }
    for port in (ports.pictures, ports.edge_pictures):
        with pseudo.http.stream("GET", pseudo.url(port, f"/user/video/{uid}")) as stream:
            assert stream.headers["content-type"].startswith("multipart/x-mixed-replace")
            assert b"\xff\xd8\xff" in next(stream.iter_bytes(8192))
    assert pseudo.http.post(pseudo.url(ports.users, f"/api/v2/video/jobs/{uid}/cancel")).status_code == 200


@pytest.mark.slow
def test_a_plan_by_hand_may_be_given_to_the_edge_node_and_is_in_force(pseudo: Pseudo) -> None:
    ports = pseudo.ports
    until(lambda: "Ctrl-C ends everything" in pseudo.log.read_text())
    uid = until(
        lambda: pseudo.http.post(
            pseudo.url(ports.edge, "/node/submit_job"), json={**job(ports), "unique_job_id": NUMBERED}
        ),
        lambda answer: answer.status_code == 200,
    ).json()["job_uid"]
    until(lambda: result_of(pseudo, uid)["appended_result"])
    place = {"model_id": 2, "node_role": "host", "node_ip": "127.0.0.2"}
    plan = {
        "job_uid": uid,
        "video_conf": {"resolution": "240p", "fps": 12, "nskip": 0, "encoder": "JPEG"},
        "flow_mapping": {"face_detection": place, "face_alignment": place},
    }
    until(
        lambda: pseudo.http.post(pseudo.url(ports.edge, "/node/update_plan"), json=plan).json(),
        lambda reply: reply["status"] == 0,
    )
    seq = result_of(pseudo, uid)["latest_result"]["plan"]["seq"]
    until(
        lambda: result_of(pseudo, uid)["latest_result"]["plan_result"],
        lambda value: value.get("plan_seq", 0) >= seq,
    )


def test_what_cannot_be_started_is_said_before_anything_is(tmp_path: Path) -> None:
    for arguments, words in (
        (["--videos", "nowhere.mp4"], "no video"),
        (["--models", "nowhere"], "no folder nowhere"),
    ):
        environment = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80"}
        ended = run("video", "pseudo", *arguments, environment=environment)
        assert ended.returncode == 2
        assert words in ended.stdout + ended.stderr


@pytest.mark.exhaustive
def test_without_videos_and_models_a_drawn_clip_is_watched(tmp_path: Path) -> None:
    """Clip and models are those of `modelmill video demo`, which has a test that always runs."""
    pseudo = Pseudo(tmp_path)
    try:
        until(pseudo.is_up)
        log = until(lambda: " ".join(pseudo.log.read_text().split()), lambda text: "Ctrl-C ends" in text)
        assert "Video 0 of edge0: drawn heads, heads.mp4" in log and "left out" not in log
        assert "With --videos FILE and --models DIR it is your video" in log
        line = shlex.split(next(part for part in pseudo.log.read_text().splitlines() if "curl" in part))
        submitted = subprocess.run(line, capture_output=True, text=True, check=True)
        uid = json.loads(submitted.stdout)["job_uid"]
        results = until(lambda: result_of(pseudo, uid)["appended_result"], lambda value: len(value) == 10)
        assert any(frame["total"] == len(HEADS) for frame in results)
    finally:
        assert pseudo.end() == 0
    assert not list(tmp_path.glob("modelmill-*")), "clip, models and data go with it"


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_its_folder_goes_too(pseudo: Pseudo) -> None:
    until(lambda: "Ctrl-C ends everything" in pseudo.log.read_text())
    children = psutil.Process(pseudo.process.pid).children(recursive=True)
    assert children
    assert list(pseudo.folder.glob("modelmill-video-*"))
    assert pseudo.end() == 0
    assert "Everything is stopped." in pseudo.log.read_text()
    until(lambda: not any(child.is_running() for child in children))
    assert not list(pseudo.folder.glob("modelmill-video-*")), "the folder goes, too"
