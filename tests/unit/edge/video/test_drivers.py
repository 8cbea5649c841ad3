"""How an agent carries video: what is run, what does not restart it, what is refused, and what its server answers."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from app.edge.agent.allocation import _digest
from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import Allocation, Blob, ProcessSpec, Reply, WorkRefused
from app.edge.video.drivers import JobDriver, StageHostDriver
from app.edge.video.work import RunnerWork, ServicesWork, WatchedWork
from app.inference.model_card import MODEL_CARD, Format, ModelCard
from app.inference.predictor_options import ExecutionProvider
from app.inference.sources.hardware_decoder import hardware_decoder
from app.kit.cli.command import Unreachable
from app.kit.errors import BadInput, ModelmillError
from app.nodes.cameras import CameraList
from app.nodes.model import Operation, Order, WorkerReport, WorkKey
from app.video.model.job import JOBS, PART, SERVICES, SERVICES_PART

UID = "GLOBAL_ID_1.SUB_ID_1"
SHA, TWIN, OTHER = "a" * 64, "b" * 64, "c" * 64
DAG = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
    "input": {
        "face_detection": {"image": "SingleFrameGenerator.image"},
        "face_alignment": {"image": "SingleFrameGenerator.image", "bbox": "face_detection.bbox"},
        "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
    },
}
PLAN = {
    "seq": 1,
    "policy": "fixed",
    "video_conf": {"resolution": "480p", "fps": 24.0, "nskip": 0, "ntracking": 0, "encoder": "JPEG"},
    "flow_mapping": {
        name: {"model_id": 0, "node_role": "host", "node_ip": "127.0.0.2", "node": "edge0"}
        for name in ("face_detection", "face_alignment")
    },
}
HOST = {"node": "cloud0", "role": "cloud", "ip": "127.0.0.1", "url": "http://127.0.0.1:9200", "secret": "h"}
JPEG = b"\xff\xd8\xff\xe0 picture"


def stage(name: str, card: ModelCard) -> dict[str, Any]:
    return {"name": name, "kind": name, "parameters": {}, "variants": [[MODEL_CARD.write(card)]]}


CARD = ModelCard("m", Format.NEF, SHA, 5, twin_sha256=TWIN, twin_size_bytes=7)
PLAIN = ModelCard("n", Format.ONNX, OTHER, 9)


def job_order(**changes: Any) -> Order:
    content = {
        "uid": UID,
        "video_id": "0",
        "dag": DAG,
        "stages": [stage("face_detection", CARD)],
        "mode": "run",
        "realtime": True,
        "restart_policy": "never",
        "constraint": {"delay": 0.3},
        "plan": None,
        "hosts": [],
        "secret": "s",
        **changes,
    }
    return Order(4, "edge0", WorkKey(JOBS, UID, PART), "", UID, Operation.INSERT, 1, content)


def services_order(**changes: Any) -> Order:
    content = {
        "stages": {"face_detection": stage("face_detection", CARD), f"{UID}/own": stage("own", CARD)},
        "secret": "s",
        "peers": [],
        "processes": 2,
        **changes,
    }
    return Order(5, "edge0", WorkKey(SERVICES, "edge0", SERVICES_PART), "", "edge0", Operation.INSERT, 1, content)


def place(folder: Path, **changes: Any) -> Allocation:
    blobs = {SHA: folder / "m.nef", TWIN: folder / "m.onnx"}
    return replace(Allocation("edge0", "127.0.0.2", 9300, folder / "own", blobs, "http://127.0.0.2:9100"), **changes)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    file = tmp_path / "classroom-270p.mp4"
    file.write_bytes(b"a video")
    return file


@pytest.fixture
def jobs(clip: Path) -> JobDriver:
    return JobDriver(Cameras([("people indoor", str(clip)), ("door", "rtsp://user:secret@10.0.0.9:554/main?token=t")]))


def digest(order: Order, program: ProcessSpec, files: list[str]) -> str:
    return _digest(order, program, files, 9300)


# programs
def test_a_runner_is_run_with_what_it_must_know(jobs: JobDriver, clip: Path, tmp_path: Path) -> None:
    program = jobs.prepare(job_order(plan=PLAN, hosts=[HOST]), place(tmp_path))
    assert list(program.command) == [sys.executable, "-m", "app.edge.video.runner.main"]
    assert program.health_url == "http://127.0.0.2:9300/healthz"
    assert program.restarts
    file = Path(program.environment["MODELMILL_WORK"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "a secret is in it"
    work = RunnerWork.read(file)
    assert (work.source, work.host, work.port, work.agent_url, work.node) == (
        str(clip),
        "127.0.0.2",
        9300,
        "http://127.0.0.2:9100",
        "edge0",
    )
    assert work.content.plan is not None
    assert (work.content.plan.seq, work.content.hosts[0].node) == (1, "cloud0")
    assert jobs.blobs(job_order()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"plan": PLAN},
        {"hosts": [HOST]},
        {"constraint": {"delay": 0.1}},
        {"dag": {**DAG, "recording": {"hours": 1}}},
    ],
    ids=str,
)
def test_what_changes_while_a_job_runs_is_written_and_restarts_nothing(
    jobs: JobDriver, tmp_path: Path, change: dict[str, Any]
) -> None:
    before = jobs.prepare(job_order(), place(tmp_path))
    written = (tmp_path / "own" / "work.json").read_text()
    after = jobs.prepare(job_order(**change), place(tmp_path))
    assert digest(job_order(), before, []) == digest(job_order(**change), after, [])
    assert (tmp_path / "own" / "work.json").read_text() != written


@pytest.mark.parametrize(
    "change", [{"video_id": "1"}, {"secret": "t"}, {"realtime": False}, {"stages": []}, {"mode": "profile"}], ids=str
)
def test_what_makes_another_job_of_it_starts_it_anew(jobs: JobDriver, tmp_path: Path, change: dict[str, Any]) -> None:
    before, after = (jobs.prepare(order, place(tmp_path)) for order in (job_order(), job_order(**change)))
    assert digest(job_order(), before, []) != digest(job_order(**change), after, [])


def test_a_plan_that_comes_while_its_runner_begins_is_not_missed(jobs: JobDriver, tmp_path: Path) -> None:
    jobs.prepare(job_order(), place(tmp_path))
    file = tmp_path / "own" / "work.json"
    assert RunnerWork.read(file).content.plan is None
    jobs.prepare(job_order(plan=PLAN), place(tmp_path))
    watched = WatchedWork(file, RunnerWork.read)
    changes = watched.changed()
    assert changes is not None
    assert changes.content.plan is not None
    assert watched.changed() is None


def test_an_agent_with_another_address_or_other_videos_starts_its_runners_anew(jobs: JobDriver, tmp_path: Path) -> None:
    other = tmp_path / "other.mp4"
    other.write_bytes(b"")
    before = jobs.prepare(job_order(), place(tmp_path))
    moved = jobs.prepare(job_order(), place(tmp_path, agent_url="http://127.0.0.2:9101"))
    shown = JobDriver(Cameras([("people indoor", str(other))])).prepare(job_order(), place(tmp_path))
    assert len({digest(job_order(), program, []) for program in (before, moved, shown)}) == 3


def test_the_host_of_the_stages_is_run_with_the_files_of_all_of_them(tmp_path: Path) -> None:
    driver = StageHostDriver()
    assert driver.blobs(services_order()) == [Blob(SHA, 5), Blob(TWIN, 7)], "each once"
    program = driver.prepare(services_order(), place(tmp_path, host="0.0.0.0"))
    assert list(program.command) == [sys.executable, "-m", "app.edge.video.stage_host.host"]
    assert program.health_url == "http://127.0.0.1:9300/healthz"
    file = Path(program.environment["MODELMILL_WORK"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "a secret is in it"
    work = ServicesWork.read(file)
    assert work.blobs == {SHA: tmp_path / "m.nef", TWIN: tmp_path / "m.onnx"}
    assert set(work.content.stages) == {"face_detection", f"{UID}/own"}


@pytest.mark.parametrize(
    ("change", "is_anew"),
    [
        ({"stages": {"face_detection": stage("face_detection", PLAIN)}}, False),
        ({"peers": [HOST]}, False),
        ({"processes": 3}, True),
        ({"secret": "t"}, True),
    ],
    ids=str,
)
def test_other_stages_and_their_files_do_not_start_the_host_anew(
    tmp_path: Path, change: dict[str, Any], is_anew: bool
) -> None:
    driver, changed = StageHostDriver(), services_order(**change)
    before = driver.prepare(services_order(), place(tmp_path))
    after = driver.prepare(changed, place(tmp_path))
    files = [blob.sha256 for blob in driver.blobs(changed)]
    assert (digest(services_order(), before, [SHA, TWIN]) != digest(changed, after, files)) is is_anew


def test_an_agent_with_another_provider_starts_workers_anew() -> None:
    program = ProcessSpec(["x"])
    digests = {_digest(job_order(), program, [], 9300, provider) for provider in ExecutionProvider}
    assert len(digests) == len(ExecutionProvider)


def test_files_count_for_a_worker_that_does_not_say_what_it_depends_on() -> None:
    program = ProcessSpec(["x"])
    assert digest(job_order(), program, [SHA]) != digest(job_order(), program, [OTHER])


def test_workers_have_the_names_by_which_they_report(jobs: JobDriver) -> None:
    assert jobs.worker_name(job_order()) == UID
    assert jobs.worker_name(Order(**{**vars(job_order()), "content": {}})) == UID
    assert StageHostDriver().worker_name(services_order()) == "services-edge0"


# refusals
def test_a_job_on_a_video_that_is_not_here_is_refused(jobs: JobDriver, tmp_path: Path) -> None:
    with pytest.raises(WorkRefused) as refused:
        jobs.prepare(job_order(video_id="7"), place(tmp_path))
    assert refused.value.reason == "VideoNotFound"
    assert "0, 1" in refused.value.hint
    added, _ = CameraList().with_new("yard", "rtsp://10.0.0.7/1")
    jobs.cameras.replace_added(added.to_json())
    with pytest.raises(WorkRefused) as refused:
        jobs.prepare(job_order(video_id="1000"), place(tmp_path))
    assert refused.value.reason == "SourceNotOffered"
    with pytest.raises(WorkRefused) as refused:
        JobDriver(Cameras()).prepare(job_order(), place(tmp_path))
    assert (refused.value.reason, "--video" in refused.value.hint) == ("VideoNotFound", True)


@pytest.mark.parametrize(
    "change",
    [
        {"dag": {"generator": "x"}},
        {"dag": None},
        {"plan": {"seq": 1}},
        {"mode": "dance"},
        {"hosts": [{}]},
        {"stages": [{"name": "x"}]},
        {"constraint": {"delay": "soon"}},
        {"stages": 5},
    ],
    ids=str,
)
def test_an_order_for_a_job_that_cannot_be_read_is_refused(
    jobs: JobDriver, tmp_path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(WorkRefused) as refused:
        jobs.prepare(job_order(**change), place(tmp_path))
    assert refused.value.reason == "BadOrder"


@pytest.mark.parametrize("change", [{"stages": {"a": {}}}, {"stages": None}, {"processes": "many"}, {"peers": [1]}])
def test_an_order_for_stages_that_cannot_be_read_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    driver = StageHostDriver()
    for ask in (driver.blobs, lambda order: driver.prepare(order, place(tmp_path))):
        with pytest.raises(WorkRefused) as refused:
            ask(services_order(**change))
        assert refused.value.reason == "BadOrder"


# videos
def test_a_nodes_videos_are_offered_by_number_and_without_passwords(jobs: JobDriver) -> None:
    offered = dict(jobs.offers(FakeAgent()))
    assert offered.pop("decoding") == hardware_decoder().text
    assert offered == {
        "address": "127.0.0.2:5002",
        "videos": {
            "0": {
                "type": "people indoor",
                "name": "classroom-270p.mp4",
                "problem": "classroom-270p.mp4 cannot be opened as a video: Invalid data found when processing input",
            },
            "1": {"type": "door", "name": "rtsp://10.0.0.9:554/main", "live": "yes"},
        },
    }
    assert "secret" not in json.dumps(offered)
    assert JobDriver(Cameras()).offers(FakeAgent()) == {}
    assert StageHostDriver().offers(FakeAgent()) == {}


def test_the_source_of_a_job_is_one_that_its_worker_reads(jobs: JobDriver) -> None:
    assert jobs.sources(job_order(video_id="1")) == ["rtsp://user:secret@10.0.0.9:554/main?token=t"]
    assert StageHostDriver().sources(services_order()) == ()


@pytest.mark.parametrize("source", ["/nowhere/input.mov", "file:///etc/passwd", "rtsp://host:port/", "x\0y"])
def test_a_video_that_cannot_be_there_is_refused_at_once(source: str) -> None:
    with pytest.raises(ModelmillError) as refused:
        JobDriver(Cameras([("traffic", source)]))
    assert isinstance(refused.value, BadInput)
    assert refused.value.hint


# what its server answers
@dataclass
class FakeAgent:
    node: str = "edge0"
    own_address: str = "127.0.0.2:5002"
    orders: list[Order] = field(default_factory=lambda: [job_order(), services_order()])
    sent: list[tuple[str, bytes, str, str]] = field(default_factory=list)
    details: list[tuple[WorkKey, bool, Mapping[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, bytes, str]] = field(default_factory=list)
    is_away: bool = False

    async def take(self, order: Order) -> None:
        raise AssertionError

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        raise AssertionError

    def owner_of(self, kind: str, worker: str) -> Order | None:
        name = {JOBS: UID, SERVICES: "services-edge0"}[kind]
        return next((order for order in self.orders if order.key.kind == kind and worker == name), None)

    def reports(self, kind: str) -> list[WorkerReport]:
        return []

    def sources_read(self) -> set[str]:
        return set()

    def note_status(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        self.details.append((key, is_running, detail))

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "", rows_of: str = "") -> None:
        self.sent.append((path, body, content_type, replaces))

    async def ask(self, path: str, body: bytes, content_type: str, *, authorization: str = "") -> Reply:
        assert content_type == "application/json"
        if self.is_away:
            raise Unreachable("Nothing answers.")
        self.asked.append((path, body, authorization))
        return Reply(400, b'{"status": 1, "error": "a cycle"}', "application/json")


def asked(
    agent: FakeAgent, path: str, body: object = None, *, driver: JobDriver | None = None, **headers: str
) -> httpx.Response:
    """body None: it is a GET."""
    routes = [*(driver or JobDriver(Cameras())).routes(agent), *StageHostDriver().routes(agent)]

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            if body is None:
                return await client.get(path, headers=headers)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await client.post(path, content=content, headers=headers)

    return asyncio.run(ask())


def test_a_demand_for_a_plan_goes_up_in_place_of_the_one_before() -> None:
    agent, body = FakeAgent(), json.dumps({"job_uid": UID, "dag": DAG}).encode()
    answer = asked(agent, "/node/get_plan", body)
    assert (answer.status_code, answer.json()) == (200, {"status": 0})
    assert agent.sent == [("/node/get_plan", body, "application/json", f"plan:{UID}")]


def test_each_report_of_results_goes_up() -> None:
    agent, body = FakeAgent(), json.dumps({"job_uid": UID, "seq": 1, "results": []}).encode()
    assert asked(agent, "/node/sync_job_result", body).json() == {"status": 0}
    assert agent.sent == [("/node/sync_job_result", body, "application/json", "")]


@pytest.mark.parametrize("path", ["/node/get_plan", "/node/sync_job_result"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"__import__('os')", 400),
        (b"[]", 400),
        (b'{"job_uid": 5}', 400),
        (b"{}", 400),
        (f'{{"job_uid": "{UID}", "x": NaN}}'.encode(), 400),
        (f'{{"job_uid": "{UID}", "x": 1e999}}'.encode(), 400),
        (f'{{"job_uid": "{UID}", "x": "\\ud800"}}'.encode(), 400),
        (b'{"job_uid": "GLOBAL_ID_9.SUB_ID_1"}', 404),
        (b"[" * 100_000, 400),
        (f'{{"job_uid": "{UID}", "x": "{"x" * (1 << 20)}"}}'.encode(), 413),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_no_runner_here_says_does_not_go_up(path: str, body: bytes, status: int) -> None:
    agent = FakeAgent()
    answer = asked(agent, path, body)
    assert (answer.status_code, answer.json()["status"], bool(answer.json()["error"])) == (status, 1, True)
    assert agent.sent == []


def test_a_picture_goes_up_in_place_of_the_one_before() -> None:
    agent = FakeAgent()
    assert asked(agent, f"/video/{UID}/picture", JPEG).json() == {"status": 0}
    assert agent.sent == [(f"/node/video/{UID}/picture", JPEG, "image/jpeg", f"picture:{UID}")]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"/video/{UID}/picture", b"GIF89a", 400),
        (f"/video/{UID}/picture", b"", 400),
        (f"/video/{UID}/picture", JPEG + bytes(2 << 20), 413),
        ("/video/other/picture", JPEG, 404),
    ],
    ids=["gif", "empty", "large", "unknown"],
)
def test_what_is_no_picture_of_a_job_here_does_not_go_up(path: str, body: bytes, status: int) -> None:
    agent = FakeAgent()
    assert asked(agent, path, body).status_code == status
    assert agent.sent == []


def test_the_host_of_the_stages_says_how_it_is() -> None:
    agent = FakeAgent()
    assert asked(agent, "/video/services/info", {"detail": {"queue": 3}}).json() == {"status": 0}
    assert agent.details == [(services_order().key, True, {"queue": 3})]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"detail": []}, 400),
        (b"{", 400),
        ({"detail": {"x": "x" * (64 << 10)}}, 413),
    ],
)
def test_what_says_nothing_of_the_stages_is_not_heard(body: object, status: int) -> None:
    agent = FakeAgent()
    assert asked(agent, "/video/services/info", body).status_code == status
    assert agent.details == []


def test_a_node_that_serves_no_stages_hears_of_none() -> None:
    assert asked(FakeAgent(orders=[]), "/video/services/info", {"detail": {}}).status_code == 404


@pytest.mark.parametrize("path", ["/node/submit_job", "/node/update_plan"])
def test_what_is_the_webs_to_decide_is_asked_of_it_in_the_name_of_who_asks(path: str) -> None:
    agent = FakeAgent()
    answer = asked(agent, path, {"job_uid": UID}, authorization="Bearer mm_user")
    assert (answer.status_code, answer.json()) == (400, {"status": 1, "error": "a cycle"})
    assert agent.asked == [(path, b'{"job_uid": "GLOBAL_ID_1.SUB_ID_1"}', "Bearer mm_user")]
    assert asked(agent, path, b"exec()").status_code == 400
    assert len(agent.asked) == 1
    answer = asked(FakeAgent(is_away=True), path, {})
    assert (answer.status_code, answer.json()["status"]) == (502, 1)


def test_a_picture_that_is_not_there_is_said_so(jobs: JobDriver, tmp_path: Path) -> None:
    path = f"/user/video/{UID}"
    assert asked(FakeAgent(orders=[]), path, driver=jobs).status_code == 404
    answer = asked(FakeAgent(), path, driver=jobs)
    assert (answer.status_code, answer.json()["status"]) == (503, 1)
    jobs.prepare(job_order(), place(tmp_path, host="127.0.0.1", port=9))
    answer = asked(FakeAgent(), path, driver=jobs)
    assert (answer.status_code, "does not answer" in answer.json()["error"]) == (503, True)
