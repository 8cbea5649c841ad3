"""What the fork server of a worker begins with."""

from __future__ import annotations

import json
import subprocess
import sys

from app.conversion.model import Stage
from app.conversion.toolchains import libraries
from tests.harness.paths import REPOSITORY

OF_THE_WORKER = {"dramatiq", "redis", "sqlalchemy", "starlette"}
PROGRAM = """
import importlib, json, sys
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))
"""


def test_a_stage_loads_nothing_that_only_its_worker_uses() -> None:
    """Each worker waits at its start until its fork server has loaded everything."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(libraries.of_stages([Stage.BIE, Stage.NEF]))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "onnxruntime" in loaded
    assert loaded & OF_THE_WORKER == set()
