"""How models are shown in answers."""

from __future__ import annotations

from app.model_registry.schemas import TensorAnswer


def test_an_open_side_without_a_name_is_a_question_mark() -> None:
    tensor = TensorAnswer.model_validate({"name": "x", "shape": [1, 3, None, "width"], "dtype": "float32"})
    assert tensor.shape == [1, 3, "?", "width"]
