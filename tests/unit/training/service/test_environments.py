"""Environments: who may name which, what they make of a task, and what an administrator may write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.access import Member
from app.kit.errors import ModelmillError
from app.kit.sql import Database
from app.training.errors import BadSpec, EnvironmentInUse, EnvironmentNotFound
from app.training.model import Priority, Task
from app.training.service import Tasks, TrainingOptions
from app.training.service.environments import Environments
from tests.harness.training.scheduler import make_common

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SCRIPT = "workload: script\ncode_path: /private/common/code/digits\n"


@pytest.fixture
def environments(database: Database) -> Environments:
    return Environments(database, lambda name: Member(name, ("lab",) if name == "alice" else ()))


@pytest.fixture
def tasks(tmp_path: Path, database: Database, environments: Environments) -> Tasks:
    make_common(tmp_path / "homes")
    options = TrainingOptions(is_on=True, homes_root="/private")
    homes = Homes(HomesOptions(tmp_path / "homes"), database, None)
    return Tasks(options, database, homes, lambda: None, environments=environments)


def put(environments: Environments, name: str, text: str) -> None:
    environments.put(name, text.encode(), by="root", now=NOW)


def submit(tasks: Tasks, text: str, user: str = "alice", *, is_admin: bool = False) -> Task:
    return tasks.submit(user, (SCRIPT + text).encode(), now=NOW, is_admin=is_admin)[0]


def problem(tasks: Tasks, text: str, user: str = "alice") -> str:
    with pytest.raises(BadSpec) as refused:
        submit(tasks, text, user)
    return refused.value.message


def test_a_task_names_one_that_its_user_may_use(tasks: Tasks, environments: Environments) -> None:
    put(environments, "open", "{}")
    put(environments, "lab", "allowed: ['@lab']")
    put(environments, "root", "allowed: []")
    assert submit(tasks, "environment: lab\n").environment == "lab"
    assert (
        problem(tasks, "environment: lab\n", "bob")
        == "environment: there is no environment lab for you; there are open"
    )
    assert (
        problem(tasks, "environment: lap\n", "bob")
        == "environment: there is no environment lap for you; there are open"
    )
    assert [one.name for one in environments.seen_by("bob")] == ["open"]
    assert submit(tasks, "environment: root\n", "boss", is_admin=True).environment == "root"


def test_its_priority_is_that_of_tasks_which_say_none_and_the_highest_of_others(
    tasks: Tasks, environments: Environments
) -> None:
    put(environments, "urgent", "priority: high")
    put(environments, "spare", "priority: low")
    assert submit(tasks, "environment: urgent\n").priority is Priority.HIGH
    assert submit(tasks, "environment: urgent\npriority: high\n").priority is Priority.HIGH
    assert submit(tasks, "environment: urgent\npriority: normal\n").priority is Priority.NORMAL
    spare = submit(tasks, "environment: spare\n")
    assert spare.priority is Priority.LOW
    assert "low at most" in problem(tasks, "environment: spare\npriority: normal\n")
    with pytest.raises(BadSpec, match="low at most"):
        tasks.changes.set_priority("alice", spare.task_id, Priority.NORMAL, now=NOW)
    raised = tasks.changes.set_priority("root", spare.task_id, Priority.HIGH, now=NOW, is_admin=True)
    assert raised.priority is Priority.HIGH
    assert "only administrators" in problem(tasks, "priority: high\n")


def test_its_limits_hold_for_each_task(tasks: Tasks, environments: Environments) -> None:
    put(environments, "small", "max_gpus_per_task: 2\nmax_run_s: 600")
    assert submit(tasks, "environment: small\nn_gpus_per_node: 2\n").max_run_s == 600
    assert submit(tasks, "environment: small\nmax_run_s: 60\n").max_run_s == 60
    assert "gives a task 2" in problem(tasks, "environment: small\nn_gpus_per_node: 3\n")
    assert "gives a task 600 seconds" in problem(tasks, "environment: small\nmax_run_s: 601\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("image: a/b:1\npip: [c]", "Ray takes either"),
        ('image: a/b:1\nenv: {A: "it\'s"}', "Ray cannot pass A to an image"),
        ("env: {A: x}\nsecrets: {A: y}", "A is among env and secrets"),
        ("env: {RAY_ADDRESS: x}", "are taken"),
        ("secrets: {MODELMILL_TASK_ID: x}", "are taken"),
        ("secrets: {TOKEN: ../etc/passwd}", "pattern"),
        ("image: '--privileged'", "pattern"),
        ("allowed: [No One]", "neither a user nor a group"),
        ("enviroment: {}", "no such field"),
        ("max_run_s: 1", "greater than"),
    ],
)
def test_what_cannot_be_an_environment_is_refused_in_words(environments: Environments, text: str, why: str) -> None:
    with pytest.raises(BadSpec, match=why):
        put(environments, "one", text)


def test_a_name_is_short_and_small(environments: Environments) -> None:
    for name in ("", "A", "a/b", "a" * 65, "-a"):
        with pytest.raises(BadSpec, match="name: "):
            put(environments, name, "{}")


def test_one_in_use_is_not_deleted(tasks: Tasks, environments: Environments) -> None:
    put(environments, "one", "{}")
    task = submit(tasks, "environment: one\n")
    with pytest.raises(EnvironmentInUse):
        environments.delete("one", by="root")
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    environments.delete("one", by="root")
    with pytest.raises(EnvironmentNotFound):
        environments.delete("one", by="root")


def test_what_was_written_last_holds_and_is_noted(database: Database) -> None:
    notes: list[tuple[str, ...]] = []
    environments = Environments(database, note=lambda _, *what: notes.append(what))
    put(environments, "one", "description: first")
    put(environments, "one", "# why\ndescription: second\n")
    assert (environments.get("one").spec.description, environments.get("one").text[:5]) == ("second", "# why")
    assert notes == [("root", "environment.written", "one")] * 2
    with pytest.raises(ModelmillError):
        environments.get("two")
