"""`modelmill run`: what it shows of a model's outputs, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.conversion.cli import local_run
from app.inference.errors import InvalidModel
from app.kit.errors import BadInput


def test_an_output_of_one_score_per_class_gets_its_best_five() -> None:
    scores = np.arange(10, dtype=np.float32)[np.newaxis]
    shown = local_run.to_json(local_run.InferenceResult("a.png", {"logits": scores}))
    assert [entry["class"] for entry in shown["outputs"][0]["top"]] == [9, 8, 7, 6, 5]


def test_scores_that_are_probabilities_are_shown_as_they_are() -> None:
    shown = local_run.to_json(local_run.InferenceResult("a.png", {"p": np.array([[0.7, 0.2, 0.1]], np.float32)}))
    assert shown["outputs"][0]["top"][0]["probability"] == pytest.approx(0.7)


def test_other_outputs_get_their_shape_and_range() -> None:
    boxes = np.zeros((1, 5, 4), np.float32)
    assert (
        list(local_run.lines([local_run.InferenceResult("a", {"boxes": boxes})]))[1]
        .strip()
        .startswith("boxes: float32 [1, 5, 4]")
    )


@pytest.mark.parametrize("count", [1, 2])
def test_outputs_that_cannot_be_written_are_said(tmp_path: Path, count: int) -> None:
    results = [local_run.InferenceResult("a", {"boxes": np.zeros((1, 4), np.float32)})] * count
    with pytest.raises(BadInput, match=r"cannot be saved to .*No such file"):
        local_run.save(results, tmp_path / "none" / "out.npz")


def test_outputs_of_several_shapes_are_not_stacked(tmp_path: Path) -> None:
    results = [local_run.InferenceResult(str(n), {"boxes": np.zeros((n, 4), np.float32)}) for n in (1, 2)]
    with pytest.raises(BadInput, match="same shape"):
        local_run.save(results, tmp_path / "out.npz")


def test_a_kneron_nef_is_said_to_need_the_vendors_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models_520.nef"
    path.write_bytes(b"vendor")
    monkeypatch.setattr(local_run, "_is_kneron", lambda _: True)
    with pytest.raises(InvalidModel, match="vendor's runtime"):
        local_run.open_model(path)
