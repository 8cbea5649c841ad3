"""What the requirement says of a service, word by word, on a whole product with nodes of its own."""

from __future__ import annotations

import copy
import html
import io
import json
import re
import socket
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
import yaml

from app.bootstrap.container import assemble
from app.conversion.options import Chip, Options, ToolchainName
from tests.harness.api import Api
from tests.harness.conversion_jobs import finished_job
from tests.harness.deployment import DRAMATIQ
from tests.harness.joint.deployment import JointDeployment, current, metrics, resource, worker
from tests.harness.kubernetes import SAMPLE, changes, path
from tests.harness.page_text import text_of
from tests.harness.until import PATIENCE_S, until

pytestmark = pytest.mark.slow
EDGE, CLOUD, NPU = "edge0", "solar-corona-cloud", "npu0"
"""The first two as the requirement's sample names them."""
ORT = f"onnxruntime {onnxruntime.__version__} on CPU"

WITH_A_DEVICE = """
import sys
from tests.standins import kp
kp.core.connected.append(kp.DeviceDescriptor(13, 0x720))
sys.modules[__name__] = kp
"""
EDGE_SCRIPT = """
import json, os, time
from pathlib import Path
import numpy as np
from app.edge.joint.joint import JointInference

with JointInference.from_environment() as joint:
    outcome = joint.infer(np.zeros((8, 8), np.uint8))
    while outcome.source != "cloud":  # it had no time
        outcome = joint.infer(np.zeros((8, 8), np.uint8))
    file = Path("{said}")
    answers = json.loads(file.read_text())["answers"] + 1 if file.exists() else 1
    written = {{"answers": answers, "outcome": outcome.to_json(), "environment": dict(os.environ)}}
    file.with_suffix(".new").write_text(json.dumps(written))
    file.with_suffix(".new").replace(file)
    time.sleep(600)
"""
CLOUD_SCRIPT = """
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVICE = os.environ["SERVICE_NAME"]
ANSWER = {"boxes": [], "probabilities": [0, 0, 0, 0, 1, 0, 0, 0, 0, 0], "ms": 0.1}
if SERVICE == "garbage":
    ANSWER = {"probabilities": 7}

class BigModel(BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == f"/{SERVICE}/predict"
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

address = os.environ["BIG_MODEL_BIND_IP"], int(os.environ["BIG_MODEL_BIND_PORT"])
ThreadingHTTPServer(address, BigModel).serve_forever()
"""


def vendors_runtime(folder: Path) -> Path:
    """kp, with one device."""
    folder.mkdir()
    (folder / "kp.py").write_text(WITH_A_DEVICE)
    return folder


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path) -> Iterator[JointDeployment]:
    """With the models and nodes of the requirement's sample and its scripts, and a node with a device."""
    environment, folder = joint.deployment.env, joint.deployment.folder
    code = folder / "programs" / "code"
    code.mkdir(parents=True)
    (code / "edge_inference.py").write_text(EDGE_SCRIPT.format(said=folder / "said.json"))
    (code / "cloud_inference.py").write_text(CLOUD_SCRIPT)
    joint.node(EDGE, "edge", "--scripts", str(code.parent))
    joint.node(CLOUD, "cloud", "--scripts", str(code.parent))
    plain = environment["PYTHONPATH"]
    environment["PYTHONPATH"] = f"{plain}:{vendors_runtime(folder / 'vendor')}"
    joint.node(NPU, "edge")
    environment["PYTHONPATH"] = plain
    for name in ("small", "big"):
        joint.add_model(f"{name}-model", (shared_data / "models" / f"digits_{name}.onnx").read_bytes())
    yield joint
    joint.remove_nodes(EDGE, CLOUD, NPU)
    joint.remove_models("small-model", "big-model")


@pytest.fixture
def converting(deployment: JointDeployment) -> Iterator[None]:
    """With a worker of conversion."""
    queues = ["--queues", "onnx", "bie", "nef", "done", "--processes", "1", "--threads", "1"]
    process = deployment.deployment.start([DRAMATIQ, "actors", *queues])
    yield
    process.terminate()
    process.wait(PATIENCE_S)


SCRIPTED = "/code/cloud_inference.py"
"""The cloud worker where nobody looks at what the big model answers."""


def service(name: str, **fields: Any) -> Any:
    usual: dict[str, Any] = {"edge": EDGE, "cloud": CLOUD, "small": "small-model", "big": "big-model"}
    return resource(name, **{**usual, **fields})


def page(deployment: JointDeployment, name: str) -> httpx.Response:
    answer = deployment.http.get(f"/ui/services/default/{name}/live")
    assert answer.status_code == 200
    return answer


def rows(deployment: JointDeployment, node: str, table: str) -> list[tuple[Any, ...]]:
    """Of an agent's own file."""
    (file,) = deployment.agents[node].folder.rglob("*.db")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as conn:
        return conn.execute(f"SELECT * FROM {table}").fetchall()


def is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


# --- the sample -------------------------------------------------------------------------------------------
def test_the_requirements_sample_runs_its_two_scripts_unchanged(deployment: JointDeployment) -> None:
    name, sample = "helmet-detection-demo", yaml.safe_load(SAMPLE.read_text())
    deployment.apply(sample)
    record = deployment.reaches(name, "Running")
    assert record["resource"]["spec"] == sample["spec"]
    file = deployment.deployment.folder / "said.json"
    written = json.loads(until(lambda: _read(file)))
    environment = written["environment"]
    assert (environment["PARAM_NMS_THRESHOLD"], environment["HEM_NAME"]) == ("0.6", "IBT")
    big = f"{environment['BIG_MODEL_IP']}:{environment['BIG_MODEL_PORT']}"
    assert big == worker(record, "cloud")["address"]
    assert np.argmax(written["outcome"]["final"]["probabilities"]) == 4, "the big model's answer"
    # A worker that is started again, on a busy machine, is answered once more.
    counted = deployment.when(
        name, lambda record: 1 <= int(metrics(record).get("uploadNumber", 0)) <= json.loads(file.read_text())["answers"]
    )
    assert counted["resource"]["status"]["active"] == 2
    deployment.remove(name)


def _read(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


# --- a life -----------------------------------------------------------------------------------------------
@contextmanager
def watched(deployment: JointDeployment, name: str) -> Iterator[list[dict[str, Any]]]:
    """Each status that a watcher is told of until the service is to go. The block ends it."""
    seen: list[dict[str, Any]] = []
    ready = threading.Event()

    def look() -> None:
        with (
            httpx.Client(base_url=deployment.deployment.url, timeout=120, trust_env=False) as http,
            changes(http, path(), fieldSelector=f"metadata.name={name}") as lines,
        ):
            ready.set()
            for change in lines:
                if change["type"] == "DELETED":
                    return
                if "deletionTimestamp" not in change["object"]["metadata"]:
                    seen.append(change["object"]["status"])

    thread = threading.Thread(target=look)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield seen
    thread.join(120)
    assert not thread.is_alive()


@pytest.mark.exhaustive  # one is born and dies next door
def test_it_is_pending_until_both_serve_then_running_and_leaves_nothing_when_it_goes(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    with watched(deployment, "life") as seen:
        deployment.apply(service("life"))
        record = deployment.reaches("life", "Running")
        addresses = [worker(record, role)["address"] for role in ("edge", "cloud")]
        assert not any(map(is_free, addresses))
        deployment.ask("life", digits[:5])
        deployment.when("life", lambda record: metrics(record).get("inferenceNumber") == "5")
        uid = record["resource"]["metadata"]["uid"]
        deployment.remove("life")
    until(lambda: all(map(is_free, addresses)))
    kept = [(node, table) for node in (EDGE, CLOUD) for table in ("orders", "workers")]
    until(lambda: [place for place in kept if uid in str(rows(deployment, *place))], lambda left: not left)
    alive = [status for status in seen if status.get("conditions")]
    states = [(status["conditions"][-1]["type"], status.get("active", 0)) for status in alive]
    running = states.index(("Running", 2))
    assert {state for state, _ in states[:running]} == {"Pending"}
    assert all(active < 2 for _, active in states[:running])
    assert set(states[running:]) == {("Running", 2)}, alive
    assert len({status["startTime"] for status in alive if "startTime" in status}) == 1
    transitions = {status["conditions"][-1]["lastTransitionTime"] for status in alive[running:]}
    assert len(transitions) == 1, "more pictures are no transition"
    values = [metric["value"] for status in alive for metric in status.get("metrics", ())]
    assert values
    assert all(isinstance(value, str) for value in values)


def test_the_page_tells_what_the_worker_itself_counted_with_both_answers_side_by_side(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("shown"))
    deployment.reaches("shown", "Running")
    answers = deployment.ask("shown", digits[:12])
    hard = [answer for answer in answers if answer["is_hard"]]
    assert 0 < len(hard) < 12
    record = deployment.when("shown", lambda record: metrics(record).get("inferenceNumber") == "12")
    assert metrics(record)["hardExampleNumber"] == metrics(record)["uploadNumber"] == str(len(hard))
    listed = until(
        lambda: deployment.http.get("/api/v2/services/default/shown/samples").json()["samples"],
        lambda samples: len(samples) == len(hard),
    )
    live = page(deployment, "shown")
    text = text_of(live)
    for what in (
        "Pictures 12",
        f"By the edge {12 - len(hard)}",
        f"By the cloud {len(hard)}",
        "Fallback to the edge 0",
        f"Uploaded {len(hard) / 12:.1%}".replace("%", " %"),
    ):
        assert what in text
    assert re.search(r'hx-trigger="[^"]*every 5s"', live.text)
    cards = re.findall(r'<li class="sample" id="sample-([^"]+)">(.*?)</figure>\s*</div>', live.text, re.DOTALL)
    assert [name for name, _ in cards] == [sample["id"] for sample in listed]
    for name, card in cards:
        pictures = re.findall(r'<img src="([^"]+)"', card)
        assert pictures == [f"/ui/services/default/shown/samples/{name}"] * 2
        assert card.count("tag-final") == 1
    answer = deployment.http.get(f"/ui/services/default/shown/samples/{cards[0][0]}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    deployment.remove("shown")


def test_hard_samples_of_the_time_without_a_web_come_afterwards_and_in_order(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("away", algorithm="CloudOnly"))
    url = f"http://{worker(deployment.reaches('away', 'Serving'), 'edge')['address']}/away/predict"
    deployment.kill_web()
    for number in range(4):
        answer = httpx.post(url, files={"picture": ("d.png", digits[number], "image/png")}, data={"id": f"n{number}"})
        assert answer.json()["source"] == "cloud"
        until(lambda number=number: kept_samples(deployment) == number + 1)
    deployment.web()
    listed = until(
        lambda: deployment.http.get("/api/v2/services/default/away/samples").json()["samples"],
        lambda samples: len(samples) == 4,
    )
    assert [sample["id"] for sample in listed] == ["n3", "n2", "n1", "n0"], "newest first"
    record = deployment.when("away", lambda record: metrics(record).get("inferenceNumber") == "4")
    assert metrics(record)["hardExampleNumber"] == "4"
    deployment.remove("away")


def kept_samples(deployment: JointDeployment) -> int:
    """How many the agent has not yet handed in."""
    return sum("/samples" in str(row) for row in rows(deployment, EDGE, "outbox"))


# --- what a node is told by hand --------------------------------------------------------------------------
def test_an_order_by_hand_is_one_row_that_changes_and_goes(deployment: JointDeployment) -> None:
    by_hand = service("by-hand")
    by_hand["metadata"]["uid"] = "by-hand-1"
    place = f"{deployment.agents[EDGE].url}/default/neptune/downstream/jointinferenceservices/by-hand"

    def mine() -> list[str]:
        return [str(row) for row in rows(deployment, EDGE, "orders") if "by-hand-1" in str(row)]

    for _ in range(2):
        assert httpx.post(f"{place}/insert", json=by_hand).json() == {"Status": 200, "Message": "OK"}
    (row,) = mine()
    assert "CrossEntropy" in row
    changed = copy.deepcopy(by_hand)
    changed["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] = "EdgeOnly"
    assert httpx.post(f"{place}/update", json=changed).status_code == 200
    (row,) = mine()
    assert "EdgeOnly" in row
    elsewhere = {**by_hand, "metadata": {**by_hand["metadata"], "namespace": "other"}}
    for operation in ("insert", "update", "delete"):
        assert httpx.post(f"{place}/{operation}", json=elsewhere).status_code == 400
    assert len(mine()) == 1
    assert httpx.post(f"{place}/delete", json=changed).status_code == 200
    until(lambda: not mine())


# --- bad input and faults ---------------------------------------------------------------------------------
@pytest.mark.exhaustive  # the units of the edge show it
def test_a_big_model_that_answers_garbage_leaves_every_answer_to_the_edge(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("garbage", algorithm="CloudOnly", cloud_script=SCRIPTED))
    deployment.reaches("garbage", "Serving")
    answers = deployment.ask("garbage", digits[:6])
    assert {answer["source"] for answer in answers} == {"edge_fallback"}
    assert all(answer["final"] == answer["edge"] and answer["cloud"] is None for answer in answers)
    record = deployment.reaches("garbage", "Degraded")
    assert current(record)[0] == "Running"
    counted = metrics(deployment.when("garbage", lambda record: metrics(record).get("fallbackNumber") == "6"))
    assert (counted["uploadNumber"], counted["uploadFailedNumber"], counted["cloudAnswerRatio"]) == ("0", "3", "0")
    text = text_of(page(deployment, "garbage"))
    assert "Fallback to the edge 6" in text
    assert "paused after errors" in text
    deployment.remove("garbage")


@pytest.mark.exhaustive  # the units of the edge show it
def test_damaged_pictures_are_refused_and_damaged_frames_left_out_and_counted(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    frames = deployment.deployment.folder / "frames"
    frames.mkdir()
    for number, picture in enumerate(digits[:6]):
        (frames / f"{number}.png").write_bytes(picture[:60] if number == 3 else picture)
    deployment.apply(service("frames", parameters={"source": str(frames)}, cloud_script=SCRIPTED))
    record = deployment.when("frames", lambda record: metrics(record).get("inferenceNumber") == "5")
    assert "Damaged frames 1" in until(lambda: text_of(page(deployment, "frames")), lambda line: "Damaged" in line)
    url = deployment.predict_url("frames")
    for data in (b"", b"no picture", digits[0][:60], digits[0][:-30]):
        assert httpx.post(url, files={"picture": ("d.png", data, "image/png")}).status_code == 400
    deployment.ask("frames", digits[:1])
    after = deployment.when("frames", lambda record: metrics(record).get("inferenceNumber") == "6")
    assert worker(after, "edge")["pid"] == worker(record, "edge")["pid"]
    deployment.remove("frames")


def test_a_script_outside_of_what_was_opened_is_refused_and_told(deployment: JointDeployment) -> None:
    (deployment.deployment.folder / "secret.py").write_text("import time\ntime.sleep(600)\n")
    for generation, script in enumerate(("/etc/passwd", "/code/../../secret.py"), 1):
        deployment.apply(service("outside", script=script, cloud_script=SCRIPTED))
        deployment.when("outside", lambda record, seq=generation: worker(record, "edge").get("generation") == seq)
        failed = deployment.reaches("outside", "WorkerFailed")
        assert "outside of the folders for scripts" in current(failed)[2]
        assert worker(failed, "edge")["reason"] == "ScriptRefused"
        assert not worker(failed, "edge")["pid"]
    deployment.remove("outside")


# --- what decides -----------------------------------------------------------------------------------------
def test_an_algorithm_of_ones_own_decides_in_the_worker(deployment: JointDeployment, digits: list[bytes]) -> None:
    deployment.apply(service("own", algorithm="Wanted", parameters={"digit": "5"}, cloud_script=SCRIPTED))
    deployment.reaches("own", "Serving")
    answers = deployment.ask("own", digits[:40])
    hard = [answer for answer in answers if answer["is_hard"]]
    fives = [answer for answer in answers if np.argmax(answer["edge"]["probabilities"]) == 5]
    assert hard == fives
    assert 0 < len(hard) < 40
    assert {answer["why"] for answer in hard} == {"it is wanted: 5"}
    deployment.remove("own")
    deployment.apply(service("own", algorithm="Wanted", parameters={"digit": "five"}))
    assert "five" in current(deployment.reaches("own", "BadParameters"))[2]
    deployment.remove("own")


@pytest.mark.exhaustive  # the units of the edge show it
def test_no_more_goes_up_than_the_budget_allows(deployment: JointDeployment, digits: list[bytes]) -> None:
    frames = deployment.deployment.folder / "budget"
    frames.mkdir()
    for number, picture in enumerate(digits[:100]):
        (frames / f"{number:03}.png").write_bytes(picture)
    parameters = {"source": str(frames), "max_upload_ratio": "0.2", "deadline_ms": "60000", "queue_size": "200"}
    deployment.apply(service("budget", algorithm="CloudOnly", parameters=parameters, cloud_script=SCRIPTED))

    def is_over(result: Any) -> bool:
        known = metrics(result)
        ended = ("uploadNumber", "keptNumber", "fallbackNumber")
        return known.get("inferenceNumber") == "100" == str(sum(int(known[name]) for name in ended))

    counted = metrics(deployment.when("budget", is_over))
    assert counted["hardExampleNumber"] == "100"
    assert 0 < int(counted["uploadNumber"]) <= 20
    assert int(counted["keptNumber"]) >= 80
    assert f"Hard, not uploaded {counted['keptNumber']}" in text_of(page(deployment, "budget"))
    deployment.remove("budget")


# --- models of this product at the edge -------------------------------------------------------------------
def kneron_job(deployment: JointDeployment, name: str, onnx: bytes) -> None:
    """A job as it is after the vendor's toolchain: the NEF is one that the stand-in of the vendor's runtime reads."""
    facts = {"chip": "KL720", "layout": "16W1C8B", "radix": 7, "scale": 1.0}
    nef = io.BytesIO()
    with zipfile.ZipFile(nef, "w") as archive:
        archive.writestr("model.onnx", onnx)
        archive.writestr("node.json", json.dumps(facts))
    container = assemble(deployment.deployment.settings())
    try:
        options = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)
        files = {"out.onnx": onnx, "out.nef": nef.getvalue()}
        finished_job(container, container.settings.local_user, name, options=options, files=files)
    finally:
        container.close()


@pytest.mark.exhaustive  # the host of stages runs one, too
def test_what_this_product_converted_runs_at_the_edge_and_the_page_says_on_what(
    deployment: JointDeployment, converting: None, digits: list[bytes], shared_data: Path
) -> None:
    onnx = (shared_data / "models" / "digits_small.onnx").read_bytes()
    shapes = {"input_shapes": {"input": [1, 1, 8, 8]}}
    with Api(deployment.deployment.url) as api:
        samples = [(f"{number}.png", picture) for number, picture in enumerate(digits[:20])]
        done = api.convert(onnx, samples, name="little digits", options=shapes)
        assert done["status"] == "COMPLETED", done
        made = api.http.get(f"/jobs/{done['job_id']}/artifacts/out.onnx").content
    kneron_job(deployment, "for the chip", made)
    expected = {
        "of-nef": ("little digits", EDGE, f"{ORT} · host NEF", "Process"),
        "of-bie": ("little digits/out.bie", EDGE, f"{ORT} · bie", "Process"),
        "of-onnx": ("little digits/out.onnx", EDGE, f"{ORT} · onnx", "Process"),
        "of-npu": ("for the chip", NPU, "Kneron NPU KL720", "Process"),
        "of-twin": ("for the chip", EDGE, f"{ORT} · ONNX twin", "no Kneron runtime (kp) on this node"),
        "of-simulated": (
            "for the chip/out.bie",
            EDGE,
            f"{ORT} · ONNX twin",
            "a BIE of the vendor's toolchain runs in its simulator only",
        ),
    }
    for name, (model, node, _, _) in expected.items():
        deployment.apply(service(name, small=model, edge=node, algorithm="EdgeOnly", cloud_script=SCRIPTED))
    labels = {}
    for name, (model, _, runtime, why) in expected.items():
        deployment.reaches(name, "Serving")
        answers = deployment.ask(name, digits[:20])
        assert {answer["edge"]["runtime"] for answer in answers} == {runtime}, name
        labels[name] = np.array([np.argmax(answer["edge"]["probabilities"]) for answer in answers])
        told = until(lambda name=name: edge_card(deployment, name), lambda told: "Runs on –" not in told)
        wanted_there, runs = f"Model {model} runs {model}, version 1, sha256 ", f"… Runs on {runtime} {why}"
        assert wanted_there in told and runs in told
    for name, classes in labels.items():
        assert np.sum(classes != labels["of-onnx"]) <= 2, f"{name} sees something else"
    deployment.remove(*expected)


def edge_card(deployment: JointDeployment, name: str) -> str:
    """What the page says of the edge worker."""
    whole = page(deployment, name)
    match = re.search(r'<article class="worker" id="worker-edge".*?</article>', whole.text, re.DOTALL)
    assert match
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", match[0])).split())
