"""Installs an extra of this package into its own Python environment, for demonstrations that a button starts."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from app.kit.files import PACKAGE

LOCKS = ("ops/requirements.lock", "ops/requirements-train.lock", "ops/requirements-test.lock")
IN_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def ensure_extra(extra: str, module: str) -> bool:
    """Installs an extra if its module is missing, and prints what happens.

    Args:
        extra: as in pyproject.toml.
        module: what it makes importable.

    Returns:
        Whether the module is there.
    """
    return is_installed(module) or _install(extra)


def is_installed(module: str) -> bool:
    """Whether the module can be imported; also right after its installation."""
    importlib.invalidate_caches()
    return find_spec(module) is not None


def _install(extra: str) -> bool:
    packages = list(requirements(extra))
    if find_spec("pip") is None or not packages:
        print("This Python environment has no pip, or does not know what modelmill needs.")
        print(f"Install the extra `{extra}` of modelmill the way you installed modelmill, then press the button again.")
        return False
    print(f"Installing {' and '.join(packages)} from PyPI …", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    code = subprocess.run([*command, "--progress-bar=off", *_list_constraints(), *packages], check=False).returncode
    if code:
        print(f"pip ended with exit code {code}; the reason is above. Nothing else was changed.")
    importlib.invalidate_caches()
    return code == 0


def requirements(extra: str) -> Iterator[str]:
    """Yields what the extra needs, without markers."""
    try:
        for requirement in requires("modelmill") or ():
            package, _, marker = requirement.partition(";")
            match = IN_EXTRA.search(marker)
            if match is not None and match[1] == extra:
                yield package.strip()
    except PackageNotFoundError:
        return


def _list_constraints() -> list[str]:
    """Returns the versions that this checkout is tested with; an installed wheel does not have them."""
    paths = [PACKAGE.parent / name for name in LOCKS]
    return [f"--constraint={path}" for path in paths if path.is_file()]
