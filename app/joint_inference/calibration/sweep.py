"""Evaluates each algorithm at each setting on existing answers: what would have been uploaded, how good the final
answers would have been, and which setting is the best within a budget. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from app.inference.prediction import Prediction
from app.joint_inference.calibration.predictions import SamplePredictions
from app.joint_inference.calibration.quality import Kind, QualityMeasures, measure, ratio
from app.joint_inference.hard_examples.base import BadParameter, HardExampleAlgorithm
from app.kit.text.json_form import JsonForm

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


@dataclass(frozen=True)
class Setting:
    """An algorithm with parameters, and its results."""

    algorithm: str
    parameters: Mapping[str, str]
    upload: float
    """Share of the samples that are hard for it, 0..1."""
    quality: float
    """Quality of the final answers, 0..1."""


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
    predictions = [answer.edge for answer in answers]
    settings = tuple(_try_settings(name, predictions, measured, make) for name in names if name not in LEFT_OUT)
    edge, cloud = (tuple(float(v) for v in sums.sum(axis=0)) for sums in (measured.edge, measured.cloud))
    return Sweep(
        measured.kind,
        len(answers),
        skipped,
        (edge[0], edge[1]),
        (cloud[0], cloud[1]),
        tuple(setting for group in settings for setting in group),
    )


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


def _try_settings(name: str, predictions: Sequence[Prediction], measured: QualityMeasures, make: Make) -> list[Setting]:
    import numpy as np

    settings = []
    for parameters in _iterate_grid(name):
        try:
            algorithm = make(name, parameters)
        except BadParameter:  # an algorithm that needs parameters from its user
            continue
        hard = np.array([algorithm(prediction).is_hard for prediction in predictions], dtype=bool)
        final = np.where(hard[:, None], measured.cloud, measured.edge)
        settings.append(Setting(name, parameters, float(hard.mean()), ratio(final)))
    return settings


def _iterate_grid(name: str) -> Iterator[dict[str, str]]:
    values = GRIDS.get(name, {})
    return (dict(zip(values, combination, strict=True)) for combination in product(*values.values()))
