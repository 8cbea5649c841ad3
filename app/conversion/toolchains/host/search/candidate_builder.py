"""Builds candidates from choices, and computes each part only once, however many choices need it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.inputs import Array, SampleArrays, Samples
from app.conversion.toolchains.host.quantization_plan import without_tensors
from app.conversion.toolchains.host.search.basis import Basis
from app.conversion.toolchains.host.search.bias_correction import Shift, corrections, measure_shifts
from app.conversion.toolchains.host.search.candidates import Choice, Rewrite, Rewrites
from app.conversion.toolchains.host.search.channel_noise import rows_of
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.outlier_channels import split_channels
from app.conversion.toolchains.host.search.ranges import range_of
from app.conversion.toolchains.host.search.smooth_quant import smooth
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.statistics import collect
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.host.search.weight_integers import second_order
from app.kit.sandbox.errors import StageFailed

Parts = tuple[int, ...]
Examples = Callable[[Sequence[int]], Sequence[SampleArrays]]
REWRITES = {"smoothing": smooth, "channel_splitting": split_channels}


class CandidateBuilder:
    """Makes the models of choices.

    Args:
        given: the basis of the unchanged float model.
        examples: returns a few pictures of these parts of the split.
        threads: of onnxruntime.
    """

    def __init__(self, given: Basis, split: Split, examples: Examples, options: HostQuantization, threads: int) -> None:
        self.given = given
        self._bases: dict[Rewrites, Basis | None] = {(): given}
        self._options = options
        self._split, self._examples, self._threads = split, examples, threads
        self._rounded: dict[tuple[Rewrites, Parts], Basis] = {}
        self._shifts: dict[tuple[Choice, Parts], list[Shift]] = {}

    def rewrite(self, rewrites: Rewrites, samples: Samples, step: Callable[[int, int], None]) -> bool:
        """Make the basis of choices with these rewrites, of which the last one may be new.

        Returns:
            False if the last one has nothing to do, or cannot be quantized.
        """
        if rewrites not in self._bases:
            before = self._bases[rewrites[:-1]]
            self._bases[rewrites] = before and self._calibrate_rewrite(before, rewrites[-1], samples, step)
        return self._bases[rewrites] is not None

    def changed(self, rewrites: Rewrites) -> frozenset[str]:
        """Returns the tensors that the last of these rewrites gave other values, which has been made."""
        basis = self._bases[rewrites]
        return basis.changed if basis is not None else frozenset()

    def _calibrate_rewrite(
        self, before: Basis, kind: Rewrite, samples: Samples, step: Callable[[int, int], None]
    ) -> Basis | None:
        """Calibrates again what a rewrite changes; None if it changes nothing."""
        final = self._split.final
        if kind == "equalization":
            done = equalized(before.model, lambda tensor: before.limits(tensor, final))
        else:
            done = REWRITES[kind](before.model, self._rows_of)
        if not done.tensors:
            return None
        plan = before.plan
        if not done.is_same_shape:
            plan = without_tensors(done.model, plan, done.left_in_float)
        names = [tensor for tensor in plan.tensors if tensor in done.tensors]
        others = collect(done.model, names, samples, self._split, threads=self._threads, step=step, are_known=True)
        if others.not_finite:
            return None
        statistics = replace(
            before.statistics,
            parts={**before.statistics.parts, **others.parts},
            altered={**before.statistics.altered, **others.altered},
        )
        if done.is_same_shape:
            return Basis(done.model, plan, statistics, before.template.with_model(done.model), done.tensors)
        ranges = {tensor: range_of(statistics.of(tensor, final), "minmax") for tensor in plan.tensors}
        try:
            template = Template(done.model, plan, ranges, self._options)
        except StageFailed as error:
            print(f"{kind.replace('_', ' ')} is not possible: {error.message}")
            return None
        return Basis(done.model, template.plan, statistics, template, done.tensors)

    def _rows_of(self, model: Any, tensors: Mapping[str, int]) -> dict[str, Array]:
        return dict(rows_of(model, tensors, self._examples(self._split.final), self._threads))

    def of_part(self, choice: Choice, exact: frozenset[str] = frozenset()) -> Callable[[int], Any]:
        """Returns the function that makes the model judged on a part, which is calibrated without that part.

        Args:
            exact: tensors that stay in float besides.
        """
        return lambda part: self.built(choice, self._split.calibrating(part), exact)

    def built(self, choice: Choice, parts: Sequence[int], exact: frozenset[str] = frozenset()) -> Any:
        """Returns the quantized model (onnx.ModelProto).

        Args:
            parts: the parts whose pictures set the ranges.
            exact: activations and weights that stay in float besides.
        """
        basis = self.basis(choice, parts)
        if choice.is_float:
            return copy.deepcopy(basis.model)
        precision = basis.precision(choice, parts)
        if choice.is_corrected:
            shifts = corrections(self._shifts_of(choice.in_8_bits, tuple(parts)), choice.wide_tensors)
            precision = replace(precision, biases=shifts)
        return basis.template.build(replace(precision, exact=precision.exact | exact) if exact else precision)

    def basis(self, choice: Choice, parts: Sequence[int]) -> Basis:
        """Returns the basis of a choice.

        Args:
            parts: the parts whose pictures set the ranges; pictures that judge are not used to round weights if there
                are others.
        """
        basis = self._bases[choice.rewrites] or self.given
        if not choice.is_rounded:
            return basis
        key = choice.rewrites, tuple(part for part in parts if part not in self._split.choose) or tuple(parts)
        if key not in self._rounded:
            integers = second_order(basis.template, self._examples(key[1]), self._threads)
            self._rounded[key] = replace(basis, template=basis.template.with_weights(integers))
        return self._rounded[key]

    def _shifts_of(self, choice: Choice, parts: Parts) -> list[Shift]:
        if (choice, parts) not in self._shifts:
            basis, pictures = self.basis(choice, parts), self._examples(parts)
            ranges = basis.ranges(choice, parts)
            self._shifts[choice, parts] = measure_shifts(basis.template, ranges, pictures, self._threads)
        return self._shifts[choice, parts]
