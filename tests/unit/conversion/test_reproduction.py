"""What `modelmill reproduce` says of two jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.conversion.reproduction import Sameness, compare, find_changed_versions


def record(toolchain: str = "host", versions: dict[str, str] | None = None, **digests: str) -> dict[str, Any]:
    return {
        "options": {"toolchain": toolchain},
        "artifacts": {name.replace("_", "."): {"sha256": digest} for name, digest in digests.items()},
        "stages": {"onnx": {"versions": versions or {}}},
    }


def nothing(*_: object) -> Path:
    pytest.fail("nothing has to be downloaded for this")


def test_equal_bytes_are_the_same_without_a_download() -> None:
    job = record(out_onnx="1", out_bie="2", out_nef="3")
    assert [output.sameness for output in compare(job, job, nothing)] == [Sameness.BYTES] * 3


def test_a_vendors_file_is_compared_by_its_bytes_alone() -> None:
    before, after = (record("kneron", out_onnx="1", out_bie="2", out_nef=last) for last in ("3", "4"))
    outputs = compare(before, after, nothing)
    assert [output.is_same for output in outputs] == [True, True, False]
    assert "not open" in outputs[2].differences[0]


def test_an_output_that_one_lacks_is_not_the_same() -> None:
    before, after = record(out_onnx="1", out_bie="2", out_nef="3"), record(out_onnx="1", out_bie="2")
    last = compare(before, after, nothing)[-1]
    assert (last.sameness, last.is_same, last.sha256) == (Sameness.MISSING, False, ("3", ""))


def test_versions_that_differ_are_named() -> None:
    before, after = (
        record(versions={"onnx": "1", "numpy": "2"}),
        record(versions={"onnx": "1", "numpy": "3", "new": "1"}),
    )
    assert find_changed_versions(before, after) == {"numpy": ("2", "3"), "new": ("none", "1")}
