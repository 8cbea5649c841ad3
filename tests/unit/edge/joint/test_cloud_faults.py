"""Joint inference in front of a cloud that is down, slow, full or answers garbage; the small model is scripted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest

from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import OpenSample, SampleOutcome
from app.inference.prediction import Picture, Prediction
from app.joint_inference.hard_examples import make
from app.joint_inference.hard_examples.base import Verdict
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.tally import Breaker, Source
from app.joint_inference.worker_options import EdgeOptions, MiningMode
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port
from tests.harness.until import until

BIG = Prediction(probabilities=(0.05, 0.95), ms=1)
LONG_S = 30.0
"""No test waits so long when all is well; it only bounds one that fails."""


def picture(value: int) -> Picture:
    return np.full((8, 8), value, np.uint8)


class Small:
    """As sure as the picture is bright: 255 is easy, 0 is hard."""

    labels = ("zero", "one")

    def __init__(self) -> None:
        self.calls = 0

    def predict(self, picture: Picture) -> Prediction:
        self.calls += 1
        top = 0.5 + float(picture.mean()) / 510
        return Prediction(probabilities=(top, 1 - top))


def well(request: BaseHTTPRequestHandler, _: bytes) -> None:
    respond(request, json.dumps({**BIG.to_json(), "model": "big@2"}).encode())


@contextmanager
def joint(
    url: str,
    *,
    small: Small | None = None,
    on_final: Callable[[OpenSample, SampleOutcome], None] | None = None,
    algorithm: str = "CrossEntropy",
    **options: object,
) -> Iterator[JointInference]:
    made = JointInference(
        small or Small(),
        make(algorithm, {}),
        EdgeOptions(**options),  # type: ignore[arg-type]
        big_model=BigModel(url, "s"),
        service="digits",
        on_final=on_final,
        model="small",
    )
    with made:
        yield made


def test_an_easy_sample_stays_and_a_hard_one_goes_up() -> None:
    uploads: list[bytes] = []

    def counting(request: BaseHTTPRequestHandler, body: bytes) -> None:
        assert request.path == "/digits/predict"
        assert request.headers["Authorization"] == "Bearer s"
        uploads.append(body)
        well(request, body)

    with served(counting) as url, joint(url, deadline_s=LONG_S) as inference:
        easy, hard = inference.infer(picture(255), id="e"), inference.infer(picture(0), id="h")
        tally = inference.tally()
    assert (easy.source, easy.final, easy.cloud) == (Source.EDGE, easy.edge, None)
    assert (hard.source, hard.final.probabilities) == (Source.CLOUD, BIG.probabilities)
    assert (easy.model, hard.model) == ("small", "big@2")
    assert len(uploads) == 1
    assert b'"id": "h", "shape": [8, 8, 1]' in uploads[0]
    assert b"\x89PNG" in uploads[0]
    assert (tally.inferences, tally.hard, tally.uploaded, tally.upload_ratio) == (2, 1, 1, 0.5)
    assert tally.bytes_uploaded == hard.bytes_up > len(uploads[0]) - 1


GARBAGE: dict[str, Callable[[BaseHTTPRequestHandler, bytes], None]] = {
    "no JSON": lambda request, _: respond(request, b"<html>it works</html>"),
    "other JSON": lambda request, _: respond(request, b'{"result": []}'),
    "a refusal": lambda request, _: respond(request, b"no", status=500),
    "too much": lambda request, _: respond(request, b" " * (2 << 20)),
    "a broken answer": lambda request, _: request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
    "no HTTP": lambda request, _: request.wfile.write(b"\x00\x01\x02 hello\r\n\r\n"),
}


@pytest.mark.parametrize("answering", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_cloud_that_answers_garbage_leaves_the_answer_to_the_edge(
    answering: Callable[[BaseHTTPRequestHandler, bytes], None],
) -> None:
    with served(answering) as url, joint(url, deadline_s=LONG_S) as inference:
        outcome = inference.infer(picture(0))
        tally = inference.tally()
    assert (outcome.source, outcome.final, outcome.cloud) == (Source.EDGE_FALLBACK, outcome.edge, None)
    assert "cloud" in outcome.error
    assert (tally.uploaded, tally.failed, tally.fallback, tally.last_error) == (0, 1, 1, outcome.error)
    assert tally.upload_ratio == 0, "what failed is no upload"


def test_a_cloud_that_trickles_is_left_at_the_deadline() -> None:
    over = threading.Event()

    def trickle(request: BaseHTTPRequestHandler, _: bytes) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not over.wait(0.02):
            try:
                request.wfile.write(b" ")
            except OSError:
                return

    with served(trickle) as url, joint(url, deadline_s=0.3) as inference:
        outcome = inference.infer(picture(0))
        over.set()
    assert outcome.source is Source.EDGE_FALLBACK
    assert "0.3 s" in outcome.error


def test_the_breaker_opens_and_closes_by_itself_when_the_cloud_is_back() -> None:
    port = free_port()
    with joint(f"http://127.0.0.1:{port}", breaker_pause_s=0.2, deadline_s=LONG_S) as inference:
        for _ in range(3):
            assert "cannot be reached" in inference.infer(picture(0)).error
        until(lambda: inference.tally().breaker is not Breaker.CLOSED)
        left_alone = inference.infer(picture(0))
        assert "left alone" in left_alone.error
        assert (inference.tally().failed, inference.tally().kept, inference.tally().fallback) == (3, 1, 4)
    with served(well) as url, joint("http://127.0.0.1:1", breaker_pause_s=0.2, deadline_s=LONG_S) as inference:
        for _ in range(3):
            inference.infer(picture(0))
        until(lambda: inference.tally().breaker is not Breaker.CLOSED)
        assert inference._uploads is not None
        inference._uploads.url = f"{url}/digits"  # the cloud is back, and no sample is needed to see it
        until(lambda: inference.tally().breaker is Breaker.CLOSED)
        assert inference.infer(picture(0)).source is Source.CLOUD
        assert inference.tally().last_error == ""


@contextmanager
def stalled() -> Iterator[tuple[str, threading.Event]]:
    """A cloud that takes samples and answers none, until the event is set."""
    goes_on = threading.Event()

    def wait(request: BaseHTTPRequestHandler, body: bytes) -> None:
        goes_on.wait(LONG_S)
        well(request, body)

    with served(wait) as url:
        try:
            yield url, goes_on
        finally:
            goes_on.set()


@pytest.mark.slow
def test_a_stalled_cloud_holds_no_frame_up() -> None:
    with stalled() as (url, goes_on), joint(url, deadline_s=LONG_S, queue_size=100, senders=1) as inference:
        pending = [inference.submit(picture(255 if number % 2 else 0)) for number in range(60)]
        assert [one.edge is not None for one in pending] == [True] * 60
        assert [one.is_final for one in pending] == [False, True] * 30, "all frames are done, and no answer is there"
        goes_on.set()
        assert {one.wait(LONG_S).source for one in pending[::2]} == {Source.CLOUD}  # type: ignore[union-attr]


class ByBrightness:
    """The darker the harder, and all are hard."""

    name = "ByBrightness"

    def __call__(self, prediction: Prediction) -> Verdict:
        return Verdict(True, 1 - prediction.probabilities[0], "dark")

    def never(self, *, candidate_threshold: float) -> str:
        return ""


def test_of_a_full_queue_the_hardest_stay_and_the_rest_fall_back() -> None:
    with stalled() as (url, goes_on):
        options = EdgeOptions(deadline_s=LONG_S, queue_size=2, senders=1)
        made = JointInference(Small(), ByBrightness(), options, big_model=BigModel(url, "s"), service="digits")
        with made:
            first = made.submit(picture(200))
            until(lambda: made._uploads is not None and not made._uploads._waiting)
            rest = [made.submit(picture(value)) for value in (150, 100, 50, 180)]
            sources = [one.outcome.source if one.outcome else None for one in rest]
            assert sources == [Source.EDGE_FALLBACK, None, None, Source.EDGE_FALLBACK]
            assert (made.tally().kept, made.tally().fallback) == (2, 2)
            goes_on.set()
            for one in (first, rest[1], rest[2]):
                assert one.wait(LONG_S).source is Source.CLOUD  # type: ignore[union-attr]
            assert (made.tally().hard, made.tally().uploaded, made.tally().kept) == (5, 3, 2)


def test_over_the_upload_budget_the_edges_answer_counts_as_its_own() -> None:
    with served(well) as url, joint(url, deadline_s=LONG_S, max_upload_ratio=0.5) as inference:
        sources = [inference.infer(picture(0)).source for _ in range(4)]
        tally = inference.tally()
    assert sources == [Source.EDGE, Source.CLOUD] * 2
    assert (tally.hard, tally.uploaded, tally.kept, tally.fallback, tally.upload_ratio) == (4, 2, 2, 0, 0.5)


def test_over_the_byte_budget_the_edges_answer_counts_as_its_own_and_the_cloud_is_not_blamed() -> None:
    with served(well) as url, joint(url, deadline_s=LONG_S) as unlimited:
        size = unlimited.infer(picture(0), id="0").bytes_up
    with served(well) as url, joint(url, deadline_s=LONG_S, max_bytes_per_month=2.5 * size) as inference:
        outcomes = [inference.infer(picture(0), id=str(number)) for number in range(5)]
        tally = inference.tally()
    assert [outcome.source for outcome in outcomes] == [Source.CLOUD] * 2 + [Source.EDGE] * 3
    assert outcomes[-1].error == "over the byte budget of this month"
    assert outcomes[-1].bytes_up == 0
    assert (tally.uploaded, tally.kept, tally.failed, tally.fallback) == (2, 3, 0, 0)
    assert (tally.bytes_uploaded, tally.bytes_month, tally.bytes_saved) == (2 * size, 2 * size, 3 * size)
    assert (tally.breaker, tally.last_error) == (Breaker.CLOSED, "")


def test_who_asks_waits_no_longer_than_the_deadline_and_is_counted_once() -> None:
    told: list[Source] = []
    with stalled() as (url, goes_on):
        with joint(url, deadline_s=0.2, on_final=lambda _, outcome: told.append(outcome.source)) as inference:
            assert inference.infer(picture(0)).source is Source.EDGE_FALLBACK
            goes_on.set()
        tally = inference.tally()
    assert told == [Source.EDGE_FALLBACK]
    assert (tally.hard, tally.uploaded + tally.failed + tally.kept) == (1, 1)


def test_mining_before_inference_runs_the_small_model_for_what_stays_only() -> None:
    small = Small()
    mode = MiningMode.MINING_THEN_INFERENCE
    with (
        served(well) as url,
        joint(url, small=small, algorithm="CloudOnly", mining_mode=mode, deadline_s=LONG_S) as inference,
    ):
        assert inference.infer(picture(0)).source is Source.CLOUD
        assert small.calls == 0
    with joint(
        "http://127.0.0.1:1", small=small, algorithm="CloudOnly", mining_mode=mode, deadline_s=LONG_S
    ) as inference:
        fallback = inference.infer(picture(0))
        assert (fallback.source, fallback.final.probabilities[0], small.calls) == (Source.EDGE_FALLBACK, 0.5, 1)
    with joint("http://127.0.0.1:1", small=small, algorithm="EdgeOnly", mining_mode=mode) as inference:
        assert inference.infer(picture(0)).source is Source.EDGE


def test_who_waits_for_a_sample_that_neither_model_can_answer_is_told_so() -> None:
    class Broken(Small):
        def predict(self, picture: Picture) -> Prediction:
            raise RuntimeError("no weights")

    told = list[SampleOutcome]()
    mode = MiningMode.MINING_THEN_INFERENCE
    with joint(
        "http://127.0.0.1:1", small=Broken(), algorithm="CloudOnly", mining_mode=mode, deadline_s=1
    ) as inference:
        asking = threading.Thread(target=lambda: told.append(inference.infer(picture(0))), daemon=True)
        asking.start()
        asking.join(LONG_S)
        assert [(one.source, one.final) for one in told] == [(Source.EDGE_FALLBACK, Prediction())]
        assert "no weights" in inference.tally().last_error


def test_an_algorithm_that_fails_leaves_the_sample_easy_and_says_so() -> None:
    class Broken(ByBrightness):
        def __call__(self, prediction: Prediction) -> Verdict:
            raise RuntimeError("oops")

    made = JointInference(Small(), Broken(), EdgeOptions(), big_model=None, service="digits")
    with made:
        assert made.infer(picture(0)).source is Source.EDGE
        assert "oops" in made.tally().last_error


def test_whoever_is_told_may_fail_without_harm() -> None:
    def fails(_: OpenSample, __: SampleOutcome) -> None:
        raise RuntimeError("not mine")

    with served(well) as url, joint(url, on_final=fails, deadline_s=LONG_S) as inference:
        assert [inference.infer(picture(0)).source for _ in range(3)] == [Source.CLOUD] * 3


def test_without_a_cloud_a_hard_sample_is_answered_by_the_edge() -> None:
    with JointInference(Small(), make("CloudOnly", {}), EdgeOptions(), big_model=None, service="digits") as inference:
        assert inference.infer(picture(0)).error == "there is no cloud"
        assert (inference.tally().kept, inference.tally().fallback) == (1, 1)


def test_what_waits_when_it_ends_is_answered_by_the_edge() -> None:
    with stalled() as (url, goes_on):
        with joint(url, deadline_s=LONG_S, senders=1) as inference:
            pending = [inference.submit(picture(0)) for _ in range(4)]
        goes_on.set()
    assert {one.outcome.source for one in pending if one.outcome} == {Source.EDGE_FALLBACK}
    assert all(one.is_final for one in pending)
    assert inference.tally().hard == inference.tally().failed + inference.tally().kept
