"""Several models in one form."""

from __future__ import annotations

from pathlib import Path

from app.conversion.pages import new_submission
from app.kit.web.forms import SentFile


def test_weights_go_with_the_model_whose_name_they_begin_with() -> None:
    names = ["a.onnx.data", "b.onnx", "a.onnx", "shared.bin", "c.zip"]
    groups = new_submission.group_models([SentFile(name, Path(name)) for name in names])
    assert [[file.name for file in group] for group in groups] == [
        ["b.onnx", "shared.bin"],
        ["a.onnx", "a.onnx.data"],
        ["c.zip"],
    ]


def test_the_files_of_one_model_stay_together_whatever_they_are_called() -> None:
    files = [SentFile(name, Path(name)) for name in ("weights.bin", "net.onnx")]
    assert new_submission.group_models(files) == [files]


def test_further_models_are_kept_as_lines() -> None:
    names = {"uploads/1/model.onnx": "a b.onnx", "uploads/2/model.onnx": "c.onnx"}
    values = {"more_models": new_submission.further_lines(names), "model_name": "first.onnx"}
    assert new_submission.further_keys(values) == names
    assert new_submission.name_of(values) == "first + 2"
