"""Drift: the measure, and when it is above its threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from app.joint_inference.model.drift import (
    DRIFT,
    LEAST_OBJECTS,
    MOST_CLASSES,
    OTHER,
    Drift,
    DriftReference,
    ReferenceKind,
    ScoreDistribution,
    distribution_of,
    measure,
    stability_index,
)

AT = "2026-11-26T12:00:00.000Z"


def seen(count: int, score: float, label: str = "car") -> ScoreDistribution:
    return distribution_of([[(label, score)]] * count)


def watch(reference: ScoreDistribution) -> Drift:
    return Drift(DriftReference(ReferenceKind.WINDOW, reference))


def test_equal_shares_have_no_distance_and_it_grows_with_what_moved() -> None:
    assert stability_index([100, 100], [100, 100]) == 0
    assert stability_index([100, 100], [110, 90]) < 0.1 < 0.25 < stability_index([100, 100], [160, 40])


def test_it_is_the_population_stability_index() -> None:
    expected = (0.3 - 0.5) * math.log(0.3 / 0.5) + (0.7 - 0.5) * math.log(0.7 / 0.5)
    assert stability_index([50_000, 50_000], [30_000, 70_000]) == pytest.approx(expected, rel=1e-4)


def test_an_empty_bin_is_no_infinite_distance() -> None:
    assert math.isfinite(stability_index([200, 0], [0, 200]))


def test_objects_are_counted_by_score_and_class_and_rare_classes_together() -> None:
    counted = distribution_of([[("car", 1.0), ("", None)], [], [("cow", 0.05)]])
    assert (counted.pictures, counted.objects, counted.scores[0], counted.scores[9]) == (3, 3, 1, 1)
    many = distribution_of([[(f"c{n}", 0.5) for n in range(MOST_CLASSES + 7)]])
    assert (many.classes[OTHER], many.objects) == (7, MOST_CLASSES + 7)


def test_too_few_objects_are_not_compared() -> None:
    few = measure(watch(seen(LEAST_OBJECTS, 0.9)), seen(LEAST_OBJECTS - 1, 0.1), AT)
    assert (few.scores, few.classes, few.is_above) == (None, None, False)


def test_drift_begins_above_the_threshold_and_ends_clearly_below_it() -> None:
    drift = replace(watch(seen(200, 0.9)), threshold=5.0)
    assert not measure(drift, seen(200, 0.9), AT).is_above
    far = measure(drift, seen(200, 0.1), AT)
    assert far.is_above
    assert far.classes == 0
    assert far.scores is not None
    edge = replace(drift, threshold=far.scores * 1.1)
    assert not measure(edge, seen(200, 0.1), AT).is_above
    assert measure(replace(edge, measured=far), seen(200, 0.1), AT).is_above, "it began, and is not over yet"
    assert replace(drift, measured=far).message == f"Drift: scores {far.scores:.2f}, classes 0.00; the threshold is 5."
    assert drift.message == ""


def test_another_class_is_drift_too() -> None:
    other = measure(watch(seen(200, 0.9)), seen(200, 0.9, "cow"), AT)
    assert other.scores == 0
    assert other.is_above


def test_a_watch_is_stored_as_json() -> None:
    drift = watch(seen(150, 0.3))
    whole = replace(drift, measured=measure(drift, seen(150, 0.8), AT))
    assert DRIFT.read(DRIFT.write(whole)) == whole
