"""The bundled workers as processes, as an agent starts them: a real edge, a real cloud, the digits pair."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import Allocation
from app.edge.joint.driver import JointDriver
from app.inference.model_card import Format, ModelCard
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from app.joint_inference.hard_examples import make
from app.joint_inference.model.content import BigModel, OrderContent
from app.joint_inference.model.resource import PLURAL, Role
from app.joint_inference.model.tally import Sample, Source
from app.kit.web.multipart import parts_in
from app.nodes.model import Operation, Order, WorkKey
from tests.harness.camera import camera
from tests.harness.copied_children import spawn
from tests.harness.http_server import respond, served
from tests.harness.paths import SHARED_DATA
from tests.harness.ports import free_port
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.until import until
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="there is no folder of test models")
LONG_S = 60.0
SERVICE = "digits"
SECRET = "the service's secret"


def card(name: str) -> ModelCard:
    data = (SHARED_DATA / "models" / f"{name}.onnx").read_bytes()
    return ModelCard(name, Format.ONNX, hashlib.sha256(data).hexdigest(), len(data))


def resource(edge: Mapping[str, str], cloud: Mapping[str, str], script: tuple[str, str]) -> dict[str, Any]:
    def worker(name: str, model: str, node: str, parameters: Mapping[str, str], script: tuple[str, str]) -> Any:
        pairs = [{"key": key, "value": value} for key, value in parameters.items()]
        spec = {
            "scriptDir": script[0],
            "scriptBootFile": script[1],
            "frameworkType": "",
            "frameworkVersion": "",
            "parameters": pairs,
        }
        return {"name": name, "model": {"name": model}, "nodeName": node, "workerSpec": spec}

    edge_worker = worker("little", "digits_small", "edge0", edge, script)
    edge_worker["hardExampleAlgorithm"] = {"name": "CrossEntropy"}
    return {
        "apiVersion": "neptune.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": SERVICE, "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"edgeWorker": edge_worker, "cloudWorker": worker("big", "digits_big", "cloud0", cloud, ("", ""))},
    }


class FakeAgent:
    """Takes what workers say, as the agent's own server does."""

    def __init__(self) -> None:
        self.infos: list[dict[str, Any]] = []
        self.samples: list[Sample] = []
        self.before: Callable[[], None] = lambda: None
        """What it does first with all that it is sent."""

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.before()
        path = request.path.partition("?")[0]
        if path.endswith("/info"):
            self.infos.append({**json.loads(body), "path": path})
        else:
            parts = parts_in(request.headers["Content-Type"], body, {"sample": 1 << 20, "picture": 256_000}, hint="")
            self.samples.append(Sample.from_json(json.loads(parts["sample"].data)))
        respond(request, b"{}")

    def info(self, worker: str = "little") -> dict[str, Any]:
        return next((info for info in reversed(self.infos) if info["name"] == worker), {})

    @property
    def tally(self) -> dict[str, Any]:
        return dict(self.info().get("taskInfo") or {})


class Site:
    """Both nodes on this machine; workers are started by what the driver says."""

    def __init__(self, folder: Path, stack: ExitStack, agent_url: str) -> None:
        self.folder = folder
        self.stack = stack
        self.agent_url = agent_url
        self.edge_port, self.cloud_port = free_port(), free_port()
        self.edge_url, self.cloud_url = (f"http://127.0.0.1:{port}" for port in (self.edge_port, self.cloud_port))
        self.big_url = self.cloud_url
        self.media_server = ""
        self.models = {Role.EDGE: "digits_small", Role.CLOUD: "digits_big"}
        self.http = stack.enter_context(httpx.Client(timeout=LONG_S, trust_env=False))

    def start(
        self,
        role: Role,
        edge: Mapping[str, str] = {},
        cloud: Mapping[str, str] = {},
        *,
        script: tuple[str, str] = ("", ""),
        secret: str = SECRET,
    ) -> subprocess.Popen[bytes]:
        model = card(self.models[role])
        content = OrderContent(
            role,
            resource(edge, cloud, script),
            model,
            secret=SECRET if role is Role.CLOUD else "",
            big_model=BigModel(self.big_url, secret) if role is Role.EDGE else None,
        )
        order = Order(1, "n", WorkKey(PLURAL, "u-1", role), "default", SERVICE, Operation.INSERT, 1, content.to_json())
        folder = self.folder / role
        folder.mkdir(exist_ok=True)
        place = Allocation(
            node="n",
            host="127.0.0.1",
            port=self.edge_port if role is Role.EDGE else self.cloud_port,
            folder=folder,
            blobs={model.sha256: SHARED_DATA / "models" / f"{model.name}.onnx"},
            agent_url=self.agent_url,
            scripts=[self.folder / "scripts"],
        )
        program = JointDriver(Cameras(sources=["/", "http://127.0.0.1:*/*"]), self.media_server).prepare(order, place)
        process = spawn(list(program.command), env={**os.environ, **program.environment})
        self.stack.callback(end, process)
        if program.health_url:
            until(lambda: self.answers(program.health_url, process))
        return process

    def answers(self, url: str, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, "it has ended"
        try:
            return self.http.get(url).status_code == 200
        except httpx.TransportError:
            return False

    def predict(self, data: bytes, **fields: str) -> httpx.Response:
        return self.http.post(f"{self.edge_url}/{SERVICE}/predict", files={"picture": data}, data=fields)

    def ask_cloud(self, data: bytes, secret: str = SECRET) -> httpx.Response:
        meta = (None, json.dumps({"id": "7", "shape": [8, 8, 1]}), "application/json")
        return self.http.post(
            f"{self.cloud_url}/{SERVICE}/predict",
            files={"meta": meta, "picture": ("p", data, "image/png")},
            headers={"Authorization": f"Bearer {secret}"},
        )

    @property
    def cloud_answered(self) -> int:
        return int(self.http.get(f"{self.cloud_url}/{SERVICE}").json()["answered"])


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def site(folder: Path, agent: FakeAgent) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(folder, stack, stack.enter_context(served(agent)))


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def here(tmp_path: Path, agent: FakeAgent) -> Iterator[Site]:
    with site(tmp_path, agent) as deployed:
        yield deployed


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With an edge and a cloud that nobody ends."""
    with site(tmp_path_factory.mktemp("both"), FakeAgent()) as deployed:
        deployed.start(Role.CLOUD)
        deployed.start(Role.EDGE, PATIENT)
        yield deployed


@pytest.fixture(scope="module")
def digits() -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Easy ones and hard ones, as the small model finds them."""
    with np.load(SHARED_DATA / "images" / "digits_test.npz") as arrays:
        pictures = np.round(arrays["x"][:, 0] * 255).astype(np.uint8)
    algorithm = make("CrossEntropy", {})
    small = open_predictor(card("digits_small"), SHARED_DATA / "models" / "digits_small.onnx", None, PredictorOptions())
    easy: list[np.ndarray[Any, Any]] = []
    hard: list[np.ndarray[Any, Any]] = []
    for picture in pictures:
        (hard if algorithm(small.predict(picture)).is_hard else easy).append(picture)
    small.close()
    return easy, hard


Digits = tuple[list[Any], list[Any]]


def png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def stream_of(digits: Digits, folder: Path, *, easy: int, hard: int) -> str:
    """The hard ones among the easy ones."""
    frames = [*digits[0][:easy], *digits[1][:hard]]
    order = np.random.default_rng(1).permutation(len(frames))
    file = folder / "frames.npz"
    np.savez(file, x=np.stack([frames[at] for at in order])[..., None])
    return str(file)


@pytest.mark.exhaustive  # the host of stages does the same
def test_pictures_that_wait_together_get_the_answers_of_single_calls(here: Site, both: Site, digits: Digits) -> None:
    """Of a big model with micro-batching, beside one without."""
    here.start(Role.CLOUD, cloud={"batch": "8", "batch_wait_ms": "50"})
    assert "up to 8 at once" in here.http.get(f"{here.cloud_url}/{SERVICE}").json()["runtime"]
    pictures = [png(picture) for picture in (*digits[0][:16], *digits[1][:16])]

    def answer(site_: Site, picture: bytes) -> list[float]:
        return list(site_.ask_cloud(picture).json()["probabilities"])

    with ThreadPoolExecutor(16) as pool:
        batched = list(pool.map(lambda picture: answer(here, picture), pictures))
    assert batched == [answer(both, picture) for picture in pictures]


PATIENT = {"deadline_ms": "60000", "queue_size": "200"}


def test_of_a_hundred_frames_the_thirty_hard_ones_go_up(
    here: Site, agent: FakeAgent, digits: Digits, tmp_path: Path
) -> None:
    here.start(Role.CLOUD)
    source = stream_of(digits, tmp_path, easy=70, hard=30)
    edge = here.start(Role.EDGE, {**PATIENT, "source": source})
    until(lambda: agent.tally.get("inferenceNumber") == 100 and agent.tally["uploadNumber"] == 30)
    assert here.cloud_answered == 30
    assert (agent.tally["hardExampleNumber"], agent.tally["uploadCloudRatio"]) == (30, 0.3)
    assert agent.tally["keptNumber"] == agent.tally["fallbackNumber"] == 0
    info = agent.info()
    assert info["path"] == "/neptune/workers/little/info"
    assert (info["namespace"], info["ownerName"], info["ownerKind"], info["kind"]) == (
        "default",
        SERVICE,
        "jointinferenceservice",
        "inference",
    )
    assert "onnx" in info["detail"]["runtime"].lower()
    until(lambda: agent.info()["status"] == "completed")
    assert agent.info()["detail"]["stream"]["reason"] == "SourceEnded"
    assert here.predict(png(digits[0][0])).status_code == 200, "the source has ended, and the server stays"
    until(lambda: len(agent.samples) >= 2)
    sample = agent.samples[0]
    assert (sample.width, sample.height, sample.source) == (8, 8, Source.CLOUD)
    assert sample.cloud is not None
    assert sample.origin.startswith("frames.npz")
    edge.send_signal(signal.SIGTERM)
    assert edge.wait(LONG_S) == 0
    assert (agent.info()["status"], agent.tally["inferenceNumber"]) == ("completed", 101)


def test_a_caller_gets_the_edges_answer_or_the_clouds(both: Site, digits: Digits) -> None:
    easy, hard = both.predict(png(digits[0][0]), id="mine").json(), both.predict(png(digits[1][0])).json()
    assert (easy["id"], easy["source"], easy["is_hard"], easy["cloud"]) == ("mine", "edge", False, None)
    assert (hard["source"], hard["is_hard"]) == ("cloud", True)
    assert hard["final"] == hard["cloud"] != hard["edge"]
    assert hard["bytes_up"] > 0
    assert both.http.get(f"{both.cloud_url}/{SERVICE}").json()["model"] == "digits_big"


def test_bad_requests_are_told_apart(both: Site, digits: Digits) -> None:
    whole = png(digits[0][0])
    for ask in (both.predict, both.ask_cloud):
        assert ask(whole[:40]).status_code == 400
        assert ask(b"").status_code == 400
        assert ask(b"x" * (17 << 20)).status_code == 413
    assert both.predict(whole, other="x").status_code == 400
    assert both.ask_cloud(whole, "guessed").status_code == 401
    assert both.http.post(f"{both.cloud_url}/{SERVICE}/predict", files={"picture": whole}).status_code == 401
    wrong = {"meta": (None, '{"shape": [9, 9, 3]}'), "picture": ("p", whole)}
    bearer = {"Authorization": f"Bearer {SECRET}"}
    refused = both.http.post(f"{both.cloud_url}/{SERVICE}/predict", files=wrong, headers=bearer)
    assert refused.status_code == 400 and "[8, 8, 1], and meta says [9, 9, 3]" in refused.text
    for identifier in ("x" * 129, "a\nb"):
        refused = both.predict(whole, id=identifier)
        assert refused.status_code == 400 and "An id may have 128 printable characters." in refused.text
    assert both.http.post(f"{both.edge_url}/{SERVICE}/predict", content=b"{}").status_code == 415
    assert both.http.get(f"{both.edge_url}/other").status_code == 404
    assert both.ask_cloud(whole).json()["server_ms"] > 0
    assert both.predict(whole).status_code == 200, "none of these has harmed it"


def test_an_edge_with_the_wrong_secret_falls_back_and_says_why(here: Site, both: Site, digits: Digits) -> None:
    here.big_url, answered = both.cloud_url, both.cloud_answered
    here.start(Role.EDGE, PATIENT, secret="another")
    answer = here.predict(png(digits[1][0])).json()
    assert answer["source"] == "edge_fallback"
    assert "401" in answer["error"]
    assert both.cloud_answered == answered


def test_a_cloud_that_is_killed_is_left_alone_and_taken_up_again(here: Site, agent: FakeAgent, digits: Digits) -> None:
    cloud = here.start(Role.CLOUD)
    here.start(Role.EDGE, {**PATIENT, "breaker_pause_s": "0.5"})
    hard = [png(picture) for picture in digits[1][:10]]
    assert here.predict(hard[0]).json()["source"] == "cloud"
    end(cloud)
    assert {here.predict(data).json()["source"] for data in hard[:5]} == {"edge_fallback"}
    until(lambda: agent.tally["breaker"] != "closed" and agent.tally["fallbackNumber"] == 5)
    assert agent.tally["uploadFailedNumber"] == 3, "then the breaker was open"
    assert agent.tally["lastError"]
    assert agent.info()["status"] == "running"
    here.start(Role.CLOUD)
    until(lambda: agent.tally["breaker"] == "closed")
    assert here.predict(hard[0]).json()["source"] == "cloud"


@pytest.mark.exhaustive  # a whole service shows it, too
def test_a_stalled_cloud_leaves_the_stream_going(here: Site, agent: FakeAgent, digits: Digits, tmp_path: Path) -> None:
    here.start(Role.CLOUD)
    with TcpProxy(here.cloud_port) as proxy:
        proxy.fall_silent()
        here.big_url = f"http://{proxy.address}"
        source = stream_of(digits, tmp_path, easy=70, hard=30)
        here.start(Role.EDGE, {**PATIENT, "source": source})
        until(lambda: agent.tally.get("inferenceNumber") == 100)
        assert (agent.tally["uploadNumber"], agent.tally["uploadFailedNumber"]) == (0, 0), "no answer was there yet"
        proxy.open()
        until(lambda: agent.tally["uploadNumber"] == 30)


def test_a_restarted_edge_goes_on_counting(here: Site, agent: FakeAgent, digits: Digits) -> None:
    first = here.start(Role.EDGE)
    for picture in digits[0][:5]:
        here.predict(png(picture))
    until(lambda: agent.tally.get("inferenceNumber") == 5)
    started = agent.tally["startTime"]
    end(first)
    agent.infos.clear()
    here.start(Role.EDGE)
    here.predict(png(digits[0][0]))
    until(lambda: agent.tally.get("inferenceNumber") == 6)
    assert agent.tally["startTime"] == started


def test_reports_survive_an_agent_that_is_away(tmp_path: Path, agent: FakeAgent, digits: Digits) -> None:
    with site(tmp_path, agent) as here, TcpProxy(int(here.agent_url.rsplit(":", 1)[1])) as proxy:
        here.agent_url = f"http://{proxy.address}"
        proxy.refuse()
        here.start(Role.EDGE)
        for picture in digits[0][:3]:
            assert here.predict(png(picture)).status_code == 200
        time.sleep(2.5)  # reports fail in the meantime
        assert agent.infos == []
        proxy.open()
        until(lambda: agent.tally.get("inferenceNumber") == 3)


@pytest.mark.parametrize("role", [Role.EDGE, *exhaustive(Role.CLOUD)])
def test_a_worker_that_says_that_it_runs_takes_connections(here: Site, agent: FakeAgent, role: Role) -> None:
    took = list[bool]()

    def connect() -> None:
        with socket.socket() as probe:
            took.append(probe.connect_ex(("127.0.0.1", here.edge_port if role is Role.EDGE else here.cloud_port)) == 0)

    agent.before = connect
    here.start(role)
    until(lambda: bool(took))
    assert took[0]


def test_a_source_that_is_not_there_is_a_failure_that_is_said(here: Site, agent: FakeAgent) -> None:
    here.start(Role.EDGE, {"source": "/no/such/clip.mp4"})
    until(lambda: agent.info().get("status") == "failed")
    assert "/no/such/clip.mp4" in agent.tally["lastError"]
    assert agent.info()["detail"]["stream"]["reason"] == "SourceUnavailable"


def test_a_camera_that_dies_is_told_and_taken_up_again_when_it_is_back(here: Site, agent: FakeAgent) -> None:
    """Although the media server to which its pictures are to go is away, which is told, too."""
    here.media_server = f"rtsp://ann:hunter2@127.0.0.1:{free_port()}/in"
    with camera() as made:
        here.start(Role.EDGE, {"source": made.url, "broadcast": "door"})
        until(lambda: agent.tally.get("inferenceNumber", 0) > 0)
        broadcast = until(lambda: agent.info()["detail"]["broadcasts"][0], lambda state: state["problem"])
        assert (broadcast["is_sending"], broadcast["url"].partition("@")[2]) == (False, "")
        assert broadcast["url"].endswith("/in/door")
        assert agent.info()["detail"]["stream"] == {}
        made.unplug()
        until(lambda: bool(agent.info()["detail"]["stream"]))
        gone = agent.info()["detail"]["stream"]
        assert gone["reason"] == "SourceUnavailable"
        assert made.url in gone["message"]
        made.plug_in()
        until(lambda: agent.info()["detail"]["stream"] == {})
        assert agent.info()["status"] == "running"


@pytest.mark.parametrize("role", [Role.EDGE, *exhaustive(Role.CLOUD)])
def test_a_regressor_is_not_taken_for_a_classifier_that_nobody_named(
    here: Site, role: Role, capfd: pytest.CaptureFixture[str]
) -> None:
    here.models[role] = "headpose_fsanet_var"
    with pytest.raises(AssertionError, match="it has ended"):
        here.start(role)
    assert "3 numbers that are no probabilities" in capfd.readouterr().err
    here.start(role, {"decoder": "classifier"}, {"decoder": "classifier"})


def test_a_big_model_says_to_its_agent_what_runs_it(here: Site, agent: FakeAgent) -> None:
    cloud = here.start(Role.CLOUD)
    until(lambda: agent.info("big") != {})
    assert "onnx" in agent.info("big")["detail"]["runtime"].lower()
    assert agent.info("big")["detail"]["sha256"] == card("digits_big").sha256
    assert "taskInfo" not in agent.info("big")
    cloud.send_signal(signal.SIGTERM)
    assert cloud.wait(LONG_S) == 0
    assert agent.info("big")["status"] == "completed"


SCRIPT = """
import json, os
import numpy as np
from app.edge.joint.joint import JointInference

with JointInference.from_environment() as joint:
    outcome = joint.infer(np.zeros((8, 8), np.uint8))
    with open("{out}.new", "w") as file:
        json.dump({{"environment": dict(os.environ), "outcome": outcome.to_json()}}, file)
    os.replace("{out}.new", "{out}")
"""


def test_a_users_script_runs_with_its_parameters_as_environment(here: Site, agent: FakeAgent, tmp_path: Path) -> None:
    folder, out = tmp_path / "scripts" / "code", tmp_path / "out.json"
    folder.mkdir(parents=True)
    (folder / "edge_inference.py").write_text(SCRIPT.format(out=out))
    parameters = {"nms_threshold": "0.6", "Own-Key": "x", "path": "/evil", "ld_preload": "/evil.so", "my_key": "mine"}
    script = here.start(Role.EDGE, parameters, script=("/code", "edge_inference.py"))
    assert script.wait(LONG_S) == 0
    written = json.loads(out.read_text())
    environment = written["environment"]
    assert (environment["PARAM_NMS_THRESHOLD"], environment["PARAM_MY_KEY"]) == ("0.6", "mine")
    assert environment["PATH"] == os.environ["PATH"]
    assert "LD_PRELOAD" not in environment
    assert (environment["WORKER_NAME"], environment["SERVICE_NAME"], environment["NAMESPACE"]) == (
        "little",
        SERVICE,
        "default",
    )
    assert (environment["BIG_MODEL_IP"], environment["BIG_MODEL_PORT"]) == ("127.0.0.1", str(here.cloud_port))
    assert environment["LC_SERVER"] == here.agent_url
    assert Path(environment["MODEL_URL"]).is_file()
    assert environment["HEM_NAME"] == "CrossEntropy"
    assert {"key": "nms_threshold", "value": "0.6"} in json.loads(environment["HEM_PARAMETERS"])
    assert written["outcome"]["final"]["probabilities"]
    assert (agent.info()["status"], agent.tally["inferenceNumber"]) == ("completed", 1)


def test_a_worker_needs_no_database_no_redis_and_no_object_store() -> None:
    code = (
        "import sys, app.edge.joint.edge, app.edge.joint.cloud, app.edge.joint.driver;"
        "print(*sorted({'redis', 'sqlalchemy', 'minio', 'dramatiq'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_process_that_was_not_started_as_a_worker_says_so() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "MODELMILL_WORK"}
    done = subprocess.run(
        [sys.executable, "-m", "app.edge.joint.edge"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "MODELMILL_WORK is not set" in done.stderr


def test_labels_of_the_parameters_win(here: Site) -> None:
    here.start(Role.CLOUD, cloud={"labels": ",".join("abcdefghij")})
    assert here.http.get(f"{here.cloud_url}/{SERVICE}").json()["labels"] == list("abcdefghij")
