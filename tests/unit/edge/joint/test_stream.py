"""What an edge worker says of its stream: real sources, a scripted small model, a scripted cloud."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from app.edge.joint.joint import JointInference
from app.edge.joint.stream import SourceStreams
from app.inference.frame_gate import FrameGate
from app.inference.picture_codec import encode
from app.inference.prediction import Picture, Prediction
from app.inference.region import read_region
from app.joint_inference.hard_examples import make
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.sources import NamedSource, SourceStatus, source_states
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import stream_end
from app.joint_inference.worker_options import EdgeOptions, OnFull
from tests.harness.camera import camera
from tests.harness.http_server import respond, served
from tests.harness.models.vision import plain
from tests.harness.until import until

LONG_S = 30.0


class Small:
    def predict(self, picture: Picture) -> Prediction:  # the real one's
        return Prediction(probabilities=(0.5, 0.5))


class Cloud:
    """Answers, or keeps all waiting until it is let go."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, request: BaseHTTPRequestHandler, _: bytes) -> None:
        self.goes_on.wait(LONG_S)
        body = json.dumps(Prediction(probabilities=(0.1, 0.9)).to_json()).encode()
        respond(request, body)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def big_model(cloud: Cloud) -> Iterator[BigModel]:
    with served(cloud) as url:
        yield BigModel(url, "s")
        cloud.goes_on.set()


@contextmanager
def streaming(
    source: Path | str | Mapping[str, Path],
    big_model: BigModel | None = None,
    algorithm: str = "EdgeOnly",
    **options: Any,
) -> Iterator[JointInference]:
    sources = source if isinstance(source, Mapping) else {"": source}
    given = EdgeOptions(sources=tuple(NamedSource(name, str(path)) for name, path in sources.items()), **options)
    joint = JointInference(Small(), make(algorithm, {}), given, big_model=big_model, service="s")
    with joint:
        stream = SourceStreams(joint)
        stream.start()
        yield joint
        stream.close()


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
    monkeypatch.setattr("app.edge.joint.stream.PAUSE_S", 0.01)
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


@pytest.fixture
def hundred(tmp_path: Path) -> Path:
    for index in range(100):
        (tmp_path / f"{index:03d}.png").write_bytes(encode(plain(index, 0, 0, 9, 9))[0])
    return tmp_path


@pytest.mark.slow
def test_of_a_folder_every_hard_sample_is_answered_by_a_cloud_that_answers(hundred: Path, big_model: BigModel) -> None:
    with streaming(hundred, big_model, "CloudOnly", deadline_s=LONG_S) as joint:
        until(lambda: joint.tally().uploaded == 100)
        assert (joint.tally().inferences, joint.tally().fallback) == (100, 0)


@pytest.mark.slow
def test_the_deadline_of_a_sample_that_waited_begins_when_it_is_sent(
    hundred: Path, big_model: BigModel, cloud: Cloud
) -> None:
    """The queue stands still for longer than the deadline of those in it."""
    cloud.goes_on.clear()
    options = {"deadline_s": 0.2, "senders": 1, "breaker_errors": 1000}
    with streaming(hundred, big_model, "CloudOnly", **options) as joint:
        until(lambda: joint.tally().failed >= 3)
        cloud.goes_on.set()
        until(lambda: joint.tally().uploaded + joint.tally().failed == 100)
        assert joint.tally().kept == 0, "each was sent"


@pytest.mark.slow
def test_who_wants_no_waiting_gets_none(hundred: Path, big_model: BigModel, cloud: Cloud) -> None:
    cloud.goes_on.clear()
    with streaming(hundred, big_model, "CloudOnly", deadline_s=LONG_S, on_full=OnFull.DROP) as joint:
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)
        assert joint.tally().uploaded == 0
        assert joint.tally().fallback >= 100 - 8 - 2 - 1, "but for those that wait or are on their way"


def test_a_live_source_goes_on_while_the_cloud_holds_its_answers(big_model: BigModel, cloud: Cloud) -> None:
    cloud.goes_on.clear()
    with camera() as made, streaming(made.url, big_model, "CloudOnly", deadline_s=LONG_S) as joint:
        until(lambda: joint.tally().inferences > 20)
        assert joint.tally().uploaded == 0


def test_nothing_waits_for_a_cloud_that_does_not_answer(hundred: Path, big_model: BigModel, cloud: Cloud) -> None:
    cloud.goes_on.clear()
    options = {"deadline_s": 0.05, "breaker_errors": 1, "breaker_pause_s": 3600}
    with streaming(hundred, big_model, "CloudOnly", **options) as joint:
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)
        until(lambda: joint.tally().fallback == 100)


def test_a_stream_that_waits_ends_with_its_worker(hundred: Path, big_model: BigModel, cloud: Cloud) -> None:
    cloud.goes_on.clear()
    with streaming(hundred, big_model, "CloudOnly", deadline_s=LONG_S) as joint:
        until(lambda: joint.tally().inferences > 8)
    assert joint.tally().inferences == joint.tally().fallback < 100


def test_a_frame_that_waits_for_a_place_is_answered_before_its_stream_has_ended(
    hundred: Path, big_model: BigModel, cloud: Cloud
) -> None:
    cloud.goes_on.clear()
    options = EdgeOptions(sources=(NamedSource("", str(hundred)),), deadline_s=LONG_S, queue_size=1, senders=1)
    with JointInference(Small(), make("CloudOnly", {}), options, big_model=big_model, service="s") as joint:
        streams = SourceStreams(joint)
        streams.start()
        until(lambda: joint.tally().inferences == 3)
        assert joint.tally().fallback == 0, "one is on its way, one is queued, one waits"
        streams.close()
        assert joint.tally().fallback == 1
    assert joint.tally().fallback == 3


def test_still_pictures_are_not_looked_at_and_their_number_is_said(hundred: Path) -> None:
    """Each is a little lighter than the one before."""
    with streaming(hundred, gate=FrameGate(motion=0.5, still_s=LONG_S * 100)) as joint:
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)
        assert (joint.tally().inferences, joint.detail["stillNumber"]) == (2, 98), (
            "one of them when it was more than 20 levels lighter than the first"
        )


def test_of_a_region_the_small_model_sees_no_more_and_its_row_is_in_the_whole_picture(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode(plain(1, 0, 0, 80, 40))[0])
    with streaming(tmp_path, gate=FrameGate(read_region("0.5,0.25,1,0.75"))) as joint:
        until(lambda: reason(joint) is Reason.SOURCE_ENDED)
        report = joint.rows.report()
        assert report is not None
        (row,) = json.loads(report.body)["rows"]
    assert (row["size"], row["bbox"]) == ([80, 40], [[40, 10, 80, 30]])


def test_of_several_sources_each_has_a_state_and_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is there, one comes later, and one is never there."""
    monkeypatch.setattr("app.edge.joint.stream.PAUSE_S", 0.01)
    for name in ("door", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(encode(plain(1, 0, 0))[0])
    sources = {name: tmp_path / name for name in ("door", "yard", "gate")}

    def states() -> dict[str, SourceStatus]:
        return {state.name: state.status for state in source_states(joint.detail)}

    with streaming(sources) as joint:
        ended, gone = SourceStatus.ENDED, SourceStatus.NO_SIGNAL
        until(lambda: states() == {"door": ended, "yard": gone, "gate": gone})
        end = stream_end(joint.detail)
        assert end and not end.is_partial and "yard: " in end.message and "gate: " in end.message
        (tmp_path / "made").rename(tmp_path / "yard")
        until(lambda: states()["yard"] is ended)
        door, _, gate = source_states(joint.detail)
        assert (door.frames, gate.frames, gate.last_frame_at) == (1, 0, "")
        assert door.last_frame_at and "gate" in gate.message
        report = joint.rows.report()
        assert report is not None
        rows = json.loads(report.body)["rows"]
    assert [(row["source"], row["sample"]) for row in rows] == [
        ("door", "door-00000000"),
        ("yard", "yard-00000000"),
    ]


def test_one_source_without_a_signal_is_no_end_of_the_others(tmp_path: Path) -> None:
    with camera() as made:
        given = EdgeOptions(sources=(NamedSource("door", str(tmp_path / "gone")), NamedSource("yard", made.url)))
        with JointInference(Small(), make("EdgeOnly", {}), given, big_model=None, service="s") as joint:
            streams = SourceStreams(joint)
            streams.start()
            until(lambda: joint.tally().inferences > 3 and reason(joint) is Reason.SOURCE_UNAVAILABLE)
            end = stream_end(joint.detail)
            streams.close()
    assert end and end.is_partial and end.message.startswith("door: ")
