"""Evaluates each algorithm at each setting on existing answers: what would have been uploaded, how good the final
answers would have been, and which setting is the best within a budget. Pure.

Settings are chosen on one half of the samples and checked on the other: the best of many is partly so by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from app.inference.prediction import Prediction
from app.joint_inference.calibration.predictions import SamplePredictions
from app.joint_inference.calibration.quality import Kind, QualityMeasures, Sums, measure, ratio
from app.joint_inference.hard_examples.base import BadParameter, HardExampleAlgorithm
from app.kit.text.json_form import JsonForm

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Indices: TypeAlias = "npt.NDArray[np.intp]"
Make = Callable[[str, Mapping[str, str]], HardExampleAlgorithm]
"""Makes an algorithm from a name and parameters; raises UnknownAlgorithm, BadParameter."""
LEFT_OUT = frozenset({"Random"})
"""Not tried, since the expected result of random choice is drawn anyway."""
_STEPS = tuple(f"{n / 20:.2f}" for n in range(1, 20))
_COARSE = tuple(f"{n / 10:.1f}" for n in range(1, 10))
GRIDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "IBT": {"threshold_img": _COARSE, "threshold_box": _COARSE, "empty_is_hard": ("false", "true")},
    "Threshold": {"threshold": _STEPS},
    "CrossEntropy": {"threshold_cross_entropy": (*_STEPS, "0.99")},
}
"""Values to try. An algorithm that is not listed is tried with its defaults."""
LEAST_SPLIT = 40
"""Fewer samples are not split: all of them choose, and none check."""
SEED, RESAMPLES = 1, 400
CONFIDENCE = (2.5, 97.5)
"""Percentiles of the quality of resamples (bootstrap) that bound the interval."""


@dataclass(frozen=True)
class Check:
    """The results of a setting on samples that had no part in the choice."""

    upload: float
    quality: float
    low: float
    high: float
    """The quality lies between low and high with 95 % confidence, if the samples are independent of each other."""


@dataclass(frozen=True)
class Setting:
    """An algorithm with parameters, and its results."""

    algorithm: str
    parameters: Mapping[str, str]
    upload: float
    """Share of the choosing samples that are hard for it, 0..1."""
    quality: float
    """Quality of the final answers to these, 0..1."""
    check: Check | None = None
    """None: there were too few samples."""


@dataclass(frozen=True)
class Sweep:
    """All settings on one set of samples."""

    kind: Kind
    """The measure of quality."""
    samples: int
    skipped: int
    """Number of samples that could not be read."""
    edge_sums: tuple[float, float]
    """Correct part and whole of the small model's answers, see quality.Sums."""
    cloud_sums: tuple[float, float]
    """The same for the big model's answers."""
    settings: tuple[Setting, ...]
    """In the order of the evaluation."""
    checking: int = 0
    """How many of the samples only check; the sums are of the others."""

    @property
    def edge_only(self) -> float:
        return self.random(0.0)

    @property
    def cloud_only(self) -> float:
        return self.random(1.0)

    def random(self, upload: float) -> float:
        """Returns the expected quality if this share were uploaded at random."""
        good, counted = (
            edge * (1 - upload) + cloud * upload for edge, cloud in zip(self.edge_sums, self.cloud_sums, strict=True)
        )
        return good / counted if counted else 1.0


SWEEP = JsonForm(Sweep)


def sweep(answers: Sequence[SamplePredictions], make: Make, names: Iterable[str], *, skipped: int = 0) -> Sweep:
    """Measure what each setting of the algorithms would do to these samples.

    Args:
        answers: of both models on the same samples.
        make: builds an algorithm of a name and parameters.
        names: algorithms to try.
        skipped: samples omitted before, for the report.

    Raises:
        ValueError: There are no samples.
    """
    measured = measure(answers)
    choosing, checking = split_samples(len(answers))
    trial = _Trial([answer.edge for answer in answers], measured, choosing, _Checker(checking))
    settings = tuple(_try_settings(name, trial, make) for name in names if name not in LEFT_OUT)
    edge, cloud = (tuple(float(v) for v in sums[choosing].sum(axis=0)) for sums in (measured.edge, measured.cloud))
    return Sweep(
        measured.kind,
        len(answers),
        skipped,
        (edge[0], edge[1]),
        (cloud[0], cloud[1]),
        tuple(setting for group in settings for setting in group),
        len(checking),
    )


def split_samples(count: int) -> tuple[Indices, Indices]:
    """Returns the indices of the samples that choose, and of those that check: halves, drawn at random but always the
    same."""
    import numpy as np

    if count < LEAST_SPLIT:
        return np.arange(count), np.arange(0)
    order = np.random.default_rng(SEED).permutation(count)
    return np.sort(order[: -(count // 2)]), np.sort(order[-(count // 2) :])


def pareto(settings: Iterable[Setting]) -> list[Setting]:
    """Returns, by upload, the settings for which no other is as good with less upload; of equal ones the one with fewer
    parameters."""
    front: list[Setting] = []
    for setting in sorted(settings, key=lambda setting: (setting.upload, -setting.quality, len(setting.parameters))):
        if not front or setting.quality > front[-1].quality:
            front.append(setting)
    return front


def best_within(settings: Iterable[Setting], budget: float) -> Setting | None:
    """Returns the best setting that uploads at most this share; of equally good ones the one that uploads least."""
    fitting = [setting for setting in settings if setting.upload <= budget + 1e-9]
    return max(fitting, key=lambda setting: (setting.quality, -setting.upload, -len(setting.parameters)), default=None)


class _Checker:
    """Estimates on the checking samples, by the same resamples for all settings."""

    def __init__(self, checking: Indices) -> None:
        import numpy as np

        self._checking, count = checking, len(checking)
        draws = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), RESAMPLES) if count else None
        self._weights = None if draws is None else draws.astype(np.float64)

    def check(self, hard: npt.NDArray[np.bool_], final: Sums) -> Check | None:
        import numpy as np

        if self._weights is None:
            return None
        good, counted = (self._weights @ final[self._checking]).T
        qualities = np.divide(good, counted, out=np.ones_like(good), where=counted > 0)
        low, high = (float(bound) for bound in np.percentile(qualities, CONFIDENCE))
        return Check(float(hard[self._checking].mean()), ratio(final[self._checking]), low, high)


@dataclass(frozen=True)
class _Trial:
    predictions: Sequence[Prediction]
    measured: QualityMeasures
    choosing: Indices
    checker: _Checker


def _try_settings(name: str, trial: _Trial, make: Make) -> list[Setting]:
    import numpy as np

    settings = []
    for parameters in _iterate_grid(name):
        try:
            algorithm = make(name, parameters)
        except BadParameter:  # an algorithm that needs parameters from its user
            continue
        hard = np.array([algorithm(prediction).is_hard for prediction in trial.predictions], dtype=bool)
        final = np.where(hard[:, None], trial.measured.cloud, trial.measured.edge)
        upload, quality = float(hard[trial.choosing].mean()), ratio(final[trial.choosing])
        settings.append(Setting(name, parameters, upload, quality, trial.checker.check(hard, final)))
    return settings


def _iterate_grid(name: str) -> Iterator[dict[str, str]]:
    values = GRIDS.get(name, {})
    return (dict(zip(values, combination, strict=True)) for combination in product(*values.values()))
