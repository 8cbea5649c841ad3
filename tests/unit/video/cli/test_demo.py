"""The pseudo-distributed start without its processes: ports, videos, models and what is made of them."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.edge.video.stages.base import ModelFile
from app.edge.video.stages.registry import stage_class
from app.inference.errors import SourceUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.sources import open_source
from app.kit.cli.command import CannotStart
from app.kit.clock import to_text
from app.kit.errors import BadInput, Unavailable
from app.results.model.frame_result import FrameRecord
from app.results.model.rule import RULE_SET, check_rules
from app.results.model.rule_evaluation import EvaluationState, evaluate
from app.standalone import sample_clip
from app.video.cli.demo import broker, demo
from app.video.cli.demo.catalogue import RECIPES, SAMPLE, files_in
from app.video.cli.demo.deployment import DemoDeployment, Ports, running_deployment, videos_of
from app.video.cli.demo.relays import Relay, running_relays
from app.video.cli.demo.show import CLIP, _what_next, addresses, job, make_sample
from app.video.cli.demo.walkthrough import CAMERA_RULES, RULES, _where_to, camera_scene, dag_of
from app.video.model.dag import read_dag
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port

PORTS = Ports(5000, 5001, 5002, 5100, 5101, 5500)


@pytest.fixture
def target() -> Iterator[tuple[str, int]]:
    """It answers with what it is sent."""
    with served(respond, protocol="HTTP/1.1") as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


# relays
@pytest.mark.slow
def test_a_relay_passes_on_what_comes_from_either_side(target: tuple[str, int]) -> None:
    ports, body = (free_port(), free_port()), bytes(range(256)) * 20_000
    with running_relays([Relay(port, target, "--x") for port in ports]), httpx.Client(trust_env=False) as client:
        for port in (*ports, *ports):
            assert client.post(f"http://127.0.0.1:{port}/", content=body).content == body
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_relay_to_what_is_not_up_says_so(target: tuple[str, int]) -> None:
    port, missing = free_port(), free_port()
    with running_relays([Relay(port, ("127.0.0.1", missing), "--x")]):
        answer = httpx.get(f"http://127.0.0.1:{port}/user/get_all_status", trust_env=False)
    assert (answer.status_code, answer.json()["status"]) == (503, 1)


def test_a_relay_ends_though_somebody_is_still_connected(target: tuple[str, int]) -> None:
    port = free_port()
    with running_relays([Relay(port, target, "--x")]):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
        assert connection.recv(1) == b"H"
    while connection.recv(1000):
        pass
    connection.close()


def test_a_port_that_is_taken_is_named_with_the_option_that_chooses_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, free = taken.getsockname()[1], free_port()
        relays = [Relay(free, ("127.0.0.1", 9), "--a"), Relay(port, ("127.0.0.1", 9), "--edge-port")]
        with pytest.raises(CannotStart, match=f"port {port}") as refused, running_relays(relays):
            raise AssertionError
    assert "--edge-port" in refused.value.hint
    socket.create_server(("127.0.0.1", free)).close()


def test_each_of_the_requirements_ports_answers_by_the_web_or_the_edge_node() -> None:
    relays = {relay.port: relay.target for relay in PORTS.relays()}
    web, edge = ("127.0.0.1", 5000), ("127.0.0.2", 5002)
    assert relays == {5001: web, 5002: edge, 5100: web, 5101: edge, 5500: web}
    assert all(f":{port}" in addresses(PORTS) for port in (5000, *relays))


# videos
def test_videos_are_those_of_a_folder_and_those_that_are_named(tmp_path: Path) -> None:
    for name in ("input1.mp4", "input.mov", "notes.txt", "traffic-720p.MP4"):
        (tmp_path / name).write_bytes(b"")
    videos = videos_of([str(tmp_path), f"people indoor={tmp_path}/input.mov", "door=rtsp://host/main"])
    assert videos == [
        ("input", f"{tmp_path}/input.mov"),
        ("input1", f"{tmp_path}/input1.mp4"),
        ("traffic-720p", f"{tmp_path}/traffic-720p.MP4"),
        ("people indoor", f"{tmp_path}/input.mov"),
        ("door", "rtsp://host/main"),
    ]


@pytest.mark.parametrize("given", ["nowhere.mp4", "traffic=nowhere.mp4", ""])
def test_videos_that_are_not_there_are_refused_before_anything_starts(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="no video"):
        videos_of([given or "empty"])


# models
def test_videos_are_refused_where_nothing_is_installed_that_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hall.mp4").touch()
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SourceUnusable, match="no PyAV"):
        videos_of([f"hall={tmp_path / 'hall.mp4'}"])


def test_stages_are_made_of_the_models_that_are_there(tmp_path: Path) -> None:
    for name in ("face_rfb_320", "face_slim_320", "headpose_fsanet_var", "unknown"):
        (tmp_path / f"{name}.onnx").write_bytes(b"")
    there = files_in(tmp_path)
    assert set(there) == {"face_rfb_320", "face_slim_320", "headpose_fsanet_var"}
    bodies = {recipe.name: recipe.body(set(there)) for recipe in RECIPES}
    assert bodies["face_detection"] == {
        "kind": "face_detection",
        "models": [["face_rfb_320"], ["face_slim_320"]],
        "parameters": {},
    }
    assert bodies["face_alignment"] is not None
    assert bodies["face_alignment"]["models"] == [["headpose_fsanet_var"]]
    assert bodies["car_detection"] is bodies["person_detection"] is None
    with pytest.raises(BadInput, match="no folder"):
        files_in(tmp_path / "nowhere")


def test_without_models_and_videos_it_says_what_is_missing(tmp_path: Path) -> None:
    text = _what_next(PORTS, DemoDeployment("http://127.0.0.1:5000", tmp_path), (), ())
    assert "The edge node has no video" in text
    assert "Stages: none. With --models DIR" in text
    assert "face_rfb_640.onnx" in text
    assert text.splitlines()[-1] == "Ctrl-C ends everything."


def test_the_job_that_is_shown_is_one_that_is_understood() -> None:
    shown = json.loads(json.dumps(job(PORTS)))
    assert (shown["node_addr"], shown["video_id"]) == ("127.0.0.2:5002", 0)
    assert read_dag(shown["dag"]).stages == ("face_detection", "face_alignment")


def test_a_taken_port_of_the_web_has_a_hint_that_can_be_followed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = Ports(taken.getsockname()[1], *(free_port() for _ in range(5)))
        with pytest.raises(CannotStart, match="is taken") as refused:
            running_deployment(ports, videos=(), data=tmp_path, notice=print).__enter__()
    assert "--port 0" not in refused.value.hint and "--port" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


# the sample
def opened(kind: str, folder: Path, name: str) -> Any:
    file = folder / f"{name}.onnx"
    data = file.read_bytes()
    card = ModelCard(name, Format.ONNX, hashlib.sha256(data).hexdigest(), len(data))
    return stage_class(kind)([ModelFile(card, file)], {})


@pytest.mark.slow
def test_the_sample_finds_its_heads_and_where_they_look(tmp_path: Path) -> None:
    folder = make_sample(tmp_path, ExitStack())
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1 << 20
    pictures = [frame.picture for frame in open_source(str(folder / CLIP))]
    assert len(pictures) == sample_clip.FRAMES
    faces = {name: opened("face_detection", folder, name) for name in list(SAMPLE.decoders)[:3]}
    poses = opened("face_alignment", folder, "sample_poses")
    for number in range(0, len(pictures), 10):
        seen = {name: stage.run({"image": pictures[number]})["bbox"] for name, stage in faces.items()}
        counts = [len(boxes) for boxes in seen.values()]
        assert counts[:2] == [4, 4] and counts[2] < 4, "the smallest is worth less"
        boxes = sorted(seen["sample_faces_640"])
        poses_read = poses.run({"image": pictures[number], "bbox": boxes})["head_pose"]
        for (yaw, pitch, _), (true_yaw, true_pitch) in zip(
            poses_read, sample_clip.poses(number / len(pictures)), strict=True
        ):
            assert abs(yaw - true_yaw) < 10 and abs(pitch - true_pitch) < 10


@pytest.mark.slow
def test_the_rules_of_the_demonstration_hold_on_its_clip_at_four_frames_a_second(tmp_path: Path) -> None:
    folder = make_sample(tmp_path, ExitStack(), has_walker=True)
    rules = RULE_SET.read(RULES)
    check_rules(rules)
    stage, state, names = opened("face_detection", folder, "sample_faces_320"), EvaluationState(), list[str]()
    for number, frame in enumerate(open_source(str(folder / CLIP))):
        if number % 3:
            continue
        boxes = stage.run({"image": frame.picture})["bbox"]
        record = FrameRecord(number, to_text(datetime.fromtimestamp(number / sample_clip.FPS, UTC)), {"bbox": boxes})
        size = float(sample_clip.WIDTH), float(sample_clip.HEIGHT)
        state, events, *_ = evaluate(rules, state, [record], size=size, by_pts=False)
        names += [event.rule for event in events]
    assert names == ["company", "passer-by"]


def test_without_mosquitto_the_demonstration_has_no_broker_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker, "PLACES", "")
    assert broker.broker_in(tmp_path) is None
    assert "Mosquitto is not installed" in _where_to(None)


@pytest.mark.slow
def test_the_sample_goes_with_what_started_it_unless_its_data_is_kept(tmp_path: Path) -> None:
    with ExitStack() as stack:
        gone = make_sample(None, stack)
        assert (gone / CLIP).is_file()
    assert not gone.exists()
    kept = make_sample(tmp_path, ExitStack())
    assert kept == tmp_path / "sample" and files_in(kept, SAMPLE).keys() == SAMPLE.decoders.keys()


def test_without_pyav_the_sample_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SourceUnusable) as refused:
        make_sample(tmp_path, ExitStack())
    assert "modelmill[edge]" in refused.value.hint


@pytest.mark.slow
def test_the_scene_of_a_camera_has_a_rule_for_whoever_comes_and_is_opened_again(tmp_path: Path) -> None:
    """A file stands for the device."""
    sample_clip.draw_clip(tmp_path / CLIP)
    with ExitStack() as stack:
        scene = camera_scene(str(tmp_path / CLIP), None, None, stack)
        assert scene.videos == [("camera", str(tmp_path / CLIP))]
        assert (scene.rules, scene.restart_policy, scene.kit) == (CAMERA_RULES, "always", SAMPLE)
        assert set(files_in(scene.models, SAMPLE)) == set(SAMPLE.decoders)
        assert camera_scene(str(tmp_path / CLIP), tmp_path, None, stack).models == tmp_path
        with pytest.raises(BadInput, match="there is no folder"):
            camera_scene(str(tmp_path / CLIP), tmp_path / "none", None, stack)
    check_rules(RULE_SET.read(CAMERA_RULES))


def test_the_job_has_the_stages_for_which_there_are_models() -> None:
    assert "dag" in dag_of(["face_alignment", "face_detection", "car_detection"])
    assert dag_of(["person_detection", "car_detection"]) == {"stages": ["person_detection"]}
    with pytest.raises(BadInput, match="no model"):
        dag_of([])


def test_without_pyav_nothing_is_drawn_and_the_option_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.standalone.extras.is_installed", lambda module: module != "av")
    with pytest.raises(Unavailable, match="PyAV") as raised:
        demo()
    assert "--install" in raised.value.hint
