"""A virtual environment for each peer, made on first use and again when what it needs has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from ops.benchmarks.peers.systems import OWN, REQUIREMENTS
from tests.harness.paths import REPOSITORY

FOLDER = REPOSITORY / ".venv-peers"
INSTALL_S = 1800
"""PyTorch, which two of them need, comes with gigabytes of CUDA unless pip finds a build without it."""


def programs_of(environment: str) -> Path:
    """Returns the bin folder of an environment that has what it needs.

    Raises:
        RuntimeError: It cannot be had.
    """
    if environment == OWN:
        return Path(sys.executable).parent
    folder = FOLDER / environment
    requirements = "\n".join(REQUIREMENTS[environment])
    stamp = folder / "requirements.txt"
    if not stamp.is_file() or stamp.read_text() != requirements:
        print(f"Installing {requirements.splitlines()[0]} under {folder} …", file=sys.stderr)
        _make(folder, REQUIREMENTS[environment])
        stamp.write_text(requirements)
    return folder / "bin"


def _make(folder: Path, requirements: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run([*pip, *requirements], capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not installed: pip took more than {INSTALL_S} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise RuntimeError(f"not installed: {last}")
