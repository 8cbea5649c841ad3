"""How well a preprocessing agrees with a model's first layer. Pure arithmetic.

Likelihoods have heavy tails: a filter is not proof, and data sets differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.conversion.intake.first_layer import FirstLayer
from app.conversion.intake.graph_view import Array
from app.inference.preprocess_options import Preprocess

RGB_MEAN, GRAY_MEAN, DEVIATION = (0.470, 0.440, 0.405), 0.44, 0.27
"""Of natural pictures, in 0..1: between those of ImageNet, COCO and WIDER FACE."""
SHARED, APART = 0.11, 0.02
"""How data sets differ from them: all channels together, and each for itself."""
FREEDOM = 4.0
"""Of Student's t."""
LIFE, LIFE_FACTOR = 0.25, 1.2
"""Deviation of a folded layer's answers to flat pictures, and the deviation of its logarithm."""
SPREAD_FACTOR = 0.4
"""Deviation of the logarithm of what batch normalization tells of the pixels' deviation."""
WEAK = 2.0
"""What a folded layer may say where its mean is not clear of zero: no bias at all would look the same."""
CLEAR = 2.5
"""Deviations away from zero that make a mean clear."""
NEAR = 1.5
"""Deviations away that are an agreement."""
FAR = 4.5
"""Deviations away from the best thinkable that contradict all."""


@dataclass(frozen=True)
class Fed:
    """What a preprocessing feeds, by channel of the input."""

    mean: Array
    span: Array
    """Value of white less value of black."""

    @property
    def deviation(self) -> float:
        return float(np.abs(self.span).mean()) * DEVIATION


def fed_by(preprocess: Preprocess, channels: int) -> Fed:
    """Of natural pictures."""
    natural = np.array(RGB_MEAN if channels == 3 else [GRAY_MEAN] * channels)
    if preprocess.color == "BGR" and channels == 3:
        natural = natural[::-1]
    mean = np.broadcast_to(np.array(preprocess.mean), (channels,))
    std = np.broadcast_to(np.array(preprocess.std), (channels,))
    span = 255 * preprocess.scale / std
    return Fed(natural * span - mean / std, span)


def log_likelihood(layer: FirstLayer, preprocess: Preprocess, channels: int) -> float:
    """Of what the layer tells, if the model was trained with this preprocessing; 0 if it tells nothing."""
    if layer.mean is None or layer.covariance is None:
        return 0.0
    fed = fed_by(preprocess, channels)
    with np.errstate(all="ignore"):
        value = _of_mean(layer, fed) + _of_spread(layer, fed)
    return value if math.isfinite(value) else 0.0


def distance(layer: FirstLayer, preprocess: Preprocess, channels: int) -> float:
    """How many deviations the layer is away from this preprocessing, by its worse tell."""
    if layer.mean is None or layer.covariance is None:
        return 0.0
    fed = fed_by(preprocess, channels)
    with np.errstate(all="ignore"):
        quadratic, _ = _quadratic(layer, fed)
    mean = math.sqrt(max(quadratic, 0.0) / channels)
    return max(mean, abs(_spread_score(layer, fed)))


def has_clear_mean(layer: FirstLayer) -> bool:
    """Is the mean not zero, as the layer tells it?"""
    if layer.mean is None or layer.covariance is None:
        return False
    ones = np.ones(len(layer.mean))
    precision = np.linalg.pinv(layer.covariance)
    weight = float(ones @ precision @ ones)
    joint = float(ones @ precision @ layer.mean) / weight if weight > 0 else 0.0
    return abs(joint) * math.sqrt(weight) >= CLEAR


def _of_mean(layer: FirstLayer, fed: Fed) -> float:
    quadratic, determinant = _quadratic(layer, fed)
    count = len(fed.mean)
    value = -(FREEDOM + count) / 2 * math.log1p(quadratic / FREEDOM) - determinant / 2
    if layer.kind != "folded" or has_clear_mean(layer):
        return value
    best = -determinant / 2
    return best + max(value - best, -WEAK)


def _quadratic(layer: FirstLayer, fed: Fed) -> tuple[float, float]:
    """Squared distance of the means, and the logarithm of the determinant it is measured by."""
    assert layer.mean is not None  # both callers have looked
    assert layer.covariance is not None
    span = np.abs(fed.span)
    covariance = layer.covariance + SHARED**2 * np.outer(span, span) + np.diag((APART * span) ** 2)
    away = layer.mean - fed.mean
    _, determinant = np.linalg.slogdet(covariance)
    return float(away @ np.linalg.solve(covariance, away)), float(determinant)


def _of_spread(layer: FirstLayer, fed: Fed) -> float:
    score = _spread_score(layer, fed)
    return -(FREEDOM + 1) / 2 * math.log1p(score * score / FREEDOM)


def _spread_score(layer: FirstLayer, fed: Fed) -> float:
    if not layer.spread:
        return 0.0
    if layer.kind == "folded":
        return math.log(layer.spread * fed.deviation / LIFE) / LIFE_FACTOR
    return math.log(layer.spread / fed.deviation) / SPREAD_FACTOR
