"""Pins the installed packages: the closure of the project's requirements as exact versions, one file per purpose."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

OPS = Path(__file__).parent
PYPROJECT = OPS.parent / "pyproject.toml"
PYTHONS: tuple[dict[str, str], ...] = ({}, {"python_full_version": "3.11.2"})
"""Markers are evaluated for the running Python and for that of Debian 12."""
HEAD = "# {purpose}: exact versions, made by ops/lock. Do not edit.\n"


def main() -> int:
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = declared["project"]
    extras = project["optional-dependencies"]
    try:
        runtime = closure([*declared["build-system"]["requires"], *project["dependencies"]])
        test = closure(extras["test"])
        train = closure([*extras["train"], *extras["sample"], *extras["pytorch"], *extras["tflite"]])
    except (PackageNotFoundError, ValueError) as error:
        print(f"Cannot pin: {error}. Run ops/lock --upgrade.", file=sys.stderr)
        return 1
    write(OPS / "requirements.lock", "What Modelmill runs on, and hatchling, which installs it", runtime)
    write(OPS / "requirements-test.lock", "What the checks need beyond requirements.lock", without(test, runtime))
    beyond = without(train, runtime | test)
    purpose = "What Ray, the sample that trains, exported programs and TFLite models need beyond the other two"
    write(OPS / "requirements-train.lock", purpose, beyond)
    return 0


def closure(requirements: Iterable[str]) -> dict[str, str]:
    """Returns canonical name → installed version, of the requirements and of all that they require on this platform.

    Raises:
        PackageNotFoundError: A package is not installed.
        ValueError: An installed version is not the required one.
    """
    pinned: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, wanted_by = waiting.pop()
        name = canonicalize_name(requirement.name)
        if not _applies(requirement, ("", wanted_by)):
            continue
        installed = distribution(name)
        if not requirement.specifier.contains(installed.version, prereleases=True):
            raise ValueError(f"{name} {installed.version} is installed, {requirement} is required")
        pinned[name] = Version(installed.version).public  # one build for CPUs only is as good as another
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(Requirement(text), extra) for text in installed.requires or []]
    return pinned


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Returns whether it is required on this Python, or on the oldest supported one."""
    return requirement.marker is None or any(
        requirement.marker.evaluate({"extra": extra, **python}) for extra in extras for python in PYTHONS
    )


def without(pinned: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return {name: version for name, version in pinned.items() if name not in others}


def write(path: Path, purpose: str, pinned: dict[str, str]) -> None:
    lines = [f"{name}=={version}\n" for name, version in sorted(pinned.items())]
    path.write_text(HEAD.format(purpose=purpose) + "".join(lines), encoding="utf-8")
    print(f"{path.name}: {len(lines)} packages")


if __name__ == "__main__":
    sys.exit(main())
