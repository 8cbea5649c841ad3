"""The command line of a task, carried out by a real shell as Ray does it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.training.model import Workload
from app.training.service import TrainingOptions
from app.training.spec import TaskSpec
from app.training.workloads import submission_of
from tests.harness.paths import REPOSITORY
from tests.harness.training.texts import NASTY
from tests.harness.training.verl import HAS_ALL, OPTIMUM, put_optimum


def script(code_path: str, **fields: Any) -> TaskSpec:
    return TaskSpec(workload=Workload.SCRIPT, code_path=code_path, **fields)


@pytest.mark.parametrize("text", NASTY)
def test_a_real_shell_hands_every_word_to_the_program(tmp_path: Path, text: str) -> None:
    """Where the folder, the program and the arguments all have that name."""
    code = tmp_path / "common" / text
    job = tmp_path / "users/alice/jobs/t--a01"
    for folder in (code, job):
        folder.mkdir(parents=True)
    (code / "train.py").write_text("import sys, os; print(repr((sys.argv[1:], os.getcwd())))")
    submission = submission_of(
        script(f"/private/common/{text}", args=[text, "last"]),
        submission_id="t--a01",
        task_id="t",
        user="alice",
        options=TrainingOptions(is_on=True, homes_root=str(tmp_path), python=sys.executable),
        logical_root="/private",
    )
    done = subprocess.run(
        ["/bin/sh", "-c", submission.entrypoint], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == repr(([text, "last"], str(job.resolve()))) + "\n"
    assert not list(tmp_path.rglob("gone"))


def test_the_program_itself_gets_signals_and_gives_the_exit_code(tmp_path: Path) -> None:
    code = tmp_path / "common/code"
    code.mkdir(parents=True)
    (tmp_path / "users/alice/jobs/t--a01").mkdir(parents=True)
    (code / "train.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    submission = submission_of(
        script("/private/common/code"),
        submission_id="t--a01",
        task_id="t",
        user="alice",
        options=TrainingOptions(is_on=True, homes_root=str(tmp_path), python=sys.executable),
        logical_root="/private",
    )
    assert subprocess.run(["/bin/sh", "-c", submission.entrypoint], check=False, timeout=60).returncode == -9


def write_onnx(folder: Path, python: str, **config: object) -> str:
    """What the bundled program says against a model of this config."""
    (folder / "config.json").write_text(json.dumps(config))
    program = REPOSITORY / "ops/samples/export/write_onnx.py"
    done = subprocess.run([python, str(program), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_without_optimum_the_export_says_what_to_install(tmp_path: Path) -> None:
    told = write_onnx(tmp_path, sys.executable, model_type="qwen2", architectures=["Qwen2ForCausalLM"])
    assert told.startswith("ModuleNotFoundError: ") and "No module named 'optimum'" in told
    assert "MODELMILL_ONNX_PYTHON=/that/bin/python" in told


@pytest.mark.exhaustive
@pytest.mark.skipif(not (HAS_ALL and OPTIMUM.is_dir()), reason="optimum is not there: ops/test --all installs it")
@pytest.mark.parametrize(
    ("family", "architecture", "words"),
    [
        ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "is no language model of text alone"),
        ("mamba", "MambaForCausalLM", "no exporter of ONNX for mamba (MambaForCausalLM) here, with transformers 4."),
    ],
)
def test_an_architecture_without_an_exporter_is_refused_by_name(
    tmp_path: Path, family: str, architecture: str, words: str
) -> None:
    python = put_optimum(tmp_path / "python")
    assert words in write_onnx(tmp_path, str(python), model_type=family, architectures=[architecture])
