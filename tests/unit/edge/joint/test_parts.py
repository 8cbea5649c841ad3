"""The pure parts of an edge worker: parameters, breaker, budget, what a cloud may answer, and the tally."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.edge.joint.cloud_answer import InvalidAnswer, prediction_of
from app.edge.joint.outcome import SampleOutcome
from app.edge.joint.tally_counter import COUNTED, TallyCounter
from app.edge.joint.upload_policy import ProbedBreaker, UploadBudget
from app.inference.broadcast import Broadcast
from app.inference.prediction import Box, Decoder, Prediction
from app.joint_inference.hard_examples import BadParameter, Verdict
from app.joint_inference.model.resource import Role, specification_of
from app.joint_inference.model.tally import Breaker, Source
from app.joint_inference.worker_options import (
    CloudOptions,
    EdgeOptions,
    MiningMode,
    algorithm_of,
    edge_options,
    worker_options,
)

SURE = Prediction(probabilities=(0.9, 0.1))


# parameters
def test_without_parameters_a_worker_has_its_defaults() -> None:
    assert worker_options(Role.EDGE, {}) == EdgeOptions()
    assert worker_options(Role.CLOUD, {}) == CloudOptions()


def test_parameters_are_read_from_their_texts() -> None:
    options = edge_options(
        {
            "source": "/clips/a.mp4",
            "fps": "12.5",
            "loop": "Yes",
            "decoder": "ultraface",
            "score_threshold": ".7",
            "cand_threshold": "0.1",
            "nms_threshold": "1",
            "threads": "2",
            "labels": "no, yes",
            "color": "bgr",
            "resize": "letterbox",
            "scale": "1/255",
            "mean": "[1, 2, 3]",
            "std": "128",
            "max_upload_ratio": "0.25",
            "deadline_ms": "250",
            "queue_size": "3",
            "senders": "1",
            "jpeg_quality": "70",
            "breaker_errors": "5",
            "breaker_pause_s": "0.5",
            "mining_mode": "mining-then-inference",
            "input_size": "320x240",
            "broadcast": "yard/door",
            "broadcast_fps": "2.5",
            "broadcast_width": "320",
            "other": "?",
        }
    )
    assert options.sources == (("", "/clips/a.mp4"),)
    assert options.broadcast == Broadcast("yard/door", 2.5, 320)
    assert (options.fps, options.loop, options.labels) == (12.5, True, ("no", "yes"))
    predictor = options.predictor
    assert (predictor.decoder, predictor.score_threshold, predictor.candidate_threshold) == (
        Decoder.ULTRAFACE,
        0.7,
        0.1,
    )
    assert (predictor.nms_threshold, predictor.threads, predictor.input_size) == (1, 2, (320, 240))
    assert predictor.preprocess == {
        "color": "BGR",
        "resize": "letterbox",
        "scale": 1 / 255,
        "mean": (1, 2, 3),
        "std": (128,),
    }
    assert (options.max_upload_ratio, options.deadline_s, options.queue_size, options.senders) == (0.25, 0.25, 3, 1)
    assert (options.jpeg_quality, options.breaker_errors, options.breaker_pause_s) == (70, 5, 0.5)
    assert options.mining_mode is MiningMode.MINING_THEN_INFERENCE


def test_labels_may_be_a_json_list_whose_names_have_commas() -> None:
    assert worker_options(Role.CLOUD, {"labels": '["a, b", "c"]'}).labels == ("a, b", "c")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fps", "-1"),
        ("fps", "fast"),
        ("loop", "2"),
        ("decoder", "yolo99"),
        ("score_threshold", "1.1"),
        ("cand_threshold", "x"),
        ("nms_threshold", "-0.1"),
        ("threads", "0"),
        ("threads", "1.5"),
        ("labels", "[1]"),
        ("labels", "[oops"),
        ("color", "CMYK"),
        ("resize", "crop"),
        ("scale", "1/0"),
        ("mean", "1,2,3,4,5"),
        ("mean", ","),
        ("std", "0"),
        ("std", "1,a"),
        ("max_upload_ratio", "30%"),
        ("deadline_ms", "0"),
        ("queue_size", "0"),
        ("senders", "99"),
        ("jpeg_quality", "100"),
        ("breaker_errors", "0"),
        ("breaker_pause_s", "0"),
        ("mining_mode", "later"),
        ("input_size", "320"),
        ("input_size", "0x240"),
        ("broadcast", "../door"),
        ("broadcast", "a" * 101),
        ("broadcast_fps", "31"),
        ("broadcast_width", "100"),
        ("region", "0,0,2,2"),
        ("region", "door"),
        ("source", "door=video:0\nvideo:1"),
        ("source", "door=video:0\ndoor=video:1"),
        ("source", "\n".join(f"door{n}=video:{n}" for n in range(17))),
    ],
)
def test_a_parameter_that_is_none_is_refused_by_its_name(key: str, value: str) -> None:
    with pytest.raises(BadParameter) as refused:
        edge_options({"source": "/clips/a.mp4", key: value})
    assert refused.value.detail == {"key": key}
    assert refused.value.message.startswith(f"Parameter {key} must be ")


def test_nothing_is_broadcast_without_a_source() -> None:
    with pytest.raises(BadParameter, match="with a source"):
        edge_options({"broadcast": "door"})


def test_only_an_algorithm_that_does_not_look_can_mine_before_inference() -> None:
    def service(algorithm: str) -> Any:
        spec = {
            "scriptDir": "",
            "scriptBootFile": "",
            "frameworkType": "",
            "frameworkVersion": "",
            "parameters": [{"key": "mining_mode", "value": "mining-then-inference"}],
        }
        worker = {"name": "w", "model": {"name": "m"}, "nodeName": "n", "workerSpec": spec}
        edge = {**worker, "hardExampleAlgorithm": {"name": algorithm}}
        return specification_of({"edgeWorker": edge, "cloudWorker": worker})

    assert algorithm_of(service("Random")).name == "Random"
    with pytest.raises(BadParameter) as refused:
        algorithm_of(service("IBT"))
    assert refused.value.detail == {"key": "mining_mode"}


# breaker
def breaker() -> ProbedBreaker:
    return ProbedBreaker(errors=3, pause_s=5)


def test_the_breaker_opens_after_failures_in_a_row_only() -> None:
    circuit = breaker()
    for failure in (True, True, False, True, True):
        circuit.failed(0) if failure else circuit.succeeded()
    assert circuit.lets_through
    circuit.failed(0)
    assert circuit.state is Breaker.OPEN


def test_an_open_breaker_gives_one_probe_after_its_pause() -> None:
    circuit = opened_at(100)
    assert not circuit.take_probe(104.9)
    assert circuit.take_probe(105)
    assert circuit.state is Breaker.HALF_OPEN
    assert not circuit.lets_through
    assert not circuit.take_probe(200), "one is under way"


def test_a_probe_that_fails_begins_another_pause() -> None:
    circuit = opened_at(0)
    circuit.take_probe(5)
    circuit.probed(7, is_well=False)
    assert circuit.state is Breaker.OPEN
    assert not circuit.take_probe(11.9)
    assert circuit.take_probe(12)


def test_a_breaker_that_a_probe_closed_opens_at_the_next_failure_until_a_sample_is_answered() -> None:
    circuit = opened_at(0)
    circuit.take_probe(5)
    circuit.probed(5, is_well=True)
    assert circuit.lets_through
    circuit.failed(6)
    assert circuit.state is Breaker.OPEN
    circuit.take_probe(11)
    circuit.probed(11, is_well=True)
    circuit.succeeded()
    circuit.failed(12)
    assert circuit.lets_through


def test_what_was_sent_before_it_opened_does_not_close_it() -> None:
    circuit = opened_at(0)
    circuit.succeeded()
    assert circuit.state is Breaker.OPEN
    circuit.failed(4)
    assert circuit.take_probe(5), "nor does it lengthen the pause"


def opened_at(now: float) -> ProbedBreaker:
    circuit = breaker()
    for _ in range(3):
        circuit.failed(now)
    return circuit


# budget
@pytest.mark.slow
@given(
    ratio=st.floats(0, 1),
    scores=st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=400),
)
def test_never_has_more_than_the_budget_gone_up(ratio: float, scores: list[float | None]) -> None:
    budget, spent = UploadBudget(ratio), 0
    for number, score in enumerate(scores, 1):
        spent += budget.spend(score)
        assert spent <= ratio * number + 1e-6


@pytest.mark.slow
@given(scores=st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=300))
def test_a_budget_of_all_lets_every_hard_sample_up(scores: list[float | None]) -> None:
    budget = UploadBudget(1.0)
    assert [budget.spend(score) for score in scores] == [score is not None for score in scores]


def test_over_budget_the_hardest_go_up_and_the_budget_is_used() -> None:
    draws = random.Random(3)
    scores = [draws.random() for _ in range(2000)]
    budget = UploadBudget(0.2)
    sent = [score for score in scores if budget.spend(score)]
    assert len(sent) > 0.17 * len(scores)
    assert sum(score > 0.75 for score in sent) > 0.9 * len(sent), "the hardest fifth begins at 0.8"


def test_what_was_not_sent_gives_its_token_back() -> None:
    budget = UploadBudget(0.5)
    assert [budget.spend(1.0) for _ in range(2)] == [False, True]
    budget.give_back()
    assert budget.spend(1.0)


def test_a_quiet_time_saves_for_a_burst_of_its_windows_share_at_most() -> None:
    budget = UploadBudget(0.1)
    for _ in range(1000):
        budget.spend(None)
    assert sum(budget.spend(0.5) for _ in range(50)) <= 0.1 * 100 + 0.1 * 50


# answers
def test_a_prediction_is_taken_as_it_was_sent() -> None:
    sent = Prediction(boxes=(Box(1, 2, 3, 4, 0.5, 1),), ms=2, runtime="onnx")
    body = {**sent.to_json(), "model": "big@2"}
    assert prediction_of(200, json.dumps(body).encode(), None) == (sent, "big@2")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"busy"),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"null"),
        (200, b"7"),
        (200, b"[" * 100_000),
        (200, b""),
        (200, b'{"boxes": [[1, 2, 3]], "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": "none", "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": [], "probabilities": [NaN, 0], "ms": 1}'),
        (200, b'{"boxes": [], "probabilities": [1e400, 0], "ms": 1}'),
        (200, b'{"boxes": [], "probabilities": [2, 0], "ms": 1}'),
        (200, b'{"boxes": [], "probabilities": [1, 0]}'),
        (200, b'{"boxes": [[0, 0, 1e999, 9, 0.5, 0]], "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": [[0, 0, 1, 9, 0.5, 1e999]], "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": [], "probabilities": [], "ms": 1}'),
        (
            200,
            b'{"boxes": [[0, 0, 1, 9, 0.5, 0]], "masks": [[[1e999, 2, 3, 4, 5, 6]]], "probabilities": [1, 0], "ms": 1}',
        ),
        (200, b'{"boxes": [[0, 0, 1, 9, 0.5, 0]], "masks": [[[1, 2, 3]]], "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": [], "keypoints": [[[1, 2, 0.5]]], "probabilities": [1, 0], "ms": 1}'),
        (200, b'{"boxes": [[0, 0, 1, 9, 0.5, 0]], "keypoints": [[[1e999, 2, 0.5]]], "probabilities": [1, 0], "ms": 1}'),
    ],
)
def test_garbage_is_told_in_words(status: int, body: bytes) -> None:
    with pytest.raises(InvalidAnswer) as told:
        prediction_of(status, body, SURE)
    assert "cloud" in str(told.value)
    assert len(str(told.value)) < 400


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_garbage(body: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        prediction_of(200, body, SURE)


def test_the_message_of_a_refusal_is_told() -> None:
    with pytest.raises(InvalidAnswer, match="401: The secret"):
        prediction_of(401, b'{"error": {"message": "The secret is wanted."}}', SURE)


# tally
def outcome(source: Source, **more: Any) -> SampleOutcome:
    return SampleOutcome("1", source, SURE, Verdict(True, 1), SURE, **more)


def test_a_sample_is_counted_once_and_its_end_once() -> None:
    counter = TallyCounter(None, now="2026-01-01T00:00:00.000Z")
    for number in range(10):
        counter.count_inference(is_hard=number < 4, edge_ms=float(number), at=number, now="later")
    counter.count_end(outcome(Source.CLOUD, cloud_ms=20.0, bytes_up=300), was_sent=True, now="later")
    counter.count_end(outcome(Source.EDGE_FALLBACK, bytes_up=300), was_sent=True, now="later")
    counter.count_end(outcome(Source.EDGE_FALLBACK), was_sent=False, now="later")
    counter.count_end(outcome(Source.EDGE), was_sent=False, now="last")
    tally = counter.snapshot(breaker=Breaker.OPEN, last_error="gone", at=9)
    assert (tally.inferences, tally.hard, tally.uploaded, tally.failed, tally.kept, tally.fallback) == (
        10,
        4,
        1,
        1,
        2,
        2,
    )
    assert (tally.upload_ratio, tally.bytes_uploaded, tally.edge_ms_p50, tally.cloud_ms_p50) == (0.1, 600, 4.5, 20)
    task_info = tally.to_task_info()
    assert (task_info["uploadCloudRatio"], task_info["cloudAnswerRatio"]) == (0.4, 0.1), (
        "the requirement's: hard of all"
    )
    assert (tally.fps, tally.breaker, tally.last_error, tally.update_time) == (1, Breaker.OPEN, "gone", "last")


def test_nothing_of_nothing_is_a_ratio_of_nought() -> None:
    tally = TallyCounter(None, now="now").snapshot(breaker=Breaker.CLOSED, last_error="", at=0)
    assert (tally.upload_ratio, tally.fps, tally.edge_ms_p50) == (0, None, None)


def test_percentiles_are_of_the_last_512() -> None:
    counter = TallyCounter(None, now="now")
    for number in range(1000):
        counter.count_inference(is_hard=False, edge_ms=1000.0 if number < 488 else 1.0, at=0, now="now")
    assert counter.snapshot(breaker=Breaker.CLOSED, last_error="", at=0).edge_ms_p95 == 1


def test_a_tally_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = TallyCounter(tmp_path / "tally.json", now="first")
    first.count_inference(is_hard=True, edge_ms=1, at=0, now="then")
    first.save()
    second = TallyCounter(tmp_path / "tally.json", now="second")
    second.count_inference(is_hard=False, edge_ms=1, at=0, now="last")
    tally = second.snapshot(breaker=Breaker.CLOSED, last_error="", at=0)
    assert (tally.inferences, tally.hard, tally.start_time, tally.update_time) == (2, 1, "first", "last")


BELOW_ZERO = json.dumps({**dict.fromkeys(COUNTED, 0), "kept": -1, "start_time": "then", "update_time": "then"})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"inferences": 1}', '{"inferences": "x"}', BELOW_ZERO])
def test_counting_begins_anew_when_the_kept_tally_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "tally.json").write_text(text)
    counter = TallyCounter(tmp_path / "tally.json", now="now")
    assert counter.snapshot(breaker=Breaker.CLOSED, last_error="", at=0).start_time == "now"


def test_a_folder_that_cannot_be_written_to_does_not_end_the_counting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counter = TallyCounter(tmp_path / "file" / "tally.json", now="now")
    counter.count_inference(is_hard=True, edge_ms=1, at=0, now="now")
    counter.save()
    assert counter.snapshot(breaker=Breaker.CLOSED, last_error="", at=0).inferences == 1
