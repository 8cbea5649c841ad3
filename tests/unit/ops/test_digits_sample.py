"""The example of a training program, as far as it comes without PyTorch: what it says where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.training.model import Workload
from app.training.spec import read_spec
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


def test_its_task_names_files_that_are_there_and_that_it_writes() -> None:
    spec, _ = read_spec((FOLDER / "train.yaml").read_bytes())
    assert (spec.workload, spec.n_gpus_per_node, spec.cpus) == (Workload.SCRIPT, 0, 1)
    assert spec.code_path == "/private/common/code/digits" and (FOLDER / spec.program).is_file()
    assert spec.convert is not None
    program = (FOLDER / spec.program).read_text()
    assert f'folder / "{spec.convert.model}"' in program and f'folder / "{spec.convert.images}"' in program
