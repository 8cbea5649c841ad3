"""The host of stages as a process of its own: what it computes, for whom, and what it does with faults."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.edge.video.runner.frame_transport import H264Encoder
from app.edge.video.stage_host import pool
from app.edge.video.stage_host.errors import StageHung
from app.edge.video.stage_host.served_stages import StageVariant
from app.edge.video.stages.base import ModelFile
from app.edge.video.stages.detection import FaceDetection
from app.inference.model_card import Format
from app.inference.picture_codec import decode, encode
from app.inference.prediction import Picture
from app.inference.predictor_options import BatchOptions
from app.inference.sources.factory import open_source
from app.kit.files import sha256_of
from app.video.model.job import StageHost
from app.video.model.kinds import Stage, StageKind
from app.video.model.stage_call import KEPT, RAW, Call, Encoded
from tests.harness.http_server import respond, served
from tests.harness.models.converted import converted_faces
from tests.harness.paths import REPOSITORY, SHARED_DATA
from tests.harness.processes import is_alive
from tests.harness.until import until
from tests.harness.video.stage_host import SECRET, VideoHost, card_of, stage_of

DATA = SHARED_DATA
MODELS = DATA / "models"
MODES = ("raises", "dies", "crashes", "hoards", "no_json", "no_number", "prints", "well", "slow", "numbered")
"""Of faulty stages."""
OWN = '''
"""Stages of somebody's own, with faults."""

import ctypes
import hashlib
import os
import time
from pathlib import Path

import numpy as np

from app.video.model.kinds import StageKind, Type


class Hashes:
    kind = StageKind("hashes", {"image": Type.IMAGE}, {"label": Type.LABELS}, models=0)
    runtime = "hashlib"

    def __init__(self, models, parameters):
        pass

    def run(self, inputs):
        image = inputs["image"]
        return {"label": [hashlib.sha256(image.tobytes()).hexdigest(), str(image.shape)]}


class Faulty:
    kind = StageKind(
        "faulty", {}, {"count_result": Type.COUNTS}, models=0, parameters=frozenset({"mode", "timeout_s", "gate"})
    )
    runtime = "python"

    def __init__(self, models, parameters):
        self.mode, self.gate, self.number = parameters["mode"], Path(parameters.get("gate", "")), 0
        if self.mode == "opens_late":
            self.gate.with_suffix(".begun").touch(exist_ok=False)
            self.waits()
        if self.mode == "never_opens":
            self.raises()
        if self.mode == "dies_at_opening":
            self.dies()

    def opens_late(self):
        return {"ok": 1}

    def run(self, inputs):
        return {"count_result": getattr(self, self.mode)()}

    def well(self):
        return {"ok": 1}

    def prints(self):
        print("on standard output", flush=True)
        return {"ok": 1}

    def raises(self):
        raise RuntimeError("the lens is dirty")

    def hangs(self):
        time.sleep(3600)

    def dies(self):
        os._exit(7)

    def crashes(self):
        ctypes.string_at(0)

    def hoards(self):
        return {"bytes": np.ones(3 << 30, np.uint8).nbytes}

    def no_json(self):
        return {"ok": object()}

    def no_number(self):
        return {"ok": float("nan")}

    def slow(self):
        time.sleep(0.01)
        return {"ok": 1}

    def numbered(self):
        self.number += 1
        return {"number": self.number}

    def waits(self):
        while not self.gate.exists():
            time.sleep(0.01)
        return {"ok": 1}
'''


@cache
def clip(name: str) -> list[Picture]:
    return [frame.picture for frame in open_source(str(DATA / "video" / f"{name}.mp4"))]


def raw(picture: Picture) -> tuple[Encoded, ...]:
    return (Encoded(picture.tobytes(), f"{RAW};width={picture.shape[1]};height={picture.shape[0]}"),)


def jpeg(picture: Picture) -> tuple[Encoded, ...]:
    return (Encoded(*encode(picture)),)


def asked(host: VideoHost, call: Call) -> dict[str, Any]:
    answer = host.call(call)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def log_of(host: VideoHost, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in host.log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"] == message]


@pytest.fixture(scope="module")
def own_stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Env in which a package with stages of somebody's own is installed."""
    folder = tmp_path_factory.mktemp("site")
    about = folder / "own_faults-1.0.dist-info"
    about.mkdir()
    (folder / "own_faults.py").write_text(OWN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-faults\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[modelmill.video_stages]\nfaulty = own_faults:Faulty\nhashes = own_faults:Hashes\n"
    )
    return {"PYTHONPATH": f"{REPOSITORY}:{folder}"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[VideoHost]:
    stages: dict[str, Stage] = {}
    files: list[Path] = []
    for name, kind, variants in (
        ("face_detection", "face_detection", (["face_rfb_640"], ["face_rfb_320"], ["face_slim_320"])),
        ("face_alignment", "face_alignment", (["headpose_fsanet_1x1", "headpose_fsanet_var"],)),
        ("GLOBAL_ID_1.SUB_ID_1/face_detection", "face_detection", (["face_yunet_n_320_320"],)),
    ):
        stages[name], more = stage_of(
            name.rpartition("/")[2], kind, *([MODELS / f"{model}.onnx" for model in models] for models in variants)
        )
        files += more
    stages["motion"], _ = stage_of("motion", "motion")
    video_host = VideoHost(tmp_path_factory.mktemp("host"), stages, files)
    yield video_host
    video_host.close()


def faulty(stages: Mapping[str, Mapping[str, str]]) -> dict[str, Stage]:
    """By name → parameters, with two that tell what they were given."""
    named = {name: Stage(name, "faulty", (), dict(given)) for name, given in stages.items()}
    return {**named, **{name: Stage(name, "hashes", ()) for name in ("hashes", "hashes_too")}}


@pytest.fixture
def start(tmp_path: Path, own_stages: Mapping[str, str]) -> Iterator[Callable[..., VideoHost]]:
    """A host with faulty stages, by name → parameters, of one test."""
    hosts: list[VideoHost] = []

    def started(processes: int = 1, **stages: Mapping[str, str]) -> VideoHost:
        named = faulty({name.replace("__", "/"): given for name, given in stages.items()})
        hosts.append(VideoHost(tmp_path / str(len(hosts)), named, [], processes, environment=own_stages))
        return hosts[-1]

    yield started
    for each in hosts:
        each.close()


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory, own_stages: Mapping[str, str]) -> Iterator[VideoHost]:
    """A host of one process with a stage for each mode, and some more for single tests: what one of them does to the
    host harms no other test, or that is its finding. Stages that wait do so for gate(…)."""
    folder = tmp_path_factory.mktemp("one-process")
    stages = {mode: {"mode": mode} for mode in MODES}
    stages["dies_often"] = {"mode": "dies"}
    for name in ("waits", "waits_long", "holds"):
        stages[name] = {"mode": "waits", "gate": str(folder / name), "timeout_s": "600"}
    video_host = VideoHost(folder / "host", faulty(stages), [], environment=own_stages)
    yield video_host
    video_host.close()


def gate(host: VideoHost, stage: str) -> Path:
    """Made, it lets the stage go on."""
    return Path(host.stages[stage].parameters["gate"])


def test_the_classroom_has_four_faces_and_each_a_pose(host: VideoHost) -> None:
    frames = clip("classroom-270p")[::12]
    fours = 0
    for frame in frames:
        faces = asked(host, Call("face_detection", pictures={"image": jpeg(frame)}))
        fours += len(faces["bbox"]) == len(faces["prob"]) == 4
    assert fours >= 0.95 * len(frames)
    inputs = {"bbox": faces["bbox"], "prob": faces["prob"]}
    answer = asked(host, Call("face_alignment", 0, inputs, {"image": jpeg(frames[-1])}))
    assert [len(pose) for pose in answer["head_pose"]] == [3] * 4
    assert answer["count_result"]["total"] == 4
    assert 0 <= answer["count_result"]["up"] <= 4
    assert decode(base64.b64decode(answer["image"])).shape == frames[-1].shape
    assert answer["model"] == "headpose_fsanet_1x1 + headpose_fsanet_var"
    assert answer["stage"] == "face_alignment"
    assert answer["server_ms"] > 0
    assert answer["queue_ms"] >= 0


def test_only_what_is_wanted_is_answered(host: VideoHost) -> None:
    inputs = {"bbox": [[100, 60, 160, 130]]}
    pictures = {"image": jpeg(clip("classroom-270p")[0])}
    answer = asked(host, Call("face_alignment", 0, inputs, pictures, want=frozenset({"head_pose"})))
    assert "head_pose" in answer
    assert not {"image", "count_result"} & answer.keys()


def test_the_requirements_bodies_and_both_paths(host: VideoHost) -> None:
    text = base64.b64encode(jpeg(clip("classroom-270p")[0])[0].data).decode()
    answers = [
        host.client.post(f"/{path}/face_detection", json={"image": text}).json()["bbox"]
        for path in ("service", "execute_task")
    ]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4
    form = {"image": ("a.jpg", base64.b64decode(text), "image/jpeg")}
    posed = host.client.post("/service/face_alignment", files=form, data={"bbox": json.dumps(answers[0])}).json()
    assert posed["count_result"]["total"] == 4


def test_big_middle_and_small_run_as_they_are_asked_for(host: VideoHost) -> None:
    """Each answers what its own file answers here."""
    names, frames = ("face_rfb_640", "face_rfb_320", "face_slim_320"), clip("classroom-270p")[:2]
    outputs = itemgetter("bbox", "prob")
    answers = dict[str, list[Any]]()
    for model_id, name in enumerate(names):
        path = MODELS / f"{name}.onnx"
        calls = [Call("face_detection", model_id, {}, {"image": raw(frame)}, job="sizes") for frame in frames]
        answers[name] = [outputs(asked(host, call)) for call in calls]
        stage = FaceDetection([ModelFile(card_of(path), path)], {})
        assert answers[name] == [outputs(stage.run({"image": frame})) for frame in frames]
    assert all(answers[one] != answers[other] for one, other in combinations(names, 2))
    seen = [line["model"] for line in log_of(host, "Stage called") if line.get("job") == "sizes"]
    assert seen == [name for name in names for _ in frames]


def test_a_model_id_that_is_not_there_is_refused(host: VideoHost) -> None:
    answer = host.call(Call("face_alignment", 2, {"bbox": []}, {"image": jpeg(clip("classroom-270p")[0])}))
    assert answer.status_code == 400
    assert "no model_id 2" in answer.json()["error"]


def test_a_jobs_own_stage_goes_before_the_catalogues(host: VideoHost) -> None:
    call = {"pictures": {"image": jpeg(clip("classroom-270p")[0])}}
    assert asked(host, Call("face_detection", **call))["model"] == "face_rfb_640"
    own = asked(host, Call("face_detection", job="GLOBAL_ID_1.SUB_ID_1", **call))
    assert (own["model"], own["stage"]) == ("face_yunet_n_320_320", "GLOBAL_ID_1.SUB_ID_1/face_detection")
    assert asked(host, Call("face_detection", job="GLOBAL_ID_2.SUB_ID_1", **call))["model"] == "face_rfb_640"


def test_what_the_requirements_origin_answers_is_answered(host: VideoHost) -> None:
    get = host.client.get
    assert get("/get_service_list").json() == ["face_alignment", "face_detection", "motion"]
    assert get("/get_execute_url/motion").json() == {"edge-1": {"url": f"{host.url}/execute_task/motion"}}
    resources = get("/get_resource_info").json()
    assert resources["n_process"] == 1
    assert 0 <= resources["cpu_ratio"] <= 1
    assert 0 < resources["mem_ratio"] <= 1
    assert set(resources["stages"]) == set(host.stages)
    assert get("/get_cluster_info").json()["edge-1"]["n_process"] == 1
    for answer in (get("/get_execute_url/helmet"), host.post("helmet", {}), host.post("x%2Fface_detection", {})):
        assert answer.status_code == 404
        assert answer.json()["status" if answer.json().get("status") else "error"]
    nobody = host.post("helmet", {}).json()
    assert (nobody["status"], nobody["error"]) == (1, "unregistered services")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"image": "__import__('os').system('touch {mark}')"}, "no base64"),
        ({"image": ["eval(\"open('{mark}', 'w')\")"]}, "no base64"),
        ({"image": ""}, "neither"),
        ({}, "image of face_detection is missing"),
        ({"bbox": [[1, 2, 3, 4]]}, "image of face_detection is missing"),
        ({"image": 7}, "not int"),
        ({"clip": [base64.b64encode(b"\xff\xd8\xff").decode()]}, "takes no picture 'clip'"),
        ({"image": base64.b64encode(b"\xff\xd8\xff damaged").decode()}, "cannot be read as a picture"),
    ],
)
def test_what_is_no_picture_is_told_and_never_evaluated(
    host: VideoHost, tmp_path: Path, body: dict[str, Any], message: str
) -> None:
    mark = tmp_path / "was-evaluated"
    answer = host.client.post(
        "/service/face_detection",
        content=json.dumps(body).replace("{mark}", str(mark)),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["status"] == 1
    assert message in answer.json()["error"]
    assert not mark.exists()


def test_raw_pictures_are_as_large_as_they_say(host: VideoHost) -> None:
    for data, size in ((b"abc", "width=1;height=2"), (b"", "width=0;height=0"), (b"abc", "width=x;height=1")):
        answer = host.call(Call("face_detection", pictures={"image": (Encoded(data, f"{RAW};{size}"),)}))
        assert answer.status_code == 400, answer.text
    answer = host.call(Call("face_detection", pictures={"image": (Encoded(b"GIF89a", "image/gif"),)}))
    assert answer.status_code == 415


def test_boxes_that_are_none_name_the_stage(host: VideoHost) -> None:
    answer = host.call(Call("face_alignment", 0, {"bbox": "eval('1')"}, {"image": jpeg(clip("classroom-270p")[0])}))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("The stage face_alignment: The field bbox")


def test_odd_texts_and_numbers_end_no_process(host: VideoHost) -> None:
    asked(host, Call("face_alignment", 0, {"bbox": []}, {"image": jpeg(clip("classroom-270p")[0])}))
    pids = host.client.get("/get_resource_info").json()["pids"]
    for odd in (b'"\\ud800"', b"[[NaN, 1, 2, 3]]", b"[[1e999, 1, 2, 3]]", b'[["\\u0000"]]'):
        body = b'{"bbox": ' + odd + b', "image": "' + base64.b64encode(jpeg(clip("classroom-270p")[0])[0].data) + b'"}'
        answer = host.client.post("/service/face_alignment", content=body)
        assert answer.status_code == 400, answer.text
    assert host.client.get("/get_resource_info").json()["pids"] == pids


def test_a_clip_comes_to_its_stage(host: VideoHost) -> None:
    frames = clip("person-bicycle-car-270p")
    answer = asked(host, Call("motion", pictures={"clip": tuple(jpeg(frame)[0] for frame in frames[:5])}))
    assert answer["count_result"]["total"] == len(answer["prob"]) == 4


def test_browsers_and_strangers_show_the_secret(host: VideoHost) -> None:
    body = {"image": ""}
    for name in ("origin", "sec-fetch-site", "referer"):
        refused = host.post("face_detection", body, **{name: "http://somewhere"})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["status"] == 1
        wrong = host.post("face_detection", body, **{name: "http://somewhere", "authorization": "Bearer wrong"})
        assert wrong.status_code == 401
        right = host.post("face_detection", body, **{name: "http://somewhere", "authorization": f"Bearer {SECRET}"})
        assert right.status_code == 400


def test_a_stage_that_raises_or_dies_or_hoards_harms_no_other(one_process: VideoHost) -> None:
    host = one_process
    for mode, status, message in (
        ("raises", 500, "RuntimeError: the lens is dirty"),
        ("dies", 502, "ended (code 7)"),
        ("crashes", 502, "ended (signal 11)"),
        ("hoards", 500, "more memory than it may use"),
        ("no_json", 500, "no JSON"),
        ("no_number", 500, "no JSON"),
    ):
        answer = host.post(mode, {})
        assert answer.status_code == status, answer.text
        assert answer.json()["error"].startswith(f"The stage {mode}: ")
        assert message in answer.json()["error"]
        assert host.post("prints", {}).json()["count_result"] == {"ok": 1}
    assert len(host.client.get("/get_resource_info").json()["pids"]) == 1


@pytest.mark.slow
def test_one_that_hangs_is_ended_while_two_other_jobs_go_on(start: Callable[..., VideoHost], tmp_path: Path) -> None:
    late = {"mode": "waits", "gate": str(tmp_path / "gate"), "timeout_s": "600"}
    host = start(2, a__step={"mode": "hangs", "timeout_s": "2"}, d__step=late, step={"mode": "slow"})

    def others_go_on() -> None:
        for job in ("b", "c"):
            assert asked(host, Call("step", job=job))["count_result"] == {"ok": 1}

    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(host.post, "step", {}, **{"x-job": "a"})
        while not hung.done():
            others_go_on()
        assert hung.result().status_code == 504
        assert "The stage a/step: It has not answered within 2 s" in hung.result().json()["error"]
        waiting = pool.submit(host.post, "step", {}, **{"x-job": "d"})
        for _ in range(11):
            others_go_on()
        assert not waiting.done()
        (tmp_path / "gate").touch()
        assert waiting.result().json()["count_result"] == {"ok": 1}


def test_a_stage_that_ends_one_process_after_the_other_rests(one_process: VideoHost) -> None:
    host = one_process
    assert [host.post("dies_often", {}).status_code for _ in range(4)] == [502, 502, 502, 503]
    refused = host.post("dies_often", {})
    assert refused.json()["code"] == "STAGE_PAUSED"
    assert refused.headers["retry-after"]
    assert host.post("well", {}).status_code == 200


def test_a_child_that_somebody_ended_is_replaced_unnoticed(one_process: VideoHost) -> None:
    host = one_process
    assert host.post("well", {}).status_code == 200
    (pid,) = host.client.get("/get_resource_info").json()["pids"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid))
    until(lambda: host.post("well", {}).status_code == 200)
    assert host.client.get("/get_resource_info").json()["pids"] != [pid]


def test_a_model_is_opened_ahead_beside_what_is_computed(start: Callable[..., VideoHost], tmp_path: Path) -> None:
    gates = [tmp_path / name for name in ("one", "two")]
    late = {f"late_{gate.name}": {"mode": "opens_late", "gate": str(gate)} for gate in gates}
    host = start(**late, well={"mode": "well"}, no={"mode": "never_opens"}, dies={"mode": "dies_at_opening"})
    with ThreadPoolExecutor(2) as threads:
        prepared = [threads.submit(httpx.post, f"{host.url}/prepare/{stage}", timeout=60) for stage in late]
        until(lambda: any(gate.with_suffix(".begun").exists() for gate in gates))
        assert host.post("well", {}).json()["count_result"] == {"ok": 1}
        assert not any(one.done() for one in prepared)
        for gate in gates:
            gate.touch()
        assert [one.result().status_code for one in prepared] == [200, 200]
    for stage in late:
        assert host.post(stage, {}).json()["count_result"] == {"ok": 1}, "the same that was opened"
        assert host.client.post(f"/prepare/{stage}").status_code == 200
    assert host.client.post("/prepare/nothing").status_code == 404
    assert host.client.post("/prepare/well?model_id=7").status_code == 400
    refusal = host.client.post("/prepare/no")
    assert (refusal.status_code, "the lens is dirty" in refusal.text) == (500, True)
    assert host.post("well", {}).status_code == 200
    statuses = [host.client.post("/prepare/dies").status_code for _ in range(4)]
    assert statuses == [502, 502, 502, 503], "it rests, as one whose calls end processes"
    assert host.post("well", {}).status_code == 200


@pytest.fixture
def late(own_stages: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageVariant:
    """A stage that opens once the file `gate` is there, for a pool of this process."""
    for name, value in own_stages.items():
        monkeypatch.setenv(name, value)
    opening = {"kind": "faulty", "models": [], "parameters": {"mode": "opens_late", "gate": str(tmp_path / "gate")}}
    return StageVariant("late", "late-0", StageKind("faulty", {}, {}, models=0), (), opening, 2, BatchOptions())


def test_a_stage_that_hangs_while_it_is_opened_ahead_costs_the_process(
    late: StageVariant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        stages = pool.StagePool(1)
        stages.start()
        await stages.serve({late.id}, {late.key})
        try:
            await stages.prepare(late)
        finally:
            assert stages.pids == []
            await stages.close()

    monkeypatch.setattr(pool, "AHEAD_S", 0)
    with pytest.raises(StageHung):
        asyncio.run(prepare())


def test_what_is_no_longer_served_while_it_is_opened_ahead_is_not_kept(late: StageVariant, tmp_path: Path) -> None:
    begun = tmp_path / "gate.begun"

    async def prepare_twice() -> None:
        stages = pool.StagePool(1)
        stages.start()
        await stages.serve({late.id}, {late.key})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stages.prepare(late))
            while not begun.exists():
                await asyncio.sleep(0.01)
            await stages.serve(set(), set())
        begun.unlink()
        (tmp_path / "gate").touch()
        await stages.serve({late.id}, {late.key})
        await stages.prepare(late)
        await stages.close()

    asyncio.run(prepare_twice())
    assert begun.exists(), "it was opened anew"


def test_children_end_with_their_host(start: Callable[..., VideoHost]) -> None:
    host = start(hangs={"mode": "hangs"}, well={"mode": "well"})
    host.post("well", {})
    pids = host.client.get("/get_resource_info").json()["pids"]
    with pytest.raises(httpx.ReadTimeout):
        host.client.post("/service/hangs", json={}, timeout=httpx.Timeout(60, read=0.3))
    host.process.send_signal(signal.SIGKILL)
    host.process.wait()
    until(lambda: not any(map(is_alive, pids)))


def test_a_job_with_many_calls_does_not_keep_those_with_one_waiting(one_process: VideoHost) -> None:
    """However long calls take: all are there before the first of them is served."""
    host = one_process

    def number_of(job: str) -> int:
        """Its number among the calls that have been served."""
        return int(host.post("numbered", {}, **{"x-job": job}).json()["count_result"]["number"])

    def wait_for(queue: int) -> None:
        until(lambda: host.client.get("/get_resource_info").json()["queue"] == queue)

    with ThreadPoolExecutor(8) as threads:
        holding = [threads.submit(host.post, "holds", {}, **{"x-job": "first"}) for _ in range(2)]
        try:
            wait_for(1)
            many = [threads.submit(number_of, "many") for _ in range(4)]
            wait_for(5)
            one = [threads.submit(number_of, job) for job in ("b", "c")]
            wait_for(7)
        finally:
            gate(host, "holds").touch()
    assert [each.result().status_code for each in holding] == [200, 200]
    assert sorted(each.result() for each in many) == [1, 4, 5, 6]
    assert sorted(each.result() for each in one) == [2, 3]


@pytest.mark.slow
def test_a_job_that_asks_faster_than_it_is_served_is_told(one_process: VideoHost) -> None:
    host, counts = one_process, Counter[int]()

    def ask(_: int) -> None:
        counts[host.post("waits", {}, **{"x-job": "a"}).status_code] += 1

    with ThreadPoolExecutor(10) as threads:
        asking = [threads.submit(ask, number) for number in range(10)]
        try:
            until(lambda: counts[429] >= 4)
        finally:
            gate(host, "waits").touch()
    assert not any(each.exception() for each in asking)
    assert set(counts) == {200, 429}
    assert counts[200] >= 4


def test_calls_whose_callers_have_gone_are_computed_by_nobody(one_process: VideoHost) -> None:
    host = one_process

    def waiting() -> int:
        return int(host.client.get("/get_resource_info").json()["queue"])

    callers = [HTTPConnection("127.0.0.1", host.port) for _ in range(4)]
    try:
        for caller in callers:
            caller.request("POST", "/service/waits_long", b"{}", {"Content-Type": "application/json", "X-Job": "gone"})
        until(lambda: waiting() == 3)
        for caller in callers:
            caller.close()
        until(lambda: waiting() == 0)
    finally:
        gate(host, "waits_long").touch()
    assert host.post("well", {}).status_code == 200


def test_a_kept_picture_is_the_same_for_the_next_stage(one_process: VideoHost, shared_data: Path) -> None:
    host, frame = one_process, clip("classroom-270p")[0]
    first = asked(host, Call("hashes", pictures={"image": jpeg(frame)}, job="a", frame="1"))
    kept = {"image": (Encoded(b"", KEPT),)}
    assert asked(host, Call("hashes_too", pictures=kept, job="a", frame="1"))["label"] == first["label"]
    for job, name in (("a", "2"), ("b", "1"), ("", "")):
        answer = host.call(Call("hashes_too", pictures=kept, job=job, frame=name))
        assert (answer.status_code, answer.json()["code"]) == (409, "PICTURE_NOT_KEPT")
    sent = asked(host, Call("hashes", pictures={"image": raw(frame)}))
    assert sent["label"] == [hashlib.sha256(frame.tobytes()).hexdigest(), str(frame.shape)]


def test_h264_needs_fewer_bytes_and_begins_again_after_a_loss(one_process: VideoHost, shared_data: Path) -> None:
    host, stream = one_process, H264Encoder()
    frames = clip("classroom-270p")[:20]
    packets = [stream.packet(frame) for frame in frames]
    assert sum(len(packet.data) for packet in packets) < 0.6 * sum(len(jpeg(frame)[0].data) for frame in frames)
    for number, packet in enumerate(packets[:10]):
        result = asked(host, Call("hashes", pictures={"image": (packet,)}, job="stream", frame=str(number)))
        assert result["label"][1] == str(frames[0].shape)
    again = asked(host, Call("hashes_too", pictures={"image": (packets[9],)}, job="stream", frame="9"))
    assert again["label"] == result["label"]
    for packet in (packets[11], packets[12]):  # the one before has been lost
        answer = host.call(Call("hashes", pictures={"image": (packet,)}, job="stream", frame="11"))
        assert (answer.status_code, answer.json()["code"]) == (409, "KEYFRAME_NEEDED")
    fresh = stream.packet(frames[13], lost=stream.seq)
    assert asked(host, Call("hashes", pictures={"image": (fresh,)}, job="stream", frame="13"))
    other = host.call(Call("hashes", pictures={"image": (packets[5],)}, job="other", frame="5"))
    assert other.status_code == 409
    damaged = host.call(Call("hashes", pictures={"image": (Encoded(b"none", "video/h264"),)}, job="damaged"))
    assert damaged.status_code == 409


def test_stages_come_and_go_while_it_runs(start: Callable[..., VideoHost]) -> None:
    host = start(first={"mode": "well"})
    assert host.post("first", {}).status_code == 200
    pids = host.client.get("/get_resource_info").json()["pids"]
    host.stages = {"second": Stage("second", "faulty", (), {"mode": "well"})}
    host.write()
    until(lambda: host.client.get("/get_service_list").json() == ["second"])
    assert host.post("first", {}).status_code == 404
    assert host.post("second", {}).status_code == 200
    host.stages = {"second": Stage("second", "faulty", (), {"mode": "raises"})}
    host.write()
    until(lambda: host.post("second", {}).status_code == 500)
    host.file.write_text("{")
    until(lambda: "What is to be served stays as it is" in host.log.read_text())
    assert host.post("second", {}).status_code == 500
    assert host.client.get("/get_resource_info").json()["pids"] == pids


@pytest.mark.slow
def test_it_tells_its_agent_how_it_is_and_how_far_the_others_are(one_process: VideoHost, tmp_path: Path) -> None:
    reports: list[dict[str, Any]] = []

    def hear(request: BaseHTTPRequestHandler, body: bytes) -> None:
        assert request.path == "/video/services/info"
        reports.append(json.loads(body))
        respond(request, b"{}")

    peers = (
        StageHost("cloud-1", "cloud", "127.0.0.1", one_process.url, SECRET),
        StageHost("gone", "cloud", "127.0.0.1", "http://127.0.0.1:9", SECRET),
    )
    with served(hear) as url:
        host = VideoHost(tmp_path / "told", {"motion": stage_of("motion", "motion")[0]}, [], 2, url, peers)
        try:
            until(lambda: any(report["detail"]["way"] for report in reports))
        finally:
            host.close()
    detail = reports[-1]["detail"]
    assert detail["n_process"] == 2
    assert detail["stages"] == {"motion": ""}
    assert {"cpu_ratio", "mem_ratio", "queue"} <= detail.keys()
    assert set(detail["way"]) == {"cloud-1"}
    way = detail["way"]["cloud-1"]
    assert way["up_mbps"] > 0
    assert way["down_mbps"] > 0
    assert way["at"].endswith("Z")


def test_calls_of_several_jobs_that_wait_together_get_the_answers_of_single_calls(
    tmp_path: Path, shared_data: Path
) -> None:
    model = MODELS / "cls_mobilenet_v2_128_dynamic_batch.onnx"
    together = {"batch": "4", "batch_wait_ms": "1000"}
    stages = {
        "single": Stage("single", "classification", ((card_of(model),),)),
        "together": Stage("together", "classification", ((card_of(model),),), together),
    }
    host = VideoHost(tmp_path / "host", stages, [model])
    noise = np.random.default_rng(1)
    pictures = [noise.integers(0, 256, (90 + 10 * n, 120, 3), np.uint8) for n in range(8)]
    jobs = ["first", "second", "third", "fourth"]

    def answer(stage: str, number: int) -> dict[str, Any]:
        return asked(host, Call(stage, pictures={"image": raw(pictures[number])}, job=jobs[number % 4]))

    try:
        asked(host, Call("together", pictures={"image": raw(pictures[0])}))
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: answer("together", number), range(8)))
        assert all("up to 4 at once" in each["runtime"] for each in answers)
        assert len({each["server_ms"] for each in answers}) < 8, "computed together"
        for number, each in enumerate(answers):
            expected = answer("single", number)
            assert (each["label"], each["prob"]) == (expected["label"], expected["prob"])
    finally:
        host.close()


@pytest.mark.slow
def test_a_converted_model_finds_what_the_original_finds(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, shared_data: Path
) -> None:
    """The same stage with the ONNX and with the NEF that the host toolchain made of it."""
    original, nef = MODELS / "face_rfb_320.onnx", converted_faces(tmp_path_factory, DATA) / "out.nef"
    cards = (card_of(original), card_of(nef, format=Format.NEF, toolchain="host"))
    stages = {
        name: Stage(name, "face_detection", ((card,),)) for name, card in zip(("onnx", "nef"), cards, strict=True)
    }
    host = VideoHost(tmp_path / "host", stages, [original, nef])
    try:
        hits = total = 0
        for frame in clip("headpose-female-270p")[::6]:
            one, other = (asked(host, Call(name, pictures={"image": raw(frame)}))["bbox"] for name in ("onnx", "nef"))
            total += len(one) + len(other)
            hits += 2 * sum(any(overlap(a, b) >= 0.5 for b in other) for a in one)
        assert hits / total >= 0.95
        runtimes = host.client.get("/get_resource_info").json()["stages"]
        assert runtimes["nef"].endswith("host NEF")
        assert sha256_of(nef)[:12] in {line["sha256"] for line in log_of(host, "Stage called")}
    finally:
        host.close()


def overlap(a: list[float], b: list[float]) -> float:
    width, height = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (areas - width * height)
