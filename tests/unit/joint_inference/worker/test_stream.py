"""What an edge worker says of its stream: real sources, a scripted small model, no cloud."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.joint_inference.hard_examples import make
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import stream_end
from app.joint_inference.worker.joint import JointInference
from app.joint_inference.worker.options import EdgeOptions
from app.joint_inference.worker.stream import Stream
from app.vision.encoding import encode
from app.vision.model import Picture, Prediction
from tests.harness.models.vision import plain

LONG_S = 30.0


class Small:
    def predict(self, picture: Picture) -> Prediction:  # the real one's
        return Prediction(probabilities=(1.0, 0.0))


@contextmanager
def streaming(source: Path) -> Iterator[JointInference]:
    options = EdgeOptions(source=str(source))
    joint = JointInference(Small(), make("CrossEntropy", {}), options, big_model=None, service="s")
    with joint:
        stream = Stream(joint)
        stream.start()
        yield joint
        stream.close()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reason(joint: JointInference) -> Reason | None:
    end = stream_end(joint.detail)
    return end.reason if end else None


def test_a_folder_that_has_been_gone_through_is_said_to_have_ended(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode(plain(1, 0, 0))[0])
    with streaming(tmp_path) as joint:
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)
        end = stream_end(joint.detail)
        assert end and tmp_path.name in end.message
        assert joint.tally().inferences == 1


def test_a_source_that_comes_later_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.joint_inference.worker.stream.PAUSE_S", 0.01)
    with streaming(tmp_path / "later") as joint:
        until(lambda: reason(joint) is Reason.SOURCE_UNAVAILABLE)
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / "a.png").write_bytes(encode(plain(1, 0, 0))[0])
        (tmp_path / "made").rename(tmp_path / "later")
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)


def test_a_missing_decoder_is_told_from_a_missing_camera(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.mp4").write_bytes(b"whatever")
    with streaming(tmp_path / "a.mp4") as joint:
        until(lambda: reason(joint) is Reason.DECODER_MISSING)
        end = stream_end(joint.detail)
        assert end and "modelmill[edge]" in end.message
