"""Micro-batching: the answers are those of single calls, exactly, whoever else waits and whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.inference.errors import InferenceFailed
from app.inference.model_card import Format, ModelCard
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import BatchOptions, PredictorOptions
from app.inference.runtimes.base import Array, Runtime
from app.inference.runtimes.host import open_onnx
from app.inference.runtimes.micro_batches import BatchingRuntime, answers_alike
from tests.harness.models.vision import SIDE, answering, brightest_channel, opened, save
from tests.harness.until import PATIENCE_S

EIGHT = BatchOptions(8, wait_s=5.0)
"""More patience than a test needs, since a full call does not wait."""


class Counted:
    """A runtime that notes the sizes of its calls, and fails for a picture of zeros."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def run(self, array: Array) -> dict[str, Array]:
        self.sizes.append(len(array))
        if not array.any(axis=(1, 2, 3)).all():
            raise InferenceFailed("a picture of zeros")
        return self._runtime.run(array)


def counted(folder: Path) -> Counted:
    return Counted(open_onnx(save(folder, brightest_channel(batch="n")), 1, form="onnx"))


def inputs(count: int) -> list[Array]:
    numbers = np.random.default_rng(3)
    return [numbers.random((1, 3, SIDE, SIDE), np.float32) + 0.1 for _ in range(count)]


def together(runtime: BatchingRuntime, arrays: list[Array]) -> list[Mapping[str, Array] | InferenceFailed]:
    """Calls it from a thread for each input."""
    start = threading.Barrier(len(arrays))

    def answer(array: Array) -> Mapping[str, Array] | InferenceFailed:
        start.wait(PATIENCE_S)
        try:
            return runtime.run(array)
        except InferenceFailed as error:
            return error

    with ThreadPoolExecutor(len(arrays)) as pool:
        return list(pool.map(answer, arrays))


def test_what_waits_is_computed_in_one_call_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    runtime, arrays = counted(tmp_path), inputs(16)
    alone = [runtime.run(array) for array in arrays]
    runtime.sizes.clear()
    answers = together(BatchingRuntime(runtime, EIGHT), arrays)
    assert sum(runtime.sizes) == 16 and max(runtime.sizes) <= 8 and len(runtime.sizes) <= 4
    for one, other in zip(alone, answers, strict=True):
        assert isinstance(other, Mapping) and one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_one_that_cannot_be_computed_fails_alone(tmp_path: Path) -> None:
    runtime, arrays = counted(tmp_path), inputs(8)
    arrays[3] = np.zeros_like(arrays[3])
    answers = together(BatchingRuntime(runtime, EIGHT), arrays)
    assert [isinstance(answer, InferenceFailed) for answer in answers] == [n == 3 for n in range(8)]
    assert together(BatchingRuntime(runtime, EIGHT), inputs(8))[0].keys() == {"y"}, "and the next ones are computed"


def test_nobody_waits_longer_than_the_bound_for_others_who_do_not_come(tmp_path: Path) -> None:
    runtime = counted(tmp_path)
    assert BatchingRuntime(runtime, BatchOptions(8, wait_s=0.01)).run(inputs(1)[0])
    assert runtime.sizes == [1]


def test_several_calls_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    runtime, arrays = counted(tmp_path), inputs(24)
    answers = together(BatchingRuntime(runtime, BatchOptions(3, wait_s=0.002, calls=4)), arrays)
    assert sum(runtime.sizes) == 24
    for array, answer in zip(arrays, answers, strict=True):
        assert isinstance(answer, Mapping) and np.array_equal(answer["y"], runtime._runtime.run(array)["y"])


def test_a_model_is_only_batched_if_it_can_be_and_answers_alike(tmp_path: Path) -> None:
    free = opened(tmp_path, brightest_channel(batch="n"), batching=EIGHT)
    assert free.runtime.endswith("· up to 8 at once") and free.why == ""
    fixed = opened(tmp_path, brightest_channel(), batching=EIGHT)
    assert (fixed.why, fixed.runtime.endswith("onnx")) == ("one picture at a time: the batch dimension is fixed", True)
    # One answer, whatever the number of pictures.
    other = opened(tmp_path, answering({"y": np.ones((1, 4), np.float32)}, ("n", 3, SIDE, SIDE)), batching=EIGHT)
    assert other.why == "one picture at a time: several at once get other answers"
    assert opened(tmp_path, brightest_channel(batch="n")).runtime.endswith("onnx"), "off unless chosen"


def test_a_model_that_mixes_its_pictures_does_not_answer_alike(tmp_path: Path) -> None:
    class Mixing(Counted):
        def run(self, array: Array) -> dict[str, Array]:
            return {"y": super().run(array - array.mean(axis=0) + 0.5)["y"]}

    assert answers_alike(counted(tmp_path), inputs(3))
    assert not answers_alike(Mixing(counted(tmp_path)), inputs(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cls_mobilenet_v2_128_dynamic_batch", "face_yunet_n_dynamic", "digits_big"])
def test_real_models_answer_exactly_as_one_by_one(shared_data: Path, name: str) -> None:
    path = shared_data / "models" / f"{name}.onnx"
    card = ModelCard(name, Format.ONNX, "", 1)
    single, batching = (
        open_predictor(card, path, None, PredictorOptions(batching=each)) for each in (BatchOptions(), EIGHT)
    )
    assert "8 at once" in batching.runtime
    noise = np.random.default_rng(5)
    pictures = [noise.integers(0, 256, (96 + 8 * n, 128, 3), np.uint8) for n in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(batching.predict, pictures))
    for picture, answer in zip(pictures, answers, strict=True):
        expected = single.predict(picture)
        assert (answer.boxes, answer.candidates) == (expected.boxes, expected.candidates)
        assert answer.probabilities == expected.probabilities
