"""What an edge worker shows of hard samples, and the thread that reports: it meets faults and goes on."""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import pytest

from app.edge.joint.outcome import OpenSample, Place, SampleOutcome
from app.edge.joint.reporter import (
    LONGEST_SIDE,
    MAX_PICTURE_BYTES,
    QUEUE_LENGTH,
    SampleQueue,
    StatusReporter,
    difference_hash,
    small_picture,
)
from app.edge.joint.rows import RowQueue
from app.edge.joint.work import Work
from app.edge.worker_server import log_as
from app.inference.picture_codec import decode
from app.inference.prediction import Box, Picture, Prediction
from app.joint_inference.hard_examples import Verdict
from app.joint_inference.model.tally import RowChoice, Source
from app.kit.process.periodic_thread import PeriodicThread
from tests.harness.http_server import respond, served
from tests.harness.until import PATIENCE_S

EDGE = Prediction(boxes=(Box(1, 1, 1900, 1000, 0.7),), candidates=(Box(1, 1, 5, 5, 0.3),))


def added(samples: SampleQueue, id: str, picture: Picture) -> None:
    verdict = Verdict(True, 0.5, "dark")
    pending = OpenSample(id, picture, verdict, EDGE, edge_ms=1, at=0, origin="a.mp4 7", row=Place(0.0))
    samples.add(pending, SampleOutcome(id, Source.EDGE_FALLBACK, EDGE, verdict, EDGE, error="gone"), at="now")


def test_a_sample_is_shown_small_and_its_boxes_stay_in_source_pixels() -> None:
    samples = SampleQueue(("face",))
    added(samples, "1", np.random.default_rng(1).integers(0, 256, (1080, 1920, 3), np.uint8))
    shown = samples.take()
    assert shown is not None
    sample, picture, content_type = shown
    assert content_type == "image/jpeg"
    assert len(picture) <= MAX_PICTURE_BYTES
    assert decode(picture).shape == (360, 640, 3)
    assert (sample.width, sample.height, sample.edge.boxes, sample.labels) == (1920, 1080, EDGE.boxes, ("face",))
    assert (sample.why, sample.origin, sample.extra["error"]) == ("dark", "a.mp4 7", "gone")
    assert (sample.extra["preview"], len(sample.extra["dhash"])) == ([640, 360], 16)
    assert type(sample).from_json(sample.to_json()) == sample


def test_even_noise_is_shown_within_the_limit() -> None:
    for shape in ((640, 640, 3), (2000, 2000), (20, 20, 3)):
        shown = small_picture(np.random.default_rng(1).integers(0, 256, shape, np.uint8))
        assert shown is not None
        assert len(shown[0]) <= MAX_PICTURE_BYTES
        assert max(decode(shown[0]).shape[:2]) == min(LONGEST_SIDE, shape[0])


def test_of_a_burst_the_first_are_kept_and_each_is_taken_once() -> None:
    samples = SampleQueue()
    for number in range(QUEUE_LENGTH + 10):
        added(samples, str(number), np.zeros((8, 8), np.uint8))
    taken = [shown[0].id for shown in iter(samples.take, None)]
    assert taken == [str(number) for number in range(QUEUE_LENGTH)]


def test_what_is_long_past_is_not_shown_when_newer_ones_wait() -> None:
    now = [0.0]
    samples = SampleQueue(clock=lambda: now[0])
    for second in range(8):
        now[0] = float(second)
        added(samples, str(second), np.zeros((8, 8), np.uint8))
    now[0] = 10.0
    assert [shown[0].id for shown in iter(samples.take, None)] == ["5", "6", "7"]
    added(samples, "alone", np.zeros((8, 8), np.uint8))
    now[0] = 1000.0
    assert [shown[0].id for shown in iter(samples.take, None)] == ["alone"]


def test_one_that_could_not_be_reported_is_the_next_again() -> None:
    samples = SampleQueue()
    for number in range(2):
        added(samples, str(number), np.zeros((8, 8), np.uint8))
    first = samples.take()
    assert first is not None
    samples.put_back(first)
    assert [shown[0].id for shown in iter(samples.take, None)] == ["0", "1"]


def test_a_repeating_thread_survives_its_faults(caplog: pytest.LogCaptureFixture) -> None:
    done, calls = threading.Event(), 0

    def step() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise RuntimeError("a fault")
        done.set()

    thread = PeriodicThread("report", step, every_s=0.01)
    with caplog.at_level(logging.ERROR):
        thread.start()
        assert done.wait(PATIENCE_S)
        thread.close()
    assert len([record for record in caplog.records if "goes on" in record.getMessage()]) == 2


@pytest.mark.parametrize(
    ("environment", "configuration"),
    [
        ({}, ("auto", "info")),
        ({"FORMAT": "Console", "LEVEL": "DEBUG"}, ("console", "debug")),
        ({"FORMAT": "xml", "LEVEL": "loud"}, ("auto", "info")),
    ],
)
def test_a_worker_logs_as_its_agent_is_asked_to(environment: dict[str, str], configuration: tuple[str, str]) -> None:
    assert log_as({f"MODELMILL_LOG_{name}": value for name, value in environment.items()}) == configuration


def test_pictures_that_look_alike_have_hashes_that_differ_in_few_bits() -> None:
    scene = np.random.default_rng(1).integers(0, 200, (8, 9, 3), np.uint8).repeat(40, 0).repeat(40, 1)
    lighter, other = scene + 20, np.ascontiguousarray(scene[:, ::-1])
    hashes = [int(difference_hash(picture), 16) for picture in (scene, lighter, other)]
    assert (hashes[0] ^ hashes[1]).bit_count() <= 5 < (hashes[0] ^ hashes[2]).bit_count()
    assert difference_hash(scene[:, :, 0])


def test_rows_that_the_agent_has_no_room_for_are_sent_again_as_they_are() -> None:
    statuses, bodies = [507, 200], list[bytes]()

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        is_rows = urlsplit(request.path).path.endswith("/rows")
        respond(request, status=statuses.pop(0) if is_rows else 200)
        if is_rows:
            bodies.append(body)

    rows = RowQueue(RowChoice.ALL)
    rows.fill(rows.reserve(), SampleOutcome("1", Source.EDGE, EDGE, Verdict(False, 0.5, "clear"), EDGE), (1920, 1080))
    with served(answer) as url:
        content = SimpleNamespace(worker=SimpleNamespace(name="edge"))
        work = SimpleNamespace(content=content, namespace="default", service="door", uid="u", agent_url=url)
        reporter = StatusReporter(cast(Work, work), lambda: {"status": "running"}, rows=rows)
        reporter.step()
        assert rows.report() is not None
        reporter.step()
        assert rows.report() is None
        reporter.close()
    assert len(bodies) == 2 and bodies[0] == bodies[1] and statuses == []
