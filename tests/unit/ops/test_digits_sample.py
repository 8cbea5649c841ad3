"""The example of a training program and its task."""

from __future__ import annotations

from app.training.model import Workload
from app.training.spec import read_spec
from tests.harness.paths import REPOSITORY

FOLDER = REPOSITORY / "ops/samples/digits"


def test_its_task_names_files_that_are_there_and_that_it_writes() -> None:
    spec, _ = read_spec((FOLDER / "train.yaml").read_bytes())
    assert (spec.workload, spec.n_gpus_per_node, spec.cpus) == (Workload.SCRIPT, 0, 1)
    assert spec.code_path == "/private/common/code/digits" and (FOLDER / spec.program).is_file()
    assert spec.convert is not None
    program = (FOLDER / spec.program).read_text()
    assert f'folder / "{spec.convert.model}"' in program and f'folder / "{spec.convert.images}"' in program
