"""How well a preprocessing agrees with a model's first layer. Pure arithmetic.

Likelihoods have heavy tails: a filter proves nothing, and data sets differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.conversion.intake.first_layer import FirstLayer
from app.conversion.intake.graph_view import Array
from app.inference.preprocess_options import Preprocess

RGB_MEAN, GRAY_MEAN, DEVIATION = (0.470, 0.440, 0.405), 0.44, 0.27
"""Statistics of natural pictures, in 0..1, between those of ImageNet, COCO and WIDER FACE."""
SHARED, APART = 0.11, 0.02
"""Deviations of data sets from these means: of all channels together, and of each channel."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t."""
LIFE, LIFE_FACTOR = 0.25, 1.2
"""Standard deviation of a folded layer's responses to flat pictures, and of its logarithm."""
SPREAD_FACTOR = 0.4
"""Standard deviation of the logarithm of the pixels' deviation that a batch normalization gives."""
WEAK = 2.0
"""Limit of the evidence from a folded layer whose mean is not clearly different from zero, since a layer without bias
would look the same."""
CLEAR = 2.5
"""A mean is clear if it is this many deviations from zero."""
NEAR = 1.5
"""Up to this many deviations are an agreement."""
FAR = 4.5
"""If even the best possible preprocessing is this many deviations off, all are contradicted."""


@dataclass(frozen=True)
class Fed:
    """The values that a preprocessing feeds to the model, by channel of the input."""

    mean: Array
    span: Array
    """Value of white minus value of black."""

    @property
    def deviation(self) -> float:
        return float(np.abs(self.span).mean()) * DEVIATION


def compute_fed(preprocess: Preprocess, channels: int) -> Fed:
    """Standard deviation of the values, for natural pictures."""
    natural = np.array(RGB_MEAN if channels == 3 else [GRAY_MEAN] * channels)
    if preprocess.color == "BGR" and channels == 3:
        natural = natural[::-1]
    mean = np.broadcast_to(np.array(preprocess.mean), (channels,))
    std = np.broadcast_to(np.array(preprocess.std), (channels,))
    span = 255 * preprocess.scale / std
    return Fed(natural * span - mean / std, span)


def log_likelihood(layer: FirstLayer, preprocess: Preprocess, channels: int) -> float:
    """Returns the logarithm of the likelihood of the layer's statistics, given this preprocessing; 0 without
    statistics."""
    if layer.mean is None or layer.covariance is None:
        return 0.0
    fed = compute_fed(preprocess, channels)
    with np.errstate(all="ignore"):
        value = _of_mean(layer, fed) + _of_spread(layer, fed)
    return value if math.isfinite(value) else 0.0


def distance(layer: FirstLayer, preprocess: Preprocess, channels: int) -> float:
    """Returns by how many deviations the layer differs from this preprocessing, in the worse of its two statistics."""
    if layer.mean is None or layer.covariance is None:
        return 0.0
    fed = compute_fed(preprocess, channels)
    with np.errstate(all="ignore"):
        quadratic, _ = _measure_quadratic(layer, fed)
    mean = math.sqrt(max(quadratic, 0.0) / channels)
    return max(mean, abs(_score_spread(layer, fed)))


def has_clear_mean(layer: FirstLayer) -> bool:
    """Returns whether the layer's mean clearly differs from zero."""
    if layer.mean is None or layer.covariance is None:
        return False
    ones = np.ones(len(layer.mean))
    precision = np.linalg.pinv(layer.covariance)
    weight = float(ones @ precision @ ones)
    joint = float(ones @ precision @ layer.mean) / weight if weight > 0 else 0.0
    return abs(joint) * math.sqrt(weight) >= CLEAR


def _of_mean(layer: FirstLayer, fed: Fed) -> float:
    quadratic, determinant = _measure_quadratic(layer, fed)
    count = len(fed.mean)
    value = -(FREEDOM + count) / 2 * math.log1p(quadratic / FREEDOM) - determinant / 2
    if layer.kind != "folded" or has_clear_mean(layer):
        return value
    best = -determinant / 2
    return best + max(value - best, -WEAK)


def _measure_quadratic(layer: FirstLayer, fed: Fed) -> tuple[float, float]:
    """Returns the squared distance of the means and the logarithm of the determinant by which it is normalized."""
    assert layer.mean is not None  # both callers have checked
    assert layer.covariance is not None
    span = np.abs(fed.span)
    covariance = layer.covariance + SHARED**2 * np.outer(span, span) + np.diag((APART * span) ** 2)
    away = layer.mean - fed.mean
    _, determinant = np.linalg.slogdet(covariance)
    return float(away @ np.linalg.solve(covariance, away)), float(determinant)


def _of_spread(layer: FirstLayer, fed: Fed) -> float:
    score = _score_spread(layer, fed)
    return -(FREEDOM + 1) / 2 * math.log1p(score * score / FREEDOM)


def _score_spread(layer: FirstLayer, fed: Fed) -> float:
    if not layer.spread:
        return 0.0
    if layer.kind == "folded":
        return math.log(layer.spread * fed.deviation / LIFE) / LIFE_FACTOR
    return math.log(layer.spread / fed.deviation) / SPREAD_FACTOR
