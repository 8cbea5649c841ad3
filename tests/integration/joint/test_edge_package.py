"""A user's own programs beside the agents: one that asks the edge worker, and one that is the big model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from modelmill_edge import JointInference, Refused, ServiceNotRunning, Unreachable

from tests.harness.joint.deployment import JointDeployment, resource, worker
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port

pytestmark = pytest.mark.slow
BIG_MODEL = """
from modelmill_edge import BigModelService, Picture, Prediction

def look(picture: Picture) -> Prediction:
    assert picture.array().shape == (8, 8, 3)
    return Prediction(probabilities=(0, 0, 0, 0, 1, 0, 0, 0, 0, 0))

BigModelService.from_environment(look).serve()
"""
PROGRAM = """
import sys
from modelmill_edge import JointInference, JsonLines, frames

with JointInference("own", agent=sys.argv[1]) as joint, JsonLines("out.jsonl") as sink:
    for future in [joint.submit(picture) for picture in frames(sys.argv[2])]:
        sink.write(future.result())
"""


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path) -> Iterator[JointDeployment]:
    """A service whose big model is a program of the user's: all that goes up is a four."""
    scripts = joint.deployment.folder / "own"
    scripts.mkdir()
    (scripts / "big.py").write_text(BIG_MODEL)
    packages = REPOSITORY / "ops" / "packages" / "modelmill-edge"
    environment = joint.deployment.env
    plain = environment["PYTHONPATH"]
    environment["PYTHONPATH"] = f"{plain}:{packages}"
    joint.node("edge0", "edge")
    joint.node("cloud0", "cloud", "--scripts", str(scripts))
    environment["PYTHONPATH"] = plain
    for name in ("small", "big"):
        joint.add_model(name, (shared_data / "models" / f"digits_{name}.onnx").read_bytes(), decoder="classifier")
    joint.apply(
        resource(
            "own",
            edge="edge0",
            cloud="cloud0",
            small="small",
            big="big",
            algorithm="CloudOnly",
            cloud_script=f"{scripts}/big.py",
        )
    )
    joint.reaches("own", "Serving")
    yield joint
    joint.remove("own")
    joint.remove_nodes("edge0", "cloud0")
    joint.remove_models("small", "big")


@pytest.fixture
def agent(deployment: JointDeployment) -> str:
    return deployment.agents["edge0"].url


def test_a_picture_is_answered_by_the_users_big_model(agent: str, digits: list[bytes]) -> None:
    with JointInference("own", agent=agent) as service:
        outcome = service.infer(digits[0], id="first")
        assert (outcome.id, outcome.source, outcome.final.label, outcome.error) == ("first", "cloud", 4, "")
        assert outcome.edge is not None
        assert len(outcome.edge.probabilities) == 10
        assert [future.result().source for future in [service.submit(one) for one in digits[:5]]] == ["cloud"] * 5
        assert service.status()["status"] == "running"


def test_a_program_finds_its_service_by_the_agent_alone(agent: str, digits: list[bytes], tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, digit in enumerate(digits[:6]):
        (pictures / f"{number}.png").write_bytes(digit)
    environment = {"PYTHONPATH": str(REPOSITORY / "ops" / "packages" / "modelmill-edge"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", PROGRAM, agent, str(pictures)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    outcomes = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [outcome["source"] for outcome in outcomes] == ["cloud"] * 6


def test_the_documents_example_answers_each_picture_of_a_video(agent: str, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mkv"
    _write_clip(clip, frames=5)
    document = (REPOSITORY / "docs" / "edge-package.md").read_text()
    example = document.split("```python\n")[1].partition("```")[0]
    for text, here in (('"faces"', f'"own", agent={agent!r}'), ('"rtsp://camera/stream"', repr(str(clip)))):
        assert text in example
        example = example.replace(text, here)
    environment = {"PYTHONPATH": str(REPOSITORY / "ops" / "packages" / "modelmill-edge"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["cloud ()"] * 5


def _write_clip(path: Path, *, frames: int) -> None:
    """Gray pictures as small as those of the digits, without loss."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 8, 8, "bgr0"
        for _ in range(frames):
            picture = av.VideoFrame.from_ndarray(np.full((8, 8, 3), 99, np.uint8), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


def test_a_worker_that_was_started_again_is_found_again(
    deployment: JointDeployment, agent: str, digits: list[bytes]
) -> None:
    with JointInference("own", agent=agent) as service:
        service.infer(digits[0])
        pid = worker(deployment.service("own"), "edge")["pid"]
        os.kill(pid, 9)
        deployment.starts_again("own", "edge", former_pid=pid)
        assert service.infer(digits[0]).source == "cloud"


def test_what_stands_in_the_way_is_said(agent: str) -> None:
    with pytest.raises(ServiceNotRunning, match="no edge worker of default/other"):
        JointInference("other", agent=agent, wait_s=0)
    with pytest.raises(Unreachable, match="does not answer"):
        JointInference("own", agent=f"http://127.0.0.1:{free_port()}", wait_s=0)
    with JointInference("own", agent=agent) as service:
        with pytest.raises(Refused, match="picture") as refused:
            service.infer(b"\x89PNG\r\n\x1a\nbut no more")
        assert (refused.value.status, refused.value.code) == (400, "PICTURE_DAMAGED")
