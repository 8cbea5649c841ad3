"""What may be chosen of preprocessing is the same where it is asked for and on nodes, which read it by themselves."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from pydantic import ValidationError

from app.inference.preparation import Preparation, is_default, read_preparation
from app.inference.preprocess_options import Preprocess
from app.kit.text.json_form import FormError


def test_fields_and_defaults_are_the_same() -> None:
    assert [field.name for field in fields(Preparation)] == list(Preprocess.model_fields)
    assert is_default(Preprocess().model_dump(mode="json"))
    assert not is_default(Preprocess(scale=1).model_dump(mode="json"))


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"color": "BGR", "resize": "letterbox", "pad_value": 0},
        {"scale": 1, "mean": [127], "std": [128]},
        {"pad_value": 255, "mean": [1, 2, 3, 4], "std": [0.1, 2, 3, 4]},
    ],
)
def test_what_is_chosen_is_read_as_it_was_written(chosen: dict[str, Any]) -> None:
    written = json.loads(Preprocess.model_validate(chosen).model_dump_json())
    assert read_preparation(written) == read_preparation(chosen)
    assert {name: getattr(read_preparation(chosen), name) for name in written} == Preprocess(**chosen).model_dump()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "RGB"),
        ("color", "RGBA"),
        ("resize", "crop"),
        ("pad_value", -1),
        ("pad_value", 256),
        ("pad_value", 0.5),
        ("scale", "big"),
        ("scale", float("inf")),
        ("mean", 1),
        ("mean", []),
        ("mean", [1] * 5),
        ("mean", [None]),
        ("std", [1, 0]),
        ("std", [-1]),
        ("std", [1] * 5),
        ("std", [float("nan")]),
    ],
)
def test_both_refuse_the_same_and_name_the_field(name: str, value: Any) -> None:
    with pytest.raises(FormError) as refused:
        read_preparation({name: value})
    with pytest.raises(ValidationError) as also:
        Preprocess.model_validate({name: value})
    assert refused.value.place[0] == also.value.errors()[0]["loc"][0] == name
