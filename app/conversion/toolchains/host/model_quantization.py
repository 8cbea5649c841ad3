"""The quantization of out.onnx: by the given options, or by a search for a goal."""

from __future__ import annotations

import collections
import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.conversion.goals import AS_GIVEN, BEST_OF_FEW, parse_goal
from app.conversion.options import BEST
from app.conversion.toolchains.base import Progress, StageRequest
from app.conversion.toolchains.budget import LAST_RESORT_S, LAST_RESORT_SHARE, Budget
from app.conversion.toolchains.graph.shapes import skeleton
from app.conversion.toolchains.host.bie_report import effort_line, goal_line, odd_warnings
from app.conversion.toolchains.host.calibration import ActivationRanges, calibrate
from app.conversion.toolchains.host.float32_form import compute_in_float32
from app.conversion.toolchains.host.graph_surgery import has_float16
from app.conversion.toolchains.host.inputs import CachedSamples
from app.conversion.toolchains.host.output_saturation import conceal, expose, find_judged_outputs, logits_of
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan, plan, without_tensors
from app.conversion.toolchains.host.quantizer import quantize
from app.conversion.toolchains.host.search.basis import NothingToQuantize
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.split import within
from app.conversion.toolchains.host.task_drop import drop_meters
from app.conversion.toolchains.journal import kept_in
from app.conversion.toolchains.samples.labels import labels_of
from app.inference.runtimes.sessions import open_session, run
from app.kit.errors import BadInput

CALIBRATED, QUANTIZED = 0.45, 0.5
"""Progress of the stage at the end of each step."""
FAINT_SAMPLES, FAINT_SHARE = 16, 0.8
"""About how many samples show whether an output has a signal, and the share of them that has none where it has not."""


@dataclass(frozen=True)
class QuantizedModel:
    """The result of the quantization, before it is measured."""

    float_model: Any
    """The model that was quantized: out.onnx, or an equivalent one with equalized channels."""
    int8_model: Any
    plan: QuantizationPlan
    calibration: ActivationRanges
    warnings: list[str]
    search: SearchResult | None = None
    """None if no goal was named."""


class ModelQuantization:
    """One quantization.

    Attributes:
        logits: The input of the sigmoid by the output that comes from it, of outputs that most samples leave faint.
    """

    def __init__(
        self, model: Any, samples: CachedSamples, names: Sequence[str], request: StageRequest, progress: Progress
    ) -> None:
        """
        Args:
            model: out.onnx. It is changed.
            names: of the samples.

        Raises:
            BadInput: What reading the samples raises, or no sample is left to calibrate or to report on.
        """
        self._model, self._samples, self._names = model, samples, tuple(names)
        self._request, self._progress = request, progress
        self._options = request.options.quantization
        self._reporting = _list_reporting(names, self._options.report_images)
        if has_float16(model) and not plan(model, self._options).problem:
            print("what is float16 is computed in float32, and quantized from that")
            compute_in_float32(model)
        self.logits = _logits_of_faint_outputs(model, samples, request.threads)

    def run(self) -> QuantizedModel:
        """Returns the result. During quantization the logits are outputs, so that both models have them by the same
        names.

        Raises:
            NotFinite, StageFailed: The model cannot be quantized.
        """
        expose(self._model, self.logits)
        quantized = self._quantize()
        for one in (quantized.float_model, quantized.int8_model, self._model):
            conceal(one, self.logits)
        return quantized

    def _quantize(self) -> QuantizedModel:
        model, samples, options = self._model, self._samples, self._options
        chosen = plan(model, options)
        if chosen.problem:
            return self._keep_float(chosen, ActivationRanges({}, 0))
        if options.goal or options.steps or options.method == BEST:
            return self._search(chosen)
        print(f"calibrating {len(chosen.tensors)} tensors on {len(samples)} samples, method {options.method}")

        def step(done: int, of: int) -> None:
            self._progress(CALIBRATED * done / max(of, 1), f"calibrating {done}/{of}")

        calibration = calibrate(model, chosen.tensors, samples, options, threads=self._request.threads, step=step)
        odd = calibration.not_finite
        chosen = without_tensors(model, chosen, odd) if odd else chosen
        if chosen.problem:
            return self._keep_float(chosen, calibration, odd_warnings(odd))
        self._progress(CALIBRATED, f"quantizing {len(chosen.nodes)} nodes")
        int8_model, chosen, warnings = quantize(model, calibration.ranges, chosen, options)
        print(f"quantized {len(chosen.nodes)} of {len(model.graph.node)} nodes to int8")
        return QuantizedModel(model, int8_model, chosen, calibration, [*warnings, *odd_warnings(odd)])

    def _keep_float(
        self, chosen: QuantizationPlan, calibration: ActivationRanges, warnings: Sequence[str] = ()
    ) -> QuantizedModel:
        print(f"warning: {chosen.problem}")
        model = self._model
        return QuantizedModel(model, copy.deepcopy(model), chosen, calibration, [chosen.problem, *warnings])

    def _search(self, chosen: QuantizationPlan) -> QuantizedModel:
        options, samples = self._options, self._samples
        goal = parse_goal(options.goal) if options.goal else AS_GIVEN if options.steps else BEST_OF_FEW
        print(f"calibrating {len(chosen.tensors)} tensors on {len(samples)} samples")
        if goal.text:
            print(f"searching for {goal.text}, for {Budget(options.budget_s).text}")
        else:
            print("making what the steps say" if options.steps else "making a few candidates in 8 bits")
        labels = labels_of(self._request.ref_images)
        plain = self._model
        if self.logits:
            plain = skeleton(self._model)
            conceal(plain, self.logits)

        def step(share: float, text: str) -> None:
            self._progress(QUANTIZED * share, text)

        try:
            result = QuantizationSearch(
                self._model,
                chosen,
                samples,
                options,
                goal,
                threads=self._request.threads,
                meter_of=drop_meters(plain, labels, self._request.options.preprocess),
                step=step,
                reporting=self._reporting,
                logits=self.logits,
                last_resort_s=min(LAST_RESORT_S, LAST_RESORT_SHARE * self._request.time_s),
                kept_in=kept_in(self._request, *self._names),
            ).run()
        except NothingToQuantize as nothing:
            calibration = ActivationRanges({}, nothing.statistics.pictures.total())
            return self._keep_float(nothing.plan, calibration, odd_warnings(nothing.statistics.not_finite))
        print(effort_line(result))
        print(goal_line(result))
        problem = [result.plan.problem] if result.plan.problem else []
        warnings = [*problem, *result.warnings, *odd_warnings(result.not_finite)]
        calibration = ActivationRanges(result.ranges, result.pictures)
        return QuantizedModel(result.float_model, result.model, result.plan, calibration, warnings, result)


def _list_reporting(names: Sequence[str], folder: str) -> tuple[int, ...]:
    """Returns the indexes of the samples that were sent for the report.

    Raises:
        BadInput: There are none, or no others.
    """
    places = within(names, folder) if folder else ()
    if folder and not places:
        raise BadInput(
            f"no reference sample lies in the folder {folder!r}, which is to be reported on",
            hint="Name the folder as it is in the archive: quantization.report_images.",
        )
    if folder and len(places) == len(names):
        raise BadInput(
            f"all reference samples lie in the folder {folder!r}, so none is left to calibrate on",
            hint="Put those that calibrate beside it.",
        )
    return places


def _logits_of_faint_outputs(model: Any, samples: CachedSamples, threads: int) -> dict[str, str]:
    """Returns the input of the sigmoid by the output that comes from it, of those that most samples leave faint."""
    logits = logits_of(model)
    if not logits:
        return {}
    session, faint, count = open_session(model.SerializeToString(), threads), collections.Counter[str](), 0
    every = max(1, len(samples) // FAINT_SAMPLES)
    for sample in itertools.islice(samples, 0, None, every):
        tensors = find_judged_outputs(logits, run(session, sample.arrays, list(logits)), logits)
        faint.update(name for name, tensor in tensors.items() if tensor != name)
        count += 1
    return {name: tensor for name, tensor in logits.items() if count and faint[name] >= FAINT_SHARE * count}
