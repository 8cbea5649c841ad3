"""The shell scripts of ops, by shellcheck."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.deployment_files import command
from tests.harness.paths import REPOSITORY


def is_shell(path: Path) -> bool:
    if not path.is_file() or path.suffix not in {"", ".sh"}:
        return False
    with path.open("rb") as file:
        return path.suffix == ".sh" or (file.read(2) == b"#!" and b"sh" in file.readline())


SCRIPTS = sorted(path for folder in ("ops", ".ci") for path in (REPOSITORY / folder).rglob("*") if is_shell(path))


def test_the_scripts_are_found() -> None:
    names = {path.name for path in SCRIPTS}
    assert {"install-systemd", "lib.sh", "make-secrets", "quickstart", "test"} <= names


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_no_error_or_warning(path: Path) -> None:
    checker = [command("shellcheck"), "--external-sources", "--shell=bash", "--severity=warning", "--exclude=SC2034"]
    ran = subprocess.run([*checker, str(path)], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
