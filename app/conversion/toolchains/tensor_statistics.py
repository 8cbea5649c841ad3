"""The distances of tensors over many samples, without storing the tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.conversion.toolchains.tensor_comparison import (
    Array,
    TensorComparison,
    compare_all,
    list_judged_names,
    significant,
)
from app.kit.text.json_values import JsonObject


class Tally:
    """One number per sample → {mean, min, p5, n}. It keeps the numbers, not their tensors."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def add(self, value: float | None) -> None:
        if value is not None:
            self.values.append(value)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    def summary(self, digits: int) -> dict[str, float | int | None]:
        """Returns mean, min and 5th percentile over the samples, and their number; None without samples."""
        if not self.values:
            return {"mean": None, "min": None, "p5": None, "n": 0}
        return {
            "mean": round(float(np.mean(self.values)), digits),
            "min": round(min(self.values), digits),
            "p5": round(float(np.percentile(self.values, 5)), digits),
            "n": len(self.values),
        }


@dataclass
class TensorStatistics:
    """The statistics of one tensor over any number of samples."""

    name: str
    snr_db: Tally = field(default_factory=Tally)
    cosine: Tally = field(default_factory=Tally)
    max_abs: float = 0.0
    samples: int = 0
    exact: int = 0
    silent: int = 0
    uncounted: int = 0
    beside_zero: int = 0
    """Samples with values where the reference has only zeros, which count."""
    other_shape: int = 0
    faint: int = 0
    """Samples for which the output is nearly 0 everywhere, so that another tensor was compared in its place."""
    is_discrete: bool = False
    """It holds integers, such as the indexes of classes, whose distance says nothing."""

    def add(self, comparison: TensorComparison) -> None:
        self.samples += 1
        self.snr_db.add(comparison.snr_db)
        self.cosine.add(comparison.cosine)
        self.max_abs = max(self.max_abs, comparison.max_abs)
        self.exact += comparison.exact
        self.silent += comparison.silent
        self.uncounted += comparison.is_uncounted
        self.beside_zero += comparison.is_beside_zero
        self.other_shape += not comparison.same_shape

    @property
    def is_exact(self) -> bool:
        return self.samples > 0 and self.exact == self.samples

    def to_dict(self) -> JsonObject:
        """Returns {name, snr_db: {mean, min, p5, n}, cosine: {…}, max_abs} and, if they apply, exact, silent_samples,
        uncounted_samples, beside_zero_samples, faint_samples and other_shape_samples (an output whose size depends on
        the data cannot be compared value by value)."""
        data: JsonObject = {
            "name": self.name,
            "snr_db": self.snr_db.summary(2),
            "cosine": self.cosine.summary(6),
            "max_abs": significant(self.max_abs),
        }
        if self.is_exact:
            data["exact"] = True
        if self.silent:
            data["silent_samples"] = self.silent
        if self.uncounted:
            data["uncounted_samples"] = self.uncounted
        if self.beside_zero:
            data["beside_zero_samples"] = self.beside_zero
        if self.faint:
            data["faint_samples"] = self.faint
        if self.other_shape:
            data["other_shape_samples"] = self.other_shape
        return data


class OutputStatistics:
    """TensorStatistics by tensor name, and the SNR of each sample at its worst tensor."""

    def __init__(self) -> None:
        self.tensors: dict[str, TensorStatistics] = {}
        self.by_sample: list[tuple[str, float]] = []

    def add(self, sample: str, reference: Mapping[str, Array], actual: Mapping[str, Array]) -> None:
        """See `compare_all`."""
        self.add_comparisons(sample, compare_all(sample, reference, actual), list_judged_names(reference))

    def add_comparisons(
        self, sample: str, comparisons: Mapping[str, TensorComparison], judged: Collection[str]
    ) -> None:
        """Adds one sample.

        Args:
            judged: See `list_judged_names`.
        """
        worst: float | None = None
        for name, comparison in comparisons.items():
            self.tensors.setdefault(name, TensorStatistics(name, is_discrete=name not in judged)).add(comparison)
            if comparison.snr_db is not None and name in judged:
                worst = comparison.snr_db if worst is None else min(worst, comparison.snr_db)
        if worst is not None:
            self.by_sample.append((sample, worst))

    def to_list(self) -> list[JsonObject]:
        return [tensor.to_dict() for tensor in self.tensors.values()]

    def worst_samples(self, count: int) -> list[JsonObject]:
        """Returns the `count` samples with the lowest SNR, worst first: [{name, snr_db}]."""
        ordered = sorted(self.by_sample, key=lambda pair: pair[1])
        return [{"name": name, "snr_db": round(snr, 2)} for name, snr in ordered[:count]]

    @property
    def worst_mean_snr_db(self) -> float | None:
        """Returns the lowest mean SNR of a tensor, of one with integers only if all have them; None if no tensor has
        one."""
        tensors = [tensor for tensor in self.tensors.values() if not tensor.is_discrete]
        means = [mean for tensor in tensors if (mean := tensor.snr_db.mean) is not None]
        return min(means, default=None)

    @property
    def worst_snr_db(self) -> float | None:
        """Returns the lowest SNR of any tensor of any sample."""
        return min((value for tensor in self.tensors.values() for value in tensor.snr_db.values), default=None)

    @property
    def is_exact(self) -> bool:
        return all(tensor.is_exact for tensor in self.tensors.values())

    @property
    def uncounted(self) -> int:
        """Returns the number of samples that are not counted, of the tensor with most of them."""
        return max((tensor.uncounted for tensor in self.tensors.values()), default=0)

    @property
    def has_other_shapes(self) -> bool:
        return any(tensor.other_shape for tensor in self.tensors.values())
