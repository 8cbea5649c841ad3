"""The example of a training program, as far as it comes without PyTorch: what it says where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

FOLDER = REPOSITORY / "ops/samples/digits"
WITHOUT = """
import runpy, sys
sys.modules[sys.argv[1]] = None
runpy.run_path(sys.argv[2], run_name="__main__")
"""


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "torch"])
def test_a_missing_package_ends_it_with_its_name_and_what_to_do(tmp_path: Path, package: str) -> None:
    env = {**os.environ, "MODELMILL_JOB_FOLDER": str(tmp_path), "PYTHONPATH": str(FOLDER)}
    command = [sys.executable, "-c", WITHOUT, package, str(FOLDER / "train_torch.py")]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert f"There is no Python package {package}" in ended.stderr
    assert f"{sys.executable}" in ended.stderr and "pip install" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())
