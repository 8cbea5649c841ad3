"""What may be chosen of preprocessing is read alike by the API, through pydantic, and by nodes, which do without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.inference.preprocess_options import Preprocess, is_default, read_preprocess
from app.kit.text.json_form import FormError

FORM = TypeAdapter(Preprocess)


def test_the_default_is_told_from_a_choice() -> None:
    assert is_default(Preprocess().to_json())
    assert not is_default(Preprocess(scale=1).to_json())


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
    written = json.loads(FORM.dump_json(FORM.validate_python(chosen)))
    assert read_preprocess(written) == read_preprocess(chosen)
    assert {name: getattr(read_preprocess(chosen), name) for name in written} == FORM.dump_python(
        FORM.validate_python(chosen)
    )


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
        read_preprocess({name: value})
    with pytest.raises(ValidationError) as also:
        FORM.validate_python({name: value})
    assert refused.value.place[0] == also.value.errors()[0]["loc"][0] == name
