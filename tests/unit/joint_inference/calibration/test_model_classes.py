"""Classes by the names that files give them."""

from __future__ import annotations

import pytest

from app.joint_inference.calibration.labels import ModelClasses
from app.joint_inference.errors import BadSamples


def test_a_class_is_found_by_name_or_number_and_the_first_of_two_with_the_same_name_counts() -> None:
    classes = ModelClasses(["car", "cow", "car"])
    assert [classes.index_of(name, "labels.csv") for name in ("cow", "car", "2", "99")] == [1, 0, 2, 99]


def test_an_unknown_class_is_refused_with_its_place_and_what_is_known() -> None:
    with pytest.raises(BadSamples, match=r"labels\.csv, line 3: the models know no class 'dog'") as refused:
        ModelClasses(["car", "cow", "car"]).index_of("dog", "labels.csv, line 3")
    assert refused.value.hint == "They know car, cow."
    with pytest.raises(BadSamples) as refused:
        ModelClasses([]).index_of("dog", "annotations.json")
    assert "so give their numbers" in (refused.value.hint or "")
