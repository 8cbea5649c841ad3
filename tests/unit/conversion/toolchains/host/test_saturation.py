"""How many samples calibration needs, on a model whose ranges depend on one rare sample."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import helper

from app.conversion.cli.saturation import lines
from app.conversion.errors import NoSamples
from app.conversion.model.saturation import SaturationCurve, SaturationPoint
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.saturation import saturation_curve
from tests.harness.models.host import model_of

KNOBS = HostQuantization(method="minmax")


@dataclass(frozen=True)
class Sample:
    name: str
    arrays: dict[str, np.ndarray]


class Samples:
    """One line of each: growing, so that early ones set too narrow a range."""

    def __init__(self, levels: list[float]) -> None:
        random = np.random.default_rng(0)
        self._all = [
            Sample(str(n), {"x": (level * random.uniform(-1, 1, (1, 8))).astype(np.float32)})
            for n, level in enumerate(levels)
        ]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._all)


def gemm() -> onnx.ModelProto:
    weight = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "gemm")
    return onnx.shape_inference.infer_shapes(model_of([node], {"x": [1, 8]}, {"y": [1, 8]}, {"w": weight}))


def curve_of(levels: list[float]) -> SaturationCurve:
    return saturation_curve(gemm(), Samples(levels), KNOBS, threads=1, step=lambda done, of: None)


def test_where_samples_are_alike_few_are_enough() -> None:
    curve = curve_of([1.0] * 40)
    assert [point.samples for point in curve.points] == [1, 2, 4, 8, 16, 30]
    assert curve.judges == 10
    assert curve.enough is not None
    assert curve.enough <= 16


def test_where_the_wide_samples_come_last_the_curve_still_rises() -> None:
    curve = curve_of([0.1] * 24 + [1.0] * 16)
    assert curve.enough is None or curve.enough > 16
    first, last = curve.points[0].snr_db, curve.points[-1].snr_db
    assert first is not None
    assert last is not None
    assert last > first + 3


def test_too_few_samples_have_no_curve() -> None:
    with pytest.raises(NoSamples, match="too few"):
        curve_of([1.0] * 3)


def test_it_is_told_in_a_sentence() -> None:
    points = (SaturationPoint(1, 12.0), SaturationPoint(4, 20.0), SaturationPoint(60, 20.1))
    assert lines(SaturationCurve(points, 15))[-1] == (
        "judged on 15 other pictures. 4 are enough; 60 take 15 times as long and gain nothing."
    )
    rising = SaturationCurve(points[:2], 2)
    assert lines(rising)[-1].endswith("It still rises at 4: more pictures may gain more.")


def test_a_curve_is_read_back_as_it_was_written() -> None:
    curve = SaturationCurve((SaturationPoint(1, None), SaturationPoint(4, 20.0), SaturationPoint(60, 20.1)), 15)
    written = curve.to_json()
    assert SaturationCurve.from_json(json.loads(json.dumps(written))) == curve
    assert (written["enough"], curve.times) == (4, 15.0)
