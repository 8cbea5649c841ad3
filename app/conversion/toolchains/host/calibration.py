"""Calibration: the range of every activation over the reference samples, one sample in memory at a time.

min-max adds ReduceMin and ReduceMax to the graph, so only two numbers per tensor leave the runtime; percentile and
entropy take each sample's tensors into histograms of constant size and let them go.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from app.conversion.errors import NoSamples
from app.conversion.options import BEST, HostQuantization
from app.conversion.toolchains.host.equivalence import require_finite_arrays
from app.conversion.toolchains.host.histogram import Histogram
from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.tensor_comparison import is_finite
from app.inference.runtimes.sessions import Session, open_session, run

Range = tuple[float, float]
Step = Callable[[int, int], None]
"""Called as step(number done, number of all)."""

LOW, HIGH = "__modelmill_min", "__modelmill_max"
OF_NOTHING: Range = (0.0, 0.0)
"""Range of a tensor that never had an element."""
HUGE = 1e30
"""The square of a larger value overflows float32; a tensor with such values stays in float."""


@dataclass(frozen=True)
class ActivationRanges:
    """Lowest and highest value to represent, by tensor name, and the number of samples they come from."""

    ranges: dict[str, Range]
    samples: int
    not_finite: Mapping[str, str] = field(default_factory=dict)
    """Inner tensors with NaN, an infinity or a value above HUGE, and the sample where it occurred; they stay in
    float."""


class RangeCollector(Protocol):
    """Collects ranges from runs of a model."""

    def model(self) -> Any:
        """Returns the graph to run: the original outputs first, then the tensors that the collector needs."""
        ...

    not_finite: dict[str, str]

    def add(self, values: dict[str, Array], sample: str) -> None: ...

    def ranges(self) -> dict[str, Range]: ...


def calibrate(
    model: Any, tensors: Sequence[str], samples: Samples, options: HostQuantization, *, threads: int, step: Step
) -> ActivationRanges:
    """Run the float model over all samples and collect the ranges of tensors.

    Args:
        model: onnx.ModelProto, float.
        tensors: names of those whose ranges are needed, inner ones among them.
        options: the method, and its percentile.
        threads: of onnxruntime.
        step: called after each sample with how many are done, and of how many.

    Raises:
        NotFinite: A NaN or an infinity in an input or output of the model; tensor and sample are named.
        NoSamples: There is no sample.
    """
    collector = _make_collector(model, tensors, options)
    own_outputs = [output.name for output in model.graph.output]
    session = _open(collector.model(), threads)
    count = 0
    for sample in samples:
        require_finite_arrays(sample.arrays, sample.name)
        values = run(session, sample.arrays)
        require_finite_arrays({name: values[name] for name in own_outputs if name in values}, sample.name)
        collector.add(values, sample.name)
        count += 1
        step(count, len(samples))
    if count == 0:
        raise NoSamples("there are no reference samples to calibrate on")
    return ActivationRanges(collector.ranges(), count, collector.not_finite)


def _open(model: Any, threads: int) -> Session:
    return open_session(model.SerializeToString(), threads)


def _make_collector(model: Any, tensors: Sequence[str], options: HostQuantization) -> RangeCollector:
    if options.method in ("minmax", BEST):
        return MinMax(model, tensors)
    return Histograms(model, tensors, options)


def is_moderate(array: Array) -> bool:
    """Returns whether all values are finite and below HUGE."""
    return is_finite(array) and (array.size == 0 or float(np.abs(array).max()) < HUGE)


class MinMax:
    """Collects the lowest and the highest value of each tensor."""

    def __init__(self, model: Any, tensors: Sequence[str]) -> None:
        self._source = model
        self._tensors = tensors
        self._ranges: dict[str, Range] = {}
        self.not_finite: dict[str, str] = {}

    def model(self) -> Any:
        from onnx import helper

        model = copy.deepcopy(self._source)
        types = element_types(model)
        for name in self._tensors:
            for suffix, operator in ((LOW, "ReduceMin"), (HIGH, "ReduceMax")):
                output = name + suffix
                model.graph.node.append(helper.make_node(operator, [name], [output], name=output, keepdims=0))
                model.graph.output.append(helper.make_tensor_value_info(output, types[name], []))
        return model

    def add(self, values: dict[str, Array], sample: str) -> None:
        for name in self._tensors:
            low, high = float(values[name + LOW]), float(values[name + HIGH])
            if low > high:  # it has no element, such as the roi of a Resize
                continue
            if not (low > -HUGE and high < HUGE):  # NaN fails both comparisons
                self.not_finite.setdefault(name, sample)
                continue
            before = self._ranges.get(name, (low, high))
            self._ranges[name] = (min(before[0], low), max(before[1], high))

    def ranges(self) -> dict[str, Range]:
        return {name: self._ranges.get(name, OF_NOTHING) for name in self._tensors}


class Histograms:
    """Collects a histogram for each tensor, for the methods percentile and entropy."""

    def __init__(self, model: Any, tensors: Sequence[str], options: HostQuantization) -> None:
        self._source = model
        self._options = options
        self._histograms = {name: Histogram() for name in tensors}
        self.not_finite: dict[str, str] = {}

    def model(self) -> Any:
        return with_outputs(self._source, list(self._histograms))

    def add(self, values: dict[str, Array], sample: str) -> None:
        for name, histogram in self._histograms.items():
            if is_moderate(values[name]):
                histogram.add(values[name])
            else:
                self.not_finite.setdefault(name, sample)

    def ranges(self) -> dict[str, Range]:
        if self._options.method == "entropy":
            return {name: histogram.entropy() for name, histogram in self._histograms.items()}
        return {name: h.percentile(self._options.percentile) for name, h in self._histograms.items()}


def with_outputs(model: Any, tensors: Sequence[str]) -> Any:
    """Returns a copy of the model that also outputs these inner tensors."""
    from onnx import ValueInfoProto

    model = copy.deepcopy(model)
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in tensors if name not in outputs)
    return model


def bytes_with_outputs(model: Any, tensors: Sequence[str]) -> bytes:
    """Returns the same as bytes, without a second model in memory."""
    from onnx import ValueInfoProto

    outputs = model.graph.output
    count, known = len(outputs), {output.name for output in outputs}
    outputs.extend(ValueInfoProto(name=name) for name in tensors if name not in known)
    try:
        data: bytes = model.SerializeToString()
    finally:
        del outputs[count:]
    return data


def element_types(model: Any) -> dict[str, int]:
    """Returns the ONNX element type of inputs, outputs and inner tensors, as far as known."""
    graph = model.graph
    values = [*graph.value_info, *graph.input, *graph.output]
    return {v.name: int(v.type.tensor_type.elem_type) for v in values if v.type.HasField("tensor_type")}


def tensor_sizes(model: Any) -> dict[str, int]:
    """Returns the bytes of each tensor as float32; unknown dimensions count as one."""
    values = [*model.graph.value_info, *model.graph.output]
    return {v.name: 4 * math.prod(max(1, d.dim_value) for d in v.type.tensor_type.shape.dim) for v in values}
