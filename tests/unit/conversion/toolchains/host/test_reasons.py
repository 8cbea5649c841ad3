"""The errors of the runtime speak to a user."""

from __future__ import annotations

import pytest

from app.inference.runtimes.sessions import explain
from app.kit.text.plain_text import reason_of


@pytest.mark.parametrize("error", [MemoryError(), ValueError(), KeyError(""), RuntimeError("  \n ")])
def test_an_exception_without_words_is_told_in_ours(error: Exception) -> None:
    assert type(error).__name__ not in reason_of(error) and len(reason_of(error)) > 1


def test_the_runtimes_words_name_no_folder_of_the_worker() -> None:
    told = explain(RuntimeError("Load model from /srv/data/work/1-2/model.onnx failed: node /model/conv/Conv is bad"))
    assert "Load model from model.onnx failed: node /model/conv/Conv is bad" in told.message
    assert "/srv" not in str(told.to_dict())
