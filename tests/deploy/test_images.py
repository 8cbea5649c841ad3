"""The Dockerfiles: linted, pinned, and everything they copy exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.harness.deployment_files import DOCKERFILES, command
from tests.harness.paths import REPOSITORY


def instructions(path: Path, name: str) -> list[str]:
    text = re.sub(r"\\\n(\s*#.*\n)*", " ", path.read_text())
    return [line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(f"{name} ")]


def sources(path: Path) -> list[str]:
    copied = [shlex.split(line) for line in instructions(path, "COPY") if "--from" not in line]
    return [source for words in copied for source in words[:-1]]


def test_there_are_two_images() -> None:
    assert [path.name for path in DOCKERFILES] == ["Dockerfile", "Dockerfile.kneron"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_nothing_to_say(path: Path) -> None:
    ran = subprocess.run([command("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_everything_copied_exists_and_is_let_through(path: Path) -> None:
    let_through = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources(path)
    for source in sources(path):
        assert (REPOSITORY / source).exists(), source
        assert source in let_through, source


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_the_image_runs_as_a_number_that_is_not_root(path: Path) -> None:
    assert instructions(path, "USER")[-1] == "10001:10001"


def test_both_images_hold_the_same_application() -> None:
    first, second = ([name for name in sources(path) if not name.startswith("ops/")] for path in DOCKERFILES)
    assert first == second


def test_what_an_image_may_have_more_is_pinned() -> None:
    text = DOCKERFILES[0].read_text()
    assert '--constraint ops/requirements-train.lock "$MORE"' in text
    assert re.search(r"^ray==\d", (REPOSITORY / "ops/requirements-train.lock").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_the_driver_of_postgresql_is_in_the_image_and_pinned(path: Path) -> None:
    (constraint,) = set(re.findall(r"--constraint (\S+) \"psycopg\[binary\]\"", path.read_text()))
    assert constraint in sources(path)
    pinned = (REPOSITORY / constraint).read_text()
    assert {"psycopg", "psycopg-binary"} <= set(re.findall(r"^([a-z-]+)==", pinned, re.MULTILINE))
