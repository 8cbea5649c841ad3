"""Builds candidates from choices, and computes each part only once, however many choices need it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.inputs import SampleArrays, Samples
from app.conversion.toolchains.host.quantizer import without_tensors
from app.conversion.toolchains.host.search.basis import Basis
from app.conversion.toolchains.host.search.bias_correction import Shift, corrections, measured_shifts
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.ranges import range_of
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.statistics import collect
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.host.search.weight_integers import second_order
from app.kit.sandbox.errors import StageFailed

Parts = tuple[int, ...]
Examples = Callable[[Sequence[int]], Sequence[SampleArrays]]


class CandidateBuilder:
    """Makes the models of choices.

    Args:
        given: the basis of the unchanged float model.
        examples: returns a few pictures of these parts of the split.
        threads: of onnxruntime.
    """

    def __init__(self, given: Basis, split: Split, examples: Examples, options: HostQuantization, threads: int) -> None:
        self.given = given
        self._equalized: Basis | None = None
        self._options = options
        self._split, self._examples, self._threads = split, examples, threads
        self._rounded: dict[tuple[bool, Parts], Basis] = {}
        self._shifts: dict[tuple[Choice, Parts], list[Shift]] = {}

    def equalize(self, samples: Samples, step: Callable[[int, int], None]) -> bool:
        """Make the basis of equalized choices; returns False if there is nothing to equalize."""
        given, final = self.given, self._split.final
        done = equalized(given.model, lambda tensor: given.limits(tensor, final))
        if not done.tensors:
            return False
        names = [tensor for tensor in given.plan.tensors if tensor in done.tensors]
        others = collect(done.model, names, samples, self._split, threads=self._threads, step=step, are_known=True)
        if others.not_finite:
            return False
        statistics = replace(
            given.statistics,
            parts={**given.statistics.parts, **others.parts},
            altered={**given.statistics.altered, **others.altered},
        )
        if not done.gate_inputs:
            self._equalized = Basis(done.model, given.plan, statistics, given.template.with_model(done.model))
            return True
        chosen = without_tensors(done.model, given.plan, done.gate_inputs)
        ranges = {tensor: range_of(statistics.of(tensor, final), "minmax") for tensor in chosen.tensors}
        try:
            template = Template(done.model, chosen, ranges, self._options)
        except StageFailed as error:
            print(f"channels cannot be equalized: {error.message}")
            return False
        self._equalized = Basis(done.model, template.plan, statistics, template)
        return True

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
            shifts = corrections(self._shifts_of(choice.in_8_bits, tuple(parts)), choice.wide, choice.wide_weights)
            precision = replace(precision, biases=shifts)
        return basis.template.build(replace(precision, exact=precision.exact | exact) if exact else precision)

    def basis(self, choice: Choice, parts: Sequence[int]) -> Basis:
        """Returns the basis of a choice.

        Args:
            parts: the parts whose pictures set the ranges; pictures that judge are not used to round weights if there
                are others.
        """
        basis = self._equalized if choice.is_equalized and self._equalized is not None else self.given
        if not choice.is_rounded:
            return basis
        key = choice.is_equalized, tuple(part for part in parts if part not in self._split.choose) or tuple(parts)
        if key not in self._rounded:
            integers = second_order(basis.template, self._examples(key[1]), self._threads)
            self._rounded[key] = replace(basis, template=basis.template.with_weights(integers))
        return self._rounded[key]

    def _shifts_of(self, choice: Choice, parts: Parts) -> list[Shift]:
        if (choice, parts) not in self._shifts:
            basis, pictures = self.basis(choice, parts), self._examples(parts)
            ranges = basis.ranges(choice, parts)
            self._shifts[choice, parts] = measured_shifts(basis.template, ranges, pictures, self._threads)
        return self._shifts[choice, parts]
