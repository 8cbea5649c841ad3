"""The bundled sample through all stages of the host toolchain."""

from __future__ import annotations

import zipfile
from pathlib import Path

from app.conversion.model import Stage
from app.conversion.toolchains.host.accuracy import compare_accuracy
from tests.harness.models.host import run_all, work_folder
from tests.harness.paths import SAMPLES

SAMPLE = SAMPLES / "digits"


def test_the_bundled_sample_keeps_its_accuracy_in_int8(tmp_path: Path) -> None:
    def references(folder: Path) -> None:
        with zipfile.ZipFile(SAMPLE / "reference.zip") as archive:
            archive.extractall(folder)

    folder = work_folder(tmp_path, SAMPLE / "digits.onnx", references)
    reports = run_all(folder)
    assert all(result.output.stat().st_size > 0 for result in reports.values())
    output = reports[Stage.BIE].report["quality"]["outputs"][0]
    assert "saturates" not in output and 25 < output["snr_db"]["mean"] < 60
    result = compare_accuracy(SAMPLE / "digits.onnx", folder / "out.nef", SAMPLE / "test.npz")
    assert result.samples == 100
    assert result.fp32 > 0.95
    assert result.int8 >= result.fp32 - 0.02
