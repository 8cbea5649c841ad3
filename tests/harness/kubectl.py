"""kubectl, as a user of this product types it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.until import PATIENCE_S

NEWEST_THAT_VALIDATES_HERSELF = (1, 26)
"""Later ones leave the check of fields to the server; earlier ones want OpenAPI 2, which is not served."""
NAME = "helmet-detection-demo"
"""Of the service of the sample."""
Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


def installed_kubectl() -> str:
    """Debian 12 has no kubectl that is new enough, and no other package brings one: where there is none, these tests
    are skipped, in CI too. The same requests are made over HTTP in test_kubernetes_api."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("needs kubectl, of 1.27 or newer; Debian 12 has none")
    ran = subprocess.run([program, "version", "--client", "-o", "yaml"], capture_output=True, text=True, check=True)
    version = yaml.safe_load(ran.stdout)["clientVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) <= NEWEST_THAT_VALIDATES_HERSELF:
        pytest.skip("needs a kubectl of 1.27 or newer, which leaves the check of fields to the server")
    return program


def kubectl_of(program: str, folder: Path, config: Path) -> Kubectl:
    def run(*words: Any, fails: bool = False, status: int = 0, env: Mapping[str, str] | None = None) -> Any:
        command = [program, "--kubeconfig", str(config), *map(str, words)]
        whole = {**environment(folder), **(env or {})}
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=whole,
            check=False,
        )
        assert ran.returncode == (1 if fails else status), ran.stdout + ran.stderr
        return ran

    return run


def environment(folder: Path) -> dict[str, str]:
    """Its cache and its settings are the test's own."""
    return {**os.environ, "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
