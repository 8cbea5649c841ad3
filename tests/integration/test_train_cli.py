"""`modelmill train` with the real web: a task from its file to its end, and what stays when somebody walks away."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.training.model import State
from tests.harness import command_line
from tests.harness.deployment import Deployment
from tests.harness.training.scheduler import SCRIPT, TASKS, Scheduler, scheduler_of
from tests.harness.training.tasks import show_cluster
from tests.harness.until import PATIENCE_S, until
from tests.harness.users import Person


@pytest.fixture
def web(alice: Person) -> Iterator[httpx.Client]:
    with alice.api() as api:
        yield api.http


@pytest.fixture(scope="module")
def scheduler(shared: Deployment) -> Iterator[Scheduler]:
    with scheduler_of(shared) as made:
        yield made


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "train.yaml"
    file.write_text(SCRIPT)
    return file


def environment(who: Person) -> dict[str, str]:
    return {**os.environ, "MODELMILL_URL": who.url, "MODELMILL_TOKEN": who.token}


class Command:
    """`modelmill train arguments` as alice types it, its output into a file."""

    def __init__(self, who: Person, folder: Path, *arguments: object) -> None:
        self._output, self._errors = folder / "output", folder / "errors"
        env = environment(who)
        self.process = command_line.begin("train", *arguments, environment=env, log=self._output, errors=self._errors)

    def until_it_says(self, *words: str) -> None:
        until(self._output.read_text, lambda text: all(word in text for word in words))

    def end(self) -> tuple[int, str, str]:
        """Exit code, what it said, and what it complained about."""
        code = self.process.wait(PATIENCE_S)
        return code, self._output.read_text(), self._errors.read_text()


def said(who: Person, *arguments: object) -> str:
    ended = command_line.run("train", *arguments, environment=environment(who))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def last_task(web: httpx.Client, known: set[str]) -> str:
    """The id of the one that is not known yet."""
    fresh = until(lambda: {task["task_id"] for task in web.get(TASKS).json()["tasks"]} - known)
    return str(fresh.pop())


def known_to(web: httpx.Client) -> set[str]:
    return {task["task_id"] for task in web.get(TASKS, params={"limit": 200}).json()["tasks"]}


def test_a_task_is_submitted_listed_shown_and_cancelled(shared: Deployment, alice: Person, spec: Path) -> None:
    show_cluster(shared, None)
    task_id = said(alice, "submit", spec, "--no-follow").strip()
    assert task_id in {task["task_id"] for task in json.loads(said(alice, "list", "--json"))}
    assert f"{task_id} " in said(alice, "list", "--state", "queued")
    assert "waiting: the scheduler has not looked at it yet" in said(alice, "show", task_id)
    assert said(alice, "cancel", task_id) == f"Task {task_id} is cancelled.\n"
    assert json.loads(said(alice, "show", task_id[-11:], "--json"))["state"] == "CANCELED"
    assert "No scheduler has looked" in said(alice, "cluster")


def test_a_task_is_followed_while_it_runs(
    alice: Person, spec: Path, web: httpx.Client, scheduler: Scheduler, tmp_path: Path
) -> None:
    known = known_to(web)
    command = Command(alice, tmp_path, "submit", spec)
    task_id = last_task(web, known)
    folder = scheduler.attempt(task_id, log="")
    scheduler.bring(task_id, State.RUNNING)
    command.until_it_says("RUNNING")
    with (folder / "driver.log").open("a") as log:
        log.write("epoch 1\n")
    command.until_it_says("epoch 1")
    with (folder / "driver.log").open("a") as log:
        log.write("epoch 2\n")
    scheduler.end(task_id, State.SUCCEEDED)
    code, seen, troubles = command.end()
    assert code == 0, troubles
    assert seen.index("RUNNING") < seen.index("epoch 1") < seen.index("epoch 2") < seen.index("SUCCEEDED")
    assert said(alice, "logs", task_id, "--tail", "1") == "epoch 2\n"
    assert said(alice, "logs", task_id, "-f") == "epoch 1\nepoch 2\n"


def test_whoever_walks_away_leaves_the_task_in_line(
    alice: Person, spec: Path, web: httpx.Client, tmp_path: Path
) -> None:
    known = known_to(web)
    command = Command(alice, tmp_path, "submit", spec)
    task_id = last_task(web, known)
    command.until_it_says(task_id, "QUEUED")
    command.process.send_signal(signal.SIGINT)
    code, _, troubles = command.end()
    assert code == 130 and f"`modelmill train cancel {task_id}`" in troubles
    assert web.get(f"{TASKS}/{task_id}").json()["state"] == "QUEUED"


def test_what_is_wrong_with_a_spec_is_bad_input(alice: Person, spec: Path) -> None:
    spec.write_text("workload: dance\n")
    ended = command_line.run("train", "submit", spec, environment=environment(alice))
    assert ended.returncode == 2 and "workload" in ended.stderr
