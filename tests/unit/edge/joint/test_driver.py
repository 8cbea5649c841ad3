"""How an agent carries a service: what is run, which scripts are refused, and what its server answers for it."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette

from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import Agent, Allocation, Blob, ProcessSpec, WorkRefused
from app.edge.agent.store import AgentStore
from app.edge.joint.driver import JointDriver
from app.edge.joint.driver_routes import KEPT_SAMPLES
from app.edge.joint.work import Work
from app.edge.work_file import WorkMissing
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Prediction
from app.inference.predictor_options import ExecutionProvider
from app.joint_inference.hard_examples import Verdict
from app.joint_inference.model.content import BigModel, OrderContent
from app.joint_inference.model.resource import PLURAL, Role
from app.joint_inference.model.tally import Sample, Source
from app.nodes.cameras import CameraList
from app.nodes.model import Operation, Order, WorkerReport, WorkKey

SHA, TWIN = "a" * 64, "b" * 64
TASK_INFO = {
    "inferenceNumber": 1000,
    "hardExampleNumber": 100,
    "uploadCloudRatio": 0.1,
    "startTime": "2020-11-03T08:39:22.517Z",
    "updateTime": "2020-11-03T08:50:22.517Z",
}
INFO = {
    "name": "edgeworker",
    "namespace": "default",
    "ownerName": "helmet-detection-demo",
    "ownerKind": "jointinferenceservice",
    "kind": "inference",
    "status": "running",
    "taskInfo": TASK_INFO,
}
DOWNSTREAM = "/default/neptune/downstream/jointinferenceservices/helmet-detection-demo"


def resource(
    name: str = "helmet-detection-demo", script: tuple[str, str] = ("/code", "edge_inference.py"), **metadata: Any
) -> dict[str, Any]:
    def worker(name: str, model: str, node: str) -> dict[str, Any]:
        spec = {
            "scriptDir": script[0],
            "scriptBootFile": script[1],
            "frameworkType": "tensorflow",
            "frameworkVersion": "1.18",
            "parameters": [{"key": "nms_threshold", "value": "0.6"}],
        }
        return {"name": name, "model": {"name": model}, "nodeName": node, "workerSpec": spec}

    edge = {**worker("edgeworker", "small-model", "edge0"), "hardExampleAlgorithm": {"name": "IBT"}}
    return {
        "apiVersion": "neptune.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"edgeWorker": edge, "cloudWorker": worker("work", "big-model", "solar-corona-cloud")},
    }


def order(role: Role = Role.EDGE, uid: str = "u-1", **options: Any) -> Order:
    task = resource(uid=uid, generation=3, **options)
    card = ModelCard("m", Format.NEF, SHA, 5, twin_sha256=TWIN, twin_size_bytes=7)
    big = BigModel("http://10.0.0.7:9200", "s") if role is Role.EDGE else None
    content = OrderContent(role, task, card, "s" if role is Role.CLOUD else "", big)
    name = task["metadata"]["name"]
    return Order(4, "edge0", WorkKey(PLURAL, uid, role.value), "default", name, Operation.INSERT, 3, content.to_json())


def place(folder: Path, *, host: str = "127.0.0.1", scripts: tuple[Path, ...] = ()) -> Allocation:
    blobs = {SHA: folder / "m.nef", TWIN: folder / "m.onnx"}
    return Allocation("edge0", host, 9300, folder / "own", blobs, "http://127.0.0.1:9100", scripts)


BUILTIN = ("", "")


# programs
def test_a_bundled_worker_is_run_with_what_it_must_know(tmp_path: Path) -> None:
    program = JointDriver(Cameras()).prepare(order(script=BUILTIN), place(tmp_path))
    assert list(program.command) == [sys.executable, "-m", "app.edge.joint.edge"]
    assert program.health_url == "http://127.0.0.1:9300/healthz"
    file = Path(program.environment["MODELMILL_WORK"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "a secret is in it"
    work = Work.read(file)
    assert (work.service, work.namespace, work.uid, work.port, work.node) == (
        "helmet-detection-demo",
        "default",
        "u-1",
        9300,
        "edge0",
    )
    assert (work.model, work.twin) == (tmp_path / "m.nef", tmp_path / "m.onnx")
    assert work.content.big_model == BigModel("http://10.0.0.7:9200", "s")


def test_a_worker_has_the_nodes_provider_unless_it_has_its_own(tmp_path: Path) -> None:
    place_ = replace(place(tmp_path), provider=ExecutionProvider.OPENVINO)
    plain, own = order(script=BUILTIN), order(script=BUILTIN)
    worker = own.content["resource"]["spec"]["edgeWorker"]
    worker["workerSpec"]["parameters"].append({"key": "provider", "value": "cpu"})
    programs = [JointDriver(Cameras()).prepare(one, place_) for one in (plain, own)]
    assert programs[0].environment == programs[1].environment
    assert Work.read(Path(programs[1].environment["MODELMILL_WORK"])).parameters["provider"] == "cpu"
    JointDriver(Cameras()).prepare(plain, place_)
    assert Work.read(Path(programs[0].environment["MODELMILL_WORK"])).parameters["provider"] == "openvino"


def test_only_a_worker_that_is_broadcast_knows_the_media_server_and_restarts_with_another(tmp_path: Path) -> None:
    plain, shown = order(script=BUILTIN), order(script=BUILTIN)
    worker = shown.content["resource"]["spec"]["edgeWorker"]
    worker["workerSpec"]["parameters"].append({"key": "broadcast", "value": "door"})

    def program(order: Order, server: str) -> tuple[ProcessSpec, str]:
        made = JointDriver(Cameras(), server).prepare(order, place(tmp_path))
        return made, Work.read(Path(made.environment["MODELMILL_WORK"])).media_server

    first, second = ("rtsp://ann:hunter2@10.0.0.7/in", "rtsp://10.0.0.8/in")
    assert [program(order, first)[1] for order in (plain, shown)] == ["", first]
    assert program(plain, first)[0].depends_on == program(plain, second)[0].depends_on
    assert program(shown, first)[0].depends_on != program(shown, second)[0].depends_on


def test_a_big_model_is_healthy_when_its_service_answers(tmp_path: Path) -> None:
    program = JointDriver(Cameras()).prepare(order(Role.CLOUD, script=BUILTIN), place(tmp_path, host="0.0.0.0"))
    assert program.command[-1] == "app.edge.joint.cloud"
    assert program.health_url == "http://127.0.0.1:9300/helmet-detection-demo"


def test_a_worker_on_an_address_of_ipv6_is_asked_there(tmp_path: Path) -> None:
    program = JointDriver(Cameras()).prepare(order(script=BUILTIN), place(tmp_path, host="fd00::7"))
    assert program.health_url == "http://[fd00::7]:9300/healthz"


def test_a_worker_needs_its_model_and_the_twin() -> None:
    assert JointDriver(Cameras()).blobs(order()) == [Blob(SHA, 5), Blob(TWIN, 7)]
    assert JointDriver(Cameras()).worker_name(order()) == "edgeworker"
    assert JointDriver(Cameras()).worker_name(order(Role.CLOUD)) == "work"


@pytest.mark.parametrize("content", [{}, {"role": "edge"}, {"role": "x", "model": {"name": 1}}])
def test_an_order_that_cannot_be_read_is_refused(content: dict[str, Any]) -> None:
    broken = Order(**{**vars(order()), "content": content})
    with pytest.raises(WorkRefused):
        JointDriver(Cameras()).blobs(broken)
    assert JointDriver(Cameras()).worker_name(broken) == "helmet-detection-demo-edge"


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"content": 1}'])
def test_a_worker_whose_work_cannot_be_read_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "work.json").write_text(text)
    with pytest.raises(WorkMissing):
        Work.read(tmp_path / "work.json")


# scripts
@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "scripts" / "code").mkdir(parents=True)
    (tmp_path / "scripts" / "code" / "edge_inference.py").write_text("print()")
    (tmp_path / "outside.py").write_text("print()")
    (tmp_path / "scripts" / "code" / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "scripts" / "away").symlink_to(tmp_path)
    return tmp_path / "scripts"


@pytest.mark.parametrize("folder", ["/code", "code", "{root}/code", "./code/../code"])
def test_a_script_below_an_open_folder_is_run(root: Path, folder: str) -> None:
    named = (folder.format(root=root), "edge_inference.py")
    program = JointDriver(Cameras()).prepare(order(script=named), place(root.parent, scripts=(root,)))
    assert list(program.command) == [sys.executable, str((root / "code" / "edge_inference.py").resolve())]
    assert (program.health_url, program.listens) == ("", False)
    assert program.environment["HEM_NAME"] == "IBT"
    assert program.environment["PARAM_NMS_THRESHOLD"] == "0.6"
    assert program.environment["BIG_MODEL_PORT"] == "9200"


def test_a_script_in_the_cloud_listens_where_it_is_told_to(root: Path) -> None:
    cloud = order(Role.CLOUD, script=("/code", "edge_inference.py"))
    program = JointDriver(Cameras()).prepare(cloud, place(root.parent, host="10.0.0.7", scripts=(root,)))
    assert (program.health_url, program.listens) == ("", True)
    assert program.environment["BIG_MODEL_BIND_IP"] == "10.0.0.7"
    assert program.environment["BIG_MODEL_BIND_PORT"] == "9300"


@pytest.mark.parametrize(
    ("folder", "file", "reason"),
    [
        ("{root}/..", "outside.py", "ScriptRefused"),
        ("code", "../../outside.py", "ScriptRefused"),
        ("code", "link.py", "ScriptRefused"),
        ("away", "outside.py", "ScriptRefused"),
        ("code", "/etc/passwd", "ScriptRefused"),
        ("/etc", "passwd", "ScriptRefused"),
        ("code", "nul\0.py", "ScriptRefused"),
        ("code", "missing.py", "ScriptNotFound"),
        ("{root}/code", "missing.py", "ScriptNotFound"),
        ("code", "", "ScriptNotFound"),
    ],
)
def test_a_script_outside_or_missing_is_refused_with_the_reason(
    root: Path, folder: str, file: str, reason: str
) -> None:
    with pytest.raises(WorkRefused) as refused:
        JointDriver(Cameras()).prepare(
            order(script=(folder.format(root=root), file)), place(root.parent, scripts=(root,))
        )
    assert refused.value.reason == reason
    assert not (root.parent / "own" / "work.json").exists(), "no secret is written for it"


def test_a_node_without_open_folders_runs_no_script(root: Path) -> None:
    with pytest.raises(WorkRefused) as refused:
        JointDriver(Cameras()).prepare(order(), place(root.parent))
    assert refused.value.reason == "ScriptRefused"


# what the agent's server answers
@dataclass
class Recorder:
    """An agent with a real store, which notes what it is told."""

    store: AgentStore
    node: str = "edge0"
    said: list[tuple[WorkKey, bool, Mapping[str, Any]]] = field(default_factory=list)
    sent: list[tuple[str, bytes, str, str]] = field(default_factory=list)
    rows_of: str = ""

    async def take(self, order: Order) -> None:
        self.store.put(order)

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        return [o for o in self.store.orders() if (o.key.kind, o.namespace, o.name) == (kind, namespace, name)]

    def owner_of(self, kind: str, worker: str) -> Order | None:
        return next((o for o in self.store.orders() if JointDriver(Cameras()).worker_name(o) == worker), None)

    def reports(self, kind: str) -> list[WorkerReport]:
        return []

    def note_status(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        self.said.append((key, is_running, detail))

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "", rows_of: str = "") -> None:
        self.sent.append((path, body, content_type, replaces))
        self.rows_of = rows_of


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Recorder]:
    store = AgentStore(tmp_path / "agent" / "agent.db", "edge0")
    yield Recorder(store)
    store.close()


class Client:
    def __init__(self, agent: Agent) -> None:
        self.app = Starlette(routes=JointDriver(Cameras()).routes(agent))

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("POST", path, **arguments)

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://agent") as http:
                return await http.request(method, path, **arguments)

        return asyncio.run(ask())


@pytest.fixture
def client(agent: Recorder) -> Client:
    return Client(agent)


def test_an_insert_by_hand_is_stored_once_however_often_it_comes(agent: Recorder, client: Client) -> None:
    for _ in range(2):
        answer = client.post(f"{DOWNSTREAM}/insert", json=resource())
        assert (answer.status_code, answer.json()) == (200, {"Status": 200, "Message": "OK"})
    (stored,) = agent.store.orders()
    assert (stored.key.part, stored.namespace, stored.name) == ("edge", "default", "helmet-detection-demo")
    with pytest.raises(WorkRefused) as refused:
        JointDriver(Cameras()).blobs(stored)
    assert refused.value.reason == "ModelMissing"


def test_an_update_by_hand_keeps_what_the_web_has_said(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    changed = resource()
    changed["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] = "EdgeOnly"
    assert client.post(f"{DOWNSTREAM}/update", json=changed).status_code == 200
    (stored,) = agent.store.orders()
    content = OrderContent.from_json(stored.content)
    assert (stored.seq, stored.operation, stored.key.uid) == (4, Operation.UPDATE, "u-1")
    assert content.specification.hard_example == "EdgeOnly"
    assert (content.model.sha256, content.big_model) == (SHA, BigModel("http://10.0.0.7:9200", "s"))
    assert content.resource["metadata"]["uid"] == "u-1"


def test_a_delete_by_hand_is_of_what_is_stored(agent: Recorder, client: Client) -> None:
    assert client.post(f"{DOWNSTREAM}/delete", json=resource()).status_code == 200
    assert agent.store.orders() == []
    agent.store.put(order())
    assert client.post(f"{DOWNSTREAM}/delete", json=resource()).status_code == 200
    assert [stored.operation for stored in agent.store.orders()] == [Operation.DELETE]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"metadata": 1}',
        json.dumps(resource("another")).encode(),
        json.dumps(resource(namespace="other")).encode(),
        json.dumps({**resource(), "spec": {}}).encode(),
        json.dumps({**resource(), "spec": 3}).encode(),
        json.dumps(resource(uid="../..")).encode(),
        json.dumps(resource()).replace("edge0", "edge1").encode(),
    ],
)
def test_a_task_that_does_not_fit_is_no_order(agent: Recorder, client: Client, body: bytes) -> None:
    answer = client.post(f"{DOWNSTREAM}/insert", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert agent.store.orders() == []


def test_a_service_that_the_node_does_not_run_is_named(client: Client) -> None:
    refused = client.get("/neptune/services/default/other")
    assert refused.status_code == 404 and "This node runs no service default/other." in refused.text


def test_there_are_three_operations(client: Client) -> None:
    assert client.post(f"{DOWNSTREAM}/explode", json=resource()).status_code == 404


def test_what_a_worker_says_is_heard_and_goes_up_in_the_requirements_form(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    answer = client.post("/neptune/workers/edgeworker/info", json={**INFO, "detail": {"runtime": "onnx"}})
    assert answer.status_code == 200
    assert agent.said == [(order().key, True, {"runtime": "onnx"})]
    ((path, body, content_type, replaces),) = agent.sent
    assert path == "/default/neptune/upstream/jointinferenceservices/helmet-detection-demo/status"
    assert json.loads(body) == {
        "phase": "inference",
        "status": "running",
        "uid": "u-1",
        "output": {"models": [], "taskInfo": TASK_INFO},
    }
    assert content_type == "application/json"
    assert replaces == "status/u-1", "one that waits is replaced by the newer"


def test_sednas_name_of_the_tally_is_understood(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    body = {**INFO, "ownerInfo": TASK_INFO, "status": "completed"}
    del body["taskInfo"]
    assert client.post("/neptune/workers/edgeworker/info", json=body).status_code == 200
    assert json.loads(agent.sent[0][1])["output"]["taskInfo"] == TASK_INFO
    assert agent.said[0][1] is False


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": "other"}, 400),
        ({"ownerKind": "federatedlearningjob"}, 400),
        ({"status": "sleeping"}, 400),
        ({"taskInfo": 3}, 400),
        ({"namespace": None}, 400),
        ({"ownerName": "no-such-service"}, 404),
        ({"namespace": "other"}, 404),
        ({"uid": "another"}, 404),
    ],
)
def test_what_is_not_of_this_worker_is_refused(
    agent: Recorder, client: Client, change: dict[str, Any], status: int
) -> None:
    agent.store.put(order())
    assert client.post("/neptune/workers/edgeworker/info", json={**INFO, **change}).status_code == status
    assert (agent.said, agent.sent) == ([], [])


def test_no_json_is_a_bad_request(client: Client) -> None:
    assert client.post("/neptune/workers/edgeworker/info", content=b"{").status_code == 400
    assert client.post("/neptune/workers/edgeworker/info", content=b" " * (2 << 20)).status_code == 413


def test_two_services_may_call_their_workers_alike(agent: Recorder, client: Client) -> None:
    agent.store.put(order(uid="u-1"))
    agent.store.put(order(uid="u-2", name="second"))
    client.post("/neptune/workers/edgeworker/info", json={**INFO, "ownerName": "second"})
    assert agent.said[0][0].uid == "u-2"


# samples
def sample_files(data: bytes = b"\xff\xd8 jpeg", kind: str = "image/jpeg", **change: Any) -> dict[str, Any]:
    prediction = Prediction(probabilities=(0.5, 0.5))
    sample = Sample("1", "now", 8, 8, Verdict(True, 1.0).why, 1.0, Source.CLOUD, prediction, prediction)
    text = json.dumps({**sample.to_json(), **change})
    return {"sample": (None, text, "application/json"), "picture": ("picture", data, kind)}


def test_a_hard_sample_goes_up_as_it_came(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    for _ in range(KEPT_SAMPLES + 1):
        assert client.post("/neptune/workers/edgeworker/samples", files=sample_files()).status_code == 200
    path, body, content_type, _ = agent.sent[0]
    assert path == "/neptune/link/edge0/jointinferenceservices/u-1/samples"
    assert content_type.startswith("multipart/form-data; boundary=")
    assert b"\xff\xd8 jpeg" in body
    assert len({replaces for *_, replaces in agent.sent}) == KEPT_SAMPLES, "the web shows no more than these"


def test_rows_go_up_as_they_came_and_may_be_delivered_from_here(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    body = b'{"run": "r", "batch": 1, "rows": []}'
    assert client.post("/neptune/workers/edgeworker/rows", content=body).status_code == 200
    rows = ("/neptune/link/edge0/jointinferenceservices/u-1/rows", body, "application/json", "")
    assert (agent.sent, agent.rows_of) == ([rows], "u-1")


def test_a_sample_may_name_whose_it_is(agent: Recorder, client: Client) -> None:
    agent.store.put(order(uid="u-1"))
    agent.store.put(order(uid="u-2", name="second"))
    query = {"namespace": "default", "ownerName": "second", "uid": "u-2"}
    assert client.post("/neptune/workers/edgeworker/samples", params=query, files=sample_files()).status_code == 200
    assert "/u-2/" in agent.sent[0][0]


@pytest.mark.parametrize(
    ("files", "status"),
    [
        (sample_files(kind="text/html"), 400),
        (sample_files(source="moon"), 400),
        (sample_files(edge=None), 400),
        (sample_files(more=1), 400),
        (sample_files(b"x" * 300_000), 413),
        (sample_files(why="x" * 200_000), 413),
        ({"picture": sample_files()["picture"]}, 400),
        ({**sample_files(), "other": b"x"}, 400),
    ],
)
def test_what_is_no_sample_does_not_go_up(agent: Recorder, client: Client, files: dict[str, Any], status: int) -> None:
    agent.store.put(order())
    assert client.post("/neptune/workers/edgeworker/samples", files=files).status_code == status
    assert agent.sent == []


def test_a_body_that_ends_early_or_is_no_multipart_is_a_bad_request(agent: Recorder, client: Client) -> None:
    agent.store.put(order())
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for content in (b"", b'--x\r\nContent-Disposition: form-data; name="sample"\r\n\r\n{'):
        answer = client.post("/neptune/workers/edgeworker/samples", content=content, headers=headers)
        assert answer.status_code == 400
    assert client.post("/neptune/workers/edgeworker/samples", json={}).status_code == 400


def test_a_sample_of_nobody_is_not_found(client: Client) -> None:
    assert client.post("/neptune/workers/edgeworker/samples", files=sample_files()).status_code == 404


def with_parameters(**parameters: str) -> Order:
    made = order()
    pairs = [{"key": key, "value": value} for key, value in parameters.items()]
    made.content["resource"]["spec"]["edgeWorker"]["workerSpec"]["parameters"] = pairs
    return made


def test_a_parameter_can_be_no_variable_but_its_own(tmp_path: Path, root: Path) -> None:
    """Whatever a loader, a library or a proxy reads."""
    names = ("openssl_conf", "gconv_path", "https_proxy", "ld_preload", "pythonpath", "modelmill_work", "hem_name")
    made = with_parameters(**dict.fromkeys(names, "evil"), **{"a b": "no name"})
    environment = JointDriver(Cameras()).prepare(made, place(tmp_path, scripts=(root,))).environment
    assert {name for name, value in environment.items() if value == "evil"} == {f"PARAM_{n.upper()}" for n in names}
    assert "no name" not in environment.values()
    assert environment["HEM_NAME"] == "IBT"


def test_a_source_that_the_node_does_not_offer_is_refused_before_anything_starts(tmp_path: Path) -> None:
    made = order(script=BUILTIN)
    spec = made.content["resource"]["spec"]["edgeWorker"]["workerSpec"]
    spec["parameters"] = [{"key": "source", "value": str(tmp_path / "homes" / "alice")}]
    with pytest.raises(WorkRefused, match="does not offer this source") as caught:
        JointDriver(Cameras(sources=[str(tmp_path / "cameras")])).prepare(made, place(tmp_path))
    assert caught.value.reason == "SourceNotOffered" and str(tmp_path) not in caught.value.message
    JointDriver(Cameras(sources=[str(tmp_path / "homes")])).prepare(made, place(tmp_path))
    assert Work.read(place(tmp_path).folder / "work.json").sources == (("", str(tmp_path / "homes" / "alice")),)


def test_a_service_names_a_video_of_its_node_by_its_number(tmp_path: Path) -> None:
    def opened(driver: JointDriver, source: str, **withheld: list[str]) -> str:
        made = order(script=BUILTIN)
        made.content["resource"]["spec"]["edgeWorker"]["workerSpec"]["parameters"] = [
            {"key": "source", "value": source}
        ]
        content = replace(OrderContent.from_json(made.content), withheld=withheld)
        made = replace(made, content=content.to_json())
        driver.prepare(made, place(tmp_path))
        sources = Work.read(place(tmp_path).folder / "work.json").sources
        assert driver.sources(made) == [one.source for one in sources]
        return " ".join("=".join(one) for one in sources)

    hall = str(tmp_path / "hall.mp4")
    cameras = Cameras([("hall", hall)], ["rtsp://10.0.0.*/*"])
    added, _ = CameraList().with_new("yard", "rtsp://ann:secret@10.0.0.7/1")
    added, _ = added.with_new("street", "rtsp://10.0.1.7/1")
    cameras.replace_added(added.to_json())
    driver = JointDriver(cameras)
    assert opened(driver, "video:0") == f"={hall}"
    assert opened(driver, "video:1000") == "=rtsp://ann:secret@10.0.0.7/1"
    assert opened(driver, "a=video:0\nb=video:1000") == f"a={hall} b=rtsp://ann:secret@10.0.0.7/1"
    for source, withheld, reason in (
        ("video:7", [], "VideoNotFound"),
        ("video:1000", ["1000"], "VideoNotFound"),
        ("video:1001", [], "SourceNotOffered"),
        ("a=video:0\nb=video:7", [], "VideoNotFound"),
        ("a=video:0\nvideo:1000", [], "BadParameters"),
    ):
        with pytest.raises(WorkRefused) as refused:
            opened(driver, source, videos=withheld)
        assert refused.value.reason == reason


def test_a_camera_that_is_not_for_the_services_user_is_refused_and_the_others_are_offered(tmp_path: Path) -> None:
    video, folder = str(tmp_path / "yard.mp4"), str(tmp_path / "cameras")
    driver = JointDriver(Cameras([("hall", video)], [folder, "rtsp://u:p@10.0.0.*/cam*"]))
    assert driver.offers(cast(Any, None)) == {"sources": {folder: {}, "rtsp://10.0.0.*/cam*": {}}}

    def refused(source: str, withheld: dict[str, list[str]]) -> bool:
        made = order(script=BUILTIN)
        made.content["resource"]["spec"]["edgeWorker"]["workerSpec"]["parameters"] = [
            {"key": "source", "value": source}
        ]
        told = replace(made, content=replace(OrderContent.from_json(made.content), withheld=withheld).to_json())
        try:
            driver.prepare(told, place(tmp_path))
        except WorkRefused as error:
            assert error.reason == "SourceNotOffered"
            return True
        return False

    for source, withheld in (
        (video, {"videos": ["0"]}),
        (f"{folder}/1", {"sources": [folder]}),
        ("rtsp://10.0.0.7/cam1", {"sources": ["rtsp://10.0.0.*/cam*"]}),
    ):
        assert refused(source, withheld), source
        assert not refused(source, {}), source
        assert not refused(source, {"videos": ["1"], "sources": ["/elsewhere"]}), source
