"""Video on a node: a real agent with workers of their own processes, and a web that does what a test tells it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.inference.model_card import Format, ModelCard
from app.inference.sources.hardware_decoder import hardware_decoder
from app.nodes.model import NODE_REPORT, WorkerState, WorkKey
from app.video.model.job import JOBS, PART, SERVICES, SERVICES_PART
from tests.harness.agent.web import ScriptedWeb, scripted_web
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import until
from tests.integration.test_agent import Node
from tests.unit.edge.video.test_drivers import HOST, PLAN, UID, job_order, services_order, stage

JOB, STAGES = WorkKey(JOBS, UID, PART), WorkKey(SERVICES, "edge0", SERVICES_PART)
RUNNING, FAILED = WorkerState.RUNNING, WorkerState.FAILED


NO_VIDEO = "classroom.mp4 cannot be opened as a video: Invalid data found when processing input"


class VideoNode(Node):
    module = "tests.harness.video.agent_program"

    def start(self, *arguments: str, wait: bool = True, **environment: str) -> None:
        super().start(*arguments, wait=wait, PYTHONPATH=str(REPOSITORY), **environment)

    @property
    def url_here(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def folder(self, key: WorkKey) -> Path:
        return self.data / "work" / f"{key.part}-{key.uid}"

    def starts(self, key: WorkKey) -> list[int]:
        """pids of its processes, one after the other."""
        return [int(line) for line in (self.folder(key) / "starts").read_text().split()]

    def work(self, key: WorkKey) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder(key) / "work.json").read_bytes())
        return document

    def forget(self, web: ScriptedWeb) -> None:
        """What it was told to run ends, and what that left goes; all that came up is forgotten, too."""
        keys = list(web.orders)
        for key in keys:
            web.withdraw(key)
        until(lambda: not any(web.worker(key) for key in keys) and self.rows("outbox") == 0)
        until(lambda: not any(self.folder(key).exists() for key in keys))  # the agent clears it, after all else
        for key in keys:
            del web.orders[key]
        for heard in (web.posts, web.authorizations, web.answers):
            heard.clear()
        del web.signs[:-1]  # in the newest none of its workers is left


@pytest.fixture(scope="module")
def web() -> Iterator[ScriptedWeb]:
    with scripted_web() as made:
        yield made


@pytest.fixture
def own_web() -> Iterator[ScriptedWeb]:
    with scripted_web() as made:
        yield made


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("clips") / "classroom.mp4"
    file.write_bytes(b"a video")
    return file


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, web: ScriptedWeb, clip: Path) -> Iterator[VideoNode]:
    made = VideoNode(tmp_path_factory.mktemp("node"), web.url)
    made.start("--video", f"people indoor={clip}")
    yield made
    made.close()


@pytest.fixture
def node(started: VideoNode, web: ScriptedWeb) -> Iterator[VideoNode]:
    """One agent for all tests that do not need another: what one has it run ends with it."""
    yield started
    started.forget(web)


def tell_job(web: ScriptedWeb, **changes: Any) -> None:
    web.tell(JOB, UID, job_order(**changes).content)


def seqs(web: ScriptedWeb) -> list[int]:
    """Of the reports that have come up, in their turn."""
    return [json.loads(body)["seq"] for path, body in web.posts if path == "/node/sync_job_result"]


def test_a_node_offers_its_videos_and_runs_a_job_on_one(web: ScriptedWeb, node: VideoNode, clip: Path) -> None:
    offers = {
        "videojobs": {
            "address": f"127.0.0.1:{node.port}",
            "decoding": hardware_decoder().text,
            "videos": {
                "0": {"type": "people indoor", "name": "classroom.mp4", "problem": NO_VIDEO},
            },
        }
    }
    until(lambda: web.report.offers, offers.__eq__)
    tell_job(web)
    worker = web.until(JOB, state=RUNNING)
    assert (worker.name, worker.restarts, worker.pid) == (UID, 0, node.starts(JOB)[0])
    assert node.work(JOB)["source"] == str(clip)
    until(lambda: seqs(web))
    (demand, *_) = until(lambda: [json.loads(body) for path, body in web.posts if path == "/node/get_plan"])
    assert demand["job_uid"] == UID
    assert set(web.authorizations) == {f"Bearer {web.token}"}
    pictures = until(lambda: [body for path, body in web.posts if path == f"/node/video/{UID}/picture"])
    assert isinstance(pictures, list)
    assert pictures[0].startswith(b"\xff\xd8\xff")


def test_a_plan_reaches_the_runner_and_does_not_restart_it(web: ScriptedWeb, node: VideoNode) -> None:
    tell_job(web)
    first = web.until(JOB, state=RUNNING)
    for seq in (1, 2):
        tell_job(web, plan={**PLAN, "seq": seq}, hosts=[HOST])
        until(lambda: node.work(JOB)["content"]["plan"], lambda plan, number=seq: plan and plan["seq"] == number)
    until(lambda: web.orders[JOB].is_acknowledged)
    assert node.starts(JOB) == [first.pid]
    assert psutil.pid_exists(first.pid)
    tell_job(web, plan=PLAN, realtime=False)
    until(lambda: len(node.starts(JOB)) == 2)
    second = web.until(JOB, state=RUNNING, restarts=0, pid=node.starts(JOB)[1])
    web.withdraw(JOB)
    until(lambda: web.worker(JOB) is None)
    assert not psutil.pid_exists(second.pid)


def test_stages_come_with_their_models_and_do_not_restart_their_host(web: ScriptedWeb, node: VideoNode) -> None:
    first, second = (ModelCard(name, Format.ONNX, *web.keep(os.urandom(1000))) for name in ("first", "second"))
    web.tell(STAGES, "edge0", services_order(stages={"face_detection": stage("face_detection", first)}).content)
    worker = web.until(STAGES, state=RUNNING)
    assert worker.name == "services-edge0"
    until(lambda: web.worker(STAGES), lambda seen: seen is not None and seen.detail.get("queue", 0) > 3)
    both = {"face_detection": stage("face_detection", first), f"{UID}/own": stage("own", second)}
    web.tell(STAGES, "edge0", services_order(stages=both, peers=[HOST]).content)
    until(lambda: set(node.work(STAGES)["blobs"]) == {first.sha256, second.sha256})
    assert Path(node.work(STAGES)["blobs"][second.sha256]).read_bytes() == web.blobs[second.sha256]
    assert node.starts(STAGES) == [worker.pid]


@pytest.mark.slow
def test_the_web_is_away_and_no_result_is_lost_or_doubled(web: ScriptedWeb, node: VideoNode) -> None:
    tell_job(web, plan=PLAN)
    worker = web.until(JOB, state=RUNNING)
    until(lambda: len(seqs(web)) > 3)
    web.stop()
    begun = node.rows("outbox")
    until(lambda: node.rows("outbox") > begun + 20)
    answer = httpx.post(f"{node.url_here}/node/submit_job", json={"node_addr": "x"}, trust_env=False)
    assert (answer.status_code, answer.json()["status"]) == (502, 1)
    assert node.starts(JOB) == [worker.pid]
    assert node.work(JOB)["content"]["plan"]["seq"] == 1
    last = seqs(web)[-1]
    web.start()
    until(lambda: seqs(web)[-1] > last + 30)
    heard = seqs(web)
    assert heard == list(range(1, len(heard) + 1))
    pictures = [body for path, body in web.posts if path.endswith("/picture")]
    assert len(pictures) < len(heard), "of those that waited only the newest went up"


@pytest.mark.slow
def test_an_agent_that_comes_back_finds_its_runner_and_its_picture(
    web: ScriptedWeb, node: VideoNode, clip: Path
) -> None:
    tell_job(web)
    worker = web.until(JOB, state=RUNNING)
    node.end(signal.SIGTERM)
    web.signs.clear()
    node.start("--video", f"people indoor={clip}")
    assert web.until(JOB, state=RUNNING).pid == worker.pid
    url = f"{node.url_here}/user/video/{UID}"
    until(lambda: httpx.head(url, trust_env=False).status_code != 503)
    with httpx.stream("GET", url, trust_env=False) as answer:
        assert answer.headers["content-type"] == "multipart/x-mixed-replace; boundary=frame"
        seen = b""
        for chunk in answer.iter_raw():
            seen += chunk
            if seen.count(b"--frame") > 5:
                break
    assert seen.startswith(b"--frame\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\xff0")
    viewers = node.folder(JOB) / "viewers"
    until(lambda: viewers.read_text() == "0")
    assert node.starts(JOB) == [worker.pid]


def test_a_job_that_is_submitted_here_is_the_webs_to_decide(web: ScriptedWeb, node: VideoNode) -> None:
    until(lambda: web.signs)
    body = b'{"node_addr": "127.0.0.1:5002"}'
    web.answers[body] = 409
    answer = httpx.post(
        f"{node.url_here}/node/submit_job", content=body, headers={"Authorization": "Bearer mm_ann"}, trust_env=False
    )
    assert answer.status_code == 409
    assert (web.posts, web.authorizations) == ([("/node/submit_job", body)], ["Bearer mm_ann"])


def test_a_video_that_is_not_there_keeps_the_agent_from_starting(tmp_path: Path, own_web: ScriptedWeb) -> None:
    node = VideoNode(tmp_path, own_web.url)
    refusal = node.refused("--video", f"traffic={tmp_path}/input.mov")
    assert f"there is no video {tmp_path}/input.mov" in refusal
    assert "--video" in refusal.splitlines()[-1]
    node.close()


def test_a_stream_that_is_away_keeps_no_agent_from_starting(tmp_path: Path, own_web: ScriptedWeb) -> None:
    node = VideoNode(tmp_path, own_web.url)
    node.start("--video", f"door=rtsp://ann:hunter2@127.0.0.1:{free_port()}/main")
    try:
        until(lambda: own_web.report.offers)
        assert "hunter2" not in json.dumps(NODE_REPORT.write(own_web.report))
        assert own_web.report.offers["videojobs"]["videos"]["0"]["name"].startswith("rtsp://127.0.0.1:")
    finally:
        node.close()
