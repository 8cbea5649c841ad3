"""How many pictures calibration needs: SNR on held-out pictures, against the number of calibration pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.conversion.errors import NoSamples
from app.conversion.model.saturation import SaturationCurve, SaturationPoint
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.calibration import Step, calibrate
from app.conversion.toolchains.host.inputs import CachedSamples, SampleArrays, Samples
from app.conversion.toolchains.host.quantization_plan import plan, without_tensors
from app.conversion.toolchains.host.quantizer import quantize
from app.inference.runtimes.sessions import open_session

JUDGES_MOST, JUDGES_SHARE = 20, 4
"""One in JUDGES_SHARE samples is a judge, and at most JUDGES_MOST are."""
SAMPLES_LEAST = 4


def saturation_curve(
    model: Any, samples: Samples, options: HostQuantization, *, threads: int, step: Step
) -> SaturationCurve:
    """Calibrate on 1, 2, 4, … and all but the judges, and judge each on the same few.

    Ranges are by the method, also where a goal is searched for.

    Args:
        model: The float model (onnx.ModelProto), as out.onnx has it.
        samples: Some kilobytes of each are kept in memory.
        step: Called as step(numbers done, of).

    Raises:
        NoSamples: There are fewer than four samples.
        NotFinite: A sample or the model's answer to it is no number.
    """
    if len(samples) < SAMPLES_LEAST:
        raise NoSamples(
            f"{len(samples)} reference samples are too few for a curve", hint=f"Send {SAMPLES_LEAST} or more."
        )
    judges = set(range(JUDGES_SHARE - 1, len(samples), JUDGES_SHARE))
    judges = set(sorted(judges)[:JUDGES_MOST])
    others = [index for index in range(len(samples)) if index not in judges]
    cached, chosen = CachedSamples(samples), plan(model, options)
    reference = open_session(model.SerializeToString(), threads)
    sizes = _list_sizes(len(others))
    points = []
    for done, size in enumerate(sizes, start=1):
        own = _Chosen(cached, frozenset(others[:size]))
        calibration = calibrate(model, chosen.tensors, own, options, threads=threads, step=_ignore_progress)
        finite = without_tensors(model, chosen, calibration.not_finite) if calibration.not_finite else chosen
        int8_model, _, _ = quantize(model, calibration.ranges, finite, options)
        session = open_session(int8_model.SerializeToString(), threads)
        outputs = quality.measure_outputs(reference, session, _Chosen(cached, frozenset(judges)), _ignore_progress)
        points.append(SaturationPoint(size, outputs.worst_mean_snr_db))
        step(done, len(sizes))
    return SaturationCurve(tuple(points), len(judges))


def _list_sizes(count: int) -> list[int]:
    """Returns 1, 2, 4, … below count, and count."""
    return [1 << power for power in range(count.bit_length()) if 1 << power < count] + [count]


def _ignore_progress(done: int, of: int) -> None:
    """Does nothing: progress counts numbers of samples, not samples."""


class _Chosen:
    """Selected samples, by index."""

    def __init__(self, samples: Samples, indexes: frozenset[int]) -> None:
        self._samples, self._indexes = samples, indexes

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[SampleArrays]:
        return (sample for index, sample in enumerate(self._samples) if index in self._indexes)
