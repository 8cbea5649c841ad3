"""Sets up training for a running `modelmill up`: `python -m app.standalone.training_setup RUN_DIR`.

Installs Ray into this Python environment if it is missing, then signals the running stack to start a Ray cluster.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

from app.kit.files.data_files import PACKAGE
from app.standalone.data_folder import Lock
from app.standalone.launch import TRAINING_SIGNAL

EXTRA = "train"
LOCKS = ("ops/requirements.lock", "ops/requirements-train.lock")
IN_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def main() -> int:
    run = Path(sys.argv[1])
    if not is_installed() and not _install():
        return 1
    owner = Lock.owner(run)
    if owner is None:
        print("`modelmill up` has ended in the meantime.")
        return 1
    print("A Ray cluster is starting on this machine. The pages restart and are away for a moment.")
    os.kill(owner, TRAINING_SIGNAL)
    return 0


def is_installed() -> bool:
    """Returns whether Ray is."""
    importlib.invalidate_caches()
    return find_spec("ray") is not None


def _install() -> bool:
    packages = list(requirements())
    if find_spec("pip") is None or not packages:
        print(f"This Python environment has no pip. Install the extra `{EXTRA}` of modelmill the way you installed")
        print("modelmill, then press the button again.")
        return False
    print(f"Installing {' and '.join(packages)} from PyPI, about 100 MB …")
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    code = subprocess.run([*command, "--progress-bar=off", *_constraints(), *packages], check=False).returncode
    if code:
        print(f"pip ended with exit code {code}; the reason is above. Nothing else was changed.")
    return code == 0


def requirements() -> Iterator[str]:
    """Yields what the extra needs, without markers."""
    try:
        for requirement in requires("modelmill") or ():
            package, _, marker = requirement.partition(";")
            extra = IN_EXTRA.search(marker)
            if extra is not None and extra[1] == EXTRA:
                yield package.strip()
    except PackageNotFoundError:
        return


def _constraints() -> list[str]:
    """Returns the versions that this checkout is tested with; an installed wheel does not have them."""
    paths = [PACKAGE.parent / name for name in LOCKS]
    return [f"--constraint={path}" for path in paths if path.is_file()]


if __name__ == "__main__":
    sys.exit(main())
