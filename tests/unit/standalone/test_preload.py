"""What all parts of `modelmill up` begin with: most of what they use, and nothing heavy that few of them need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from app.standalone.preload import PRELOADED
from tests.harness.paths import REPOSITORY

HEAVY = {
    "PIL",
    "aiosmtplib",
    "alembic",
    "av",
    "httpx",
    "huggingface_hub",
    "mcp",
    "mlflow",
    "numpy",
    "onnx",
    "onnxruntime",
    "pillow_heif",
    "ray",
    "rich",
    "torch",
    "typer",
}
PROGRAM = """
import json, sys
from app.standalone.preloaded_parent import preload
preload(json.loads(sys.argv[1]))
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    command = [sys.executable, "-c", PROGRAM, json.dumps(PRELOADED)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_no_heavy_library_is_loaded_before_somebody_needs_it(loaded: set[str]) -> None:
    """Each would be in the memory of an installation that does nothing."""
    assert loaded & HEAVY == set()


def test_what_most_parts_use_is_shared(loaded: set[str]) -> None:
    assert {"asyncssh", "cryptography", "dramatiq", "jinja2", "pydantic", "redis", "sqlalchemy", "uvicorn"} <= loaded
