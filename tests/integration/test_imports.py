"""Processes load what they use and no more; the fork server of a worker loads all that its stage will use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.conversion.model import Stage
from tests.harness.models.host import convolutional, pictures, work_folder
from tests.harness.paths import REPOSITORY

HEAVY = ("numpy", "onnx", "onnxruntime", "onnxslim", "sympy", "PIL", "sqlalchemy", "jinja2")
"""Each is tens of megabytes, which every worker would hold, or a good part of a second of its start."""


def printed(*command: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_worker_that_only_converts_loads_no_heavy_library_itself(tmp_path: Path) -> None:
    loaded = printed(
        "-c",
        "import actors, sys; print(*sys.modules, sep='\\n')",
        MODELMILL_DATA_DIR=str(tmp_path),
        MODELMILL_SECRET_KEY="x",
    )
    assert "actors.conversion" in loaded
    assert not {name.partition(".")[0] for name in loaded} & set(HEAVY)


def test_help_imports_no_heavy_library() -> None:
    heavy = ("onnx", "onnxruntime", "numpy", "dramatiq", "redis", "pydantic", "httpx")
    loaded = printed("-c", "import app.cli.main, sys; print(*sys.modules, sep='\\n')")
    assert "app.cli.main" in loaded and not set(heavy) & set(loaded)


def test_reading_a_nef_loads_neither_onnx_nor_numpy() -> None:
    loaded = printed("-c", "import app.conversion.toolchains.kneron.nef, sys; print(*sys.modules, sep='\\n')")
    assert "app.conversion.toolchains.kneron.nef" in loaded and not {"onnx", "numpy"} & set(loaded)


def test_onnxruntime_reports_nothing_of_what_is_run_to_its_maker(tmp_path: Path) -> None:
    """As soon as it loads it would keep an identity and a database of what it has to send in the home of its user."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    program = "import app, onnxruntime; print(onnxruntime.__version__)"
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**environment, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        check=True,
    )
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
def test_no_stage_loads_a_library_that_its_fork_server_could_have_loaded_before(tmp_path: Path) -> None:
    folder = work_folder(tmp_path, convolutional(), pictures(4))
    for stage in Stage:
        modules = printed("-m", "tests.harness.loaded_modules", stage, str(folder))
        *_, loaded = modules
        packages = {name.partition(".")[0] for name in loaded.split(",")}
        assert packages <= {"", *sys.stdlib_module_names}, stage
