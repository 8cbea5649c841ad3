"""A real MLflow server, in an environment of its own: it brings half of PyPI along.

MODELMILL_TEST_MLFLOW names the program; without it, .venv-mlflow/bin/mlflow of the checkout is looked for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port

START_S = 120


@contextmanager
def running_mlflow(folder: Path) -> Iterator[str]:
    """Its address. Skips where it is not installed, but fails in CI."""
    program = Path(os.environ.get("MODELMILL_TEST_MLFLOW") or REPOSITORY / ".venv-mlflow" / "bin" / "mlflow")
    if not program.exists():
        missing = "There is no MLflow: python -m venv .venv-mlflow && .venv-mlflow/bin/pip install mlflow"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    port = free_port()
    command: list[str | Path] = [program, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    store = [
        "--backend-store-uri",
        f"sqlite:///{folder / 'mlflow.db'}",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    with (folder / "mlflow.log").open("wb") as log:
        server = subprocess.Popen([*command, *store], cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}", server, folder / "mlflow.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{url}/health", trust_env=False, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"MLflow did not start: {log.read_text()[-2000:]}")
