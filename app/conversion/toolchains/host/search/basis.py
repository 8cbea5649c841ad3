"""The basis of candidates: a float model, the statistics of its activations, and the template of its QDQ form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan, without_tensors
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.integers import HEADROOM
from app.conversion.toolchains.host.search.ranges import WIDE_METHOD, range_of
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.statistics import ActivationStatistics, PartStatistics, Step, collect
from app.conversion.toolchains.host.search.template import Activation, Precision, Template


class NothingToQuantize(Exception):
    """All weighted layers use tensors that no scale can represent."""

    def __init__(self, plan: QuantizationPlan, statistics: ActivationStatistics) -> None:
        super().__init__(plan.problem)
        self.plan, self.statistics = plan, statistics


@dataclass
class Basis:
    model: Any
    """The float model (onnx.ModelProto): the given one, or one that computes the same."""
    plan: QuantizationPlan
    statistics: ActivationStatistics
    template: Template
    changed: frozenset[str] = frozenset()
    """Tensors that the last rewrite of the model gave other values."""
    _ranges: dict[tuple[str, str, tuple[int, ...]], Range] = field(default_factory=dict)

    def precision(self, choice: Choice, parts: Sequence[int]) -> Precision:
        """Returns the changes to the template, except corrections of biases.

        Args:
            parts: the parts whose pictures set the ranges.
        """
        ranges = self.ranges(choice, parts)
        headroom = HEADROOM if choice.has_headroom else 1.0
        return Precision(ranges, choice.wide, choice.wide_weights, choice.tail | choice.exact, headroom=headroom)

    def ranges(self, choice: Choice, parts: Sequence[int]) -> dict[str, Range]:
        """Returns ranges by activation. Those in 16 bits include the extremes, since they have levels to spare."""
        methods = {**dict(choice.methods), **dict.fromkeys(choice.wide, WIDE_METHOD)}
        return {
            activation.name: self._choose_range(activation, methods.get(activation.name, choice.method), tuple(parts))
            for activation in self.template.activations
        }

    def limits(self, tensor: str, parts: Sequence[int]) -> Array | None:
        """Returns the largest magnitude of each channel."""
        if tensor not in self.statistics.parts or tensor in self.statistics.not_finite:
            return None
        most = self.statistics.of(tensor, parts).channel_most
        return most if isinstance(most, np.ndarray) else None

    def _choose_range(self, activation: Activation, method: str, parts: tuple[int, ...]) -> Range:
        key = (activation.name, method, parts)
        if key not in self._ranges:
            known = [tensor for tensor in activation.tensors if tensor in self.statistics.parts]
            ranges = [range_of(self._collect_statistics(tensor, method, parts), method) for tensor in known]
            ranges += [self.template.limits_of(name) for name, _ in activation.constants]
            self._ranges[key] = min((r[0] for r in ranges), default=0.0), max((r[1] for r in ranges), default=0.0)
        return self._ranges[key]

    def _collect_statistics(self, tensor: str, method: str, parts: tuple[int, ...]) -> PartStatistics:
        """Returns statistics that include altered pictures, except for min-max, which a plain conversion uses."""
        return self.statistics.of(tensor, parts, with_altered=method != "minmax")


def basis_of(
    model: Any,
    plan: QuantizationPlan,
    samples: Samples,
    split: Split,
    options: HostQuantization,
    *,
    threads: int,
    step: Step,
) -> Basis:
    """Run the float model over all samples, and quantize it once.

    Args:
        model: onnx.ModelProto, float.
        plan: which nodes are quantized; without those whose tensors are not finite.
        split: which samples calibrate, and which measure.
        threads: of onnxruntime.
        step: called after each sample with how many are done, and of how many.

    Raises:
        NotFinite: An input or an output of the float model holds a NaN or an infinity.
        NothingToQuantize: As far as its tensors are finite.
        StageFailed: onnxruntime's quantizer cannot make a model.
    """
    statistics = collect(model, plan.tensors, samples, split, threads=threads, step=step)
    if statistics.not_finite:
        plan = without_tensors(model, plan, statistics.not_finite)
    if plan.problem:
        raise NothingToQuantize(plan, statistics)
    ranges = {tensor: range_of(statistics.of(tensor, split.final), "minmax") for tensor in plan.tensors}
    template = Template(model, plan, ranges, options)
    return Basis(model, template.plan, statistics, template)
