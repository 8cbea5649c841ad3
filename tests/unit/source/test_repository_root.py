"""The root of the repository holds what the documents name and nothing that a command left there."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.harness.paths import REPOSITORY

ROOT = {
    *(".ci", ".devcontainer", ".dockerignore", ".gitignore", ".pre-commit-config.yaml"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"),
    *("actors", "app", "docs", "ops", "static", "templates", "tests"),
}


@pytest.mark.skipif(
    not (REPOSITORY / ".git").exists() or shutil.which("git") is None, reason="only a clone knows what is committed"
)
def test_only_known_names_are_committed_at_the_root() -> None:
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    files = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    assert {name.split("/")[0] for name in files.splitlines()} == ROOT
