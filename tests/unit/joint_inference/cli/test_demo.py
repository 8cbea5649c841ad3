"""The parts of the demonstration: its pictures, its models, and what it says of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.joint_inference.cli.demo.camera import service
from app.joint_inference.cli.demo.deployment import node_parts
from app.joint_inference.cli.demo.models import draw_digits
from app.joint_inference.cli.demo.scores import StreamAnswer, scores_of
from app.joint_inference.cli.services import demo
from app.joint_inference.validation import validate
from app.kit.errors import ModelmillError
from app.standalone.demonstration_stack import clear_settings


def test_the_same_seed_draws_the_same_digits_and_another_one_others():
    first, again, other = (draw_digits(5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pictures, again.pictures)
    assert not np.array_equal(first.pictures, other.pictures)


def answer(*, edge: bool, cloud: bool, goes_up: bool) -> StreamAnswer:
    answers = {True: 1, False: 0}
    final = cloud if goes_up else edge
    return StreamAnswer(
        1, answers[edge], answers[cloud], answers[final], goes_up, False, 2.0, 1.0, 9.0 if goes_up else None
    )


def test_it_is_worth_it_when_the_hard_ones_go_up():
    easy = [answer(edge=True, cloud=True, goes_up=False)] * 7
    hard = [answer(edge=False, cloud=True, goes_up=True)] * 3
    scores = scores_of([*easy, *hard])
    assert (scores.edge.accuracy, scores.cloud.accuracy, scores.joint.accuracy) == (0.7, 1.0, 1.0)
    assert (scores.joint.upload, scores.random.accuracy) == (0.3, pytest.approx(0.79))
    assert scores.is_worth_it


@pytest.mark.parametrize(
    "answers",
    [
        [answer(edge=False, cloud=True, goes_up=False)] * 5 + [answer(edge=True, cloud=True, goes_up=True)] * 5,
        [answer(edge=False, cloud=True, goes_up=True)] * 6 + [answer(edge=True, cloud=True, goes_up=False)] * 4,
    ],
    ids=["the wrong ones go up", "too many go up"],
)
def test_it_is_not_worth_it_otherwise(answers):
    assert not scores_of(answers).is_worth_it


def test_the_demonstration_forgets_the_settings_of_another_installation(monkeypatch):
    monkeypatch.setenv("MODELMILL_DATABASE_URL", "postgresql://production")
    monkeypatch.setenv("MODELMILL_SFTP", "sftpgo")
    clear_settings()
    assert {name: value for name, value in os.environ.items() if name.startswith("MODELMILL_")} == {
        "MODELMILL_SFTP": "off"
    }


def test_nodes_of_a_demonstration_on_a_running_product_take_over_what_a_killed_one_has_left(tmp_path: Path) -> None:
    """Their names are taken then, for the service that it has left still waits for them."""
    own, attached = (
        node_parts("http://127.0.0.1:1", tmp_path),
        node_parts("http://127.0.0.1:1", tmp_path, "joint-demo-"),
    )
    assert len(own) == len(attached) == 2
    assert not any("--replace" in part.command for part in own)
    assert all("--replace" in part.command for part in attached)


def test_the_camera_is_a_video_of_the_edge_node_and_the_source_of_the_service(tmp_path: Path) -> None:
    cloud, edge = node_parts("http://127.0.0.1:1", tmp_path, camera="/dev/video2")
    assert "--video" not in cloud.command
    assert edge.command[-2:] == ("--video", "camera=/dev/video2")
    checked = validate(service())
    assert checked["spec"]["edgeWorker"]["workerSpec"]["parameters"][0] == {"key": "source", "value": "video:0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"camera": True, "at": "http://127.0.0.1:1"}, "exclude each other"),
        ({"camera": True, "edge_model": Path("small.onnx")}, "together"),
        ({"edge_model": Path("small.onnx"), "cloud_model": Path("big.onnx")}, "with --camera"),
        ({"camera": True, "edge_model": Path("small.onnx"), "cloud_model": Path("big.onnx")}, "no file small.onnx"),
        ({"camera": True, "device": "/nowhere/video0"}, "there is no camera /nowhere/video0"),
    ],
)
def test_what_cannot_be_shown_of_a_camera_is_refused_before_anything_starts(
    options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    with pytest.raises(ModelmillError, match=words):
        demo(**options)
